"""From an environment's steps to transitions: the one place where a transition is put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tandem.layouts import ActionLayout
from tandem.types import Observation, Spec, Step, Transition


@dataclass
class EpisodeRecorder:
    """Counts episodes and steps, remembers the last observation, and makes each step a `Transition`.

    Its fields are all the state there is: save them and set them again to go on in the middle of an episode.
    """

    spec: Spec
    source: str
    seq: int = 0
    """Number of the next step; never used twice for one source."""
    episode: int = -1
    step: int = 0
    observation: Observation | None = None
    """The one the next action answers to; None between episodes."""
    began_at: int = 0
    """The first step of the episode: above 0 if it began in the middle of a demonstration."""

    def begin(self, observation: Observation, step: int = 0) -> None:
        """A reset: a new episode begins with this observation, whether or not the last one came to its end."""
        self.observation = _copied(observation, self.spec)
        self.episode += 1
        self.step = self.began_at = step

    def record(
        self, asked: np.ndarray, step: Step, row: int = 0, *, intervened: bool = False, policy_version: int = -1, labelled: bool = False
    ) -> Transition:
        """One row of a step. `asked` is the action that the environment was given; one that it reports as executed is stored instead.

        `labelled`: a person has said whether it was a success, which is then known in any environment.
        """
        if self.observation is None:
            raise ValueError("the episode is over, or has not begun: call begin with the observation of the reset first")
        following = _copied({name: values[row] for name, values in step.observation.items()}, self.spec)
        transition = Transition(
            observation=self.observation,
            action=_clipped(asked if step.executed is None else step.executed[row], self.spec),
            reward=float(step.reward[row]),
            next_observation=following,
            terminated=bool(step.terminated[row]),
            truncated=bool(step.truncated[row]),
            intervened=intervened or (step.intervened is not None and bool(step.intervened[row])),
            success=bool(step.success[row]) if step.success_known or step.success[row] or labelled else None,
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


def _clipped(action: Any, spec: Spec) -> np.ndarray:
    """The action as the environment took it, which clips to [-1, 1]. NaN stays NaN, for the journal to refuse."""
    return ActionLayout.of(spec).clip(np.array(action, np.float32))
