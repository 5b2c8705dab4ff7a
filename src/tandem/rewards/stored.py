"""Frames of stored steps, from any file of demonstrations, journal or run folder: to be labelled, and to be learned from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tandem.data.formats.kinds import open_any
from tandem.data.journal import Journal
from tandem.errors import ConfigError, DataError, FileUnreadable
from tandem.rewards.labels import Frame, Label, labels_of_run
from tandem.runs.folder import RunFolder
from tandem.types import Observation, Spec, Transition

if TYPE_CHECKING:
    from tandem.networks.encoders.encoder import Encoder


@dataclass(frozen=True)
class StoredEpisode:
    """The frames of an episode: one more than its steps."""

    steps: Sequence[Transition]

    @property
    def name(self) -> tuple[str, int]:
        return self.steps[0].source, self.steps[0].episode

    def __len__(self) -> int:
        return len(self.steps) + 1

    def frame(self, number: int) -> Observation:
        """-1 is the last one."""
        number = len(self.steps) if number == -1 else number
        if not 0 <= number <= len(self.steps):
            raise DataError(f"episode {self.name[1]} of '{self.name[0]}' has frames 0 to {len(self.steps)}; a label is about {number}")
        return self.steps[-1].next_observation if number == len(self.steps) else self.steps[number].observation

    @property
    def succeeded(self) -> bool:
        return any(bool(step.success) for step in self.steps)


@dataclass(frozen=True)
class Stored:
    """Opened files and runs, all of one spec."""

    paths: Sequence[Path]
    spec: Spec

    def episodes(self) -> Iterator[StoredEpisode]:
        """Those of all files, one after the other; of a run also those that a person discarded, for a wrong reward is a reason to."""
        for path in self.paths:
            with contextlib.ExitStack() as stack:
                for steps in _episodes(path, stack):
                    if steps:
                        yield StoredEpisode(steps)

    def pictures(self, frame: Frame) -> Observation:
        """What the cameras of a run showed in this frame, read from its journal now; nothing where the run kept no pictures, or the frame
        is of no run: files of demonstrations have their pictures in the steps."""
        if not any(entry.role == "features" for entry in self.spec.observation.values()):
            return {}
        for path in filter(_is_run, self.paths):
            with Journal.open(RunFolder(path).journal) as journal:
                seen = _seen_in(journal, frame)
            if seen:
                return {name: values for name, values in seen.items() if values.dtype == "uint8" and values.ndim == 3}
        return {}

    def said(self, stages: tuple[str, ...]) -> dict[Frame, Label]:
        """What people said during the runs among the paths."""
        found: dict[Frame, Label] = {}
        for path in self.paths:
            if _is_run(path):
                found |= labels_of_run(RunFolder(path), stages)
        return found

    def encoder(self) -> Encoder:
        """The one that made the features of these steps: it lies in the run folder, or beside an encoded file."""
        from tandem.networks.encoders.encoder import Encoder  # only steps with features need it

        known = {entry.encoder for entry in self.spec.observation.values() if entry.role == "features"}
        for path in self.paths:
            file = RunFolder(path).encoder_file if _is_run(path) else path.with_suffix(".safetensors")
            if file.exists():
                encoder = Encoder.read(file)
                if {f"{encoder.trunk}:{encoder.hash}"} == known:
                    return encoder
        raise ConfigError(
            f"these steps hold features of pictures, made by {', '.join(sorted(known))}, and that encoder is not beside them: give the run "
            f"folder, where it is encoder.safetensors, and not the journal alone"
        )


def usual_labels(paths: Sequence[Path]) -> Path:
    """Where the labels of these files are unless somebody says otherwise: beside the first file, or in the run folder."""
    if not paths:
        raise ConfigError("which files? Give files of demonstrations, journals or run folders")
    return (paths[0] if _is_run(paths[0]) else paths[0].absolute().parent) / "labels.csv"


def _is_run(path: Path) -> bool:
    return path.is_dir() and RunFolder(path).config_file.exists()


def _seen_in(journal: Journal, frame: Frame) -> Observation:
    """A frame with its pictures; nothing where it is not in this journal, or its pictures are not."""
    journal.pictured = True
    try:
        step = journal.step_of(frame.source, frame.episode, frame.frame)
        if step is not None:
            return step.observation
        before = journal.step_of(frame.source, frame.episode, frame.frame - 1) if frame.frame else None
        return {} if before is None else before.next_observation
    except FileUnreadable:
        raise
    except DataError:  # they were not kept
        return {}


def _episodes(path: Path, stack: contextlib.ExitStack) -> Iterator[list[Transition]]:
    if not _is_run(path):
        yield from stack.enter_context(open_any(path)).episodes()
        return
    journal = stack.enter_context(Journal.open(RunFolder(path).journal))
    for rows in reversed(journal.episodes(10**9)):
        yield journal.episode(rows.source, rows.episode, between=(rows.first_ord, rows.last_ord))


def open_stored(paths: Sequence[Path]) -> Stored:
    """The files and runs, which must observe the same."""
    if not paths:
        raise ConfigError("which files? Give files of demonstrations, journals or run folders")
    specs = [_spec(path) for path in paths]
    for path, spec in zip(paths[1:], specs[1:], strict=True):
        differences = _entries_differ(specs[0], spec)
        if differences:
            raise ConfigError(f"{path} does not observe what {paths[0]} does: {'; '.join(differences)}. Label them apart.")
    return Stored(tuple(paths), specs[0])


def _spec(path: Path) -> Spec:
    if _is_run(path):
        return RunFolder(path).spec
    with open_any(path) as opened:
        return opened.spec


def _entries_differ(one: Spec, other: Spec) -> list[str]:
    mine: Mapping[str, tuple[object, ...]] = {n: (e.shape, e.dtype, e.encoder) for n, e in one.observation.items()}
    theirs = {n: (e.shape, e.dtype, e.encoder) for n, e in other.observation.items()}
    differ = [name for name in sorted({*mine, *theirs}) if mine.get(name) != theirs.get(name)]
    return [f"'{name}' is {theirs.get(name)} there and {mine.get(name)} here" for name in differ]
