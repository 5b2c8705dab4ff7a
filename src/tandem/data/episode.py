"""From an environment's steps to transitions: the one place where a transition is put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tandem.types import Observation, Spec, Transition

_SUCCESS_KEYS = ("success", "succeed", "is_success")
"""How environments spell success in `info`: ours, hil-serl's, Gymnasium-Robotics'."""


@dataclass
class EpisodeRecorder:
    """Counts episodes and steps, remembers the last observation, and makes each step a `Transition`.

    Its fields are all the state there is: save them and set them again to go on in the middle of an episode.
    """

    spec: Spec
    source: str
    seq: int = 0
    """Of the next step; never used twice for one source."""
    episode: int = -1
    step: int = 0
    observation: Observation | None = None
    """The one the next action answers to; None between episodes."""

    def begin(self, observation: Observation) -> None:
        """A reset: a new episode begins with this observation, whether or not the last one came to its end."""
        self.observation = _copied(observation, self.spec)
        self.episode += 1
        self.step = 0

    def record(
        self,
        action: np.ndarray,
        next_observation: Observation,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: Mapping[str, Any] | None = None,
        *,
        intervened: bool = False,
        policy_version: int = -1,
    ) -> Transition:
        """One step of the environment.

        `info["intervene_action"]` says that a person's action was executed in place of `action`; `info["executed_action"]` that
        a wrapper had to change it.
        """
        if self.observation is None:
            raise ValueError("the episode is over, or has not begun: call begin with the observation of the reset first")
        info = info or {}
        replaced = info.get("intervene_action")
        following = _copied(next_observation, self.spec)
        transition = Transition(
            observation=self.observation,
            action=_executed(info.get("executed_action", action) if replaced is None else replaced, self.spec),
            reward=float(reward),
            next_observation=following,
            terminated=bool(terminated),
            truncated=bool(truncated),
            intervened=intervened or replaced is not None,
            success=any(bool(info.get(key, False)) for key in _SUCCESS_KEYS),
            episode=self.episode,
            step=self.step,
            policy_version=policy_version,
            source=self.source,
            seq=self.seq,
        )
        self.observation = None if transition.last else following
        self.seq += 1
        self.step += 1
        return transition


def _copied(observation: Observation, spec: Spec) -> Observation:
    """In the spec's dtypes and in memory of its own: environments may write their next observation over this one."""
    known = spec.observation
    return {name: np.array(value, dtype=known[name].dtype if name in known else None) for name, value in observation.items()}


def _executed(action: Any, spec: Spec) -> np.ndarray:
    """The action as the environment took it, which clips to [-1, 1]. NaN stays NaN, for the journal to refuse."""
    return np.clip(np.array(action, dtype=spec.action.dtype), -1.0, 1.0)
