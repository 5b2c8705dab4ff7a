"""Dense rewards: the sparse one, less what each step costs.

    reward = success - sum of weight * cost        every cost is between 0 (as good as can be) and 1

Costs, never gifts: who is paid for being near the goal learns to stay near it, and never finishes. What is left undone costs less
and less on the way to success, and at success the episode ends and with it the costs. A reward may know what the policy does not
see (the true pose, the true phase): it is there while training in simulation only.

A task with a dense reward is the same task: observations, physics and random streams are those of the sparse one, bit for bit, and
so is the hash of its spec. Only the range of its return differs, and data recorded with one reward is refused by the other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

import numpy as np

from tandem.envs.task import Judgement
from tandem.types import Spec

Reward = Literal["sparse", "dense"]


def shaped(spec: Spec, weights: Mapping[str, float], lost: float = 0.0) -> Spec:
    """At worst everything costs its most all the time, and `lost` at the end; at best nothing ever does, and the task succeeds."""
    return dataclasses.replace(spec, return_range=(-spec.max_episode_steps * sum(weights.values()) - lost, 1.0))


def judged(
    success: np.ndarray,
    costs: Mapping[str, np.ndarray],
    weights: Mapping[str, float],
    lost: np.ndarray | None = None,
    loss: float = 0.0,
) -> Judgement:
    """The judgement of a task that ends with its success; `costs` are within [0, 1].

    A task that can also end without it says where (`lost`) and what that costs: less than the steps that it saves, and giving up pays.
    """
    terms = {"success": success.astype(float)} | {name: -weights[name] * cost for name, cost in costs.items()}
    terminated = success
    if lost is not None:
        terms["lost"] = -loss * lost
        terminated = success | lost
    return Judgement(reward=np.sum(list(terms.values()), axis=0), terminated=terminated, success=success, terms=terms)
