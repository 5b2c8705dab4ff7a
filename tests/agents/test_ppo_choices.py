"""PPO with discrete parts beside the axes of an action: the numbers of the distributions, the update, and the same policy in NumPy."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem.acting.policy import load_policy, numpy_policy
from tandem.agents.packing import Samples, Sequences
from tandem.agents.ppo import PPO
from tandem.agents.ppo_config import PPOConfig
from tandem.agents.recurrent_ppo import RecurrentPPO
from tandem.agents.sac_config import SACConfig
from tandem.errors import ConfigError
from tandem.networks import categorical
from tandem.networks.choices import Choices
from tandem.networks.numpy_gaussian import NumpyGaussian
from tandem.networks.numpy_recurrent import NumpyRecurrent
from tandem.networks.onnx_policy import from_bytes
from tandem.off_policy.transfer import starting_policy
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.run import train_ppo
from tandem.programs.export import TOLERANCE, compare, onnx_bytes, probes
from tandem.runs.display import Display
from tests.grasp_task import GRASP, odd_tasks  # noqa: F401  a fixture

CHOICES = Choices(columns=(1, 4), sizes=(3, 2))
"""A gripper between three axes, and a switch behind them."""
ACTION, OBSERVATION, STEPS, ENVS = 5, 4, 6, 4
SMALL = PPOConfig(num_learning_epochs=2, num_mini_batches=2, actor_hidden_dims=(16,), critic_hidden_dims=(8,), learning_rate=1e-2)
RECURRENT = dataclasses.replace(SMALL, actor_rnn_type="gru", actor_rnn_hidden_dim=8)
RANDOM = np.random.default_rng(0)


def some_logits() -> tuple[np.ndarray, np.ndarray]:
    old, new = RANDOM.normal(0, 1.5, (2, 50, CHOICES.total)).astype(np.float32)
    return old, new


def probabilities(logits: np.ndarray) -> list[np.ndarray]:
    """Of each part, in float64."""
    parts = [np.exp(logits[:, part].astype(float)) for part in CHOICES.parts]
    return [odds / odds.sum(axis=1, keepdims=True) for odds in parts]


def test_entropy_kl_and_ratio_are_those_of_the_sums_over_all_choices() -> None:
    old, new = some_logits()
    chosen = np.stack([RANDOM.integers(0, size, len(old)) for size in CHOICES.sizes], axis=1)
    entropy, kl, ratio = np.zeros((3, len(old)))
    for number, (p, q) in enumerate(zip(probabilities(old), probabilities(new), strict=True)):
        rows = np.arange(len(old)), chosen[:, number]
        entropy -= (q * np.log(q)).sum(axis=1)
        kl += (p * np.log(p / q)).sum(axis=1)
        ratio += np.log(q[rows] / p[rows])
    np.testing.assert_allclose(categorical.entropy(CHOICES, jnp.asarray(new)), entropy, atol=2e-6)
    np.testing.assert_allclose(categorical.kl(CHOICES, jnp.asarray(old), jnp.asarray(new)), kl, atol=1e-5)
    np.testing.assert_allclose(categorical.log_ratio(CHOICES, jnp.asarray(chosen), jnp.asarray(old), jnp.asarray(new)), ratio, atol=1e-5)
    assert not np.asarray(categorical.kl(CHOICES, jnp.asarray(old), jnp.asarray(old))).any(), "exactly 0"


def test_choices_are_drawn_with_their_probability() -> None:
    logits = np.repeat(some_logits()[0][:1], 20_000, axis=0)
    uniform = RANDOM.random((len(logits), 2))
    drawn = CHOICES.drawn(logits, uniform)
    assert np.array_equal(drawn, categorical.drawn(CHOICES, jnp.asarray(logits), jnp.asarray(uniform)))
    for number, p in enumerate(probabilities(logits[:1])):
        np.testing.assert_allclose(np.bincount(drawn[:, number], minlength=p.shape[1]) / len(logits), p[0], atol=0.015)


class Recorded:
    """A rollout of an agent with choices."""

    def __init__(self, kind: type[PPO], config: PPOConfig) -> None:
        self.agent = kind(config, OBSERVATION, ACTION, choices=CHOICES)
        self.state = self.agent.init(0)
        self.observations = RANDOM.standard_normal((STEPS, ENVS, OBSERVATION), dtype=np.float32)
        actor_memory, critic_memory = (np.zeros((ENVS, size), np.float32) for size in self.agent.memory_sizes)
        ended = np.zeros((STEPS, ENVS), bool)
        ended[2, 1] = True
        self.sequences = Sequences(ended, actor_memory, critic_memory)
        outputs, _ = self.agent.evaluate(self.state, self.observations, self.sequences)
        noise = RANDOM.standard_normal((STEPS * ENVS, ACTION), dtype=np.float32)
        self.actions = np.asarray(self.agent.drawn((outputs.mean, outputs.std, outputs.logits), jnp.asarray(noise)))
        advantages, returns = RANDOM.standard_normal((2, STEPS * ENVS), dtype=np.float32)
        self.samples = Samples(self.observations.reshape(-1, OBSERVATION), self.actions, outputs, advantages, returns)

    def update(self, samples: Samples) -> tuple[Any, Any]:
        rows = self.agent.shuffled_rows(STEPS, ENVS)
        order = np.stack([RANDOM.permutation(rows) for _ in range(SMALL.num_learning_epochs)]).astype(np.int32)
        return self.agent.update(jax.tree.map(jnp.copy, self.state), samples, self.sequences, order, 0.0)


@pytest.fixture(scope="module", params=["single steps", "recurrent"])
def recorded(request: pytest.FixtureRequest) -> Recorded:
    return Recorded(PPO, SMALL) if request.param == "single steps" else Recorded(RecurrentPPO, RECURRENT)


def test_before_the_first_gradient_step_the_ratio_is_exactly_one(recorded: Recorded) -> None:
    assert set(recorded.actions[:, 1].tolist()) <= {0.0, 1.0, 2.0} and set(recorded.actions[:, 4].tolist()) <= {0.0, 1.0}
    _, info = recorded.update(recorded.samples)
    assert float(info["Policy/first_ratio_error"]) == 0.0 and float(info["Policy/kl"]) > 0
    entropy = 3 * (0.5 * np.log(2 * np.pi * np.e)) + np.log(3) + np.log(2)  # std 1, and choices that are nearly even at the start
    assert abs(float(info["Loss/entropy"]) - entropy) < 0.05


def test_what_led_to_an_advantage_becomes_more_likely(recorded: Recorded) -> None:
    wanted = (recorded.actions[:, 1] == 2).astype(np.float32)
    state = recorded.update(recorded.samples._replace(advantages=wanted - wanted.mean()))[0]
    before = np.asarray(recorded.samples.old.logits)
    after = np.asarray(recorded.agent.evaluate(state, recorded.observations, recorded.sequences)[0].logits)
    assert (probabilities(after)[0][:, 2] > probabilities(before)[0][:, 2] + 0.005).all()


def test_numpy_acts_as_jax_does(recorded: Recorded) -> None:
    agent, state = recorded.agent, recorded.state
    x, noise = recorded.observations[0], RANDOM.standard_normal((ENVS, ACTION), dtype=np.float32)
    memory = recorded.sequences.actor_memory
    by_jax, by_numpy = (agent.make_act(state, with_numpy)(x, noise, memory)[0] for with_numpy in (False, True))
    np.testing.assert_allclose(by_jax, by_numpy, atol=1e-5)
    parameters = agent.policy_parameters(state, *agent.no_normaliser)
    if isinstance(agent, RecurrentPPO):
        mode = NumpyRecurrent(parameters).mode(x, memory)[0]
        drawn = NumpyRecurrent(parameters).sample(x, memory, np.random.default_rng(0))[0]
    else:
        mode, drawn = NumpyGaussian(parameters).mode(x), NumpyGaussian(parameters).sample(x, np.random.default_rng(0))
        assert NumpyGaussian(parameters).mode(x[0]).shape == (ACTION,)
    outputs, _ = agent.evaluate(state, recorded.observations, recorded.sequences)
    assert np.array_equal(mode[:, 1], np.asarray(outputs.logits)[:ENVS, :3].argmax(axis=1))
    assert np.abs(drawn[:, [0, 2, 3]]).max() <= 1 and set(drawn[:, 1].tolist()) <= {0.0, 1.0, 2.0}


@pytest.mark.usefixtures("odd_tasks")
def test_a_run_learns_judges_and_exports_a_policy_with_choices(tmp_path: Path) -> None:
    network = dataclasses.replace(SMALL, actor_hidden_dims=(8,))
    config = OnPolicyConfig(task="grasp", agent=network, num_envs=4, num_steps_per_env=4, max_iterations=2, final_episodes=2, eval_period=0)
    summary = train_ppo(config, tmp_path / "run", Display("quiet"))
    assert summary["deterministic"]["episodes"] == 2
    snapshot, spec = load_policy(tmp_path / "run")
    assert numpy_policy(snapshot).action_dim == GRASP.action_dim == 4
    policy = from_bytes(onnx_bytes(snapshot, spec, "ppo"), "made up")
    observations = probes(snapshot, spec)
    assert compare(policy, snapshot, spec, observations) < 20 * TOLERANCE
    rows = len(next(iter(observations.values())))
    drawn = policy.sample(observations, policy.begin(rows), np.random.default_rng(0))[0]
    assert set(drawn[:, 3].tolist()) == {0.0, 1.0, 2.0}, "PPO's choices have probabilities"
    with pytest.raises(ConfigError, match="grasp critic by what they are worth"):
        starting_policy(tmp_path / "run", spec, SACConfig(), 0, print)
