"""What stand-ins for robots' servers share: a main loop that moves a scene, and the web server that answers from it.

The loop drains the queue of commands, moves the scene, remembers its state and hands a picture of each camera on. The endpoints, and what
is wrong with a server (its quirks), are with each stand-in.
"""

from __future__ import annotations

import io
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from PIL import Image

from tandem.envs.http_robot.quaternions import from_wire
from tandem.envs.http_robot.scene import Crops, Scene, pose_from_wire
from tandem.errors import ConfigError, extras_named

with extras_named("a stand-in for a robot's server"):
    from werkzeug.serving import WSGIRequestHandler, make_server

CAMERA_HZ = 20.0
RESET_S = 1.0
"""How long a reset keeps the loop busy; that of Isaac's server takes 1 to 3 s."""
_DONE_S = 30.0
_TURN_ROUND = np.array([-1.0, 1.0, 1.0])


def checked_quirks(names: Iterable[str], known: Mapping[str, str]) -> frozenset[str]:
    chosen = frozenset(names)
    unknown = sorted(chosen - known.keys())
    if unknown:
        raise ConfigError(f"no quirk {', '.join(map(repr, unknown))}; there are {', '.join(known)}")
    return chosen


class MainLoop:
    """The server's loop and what its endpoints read. All of it but `run` is called from the threads of Flask.

    A pass of the loop takes 1 / `sim_hz` by the clock; the scene moves by `speed` times as much.
    """

    def __init__(
        self, scene: Scene, crops: Crops, quirks: frozenset[str], sim_hz: float = 60.0, reset_s: float = RESET_S, speed: float = 1.0
    ) -> None:
        self.quirks, self._speed = quirks, speed
        self._scene, self._crops, self._sim_hz, self._reset_s = scene, crops, sim_hz, reset_s / speed
        self._queue: deque[tuple[str, Any]] = deque()
        self._resets_asked = self._resets_done = 0
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self.echo: Any = 0.0
        self.passes = 0
        self.commands: list[float] = []
        """When a pose arrived, by the monotonic clock; the newest 10,000."""
        self._state = scene.state()
        self.push: Callable[[str, bytes], None] = lambda name, jpeg: None

    def command(self, kind: str, value: Any) -> None:
        if kind == "pose":
            self.commands = [*self.commands[-9999:], time.monotonic()]
        self._queue.append((kind, value))

    def ask_reset(self, joints: np.ndarray | None = None) -> None:
        """Reset the scene, or with `joints` the arm alone."""
        with self._changed:
            self._resets_asked += 1
            number = self._resets_asked
            self._queue.append(("reset", joints))
            if "async-reset" not in self.quirks:
                self._changed.wait_for(lambda: self._resets_done >= number or self._stop.is_set(), _DONE_S)

    def run(self) -> None:
        """Until `stop`; a scene that draws does so in this thread."""
        drawn = -np.inf
        following = time.monotonic()
        while not self._stop.is_set():
            self._drain()
            self._scene.advance(self._speed / self._sim_hz)
            self._state = self._scene.state()
            self.passes += 1
            if "no-frames" not in self.quirks and time.monotonic() - drawn >= 1 / (CAMERA_HZ * self._speed) - 1e-3:
                drawn = time.monotonic()
                self._draw()
            following = max(following + (0.15 if "slow-loop" in self.quirks else 1 / self._sim_hz), time.monotonic() - 0.1)
            self._stop.wait(max(0.0, following - time.monotonic()))
        self._scene.close()

    def stop(self) -> None:
        self._stop.set()
        with self._changed:
            self._changed.notify_all()

    def _drain(self) -> None:
        """All commands in their order. One that fails ends the draining of this pass, as in the fork's server."""
        try:
            while self._queue:
                kind, value = self._queue.popleft()
                if kind == "reset":
                    self._reset(value)
                elif kind == "joints":
                    self._scene.teleport(value)
                elif kind == "stop":
                    state = self._scene.state()
                    self._scene.go(state.pose[:3], from_wire(state.pose[3:]))
                elif kind == "gripper":
                    self._scene.grip(float(value))
                else:
                    self._move(np.asarray(value, float))
        except (ValueError, TypeError) as problem:
            logging.getLogger(__name__).debug("a command failed: %s", problem)

    def _move(self, numbers: np.ndarray) -> None:
        if numbers.shape != (7,):
            raise ValueError(f"a pose of {numbers.shape} numbers")
        position, quaternion = pose_from_wire(numbers, "quat-swap" in self.quirks)
        self._scene.go(position * (_TURN_ROUND if "flipped-axis" in self.quirks else 1.0), quaternion)

    def _reset(self, joints: np.ndarray | None) -> None:
        """Busy for a while, in which the old state is served; then the new one."""
        self._stop.wait(self._reset_s)
        if joints is None:
            self._scene.reset()
        else:
            self._scene.teleport(joints)
        self._state = self._scene.state()
        with self._changed:
            self._resets_done += 1
            self._changed.notify_all()

    def _draw(self) -> None:
        for name, picture in self._scene.pictures(self._crops).items():
            jpeg = io.BytesIO()
            Image.fromarray(picture).save(jpeg, "JPEG", quality=85)
            self.push(name, jpeg.getvalue())

    def answer(self) -> dict[str, Any]:
        """All that /getstate answers."""
        state = self._state
        channels = {
            "vel": state.vel,
            "force": state.force,
            "torque": state.torque,
            "q": state.q,
            "dq": state.dq,
            "jacobian": state.jacobian,
        }
        if "dead-channels" in self.quirks:
            shapes = {"vel": 6, "force": 3, "torque": 3, "q": 7, "dq": 7, "jacobian": (6, 7)}
            channels = {name: np.zeros(shape) for name, shape in shapes.items()}
        return {
            "pose": state.pose.tolist(),
            **{name: values.tolist() for name, values in channels.items()},
            "gripper_pos": self.echo if "gripper-echo" in self.quirks else state.gripper,
            "object_states": {"gear_medium": state.gear.tolist(), "gear_base": state.base.tolist()},
        }


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Not a line for each request; and a WebSocket that ends is an error to werkzeug."""


class StandIn:
    """The server on a port of its own; its loop runs in the thread that calls `run`, or in one of its own."""

    def __init__(self, loop: MainLoop, app: Any, host: str, port: int) -> None:
        self.loop = loop
        try:
            self._server = make_server(host, port, app, threaded=True, request_handler=_Quiet)
        except (OSError, SystemExit) as problem:
            raise ConfigError(f"the stand-in server cannot listen on {host}:{port}: {problem}; give another --port") from None
        self._serving = threading.Thread(target=self._server.serve_forever, name="stand-in", daemon=True)
        self._looping: threading.Thread | None = None
        self.address = f"http://{host}:{self._server.server_port}/"

    def run(self) -> None:
        """Serve until `stop` is called or the process is interrupted."""
        self._serving.start()
        try:
            self.loop.run()
        finally:
            self._server.shutdown()
            self._server.server_close()

    def __enter__(self) -> StandIn:
        self._looping = threading.Thread(target=self.run, name="stand-in loop", daemon=True)
        self._looping.start()
        return self

    def stop(self) -> None:
        self.loop.stop()

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._looping is not None:
            self._looping.join(10)
