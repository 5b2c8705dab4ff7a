"""A gripper is commanded by width, by steps or by choice; it never blocks, and it presses with its limit and no more."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from tandem.envs.batch import BatchEnv
from tandem.envs.gear_pick import GearPick
from tandem.envs.gripper import CLOSE, MODES, OPEN, Gripper, GripperSettings, Mode, said
from tandem.envs.task import ALL
from tandem.layouts import ActionLayout
from tandem.types import Continuous, Discrete

WIDTH, SPEED, FORCE, OFFSET, GOAL = range(5)
OPENING = GripperSettings().opening
STRIDE = GripperSettings().speed / 10
"""How far the width gets in a control period of 0.1 s."""


def started(mode: Mode, **settings: float) -> BatchEnv:
    env = BatchEnv(GearPick("lift", mode, gripper=GripperSettings(**settings)), 2, autoreset=AutoresetMode.DISABLED)
    env.reset(seed=0)
    return env


def told(env: BatchEnv, column: float) -> np.ndarray:
    """The gripper (5,) of the first robot after a step in which the arm stands still."""
    action = np.tile(ActionLayout.of(env.task_spec).rest, (2, 1)).astype(float)
    action[:, 6] = column
    return env.step(action)[0]["gripper"][0]


def test_an_action_has_the_part_of_its_mode() -> None:
    absolute, delta, choices = (Gripper(mode, GripperSettings(), 50, 0.1).part for mode in MODES)
    assert isinstance(absolute, Continuous) and absolute.scale == pytest.approx(OPENING / 2) and absolute.stands_at == 1.0
    assert isinstance(delta, Continuous) and delta.scale == pytest.approx(STRIDE) and delta.stands_at is None
    assert isinstance(choices, Discrete) and choices.choices == ("close", "hold", "open") and choices.choices[choices.rest] == "hold"


def test_an_absolute_command_goes_to_its_width_at_the_grippers_speed_and_stays() -> None:
    env = started("absolute")
    first = told(env, -0.5)
    # half a millimetre behind the command is the damping: 40 N s/m times 0.05 m/s over 6000 N/m, for each finger
    assert first[WIDTH] == pytest.approx(OPENING - min(STRIDE, 0.75 * OPENING), abs=0.8e-3) and first[SPEED] < -0.08
    assert first[GOAL] == pytest.approx(0.25 * OPENING)
    for _ in range(3):
        last = told(env, -0.5)
    assert last[WIDTH] == pytest.approx(0.25 * OPENING, abs=1e-4) and abs(last[SPEED]) < 1e-3 and abs(last[FORCE]) < 0.1


def test_a_step_moves_the_width_by_its_share_and_zero_changes_nothing() -> None:
    env = started("delta")
    moved = [told(env, column) for column in (-0.5, 0.0, 0.0)]
    assert moved[-1][WIDTH] == pytest.approx(OPENING - 0.5 * STRIDE, abs=1e-4)


def test_a_choice_is_kept_until_the_other_is_chosen() -> None:
    env = started("three-way")
    told(env, 0)  # close
    closed = [told(env, 1) for _ in range(4)][-1]  # hold: goes on closing
    assert closed[WIDTH] < 1e-4 and closed[GOAL] == 0
    told(env, 2)
    opened = [told(env, 1) for _ in range(4)][-1]
    assert opened[WIDTH] == pytest.approx(OPENING, abs=1e-4)


def test_closed_on_something_it_presses_with_its_limit_and_opens_at_once() -> None:
    env = started("three-way")
    task = env.task
    assert isinstance(task, GearPick)
    # the gear where the hand is, weightless for the moment that it takes to close
    env.batch.expand("body_gravcomp")[:, env.model.body("gear").id] = 1.0
    joint, places = int(env.model.joint("gear").qposadr[0]), env.batch.bind("site_xpos")
    env.batch.forward()
    env.batch.bind("qpos")[:, joint : joint + 3] = places[:, env.model.site("tcp").id]
    env.batch.forward()

    def choose(choice: int, times: int) -> np.ndarray:
        for _ in range(times):
            task.advance(ALL, np.tile([0.0] * 6 + [choice], (2, 1)), env.streams)  # the episode would have ended: nothing holds it yet
        return task.observe(ALL)["gripper"][0]

    pressed = choose(0, 4)
    # the hub is 18 mm wide; between two columns of balls of 3 mm, 1.5 mm to each side, a little less
    expected = 2 * (np.sqrt(0.012**2 - 0.0015**2) - 0.003)
    assert pressed[WIDTH] == pytest.approx(expected, abs=3e-4) and pressed[FORCE] == pytest.approx(GripperSettings().force, rel=0.05)
    assert task.held.all()
    choose(0, 5)  # the command does not run away below the measured width
    assert choose(2, 1)[WIDTH] > expected + 1e-3 and not task.held.any()


def test_a_wish_is_said_in_the_words_of_the_mode() -> None:
    wishes = np.array([CLOSE, OPEN])
    assert said("absolute", wishes).tolist() == said("delta", wishes).tolist() == [-1.0, 1.0]
    assert said("three-way", wishes).tolist() == [0.0, 2.0]
