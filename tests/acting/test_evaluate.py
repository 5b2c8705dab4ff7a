import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tandem.acting import evaluate as evaluation
from tandem.acting.evaluate import evaluate, wilson
from tandem.agents.sac_config import SACConfig
from tandem.envs.foreign import GymnasiumEnv
from tandem.envs.registry import spec_for
from tandem.errors import EpisodeLost
from tandem.link.trainer_end import TrainerEnd
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.trainer import Trainer
from tandem.off_policy.trainer_process import RlpdTraining, TrainerLoop
from tandem.runs.board import Board
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.types import Observation, Step
from tests.acting.counter_env import LENGTH, Counter


def test_wilson_interval_by_hand() -> None:
    # 8 of 10, z = 1.96: centre (0.8 + 3.8416 / 20) / (1 + 0.38416) = 0.71674; half 1.96 sqrt(0.016 + 0.009604) / 1.38416 = 0.22658
    interval = wilson(8, 10)
    assert interval.value == 0.8 and interval.low == pytest.approx(0.49016, abs=1e-4) and interval.high == pytest.approx(0.94331, abs=1e-4)
    assert wilson(0, 20).low == 0.0 < wilson(0, 20).high < 0.2 and wilson(20, 20).high == 1.0 > wilson(20, 20).low > 0.8


def towards_the_ball(observation: Observation) -> np.ndarray:
    return np.clip((observation["to_ball"] - observation["command_offset"]) / 0.03, -1, 1)


def test_each_seed_is_one_episode_whatever_stands_beside_it() -> None:
    together = evaluate("reach", towards_the_ball, range(50, 62))
    apart = [evaluate("reach", towards_the_ball, [seed]) for seed in range(50, 62)]
    assert together.success.all() and list(together.length) == [int(one.length[0]) for one in apart]
    assert together.success_length == together.length.mean() < 15


def test_failures_last_to_the_time_out_and_have_no_success_time() -> None:
    result = evaluate("reach", lambda observation: np.zeros((len(observation["to_ball"]), 3)), range(8))
    assert not result.success.any() and (result.length == 30).all() and np.isnan(result.success_length)
    assert result.rate.low == 0.0


def test_every_step_of_an_evaluation_is_a_sign_of_life() -> None:
    turns: list[None] = []
    result = evaluate("reach", towards_the_ball, range(4), lambda: turns.append(None))
    assert len(turns) == result.length.max()
    turns.clear()
    evaluate("Pendulum-v1", lambda observation: np.zeros((1, 1)), [0, 1], lambda: turns.append(None))
    assert len(turns) == 2 * 200


def test_a_trainer_says_that_it_evaluates_as_long_as_it_does(tmp_path: Path) -> None:
    """A page and the doctor call one dead whose heart has not beaten for five seconds; an evaluation may take longer."""
    spec = spec_for("reach")
    config = TrainConfig(task="reach", agent=SACConfig(hidden=(16, 16)), eval_episodes=2)
    run = RunFolder.create(tmp_path / "run", "rlpd", config, spec)
    link = TrainerEnd(run.path, spec)
    trainer = Trainer(config, run, spec, [], Display("quiet"), link)
    loop = TrainerLoop(RlpdTraining(trainer), link)
    loop.beat("training")
    board = Board(run.path)
    before = board["trainer_heartbeat"]
    trainer.evaluate()
    assert board["trainer_heartbeat"] - before >= 30, "once for every step of a policy that knows nothing"
    assert board.phase == "evaluating"
    board.close()
    link.close()
    run.close()


def test_a_foreign_environment_is_judged_by_its_return() -> None:
    result = evaluate("Pendulum-v1", lambda observation: np.zeros((1, 1)), [0, 1])
    assert (result.length == 200).all() and (result.returns < 0).all()


class Losing(GymnasiumEnv):
    """Loses its episode in the steps whose numbers are in `loses`."""

    loses: tuple[int, ...] = ()
    made = 0

    def step(self, action: np.ndarray) -> Step:
        self.made += 1
        step = super().step(action)
        return dataclasses.replace(step, lost=np.ones(1, bool)) if self.made in self.loses else step


@pytest.mark.parametrize(("loses", "fine"), [((2, 5), True), (tuple(range(1, 100)), False)])
def test_a_lost_episode_is_evaluated_again(loses: tuple[int, ...], fine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    env = Losing("counter", [Counter()])
    env.loses = loses
    monkeypatch.setattr(evaluation, "make_env", lambda task, rows: env)
    if fine:
        found = evaluate("counter", lambda observation: np.zeros((1, 1)), [1, 2])
        assert found.length.tolist() == [LENGTH, LENGTH] and found.success.all()
    else:
        with pytest.raises(EpisodeLost, match="5 times"):
            evaluate("counter", lambda observation: np.zeros((1, 1)), [1, 2])
