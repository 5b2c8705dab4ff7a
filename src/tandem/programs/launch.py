"""From a command line to the processes of a run: the folder, the hub, the trainer and the actors."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tandem.acting.asking import AskingConfig
from tandem.acting.demo_starts import require_restorable
from tandem.acting.limits import Asked, limits_for
from tandem.acting.policy import policy_to_start_from
from tandem.envs.registry import spec_for
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError, PackageMissing
from tandem.files import DURABILITY_IN_WORDS, private_files, write_atomically
from tandem.learnable import sees
from tandem.link.access import AccessFile
from tandem.link.listening import plaintext_warning
from tandem.off_policy.config import TrainConfig, require_learnable
from tandem.off_policy.horizon import settle
from tandem.off_policy.recipes import chosen_for
from tandem.off_policy.run_spec import decide_spec
from tandem.programs.actor import require_pace
from tandem.programs.arguments import MAX_ACTORS, LearnerArgs, RunArgs, TrainArgs
from tandem.programs.cluster import WITHOUT_RAY, ClusterArgs, RayLauncher
from tandem.programs.launcher import Launcher, LocalLauncher, Part
from tandem.programs.page import page_installed
from tandem.programs.parts import actor_part, dagger_part, hub_part, trainer_part
from tandem.programs.placed_part import AT
from tandem.programs.supervisor import Supervisor
from tandem.programs.terminal import errors, say
from tandem.rewards.named import judged_by
from tandem.runs.display import Display
from tandem.runs.folder import Kind, RunFolder, plain
from tandem.runs.loggers import WandB

NO_PAGE = f"no page: {PackageMissing('the page', 'nicegui')}"


@dataclass(frozen=True)
class Listening:
    """How the hub listens; the names are those of `HubConfig`."""

    host: str = "127.0.0.1"
    certificate: Path | None = None
    key: Path | None = None
    timeout_s: float = 10.0
    insecure: bool = False
    host_names: tuple[str, ...] = ()
    session_hours: float = 12.0
    max_actors: int = MAX_ACTORS


@private_files()
def train_here(
    asked: TrainArgs, config: TrainConfig, path: Path, display: Display, launcher: Launcher | None = None, kind: Kind = "rlpd"
) -> dict[str, Any]:
    """`tandem train`, and `tandem dagger` by its `kind`: hub, trainer and actors, as processes on this machine unless another launcher is
    given."""
    if asked.actors < 1:
        raise ConfigError(f"--actors must be at least 1, got {asked.actors}; `tandem learner` waits for actors that are started elsewhere")
    listening = listening_of(asked)
    require_learners(asked, "tandem dagger" if kind == "dagger" else "")
    run, config = _prepare(asked, config, path, display, lambda env: _may_move(asked, config, env), kind)
    if asked.resume is None:
        AccessFile(run).make_for_actors()
    asked = replace(asked, port=asked.port or _free_port(listening.host))
    actors = [actor_part(i, actor_arguments(asked, config, path, i)) for i in range(asked.actors)]
    return _run(run, asked, config, display, launcher or _launcher(asked, config, run, display), actors, listening)


def listening_of(asked: TrainArgs) -> Listening:
    """Here alone, unless actors run on other machines."""
    cluster, most = asked.cluster, max(MAX_ACTORS, 2 * asked.actors)
    if asked.launcher == "local" and cluster != ClusterArgs():
        raise ConfigError(WITHOUT_RAY)
    if (cluster.certificate is None) != (cluster.key is None):
        raise ConfigError("--cluster.certificate and --cluster.key are needed together: one of them is missing")
    if cluster.host is None:
        return Listening(max_actors=most)
    plaintext_warning(cluster.host, cluster.certificate, cluster.insecure)
    return Listening(cluster.host, cluster.certificate, cluster.key, insecure=cluster.insecure, max_actors=most)


def _launcher(asked: TrainArgs, config: TrainConfig, run: RunFolder, display: Display) -> Launcher:
    if asked.launcher == "local":
        return LocalLauncher()
    sent = {"token": _actors_token(run), "certificate": asked.cluster.certificate, "limits": asked.limits}
    files = {name: file.read_bytes() for name, file in sent.items() if file is not None}

    def restarted(part: str) -> None:
        run.event("restarted", part=part, signal="node lost")

    return RayLauncher(asked.cluster, display.say, task=config.task, files=files, restarted=restarted)


@private_files()
def learn_here(asked: LearnerArgs, config: TrainConfig, path: Path, display: Display) -> dict[str, Any]:
    """`tandem learner`: hub and trainer on this machine; actors join over the network."""
    if (asked.certificate is None) != (asked.key is None):
        raise ConfigError("--certificate and --key are needed together: one of them is missing")
    warning = plaintext_warning(asked.host, asked.certificate, asked.insecure)
    if asked.session_hours <= 0:
        raise ConfigError(f"--session-hours must be more than 0, got {asked.session_hours}")
    require_learners(asked)
    run, config = _prepare(asked, config, path, display)
    display.say(f"actors join with: tandem actor {config.task} --learner {_reachable(asked)} --token-file {run.token_file}")
    if warning:
        say(warning, where=errors)  # also where nothing else is printed
    listening = Listening(
        asked.host,
        asked.certificate,
        asked.key,
        asked.timeout,
        asked.insecure,
        tuple(asked.host_name),
        asked.session_hours,
        asked.max_actors,
    )
    return _run(run, asked, config, display, LocalLauncher(), [], listening)


def _run(
    run: RunFolder,
    asked: RunArgs,
    config: TrainConfig,
    display: Display,
    launcher: Launcher,
    actors: Sequence[Part],
    listening: Listening,
) -> dict[str, Any]:
    host = listening.host
    display.say(f"durability '{asked.durability}': {DURABILITY_IN_WORDS[asked.durability]}")
    port = asked.port or _free_port(host)  # chosen once: a hub that is started again is found where it was
    page = f"page: {_page_link(run, host, port, listening.certificate is not None)}" if page_installed() else NO_PAGE
    hub = hub_part(
        run.path,
        port=port,
        **plain(listening),
        disk_reserve_mb=asked.disk_reserve_mb,
        durability=asked.durability,
        steps_per_update=config.steps_per_update,
        actor_settings={
            "seed": config.seed,
            "random_steps": config.random_steps,
            "deterministic_share": config.deterministic_share,
            "deterministic_from": config.deterministic_from,
            "demo_starts": _demo_starts_setting(config),
            "reward_source": config.reward_source,
            "notice": config.notice,
            "scales": run.spec.scales(),
            **_encoder_setting(run, config),
        },
    )
    settings = {"config": plain(config), "init_from": plain(asked.init_from), "mode": display.mode, "verbose": display.verbose}
    if run.kind == "dagger":
        trainer = dagger_part(run.path, **settings)
    else:
        trainer = trainer_part(run.path, **settings, learners=asked.learners, learners_address=asked.learners_address)
        for number in range(1, asked.learners):
            part = f"tandem learner-part {asked.learners_address} --number {number} --of {asked.learners}"
            display.say(f"process {number} of the learner starts with: {part}")
    supervisor = Supervisor(run.path, launcher, display.say, run.event, listening=lambda: display.say(page))
    return supervisor.supervise(hub, trainer, actors)


def _demo_starts_setting(config: TrainConfig) -> dict[str, Any] | None:
    """Where some episodes begin, for the actors; they execute the demonstrations again, and so need the files."""
    if not config.demo_starts:
        return None
    files = [str(file.absolute()) for file in config.demos]
    return {"files": files, "share": config.demo_starts, "steps": config.demo_starts_steps}


def _encoder_setting(run: RunFolder, config: TrainConfig) -> dict[str, Any]:
    """For actors of a run with cameras: its encoder as text, and whether they send their pictures; nothing in any other run."""
    if not run.encoder_file.exists():
        return {}
    encoder = base64.b64encode(run.encoder_file.read_bytes()).decode()
    return {"encoder": encoder, "keep_pictures": config.keep_pictures, "privileged": config.agent.critics_know_more}


def _may_move(asked: TrainArgs, config: TrainConfig, env: TaskEnv) -> None:
    """What the actors would refuse is refused before there is a run."""
    require_pace(config.task, env, config.pace)
    if config.demo_starts:
        require_restorable(config.task, env)
    limits_for(config.task, env, Asked(asked.limits, asked.no_limits), realtime=config.pace == "realtime")


def require_learners(asked: RunArgs, what: str = "") -> None:
    """`what`: how a run is trained that one process learns."""
    if asked.learners < 1:
        raise ConfigError(f"--learners must be at least 1, got {asked.learners}")
    if asked.learners > 1 and what:
        raise ConfigError(f"--learners {asked.learners}: {what} is learned in one process. Leave it out.")


def _prepare(
    asked: RunArgs,
    config: TrainConfig,
    path: Path,
    display: Display,
    look: Callable[[TaskEnv], None] = lambda env: None,
    kind: Kind = "rlpd",
) -> tuple[RunFolder, TrainConfig]:
    """The run folder, and the settings with what follows from the demonstrations.

    Demonstrations or a policy that cannot be used are refused before the folder is made; `look` sees the environment and may refuse it.
    """
    if asked.resume is not None:
        run = RunFolder.resume(path)
        if run.encoder_file.exists():
            from tandem.off_policy.eyes import require_memory  # only runs with cameras need it

            require_memory(run.spec, config, display.say)
        return run, config
    spec, encoder = spec_for(config.task, look), None
    config = chosen_for(spec, config, asked.for_cameras, display.say)
    rule, spec = judged_by(config.reward_source, spec)
    if sees(spec):
        from tandem.off_policy.eyes import open_eyes  # only runs with cameras need it

        encoder, config = open_eyes(spec, config, path, init_from=asked.init_from, rule=rule, clones=kind == "dagger", say=display.say)
        spec = encoder.spec(spec, privileged=config.agent.critics_know_more)
    require_learnable(spec, config.agent.critics_know_more)
    spec, demos = decide_spec(spec, config.demos, asked.init_from, display.say)
    if kind == "rlpd":  # rewards, and so the discount, play no part elsewhere
        config = settle(config, demos, spec.control_hz, display.say)
    if asked.init_from is not None:
        policy_to_start_from(asked.init_from, spec)
    if config.wandb:
        WandB.require()
    run = RunFolder.create(path, kind, config, spec)
    if encoder is not None:
        encoder.write(run.encoder_file)
    if rule:
        write_atomically(run.rule_file, rule)
        own = "; demonstrations keep those of their files (`tandem reward apply` computes them anew)" if config.demos else ""
        display.say(f"rewards: {spec.reward}{own}")
    return run, config


def actor_arguments(asked: TrainArgs, config: TrainConfig, run: Path, number: int) -> list[str]:
    return [
        config.task,
        *(_near(asked, run) if asked.cluster.host is None else _far(asked)),
        *("--name", f"actor {number}"),
        *("--pace", config.pace),
        *("--operator", config.operator),
        *("--num-envs", str(config.num_envs)),
        *(("--no-limits",) if asked.no_limits else ()),
        *(_asking_arguments(asked.asking) if config.notice else ()),
        *("--durability", asked.durability),
    ]


def _near(asked: TrainArgs, run: Path) -> list[str]:
    """An actor that sees the run folder."""
    return [
        *("--run", str(run)),
        # not from TANDEM_TOKEN, which may be that of a served environment
        *("--token-file", str(_actors_token(RunFolder(run)))),
        *("--spool", str(RunFolder(run).spool)),
        *(("--limits", str(asked.limits.absolute())) if asked.limits is not None else ()),
    ]


def _far(asked: TrainArgs) -> list[str]:
    """An actor on another machine of a cluster: the files that it needs are put there (`PlacedPart`)."""
    secure = asked.cluster.certificate is not None
    return [
        *("--learner", f"{'wss://' if secure else ''}{asked.cluster.host}:{asked.port}"),
        *("--token-file", f"{AT}token"),
        *(("--ca", f"{AT}certificate") if secure else ()),
        *(("--limits", f"{AT}limits") if asked.limits is not None else ()),
    ]


def _actors_token(run: RunFolder) -> Path:
    """An older run goes on with its token: it brought its sources."""
    return run.actors_token_file if run.actors_token_file.exists() else run.token_file


def _asking_arguments(asking: AskingConfig) -> list[str]:
    return [
        "--get-out" if asking.get_out else "--no-get-out",
        *("--while-asking", asking.while_asking),
        *("--ask-timeout", str(asking.ask_timeout)),
        *("--asks", str(asking.asks)),
        *(("--webhook", asking.webhook) if asking.webhook else ()),
    ]


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as listening:
        return listening.getsockname()[1]


def _page_link(run: RunFolder, host: str, port: int, tls: bool) -> str:
    """With the token, which lets a browser in; the address of this machine for a hub that listens on all addresses."""
    here = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{here}:{port}/?token={run.token}"


def _reachable(asked: LearnerArgs) -> str:
    host = "HOST" if asked.host in ("0.0.0.0", "::") else asked.host
    return f"{'wss://' if asked.certificate else ''}{host}:{asked.port or 'PORT'}"
