"""The operators by name: one option for all commands, `--operator`.

browser           a page may take over at any moment (the default: it costs nothing while nobody does)
none              nobody may
person:scripted   a stand-in that corrects with the task's expert; a page may still take over
person:KIND       one with the flaws of people: late, noisy, wrong, inattentive, trigger-happy (`teleop/people.py`)
person:...:asked  one that comes only when the robot asks
spacemouse        a SpaceMouse on the actor's machine takes over when it is moved; a page may too
gamepad           a gamepad on the actor's machine takes over while its shoulder button is held; a page may too
module:Class      a class of your own decides (`teleop.own_operator`); a page may still take over
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tandem.envs.registry import TASKS, make_corrector, registered
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError
from tandem.layouts import ActionLayout
from tandem.seeding import episode_seed
from tandem.teleop.axes import axes_of
from tandem.teleop.devices import Gamepad, SpaceMouse
from tandem.teleop.mapping import Mapping
from tandem.teleop.operator import HandsOff, ResumableOperator
from tandem.teleop.own_operator import is_own, own_operator
from tandem.teleop.people import Flaws, flaws_of, is_person
from tandem.teleop.scripted_person import Manner, ScriptedPerson
from tandem.teleop.steering import Hand, Steering
from tandem.types import Spec

OPERATORS = ("browser", "none", "person:scripted", "spacemouse", "gamepad")
DEVICES = ("spacemouse", "gamepad")


def check_operator(name: str) -> None:
    if is_person(name) and name not in OPERATORS:
        flaws_of(name)
    elif name not in OPERATORS and not is_own(name):
        raise ConfigError(f"no operator '{name}'; there are {', '.join(OPERATORS)}, and module:Class for your own")


def make_operators(
    name: str, env: TaskEnv, seed: int, hand: Hand | None = None, manner: Manner | None = None
) -> tuple[list[ResumableOperator], Steering | None]:
    """One operator for each row, and the first of them if a person may steer it, else None. `hand` is a device on this machine.

    Where nobody may take over (`none`) there are no operators.
    """
    check_operator(name)
    if name == "none":
        return [], None
    inner: list[ResumableOperator] = [HandsOff()] * env.num_envs
    if is_person(name):
        inner = list(scripted_people(env.spec, env.num_envs, seed, manner, flaws_of(name)))
    elif is_own(name):
        inner = [own_operator(name, env, seed, row) for row in range(env.num_envs)]
    steering = Steering(ActionLayout.of(env.spec), inner[0], hand)
    return [steering, *inner[1:]], steering


def scripted_people(spec: Spec, count: int, seed: int, manner: Manner | None = None, flaws: Flaws | None = None) -> list[ScriptedPerson]:
    """One for each robot, each with a random stream of its own."""
    return [
        ScriptedPerson(
            make_corrector(spec.task, episode_seed(seed, "correction", row)),
            distance_of(spec.task),
            spec.max_episode_steps,
            (seed, 3, row),
            manner,
            flaws,
            spec.control_hz,
            ~ActionLayout.of(spec).is_discrete,
        )
        for row in range(count)
    ]


def distance_of(task: str) -> Callable[..., float]:
    """The distance to the goal, from one robot's observation."""
    entry = registered(task)
    if entry is None or entry.distance is None:
        known = ", ".join(name for name, entry in TASKS.items() if entry.distance is not None)
        raise ConfigError(f"there is no scripted person for '{task}'; there is one for {known}")
    return entry.distance


def open_hand(name: str, spec: Spec, mapping: Path | None = None) -> Hand | None:
    """The device of an operator that is one on this machine, else None."""
    check_operator(name)
    if name not in DEVICES:
        return None
    table = Mapping.load(axes_of(ActionLayout.of(spec)), mapping)
    return SpaceMouse(table) if name == "spacemouse" else Gamepad(table)
