"""Sums over several steps and the returns that followed, against a naive computation over random histories."""

import dataclasses

import numpy as np
import pytest
from data_samples import SPEC, episode, transition
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.data.mixing import Imitation, Mixture, store
from tandem.data.replay import Replay, Returns, discounted
from tandem.types import Entry, Transition

WIDE = dataclasses.replace(SPEC, observation={"pose": Entry((3,), scale=1000.0), "touch": Entry((), scale=1000.0)})
DISCOUNT = 0.9


def history(draw_ends: list[str], lengths: list[int], intervened: list[bool], sources: int) -> list[Transition]:
    """Steps of several sources that take turns; each source makes one episode after the other."""
    queues: list[list[Transition]] = [[] for _ in range(sources)]
    moment = 0
    for number, (ends, length) in enumerate(zip(draw_ends, lengths, strict=True)):
        source = number % sources
        for step in range(length):
            last = step == length - 1
            queues[source].append(
                transition(
                    moment,
                    source=f"robot {source}",
                    episode=number,
                    step=step,
                    reward=float(1 + moment % 7),
                    terminated=last and ends == "terminated",
                    truncated=last and ends == "truncated",
                    intervened=intervened[moment % len(intervened)],
                )
            )
            moment += 2  # the observation after a step is not that of the step that was made next by another source
    steps = []
    while any(queues):
        steps += [queue.pop(0) for queue in queues if queue]
    return steps


def naive_sum(kept: list[Transition], index: int, n: int) -> tuple[float, float, np.ndarray]:
    """Reward, mask and next observation over at most n steps, by looking for each next step among all kept ones."""
    step, total, factor, summed = kept[index], kept[index].reward, 1.0, 1
    while summed < n and not step.last:
        found = [other for other in kept if (other.source, other.episode, other.step) == (step.source, step.episode, step.step + 1)]
        if not found:
            break
        step, factor, summed = found[0], factor * DISCOUNT, summed + 1
        total += factor * step.reward
    return total, factor * (0.0 if step.terminated else 1.0), step.next_observation["pose"] / 1000


def naive_return(steps: list[Transition], of: Transition) -> float:
    """Over the whole history, whatever the buffer still holds of it."""
    rest = [s for s in steps if (s.source, s.episode) == (of.source, of.episode) and s.step >= of.step]
    rest.sort(key=lambda s: s.step)
    if not rest[-1].terminated:
        return -np.inf
    return sum(DISCOUNT**i * s.reward for i, s in enumerate(rest))


@settings(max_examples=150, deadline=None)
@given(
    ends=st.lists(st.sampled_from(["terminated", "truncated", "running"]), min_size=1, max_size=8),
    data=st.data(),
    sources=st.integers(1, 3),
    capacity=st.integers(1, 40),
    n=st.integers(1, 5),
)
def test_sums_and_returns_are_those_of_a_naive_computation(ends, data, sources, capacity, n):
    """Ends, time-outs, running episodes, corrections in both buffers, a ring that closes, episodes thrown away, and a refill."""
    lengths = data.draw(st.lists(st.integers(1, 9), min_size=len(ends), max_size=len(ends)))
    intervened = data.draw(st.lists(st.booleans(), min_size=1, max_size=5))
    steps = history(ends, lengths, intervened, sources)
    unwanted = {(step.source, step.episode) for step in steps if data.draw(st.integers(0, 9), label="discard") == 0}
    when = data.draw(st.integers(0, len(steps)))
    online, demos, returns = Replay(WIDE, capacity, n, DISCOUNT), Replay(WIDE, 1000, n, DISCOUNT), Returns(DISCOUNT)
    inserted: list[Transition] = []
    for number, step in enumerate(steps):
        if number == when:
            for replay in (online, demos):
                replay.forget(unwanted)
            returns.forget(unwanted)
            inserted = [s for s in inserted[-capacity:] if (s.source, s.episode) not in unwanted]
        if number < when or (step.source, step.episode) not in unwanted:
            store(step, number, online, demos, returns)
            inserted.append(step)
    if when < len(steps):
        steps = [s for s in steps if (s.source, s.episode) not in unwanted]
    corrections = [step for step in steps if step.intervened]
    for replay, kept in ((online, inserted[-capacity:]), (demos, corrections)):
        batch = replay.rows(np.arange(len(replay)))
        assert len(replay) == len(kept)
        for i, step in enumerate(kept):
            reward, mask, following = naive_sum(kept, i, n)
            assert batch.rewards[i] == pytest.approx(reward, rel=1e-5) and batch.masks[i] == pytest.approx(mask, rel=1e-5)
            np.testing.assert_allclose(batch.next_observations[i][:3], following, rtol=1e-5)
            assert batch.bounds[i] == pytest.approx(naive_return(steps, step), rel=1e-5)


def test_one_step_is_the_step_itself():
    plain, ahead = Replay(WIDE, 20), Replay(WIDE, 20, 3, DISCOUNT)
    for replay in (plain, ahead):
        replay.extend(episode(5))
    rows = np.arange(5)
    assert plain.rows(rows).rewards.tolist() == [0, 0, 0, 0, 1] and plain.rows(rows).masks.tolist() == [1, 1, 1, 1, 0]
    np.testing.assert_allclose(ahead.rows(rows).rewards, [0, 0, 0.81, 0.9, 1], rtol=1e-6)
    np.testing.assert_allclose(ahead.rows(rows).masks, [0.81, 0.81, 0, 0, 0], rtol=1e-6)
    ahead.n_step = 1
    assert ahead.rows(rows).rewards.tolist() == [0, 0, 0, 0, 1], "it can be changed afterwards"


def test_an_episode_with_a_missing_step_has_no_return():
    """A step that was rejected leaves a gap: what was paid there is not known."""
    online, returns = Replay(WIDE, 20, 1, DISCOUNT), Returns(DISCOUNT)
    steps = episode(5)
    for number, step in enumerate([*steps[:2], *steps[3:]]):
        store(step, number, online, None, returns)
    assert (online.rows(np.arange(4)).bounds == -np.inf).all()


def test_discounted_returns():
    np.testing.assert_allclose(discounted([0.0, 1.0, 2.0], 0.5), [1.0, 2.0, 2.0])


def filled() -> tuple[Replay, Replay]:
    """Two demonstrations (one of them with a correction), and one episode of the policy's own that a person corrected once."""
    demos, online, returns = Replay(WIDE, 50, 1, DISCOUNT), Replay(WIDE, 50, 1, DISCOUNT), Returns(DISCOUNT)
    for step in episode(4, number=0):
        demos.insert(step)
        returns.add(step, demos)
    for number, step in enumerate(episode(4, number=1)):
        corrected = dataclasses.replace(step, source="actor", intervened=number == 1, policy_version=3)
        store(corrected, number, online, demos, returns)
    return demos, online


@pytest.mark.parametrize(("bound", "known"), [("off", None), ("demos", (True, False)), ("all", (True, True))])
def test_which_rows_are_bounded(bound, known):
    batch = Mixture(*filled(), 32, bound).sample(np.random.default_rng(0), 2)
    if known is None:
        assert batch.bounds is None
        return
    assert np.isfinite(batch.bounds[:, :16]).all() == known[0] and np.isfinite(batch.bounds[:, 16:]).all() == known[1]


def test_while_the_policy_fails_its_returns_are_bounds_for_a_share_of_the_rows():
    mixture = Mixture(*filled(), 64, "while-failing")
    shares = [np.isfinite(mixture.sample(np.random.default_rng(0), 20, bound_share=share).bounds).mean() for share in (1.0, 0.25, 0.0)]
    assert shares[0] == 1.0 and 0.2 < shares[1] < 0.3 and shares[2] == 0.0
    bounded = Mixture(*filled(), 64, "all").sample(np.random.default_rng(0), 20, bound_share=0.25)
    assert np.isfinite(bounded.bounds).all(), "a bound that is meant for all rows stays"


def test_how_much_each_row_is_imitated():
    mixture = Mixture(*filled(), 64)
    batch = mixture.sample(np.random.default_rng(0), 4, imitation=Imitation(demos=0.5, corrections=3.0))
    assert set(batch.imitation[:, :32].ravel().tolist()) == {0.5, 3.0}, "a correction among the demonstrations counts as a correction"
    assert set(batch.imitation[:, 32:].ravel().tolist()) == {0.0, 3.0}, "the policy's own actions are not imitated"
    assert mixture.sample(np.random.default_rng(0), 1).imitation is None


def test_a_row_that_was_written_over_gets_no_successor_of_another_episode():
    """Step 1 of episode 0 arrives when its step 0 has made room for step 0 of episode 2."""
    replay = Replay(WIDE, 2, 2, DISCOUNT)
    for number, (of, step) in enumerate([(0, 0), (1, 0), (2, 0), (0, 1)]):
        replay.insert(transition(10 * of + step, episode=of, step=step, reward=1.0), number)
    assert replay.rows(np.arange(2)).rewards.tolist() == [1.0, 1.0], "each row alone"
