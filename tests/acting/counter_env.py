"""An environment whose every number can be predicted, and the ends of a link that keep what passes."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from tandem.envs.foreign import GymnasiumEnv
from tandem.link.messages import Command, EpisodeEnd, View
from tandem.types import ForeignPolicy, PolicySnapshot, Transition

LENGTH = 3


class Counter(gymnasium.Env):
    """Shows (episode, step); an episode lasts `LENGTH` steps. It executes half of an action beyond 0.5, and says so."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    metadata = {"render_fps": 50, "render_modes": []}  # noqa: RUF012  as Gymnasium declares it
    reset_s = 0.0
    step_s = 0.0
    terminates = True

    def __init__(self) -> None:
        self.episode, self.halts, self.asked = -1, 0, 0.0
        self.thread_of_halt: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        time.sleep(self.reset_s)
        self.episode, self.count = self.episode + 1, 0
        return np.array([self.episode, 0], np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        time.sleep(self.step_s)
        self.asked = float(action[0])
        self.count += 1
        ended = self.count == LENGTH
        info: dict[str, Any] = {"success": ended and self.terminates}
        if abs(action[0]) > 0.5:
            info["executed_action"] = 0.5 * action
        seen = np.array([self.episode, self.count], np.float32)
        return seen, float(ended), ended and self.terminates, ended and not self.terminates, info

    def halt(self) -> None:
        self.halts += 1
        self.thread_of_halt = threading.get_ident()


def counters(rows: int = 1) -> tuple[GymnasiumEnv, list[Counter]]:
    each = [Counter() for _ in range(rows)]
    return GymnasiumEnv("counter", each), each


def steady(action: float, version: int = 1) -> PolicySnapshot:
    """A policy that always does the same, almost without noise."""
    parameters = {
        "activation": np.array(0),
        "std_range": np.array([1e-6, 1e-5], np.float32),
        "trunk/layers/0/weight": np.zeros((2, 4), np.float32),
        "trunk/layers/0/bias": np.zeros(4, np.float32),
        "mean/weight": np.zeros((4, 1), np.float32),
        "mean/bias": np.full(1, np.arctanh(action), np.float32),
        "log_std/weight": np.zeros((4, 1), np.float32),
        "log_std/bias": np.full(1, -12.0, np.float32),
    }
    return PolicySnapshot(version, 0, parameters)


class Link:
    """The actor's end of a link, as the actor and the control loop use it."""

    source = name = "robot"

    def __init__(self, policy: PolicySnapshot | None = None) -> None:
        self.policy = policy
        self.sent: list[Transition] = []
        self.ends: list[EpisodeEnd] = []
        self.waiting: list[Command] = []
        self.views: list[View] = []
        self.alone = False
        self.standing = self.asks = ""
        self.full = ""
        """Why no step can be kept."""

    def send(self, transitions: Sequence[Transition]) -> None:
        self.sent += transitions

    def newest_policy(self, newer_than: int = -1) -> PolicySnapshot | None:
        return self.policy if self.policy is not None and self.policy.version > newer_than else None

    def acting_with(self, snapshot: PolicySnapshot | ForeignPolicy) -> None:
        pass

    def episode_end(self, end: EpisodeEnd) -> None:
        self.ends.append(end)

    def commands(self) -> list[Command]:
        waiting, self.waiting = self.waiting, []
        return waiting

    def control(self) -> None:
        return None

    def may_step(self, timeout: float) -> bool:
        return True

    def stands_still(self, why: str) -> None:
        self.standing = why

    def asks_for_help(self, why: str) -> None:
        self.asks = why

    def no_room(self) -> str:
        return self.full

    def show(self, seen: Any) -> None:
        if isinstance(seen, View):
            self.views.append(seen)
