"""`tandem demos edit` and `import`: files of demonstrations become one new file, with its history inside."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

import tandem
from tandem.data import editing
from tandem.data.demos import DemoWriter, OpenDemos
from tandem.data.editing import Edit, edited, parse_numbers
from tandem.data.figures import Figures, measure
from tandem.data.formats.kinds import export, open_any
from tandem.envs.registry import spec_for
from tandem.errors import ConfigError, SpecMismatch
from tandem.programs.terminal import say
from tandem.types import Spec, Transition


@dataclass(frozen=True)
class EditArgs:
    """Repair and edit demonstrations: always to a new file, with the history of every change inside.

    Several files become one. Episodes are counted from 0 through all files, as `tandem demos check` counts them. What is asked for is done
    in the order of this list. In every file an end inside of an episode, or a gap, splits it; a gap not with --join.
    """

    files: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE...")]
    """Files of demonstrations, in any format that `tandem demos import` reads."""
    out: Path | None = None
    """Folder of the new file. Default: that of the first file."""
    task: str | None = None
    """The task of the new file, for files that have no spec of their own."""
    keep: str | None = None
    """Only these episodes: 0:20,25."""
    delete: str = ""
    """Not these episodes: 3,8."""
    only_success: bool = False
    """Only episodes with a success."""
    swap_pictures: str | None = None
    """Two cameras that were swapped in some episodes: left:right=3,4."""
    split: tuple[str, ...] = ()
    """Cut an episode in two before a step: 3:100 (EPISODE:STEP)."""
    gripper: str | None = None
    """Replace gripper commands of 0 by the last command: '6=state[0]' (COLUMN=measured number)."""
    drop_copies: bool = False
    """Leave out frames that were appended after the success."""
    drop_doubles: bool = False
    """Leave out episodes that are there already."""
    drop_stale: bool = False
    """Leave out steps after which no number has changed."""
    drop_static: bool = False
    """Leave out steps in which the robot stands still. A step that opens or closes the gripper stays."""
    static_keep: int = 0
    """Steps of each pause that stay."""
    trim_start: int = 0
    """Leave out this many steps at the start of every episode."""
    trim_end: int = 0
    """Leave out this many steps at the end of every episode; it then counts as cut off."""
    trim_after_success: bool = False
    """End every episode at its first success or reward."""
    scale_actions: tuple[str, ...] = ()
    """Multiply columns of the actions: 0:6=5. The action scale of the robot has to be divided by the same factor."""
    drop: tuple[str, ...] = ()
    """Leave out entries of the observations, or numbers of them: force 'state[1:4]'."""
    success: str = ""
    """These episodes are successes: 3,4. Their last step gets a reward of 1 if there is none."""
    failure: str = ""
    """These episodes are failures: they have no reward, and end as cut off."""
    truncate_timeouts: bool = False
    """Failures at the time limit end as cut off, not as terminated."""
    rate: float | None = None
    """Resample to this control rate in Hz, a whole part of the file's."""
    join: bool = False
    """Where steps are missing, join those around the gap instead of splitting the episode: for pauses that were cut out."""
    shortest: int = 1
    """Leave out episodes with fewer steps."""


def edit(args: Annotated[EditArgs, tyro.conf.arg(name="")]) -> int:
    """Repair and edit demonstrations: always to a new file, with the history of every change inside."""
    if not args.files:
        raise ConfigError("which file? `tandem demos edit FILE...`")
    with opened_together(args.files, None if args.task is None else spec_for(args.task)) as files:
        folder = args.out or args.files[0].absolute().parent
        path, done = rewrite(files, lambda spec, overview: _edits(args, spec, overview), folder, join=args.join)
    for line in done:
        say(line)
    say(f"wrote {path}")
    return 0


def import_demos(
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    task: str | None = None,
    out: Path = Path("demos"),
    fit_actions: bool = False,
) -> int:
    """Make a file of demonstrations from one of hil-serl, LeRobot, robomimic or Minari.

    A pickle of hil-serl is read episode by episode, and none of it is run. The format is known by the content.

    Args:
        file: A hil-serl pickle, the folder of a LeRobotDataset (v2.1 or v3), an HDF5 file of robomimic, or the folder of a Minari dataset.
        task: The task whose spec it has to fit. Without it, the spec is what the file's arrays suggest.
        out: Folder of the new file.
        fit_actions: Map the range that the actions have in the file to -1 ... 1; otherwise actions beyond that are refused.
    """
    with open_any(file, None if task is None else spec_for(task), fit_actions=fit_actions) as opened:
        path, done = rewrite([opened], lambda spec, overview: [], out)
    for line in done:
        say(line)
    say(f"wrote {path}")
    return 0


def export_demos(
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    format: Literal["lerobot", "robomimic", "minari"],
    out: Path,
) -> int:
    """Write demonstrations as a LeRobotDataset v3, an HDF5 file of robomimic, or a Minari dataset.

    Args:
        file: A file of demonstrations, in any format that `tandem demos import` reads.
        format: The format to write. Pictures are stored without loss.
        out: The new file (robomimic) or folder (LeRobot, Minari).
    """
    with open_any(file) as opened:
        say(f"wrote {export(opened, format, out)}")
    return 0


@contextlib.contextmanager
def opened_together(paths: Sequence[Path], spec: Spec | None) -> Iterator[list[OpenDemos]]:
    """The files, all of one spec."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open_any(path, spec)) for path in paths]
        for file in files[1:]:
            known = files[0].spec
            differences = known.data_difference(dataclasses.replace(file.spec, task=known.task, max_episode_steps=known.max_episode_steps))
            if differences:
                raise SpecMismatch(
                    f"{file.path} does not fit {files[0].path}: {'; '.join(differences)} (here: the first file). Only files of one robot "
                    "and one task can be merged; --drop and --scale-actions, on one file at a time, may bring them together."
                )
        yield files


def rewrite(
    files: Sequence[OpenDemos], edits: Callable[[Spec, Callable[[], Figures]], list[Edit]], folder: Path, *, join: bool = False
) -> tuple[Path, list[str]]:
    """One new file from these; returns it and a sentence about each change. `join`: gaps do not split an episode."""
    spec = dataclasses.replace(files[0].spec, max_episode_steps=max(file.spec.max_episode_steps for file in files))

    @functools.cache
    def overview() -> Figures:
        return measure(spec, (steps for _, steps in _episodes(files)), pictures=False)

    todo = [editing.sound(join), *edits(spec, overview)]
    for each in todo:
        spec = each.spec(spec)
    attributes = {name: value for name, value in files[0].attributes.items() if name != "history"}
    with DemoWriter(folder, spec, **attributes) as writer:
        for steps in edited(_episodes(files), todo):
            writer.add(steps)
        done = [said for each in todo if (said := each.said())]
        writer.describe(history=[*_histories(files), _history(files, done, writer)])
        return writer.finish(), [*done, f"{writer.episodes} episodes, {writer.transitions:,} steps"]


def _episodes(files: Sequence[OpenDemos]) -> Iterator[tuple[int, list[Transition]]]:
    return enumerate(steps for file in files for steps in file.episodes())


def _histories(files: Sequence[OpenDemos]) -> list[Any]:
    return [entry for file in files for entry in file.attributes.get("history", [])]


def _history(files: Sequence[OpenDemos], done: list[str], writer: DemoWriter) -> dict[str, Any]:
    return {
        "time": datetime.now().astimezone().isoformat(timespec="seconds"),
        "tandem": tandem.__version__,
        "from": [{"file": file.path.name, "kind": file.kind, "created": file.created} for file in files],
        "did": done,
        "episodes": writer.episodes,
        "steps": writer.transitions,
    }


def _edits(args: EditArgs, spec: Spec, overview: Callable[[], Figures]) -> list[Edit]:
    """What was asked for, in its order. An edit of the observations changes the spec of those after it, so `--drop` is late."""
    asked: list[tuple[Any, Callable[[], Edit]]] = [
        (args.keep or args.delete or args.only_success, lambda: _selected(args)),
        (args.swap_pictures, lambda: editing.swap_pictures(spec, *_swap(str(args.swap_pictures)))),
        (args.split, lambda: editing.split([_place(place) for place in args.split])),
        (args.gripper, lambda: editing.relabel_gripper(overview(), *_gripper(str(args.gripper)))),
        (args.drop_copies, editing.drop_copies),
        (args.drop_doubles, editing.drop_doubles),
        (args.drop_stale, lambda: editing.drop_stale(spec)),
        (args.drop_static, lambda: editing.drop_static(overview(), args.static_keep)),
        (args.trim_start or args.trim_end or args.trim_after_success, lambda: _trimmed(args)),
        *((text, functools.partial(_scale, spec, text)) for text in args.scale_actions),
        (args.drop, lambda: editing.drop_channels(spec, args.drop)),
        (args.success or args.failure, lambda: _labelled(args)),
        (args.truncate_timeouts, lambda: editing.truncate_timeouts(overview())),
        (args.rate, lambda: editing.resample(spec, float(args.rate or 0))),
        (args.shortest > 1, lambda: editing.shortest(args.shortest)),
    ]
    return [make() for wanted, make in asked if wanted]


def _numbers(text: str, option: str) -> frozenset[int]:
    return parse_numbers(text, option) if text else frozenset()


def _selected(args: EditArgs) -> Edit:
    keep = None if args.keep is None else _numbers(args.keep, "--keep")
    return editing.select(keep, _numbers(args.delete, "--delete"), args.only_success)


def _trimmed(args: EditArgs) -> Edit:
    if min(args.trim_start, args.trim_end) < 0:
        raise ConfigError("--trim-start and --trim-end take a number of steps, 0 or more")
    return editing.trim(args.trim_start, args.trim_end, args.trim_after_success)


def _labelled(args: EditArgs) -> Edit:
    return editing.relabel(_numbers(args.success, "--success"), _numbers(args.failure, "--failure"))


def _swap(text: str) -> tuple[str, str, frozenset[int]]:
    match = re.fullmatch(r"([^:=]+):([^:=]+)=(.+)", text)
    if match is None:
        raise ConfigError(f"--swap-pictures takes two cameras and episodes, such as left:right=3,4; got '{text}'")
    return match[1], match[2], parse_numbers(match[3], "--swap-pictures")


def _place(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if match is None:
        raise ConfigError(f"--split takes EPISODE:STEP, such as 3:100; got '{text}'")
    return int(match[1]), int(match[2])


def _gripper(text: str) -> tuple[int, str]:
    match = re.fullmatch(r"(\d+)=(.+)", text)
    if match is None:
        raise ConfigError(f"--gripper takes COLUMN=NUMBER, such as '6=state[0]'; got '{text}'")
    return int(match[1]), match[2]


def _scale(spec: Spec, text: str) -> Edit:
    columns, _, factor = text.partition("=")
    try:
        return editing.scale_actions(spec, sorted(parse_numbers(columns, "--scale-actions")), float(factor))
    except ValueError:
        raise ConfigError(f"--scale-actions takes COLUMNS=FACTOR, such as 0:6=5; got '{text}'") from None
