"""hil-serl's Franka server: an arm under an impedance controller, a gripper, and cameras on this computer.

The server answers /getstate from the last message of the arm, also when none comes any more. What an arm measures is never twice the same,
so a state that repeats the one before it to the last digit is an old one: it is asked for again, and after the grace time the episode is
lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import numpy as np

from tandem.envs.franka.cameras import Cameras, open_cameras
from tandem.envs.franka.profile import DEFAULT, Profile, RewardProfile, read_profile
from tandem.envs.http_robot.env import RobotEnv
from tandem.envs.http_robot.names import WITH_ADDRESS
from tandem.envs.http_robot.pose_arm import Arm, seconds_to
from tandem.envs.http_robot.quaternions import angle_between, from_euler, from_wire, to_euler
from tandem.envs.http_robot.wire import Address, Refused, State
from tandem.envs.rotations import quat_conjugate, quat_multiply, quat_to_rotvec, rotvec_to_quat
from tandem.errors import ServedError

CALL_S, JOINT_RESET_S = 1.0, 60.0
"""For a command; and for a joint reset, which stops one controller, starts another and drives the arm."""
STAY_S, STOP_S, STRAYED_M, STRAYED_RAD = 0.25, 5.0, 0.02, 0.12
"""An arm that was told to stay where it is does so: how long it is watched, and what it may move meanwhile."""
MOMENT_S, MOVING_M = 0.05, 0.001
"""An arm that goes further than this in that time is moving."""
DRIVE_HZ, ARRIVE_S, FINGERS_S = 20.0, 3.0, 3.0
PARTS = ("getpos", "getvel", "getforce", "gettorque")
"""Asked one by one where there is no gripper: hil-serl's server cannot answer /getstate then."""
OPEN_ROBOTIQ, OPEN_FRANKA = 0.2, 0.5
"""Above it a gripper is open. hil-serl opens a Robotiq to 175 of 255, which is 0.31."""
FRANKA_FULL = 0.08 * 2550
"""/move_gripper of a Franka hand is its width in 1/2550 m, and 0.08 m are all. A Robotiq counts from 0, open, to 255, shut."""


def open_franka(name: str) -> RobotEnv:
    """`franka+http://HOST:5000/?profile=NAME`; `franka:NAME` is the same without a server, for a learner that needs its spec alone."""
    if name.startswith(WITH_ADDRESS):
        address = Address.of(name, DEFAULT, "franka")
        return franka_env(read_profile(address.profile), address)
    return franka_env(read_profile(name.partition(":")[2]), None)


def franka_env(profile: Profile, address: Address | None) -> RobotEnv:
    return RobotEnv(profile, FrankaDriver(profile, address))


class Strayed(ServedError):
    """The arm moved although it was commanded to where it was."""

    def __init__(self, message: str, before: State, after: State) -> None:
        super().__init__(message)
        self.before, self.after = before, after


class FrankaDriver:
    """Drives the arm to its start itself, slowly and under the controller's precise parameters, and looks whether it is there."""

    no_pictures = "the kind or source of [cameras.NAME] in the profile, a cable, or another program that holds the camera"

    def __init__(self, profile: Profile, address: Address | None) -> None:
        name = address.url if address is not None else f"franka:{profile.name}"
        clear = ("clearerr",) if profile.clear_errors else ()
        self.arm = Arm(name, address, PARTS if profile.gripper.kind == "none" else ("getstate",), clear)
        self._profile, self._random, self._episodes = profile, np.random.default_rng(), 0
        self._before: object = None
        """The numbers that were measured last."""

    def wait_for_server(self, within: float) -> None:
        until, problem = time.monotonic() + within, ""
        while time.monotonic() < until:
            try:
                self.arm.ask(seconds_to(until))
                return
            except Refused as refused:  # 500 until the first message of arm and controller has come
                problem = str(refused)
                time.sleep(0.2)
        raise ServedError(
            f"the robot's server at {self.arm.name} gives no state after {within:g} s: {problem}. Likely cause: its impedance controller "
            f"is "
            f'not running (POST /startimp), or it was started with --gripper_type=None: write [gripper] kind = "none" in the profile'
        )

    def open_pictures(self) -> Cameras | None:
        return open_cameras(self._profile.cameras, self.arm.name) if self.arm.calls is not None and self._profile.cameras else None

    def see(self, within: float) -> State:
        until = time.monotonic() + within
        while True:
            state = self.arm.ask(seconds_to(until))
            numbers = (state.position, state.quaternion, state.velocity, state.force, state.torque)
            fingerprint = b"".join(part.tobytes() for part in numbers)
            if fingerprint != self._before:
                self._before = fingerprint
                return state
            if time.monotonic() > until:
                raise ServedError(
                    f"the robot's server at {self.arm.name} repeats the same state to the last digit for {within:g} s. Likely cause: its "
                    f"connection to the arm is gone (franka_state_controller), or the arm was switched off"
                )
            time.sleep(0.01)

    # ---- the start of an episode

    def bring_to_start(self, until: float, seed: int | None) -> tuple[State, float]:
        """The seed decides where around the start the arm begins."""
        reset, random = self._profile.reset, self._random if seed is None else np.random.default_rng(seed)
        self.stand()
        if reset.joint_reset_every and self._episodes and self._episodes % reset.joint_reset_every == 0:
            self.arm.post("jointreset", None, JOINT_RESET_S, once=True)
            until = time.monotonic() + reset.within_s
        self._episodes += 1
        if reset.up_m:
            state = self.arm.ask(CALL_S)
            self.drive(state.position + np.array([0.0, 0.0, reset.up_m]), from_wire(state.quaternion), until)
        start, turn = np.array(reset.pose[:3]), from_euler(np.array(reset.pose[3:]))
        start[:2] += random.uniform(-1, 1, 2) * reset.random_xy_m
        turn = quat_multiply(rotvec_to_quat(np.array([0.0, 0.0, random.uniform(-1, 1) * reset.random_rz_rad])), turn)
        self.drive(start, turn, until)
        self._arrive(start, turn, min(until, time.monotonic() + ARRIVE_S))
        if reset.gripper != "keep":
            self._send_fingers(reset.gripper == "open")
        self.comply()
        state = self.see(self._profile.time.grace_s)
        return state, state.gripper if reset.gripper == "keep" else float(reset.gripper == "open")

    def stand(self) -> None:
        """The arm stands where it is, free of errors, and is made precise: its old target is somewhere else."""
        self.arm.post("clearerr", None, CALL_S)
        earlier = self.arm.ask(CALL_S)
        time.sleep(MOMENT_S)
        state = self.arm.ask(CALL_S)
        if np.linalg.norm(state.position - earlier.position) > MOVING_M:  # it comes from an episode: an arm that moves cannot stand at once
            state = self._hold(state)
        self._stayed(state, self._hold(state))
        self._update(self._profile.precision)

    def _hold(self, state: State) -> State:
        """Command the arm to where it was; what is measured a moment later."""
        self.arm.command(state.position, from_wire(state.quaternion), CALL_S)
        time.sleep(STAY_S)
        return self.arm.ask(CALL_S)

    def _stayed(self, before: State, after: State) -> None:
        moved = float(np.linalg.norm(after.position - before.position))
        turned = angle_between(after.quaternion, before.quaternion)
        if moved > STRAYED_M or turned > STRAYED_RAD:
            self.arm.post("stopimp", None, STOP_S, once=True)
            raise Strayed(
                f"the robot at {self.arm.name} was told to stay where it is and moved by {1e3 * moved:.0f} mm and {np.degrees(turned):.0f} "
                f"degrees; its controller was stopped (POST /stopimp; /startimp starts it). Likely cause: the server takes poses in "
                f"another "
                f"frame or order of the quaternion than it reports them. `tandem robot check` says which",
                before,
                after,
            )

    def comply(self) -> None:
        """The parameters with which the policy acts."""
        self._update(self._profile.compliance)

    def _update(self, parameters: Mapping[str, float]) -> None:
        if parameters:
            self.arm.post("update_param", dict(parameters), CALL_S)

    def drive(self, position: np.ndarray, turn: np.ndarray, until: float) -> None:
        """Straight there from where the arm is, at the profile's speed."""
        state = self.arm.ask(seconds_to(until))
        for target in self._way(state, position, turn):
            if time.monotonic() > until:
                raise ServedError(f"the robot at {self.arm.name} was not at its start within {self._profile.reset.within_s:g} s of driving")
            self.arm.command(*target, CALL_S)
            time.sleep(1 / DRIVE_HZ)

    def _way(self, state: State, position: np.ndarray, turn: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        reset, begin = self._profile.reset, from_wire(state.quaternion)
        rotation = quat_to_rotvec(quat_multiply(turn, quat_conjugate(begin)))
        seconds = max(np.linalg.norm(position - state.position) / reset.speed_m_s, np.linalg.norm(rotation) / reset.speed_rad_s)
        steps = max(1, int(np.ceil(seconds * DRIVE_HZ)))
        for share in np.arange(1, steps + 1) / steps:
            yield state.position + share * (position - state.position), quat_multiply(rotvec_to_quat(share * rotation), begin)

    def _arrive(self, position: np.ndarray, turn: np.ndarray, until: float) -> None:
        reset = self._profile.reset
        while True:
            state = self.arm.ask(CALL_S)
            off, turned = float(np.linalg.norm(state.position - position)), angle_between(from_wire(state.quaternion), turn)
            if off < reset.within_m and turned < reset.within_rad:
                return
            if time.monotonic() > until:
                raise ServedError(
                    f"the robot at {self.arm.name} was driven to {position.round(3).tolist()} and is at "
                    f"{state.position.round(3).tolist()}: "
                    f"{1e3 * off:.0f} mm and {np.degrees(turned):.0f} degrees away; {1e3 * reset.within_m:.0f} mm and "
                    f"{np.degrees(reset.within_rad):.0f} degrees are allowed. Likely cause: something is in its way, it stopped itself "
                    f"(look "
                    f"at its light), its controller is not running, or [precision] is too soft or clips too much"
                )
            time.sleep(0.05)

    # ---- fingers

    def grip(self, opening: float, within: float) -> None:
        if self._profile.action.gripper in ("absolute", "delta"):
            robotiq = self._profile.gripper.kind == "robotiq"
            self.arm.post("move_gripper", {"gripper_pos": round(255 * (1 - opening) if robotiq else FRANKA_FULL * opening)}, within)
        else:
            self.arm.post("open_gripper" if opening > 0.5 else "close_gripper", None, within)

    def _send_fingers(self, wide: bool) -> None:
        """Open or shut them, and see that they open. The server of a Franka hand ignores /open_gripper if it believes that it is open."""
        self.grip(float(wide), CALL_S)
        if not wide or self._opens():
            return
        if self._profile.action.gripper not in ("absolute", "delta"):
            self.grip(0.0, CALL_S)
            self.grip(1.0, CALL_S)
        if not self._opens():
            raise ServedError(
                f"the gripper of {self.arm.name} was told to open and is at {self.arm.ask(CALL_S).gripper:.2f} (1 is open). Likely cause: "
                f"it is not activated (POST /activate_gripper), has no power, or [gripper] kind is not the server's --gripper_type"
            )

    def _opens(self) -> bool:
        enough, until = OPEN_ROBOTIQ if self._profile.gripper.kind == "robotiq" else OPEN_FRANKA, time.monotonic() + FINGERS_S
        while self.arm.ask(CALL_S).gripper < enough:
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    # ---- success

    def begin(self, state: State) -> None:
        """Success does not depend on how an episode began."""

    def success(self, state: State) -> bool:
        return self._profile.reward.kind == "pose" and at_target(state, self._profile.reward)

    def extra(self) -> Mapping[str, np.ndarray]:
        return {}


def at_target(state: State, reward: RewardProfile) -> bool:
    """Each of the six numbers is within its threshold, and the opening in its range."""
    away = state.position - np.array(reward.target[:3])
    turned = to_euler(quat_multiply(quat_conjugate(from_wire(state.quaternion)), from_euler(np.array(reward.target[3:]))))
    near = np.abs(np.concatenate([away, turned])) < reward.threshold
    return bool(near.all()) and reward.gripper[0] <= state.gripper <= reward.gripper[1]
