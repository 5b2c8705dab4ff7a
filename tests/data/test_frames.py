"""Each frame once: what is shared, what is let go, and that nobody gets another's."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.codec import CodecError
from tandem.data.frames import compressed, decompressed
from tandem.data.replay import Replay
from tandem.types import Continuous, Entry, Spec, Transition

EYE = Entry((1, 1, 4), "int8", role="features", encoder="e:1", picture=(16, 16, 3))
SPEC = Spec("t", {"eye": EYE, "pose": Entry((1,))}, (Continuous("arm", 1),), 10.0, 100, (0.0, 1.0))


def seen(number: int) -> dict[str, np.ndarray]:
    """An observation that says which one it is, in its features and in its vector."""
    digits = [number % 100, number // 100 % 100, number // 10_000, 1]
    return {"eye": np.array(digits, np.int8).reshape(1, 1, 4), "pose": np.array([number], np.float32)}


def steps(episode: int, length: int, gaps: frozenset[int] = frozenset()) -> list[Transition]:
    """Observation `100 episode + step`; the steps of `gaps` are missing."""
    start = 100 * episode
    made = [
        Transition(seen(start + i), np.zeros(1, np.float32), 0.0, seen(start + i + 1), False, i == length - 1, episode=episode, step=i)
        for i in range(length)
    ]
    return [dataclasses.replace(step, source="a") for step in made if step.step not in gaps]


def number_of(features: np.ndarray) -> np.ndarray:
    digits = features.reshape(*features.shape[:-3], 4).astype(int)
    return digits[..., 0] + 100 * digits[..., 1] + 10_000 * digits[..., 2]


def held(replay: Replay) -> int:
    assert replay._frames is not None
    return replay._frames.held


def test_an_episode_of_ten_steps_holds_eleven_frames() -> None:
    replay = Replay(SPEC, 100)
    replay.extend(steps(0, 10))
    assert held(replay) == 11
    replay.extend(steps(1, 10))
    assert held(replay) == 22


def test_where_a_step_is_missing_nothing_is_shared() -> None:
    """Steps 0 1 3 4: frames 0 1 2 and 3 4 5."""
    replay = Replay(SPEC, 100)
    replay.extend(steps(0, 5, gaps=frozenset({2})))
    assert held(replay) == 6
    assert number_of(replay.rows(np.arange(4)).next_raw["eye"]).tolist() == [1, 2, 4, 5]


def test_a_next_step_that_begins_elsewhere_keeps_its_own_frame() -> None:
    """A person moved the robot in between: the second step does not begin where the first one ended."""
    first, second = steps(0, 2)
    moved = dataclasses.replace(second, observation=seen(77))
    replay = Replay(SPEC, 10)
    replay.extend([first, moved])
    rows = replay.rows(np.arange(2))
    assert held(replay) == 4 and number_of(rows.raw["eye"]).tolist() == [0, 77] and number_of(rows.next_raw["eye"]).tolist() == [1, 2]


@given(
    capacity=st.integers(1, 12),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    unwanted=st.sets(st.integers(0, 5)),
    after=st.integers(0, 20),
    n_step=st.integers(1, 3),
)
def test_every_row_has_its_own_frames_whatever_was_written_over_or_thrown_away(
    capacity: int, lengths: list[int], unwanted: set[int], after: int, n_step: int
) -> None:
    replay = Replay(SPEC, capacity, n_step)
    made = [step for episode, length in enumerate(lengths) for step in steps(episode, length)]
    for number, step in enumerate(made):
        replay.insert(step, number)
        if number == after:
            replay.forget({("a", episode) for episode in unwanted})
    if not len(replay):
        return
    rows = replay.rows(np.arange(len(replay)))
    plain = Replay(
        dataclasses.replace(SPEC, observation={"pose": dataclasses.replace(SPEC.observation["pose"], scale=1e6)}), capacity, n_step
    )
    for number, step in enumerate(made):
        kept = {"pose": step.observation["pose"]}, {"pose": step.next_observation["pose"]}
        plain.insert(dataclasses.replace(step, observation=kept[0], next_observation=kept[1]), number)
        if number == after:
            plain.forget({("a", episode) for episode in unwanted})
    wanted = plain.rows(np.arange(len(plain)))
    assert np.array_equal(number_of(rows.raw["eye"]), np.rint(wanted.observations[:, 0] * 1e6))
    assert np.array_equal(number_of(rows.next_raw["eye"]), np.rint(wanted.next_observations[:, 0] * 1e6))
    assert held(replay) <= 2 * len(replay)


def test_a_full_ring_holds_no_more_frames_than_its_rows_need() -> None:
    replay = Replay(SPEC, 20)
    for episode in range(30):
        replay.extend(steps(episode, 10))
    assert held(replay) == 22, "two episodes of ten steps"


@pytest.mark.parametrize("shape", [(8, 9, 3), (8, 9, 1), (8, 9, 4), (8, 9, 2), (8, 9, 6)])
def test_pictures_come_back_to_the_bit(shape: tuple[int, ...]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    codec, data = compressed(picture)
    assert np.array_equal(decompressed(codec, data, shape), picture)
    with pytest.raises(CodecError, match="cannot be decoded"):
        decompressed(codec, data[: len(data) // 2], shape)
