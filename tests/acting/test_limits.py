"""Limits just before the robot, computed by hand."""

import dataclasses
import time

import numpy as np
import pytest

from tandem.acting.limits import LimitedEnv, Limits, settings_for
from tandem.envs.limits import LimitSettings
from tandem.envs.registry import make, make_env, spec_for
from tandem.errors import ConfigError, LimitViolated
from tandem.types import Continuous, Entry, Spec

SPEC = Spec(
    "toy",
    {"place": Entry((3,)), "tension": Entry((3,)), "wrench": Entry((6,))},
    (Continuous("arm", 3, scale=(0.01, 0.01, 0.02)),),
    control_hz=10,
    max_episode_steps=10,
)


def seen(place=(0, 0, 0), tension=(0, 0, 0), force=(0, 0, 0)) -> dict[str, np.ndarray]:
    values = {"place": place, "tension": tension, "wrench": (*force, 0, 0, 0)}
    return {name: np.array(value, np.float32) for name, value in values.items()}


def action(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_without_settings_the_action_is_the_same_object() -> None:
    limits, asked = Limits(SPEC, LimitSettings()), action(1, -1, 0.5)
    assert limits.idle and limits(seen(), asked) is asked


def test_speed_is_that_of_the_command() -> None:
    # an action of 1 is 0.01 m ten times a second, 0.1 m/s; 0.05 m/s is half of it. The third axis: 0.2 m/s, so a quarter
    limits = Limits(SPEC, LimitSettings(speed=(0.05, 0.05, 0.05)))
    np.testing.assert_allclose(limits(seen(), action(1, -0.4, -1)), [0.5, -0.4, -0.25], atol=1e-6)
    assert limits.notice == "limited: speed" and limits.counts == {"speed": 1, "workspace": 0, "force": 0}
    limits(seen(), action(0.1, 0.1, 0.1))
    assert limits.notice == ""


def test_the_command_stays_in_the_workspace_and_one_outside_may_only_come_back() -> None:
    limits = Limits(SPEC, LimitSettings(position="place", offset="tension", low=(-0.1,) * 3, high=(0.1,) * 3))
    # commanded x: 0.09 + 0.005 = 0.095, so 0.005 m are left: half an action. y is out already, z is far from its bounds
    near = seen(place=(0.09, 0.12, 0), tension=(0.005, 0, 0))
    np.testing.assert_allclose(limits(near, action(1, 1, 1)), [0.5, 0, 1], atol=1e-5)
    np.testing.assert_allclose(limits(near, action(-1, -1, 0)), [-1, -1, 0])
    assert limits.counts["workspace"] == 1


def test_nothing_pushes_further_against_a_force_that_is_large_enough() -> None:
    limits = Limits(SPEC, LimitSettings(wrench="wrench", force=10.0))
    assert np.array_equal(limits(seen(force=(0, 0, 9.9)), action(0, 0, -1)), action(0, 0, -1))
    np.testing.assert_allclose(limits(seen(force=(0, 0, 20)), action(0.5, 0, -1)), [0.5, 0, 0], atol=1e-6)  # sideways is free
    np.testing.assert_allclose(limits(seen(force=(0, 0, 20)), action(0, 0, 1)), [0, 0, 1])  # away is free
    # a force of (12, 0, 16) N is 20 N along (0.6, 0, 0.8). The action (-1, 0, 0) moves -0.01 m along x, of which -0.006 m go against it:
    # (-0.01 + 0.0036, 0, 0.0048) m are left. An action of 1 moves 0.02 m along z, so that is 0.24 of it
    np.testing.assert_allclose(limits(seen(force=(12, 0, 16)), action(-1, 0, 0)), [-1 + 0.36, 0, 0.24], atol=1e-6)
    assert limits.notice == "limited: force"


def test_giving_way_to_a_force_neither_leaves_the_workspace_nor_is_faster_than_allowed() -> None:
    """Sliding along the surface would lift the tool by 0.24; where that is not allowed, what goes against the force stands still."""
    box = LimitSettings(wrench="wrench", force=10.0, position="place", low=(-1.0,) * 3, high=(1.0, 1.0, 0.001))
    slow = LimitSettings(wrench="wrench", force=10.0, speed=(0.1, 0.1, 0.02))
    for settings in (box, slow):
        assert Limits(SPEC, settings)(seen(force=(12, 0, 16)), action(-1, 0.5, 0)).tolist() == [0, 0.5, 0]


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_sensor_that_says_nothing_lets_nothing_move(broken: float) -> None:
    force, box = LimitSettings(wrench="wrench", force=10.0), LimitSettings(position="place", low=(-1.0,) * 3, high=(1.0,) * 3)
    assert Limits(SPEC, force)(seen(force=(broken, 0, 0)), action(1, 1, 1)).tolist() == [0, 0, 0]
    assert Limits(SPEC, box)(seen(place=(broken, 0, 0)), action(1, 1, 1)).tolist() == [0, 1, 1]


def test_every_row_is_limited_by_what_it_sees() -> None:
    env = make_env("reach", 2)
    limits = Limits(env.spec, LimitSettings(position="tcp_position", low=(-1.0,) * 3, high=(-0.5, 1.0, 1.0)))
    under = LimitedEnv(env, limits)
    under.reset(seeds=[0, 1])
    step = under.step(np.full((2, 3), 0.5))
    assert step.executed is not None and step.executed.tolist() == [[0, 0.5, 0.5]] * 2, "x is outside in both rows: it may only come back"
    assert limits.notice == "limited: workspace (row 0, 1)" and limits.counts["workspace"] == 2
    assert under.step(np.full((2, 3), -0.5)).executed is None, "as it was asked for"


def test_a_caller_without_a_rhythm_is_held_to_the_control_period() -> None:
    env = make_env("reach")  # 10 Hz
    under = LimitedEnv(env, Limits(env.spec, LimitSettings()), paced=True)
    under.reset(seeds=[0])
    began = time.monotonic()
    for _ in range(4):
        under.step(np.zeros((1, 3)))
    assert time.monotonic() - began >= 0.3


def test_the_tasks_own_limits_fit_their_specs_and_change_nothing_in_the_middle() -> None:
    for task in ("reach", "gear_assembly", "gear_pick_assembly", "gear_lift_threeway"):
        env = make(task)
        spec = env.get_wrapper_attr("task_spec")
        settings = settings_for(task, spec, realtime=True)
        assert settings.speed and settings.low and settings.position
        observation, _ = env.reset(seed=0)
        small = np.full(spec.action_dim, 0.01, np.float32)
        assert np.array_equal(Limits(spec, settings)(observation, small), small)


def test_a_robot_has_its_tasks_limits_and_a_fast_simulation_none() -> None:
    # an action of 1 is 0.03 m, ten times a second; the box is 0.13 m to each side
    reach = spec_for("reach")
    own = settings_for("reach", reach, realtime=True)
    assert own.speed == pytest.approx((0.3,) * 3) and own.low == pytest.approx((-0.13,) * 3) and own.offset == "command_offset"
    assert Limits(reach, settings_for("reach", reach, realtime=False)).idle
    assert settings_for("Pendulum-v1", spec_for("Pendulum-v1"), realtime=True) == LimitSettings()


def rows(*each: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.stack([row[name] for row in each]) for name in each[0]}


def test_a_measured_force_beyond_the_stop_is_a_violation_in_every_row() -> None:
    limits = Limits(SPEC, LimitSettings(wrench="wrench", force=10.0, stop_force=30.0))
    assert not limits.idle and not Limits(SPEC, LimitSettings(wrench="wrench", stop_force=30.0)).idle
    sound, pushed = seen(force=(18, 0, 23)), seen(force=(0, -18, 25))  # 29.2 N and 30.8 N: beyond force_n both, beyond the stop one
    assert limits.violation(rows(sound, sound)) == ""
    assert limits.violation(rows(sound, pushed)) == "a force of 30.81 N was measured in row 1; at most 30 N are allowed"
    assert limits.violation(rows(seen(force=(float("nan"), 0, 99)))) == "", "a sensor that knows nothing: the axes stand still, as ever"


def test_a_measured_position_far_outside_is_a_violation_and_the_command_alone_is_none() -> None:
    box = LimitSettings(position="place", offset="tension", low=(-0.1,) * 3, high=(0.1, 0.1, float("inf")), stop_outside=0.25)
    limits = Limits(SPEC, box)
    assert limits.violation(rows(seen(place=(0.1, -0.149, 9), tension=(0.2, 0, 0)))) == "", "a quarter of 0.2 m is 0.05 m; z has one end"
    said = limits.violation(rows(seen(place=(0, -0.151, 0))))
    assert said == "the position -0.151 of axis 'y' was measured, outside of the workspace from -0.1 to 0.1 by more than 0.25 of its width"
    assert Limits(SPEC, LimitSettings(position="place", low=box.low, high=box.high)).violation(rows(seen(place=(9, 9, 9)))) == "", (
        "not asked for"
    )


def test_an_environment_under_limits_raises_what_was_measured_after_a_step_and_after_a_reset() -> None:
    env = make_env("reach")
    here = env.reset(seeds=[0])["tcp_position"][0]
    settings = LimitSettings(position="tcp_position", low=tuple(here - 0.05), high=tuple(here + 0.05), stop_outside=0.1)
    under = LimitedEnv(env, Limits(env.spec, settings))
    under.reset(seeds=[0])
    assert under.step(np.zeros((1, 3))).success.shape == (1,)
    far = dataclasses.replace(settings, low=tuple(here + 0.05), high=tuple(here + 0.1))  # as if it had been pushed there
    pushed = LimitedEnv(env, Limits(env.spec, far))
    for call in (lambda: pushed.reset(seeds=[0]), lambda: pushed.step(np.zeros((1, 3)))):
        with pytest.raises(LimitViolated, match=r"limit of 'reach' was violated: the position .* of axis 'x' \(m\) was measured, outside"):
            call()
    env.close()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (LimitSettings(position="pose", low=(0.0,) * 3, high=(1.0,) * 3), "'pose'.*place, tension, wrench"),
        (LimitSettings(speed=(1.0,) * 4), "`speed` has 4 numbers.*3 axes"),
        (LimitSettings(speed=(1.0,) * 2), "`speed` has 2 numbers.*x, y, z.*left out"),
        (LimitSettings(speed=(-5.0, 5.0, 5.0)), "speed of axis 'x' is -5, expected a finite number above 0"),
        (LimitSettings(speed=(1.0, float("nan"), 1.0)), "speed of axis 'y' is nan"),
        (LimitSettings(low=(0.0,) * 3, high=(1.0,) * 3), "workspace of x, y, z needs `position`"),
        (LimitSettings(position="place", low=(0.0,) * 3), "`low` and `high` are needed together"),
        (LimitSettings(position="place", low=(0.0, 1.0, 0.0), high=(1.0,) * 3), "'y' reaches from 1 to 1"),
        (LimitSettings(position="place", low=(0.0,) * 3, high=(1.0, float("nan"), 1.0)), "highest position of axis 'y' is nan"),
        (LimitSettings(force=5.0), "force limit of 5 N needs `wrench`"),
        (LimitSettings(force=-5.0, wrench="wrench"), "force limit is -5"),
        (LimitSettings(stop_force=5.0), "stop at 5 N needs `wrench`"),
        (
            LimitSettings(stop_force=5.0, wrench="wrench", force=5.0),
            "force at which the robot stops is 5, expected.*above 5.*`force_n` is 5",
        ),
        (LimitSettings(stop_force=float("nan"), wrench="wrench"), "force at which the robot stops is nan"),
        (LimitSettings(stop_outside=0.1), "needs a workspace with both ends"),
        (LimitSettings(stop_outside=-0.1, position="place", low=(0.0,) * 3, high=(1.0,) * 3), "share .* is -0.1"),
        (LimitSettings(stall_s=float("nan")), "`stall_s` is nan"),
        (LimitSettings(reset_s=-1.0), "`reset_s` is -1"),
    ],
)
def test_limits_that_cannot_hold_are_refused(settings: LimitSettings, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Limits(SPEC, settings)
