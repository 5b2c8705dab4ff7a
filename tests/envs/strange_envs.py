"""Small Gymnasium environments that nobody at Tandem would have written, as a module that tests put on Python's path."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium

MODULE = '''
import os
import signal
import time

import gymnasium
import numpy as np

Box = gymnasium.spaces.Box


class Drive(gymnasium.Env):
    """Drive along a line. Numbers as others have them: millimetres, a constant, no scale. Sparse reward, success in `info`."""

    observation_space = Box(-np.inf, np.inf, (3,), np.float32)
    action_space = Box(-2.0, 2.0, (1,), np.float32)
    goal, key = 0.5, "is_success"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.x = 0, float(self.np_random.uniform(-0.1, 0.1))
        return self.seen(), {}

    def seen(self):
        return np.array([1000 * self.x, self.x, 0.25], np.float32)

    def step(self, action):
        self.count += 1
        self.x += float(action[0]) / 10
        done = self.x > self.goal
        return self.seen(), float(done), done, False, {self.key: done} if self.key else {}


class Declared(Drive):
    metadata = {"render_modes": [], "render_fps": 30, "tandem": {"control_hz": 20, "max_episode_steps": 7, "scales": {"state": 2.0}}}
    tandem = {"max_episode_steps": 5, "return_range": [0, 1], "action": {"axes": ["x"], "units": ["m"]}}


class OtherKey(Drive):
    key = "goal_reached"
    tandem = {"success_key": "goal_reached"}


class NoSuccess(Drive):
    key = ""


class Fails(Drive):
    """Raises in its 30th step."""

    def step(self, action):
        if self.count >= 29:
            raise RuntimeError("motor 3 does not answer")
        return super().step(0 * action)


class FailsToReset(Drive):
    def reset(self, *, seed=None, options=None):
        raise RuntimeError("the gripper is not calibrated")


class Exits(Drive):
    """Its library ends the process."""

    def step(self, action):
        os._exit(3)


class Crashes(Drive):
    """Compiled code that it uses has a fault."""

    def step(self, action):
        if self.count >= 29:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().step(0 * action)


class NotANumber(Drive):
    """A sensor fails in the fourth step of each episode."""

    def seen(self):
        seen = super().seen()
        seen[1] = np.nan if self.count == 4 else seen[1]
        return seen


class NoReward(Drive):
    """Its reward becomes NaN in the fourth step."""

    def step(self, action):
        seen, reward, *rest = super().step(action)
        return seen, float("nan") if self.count == 4 else reward, *rest


class NotANumberAtFirst(Drive):
    def seen(self):
        return np.array([np.nan, 0, 0], np.float32)


class Hangs(Drive):
    def step(self, action):
        time.sleep(2.2 if self.count == 1 else 0)
        return super().step(action)


class Pixels(Drive):
    observation_space = gymnasium.spaces.Dict({"state": Drive.observation_space, "pixels": Box(0, 255, (8, 8, 3), np.uint8)})

    def seen(self):
        return {"state": super().seen(), "pixels": np.zeros((8, 8, 3), np.uint8)}


class FloatPixels(Drive):
    observation_space = Box(0, 1, (64, 64, 3), np.float32)

    def seen(self):
        return np.zeros((64, 64, 3), np.float32)


class Nested(Drive):
    observation_space = gymnasium.spaces.Dict({"pixels": gymnasium.spaces.Dict({"front": Box(0, 255, (8, 8, 3), np.uint8)})})


class Several:
    """Not a `gymnasium.Env`: several agents, as PettingZoo has them."""

    metadata = {"render_modes": []}


class NotMade(Drive):
    def __init__(self):
        raise OSError("no licence file")


for kind in (Drive, Declared, OtherKey, NoSuccess, Fails, FailsToReset, Exits, Crashes, NoReward, NotANumber, NotANumberAtFirst, Hangs,
             Pixels, FloatPixels, Nested, Several, NotMade):
    gymnasium.register(f"{kind.__name__}-v0", kind, max_episode_steps=None if kind is Declared else 40, disable_env_checker=True)
gymnasium.register("drive-hyphenated-v0", Drive, max_episode_steps=40, disable_env_checker=True)
'''


@contextlib.contextmanager
def strange_module(folder: Path) -> Iterator[Path]:
    """`strange.py` in this folder, on Python's path; afterwards nothing of it is left."""
    (folder / "strange.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    try:
        yield folder
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("strange", None)
        own = [name for name, spec in gymnasium.registry.items() if getattr(spec.entry_point, "__module__", "") == "strange"]
        for name in own:
            del gymnasium.registry[name]
