"""Running statistics: the same as those of everything at once, and still while something is learned from them."""

import numpy as np
import pytest

from tandem.networks.normaliser import OBSERVATION_EPSILON, Moments, Normaliser, RewardScaler, normalised


def test_moments_of_parts_are_those_of_the_whole() -> None:
    data = np.random.default_rng(0).normal([1.0, -200.0, 0.0], [0.1, 30.0, 0.0], (1000, 3)).astype(np.float32)
    moments = Moments.of(3)
    for part in np.split(data, [1, 2, 300, 301, 900]):
        moments.add(part)
    assert moments.count == 1000
    np.testing.assert_allclose(moments.mean, data.mean(0, dtype=float), rtol=1e-6)
    np.testing.assert_allclose(moments.variance, data.var(0, dtype=float), rtol=1e-5, atol=1e-12)


def test_many_samples_do_not_lose_digits() -> None:
    """In float32 a count of 2^24 plus 1 is 2^24: nothing would be learned any more."""
    moments = Moments(np.zeros(1), np.ones(1), count=2.0**40)
    moments.add(np.ones((1, 1), np.float32))
    assert moments.count == 2.0**40 + 1 and moments.mean[0] > 0


def test_before_the_first_sample_normalising_changes_nothing() -> None:
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    assert np.array_equal(Normaliser(Moments.of(3))(x), x)


def test_recorded_statistics_apply_only_after_advance() -> None:
    normaliser = Normaliser(Moments.of(1))
    x = np.array([[10.0], [12.0]], np.float32)
    before = normaliser(x)
    normaliser.record(x)
    assert np.array_equal(normaliser(x), before), "it moved while experience was collected"
    normaliser.advance()
    # mean 11, std 1: (10 - 11) / (1 + 0.01)
    np.testing.assert_allclose(normaliser(x), [[-1 / (1 + OBSERVATION_EPSILON)], [1 / (1 + OBSERVATION_EPSILON)]], rtol=1e-6)
    normaliser.advance()
    assert normaliser.moments.count == 2, "the same rows counted twice"


def test_normalised_observations_are_bounded_and_new() -> None:
    x = np.array([[1000.0, -1000.0, 0.5]], np.float32)
    bounded = normalised(x, np.zeros(3, np.float32), np.ones(3, np.float32), 10.0)
    assert bounded.tolist() == [[10.0, -10.0, 0.5]] and x[0, 0] == 1000.0 and bounded.dtype == np.float32


def test_the_state_gives_the_moments_back() -> None:
    moments = Moments.of(2)
    moments.add(np.arange(10.0).reshape(5, 2))
    again = Moments.from_state(moments.state())
    assert np.array_equal(again.mean, moments.mean) and np.array_equal(again.variance, moments.variance) and again.count == 5


def test_rewards_are_scaled_by_the_std_of_their_discounted_sum() -> None:
    # γ = 1/2, one environment, rewards 1 1 1, an end after the second: sums 1, 1.5, then from 0 again 1
    scaler = RewardScaler(1, gamma=0.5)
    scaled = scaler(np.ones((3, 1)), np.array([[False], [True], [False]]))
    std = np.std([1.0, 1.5, 1.0])
    np.testing.assert_allclose(scaled, np.full((3, 1), 1 / std), rtol=1e-4)
    # the sum runs on: 0.5 * 1 + 4 = 4.5
    scaler(np.full((1, 1), 4.0), np.array([[False]]))
    assert scaler.std == pytest.approx(np.std([1.0, 1.5, 1.0, 4.5]), rel=1e-6)


def test_scaled_rewards_keep_their_sign_and_their_bound() -> None:
    """Only the size is changed: a mean that was taken away would change what is optimal."""
    scaler = RewardScaler(2, gamma=0.99, clip=1.5)
    scaled = scaler(np.array([[100.0, -3.0], [1.0, 2.0]]), np.zeros((2, 2), bool))
    assert (np.sign(scaled) == [[1, -1], [1, 1]]).all() and scaled.max() == 1.5


def test_scaling_continues_from_its_state() -> None:
    random = np.random.default_rng(0)
    rewards, ended = random.standard_normal((20, 3)), random.random((20, 3)) < 0.1
    whole, first, second = (RewardScaler(3, 0.9) for _ in range(3))
    whole(rewards[:10], ended[:10])
    first(rewards[:10], ended[:10])
    second.restore(first.state())
    assert np.array_equal(whole(rewards[10:], ended[10:]), second(rewards[10:], ended[10:]))
