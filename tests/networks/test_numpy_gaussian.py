"""PPO's policy without JAX: what an actor computes is what was trained, normaliser, spread and choice of entries included."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem.agents.packing import PPOState
from tandem.agents.ppo import PPO
from tandem.agents.ppo_config import PPOConfig
from tandem.errors import SpecMismatch
from tandem.networks.gaussian import StdType
from tandem.networks.normaliser import Moments, Normaliser
from tandem.networks.numpy_gaussian import NumpyGaussian
from tandem.networks.numpy_policy import NumpyPolicy, acting_policy
from tandem.types import PolicySnapshot

RAW = 30 * np.random.default_rng(0).standard_normal((128, 6), dtype=np.float32) + 5
COLUMNS = (0, 2, 3, 5)
CONFIG = PPOConfig(actor_hidden_dims=(32, 16), critic_hidden_dims=(8,))


def normaliser() -> Normaliser:
    made = Normaliser(Moments.of(6), clip=2.0)
    made.record(RAW)
    made.advance()
    return made


def learned(config: PPOConfig) -> tuple[PPO, PPOState]:
    """An agent whose every parameter has some size, as after training."""
    agent = PPO(config, 6, 3, actor_columns=COLUMNS)
    noise = np.random.default_rng(1)
    shapes = jax.eval_shape(lambda: agent.init(0))
    return agent, jax.tree.map(lambda a: jnp.asarray(0.4 * noise.standard_normal(a.shape), jnp.float32), shapes)


@pytest.mark.parametrize(("std_type", "activation"), [("scalar", "elu"), ("log", "tanh"), ("state", "swish")])
def test_the_numpy_forward_equals_the_jax_forward(std_type: StdType, activation: str) -> None:
    agent, state = learned(dataclasses.replace(CONFIG, std_type=std_type, activation=activation))
    seen = normaliser()
    acting = acting_policy(PolicySnapshot(0, 0, agent.policy_parameters(state, seen.mean, seen.std, seen.clip), "gaussian"))
    assert isinstance(acting, NumpyGaussian)
    mean, std = jax.jit(lambda x: state.actor(x))(seen(RAW)[:, COLUMNS])
    ours = acting.gaussian(RAW)
    np.testing.assert_allclose(ours[0], mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours[1], std, rtol=1e-4, atol=1e-5)
    # drawn with the same noise, and clipped only for the environment
    noise = np.random.default_rng(7).standard_normal((128, 3), dtype=np.float32)
    drawn, _ = agent.act(state.actor, seen(RAW), noise, np.zeros((128, 0), np.float32))
    np.testing.assert_allclose(acting.sample(RAW, np.random.default_rng(7)), np.clip(drawn, -1, 1), rtol=1e-4, atol=1e-4)
    assert float(jnp.abs(drawn).max()) > 1


def test_actions_are_bounded_float32_for_one_or_many() -> None:
    agent, state = learned(CONFIG)
    acting = acting_policy(
        PolicySnapshot(0, 0, agent.policy_parameters(state, np.zeros(6, np.float32), np.ones(6, np.float32), np.inf), "gaussian")
    )
    assert (acting.observation_dim, acting.action_dim, acting.observation_clip) == (6, 3, np.inf)
    for x, shape in ((RAW[0], (3,)), (RAW, (128, 3)), (RAW.reshape(2, 64, 6), (2, 64, 3))):
        for action in (acting.mode(x), acting.sample(x, np.random.default_rng(0))):
            assert action.shape == shape and action.dtype == np.float32 and np.abs(action).max() <= 1


def test_entries_that_the_policy_does_not_see_do_not_change_its_actions() -> None:
    agent, state = learned(CONFIG)
    acting = acting_policy(
        PolicySnapshot(0, 0, agent.policy_parameters(state, np.zeros(6, np.float32), np.ones(6, np.float32), np.inf), "gaussian")
    )
    other = RAW.copy()
    other[:, [1, 4]] += 100
    assert np.array_equal(acting.mode(RAW), acting.mode(other))
    other[:, 5] += 100
    assert not np.array_equal(acting.mode(RAW), acting.mode(other))


def test_wrong_parameters_are_refused_by_name() -> None:
    agent, state = learned(CONFIG)
    parameters = agent.policy_parameters(state, np.zeros(6, np.float32), np.ones(6, np.float32), np.inf)
    with pytest.raises(SpecMismatch, match=r"6 numbers.*\(128, 5\)"):
        NumpyGaussian(parameters).mode(RAW[:, :5])
    with pytest.raises(SpecMismatch, match="mean/weight"):
        NumpyGaussian({name: array for name, array in parameters.items() if name != "mean/weight"})
    with pytest.raises(SpecMismatch, match="log_std"):
        NumpyPolicy(parameters)


def test_the_std_of_an_observation_is_the_output_of_its_head() -> None:
    agent, state = learned(dataclasses.replace(CONFIG, std_type="state"))
    flat = eqx.tree_at(lambda a: a.raw_std.weight, state.actor, state.actor.raw_std.weight * 0)  # pyright: ignore[reportAttributeAccessIssue]
    for actor, varies in ((state.actor, True), (flat, False)):
        parameters = agent.policy_parameters(state._replace(actor=actor), np.zeros(6, np.float32), np.ones(6, np.float32), np.inf)
        spread = NumpyGaussian(parameters).gaussian(RAW)[1]
        assert (np.ptp(spread, axis=0) > 0.01).all() == varies
