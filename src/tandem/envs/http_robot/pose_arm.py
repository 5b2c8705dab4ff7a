"""The arm behind a server: what it measures, and the pose that it was commanded last."""

from __future__ import annotations

import logging
import sys
import threading
import time
from typing import Any

import numpy as np

from tandem.envs.http_robot.quaternions import to_wire
from tandem.envs.http_robot.wire import Address, Calls, State
from tandem.envs.task_env import HaltPlan
from tandem.errors import ServedError

HALT_S = 1.0


class Arm:
    """Questions and commands of one arm; `address` None: a spec without a robot, which refuses to act."""

    def __init__(
        self, name: str, address: Address | None, reads: tuple[str, ...] = ("getstate",), before_pose: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self.calls: Calls | None = Calls(address) if address is not None else None
        self._address, self._reads, self._before_pose = address, reads, before_pose
        self._halting = threading.Lock()
        self.commanded: tuple[np.ndarray, np.ndarray] | None = None
        """Position and quaternion w, x, y, z of the last command."""
        self.halts = 0

    def ask(self, within: float) -> State:
        """The state; of a server that cannot answer /getstate, put together from questions for its parts."""
        calls, answer = self.need_calls(), dict[str, Any]()
        for path in self._reads:
            part = calls.ask(path, within=within)
            answer.update(part if isinstance(part, dict) else {path: part})
        if self._reads != ("getstate",):
            answer.setdefault("gripper_pos", 0.0)
        return State.of(answer, self.name)

    def post(self, path: str, body: Any, within: float, once: bool = False) -> None:
        self.need_calls().post(path, body, within=within, once=once)

    def need_calls(self) -> Calls:
        if self.calls is None:
            kind, _, profile = self.name.partition(":")
            raise ServedError(f"'{self.name}' has no address: a robot acts as {kind}+http://HOST:PORT/?profile={profile}")
        return self.calls

    def command(self, position: np.ndarray, turn: np.ndarray, within: float) -> None:
        """The next target; `turn` is w, x, y, z."""
        turn = turn / np.linalg.norm(turn)
        numbers = np.concatenate([position, to_wire(turn)]).astype(np.float32)
        with self._halting:  # a halt that runs is not overtaken by the command before it
            for path in self._before_pose:
                self.post(path, None, within)
            self.post("pose", {"arr": numbers.tolist()}, within)
            self.commanded = position, turn

    def halt(self) -> None:
        """The measured position is the new target, with the orientation that was commanded last; the next step goes on from there."""
        if self.calls is None:
            return
        with self._halting:
            self.halts += 1
            try:
                turn = self.commanded[1] if self.commanded is not None else None
                position = halt_at(self.calls, turn)
                self.commanded = None if turn is None else (position, turn)
            except ServedError as problem:
                logging.getLogger(__name__).warning("halt did not reach the robot: %s", problem)

    @property
    def halt_plan(self) -> HaltPlan | None:
        if self._address is None:
            return None
        return HaltPlan(command=(sys.executable, "-m", "tandem.envs.http_robot.pose_arm", self._address.url))


def halt_at(calls: Calls, turn: np.ndarray | None) -> np.ndarray:
    """Make the measured position the target and return it; `turn` w, x, y, z, None: the measured one."""
    pose = np.array(calls.ask("getpos", within=HALT_S)["pose"], float)
    if turn is not None:
        pose[3:] = to_wire(turn)
    calls.post("pose", {"arr": pose.astype(np.float32).tolist()}, within=HALT_S)
    return pose[:3]


def pause(until: float, name: str, within_s: float, problem: str) -> None:
    """Between two looks at a robot that is being reset."""
    if time.monotonic() > until:
        raise ServedError(f"the robot at {name} was not reset within {within_s:g} s: {problem}")
    time.sleep(0.05)


def seconds_to(until: float) -> float:
    """For a call that must end by then; a late one still gets a moment."""
    return max(0.2, until - time.monotonic())


def main() -> None:
    """`python -m tandem.envs.http_robot.pose_arm URL`: halt the robot of that server; for a process that watches another."""
    halt_at(Calls(Address.of(f"robot+{sys.argv[1]}", "", "robot")), None)


if __name__ == "__main__":
    main()
