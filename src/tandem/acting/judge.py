"""Evaluations for a campaign: on the selection seeds while a run trains, on the final seeds at its end.

A simulation of ours is evaluated in many rows at once, which costs little. An environment of somebody else's is stepped alone: 50
episodes of 500 steps may take as long as the training between two evaluations. Its evaluations are therefore bounded by `share` of the
time that was spent training: fewer episodes, but at least `FEWEST`, and none before that much time has passed.

A robot can be had only once, and its actor has it: nothing is evaluated while it trains.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tandem.acting.evaluate import Act, Evaluation, evaluate
from tandem.acting.policy import act_with, describe
from tandem.envs.registry import registered
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError, EnvironmentTaken
from tandem.runs.campaign import Score
from tandem.seeding import episode_seeds
from tandem.types import PolicySnapshot, Spec

FEWEST = 10
"""Episodes of an evaluation, however long they take: fewer say nothing."""
FEWEST_FINAL = 20
"""The same at the end of a run."""


def check_share(share: float) -> None:
    if not 0 <= share <= 1:
        raise ConfigError(f"eval_share must be between 0 and 1, got {share}; 0 sets no bound")


class Judge:
    """Evaluates the policies of one run on its task."""

    def __init__(
        self,
        task: str,
        spec: Spec,
        seed: int,
        *,
        eval_episodes: int,
        final_episodes: int,
        eval_stochastic: bool = False,
        share: float = 0.0,
        trained_s: float = 0.0,
        say: Callable[[str], None] = lambda line: None,
        progress: Callable[[str, int, int], None] = lambda what, have, want: None,
    ) -> None:
        self._task, self._spec, self._seed = task, spec, seed
        self._eval_episodes, self._final_episodes, self._eval_stochastic = eval_episodes, final_episodes, eval_stochastic
        self._say, self._progress = say, progress
        self.each_step: Callable[[], None] = lambda: None
        """Called at every step of an evaluation during training: learning pauses for it, and somebody may have to show that it is alive."""
        self._share = share if registered(task) is None else 0.0
        self._began = self._trained_since = time.monotonic() - trained_s
        self._took = 0.0
        """Seconds of the last evaluation."""
        self._said_rarer = False
        self._taken: EnvironmentTaken | None = None
        """Why no second environment can be had for evaluations, once that is known."""

    def affordable(self) -> bool:
        """Whether the training since the last evaluation was long enough to pay for another one like it; that it was not is said once.

        False also where no evaluation is possible, which was said by the first one.
        """
        if self._taken is not None:
            return False
        if not self._share or self._took <= self._share * (time.monotonic() - self._trained_since):
            return True
        if not self._said_rarer:
            self._said_rarer = True
            self._say(
                f"evaluations are made less often than asked for: the last one took {self._took:.0f} s, more than {self._share:.0%} of the "
                f"training since then (eval_share)"
            )
        return False

    def score(self, snapshot: PolicySnapshot) -> Score:
        """For choosing the best policy and for stopping."""
        act = act_with(snapshot, self._spec, self._seed if self._eval_stochastic else None)
        seeds, trained = episode_seeds(self._seed, "selection", self._eval_episodes), time.monotonic() - self._trained_since
        began = time.monotonic()
        result = self._evaluate("evaluating", act, seeds, FEWEST, trained, self.each_step)
        self._trained_since = time.monotonic()
        self._took = self._trained_since - began
        success, returns, length = float(result.rate.value), float(result.returns.mean()), float(result.length.mean())
        shortened = f" in {len(result.length)} of {len(seeds)} episodes (eval_share)" if len(result.length) < len(seeds) else ""
        if result.success_known:
            return Score(success, returns, length, success, f"success {result.rate}{shortened}")
        return Score(success, returns, length, returns, f"return {returns:.1f}{shortened}", success_known=False)

    def final(self, snapshot: PolicySnapshot) -> dict[str, Any]:
        """The figures to report, on seeds that nothing was chosen by: the most likely actions, and drawn ones."""
        if not self._final_episodes:
            return {}
        try:
            return {"deterministic": self.on_final_seeds(snapshot), "stochastic": self.on_final_seeds(snapshot, self._seed)}
        except EnvironmentTaken as taken:
            self._say(str(taken))
            return {}

    def on_final_seeds(self, snapshot: PolicySnapshot, stochastic_seed: int | None = None) -> dict[str, Any]:
        seeds = episode_seeds(self._seed, "final", self._final_episodes)
        manner = "deterministic" if stochastic_seed is None else "stochastic"
        self._say(f"final evaluation, {manner}: {len(seeds)} episodes{' at most' if self._share else ''}")
        act = act_with(snapshot, self._spec, stochastic_seed)
        spent = (time.monotonic() - self._began) / 2  # two manners share the time
        result = self._evaluate(f"final evaluation, {manner}", act, seeds, FEWEST_FINAL, spent)
        if len(result.length) < len(seeds):
            self._say(
                f"final evaluation, {manner}: ended after {len(result.length)} episodes, which took {self._share:.0%} of the run's time"
            )
        return describe(result, self._spec)

    def _evaluate(
        self, what: str, act: Act, seeds: list[int], fewest: int, trained_s: float, alive: Callable[[], None] = lambda: None
    ) -> Evaluation:
        """Episodes on these seeds; with a share, no more than this part of the seconds of training, but at least `fewest`."""
        began, done = time.monotonic(), 0

        def turn() -> None:
            alive()
            self._progress(what, done, len(seeds))

        def enough(episodes: int) -> bool:
            nonlocal done
            done = episodes
            return bool(self._share) and episodes >= fewest and time.monotonic() - began > self._share * trained_s

        if self._taken is not None:
            raise self._taken
        try:
            return evaluate(self._task, act, seeds, turn, enough, self._require_simulation)
        except EnvironmentTaken as taken:
            self._taken = EnvironmentTaken(
                f"no evaluation: {taken}. The actor has it, and nobody else can use it while the run trains. The run goes on without "
                f"evaluations: look at the training episodes; the latest policy is kept, and `stop_success` cannot be reached. "
                f"Evaluate the policy when the run has ended: tandem eval RUN"
            )
            raise self._taken from None

    def _require_simulation(self, env: TaskEnv) -> TaskEnv:
        """A robot that lets a second program in must not be moved by two."""
        if env.capabilities.clock == "real":
            env.close()
            raise EnvironmentTaken(f"environment '{self._task}' is a robot (its clock is real)")
        return env
