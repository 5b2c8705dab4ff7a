"""What goes round between robot and learner, with shapes, units and meaning: steps, transitions, batches, policies.

The description of a task (`Spec`) is in `spec.py`; its names are those of this vocabulary too.
A batch of anything has the same names with one more axis in front.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from tandem.spec import ActionPart as ActionPart
from tandem.spec import Continuous as Continuous
from tandem.spec import Discrete as Discrete
from tandem.spec import Entry as Entry
from tandem.spec import Spec as Spec
from tandem.spec import Symmetry as Symmetry
from tandem.spec import bounds as bounds
from tandem.spec import environment_id as environment_id

Observation = dict[str, np.ndarray]
"""Named entries; `(*shape)` each for one robot, `(N, *shape)` for N of them."""


def first_row(observation: Observation) -> Observation:
    """One robot's observation, of an environment that has one row."""
    return {name: values[0] for name, values in observation.items()}


Metrics = dict[str, float]
"""What a loop reports: a name such as `critic/critic_loss` and one number."""

OBSERVATION_CLIP = 5.0
"""Scaled observations (value / scale) are clipped to plus and minus this."""


@dataclass(frozen=True)
class Step:
    """One step of N environments: every array has one row for each of them."""

    observation: Observation
    """What the step led to. An environment that ended is reset by a call of its own, never inside of its last step."""
    reward: np.ndarray
    """(N,) float64"""
    terminated: np.ndarray
    """(N,) bool: the task ended here (success, failure)."""
    truncated: np.ndarray
    """(N,) bool: the episode was cut off (time limit)."""
    success: np.ndarray
    """(N,) bool: reported by the task, on the step that achieved it."""
    executed: np.ndarray | None = None
    """(N, action_dim) float32: the actions that the robots really executed, in the agent's units and frame. None: exactly as asked."""
    intervened: np.ndarray | None = None
    """(N,) bool: a person on the environment's own side chose the executed action. None: nobody did."""
    reward_terms: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The parts of the reward by name, (N,) each, where it has any."""
    seconds: float = 0.0
    """Wall time that the step took, as the environment measured it."""
    lost: np.ndarray | None = None
    """(N,) bool: no step was made in this row, for its episode is gone (a served environment was restarted): it is cut off after the
    step before, and what this row shows is not a transition. None: no row is lost."""
    success_known: bool = True
    """Whether the environment reports success at all. False: `success` is always False, and only the return can be judged."""

    @property
    def ended(self) -> np.ndarray:
        """The row has to be reset before its next step."""
        ended = self.terminated | self.truncated
        return ended if self.lost is None else ended | self.lost


@dataclass(frozen=True)
class Transition:
    """One step of the environment, whole in itself: it keeps its own next observation."""

    observation: Observation
    action: np.ndarray
    """The action that was *executed*, after clipping, in the agent's frame: one vector (`layouts.ActionLayout`)."""
    reward: float
    next_observation: Observation
    terminated: bool
    """The task ended here (success, failure): there is no future to value."""
    truncated: bool
    """The episode was cut off by time: bootstrap from `next_observation`."""
    intervened: bool = False
    """A person (or a script standing in for one) chose this action."""
    success: bool | None = False
    """Reported by the task, on the step that achieved it. None: this environment does not report success (`Step.success_known`)."""
    episode: int = 0
    step: int = 0
    policy_version: int = -1
    """The policy that proposed the action; -1 where there was none (a demonstration, a random step)."""
    source: str = ""
    """The process that made the step; (source, seq) is globally unique."""
    seq: int = -1
    tag: str = ""
    """Why the person who chose this action took over (`teleop.ask.TAGS`); empty where nobody said."""

    @property
    def last(self) -> bool:
        return self.terminated or self.truncated

    @property
    def corrected(self) -> bool:
        """A person put this action in the place of one that a policy had proposed; in a demonstration there was none to correct."""
        return self.intervened and self.policy_version >= 0


Array = Any
"""NumPy's on the host, JAX's inside a jitted function."""


class Blamed(NamedTuple):
    """Rows after which a person took over, and what they did there."""

    weights: Array
    """(...) float32: how much of the blame is this row's; 0 where nobody took over soon after."""
    observations: Array
    """(..., D) float32, where the person took over."""
    actions: Array
    raw: dict[str, Array]


class Batch(NamedTuple):
    """Transitions for one or more updates, as arrays with the axes (batches, rows, ...)."""

    observations: Array
    """(..., D) float32: the float entries, scaled, clipped and side by side (`layouts.Layout`)."""
    actions: Array
    """(..., action_dim) float32"""
    rewards: Array
    """(...) float32: of the step; with `n_step` above 1 the discounted sum over the steps that follow each other."""
    masks: Array
    """(...) float32: 1 - terminated; over k steps times discount^(k - 1). A time-out keeps its mask, so its future is valued."""
    next_observations: Array
    """(..., D) float32: after the last step of the sum."""
    imitation: Array = None
    """(...) float32: how much the policy should imitate this action. None: nothing is imitated."""
    bounds: Array = None
    """(...) float32: the least that the target may be, the return that followed; -inf where it is not known. None: no bounds."""
    switches: Array = None
    """(...) float32: how often a discrete part was told something new, discounted and summed like the rewards. None: no discrete part."""
    switches_ahead: Array = None
    """(...) float32: the same to the end of the episode, where that is known."""
    blamed: Blamed | None = None
    """None: nothing is blamed for a take-over."""
    raw: dict[str, Array] = {}  # noqa: RUF012 (never written to)
    """Entries of another dtype than float32 (images), by name, as they are."""
    next_raw: dict[str, Array] = {}  # noqa: RUF012


@dataclass(frozen=True)
class ForeignPolicy:
    """A policy that somebody acts with and that this run never published."""

    hash: str
    version: int = -1
    """Versions are counted by the run that learns; this policy has none."""


PolicyKind = Literal["tanh_gaussian", "gaussian", "recurrent_gaussian"]
"""tanh_gaussian: RLPD's and a clone's, squashed by tanh. gaussian: PPO's, clipped. recurrent_gaussian: PPO's with memory."""


@dataclass(frozen=True)
class PolicySnapshot:
    """A policy as it is published: everything that acting needs, and which one it is."""

    version: int
    """Publications so far; persisted before it is used, never used twice."""
    learner_step: int
    parameters: Mapping[str, np.ndarray]
    """The acting parameters only, by name; no critics, no optimiser."""
    kind: PolicyKind = "tanh_gaussian"

    @functools.cached_property
    def hash(self) -> str:
        """Equal for equal parameters, whatever their version."""
        digest = hashlib.sha256()
        for name in sorted(self.parameters):
            array = np.asarray(self.parameters[name], order="C")
            digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()[:16]
