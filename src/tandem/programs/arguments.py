"""The command lines that train, as dataclasses: the sentence under a field is its help text.

TASK, --recipe or --preset, and --resume decide the defaults of all other options. So a command line is read twice: first for what was
typed (`typed_options`), then with the defaults that follow from it; and where they depend on cameras, which nobody knows before the
environment is open, once for either. All readings are tyro's, so every spelling it knows counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import tyro

from tandem.acting.asking import AskingConfig
from tandem.envs.http_robot.names import is_http_robot
from tandem.errors import ConfigError
from tandem.files import Durability
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.horizon import automatic
from tandem.off_policy.recipes import starting_config
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.presets import ppo_starting_config
from tandem.programs.actor import DEFAULT_PORT
from tandem.programs.cluster import ClusterArgs

MAX_ACTORS = 64
"""Connected actors that a hub allows unless told otherwise."""


@dataclass(frozen=True)
class RunArgs:
    """The options that `tandem train` and `tandem learner` share."""

    task: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")] = None
    """A task (see `tandem tasks`), a Gymnasium id, or module:Id."""
    config: tyro.conf.OmitArgPrefixes[TrainConfig] = field(default_factory=TrainConfig)
    for_cameras: tyro.conf.Fixed[tyro.conf.Suppress[TrainConfig | None]] = None
    """What the same command line means where the environment has cameras; None: nothing else."""
    resume: Path | None = None
    """Continue this run from its newest checkpoint, with its own settings except those that are given."""
    run: Path | None = None
    """Folder of the run. Default: runs/TASK_TIME."""
    init_from: Path | None = None
    """Start with the policy of this run folder or policy file."""
    scripted_demos: int = 0
    """First record this many demonstrations with the task's scripted expert."""
    recipe: str | None = None
    """Recipe whose settings are the defaults. Default: the recipe named after the task, else `fitted` with demonstrations (`fitted_pixels`
    where the environment has cameras) and `default` without."""
    horizon: Literal["auto"] | None = None
    """auto: discount, n_step and decision_steps follow from the demonstrations, whatever the recipe says, and are printed with their
    reasons (docs/long-tasks.md). What is typed wins. The recipe `fitted` does so by itself."""
    learners: int = 1
    """Processes that compute each learner step together, this one and others that `tandem learner-part` starts, here or on other machines
    (docs/scale.md)."""
    learners_address: str = "127.0.0.1:7711"
    """Where this one listens for the others. JAX's own connections know no password: an address of a closed network."""
    port: int = 0
    """Port for actors, page and API; 0: any free port."""
    disk_reserve_mb: float = 500.0
    """Megabytes on the run's disk that are kept for checkpoints and commands (on a small disk a twentieth of it). When less is free, new
    steps are not stored and wait at the actors."""
    durability: Durability = "power"
    """What an acknowledged step survives. `power`: also a power cut, because the hub waits for the disk. `process`: the death of every
    process; a power cut may lose the newest steps."""
    quiet: bool = False
    """Print only the summary."""
    json: bool = False
    """Print one JSON object per line."""
    verbose: bool = False
    """Print every line of the actor and the learner."""


@dataclass(frozen=True)
class TrainArgs(RunArgs):
    """Learn a task with RLPD: hub, trainer and actors on this machine."""

    actors: int = 1
    """Actor processes, each with `num_envs` simulations."""
    film: bool = True
    """Film the learned policy at the end, for at most a minute (`--no-film`: leave it out)."""
    limits: Path | None = None
    """File of speed, force and workspace limits for a robot (docs/limits.md). Default: the task's own at the pace `realtime`."""
    no_limits: bool = False
    """Move a robot without any limits. Otherwise a robot needs a file of limits."""
    asking: tyro.conf.OmitArgPrefixes[AskingConfig] = field(default_factory=AskingConfig)
    sync: bool = False
    """Actor and learner take turns in one thread: reproducible to the last bit; no processes, no port, no page."""
    launcher: Literal["local", "ray"] = "local"
    """What starts the actors: this machine, or a Ray cluster (docs/scale.md). Hub and trainer always run here."""
    cluster: ClusterArgs = field(default_factory=ClusterArgs)


@dataclass(frozen=True)
class LearnerArgs(RunArgs):
    """The learner's half of RLPD: hub and trainer. Actors join with `tandem actor TASK --learner HOST:PORT`."""

    port: int = DEFAULT_PORT
    """Port for actors, page and API; 0: any free port."""
    host: str = "127.0.0.1"
    """Address to listen on. 0.0.0.0 lets other machines in, and needs a certificate."""
    certificate: Path | None = None
    """TLS certificate (PEM); actors pass a self-signed one with --ca."""
    key: Path | None = None
    """Private key of the certificate."""
    insecure: bool = False
    """Listen without TLS where other machines can read along; without this, that is refused."""
    host_name: tuple[str, ...] = ()
    """Names by which others call this machine in their links and --learner options, where that is not its address or its own name."""
    session_hours: float = 12.0
    """Hours that a page stays logged in."""
    timeout: float = 10.0
    """Seconds without a message from an actor after which it counts as gone."""
    max_actors: int = MAX_ACTORS
    """Actors that may be connected at the same time (docs/scale.md)."""


@dataclass(frozen=True)
class PPOArgs:
    """Learn a task with PPO, on many simulations at once."""

    task: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")] = None
    """A task (see `tandem tasks`), a Gymnasium id, or module:Id."""
    config: tyro.conf.OmitArgPrefixes[OnPolicyConfig] = field(default_factory=OnPolicyConfig)
    resume: Path | None = None
    """Continue this run from its newest checkpoint, with its own settings except those that are given."""
    run: Path | None = None
    """Folder of the run. Default: runs/TASK_ppo_TIME."""
    preset: str | None = None
    """Preset whose settings are the defaults. Default: the one named after the task, else `rsl_rl` for a task of Tandem's
    kind, which is stepped in a batch, and `gym_mujoco` (16 environments) for every other environment."""
    rsl_rl_config: Path | None = None
    """Runner configuration of rsl_rl 4.x or 5.x (YAML or JSON) whose settings are the defaults."""
    launcher: Literal["local", "ray"] = "local"
    """Where the simulations run: on this machine, or on a Ray cluster (docs/scale.md). The policy is always trained here."""
    collectors: int = 2
    """With `--launcher ray`: places that share the simulations."""
    cluster: ClusterArgs = field(default_factory=ClusterArgs)
    quiet: bool = False
    """Print only the summary."""
    json: bool = False
    """Print one JSON object per line."""
    verbose: bool = False
    """Print every iteration."""


Run = TypeVar("Run", bound=RunArgs)


def read_run_args(kind: type[Run], args: Sequence[str], prog: str) -> Run:
    """The command line of `tandem train` or `tandem learner`."""
    typed = typed_options(kind, args)
    with_demos = bool(typed.config.demos or typed.scripted_demos)
    task = typed.task or ""
    one_robot = kind is LearnerArgs or typed.config.pace == "realtime" or task.startswith(("ws://", "wss://")) or is_http_robot(task)
    if typed.horizon is not None and typed.resume is not None:
        raise ConfigError(f"--resume {typed.resume} and --horizon {typed.horizon}: a run keeps the horizon that it was started with")

    def read(cameras: bool) -> Run:
        config = starting_config(typed.task, typed.recipe, typed.resume, with_demos=with_demos, one_robot=one_robot, cameras=cameras)
        return tyro.cli(kind, args=args, default=kind(config=config if typed.horizon is None else automatic(config)), prog=prog)

    asked = read(cameras=False)
    return asked if typed.recipe or typed.resume or not with_demos else replace(asked, for_cameras=read(cameras=True).config)


def read_ppo_args(args: Sequence[str], prog: str) -> PPOArgs:
    """The command line of `tandem ppo`."""
    typed = typed_options(PPOArgs, args)
    config = ppo_starting_config(typed.task, typed.preset, typed.resume, typed.rsl_rl_config, typed.config.num_envs)
    return tyro.cli(PPOArgs, args=args, default=PPOArgs(config=config), prog=prog)


def typed_options(kind: type, args: Sequence[str]) -> Any:
    """An object with the fields of `kind`: the values that were typed, None for numbers, words and paths that were not.

    Nothing is checked and nothing is printed here: whether values fit together depends on the defaults that are still to be found,
    and a mistake or --help is answered by the reading with those defaults.
    """
    without_help = [arg for arg in args if arg not in ("-h", "--help")]
    try:
        return tyro.cli(_unchecked(kind), args=without_help, console_outputs=False)
    except SystemExit:  # a mistake
        return _unchecked(kind)()


def _unchecked(kind: type) -> type:
    """A dataclass with the same options, every one optional, and no `__post_init__`."""
    hints = get_type_hints(kind, include_extras=True)
    return dataclasses.make_dataclass(
        f"Typed{kind.__name__}", [_unchecked_field(each, hints[each.name]) for each in dataclasses.fields(kind)]
    )


def _unchecked_field(each: dataclasses.Field[Any], hint: Any) -> tuple[str, Any, Any]:
    bare, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    default: Any = field(default=None)
    if dataclasses.is_dataclass(bare):
        assert isinstance(bare, type)
        bare = _unchecked(bare)
        default = field(default_factory=bare)
    elif isinstance(each.default, (bool, tuple)):  # a flag, or any number of values: they cannot be None
        default = field(default=each.default)
    else:
        bare = bare | None
    return each.name, Annotated[(bare, *marks)] if marks else bare, default
