"""A server that speaks the protocol of the Isaac Sim gear server to the byte, with any scene behind it.

It is the same Flask and Flask-SocketIO, so that what those two do by themselves is the same too: sorted keys, `Connection: close` after
every answer, HTML for a missing key, 415 for a wrong content type. A main loop drains the queue of commands, moves the scene, remembers its
state and pushes a picture of each camera to every client. What is wrong with the fork's server can be switched on (`QUIRKS`).
"""

from __future__ import annotations

import io
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from PIL import Image

from tandem.envs.isaac.scene import ROBOT_CROPS, SIM_CROPS, SceneState, pose_from_wire
from tandem.errors import ConfigError, extras_named

with extras_named("the stand-in for Isaac's server"):
    import simple_websocket as _  # noqa: F401 (without it Flask-SocketIO quietly speaks no WebSocket)
    from flask import Flask, jsonify, request
    from flask_socketio import SocketIO
    from werkzeug.serving import WSGIRequestHandler, make_server

QUIRKS = {
    "dead-channels": "vel, force, torque, q, dq and jacobian are always zero",
    "gripper-echo": "gripper_pos is the last value that was sent, not what was measured",
    "quat-swap": "the quaternion of a command is read as w, x, y, z although it is x, y, z, w",
    "async-reset": "/reset_scene answers at once; the old state is served until the reset is done",
    "slow-loop": "a pass of the main loop takes 150 ms, in which 1/60 s is simulated",
    "no-frames": "no picture is ever pushed (what --headless=True does)",
    "crops": "the pictures are cropped as those of the real robot",
    "flipped-axis": "the arm goes the other way along x",
}
"""What the fork's server does, and two faults that a server may have, by name."""
CAMERA_HZ = 20.0
RESET_S = 1.0
"""How long a reset keeps the loop busy; the fork's takes 1 to 3 s."""
_DONE_S = 30.0
_TURN_ROUND = np.array([-1.0, 1.0, 1.0])


class Scene(Protocol):
    """What the server needs of the scene behind it."""

    def reset(self) -> None: ...

    def teleport(self, joints: np.ndarray) -> None: ...

    def go(self, position: np.ndarray, quaternion: np.ndarray) -> None: ...

    def grip(self, opening: float) -> None: ...

    def advance(self, seconds: float) -> None: ...

    def state(self) -> SceneState: ...

    def pictures(self, crops: dict[str, tuple[int, int, int, int]]) -> dict[str, np.ndarray]: ...

    def close(self) -> None: ...


def checked_quirks(names: Iterable[str]) -> frozenset[str]:
    chosen = frozenset(names)
    unknown = sorted(chosen - QUIRKS.keys())
    if unknown:
        raise ConfigError(f"no quirk {', '.join(map(repr, unknown))}; there are {', '.join(QUIRKS)}")
    return chosen


class MainLoop:
    """The server's loop and what its endpoints read. All of it but `run` is called from the threads of Flask."""

    def __init__(self, scene: Scene, quirks: Iterable[str] = (), sim_hz: float = 60.0, reset_s: float = RESET_S) -> None:
        self.quirks = checked_quirks(quirks)
        self._scene, self._sim_hz, self._reset_s = scene, sim_hz, reset_s
        self._queue: deque[tuple[str, Any]] = deque()
        self._resets_asked = self._resets_done = 0
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self.echo: Any = 0.0
        self.passes = 0
        self.commands: list[float] = []
        """When a pose arrived, by the monotonic clock; the newest 10,000."""
        self._state = scene.state()
        self.push = lambda name, jpeg: None

    def command(self, kind: str, value: Any) -> None:
        if kind == "pose":
            self.commands = [*self.commands[-9999:], time.monotonic()]
        self._queue.append((kind, value))

    def ask_reset(self) -> None:
        with self._changed:
            self._resets_asked += 1
            number = self._resets_asked
            self._queue.append(("reset", None))
            if "async-reset" not in self.quirks:
                self._changed.wait_for(lambda: self._resets_done >= number or self._stop.is_set(), _DONE_S)

    def run(self) -> None:
        """Until `stop`; a scene that draws does so in this thread."""
        drawn = -np.inf
        following = time.monotonic()
        while not self._stop.is_set():
            self._drain()
            self._scene.advance(1 / self._sim_hz)
            self._state = self._scene.state()
            self.passes += 1
            if "no-frames" not in self.quirks and time.monotonic() - drawn >= 1 / CAMERA_HZ - 1e-3:
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
                    self._reset()
                elif kind == "joints":
                    self._scene.teleport(value)
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

    def _reset(self) -> None:
        """Busy for a while, in which the old state is served; then the new one."""
        self._stop.wait(self._reset_s)
        self._scene.reset()
        self._state = self._scene.state()
        with self._changed:
            self._resets_done += 1
            self._changed.notify_all()

    def _draw(self) -> None:
        for name, picture in self._scene.pictures(ROBOT_CROPS if "crops" in self.quirks else SIM_CROPS).items():
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


DEFAULT_JOINTS = [0, -0.4, 0, -2.4, 0, 2, 0.8, 0.04, 0.04]


def make_app(loop: MainLoop) -> tuple[Flask, SocketIO]:
    """The endpoints. Nothing is validated that the fork's server does not validate."""
    app = Flask("isaac_sim_server")
    app.logger.setLevel(logging.CRITICAL)  # a traceback for each wrong request
    sockets = SocketIO(app, async_mode="threading", cors_allowed_origins="*")
    loop.push = lambda name, jpeg: sockets.emit("image", bytes([len(name)]) + name.encode() + jpeg)

    @app.post("/pose")
    def pose() -> str:
        body: Any = request.json
        numbers = np.array(body["arr"])
        if 0 < len(numbers) < 7:
            raise IndexError("a pose has 7 numbers")
        loop.command("pose", numbers)
        return "Moved"

    @app.post("/move_gripper")
    def move_gripper() -> str:
        body: Any = request.json
        loop.echo = body["gripper_pos"]
        loop.command("gripper", loop.echo)
        return "Moved Gripper"

    def gripper_to(opening: float, said: str) -> str:
        loop.echo = opening
        loop.command("gripper", opening)
        return said

    app.post("/close_gripper", endpoint="close_gripper")(lambda: gripper_to(0.0, "Closed"))
    app.post("/open_gripper", endpoint="open_gripper")(lambda: gripper_to(1.0, "Opened"))
    app.post("/clearerr", endpoint="clearerr")(lambda: "Clear")
    app.post("/update_param", endpoint="update_param")(lambda: "Updated")

    @app.post("/jointreset")
    def joint_reset() -> Any:
        try:
            loop.command("joints", np.array((request.get_json() or {}).get("joints", DEFAULT_JOINTS), float))
        except Exception as problem:  # a wrong content type and broken JSON too
            return jsonify({"status": "error", "message": str(problem)}), 500
        return jsonify({"status": "success"})

    @app.post("/reset_scene")
    def reset_scene() -> Any:
        loop.ask_reset()
        return jsonify({"status": "success", "message": "Scene reset request enqueued"})

    app.post("/getstate", endpoint="getstate")(lambda: jsonify(loop.answer()))
    app.post("/get_gripper", endpoint="get_gripper")(lambda: jsonify({"gripper": loop.answer()["gripper_pos"]}))
    for path, channel in (("pos", "pose"), *((name, name) for name in ("vel", "force", "torque", "q", "dq", "jacobian"))):
        app.post(f"/get{path}", endpoint=f"get{path}")(lambda channel=channel: jsonify({channel: loop.answer()[channel]}))
    app.get("/health", endpoint="health")(lambda: jsonify({"status": "healthy", "simulation_running": True}))
    return app, sockets


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Not a line for each request; and a WebSocket that ends is an error to werkzeug."""


class StandIn:
    """The server on a port of its own; its loop runs in the thread that calls `run`, or in one of its own."""

    def __init__(self, scene: Scene, quirks: Iterable[str] = (), host: str = "127.0.0.1", port: int = 0, **options: Any) -> None:
        self.loop = MainLoop(scene, quirks, **options)
        app, _ = make_app(self.loop)
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
