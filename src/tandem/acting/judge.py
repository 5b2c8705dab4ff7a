"""Evaluations for a campaign: on the selection seeds while a run trains, on the final seeds at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tandem.acting.evaluate import evaluate, has_success
from tandem.acting.policy import act_with, describe
from tandem.runs.campaign import Score
from tandem.seeding import episode_seeds
from tandem.types import PolicySnapshot, Spec


class Judge:
    """Evaluates the policies of one run on its task."""

    def __init__(self, task: str, spec: Spec, seed: int, *, eval_episodes: int, final_episodes: int, eval_stochastic: bool = False) -> None:
        self._task, self._spec, self._seed = task, spec, seed
        self._eval_episodes, self._final_episodes, self._eval_stochastic = eval_episodes, final_episodes, eval_stochastic
        self.each_step: Callable[[], None] = lambda: None
        """Called at every step of an evaluation during training: learning pauses for it, and somebody may have to show that it is alive."""

    def score(self, snapshot: PolicySnapshot) -> Score:
        """For choosing the best policy and for stopping."""
        act = act_with(snapshot, self._spec, self._seed if self._eval_stochastic else None)
        seeds = episode_seeds(self._seed, "selection", self._eval_episodes)
        result = evaluate(self._task, act, seeds, lambda: self.each_step())
        success, returns = float(result.rate.value), float(result.returns.mean())
        if has_success(self._spec):
            return Score(success, returns, float(result.length.mean()), success, f"success {result.rate}")
        return Score(success, returns, float(result.length.mean()), returns, f"return {returns:.1f}")

    def final(self, snapshot: PolicySnapshot) -> dict[str, Any]:
        """The figures to report, on seeds that nothing was chosen by: the most likely actions, and drawn ones."""
        if not self._final_episodes:
            return {}
        return {"deterministic": self.on_final_seeds(snapshot), "stochastic": self.on_final_seeds(snapshot, self._seed)}

    def on_final_seeds(self, snapshot: PolicySnapshot, stochastic_seed: int | None = None) -> dict[str, Any]:
        seeds = episode_seeds(self._seed, "final", self._final_episodes)
        return describe(evaluate(self._task, act_with(snapshot, self._spec, stochastic_seed), seeds), self._spec)
