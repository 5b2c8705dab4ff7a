"""The numbers of a file of demonstrations: are the sensors alive, do the actions mean what they did?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np

from tandem.data.figures import EpisodeFigures, Figures, action_names
from tandem.doctor import limits
from tandem.doctor.findings import NOTE, WARNING, Finding, Seconds, Share
from tandem.doctor.records import DemoFile, Records


def measured(records: Records) -> Iterator[tuple[DemoFile, Figures]]:
    """The files of which every step was looked at."""
    for file in records.demos or ():
        if file.figures is not None and file.figures.steps:
            yield file, file.figures


def named(file: DemoFile) -> dict[str, str]:
    return {"file": str(file.path), "short": file.path.name}


def ranges(names: Sequence[str]) -> list[str]:
    """Names of neighbours put together: `state[1]`, `state[2]`, `state[3]` is `state[1:4]`."""
    joined: list[str] = []
    for entry, group in groupby((_place(name) for name in names), key=lambda place: place[0]):
        numbers = [number for _, number in group]
        for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
            found = [number for _, number in run]
            last = f":{found[-1] + 1}" if len(found) > 1 else ""
            joined.append(f"{entry}[{found[0]}{last}]" if found[0] >= 0 else entry)
    return joined


def _place(name: str) -> tuple[str, int]:
    """The entry and the number of the place; -1 for a name that has none of its own."""
    entry, _, rest = name.partition("[")
    inside = rest.removesuffix("]")
    return (entry, int(inside)) if inside.isdigit() else (name, -1)


# ---- observations


def demos_channels_dead(records: Records) -> Finding | None:
    """Exactly 0 from the first step to the last: a sensor that is not connected, or a number that nobody fills in."""
    for file, figures in measured(records):
        dead = _dead(figures)
        if figures.steps >= limits.DEMO_STEPS and dead.any() and not dead.all():
            found = ranges([figures.channels[index] for index in np.flatnonzero(dead)])
            facts = {"count": int(dead.sum()), "total": len(dead), "names": ", ".join(found), "drop": " ".join(f"'{n}'" for n in found)}
            return Finding("demos_channels_dead", WARNING, {**named(file), **facts, "steps": figures.steps})
    return None


def demos_channels_constant(records: Records) -> Finding | None:
    for file, figures in measured(records):
        constant = (figures.numbers == figures.numbers[:1]).all(axis=0) & ~_dead(figures)
        if figures.steps >= limits.DEMO_STEPS and constant.any() and not constant.all():
            found = ", ".join(ranges([figures.channels[index] for index in np.flatnonzero(constant)]))
            return Finding("demos_channels_constant", NOTE, {**named(file), "count": int(constant.sum()), "names": found})
    return None


def _dead(figures: Figures) -> np.ndarray:
    return np.all([(episode.numbers == 0).all(axis=0) for episode in figures.episodes], axis=0)


def demos_channels_frozen(records: Records) -> Finding | None:
    """A number that changes in nearly every step stays the same for a while, and the others do not."""
    for file, figures in measured(records):
        rates = np.stack([(episode.changes != 0).mean(axis=0) for episode in figures.episodes])
        lively = np.flatnonzero(np.median(rates, axis=0) >= limits.CHANGES_USUALLY)
        for number, episode in enumerate(figures.episodes):
            moved = (episode.changes != 0)[:, lively]
            others = moved.any(axis=1)
            for place, channel in enumerate(lively):
                start, run = _longest(np.asarray(~moved[:, place] & others))
                if run >= limits.FROZEN_RUN:
                    facts = {"channel": figures.channels[channel], "run": run, "episode": number, "step": start}
                    return Finding("demos_channels_frozen", WARNING, {**named(file), **facts})
    return None


def _longest(flags: np.ndarray) -> tuple[int, int]:
    """Where the longest run of true values begins, and how long it is."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(int), [0]])))
    starts, ends = edges[::2], edges[1::2]
    if not len(starts):
        return 0, 0
    best = int(np.argmax(ends - starts))
    return int(starts[best]), int(ends[best] - starts[best])


def demos_channels_clipped(records: Records) -> Finding | None:
    """Often exactly at the lowest and often exactly at the highest value, and in between never twice the same: the sensor's range."""
    for file, figures in measured(records):
        if figures.steps < limits.DEMO_STEPS:
            continue
        numbers = figures.numbers
        low, high = numbers.min(axis=0), numbers.max(axis=0)
        at_low, at_high = (numbers == low), (numbers == high)
        share_low, share_high = at_low.mean(axis=0), at_high.mean(axis=0)
        both = share_low + share_high
        suspect = (share_low > limits.CLIPPED_SIDE) & (share_high > limits.CLIPPED_SIDE) & (both > limits.CLIPPED_SUM)
        suspect &= both < limits.CLIPPED_MOST
        for channel in np.flatnonzero(suspect):
            between = numbers[~(at_low | at_high)[:, channel], channel]
            if len(between) >= limits.FROZEN_RUN and len(np.unique(between)) > limits.CHANGES_USUALLY * len(between):
                facts = {"low": float(low[channel]), "high": float(high[channel]), "share": Share(both[channel])}
                return Finding("demos_channels_clipped", WARNING, {**named(file), "channel": figures.channels[channel], **facts})
    return None


def demos_state_stale(records: Records) -> Finding | None:
    """A motion was commanded, and afterwards not one number is different."""
    for file, figures in measured(records):
        if not figures.channels or not figures.moving.any():
            continue
        commanded = stale = 0
        for episode in figures.episodes:
            asked = (np.abs(episode.actions[:, figures.moving]) > limits.COMMANDED).any(axis=1)
            commanded += int(asked.sum())
            stale += int((asked & (episode.changes == 0).all(axis=1)).sum())
        if stale >= limits.GRIPPER_JUMPS and stale > limits.STALE_SHARE * commanded:
            return Finding("demos_state_stale", WARNING, {**named(file), "share": Share(stale / commanded), "stale": stale})
    return None


def demos_quaternions_flip(records: Records) -> Finding | None:
    """Four numbers of length 1 that turn into their negatives from one step to the next: the same rotation, far away for a network."""
    for file, figures in measured(records):
        entries = [_place(name)[0] for name in figures.channels]
        for first in range(len(entries) - 3):
            if len(set(entries[first : first + 4])) != 1:
                continue
            flips = [_flips(episode.numbers[:, first : first + 4]) for episode in figures.episodes]
            if all(count is not None for count in flips) and (total := sum(count or 0 for count in flips)):
                facts = {"channel": ranges(figures.channels[first : first + 4])[0], "count": total}
                return Finding("demos_quaternions_flip", WARNING, {**named(file), **facts})
    return None


def _flips(quaternions: np.ndarray) -> int | None:
    """None: these are no quaternions."""
    if np.abs(np.linalg.norm(quaternions, axis=1) - 1).max() > 1e-3 or np.abs(quaternions).max() > 1 + 1e-3:
        return None
    return int(((quaternions[1:] * quaternions[:-1]).sum(axis=1) < -0.5).sum())


def demos_angles_wrap(records: Records) -> Finding | None:
    """A number between -pi and pi that jumps by a whole turn."""
    for file, figures in measured(records):
        if not figures.channels:
            continue
        largest = np.abs(figures.numbers).max(axis=0)
        for channel in np.flatnonzero((largest > np.pi - 0.5) & (largest < np.pi + 0.1)):
            jumps = sum(int((np.abs(np.abs(episode.changes[:, channel]) - 2 * np.pi) < 0.5).sum()) for episode in figures.episodes)
            if jumps:
                return Finding("demos_angles_wrap", WARNING, {**named(file), "channel": figures.channels[channel], "count": jumps})
    return None


# ---- actions


def demos_actions_small(records: Records) -> Finding | None:
    for file, figures in measured(records):
        axes = np.flatnonzero(figures.moving)
        if figures.steps < limits.DEMO_STEPS or not len(axes):
            continue
        used = np.abs(figures.actions[:, axes])
        usual, largest = float(np.percentile(used.max(axis=1), 99)), float(used.max())
        if 0 < usual < limits.SMALL_ACTIONS:
            factor = float(f"{min(1 / largest, 1 / usual):.3g}")
            columns = ",".join(ranges([f"action[{axis}]" for axis in axes])).replace("action", "").replace("[", "").replace("]", "")
            facts = {"usual": usual, "largest": largest, "factor": f"{factor:g}", "columns": columns}
            return Finding("demos_actions_small", WARNING, {**named(file), **facts})
    return None


def demos_axis_unused(records: Records) -> Finding | None:
    for file, figures in measured(records):
        unused = (figures.actions == 0).all(axis=0) & figures.moving
        if figures.steps >= limits.DEMO_STEPS and unused.any() and not unused.all():
            names = action_names(figures.spec)
            found = ", ".join(names[axis] for axis in np.flatnonzero(unused))
            return Finding("demos_axis_unused", WARNING, {**named(file), "names": found, "steps": figures.steps})
    return None


def demos_gripper_label(records: Records) -> Finding | None:
    """The command of a gripper jumps, and the measured gripper does not move: not what was executed."""
    for file, figures in measured(records):
        for axis in _grippers(figures):
            channel = _follows(figures, axis)
            if channel is None:
                continue
            reach = float(np.ptp(figures.numbers[:, channel]))
            moves = np.concatenate([_moves(episode, axis, channel) for episode in figures.episodes])
            ignored = moves < limits.GRIPPER_MOVES * reach
            if ignored.sum() >= limits.GRIPPER_JUMPS and ignored.mean() > 0.5:
                facts = {"axis": action_names(figures.spec)[axis], "column": int(axis), "channel": figures.channels[channel]}
                facts |= {"jumps": len(moves), "ignored": int(ignored.sum())}
                return Finding("demos_gripper_label", WARNING, {**named(file), **facts})
    return None


def _grippers(figures: Figures) -> list[int]:
    """Axes that hold absolute commands of many values: a switch of two or three (open, hold, close) says something else."""
    names = action_names(figures.spec)
    many = [len(np.unique(column.round(3))) > 3 for column in figures.actions.T]
    last = len(names) - 1  # where a gripper is in a file that does not name its axes
    found = [axis for axis in range(len(names)) if figures.holding[axis] or "grip" in names[axis] or axis == last]
    return [axis for axis in found if many[axis]]


def _follows(figures: Figures, axis: int) -> int | None:
    """The number that is usually where the command is: the measured gripper. None: there is none, or the command is not a place."""
    command = figures.actions[:, axis]
    held = command != 0
    after = np.concatenate([episode.numbers[1:] for episode in figures.episodes])
    if held.sum() < limits.DEMO_STEPS or np.ptp(command[held]) < 2 * limits.GRIPPER_JUMP:
        return None
    moving = np.flatnonzero(np.ptp(after[held], axis=0) > 0)
    fits = [_correlation(after[held, channel], command[held]) for channel in moving]
    best = int(np.argmax(fits)) if fits else 0
    return int(moving[best]) if fits and fits[best] > 0.8 else None


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Its size, from 0 to 1; 0 where one of them does not vary."""
    a, b = one.astype(float) - one.mean(dtype=float), other.astype(float) - other.mean(dtype=float)
    return abs(float((a * b).sum())) / max(float(np.sqrt((a * a).sum() * (b * b).sum())), 1e-30)


def _moves(episode: EpisodeFigures, axis: int, channel: int) -> np.ndarray:
    """How far the measured gripper moves after each jump of the command."""
    jumps = 1 + np.flatnonzero(np.abs(np.diff(episode.actions[:, axis])) > limits.GRIPPER_JUMP)
    value = episode.numbers[:, channel]
    return np.array([np.ptp(value[step : step + limits.GRIPPER_STEPS + 1]) for step in jumps.tolist()])


# ---- parts of a file that do not belong together


class _Parts(NamedTuple):
    """A file in two parts, before and from an episode on."""

    first: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        return max(self.before, self.after) / max(min(self.before, self.after), 1e-12)


def _two_parts(figures: Figures, value: Callable[[EpisodeFigures], float]) -> _Parts | None:
    """The two parts of a file of which a number differs most, each even in itself and apart from the other; None: there are none.

    Frames that a program appended are no episodes.
    """
    places = [number for number, episode in enumerate(figures.episodes) if len(episode) > 1]
    values, lengths = np.array([value(figures.episodes[place]) for place in places]), figures.lengths[places]
    found = None
    for first in range(limits.GROUP_EPISODES, len(values) - limits.GROUP_EPISODES + 1):
        if min(lengths[:first].sum(), lengths[first:].sum()) < limits.GROUP_STEPS:
            continue
        low, high = sorted((values[:first], values[first:]), key=lambda part: float(np.median(part)))
        apart = np.quantile(low, limits.GROUP_APART) < np.quantile(high, 1 - limits.GROUP_APART)
        parts = _Parts(places[first], float(np.median(values[:first])), float(np.median(values[first:])))
        if apart and _even(low) and _even(high) and (found is None or parts.ratio > found.ratio):
            found = parts
    return found


def _even(values: np.ndarray) -> bool:
    middle = float(np.median(values))
    return middle > 0 and float(np.median(np.abs(values - middle))) <= limits.GROUP_SPREAD * middle


def demos_response_mixed(records: Records) -> Finding | None:
    """From some episode on the same action moves the robot by another distance: another action scale, another controller."""
    for file, figures in measured(records):
        for axis, channel in _moved_by(figures):
            parts = _two_parts(figures, partial(_gain, axis=axis, channel=channel))
            if parts is not None and parts.ratio > limits.RESPONSE_RATIO:
                facts = {"axis": action_names(figures.spec)[axis], "channel": figures.channels[channel], "first": parts.first}
                facts |= {"before": parts.before, "after": parts.after, "ratio": parts.ratio, "earlier": f"0:{parts.first}"}
                return Finding("demos_response_mixed", WARNING, {**named(file), **facts})
    return None


def _moved_by(figures: Figures) -> Iterable[tuple[int, int]]:
    """Pairs of an axis and the number that it moves, the best for each axis."""
    changes = np.concatenate([episode.changes for episode in figures.episodes])
    for axis in np.flatnonzero(figures.moving):
        command = figures.actions[:, axis]
        moving = np.flatnonzero(changes.std(axis=0) > 0)
        if figures.steps < limits.DEMO_STEPS or command.std() == 0 or not len(moving):
            continue
        fits = [_correlation(changes[:, channel], command) ** 2 for channel in moving]
        best = int(np.argmax(fits))
        if fits[best] > limits.RESPONSE_FITS:
            yield int(axis), int(moving[best])


def _gain(episode: EpisodeFigures, axis: int, channel: int) -> float:
    """How far the same action moves the number."""
    command, change = episode.actions[:, axis].astype(float), episode.changes[:, channel].astype(float)
    return abs(float((command * change).sum() / max((command**2).sum(), 1e-12)))


def _used(episode: EpisodeFigures, axes: np.ndarray) -> float:
    return float(np.percentile(np.abs(episode.actions[:, axes]).max(axis=1), 90))


def demos_scales_mixed(records: Records) -> Finding | None:
    """From some episode on the actions are several times as large."""
    for file, figures in measured(records):
        if not figures.moving.any():
            continue
        parts = _two_parts(figures, partial(_used, axes=figures.moving))
        if parts is not None and parts.ratio > limits.SCALE_RATIO:
            facts = {
                "first": parts.first,
                "before": parts.before,
                "after": parts.after,
                "ratio": parts.ratio,
                "earlier": f"0:{parts.first}",
            }
            return Finding("demos_scales_mixed", WARNING, {**named(file), **facts})
    return None


def pause(file: DemoFile, within: float) -> dict[str, object]:
    """The longest time in which nothing moves."""
    if file.figures is None or not file.figures.moving.any():
        return {}
    moving = file.figures.moving
    runs = [_longest(np.all(np.abs(episode.actions[:, moving]) < within, axis=1))[1] for episode in file.figures.episodes]
    return {"longest": max(runs), "pause": Seconds(max(runs) / file.figures.spec.control_hz)}
