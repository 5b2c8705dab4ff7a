"""What opening and closing a gripper costs is known for every row: how often it was told something new, and how often until the end."""

import dataclasses

import numpy as np
from data_samples import SPEC, transition

from tandem.data.mixing import store
from tandem.data.replay import Replay, Returns
from tandem.data.switches import Switches
from tandem.layouts import ActionLayout
from tandem.types import Discrete, Transition

GRIPPER = Discrete("gripper", ("close", "hold", "open"), rest=1)
HAND = dataclasses.replace(SPEC, action=(*SPEC.action, GRIPPER))
CLOSE, HOLD, OPEN = 0.0, 1.0, 2.0
DISCOUNT = 0.5


def steps(choices: list[float], episode: int = 0, **last: object) -> list[Transition]:
    made = [
        transition(number, step=number, episode=episode, action=np.array([0.5, 0.5, choice], np.float32))
        for number, choice in enumerate(choices)
    ]
    return [*made[:-1], dataclasses.replace(made[-1], **{"terminated": True, "reward": 1.0, **last})]


def test_a_choice_counts_when_it_changes_what_stands() -> None:
    counting = Switches(ActionLayout.of(HAND))
    told = [counting.count(step) for step in steps([HOLD, HOLD, CLOSE, HOLD, CLOSE, OPEN, OPEN, CLOSE])]
    assert told == [0, 0, 1, 0, 0, 1, 0, 1]
    assert counting.end("robot", 0) == told
    assert counting.count(steps([CLOSE])[0]) == 1, "nothing stands at the start of the next episode"


def test_episodes_of_several_robots_do_not_mix() -> None:
    counting = Switches(ActionLayout.of(HAND))
    closing, opening = steps([CLOSE, HOLD]), [dataclasses.replace(step, source="other") for step in steps([OPEN, CLOSE])]
    told = [counting.count(step) for pair in zip(closing, opening, strict=True) for step in pair]
    assert told == [1, 1, 0, 1]


def test_two_grippers_are_counted_together() -> None:
    two = dataclasses.replace(HAND, action=(GRIPPER, dataclasses.replace(GRIPPER, name="other")))
    counting = Switches(ActionLayout.of(two))
    actions = [[CLOSE, OPEN], [CLOSE, CLOSE], [HOLD, HOLD]]
    assert [counting.count(transition(n, action=np.array(a, np.float32))) for n, a in enumerate(actions)] == [2, 1, 0]


def test_batches_have_sums_over_n_steps_and_to_the_end() -> None:
    replay, returns = Replay(HAND, 10, n_step=2, discount=DISCOUNT), Returns(DISCOUNT, ActionLayout.of(HAND))
    for number, step in enumerate(steps([CLOSE, HOLD, OPEN, CLOSE])):
        store(step, number, replay, None, returns)
    batch = replay.rows(np.arange(4))
    # told something new: 1, 0, 1, 1
    np.testing.assert_allclose(batch.switches, [1, 0.5, 1.5, 1])
    np.testing.assert_allclose(batch.switches_ahead, [1 + 0.25 + 0.125, 0.5 + 0.25, 1.5, 1])
    np.testing.assert_allclose(batch.bounds, [0.125, 0.25, 0.5, 1])


def test_a_correction_is_judged_by_what_the_policy_had_told_before() -> None:
    """The policy closed; the person who takes over and presses close again changes nothing."""
    online, demos, returns = Replay(HAND, 10), Replay(HAND, 10), Returns(DISCOUNT, ActionLayout.of(HAND))
    for number, step in enumerate(steps([CLOSE, CLOSE, OPEN])):
        store(dataclasses.replace(step, intervened=number > 0), number, online, demos, returns)
    np.testing.assert_allclose(demos.rows(np.arange(2)).switches, [0, 1])
    np.testing.assert_allclose(demos.rows(np.arange(2)).switches_ahead, [0.5, 1])


def test_rows_keep_their_counts_when_an_episode_is_thrown_away() -> None:
    replay, returns = Replay(HAND, 10), Returns(DISCOUNT, ActionLayout.of(HAND))
    for episode, choices in enumerate(([CLOSE, OPEN], [HOLD, CLOSE])):
        for step in steps(choices, episode):
            store(step, 0, replay, None, returns)
    assert replay.forget({("robot", 0)}) == 2
    np.testing.assert_allclose(replay.rows(np.arange(2)).switches, [0, 1])


def test_without_discrete_parts_there_is_nothing_to_count() -> None:
    replay, returns = Replay(SPEC, 4), Returns(DISCOUNT, ActionLayout.of(SPEC))
    store(transition(0), 0, replay, None, returns)
    batch = replay.rows(np.arange(1))
    assert batch.switches is None and batch.switches_ahead is None
