"""`tandem serve-like isaac | franka`: stand-ins for robots' servers, to try everything before the real ones move."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, Literal

import tyro

from tandem.envs.franka import stand_in as franka
from tandem.envs.http_robot.stand_in import StandIn, checked_quirks
from tandem.envs.isaac import stand_in as isaac
from tandem.errors import ConfigError
from tandem.programs.terminal import say

PORTS = {"isaac": 5001, "franka": 5000}


def serve_like(
    which: Annotated[Literal["isaac", "franka"], tyro.conf.Positional],
    task: Literal["gear"] = "gear",
    quirks: str = "",
    port: int | None = None,
    host: str = "127.0.0.1",
    seed: int | None = None,
    randomize: bool = True,
    speed: float = 1.0,
    insecure: bool = False,
) -> None:
    """Serve a simulation with another server's protocol: a stand-in for Isaac Sim's gear server, or for hil-serl's Franka server.

    Its address in every command is `isaac+http://HOST:PORT/` or `franka+http://HOST:PORT/`. Its cameras need OpenGL; without a screen set
    MUJOCO_GL=egl.

    Args:
        which: `isaac`: the Isaac Sim gear server (Flask and Socket.IO, port 5001). `franka`: hil-serl's server of a Franka arm (port 5000).
        task: The scene: `gear`: a gear on a table and a base with a free pin, to lift or to assemble.
        quirks: Faults of such a server to switch on, with commas between them. `list` prints them.
        port: Port to listen on; 0: any free port. Default: that of the real server.
        host: Address to listen on. The protocol has no token: other machines can move the simulated arm.
        seed: Random seed of the resets.
        randomize: Place gear and base anew at each reset; otherwise always the same.
        speed: Seconds that are simulated in a second. The client's profile needs a control_hz that is as many times higher.
        insecure: Allow another address than the loopback interface.
    """
    del task  # there is one scene
    known = isaac.QUIRKS if which == "isaac" else franka.QUIRKS
    if quirks == "list":
        for name, meaning in known.items():
            say(f"  {name:14} {meaning}")
        return
    if host not in ("127.0.0.1", "localhost", "::1") and not insecure:
        raise ConfigError(f"--host {host}: this protocol has no token, so anybody there could move the arm. Add --insecure to allow it.")
    if not 0 < speed <= 20:
        raise ConfigError(f"--speed {speed:g}: expected a number above 0, at most 20")
    chosen = checked_quirks((name.strip() for name in quirks.split(",") if name.strip()), known)
    server = _server(which, chosen, host, PORTS[which] if port is None else port, seed, randomize, speed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    address = f"{which}+{server.address}"
    say(f"[STAND-IN] the protocol of '{which}' at {server.address}, quirks: {', '.join(sorted(chosen)) or 'none'}; Ctrl-C ends it")
    say(f"[STAND-IN] its address in every command: {address}; look at it first: tandem robot check {address}")
    server.run()


def _server(which: str, quirks: frozenset[str], host: str, port: int, seed: int | None, randomize: bool, speed: float) -> StandIn:
    """The scenes are imported here: they compile a model."""
    if which == "franka":
        from tandem.envs.franka.scene import FrankaScene

        return franka.franka_server(FrankaScene(seed, randomize), quirks, host, port, speed=speed)
    from tandem.envs.isaac.scene import GearScene

    return isaac.isaac_server(GearScene(seed, randomize), quirks, host, port, speed=speed)
