"""Which tasks a learner can learn. Others are refused when a run starts, by the entry or part that is the reason."""

from __future__ import annotations

from collections.abc import Sequence

from tandem.errors import ConfigError
from tandem.types import Discrete, Spec

LARGEST_BLOCK = 1000
"""Numbers of an entry with three axes; more of them are a picture, which a network without convolutions cannot learn from."""


def sees(spec: Spec) -> bool:
    """Whether the task has cameras: a run then needs an encoder (`off_policy.eyes`)."""
    return any(entry.role == "image" for entry in spec.observation.values())


def require_roles(spec: Spec, learner: str, handled: Sequence[str] = ("vector",)) -> None:
    """Refuse a task with an entry that this learner cannot learn from; an entry that is silently left out would look like learning."""
    for name, entry in spec.observation.items():
        if entry.role not in handled:
            raise ConfigError(
                f"{learner} cannot learn from the observation entry '{name}' of '{spec.task}': its role is '{entry.role}' (shape "
                f"{entry.shape} {entry.dtype}), and {learner} handles {', '.join(handled)}. {_why(entry.role)}Leave the entry out of the "
                f"environment, in a wrapper for example."
            )
        if len(entry.shape) == 3 and entry.size > LARGEST_BLOCK and entry.role == "vector":
            raise ConfigError(
                f"{learner} cannot learn from the observation entry '{name}' of '{spec.task}': its shape {entry.shape} {entry.dtype} is "
                f"that of a picture, and pictures are learned from as (height, width, channels) uint8. Hand it out so, or leave it out."
            )
        if entry.dtype != "float32" and entry.role != "features":
            raise ConfigError(
                f"{learner} learns from float32 numbers, and the observation entry '{name}' of '{spec.task}' has dtype {entry.dtype}: "
                f"convert it in the environment, or leave it out."
            )


def _why(role: str) -> str:
    return "`tandem train`, `bc` and `ppo` learn from pictures, which they encode first (docs/pixels.md). " if role == "image" else ""


def require_continuous(spec: Spec, learner: str) -> None:
    """Refuse a task whose action has a part that this learner cannot learn."""
    for part in spec.action:
        if isinstance(part, Discrete):
            raise ConfigError(
                f"{learner} learns continuous actions only, and the action of '{spec.task}' has the discrete part '{part.name}' "
                f"({part.numbered}). Use a task whose action is continuous, or make that part a continuous axis."
            )
