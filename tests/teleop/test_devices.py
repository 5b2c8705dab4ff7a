"""Devices on the actor's machine, driven through stand-ins for their drivers: what they hold, ask for, and how they are lost."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tandem.errors import ConfigError, DeviceError, DeviceLost
from tandem.teleop.axes import axis_names
from tandem.teleop.devices import KEEPS_S, Gamepad, SpaceMouse, watch_device
from tandem.teleop.mapping import Mapping
from tandem.teleop.steering import LOST_S

MAPPING = Mapping.load(axis_names(6))


class Mouse:
    """A SpaceMouse's driver: packets wait in a queue, one is taken by each read, as pyspacemouse does it."""

    def __init__(self) -> None:
        self.state = SimpleNamespace(t=0.0, x=0.0, y=0.0, z=0.0, roll=0.0, pitch=0.0, yaw=0.0, buttons=[0, 0])
        self.packets: list[dict] = []
        self.there = self.works = True

    def open(self) -> "Mouse | None":
        return self if self.there else None

    def read(self) -> SimpleNamespace:
        if not self.works:
            raise OSError("read failed")
        if self.packets:
            for name, value in {"t": self.state.t + 1, **self.packets.pop(0)}.items():
                setattr(self.state, name, value)
        return self.state

    def close(self) -> None:
        pass


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def test_a_space_mouse_holds_while_it_moves_and_half_a_second_longer() -> None:
    mouse, clock = Mouse(), Clock()
    device = SpaceMouse(MAPPING, mouse, clock)
    assert not device.read().holds
    mouse.packets = [{"y": 0.3}, {"y": 1.0}]
    reading = device.read()
    assert reading.holds and reading.axes[0] == pytest.approx(0.6), "all packets are read, the newest counts"
    mouse.packets = [{"y": 0.0}]
    assert device.read().holds
    clock.now += KEEPS_S - 0.1
    assert device.read().holds
    clock.now += 0.2
    assert not device.read().holds


def test_a_button_asks_once_however_long_it_is_pressed_and_however_short() -> None:
    mouse = Mouse()
    device = SpaceMouse(MAPPING, mouse, Clock())
    mouse.packets = [{"buttons": [1, 0]}, {"buttons": [0, 0]}]  # pressed and released between two reads
    assert device.read().commands == (("label", {"success": True}),)
    mouse.packets = [{"buttons": [0, 1]}]
    assert device.read().commands == (("record", {"what": "discard"}),)
    mouse.packets = [{"buttons": [0, 1]}]
    assert device.read().commands == ()


def test_a_space_mouse_that_falls_silent_while_it_is_pushed_is_lost() -> None:
    mouse, clock = Mouse(), Clock()
    device = SpaceMouse(MAPPING, mouse, clock)
    mouse.packets = [{"y": 1.0}]
    device.read()
    clock.now += LOST_S + 0.01
    with pytest.raises(DeviceLost, match="silent while it was pushed"):
        device.read()


def test_a_space_mouse_that_was_pulled_out_is_found_again() -> None:
    mouse, clock = Mouse(), Clock()
    device = SpaceMouse(MAPPING, mouse, clock)
    mouse.works = False
    with pytest.raises(DeviceLost, match="read failed"):
        device.read()
    mouse.works = True
    with pytest.raises(DeviceLost, match="not there"):
        device.read()  # not at every step: looking for it takes time
    clock.now += 2.0
    assert not device.read().holds


def test_no_space_mouse_is_said() -> None:
    mouse = Mouse()
    mouse.there = False
    with pytest.raises(DeviceError, match=r"no SpaceMouse was found\. Is it plugged in"):
        SpaceMouse(MAPPING, mouse)


class Pad:
    def __init__(self) -> None:
        self.sticks, self.buttons, self.there = [0.0] * 4, [0.0] * 17, True

    def present(self) -> bool:
        return self.there

    def state(self) -> tuple[list[float], list[float]]:
        return self.sticks, self.buttons

    def close(self) -> None:
        pass


def test_a_gamepad_holds_while_its_shoulder_button_is_down() -> None:
    pad = Pad()
    device = Gamepad(MAPPING, pad)
    pad.sticks[1] = -1.0
    assert not device.read().holds, "a stick alone takes nothing over"
    pad.buttons[5] = 1.0
    reading = device.read()
    assert reading.holds and reading.axes[0] == pytest.approx(0.6)
    pad.buttons[8] = 1.0
    assert device.read().commands == (("stop", {"stay": True}),)
    pad.there = False
    with pytest.raises(DeviceLost, match="gamepad was lost"):
        device.read()


def test_what_a_device_reads_can_be_looked_at() -> None:
    pad, lines = Pad(), []
    pad.sticks[1], pad.buttons[5] = -1.0, 1.0
    assert watch_device(Gamepad(MAPPING, pad), lines.append, 0.12, MAPPING.axes, hz=50) >= 2
    assert lines[0].startswith("x +0.60  y +0.00") and lines[0].endswith("HOLDS")


def test_a_missing_package_is_named_with_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pyspacemouse'] = None\n"
        "from tandem.teleop.devices import SpaceMouse\nfrom tandem.teleop.mapping import Mapping\nSpaceMouse(Mapping.load('xyz'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "needs the package 'pyspacemouse'" in done.stderr and "pip install 'tandem-rl[spacemouse]'" in done.stderr
    assert ConfigError.__name__ in done.stderr
