"""The Isaac Sim server of a hil-serl fork as a `TaskEnv`: each pose follows the last commanded one; what it sees is fresh or an error.

    step    POST /pose, /move_gripper   ──►  wait for most of the control period  ──►  POST /getstate, newest pictures  ──►  reward
    reset   away from the start, POST /reset_scene, wait until the server has driven the arm to its start: then it has been reset

The server answers /getstate from memory, also while its loop hangs. Its pictures come from the loop, so a picture that is newer than the
command says that the state is fresh too. Where none comes within the grace time the episode is lost, and no transition is made.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from tandem.envs.isaac.names import OFFLINE, SCHEME
from tandem.envs.isaac.profile import DEFAULT, Profile, read_profile
from tandem.envs.isaac.quaternions import from_euler, from_wire, to_euler, to_wire
from tandem.envs.isaac.rewards import Judge
from tandem.envs.isaac.wire import Address, Calls, Frame, Pictures, State
from tandem.envs.physics import Physics
from tandem.envs.rotations import quat_conjugate, quat_multiply, rotate, rotvec_to_quat
from tandem.envs.task_env import Capabilities, HaltPlan
from tandem.errors import ConfigError, RenderingUnavailable, ServedError
from tandem.layouts import ActionLayout
from tandem.types import Observation, Step

CONNECT_S, HALT_S = 10.0, 1.0
AWAY_M = 0.06
"""How far from the start the arm goes before a reset, so that its return is seen."""
STILL_M, STILL_S = 0.002, 0.2
"""The gear lies still if it moved by less than this in that time."""


def open_isaac(name: str, num_envs: int = 1) -> IsaacEnv:
    """`isaac+http://HOST:PORT/?profile=NAME`; `isaac:NAME` is the same without a server, for a learner that needs its spec alone."""
    if num_envs != 1:
        raise ConfigError(f"'{name}' is one robot, got num_envs={num_envs}")
    if name.startswith(SCHEME):
        address = Address.of(name, DEFAULT)
        return IsaacEnv(read_profile(address.profile), address)
    return IsaacEnv(read_profile(name.removeprefix(OFFLINE)), None)


class IsaacEnv:
    """One robot behind the server. Nothing moves before the first `reset`."""

    num_envs = 1

    def __init__(self, profile: Profile, address: Address | None) -> None:
        self.profile, self.spec = profile, profile.spec
        self._layout: ActionLayout = ActionLayout.of(self.spec)
        self._url = address.url if address is not None else f"{OFFLINE}{profile.name}"
        self._calls = Calls(address) if address is not None else None
        self._judge = Judge(profile.reward, self._url)
        self._pictures: Pictures | None = None
        self._halting = threading.Lock()
        self.commanded: tuple[np.ndarray, np.ndarray] | None = None
        """Position and quaternion w, x, y, z of the last command."""
        self._opening, self._sent = 1.0, None
        self._standing, self._age = True, 0
        self._last: Observation = {name: np.zeros((1, *entry.shape), entry.dtype) for name, entry in self.spec.observation.items()}
        self.halts = 0
        self.capabilities: Capabilities = Capabilities(seeds=False, clock="real", bounded=True, halt_plan=_halt_plan(address))
        if self._calls is not None:
            self._wait_for_server()

    def _wait_for_server(self) -> None:
        until = time.monotonic() + CONNECT_S
        while not self._ask(max(0.1, until - time.monotonic())).started:
            if time.monotonic() > until:
                raise ServedError(f"the server at {self._url} still reports the position of its start-up after {CONNECT_S:g} s")
            time.sleep(0.2)

    # ---- TaskEnv

    def reset(self, rows: Sequence[int] | None = None, seeds: Sequence[int | None] | None = None) -> Observation:
        """The server's resets take no seed; where gear and base lie is in its own hands."""
        del seeds
        if rows is not None and not list(rows):
            return self._seen()
        until = time.monotonic() + self.profile.reset.within_s
        if self._pictures is None and self.profile.cameras.names:
            self._pictures = Pictures(self._url) if self._calls is not None else None
        self._leave_start(until)
        self._post("reset_scene", None, max(0.1, until - time.monotonic()))
        self._await_start(until)
        start = from_euler(np.array(self.profile.reset.pose[3:]))
        self._command(np.array(self.profile.reset.pose[:3]), start, within=1.0)
        self._opening, self._sent = 1.0, None
        self._grip(within=1.0)
        state = self._await_still(until)
        frames = self._fresh(time.monotonic(), max(self.profile.time.grace_s, until - time.monotonic()))
        self._anchor = state.position, from_wire(state.quaternion)
        self._judge.begin(state.objects)
        self._standing, self._age = False, 0
        return self._remember(self._ask(1.0), frames)

    def step(self, action: np.ndarray) -> Step:
        began = time.monotonic()
        asked = self._layout.checked(action, (1,), self.spec.task)[0]
        if self._standing:
            return _nothing(self._seen())
        times = self.profile.time
        try:
            executed = self._act(asked, times.grace_s)
            _sleep_until(began + times.observe_at / times.control_hz)
            state = self._ask(times.grace_s)
            frames = self._fresh(began, times.grace_s)
        except ServedError as problem:
            return self._lost(str(problem))
        success = self._judge.success(state.objects)
        self._age += 1
        truncated = not success and self._age >= self.spec.max_episode_steps
        self._standing = success or truncated
        return Step(
            self._remember(state, frames),
            reward=np.array([float(success)]),
            terminated=np.array([success]),
            truncated=np.array([truncated]),
            success=np.array([success]),
            executed=executed[None],
            seconds=time.monotonic() - began,
        )

    def halt(self, reason: str) -> None:
        """The measured position is the new target, with the orientation that was commanded last; the next step goes on from there."""
        del reason
        if self._calls is None:
            return
        with self._halting:
            self.halts += 1
            try:
                turn = self.commanded[1] if self.commanded is not None else None
                position = halt_at(self._calls, turn)
                self.commanded = None if turn is None else (position, turn)
            except ServedError as problem:
                logging.getLogger(__name__).warning("halt did not reach the robot: %s", problem)

    def state(self) -> dict[str, Any]:
        raise ConfigError(f"environment '{self.spec.task}' cannot be saved: the server has no such call")

    def restore(self, state: dict[str, Any]) -> Observation:
        raise ConfigError(f"environment '{self.spec.task}' cannot be restored: the server has no such call")

    def render(self) -> np.ndarray:
        raise RenderingUnavailable(f"environment '{self.spec.task}' draws no pictures of its own; those of its cameras are observations")

    def physics(self) -> Physics | None:
        return None

    def close(self) -> None:
        if self._pictures is not None:
            self._pictures.close()
            self._pictures = None

    # ---- acting

    def _act(self, asked: np.ndarray, within: float) -> np.ndarray:
        """Send the command that an action means; returns the action that was executed, after clipping along the world's axes."""
        assert self.commanded is not None
        profile, (position, turn) = self.profile.action, self.commanded
        measured = self._measured if profile.frame == "tool" else np.array([1.0, 0.0, 0.0, 0.0])
        world = np.clip(np.concatenate([rotate(measured, asked[:3].astype(float)), rotate(measured, asked[3:6].astype(float))]), -1, 1)
        target = np.clip(position + world[:3] * profile.position_m, self.profile.box.low_m, self.profile.box.high_m)
        rotation = rotvec_to_quat(world[3:] * profile.rotation_rad)
        self._command(target, quat_multiply(rotation, turn), within)
        self._move_fingers(float(asked[6]))
        self._grip(within)
        back = quat_conjugate(measured)
        moved = (target - position) / profile.position_m
        return np.clip([*rotate(back, moved), *rotate(back, world[3:]), asked[6]], self._layout.low, self._layout.high).astype(np.float32)

    def _move_fingers(self, wanted: float) -> None:
        mode = self.profile.action.gripper
        if mode == "absolute":
            self._opening = (wanted + 1) / 2
        elif mode == "delta":
            self._opening = float(np.clip(self._opening + wanted * self.profile.action.gripper_step, 0, 1))
        elif wanted != 1:  # close, hold, open
            self._opening = wanted / 2

    def _command(self, position: np.ndarray, turn: np.ndarray, within: float) -> None:
        turn = turn / np.linalg.norm(turn)
        numbers = np.concatenate([position, to_wire(turn)]).astype(np.float32)
        with self._halting:  # a halt that runs is not overtaken by the command before it
            self._post("pose", {"arr": numbers.tolist()}, within)
            self.commanded = position, turn

    def _grip(self, within: float) -> None:
        if self._sent != self._opening:
            self._post("move_gripper", {"gripper_pos": self._opening}, within)
            self._sent = self._opening

    # ---- resetting

    def _leave_start(self, until: float) -> None:
        """Away from the start if the arm is there: else nobody could see that it was driven back."""
        start = np.array(self.profile.reset.pose[:3])
        if np.linalg.norm(self._ask(_rest(until)).position - start) > AWAY_M:
            return
        aside = start - np.array([0.0, 0.0, 1.6 * AWAY_M])
        turn = from_euler(np.array(self.profile.reset.pose[3:]))
        while np.linalg.norm(self._ask(_rest(until)).position - start) <= AWAY_M:
            self._command(np.clip(aside, self.profile.box.low_m, self.profile.box.high_m), turn, within=1.0)
            self._pause(until, "the arm does not leave its start, so a reset could not be seen. Does the server move it at all?")

    def _await_start(self, until: float) -> None:
        start, near = np.array(self.profile.reset.pose[:3]), self.profile.reset.within_m
        while (off := np.linalg.norm((state := self._ask(_rest(until))).position - start)) > near:
            self._pause(
                until,
                f"after /reset_scene the arm did not come to {start.round(3).tolist()} (it is at {state.position.round(3).tolist()}, "
                f"{1e3 * off:.0f} mm away; {1e3 * near:.0f} mm are allowed). Likely cause: the reset failed, or RESET_POSE of the server's "
                f"config is not the profile's",
            )

    def _await_still(self, until: float) -> State:
        """The state once gear and arm lie still."""
        state = self._ask(_rest(until))
        while True:
            time.sleep(STILL_S)
            before, state = state, self._ask(_rest(until))
            gear = self.profile.reward.gear
            moved = self._judge.pose(state.objects, gear)[:3] - self._judge.pose(before.objects, gear)[:3]
            if np.abs(moved).max() < STILL_M and np.abs(state.position - before.position).max() < STILL_M:
                return state
            self._pause(until, f"after /reset_scene '{gear}' or the arm does not come to rest")

    def _pause(self, until: float, problem: str) -> None:
        if time.monotonic() > until:
            raise ServedError(f"the server at {self._url} was not reset within {self.profile.reset.within_s:g} s: {problem}")
        time.sleep(0.05)

    # ---- seeing

    def _ask(self, within: float) -> State:
        return State.of(self._need_calls().ask("getstate", within=within), self._url)

    def _post(self, path: str, body: Any, within: float) -> None:
        self._need_calls().post(path, body, within=within)

    def _need_calls(self) -> Calls:
        if self._calls is None:
            raise ServedError(f"'{self._url}' has no address: a robot acts as {SCHEME}HOST:5001/?profile={self.profile.name}")
        return self._calls

    def _fresh(self, since: float, within: float) -> dict[str, Frame]:
        """A picture of every camera from after `since`."""
        names = self.profile.cameras.names
        if self._pictures is None:
            return {}
        frames = self._pictures.wait(names, since, within)
        missing = [name for name in names if name not in frames]
        if missing:
            there = ", ".join(self._pictures.names()) or "none"
            raise ServedError(
                f"no new picture of {' and '.join(missing)} from {self._url} within {within:.1f} s ({self._pictures.problem}; cameras that "
                f"sent one: {there}). Likely cause: its loop is busy or hangs, or it was started with --headless=True, which draws nothing"
            )
        return frames

    def _remember(self, state: State, frames: dict[str, Frame]) -> Observation:
        """The observation of this state, kept and copied."""
        self._measured = turn = from_wire(state.quaternion)
        at, anchor = self._anchor
        back = quat_conjugate(anchor)
        pose = [*rotate(back, state.position - at), *to_euler(quat_multiply(back, turn))]
        inverse = quat_conjugate(turn)
        velocity = [*rotate(inverse, state.velocity[:3]), *rotate(inverse, state.velocity[3:])]
        numbers = [state.gripper, *state.force, *pose, *state.torque, *velocity]
        seen: dict[str, Any] = {"state": np.array(numbers, np.float32), **{name: self._decoded(name, frames[name]) for name in frames}}
        if self.profile.reward.hold_steps:
            seen["hold"] = np.array([self._judge.held], np.float32)
        self._last = {name: values[None] for name, values in seen.items()}
        return self._seen()

    def _decoded(self, name: str, frame: Frame) -> np.ndarray:
        cameras = self.profile.cameras
        try:
            with Image.open(io.BytesIO(frame.jpeg), formats=["JPEG"]) as picture:
                if picture.width * picture.height > 2**22:
                    raise ServedError(f"the camera '{name}' of {self._url} sent {picture.width} x {picture.height} pixels")
                top, bottom, left, right = cameras.crop
                height, width = cameras.size
                box = (left * picture.width, top * picture.height, right * picture.width, bottom * picture.height)
                whole = cameras.crop == (0.0, 1.0, 0.0, 1.0) and picture.size == (width, height)
                shown = picture.convert("RGB")
                return np.array(shown if whole else shown.resize((width, height), box=box))
        except OSError as problem:
            raise ServedError(f"the camera '{name}' of {self._url} sent a picture that cannot be read: {problem}") from None

    def _seen(self) -> Observation:
        return {name: values.copy() for name, values in self._last.items()}

    def _lost(self, why: str) -> Step:
        """The episode is cut off after the step before; what happened meanwhile is no transition."""
        self._standing = True
        logging.getLogger(__name__).warning("the episode is left after %d steps: %s", self._age, why)
        return _nothing(self._seen(), lost=True)


def _nothing(observation: Observation, lost: bool = False) -> Step:
    no = np.zeros(1, bool)
    return Step(observation, np.zeros(1), no, no.copy(), no.copy(), lost=np.ones(1, bool) if lost else None)


def _rest(until: float) -> float:
    return max(0.2, until - time.monotonic())


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def halt_at(calls: Calls, turn: np.ndarray | None) -> np.ndarray:
    """Make the measured position the target and return it; `turn` w, x, y, z, None: the measured one."""
    pose = np.array(calls.ask("getpos", within=HALT_S)["pose"], float)
    if turn is not None:
        pose[3:] = to_wire(turn)
    calls.post("pose", {"arr": pose.astype(np.float32).tolist()}, within=HALT_S)
    return pose[:3]


def _halt_plan(address: Address | None) -> HaltPlan | None:
    return None if address is None else HaltPlan(command=(sys.executable, "-m", "tandem.envs.isaac.env", address.url))


def main() -> None:
    """`python -m tandem.envs.isaac.env URL`: halt the robot of that server; for a process that watches another."""
    halt_at(Calls(Address.of(f"isaac+{sys.argv[1]}", DEFAULT)), None)


if __name__ == "__main__":
    main()
