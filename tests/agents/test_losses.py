"""Every formula against numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem.agents import losses

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


def test_cloning_losses_by_hand() -> None:
    # squares 0.01, 0.04, 0, 0.09: mean 0.035
    assert float(losses.cloning_mse(jnp.array([[0.1, 0.2], [0.0, 0.3]]), jnp.zeros((2, 2)))) == pytest.approx(0.035)
    assert float(losses.cloning_nll(jnp.array([-1.0, 3.0]))) == pytest.approx(-1.0)


def test_shapes_that_would_broadcast_silently_are_refused() -> None:
    # (batch, 1) against (batch,) would make a (batch, batch) target
    with pytest.raises(AssertionError):
        losses.td_target(R[:, None], MASK, NEXT_QS, 0.9)
    with pytest.raises(AssertionError):
        losses.critic_loss(jnp.zeros((2, 3)), jnp.zeros((3, 1)))
    with pytest.raises(AssertionError):
        losses.actor_loss(jnp.zeros((2, 3)), jnp.zeros((3, 1)), 0.1)
