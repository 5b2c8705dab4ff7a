"""What LeRobot's class `Robot` is to a caller, without motors: the names and the manners of its interface, and a joint that is blocked."""

import json
import os

import numpy as np

from examples.lerobot_robot import Arm, Joint

WITNESS = os.environ.get("WITNESS", "")
JOINTS = {"shoulder.pos": Joint(-60, 60, 0, 4), "gripper.pos": Joint(0, 100, 50, 10)}


class MockRobot:
    """Two motors that follow by half of what is left in each call; beyond `blocked` the shoulder does not go."""

    name = "mock_robot"

    def __init__(self, calibrated=True, blocked=1000.0):
        self._connected, self._calibrated, self._blocked = False, calibrated, blocked
        self.places, self.goals, self.sent = {"shoulder": 30.0, "gripper": 10.0}, {}, []

    @property
    def observation_features(self):
        return {"shoulder.pos": float, "gripper.pos": float, "front": (48, 64, 3), "front_depth": (48, 64, 1)}

    @property
    def action_features(self):
        return {"shoulder.pos": float, "gripper.pos": float}

    @property
    def is_connected(self):
        return self._connected

    @property
    def is_calibrated(self):
        return self._calibrated

    def connect(self, calibrate=True):
        if self._connected:
            raise RuntimeError("already connected")
        if calibrate and not self._calibrated:
            raise AssertionError("a calibration would ask for keys")
        self._connected = True

    def calibrate(self):
        raise AssertionError("a calibration would ask for keys")

    def configure(self): ...

    def get_observation(self):
        self._need()
        for motor, goal in self.goals.items():
            self.places[motor] += 0.5 * ((min(goal, self._blocked) if motor == "shoulder" else goal) - self.places[motor])
        shown = np.zeros((48, 64, 3), np.uint8)
        shown[:, 32:] = 200
        return {f"{motor}.pos": place for motor, place in self.places.items()} | {"front": shown, "front_depth": shown[..., :1]}

    def send_action(self, action):
        """Caps the goal as `max_relative_target` does, and says what was really sent."""
        self._need()
        sent = {name: float(np.clip(goal, self.places[name[:-4]] - 9, self.places[name[:-4]] + 9)) for name, goal in action.items()}
        self.goals = {name.removesuffix(".pos"): goal for name, goal in sent.items()}
        self.sent.append(sent)
        if WITNESS:
            with open(WITNESS, "a") as file:
                file.write(json.dumps(sent) + "\n")
        return sent

    def disconnect(self):
        self._need()
        self._connected = False

    def _need(self):
        if not self._connected:
            raise RuntimeError("not connected")


def Mock():
    return Arm(MockRobot(), JOINTS, size=(16, 16), control_hz=50.0, max_episode_steps=8)
