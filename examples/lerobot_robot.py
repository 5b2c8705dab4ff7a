"""A robot of LeRobot's as an environment: its class `Robot` behind `tandem serve`, in LeRobot's own Python.

Write a file for your robot next to this one, for example `my_so101.py`:

    from lerobot.robots.so_follower import SO101Follower, SO101FollowerConfig
    from lerobot_robot import Arm, Joint

    JOINTS = {
        "shoulder_pan.pos": Joint(low=-60, high=60, start=0, step=4),        # in LeRobot's units: degrees, or -100 to 100
        "shoulder_lift.pos": Joint(low=-90, high=20, start=-60, step=4),
        "elbow_flex.pos": Joint(low=-20, high=90, start=60, step=4),
        "wrist_flex.pos": Joint(low=-20, high=90, start=60, step=4),
        "wrist_roll.pos": Joint(low=-90, high=90, start=0, step=6),
        "gripper.pos": Joint(low=2, high=60, start=50, step=15),
    }

    def So101():
        return Arm(SO101Follower(SO101FollowerConfig(port="/dev/ttyACM0", id="my_arm")), JOINTS)

and serve it:

    lerobot$ python server.py my_so101:So101 --port 5599 --token-file token          # envs/served/server.py of Tandem, one file
    learner$ tandem record ws://localhost:5599 --operator gamepad --reward-source person --limits FILE

An action of 1 moves a joint by its `step` from the last commanded place. Nothing of Tandem is imported here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

LEASH = 3.0
"""So many steps a command may be ahead of the measured joint: an arm that is blocked is not pushed by all that was commanded since."""
ARRIVE_S, OBSERVE_AT = 15.0, 0.7
"""For the way to the start; and the share of a control period after which a step looks at what it did."""


@dataclass(frozen=True)
class Joint:
    """One number of the robot's action, in its own units."""

    low: float
    high: float
    start: float
    step: float


class Arm(gymnasium.Env):
    """One robot. It moves in real time, can be halted from any thread, and drives to its start at the speed of its steps."""

    metadata = {"render_modes": [], "render_fps": 10, "clock": "real"}  # noqa: RUF012

    def __init__(
        self,
        robot: Any,
        joints: Mapping[str, Joint],
        size: tuple[int, int] = (128, 128),
        control_hz: float = 10.0,
        max_episode_steps: int = 200,
        success: Callable[[Mapping[str, Any]], bool] | None = None,
    ) -> None:
        """`success` judges what `robot.get_observation` gave; without it a person says what was a success."""
        self._robot, self._joints, self._size, self._period, self._success = robot, dict(joints), size, 1 / control_hz, success
        self._check_features()
        self._lock = threading.RLock()  # the bus of the motors takes one caller at a time
        self._commanded: np.ndarray | None = None
        self._cameras = [name for name, kind in robot.observation_features.items() if isinstance(kind, tuple) and kind[-1] == 3]
        names = list(self._joints)
        low, high, self._start, self._step = (
            np.array([getattr(joint, part) for joint in self._joints.values()], np.float32) for part in ("low", "high", "start", "step")
        )
        self._low, self._high = low, high
        numbers = gymnasium.spaces.Box(-np.inf, np.inf, (len(names),), np.float32)
        pictures = {name: gymnasium.spaces.Box(0, 255, (*size, 3), np.uint8) for name in self._cameras}
        self.observation_space = gymnasium.spaces.Dict({"joints": numbers, "target": numbers, **pictures})
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (len(names),), np.float32)
        spread = [float(number) for number in np.maximum(np.abs(low), np.abs(high))]
        self.tandem = {
            "control_hz": control_hz,
            "max_episode_steps": max_episode_steps,
            "return_range": [0.0, 1.0],
            "scales": {"joints": spread, "target": spread},
            "action": {"axes": names, "scales": [float(joint.step) for joint in self._joints.values()]},
            "cameras": self._cameras,
        }

    def _check_features(self) -> None:
        """The joints that were described are those that the robot moves, in its order."""
        features = self._robot.action_features
        if set(features) != set(self._joints) or any(kind is not float for kind in features.values()):
            raise ValueError(
                f"robot '{self._robot.name}' takes the actions {dict(features)}, and joints describes {list(self._joints)}: give one "
                f"Joint for "
                f"each of its numbers. Robots that take other things than joints need an adapter of their own."
            )
        for name, joint in self._joints.items():
            if not (joint.low < joint.high and joint.low <= joint.start <= joint.high and joint.step > 0):
                raise ValueError(f"joint '{name}' = {joint}: expected low <= start <= high, and a step above 0")
        self._joints = {name: self._joints[name] for name in features}

    # ---- Gymnasium

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        super().reset(seed=seed)
        self._connect()
        seen = self._look()
        target, until = self._measured(seen), time.monotonic() + ARRIVE_S
        while (np.abs((measured := self._measured(seen)) - self._start) > self._step).any():
            if time.monotonic() > until:
                far = dict(zip(self._joints, (measured - self._start).round(1).tolist(), strict=True))
                raise RuntimeError(
                    f"robot '{self._robot.name}' did not come to its start within {ARRIVE_S:g} s; it is off by {far}. Likely cause: "
                    f"something "
                    f"is in its way, a motor is overloaded or switched off, or `start` cannot be reached."
                )
            target = target + np.clip(self._start - target, -self._step, self._step)
            self._send(target)
            time.sleep(self._period)
            seen = self._look()
        self._send(self._start)
        return self._observation(seen), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        began = time.monotonic()
        with self._lock:
            before = self._commanded if self._commanded is not None else self._measured(self._look())
            measured = self._last_measured
            wanted = np.clip(before + action * self._step, self._low, self._high)
            sent = self._send(np.clip(wanted, measured - LEASH * self._step, measured + LEASH * self._step))
        time.sleep(max(0.0, began + OBSERVE_AT * self._period - time.monotonic()))
        seen = self._look()
        done = bool(self._success(seen)) if self._success is not None else False
        info: dict[str, Any] = {"executed_action": np.clip((sent - before) / self._step, -1, 1).astype(np.float32)}
        if self._success is not None:
            info["success"] = done
        return self._observation(seen), float(done), done, False, info

    def halt(self) -> None:
        """Where the joints are is where they shall be; from any thread."""
        if self._robot.is_connected:
            with self._lock:
                self._send(self._measured(self._look()))

    def close(self) -> None:
        if self._robot.is_connected:
            self._robot.disconnect()

    # ---- the robot

    def _connect(self) -> None:
        if self._robot.is_connected:
            return
        self._robot.connect(calibrate=False)  # a calibration asks for keys to be pressed
        if not self._robot.is_calibrated:
            self._robot.disconnect()
            raise RuntimeError(f"robot '{self._robot.name}' is not calibrated: run `lerobot-calibrate` for it first")

    def _look(self) -> Mapping[str, Any]:
        with self._lock:
            seen = self._robot.get_observation()
            self._last_measured = self._measured(seen)
        return seen

    def _measured(self, seen: Mapping[str, Any]) -> np.ndarray:
        return np.array([seen[name] for name in self._joints], np.float32)

    def _send(self, target: np.ndarray) -> np.ndarray:
        """Command the joints; returns what the robot really took, which may be less."""
        with self._lock:
            sent = self._robot.send_action(dict(zip(self._joints, target.tolist(), strict=True)))
            self._commanded = np.array([sent[name] for name in self._joints], np.float32)
        return self._commanded

    def _observation(self, seen: Mapping[str, Any]) -> dict[str, np.ndarray]:
        assert self._commanded is not None
        pictures = {name: _fitted(np.asarray(seen[name]), self._size) for name in self._cameras}
        return {"joints": self._measured(seen), "target": self._commanded.copy(), **pictures}


def _fitted(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The largest part in the middle with this shape, resized."""
    from PIL import Image

    height, width = picture.shape[:2]
    scale = min(height / size[0], width / size[1])
    tall, wide = scale * size[0], scale * size[1]
    box = ((width - wide) / 2, (height - tall) / 2, (width + wide) / 2, (height + tall) / 2)
    return np.asarray(Image.fromarray(picture).resize((size[1], size[0]), box=box))
