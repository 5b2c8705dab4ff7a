"""Record demonstrations: an operator does the task until enough episodes have succeeded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tandem.data.demos import DemoWriter
from tandem.data.episode import EpisodeRecorder
from tandem.envs.task_env import TaskEnv
from tandem.errors import DataError
from tandem.teleop.operator import Operator
from tandem.types import Transition, first_row

GIVE_UP_AFTER = 50
"""Failures in a row after which this operator cannot do the task."""


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
    the first to finish. Attempt i starts from seed + i.
    """
    kept = failed = failed_in_a_row = 0
    with DemoWriter(folder, env.spec, operator=operator.name, seed=seed) as writer:
        try:
            while kept < demos:
                episode = play_episode(env, operator, seed + kept + failed)
                if episode[-1].success:
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
        observation = first_row(step.observation)
        episode.append(recorder.record(action, step, intervened=by_human))
    return episode
