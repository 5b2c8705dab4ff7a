"""Demonstration files: whole episodes, written so that nothing half-done bears the final name.

While it is recorded the file is called `<task>_demos_<time>.db.partial`; each episode is one commit that
goes to the disk. `finish` renames it to `<task>_<n>_demos_<time>.db`. If recording is interrupted, the partial
file stays with the episodes that were complete, and can be loaded, or renamed by hand, as it is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tandem.data.hil_serl import HilSerlFile, read_hil_serl
from tandem.data.journal import Journal
from tandem.data.journal_questions import Rejected
from tandem.data.validation import Validator
from tandem.errors import DataError, FileMissing, InvalidTransition, SpecMismatch, StorageFull
from tandem.files import name_for_files, sync
from tandem.types import Spec, Transition

PARTIAL_SUFFIX = ".partial"


class DemoWriter:
    """Writes one demo file. Leaving the `with` block without `finish` keeps the partial file, if it holds anything."""

    def __init__(self, folder: Path | str, spec: Spec, **attributes: Any):
        """`attributes` are kept in the file: operator, seed, ..."""
        self.spec = spec
        self.episodes = 0
        self.transitions = 0
        self._folder = Path(folder)
        self._task = name_for_files(spec.task)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise DataError(f"cannot create the folder {self._folder}: {problem.strerror}.") from None
        self._time = datetime.now()
        while self._path("", PARTIAL_SUFFIX).exists():  # two recordings begun in the same second
            self._time += timedelta(seconds=1)
        self.partial_path = self._path("", PARTIAL_SUFFIX)
        self._journal = Journal.create(self.partial_path, spec, live=False, **attributes)
        self._validator = Validator(spec)
        self._source = f"demo-{uuid.uuid4().hex[:16]}"
        self._closed = False

    def add(self, episode: Sequence[Transition]) -> None:
        """Store one whole episode, or nothing of it. Its source, seq and episode are given anew, in the order of adding."""
        if not episode or not episode[-1].last or any(step.last for step in episode[:-1]):
            raise ValueError(f"an episode has one end, on its last step; got {len(episode)} steps, ends at {_ends(episode)}")
        for number, step in enumerate(episode):
            reason = self._validator.reason(step)
            if reason:
                raise InvalidTransition(
                    f"step {number} of the episode to store cannot be used: {reason}. Nothing of this episode was stored."
                )
        named = [
            dataclasses.replace(step, source=self._source, seq=self.transitions + number, episode=self.episodes)
            for number, step in enumerate(episode)
        ]
        try:
            self._journal.append(named)
        except StorageFull as full:
            raise StorageFull(f"{full} {_kept(self.episodes, self.partial_path)}") from full
        self.episodes += 1
        self.transitions += len(named)

    def describe(self, **attributes: Any) -> None:
        """Keep these in the file too, in addition to those it was begun with: what is known only at the end."""
        self._journal.describe(**attributes)

    def finish(self) -> Path:
        """Give the file its final name; returns it."""
        if not self.episodes:
            self.close()
            raise DataError(f"no episode of '{self.spec.task}' was stored, so there is no demo file to keep.")
        self._journal.finish()
        self._closed = True
        while self._path(f"{self.episodes}_").exists():
            self._time += timedelta(seconds=1)
        final_path = self._path(f"{self.episodes}_")
        sync(self.partial_path)
        os.rename(self.partial_path, final_path)
        sync(self._folder)
        return final_path

    def close(self) -> None:
        """Stop without finishing: complete episodes stay under the partial name, an empty file goes."""
        if self._closed:
            return
        self._closed = True
        self._journal.close()
        if not self.episodes:
            self.partial_path.unlink(missing_ok=True)

    def __enter__(self) -> DemoWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _path(self, count: str, suffix: str = "") -> Path:
        return self._folder / f"{self._task}_{count}demos_{self._time:%Y-%m-%d_%H-%M-%S}.db{suffix}"


@dataclass(frozen=True)
class Recording:
    """All that a file of steps holds: a demo file, an online journal, or a hil-serl pickle."""

    path: Path
    kind: str
    spec: Spec
    transitions: list[Transition]
    rejected: list[Rejected]
    created: str = ""
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return not self.path.name.endswith(PARTIAL_SUFFIX)

    def episodes(self) -> list[list[Transition]]:
        """In the order of their first steps; the steps of several actors may be interleaved in a journal."""
        episodes: dict[tuple[str, int], list[Transition]] = {}
        for step in self.transitions:
            episodes.setdefault((step.source, step.episode), []).append(step)
        return list(episodes.values())


@dataclass(frozen=True)
class OpenDemos:
    """A file of demonstrations to be read episode by episode: of a large one only an episode is in memory at a time."""

    path: Path
    kind: str
    spec: Spec
    episodes: Callable[[], Iterator[list[Transition]]]
    """From the first one, in order."""
    rejected: list[Rejected] = dataclasses.field(default_factory=list)
    created: str = ""
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return not self.path.name.endswith(PARTIAL_SUFFIX)


@contextlib.contextmanager
def open_demos(path: Path | str, spec: Spec | None = None) -> Iterator[OpenDemos]:
    """Open a file of steps, of any kind; with `spec`, one of another spec is refused."""
    path = Path(path)
    if _is_pickle(path):
        with HilSerlFile(path, spec) as file:
            yield OpenDemos(path, "hil-serl pickle", file.spec, file.episodes)
        return
    with Journal.open(path, spec) as journal:
        journal.check()
        yield OpenDemos(path, "journal", journal.spec, journal.episodes_in_order, journal.rejected(), journal.created, journal.attributes)


def load_demos(path: Path | str, spec: Spec, *, skip_rejected: bool = False) -> list[Transition]:
    """Every step of a file of demonstrations in any format that `tandem demos import` reads, each one fit for this spec.

    A file with steps that cannot be used is refused, naming the first; `skip_rejected` loads the others.
    """
    recording = read_demos(path, spec)
    if recording.rejected and not skip_rejected:
        first = recording.rejected[0]
        raise InvalidTransition(
            f"{path}: episode {first.episode}, step {first.step}: {first.reason} ({len(recording.rejected)} such steps). "
            "A sensor failed, or the task changed: record it again, or leave those steps out."
        )
    if not recording.transitions:
        raise DataError(f"{path} holds no steps to learn from. Record demonstrations first.")
    validator = Validator(spec)
    for step in recording.transitions:
        reason = validator.reason(step)
        if reason:
            raise InvalidTransition(
                f"{path}: episode {step.episode}, step {step.step}: {reason}. The file was changed after it was recorded."
            )
    return recording.transitions


def read_demos(path: Path | str, spec: Spec | None = None) -> Recording:
    """Read a file of steps, whichever kind its content says it is; with `spec`, one of another spec is refused."""
    path = Path(path)
    if _is_pickle(path):
        guessed, episodes = read_hil_serl(path, spec)
        return Recording(path, "hil-serl pickle", guessed, [step for episode in episodes for step in episode], [])
    if is_foreign(path):
        return _read_foreign(path, spec)
    with Journal.open(path, spec) as journal:
        journal.check()
        return Recording(
            path=path,
            kind="journal",
            spec=journal.spec,
            transitions=[step for _, step in journal.read()],
            rejected=journal.rejected(),
            created=journal.created,
            attributes=journal.attributes,
        )


def _read_foreign(path: Path, spec: Spec | None) -> Recording:
    from tandem.data.formats.kinds import open_any  # it is built on what is here

    try:
        with open_any(path, spec) as opened:
            steps = [step for episode in opened.episodes() for step in episode]
            return Recording(path, opened.kind, opened.spec, steps, [], attributes=opened.attributes)
    except (SpecMismatch, InvalidTransition) as problem:
        task = "TASK" if spec is None else spec.task
        raise type(problem)(f"{problem} To change it for good: `tandem demos import {path} --task {task} [--fit-actions]`.") from None


def is_foreign(path: Path) -> bool:
    """A format of others: the folder of a LeRobot or Minari dataset, or an HDF5 file of robomimic."""
    if path.is_dir():
        return any((path / place).exists() for place in ("meta/info.json", "metadata.json", "data/metadata.json"))
    with path.open("rb") as file:
        return file.read(8) == b"\x89HDF\r\n\x1a\n"


def _is_pickle(path: Path) -> bool:
    if not path.exists():
        raise FileMissing(f"there is no file {path} (looked in {path.absolute().parent}).")
    if path.is_dir():
        return False
    with path.open("rb") as file:
        start = file.read(2)
    # Protocol 2 and later begin with 0x80 and their number; a list in protocols 0 and 1 with these.
    return start[:1] == b"\x80" or start in (b"(l", b"](", b"]q")


def _ends(episode: Sequence[Transition]) -> list[int]:
    return [number for number, step in enumerate(episode) if step.last]


def _kept(episodes: int, path: Path) -> str:
    if not episodes:
        return "No episode was complete."
    return f"{episodes} complete episodes are kept in {path}, which can be loaded as it is."
