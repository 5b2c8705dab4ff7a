"""A robot at work: in MuJoCo's viewer where there is a screen, as a film and a strip of pictures where there is none."""

from __future__ import annotations

import itertools
import math
import time
from pathlib import Path

import numpy as np

from tandem.envs.physics import Physics
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError, DataError
from tandem.programs.pictures import Film, write_strip
from tandem.seeding import episode_seed
from tandem.teleop.operator import Operator
from tandem.types import first_row


def film_episodes(
    env: TaskEnv, operator: Operator, episodes: int, seed: int, folder: Path, name: str, seconds: float = math.inf
) -> tuple[Path, Path, list[str]]:
    """Play episodes into `folder/name.mp4`, the first also into `.png`; returns both and a line about each episode.

    After `seconds` the film ends where it is: a renderer may be slower than the robot.
    """
    if episodes < 1:
        raise ConfigError(f"a film needs at least one episode, got {episodes}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise DataError(f"cannot create the folder {folder}: {problem.strerror}.") from None
    first: list[np.ndarray] = []
    outcomes = []
    with Film(folder / f"{name}.mp4", env.spec.control_hz) as film:
        until = time.monotonic() + seconds
        for number in range(episodes):
            frames, outcome = _film_episode(env, operator, episode_seed(seed, "play", number), film, until)
            first = first or frames
            outcomes.append(f"episode {number}: {outcome}")
            if time.monotonic() > until:
                break
    return film.path, write_strip(first, folder / f"{name}.png"), outcomes


def _film_episode(env: TaskEnv, operator: Operator, seed: int, film: Film, until: float) -> tuple[list[np.ndarray], str]:
    """Its frames, and a line about how it went."""
    observation = first_row(env.reset([0], [seed]))
    operator.reset()
    frames, success, ended = [env.render()], False, False
    while not ended and time.monotonic() < until:
        film.add(frames[-1])
        action, _ = operator.decide(observation, None)
        step = env.step(np.asarray(action)[None])
        frames.append(env.render())
        observation, ended, success = first_row(step.observation), bool(step.ended[0]), bool(step.success[0])
    for _ in range(1 + round(film.fps / 2)):  # half a second to see how it ended
        film.add(frames[-1])
    actions, outcome = len(frames) - 1, "success" if success else "no success" if ended else "cut off"
    return frames, f"{outcome} after {actions} actions ({actions / film.fps:.1f} s)"


def show_live(env: TaskEnv, physics: Physics, operator: Operator, seed: int) -> None:
    """Play in MuJoCo's own window, at the robot's pace, until it is closed."""
    import mujoco.viewer  # needs a screen as soon as it is imported

    period = 1.0 / env.spec.control_hz
    with mujoco.viewer.launch_passive(physics.model, physics.data) as viewer:
        for number in itertools.count():
            if not viewer.is_running():
                return
            observation = first_row(env.reset([0], [episode_seed(seed, "play", number)]))
            operator.reset()
            ended = False
            while viewer.is_running() and not ended:
                began = time.monotonic()
                action, _ = operator.decide(observation, None)
                step = env.step(np.asarray(action)[None])
                observation, ended = first_row(step.observation), bool(step.ended[0])
                with viewer.lock():
                    physics.update()
                    mujoco.mj_forward(physics.model, physics.data)
                viewer.sync()
                time.sleep(max(0.0, period - (time.monotonic() - began)))
