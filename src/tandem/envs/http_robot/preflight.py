"""Does the robot's server do what it says? First it is only looked at; then each axis and the gripper make one small motion.

The commanded motion is compared with the measured one: direction and size. So a swapped quaternion, a flipped axis, a channel that is
always zero, a gripper that only repeats its command and a picture that is stretched are found before anything is learned from them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tandem import __version__
from tandem.envs.http_robot.env import Driver
from tandem.envs.http_robot.pictures import pixels
from tandem.envs.http_robot.profile import Profile
from tandem.envs.http_robot.quaternions import angle_between, from_euler, from_wire, to_wire
from tandem.envs.http_robot.wire import State
from tandem.envs.rotations import quat_conjugate, quat_multiply, quat_to_rotvec, rotvec_to_quat
from tandem.errors import ServedError

CONNECT_S = 10.0
"""For the first answer: a server that was just started compiles its shaders."""
LOOK_S = 2.0
MOVE_M, TURN_RAD = 0.03, 0.12
SETTLED_S, SETTLE_S = 0.4, 12.0
"""Unchanged for so long the arm has arrived; at most so long it is waited for."""
WRONG_SIZE = 0.25
"""A motion whose size is off by a larger share is reported."""
STRETCHED = 0.45, 1.2
"""Vertical over horizontal motion in a picture. Square pixels of an upright camera give 0.5 to 1, by how far it is tilted."""
LATE_S, NEVER_S = 0.5, 2.0
"""An arm that needs longer for half of a small motion is late; one that needs longer still does not follow."""
LEAST_M, LEAST_RAD = 0.004, 0.02
"""An axis with less room than this in the box is not tried."""
DARK, FLAT = 8.0, 2.0
"""Mean brightness and spread, of 255, below which a picture shows nothing."""
CHANNELS = ("vel", "force", "torque", "q", "dq", "jacobian")
UNSAFE = {"reset-not-seen", "start-not-reached", "strayed"}
"""After one of these findings nothing is moved any more."""
AXES = ("x", "y", "z", "rotation x", "rotation y", "rotation z")


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be; `findings.py` says it in words."""

    code: str
    fault: bool
    """It has to be repaired before learning; otherwise the client copes with it."""
    values: dict[str, Any] = field(default_factory=dict)


@dataclass
class Report:
    """What was measured, and what is wrong."""

    address: str
    profile: str
    findings: list[Finding] = field(default_factory=list)
    figures: dict[str, str] = field(default_factory=dict)
    """Measured values by what they are, to read."""
    pictures: dict[str, np.ndarray] = field(default_factory=dict)
    moved: bool = False

    def find(self, code: str, fault: bool, **values: Any) -> None:
        self.findings.append(Finding(code, fault, values))

    @property
    def codes(self) -> set[str]:
        return {finding.code for finding in self.findings}


class Checks(Protocol):
    """What differs between the servers while they are checked."""

    @property
    def objects(self) -> tuple[str, ...]:
        """Objects that the server must report."""
        ...

    @property
    def judges_pictures(self) -> bool:
        """The server crops the pictures, so that what they show says whether it does so rightly."""
        ...

    @property
    def at_once(self) -> bool:
        """`go` commands the place itself and not the way to it, so that the time until the arm has come is the arm's own."""
        ...

    @property
    def opening(self) -> float:
        """Where the fingers are sent, and then back to open; negative: there is no gripper."""
        ...

    def go(self, position: np.ndarray, turn: np.ndarray) -> None:
        """Drive there, at a speed that the robot is made for."""
        ...

    def restart(self, preflight: Preflight) -> float:
        """Reset, and see whether it is done. Returns how many new states the server had in a second while the arm moved."""
        ...

    def end(self) -> None:
        """Leave the robot as an episode would find it."""
        ...


class Preflight:
    """One look at a server; `look` moves nothing, `move` does."""

    def __init__(self, profile: Profile, driver: Driver, checks: Checks, say: Callable[[str], None] = lambda line: None) -> None:
        self._profile, self._driver, self._checks, self._say = profile, driver, checks, say
        self._arm, self._pictures = driver.arm, driver.open_pictures()
        self.start = np.array(profile.reset.pose[:3]), from_euler(np.array(profile.reset.pose[3:]))
        """Position and quaternion w, x, y, z."""
        self._liveliest = {name: 0.0 for name in CHANNELS}
        """The largest value that each channel ever had."""
        self._settled_s = SETTLED_S
        self._lags: list[float] = []
        """From a command until half of the motion was measured (s)."""
        self.report = Report(driver.arm.name, profile.name)

    def close(self) -> None:
        if self._pictures is not None:
            self._pictures.close()

    # ---- without a motion

    def look(self) -> None:
        self._driver.wait_for_server(CONNECT_S)
        times, until = [], time.monotonic() + LOOK_S
        while time.monotonic() < until:
            began = time.monotonic()
            state = self.ask()
            times.append(time.monotonic() - began)
            time.sleep(0.02)
        figures = self.report.figures
        figures["/getstate"] = f"{1e3 * np.median(times):.1f} ms, 99 %: {1e3 * np.percentile(times, 99):.1f} ms"
        figures["tool"] = f"{mm(state.position)}"
        software = self._arm.need_calls().server
        figures["software"] = f"Tandem {__version__}" + (f"; {software}" if software else "")
        for name in self._checks.objects:
            if not isinstance(state.objects, dict) or name not in state.objects:
                self.report.find("no-object", True, name=name)
        if np.percentile(times, 90) > 0.5 / self._profile.time.control_hz:
            self.report.find("slow-answers", True, ms=1e3 * float(np.percentile(times, 90)))
        self._look_at_cameras()

    def _look_at_cameras(self) -> None:
        if self._pictures is None:
            return
        names, shelf = tuple(self._profile.crops), self._pictures.shelf
        shelf.wait(names, time.monotonic(), 3.0)
        missing = [name for name in names if shelf.newest(name) is None]
        if missing:
            self.report.find("no-frames", True, cameras=", ".join(missing), why=self._pictures.problem)
        for name in sorted(set(names) - set(missing)):
            picture = self._picture(name)
            self.report.pictures[name] = picture
            brightness, spread = float(picture.mean()), float(picture.std())
            self.report.figures[f"camera {name}"] = f"{picture.shape[1]} x {picture.shape[0]}, {brightness:.0f} / 255"
            if brightness < DARK or spread < FLAT:
                self.report.find("black-frames", True, camera=name)

    # ---- with motions

    def move(self) -> None:
        self.report.moved = True
        try:
            self._say("reset")
            self._check_rate(self._checks.restart(self))
            if not self.report.codes & UNSAFE:
                self._check_orientation()
                self._check_axes()
                self._check_gripper()
        finally:
            self._stop()
        dead = [name for name in CHANNELS if self._liveliest[name] == 0]
        if dead:
            self.report.find("dead-channels", False, channels=", ".join(dead))

    def _check_rate(self, hz: float) -> None:
        self.report.figures["new states"] = f"{hz:.0f} / s" if np.isfinite(hz) else "-"
        self._settled_s = max(SETTLED_S, 8 / hz)
        if hz < self._profile.time.control_hz:
            self.report.find("slow-loop", True, hz=hz, wanted=self._profile.time.control_hz)

    def _check_orientation(self) -> None:
        position, turn = self.start
        self.go(position, turn)
        if self._checks.opening >= 0:
            self._driver.grip(1.0, within=1.0)
        state = self.settled()
        measured = from_wire(state.quaternion)
        off = angle_between(measured, turn)
        self.report.figures["orientation"] = f"{np.degrees(off):.1f} deg"
        if off < 0.15:
            return
        read_wrong = to_wire(turn)  # what x, y, z, w means when it is read as w, x, y, z
        if angle_between(measured, read_wrong) < 0.15:
            self.report.find("quat-swap", True, degrees=np.degrees(off))
        else:
            self.report.find("orientation-off", True, degrees=np.degrees(off))

    def _check_axes(self) -> None:
        shifts: dict[str, list[np.ndarray]] = {}
        for axis, name in enumerate(AXES):
            self._say(name)
            step = self._room(axis)
            if not step:
                self.report.figures[name] = "-"
                continue
            moved, seen = self._move_along(axis, step)
            if np.abs(moved - np.eye(3)[axis % 3] * step).max() > WRONG_SIZE * abs(step):
                time.sleep(1.0)  # and once more: a busy server may have stood for a moment
                moved, seen = self._move_along(axis, step)
            self._judge_axis(axis, name, step, moved)
            for camera, shift in seen.items() if axis < 2 else ():
                shifts.setdefault(camera, []).append(shift)
        for camera, found in shifts.items() if self._checks.judges_pictures else ():
            self._judge_camera(camera, found)
        self._judge_lag()

    def _room(self, axis: int) -> float:
        """How far to go along or about an axis, with its sign; 0: the box leaves no room."""
        if axis >= 3:
            size = min(TURN_RAD, 0.8 * self._profile.box.turn_rad[axis - 3])
            return size if size >= LEAST_RAD else 0.0
        start, box = self._profile.reset.pose[axis], self._profile.box
        up, down = min(MOVE_M, 0.9 * (box.high_m[axis] - start)), min(MOVE_M, 0.9 * (start - box.low_m[axis]))
        size = up if up >= down else -down
        return size if abs(size) >= LEAST_M else 0.0

    def _move_along(self, axis: int, step: float) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """From the start along or about an axis and back: the measured motion, and how far the pictures moved (pixels)."""
        (position, turn), along = self.start, np.eye(3)[axis % 3] * step
        before, seen = self.settled(), self._all_pictures()
        began = time.monotonic()
        if axis < 3:
            after = self.drive(axis, step, position + along, turn)
        else:
            after = self.drive(axis, step, position, quat_multiply(rotvec_to_quat(along), turn))
        later = self._all_pictures(newer_than=began) if axis < 2 else {}
        shifts = {camera: shift_between(seen[camera], picture) for camera, picture in later.items() if camera in seen}
        self.drive(axis, step, position, turn)
        return _motion(axis, before, after), shifts

    def drive(self, axis: int, step: float, position: np.ndarray, turn: np.ndarray) -> State:
        """Go there, which is as far as `step`; the state once the arm stands. An arm that is late stands at first, and has not arrived."""
        before, began = self.ask(), time.monotonic()
        self.go(position, turn)
        while (took := time.monotonic() - began) < NEVER_S and np.linalg.norm(_motion(axis, before, self.ask())) < abs(step) / 2:
            time.sleep(0.01)
        if self._checks.at_once and took < NEVER_S:
            self._lags.append(took)
        return self.settled()

    def _judge_lag(self) -> None:
        if not self._lags:
            return
        lag = float(np.median(self._lags))
        self.report.figures["lag"] = f"{lag:.2f} s"
        if lag > LATE_S and "slow-loop" not in self.report.codes:
            self.report.find("lag", False, seconds=lag, steps=lag * self._profile.time.control_hz)

    def _judge_axis(self, axis: int, name: str, step: float, moved: np.ndarray) -> None:
        expected, size = axis % 3, float(np.linalg.norm(moved))
        unit, factor = ("mm", 1e3) if axis < 3 else ("deg", np.degrees(1.0))
        values = {"axis": name, "sent": f"{factor * step:.1f} {unit}", "got": ", ".join(f"{factor * part:.1f}" for part in moved)}
        self.report.figures[name] = f"{factor * step:.1f} -> {values['got']} {unit}"
        main = int(np.argmax(np.abs(moved)))
        if size < 0.3 * abs(step):
            self.report.find("axis-dead", True, **values)
        elif main != expected:
            if axis < 3 or "quat-swap" not in self.report.codes:
                self.report.find("axis-swapped", True, other=AXES[main + 3 * (axis >= 3)], **values)
        elif moved[expected] * step < 0:
            self.report.find("flipped-axis", True, **values)
        elif abs(size / abs(step) - 1) > WRONG_SIZE:
            self.report.find("axis-size", True, share=size / abs(step), **values)

    def _judge_camera(self, name: str, shifts: list[np.ndarray]) -> None:
        """Horizontal and vertical motion in the picture for one of the tool along x and along y."""
        horizontal, vertical = np.linalg.norm(np.array(shifts), axis=0)
        if len(shifts) < 2 or max(horizontal, vertical) < 2:
            self.report.find("camera-still", False, camera=name)
            return
        ratio = vertical / max(horizontal, 1e-6)
        self.report.figures[f"camera {name}, vertical / horizontal"] = f"{ratio:.2f}"
        if not STRETCHED[0] <= ratio <= STRETCHED[1]:
            self.report.find("crops", True, camera=name, ratio=ratio)

    def _check_gripper(self) -> None:
        wanted = self._checks.opening
        if wanted < 0:
            return
        self._say("gripper")
        self.settled()
        before = self.ask().gripper
        if abs(before - wanted) < 0.1:  # it is there already: see whether it opens
            self._driver.grip(wanted, within=1.0)
            wanted = 1.0
        self._driver.grip(wanted, within=1.0)
        at_once = self.ask().gripper
        until = time.monotonic() + 3.0
        while abs((after := self.ask().gripper) - wanted) > 0.05 and time.monotonic() < until:
            time.sleep(0.05)
        self.report.figures["gripper"] = f"{before:.2f} -> {after:.2f} ({wanted:.2f})"
        if at_once == wanted and before != wanted:
            self.report.find("gripper-echo", False)
        elif abs(after - before) < 0.1:
            self.report.find("gripper-dead", True, sent=wanted, got=after)
        self._driver.grip(1.0, within=1.0)

    # ---- the server

    def go(self, position: np.ndarray, turn: np.ndarray) -> None:
        self._checks.go(np.clip(position, self._profile.box.low_m, self._profile.box.high_m), turn)

    def ask(self) -> State:
        """The state; what was ever alive in it is remembered."""
        state = self._arm.ask(within=2.0)
        for name in CHANNELS:
            values = np.array(state.raw.get(name, 0.0), float)
            self._liveliest[name] = max(self._liveliest[name], float(np.abs(values).max(initial=0.0)))
        return state

    def settled(self) -> State:
        """The state once the arm does not move any more, or after `SETTLE_S`."""
        began = still_since = time.monotonic()
        last = state = self.ask()
        while time.monotonic() - still_since < self._settled_s and time.monotonic() - began < SETTLE_S:
            time.sleep(0.02)
            state = self.ask()
            if np.abs(state.position - last.position).max() > 2e-4 or angle_between(state.quaternion, last.quaternion) > 3e-3:
                last, still_since = state, time.monotonic()
        return state

    def _stop(self) -> None:
        try:
            if not self.report.codes & UNSAFE:
                self.go(*self.start)
                self._checks.end()
        except ServedError as problem:
            self._say(str(problem))

    def _all_pictures(self, newer_than: float = 0.0) -> dict[str, np.ndarray]:
        if self._pictures is None:
            return {}
        names, shelf = tuple(self._profile.crops), self._pictures.shelf
        if newer_than:
            shelf.wait(names, time.monotonic(), 1.0)
        return {name: self._picture(name) for name in names if shelf.newest(name) is not None}

    def _picture(self, name: str) -> np.ndarray:
        frame = self._pictures.shelf.newest(name) if self._pictures is not None else None
        assert frame is not None
        return pixels(name, frame)


def _motion(axis: int, before: State, after: State) -> np.ndarray:
    """From one state to the next, in the world: the way for the axes 0 to 2, the rotation vector for 3 to 5."""
    if axis < 3:
        return after.position - before.position
    return quat_to_rotvec(quat_multiply(from_wire(after.quaternion), quat_conjugate(from_wire(before.quaternion))))


def mm(position: np.ndarray) -> str:
    """In words, for a report."""
    return "(" + ", ".join(f"{1e3 * number:.0f}" for number in position) + ") mm"


def shift_between(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """How far (pixels to the right, down) what moved in a picture has moved; what stood still, such as the fingers, does not count."""
    grey = [picture.astype(float).mean(-1) for picture in (before, after)]
    changed = np.abs(grey[1] - grey[0]) > 12
    if changed.sum() < 20:
        return np.zeros(2)
    parts = [np.where(changed, picture - np.median(picture), 0.0) for picture in grey]
    height, width = changed.shape
    padded = [np.fft.rfft2(part, (2 * height, 2 * width)) for part in parts]
    match = np.fft.irfft2(padded[1] * np.conj(padded[0]))
    down, right = np.unravel_index(int(np.argmax(match)), match.shape)
    return np.array([right if right < width else right - 2 * width, down if down < height else down - 2 * height], float)
