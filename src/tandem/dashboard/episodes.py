"""Stored episodes for the episode browser: the list, and each episode as numbers to draw. Only reads the journal and demo files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tandem.dashboard.episode_values import EpisodeValues
from tandem.data.journal import Journal
from tandem.errors import FileMissing
from tandem.runs.folder import RunFolder, RunInfo
from tandem.types import Spec, Transition

MAX_ENTRY = 64
"""Most components of an observation entry that is drawn; images are not."""
_PATH_ENTRIES = ("tcp_pose", "tcp_position", "ee_pose", "pose", "position")
"""Entries whose first three components are the tool's position, in order of preference."""


class Library:
    """The files of a run that hold episodes, each with a short name."""

    def __init__(self, run: Path, info: RunInfo) -> None:
        self._run, self._info = RunFolder(run), info
        self._journal = self._run.journal
        self._demos = [Path(path) for path in info.settings.get("demos", ())]

    def files(self) -> list[dict[str, Any]]:
        return [{"name": name, "title": title, "path": str(path)} for name, (title, path) in self._paths().items() if path.exists()]

    def episodes(self, name: str, before: int, count: int) -> dict[str, Any]:
        """The newest first. `before`: the row to continue from, 0 for the newest."""
        with self._open(name) as journal:
            found = journal.episodes(count, before=before)
            discarded = journal.discarded()
            listed = [
                {
                    **_summary(journal.episode(item.source, item.episode, between=(item.first_ord, item.last_ord))),
                    "discarded": (item.source, item.episode) in discarded,
                }
                for item in found
            ]
        return {"episodes": listed, "next": min((item.first_ord for item in found), default=0) if len(found) == count else 0}

    def episode(self, name: str, source: str, number: int) -> dict[str, Any]:
        with self._open(name) as journal:
            steps = journal.episode(source, number)
            if not steps:
                raise FileMissing(f"{journal.path} has no episode {number} of {source!r:.100}")
            known = EpisodeValues(self._run, self._info).along(steps) if name == "journal" else []
            return {**_summary(steps), **_drawn(steps, journal.spec), "values": known}

    def noticing(self) -> dict[str, Any]:
        """How well noticing would have done on the newest episodes of the run; empty where nobody knows."""
        if not self._journal.exists():
            return {}
        with Journal.open(self._journal) as journal:
            return EpisodeValues(self._run, self._info).noticing(journal)

    def _open(self, name: str) -> Journal:
        paths = self._paths()
        if name not in paths:
            raise FileMissing(f"no file {name!r:.50} in this run; there are {', '.join(paths)}")
        return Journal.open(paths[name][1])

    def _paths(self) -> dict[str, tuple[str, Path]]:
        """The only files that are opened, whatever a page asks for."""
        demos = {f"demos{i}": (f"demonstrations: {path.name}", path) for i, path in enumerate(self._demos)}
        return {"journal": ("this run", self._journal), **demos}


def _summary(steps: Sequence[Transition]) -> dict[str, Any]:
    return {
        "source": steps[0].source,
        "episode": steps[0].episode,
        "steps": len(steps),
        "return": round(float(sum(step.reward for step in steps)), 4),
        "success": any(step.success for step in steps) if any(step.success is not None for step in steps) else None,
        "ended": "terminated" if steps[-1].terminated else "timed out" if steps[-1].truncated else "open",
        "intervened": sum(step.intervened for step in steps),
        "version": steps[-1].policy_version,
    }


def _drawn(steps: Sequence[Transition], spec: Spec) -> dict[str, Any]:
    observed = {
        name: {"unit": entry.unit, "meaning": entry.meaning, "values": _rows([step.observation[name].reshape(-1) for step in steps])}
        for name, entry in spec.observation.items()
        if entry.dtype == "float32" and entry.size <= MAX_ENTRY
    }
    return {
        "control_hz": spec.control_hz,
        "by_person": [step.intervened for step in steps],
        "rewards": [round(float(step.reward), 5) for step in steps],
        "actions": _rows([step.action.reshape(-1) for step in steps]),
        "observations": observed,
        "path": _path(steps, spec),
    }


def _path(steps: Sequence[Transition], spec: Spec) -> list[list[float]]:
    """Positions of the tool, with the last one after the final step; empty if no entry holds them."""
    for wanted in _PATH_ENTRIES:
        for name, entry in spec.observation.items():
            if name.endswith(wanted) and entry.size >= 3 and entry.dtype == "float32":
                places = [step.observation[name] for step in steps] + [steps[-1].next_observation[name]]
                return _rows([place.reshape(-1)[:3] for place in places])
    return []


def _rows(arrays: Sequence[np.ndarray]) -> list[list[float]]:
    return [[float(f"{value:.5g}") for value in array] for array in arrays]
