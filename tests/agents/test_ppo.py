"""PPO's update: what it computes, against a reference that fits on a page, and what cannot happen to it."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tandem.agents import packing
from tandem.agents.packing import PPOState, Samples, Sequences, chunk_rows
from tandem.agents.parameters import to_arrays
from tandem.agents.ppo import PPO
from tandem.agents.ppo_config import PPOConfig
from tandem.errors import ConfigError, FileUnreadable
from tandem.networks import gaussian

SMALL = PPOConfig(num_learning_epochs=2, num_mini_batches=3, actor_hidden_dims=(16, 8), critic_hidden_dims=(16,), activation="tanh")
OBSERVATION, ACTION = 5, 2


def agent_of(observation_dim: int = OBSERVATION, **settings: Any) -> PPO:
    return PPO(dataclasses.replace(SMALL, **settings), observation_dim, ACTION)


BASE = agent_of()


def start() -> PPOState:
    """Of every agent here whose networks are those of `SMALL`; made by one of them, which is compiled once."""
    return BASE.init(0)


def rollout(agent: PPO, state: PPOState, batch: int, seed: int = 0) -> Samples:
    """Observations as they come, actions as the policy draws them, advantages and returns as they may be."""
    random = np.random.default_rng(seed)
    observations = random.standard_normal((batch, agent.observation_dim), dtype=np.float32)
    if (
        agent.config.num_mini_batches == BASE.config.num_mini_batches
        and agent.actor_columns is None
        and agent.observation_dim == OBSERVATION
    ):
        agent = BASE  # the same pass
    outputs, _ = agent.evaluate(state, observations[None], none(batch))
    actions = np.asarray(outputs.mean) + np.asarray(outputs.std) * random.standard_normal((batch, agent.action_dim), dtype=np.float32)
    advantages, returns = random.standard_normal((2, batch), dtype=np.float32)
    return Samples(observations, actions, outputs, advantages, returns)


def none(batch: int) -> Sequences:
    """No hidden states: a rollout of one step in `batch` environments."""
    return Sequences(np.zeros((1, batch), bool), np.zeros((batch, 0), np.float32), np.zeros((batch, 0), np.float32))


def order(agent: PPO, batch: int, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.stack([random.permutation(batch) for _ in range(agent.config.num_learning_epochs)]).astype(np.int32)


def updated(agent: PPO, batch: int = 48, samples: Samples | None = None, progress: float = 0.0) -> tuple[PPOState, dict[str, float]]:
    samples = samples or rollout(agent, start(), batch)
    state, info = agent.update(start(), samples, none(batch), order(agent, batch), progress)
    return state, {name: float(value) for name, value in info.items()}


# ---- the first ratio


@pytest.mark.parametrize(
    ("observation_dim", "hidden", "batch", "parts", "activation", "std_type"),
    [
        (48, (128, 128, 128), 2 * 24 * 64, 2, "elu", "scalar"),  # rows in the rollout and in a mini-batch differ, as in training
        (5, (33, 17), 21, 3, "swish", "state"),  # sizes that fit no vector unit
        (4, (64, 64), 2 * 5000, 2, "tanh", "scalar"),  # mini-batches in chunks of 2500
    ],
)
def test_before_the_first_gradient_step_the_ratio_is_exactly_one_and_the_kl_exactly_zero(
    observation_dim: int, hidden: tuple[int, ...], batch: int, parts: int, activation: Any, std_type: Any
) -> None:
    """To the last bit: the same forward pass on the same number of rows. With a rate of 0 that holds for every mini-batch."""
    agent = agent_of(
        observation_dim, actor_hidden_dims=hidden, critic_hidden_dims=hidden, num_mini_batches=parts, num_learning_epochs=1,
        activation=activation, std_type=std_type, learning_rate=0.0, schedule="fixed",
    )  # fmt: skip
    state = agent.init(0)
    noise = np.random.default_rng(5)
    moved = jax.tree.map(lambda a: a + jnp.asarray(0.1 * noise.standard_normal(a.shape), jnp.float32), state.actor)  # not the start alone
    _, info = agent.update(
        state._replace(actor=moved), rollout(agent, state._replace(actor=moved), batch), none(batch), order(agent, batch), 0.0
    )
    assert float(info["Policy/first_ratio_error"]) == 0.0
    assert float(info["Policy/kl"]) == 0.0 == float(info["Policy/clip_fraction"])


def test_the_first_ratio_is_not_one_if_another_policy_acted() -> None:
    """What the metric is for: a normaliser that moved, a clipped action, noise in the network."""
    samples = rollout(BASE, start(), 48)
    _, info = BASE.update(start(), samples._replace(observations=samples.observations + 0.01), none(48), order(BASE, 48), 0.0)
    assert float(info["Policy/first_ratio_error"]) > 1e-4


def test_the_ratio_uses_the_action_before_clipping() -> None:
    """A step of the mean to the right: actions drawn at +2 become much likelier, which the same action clipped to 1 would not."""
    samples = rollout(BASE, start(), 48)
    assert np.abs(samples.actions).max() > 2, "the environment gets less"
    to_the_right = samples._replace(old=samples.old._replace(mean=samples.old.mean - 1.0))  # as if the mean had been 1 less
    indices = order(BASE, 48)
    _, info = BASE.update(start(), to_the_right, none(48), indices, 0.0)
    # σ = 1: ratio = exp(Σ (a - μ) + 1/2), with a as it was drawn, in the first mini-batch
    ratio = np.exp((samples.actions - np.asarray(samples.old.mean) + 0.5).sum(1))[indices[0, :16]]
    assert float(info["Policy/first_ratio_error"]) == pytest.approx(np.abs(ratio - 1).max(), rel=1e-4)


# ---- the update


def reference(config: PPOConfig, networks: Any, samples: Samples, indices: np.ndarray) -> tuple[Any, float]:
    """PPO as rsl_rl writes it, with Optax's Adam; one mini-batch after the other, whole."""

    def mlp(parameters: Any, x: jax.Array) -> jax.Array:
        for layer in parameters.trunk.layers:
            x = jnp.tanh(x @ layer.weight + layer.bias)
        return x

    def loss(networks: Any, rows: Samples) -> tuple[jax.Array, jax.Array]:
        actor, critic = networks
        mean = mlp(actor, rows.observations) @ actor.mean.weight + actor.mean.bias
        std = gaussian.std_of_raw(actor.raw_std, "scalar", config.std_range)
        value = (mlp(critic, rows.observations) @ critic.head.weight + critic.head.bias)[:, 0]
        log_prob, old_log_prob = (
            jax.scipy.stats.norm.logpdf(rows.actions, *of).sum(1) for of in ((mean, std), (rows.old.mean, rows.old.std))
        )
        ratio, a = jnp.exp(log_prob - old_log_prob), rows.advantages
        if config.normalize_advantage_per_mini_batch:
            a = (a - a.mean()) / (a.std(ddof=1) + 1e-8)
        surrogate = jnp.maximum(-a * ratio, -a * jnp.clip(ratio, 1 - config.clip_param, 1 + config.clip_param)).mean()
        clipped = rows.old.value + jnp.clip(value - rows.old.value, -config.clip_param, config.clip_param)
        errors = (value - rows.returns) ** 2, (clipped - rows.returns) ** 2
        value_loss = jnp.maximum(*errors).mean() if config.use_clipped_value_loss else errors[0].mean()
        entropy = (0.5 * jnp.log(2 * jnp.pi * jnp.e) + jnp.log(std)).sum()
        old_mean, old_std = rows.old.mean, rows.old.std
        kl = (jnp.log(std / old_std) + (old_std**2 + (old_mean - mean) ** 2) / (2 * std**2) - 0.5).sum(1).mean()
        return surrogate + config.value_loss_coef * value_loss - config.entropy_coef * entropy, kl

    rate = config.learning_rate
    adam = optax.scale_by_adam(eps=config.adam_epsilon)
    states = [adam.init(network) for network in networks]
    gradient_of = jax.jit(jax.value_and_grad(loss, has_aux=True))

    @jax.jit
    def moved(network: Any, state: Any, gradient: Any, norm: jax.Array, rate: float) -> tuple[Any, Any]:
        change, state = adam.update(optax.tree.scale(jnp.minimum(1.0, config.max_grad_norm / (norm + 1e-6)), gradient), state)
        return optax.tree.add_scale(network, -rate, change), state

    for step, rows in enumerate(indices.reshape(config.num_learning_epochs * config.num_mini_batches, -1)):
        mini_batch = jax.tree.map(lambda array, rows=rows: jnp.asarray(array)[rows], samples)
        (_, kl), gradients = gradient_of(networks, mini_batch)
        if config.schedule == "adaptive" and step:  # at the first one it is 0 but for the rounding of this other way to compute it
            if kl > 2 * config.desired_kl:
                rate = max(1e-5, rate / 1.5)
            elif 0 < kl < config.desired_kl / 2:
                rate = min(1e-2, rate * 1.5)
        norms = [optax.tree.norm(gradient) for gradient in gradients]
        if config.joint_grad_norm:
            norms = [jnp.hypot(*norms)] * 2
        networks, states = zip(*(moved(*of, rate) for of in zip(networks, states, gradients, norms, strict=True)), strict=True)
    return networks, rate


@pytest.mark.parametrize(
    "settings",
    [
        {"desired_kl": 0.004, "learning_rate": 3e-3},
        {
            "schedule": "fixed",
            "joint_grad_norm": True,
            "max_grad_norm": 0.3,
            "normalize_advantage_per_mini_batch": True,
            "adam_epsilon": 1e-5,
        },
        {"use_clipped_value_loss": False, "schedule": "fixed", "value_loss_coef": 0.3, "entropy_coef": 0.1},
    ],
    ids=["rsl_rl", "gym_mujoco", "unclipped"],
)
def test_the_update_agrees_with_a_reference_on_one_page(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "CHUNK", 8)  # mini-batches of 16 in two chunks each
    assert chunk_rows(16) == 8
    agent = agent_of(**settings)
    state = start()._replace(learning_rate=jnp.float32(agent.config.learning_rate))
    samples, indices = rollout(agent, state, 48), order(agent, 48)
    expected, rate = reference(agent.config, (state.actor, state.critic), samples, indices)
    state, info = agent.update(state, samples, none(48), indices, 0.0)
    assert float(info["Loss/learning_rate"]) == pytest.approx(rate, rel=1e-5)
    for ours, theirs in zip(jax.tree.leaves((state.actor, state.critic)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-6)


def test_every_epoch_takes_every_sample_once() -> None:
    """One sample spoils the update it is in: there must be one such update in each epoch, no more and no fewer."""
    for spoilt in (0, 20, 47):
        samples = rollout(BASE, start(), 48)
        samples.returns[spoilt] = np.nan
        _, info = updated(BASE, samples=samples)
        assert info["Loss/dropped_updates"] == 2 and info["Loss/updates"] == 4, "two epochs of three mini-batches"


def test_an_update_with_a_nan_is_skipped() -> None:
    before = to_arrays(start())
    samples = rollout(BASE, start(), 48)
    samples.advantages[:] = np.nan
    state, info = updated(BASE, samples=samples)
    assert info["Loss/updates"] == 0 and info["Loss/dropped_updates"] == 6
    assert all(np.array_equal(array, before[name]) for name, array in to_arrays(state).items())


def test_an_order_of_the_wrong_shape_is_refused() -> None:
    samples = rollout(BASE, start(), 48)
    with pytest.raises(AssertionError):
        BASE.update(start(), samples, none(48), order(BASE, 48)[:1], 0.0)
    with pytest.raises(AssertionError, match="one number per sample"):
        BASE.update(start(), samples._replace(returns=samples.returns[:, None]), none(48), order(BASE, 48), 0.0)


def test_the_linear_schedule_decays_to_zero() -> None:
    agent = agent_of(schedule="linear", learning_rate=1e-3)
    rates = [updated(agent, progress=progress)[1]["Loss/learning_rate"] for progress in (0.0, 0.25, 1.0)]
    assert rates == pytest.approx([1e-3, 0.75e-3, 0.0])


def test_updates_stop_once_the_kl_is_too_large() -> None:
    state, stopped = updated(agent_of(schedule="fixed", learning_rate=0.05, stop_kl=0.02))
    assert 1 <= stopped["Loss/updates"] < 6 and stopped["Loss/dropped_updates"] == 0
    assert int(state.actor_optimiser.steps) == stopped["Loss/updates"]


def test_the_adaptive_rate_continues_from_the_state_not_from_the_configuration() -> None:
    state = start()._replace(learning_rate=jnp.float32(2e-4))
    _, info = BASE.update(state, rollout(BASE, start(), 48), none(48), order(BASE, 48), 0.0)
    # six updates of a factor of at most 1.5 each, and none at the first: at most 2e-4 * 1.5^5
    assert float(info["Loss/learning_rate"]) <= 2e-4 * 1.5**5 * 1.001


def test_a_mini_batch_of_one_sample_does_not_divide_by_zero() -> None:
    agent = agent_of(num_mini_batches=4, normalize_advantage_per_mini_batch=True)
    _, info = updated(agent, batch=4)
    assert info["Loss/dropped_updates"] == 0 and info["Loss/updates"] == 8


def test_rescaled_values_are_the_same_in_other_units() -> None:
    x = np.random.default_rng(0).standard_normal((10, OBSERVATION), dtype=np.float32)
    memory = np.zeros((10, 0), np.float32)
    before = np.asarray(BASE.values(start().critic, x, memory))
    np.testing.assert_allclose(BASE.values(BASE.rescaled(start(), 0.25, 3.0).critic, x, memory), 0.25 * before + 3.0, rtol=1e-5, atol=1e-5)


def test_the_critic_may_see_what_the_policy_does_not() -> None:
    agent = PPO(SMALL, 5, ACTION, actor_columns=(0, 1, 4), critic_columns=None)
    state = agent.init(0)
    assert state.actor.trunk.layers[0].weight.shape[0] == 3 and state.critic.trunk.layers[0].weight.shape[0] == 5
    random = np.random.default_rng(0)
    x, noise = random.standard_normal((9, 5), dtype=np.float32), random.standard_normal((9, ACTION), dtype=np.float32)
    other = x + np.array([0, 0, 1, 1, 0], np.float32)
    memory = np.zeros((9, 0), np.float32)
    assert np.array_equal(agent.act(state.actor, x, noise, memory)[0], agent.act(state.actor, other, noise, memory)[0])
    assert not np.allclose(agent.values(state.critic, x, memory), agent.values(state.critic, other, memory))
    state, info = agent.update(state, rollout(agent, state, 48), none(48), order(agent, 48), 0.0)
    assert float(info["Policy/first_ratio_error"]) == 0.0


def test_the_policy_moves_towards_actions_of_high_advantage() -> None:
    """Advantage: how near the action was to 0.5. After a few iterations the mean is there, and the spread has shrunk."""
    agent, state = agent_of(entropy_coef=0.0, num_learning_epochs=5, learning_rate=1e-2, schedule="fixed"), start()
    for seed in range(30):
        samples = rollout(agent, state, 192, seed)
        good = -np.square(np.asarray(samples.actions) - 0.5).sum(1)
        samples = samples._replace(advantages=(good - good.mean()) / good.std(), returns=np.zeros_like(good))
        state, _ = agent.update(state, samples, none(192), order(agent, 192, seed), 0.0)
    after = rollout(agent, state, 192, 99).old
    np.testing.assert_allclose(np.mean(after.mean, axis=0), 0.5, atol=0.1)
    assert float(np.mean(after.std)) < 0.6


def test_the_same_seed_gives_the_same_networks_and_arrays_restore_a_state() -> None:
    state, _ = updated(BASE)
    again, _ = updated(BASE)
    back = BASE.from_arrays(BASE.init(3), BASE.arrays(state))
    for a, b, c in zip(*(jax.tree.leaves(tree) for tree in (state, again, back)), strict=True):
        assert np.array_equal(a, b) and np.array_equal(a, c)
    wider = agent_of(actor_hidden_dims=(24, 8))
    with pytest.raises(FileUnreadable, match="actor/trunk/layers/0/weight"):
        wider.from_arrays(jax.eval_shape(lambda: wider.init(0)), BASE.arrays(state))


@pytest.mark.parametrize(
    ("rows", "expected"), [(24576, 4096), (6144, 3072), (4096, 4096), (64, 64), (1, 1), (4999, 4999), (2 * 4999, 2 * 4999), (8190, 4095)]
)
def test_chunks_are_equal_and_small_enough_or_the_whole(rows: int, expected: int) -> None:
    assert chunk_rows(rows) == expected


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"gamma": 1.2}, "gamma must be from 0 to 1"),
        ({"schedule": "cosine"}, "schedule must be one of adaptive, fixed, linear"),
        ({"std_type": "softplus"}, "std_type must be one of"),
        ({"activation": "selu"}, "activation must be one of"),
        ({"init": "kaiming"}, "init must be one of"),
        ({"actor_hidden_dims": ()}, "actor_hidden_dims"),
        ({"std_range": (0.0, 1.0)}, "std_range must be two increasing numbers above 0"),
        ({"init_std": 20.0}, "init_std must be between"),
        ({"learning_rate_range": (1e-2, 1e-5)}, "learning_rate_range"),
        ({"num_mini_batches": 0}, "num_mini_batches"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        PPOConfig(**settings)
