"""How a batch changes the parameters, and what it must not change."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem.agents.losses import positive
from tandem.agents.sac import SAC, SACState
from tandem.agents.sac_config import RLPD_PUBLISHED, SACConfig
from tandem.agents.sac_start import shown_critics, with_policy
from tandem.errors import ConfigError, FileUnreadable
from tandem.networks.mlp import Ensemble
from tandem.networks.numpy_critic import ACTIVATION_NAMES, NumpyCritics
from tandem.networks.numpy_policy import NumpyPolicy
from tests.agents.sac_samples import AGENT, CONFIG, batch_of, update_critics


def changed(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> set[str]:
    """Which parts of the state have other bits than before."""
    assert before.keys() == after.keys()
    return {name.split("/")[0] for name in before if before[name].tobytes() != after[name].tobytes()}


def test_a_learner_step_changes_every_network_and_optimiser() -> None:
    before = AGENT.arrays(AGENT.init(0))
    after, info = AGENT.update(AGENT.init(0), batch_of())
    assert changed(before, AGENT.arrays(after)) == set(SACState._fields) - {"dropped_updates", "average", "grasp", "anchor"}
    assert set(info) >= {
        "critic/critic_loss",
        "critic/predicted_qs",
        "critic/target_qs",
        "critic/q_max",
        "critic/grad_norm",
        "actor/actor_loss",
        "actor/entropy",
        "actor/temperature",
        "actor/grad_norm",
        "temperature/temperature_loss",
        "learner/dropped_updates",
    }
    assert all(np.isfinite(value) for value in info.values())


def test_networks_that_are_not_updated_keep_every_bit_and_so_do_their_optimisers() -> None:
    state, _ = AGENT.update(AGENT.init(0), batch_of())  # Adam now has momentum that could move things
    before = AGENT.arrays(state)
    after = update_critics(state, batch_of(seed=1))
    assert changed(before, AGENT.arrays(after)) == {"critic", "critic_optimiser", "target_critic", "key"}


def test_the_same_state_and_batch_give_the_same_bits() -> None:
    one, one_info = AGENT.update(AGENT.init(3), batch_of())
    two, two_info = AGENT.update(AGENT.init(3), batch_of())
    assert not changed(AGENT.arrays(one), AGENT.arrays(two))
    assert all(one_info[name].tobytes() == two_info[name].tobytes() for name in one_info)
    assert changed(AGENT.arrays(one), AGENT.arrays(AGENT.update(AGENT.init(4), batch_of())[0]))


def test_a_learner_step_is_cta_ratio_critic_updates_then_one_of_actor_and_temperature() -> None:
    batch = batch_of()

    @jax.jit
    def by_hand(state: SACState) -> tuple[SACState, list[jax.Array]]:
        means = []
        first, second = (jax.tree.map(lambda array, i=i: array[i], batch) for i in range(2))
        for one in (first, second):
            state, info = AGENT.update_critic(state, one)
            means.append(info["critic/critic_loss"])
        state, info = AGENT.update_actor(state, second)
        return AGENT.update_temperature(state, info["actor/entropy"])[0], means

    expected, losses = by_hand(AGENT.init(0))
    state, info = AGENT.update(AGENT.init(0), batch)
    for ours, theirs in zip(jax.tree.leaves(state), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    # what the critic-only update says is not thrown away
    assert float(info["critic/critic_loss"]) == pytest.approx(float(np.mean(losses)), rel=1e-4)
    assert float(losses[0]) != float(losses[1])


def test_critic_update_is_adam_on_the_hand_written_loss_and_polyak_on_the_target() -> None:
    state, batch = AGENT.init(0), jax.tree.map(lambda array: array[0], batch_of())
    key = jax.random.split(state.key, 5)[1]

    def loss(critic):
        next_actions, _ = state.actor.sample(batch.next_observations, key)
        next_qs = state.target_critic(jnp.concatenate((batch.next_observations, next_actions), 1))
        y = jnp.clip(batch.rewards + 0.97 * batch.masks * jnp.minimum(next_qs[0], next_qs[1]), 0, 1)
        qs = critic(jnp.concatenate((batch.observations, batch.actions), 1))
        return ((qs[0] - y) ** 2).mean() / 2 + ((qs[1] - y) ** 2).mean() / 2

    gradient = jax.jit(jax.grad(loss))(state.critic)
    new, _ = jax.jit(AGENT.update_critic)(state, batch)
    for g, old, after, old_target, target in zip(
        *map(jax.tree.leaves, (gradient, state.critic, new.critic, state.target_critic, new.target_critic)), strict=True
    ):
        g, old, after = map(np.asarray, (g, old, after))
        clear = np.abs(g) > 1e-5  # Adam's first step is lr * g / (|g| + 1e-8): lr in the direction of the sign
        np.testing.assert_allclose((after - old)[clear], -1e-3 * np.sign(g)[clear], rtol=2e-2)
        np.testing.assert_allclose(target, 0.995 * np.asarray(old_target) + 0.005 * after, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("field", ["observations", "actions", "rewards", "masks", "next_observations"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_batch_with_a_nan_or_infinite_value_changes_nothing_and_is_counted(field: str, value: float) -> None:
    state, _ = AGENT.update(AGENT.init(0), batch_of())
    before = AGENT.arrays(state)
    poisoned = batch_of(seed=1)
    getattr(poisoned, field)[0, 3] = value
    after = update_critics(state, poisoned)
    # the first of the two batches is dropped, the second is learned from
    assert int(after.dropped_updates) == 1
    assert all(np.isfinite(array).all() for array in AGENT.arrays(after).values())
    getattr(poisoned, field)[1, 3] = value
    before = AGENT.arrays(after)
    after = update_critics(after, poisoned)
    assert changed(before, AGENT.arrays(after)) == {"key", "dropped_updates"}
    assert int(after.dropped_updates) == 3


def test_a_poisoned_joint_update_leaves_actor_and_temperature_alone_too() -> None:
    poisoned = batch_of()
    poisoned.observations[:, 0] = np.nan
    before = AGENT.arrays(AGENT.init(0))
    after, info = AGENT.update(AGENT.init(0), poisoned)
    assert changed(before, AGENT.arrays(after)) == {"key", "dropped_updates"}
    assert int(info["learner/dropped_updates"]) == 4  # two of the critic, the actor, the temperature


def test_the_given_state_is_donated_and_copies_of_it_are_not() -> None:
    state = AGENT.init(0)
    copied, arrays, published = AGENT.copy(state), AGENT.arrays(state), AGENT.policy_parameters(state)
    kept = {name: array.copy() for name, array in arrays.items()}
    new, _ = AGENT.update(state, batch_of())
    for _ in range(3):
        new, _ = AGENT.update(new, batch_of())
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state))
    assert all((arrays[name] == kept[name]).all() for name in kept)
    assert not changed(kept, AGENT.arrays(copied))
    assert all((published[name] == kept[f"actor/{name}"]).all() for name in published if f"actor/{name}" in kept)


def test_arrays_go_out_and_come_back_bit_for_bit() -> None:
    state, _ = AGENT.update(AGENT.init(0), batch_of())
    arrays = AGENT.arrays(state)
    assert "critic/members/trunk/layers/0/weight" in arrays and arrays["critic/members/head/weight"].shape == (2, 16, 1)
    restored = AGENT.from_arrays(AGENT.init(7), arrays)
    one, _ = AGENT.update(state, batch_of(seed=2))
    two, _ = AGENT.update(restored, batch_of(seed=2))
    assert not changed(AGENT.arrays(one), AGENT.arrays(two))


def test_a_state_of_another_shape_is_refused_with_the_leaf_and_both_shapes() -> None:
    arrays = AGENT.arrays(AGENT.init(0))
    arrays["critic/members/head/weight"] = np.zeros((10, 16, 1), np.float32)
    with pytest.raises(FileUnreadable, match=r"critic/members/head/weight.*\(10, 16, 1\) as saved.*\(2, 16, 1\) as configured"):
        AGENT.from_arrays(AGENT.init(0), arrays)


def test_a_state_with_missing_or_unknown_leaves_is_refused_by_name() -> None:
    arrays = AGENT.arrays(AGENT.init(0))
    arrays["grasp_critic/weight"] = arrays.pop("actor/mean/bias")
    with pytest.raises(FileUnreadable, match=r"actor/mean/bias missing; grasp_critic/weight not known"):
        AGENT.from_arrays(AGENT.init(0), arrays)


def test_a_policy_can_be_loaded_and_acts_the_same() -> None:
    donor = AGENT.policy_parameters(AGENT.init(5))
    state = with_policy(AGENT, AGENT.init(0), donor)
    x = np.random.default_rng(0).standard_normal((8, 5), dtype=np.float32)
    np.testing.assert_array_equal(NumpyPolicy(AGENT.policy_parameters(state)).mode(x), NumpyPolicy(donor).mode(x))
    assert changed(AGENT.arrays(AGENT.init(0)), AGENT.arrays(state)) == {"actor"}


def test_a_policy_may_carry_two_critics_which_say_what_they_say_to_the_learner() -> None:
    state = AGENT.init(5)
    assert isinstance(state.critic, Ensemble)
    carrying = AGENT.exploring_parameters(state) | shown_critics(state.critic)
    random = np.random.default_rng(0)
    x, a = random.standard_normal((8, 5), dtype=np.float32), random.uniform(-1, 1, (8, 2)).astype(np.float32)
    shown = NumpyCritics(carrying, ACTIVATION_NAMES[int(carrying["activation"])])(x, a)
    np.testing.assert_allclose(shown, state.critic(jnp.concatenate([x, a], axis=1))[:2], rtol=1e-4, atol=1e-5)
    again = with_policy(AGENT, AGENT.init(0), carrying)
    assert changed(AGENT.arrays(AGENT.init(0)), AGENT.arrays(again)) == {"actor"}, "a run that starts from it has critics of its own"


def test_a_policy_of_another_size_or_activation_is_refused() -> None:
    donor = AGENT.policy_parameters(AGENT.init(5))
    with pytest.raises(FileUnreadable, match=r"the policy does not fit: 'mean/bias' is float32 \(3,\) as saved, float32 \(2,\)"):
        with_policy(AGENT, AGENT.init(0), donor | {"mean/bias": np.zeros(3, np.float32)})
    with pytest.raises(ConfigError, match="activation"):
        with_policy(AGENT, AGENT.init(0), donor | {"activation": np.array(1, np.int32)})


def test_published_parameters_are_those_of_acting_alone() -> None:
    published = AGENT.policy_parameters(AGENT.init(0))
    assert sum(array.size for array in published.values()) == (5 * 16 + 16 + 2 * 16) + (16 * 16 + 16 + 2 * 16) + 2 * (16 * 2 + 2) + 1 + 2
    assert all(isinstance(array, np.ndarray) for array in published.values())


def test_the_temperature_starts_as_configured_and_moves_towards_the_target_entropy() -> None:
    start = float(positive(AGENT.init(0).temperature))
    assert start == pytest.approx(0.01, rel=1e-3)
    update = jax.jit(AGENT.update_temperature)
    _, info = update(AGENT.init(0), jnp.float32(-3.0))  # below -action_dim / 2 = -1: more entropy is wanted
    assert float(info["actor/temperature"]) > start
    _, info = update(AGENT.init(0), jnp.float32(1.0))
    assert float(info["actor/temperature"]) < start


def test_the_published_settings_are_rlpds() -> None:
    assert (RLPD_PUBLISHED.cta_ratio, RLPD_PUBLISHED.critic_ensemble_size, RLPD_PUBLISHED.critic_subsample_size) == (20, 10, 2)
    assert (RLPD_PUBLISHED.discount, RLPD_PUBLISHED.backup_entropy, RLPD_PUBLISHED.temperature_init) == (0.99, True, 1.0)
    assert SACConfig().hidden == RLPD_PUBLISHED.hidden


def test_subset_entropy_backup_dropout_and_weight_decay_work_together() -> None:
    smaller = dataclasses.replace(RLPD_PUBLISHED, hidden=(8,), cta_ratio=6, critic_ensemble_size=3, weight_decay=0.01, critic_dropout=0.1)
    agent = SAC(dataclasses.replace(smaller, temperature_init=5.0), 5, 2, return_range=(0.0, 1.0))
    before = agent.arrays(agent.init(0))
    state, info = agent.update(agent.init(0), batch_of(agent, rows=8))
    assert changed(before, agent.arrays(state)) == set(SACState._fields) - {"dropped_updates", "average", "grasp", "anchor"}
    # a soft value holds the entropy of the next action, here 5 times about 1 nat: it must not be clipped to [0, 1]
    assert float(info["critic/target_qs"]) > 2.0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"critic_subsample_size": 3}, "critic_subsample_size must be from 1 to 2, got 3"),
        ({"discount": 1.5}, "discount must be from 0 to 1, got 1.5"),
        ({"cta_ratio": 0}, "cta_ratio"),
        ({"hidden": ()}, "hidden"),
        ({"activation": "gelu"}, "tanh, relu, swish"),
        ({"std_min": 9.0}, "std_min"),
    ],
)
def test_invalid_settings_are_refused_by_name(settings: dict, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        SACConfig(**settings)


def test_weights_of_0_imitate_nothing_and_bounds_that_are_not_known_bound_nothing() -> None:
    batch = batch_of()
    plain, _ = AGENT.update(AGENT.init(0), batch)
    unknown = np.full_like(batch.masks, -np.inf)
    same, info = AGENT.update(AGENT.init(0), batch._replace(imitation=np.zeros_like(batch.masks), bounds=unknown))
    assert float(info["actor/imitation_loss"]) == 0.0 and float(info["critic/bound_share"]) == 0.0
    for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves(same), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def test_the_temperature_sees_the_entropy_of_rows_that_are_not_imitated() -> None:
    """The same update with one half of the rows imitated, then the other: together they have the entropy of all rows."""
    batch, agent = batch_of(), dataclasses.replace(AGENT, config=dataclasses.replace(AGENT.config, entropy_of="own"))
    first = np.zeros_like(batch.masks)
    first[:, : first.shape[1] // 2] = 1e-9  # too little to move the actor
    entropies = [
        float(agent.update(agent.init(0), batch._replace(imitation=weights))[1]["actor/entropy"])
        for weights in (first, 1e-9 - first, np.zeros_like(first))
    ]
    assert abs(entropies[0] - entropies[1]) > 1e-3 and np.mean(entropies[:2]) == pytest.approx(entropies[2], abs=1e-4)


def test_targets_are_at_least_the_return_that_followed() -> None:
    batch = batch_of()
    _, info = AGENT.update(AGENT.init(0), batch._replace(bounds=np.full_like(batch.masks, 0.75)))
    assert float(info["critic/target_qs"]) >= 0.75 and float(info["critic/bound_share"]) > 0.5


def test_only_the_critics_learn_while_the_actor_is_not_to_be_moved() -> None:
    state, _ = AGENT.update(AGENT.init(0), batch_of())  # Adam now has momentum that could move things
    jitted: Any = SAC.update
    before, compiled = AGENT.arrays(state), jitted._cache_size()
    after, _ = AGENT.update(state, batch_of(seed=1), False)
    assert changed(before, AGENT.arrays(after)) == {"critic", "critic_optimiser", "target_critic", "key"}
    AGENT.update(after, batch_of(), True)
    assert jitted._cache_size() == compiled + 1, "True and False share a program (the default argument has its own)"


def test_the_average_follows_the_actor_and_acts_in_its_place() -> None:
    agent = dataclasses.replace(AGENT, config=dataclasses.replace(CONFIG, actor_average=0.25))
    state = agent.init(0)
    before = jax.tree.map(np.array, state.average)
    state, _ = agent.update(state, batch_of(agent))
    expected = jax.tree.map(lambda mean, new: mean + 0.25 * (new - mean), before, state.actor)
    for one, other in zip(jax.tree.leaves(expected), jax.tree.leaves(state.average), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    averaged, newest = agent.policy_parameters(state), agent.exploring_parameters(state)
    assert any((averaged[name] != newest[name]).any() for name in averaged)
    again = with_policy(agent, state, newest)
    assert all((agent.policy_parameters(again)[name] == newest[name]).all() for name in newest), "a start is its own average"


def test_a_checkpoint_without_an_average_is_read_by_an_agent_without_one() -> None:
    arrays = AGENT.arrays(AGENT.init(0))
    assert not any(name.startswith("average") for name in arrays)
    AGENT.from_arrays(AGENT.init(1), arrays)


def test_defaults_are_those_of_hil_serl() -> None:
    config = SACConfig()
    assert (config.discount, config.cta_ratio, config.critic_ensemble_size, config.critic_subsample_size) == (0.97, 2, 2, None)
    assert (config.backup_entropy, config.soft_target_update_rate, config.temperature_init, config.target_entropy) == (
        False,
        0.005,
        0.01,
        None,
    )
    assert (config.learning_rate, config.weight_decay, config.critic_dropout, config.hidden) == (3e-4, 0.0, 0.0, (256, 256))
    assert config.imitation == 0.0, "corrections are data like any other"
    assert config != CONFIG
