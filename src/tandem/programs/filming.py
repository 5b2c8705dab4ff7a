"""A robot at work: in MuJoCo's viewer where there is a screen, as a film and a strip of pictures where there is none."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import gymnasium
import numpy as np

from tandem.envs.single import SingleEnv
from tandem.errors import ConfigError, DataError, RenderingUnavailable
from tandem.programs.pictures import Film, write_strip
from tandem.seeding import episode_seed
from tandem.teleop.operator import Operator


def film_episodes(
    env: gymnasium.Env, operator: Operator, episodes: int, seed: int, folder: Path, name: str
) -> tuple[Path, Path, list[str]]:
    """Play episodes into `folder/name.mp4`, the first also into `.png`; returns both and a line about each episode."""
    if episodes < 1:
        raise ConfigError(f"a film needs at least one episode, got {episodes}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise DataError(f"cannot create the folder {folder}: {problem.strerror}.") from None
    first: list[np.ndarray] = []
    outcomes = []
    with Film(folder / f"{name}.mp4", env.get_wrapper_attr("task_spec").control_hz) as film:
        for number in range(episodes):
            frames, outcome = _film_episode(env, operator, episode_seed(seed, "play", number), film)
            first = first or frames
            outcomes.append(f"episode {number}: {outcome}")
    return film.path, write_strip(first, folder / f"{name}.png"), outcomes


def _film_episode(env: gymnasium.Env, operator: Operator, seed: int, film: Film) -> tuple[list[np.ndarray], str]:
    """Its frames, and a line about how it went."""
    observation, _ = env.reset(seed=seed)
    operator.reset()
    frames, info, ended = [_picture(env)], {}, False
    while not ended:
        film.add(frames[-1])
        action, _ = operator.decide(observation, None)
        observation, _, terminated, truncated, info = env.step(action)
        frames.append(_picture(env))
        ended = terminated or truncated
    for _ in range(1 + round(film.fps / 2)):  # half a second to see how it ended
        film.add(frames[-1])
    actions, outcome = len(frames) - 1, "success" if info.get("success") else "no success"
    return frames, f"{outcome} after {actions} actions ({actions / film.fps:.1f} s)"


def _picture(env: gymnasium.Env) -> np.ndarray:
    name = env.get_wrapper_attr("task_spec").task
    try:
        picture = env.render()
    except gymnasium.error.DependencyNotInstalled as problem:
        raise RenderingUnavailable(f"environment '{name}' cannot draw itself: {problem}") from None
    if not isinstance(picture, np.ndarray):
        raise RenderingUnavailable(f"environment '{name}' draws no picture: render() gave a {type(picture).__name__}, expected an array.")
    return picture


def show_live(env: SingleEnv, operator: Operator, seed: int) -> None:
    """Play in MuJoCo's own window, at the robot's pace, until it is closed."""
    import mujoco.viewer  # needs a screen as soon as it is imported

    batch, period = env.rows.batch, 1.0 / env.task_spec.control_hz
    model = batch.get_model(0)
    data = mujoco.MjData(model)
    with mujoco.viewer.launch_passive(model, data) as viewer:
        for number in itertools.count():
            if not viewer.is_running():
                return
            observation, _ = env.reset(seed=episode_seed(seed, "play", number))
            operator.reset()
            ended = False
            while viewer.is_running() and not ended:
                began = time.monotonic()
                action, _ = operator.decide(observation, None)
                observation, _, terminated, truncated, _ = env.step(action)
                ended = terminated or truncated
                with viewer.lock():
                    batch.get_model(0, model)
                    batch.get_data(0, data)
                    mujoco.mj_forward(model, data)
                viewer.sync()
                time.sleep(max(0.0, period - (time.monotonic() - began)))
