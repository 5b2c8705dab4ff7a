"""An actor process: an environment, an operator, a policy, and a link to the hub. It needs no JAX.

    tandem actor TASK --learner HOST:PORT

Real time: one action every control period, whatever the learner does. Fast: as soon as the hub gives credit, so that learner and
simulations keep the ratio that was asked for.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tandem.envs.registry import make_batch
from tandem.errors import ConfigError, FileMissing
from tandem.link.client import ActorClient
from tandem.link.messages import Command
from tandem.teleop.operator import HandsOff
from tandem.training.actor import Actor, OwnPolicy
from tandem.training.broken import FOLDER
from tandem.training.policy import act_with, load_any_policy
from tandem.types import ForeignPolicy, Spec

DEFAULT_PORT = 5588
"""Where a learner listens unless told otherwise."""
TOKEN_VARIABLE = "TANDEM_TOKEN"
Watch = Callable[[Actor, ActorClient], Iterable[str]]
"""Looks at the loop now and then; what it finds wrong it says once, in words."""
_LATE = 0.1
"""An action that comes this share of a control period too late counts as late."""


@dataclass(frozen=True)
class ActorArgs:
    """Act in an environment for a learner elsewhere: steps go there, policies come back."""

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A task (see `tandem tasks`), a Gymnasium id, or module:Id; the same as the learner's."""
    learner: str | None = None
    """HOST:PORT of the learner. Default: where the run given by --run listens, else this machine."""
    run: Path | None = None
    """The learner's run folder, where this machine can read it: gives its address and its token."""
    token_file: Path | None = None
    """File with the run's token (RUN/token on the learner's machine). Default: the variable TANDEM_TOKEN, else that of --run."""
    ca: Path | None = None
    """Certificate to trust, for a learner that has its own (TLS)."""
    name: str = socket.gethostname()
    """How this actor is called on the learner's side; several may have the same name."""
    pace: Literal["fast", "realtime"] = "fast"
    """`fast` for a simulation: as fast as the learner keeps up. `realtime` for a robot: the control loop never waits for anyone."""
    policy: Path | None = None
    """Act with this policy (an ONNX file, a policy file or a run folder) and not with the learner's; its steps carry version -1."""
    while_away: Literal["go_on", "hold"] = "go_on"
    """What a real-time actor does while no learner can be reached: act and keep the steps, or hold still."""
    num_envs: int = 1
    """Simulations to live in at once."""
    threads: int = 0
    """Threads for them; 0: one per core."""
    spool: Path = Path.home() / ".cache" / "tandem" / "spool"
    """Folder where steps are kept until the learner has them."""
    spool_limit: int = 2**30
    """Bytes that may wait there; beyond it the oldest are kept."""
    timeout: float = 10.0
    """Seconds without a word from the learner after which it counts as away."""
    max_steps: int | None = None
    """Stop after this many steps of the environments."""


def act(
    args: ActorArgs,
    say: Callable[[str], None],
    stopped: Callable[[], bool] = lambda: False,
    watch: Watch = lambda actor, client: (),
) -> int:
    """Act until told to stop; returns the steps that the learner does not have yet (they are in the spool)."""
    token, address = _token(args), _address(args)
    env = make_batch(args.task, args.num_envs, num_threads=args.threads)
    spec: Spec = env.task_spec  # pyright: ignore[reportAttributeAccessIssue]
    chosen = None if args.policy is None else load_any_policy(args.policy, spec=spec)[0]
    client = ActorClient(
        address,
        spec,
        token=token,
        name=args.name,
        rows=args.num_envs,
        pace=args.pace,
        spool=args.spool,
        ca=args.ca,
        spool_limit=args.spool_limit,
        while_away=args.while_away,
        timeout_s=args.timeout,
        say=say,
    )
    welcome = client.connect()
    say(f"[ACTOR] connected to {address} as '{args.name}', run {welcome.run}")
    settings = welcome.settings
    seed = _own_seed(int(settings.get("seed", 0)), client.source)
    own = None if chosen is None else OwnPolicy(act_with(chosen, spec, seed), ForeignPolicy(chosen.hash))
    if own is not None:
        known = own.known_as
        say(f"[ACTOR] acting with {args.policy} ({known.hash}) whatever is learned meanwhile; its steps carry version {known.version}")
    actor = Actor(
        env,
        client,
        [HandsOff()] * args.num_envs,
        source=client.source,
        seed=seed,
        # what the run has had of random steps, this process need not make again
        random_steps=max(0, int(settings.get("random_steps", 0)) - int(settings.get("actor_steps", 0))),
        say=say,
        broken=(args.run or args.spool.parent) / FOLDER,
        own_policy=own,
    )
    try:
        _live(actor, client, args, spec, stopped, say, watch)
    finally:
        left = client.close()
        env.close()
    say(f"[ACTOR] stopped after {actor.steps:,} steps" + (f"; {left:,} wait in {args.spool} for the learner" if left else ""))
    return left


def act_here(args: ActorArgs, say: Callable[[str], None], watch: Watch = lambda actor, client: ()) -> int:
    """`act` until Ctrl-C or SIGTERM, which let it finish its step and hand over what it has."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return act(args, say, stop.is_set, watch)


def _live(
    actor: Actor,
    client: ActorClient,
    args: ActorArgs,
    spec: Spec,
    stopped: Callable[[], bool],
    say: Callable[[str], None],
    watch: Watch,
) -> None:
    rhythm = Rhythm(spec.control_hz) if args.pace == "realtime" else None
    paused = False
    said = False
    while (
        actor.own_policy is None and client.newest_policy() is None and not stopped()
    ):  # a robot does not move before there is something to move by
        if not said:
            say("[ACTOR] waiting for the first policy")
            said = True
        time.sleep(0.02)
    actor.begin()
    while not stopped() and (args.max_steps is None or actor.steps < args.max_steps):
        for order in client.commands():
            if order.command == "stop":
                return
            paused = _paused(order, paused, say)
        if paused or not client.may_step(timeout=0.1):
            if paused:
                time.sleep(0.02)
            if rhythm:
                rhythm.restart()
            continue
        actor.step()
        for warning in watch(actor, client):
            say(f"[ACTOR] {warning}")
        if rhythm:
            rhythm.wait()
            if rhythm.late == 1:
                say(f"[ACTOR] a control period of {1e3 / spec.control_hz:.0f} ms was overrun: the environment takes longer than that")


def _paused(order: Command, paused: bool, say: Callable[[str], None]) -> bool:
    if order.command not in ("pause", "resume"):
        return paused
    say(f"[ACTOR] {order.command}")
    return order.command == "pause"


class Rhythm:
    """One beat per control period. A late one moves those that follow: two actions are never squeezed into one period."""

    def __init__(self, hz: float) -> None:
        self._period = 1 / hz
        self.late = 0
        """Beats that were missed."""
        self.restart()

    def restart(self) -> None:
        self._next = time.monotonic() + self._period

    def wait(self) -> None:
        left = self._next - time.monotonic()
        if left > 0:
            time.sleep(left)
            self._next += self._period
            return
        if left < -_LATE * self._period:
            self.late += 1
        self.restart()


def _own_seed(seed: int, source: str) -> int:
    """Of the run and of this process: two actors of one run must not live through the same episodes."""
    return int.from_bytes(hashlib.sha256(f"{seed} {source}".encode()).digest()[:3], "little")


def _token(args: ActorArgs) -> str:
    if args.token_file is not None:
        return _read(args.token_file)
    if os.environ.get(TOKEN_VARIABLE):
        return os.environ[TOKEN_VARIABLE]
    if args.run is not None:
        return _read(args.run / "token")
    raise ConfigError(
        f"no token: the learner lets in only who has its run's token. Copy RUN/token from its machine and give it with "
        f"--token-file FILE or in the variable {TOKEN_VARIABLE}; on the same machine --run RUN is enough."
    )


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        raise FileMissing(f"there is no token file {path}: it is made when the learner starts (is this the run folder it uses?)") from None
    except OSError as problem:
        raise FileMissing(f"cannot read the token file {path}: {problem.strerror}") from None


def _address(args: ActorArgs) -> str:
    if args.learner is not None:
        return args.learner if ":" in args.learner.removeprefix("wss://").removeprefix("ws://") else f"{args.learner}:{DEFAULT_PORT}"
    if args.run is not None and (args.run / "hub.json").exists():
        told = json.loads((args.run / "hub.json").read_text())
        return f"{'wss' if told['tls'] else 'ws'}://{told['address']}"
    return f"127.0.0.1:{DEFAULT_PORT}"
