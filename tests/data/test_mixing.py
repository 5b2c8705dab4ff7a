"""Batches are half demonstrations from the first update on; corrections reach both sides."""

import numpy as np
import pytest
from data_samples import SPEC, transition

from tandem.data.mixing import Mixture, store
from tandem.data.replay import Replay, Returns
from tandem.errors import DataError


def replay(*rewards: float) -> Replay:
    """One transition per reward, by which it is known again."""
    filled = Replay(SPEC, 100)
    filled.extend(transition(number % 2, reward=reward) for number, reward in enumerate(rewards))
    return filled


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_every_batch_is_half_demonstrations_even_when_there_is_one_online_step():
    batch = Mixture(replay(1, 2, 3), replay(-1), batch_size=8).sample(rng(), num_batches=5)
    assert batch.rewards.shape == (5, 8) and batch.observations.shape == (5, 8, 4) and batch.next_observations.shape == (5, 8, 4)
    assert (batch.rewards[:, :4] > 0).all() and (batch.rewards[:, 4:] == -1).all()


def test_the_batches_of_one_call_differ():
    batch = Mixture(replay(*range(1, 90)), replay(*range(-90, 0)), batch_size=64).sample(rng(), num_batches=2)
    assert (batch.rewards[0] != batch.rewards[1]).any()


def test_rows_stay_whole_when_the_sides_are_put_together():
    demos, online = Replay(SPEC, 9), Replay(SPEC, 9)
    demos.extend(transition(0, reward=float(n), action=np.full(2, n / 10, np.float32)) for n in range(5))
    online.extend(transition(0, reward=float(n), action=np.full(2, n / 10, np.float32)) for n in range(5, 9))
    batch = Mixture(demos, online, 32).sample(rng(), 3)
    np.testing.assert_allclose(batch.actions[..., 0], batch.rewards / 10, rtol=1e-6)
    np.testing.assert_allclose(batch.actions[..., 1], batch.rewards / 10, rtol=1e-6)


@pytest.mark.parametrize(("demos", "online", "positive"), [(None, replay(-1), 0), (replay(), replay(-1), 0), (replay(1), replay(), 8)])
def test_while_one_side_is_empty_all_comes_from_the_other(demos, online, positive):
    batch = Mixture(demos, online, batch_size=8).sample(rng(), 2)
    assert (batch.rewards > 0).sum(axis=1).tolist() == [positive, positive]


@pytest.mark.parametrize(("corrections", "rows"), [(1, 1), (20, 20), (32, 32), (90, 32)])
def test_corrections_without_recorded_demonstrations_get_at_most_a_row_each(corrections, rows):
    online, demos = replay(*[-1.0] * 90), replay(*[1.0] * corrections)
    batch = Mixture(demos, online, batch_size=64, recorded=False).sample(rng(), 3)
    assert (batch.rewards > 0).sum(axis=1).tolist() == [rows] * 3
    recorded = Mixture(demos, online, batch_size=64).sample(rng(), 3)
    assert (recorded.rewards > 0).sum(axis=1).tolist() == [32] * 3, "recorded demonstrations are half of every batch, however few"


@pytest.mark.parametrize(("share", "positive"), [(1.0, 8), (0.0, 0), (0.25, 2)])
def test_the_share_of_demonstrations_can_be_chosen(share, positive):
    batch = Mixture(replay(1), replay(-1), batch_size=8).sample(rng(), 2, demo_share=share)
    assert (batch.rewards > 0).sum(axis=1).tolist() == [positive, positive]


def test_nothing_anywhere_and_impossible_numbers_are_refused():
    with pytest.raises(DataError, match="nothing to sample"):
        Mixture(None, replay(), 8).sample(rng(), 1)
    with pytest.raises(ValueError, match="demo_share"):
        Mixture(None, replay(1), 8).sample(rng(), 1, demo_share=1.5)
    with pytest.raises(ValueError, match="batch_size"):
        Mixture(None, replay(1), 0)


def test_the_same_random_state_gives_the_same_batches():
    mixture = Mixture(replay(*range(50)), replay(*range(50, 99)), batch_size=16)
    random = rng()
    mixture.sample(random, 2)
    state = random.bit_generator.state
    expected = mixture.sample(random, 2)
    again = rng()
    again.bit_generator.state = state
    np.testing.assert_array_equal(mixture.sample(again, 2).rewards, expected.rewards)


def test_a_batch_is_not_written_over_by_the_next_one():
    mixture = Mixture(replay(*range(50)), replay(*range(50, 99)), batch_size=16)
    random = rng()
    first = mixture.sample(random, 2)
    before = first.rewards.copy()
    second = mixture.sample(random, 2)
    np.testing.assert_array_equal(first.rewards, before)
    assert not any(np.shares_memory(one, other) for one, other in zip(first[:5], second[:5], strict=True))


def test_policy_steps_go_to_replay_only_and_corrections_to_both():
    online, demos = Replay(SPEC, 10), Replay(SPEC, 10)
    for number in range(8):
        store(transition(number, reward=float(number), intervened=number in (2, 3, 6)), number, online, demos, Returns(0.9))
    assert online.rows(np.arange(len(online))).rewards.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert demos.rows(np.arange(len(demos))).rewards.tolist() == [2, 3, 6]


def test_the_first_step_of_a_correction_is_stored_with_its_own_observation():
    """hil-serl glues the last frame of the previous correction to it; here moment 6 follows moment 3 in the buffer."""
    online, demos = Replay(SPEC, 10), Replay(SPEC, 10)
    for number in range(8):
        store(transition(number, intervened=number in (2, 3, 6)), number, online, demos, Returns(0.9))
    alone = Replay(SPEC, 1)
    alone.insert(transition(6))
    stored, expected = demos.rows(np.array([2])), alone.rows(np.array([0]))
    np.testing.assert_array_equal(stored.observations, expected.observations)
    np.testing.assert_array_equal(stored.next_observations, expected.next_observations)


def test_without_a_buffer_for_demonstrations_corrections_go_to_replay():
    online = Replay(SPEC, 10)
    store(transition(0, intervened=True), 0, online, None, Returns(0.9))
    assert len(online) == 1
