"""Small specs and steps that the tests of this folder share."""

import dataclasses
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from tandem.types import Continuous, Entry, Spec, Transition

SPEC = Spec(
    task="peg",
    observation={"pose": Entry((3,), unit="m", scale=(0.5, 1.0, 2.0)), "touch": Entry((), scale=4.0)},
    action=(Continuous("arm", 2, unit="m", scale=0.01),),
    control_hz=10.0,
    max_episode_steps=50,
    return_range=(0.0, 1.0),
)


def observation(number: float) -> dict[str, np.ndarray]:
    """An observation that says which moment it is of."""
    return {"pose": np.array([number, number + 0.25, -number], np.float32), "touch": np.array(number * 0.5, np.float32)}


def transition(number: int = 0, **changes: Any) -> Transition:
    """Step `number` of a long life: from moment `number` to the next one."""
    plain = Transition(
        observation=observation(number),
        action=np.array([0.5, -0.25], np.float32),
        reward=0.0,
        next_observation=observation(number + 1),
        terminated=False,
        truncated=False,
        step=number,
        source="robot",
        seq=number,
    )
    return dataclasses.replace(plain, **changes)


def episode(length: int, first: int = 0, number: int = 0) -> list[Transition]:
    """`length` steps that end in success."""
    steps = [transition(first + step, step=step, episode=number) for step in range(length)]
    return [*steps[:-1], dataclasses.replace(steps[-1], reward=1.0, terminated=True, success=True)]


def assert_same(one: Transition, other: Transition) -> None:
    for field in dataclasses.fields(Transition):
        np.testing.assert_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)


def in_another_process(function: Callable[..., Any], *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result(timeout=60)
