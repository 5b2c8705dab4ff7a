"""`tandem serve-like isaac`: a stand-in for the simulator of a hil-serl fork, to try everything before the real one moves."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, Literal

import tyro

from tandem.envs.isaac.stand_in import QUIRKS, StandIn, checked_quirks
from tandem.errors import ConfigError
from tandem.programs.terminal import say


def serve_like(
    which: Annotated[Literal["isaac"], tyro.conf.Positional],
    task: Literal["gear"] = "gear",
    quirks: str = "",
    port: int = 5001,
    host: str = "127.0.0.1",
    seed: int | None = None,
    randomize: bool = True,
    insecure: bool = False,
) -> None:
    """Serve a simulation with another server's protocol: a stand-in for Isaac Sim's gear server.

    Its address in every command is `isaac+http://HOST:PORT/`. Its cameras need OpenGL; without a screen set MUJOCO_GL=egl.

    Args:
        which: `isaac`: the Isaac Sim gear server (Flask and Socket.IO, port 5001).
        task: The scene: `gear`: a gear on a table and a base with a free pin, to lift or to assemble.
        quirks: Faults of the fork's server to switch on, with commas between them. `list` prints them.
        port: Port to listen on; 0: any free port.
        host: Address to listen on. The protocol has no token: other machines can move the simulated arm.
        seed: Random seed of the resets.
        randomize: Place gear and base anew at each reset; otherwise always the same.
        insecure: Allow another address than the loopback interface.
    """
    del task  # there is one scene
    if quirks == "list":
        for name, meaning in QUIRKS.items():
            say(f"  {name:14} {meaning}")
        return
    if host not in ("127.0.0.1", "localhost", "::1") and not insecure:
        raise ConfigError(f"--host {host}: this protocol has no token, so anybody there could move the arm. Add --insecure to allow it.")
    chosen = checked_quirks(name.strip() for name in quirks.split(",") if name.strip())
    from tandem.envs.isaac.scene import GearScene

    server = StandIn(GearScene(seed, randomize), chosen, host, port)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    say(f"[STAND-IN] Isaac's protocol at {server.address}, quirks: {', '.join(sorted(chosen)) or 'none'}; Ctrl-C ends it")
    say(f"[STAND-IN] its address in every command: isaac+{server.address}; look at it first: tandem robot check isaac+{server.address}")
    server.run()
