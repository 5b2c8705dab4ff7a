"""Control steps put together to decisions, against a naive computation over random histories."""

import dataclasses

import numpy as np
import pytest
from data_samples import SPEC, transition
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.data.mixing import store
from tandem.data.replay import Replay, Returns
from tandem.decisions import Decisions, Held
from tandem.layouts import ActionLayout
from tandem.types import Continuous, Discrete, Entry, Transition

WIDE = dataclasses.replace(SPEC, observation={"pose": Entry((3,), scale=1000.0), "touch": Entry((), scale=1000.0)})
DISCOUNT = 0.9


def history(ends: list[str], lengths: list[int], intervened: list[bool], sources: int) -> list[Transition]:
    """Steps of several sources that take turns; each source makes one episode after the other. Every action is another one."""
    queues: list[list[Transition]] = [[] for _ in range(sources)]
    random, moment = np.random.default_rng(0), 0
    for number, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        for step in range(length):
            last = step == length - 1
            queues[number % sources].append(
                transition(
                    moment,
                    action=random.uniform(-1, 1, 2).astype(np.float32),
                    source=f"robot {number % sources}",
                    episode=number,
                    step=step,
                    reward=float(1 + moment % 7),
                    terminated=last and end == "terminated",
                    truncated=last and end == "truncated",
                    intervened=intervened[moment // 2 % len(intervened)],
                )
            )
            moment += 2
    steps = []
    while any(queues):
        steps += [queue.pop(0) for queue in queues if queue]
    return steps


def name(step: Transition) -> tuple[str, int, int]:
    return step.source, step.episode, step.step


def places(steps: list[Transition], h: int, sliding: bool) -> dict[tuple[str, int, int], tuple[int, np.ndarray]]:
    """Of every step that was ever made: which one of its decision it is, and what was executed before the decision."""
    found: dict[tuple[str, int, int], tuple[int, np.ndarray]] = {}
    by_name = {name(step): step for step in steps}
    for step in steps:  # in the order of an episode
        before = by_name.get((step.source, step.episode, step.step - 1))
        if before is None:
            found[name(step)] = 0, step.action if step.step else np.zeros(2, np.float32)
            continue
        place, base = found[name(before)]
        if not sliding and before.intervened == step.intervened and place + 1 < h:
            found[name(step)] = place + 1, base
        else:
            found[name(step)] = 0, before.action
    return found


def naive(kept: list[Transition], all_steps: list[Transition], index: int, decisions: Decisions, n: int, sliding: bool):
    """Observation, action, reward, mask and next observation of the decision that a kept row is part of."""
    here, where = {name(step): step for step in kept}, places(all_steps, decisions.steps, sliding)
    first = kept[index]
    place = where[name(first)][0]
    first = here.get((first.source, first.episode, first.step - place), first)
    place, base = where[name(first)]
    run, ahead = [first], None
    while not run[-1].last:
        after = here.get((first.source, first.episode, run[-1].step + 1))
        if after is None:
            break
        joined = (after.intervened == run[-1].intervened and len(run) < decisions.steps) if sliding else where[name(after)][0] > 0
        if ahead is None and not joined:
            ahead = len(run)
        if ahead is not None and len(run) >= ahead + (n - 1) * decisions.steps:
            break
        run.append(after)
    lasted = len(run) if ahead is None else ahead
    shares = [1.0 if decisions.between == "hold" else (place + k + 1) / decisions.steps for k in range(lasted)]
    origin = np.zeros(2) if decisions.between == "hold" else base.astype(float)
    amount = origin + sum(s * (step.action - origin) for s, step in zip(shares, run, strict=False)) / sum(s * s for s in shares)
    reward = sum(DISCOUNT**k * step.reward for k, step in enumerate(run))
    mask = 0.0 if run[-1].terminated else DISCOUNT ** (len(run) - 1)
    return first.observation["pose"] / 1000, np.clip(amount, -1, 1), reward, mask, run[-1].next_observation["pose"] / 1000


def compare(replay: Replay, kept: list[Transition], all_steps: list[Transition], decisions: Decisions, n: int, sliding: bool) -> None:
    batch = replay.rows(np.arange(len(replay)))
    assert len(replay) == len(kept)
    for i in range(len(kept)):
        observation, action, reward, mask, following = naive(kept, all_steps, i, decisions, n, sliding)
        np.testing.assert_allclose(batch.observations[i][:3], observation, rtol=1e-5)
        np.testing.assert_allclose(batch.actions[i], action, atol=2e-5)
        assert batch.rewards[i] == pytest.approx(reward, rel=1e-5) and batch.masks[i] == pytest.approx(mask, rel=1e-5)
        np.testing.assert_allclose(batch.next_observations[i][:3], following, rtol=1e-5)


@settings(max_examples=120, deadline=None)
@given(
    ends=st.lists(st.sampled_from(["terminated", "truncated", "running"]), min_size=1, max_size=6),
    data=st.data(),
    sources=st.integers(1, 3),
    capacity=st.integers(1, 40),
    n=st.integers(1, 3),
    h=st.integers(2, 5),
    between=st.sampled_from(["hold", "interpolate"]),
)
def test_decisions_are_those_of_a_naive_computation(ends, data, sources, capacity, n, h, between):
    """Ends, time-outs, running episodes, take-overs, a ring that closes, episodes thrown away, and a refill after a resume."""
    lengths = data.draw(st.lists(st.integers(1, 12), min_size=len(ends), max_size=len(ends)))
    intervened = data.draw(st.lists(st.booleans(), min_size=1, max_size=6))
    steps, decisions = history(ends, lengths, intervened, sources), Decisions(h, between)
    unwanted = {(step.source, step.episode) for step in steps if data.draw(st.integers(0, 9), label="discard") == 0}
    when = data.draw(st.integers(0, len(steps)))
    online, returns = Replay(WIDE, capacity, n, DISCOUNT, decisions), Returns(DISCOUNT)
    demos = Replay(WIDE, 1000, n, DISCOUNT, decisions, sliding=True)
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
    kept = inserted[-capacity:]
    made = steps if when == len(steps) else [s for s in steps if (s.source, s.episode) not in unwanted]
    corrections = [step for step in made if step.intervened]
    compare(online, kept, made, decisions, n, sliding=False)
    compare(demos, corrections, corrections, decisions, n, sliding=True)

    again = Replay(WIDE, capacity, n, DISCOUNT, decisions)  # a resume: what had left the ring passes by, the rest is stored again
    names = {name(step) for step in kept}
    for step in made:
        if name(step) in names:
            again.insert(step)
        else:
            again.pass_by(step)
    one, other = (replay.rows(np.arange(len(kept))) for replay in (online, again))
    for column in ("observations", "actions", "rewards", "masks", "next_observations"):
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column), err_msg=column)


@pytest.mark.parametrize("between", ["hold", "interpolate"])
def test_what_was_decided_comes_back(between):
    """Executed by `Held` and put together again: the action of a row is what the policy had decided, also of one that was cut short."""
    decisions, random = Decisions(4, between), np.random.default_rng(0)
    held, replay, wanted = Held(decisions, ActionLayout.of(WIDE)), Replay(WIDE, 100, 1, DISCOUNT, decisions), []

    def decide() -> np.ndarray:
        wanted.append(random.uniform(-1, 1, (1, 2)).astype(np.float32))
        return wanted[-1]

    decided = []
    for step in range(30):
        action = held(decide, 1)[0]
        by_person = step in (9, 10, 21)
        if by_person:
            action = np.array([0.3, -0.3], np.float32)
            held.cut(np.array([True]), action[None])
        decided.append(None if by_person else wanted[-1][0])
        replay.insert(transition(step, action=action, intervened=by_person))
    for i, wish in enumerate(decided):
        if wish is not None:
            np.testing.assert_allclose(replay.rows(np.array([i])).actions[0], wish, atol=1e-5, err_msg=str(i))


def test_by_hand():
    """Five control steps that end in success, two a decision: (0, 1), (2, 3), (4)."""
    replay = Replay(WIDE, 20, 1, 0.5, Decisions(2))
    for step in range(5):
        last = step == 4
        replay.insert(transition(step, action=np.full(2, step / 10, np.float32), reward=float(step == 3 or last), terminated=last))
    batch = replay.rows(np.array([0, 1, 2, 4]))
    np.testing.assert_allclose(batch.actions[:, 0], [0.05, 0.05, 0.25, 0.4], rtol=1e-5)  # means
    assert batch.rewards.tolist() == [0, 0, 0.5, 1]  # the reward of step 3 comes one step after the decision at step 2
    assert batch.masks.tolist() == [0.5, 0.5, 0.5, 0]  # the agent multiplies once more: 0.5^2 for two steps
    replay.n_step = 2
    np.testing.assert_allclose(replay.rows(np.array([0])).rewards, [0.125], rtol=1e-6)  # over two decisions


def test_a_choice_that_a_person_made_within_a_decision_is_the_choice_of_the_decision():
    spec = dataclasses.replace(WIDE, action=(Continuous("arm", 1), Discrete("gripper", ("close", "hold", "open"), rest=1)))
    replay = Replay(spec, 20, 1, 0.9, Decisions(3), sliding=True)
    for step, choice in enumerate([1, 1, 2, 1, 1, 0]):
        replay.insert(transition(step, action=np.array([0.0, choice], np.float32)))
    assert replay.rows(np.arange(6)).actions[:, 1].tolist() == [2, 2, 2, 0, 0, 0]
