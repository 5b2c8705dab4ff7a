"""A hand on the robot: it takes over without a jump, is lost without a motion, and lets go smoothly."""

import itertools

import numpy as np
import pytest

from tandem.envs.batch import BatchEnv
from tandem.envs.reach import Reach
from tandem.errors import DeviceLost
from tandem.layouts import ActionLayout
from tandem.teleop.operator import HandsOff, Operator
from tandem.teleop.steering import LOST_S, SMOOTH_STEPS, STRANDED_S, Reading, Steering
from tandem.types import Continuous

ARM = ActionLayout([Continuous("arm", 3)])
SEEN = {"q": np.zeros(1, np.float32)}
POLICY = np.array([0.8, -0.8, 0.4], np.float32)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def steering(clock: Clock, **options) -> Steering:
    return Steering(ARM, clock=clock, **options)


def test_it_is_an_operator_that_lets_the_policy_act_until_a_hand_takes_over(clock: Clock) -> None:
    operator: Operator = steering(clock)
    action, by_human = operator.decide(SEEN, POLICY)
    assert action is POLICY and by_human is False


def test_a_hand_that_rests_commands_no_motion_so_nothing_jumps_at_take_over() -> None:
    """The command of a real controller: at take-over it stays exactly where it was."""
    env, operator = BatchEnv(Reach(), 1), Steering(ARM)
    observation, _ = env.reset(seed=3)
    task = env.task
    assert isinstance(task, Reach)
    for _ in range(5):
        action, _ = operator.decide(observation, POLICY)
        observation, *_ = env.step(action[None])
    before = task.control.command.copy()
    operator.take("page-1")
    action, by_human = operator.decide(observation, POLICY)
    env.step(action[None])
    np.testing.assert_array_equal(task.control.command, before)
    assert by_human


def test_the_hand_that_took_over_is_the_one_that_is_followed(clock: Clock) -> None:
    operator = steering(clock)
    assert operator.take("page-1") == "" and operator.take("page-2") == "page-1"
    operator.steer("page-2", [1, 1, 1], clock.now)
    operator.steer("page-1", [0.5, 0, -2.0], clock.now)  # beyond 1 is 1
    np.testing.assert_array_equal(operator.decide(SEEN, POLICY)[0], np.array([0.5, 0, -1.0], np.float32))
    operator.steer("page-1", [float("nan"), 0.25], clock.now)  # no number is no motion; a missing axis rests
    np.testing.assert_array_equal(operator.decide(SEEN, POLICY)[0], np.array([0, 0.25, 0], np.float32))


def test_a_silent_hand_stops_the_motion_and_the_policy_does_not_go_on_by_itself(clock: Clock) -> None:
    operator = steering(clock)
    operator.take("page-1")
    operator.steer("page-1", [1, 1, 1], clock.now)
    clock.now += LOST_S - 0.01
    assert operator.decide(SEEN, POLICY)[0].any(), "not lost yet"
    clock.now += 0.02
    action, by_human = operator.decide(SEEN, POLICY)
    assert not action.any() and not by_human and operator.who == "nobody" and "standing still" in operator.notice
    for _ in range(20):
        clock.now += 1.0
        assert not operator.decide(SEEN, POLICY)[0].any()
    assert operator.stands and "resume" in operator.notice and operator.state == "stranded"
    operator.steer("page-1", [1, 1, 1], clock.now)  # too late: it must take control again
    assert not operator.decide(SEEN, POLICY)[0].any()
    operator.resume()
    assert operator.decide(SEEN, POLICY)[0].any() and operator.notice == "" and operator.who == "policy"


def test_a_hand_that_is_heard_again_in_time_goes_on(clock: Clock) -> None:
    operator = steering(clock)
    operator.take("page-1")
    clock.now += LOST_S + STRANDED_S / 2
    operator.decide(SEEN, POLICY)
    assert operator.state == "lost" and operator.held
    operator.steer("page-1", [0.5, 0, 0], clock.now)
    assert operator.decide(SEEN, POLICY)[0][0] == 0.5 and operator.state == "held"


def test_another_hand_may_follow_one_that_was_lost(clock: Clock) -> None:
    operator = steering(clock)
    operator.take("page-1")
    operator.steer("page-1", [1, 1, 1], clock.now)
    operator.lose("page-1", "the page 'page-1' was lost")
    assert not operator.decide(SEEN, POLICY)[0].any()
    assert operator.take("page-2") == "" and operator.holder == "page-2"
    assert not operator.decide(SEEN, POLICY)[0].any(), "the new hand has not moved yet"


def test_letting_go_is_smooth(clock: Clock) -> None:
    """From the hand's last motion to the policy's in even parts: no step changes by more than a quarter of the difference."""
    operator = steering(clock)
    operator.take("page-1")
    operator.steer("page-1", [-1, 0, 0], clock.now)
    actions = [operator.decide(SEEN, POLICY)[0].copy()]
    operator.let_go("page-1")
    for _ in range(SMOOTH_STEPS + 2):
        action, by_human = operator.decide(SEEN, POLICY)
        assert not by_human
        actions.append(action.copy())
    difference = POLICY - actions[0]
    for earlier, later in itertools.pairwise(actions):
        assert (np.abs(later - earlier) <= np.abs(difference) / (SMOOTH_STEPS + 1) + 1e-6).all()
    np.testing.assert_array_equal(actions[-1], POLICY)


class Stick:
    """A device whose readings the test decides."""

    name = "stick"

    def __init__(self) -> None:
        self.reading: Reading | None = Reading(np.zeros(3, np.float32), False)

    def read(self) -> Reading:
        if self.reading is None:
            raise DeviceLost("the stick was lost")
        return self.reading

    def close(self) -> None:
        pass


def test_a_device_takes_over_and_lets_go_by_itself_and_its_loss_stops_the_motion(clock: Clock) -> None:
    stick = Stick()
    operator = steering(clock, hand=stick)
    assert operator.decide(SEEN, POLICY)[0] is POLICY
    stick.reading = Reading(np.array([0, 1, 0], np.float32), True, (("label", {"success": True}),))
    for _ in range(10):
        clock.now += 0.1  # a device is read every step: it is never silent
        action, by_human = operator.decide(SEEN, POLICY)
        assert by_human and action[1] == 1
    assert operator.commands[0] == ("label", {"success": True})
    stick.reading = None
    assert not operator.decide(SEEN, POLICY)[0].any() and "the stick was lost" in operator.notice
    stick.reading = Reading(np.zeros(3, np.float32), False)
    for _ in range(SMOOTH_STEPS + 1):
        action, by_human = operator.decide(SEEN, POLICY)
    assert not by_human and not action.any(), "plugged in again and at rest: nobody has said that the policy may go on"
    operator.resume()
    for _ in range(SMOOTH_STEPS + 1):
        action, by_human = operator.decide(SEEN, POLICY)
    assert not by_human and np.array_equal(action, POLICY)


def test_a_new_episode_begins_without_the_smoothness_of_the_last(clock: Clock) -> None:
    operator = steering(clock, inner=HandsOff())
    operator.take("page-1")
    operator.let_go("page-1")
    operator.reset()
    assert operator.decide(SEEN, POLICY)[0] is POLICY


def test_a_hand_that_rests_leaves_a_gripper_as_it_is_whatever_happens_to_the_hand(clock: Clock) -> None:
    """Of an absolute gripper 0 is half open: a person who takes over while the policy carries something must not drop it."""
    layout = ActionLayout([Continuous("arm", 2), Continuous("gripper", 1, stands_at=1.0)])
    operator = Steering(layout, clock=clock)
    carrying = np.array([0.5, 0.5, -0.9], np.float32)
    operator.decide(SEEN, carrying)
    operator.take("page-1")

    def does(*axes: float) -> list[float]:
        operator.steer("page-1", axes, clock.now)
        return operator.decide(SEEN, carrying)[0].tolist()

    assert does(0, 0, 0) == pytest.approx([0, 0, -0.9]), "as the policy held it"
    assert does(0.25, 0, 1.0) == [0.25, 0, 1.0], "opened by a press"
    assert does(0, 0, 0) == [0, 0, 1.0] and does(0, 0, -1.0) == [0, 0, -1.0] and does(0, 0.25, 0) == [0, 0.25, -1.0]
    clock.now += LOST_S + 0.01
    assert operator.decide(SEEN, POLICY)[0].tolist() == [0, 0, -1.0], "a lost hand drops nothing"
    operator.reset()
    assert operator.decide(SEEN, POLICY)[0].tolist() == [0, 0, 1.0], "an episode begins with the gripper released"
