"""What keys, sticks and buttons do, by the file that comes with Tandem and by others."""

from pathlib import Path

import numpy as np
import pytest

from tandem.errors import ConfigError, FileMissing
from tandem.teleop.axes import axis_names
from tandem.teleop.mapping import DEFAULT, Mapping


@pytest.fixture
def mapping() -> Mapping:
    return Mapping.load(axis_names(6))


def changed(folder: Path, old: str, new: str) -> Path:
    text = DEFAULT.read_text()
    assert old in text
    path = folder / "mine.toml"
    path.write_text(text.replace(old, new))
    return path


def test_axes_have_names(mapping: Mapping) -> None:
    assert mapping.axes == axis_names(6) == ("x", "y", "z", "roll", "pitch", "yaw")
    assert axis_names(3) == ("x", "y", "z") and axis_names(4) == ("x", "y", "z", "gripper") and axis_names(5)[4] == "axis 4"


@pytest.mark.parametrize(("size", "expected"), [(1, [0.6]), (2, [0.6, -0.6])])
def test_a_task_with_fewer_than_three_axes_is_steered_by_the_same_keys(size: int, expected: list[float]) -> None:
    mapping = Mapping.load(axis_names(size))
    np.testing.assert_allclose(mapping.axes_from_keys({"KeyW", "KeyD", "KeyR"}), expected, atol=1e-6)
    np.testing.assert_allclose(mapping.axes_from_pad([1, -1, 0, 0], []), expected, atol=1e-6)
    assert {"device": "keyboard", "input": "KeyW", "does": "+x"} in mapping.table()


def test_keys_add_up_and_opposite_ones_cancel(mapping: Mapping) -> None:
    np.testing.assert_allclose(mapping.axes_from_keys({"KeyW", "KeyF", "Tab"}), [0.6, 0, -0.6, 0, 0, 0], atol=1e-6)
    assert not mapping.axes_from_keys({"KeyW", "KeyS"}).any() and not mapping.axes_from_keys(set()).any()
    np.testing.assert_allclose(mapping.axes_from_keys({"KeyQ", "ShiftLeft"}), [0, 0, 0, 0, 0, 0.15], atol=1e-6)


def test_a_task_without_turning_leaves_turning_out() -> None:
    mapping = Mapping.load(axis_names(3))
    np.testing.assert_allclose(mapping.axes_from_keys({"KeyA", "KeyQ"}), [0, 0.6, 0], atol=1e-6)
    assert all(row["does"] != "+yaw" for row in mapping.table())


def test_a_stick_begins_to_count_without_a_jump_beyond_its_dead_zone(mapping: Mapping) -> None:
    def forward(stick: float) -> float:
        return float(mapping.axes_from_pad([0, stick, 0, 0], [])[0])

    assert forward(-0.12) == 0.0 and forward(0.11) == 0.0
    # beyond the dead zone of 0.12: (0.13 - 0.12) / 0.88 of the speed 0.6
    assert forward(-0.13) == pytest.approx(0.6 * 0.01 / 0.88, abs=1e-6)
    assert forward(-1.0) == pytest.approx(0.6) and forward(1.0) == pytest.approx(-0.6)


def test_the_shoulder_button_holds_and_other_buttons_ask(mapping: Mapping) -> None:
    buttons = [0.0] * 17
    assert not mapping.held_by_pad(buttons) and mapping.button_commands("pad", buttons) == set()
    buttons[5] = buttons[3] = 1.0
    assert mapping.held_by_pad(buttons) and mapping.button_commands("pad", buttons) == {"success"}
    buttons[4] = 1.0  # fine
    np.testing.assert_allclose(mapping.axes_from_pad([-1, 0, 0, 0], buttons)[:2], [0, 0.15], atol=1e-6)
    assert mapping.tables["key_commands"]["Escape"] == "stop" and "KeyW" not in mapping.tables["key_commands"]


def test_who_faces_the_robot_turns_the_axes_and_not_their_length(mapping: Mapping) -> None:
    facing = mapping.axes_from_keys({"KeyW", "KeyR"}, turn=180)
    np.testing.assert_allclose(facing, [-0.6, 0, 0.6, 0, 0, 0], atol=1e-6)
    aside = mapping.axes_from_keys({"KeyW"}, turn=90)
    np.testing.assert_allclose(aside, [0, 0.6, 0, 0, 0, 0], atol=1e-6)


def test_a_space_mouse_has_six_axes(mapping: Mapping) -> None:
    six = {"x": 0.0, "y": 1.0, "z": -1.0, "roll": 0, "pitch": 0, "yaw": 0.05}
    np.testing.assert_allclose(mapping.axes_from_spacemouse(six), [0.6, 0, -0.6, 0, 0, 0], atol=1e-6)


def test_the_help_names_every_input_once(mapping: Mapping) -> None:
    rows = mapping.table()
    assert {"device": "keyboard", "input": "KeyW", "does": "+x"} in rows and {
        "device": "keyboard",
        "input": "Space",
        "does": "take",
    } in rows
    assert len({(row["device"], row["input"]) for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('KeyW = "+x"', 'KeyW = "x"', r"\[keys\] KeyW = 'x'.*'\+x'"),
        ('Enter = "success"', 'Enter = "win"', r"\[key_commands\] Enter = 'win'.*success"),
        ("speed = 0.6", "speed = 1.6", "speed = 1.6; expected a number from 0 to 1"),
        ("dead_zone = 0.12", "dead_zone = true", "dead_zone = True"),
        ("[spacemouse]", "[space_mouse]", r"unknown entries \['space_mouse'\] and lacks \['spacemouse'\]"),
        ("[keys]", "[keys", "cannot be read"),
    ],
)
def test_a_slip_of_the_pen_is_named(tmp_path: Path, old: str, new: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Mapping.load(axis_names(6), changed(tmp_path, old, new))


def test_another_file_is_followed(tmp_path: Path) -> None:
    mine = Mapping.load(axis_names(6), changed(tmp_path, 'KeyW = "+x"', 'KeyW = "-z"'))
    np.testing.assert_allclose(mine.axes_from_keys({"KeyW"}), [0, 0, -0.6, 0, 0, 0], atol=1e-6)
    with pytest.raises(FileMissing, match=r"no mapping file .*none\.toml"):
        Mapping.load(axis_names(6), tmp_path / "none.toml")


def test_a_gripper_opens_and_closes_fully_also_in_fine_mode() -> None:
    mapping = Mapping.load(("x", "y", "z", "gripper"))
    np.testing.assert_allclose(mapping.axes_from_keys({"KeyO", "KeyW"}), [0.6, 0, 0, 1.0], atol=1e-6)
    np.testing.assert_allclose(mapping.axes_from_keys({"KeyL", "KeyW", "ShiftLeft"}), [0.15, 0, 0, -1.0], atol=1e-6)


def test_the_buttons_of_a_spacemouse_move_a_gripper_and_give_commands_where_there_is_none() -> None:
    still: dict[str, float] = dict.fromkeys(("x", "y", "z", "roll", "pitch", "yaw"), 0.0)
    hand, arm = Mapping.load(("x", "y", "z", "gripper")), Mapping.load(("x", "y", "z"))
    np.testing.assert_array_equal(hand.axes_from_spacemouse(still, [1, 0]), [0, 0, 0, -1])
    np.testing.assert_array_equal(hand.axes_from_spacemouse(still, [0, 1]), [0, 0, 0, 1])
    assert hand.button_commands("spacemouse", [1, 1]) == set()
    assert arm.button_commands("spacemouse", [1, 0]) == {"success"} and not arm.axes_from_spacemouse(still, [1, 0]).any()
    assert not [row for row in hand.table() if row["device"] == "spacemouse button" and row["does"] == "success"]


def test_a_file_from_before_the_buttons_of_a_spacemouse_is_read(tmp_path: Path) -> None:
    text = DEFAULT.read_text()
    start, end = text.index("[spacemouse_buttons]"), text.index("[spacemouse_commands]")
    (tmp_path / "mine.toml").write_text(text[:start] + text[end:])
    assert Mapping.load(("x", "gripper"), tmp_path / "mine.toml").button_commands("spacemouse", [1]) == {"success"}
