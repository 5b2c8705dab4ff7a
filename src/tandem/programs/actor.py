"""`tandem actor TASK --learner HOST:PORT`: an environment, an operator, a policy, and a link to the hub. It needs no JAX.

Real time: one action every control period, whether the learner is there or not. Fast: as soon as the hub gives credit, so that learner
and simulations keep the ratio that was asked for.
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from tandem.acting.actor import Actor
from tandem.acting.asking import AskingConfig, Tell
from tandem.acting.camera_stream import CameraStream
from tandem.acting.control_loop import ControlLoop, Watch, WhenAlone
from tandem.acting.latch import FOLDER, Latch
from tandem.acting.limits import Asked, Limits, limited, limits_for
from tandem.acting.operators import make_operators, open_hand
from tandem.acting.person_reward import reward_source
from tandem.acting.policy import OwnPolicy, Policy, act_with, load_any_policy
from tandem.acting.self_help import SelfHelp, attach, with_self_help
from tandem.acting.telling import AskEvents, Webhook
from tandem.acting.view_stream import ViewStream
from tandem.acting.watchdog_process import WatchdogProcess
from tandem.data.seen import FrameSender, cameras_of
from tandem.envs.registry import make_env, registered
from tandem.envs.scenery import Scenery
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError, FileMissing
from tandem.files import Durability
from tandem.layouts import ActionLayout
from tandem.learnable import sees
from tandem.link.client import ActorClient, ClientConfig
from tandem.link.messages import Welcome
from tandem.runs.folder import RunFolder
from tandem.runs.isolation import Lines
from tandem.seeding import process_seed
from tandem.teleop.axes import axes_of
from tandem.teleop.steering import Hand, Steering
from tandem.types import ForeignPolicy, Observation, Spec

if TYPE_CHECKING:
    from tandem.acting.demo_starts import DemoStarts

DEFAULT_PORT = 5588
"""Where a learner listens by default."""
TOKEN_VARIABLE = "TANDEM_TOKEN"
DEFAULT_SPOOL = Path.home() / ".cache" / "tandem" / "spool"


@dataclass(frozen=True)
class ActorArgs:
    """Act in an environment for a learner elsewhere: steps go there, policies come back."""

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A task (see `tandem tasks`), a Gymnasium id, or module:Id; the same as the learner's."""
    learner: str | None = None
    """HOST:PORT of the learner. Default: the address of the run given by --run, else this machine."""
    run: Path | None = None
    """The learner's run folder, if this machine can read it: its address and token are read from it."""
    token_file: Path | None = None
    """File with the run's token (RUN/token on the learner's machine). Default: the variable TANDEM_TOKEN, else the token of --run."""
    ca: Path | None = None
    """Certificate to trust, for a learner with a self-signed certificate (TLS)."""
    name: str = socket.gethostname()
    """Name of this actor on the learner's side; several actors may have the same name."""
    pace: Literal["fast", "realtime"] = "fast"
    """`fast` for a simulation: as fast as the learner keeps up. `realtime` for a robot: the control loop never waits."""
    policy: Path | None = None
    """Act with this policy (an ONNX file, a policy file or a run folder) and not with the learner's; its steps carry version -1."""
    when_alone: WhenAlone | None = None
    """While the learner cannot be reached, so that nobody can stop the robot from afar: `hold` still, `finish-episode` and then hold, or
    `go-on` and keep the steps. Default: `hold` at the pace `realtime`, `go-on` at `fast` (as far as the credit reaches)."""
    operator: str = "browser"
    """Who may correct the robot: browser (a person on the page), none, person:scripted (a script that corrects with the task's
    expert), spacemouse or gamepad (on this machine), or module:Class (your own)."""
    mapping: Path | None = None
    """File that says what sticks and buttons do. Default: the file that comes with Tandem (docs/person-in-the-loop.md)."""
    limits: Path | None = None
    """File of speed, force and workspace limits (docs/limits.md). Default: the task's own limits at the pace `realtime`, none at `fast`."""
    no_limits: bool = False
    """Move a robot without any limits. Otherwise a robot needs a file of limits."""
    asking: tyro.conf.OmitArgPrefixes[AskingConfig] = field(default_factory=AskingConfig)
    num_envs: int = 1
    """Simulations stepped together."""
    threads: int = 0
    """Threads that step the simulations; 0: one per core."""
    spool: Path = DEFAULT_SPOOL
    """Folder where steps are kept until the learner has received them."""
    spool_limit: int = 2**30
    """Bytes that may wait in the spool; when it is full, no step is made until the learner has taken some."""
    latch: Path | None = None
    """Folder in which this machine remembers that a robot must stand still. Default: `latch` next to the spool that is given, else
    ~/.local/state/tandem/latch."""
    timeout: float = 10.0
    """Seconds without a message from the learner after which it counts as away."""
    max_steps: int | None = None
    """Stop after this many environment steps."""
    durability: Durability = "power"
    """What steps in the spool survive: `power` flushes them to the disk within 0.05 s, `process` leaves that to the system."""


def act(
    args: ActorArgs,
    say: Callable[[str], None],
    stopped: Callable[[], bool] = lambda: False,
    watch: Watch = lambda actor, client: (),
) -> int:
    """Act until a stop is asked for; returns the number of steps that the learner does not have yet (they are in the spool)."""
    say = Lines(say)
    hub = Hub(_address(args), _token(args))
    robot = _open_robot(args)
    with contextlib.closing(Latch.open(_latch_folder(args), args.task, args.name, takes_over=args.pace == "realtime")) as latch:
        client, welcome = _connect(args, hub, robot.spec, say)
        settings = welcome.settings
        robot = _with_eyes(robot, settings)
        if cameras_of(robot.spec) and "keep_pictures" in settings:  # an older hub takes features inside of every step
            client.pack = FrameSender(robot.spec).pack
        robot = replace(robot, spec=robot.spec.with_scales(_scales(settings)))
        actor, steering, helping = _make_actor(args, robot, client, settings, welcome.rule, say)
        cameras = CameraStream(robot.env, client, say)
        loop = ControlLoop(
            actor,
            client,
            steering,
            _views(args, robot, actor, client, cameras, helping),
            latch=latch,
            realtime=args.pace == "realtime",
            when_alone=args.when_alone or ("hold" if args.pace == "realtime" else "go-on"),
            guard=_watchdog_process(args, robot.env, say),
            stopped=stopped,
            say=say,
            watch=watch,
            max_steps=args.max_steps,
            limits=robot.limits,
            stalled=_note_stall(args),
            asking=helping.asking if helping is not None else None,
        )
        try:
            loop.run()
        finally:
            loop.close()
            cameras.close()
            left = client.close()
            robot.env.close()
    say(f"[ACTOR] stopped after {actor.steps:,} steps" + (f"; {left:,} wait in {args.spool} for the learner" if left else ""))
    return left


def _latch_folder(args: ActorArgs) -> Path:
    """A spool that was named belongs to a run or to a place of its own, and what holds the robot lies next to it."""
    return args.latch or (FOLDER if args.spool == DEFAULT_SPOOL else args.spool.parent / "latch")


def _watchdog_process(args: ActorArgs, env: TaskEnv, say: Callable[[str], None]) -> WatchdogProcess | None:
    """For what moves in real time: a simulation stands still by itself when nobody steps it."""
    able = env.capabilities
    if args.pace != "realtime" or (able.halt_plan is None and able.clock == "simulated"):
        return None
    if able.halt_plan is None:
        say(
            f"[ACTOR] no watchdog process can halt '{args.task}' if this actor hangs or is killed: the environment runs inside of it. Give "
            f"the environment a `halt_command` (docs/person-in-the-loop.md), or serve it (docs/served.md)."
        )
        return None
    return WatchdogProcess(able.halt_plan, say)


def _note_stall(args: ActorArgs) -> Callable[[str, float], None]:
    """An event of the run for the doctor, where this machine can write to its folder."""
    if args.run is None:
        return lambda phase, seconds: None
    run = RunFolder(args.run)
    return lambda phase, seconds: run.event("stalled", actor=args.name, phase=phase, seconds=round(seconds, 1))


@dataclass(frozen=True)
class Hub:
    """Where the learner's hub listens, and the token that it lets in."""

    address: str
    token: str


@dataclass(frozen=True)
class Robot:
    """What the actor holds on this machine before it joins a run."""

    env: TaskEnv
    spec: Spec
    limits: Limits
    hand: Hand | None
    """The device of a person on this machine."""
    policy: Policy | None
    """The policy that --policy names."""
    policy_spec: Spec | None
    """What that policy was trained with; its scales may be others than the run's."""
    pictures: Callable[[], Observation] = dict
    """What the cameras of row 0 show now, where its observations hold features in their place."""


def _open_robot(args: ActorArgs) -> Robot:
    """Opened before the actor joins: a policy that does not fit or a device that is missing joins no run."""
    env = make_env(args.task, args.num_envs, num_threads=args.threads, watched=True)
    spec = env.spec
    require_pace(args.task, env, args.pace)
    policy, policy_spec = (None, None) if args.policy is None else load_any_policy(args.policy, spec=spec)
    return Robot(
        env,
        spec,
        limits=limits_for(args.task, env, Asked(args.limits, args.no_limits), realtime=args.pace == "realtime"),
        hand=open_hand(args.operator, spec, args.mapping),
        policy=policy,
        policy_spec=policy_spec,
    )


def _connect(args: ActorArgs, hub: Hub, spec: Spec, say: Callable[[str], None]) -> tuple[ActorClient, Welcome]:
    """A client that has joined the run, and what the run tells its actors."""
    client = ActorClient(
        spec,
        ClientConfig(
            address=hub.address,
            token=hub.token,
            name=args.name,
            rows=args.num_envs,
            pace=args.pace,
            durability=args.durability,
            spool=args.spool,
            ca=args.ca,
            spool_limit=args.spool_limit,
            timeout_s=args.timeout,
        ),
        say=say,
    )
    welcome = client.connect()
    say(f"[ACTOR] connected to {hub.address} as '{args.name}', run {welcome.run}, durability '{args.durability}'")
    return client, welcome


def _with_eyes(robot: Robot, settings: Mapping[str, Any]) -> Robot:
    """The same robot, whose pictures become features by the encoder of the run; as it is in a run without cameras."""
    given = settings.get("encoder")
    if not sees(robot.spec) or not isinstance(given, str):
        return robot
    from tandem.acting.eyes import EncodedEnv  # only runs with cameras need it
    from tandem.networks.encoders.encoder import Encoder

    encoder = Encoder.from_bytes(base64.b64decode(given), "the encoder that the learner sent")
    env = EncodedEnv(robot.env, encoder, settings.get("keep_pictures") is True, settings.get("privileged") is True)
    return replace(robot, env=env, spec=env.spec, pictures=env.pictures)


def _scales(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scales that the run learns with; empty from a hub that has none to give, and then the environment's own hold."""
    given = settings.get("scales")
    return given if isinstance(given, Mapping) else {}


def _make_actor(
    args: ActorArgs, robot: Robot, client: ActorClient, settings: Mapping[str, Any], rule: bytes, say: Callable[[str], None]
) -> tuple[Actor, Steering | None, SelfHelp | None]:
    """The actor, the steering through which a person takes over (None where nobody may), and what notices that its first robot is stuck
    (None in a run that does not notice)."""
    seed = process_seed(int(settings.get("seed", 0)), client.source)
    operators, steering = make_operators(args.operator, robot.env, seed, robot.hand)
    helping: list[SelfHelp] = []
    if settings.get("notice") is not True and args.asking != AskingConfig():
        say("[ACTOR] the run does not notice that a robot is stuck, so this one never asks for help: start the learner with --notice")
    elif settings.get("notice") is True:
        tell = _told(args, robot, lambda: actor, say)
        helping = with_self_help(operators, robot.spec, args.num_envs, seed, args.asking, tell, clock=time.monotonic)
    actor = Actor(
        limited(robot.env, robot.limits),
        client,
        helping or operators,
        source=client.source,
        seed=seed,
        # random steps that the run has already made are not made again
        random_steps=max(0, int(settings.get("random_steps", 0)) - int(settings.get("actor_steps", 0))),
        deterministic_share=float(settings.get("deterministic_share", 0.0)),
        deterministic_from=float(settings.get("deterministic_from", 0.9)),
        starts=_starts(args, settings),
        say=say,
        broken=RunFolder(args.run or args.spool.parent).broken,
        own_policy=_own_policy(args, robot, seed, say),
        rewards=reward_source(str(settings.get("reward_source", "simulation")), robot.spec, args.num_envs, rule),
        spec=robot.spec,
    )
    attach(helping, actor)
    return actor, steering, helping[0] if helping else None


def _told(args: ActorArgs, robot: Robot, actor: Callable[[], Actor], say: Callable[[str], None]) -> list[Tell]:
    """Who hears what the robot asks, beside the page: the run's events, and the webhook if there is one."""
    told: list[Tell] = []
    if args.run is not None:
        told.append(AskEvents(RunFolder(args.run).event, args.name, lambda: actor().place[0], say))
    if args.asking.webhook:
        about = {"task": args.task, "actor": args.name}
        told.append(Webhook(args.asking.webhook, about, lambda: {**actor().observation, **robot.pictures()}, say))
    return told


def _starts(args: ActorArgs, settings: Mapping[str, Any]) -> DemoStarts | None:
    """Some episodes begin in demonstrations, if the run wants it."""
    given = settings.get("demo_starts")
    if not isinstance(given, Mapping):
        return None
    from tandem.acting.demo_starts import demo_starts  # only runs that begin in demonstrations need it

    made = int(settings.get("actor_steps", 0))  # by the run, before this actor joined
    return demo_starts(args.task, [Path(file) for file in given["files"]], float(given["share"]), int(given["steps"]), made)


def _own_policy(args: ActorArgs, robot: Robot, seed: int, say: Callable[[str], None]) -> OwnPolicy | None:
    if robot.policy is None:
        return None
    own = OwnPolicy(act_with(robot.policy, robot.policy_spec or robot.spec, seed), ForeignPolicy(robot.policy.hash))
    known = own.known_as
    say(f"[ACTOR] acting with {args.policy} ({known.hash}) and not with the learner's policies; its steps carry version {known.version}")
    return own


def _views(args: ActorArgs, robot: Robot, actor: Actor, client: ActorClient, cameras: CameraStream, helping: SelfHelp | None) -> ViewStream:
    """What people see of this actor on the page."""
    axes, entry = axes_of(ActionLayout.of(robot.spec)), registered(args.task)
    camera = None if entry is None else entry.camera
    progress = (lambda: ()) if helping is None else lambda: helping.progress

    if not cameras_of(robot.spec):
        return ViewStream(actor, client, lambda: Scenery(robot.env, axes, camera), take_picture=cameras.take, progress=progress)
    from tandem.acting.saliency import Saliency, camera_names  # only runs with cameras need it

    matters = Saliency(actor)

    def take(name: str, observation: Observation) -> str:
        pictures = robot.pictures()
        return cameras.take(name, {**observation, **pictures, **matters.picture(name, observation, pictures)})

    return ViewStream(actor, client, lambda: Scenery(robot.env, axes, camera, camera_names(actor)), take_picture=take, progress=progress)


def actor(args: list[str]) -> None:
    """Act in an environment for a learner elsewhere: steps go there, policies come back."""
    from tandem.doctor.watch import watch_actor
    from tandem.programs.terminal import say

    act_here(tyro.cli(ActorArgs, args=args, prog="tandem actor"), say, watch_actor())


def act_here(args: ActorArgs, say: Callable[[str], None], watch: Watch = lambda actor, client: ()) -> int:
    """`act` until Ctrl-C or SIGTERM; the step is finished and the steps so far are handed over."""
    asked: list[int] = []  # and no Event: a signal that comes within its `set` would wait for ever for the lock that the first one holds
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: asked.append(number))
    return act(args, say, lambda: bool(asked), watch)


def require_pace(task: str, env: TaskEnv, pace: str) -> None:
    """A real robot is not driven as fast as the learner allows."""
    if env.capabilities.clock == "real" and pace != "realtime":
        raise ConfigError(f"environment '{task}' runs in real time (its clock is real): add --pace realtime, got --pace {pace}")


def _token(args: ActorArgs) -> str:
    if args.token_file is not None:
        return _read(args.token_file)
    if os.environ.get(TOKEN_VARIABLE):
        return os.environ[TOKEN_VARIABLE]
    if args.run is not None:
        return _read(RunFolder(args.run).token_file)
    raise ConfigError(
        f"no token: the learner accepts only actors that have its run's token. Copy RUN/token from its machine and give it with "
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
    hub = None if args.run is None else RunFolder(args.run).hub()
    if hub is not None:
        return f"{'wss' if hub['tls'] else 'ws'}://{hub['address']}"
    return f"127.0.0.1:{DEFAULT_PORT}"
