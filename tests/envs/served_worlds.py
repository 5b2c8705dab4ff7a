"""Small environments to serve. They need Gymnasium and NumPy alone, as a stranger's would."""

import io
import os
import time

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict


class Rail(gymnasium.Env):
    """A cart on a rail, pushed by the action and by chance; done at the end of the rail.

    Every step that is executed is one line in the file that WITNESS names.
    """

    observation_space = Dict({"place": Box(-9, 9, (2,), np.float64), "push": Box(-2, 3, (1,), np.float32)})
    action_space = Box(-2, 3, (1,), np.float32)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.place, self.push, self.count, self.episode = np.zeros(2), np.zeros(1, np.float32), 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.count = self.np_random.uniform(-1, 1, 2), 0
        self.push[:] = 0
        self.episode += 1
        return self._seen(), {}

    def step(self, action):
        self.push[:] = action  # one buffer for all steps, as many environments have
        self.count += 1
        self.place += 0.1 * float(action[0]) + 0.01 * self.np_random.standard_normal(2)
        if os.environ.get("WITNESS"):
            with open(os.environ["WITNESS"], "a") as file:
                file.write(f"{os.getpid()} {self.episode} {self.count} {float(self.place[0])!r} {float(action[0])!r}\n")
        there = bool(self.place[0] > 2)
        return self._seen(), float(there), there, self.count >= 20 and not there, {"success": there, "unknown": object()}

    def _seen(self):
        return {"place": self.place, "push": self.push}

    def render(self):
        return np.full((8, 10, 3), 7, np.uint8)


class Robot(Rail):
    """It has a clock of its own and can be stopped; each stop is one line in the file that HALTED names."""

    metadata = {"render_modes": [], "render_fps": 50, "clock": "real"}  # noqa: RUF012
    tandem = {"return_range": [0, 1], "success_key": "success"}  # noqa: RUF012

    def step(self, action):
        time.sleep(float(os.environ.get("STEP_TAKES", "0")))
        return super().step(action)

    def halt(self):
        with open(os.environ["HALTED"], "a") as file:
            file.write("halted\n")


class Eye(Rail):
    """Three cameras: one raw, two that compress their pictures themselves."""

    observation_space = Dict({**{name: Box(0, 255, (6, 8, 3), np.uint8) for name in ("raw", "png", "jpeg")}, "x": Box(-1, 1, (1,))})

    def _seen(self):
        from PIL import Image

        pixels = np.full((6, 8, 3), self.count, np.uint8)
        packed = {"png": io.BytesIO(), "jpeg": io.BytesIO()}
        for codec, data in packed.items():
            Image.fromarray(pixels).save(data, codec.upper())
        return {"raw": pixels, **{codec: data.getvalue() for codec, data in packed.items()}, "x": np.zeros(1, np.float32)}


class Faulty(Rail):
    """What it does in its third step, or in its second reset, is in FAULT."""

    def reset(self, *, seed=None, options=None):
        if os.environ["FAULT"] == "reset" and self.episode == 1:
            raise RuntimeError("the drawer is stuck")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        fault = os.environ["FAULT"] if self.count == 2 else ""
        if fault == "step":
            raise ValueError("the gripper is empty")
        if fault == "hang":
            time.sleep(30)
        if fault.startswith("exit"):
            os._exit(int(fault.split()[1]))
        if fault.startswith("signal"):
            os.kill(os.getpid(), int(fault.split()[1]))
        if fault == "shape":
            return self._seen(), np.zeros(1), False, False, {}
        return super().step(action)


class Choosing(Rail):
    action_space = gymnasium.spaces.Discrete(3)


class Plain:
    """Not Gymnasium's, not registered: a class with the same methods."""

    observation_space, action_space = Box(-1, 1, (2,), np.float32), Box(-1, 1, (1,), np.float32)

    def reset(self, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.full(2, action[0], np.float32), np.float32(1.5), np.bool_(False), False, {"is_success": np.bool_(True)}

    def close(self):
        pass


for _name, _made in {"Rail": Rail, "Robot": Robot, "Eye": Eye, "Faulty": Faulty, "Choosing": Choosing}.items():
    gymnasium.register(f"Served{_name}-v0", _made, max_episode_steps=20)
