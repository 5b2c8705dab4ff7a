"""Learning from sequences: the same as a reference that cuts them apart and goes through each alone."""

from functools import cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tandem.agents import packing
from tandem.agents.packing import PolicyOutputs, PPOState, Samples, Sequences
from tandem.agents.ppo_config import PPOConfig
from tandem.agents.recurrent_ppo import RecurrentPPO
from tandem.errors import ConfigError

OBSERVATION, ACTION, STEPS, ENVS = 4, 2, 7, 6
SMALL = PPOConfig(
    actor_hidden_dims=(8,), critic_hidden_dims=(8,), actor_rnn_hidden_dim=5, critic_rnn_hidden_dim=6, actor_rnn_type="lstm",
    critic_rnn_type="gru", critic_rnn_num_layers=2, num_learning_epochs=2, num_mini_batches=3, activation="tanh", learning_rate=0.0,
    schedule="fixed",
)  # fmt: skip


@cache
def agent_of(**settings: Any) -> RecurrentPPO:
    return RecurrentPPO(PPOConfig(**{**SMALL.__dict__, **settings}), OBSERVATION, ACTION)


class Recorded:
    """A rollout: observations `(T, N, D)`, ends of episodes, and hidden states before the first step."""

    def __init__(self, agent: RecurrentPPO, envs: int = ENVS, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.state = agent.init(seed)
        self.observations = random.standard_normal((STEPS, envs, OBSERVATION), dtype=np.float32)
        self.ended = random.random((STEPS, envs)) < 0.2
        self.ended[2, 0] = True
        memories = (random.uniform(-0.5, 0.5, (envs, size)).astype(np.float32) for size in agent.memory_sizes)
        self.sequences = Sequences(self.ended, *memories)
        self.outputs, self.memory_after = agent.evaluate(self.state, self.observations, self.sequences)
        shape = STEPS * envs, ACTION
        actions = np.asarray(self.outputs.mean) + np.asarray(self.outputs.std) * random.standard_normal(shape, dtype=np.float32)
        advantages, returns = random.standard_normal((2, STEPS * envs), dtype=np.float32)
        self.samples = Samples(self.observations.reshape(-1, OBSERVATION), actions, self.outputs, advantages, returns)
        self.order = np.stack([random.permutation(envs) for _ in range(agent.config.num_learning_epochs)]).astype(np.int32)

    def update(self, agent: RecurrentPPO) -> tuple[PPOState, dict[str, float]]:
        state = jax.tree.map(jnp.copy, self.state)  # the one that is given is gone afterwards
        state, info = agent.update(state, self.samples, self.sequences, self.order, 0.0)
        return state, {name: float(value) for name, value in info.items()}


KINDS = [("lstm", "gru"), ("gru", "none"), ("none", "lstm"), ("lstm", "lstm")]


@pytest.mark.parametrize(("actor", "critic"), KINDS)
def test_acting_step_by_step_gives_what_the_update_sees(actor: Any, critic: Any) -> None:
    """Means, values and memories of a rollout, to 1e-5."""
    agent = agent_of(actor_rnn_type=actor, critic_rnn_type=critic)
    recorded = Recorded(agent)
    _, of_actor, of_critic = recorded.sequences
    mean, value = (np.asarray(array).reshape(STEPS, ENVS, -1) for array in (recorded.outputs.mean, recorded.outputs.value))
    for t in range(STEPS):
        action, after = agent.act(recorded.state.actor, recorded.observations[t], np.zeros((ENVS, ACTION), np.float32), of_actor)
        np.testing.assert_allclose(action, mean[t], atol=1e-5)
        np.testing.assert_allclose(agent.values(recorded.state.critic, recorded.observations[t], of_critic), value[t, :, 0], atol=1e-5)
        of_actor, of_critic = (np.where(recorded.ended[t][:, None], 0, memory) for memory in (after, recorded.memory_after[t]))


def test_before_the_first_gradient_step_the_ratio_is_exactly_one_and_the_kl_exactly_zero() -> None:
    """To the last bit, and with a rate of 0 in every mini-batch."""
    _, info = Recorded(agent_of()).update(agent_of())
    assert info["Policy/first_ratio_error"] == 0.0 == info["Policy/kl"] and info["Loss/updates"] == 6


def test_outputs_depend_on_earlier_steps_of_the_same_episode_alone() -> None:
    agent = agent_of()
    recorded = Recorded(agent)
    recorded.ended[:], recorded.ended[2, 0] = False, True  # an end after step 2, in environment 0 alone
    changed = recorded.observations.copy()
    changed[1] += 1.0
    before, after = (
        jax.tree.map(lambda a: np.asarray(a).reshape(STEPS, ENVS, -1), agent.evaluate(recorded.state, seen, recorded.sequences)[0])
        for seen in (recorded.observations, changed)
    )
    for one, other in ((before.mean, after.mean), (before.value, after.value)):
        apart = np.abs(one - other).max(axis=2) > 1e-6
        assert not apart[0].any() and apart[1:3].all(), "nothing knows the future, and what is seen counts"
        assert not apart[3:, 0].any() and apart[3:, 1:].any(), "the hidden state is reset where an episode ended, and nowhere else"


@jax.jit
def one_step(networks: Any, x: jax.Array, memories: tuple[jax.Array, ...]) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
    (actor, critic), (of_actor, of_critic) = networks, memories
    features, of_actor = actor.step(x, of_actor)
    valued, of_critic = critic.step(x, of_critic)
    return (*actor.network(features), critic.network(valued)), (of_actor, of_critic)


def in_pieces(networks: Any, recorded: Recorded, env: int) -> PolicyOutputs:
    """What is said of one environment's steps: cut at its ends, every piece on its own and step by step, as rsl_rl cuts them."""
    ends = [-1, *np.flatnonzero(recorded.ended[:-1, env]).tolist(), STEPS - 1]
    said = []
    for first, last in pairwise(ends):
        memories = tuple(memory[env : env + 1] * np.float32(first < 0) for memory in recorded.sequences[1:])
        for t in range(first + 1, last + 1):
            outputs, memories = one_step(networks, recorded.observations[t, env : env + 1], memories)
            said.append(outputs)
    return PolicyOutputs(*(jnp.concatenate(parts) for parts in zip(*said, strict=True)))


def reference(agent: RecurrentPPO, recorded: Recorded) -> Any:
    """PPO as rsl_rl writes it, with Optax's Adam; one mini-batch of environments after the other."""
    config, samples = agent.config, recorded.samples
    rows = np.arange(STEPS * ENVS).reshape(STEPS, ENVS)

    def loss(networks: Any, envs: tuple[int, ...]) -> jax.Array:
        new = jax.tree.map(lambda *parts: jnp.concatenate(parts), *(in_pieces(networks, recorded, env) for env in envs))
        mine = jax.tree.map(lambda array: jnp.asarray(array)[np.concatenate([rows[:, env] for env in envs])], samples)
        log_prob, old_log_prob = (
            jax.scipy.stats.norm.logpdf(mine.actions, of.mean, of.std).sum(1) for of in (new, mine.old)
        )  # fmt: skip
        ratio, a = jnp.exp(log_prob - old_log_prob), mine.advantages
        if config.normalize_advantage_per_mini_batch:
            a = (a - a.mean()) / (a.std(ddof=1) + 1e-8)
        surrogate = jnp.maximum(-a * ratio, -a * jnp.clip(ratio, 1 - config.clip_param, 1 + config.clip_param)).mean()
        clipped = mine.old.value + jnp.clip(new.value - mine.old.value, -config.clip_param, config.clip_param)
        value_loss = jnp.maximum((new.value - mine.returns) ** 2, (clipped - mine.returns) ** 2).mean()
        entropy = (0.5 * jnp.log(2 * jnp.pi * jnp.e) + jnp.log(new.std)).sum(1).mean()
        return surrogate + config.value_loss_coef * value_loss - config.entropy_coef * entropy

    networks = recorded.state.actor, recorded.state.critic
    adam = optax.scale_by_adam(eps=config.adam_epsilon)
    states = [adam.init(network) for network in networks]
    for envs in recorded.order.reshape(config.num_learning_epochs * config.num_mini_batches, -1):
        moved = []
        for network, state, gradient in zip(networks, states, jax.grad(loss)(networks, tuple(envs.tolist())), strict=True):
            shrink = jnp.minimum(1.0, config.max_grad_norm / (optax.tree.norm(gradient) + 1e-6))
            change, state = adam.update(optax.tree.scale(shrink, gradient), state)
            moved.append((optax.tree.add_scale(network, -config.learning_rate, change), state))
        networks, states = zip(*moved, strict=True)
    return networks


def test_the_update_agrees_with_a_reference_that_runs_every_episode_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mini-batches of two environments, in chunks of one: 7 steps each, where a chunk may have 7."""
    monkeypatch.setattr(packing, "CHUNK", STEPS)
    assert packing.chunk_rows(2, STEPS) == 1
    agent = agent_of(learning_rate=3e-3, normalize_advantage_per_mini_batch=True, num_learning_epochs=1)
    recorded = Recorded(agent)
    expected = reference(agent, recorded)
    state, _ = recorded.update(agent)
    for ours, theirs in zip(jax.tree.leaves((state.actor, state.critic)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=5e-6)


def test_one_environment_in_a_mini_batch_is_not_compared_with_itself_at_other_steps() -> None:
    """rsl_rl subtracts a log-probability of shape [T] from one of [T, 1] then, and learns from T x T ratios.

    Here the ratio of an unchanged policy is 1 throughout, and every value is compared with its own return.
    """
    agent = agent_of(num_mini_batches=2, num_learning_epochs=1, critic_rnn_num_layers=1)
    recorded = Recorded(agent, envs=2)
    _, info = recorded.update(agent)
    assert info["Policy/first_ratio_error"] == 0.0 == info["Policy/kl"] and info["Loss/updates"] == 2
    # with a ratio of 1 the surrogate is the mean of -A; over T x T pairs it would be that too, but the value loss would not be this:
    error = np.square(np.asarray(recorded.outputs.value) - recorded.samples.returns).mean()
    assert info["Loss/surrogate"] == pytest.approx(-recorded.samples.advantages.mean(), abs=1e-6)
    assert info["Loss/value"] == pytest.approx(error, rel=1e-5)


def test_every_epoch_takes_every_step_of_every_environment_once() -> None:
    agent = agent_of()
    for spoilt in (0, 20, STEPS * ENVS - 1):
        recorded = Recorded(agent)
        recorded.samples.returns[spoilt] = np.nan
        _, info = recorded.update(agent)
        assert info["Loss/dropped_updates"] == 2 and info["Loss/updates"] == 4, "one of three mini-batches, in both epochs"


def test_arrays_restore_a_state_and_have_plain_names() -> None:
    agent = agent_of()
    state, _ = Recorded(agent).update(agent)
    arrays = agent.arrays(state)
    for name, shape in {
        "actor/rnn/0/input_weight": (OBSERVATION, 4 * 5), "actor/rnn/0/hidden_weight": (5, 4 * 5), "actor/rnn/0/bias": (4 * 5,),
        "critic/rnn/0/input_weight": (OBSERVATION, 3 * 6), "critic/rnn/1/input_weight": (6, 3 * 6), "critic/rnn/1/hidden_bias": (6,),
        "actor/network/trunk/layers/0/weight": (5, 8), "critic/network/head/weight": (8, 1),
    }.items():  # fmt: skip
        assert arrays[name].shape == shape, name
    back = agent.from_arrays(agent.init(3), arrays)
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(back), strict=True))
    published = agent.policy_parameters(state, np.zeros(OBSERVATION), np.ones(OBSERVATION), np.inf)
    assert {"rnn_type", "rnn/0/input_weight", "rnn/0/hidden_weight", "rnn/0/bias", "trunk/layers/0/weight", "mean/weight"} <= set(published)
    assert not any("critic" in name or "network" in name for name in published)
    without = agent_of(actor_rnn_type="none")
    assert "rnn_type" not in without.policy_parameters(without.init(0), np.zeros(OBSERVATION), np.ones(OBSERVATION), np.inf)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"actor_rnn_type": "rnn"}, "actor_rnn_type must be one of none, lstm, gru, got 'rnn'"),
        ({"critic_rnn_num_layers": 0}, "critic_rnn_num_layers must be from 1"),
        ({"actor_rnn_hidden_dim": 0}, "actor_rnn_hidden_dim must be from 1"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        PPOConfig(**settings)
