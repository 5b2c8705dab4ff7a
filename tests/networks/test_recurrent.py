"""Layers that remember: the textbook's numbers, the same step by step as all at once, and NumPy's the same as JAX's."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem.agents.ppo_config import PPOConfig
from tandem.agents.recurrent_ppo import RecurrentPPO
from tandem.errors import SpecMismatch
from tandem.networks import numpy_recurrent
from tandem.networks.gaussian import Gaussian
from tandem.networks.mlp import Hidden
from tandem.networks.numpy_policy import acting_policy
from tandem.networks.numpy_recurrent import NumpyRecurrent
from tandem.networks.recurrent import GRU, LONGEST, LSTM, RNN_TYPES, Recurrent, layers
from tandem.types import PolicySnapshot

KEY, RANDOM = jax.random.PRNGKey(0), np.random.default_rng(0)
STEPS, ROWS, INPUTS, UNITS = 9, 5, 3, 4
HIDDEN = Hidden((4,), "elu", layer_norm=False, init="torch")


def sigmoid(x: float) -> float:
    return 1 / (1 + np.exp(-x))


@jax.jit
def one_step(layer: Any, x: jax.Array, memory: jax.Array) -> jax.Array:
    return Recurrent((layer,), None).step(x, memory)[1]  # pyright: ignore[reportArgumentType]


def with_weights(layer: Any, of_input: list[float], of_hidden: list[float], bias: list[float]) -> Any:
    return eqx.tree_at(
        lambda made: (made.input_weight, made.hidden_weight, made.bias),
        layer,
        (jnp.array([of_input]), jnp.array([of_hidden]), jnp.array(bias)),
    )


def test_one_unit_of_an_lstm_by_hand() -> None:
    """x = 2, h = 0.5, c = -1. Gates i f g o: i = 0.1·2 + 0.5·0.5 + 0.01 = 0.46 and so on, in PyTorch's order."""
    layer = with_weights(LSTM(RANDOM, 1, 1), [0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8], [0.01, 0.02, 0.03, 0.04])
    h, c = np.asarray(one_step(layer, jnp.array([[2.0]]), jnp.array([[0.5, -1.0]])))[0]
    i, f, g, o = 0.2 + 0.25 + 0.01, 0.4 + 0.3 + 0.02, 0.6 + 0.35 + 0.03, 0.8 + 0.4 + 0.04
    expected = sigmoid(f) * -1.0 + sigmoid(i) * np.tanh(g)
    assert c == pytest.approx(expected, abs=1e-6) and h == pytest.approx(sigmoid(o) * np.tanh(expected), abs=1e-6)


def test_one_unit_of_a_gru_by_hand() -> None:
    """x = 2, h = 0.5; r z n, with a bias of 0.3 for the hidden part, inside the reset gate."""
    layer = with_weights(GRU(RANDOM, 1, 1), [0.1, 0.2, 0.3], [0.5, 0.6, 0.7], [0.01, 0.02, 0.03])
    layer = eqx.tree_at(lambda made: made.hidden_bias, layer, jnp.array([0.3]))
    h = float(one_step(layer, jnp.array([[2.0]]), jnp.array([[0.5]]))[0, 0])
    r, z = sigmoid(0.2 + 0.25 + 0.01), sigmoid(0.4 + 0.3 + 0.02)
    n = np.tanh(0.6 + 0.03 + r * (0.35 + 0.3))
    assert h == pytest.approx((1 - z) * n + z * 0.5, abs=1e-6)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_sequence_equals_its_single_steps_and_is_reset_where_an_episode_ends(kind: Any, count: int) -> None:
    made = Recurrent(layers(RANDOM, kind, INPUTS, UNITS, count), Gaussian(KEY, UNITS, 1, HIDDEN))
    random = np.random.default_rng(0)
    x, ended = random.standard_normal((STEPS, ROWS, INPUTS), dtype=np.float32), random.random((STEPS, ROWS)) < 0.2
    ended[0, 0] = ended[3, :2] = ended[-1, 2] = True
    memory = start = random.standard_normal((ROWS, made.size), dtype=np.float32)
    assert made.size == count * UNITS * {"lstm": 2, "gru": 1}[kind]
    features, memory_after = made.sequence(jnp.asarray(x), jnp.asarray(ended), jnp.asarray(start))
    step = jax.jit(lambda x, memory: made.step(x, memory))
    for t in range(STEPS):
        now, memory = step(x[t], memory)
        np.testing.assert_allclose(features[t], now, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(memory_after[t], memory, rtol=1e-5, atol=1e-6)
        memory = np.where(ended[t][:, None], 0, memory)
    # after an end nothing is left: from there on, a row is as if it had begun with zeros
    alone, _ = made.sequence(jnp.asarray(x[4:, :2]), jnp.asarray(ended[4:, :2]), jnp.zeros((2, made.size)))
    np.testing.assert_allclose(features[4:, :2], alone, rtol=1e-5, atol=1e-6)


def test_without_layers_the_network_gets_the_inputs() -> None:
    made = Recurrent((), Gaussian(KEY, INPUTS, 1, HIDDEN))
    x, nothing = jnp.ones((ROWS, INPUTS)), jnp.zeros((ROWS, 0))
    features, memory = made.step(x, nothing)
    assert made.size == 0 and features is x and memory is nothing
    features, memory_after = made.sequence(x[None], jnp.zeros((1, ROWS), bool), nothing)
    assert np.array_equal(features[0], x) and memory_after.shape == (1, ROWS, 0)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_recurrent_weights_start_orthogonal_with_different_time_constants(kind: str) -> None:
    units = 64
    layer = RNN_TYPES[kind](RANDOM, INPUTS, units)
    for weight in np.split(np.asarray(layer.hidden_weight), layer.hidden_weight.shape[1] // units, axis=1):
        np.testing.assert_allclose(weight @ weight.T, np.eye(units), atol=1e-5)
    # a gate that keeps σ(b) of what it holds forgets within 1 / (1 - σ(b)) = 1 + exp(b) steps
    pace = 1 + np.exp(np.asarray(layer.bias)[units : 2 * units])
    assert pace.min() < 0.1 * LONGEST and pace.max() > 0.9 * LONGEST and abs(np.median(pace) - LONGEST / 2) < LONGEST / 5
    # with nothing to see, half of the units still hold much of what they held 20 steps ago; with a bias of 0 it would be 2^-20
    held = np.full((1, layer.size), 0.5, np.float32)
    quiet = eqx.tree_at(lambda made: (made.hidden_weight,), layer, (layer.hidden_weight * 0,))
    for _ in range(20):
        held = one_step(quiet, jnp.zeros((1, INPUTS)), held)
    assert np.median(np.asarray(held)[0, -units:]) > 0.25


# ---- without JAX


def learned(kind: Any, count: int, std_type: Any) -> tuple[RecurrentPPO, Any]:
    """An agent whose every parameter has some size, as after training; its policy sees three of four numbers."""
    config = PPOConfig(
        actor_rnn_type=kind, actor_rnn_num_layers=count, actor_rnn_hidden_dim=6, actor_hidden_dims=(8,), critic_hidden_dims=(4,),
        std_type=std_type,
    )  # fmt: skip
    agent, noise = RecurrentPPO(config, 4, 2, actor_columns=(0, 1, 3)), np.random.default_rng(1)
    shapes = jax.eval_shape(lambda: agent.init(0))
    return agent, jax.tree.map(lambda a: jnp.asarray(0.7 * noise.standard_normal(a.shape), jnp.float32), shapes)


@pytest.mark.parametrize(
    ("kind", "count", "std_type"), [("lstm", 2, "state"), ("gru", 2, "scalar"), ("lstm", 1, "log"), ("gru", 1, "scalar")]
)
def test_the_numpy_forward_equals_the_jax_forward(kind: Any, count: int, std_type: Any) -> None:
    agent, state = learned(kind, count, std_type)
    mean, std = np.array([1, 2, 3, 4], np.float32), np.array([2, 1, 3, 0.5], np.float32)
    policy = NumpyRecurrent(agent.policy_parameters(state, mean, std, 3.0))
    raw = 3 * np.random.default_rng(2).standard_normal((12, 5, 4), dtype=np.float32) + 1
    ours, theirs = policy.begin(5), jnp.zeros((5, agent.memory_sizes[0]))
    assert ours.shape == theirs.shape and policy.action_dim == 2 and policy.observation_dim == 4
    draws, noise = np.random.default_rng(3), np.random.default_rng(3)
    for x in raw:
        seen = np.clip((x - mean) / std, -3, 3)
        drawn, _ = policy.sample(x, ours, draws)
        expected, _ = agent.act(state.actor, seen, noise.standard_normal((5, 2), dtype=np.float32), theirs)
        np.testing.assert_allclose(drawn, np.clip(expected, -1, 1), rtol=1e-4, atol=1e-5)
        action, ours = policy.mode(x, ours)
        expected, theirs = agent.act(state.actor, seen, np.zeros((5, 2), np.float32), theirs)
        np.testing.assert_allclose(action, np.clip(expected, -1, 1), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_recurrent_policy_without_memory_and_a_memory_of_the_wrong_size_are_refused() -> None:
    agent, state = learned("lstm", 1, "scalar")
    parameters = agent.policy_parameters(state, np.zeros(4, np.float32), np.ones(4, np.float32), np.inf)
    with pytest.raises(SpecMismatch, match="its memory must be kept for it"):
        acting_policy(PolicySnapshot(0, 0, parameters, "recurrent_gaussian"))
    with pytest.raises(SpecMismatch, match=r"memory of 12 numbers for each of 3 rows, got a memory of shape \(2, 12\)"):
        NumpyRecurrent(parameters).mode(np.zeros((3, 4), np.float32), np.zeros((2, 12), np.float32))
    with pytest.raises(SpecMismatch, match="not a policy"):
        NumpyRecurrent({name: array for name, array in parameters.items() if name != "rnn/0/bias"})
    assert len(numpy_recurrent.RNN_TYPES) == len(RNN_TYPES)
