"""The Isaac Sim server of a hil-serl fork: its resets, its gripper, its reward.

The server answers /getstate from memory, also while its loop hangs. Its pictures come from the loop, so a picture that is newer than the
command says that the state is fresh too. Without cameras an answer is old if it stays the same to the last digit while the arm is still
away from its command.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tandem.envs.http_robot.env import RobotEnv
from tandem.envs.http_robot.names import WITH_ADDRESS
from tandem.envs.http_robot.pose_arm import Arm, pause, seconds_to
from tandem.envs.http_robot.quaternions import from_euler
from tandem.envs.http_robot.wire import Address, Refused, State
from tandem.envs.isaac.pictures import PushedPictures
from tandem.envs.isaac.profile import DEFAULT, Profile, read_profile
from tandem.envs.isaac.rewards import Judge
from tandem.errors import ServedError

AWAY_M = 0.06
"""How far from the start the arm goes before a reset, so that its return is seen."""
STILL_M, STILL_S = 0.002, 0.2
"""The gear lies still if it moved by less than this in that time."""
AWAY_FROM_COMMAND_M = 0.01
"""An arm that is so far from its command moves, or pushes against something, and no measurement repeats another."""
FINGER_M = 0.04
"""How far a finger goes from closed to open, in q."""


def open_isaac(name: str) -> RobotEnv:
    """`isaac+http://HOST:PORT/?profile=NAME`; `isaac:NAME` is the same without a server, for a learner that needs its spec alone."""
    if name.startswith(WITH_ADDRESS):
        address = Address.of(name, DEFAULT, "isaac")
        return isaac_env(read_profile(address.profile), address)
    return isaac_env(read_profile(name.partition(":")[2]), None)


def isaac_env(profile: Profile, address: Address | None) -> RobotEnv:
    return RobotEnv(profile, IsaacDriver(profile, address))


class IsaacDriver:
    """Drives the arm away from its start, asks for a reset, and waits until the server has driven it back: then it has been reset."""

    no_pictures = "its loop is busy or hangs, or it was started with --headless=True, which draws nothing"

    def __init__(self, profile: Profile, address: Address | None) -> None:
        name = address.url if address is not None else f"isaac:{profile.name}"
        self._profile, self.arm, self._judge = profile, Arm(name, address), Judge(profile.reward, name)
        self._start = np.array(profile.reset.pose[:3]), from_euler(np.array(profile.reset.pose[3:]))
        self._same: tuple[dict[str, Any], float] | None = None
        """The newest answer, and when it was seen first."""

    def wait_for_server(self, within: float) -> None:
        until = time.monotonic() + within
        while not self.arm.ask(max(0.1, until - time.monotonic())).started:
            if time.monotonic() > until:
                raise ServedError(f"the server at {self.arm.name} still reports the position of its start-up after {within:g} s")
            time.sleep(0.2)

    def open_pictures(self) -> PushedPictures | None:
        return PushedPictures(self.arm.name) if self.arm.calls is not None and self._profile.cameras.names else None

    def bring_to_start(self, until: float, seed: int | None) -> tuple[State, float]:
        """The server's resets take no seed."""
        del seed
        self._leave_start(until)
        self.arm.post("reset_scene", None, max(0.1, until - time.monotonic()))
        self._await_start(until)
        self.arm.command(*self._start, within=1.0)
        self.grip(1.0, within=1.0)
        return self._await_still(until), 1.0

    def see(self, within: float) -> State:
        """With the measured opening where the server measures it: q then has the two fingers, while gripper_pos may repeat the command."""
        state = self.arm.ask(within)
        if not self._profile.cameras.names:
            self._require_new(state, within)
        return replace(state, gripper=measured_opening(state))

    def _require_new(self, state: State, within: float) -> None:
        now = time.monotonic()
        if self._same is None or state.raw != self._same[0]:
            self._same = state.raw, now
        off = 0.0 if self.arm.commanded is None else float(np.linalg.norm(self.arm.commanded[0] - state.position))
        if now - self._same[1] > within and off > AWAY_FROM_COMMAND_M:
            raise ServedError(
                f"the server at {self.arm.name} has repeated the same state for {now - self._same[1]:.1f} s, while the arm is "
                f"{1e3 * off:.0f} mm from its command. Likely cause: its main loop hangs, and /getstate answers from memory"
            )

    def grip(self, opening: float, within: float) -> None:
        self.arm.post("move_gripper", {"gripper_pos": opening}, within)

    def begin(self, state: State) -> None:
        self._judge.begin(state.objects)

    def success(self, state: State) -> bool:
        return self._judge.success(state.objects)

    def extra(self) -> Mapping[str, np.ndarray]:
        return {"hold": np.array([self._judge.held], np.float32)} if self._profile.reward.hold_steps else {}

    # ---- resetting

    def _leave_start(self, until: float) -> None:
        """Away from the start if the arm is there: else nobody could see that it was driven back."""
        start, turn = self._start
        aside = np.clip(start - np.array([0.0, 0.0, 1.6 * AWAY_M]), self._profile.box.low_m, self._profile.box.high_m)
        while np.linalg.norm(self.arm.ask(seconds_to(until)).position - start) <= AWAY_M:
            self.arm.command(aside, turn, within=1.0)
            self._pause(until, "the arm does not leave its start, so a reset could not be seen. Does the server move it at all?")

    def _await_start(self, until: float) -> None:
        start, near = self._start[0], self._profile.reset.within_m
        while (off := np.linalg.norm((state := self.arm.ask(seconds_to(until))).position - start)) > near:
            self._pause(
                until,
                f"after /reset_scene the arm did not come to {start.round(3).tolist()} (it is at {state.position.round(3).tolist()}, "
                f"{1e3 * off:.0f} mm away; {1e3 * near:.0f} mm are allowed). Likely cause: the reset failed, or RESET_POSE of the server's "
                f"config is not the profile's",
            )

    def _await_still(self, until: float) -> State:
        """The state once gear and arm lie still."""
        state = self.arm.ask(seconds_to(until))
        while True:
            time.sleep(STILL_S)
            before, state = state, self.arm.ask(seconds_to(until))
            gear = self._profile.reward.gear
            moved = self._judge.pose(state.objects, gear)[:3] - self._judge.pose(before.objects, gear)[:3]
            if np.abs(moved).max() < STILL_M and np.abs(state.position - before.position).max() < STILL_M:
                return state
            self._pause(until, f"after /reset_scene '{gear}' or the arm does not come to rest")

    def _pause(self, until: float, problem: str) -> None:
        pause(until, self.arm.name, self._profile.reset.within_s, problem)


def measured_opening(state: State) -> float:
    """0 closed, 1 open; `gripper_pos` where q has no fingers, as on the fork's server, whose channels are dead."""
    try:
        joints = np.array(state.raw.get("q", ()), float)
    except (TypeError, ValueError):
        raise Refused(f"the server answered /getstate with q = {state.raw['q']!r:.60}, which are not numbers") from None
    if joints.shape != (9,) or not joints.any():
        return state.gripper
    return float(np.clip(joints[7:].sum() / (2 * FINGER_M), 0, 1))
