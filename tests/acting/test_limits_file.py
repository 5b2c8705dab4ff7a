"""Files of limits: what a person may write, what it then means, and every way to get it wrong, refused in words."""

import math
from pathlib import Path

import pytest

from tandem.acting.limit_rules import limit_axes, units_of
from tandem.acting.limits import Limits, own_settings
from tandem.acting.limits_file import look_at, read_limits, template
from tandem.envs.limits import LimitSettings
from tandem.envs.registry import spec_for
from tandem.errors import ConfigError, FileMissing
from tandem.types import Continuous, Discrete, Entry, Spec

ARM = Spec(
    "arm",
    {"pose": Entry((6,), unit="m, rad"), "wrench": Entry((6,), unit="N, N m"), "joints": Entry((3,), unit="rad"), "touch": Entry((2,))},
    (Continuous("arm", 6, unit="m, rad", scale=(0.01,) * 3 + (0.02,) * 3), Discrete("gripper", ("close", "hold", "open"), rest=1)),
    control_hz=10,
    max_episode_steps=100,
)
TURNS = "".join(f'[axis.{name}]\nspeed_share = 0.5\nunlimited = ["workspace"]\n' for name in ("roll", "pitch", "yaw"))
GOOD = f"""
position = "pose"
wrench = "wrench"
force_n = 15
stall_s = 1.5
[axis.x]
speed_m_per_s = 0.05
low_m = -0.05
high_m = 0.05
[axis.y]
speed_m_per_s = 0.05
low_m = -0.05
high_m = 0.05
[axis.z]
speed_m_per_s = 0.03
low_m = -0.01
high_m = 0.08
{TURNS}"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "limits.toml"
    file.write_text(text)
    return file


def test_a_file_says_its_units_and_its_axes(tmp_path: Path) -> None:
    settings = read_limits(written(tmp_path, GOOD), ARM, LimitSettings())
    # half of what an action of 1 does on a turning axis: 0.02 rad ten times a second
    assert settings.speed == pytest.approx((0.05, 0.05, 0.03, 0.1, 0.1, 0.1))
    assert settings.low == (-0.05, -0.05, -0.01, *[-math.inf] * 3) and settings.high == (0.05, 0.05, 0.08, *[math.inf] * 3)
    assert (settings.force, settings.stall_s, settings.reset_s, settings.position, settings.wrench) == (15, 1.5, 60, "pose", "wrench")
    assert not Limits(ARM, settings).idle


def test_what_a_file_does_not_speak_of_stays_as_in_the_task(tmp_path: Path) -> None:
    own, spec = own_settings("gear_assembly"), spec_for("gear_assembly")
    told = read_limits(written(tmp_path, "force_n = 5.0\n"), spec, own)
    assert told.force == 5.0 and (told.speed, told.low, told.high) == (own.speed, own.low, own.high)
    with pytest.raises(FileMissing, match="no file of limits"):
        read_limits(tmp_path / "none.toml", spec, own)


def test_a_file_can_say_what_must_never_be_measured(tmp_path: Path) -> None:
    settings = read_limits(written(tmp_path, f"stop_force_n = 40\nstop_outside_share = 0.1\n{GOOD}"), ARM, LimitSettings())
    assert (settings.force, settings.stop_force, settings.stop_outside) == (15.0, 40.0, 0.1)


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        # the file of the break test, and its relatives
        ("[axis.x]\nspeed_m_per_s = 0.05", "[axis.x]\nspeed_m_per_s = -5", r"\[axis.x\] 'speed_m_per_s' is -5, expected.*above 0"),
        ("[axis.x]\nspeed_m_per_s = 0.05", "[axis.x]\nspeed_m_per_s = 0", "'speed_m_per_s' is 0, expected"),
        ("low_m = -0.01", "low_m = nan", "'low_m' is nan, expected a finite number"),
        ("high_m = 0.08", "high_m = inf", "'high_m' is inf, expected a finite number"),
        ("stall_s = 1.5", "stall_s = nan", "'stall_s' is nan, expected a finite number above 0"),
        ("stall_s = 1.5", "stall_s = -1", "'stall_s' is -1, expected"),
        ("force_n = 15", "force_n = 0", "'force_n' is 0, expected"),
        ("force_n = 15", f"force_n = {'9' * 400}", "'force_n' is a whole number that is too large"),
        ("force_n = 15", "force_n = true", r"'force_n' is a boolean \(True\), expected a finite number above 0"),
        ("force_n = 15", 'force_n = "15 N"', r"'force_n' is a text \('15 N'\)"),
        ("force_n = 15", "force_n = [15]", "'force_n' is a list"),
        ("stall_s = 1.5", "stop_force_n = -40", "'stop_force_n' is -40, expected a finite number above 0"),
        ("stall_s = 1.5", "stop_force_n = 15", "force at which the robot stops is 15, expected a finite number above 15"),
        ("stall_s = 1.5", "stop_outside_share = inf", "'stop_outside_share' is inf, expected"),
        ('wrench = "wrench"', "wrench = 3", "'wrench' is 3, expected the name of an observation entry"),
        # axes and what belongs to them
        ("low_m = -0.01\n", "", "has a `high` and no `low`"),
        ("low_m = -0.01", "low_m = 0.08", r"\[axis.z\] reaches from 0.08 to 0.08"),
        ("[axis.z]\nspeed_m_per_s = 0.03\n", "[axis.z]\n", r"\[axis.z\]: its speed is not given.*unlimited = \[\"speed\"\]"),
        ("low_m = -0.01\nhigh_m = 0.08\n", "", r"\[axis.z\]: its workspace \(low and high\) is not given"),
        ("[axis.z]", "[axis.zz]", r"\[axis.zz\]: no such axis; the action has x, y, z, roll, pitch, yaw"),
        (TURNS, "", r"no table for \[axis.roll\], \[axis.pitch\], \[axis.yaw\]"),
        ("speed_share = 0.5", "speed_share = 1.5", "'speed_share' is 1.5, expected a share of at most 1"),
        ('unlimited = ["workspace"]', "unlimited = true", "'unlimited' is True, expected a list of speed and workspace"),
        ('unlimited = ["workspace"]', 'unlimited = ["speed"]', "limits its speed and says that it is unlimited"),
        # units and sensors
        ("speed_m_per_s = 0.03", "speed_rad_per_s = 0.03", r"\[axis.z\] has keys in m and rad"),
        ("low_m = -0.01\nhigh_m = 0.08", "low_mm = -10\nhigh_mm = 80", r"\[axis.z\] has keys in m and mm"),
        ("speed_share = 0.5\n", "speed_m_per_s = 0.1\n", r"\[axis.roll\] has keys in m; this axis moves in rad"),
        ("speed_m_per_s = 0.03", "speed = 0.03", r"\[axis.z\] 'speed' is unknown; there are speed_m_per_s"),
        ('position = "pose"\n', "", "workspace of x, y, z needs `position`"),
        ('position = "pose"', 'position = "tcp"', "names the observation entry 'tcp'; 'arm' has pose, wrench, joints, touch"),
        ('position = "pose"', 'position = "joints"', "'joints', whose number 0 is in rad; expected m"),
        ('position = "pose"', 'position = "touch"', "'touch', which has 2 numbers.*at least 3"),
        ('wrench = "wrench"\n', "", "force limit of 15 N needs `wrench`"),
        ('wrench = "wrench"', 'wrench = "pose"', "'pose', whose number 0 is in m; expected N"),
        # keys without units, and keys that nobody knows
        ("force_n = 15", "force = 15.0", "'force' does not say its unit.*force_n, in newtons"),
        ("force_n = 15", "forse_n = 15.0", "'forse_n' is unknown; there are .*force_n"),
        (GOOD, "speed = [0.1, 0.1, 0.1]", r"'speed' does not say its unit and axes; write one table for each axis: \[axis.x\]"),
        (GOOD, "axis = 3", "'axis' is 3, expected tables"),
        (GOOD, "[axis]\nx = 3", "'axis.x' is 3, expected a table"),
        (GOOD, "[axis.x.low]\nm = 3", r"\[axis.x\] 'low' is unknown"),
    ],
)
def test_a_file_that_can_be_misread_is_refused(tmp_path: Path, before: str, after: str, named: str) -> None:
    assert before in GOOD
    file = written(tmp_path, GOOD.replace(before, after))
    with pytest.raises(ConfigError, match=named) as refused:
        read_limits(file, ARM, LimitSettings())
    assert str(file) in str(refused.value)


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD.replace("force_n = 15", "force_n = nan").replace("low_m = -0.01", "low_m = true"))
    with pytest.raises(ConfigError, match=r"has 2 problems:\n  'force_n' is nan.*\n  \[axis.z\] 'low_m' is a boolean"):
        read_limits(file, ARM, LimitSettings())
    assert len(look_at(file).problems) == 2


def test_an_axis_of_unknown_unit_is_limited_by_its_share_alone(tmp_path: Path) -> None:
    spec = Spec("toy", {"state": Entry((2,))}, (Continuous("action", 2, axes=("slide", "lift")),), 10, 100)
    text = "[axis.slide]\nspeed_share = 0.2\n[axis.lift]\nspeed_share = 0.1\n"
    assert read_limits(written(tmp_path, text), spec, LimitSettings()).speed == pytest.approx((2.0, 1.0))
    with pytest.raises(ConfigError, match=r"\[axis.lift\] has keys in m, but the spec does not say.*action.units.*speed_share"):
        read_limits(written(tmp_path, text.replace("speed_share = 0.1", "speed_m_per_s = 0.1")), spec, LimitSettings())


def test_axes_have_names_and_units_of_their_own() -> None:
    two = (Continuous("left", 3, unit="m"), Continuous("right", 3, unit="m/s", scale=0.5), Continuous("hand", 1, unit="N"))
    axes = limit_axes(Spec("two arms", {}, two, 20, 100))
    assert [axis.name for axis in axes] == ["left x", "left y", "left z", "right x", "right y", "right z", "hand"]
    assert [axis.unit for axis in axes] == ["m"] * 6 + [""], "newtons are no motion"
    assert (axes[0].moved, axes[0].fastest) == (1, 20) and (axes[3].moved, axes[3].fastest) == (0.025, 0.5), "steps, and speeds"
    assert units_of("m, rad", 6) == ("m",) * 3 + ("rad",) * 3 and units_of("m, rad", 7) == ("",) * 7


@pytest.mark.parametrize("task", ["reach", "gear_assembly", "Pendulum-v1"])
def test_the_first_file_of_a_task_can_be_read(task: str, tmp_path: Path) -> None:
    spec, own = spec_for(task), own_settings(task)
    settings = read_limits(written(tmp_path, template(spec, own)), spec, own)
    assert settings.speed == pytest.approx(own.speed or (6.0,), rel=1e-4) and settings.low == pytest.approx(
        own.low or (-math.inf,), rel=1e-4
    )
