"""PPO with a camera: features are numbers like any others, what an episode ended with is seen before the reset, and a resume is exact."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tandem.acting.evaluate import evaluate
from tandem.acting.policy import act_with, load_any_policy, load_policy
from tandem.agents.ppo_config import PPOConfig
from tandem.envs.registry import make_batch, make_env
from tandem.errors import ConfigError
from tandem.networks.encoders.encoder import Encoder
from tandem.on_policy import eyes
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.run import train_ppo
from tandem.programs.export import export
from tandem.runs.checkpoint import newest_checkpoint, read_checkpoint
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tests.seeing_task import SEEING

TASK = "tests.seeing_task:seeing_reach"
SMALL = OnPolicyConfig(
    task=TASK,
    agent=PPOConfig(actor_hidden_dims=(16,), critic_hidden_dims=(16,), num_learning_epochs=1, num_mini_batches=2),
    num_envs=4,
    num_steps_per_env=6,
    max_iterations=2,
    save_interval=1,
    eval_period=0,
    final_episodes=2,
    obs_normalization=True,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "whole"
    train_ppo(SMALL, path, Display("quiet"))
    return path


def test_a_run_sees_its_features_as_numbers_and_its_policy_acts_from_pictures(run: Path, tmp_path: Path) -> None:
    entry = RunFolder.open(run).spec.observation["eye"]
    assert (entry.shape, entry.dtype, entry.role, entry.picture) == ((2 * 2 * 32,), "float32", "vector", (32, 32, 3))
    assert "to_ball" not in RunFolder.open(run).spec.observation
    snapshot, spec = load_policy(run, "latest")
    assert spec.without_encoder().hash == SEEING.without_encoder().hash and "encoder/components" in snapshot.parameters
    assert evaluate(TASK, act_with(snapshot, spec), seeds=[1, 2]).length.min() >= 1
    done = export(run, tmp_path / "policy.onnx", "latest")
    assert "eye" in done.inputs
    chosen, own = load_any_policy(tmp_path / "policy.onnx", spec=SEEING)
    env = make_env(TASK, 2)
    observation = env.reset(seeds=[0, 1])
    assert observation["eye"].dtype == np.uint8
    assert np.abs(act_with(chosen, own)(observation) - act_with(snapshot, spec)(observation)).max() < 1e-4
    env.close()


def test_two_iterations_equal_one_and_resume_and_one_bit_for_bit(run: Path, tmp_path: Path) -> None:
    train_ppo(dataclasses.replace(SMALL, max_iterations=1), tmp_path / "parts", Display("quiet"))
    train_ppo(SMALL, tmp_path / "parts", Display("quiet"), resume=True)
    whole, parts = (dict(read_checkpoint(newest_checkpoint(path / "checkpoints")).agent) for path in (run, tmp_path / "parts"))
    assert whole.keys() == parts.keys() and all(np.array_equal(whole[name], parts[name]) for name in whole)


def test_what_an_episode_ended_with_is_not_what_the_next_one_begins_with(run: Path) -> None:
    encoder = Encoder.read(RunFolder(run).encoder_file)
    batch, plain = eyes.EncodedBatch(make_batch(TASK, 2), encoder), make_batch(TASK, 2)
    batch.reset(seed=[3, 4])
    plain.reset(seed=[3, 4])
    action, ended = np.full((2, 3), 0.3, np.float32), np.zeros(2, bool)
    while not ended.any():
        seen, _, terminated, truncated, info = batch.step(action)
        pictured, *_, plain_info = plain.step(action)
        ended = terminated | truncated
    row = int(np.flatnonzero(ended)[0])
    for found, picture in ((info["final_obs"]["eye"], plain_info["final_obs"]["eye"]), (seen["eye"], pictured["eye"])):
        assert np.array_equal(found[row], encoder.encode(picture[row : row + 1]).reshape(-1).astype(np.float32))
    assert not np.array_equal(info["final_obs"]["eye"][row], seen["eye"][row])
    batch.close()
    plain.close()


def test_rollouts_that_do_not_fit_are_refused_before_there_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eyes, "free_memory", lambda: 10_000)
    with pytest.raises(ConfigError, match=r"rollouts of 'seeing_reach' take .*lower --num-envs or --num-steps-per-env"):
        train_ppo(SMALL, tmp_path / "run", Display("quiet"))
    assert not (tmp_path / "run").exists()
