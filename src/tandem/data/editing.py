"""Edits of demonstrations: from episodes to other episodes, one after the other, each with a sentence about what it did.

An episode that comes out is sound: its steps are joined, and its last step, and no other, is an end. Where steps are left out, the one
before leads to where the next one begins, and gets their reward.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tandem.data.figures import Figures, idle_steps
from tandem.data.report import IDLE
from tandem.errors import ConfigError
from tandem.layouts import ActionLayout
from tandem.types import Continuous, Entry, Observation, Spec, Transition

Steps = list[Transition]
Numbers = frozenset[int] | None
"""Of episodes, as they are counted through all files from 0; None: all."""


@dataclass
class Edit:
    """One edit. `apply` gets the number of the episode and its steps, and gives the episodes that become of it."""

    apply: Callable[[int, Steps], Iterable[Steps]]
    words: str
    """What it did; {} is the count."""
    spec: Callable[[Spec], Spec] = lambda spec: spec
    count: list[int] = field(default_factory=lambda: [0])

    def said(self) -> str | None:
        """None: there was nothing to do."""
        return self.words.format(self.count[0]) if self.count[0] or "{}" not in self.words else None


def edited(episodes: Iterable[tuple[int, Steps]], edits: Sequence[Edit]) -> Iterator[Steps]:
    """The episodes after all edits, in their order."""
    for number, steps in episodes:
        now = [steps]
        for edit in edits:
            now = [made for each in now for made in edit.apply(number, each) if made]
        yield from (_numbered(each) for each in now)


def _numbered(steps: Steps) -> Steps:
    return [dataclasses.replace(step, step=number) for number, step in enumerate(steps)]


def _counted(count: list[int], number: int = 1) -> None:
    count[0] += number


def without(steps: Steps, dropped: np.ndarray) -> Steps:
    """The other steps, joined. The last step stays: it has the end."""
    kept = [index for index in range(len(steps)) if not dropped[index] or index == len(steps) - 1]
    result = []
    for index, following in zip(kept, [*kept[1:], len(steps)], strict=True):
        step = steps[index]
        if following > index + 1:
            led_to = steps[following].observation if following < len(steps) else steps[-1].next_observation
            reward = sum(steps[between].reward for between in range(index, following))
            step = dataclasses.replace(step, next_observation=led_to, reward=reward)
        result.append(step)
    return result


def parse_numbers(text: str, option: str) -> frozenset[int]:
    """`0:5,7` is 0, 1, 2, 3, 4, 7."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?::(\d+))?", part.strip())
        if match is None:
            raise ConfigError(f"{option} takes numbers such as 3, or 0:5,7 (0 to 4, and 7); got '{text}'")
        found |= set(range(int(match[1]), int(match[2]))) if match[2] else {int(match[1])}
    return frozenset(found)


# ---- whole episodes


def sound(join: bool = False) -> Edit:
    """Always done: an end inside of an episode, or a gap, splits it, and a last step without an end is cut off there.

    `join`: a gap does not split; the step before it leads to where the next one begins. What was earned in between is not known.
    """
    count = [0]

    def apply(_: int, steps: Steps) -> Iterator[Steps]:
        part: Steps = []
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            part.append(step)
            gap = following is not None and not step.last and not _joined(step, following)
            if gap and join and following is not None:
                part[-1] = dataclasses.replace(step, next_observation=following.observation)
                _counted(count)
            elif following is None or step.last or gap:
                if not step.last:
                    part[-1] = dataclasses.replace(step, truncated=True)
                _counted(count, int(following is not None) + int(not step.last))
                yield part
                part = []

    gaps = "steps around a gap joined, episodes split at ends inside of them" if join else "episodes split there"
    return Edit(apply, f"{{}} ends and gaps repaired: {gaps}, a last step without an end marked as truncated", count=count)


def _joined(step: Transition, following: Transition) -> bool:
    same = all(np.array_equal(step.next_observation[name], following.observation[name]) for name in step.next_observation)
    return same and following.step == step.step + 1


def select(keep: Numbers, delete: frozenset[int], only_success: bool) -> Edit:
    count = [0]

    def apply(number: int, steps: Steps) -> Iterator[Steps]:
        gone = (keep is not None and number not in keep) or number in delete or (only_success and not any(s.success for s in steps))
        _counted(count, int(gone))
        if not gone:
            yield steps

    return Edit(apply, "{} episodes left out", count=count)


def split(places: Sequence[tuple[int, int]]) -> Edit:
    """Cut episodes before a step; what ends there is cut off, not terminated."""
    count = [0]

    def apply(number: int, steps: Steps) -> Iterator[Steps]:
        cuts = sorted(step for episode, step in places if episode == number and 0 < step < len(steps))
        _counted(count, len(cuts))
        for first, last in zip([0, *cuts], [*cuts, len(steps)], strict=True):
            part = steps[first:last]
            yield [*part[:-1], part[-1] if part[-1].last else dataclasses.replace(part[-1], truncated=True)]

    return Edit(apply, "{} cuts made", count=count)


def drop_doubles() -> Edit:
    count, seen = [0], set()

    def apply(_: int, steps: Steps) -> Iterator[Steps]:
        content = hashlib.sha256()
        for step in steps:
            for array in (*step.observation.values(), step.action):
                content.update(array.tobytes())
        known = content.digest() in seen
        seen.add(content.digest())
        _counted(count, int(known))
        if not known:
            yield steps

    return Edit(apply, "{} episodes left out that were there already", count=count)


def shortest(least: int) -> Edit:
    count = [0]

    def apply(_: int, steps: Steps) -> Iterator[Steps]:
        _counted(count, int(len(steps) < least))
        if len(steps) >= least:
            yield steps

    return Edit(apply, f"{{}} episodes with fewer than {least} steps left out", count=count)


# ---- steps


def drop_copies() -> Edit:
    """Frames that were appended after a reward: the episode ends where it was earned."""
    count = [0]

    def apply(_: int, steps: Steps) -> Iterator[Steps]:
        copied = [_same(step.observation, step.next_observation) for step in steps]
        if all(copied) and steps[0].reward > 0:
            _counted(count, len(steps))
            return
        paid = next((index for index, step in enumerate(steps) if step.reward > 0), len(steps))
        kept = [step for index, step in enumerate(steps) if index <= paid or not copied[index]]
        _counted(count, len(steps) - len(kept))
        ended = dataclasses.replace(kept[-1], terminated=steps[-1].terminated, truncated=steps[-1].truncated)
        yield [*kept[:-1], ended] if len(kept) < len(steps) else steps

    return Edit(apply, "{} steps left out that no robot made (everything after them exactly as before)", count=count)


def _same(one: Observation, other: Observation) -> bool:
    return all(one[name] is other[name] or np.array_equal(one[name], other[name]) for name in one)


def drop_stale(spec: Spec) -> Edit:
    count, names = [0], [name for name, entry in spec.observation.items() if entry.role != "image"]

    def apply(_: int, steps: Steps) -> Iterator[Steps]:
        stale = [all(np.array_equal(s.observation[n], s.next_observation[n]) for n in names) and not s.reward for s in steps]
        kept = without(steps, np.array(stale))
        _counted(count, len(steps) - len(kept))
        yield kept

    return Edit(apply, "{} steps left out after which no number had changed", count=count)


def drop_static(overview: Figures, keep: int) -> Edit:
    """Steps that command no motion, but the first `keep` of each pause; a step that changes the gripper is no pause."""
    count, holding = [0], overview.holding

    def apply(_: int, steps: Steps) -> Iterator[Steps]:
        actions = np.stack([step.action for step in steps])
        held = np.concatenate([[False], (actions[1:] == actions[:-1])[:, holding].all(axis=1)])
        still = idle_steps(actions, holding, IDLE) & held & ~np.array([step.reward != 0 for step in steps])
        place = np.arange(len(steps)) - np.maximum.accumulate(np.where(~still, np.arange(len(steps)), -1))
        kept = without(steps, still & (place > max(keep, 0)))
        _counted(count, len(steps) - len(kept))
        yield kept

    return Edit(apply, "{} steps left out in which the robot stood still", count=count)


def trim(start: int, end: int, after_success: bool) -> Edit:
    count = [0]

    def apply(_: int, steps: Steps) -> Iterator[Steps]:
        kept = steps[start : len(steps) - end]
        first = next((index for index, step in enumerate(kept) if step.success or step.reward > 0), None) if after_success else None
        if first is not None and first < len(kept) - 1:
            kept = [*kept[:first], dataclasses.replace(kept[first], terminated=True, truncated=False)]
        if kept and not kept[-1].last:
            kept[-1] = dataclasses.replace(kept[-1], truncated=True)
        _counted(count, len(steps) - len(kept))
        yield kept

    return Edit(apply, "{} steps trimmed", count=count)


def resample(spec: Spec, rate: float) -> Edit:
    """Every k steps become one: motions are averaged (and the action scale is k times as large), commands that hold are the last ones."""
    k = round(spec.control_hz / rate) if rate > 0 else 0
    if k < 1 or abs(spec.control_hz / k - rate) > 1e-6 * rate:
        rates = ", ".join(f"{spec.control_hz / n:g}" for n in range(2, 6))
        raise ConfigError(f"--rate {rate:g} is not a whole part of the file's {spec.control_hz:g} Hz; possible are {rates}, ...")
    layout, count = ActionLayout.of(spec), [0]
    averaged = ~(layout.is_discrete | layout.stays)

    def apply(_: int, steps: Steps) -> Iterator[Steps]:
        groups = [steps[first : first + k] for first in range(0, len(steps), k)]
        _counted(count, len(steps) - len(groups))
        yield [
            dataclasses.replace(
                group[-1],
                observation=group[0].observation,
                action=np.where(averaged, np.sum([s.action for s in group], axis=0) / k, group[-1].action).astype(np.float32),
                reward=sum(step.reward for step in group),
                intervened=any(step.intervened for step in group),
                success=True if any(step.success for step in group) else group[-1].success,
            )
            for group in groups
        ]

    def slower(old: Spec) -> Spec:
        parts = tuple(_scaled(part, k) if isinstance(part, Continuous) and part.stands_at is None else part for part in old.action)
        return dataclasses.replace(old, action=parts, control_hz=old.control_hz / k, max_episode_steps=-(-old.max_episode_steps // k))

    return Edit(apply, f"{k} steps put into one: {rate:g} Hz, an action of 1 moves {k} times as far", spec=slower, count=count)


def _scaled(part: Continuous, factor: float | np.ndarray) -> Continuous:
    scale = part.scales() * np.asarray(factor)
    return dataclasses.replace(part, scale=tuple(float(f"{number:.6g}") for number in scale))


# ---- actions


def scale_actions(spec: Spec, columns: Sequence[int], factor: float) -> Edit:
    """Multiply columns; the action scale in the spec is divided, so that the motions stay the same."""
    layout = ActionLayout.of(spec)
    if not columns or max(columns) >= layout.size or layout.is_discrete[list(columns)].any() or not factor > 0:
        raise ConfigError(f"--scale-actions takes continuous columns from 0 to {layout.size - 1} and a factor above 0, such as 0:6=5")
    count, factors = [0], np.ones(layout.size)
    factors[list(columns)] = factor

    def apply(_: int, steps: Steps) -> Iterator[Steps]:
        actions = [step.action * factors for step in steps]
        numbers = np.abs([action if factor > 1 else step.action for action, step in zip(actions, steps, strict=True)])[:, list(columns)]
        lost = numbers.max(axis=1) > (1 + 1e-6 if factor > 1 else 0.999)
        _counted(count, int(lost.sum()))
        yield [dataclasses.replace(s, action=layout.clip(action).astype(np.float32)) for s, action in zip(steps, actions, strict=True)]

    def rescaled(old: Spec) -> Spec:
        ends = np.cumsum([0, *(part.size for part in old.action)])
        parts = tuple(
            _scaled(part, 1 / factors[first : first + part.size]) if isinstance(part, Continuous) else part
            for part, first in zip(old.action, ends, strict=False)
        )
        return dataclasses.replace(old, action=parts)

    words = f"actions of the columns {_listed(columns)} times {factor:g}; the action scale of the robot has to be divided by {factor:g}"
    cannot = "cut off at 1: what they were is lost" if factor > 1 else "at the limit before: how large they were meant is not in the file"
    return _Lossy(apply, words, rescaled, count, cannot)


@dataclass
class _Lossy(Edit):
    """An edit that cannot bring everything back, and says of how many steps."""

    cannot: str = ""

    def said(self) -> str:
        return f"{self.words}; {self.count[0]} steps are {self.cannot}" if self.count[0] else f"{self.words}; nothing was lost"


def _listed(columns: Sequence[int]) -> str:
    return f"{columns[0]}:{columns[-1] + 1}" if list(columns) == list(range(columns[0], columns[-1] + 1)) else ",".join(map(str, columns))


def relabel_gripper(overview: Figures, column: int, channel: str) -> Edit:
    """Where the command is 0, the last one was executed; before the first one, what was measured."""
    if channel not in overview.channels or not 0 <= column < overview.spec.action_dim:
        known = ", ".join(overview.channels[:8])
        raise ConfigError(
            f"--gripper takes COLUMN=NUMBER such as '6=state[0]'; there is no column {column}, or no number '{channel}' ({known}, ...)"
        )
    place, count = overview.channels.index(channel), [0]
    after = np.concatenate([episode.numbers[1:, place] for episode in overview.episodes]).astype(float)
    command = overview.actions[:, column].astype(float)
    said = command != 0
    if not said.any():
        raise ConfigError(f"column {column} is 0 in every step: no command tells where the gripper was meant to be")
    slope, offset = np.polyfit(after[said], command[said], 1) if np.ptp(after[said]) > 0 else (0.0, float(command[said].mean()))
    name, _, index = channel.partition("[")
    flat = int(index.removesuffix("]")) if index else 0

    def apply(_: int, steps: Steps) -> Iterator[Steps]:
        result, last = [], None
        for step in steps:
            value = float(step.action[column])
            if value == 0:
                measured = float(np.reshape(step.next_observation[name], -1)[flat])
                action = step.action.copy()
                action[column] = np.clip(slope * measured + offset, -1, 1) if last is None else last
                step = dataclasses.replace(step, action=action)
                _counted(count)
            else:
                last = value
            result.append(step)
        yield result

    return Edit(apply, f"{{}} commands of 0 in column {column} replaced by the last command, before the first by {channel}", count=count)


# ---- observations


def drop_channels(spec: Spec, names: Sequence[str]) -> Edit:
    """Leave entries, or numbers of them, out of all observations: `force`, `state[3]`, `state[1:4]`."""
    kept = {name: np.ones(entry.shape[0] if len(entry.shape) == 1 else 1, bool) for name, entry in spec.observation.items()}
    for text in names:
        match = re.fullmatch(r"([^\[\]]+)(?:\[(\d+)(?::(\d+))?\])?", text)
        entry = spec.observation.get(match[1]) if match else None
        if match is None or entry is None or (match[2] and (len(entry.shape) != 1 or int(match[3] or match[2]) > entry.shape[0])):
            raise ConfigError(f"--drop '{text}': there is no such number; the entries are {', '.join(_shown(spec))}")
        kept[match[1]][slice(int(match[2]), int(match[3] or int(match[2]) + 1)) if match[2] else slice(None)] = False
    if not any(flags.any() for flags in kept.values()):
        raise ConfigError("--drop would leave no observation at all")
    gone = [name for name, flags in kept.items() if not flags.any()]
    thinned = {name: flags for name, flags in kept.items() if flags.any() and not flags.all()}

    def less(observation: Observation) -> Observation:
        return {n: value[thinned[n]] if n in thinned else value for n, value in observation.items() if n not in gone}

    def apply(_: int, steps: Steps) -> Iterator[Steps]:
        yield [dataclasses.replace(s, observation=less(s.observation), next_observation=less(s.next_observation)) for s in steps]

    def smaller(old: Spec) -> Spec:
        entries = {n: _thinned(entry, thinned[n]) if n in thinned else entry for n, entry in old.observation.items() if n not in gone}
        return dataclasses.replace(old, observation=entries)

    return Edit(apply, f"numbers left out: {', '.join(names)}", spec=smaller)


def _shown(spec: Spec) -> list[str]:
    return [f"{name}[0:{entry.shape[0]}]" if len(entry.shape) == 1 else name for name, entry in spec.observation.items()]


def _thinned(entry: Entry, flags: np.ndarray) -> Entry:
    def of(value: object) -> object:
        return tuple(np.array(value, object)[flags].tolist()) if isinstance(value, tuple) else value

    changes = {name: of(getattr(entry, name)) for name in ("scale", "offset", "low", "high")}
    return dataclasses.replace(entry, shape=(int(flags.sum()),), **changes)


def swap_pictures(spec: Spec, one: str, other: str, numbers: frozenset[int]) -> Edit:
    entries = spec.observation
    if one not in entries or other not in entries or entries[one].shape != entries[other].shape:
        raise ConfigError(f"--swap-pictures takes two cameras of one size, such as left:right=3,4; got {one} and {other}")
    count = [0]

    def swapped(look: Observation) -> Observation:
        return look | {one: look[other], other: look[one]}

    def apply(number: int, steps: Steps) -> Iterator[Steps]:
        _counted(count, int(number in numbers))
        yield [
            dataclasses.replace(step, observation=swapped(step.observation), next_observation=swapped(step.next_observation))
            if number in numbers
            else step
            for step in steps
        ]

    return Edit(apply, f"{one} and {other} swapped in {{}} episodes", count=count)


# ---- what an episode was


def relabel(success: frozenset[int], failure: frozenset[int]) -> Edit:
    count = [0]

    def apply(number: int, steps: Steps) -> Iterator[Steps]:
        _counted(count, int(number in success or number in failure))
        if number in success:
            paid = any(step.reward > 0 for step in steps)
            last = dataclasses.replace(steps[-1], success=True, terminated=True, truncated=False)
            steps = [*steps[:-1], last if paid else dataclasses.replace(last, reward=1.0)]
        elif number in failure:
            steps = [dataclasses.replace(step, success=False, reward=0.0) for step in steps]
            steps[-1] = dataclasses.replace(steps[-1], terminated=False, truncated=True)
        yield steps

    return Edit(apply, "{} episodes labelled anew as success or failure", count=count)


def truncate_timeouts(overview: Figures) -> Edit:
    """Terminated without success at the time limit, or as late as any other episode."""
    count, longest, limit = [0], int(overview.lengths.max()), overview.spec.max_episode_steps

    def apply(_: int, steps: Steps) -> Iterator[Steps]:
        late = len(steps) >= min(limit, longest) and steps[-1].terminated and not any(step.success for step in steps)
        _counted(count, int(late))
        yield [*steps[:-1], dataclasses.replace(steps[-1], terminated=False, truncated=True)] if late else steps

    return Edit(apply, "{} time-outs marked as truncated instead of terminated", count=count)
