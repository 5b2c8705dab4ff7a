"""A server that speaks the protocol of hil-serl's Franka server to the byte, with a simulated arm and a Franka hand behind it.

It is the same Flask, so that what Flask does by itself is the same too. hil-serl's server has no pictures, since its cameras hang on the
client's computer; here they are streams of their own: GET /camera/NAME. The parameters of the impedance controller are checked and kept,
and do not change the simulated arm.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tandem.envs.franka.profile import PARAMETERS
from tandem.envs.http_robot.pictures import Shelf
from tandem.envs.http_robot.quaternions import from_wire, to_euler
from tandem.envs.http_robot.scene import Scene
from tandem.envs.http_robot.stand_in import MainLoop, StandIn, checked_quirks
from tandem.envs.isaac.scene import SIM_CROPS
from tandem.errors import extras_named

with extras_named("the stand-in for hil-serl's Franka server"):
    from flask import Flask, Response, jsonify, request

QUIRKS = {
    "dead-channels": "vel, force, torque, q, dq and jacobian are always zero",
    "quat-swap": "the quaternion of a command is read as w, x, y, z although it is x, y, z, w",
    "flipped-axis": "the arm goes the other way along x",
    "slow-loop": "a new state every 150 ms only",
    "no-frames": "the cameras send nothing",
    "gripper-dead": "the fingers do not move",
    "latched-open": "the hand is shut when the server starts, which believes it to be open: /open_gripper does nothing",
    "no-gripper": "--gripper_type=None: /getstate and /get_gripper are answered with 500",
    "no-jacobian": "the controller is not running yet: no jacobian, and /getstate is answered with 500",
    "reflex": "the arm has stopped itself, and ignores poses until /clearerr",
}
"""Faults that such a robot can have, by name."""
JOINTS = np.array([0.0, 0.0, 0.0, -1.9, 0.0, 2.0, 0.0])
"""--reset_joint_target."""
OPEN_M, STROKE_M = 0.09, 0.08
"""Where /open_gripper sends a Franka hand, and how far it opens."""
FRAME_S = 1.0


class Robot:
    """What the endpoints share: a queue of commands for the loop, and what the server remembers of the hand."""

    def __init__(self, loop: MainLoop) -> None:
        self.loop, self.shelf, self.parameters = loop, Shelf(), dict[str, Any]()
        self._reflex, self._running = "reflex" in loop.quirks, True
        self._shut = False
        if "latched-open" in loop.quirks:
            loop.command("gripper", 0.0)
        loop.push = self.shelf.put

    def move(self, pose: np.ndarray) -> None:
        assert len(pose) == 7
        if self._running and not self._reflex:
            self.loop.command("pose", pose)

    def run(self, running: bool) -> None:
        """The impedance controller; without it the arm stands."""
        self._running = running
        self.loop.command("stop", None)

    def clear(self) -> None:
        self._reflex = False

    def shut(self, shut: bool) -> None:
        """The server remembers whether it shut the hand, and does nothing when it believes to know."""
        if shut != self._shut:
            self._shut = shut
            self.open_to(0.01 if shut else OPEN_M)

    def open_to(self, width_m: float) -> None:
        if "gripper-dead" not in self.loop.quirks:
            self.loop.command("gripper", min(1.0, width_m / STROKE_M) if width_m > 0.01 else 0.0)

    def update(self, given: Any) -> None:
        for name, value in given.items():
            if name not in PARAMETERS:
                raise KeyError(f"don't know parameter: {name}")
            self.parameters[name] = float(value)

    @property
    def state(self) -> dict[str, Any]:
        """All that it knows: no objects and no fingers, as Isaac's server has them."""
        known = self.loop.answer()
        del known["object_states"]
        return known | {name: known[name][:7] for name in ("q", "dq")}

    @property
    def gripper_pos(self) -> float:
        if "no-gripper" in self.loop.quirks:
            raise NameError("name 'gripper_server' is not defined")
        return self.state["gripper_pos"]

    @property
    def jacobian(self) -> Any:
        if "no-jacobian" in self.loop.quirks:
            raise AttributeError("'FrankaServer' object has no attribute 'jacobian'")
        return self.state["jacobian"]


def make_app(loop: MainLoop) -> tuple[Flask, Robot]:
    """The endpoints. Nothing is validated that hil-serl's server does not validate."""
    app, robot = Flask("franka_server"), Robot(loop)
    app.logger.setLevel(logging.CRITICAL)  # a traceback for each wrong request
    _add_questions(app, robot)
    _add_commands(app, robot)

    @app.get("/camera/<name>")
    def camera(name: str) -> Any:
        if name not in SIM_CROPS:
            return f"no camera {name}\n", 404
        return Response(_stream(robot.shelf, name), mimetype="multipart/x-mixed-replace; boundary=frame")

    return app, robot


def _add_questions(app: Flask, robot: Robot) -> None:
    for path, channel in (("pos", "pose"), *((name, name) for name in ("vel", "force", "torque", "q", "dq"))):
        app.post(f"/get{path}", endpoint=f"get{path}")(lambda channel=channel: jsonify({channel: robot.state[channel]}))
    app.post("/getjacobian", endpoint="getjacobian")(lambda: jsonify({"jacobian": robot.jacobian}))
    app.post("/get_gripper", endpoint="get_gripper")(lambda: jsonify({"gripper": robot.gripper_pos}))
    app.post("/getstate", endpoint="getstate")(
        lambda: jsonify({**robot.state, "jacobian": robot.jacobian, "gripper_pos": robot.gripper_pos})
    )

    @app.post("/getpos_euler")
    def getpos_euler() -> Any:
        pose = np.array(robot.state["pose"])
        return jsonify({"pose": [*pose[:3].tolist(), *to_euler(from_wire(pose[3:])).tolist()]})


def _add_commands(app: Flask, robot: Robot) -> None:
    def said(path: str, text: str, does: Any) -> None:
        def answer() -> str:
            does()
            return text

        app.post(f"/{path}", endpoint=path)(answer)

    said("set_load", "Set Load", lambda: [_body()[name] for name in ("mass", "F_x_center_load", "load_inertia")])
    said("startimp", "Started impedance", lambda: (robot.clear(), robot.run(True)))
    said("stopimp", "Stopped impedance", lambda: robot.run(False))
    said("clearerr", "Clear", robot.clear)
    said("pose", "Moved", lambda: robot.move(np.array(_body()["arr"])))
    said("activate_gripper", "Activated", lambda: None)
    said("reset_gripper", "Reset", lambda: None)
    said("open_gripper", "Opened", lambda: robot.shut(False))
    said("close_gripper", "Closed", lambda: robot.shut(True))
    said("close_gripper_slow", "Closed", lambda: robot.shut(True))
    said("move_gripper", "Moved Gripper", lambda: robot.open_to(float(np.clip(int(_body()["gripper_pos"]), 0, 255)) / 2550))
    said("update_param", "Updated compliance parameters", lambda: robot.update(_body()))
    said("jointreset", "Reset Joint", lambda: (robot.clear(), robot.loop.ask_reset(JOINTS), robot.run(True)))


def _body() -> Any:
    return request.json


def _stream(shelf: Shelf, name: str) -> Iterator[bytes]:
    """The newest picture again and again, as MJPEG; it ends when none comes."""
    since = 0.0
    while frame := shelf.wait((name,), since, FRAME_S).get(name):
        since, jpeg = frame.at, bytes(frame.image)
        yield b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: " + str(len(jpeg)).encode() + b"\r\n\r\n" + jpeg + b"\r\n"


def franka_server(scene: Scene, quirks: Iterable[str] = (), host: str = "127.0.0.1", port: int = 0, **times: float) -> StandIn:
    """`times`: sim_hz, reset_s and speed of the loop."""
    loop = MainLoop(scene, SIM_CROPS, checked_quirks(quirks, QUIRKS), **times)
    app, _ = make_app(loop)
    return StandIn(loop, app, host, port)
