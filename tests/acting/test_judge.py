"""Evaluations that cost too much are made smaller and rarer, which is said; success counts where the environment reports it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.acting import judge as judging
from tandem.acting.evaluate import evaluate
from tandem.acting.judge import FEWEST, Judge
from tandem.acting.policy import act_with, describe
from tandem.envs.registry import spec_for
from tandem.errors import ConfigError
from tandem.off_policy.config import TrainConfig
from tandem.runs.display import summary_table
from tandem.types import PolicySnapshot
from tests.acting.counter_env import steady
from tests.envs.strange_envs import strange_module


@pytest.fixture(scope="module", autouse=True)
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with strange_module(tmp_path_factory.mktemp("strange")):
        yield


class Clock:
    """Seconds that pass only when a test says so, or one for each step of an evaluation."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(judging.time, "monotonic", lambda: self.now)

    def tick(self, what: str, have: int, want: int) -> None:
        self.now += 1.0


def policy(value: float) -> PolicySnapshot:
    """Always the same action, for an observation of three numbers."""
    parameters = dict(steady(value).parameters) | {"trunk/layers/0/weight": np.zeros((3, 4), np.float32)}
    return PolicySnapshot(1, 0, parameters)


def make_judge(task: str, said: list[str], clock: Clock, **options: Any) -> Judge:
    settings = {"eval_episodes": 50, "final_episodes": 50, "share": 0.2} | options
    return Judge(task, spec_for(task), 0, say=said.append, progress=clock.tick, **settings)


def test_an_evaluation_is_made_smaller_and_then_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, said = Clock(monkeypatch), []
    judge = make_judge("strange:Drive-v0", said, clock)
    clock.now = 500.0  # of training; one episode takes 40 s, so 100 s are three of them
    score = judge.score(policy(0.0))
    assert score.outcome.endswith(f"in {FEWEST} of 50 episodes (eval_share)") and clock.now == 500 + FEWEST * 40
    assert not judge.affordable() and not judge.affordable(), "it took 400 s, and nothing was trained since"
    assert len(said) == 1 and "less often than asked for: the last one took 400 s, more than 20%" in said[0]
    clock.now += 1999.0
    assert not judge.affordable()
    clock.now += 1.0
    assert judge.affordable(), "2000 s of training pay for it"


def test_a_cheap_evaluation_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, said = Clock(monkeypatch), []
    judge = make_judge("strange:Drive-v0", said, clock)
    clock.now = 1e6
    assert judge.score(policy(0.9)).outcome == "success 100.0 % [92.9, 100.0]", "150 s of a million"
    clock.now += 1000.0
    assert judge.affordable() and not said
    unbounded = make_judge("strange:Drive-v0", said, clock, share=0.0)
    assert "episodes" not in unbounded.score(policy(0.0)).outcome and unbounded.affordable()


def test_our_own_tasks_are_not_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are stepped many at a time, and a run that is repeated must evaluate as often."""
    clock, said = Clock(monkeypatch), []
    judge = Judge("reach", spec_for("reach"), 0, eval_episodes=1, final_episodes=1, share=0.2, say=said.append)
    clock.now += 1e-9
    judge._took = 1e9
    assert judge.affordable() and not said


def test_the_final_evaluation_is_announced_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, said = Clock(monkeypatch), []
    judge = make_judge("strange:Drive-v0", said, clock)
    clock.now = 100.0
    figures = judge.final(policy(0.0))
    assert [figures[manner]["episodes"] for manner in ("deterministic", "stochastic")] == [20, 20]
    assert said[0] == "final evaluation, deterministic: 50 episodes at most"
    assert said[1] == "final evaluation, deterministic: ended after 20 episodes, which took 20% of the run's time"


def shown(task: str, value: float, tmp_path: Path) -> list[str]:
    spec = spec_for(task)
    result = describe(evaluate(task, act_with(policy(value), spec), range(20)), spec)
    summary = {"task": task, "stopped": "max_steps", "learner_step": 1, "actor_step": 1, "policy_version": 1, "minutes": 1.0}
    table = summary_table(summary | {"deterministic": result}, tmp_path)
    return [f"{name}: {told}" for name, told in zip(table.columns[0].cells, table.columns[1].cells, strict=True)]


def test_no_success_of_twenty_is_said_as_such(tmp_path: Path) -> None:
    assert shown("strange:Drive-v0", 0.0, tmp_path)[0] == "success, deterministic: 0 of 20 (0.0 to 16.1 %)"
    assert shown("strange:Drive-v0", 0.9, tmp_path)[:2] == [
        "success, deterministic: 20 of 20 (83.9 to 100.0 %)",
        "mean time of a success: 0.3 s",
    ]
    assert shown("strange:NoSuccess-v0", 0.9, tmp_path)[0] == "mean return, deterministic: 1.00 (20 episodes)"


def test_policies_are_compared_by_success_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    told = make_judge("strange:Drive-v0", [], clock, eval_episodes=10).score(policy(0.9))
    assert (told.value, told.success_known) == (1.0, True)
    silent = make_judge("strange:NoSuccess-v0", [], clock, eval_episodes=10).score(policy(0.9))
    assert (silent.outcome, silent.value, silent.success_known) == ("return 1.0", 1.0, False)


def test_a_share_beyond_all_time_is_refused() -> None:
    with pytest.raises(ConfigError, match="eval_share must be between 0 and 1, got 20"):
        TrainConfig(eval_share=20)
