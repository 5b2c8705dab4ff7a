"""Decisions that last for several control steps, as they are executed."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tandem.acting.actor import Actor
from tandem.acting.actor_state import actor_state, restore_actor
from tandem.acting.policy import act_with
from tandem.data.mixing import Imitation, Mixture, store
from tandem.data.replay import Replay, Returns
from tandem.decisions import DECIDES, Between, Decisions, Held, held_for
from tandem.envs.registry import make_env
from tandem.errors import ConfigError
from tandem.layouts import ActionLayout, Layout
from tandem.link.messages import pack_policy, parse_policy
from tandem.runs.checkpoint import read_policy, write_policy
from tandem.teleop.operator import HandsOff
from tandem.types import Continuous, Discrete, Observation, PolicySnapshot
from tests.acting.counter_env import Link

ARM = ActionLayout((Continuous("arm", 1),))
HAND = ActionLayout((Continuous("arm", 1), Discrete("gripper", ("close", "hold", "open"), rest=1)))


def executed(held: Held, proposals: list[float], steps: int) -> list[float]:
    """What one row executes; each time that it is asked, the policy proposes the next number."""
    left = iter(proposals)
    return [float(held(lambda: np.full((1, 1), next(left), np.float32), 1)[0, 0]) for _ in range(steps)]


def test_a_decision_is_held_until_the_next() -> None:
    assert executed(Held(Decisions(3), ARM), [0.5, -1.0, 0.25], 8) == [0.5] * 3 + [-1.0] * 3 + [0.25] * 2


def test_a_decision_is_approached_in_equal_steps_from_what_was_executed_before() -> None:
    # from rest to 0.5 in two steps, then to -1 in two: 0.25 0.5, -0.25 -1
    assert executed(Held(Decisions(2, "interpolate"), ARM), [0.5, -1.0], 4) == [0.25, 0.5, -0.25, -1.0]


def test_choices_are_held_and_never_interpolated() -> None:
    held = Held(Decisions(2, "interpolate"), HAND)
    actions = [held(lambda: np.array([[1.0, 2.0]]), 1)[0].tolist() for _ in range(2)]
    assert actions == [[0.5, 2.0], [1.0, 2.0]]


def test_each_row_decides_at_a_time_of_its_own() -> None:
    """Row 1 begins a new episode, row 0 is taken over by a person: each decides anew, and the other goes on."""
    held, number = Held(Decisions(3), ARM), iter(range(1, 9))

    def step() -> list[float]:
        return held(lambda: np.full((2, 1), 0.1 * next(number), np.float32), 2)[:, 0].astype(float).round(6).tolist()

    assert step() == [0.1, 0.1]
    held.begin([1])
    assert step() == [0.1, 0.2]
    held.cut(np.array([True, False]), np.array([[0.9], [0.2]]))
    assert step() == [0.3, 0.2]
    assert step() == [0.3, 0.2]
    assert step() == [0.3, 0.4]


def test_after_a_person_it_is_interpolated_from_what_the_person_did() -> None:
    held = Held(Decisions(2, "interpolate"), ARM)
    held(lambda: np.zeros((1, 1)), 1)
    held.cut(np.array([True]), np.array([[1.0]]))
    assert float(held(lambda: np.zeros((1, 1)), 1)[0, 0]) == 0.5


def test_memory_goes_on_where_it_was() -> None:
    one, other = Held(Decisions(4, "interpolate"), ARM), Held(Decisions(4, "interpolate"), ARM)
    executed(one, [0.5], 2)
    other.restore(one.memory())
    assert executed(one, [-1.0], 4) == executed(other, [-1.0], 4)


@pytest.mark.parametrize("between", ["hold", "interpolate"])
def test_a_policy_file_says_how_often_it_decides(tmp_path: Any, between: Between) -> None:
    env = make_env("reach")
    snapshot = policy_for(env.spec, Decisions(5, between))
    write_policy(tmp_path / "policy.safetensors", snapshot, env.spec)
    read, spec = read_policy(tmp_path / "policy.safetensors")
    assert Decisions.of(read.parameters) == Decisions(5, between)
    act, observation = act_with(read, spec, stochastic_seed=0), env.reset(seeds=[0])
    actions = np.stack([act(observation)[0] for _ in range(12)])
    changes = np.flatnonzero(np.abs(np.diff(actions, axis=0)).max(axis=1) > 1e-6) + 1
    assert changes.tolist() == ([5, 10] if between == "hold" else [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    act.reset()
    assert not np.array_equal(act(observation)[0], actions[0]), "a new episode begins with a new decision"
    env.close()


def test_a_policy_that_travels_over_the_link_keeps_how_often_it_decides() -> None:
    env = make_env("reach")
    sent = policy_for(env.spec, Decisions(7, "interpolate"))
    back = parse_policy(pack_policy(sent))
    assert Decisions.of(back.parameters) == Decisions(7, "interpolate") and back.hash == sent.hash
    env.close()


def test_one_step_a_decision_is_a_policy_as_ever() -> None:
    assert Decisions().arrays() == {} and held_for({}, ARM) is None and Decisions.of({}) == Decisions()


@pytest.mark.parametrize("steps", [0, -3, 1001])
def test_a_number_of_steps_that_cannot_be_meant_is_refused(steps: int) -> None:
    with pytest.raises(ConfigError, match=f"decision_steps must be from 1 to 1000, got {steps}"):
        Decisions(steps)


@pytest.mark.parametrize("array", [np.array([5]), np.array([5.0, 0.0]), np.array([5, 7]), np.array([5, -1])])
def test_a_damaged_entry_of_a_policy_is_refused(array: np.ndarray) -> None:
    with pytest.raises(ConfigError, match="does not say how often it decides"):
        Decisions.of({DECIDES: array})


# ---- the actor


def policy_for(spec: Any, decisions: Decisions, version: int = 1) -> PolicySnapshot:
    """Acts at random, whatever it sees."""
    numbers, axes = sum(entry.size for entry in spec.observation.values()), spec.action_dim
    parameters = {
        "activation": np.array(0),
        "std_range": np.array([0.4, 0.5], np.float32),
        "trunk/layers/0/weight": np.zeros((numbers, 4), np.float32),
        "trunk/layers/0/bias": np.zeros(4, np.float32),
        "mean/weight": np.zeros((4, axes), np.float32),
        "mean/bias": np.zeros(axes, np.float32),
        "log_std/weight": np.zeros((4, axes), np.float32),
        "log_std/bias": np.zeros(axes, np.float32),
    }
    return PolicySnapshot(version, 0, parameters | decisions.arrays())


class Sometimes(HandsOff):
    """A person who acts at these control steps."""

    def __init__(self, steps: set[int]) -> None:
        self._steps, self._now = steps, -1

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        self._now += 1
        assert proposed is not None
        return (np.full_like(proposed, 0.9), True) if self._now in self._steps else (proposed, False)


def acting(helps: set[int], decisions: Decisions) -> tuple[Actor, Link]:
    env = make_env("reach", 2)
    link = Link(policy_for(env.spec, decisions))
    actor = Actor(env, link, [Sometimes(helps), HandsOff()], source="robot", seed=0)
    actor.begin()
    return actor, link


def test_the_actor_stores_control_steps_and_a_person_ends_the_decision_at_once() -> None:
    actor, link = acting({5, 6}, Decisions(4))
    for _ in range(14):
        actor.step()
    mine = [step for step in link.sent if step.source == "robot.0"]
    assert [step.step for step in mine] == list(range(14)), "data are recorded at control rate"
    assert [step.intervened for step in mine] == [i in (5, 6) for i in range(14)]
    same = [np.array_equal(one.action, other.action) for one, other in pairwise(mine)]
    # decisions begin at 0, 4, 7 (the person has let go) and 11
    assert [i + 1 for i, equal in enumerate(same) if not equal] == [4, 5, 7, 11]
    other = [step for step in link.sent if step.source == "robot.1"]
    assert [i + 1 for i in range(13) if not np.array_equal(other[i].action, other[i + 1].action)] == [4, 8, 12]


class Drifts(Sometimes):
    """A person whose every action is another one: a tenth of the number of the control step, less a half."""

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        action, by_human = super().decide(observation, proposed)
        return (np.full_like(action, self._now / 10 - 0.5), True) if by_human else (action, False)


def test_a_correction_at_control_rate_becomes_decisions_of_a_person() -> None:
    """The policy decides every 4 steps, a person acts in the steps 5 to 10. Online: (0-3), (4) cut short, (5-8) and (9, 10) by the person,
    then the policy's from 11 on. Among the demonstrations each step of the correction begins a decision."""
    env = make_env("reach")
    link = Link(policy_for(env.spec, Decisions(4)))
    actor = Actor(env, link, [Drifts(set(range(5, 11)))], source="robot", seed=0)
    actor.begin()
    for _ in range(15):
        actor.step()
    steps, discount = link.sent, 0.9
    online, demos = (Replay(env.spec, 50, 1, discount, Decisions(4), sliding=sliding) for sliding in (False, True))
    returns = Returns(discount)
    for number, step in enumerate(steps):
        store(step, number, online, demos, returns)
    assert len(online) == 15 and len(demos) == 6

    rows = online.rows(np.arange(15))
    begins = [0, 0, 0, 0, 4, 5, 5, 5, 5, 9, 9, 11, 11, 11, 11]
    layout = Layout(env.spec)
    seen = {step.step: layout.flatten(step.observation) for step in steps}
    np.testing.assert_array_equal(rows.observations, [seen[begin] for begin in begins])
    assert rows.imitation is not None and rows.imitation.tolist() == [0.0] * 5 + [1.0] * 6 + [0.0] * 4
    np.testing.assert_allclose(rows.actions[5:11, 0], [0.15] * 4 + [0.45] * 2, atol=1e-6)  # means of 0.0 ... 0.3, and of 0.4 and 0.5
    np.testing.assert_allclose(rows.actions[4], steps[4].action, atol=1e-6)  # what the policy had decided, of which one step was made
    np.testing.assert_allclose(rows.masks, [0.9**3] * 4 + [1] + [0.9**3] * 4 + [0.9] * 2 + [0.9**3] * 4, rtol=1e-5)
    np.testing.assert_array_equal(rows.next_observations[4], seen[5])
    np.testing.assert_array_equal(rows.next_observations[10], seen[11])

    shown = demos.rows(np.arange(6))
    np.testing.assert_allclose(shown.actions[:, 0], [0.15, 0.25, 0.35, 0.4, 0.45, 0.5], atol=1e-6)
    np.testing.assert_array_equal(shown.next_observations[:, :3], [seen[end][:3] for end in (9, 10, 11, 11, 11, 11)])
    both = Mixture(demos, online, 32, recorded=False).sample(np.random.default_rng(0), 1, imitation=Imitation(demos=0.1, corrections=2.0))
    assert both.imitation is not None and (both.imitation[0, :6] == 2.0).all(), "as many rows as corrected steps, imitated as corrections"


def test_an_actor_goes_on_in_the_middle_of_a_decision() -> None:
    one, sent = acting(set(), Decisions(4, "interpolate"))
    for _ in range(6):
        one.step()
    saved = actor_state(one)
    other, again = acting(set(), Decisions(4, "interpolate"))
    restore_actor(other, saved)
    for actor in (one, other):
        for _ in range(7):
            actor.step()
    np.testing.assert_array_equal([step.action for step in sent.sent[12:]], [step.action for step in again.sent])


def test_a_new_policy_waits_for_the_end_of_the_decision() -> None:
    actor, link = acting(set(), Decisions(4))
    actor.step()
    link.policy = policy_for(actor.spec, Decisions(4), version=2)
    for _ in range(4):
        actor.step()
    mine = [step for step in link.sent if step.source == "robot.0"]
    assert [step.policy_version for step in mine] == [1, 2, 2, 2, 2]
    assert [i + 1 for i in range(4) if not np.array_equal(mine[i].action, mine[i + 1].action)] == [4]
