"""The grasp critic: a DQN for the discrete parts of an action, beside the arm's SAC and on the same batches."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from tandem.agents.grasp import GraspCritic, held_back
from tandem.agents.sac import SAC, SACState
from tandem.agents.sac_config import SACConfig
from tandem.agents.sac_start import with_policy
from tandem.networks.numpy_grasp import NumpyHybrid
from tandem.types import Batch
from tests.agents.sac_samples import batch_of

CONFIG = SACConfig(hidden=(8,), learning_rate=1e-3, discount=0.9, grasp_penalty=0.1, grasp_ensemble_size=2, actor_average=0.1)
GRASP = GraspCritic(CONFIG, observation_dim=5, columns=(2,), sizes=(3,), return_range=(0.0, 1.0))
HYBRID = SAC(CONFIG, 5, 2, (0.0, 1.0), GRASP)


def hybrid_batch(rows: int = 32, seed: int = 0) -> Batch:
    """The batch of the continuous agent with a column of choices behind the two axes."""
    batch, random = batch_of(HYBRID, rows, seed), np.random.default_rng([seed, 1])
    shape = batch.rewards.shape
    choices = random.integers(3, size=shape).astype(np.float32)
    return batch._replace(
        actions=np.concatenate([batch.actions, choices[..., None]], axis=-1),
        switches=(random.random(shape) < 0.3).astype(np.float32),
        switches_ahead=np.ones(shape, np.float32),
    )


def first(batch: Batch) -> Batch:
    return jax.tree.map(lambda array: array[0], batch)


def values(table, s: np.ndarray) -> np.ndarray:
    """(members, batch, choices)"""
    return np.asarray(jax.vmap(lambda member: member(jnp.asarray(s)))(table))


def test_the_target_is_that_of_double_dqn_less_the_penalty() -> None:
    state = HYBRID.init(0)
    for seed in range(3):  # so that newest and target networks differ
        state, _ = HYBRID.update(state, hybrid_batch(seed=seed))
    batch = first(hybrid_batch(seed=9))
    assert state.grasp is not None
    best = values(state.grasp.members, batch.next_observations).mean(axis=0).argmax(axis=1)
    next_q = values(state.grasp.target, batch.next_observations)[:, np.arange(32), best].min(axis=0)
    # low end: all the penalties that an episode without end could have, 0.1 / (1 - 0.9) = 1
    expected = np.clip(batch.rewards - 0.1 * batch.switches + 0.9 * batch.masks * next_q, -1.0, 1.0)
    found = GRASP._target(state.grasp, batch, jnp.asarray(batch.next_observations))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (batch.switches > 0).any() and (batch.masks == 0).any(), "a batch on which the parts of the formula show"


def test_the_return_that_followed_is_the_least_that_a_target_can_be_less_its_own_penalties() -> None:
    state = HYBRID.init(0)
    batch = first(hybrid_batch())._replace(bounds=np.full(32, 0.95, np.float32), rewards=np.zeros(32, np.float32))
    assert state.grasp is not None
    found = GRASP._target(state.grasp, batch._replace(masks=np.zeros(32, np.float32)), jnp.asarray(batch.next_observations))
    np.testing.assert_allclose(found, 0.95 - 0.1, atol=1e-6)


def test_the_arm_learns_as_if_there_were_no_choices_and_no_penalty() -> None:
    """Equal to the digit: the same batch without the column of choices, and an agent without a grasp critic."""
    alone = dataclasses.replace(HYBRID, grasp=None)
    batch = hybrid_batch()
    both, _ = HYBRID.update(HYBRID.init(3), batch)
    arm, _ = alone.update(alone.init(3), batch._replace(actions=batch.actions[..., :2], switches=None, switches_ahead=None))
    one, other = alone.arrays(both._replace(grasp=None)), alone.arrays(arm)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_the_penalty_reaches_the_grasp_critic() -> None:
    batch = hybrid_batch()
    with_it, _ = HYBRID.update(HYBRID.init(3), batch)
    without, _ = HYBRID.update(HYBRID.init(3), batch._replace(switches=np.zeros_like(batch.switches)))
    assert not np.array_equal(_head(with_it), _head(without))


def _head(state: SACState) -> np.ndarray:
    assert state.grasp is not None
    return np.asarray(state.grasp.members.head.bias)


def test_what_was_not_shown_is_held_back_and_what_was_shown_is_not_moved() -> None:
    qs = jnp.array([[[0.5, 0.4, 0.1]]])  # a member, a row, three choices
    gradient = jax.grad(lambda q: held_back(q, jnp.array([1]), 0.2).sum())(qs)
    # 0.5 exceeds 0.4 - 0.2 by 0.3: slope 2 · 0.3; 0.1 is below 0.2 already
    np.testing.assert_allclose(gradient, [[[0.6, 0.0, 0.0]]], atol=1e-6)


TWO_HANDS = GraspCritic(
    dataclasses.replace(CONFIG, grasp_penalty=0.0, learning_rate=1e-2, hidden=(32,)),
    observation_dim=5,
    columns=(1, 3),
    sizes=(3, 3),
    return_range=(0.0, 1.0),
)


def test_two_grippers_share_one_table_of_nine() -> None:
    actions = jnp.array([[0.5, 1.0, -0.5, 2.0], [0.1, 2.0, 0.2, 0.0]])
    assert TWO_HANDS.choice(actions).tolist() == [5, 6]
    np.testing.assert_allclose(TWO_HANDS.arm(actions), [[0.5, -0.5], [0.1, 0.2]])


def test_two_grippers_learn_what_only_both_together_achieve() -> None:
    """Both hands must close on the same side, and which one is seen: no hand can be valued without the other."""
    random = np.random.default_rng(0)

    def drawn(rows: int) -> Batch:
        s = random.standard_normal((rows, 5)).astype(np.float32)
        actions = random.uniform(-1, 1, (rows, 4)).astype(np.float32)
        actions[:, [1, 3]] = random.integers(3, size=(rows, 2))
        wanted = np.where(s[:, :1] > 0, [0, 2], [2, 0])
        reward = (actions[:, [1, 3]] == wanted).all(axis=1).astype(np.float32)
        none = np.zeros(rows, np.float32)
        return Batch(s, actions, reward, none, s, switches=none, switches_ahead=none)

    state, update = TWO_HANDS.init(jax.random.PRNGKey(0)), jax.jit(lambda state, batch: TWO_HANDS.update(state, batch)[0])
    for _ in range(300):
        state = update(state, drawn(256))
    agent = SAC(TWO_HANDS.config, 5, 2, (0.0, 1.0), TWO_HANDS)
    policy = NumpyHybrid(agent.policy_parameters(agent.init(0)) | TWO_HANDS.parameters(state.members))
    x = random.standard_normal((200, 5)).astype(np.float32)
    chosen = policy.mode(x)[:, [1, 3]]
    assert np.mean((chosen == np.where(x[:, :1] > 0, [0, 2], [2, 0])).all(axis=1)) > 0.95


def test_the_policy_without_jax_does_the_same() -> None:
    state, _ = HYBRID.update(HYBRID.init(1), hybrid_batch())
    policy = NumpyHybrid(HYBRID.exploring_parameters(state))
    x = np.random.default_rng(0).standard_normal((64, 5)).astype(np.float32)
    assert state.grasp is not None
    np.testing.assert_allclose(policy.values(x), values(state.grasp.members, x).mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(policy.mode(x)[:, :2], state.actor.mode(jnp.asarray(x)), atol=1e-5)
    assert set(policy.mode(x)[:, 2].tolist()) <= {0.0, 1.0, 2.0}
    assert policy.mode(x[0]).shape == (3,)


DOUBTING = dataclasses.replace(GRASP, config=dataclasses.replace(CONFIG, grasp_doubt=1.0), rest=1)


def test_what_the_members_disagree_about_is_left_as_it_is() -> None:
    """Opening is better than rest by 0.1 in the mean: of members that say so both, and of members that say 0.5 and -0.3."""
    agreeing, apart = np.array([[[0.0, 0.2, 0.31]], [[0.0, 0.4, 0.49]]]), np.array([[[0.0, 0.2, 0.7]], [[0.0, 0.4, 0.1]]])
    for said, chosen in ((agreeing, 2), (apart, 1)):
        worth = np.asarray(DOUBTING._worth(jnp.asarray(said)))
        assert worth.argmax(axis=1) == [chosen]
        np.testing.assert_allclose(worth[0, 1], 0.3, atol=1e-6)  # rest is worth what the members say in the mean
        assert np.asarray(GRASP._worth(jnp.asarray(said))).argmax(axis=1) == [2], "without doubts the mean decides"
    np.testing.assert_allclose(np.asarray(DOUBTING._worth(jnp.asarray(apart)))[0, 2], 0.4 - 0.4, atol=1e-6)  # mean 0.4, std of 0.5 and -0.3


def test_doubt_is_in_the_target_and_in_the_policy_without_jax() -> None:
    state, _ = HYBRID.update(HYBRID.init(1), hybrid_batch())
    assert state.grasp is not None
    policy = NumpyHybrid(HYBRID.exploring_parameters(state) | DOUBTING.parameters(state.grasp.members))
    x = np.random.default_rng(0).standard_normal((64, 5)).astype(np.float32)
    said = values(state.grasp.members, x)
    np.testing.assert_allclose(policy.values(x), DOUBTING._worth(jnp.asarray(said)), atol=1e-5)
    np.testing.assert_array_equal(policy.mode(x)[:, 2], policy.values(x).argmax(axis=1))
    assert np.mean(policy.mode(x)[:, 2] == 1) > np.mean(said.mean(axis=0).argmax(axis=1) == 1), "rest more often"
    batch = first(hybrid_batch(seed=9))
    best = policy.values(batch.next_observations).argmax(axis=1)
    next_q = values(state.grasp.target, batch.next_observations)[:, np.arange(32), best].min(axis=0)
    expected = np.clip(batch.rewards - 0.1 * batch.switches + 0.9 * batch.masks * next_q, -1.0, 1.0)
    np.testing.assert_allclose(DOUBTING._target(state.grasp, batch, jnp.asarray(batch.next_observations)), expected, atol=1e-5)


def test_exploration_tries_near_ties_and_any_choice_only_where_it_is_told_to() -> None:
    drawing = dataclasses.replace(GRASP, config=dataclasses.replace(CONFIG, grasp_temperature=0.5))
    x = np.tile(np.random.default_rng(0).standard_normal(5).astype(np.float32), (4000, 1))
    state = HYBRID.init(0)
    assert state.grasp is not None
    greedy = NumpyHybrid(HYBRID.policy_parameters(state))
    drawn = NumpyHybrid(HYBRID.policy_parameters(state) | drawing.parameters(state.grasp.members))
    assert len(set(greedy.sample(x, np.random.default_rng(0))[:, 2].tolist())) == 1
    scores = np.exp(drawn.values(x[0]) / 0.5)
    shares = [np.mean(drawn.sample(x, np.random.default_rng(0))[:, 2] == choice) for choice in range(3)]
    np.testing.assert_allclose(shares, scores / scores.sum(), atol=0.03)  # four standard errors of a share of 4,000


def test_epsilon_is_a_share_of_random_choices() -> None:
    trying = dataclasses.replace(GRASP, config=dataclasses.replace(CONFIG, grasp_epsilon=0.3))
    state = HYBRID.init(0)
    assert state.grasp is not None
    policy = NumpyHybrid(HYBRID.policy_parameters(state) | trying.parameters(state.grasp.members))
    x = np.tile(np.random.default_rng(0).standard_normal(5).astype(np.float32), (4000, 1))
    others = np.mean(policy.sample(x, np.random.default_rng(0))[:, 2] != policy.mode(x)[:, 2])
    np.testing.assert_allclose(others, 0.3 * 2 / 3, atol=0.03)


def test_the_moving_average_of_the_policy_acts_with_the_target_networks() -> None:
    state, _ = HYBRID.update(HYBRID.init(0), hybrid_batch())
    assert state.grasp is not None
    judged, exploring = HYBRID.policy_parameters(state), HYBRID.exploring_parameters(state)
    np.testing.assert_array_equal(judged["grasp/head/bias"], state.grasp.target.head.bias)
    np.testing.assert_array_equal(exploring["grasp/head/bias"], state.grasp.members.head.bias)


def test_a_batch_with_a_nan_moves_nothing() -> None:
    state = HYBRID.init(0)
    before = HYBRID.arrays(state)
    batch = hybrid_batch()
    broken = batch._replace(rewards=np.full_like(batch.rewards, np.nan))
    after, _ = HYBRID.update(state, broken)
    for name, array in HYBRID.arrays(after).items():
        if name.startswith("grasp/"):
            np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_a_clone_chooses_what_was_shown_and_values_it_by_what_followed() -> None:
    random = np.random.default_rng(0)
    s = random.standard_normal((600, 5)).astype(np.float32)
    shown = (s[:, 0] > 0).astype(np.float32)  # choice 0 or 1, never 2
    demos = Batch(
        s, np.stack([s[:, 1], s[:, 2], shown], axis=1), np.zeros(600, np.float32), np.ones(600, np.float32), s,
        bounds=np.full(600, 0.7, np.float32), switches=np.zeros(600, np.float32), switches_ahead=np.full(600, 2.0, np.float32),
    )  # fmt: skip
    parameters = GRASP.cloned(demos, 1500, seed=0)
    policy = NumpyHybrid(HYBRID.policy_parameters(HYBRID.init(0)) | parameters)
    values_of = policy.values(s)
    assert np.mean(values_of.argmax(axis=1) == shown) > 0.95
    np.testing.assert_allclose(values_of.max(axis=1).mean(), 0.7 - 0.1 * 2.0, atol=0.05)
    started = with_policy(HYBRID, HYBRID.init(5), HYBRID.policy_parameters(HYBRID.init(5)) | parameters)
    assert started.grasp is not None
    np.testing.assert_allclose(values(started.grasp.target, s).mean(axis=0), values_of, atol=1e-5)


# ---- a pupil, where the members see what no policy does

KNOWING = dataclasses.replace(GRASP, pupil_sees=5)
"""Its pupil sees the same numbers in another order."""


def log_shares(x: np.ndarray) -> np.ndarray:
    largest = x.max(axis=1, keepdims=True)
    return x - largest - np.log(np.exp(x - largest).sum(axis=1, keepdims=True))


def test_a_pupil_learns_what_the_members_say_of_all_choices_and_they_do_not_notice() -> None:
    batch, alone, both = first(hybrid_batch()), GRASP.init(jax.random.PRNGKey(0)), KNOWING.init(jax.random.PRNGKey(0))
    seen = batch.observations[:, ::-1]
    assert both.pupil is not None and alone.pupil is None
    wanted = log_shares(values(both.members, batch.observations).mean(axis=0) / 0.02)  # a tenth of the margin, which is 0.2
    expected = (np.exp(wanted) * (wanted - log_shares(values(both.pupil.table, seen)[0] / 0.02))).sum(axis=1).mean()
    after, info, _ = UPDATE(both, batch, jnp.asarray(seen))
    np.testing.assert_allclose(info["grasp_critic/pupil_loss"], expected, rtol=1e-3)
    plain, _, _ = jax.jit(GRASP.update)(alone, batch)
    for one, other in zip(jax.tree.leaves((after.members, after.target)), jax.tree.leaves((plain.members, plain.target)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    learned = after
    for _ in range(600):
        learned, info, _ = UPDATE(learned, batch, jnp.asarray(seen))
    assert float(info["grasp_critic/pupil_loss"]) < 0.3 * expected and float(info["grasp_critic/pupil_agrees"]) > 0.8
    # the newest explores, its average is judged; both are the pupil's
    assert learned.pupil is not None
    assert KNOWING.acting(learned, newest=True) is learned.pupil.table and KNOWING.acting(learned, newest=False) is learned.pupil.average
    assert KNOWING.parameters(KNOWING.acting(learned, newest=True))["grasp/head/bias"].shape == (1, 3)


UPDATE = jax.jit(KNOWING.update)


def test_a_nan_leaves_the_pupil_as_it_was() -> None:
    batch, state = first(hybrid_batch()), KNOWING.init(jax.random.PRNGKey(0))
    after, _, finite = KNOWING.update(
        state, batch._replace(rewards=np.full(32, np.nan, np.float32)), jnp.asarray(batch.observations[:, ::-1])
    )
    assert not finite
    for one, other in zip(jax.tree.leaves(after.pupil), jax.tree.leaves(state.pupil), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_clone_brings_its_pupil_and_the_teachers_of_it() -> None:
    random = np.random.default_rng(0)
    s = random.standard_normal((600, 5)).astype(np.float32)
    shown = (s[:, 0] > 0).astype(np.float32)
    demos = Batch(
        s, np.stack([s[:, 1], s[:, 2], shown], axis=1), np.zeros(600, np.float32), np.ones(600, np.float32), s,
        bounds=np.full(600, 0.7, np.float32), switches=np.zeros(600, np.float32), switches_ahead=np.zeros(600, np.float32),
    )  # fmt: skip
    parameters = KNOWING.cloned(demos, 1500, 0, s[:, ::-1])
    started = KNOWING.from_parameters(KNOWING.init(jax.random.PRNGKey(5)), parameters)
    assert started.pupil is not None
    for table, sees in ((started.members, s), (started.target, s), (started.pupil.table, s[:, ::-1]), (started.pupil.average, s[:, ::-1])):
        assert np.mean(values(table, sees).mean(axis=0).argmax(axis=1) == shown) > 0.95
    # a policy of a run has no teachers: then they stay as they are
    acting = {name: array for name, array in parameters.items() if "teachers" not in name}
    kept = KNOWING.init(jax.random.PRNGKey(5))
    np.testing.assert_array_equal(KNOWING.from_parameters(kept, acting).members.head.bias, kept.members.head.bias)
