"""Environments by name.

gear_assembly              one of our tasks (`tandem tasks`)
Pendulum-v1, module:Id     a Gymnasium environment, or a user's own, in this Python
serve:PYTHON:module:Id     the same in another Python, as a process that we start
ws://HOST:PORT             one that somebody serves, here or on another machine (`tandem serve`); wss:// with TLS
isaac+http://HOST:5001/    the Isaac Sim gear server; franka+http://HOST:5000/: hil-serl's; `isaac:PROFILE` needs no server, for a learner
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium
import numpy as np

from tandem.envs.autoreset import AutoresetEnv
from tandem.envs.foreign import ForeignBatch, GymnasiumEnv, in_environment, make_drawable, own_error
from tandem.envs.http_robot.names import is_http_robot, server_kind
from tandem.envs.limits import LimitSettings
from tandem.envs.served.names import is_served, open_served
from tandem.envs.served.server import make_environment
from tandem.envs.shaping import Reward
from tandem.envs.single import SingleEnv
from tandem.envs.task import Practice, Stages, Task
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError, EnvironmentFailed, TandemError, UnknownTaskError
from tandem.types import Observation, Spec

if TYPE_CHECKING:
    from tandem.envs.batch import BatchEnv


class Expert(Protocol):
    """A script that can do a task; fits `teleop.operator.Operator`."""

    name: str

    def reset(self) -> None: ...

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]: ...


@dataclass(frozen=True)
class Registered:
    """Everything that the rest of Tandem may know of a task."""

    task: Callable[..., Task]
    """Takes `reward` where there is more than one, and `practice` where there is any."""
    summary: str
    """One line for `tandem tasks`."""
    rewards: tuple[Reward, ...] = ("dense",)
    """The first one is the default."""
    camera: str | None = None
    """The view that shows what matters; None: the model names none."""
    expert: Callable[[int | None], Expert] | None = None
    """A script that can do it, made from a seed; None where nobody wrote one."""
    distance: Callable[[Observation], float] | None = None
    """How far from done it looks, from one robot's observation; by it a stand-in for a person decides when to help."""
    corrector: Callable[[int | None], Expert] | None = None
    """What that stand-in does when it helps, if not what the expert does."""
    limits: Callable[[], LimitSettings] = LimitSettings
    """Makes the limits of a robot that does this task, unless a file says otherwise."""
    practice: bool = False
    """Whether there are easier episodes, and other physics, to practise with (`Practice`)."""
    stages: Callable[[], Stages] | None = None
    """How far an episode has come; None where nobody named the stages."""


def _late(place: str, *first: Any) -> Callable[..., Any]:
    """`module:name` of this folder, imported when it is called: only our own tasks need `mujoco.batch`, and only when one is made."""
    module, name = place.split(":")

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(f"tandem.envs.{module}"), name)(*first, *arguments, **options)

    return call


_BOTH: tuple[Reward, ...] = ("sparse", "dense")
_LOCOMOTION = tuple(
    f"{robot}-v{version}" for robot in ("HalfCheetah", "Hopper", "Walker2d", "Ant", "InvertedPendulum") for version in (4, 5)
)
"""The tasks of `locomotion.RULES`, by name."""


def _picks() -> dict[str, Registered]:
    """The pick tasks, each with three ways to command its gripper."""
    goals = {
        "gear_pick_assembly": ("assembly", "find a gear on the table, grasp it and slide it onto its peg"),
        "gear_lift": ("lift", "find a gear on the table, grasp it and lift it"),
    }
    modes = {"": "absolute", "_delta": "delta", "_threeway": "three-way"}
    return {
        f"{name}{suffix}": Registered(
            _late("gear_pick:GearPick", goal, mode),
            f"{summary}; gripper: {mode}",
            _BOTH,
            camera="close",
            expert=_late("gear_pick.expert:PickExpert", goal, mode),
            distance=_late("gear_pick.expert:pick_distance", goal),
            corrector=_late("gear_pick.expert:PickCorrector", goal, mode),
            limits=_late("gear_pick.task:pick_limits", mode),
            stages=_late("gear_pick.stages:stages"),
        )
        for name, (goal, summary) in goals.items()
        for suffix, mode in modes.items()
    } | {
        f"gear_pick_assembly_pixels{suffix}": Registered(
            _late("gear_pick.pixels:GearPickPixels", mode),
            f"the whole gear assembly by eye: three cameras, and nobody says where gear and board are; gripper: {mode}",
            ("sparse",),
            camera="close",
            expert=_late("gear_pick.pixels:pick_pixel_expert", mode),
            distance=_late("gear_pick.pixels:pick_pixel_distance"),
            corrector=_late("gear_pick.pixels:pick_pixel_corrector", mode),
            limits=_late("gear_pick.pixels:pick_pixel_limits", mode),
        )
        for suffix, mode in modes.items()
        if mode != "delta"
    }


def _by_eye() -> dict[str, Registered]:
    """The gear assembly with cameras in the place of the measured board."""
    summaries = {
        "usual": "the same by eye: two cameras on the hand, and nobody says where the board is",
        "moved": "the same with cameras, light and colours changed in every episode",
    }
    return {
        "gear_assembly_pixels" + ("" if looks == "usual" else f"_{looks}"): Registered(
            _late("gear_assembly.pixels:GearAssemblyPixels", looks),
            summary,
            _BOTH,
            camera="close",
            expert=_late("gear_assembly.pixels:pixel_expert"),
            distance=_late("gear_assembly.pixels:pixel_distance"),
            corrector=_late("gear_assembly.pixels:pixel_corrector"),
            limits=_late("gear_assembly.pixels:pixel_limits"),
            practice=True,
        )
        for looks, summary in summaries.items()
    }


TASKS: dict[str, Registered] = {
    "gear_assembly": Registered(
        _late("gear_assembly:GearAssembly"),
        "slide a gear onto a peg so that it meshes with its neighbours",
        _BOTH,
        camera="close",
        expert=_late("gear_assembly.expert:GearExpert"),
        distance=_late("gear_assembly.expert:gear_distance"),
        corrector=_late("gear_assembly.expert:GearCorrector"),
        limits=_late("gear_assembly.task:gear_limits"),
        practice=True,
    ),
    "gear_assembly_fine": Registered(
        _late("gear_assembly.fine:gear_assembly_fine"),
        "the same with small actions: a long task, demonstrations take about 300",
        ("sparse",),
        camera="close",
        expert=_late("gear_assembly.fine:fine_expert"),
        distance=_late("gear_assembly.expert:gear_distance"),
        corrector=_late("gear_assembly.fine:fine_corrector"),
        limits=_late("gear_assembly.fine:fine_limits"),
    ),
    **_by_eye(),
    "reach": Registered(
        _late("reach:Reach"),
        "bring the tool to a ball in the air; trains in seconds",
        _BOTH,
        camera="front",
        expert=_late("reach:ReachExpert"),
        distance=_late("reach:reach_distance"),
        limits=_late("reach:reach_limits"),
    ),
    **_picks(),
    "gear_pick_assembly_fine": Registered(
        _late("gear_pick.fine:gear_pick_assembly_fine"),
        "the whole gear assembly with small actions: the longest task, demonstrations take about 550",
        ("sparse",),
        camera="close",
        expert=_late("gear_pick.fine:fine_pick_expert"),
        distance=_late("gear_pick.expert:pick_distance", "assembly"),
        corrector=_late("gear_pick.fine:fine_pick_corrector"),
        limits=_late("gear_pick.fine:fine_pick_limits"),
        stages=_late("gear_pick.stages:stages"),
    ),
    "cartpole": Registered(_late("cartpole:CartPole"), "keep a pole upright on a cart; PPO solves it in seconds", camera="front"),
    "recall": Registered(
        _late("recall:Recall"), "go to the corner where a lamp was lit a while ago; only a policy with memory can", camera="front"
    ),
} | {
    name: Registered(
        _late("locomotion:Locomotion", name),
        "Gymnasium's, on the batch stepper",
        camera=None if name.startswith("InvertedPendulum") else "track",
    )
    for name in _LOCOMOTION
}
"""Our tasks by name. A Gymnasium id among them is the same environment as Gymnasium's, only faster."""
_OWN: set[str] = set()
"""Tasks that a user's module registered."""


def register_task(
    name: str,
    task: Callable[..., Task],
    summary: str = "",
    *,
    rewards: tuple[Reward, ...] = ("dense",),
    camera: str | None = None,
    expert: Callable[[int | None], Expert] | None = None,
    distance: Callable[[Observation], float] | None = None,
    corrector: Callable[[int | None], Expert] | None = None,
    limits: LimitSettings | None = None,
    practice: bool = False,
) -> None:
    """Make a task of your own known by its name; the arguments are the fields of `Registered`.

    In the process that called this the task is `name`; on the command line it is `module:name`, and the module is imported first.
    """
    if ":" in name or (name in TASKS and name not in _OWN):
        raise ConfigError(f"a task cannot be registered as '{name}': " + ("a name has no colon" if ":" in name else "there is one already"))
    entry = Registered(task, summary, rewards, camera, expert, distance, corrector, lambda: limits or LimitSettings(), practice)
    made = _task(entry, name, None).spec.task
    if made != name:
        raise ConfigError(f"a task is registered as '{name}' and its spec says '{made}': give both the same name")
    TASKS[name] = entry
    _OWN.add(name)


def registered(name: str) -> Registered | None:
    """What is known of a task; None for an environment of Gymnasium's. `module:name` imports the module, which may register it."""
    module, _, alone = name.rpartition(":")
    if not module or is_served(name) or is_http_robot(name):
        return TASKS.get(name)
    with in_environment(name, f"`import {module}`"), contextlib.suppress(ModuleNotFoundError):  # `make_env` reports it
        importlib.import_module(module)
    return TASKS[alone] if alone in _OWN else None


def known_task(name: str) -> Registered | None:
    """The same for somebody who only reads about a run: no module of a user's is imported."""
    module, _, alone = name.rpartition(":")
    return (TASKS[alone] if alone in _OWN else None) if module else TASKS.get(name)


def make_env(
    name: str,
    num_envs: int = 1,
    *,
    reward: Reward | None = None,
    num_threads: int = 0,
    render: bool = False,
    watched: bool = False,
    camera: str | None = None,
    size: tuple[int, int] = (640, 480),
) -> TaskEnv:
    """`num_envs` environments to act in; `reward=None` is the task's own.

    With `render` they can be asked for pictures. `watched` is for row 0, at which people look: it draws itself if it can.
    """
    entry = registered(name)
    if entry is not None:
        task = _task(entry, name, reward)
        from tandem.envs.batch import SimulatedEnv  # needs mujoco.batch

        return SimulatedEnv(task, num_envs, num_threads=num_threads, camera=camera or entry.camera, size=size)
    if is_served(name):
        _refuse_reward(name, reward)
        return open_served(name, num_envs, render=render, watched=watched)
    if is_http_robot(name):
        _refuse_reward(name, reward)
        return _open_http_robot(name, num_envs)
    # an environment that cannot be drawn need not take the argument
    options: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}

    def rows() -> list[gymnasium.Env]:
        first = [make_drawable(name)] if watched and not render and num_envs else []
        return [*first, *(gymnasium.make(name, **options) for _ in range(num_envs - len(first)))]

    env = _gymnasium(name, lambda: GymnasiumEnv(name, rows()))
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


def make_bare(name: str, *, render: bool = False) -> Any:
    """A foreign environment as it is, for somebody who serves it."""
    return _gymnasium(name, lambda: make_environment(name, render))


def spec_for(name: str, look: Callable[[TaskEnv], None] = lambda env: None) -> Spec:
    """The spec of an environment, by its name. `look` sees the environment before it is closed, and may raise."""
    env = make_env(name)
    try:
        look(env)
    finally:
        env.close()
    return env.spec


def make_batch(
    name: str, num_envs: int, *, reward: Reward | None = None, practice: Practice | None = None, num_threads: int = 0
) -> BatchEnv | ForeignBatch | AutoresetEnv:
    """`num_envs` environments that reset in the same step, for PPO; with `practice` they are for learning, not for evaluation."""
    entry = registered(name)
    _refuse_practice(name, entry, practice)
    if entry is not None:
        task = _task(entry, name, reward, practice)
        from tandem.envs.batch import BatchEnv  # needs mujoco.batch

        return BatchEnv(task, num_envs, num_threads=num_threads)
    if is_served(name):
        _refuse_reward(name, reward)
        served = open_served(name, num_envs)
        _refuse_robot(name, served.capabilities.clock == "real", served)
        return AutoresetEnv(served)
    if is_http_robot(name):
        _refuse_robot(name, True, _open_http_robot(name))
    env = _gymnasium(name, lambda: ForeignBatch(name, num_envs))
    _refuse_robot(name, env.metadata.get("clock") == "real", env)
    _refuse_reward(name, reward)
    return env


def make_expert(name: str, seed: int | None = None) -> Expert:
    """The script that can do this task."""
    if is_http_robot(name) and server_kind(name) == "isaac":
        return _late("isaac.expert:LiftExpert")(name, seed)  # only recording needs it
    entry = registered(name)
    if entry is None or entry.expert is None:
        raise ConfigError(
            f"task '{name}' has no scripted operator; tasks that do: {', '.join(tasks_with_expert())}. For any other task give a class of "
            f"your own with --operator module:Class (docs/demonstrations.md)."
        )
    return entry.expert(seed)


def tasks_with_expert() -> tuple[str, ...]:
    return tuple(name for name, entry in TASKS.items() if entry.expert is not None)


def make_corrector(name: str, seed: int | None = None) -> Expert:
    """What a stand-in for a person does at this task when it helps the policy."""
    entry = registered(name)
    return make_expert(name, seed) if entry is None or entry.corrector is None else entry.corrector(seed)


def _task(entry: Registered, name: str, reward: Reward | None, practice: Practice | None = None) -> Task:
    if reward is not None and reward not in entry.rewards:
        raise ConfigError(f"task '{name}' has the reward {' or '.join(entry.rewards)}, got reward={reward!r}")
    options: dict[str, Any] = {"reward": reward or entry.rewards[0]} if len(entry.rewards) > 1 else {}
    try:
        return entry.task(**options, practice=practice) if entry.practice else entry.task(**options)
    except ModuleNotFoundError as problem:
        if not (problem.name or "").startswith("mujoco"):
            raise
        raise ConfigError(f"task '{name}' is simulated with MuJoCo >= 4.0: {problem}. pip install 'mujoco>=4.0'") from None


def _open_http_robot(name: str, num_envs: int = 1) -> TaskEnv:
    if num_envs != 1:
        raise ConfigError(f"'{name}' is one robot, got num_envs={num_envs}")
    return _late(f"{server_kind(name)}.env:open_{server_kind(name)}")(name)  # only such a robot needs it


def _refuse_robot(name: str, real: bool, env: Any) -> None:
    """Rows that reset by themselves have no limits, no rhythm and nobody who stops them."""
    if real:
        env.close()
        raise ConfigError(
            f"environment '{name}' moves a robot (its clock is real), and this command steps many simulations at once: learn "
            f"in a simulation, then use the policy on the robot with `tandem actor {name} --policy RUN --limits FILE --pace realtime`"
        )


def _refuse_practice(name: str, entry: Registered | None, practice: Practice | None) -> None:
    if practice not in (None, Practice()) and (entry is None or not entry.practice):
        able = [known for known, other in TASKS.items() if other.practice]
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
        raise _not_imported(name, problem) from None
    except TandemError:
        raise
    except Exception as problem:
        raise _not_made(name, problem) from problem


def _not_imported(name: str, problem: ModuleNotFoundError) -> ConfigError:
    """Its own module was not found, or a package that its module needs."""
    first = problem.__cause__ if isinstance(problem.__cause__, ModuleNotFoundError) else problem  # Gymnasium raises it anew, unnamed
    module, missing = name.rpartition(":")[0], first.name or ""
    if missing and module != missing and not module.startswith(f"{missing}."):
        return ConfigError(
            f"environment '{name}' needs the package '{missing}', which is not installed in this Python. Install it, or run "
            f"the environment in the Python that has it."
        )
    return UnknownTaskError(
        f"no environment '{name}': its module could not be imported ({problem}). In `module:Id` the module must be installed or on "
        f"PYTHONPATH; for a file in this folder start the command with `PYTHONPATH=. tandem ...`."
    )


def _not_made(name: str, problem: Exception) -> EnvironmentFailed:
    kind = (
        " Tandem takes environments with one agent (`gymnasium.Env`); PettingZoo's have several." if "inherit from" in str(problem) else ""
    )
    return EnvironmentFailed(f"environment '{name}' could not be made: {own_error(problem)}.{kind}")


def _unknown(name: str, detail: str) -> str:
    known = [*TASKS, *gymnasium.registry]
    nearest = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(repr(n) for n in nearest)}? " if nearest else ""
    return f"no task '{name}'. {hint}Tasks: {', '.join(TASKS)}; or a Gymnasium id; or module:Id for your own ({detail})."
