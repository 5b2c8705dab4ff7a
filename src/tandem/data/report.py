"""What a file of demonstrations holds (`inspect`), and what is wrong with it (`validate`)."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from tandem.data.demos import OpenDemos, Recording, read_demos
from tandem.data.figures import Figures, gripper_axes, holding_axes, idle_steps
from tandem.data.validation import Validator
from tandem.errors import DataError, TandemError
from tandem.types import Spec, Transition

SATURATED = 0.99
"""An action component beyond this is at its limit."""
IDLE = 0.01
"""An action all of whose components are within this of zero moves nothing: 1 % of what one action can do."""

MAX_SATURATION_SHARE = 0.5
MAX_IDLE_SHARE = 0.3
"""Shares of the steps beyond which `validate` warns: a tanh policy can hardly express a limit, and copies standing still."""

_NAMED_PLACES = 5


class Range(NamedTuple):
    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Range:
        return cls(float(np.min(values)), float(np.median(values)), float(np.max(values)))


@dataclass(frozen=True)
class Report:
    """One file in figures. Shares are of all steps, but `success_share`, which is of the episodes."""

    path: Path
    kind: str
    complete: bool
    """False while it is recorded, or when recording was interrupted."""
    created: str
    attributes: Mapping[str, Any]
    spec: Spec
    episodes: int
    transitions: int
    rejected: int
    duration_s: float
    """At the control rate of the spec."""
    lengths: Range
    returns: Range
    success_share: float
    intervened_share: float
    idle_share: float
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    saturation_share: tuple[float, ...]
    """Per component of the action."""
    switches: tuple[bool, ...]
    """Per component of the action: only ever at two or three values, or a gripper that holds a command."""

    @property
    def saturated(self) -> dict[int, float]:
        """Share of the steps at the limit, by component. A switch is left out: its limits are all that it has."""
        shares = zip(self.saturation_share, self.switches, strict=True)
        return {index: share for index, (share, switch) in enumerate(shares) if not switch}

    @property
    def operator(self) -> str:
        return str(self.attributes.get("operator", ""))


@dataclass(frozen=True)
class Problem:
    severity: Literal["error", "warning"]
    """error: not to be trained on as it is. warning: worth a look."""
    message: str


def inspect(path: Path | str, spec: Spec | None = None) -> Report:
    """The figures of a demo file, an online journal or a hil-serl pickle; with `spec`, one that does not fit it is refused."""
    recording = read_demos(path, spec)
    if not recording.transitions:
        raise DataError(f"{path} holds no steps to look at ({len(recording.rejected)} rejected). Record demonstrations first.")
    return report_on(recording)


def report_on(recording: Recording) -> Report:
    steps, episodes = recording.transitions, recording.episodes()
    return _report(
        recording,
        actions=[_actions(episode) for episode in episodes],
        returns=[sum(step.reward for step in episode) for episode in episodes],
        successes=[_succeeded(episode) for episode in episodes],
        intervened=float(np.mean([step.intervened for step in steps])),
    )


def report_of(opened: OpenDemos, figures: Figures) -> Report:
    """The same from figures, for a file that is not in memory."""
    episodes = figures.episodes
    return _report(
        opened,
        actions=[episode.actions for episode in episodes],
        returns=[float(episode.rewards.sum()) for episode in episodes],
        successes=[episode.succeeded for episode in episodes],
        intervened=float(np.concatenate([episode.intervened for episode in episodes]).mean()),
    )


def _report(
    file: Recording | OpenDemos,
    actions: Sequence[np.ndarray],
    returns: Sequence[float],
    successes: Sequence[bool],
    intervened: float,
) -> Report:
    everything, grippers = np.concatenate(actions), gripper_axes(file.spec, actions)
    return Report(
        path=file.path,
        kind=file.kind,
        complete=file.complete,
        created=file.created,
        attributes=file.attributes,
        spec=file.spec,
        episodes=len(actions),
        transitions=len(everything),
        rejected=len(file.rejected),
        duration_s=len(everything) / file.spec.control_hz,
        lengths=Range.of([len(episode) for episode in actions]),
        returns=Range.of(returns),
        success_share=float(np.mean(successes)),
        intervened_share=intervened,
        idle_share=float(np.mean(idle_steps(everything, holding_axes(file.spec, actions), IDLE))),
        action_low=tuple(everything.min(axis=0).tolist()),
        action_high=tuple(everything.max(axis=0).tolist()),
        saturation_share=tuple((np.abs(everything) > SATURATED).mean(axis=0).tolist()),
        switches=tuple(bool(_is_switch(axis) or gripper) for axis, gripper in zip(everything.T, grippers, strict=True)),
    )


def _is_switch(axis: np.ndarray) -> bool:
    """One value alone is none: an axis that always pushes as hard as it can is at its limit."""
    return 2 <= len(np.unique(axis.round(3))) <= 3


def format_report(report: Report, width: int = 80) -> str:
    """The report as lines of plain text; only a word that is longer than a line makes one longer than `width`."""
    spec = report.spec
    attributes = [f"{name} {value}" for name, value in report.attributes.items() if name != "history"]
    facts = {
        "file": report.path.name,
        "kind": f"{report.kind}{'' if report.complete else ', recording not finished'}",
        "task": f"{spec.task}, {spec.control_hz:g} Hz, at most {spec.max_episode_steps} actions, spec {spec.hash}",
        **({"reward": spec.reward} if spec.reward else {}),
        "recorded": ", ".join([report.created or "unknown time", *attributes]),
        "episodes": f"{report.episodes}, {report.success_share:.0%} successful",
        "transitions": f"{report.transitions} ({_duration(report.duration_s)}), {report.rejected} rejected",
        "length": f"{report.lengths.low:.0f} to {report.lengths.high:.0f}, median {report.lengths.median:g}",
        "return": f"{report.returns.low:g} to {report.returns.high:g}, median {report.returns.median:g}",
        "intervened": f"{report.intervened_share:.1%} of the steps",
        "idle": f"{report.idle_share:.1%} of the steps (no axis beyond ±{IDLE}; a gripper that holds is left out)",
    }
    facts |= {f"edited {number + 1}": line for number, line in enumerate(_history(report.attributes.get("history", ())))}
    actions = zip(report.action_low, report.action_high, report.saturation_share, strict=True)
    entries = spec.observation.items()
    return "\n".join(
        [
            *_table([[name, text] for name, text in facts.items()], width),
            "",
            f"{'action':<12} {'low':>7} {'high':>7} {'at limit':>9}",
            *(f"  {f'[{index}]':<10} {low:>7.3f} {high:>7.3f} {share:>9.1%}" for index, (low, high, share) in enumerate(actions)),
            "",
            *_table(
                [
                    ["observation", "shape", "unit", "meaning"],
                    *([f"  {name}", str(entry.shape), entry.unit, entry.meaning] for name, entry in entries),
                ],
                width,
            ),
        ]
    )


def _history(entries: Any) -> Iterator[str]:
    """What became of the file since it was recorded (`tandem demos edit`, `import`)."""
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            files = ", ".join(str(file.get("file")) for file in entry.get("from", []) if isinstance(file, dict))
            yield f"{entry.get('time')} from {files}: {'; '.join(map(str, entry.get('did', []))) or 'as it was'}"


def _table(rows: list[list[str]], width: int) -> list[str]:
    """Columns as wide as their widest cell; the last is wrapped, under the others where they leave less than a third of the width."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    beside = sum(widths) + 2 * len(widths)
    under = beside > width * 2 // 3
    indent = " " * (6 if under else beside)
    lines = []
    for *cells, text in rows:
        start = "".join(f"{cell:<{size}}  " for cell, size in zip(cells, widths, strict=True))
        wrapped = textwrap.wrap(text, width - len(indent), break_long_words=False, break_on_hyphens=False)
        if under or not wrapped:
            lines.append(start.rstrip())
        else:
            lines.append(start + wrapped.pop(0))
        lines += [indent + line for line in wrapped]
    return lines


def validate(path: Path | str, spec: Spec | None = None) -> list[Problem]:
    """Everything that is wrong with a file, errors first; with `spec`, also whether it fits that task."""
    try:
        recording = read_demos(path)
    except TandemError as problem:
        return [Problem("error", str(problem))]
    sound, unusable = _sorted_rows(recording)
    problems = [*_spec_problems(recording, spec), *_row_problems(sound, unusable)]
    if sound.transitions:
        problems += [*_episode_problems(sound), *_figure_problems(report_on(sound))]
    else:
        problems.append(Problem("error", "the file holds no steps to learn from"))
    return sorted(problems, key=lambda problem: problem.severity)  # "error" sorts before "warning"


def _spec_problems(recording: Recording, spec: Spec | None) -> Iterator[Problem]:
    if spec is None:
        return
    if recording.kind != "journal":  # its own spec is a guess from the arrays: ask the import itself
        try:
            read_demos(recording.path, spec)
        except TandemError as problem:
            yield Problem("error", str(problem))
        return
    for difference in spec.data_difference(recording.spec):
        yield Problem("error", f"spec differs from the task's (here: the task, there: the file): {difference}")


def _sorted_rows(recording: Recording) -> tuple[Recording, list[tuple[int, int, str]]]:
    """The recording without the steps that cannot be used, and those: episode, step, reason."""
    validator = Validator(recording.spec)
    reasons = [validator.reason(step) for step in recording.transitions]
    unusable = [(row.episode, row.step, row.reason) for row in recording.rejected]
    unusable += [(step.episode, step.step, reason) for step, reason in zip(recording.transitions, reasons, strict=True) if reason]
    sound = [step for step, reason in zip(recording.transitions, reasons, strict=True) if not reason]
    return dataclasses.replace(recording, transitions=sound), unusable


def _row_problems(sound: Recording, unusable: list[tuple[int, int, str]]) -> Iterator[Problem]:
    for episode, step, reason in unusable[:_NAMED_PLACES]:
        yield Problem("error", f"episode {episode}, step {step}: {reason}")
    if len(unusable) > _NAMED_PLACES:
        yield Problem("error", f"{len(unusable) - _NAMED_PLACES} more steps cannot be used")
    if sound.transitions and not any(step.reward for step in sound.transitions):
        yield Problem("error", "no step has a reward: nothing tells success from failure")


def _episode_problems(recording: Recording) -> Iterator[Problem]:
    episodes = recording.episodes()
    limit = recording.spec.max_episode_steps
    checks: list[tuple[Literal["error", "warning"], str, Callable[[list[Transition]], bool]]] = [
        ("error", "with steps after the end", lambda steps: any(step.last for step in steps[:-1])),
        ("error", "marked as success without any reward", lambda steps: _succeeded(steps) and not any(step.reward for step in steps)),
        ("warning", "without an end (neither terminated nor truncated)", lambda steps: not any(step.last for step in steps)),
        ("warning", "without success", lambda steps: not _succeeded(steps)),
        (
            "warning",
            "terminated at the time limit without success (a time-out is to be truncated, or the value beyond it is lost)",
            lambda steps: steps[-1].terminated and not _succeeded(steps) and len(steps) >= limit,
        ),
        ("warning", "with gaps in the step numbers", lambda steps: [step.step for step in steps] != list(range(len(steps)))),
        ("warning", "in which a next observation is not the observation of the next step", _is_torn),
    ]
    for severity, what, applies in checks:
        places = [episode[0].episode for episode in episodes if applies(episode)]
        if places:
            yield Problem(severity, f"{len(places)} of {len(episodes)} episodes {what}: episode {_places(places)}")


def _figure_problems(report: Report) -> Iterator[Problem]:
    for index, share in report.saturated.items():
        if share > MAX_SATURATION_SHARE:
            yield Problem("warning", f"action [{index}] is at its limit in {share:.0%} of the steps: a larger action scale would help")
    if report.idle_share > MAX_IDLE_SHARE:
        yield Problem("warning", f"{report.idle_share:.0%} of the steps do not move: was the input device connected, the operator waiting?")
    if not report.complete:
        yield Problem("warning", "recording was not finished; the episodes that are there are complete")


def _is_torn(steps: Sequence[Transition]) -> bool:
    return any(
        b.step == a.step + 1 and not all(np.array_equal(a.next_observation[name], b.observation[name]) for name in a.next_observation)
        for a, b in pairwise(steps)
    )


def _succeeded(episode: Sequence[Transition]) -> bool:
    return any(step.success for step in episode)


def _actions(steps: Sequence[Transition]) -> np.ndarray:
    return np.stack([step.action.reshape(-1) for step in steps])  # (steps, action_dim)


def _places(numbers: Sequence[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:_NAMED_PLACES])
    return shown if len(numbers) <= _NAMED_PLACES else f"{shown}, ..."


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
