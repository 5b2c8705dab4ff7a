"""A robot that moves in real time and writes down when: every action, every halt from inside, every halt from outside."""

import os
import sys
import time

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict

WITNESS = os.environ.get("WITNESS", "/dev/null")
OUTSIDE = "import os, sys, time; os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND), f'outside {time.monotonic()}\\n'.encode())"


def note(what, size=0.0):
    """One whole line, whatever other processes write."""
    file = os.open(WITNESS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{what} {time.monotonic()} {size}\n".encode())
    os.close(file)


class Robot(gymnasium.Env):
    """20 Hz. While the file WITNESS.hang exists a step hangs before its action reaches the robot."""

    observation_space, action_space = Box(-9, 9, (2,), np.float32), Box(-1, 1, (2,), np.float32)
    metadata = {"render_modes": [], "render_fps": 20, "clock": "real", "silence_s": 0}  # noqa: RUF012

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        note("reset")
        return np.zeros(2, np.float32), {}

    def step(self, action):
        while os.path.exists(f"{WITNESS}.hang"):
            time.sleep(0.01)
        note("action", float(np.abs(action).max()))
        return np.zeros(2, np.float32), 0.0, False, False, {}

    def halt(self):
        note("halt")


class Watched(Robot):
    """It can be halted from outside of its process."""

    halt_command = (sys.executable, "-S", "-E", "-c", OUTSIDE, WITNESS)


class Silent(Robot):
    """Its server halts it when nothing was heard for a while."""

    metadata = {**Robot.metadata, "silence_s": 0.4}  # noqa: RUF012


class Pushed(Robot):
    """It measures the force in the file WITNESS.force."""

    observation_space = Dict({"place": Box(-9, 9, (2,), np.float32), "wrench": Box(-99, 99, (3,), np.float32)})

    def reset(self, *, seed=None, options=None):
        return self.seen(), super().reset(seed=seed, options=options)[1]

    def step(self, action):
        return self.seen(), *super().step(action)[1:]

    def seen(self):
        force = 90.0 if os.path.exists(f"{WITNESS}.force") else 1.0
        return {"place": np.zeros(2, np.float32), "wrench": np.array([0, 0, force], np.float32)}


for _made in (Robot, Watched, Silent, Pushed):
    gymnasium.register(f"Stamped{_made.__name__}-v0", f"{__name__}:{_made.__name__}", max_episode_steps=1000)
