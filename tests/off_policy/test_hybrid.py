"""The whole loop with a discrete part: demonstrations, a cloned start, training, a resumed run, a policy that acts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tandem.acting.policy import act_with, load_policy
from tandem.agents.bc import BCConfig
from tandem.agents.sac_config import SACConfig
from tandem.data.journal import Journal
from tandem.envs.registry import make_env, spec_for
from tandem.off_policy.cloning import CloneArgs, clone_demos
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.sync import train
from tandem.programs.record import record_demos
from tandem.runs.checkpoint import newest_checkpoint, read_checkpoint
from tandem.runs.display import Display
from tests.grasp_task import Presses, odd_tasks  # noqa: F401  a fixture

QUIET = Display("quiet")
CONFIG = TrainConfig(
    task="grasp",
    agent=SACConfig(
        hidden=(8,), n_step=3, return_bound="all", demo_imitation=1.0, actor_average=0.01, grasp_ensemble_size=2, grasp_temperature=0.02
    ),
    batch_size=16,
    training_starts=10,
    steps_per_update=10,
    eval_period=0,
    final_episodes=0,
    num_envs=2,
    updates_per_actor_step=0.5,
    clone_steps=100,
)


@pytest.fixture
def demos(odd_tasks: None, tmp_path: Path) -> Path:  # noqa: F811
    return record_demos(make_env("grasp"), Presses(0), 6, tmp_path / "demos", seed=0)


def test_a_run_with_a_gripper_is_resumed_bit_for_bit_and_stores_choices(demos: Path, tmp_path: Path) -> None:
    config = replace(CONFIG, demos=(demos,))
    train(replace(config, max_steps=40), tmp_path / "whole", QUIET)
    train(replace(config, max_steps=20), tmp_path / "parts", QUIET)
    train(replace(config, max_steps=40), tmp_path / "parts", QUIET, resume=True)
    whole, parts = (dict(read_checkpoint(newest_checkpoint(tmp_path / run / "checkpoints")).agent) for run in ("whole", "parts"))
    assert whole.keys() == parts.keys() and any(name.startswith("grasp/target/") for name in whole)
    for name in whole:
        assert np.array_equal(whole[name], parts[name]), name
    with Journal.open(tmp_path / "whole" / "journal.db") as journal:
        actions = np.stack([step.action for _, step in journal.read()])
        assert len(actions) == journal.last_ord(), "none was rejected"
    assert actions.shape[1] == 4 and set(actions[:, 3].tolist()) <= {0.0, 1.0, 2.0}
    snapshot, spec = load_policy(tmp_path / "whole", which="latest")
    env = make_env("grasp", 3)
    acted = act_with(snapshot, spec)(env.reset(seeds=[1, 2, 3]))
    assert acted.shape == (3, 4) and set(acted[:, 3].tolist()) <= {0.0, 1.0, 2.0}


def test_a_clone_presses_as_it_was_shown(demos: Path, tmp_path: Path) -> None:
    args = CloneArgs("grasp", (demos,), BCConfig(learning_rate=3e-3, min_steps=1000, max_steps=1000), hidden=(32,), final_episodes=0)
    clone_demos(args, tmp_path / "bc", QUIET)
    snapshot, spec = load_policy(tmp_path / "bc", which="latest")
    with Journal.open(demos) as journal:
        steps = [step for _, step in journal.read()]
    act = act_with(snapshot, spec)
    chosen = act({name: np.stack([step.observation[name] for step in steps]) for name in spec_for("grasp").observation})[:, 3]
    shown = np.array([step.action[3] for step in steps])
    assert {0.0, 1.0} == set(shown.tolist()) and np.mean(chosen == shown) > 0.9
