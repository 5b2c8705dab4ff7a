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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tandem.acting.actor import Actor, OwnPolicy
from tandem.acting.camera_stream import CameraStream
from tandem.acting.control_loop import ControlLoop, Watch
from tandem.acting.limits import Limits, settings_for
from tandem.acting.operators import make_operators, open_hand
from tandem.acting.policy import act_with, load_any_policy
from tandem.acting.rewards import reward_source
from tandem.acting.view_stream import ViewStream
from tandem.actions import ActionLayout
from tandem.envs.registry import make_env, registered
from tandem.envs.scenery import Scenery
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError, FileMissing
from tandem.link.client import ActorClient
from tandem.runs.broken import FOLDER
from tandem.types import ForeignPolicy

DEFAULT_PORT = 5588
"""Where a learner listens unless told otherwise."""
TOKEN_VARIABLE = "TANDEM_TOKEN"


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
    operator: str = "browser"
    """Who stands beside the robot: browser (a page may take over), none, person:scripted (a stand-in that corrects with the task's
    expert), spacemouse or gamepad (on this machine)."""
    mapping: Path | None = None
    """File that says what sticks and buttons do. Default: the one that comes with Tandem (docs/person-in-the-loop.md)."""
    limits: Path | None = None
    """File of speed, force and workspace limits. Default: the task's own at the pace `realtime`, none at `fast`."""
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
    env = make_env(args.task, args.num_envs, num_threads=args.threads)
    spec = env.spec
    _check_pace(args, env)
    chosen = None if args.policy is None else load_any_policy(args.policy, spec=spec)[0]
    limits = Limits(spec, settings_for(args.task, args.pace == "realtime", args.limits))
    hand = open_hand(args.operator, spec, args.mapping)  # before anything is joined: a device that is not there joins nothing
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
    operators, steering = make_operators(args.operator, spec, args.num_envs, seed, hand)
    actor = Actor(
        env,
        client,
        operators,
        source=client.source,
        seed=seed,
        # what the run has had of random steps, this process need not make again
        random_steps=max(0, int(settings.get("random_steps", 0)) - int(settings.get("actor_steps", 0))),
        say=say,
        broken=(args.run or args.spool.parent) / FOLDER,
        own_policy=own,
        limits=limits,
        rewards=reward_source("person" if settings.get("reward_source") == "person" else "simulation", args.num_envs),
    )
    cameras = CameraStream(env, client, say)
    scenery = lambda: Scenery(env, ActionLayout.of(spec).axes, _camera(args.task))  # noqa: E731  made when somebody watches
    views = ViewStream(actor, client, scenery, take_picture=cameras.take)
    loop = ControlLoop(
        actor,
        client,
        steering,
        views,
        realtime=args.pace == "realtime",
        stopped=stopped,
        say=say,
        watch=watch,
        max_steps=args.max_steps,
        limits=limits,
    )
    try:
        loop.run()
    finally:
        loop.close()
        cameras.close()
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


def _check_pace(args: ActorArgs, env: TaskEnv) -> None:
    """A real robot is neither driven as fast as the learner allows, nor without limits."""
    able = env.capabilities
    if able.clock == "real" and args.pace != "realtime":
        raise ConfigError(f"environment '{args.task}' runs in real time (its clock is real): add --pace realtime, got --pace {args.pace}")
    if able.needs_limits and args.limits is None:
        raise ConfigError(
            f"environment '{args.task}' moves a robot and has no limits of its own: give a file of speed, force and workspace limits with "
            f"--limits FILE (docs/person-in-the-loop.md); an empty file limits nothing"
        )


def _camera(task: str) -> str | None:
    entry = registered(task)
    return None if entry is None else entry.camera


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
