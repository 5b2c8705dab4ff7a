"""A row is a whole transition, whatever was inserted before and after it."""

import dataclasses
import resource

import numpy as np
import pytest
from data_samples import SPEC, observation, transition
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.data.replay import Replay
from tandem.errors import DataError
from tandem.layouts import Layout
from tandem.types import Batch, Entry, Transition

# With these scales no moment up to 5000 is clipped, so a row says exactly which moments it is made of.
WIDE = dataclasses.replace(SPEC, observation={"pose": Entry((3,), scale=1000.0), "touch": Entry((), scale=1000.0)})


def moment(number: int, **changes) -> Transition:
    """Transition `number`, recognisable in each of its fields."""
    return transition(number, action=np.array([number / 5000, -number / 5000], np.float32), reward=float(number), **changes)


def expected_row(step: Transition) -> tuple:
    return (
        *Layout(WIDE).flatten(step.observation).tolist(),
        *step.action.tolist(),
        step.reward,
        0.0 if step.terminated else 1.0,
        *Layout(WIDE).flatten(step.next_observation).tolist(),
    )


def rows_of(batch: Batch) -> list[tuple]:
    columns = np.concatenate(
        [batch.observations, batch.actions, batch.rewards[..., None], batch.masks[..., None], batch.next_observations], axis=-1
    )
    return [tuple(row) for row in columns.reshape(-1, columns.shape[-1]).tolist()]


def all_rows(replay: Replay) -> list[tuple]:
    return rows_of(replay.rows(np.arange(len(replay))))


@settings(max_examples=100, deadline=None)
@given(
    capacity=st.integers(1, 12),
    numbers=st.lists(st.integers(0, 4000), min_size=1, max_size=40),
    flags=st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=40, max_size=40),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_sampled_row_is_one_of_the_last_inserted_whole(capacity, numbers, flags, seed):
    """Any order of moments is any cutting and interleaving of segments; capacities below their number close the ring."""
    steps = [
        moment(number, terminated=terminated, truncated=truncated, intervened=intervened)
        for number, (terminated, truncated, intervened) in zip(numbers, flags, strict=False)
    ]
    replay = Replay(WIDE, capacity)
    replay.extend(steps)
    kept = [expected_row(step) for step in steps[-capacity:]]
    assert len(replay) == len(kept)
    assert all_rows(replay) == kept  # by age, the oldest first
    assert set(rows_of(replay.sample(np.random.default_rng(seed), (2, 30)))) <= set(kept)


@settings(max_examples=50, deadline=None)
@given(capacity=st.integers(1, 12), total=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_a_replay_filled_again_with_its_last_rows_samples_the_same(capacity, total, seed):
    steps = [moment(number) for number in range(total)]
    stepped, refilled = Replay(WIDE, capacity), Replay(WIDE, capacity)
    stepped.extend(steps)
    refilled.extend(steps[-capacity:])
    one, other = (rows_of(replay.sample(np.random.default_rng(seed), 64)) for replay in (stepped, refilled))
    assert one == other
    stepped.insert(moment(77))
    refilled.insert(moment(77))
    assert all_rows(stepped) == all_rows(refilled)


def test_a_segment_cut_out_of_an_episode_keeps_its_own_observations():
    """Interventions at moments 10-12 and 40-42: a buffer that shares frames gives moment 40 the frame of moment 13."""
    replay = Replay(WIDE, 100)
    replay.extend(moment(number) for number in (10, 11, 12, 40, 41, 42))
    rows = replay.rows(np.arange(6))
    pose = slice(0, 3)
    for row, number in enumerate((10, 11, 12, 40, 41, 42)):
        np.testing.assert_array_equal(rows.observations[row, pose], observation(number)["pose"] / np.float32(1000))
        np.testing.assert_array_equal(rows.next_observations[row, pose], observation(number + 1)["pose"] / np.float32(1000))


def test_a_time_out_is_valued_beyond_and_an_end_is_not():
    replay = Replay(SPEC, 4)
    replay.extend(
        [transition(0), transition(1, truncated=True), transition(2, terminated=True), transition(3, terminated=True, truncated=True)]
    )
    np.testing.assert_array_equal(replay.rows(np.arange(4)).masks, [1, 1, 0, 0])


def test_samples_are_uniform_over_the_rows():
    replay = Replay(WIDE, 4)
    replay.extend(moment(number) for number in range(6))  # rows 2, 3, 4, 5 after the ring has closed
    rewards = replay.sample(np.random.default_rng(0), 40_000).rewards
    counts = np.bincount(rewards.astype(int), minlength=6)
    assert counts[:2].tolist() == [0, 0]
    assert np.abs(counts[2:] - 10_000).max() < 450  # binomial: sigma = sqrt(40000 / 4 * 3 / 4) = 87; five sigma


def test_more_rows_than_there_are_can_be_drawn_and_their_arrays_are_their_own():
    replay = Replay(WIDE, 10)
    replay.insert(moment(3))
    batch = replay.sample(np.random.default_rng(0), (4, 5))
    assert batch.observations.shape == (4, 5, 4) and batch.actions.shape == (4, 5, 2) and batch.rewards.shape == (4, 5)
    assert {array.dtype for array in batch[:5]} == {np.dtype(np.float32)}
    batch.observations[:] = -1
    assert all_rows(replay) == [expected_row(moment(3))]


def test_an_image_is_kept_as_it_is_beside_the_vector():
    spec = dataclasses.replace(SPEC, observation={**SPEC.observation, "wrist": Entry((2, 2), dtype="uint8")})
    images = [np.full((2, 2), number, np.uint8) for number in range(4)]
    replay = Replay(spec, 2)
    for number in range(3):
        step = transition(number)
        replay.insert(
            dataclasses.replace(
                step,
                observation=step.observation | {"wrist": images[number]},
                next_observation=step.next_observation | {"wrist": images[number + 1]},
            )
        )
    rows = replay.rows(np.arange(2))
    assert rows.raw["wrist"].dtype == np.uint8 and rows.observations.shape == (2, 4)
    np.testing.assert_array_equal(rows.raw["wrist"][:, 0, 0], [1, 2])
    np.testing.assert_array_equal(rows.next_raw["wrist"][:, 0, 0], [2, 3])


def test_an_empty_replay_says_what_is_missing():
    with pytest.raises(DataError, match="no transition of 'peg' has arrived"):
        Replay(SPEC, 4).sample(np.random.default_rng(0), 1)
    with pytest.raises(ValueError, match="capacity of 0"):
        Replay(SPEC, 0)


@pytest.mark.parametrize(
    "change", [{"action": np.ones(1, np.float32)}, {"observation": {"pose": np.ones(1, np.float32), "touch": np.ones(())}}]
)
def test_a_row_of_the_wrong_size_is_not_stretched(change):
    replay = Replay(SPEC, 4)
    with pytest.raises(ValueError, match="reshape"):
        replay.insert(transition(0, **change))
    assert len(replay) == 0


def test_a_large_capacity_takes_no_memory_before_it_is_used():
    wide = dataclasses.replace(SPEC, observation={"state": Entry((1000,))})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    replay = Replay(wide, 200_000)  # 1.6 GB when full
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB
    assert len(replay) == 0
