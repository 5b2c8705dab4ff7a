"""A server that speaks the protocol of the Isaac Sim gear server to the byte, with any scene behind it.

It is the same Flask and Flask-SocketIO, so that what those two do by themselves is the same too: sorted keys, `Connection: close` after
every answer, HTML for a missing key, 415 for a wrong content type. What is wrong with the fork's server can be switched on (`QUIRKS`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import numpy as np

from tandem.envs.http_robot.scene import Scene
from tandem.envs.http_robot.stand_in import MainLoop, StandIn, checked_quirks
from tandem.envs.isaac.scene import ROBOT_CROPS, SIM_CROPS
from tandem.errors import extras_named

with extras_named("the stand-in for Isaac's server"):
    import simple_websocket as _  # noqa: F401 (without it Flask-SocketIO quietly speaks no WebSocket)
    from flask import Flask, jsonify, request
    from flask_socketio import SocketIO

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


def isaac_server(scene: Scene, quirks: Iterable[str] = (), host: str = "127.0.0.1", port: int = 0, **times: float) -> StandIn:
    """`times`: sim_hz, reset_s and speed of the loop."""
    chosen = checked_quirks(quirks, QUIRKS)
    loop = MainLoop(scene, ROBOT_CROPS if "crops" in chosen else SIM_CROPS, chosen, **times)
    app, _ = make_app(loop)
    return StandIn(loop, app, host, port)
