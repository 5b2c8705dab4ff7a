"""Limits just before the robot, computed by hand."""

from pathlib import Path

import numpy as np
import pytest

from tandem.acting.limits import Limits, LimitSettings, settings_for
from tandem.envs.registry import make, spec_for
from tandem.errors import ConfigError, FileMissing
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
    # a force of (12, 0, 16) N is 20 N along (0.6, 0, 0.8); of the action (-1, 0, 0) the part -0.6 goes against it
    np.testing.assert_allclose(limits(seen(force=(12, 0, 16)), action(-1, 0, 0)), [-1 + 0.36, 0, 0.48], atol=1e-6)
    assert limits.notice == "limited: force"


def test_the_tasks_own_limits_fit_their_specs_and_change_nothing_in_the_middle() -> None:
    for task in ("reach", "gear_assembly", "gear_pick_assembly", "gear_lift_threeway"):
        settings = settings_for(task, realtime=True)
        assert settings.speed and settings.low and settings.position
        env = make(task)
        spec = env.get_wrapper_attr("task_spec")
        observation, _ = env.reset(seed=0)
        small = np.full(spec.action_dim, 0.01, np.float32)
        assert np.array_equal(Limits(spec, settings)(observation, small), small)


def test_a_robot_has_its_tasks_limits_and_a_fast_simulation_none() -> None:
    # an action of 1 is 0.03 m, ten times a second; the box is 0.13 m to each side
    own = settings_for("reach", realtime=True)
    assert own.speed == pytest.approx((0.3,) * 3) and own.low == pytest.approx((-0.13,) * 3) and own.offset == "command_offset"
    assert Limits(spec_for("reach"), settings_for("reach", realtime=False)).idle
    assert settings_for("Pendulum-v1", realtime=True) == LimitSettings()


def test_a_file_changes_what_it_names_and_a_slip_of_the_pen_is_named(tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text("force = 5.0\nspeed = [0.01]\n")
    told = settings_for("gear_assembly", True, file)
    assert told.force == 5.0 and told.speed == (0.01,) and told.low == settings_for("gear_assembly", realtime=True).low != ()
    file.write_text("forse = 5.0\n")
    with pytest.raises(ConfigError, match=r"unknown entries \['forse'\].*force"):
        settings_for("gear_assembly", True, file)
    with pytest.raises(FileMissing, match="no file of limits"):
        settings_for("reach", True, tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (LimitSettings(position="pose", low=(0.0,), high=(1.0,)), "'pose'.*place, tension, wrench"),
        (LimitSettings(speed=(1.0,) * 4), "4 numbers in `speed`.*3 axes"),
        (LimitSettings(low=(0.0,), high=(1.0,)), "`position`"),
    ],
)
def test_limits_that_do_not_fit_the_task_are_refused(settings: LimitSettings, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Limits(SPEC, settings)
