"""Evaluations in a process of their own: the same scores, and nobody waits."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tandem.acting.examiner import Examination, Examiner
from tandem.acting.judge import Judge
from tandem.agents.sac import SACConfig
from tandem.envs.registry import spec_for
from tandem.errors import EnvironmentFailed, EnvironmentTaken
from tandem.link.trainer_end import TrainerEnd
from tandem.off_policy.campaigns import examiner_for
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.trainer import Trainer
from tandem.off_policy.trainer_process import RlpdTraining, TrainerLoop
from tandem.runs.campaign import Score
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.types import PolicySnapshot

ASKED = Examination("reach", seed=3, eval_episodes=4, eval_stochastic=False, share=0.2)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[TrainerLoop]:
    config = TrainConfig(task="reach", agent=SACConfig(hidden=(16, 16)), eval_episodes=4, final_episodes=0, seed=3, stop_success=0.0)
    run = RunFolder.create(tmp_path / "run", "rlpd", config, spec_for("reach"))
    link = TrainerEnd(run.path, run.spec)
    loop = TrainerLoop(RlpdTraining(Trainer(config, run, run.spec, [], Display("quiet"), link)), link)
    loop.training.begin()
    yield loop
    link.close()
    run.close()


def newest(loop: TrainerLoop) -> PolicySnapshot:
    assert isinstance(loop.training, RlpdTraining)
    return loop.training.trainer.learner.current_policy()


def scored(examiner: Examiner) -> Score:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = examiner.take()
        if found is not None:
            return found
        time.sleep(0.02)
    raise AssertionError("no score in a minute")


def test_a_process_of_its_own_gives_the_same_score(loop: TrainerLoop, tmp_path: Path) -> None:
    snapshot, spec = newest(loop), spec_for("reach")
    expected = Judge("reach", spec, 3, eval_episodes=4, final_episodes=0).score(snapshot)
    examiner = Examiner(ASKED, spec, tmp_path / "here")
    examiner.begin(snapshot)
    assert examiner.busy and examiner.take() is None
    assert scored(examiner) == expected and not examiner.busy
    examiner.begin(snapshot)
    examiner.close()
    assert not examiner.busy and not (tmp_path / "here").exists(), "nothing is left behind, and no process"


def test_one_that_fails_says_why(loop: TrainerLoop, tmp_path: Path) -> None:
    examiner = Examiner(replace(ASKED, task="raech"), spec_for("reach"), tmp_path / "here")
    examiner.begin(newest(loop))
    with pytest.raises(EnvironmentFailed, match=r"'raech' in a process of its own ended with code 1.*reach"):
        scored(examiner)
    assert not examiner.busy


def test_a_trainer_goes_on_while_its_policy_is_evaluated(loop: TrainerLoop) -> None:
    """The row has the clocks of the policy, and an evaluation that counts may still end the run."""
    training, campaign = loop.training, loop.training.campaign
    config, run = TrainConfig(task="reach", eval_episodes=4, seed=3), training.run
    campaign.examiner = examiner_for(config, run)
    training.evaluate()
    assert not [row for row in run.metrics() if "eval/success" in row], "it was only begun"
    training.evaluate()
    loop.await_evaluation("max_steps (1) reached")
    rows = [row for row in run.metrics() if "eval/success" in row]
    assert len(rows) == 1, "one at a time: the second was left out"
    assert rows[0]["learner_step"] == 0 and run.best_policy.exists() and campaign.progress.reached == 1
    assert not (run.path / "examination").exists()


class Scripted:
    """An examiner that answers what it is told to."""

    def __init__(self, answer: Score | Exception | None) -> None:
        self.answer, self.busy, self.begun, self.closed = answer, False, 0, False

    def begin(self, snapshot: PolicySnapshot) -> None:
        self.busy, self.begun = True, self.begun + 1

    def take(self) -> Score | None:
        if isinstance(self.answer, Exception):
            self.busy = False
            raise self.answer
        self.busy = self.answer is None
        return self.answer

    def close(self) -> None:
        self.closed = True


def test_an_interrupted_run_does_not_wait_for_a_score(loop: TrainerLoop) -> None:
    examiner = loop.training.campaign.examiner = Scripted(None)
    loop.training.evaluate()
    assert loop.training.campaign.collect(), "still awaited"
    loop.await_evaluation("interrupted")
    assert examiner.closed


@pytest.mark.parametrize(("problem", "begun"), [(EnvironmentTaken("it is a robot"), 1), (EnvironmentFailed("it fell over"), 2)])
def test_what_is_taken_is_not_asked_for_again_and_what_failed_is(loop: TrainerLoop, problem: Exception, begun: int) -> None:
    examiner = loop.training.campaign.examiner = Scripted(problem)
    for _ in range(2):
        loop.training.evaluate()
        assert not loop.training.campaign.collect()
    assert examiner.begun == begun
