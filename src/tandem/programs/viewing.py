"""`tandem play`: watch a robot work, in MuJoCo's viewer where there is a screen, else as a film and a strip of pictures."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from tandem.envs.task_env import TaskEnv
    from tandem.teleop.operator import Operator


def play(
    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK|RUN")],
    operator: str = "scripted",
    policy: Path | None = None,
    episodes: int = 3,
    seed: int = 0,
    out: Path = Path("videos"),
    size: tuple[int, int] = (640, 480),
    film: bool = False,
    seconds: float = math.inf,
    limits: Path | None = None,
    no_limits: bool = False,
) -> None:
    """Watch a task or a learned policy: in a window, or as a film where there is no screen.

    Args:
        what: A task (see `tandem tasks`), or a run folder, policy file or exported ONNX file.
        operator: Who does a task: `scripted`, `random`, `zero`, or `module:Class` (your own); a run is played by its policy.
        policy: Play the task with this policy: a run folder, a policy file or an ONNX file.
        episodes: Number of episodes to film.
        seed: Random seed for the starts of the episodes.
        out: Folder of the film and the pictures.
        size: Width and height of the film in pixels.
        film: Film even where there is a screen.
        seconds: Stop filming after this many seconds of work; what was drawn by then is the film.
        limits: File of speed, force and workspace limits (docs/limits.md); a robot needs one.
        no_limits: Move a robot without any limits.
    """
    screen = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if not screen and sys.platform == "linux":
        os.environ.setdefault("MUJOCO_GL", "egl")  # read when mujoco is imported, so before that
    from tandem.acting.limits import Asked, opened_for
    from tandem.acting.policy import PolicyOperator
    from tandem.envs.registry import make_env, registered
    from tandem.envs.task_env import ending
    from tandem.files import name_for_files
    from tandem.programs.evaluate import policy_for
    from tandem.programs.filming import film_episodes, show_live
    from tandem.programs.terminal import console, say

    if policy is not None or (registered(what) is None and Path(what).exists()):
        chosen, spec = policy_for(what, policy)
        task, player = spec.task if policy is None else what, PolicyOperator(chosen, spec)
        env = make_env(task, render=True, size=size)
    else:
        task = what
        env = make_env(task, render=True, size=size)
        player = _player(operator, task, env, seed)
    env = opened_for(task, Asked(limits, no_limits))(env)
    physics = env.physics() if screen and not film else None
    if physics is not None:
        with ending(env):
            show_live(env, physics, player, seed)
        return
    with ending(env), console.status(f"filming {episodes} episodes of {task} ({player.name})"):
        name = f"{name_for_files(task)}_{player.name}"
        movie, strip, outcomes = film_episodes(env, player, episodes, seed, out, name, seconds)
    for line in (*outcomes, f"film {movie}", f"pictures {strip}"):
        say(line)


def _player(operator: str, task: str, env: TaskEnv, seed: int) -> Operator:
    from tandem.envs.registry import make_expert
    from tandem.errors import ConfigError
    from tandem.layouts import ActionLayout
    from tandem.teleop.operator import RandomActions, Still
    from tandem.teleop.own_operator import is_own, own_operator

    layout = ActionLayout.of(env.spec)
    if operator == "scripted":
        return make_expert(task, seed)
    if operator == "random":
        return RandomActions(layout, seed)
    if operator == "zero":
        return Still(layout)
    if is_own(operator):
        return own_operator(operator, env, seed)
    raise ConfigError(f"no operator '{operator}'; there are scripted, random and zero, and module:Class for your own")
