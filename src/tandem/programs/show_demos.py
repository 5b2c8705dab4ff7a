"""`tandem demos show` and `tandem demos replay`: look at demonstrations, and do them again."""

from __future__ import annotations

import dataclasses
import html
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from tandem.acting.demo_starts import begin_as_recorded
from tandem.acting.limits import Asked, opened_for
from tandem.data.demos import OpenDemos
from tandem.data.figures import EpisodeFigures, Figures, action_names, measure
from tandem.data.formats.kinds import open_any
from tandem.envs.registry import make_env, spec_for
from tandem.envs.task_env import TaskEnv, ending
from tandem.errors import ConfigError, RenderingUnavailable, SpecMismatch
from tandem.programs.curves import curve, table, write_page
from tandem.programs.edit_demos import parse_numbers
from tandem.programs.own_episodes import OwnEpisode, own_episodes, parts_at
from tandem.programs.pictures import Film, write_strip
from tandem.programs.terminal import say
from tandem.programs.value_plot import q_side_by_side, values_part
from tandem.types import Observation, Transition, first_row

File = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]


def show(
    file: File,
    out: Path | None = None,
    episodes: str = "0:5",
    channels: tuple[str, ...] = (),
    task: str | None = None,
    run: Path | None = None,
    policy: Path | None = None,
) -> int:
    """Write a page about demonstrations: episodes, films of their cameras, and a curve of every number, action and reward.

    The page is one HTML file beside its films; it needs no server and no network.

    Args:
        file: A file of demonstrations, in any format that `tandem demos import` reads.
        out: Folder of the page. Default: FILE_page.
        episodes: Which episodes are drawn in full: 0:5,7. The table has all.
        channels: Only these numbers of the observations, such as wrench 'tcp_pose[2]'. Default: all.
        task: The task of a file that has no spec of its own.
        run: Also draw what the critics of this run say along the demonstrations, beside the returns that followed, on the page and as
            values.png.
        policy: Draw an episode of this policy (a run folder, a policy file or an ONNX file) beside each drawn demonstration: in a
            simulation from the same start, else the newest one of the run that nobody helped with. With --run also Q along both.
    """
    folder = out or file.with_name(f"{file.name}_page")
    folder.mkdir(parents=True, exist_ok=True)
    chosen = parse_numbers(episodes, "--episodes")
    with open_any(file, None if task is None else spec_for(task)) as opened:
        figures = measure(opened.spec, opened.episodes(), pictures=False)
        drawn = {number: steps for number, steps in enumerate(opened.episodes()) if number in chosen}
        parts = [_overview(opened, figures)]
        if run is not None:
            parts.append(values_part(run, opened, chosen, folder))
        own = {} if policy is None else own_episodes(policy, opened, drawn)
        for number, steps in drawn.items():
            parts.append(_drawn_episode(number, steps, figures, folder, _wanted(figures, channels), own.get(number)))
            if run is not None and number in own:
                parts.append(q_side_by_side(run, opened, {"demonstration": steps, "policy": own[number].steps}))
    say(f"wrote {write_page(folder / 'index.html', file.name, parts)}")
    return 0


def _wanted(figures: Figures, channels: Sequence[str]) -> list[int]:
    if not channels:
        return list(range(len(figures.channels)))
    found = [
        index
        for index, name in enumerate(figures.channels)
        if any(name == asked or name.partition("[")[0] == asked or _within(name, asked) for asked in channels)
    ]
    if not found:
        raise ConfigError(f"no number is called {' or '.join(channels)}; there are {', '.join(figures.channels[:12])}, ...")
    return found


def _within(name: str, asked: str) -> bool:
    """`state[3]` is within `state[1:4]`."""
    entry, _, place = name.removesuffix("]").partition("[")
    other, _, places = asked.removesuffix("]").partition("[")
    first, _, last = places.partition(":")
    return entry == other and place.isdigit() and first.isdigit() and last.isdigit() and int(first) <= int(place) < int(last)


def _overview(opened: OpenDemos, figures: Figures) -> str:
    rows = [
        (
            number,
            len(each),
            f"{len(each) / opened.spec.control_hz:.1f} s",
            f"{each.rewards.sum():g}",
            "yes" if each.succeeded else "no",
            _end(each),
        )
        for number, each in enumerate(figures.episodes)
    ]
    about = f"{html.escape(opened.kind)}, task {html.escape(opened.spec.task)}, {opened.spec.control_hz:g} Hz, {figures.steps:,} steps"
    lengths = curve("steps of each episode", {"steps": figures.lengths})
    listed = table(rows, ("episode", "steps", "time", "return", "success", "end"))
    return f"<p>{about}</p>{lengths}<details><summary>{len(rows)} episodes</summary>{listed}</details>"


def _end(episode: EpisodeFigures) -> str:
    return "terminated" if episode.terminated[-1] else "truncated" if episode.truncated[-1] else "none"


def _drawn_episode(
    number: int, steps: list[Transition], figures: Figures, folder: Path, wanted: list[int], own: OwnEpisode | None = None
) -> str:
    episode, other = figures.episodes[number], None if own is None else measure(figures.spec, [own.steps], pictures=False).episodes[0]
    apart = None if other is None else parts_at(episode, other)

    def drawn(title: str, of: Callable[[EpisodeFigures], np.ndarray], name: str = "") -> str:
        return curve(title, {name: of(episode)} if other is None else {"demonstration": of(episode), "policy": of(other)}, apart)

    films = "".join(
        _film(folder, number, name, steps, figures) for name, entry in figures.spec.observation.items() if entry.role == "image"
    )
    actions = "".join(drawn(f"action {name}", lambda each, axis=axis: each.actions[:, axis], name) for axis, name in _axes(figures))
    numbers = "".join(drawn(figures.channels[index], lambda each, index=index: each.numbers[:, index]) for index in wanted)
    rewards = drawn("reward", lambda each: each.rewards, "reward")
    observed = f"<details open><summary>observations</summary>{numbers}</details>"
    beside = "" if own is None or other is None else f"<p>{html.escape(_beside(own, other, apart))}</p>"
    return f"<h2>Episode {number}: {_words(episode)}</h2>{beside}{films}<div>{rewards}{actions}</div>{observed}"


def _axes(figures: Figures) -> list[tuple[int, str]]:
    return list(enumerate(action_names(figures.spec)))


def _words(episode: EpisodeFigures) -> str:
    return f"{len(episode)} steps, {'success' if episode.succeeded else 'no success'}, {_end(episode)}"


def _beside(own: OwnEpisode, figures: EpisodeFigures, apart: int | None) -> str:
    """What the policy did, in a sentence that is also printed."""
    way = "it goes the same way" if apart is None else f"it goes another way from step {apart} on"
    line = f"the policy, {own.start}: {_words(figures)}; {way}"
    say(line)
    return line


def _film(folder: Path, number: int, name: str, steps: list[Transition], figures: Figures) -> str:
    path = folder / f"episode_{number}_{name}.mp4"
    with Film(path, figures.spec.control_hz) as film:
        for picture in [step.observation[name] for step in steps] + [steps[-1].next_observation[name]]:
            film.add(picture if picture.shape[2] == 3 else np.repeat(picture[..., :1], 3, axis=2))
    video = f'<video controls muted loop width="300" src="{html.escape(path.name)}"></video>'
    return f"<figure>{video}<figcaption>{html.escape(name)}</figcaption></figure>"


# ---- replay


@dataclass(frozen=True)
class Replay:
    """What became of a recorded episode when its actions were executed again."""

    channels: tuple[str, ...]
    recorded: np.ndarray
    """(T + 1, channels)"""
    again: np.ndarray
    """(up to T + 1, channels)"""
    scales: np.ndarray
    start: str
    """How the start was found, in words."""
    succeeded: bool
    recorded_success: bool

    @property
    def error(self) -> np.ndarray:
        """(steps, channels), in units of each number's range in the recorded episode."""
        steps = min(len(self.recorded), len(self.again))
        return np.abs(self.again[:steps] - self.recorded[:steps]) / self.scales

    def begins(self, tolerance: float) -> np.ndarray:
        """For each number the first moment at which it is off by more than the tolerance; -1: never."""
        off = self.error > tolerance
        return np.where(off.any(axis=0), off.argmax(axis=0), -1)


def replay(
    file: File,
    episode: Annotated[int, tyro.conf.Positional, tyro.conf.arg(metavar="EPISODE")],
    task: str | None = None,
    tolerance: float = 0.02,
    out: Path | None = None,
    film: bool = True,
    limits: Path | None = None,
    no_limits: bool = False,
) -> int:
    """Execute the actions of a recorded episode again, and say where the robot no longer does what it did.

    In a simulation of Tandem it begins exactly where the recording began: the file has the seed. Elsewhere it begins where the reset
    leads, and the difference is said. Exit status: 0 if it ends as it was recorded, 1 if not.

    Args:
        file: A file of demonstrations, in any format that `tandem demos import` reads.
        episode: Number of the episode, from 0.
        task: The environment to replay in: a task, `serve:...` or an address. Default: the task of the file.
        tolerance: From which difference on a number counts as different, as a share of its range in the episode.
        out: Folder of the page, the film and the pictures. Default: FILE_replay.
        film: Film it where the environment can be drawn (`--no-film`: leave it out).
        limits: File of speed, force and workspace limits (docs/limits.md); a robot needs one.
        no_limits: Move a robot without any limits.
    """
    folder = out or file.with_name(f"{file.name}_replay")
    with open_any(file) as opened:
        steps = next(itertools.islice(opened.episodes(), episode, None), None)
        if steps is None or episode < 0:
            raise ConfigError(f"{file} has no episode {episode}; they are counted from 0")
        name = task or opened.spec.task
        moved = opened_for(name, Asked(limits, no_limits))(make_env(name, watched=film))
        with ending(moved):
            frames = _Frames(moved, film)
            found = _again(moved, steps, opened, frames)
    return _report(found, frames.taken, folder, file, episode, tolerance, opened.spec.control_hz)


class _Frames:
    """Pictures of the replay; none where the environment cannot be drawn, which is said."""

    def __init__(self, env: TaskEnv, wanted: bool) -> None:
        self.taken: list[np.ndarray] = []
        self._env, self._wanted = env, wanted and env.capabilities.renders

    def take(self) -> None:
        if not self._wanted:
            return
        try:
            self.taken.append(self._env.render())
        except RenderingUnavailable as problem:
            say(f"no film: {problem}")
            self.taken, self._wanted = [], False


def _again(env: TaskEnv, steps: list[Transition], opened: OpenDemos, frames: _Frames) -> Replay:
    names = [name for name, entry in opened.spec.observation.items() if entry.role != "image" and name in env.spec.observation]
    if not names or env.spec.action_dim != opened.spec.action_dim:
        raise SpecMismatch(
            f"{opened.path} cannot be replayed in '{env.spec.task}': actions of {opened.spec.action_dim} and {env.spec.action_dim} "
            f"columns, {len(names)} entries in common. Give the task that it was recorded with: --task."
        )
    observation, start = _started(env, steps[0].observation, opened, names)
    looks, success = [observation], False
    frames.take()
    for step in steps:
        made = env.step(step.action[None])
        looks.append(first_row(made.observation))
        success |= bool(made.success[0])
        frames.take()
        if made.ended[0]:
            break
    recorded = [step.observation for step in steps] + [steps[-1].next_observation]
    before, after = (np.stack([_numbers(look, names) for look in each]) for each in (recorded, looks))
    small = dataclasses.replace(opened.spec, observation={name: opened.spec.observation[name] for name in names})
    channels = measure(small, [], pictures=False).channels
    reach = np.ptp(before, axis=0)
    scales = np.where(reach > 0, reach, np.maximum(np.abs(before).max(axis=0), 1e-6))
    return Replay(channels, before, after, scales, start, success, any(step.success for step in steps))


def _numbers(look: Observation, names: Sequence[str]) -> np.ndarray:
    return np.concatenate([np.reshape(look[name], -1) for name in names]).astype(float)


def _started(env: TaskEnv, recorded: Observation, opened: OpenDemos, names: Sequence[str]) -> tuple[Observation, str]:
    """Begin where the recording began: the attempt of the recording with this first observation, if the file has its seed."""
    attempt = begin_as_recorded(env, recorded, opened, names)
    if attempt >= 0:
        return recorded, f"exactly as recorded (seed {opened.attributes['seed']}, attempt {attempt})"
    return first_row(env.reset()), "where the reset leads: the file has no seed with which it begins as recorded"


def _report(found: Replay, frames: list[np.ndarray], folder: Path, file: Path, episode: int, tolerance: float, hz: float) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    for line in _lines(found, tolerance, hz):
        say(line)
    begins = found.begins(tolerance)
    order = np.argsort(np.where(begins < 0, len(found.recorded) + 1, begins), kind="stable")
    parts = [f"<p>{html.escape(line)}</p>" for line in _lines(found, tolerance, hz)]
    if frames:
        name = f"episode_{episode}"
        with Film(folder / f"{name}.mp4", hz) as film:
            for frame in frames:
                film.add(frame)
        write_strip(frames, folder / f"{name}.png")
        parts.append(f'<video controls muted width="480" src="{name}.mp4"></video>')
        say(f"film {folder / f'{name}.mp4'}, pictures {folder / f'{name}.png'}")
    for index in order:
        lines = {"recorded": found.recorded[:, index], "again": found.again[:, index]}
        parts.append(curve(found.channels[index], lines, None if begins[index] < 0 else int(begins[index])))
    say(f"wrote {write_page(folder / 'index.html', f'{file.name}, episode {episode}, replayed', parts)}")
    return int(found.succeeded != found.recorded_success)


def _lines(found: Replay, tolerance: float, hz: float) -> Iterator[str]:
    steps, again = len(found.recorded) - 1, len(found.again) - 1
    words = {True: "success", False: "no success"}
    yield f"start: {found.start}"
    yield f"recorded: {words[found.recorded_success]} after {steps} steps; again: {words[found.succeeded]} after {again}"
    begins, error = found.begins(tolerance), found.error
    off = [index for index in np.argsort(begins, kind="stable") if begins[index] >= 0]
    if not off:
        yield f"no number is off by more than {tolerance:.0%} of its range; the largest difference is {error.max():.2g} of a range"
        return
    first = int(begins[off[0]])
    yield f"it departs from the recording at step {first} ({first / hz:.1f} s)"
    yield f"{len(off)} of {len(found.channels)} numbers are off by more than {tolerance:.0%} of their range:"
    for index in off[:8]:
        where = int(begins[index])
        last = error[-1, index] * found.scales[index]
        was, now = found.recorded[where, index], found.again[where, index]
        yield f"  {found.channels[index]:<24} from step {where:<4} recorded {was:.4g}, again {now:.4g}; at the end off by {last:.3g}"
    if len(off) > 8:
        yield f"  and {len(off) - 8} more, on the page"
