"""PPO with recurrent networks as a run: it learns what needs memory, resets hidden states at episode ends, and resumes exactly."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.acting.evaluate import evaluate
from tandem.acting.policy import PolicyOperator, act_with, load_policy
from tandem.agents.ppo_config import PPOConfig
from tandem.envs.registry import make_batch, make_env
from tandem.errors import ConfigError
from tandem.networks.gaussian import LOG_SQRT_2PI
from tandem.networks.numpy_recurrent import NumpyRecurrent
from tandem.off_policy.recipes import RECIPES
from tandem.off_policy.sync import train
from tandem.on_policy import run as ppo_run
from tandem.on_policy.collector import reset_memory
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.presets import PRESETS
from tandem.on_policy.run import OnPolicyRun, train_ppo
from tandem.programs.record import play_episode
from tandem.runs.checkpoint import newest_checkpoint, read_checkpoint
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder

NETWORK = PPOConfig(
    actor_hidden_dims=(16,), critic_hidden_dims=(16,), num_learning_epochs=2, num_mini_batches=2, actor_rnn_type="lstm",
    critic_rnn_type="gru", actor_rnn_hidden_dim=8, critic_rnn_hidden_dim=8, normalize_values=True,
)  # fmt: skip
SMALL = OnPolicyConfig(
    task="recall",
    agent=NETWORK,
    num_envs=8,
    num_steps_per_env=16,
    max_iterations=4,
    eval_period=0,
    final_episodes=0,
    obs_normalization=True,
)


def quiet() -> Display:
    return Display("quiet")


def parts_of(config: OnPolicyConfig, path: Path) -> OnPolicyRun:
    env = make_batch(config.task, config.num_envs)
    run = RunFolder.create(path, "ppo", config, env.task_spec)  # pyright: ignore[reportAttributeAccessIssue]
    parts = OnPolicyRun(config, run, env, quiet())
    parts.collector.begin()
    return parts


def recall_with(kind: Any, **settings: Any) -> OnPolicyConfig:
    preset = PRESETS["recall"]()
    return replace(preset, task="recall", agent=replace(preset.agent, actor_rnn_type=kind, critic_rnn_type=kind), **settings)


# ---- it learns what needs memory


@pytest.fixture(scope="module")
def recall_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "lstm"
    train_ppo(recall_with("lstm", final_episodes=200), path, quiet())
    return path


def test_an_lstm_recalls_and_evaluates_the_same_whenever_asked(recall_run: Path) -> None:
    rows = RunFolder.open(recall_run).metrics()
    assert all(row["Policy/first_ratio_error"] == 0.0 for row in rows if "Loss/value" in row)
    snapshot, spec = load_policy(recall_run)
    act = act_with(snapshot, spec)
    first, again = evaluate("recall", act, range(200)), evaluate("recall", act, range(200))
    assert first.rate.value >= 0.95
    assert np.array_equal(first.success, again.success) and np.array_equal(first.returns, again.returns), "nothing is left over"


def test_a_gru_recalls(tmp_path: Path) -> None:
    assert train_ppo(recall_with("gru", final_episodes=200), tmp_path / "run", quiet())["deterministic"]["success"] >= 0.95


def test_without_recurrent_layers_it_stays_a_guess(tmp_path: Path) -> None:
    """As many iterations as either of the others may take. 400 episodes with a chance of 1/4: 100 ± 4 · 8.7."""
    summary = train_ppo(recall_with("none", final_episodes=400, stop_success=None), tmp_path / "run", quiet())
    assert summary["learner_step"] == PRESETS["recall"]().max_iterations
    assert 65 <= summary["deterministic"]["successes"] <= 135


def test_a_recurrent_policy_may_see_less_than_a_feed_forward_critic(tmp_path: Path) -> None:
    """A pole of which only positions are seen falls unless the velocity is worked out from what was seen before."""
    preset = PRESETS["cartpole"]()
    agent = replace(preset.agent, actor_rnn_type="gru", actor_rnn_hidden_dim=32, actor_hidden_dims=(32,))
    config = replace(preset, task="cartpole", agent=agent, actor_entries=("position",), eval_period=0, final_episodes=20, max_iterations=60)
    summary = train_ppo(config, tmp_path / "run", quiet())
    agent_state = read_checkpoint(newest_checkpoint(tmp_path / "run" / "checkpoints")).agent
    assert agent_state["actor/rnn/0/input_weight"].shape[0] == 2 and agent_state["critic/network/trunk/layers/0/weight"].shape[0] == 4
    assert summary["deterministic"]["return"] >= 450, "without memory, 235 to 335 after as many iterations"


# ---- hidden states


def log_probability(actions: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    return -(0.5 * np.square((actions - mean) / std) + np.log(std) + LOG_SQRT_2PI).sum(axis=-1)


@pytest.mark.parametrize("few", [64, 0], ids=["numpy", "jax"])
def test_the_update_sees_the_probabilities_that_actions_were_drawn_with(few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Log-probabilities to 1e-5 through episodes that begin and end at any step, over three rollouts with an update between them."""
    monkeypatch.setattr(ppo_run, "NUMPY_ROWS", few)
    parts = parts_of(replace(SMALL, init_at_random_ep_len=True), tmp_path / "run")
    ends, ones = 0, np.ones((8, 2), np.float32)
    for _ in range(3):
        drawn, inner = [], parts.act()

        def act(x: np.ndarray, noise: np.ndarray, memory: np.ndarray, inner: Any = inner, drawn: list = drawn) -> Any:
            actions, after = inner(x, noise, memory)
            mean = inner(x, 0 * ones, memory)[0]
            drawn.append(log_probability(actions, mean, inner(x, ones, memory)[0] - mean))
            return actions, after

        rollout = parts.collector.collect(act)
        ends += rollout.ended[:-1].sum()
        estimate = parts.estimator.compute(parts.state, rollout, parts.collector.observations)
        parts.state, samples = estimate.state, estimate.samples
        seen = log_probability(samples.actions, np.asarray(samples.old.mean), np.asarray(samples.old.std))
        np.testing.assert_allclose(seen, np.concatenate(drawn), atol=1e-5)
        assert parts._update(estimate)["Policy/first_ratio_error"] == 0.0
    assert ends >= 8 and rollout.memory.any(), "episodes must have ended, and others gone on from rollout to rollout"


def test_values_use_the_hidden_state_of_their_step_and_do_not_advance_it(tmp_path: Path) -> None:
    """All values of three rollouts by hand, from one memory that is led through what was seen, once.

    Time runs out in each row at a step of its own: what was cut is valued with the memory of that step, the next step with none.
    """
    parts = parts_of(replace(SMALL, agent=replace(NETWORK, normalize_values=False, gamma=0.9, lam=0.0)), tmp_path / "run")
    parts.collector.env.set_elapsed(np.arange(24, 32))  # pyright: ignore[reportAttributeAccessIssue]
    critic, memory = parts.state.critic, np.zeros((8, parts.agent.memory_sizes[1]), np.float32)
    cuts = 0
    for _ in range(3):
        rollout = parts.collector.collect(parts.act())
        cut = {(t, row): seen for t, row, seen in zip(*rollout.cuts(), strict=True)}
        following = np.zeros(rollout.rewards.shape, np.float32)
        for t in range(16):
            _, after = critic.step(rollout.observations[t], memory)
            memory = reset_memory(np.asarray(after), rollout.ended[t])
            upcoming = rollout.observations[t + 1] if t < 15 else parts.collector.observations
            following[t] = parts.agent.values(critic, upcoming, memory)
            for row in np.flatnonzero(rollout.truncated[t]):
                following[t, row] = parts.agent.values(critic, cut[t, row][None], np.asarray(after)[row : row + 1])[0]
        estimate = parts.estimator.compute(parts.state, rollout, parts.collector.observations)
        parts.state, samples = estimate.state, estimate.samples
        expected = rollout.rewards + 0.9 * np.where(rollout.terminated, 0, following)  # λ = 0: the return is r + γ V(next)
        np.testing.assert_allclose(samples.returns.reshape(16, 8), expected, atol=1e-5)
        np.testing.assert_allclose(parts.estimator.critic_memory, memory, atol=1e-5)
        cuts += len(cut)
    assert cuts == 8 and rollout.terminated.any(), "each by time once, and then by its answer"


def test_the_hidden_state_is_reset_at_every_end_of_an_episode(tmp_path: Path) -> None:
    parts = parts_of(SMALL, tmp_path / "run")
    parts.collector.env.set_elapsed(np.array([39] + [0] * 7))  # pyright: ignore[reportAttributeAccessIssue]
    given, inner = [], parts.act()

    def act(x: np.ndarray, noise: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        given.append(memory.any(axis=1))
        return inner(x, noise, memory)

    ended = [np.ones(8, bool)]
    for _ in range(3):
        rollout = parts.collector.collect(act)
        ended.extend(rollout.ended)
    assert np.array_equal(np.array(given), ~np.array(ended[:-1])), "the hidden state is zero at the first step of an episode alone"
    ended = np.array(ended[1:])
    assert ended[0].tolist() == [True] + [False] * 7 and ended[1:].any(), "the first by time, others by their answer"


# ---- acting


def test_a_loaded_policy_starts_every_episode_with_a_new_hidden_state(recall_run: Path) -> None:
    """As a film or a recording plays them, one after the other: what an evaluation of the same seeds says, and no other row."""
    snapshot, spec = load_policy(recall_run)
    operator, env = PolicyOperator(snapshot, spec), make_env("recall")
    result = evaluate("recall", act_with(snapshot, spec), range(12))
    for seed in range(12):
        episode = play_episode(env, operator, seed)
        assert (len(episode), episode[-1].success) == (result.length[seed], result.success[seed])
    act = act_with(snapshot, spec, stochastic_seed=0)
    assert evaluate("recall", act, range(300)).rate.value >= 0.7, "with noise, in three batches of rows"


def test_a_memory_of_other_rows_is_refused(recall_run: Path) -> None:
    snapshot, spec = load_policy(recall_run)
    act = act_with(snapshot, spec)
    seen = {name: np.zeros((3, *entry.shape), np.float32) for name, entry in spec.observation.items()}
    act(seen)
    with pytest.raises(Exception, match=r"each of 2 rows, got a memory of shape \(3, 64\)"):
        act({name: values[:2] for name, values in seen.items()})
    act.reset()
    act({name: values[:2] for name, values in seen.items()})


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    return np.array_equal(one, other)


def test_twice_n_iterations_are_n_and_a_resume_and_n_to_the_last_bit(tmp_path: Path) -> None:
    train_ppo(SMALL, tmp_path / "whole", quiet())
    train_ppo(replace(SMALL, max_iterations=2), tmp_path / "parts", quiet())
    train_ppo(SMALL, tmp_path / "parts", quiet(), resume=True)
    whole, parts = (read_checkpoint(newest_checkpoint(tmp_path / path / "checkpoints")) for path in ("whole", "parts"))
    assert all(np.array_equal(whole.agent[name], parts.agent[name]) for name in whole.agent)
    assert all(equal(whole.loops[name], parts.loops[name]) for name in whole.loops)
    for memory in (whole.loops["collector"]["memory"], whole.loops["critic_memory"]):
        assert memory.any(), "there must be something in the middle of an episode to go on with"


def test_rlpd_does_not_start_from_a_recurrent_policy(recall_run: Path, tmp_path: Path) -> None:
    config = replace(RECIPES["reach"](), task="recall", max_steps=5)
    with pytest.raises(ConfigError, match=r"RLPD cannot start from the policy of .*recurrent layers.*policy:"):
        train(config, tmp_path / "run", quiet(), init_from=recall_run)
    assert not (tmp_path / "run").exists()


def test_environments_that_do_not_divide_into_mini_batches_are_refused_before_anything_is_made() -> None:
    with pytest.raises(
        ConfigError, match=r"num_envs = 8 environments do not divide into num_mini_batches = 16 equal parts: some would be empty"
    ):
        replace(SMALL, agent=replace(NETWORK, num_mini_batches=16))
    with pytest.raises(ConfigError, match=r"num_mini_batches = 3 equal parts: 2 of them would never be learned from.*fit: 1, 2, 4"):
        replace(SMALL, agent=replace(NETWORK, num_mini_batches=3), num_steps_per_env=15)
    replace(SMALL, agent=replace(NETWORK, num_mini_batches=16, actor_rnn_type="none", critic_rnn_type="none"))  # 128 samples, one by one


def test_the_policy_file_has_everything_needed_to_act(recall_run: Path) -> None:
    parameters = load_policy(recall_run)[0].parameters
    policy = NumpyRecurrent(parameters)
    shapes = {name: array.shape for name, array in parameters.items() if name.startswith("rnn")}
    assert shapes == {"rnn_type": (), "rnn/0/input_weight": (3, 128), "rnn/0/hidden_weight": (32, 128), "rnn/0/bias": (128,)}
    assert policy.memory_size == 64 and policy.action_dim == 2
