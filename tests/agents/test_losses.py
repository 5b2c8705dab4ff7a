"""Every formula against numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem.agents import imitating, losses, ppo_losses
from tandem.agents.bc import cloning_mse

NEXT_QS = jnp.array([[0.8, 0.5, 0.9], [0.6, 0.7, 0.2]])  # minima 0.6, 0.5, 0.2
R = jnp.array([0.0, 1.0, 0.5])
MASK = jnp.array([1.0, 0.0, 1.0])
LOG_PI = jnp.array([-2.0, 3.0, 1.0])


def test_target_is_reward_plus_discounted_minimum_and_stops_where_the_task_ended() -> None:
    # 0 + 0.9 * 0.6 = 0.54;  1 + 0 (ended);  0.5 + 0.9 * 0.2 = 0.68
    np.testing.assert_allclose(losses.td_target(R, MASK, NEXT_QS, 0.9), [0.54, 1.0, 0.68], rtol=1e-6)


def test_the_value_of_k_steps_before_success_is_the_discount_to_the_k() -> None:
    q, gamma = jnp.zeros((2, 1)), 0.99
    q = jnp.broadcast_to(losses.td_target(jnp.ones(1), jnp.zeros(1), q, gamma), (2, 1))  # the step that succeeds: 1
    for k in range(1, 4):
        q = jnp.broadcast_to(losses.td_target(jnp.zeros(1), jnp.ones(1), q, gamma), (2, 1))
        assert float(q[0, 0]) == pytest.approx(0.99**k)  # 0.99, 0.9801, 0.970299


def test_entropy_backup_is_discounted_and_masked() -> None:
    # values 0.6 + 0.1 * 2 = 0.8;  (ended);  0.2 - 0.1 * 1 = 0.1;  targets 0.72, 1.0, 0.59
    y = losses.td_target(R, MASK, NEXT_QS, 0.9, alpha=0.1, next_log_pi=LOG_PI)
    np.testing.assert_allclose(y, [0.72, 1.0, 0.59], rtol=1e-6)
    # without discount and mask the second would be 1 - 0.1 * 3 = 0.7


def test_targets_are_clipped_to_the_possible_returns() -> None:
    # unclipped 0.54, 1.0, 0.68, then with rewards 2 and -3: 2.0 and 0.5 - 3 + ... < 0
    y = losses.td_target(R + jnp.array([0.0, 1.0, -3.0]), MASK, NEXT_QS, 0.9, return_range=(0.0, 1.0))
    np.testing.assert_allclose(y, [0.54, 1.0, 0.0], rtol=1e-6)


def test_critic_loss_is_the_mean_over_members_and_batch() -> None:
    # errors 1, 0, -1 and 2, 0, 0: squares 1 0 1 4 0 0, sum 6, of 6 numbers
    assert float(losses.critic_loss(jnp.array([[2.0, 0.0, 1.0], [3.0, 0.0, 2.0]]), jnp.array([1.0, 0.0, 2.0]))) == pytest.approx(1.0)


def test_actor_loss_takes_the_mean_of_the_members_not_their_minimum() -> None:
    # means of the members 0.7, 0.6, 0.55; 0.1 log π = -0.2, 0.3, 0.1; differences -0.9, -0.3, -0.45; mean -0.55
    assert float(losses.actor_loss(NEXT_QS, LOG_PI, 0.1)) == pytest.approx(-0.55)


def test_temperature_rises_when_the_policy_is_too_sure_and_falls_when_it_is_too_random() -> None:
    # L = α (H - H*): 0.2 * (-4 + 3) = -0.2; its slope in α is H - H*
    assert float(losses.temperature_loss(jnp.float32(0.2), jnp.float32(-4.0), -3.0)) == pytest.approx(-0.2)
    slope = jax.grad(lambda raw, h: losses.temperature_loss(losses.positive(raw), h, -3.0))
    assert float(slope(jnp.float32(0.0), jnp.float32(-4.0))) < 0 < float(slope(jnp.float32(0.0), jnp.float32(-2.0)))


@pytest.mark.parametrize("alpha", [1e-4, 0.01, 1.0, 20.0])
def test_the_raw_temperature_gives_the_temperature_back(alpha: float) -> None:
    assert float(losses.positive(losses.raw_of_positive(alpha))) == pytest.approx(alpha, rel=1e-3)


def test_a_subset_is_drawn_without_replacement_and_evenly() -> None:
    keys = jax.random.split(jax.random.PRNGKey(0), 3000)
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: losses.random_subset(key, 2, 5)))(keys))
    assert (drawn[:, 0] != drawn[:, 1]).all()  # with replacement, 600 of 3000 would be pairs of the same
    # each of 5 is in a pair with probability 2/5
    np.testing.assert_allclose(np.bincount(drawn.ravel()) / 3000, 0.4, atol=0.04)


def test_the_cloning_loss_by_hand() -> None:
    # squares 0.01, 0.04, 0, 0.09: mean 0.035
    assert float(cloning_mse(jnp.array([[0.1, 0.2], [0.0, 0.3]]), jnp.zeros((2, 2)))) == pytest.approx(0.035)


def test_the_distance_from_corrections_by_hand_counts_corrected_rows_alone() -> None:
    a, shown = jnp.array([[0.1, 0.2], [0.5, 0.5], [0.0, 0.3]]), jnp.zeros((3, 2))
    # 0.01 + 0.04 and 0.09, over the three rows of the batch
    assert float(imitating.imitation_loss(a, shown, jnp.array([1.0, 0.0, 1.0]))) == pytest.approx(0.14 / 3)
    assert float(imitating.imitation_loss(a, shown, jnp.zeros(3))) == 0.0


def test_the_entropy_that_the_temperature_aims_at_is_that_of_rows_that_are_not_imitated() -> None:
    """A batch of two demonstrations at -9 nats and two own steps at -3."""
    log_pi = jnp.array([9.0, 9.0, 2.0, 4.0])
    assert float(imitating.own_entropy(log_pi, jnp.array([0.5, 0.5, 0.0, 0.0]))) == -3.0
    assert float(imitating.own_entropy(log_pi, jnp.zeros(4))) == -6.0
    assert float(imitating.own_entropy(log_pi, jnp.ones(4))) == -6.0, "where there are no others, all count"


def test_shapes_that_would_broadcast_silently_are_refused() -> None:
    # (batch, 1) against (batch,) would make a (batch, batch) target
    with pytest.raises(AssertionError):
        losses.td_target(R[:, None], MASK, NEXT_QS, 0.9)
    with pytest.raises(AssertionError):
        losses.critic_loss(jnp.zeros((2, 3)), jnp.zeros((3, 1)))
    with pytest.raises(AssertionError):
        losses.actor_loss(jnp.zeros((2, 3)), jnp.zeros((3, 1)), 0.1)


def test_the_surrogate_by_hand_gains_stop_at_the_clip_and_losses_do_not() -> None:
    # ratios 1.5, 1.5, 0.5, 0.5, 1; advantages 2, -2, 2, -2, 3; clip 0.2
    # max(-3, -2.4) = -2.4;  max(3, 2.4) = 3;  max(-1, -1.6) = -1;  max(1, 1.6) = 1.6;  -3;  mean -1.8 / 5
    ratio = jnp.array([1.5, 1.5, 0.5, 0.5, 1.0])
    loss, ratios = ppo_losses.clipped_surrogate(jnp.log(ratio), jnp.array([2.0, -2.0, 2.0, -2.0, 3.0]), 0.2)
    assert float(loss) == pytest.approx(-0.36)
    np.testing.assert_allclose(ratios, ratio, rtol=1e-6)
    # where the clip holds there is no gradient: the first and the fourth
    slope = jax.grad(lambda log_ratio: ppo_losses.clipped_surrogate(log_ratio, jnp.array([2.0, -2.0, 2.0, -2.0, 3.0]), 0.2)[0])
    np.testing.assert_array_equal(slope(jnp.log(ratio)) == 0, [True, False, False, True, False])


def test_the_value_loss_by_hand_takes_the_worse_of_both() -> None:
    # v 1, 1, 5; before 0, 0, 5; returns 3, 0, 5; clip 0.5
    # (1-3)² = 4 against (0.5-3)² = 6.25;  1 against 0.25;  0 and 0
    v, old, returns = jnp.array([1.0, 1.0, 5.0]), jnp.array([0.0, 0.0, 5.0]), jnp.array([3.0, 0.0, 5.0])
    assert float(ppo_losses.clipped_value_loss(v, old, returns, 0.5)) == pytest.approx((6.25 + 1) / 3)
    assert float(ppo_losses.clipped_value_loss(v, old, returns, None)) == pytest.approx((4 + 1) / 3)


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_column_among_rows_is_refused_not_broadcast(wrong: int) -> None:
    a, b, c = (jnp.zeros((4, 1) if place == wrong else 4) for place in range(3))
    with pytest.raises(AssertionError):
        ppo_losses.clipped_value_loss(a, b, c, 0.2)
    with pytest.raises(AssertionError):
        ppo_losses.clipped_surrogate(*((a, b) if wrong < 2 else (b, c)), 0.2)


@pytest.mark.parametrize(
    ("rate", "kl", "expected"),
    [
        (1e-3, 0.0201, 1e-3 / 1.5),  # more than twice what is wanted
        (1e-3, 0.0200, 1e-3),
        (1e-3, 0.0050, 1e-3),
        (1e-3, 0.0049, 1.5e-3),  # less than half
        (1e-3, 0.0, 1e-3),  # nothing has moved yet: that is not a reason to go faster
        (1.2e-5, 1.0, 1e-5),
        (9e-3, 0.001, 1e-2),
    ],
)
def test_the_adaptive_rule_is_rsl_rls(rate: float, kl: float, expected: float) -> None:
    new = ppo_losses.adapted_learning_rate(jnp.float32(rate), jnp.float32(kl), 0.01, high=2.0, low=0.5, factor=1.5, bounds=(1e-5, 1e-2))
    assert float(new) == pytest.approx(expected, rel=1e-5)
