"""A robot behind HTTP as a `TaskEnv`: each step is a new absolute pose; what it sees is fresh or an error.

    step    command the pose and the gripper  ──►  wait for most of the control period  ──►  state, newest pictures  ──►  reward
    reset   in the hands of the driver, which waits for the evidence that it has happened

What differs between servers is the `Driver` that this environment holds: how the scene is reset, how fingers are moved, when a state is
fresh, and what success is. Where nothing fresh comes within the grace time the episode is lost, and no transition is made.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tandem.envs.http_robot.pictures import Frame, Pictures, pixels
from tandem.envs.http_robot.pose_arm import Arm
from tandem.envs.http_robot.profile import Profile
from tandem.envs.http_robot.quaternions import from_euler, from_wire, to_euler
from tandem.envs.http_robot.wire import State
from tandem.envs.physics import Physics
from tandem.envs.rotations import quat_conjugate, quat_multiply, quat_to_rotvec, rotate, rotvec_to_quat
from tandem.envs.task_env import Capabilities
from tandem.errors import ConfigError, RenderingUnavailable, ServedError
from tandem.layouts import ActionLayout
from tandem.types import Observation, Step

CONNECT_S = 10.0


class Driver(Protocol):
    """What differs between the servers."""

    @property
    def arm(self) -> Arm: ...

    @property
    def no_pictures(self) -> str:
        """The likely cause where no picture arrives, in words."""
        ...

    def wait_for_server(self, within: float) -> None:
        """Until it answers with values that were measured."""
        ...

    def open_pictures(self) -> Pictures | None:
        """The cameras; None where the profile names none, or without an address."""
        ...

    def bring_to_start(self, until: float, seed: int | None) -> tuple[State, float]:
        """Reset scene and arm. Returns the state once there is evidence that it was done, and the opening that the fingers are sent to."""
        ...

    def see(self, within: float) -> State:
        """The state after a command; an error if none is newer than the command within that time."""
        ...

    def grip(self, opening: float, within: float) -> None:
        """Move the fingers: 0 closed, 1 open."""
        ...

    def begin(self, state: State) -> None:
        """An episode begins in this state."""
        ...

    def success(self, state: State) -> bool:
        """Whether this state is the goal; called once in a step."""
        ...

    def extra(self) -> Mapping[str, np.ndarray]:
        """Entries of the observation besides the state and the pictures."""
        ...


class RobotEnv:
    """One robot. Nothing moves before the first `reset`."""

    num_envs = 1

    def __init__(self, profile: Profile, driver: Driver) -> None:
        self.profile, self.spec, self.driver, self.arm = profile, profile.spec, driver, driver.arm
        self._layout: ActionLayout = ActionLayout.of(self.spec)
        self._start_turn = from_euler(np.array(profile.reset.pose[3:]))
        self._pictures: Pictures | None = None
        self._opening = self.gripper_sent = 1.0
        """The opening that is wanted, and the one that was sent last."""
        self._standing, self._age = True, 0
        self._last: Observation = {name: np.zeros((1, *entry.shape), entry.dtype) for name, entry in self.spec.observation.items()}
        self.capabilities: Capabilities = Capabilities(seeds=False, clock="real", bounded=True, halt_plan=self.arm.halt_plan)
        if self.arm.calls is not None:
            driver.wait_for_server(CONNECT_S)

    # ---- TaskEnv

    def reset(self, rows: Sequence[int] | None = None, seeds: Sequence[int | None] | None = None) -> Observation:
        """A seed reaches what the client itself draws; where the objects lie is in the hands of the server or a person."""
        if rows is not None and not list(rows):
            return self._seen()
        began, within = time.monotonic(), self.profile.reset.within_s
        if self._pictures is None:
            self._pictures = self.driver.open_pictures()
        state, opening = self.driver.bring_to_start(began + within, seeds[0] if seeds else None)
        self._opening = self.gripper_sent = opening
        frames = self._fresh(time.monotonic(), max(self.profile.time.grace_s, began + within - time.monotonic()))
        state = self.driver.see(self.profile.time.grace_s)
        self._anchor = state.position, from_wire(state.quaternion)
        self.driver.begin(state)
        self._standing, self._age = False, 0
        return self._remember(state, frames)

    def step(self, action: np.ndarray) -> Step:
        began = time.monotonic()
        asked = self._layout.checked(action, (1,), self.spec.task)[0]
        if self._standing:
            return _nothing(self._seen())
        times = self.profile.time
        try:
            executed = self._act(asked, times.grace_s)
            _sleep_until(began + times.observe_at / times.control_hz)
            state = self.driver.see(times.grace_s)
            frames = self._fresh(began, times.grace_s)
        except ServedError as problem:
            return self._lost(str(problem))
        success = self.driver.success(state)
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
        del reason
        self.arm.halt()

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
        profile, (position, turn) = self.profile.action, self._base()
        measured = self._measured[1] if profile.frame == "tool" else np.array([1.0, 0.0, 0.0, 0.0])
        world = np.clip(np.concatenate([rotate(measured, asked[:3].astype(float)), rotate(measured, asked[3:6].astype(float))]), -1, 1)
        target = np.clip(position + world[:3] * profile.position_m, self.profile.box.low_m, self.profile.box.high_m)
        wanted = quat_multiply(rotvec_to_quat(world[3:] * profile.rotation_rad), turn)
        allowed = self._near_start(wanted)
        if allowed is not wanted:
            world[3:] = quat_to_rotvec(quat_multiply(allowed, quat_conjugate(turn))) / profile.rotation_rad
        self.arm.command(target, allowed, within)
        back = quat_conjugate(measured)
        moved = (target - position) / profile.position_m
        executed = np.concatenate([rotate(back, moved), rotate(back, world[3:]), asked[6:]])
        if profile.gripper != "none":
            self._move_fingers(float(asked[6]), within)
        return np.clip(executed, self._layout.low, self._layout.high).astype(np.float32)

    def _base(self) -> tuple[np.ndarray, np.ndarray]:
        """The pose that a step is added to."""
        if self.profile.action.builds_on == "measured" or self.arm.commanded is None:
            return self._measured
        return self.arm.commanded

    def _near_start(self, turn: np.ndarray) -> np.ndarray:
        """The orientation within the box; the same object where it is inside."""
        away = quat_to_rotvec(quat_multiply(turn, quat_conjugate(self._start_turn)))
        inside = np.clip(away, -np.array(self.profile.box.turn_rad), self.profile.box.turn_rad)
        return turn if np.array_equal(away, inside) else quat_multiply(rotvec_to_quat(inside), self._start_turn)

    def _move_fingers(self, wanted: float, within: float) -> None:
        mode = self.profile.action.gripper
        if mode == "absolute":
            self._opening = (wanted + 1) / 2
        elif mode == "delta":
            self._opening = float(np.clip(self._opening + wanted * self.profile.action.gripper_step, 0, 1))
        elif wanted != 1:  # close, hold, open
            self._opening = wanted / 2
        if self.gripper_sent != self._opening:
            self.driver.grip(self._opening, within)
            self.gripper_sent = self._opening

    # ---- seeing

    def _fresh(self, since: float, within: float) -> dict[str, Frame]:
        """A picture of every camera from after `since`."""
        if self._pictures is None:
            return {}
        names, shelf = tuple(self.profile.crops), self._pictures.shelf
        frames = shelf.wait(names, since, within)
        missing = [name for name in names if name not in frames]
        if missing:
            there = ", ".join(shelf.names()) or "none"
            raise ServedError(
                f"no new picture of {' and '.join(missing)} of {self.arm.name} within {within:.1f} s ({self._pictures.problem}; cameras "
                f"that sent one: {there}). Likely cause: {self.driver.no_pictures}"
            )
        return frames

    def _remember(self, state: State, frames: dict[str, Frame]) -> Observation:
        """The observation of this state, kept and copied."""
        turn = from_wire(state.quaternion)
        self._measured = state.position, turn
        at, anchor = self._anchor
        back = quat_conjugate(anchor)
        pose = [*rotate(back, state.position - at), *to_euler(quat_multiply(back, turn))]
        inverse = quat_conjugate(turn)
        velocity = [*rotate(inverse, state.velocity[:3]), *rotate(inverse, state.velocity[3:])]
        numbers = [state.gripper, *state.force, *pose, *state.torque, *velocity]
        shown = {name: pixels(name, frame, self.profile.size, self.profile.crops[name]) for name, frame in frames.items()}
        seen: dict[str, Any] = {"state": np.array(numbers, np.float32), **shown, **self.driver.extra()}
        self._last = {name: values[None] for name, values in seen.items()}
        return self._seen()

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


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
