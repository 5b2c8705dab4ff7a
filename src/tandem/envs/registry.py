"""Environments by name: our tasks, any Gymnasium id, or `module:Id` for a user's own."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
import numpy as np

from tandem.envs.batch import BatchEnv
from tandem.envs.cartpole import CartPole
from tandem.envs.foreign import ForeignBatch, GymnasiumEnv
from tandem.envs.gear_assembly import GearAssembly
from tandem.envs.gear_assembly.expert import GearCorrector, GearExpert, gear_distance
from tandem.envs.locomotion import RULES, Locomotion
from tandem.envs.reach import Reach, ReachExpert, reach_distance
from tandem.envs.recall import Recall
from tandem.envs.shaping import Reward
from tandem.envs.simulated import SimulatedEnv
from tandem.envs.single import SingleEnv
from tandem.envs.task import Practice, Task
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError, UnknownTaskError
from tandem.types import Observation, Spec


class Expert(Protocol):
    """A scripted person; fits `teleop.operator.Operator`."""

    name: str

    def reset(self) -> None: ...

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]: ...


@dataclass(frozen=True)
class Registered:
    task: Callable[..., Task]
    """Takes `reward` where there is more than one."""
    expert: Callable[[int | None], Expert] | None
    """A script that can do it; None where nobody wrote one."""
    camera: str | None
    """The view that shows what matters; None: the model names none."""
    summary: str
    rewards: tuple[Reward, ...] = ("dense",)
    """The first is the one it has unless told otherwise."""
    distance: Callable[[Observation], float] | None = None
    """How far from done it looks, from what the policy sees of one robot; by it a stand-in for a person decides when to help."""
    corrector: Callable[[int | None], Expert] | None = None
    """What that stand-in does when it helps, if not what the expert does."""
    practice: bool = False
    """Whether there are easier episodes, and other physics, to practise with (`Practice`)."""


_BOTH: tuple[Reward, ...] = ("sparse", "dense")
TASKS: dict[str, Registered] = {
    "gear_assembly": Registered(
        GearAssembly,
        GearExpert,
        "close",
        "slide a gear onto a peg so that it meshes with its neighbours",
        _BOTH,
        gear_distance,
        GearCorrector,
        practice=True,
    ),
    "reach": Registered(Reach, ReachExpert, "front", "bring the tool to a ball in the air; trains in seconds", _BOTH, reach_distance),
    "cartpole": Registered(CartPole, None, "front", "keep a pole upright on a cart; PPO solves it in seconds"),
    "recall": Registered(Recall, None, "front", "go to the corner where a lamp was lit a while ago; only a policy with memory can"),
} | {
    name: Registered(
        functools.partial(Locomotion, name),
        None,
        None if name.startswith("InvertedPendulum") else "track",
        "Gymnasium's, on the batch stepper",
    )
    for name in RULES
}
"""What `BatchEnv` steps. A Gymnasium id among them is the same environment as Gymnasium's, only faster."""


def register_task(
    name: str,
    task: Callable[..., Task],
    *,
    summary: str,
    expert: Callable[[int | None], Expert] | None = None,
    camera: str | None = None,
    rewards: tuple[Reward, ...] = ("dense",),
    distance: Callable[[Observation], float] | None = None,
    corrector: Callable[[int | None], Expert] | None = None,
) -> None:
    """Make a task of your own known by name in this process; the arguments are those of `Registered`."""
    if name in TASKS:
        raise ConfigError(f"there is a task '{name}' already; register yours under another name")
    TASKS[name] = Registered(task, expert, camera, summary, rewards, distance, corrector)


WITH_EXPERT = tuple(name for name, task in TASKS.items() if task.expert is not None)


def make_env(
    name: str,
    num_envs: int = 1,
    *,
    reward: Reward | None = None,
    num_threads: int = 0,
    render: bool = False,
    camera: str | None = None,
    size: tuple[int, int] = (640, 480),
) -> TaskEnv:
    """`num_envs` environments to act in; `reward=None` is the task's own. With `render` they can be asked for pictures."""
    if name in TASKS:
        chosen = camera or TASKS[name].camera
        return SimulatedEnv(_task(name, reward), num_envs, num_threads=num_threads, camera=chosen, size=size)
    # an environment that cannot be drawn need not take the argument
    options: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}
    env = _gymnasium(name, lambda: GymnasiumEnv(name, [gymnasium.make(name, **options) for _ in range(num_envs)]))
    _refuse_reward(name, reward)
    return env


def make(
    name: str,
    *,
    reward: Reward | None = None,
    render_mode: str | None = None,
    camera: str | None = None,
    size: tuple[int, int] = (640, 480),
) -> SingleEnv:
    """The same, one environment behind Gymnasium's interface."""
    env = make_env(name, reward=reward, render=render_mode is not None, camera=camera, size=size)
    return SingleEnv(env, render_mode=render_mode)


def spec_for(name: str) -> Spec:
    """The spec of an environment, by its name."""
    env = make_env(name)
    env.close()
    return env.spec


def make_batch(
    name: str, num_envs: int, *, reward: Reward | None = None, practice: Practice | None = None, num_threads: int = 0
) -> BatchEnv | ForeignBatch:
    """`num_envs` environments that reset in the same step, for PPO; with `practice` they are for learning, not for evaluation."""
    _refuse_practice(name, practice)
    if name in TASKS:
        return BatchEnv(_task(name, reward, practice), num_envs, num_threads=num_threads)
    env = _gymnasium(name, lambda: ForeignBatch(name, num_envs))
    _refuse_reward(name, reward)
    return env


def make_expert(name: str, seed: int | None = None) -> Expert:
    """The scripted person who can do this task."""
    expert = TASKS[name].expert if name in TASKS else None
    if expert is None:
        raise ConfigError(f"task '{name}' has no scripted operator; tasks that do: {', '.join(WITH_EXPERT)}")
    return expert(seed)


def make_corrector(name: str, seed: int | None = None) -> Expert:
    """What a stand-in for a person does at this task when it helps the policy."""
    corrector = TASKS[name].corrector if name in TASKS else None
    return make_expert(name, seed) if corrector is None else corrector(seed)


def _task(name: str, reward: Reward | None, practice: Practice | None = None) -> Task:
    entry = TASKS[name]
    if reward is not None and reward not in entry.rewards:
        raise ConfigError(f"task '{name}' has the reward {' or '.join(entry.rewards)}, got reward={reward!r}")
    options: dict[str, Any] = {"reward": reward or entry.rewards[0]} if len(entry.rewards) > 1 else {}
    return entry.task(**options, practice=practice) if entry.practice else entry.task(**options)


def _refuse_practice(name: str, practice: Practice | None) -> None:
    able = [known for known, entry in TASKS.items() if entry.practice]
    if practice not in (None, Practice()) and name not in able:
        raise ConfigError(f"task '{name}' has neither a curriculum nor physics to randomise; tasks that do: {', '.join(able)}")


def _refuse_reward(name: str, reward: Reward | None) -> None:
    if reward is not None:
        raise ConfigError(f"environment '{name}' has a reward of its own, got reward={reward!r}; leave it out")


def _gymnasium(name: str, build: Callable[[], Any]) -> Any:
    try:
        return build()
    except gymnasium.error.DependencyNotInstalled as problem:
        raise ConfigError(f"environment '{name}' needs a package that is not installed: {problem}") from None
    except gymnasium.error.Error as problem:  # the family of unknown names, versions and malformed ids
        raise UnknownTaskError(_unknown(name, str(problem))) from None
    except ModuleNotFoundError as problem:
        raise UnknownTaskError(
            f"no environment '{name}': its module could not be imported ({problem}). In `module:Id` the module must be installed or on "
            f"PYTHONPATH; for a file in this folder start the command with `PYTHONPATH=. tandem ...`."
        ) from None


def _unknown(name: str, detail: str) -> str:
    known = [*TASKS, *gymnasium.registry]
    nearest = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(repr(n) for n in nearest)}? " if nearest else ""
    return f"no task '{name}'. {hint}Tasks: {', '.join(TASKS)}; or a Gymnasium id; or module:Id for your own ({detail})."
