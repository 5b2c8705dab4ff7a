"""`tandem serve`: an environment of this machine for learners and actors elsewhere."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import tyro

from tandem.envs.registry import make, make_bare, registered, spec_for
from tandem.envs.served import server
from tandem.envs.served.names import is_served
from tandem.errors import ConfigError
from tandem.programs.terminal import say


def serve(
    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")],
    port: int = 5599,
    host: str = "127.0.0.1",
    token_file: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    insecure: bool = False,
    render: bool = False,
    grace: float = server.GRACE_S,
) -> None:
    """Serve an environment to other machines, where it is then called `ws://HOST:PORT`.

    Where Tandem is not installed, `python server.py ENV` does the same: the file envs/served/server.py can be copied alone.

    Args:
        env: A task of Tandem's, a Gymnasium id, or module:Id.
        port: Port to listen on; 0: any free port.
        host: Address to listen on; 0.0.0.0 lets other machines in, and needs a certificate.
        token_file: File with the token that clients must show; made if it does not exist. Default: the variable TANDEM_TOKEN.
        certificate: File with the TLS certificate of this machine (PEM).
        key: File with the key of the certificate (PEM).
        insecure: Allow other machines without TLS.
        render: Let clients ask for pictures.
        grace: Seconds that a client may be gone before motion is stopped.
    """
    if is_served(env):
        raise ConfigError(f"'{env}' is served already; `tandem serve` takes an environment of this Python")
    try:
        token, tls = server.checked_access(host, token_file, certificate, key, insecure)
        make_one, declared = _maker(env, render)
        serving = server.Server(env, make_one, token, host, port, tls, grace, declared=declared, say=_say)
    except (ValueError, OSError, LookupError) as problem:
        raise ConfigError(f"`tandem serve {env}`: {problem}") from None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _say(f"serving {env} at {'wss' if tls else 'ws'}://{host}:{serving.port}; Ctrl-C ends it")
    serving.run()


def _maker(env: str, render: bool) -> tuple[Any, Any]:
    """How to make it, and what is declared for it: a task of ours has its whole spec."""
    if registered(env) is None:
        return (lambda: make_bare(env, render=render)), None
    spec, mode = spec_for(env), "rgb_array" if render else None
    return (lambda: make(env, render_mode=mode)), {"spec": spec.to_json(), "max_episode_steps": spec.max_episode_steps}


def _say(line: str) -> None:
    say(f"[SERVE] {line}")
