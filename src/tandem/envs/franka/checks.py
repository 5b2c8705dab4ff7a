"""How a Franka is checked: it is driven slowly under the controller's precise parameters, since a far target pulls at once."""

from __future__ import annotations

import time

import numpy as np

from tandem.envs.franka.env import STRAYED_M, STRAYED_RAD, FrankaDriver, Strayed
from tandem.envs.franka.profile import Profile
from tandem.envs.http_robot.preflight import Preflight, mm
from tandem.envs.http_robot.quaternions import angle_between, from_wire
from tandem.envs.http_robot.wire import State

COUNT_S, DRIVE_S = 1.0, 20.0


class FrankaChecks:
    objects: tuple[str, ...] = ()
    judges_pictures = False
    """This client crops them."""
    at_once = False

    def __init__(self, profile: Profile, driver: FrankaDriver) -> None:
        self._profile, self._driver = profile, driver
        self.opening = {"none": -1.0, "three-way": 0.0}.get(profile.action.gripper, 0.3)

    def go(self, position: np.ndarray, turn: np.ndarray) -> None:
        self._driver.drive(position, turn, time.monotonic() + DRIVE_S)

    def end(self) -> None:
        self._driver.comply()

    def restart(self, preflight: Preflight) -> float:
        """Drive to the start, and count the states that differ from the one before: what an arm measures is never twice the same."""
        (start, turn), report, reset = preflight.start, preflight.report, self._profile.reset
        began = time.monotonic()
        try:
            self._driver.stand()
        except Strayed as strayed:
            self._judge_strayed(preflight, strayed.before, strayed.after)
            return np.inf
        preflight.go(start, turn)
        state = preflight.settled()
        if np.linalg.norm(state.position - start) > reset.within_m:
            report.find("start-not-reached", True, seconds=time.monotonic() - began, at=mm(state.position), start=mm(start))
        report.figures["to the start"] = f"{time.monotonic() - began:.1f} s"
        return self._new_states(preflight)

    def _judge_strayed(self, preflight: Preflight, before: State, after: State) -> None:
        """How the server understands a pose: the arm moved towards what it took the pose where it was for."""
        read_wrong, moved = before.quaternion, after.position - before.position  # x, y, z, w, read as w, x, y, z
        wrong = [angle_between(from_wire(state.quaternion), read_wrong) for state in (before, after)]
        axis = int(np.argmax(np.abs(moved)))
        if wrong[1] < wrong[0] - STRAYED_RAD / 2:
            preflight.report.find("quat-swap", True, degrees=np.degrees(wrong[0]))
        elif abs(moved[axis]) > STRAYED_M / 2 and moved[axis] * before.position[axis] < 0:
            got = ", ".join(f"{1e3 * part:.1f}" for part in moved)
            preflight.report.find("flipped-axis", True, axis="xyz"[axis], sent="0.0 mm", got=got)
        preflight.report.find("strayed", True, moved=mm(moved), degrees=np.degrees(angle_between(before.quaternion, after.quaternion)))

    def _new_states(self, preflight: Preflight) -> float:
        seen, began = set[bytes](), time.monotonic()
        while time.monotonic() - began < COUNT_S:
            state = preflight.ask()
            seen.add(np.concatenate([state.position, state.quaternion, state.velocity, state.force, state.torque]).tobytes())
            time.sleep(0.005)
        return len(seen) / COUNT_S
