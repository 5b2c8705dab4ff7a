"""`tandem record`: an operator does the task until enough episodes have succeeded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from tandem.acting.limits import Asked, opened_for
from tandem.acting.operators import open_hand
from tandem.acting.policy import PolicyOperator, load_any_policy
from tandem.data.demos import DemoWriter
from tandem.data.episode import EpisodeRecorder
from tandem.data.report import format_report, inspect
from tandem.envs.registry import make_env, make_expert
from tandem.envs.task_env import TaskEnv, ending
from tandem.errors import ConfigError, DataError, EpisodeLost, PackageMissing
from tandem.programs.page import mount_page, page_installed
from tandem.programs.terminal import recording_bar, say
from tandem.seeding import episode_seed
from tandem.teleop.operator import Operator
from tandem.teleop.own_operator import checked, is_own, own_operator
from tandem.types import Transition, first_row

GIVE_UP_AFTER = 50
"""Failures in a row after which this operator cannot do the task."""
BY_HAND = ("browser", "spacemouse", "gamepad")


def record(
    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")],
    operator: str = "scripted",
    demos: int = 25,
    out: Path = Path("demos"),
    seed: int = 0,
    quiet: bool = False,
    port: int = 0,
    reward_source: str = "simulation",
    mapping: Path | None = None,
    limits: Path | None = None,
    no_limits: bool = False,
) -> None:
    """Record demonstrations: successful episodes only, to one file.

    Args:
        task: A task (see `tandem tasks`).
        operator: Who demonstrates: `scripted`, `policy:RUN` (the policy of a run, or a FILE.onnx), `module:Class` (your own, see
            docs/demonstrations.md; `serve:PYTHON:module:Class` in another Python), or a person with a `browser`, `spacemouse` or `gamepad`.
        demos: Number of successful episodes to keep.
        out: Folder of the new file.
        seed: Random seed for the starts of the attempts and for the scripted operator.
        quiet: No progress bar and no report.
        port: Port of the page with which a person records; 0: any free port.
        reward_source: What decides whether a person's episode was a success: simulation, person, classifier:FILE or conditions:FILE.
        mapping: File that says what sticks and buttons do.
        limits: File of speed, force and workspace limits (docs/limits.md); a robot needs one.
        no_limits: Move a robot without any limits.
    """
    asked = Asked(limits, no_limits)
    if demos < 1:
        raise ConfigError(f"--demos must be at least 1, got {demos}")
    if operator in BY_HAND:
        path = _record_by_hand(task, operator, demos, out, seed, port, reward_source, mapping, asked)
    elif reward_source != "simulation":
        raise ConfigError(
            f"--reward-source {reward_source} is for a person who records with {', '.join(BY_HAND)}; with --operator {operator} the "
            f"environment decides. Afterwards `tandem reward apply FILE --source {reward_source}` computes the rewards anew."
        )
    else:
        path = record_with(task, operator, demos, out, seed, quiet, asked)
    if not quiet:
        say(format_report(inspect(path)))
    say(f"wrote {path}")


def record_with(task: str, operator: str | Operator, demos: int, folder: Path, seed: int, quiet: bool, asked: Asked | None = None) -> Path:
    """Demonstrations by a script or a policy, by name or made already; returns the file."""
    env = make_env(task)
    with ending(env):
        under_limits = opened_for(task, asked or Asked())(env)
        demonstrator = _demonstrator(operator, env, task, seed) if isinstance(operator, str) else checked(operator, env)
        with recording_bar(task, demos, quiet) as update:
            return record_demos(under_limits, demonstrator, demos, folder, seed, on_episode=update)


def _demonstrator(operator: str, env: TaskEnv, task: str, seed: int) -> Operator:
    """The script or the policy that demonstrates."""
    if is_own(operator):
        return own_operator(operator, env, seed)
    if operator.startswith("policy:"):
        return PolicyOperator(*load_any_policy(Path(operator.removeprefix("policy:")), spec=env.spec))
    if operator == "scripted":
        return make_expert(task, seed)
    raise ConfigError(
        f"no operator '{operator}'; there are scripted, policy:RUN, browser, spacemouse, gamepad, and module:Class for your own"
    )


def _record_by_hand(
    task: str,
    operator: str,
    demos: int,
    out: Path,
    seed: int,
    port: int,
    reward_source: str,
    mapping: Path | None,
    asked: Asked,
) -> Path:
    from tandem.programs.teaching import teach  # brings the hub along

    if operator == "browser" and not page_installed():
        raise PackageMissing("--operator browser", "nicegui")
    return teach(
        task,
        demos,
        out,
        seed,
        hand=lambda spec: open_hand(operator, spec, mapping),
        reward_source=reward_source,
        port=port,
        asked=asked,
        mount=lambda hub: mount_page(hub, say, mapping),
        say=say,
    )


def scripted_demos(task: str, demos: int, run: Path, seed: int, quiet: bool) -> Path:
    """Demonstrations by the task's script for a run that is about to begin, in a folder next to the run's."""
    return record_with(task, "scripted", demos, run.parent / f"{run.name}_demos", seed, quiet)


def record_demos(
    env: TaskEnv,
    operator: Operator,
    demos: int,
    folder: Path,
    seed: int,
    on_episode: Callable[[int, int], None] = lambda kept, failed: None,
) -> Path:
    """Write `demos` successful episodes to a new file in `folder` and return it.

    Episodes are tried one after the other and the successes kept in that order: of several at once the short ones would be
    the first to finish. Each attempt has a start of its own (`seeding`).
    """
    kept = failed = failed_in_a_row = 0
    with DemoWriter(folder, env.spec, operator=operator.name, seed=seed) as writer:
        try:
            while kept < demos:
                episode = _attempt(env, operator, episode_seed(seed, "demonstrations", kept + failed))
                if episode and episode[-1].success:
                    writer.add(episode)
                    kept, failed_in_a_row = kept + 1, 0
                else:
                    failed, failed_in_a_row = failed + 1, failed_in_a_row + 1
                on_episode(kept, failed)
                if failed_in_a_row >= GIVE_UP_AFTER:
                    raise DataError(
                        f"operator '{operator.name}' failed {failed_in_a_row} times in a row at '{writer.spec.task}'. "
                        f"Likely cause: it cannot do this task, or the environment never reports info['success']. {_kept(writer, demos)}"
                    )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_kept(writer, demos)) from None
        return writer.finish()


def _kept(writer: DemoWriter, demos: int) -> str:
    if not writer.episodes:
        return f"None of {demos} episodes was recorded, and no file is left."
    return f"{writer.episodes} of {demos} episodes are kept in {writer.partial_path}, which can be loaded as it is."


def _attempt(env: TaskEnv, operator: Operator, seed: int) -> list[Transition]:
    """One episode; empty if a served environment lost it."""
    try:
        return play_episode(env, operator, seed)
    except EpisodeLost:
        return []


def play_episode(env: TaskEnv, operator: Operator, seed: int) -> list[Transition]:
    """One episode by an operator alone, as transitions."""
    recorder = EpisodeRecorder(env.spec, source="")
    observation = first_row(env.reset([0], [seed]))
    operator.reset()
    recorder.begin(observation)
    episode: list[Transition] = []
    while not (episode and episode[-1].last):
        action, by_human = operator.decide(observation, None)
        step = env.step(np.asarray(action)[None])
        if step.lost is not None:
            raise EpisodeLost(f"environment '{env.spec.task}' lost the episode that was being recorded")
        observation = first_row(step.observation)
        episode.append(recorder.record(action, step, intervened=by_human))
    return episode
