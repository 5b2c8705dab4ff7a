"""A synchronous run: its parts are made here, then actor and learner take turns in one thread (`turns.py`)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tandem.acting.actor import Actor
from tandem.acting.operators import DEVICES, make_operators
from tandem.acting.person_reward import reward_source
from tandem.acting.self_help import attach, with_self_help
from tandem.data.journal import Journal
from tandem.envs.registry import make_env
from tandem.envs.task_env import TaskEnv, ending
from tandem.errors import ConfigError
from tandem.files import private_files, write_atomically
from tandem.learnable import sees
from tandem.link.inproc import InprocLink
from tandem.off_policy.config import TrainConfig, require_learnable
from tandem.off_policy.horizon import settle
from tandem.off_policy.recipes import chosen_for
from tandem.off_policy.run_spec import decide_spec, resumed_spec
from tandem.off_policy.saving import restore_with_actor, save_with_actor
from tandem.off_policy.trainer import Trainer
from tandem.off_policy.transfer import starting_policy
from tandem.off_policy.turns import take_turns
from tandem.rewards.named import judged_by
from tandem.runs.campaign import Watch
from tandem.runs.checkpoint import restoring
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.runs.loggers import WandB
from tandem.runs.stopping import interruptible
from tandem.teleop.operator import ResumableOperator
from tandem.types import PolicySnapshot, Spec

if TYPE_CHECKING:
    from tandem.acting.demo_starts import DemoStarts
    from tandem.networks.encoders.encoder import Encoder

Turns = Callable[[Trainer, Actor, Journal], str]
"""Trains until something ends it, and says what."""


@private_files()
def train(
    config: TrainConfig,
    path: Path,
    display: Display,
    *,
    resume: bool = False,
    init_from: Path | None = None,
    watch: Watch | None = None,
    turns: Turns | None = None,
    for_cameras: TrainConfig | None = None,
) -> dict[str, Any]:
    """Train until a limit is reached or the person presses Ctrl-C; returns the summary that is also in the run folder.

    `turns` is the loop, for benchmarks that have rules of their own about when to look and to stop; None: `take_turns`. `for_cameras`:
    the settings in the place of `config` where the environment has cameras (`recipes.chosen_for`).
    """
    env, encoder = make_env(config.task, config.num_envs), None
    config = chosen_for(env.spec, config, for_cameras, display.say)
    rule, judged = (RunFolder(path).rule(), env.spec) if resume else judged_by(config.reward_source, env.spec)
    if sees(env.spec):
        env, encoder, config = _with_eyes(env, config, path, display, resume, init_from, rule)
        judged = encoder.spec(judged, privileged=config.agent.critics_know_more)
    require_learnable(env.spec, config.agent.critics_know_more)
    spec, demos = resumed_spec(path, env.spec, config.demos) if resume else decide_spec(judged, config.demos, init_from, display.say)
    config = settle(config, demos, spec.control_hz, display.say)
    _require_no_real_time(config, env)
    nobody = config.operator == "browser"  # there is no page to a run without a port
    operators, _ = make_operators("none" if nobody else config.operator, env, config.seed)
    starts = _starts(config) if config.demo_starts else None
    start = starting_policy(init_from, spec, config.agent, config.seed, display.say) if init_from is not None else None
    if config.wandb:
        WandB.require()
    # nothing above has written anything: what cannot be used leaves no folder behind
    run = RunFolder.resume(path) if resume else RunFolder.create(path, "rlpd", config, spec)
    _keep(run, encoder, rule)
    run.add_loggers(config.wandb)
    with ending(env), _open_journal(run, spec, resume) as journal, display:
        link = InprocLink(journal)
        trainer = Trainer(config, run, spec, demos, display, link)
        trainer.campaign.watch = watch or trainer.campaign.watch
        actor = _make_actor(trainer, env, link, operators, starts, rule)
        if resume:
            with restoring(run.checkpoints):
                restore_with_actor(trainer, actor, journal)
        else:
            _begin(trainer, actor, start)
        with interruptible(trainer):
            try:
                reason = (turns or take_turns)(trainer, actor, journal)
            finally:
                trainer.write_row()
        save_with_actor(trainer, actor, journal)
        summary = trainer.finish(reason)
    run.close()
    return summary


def _make_actor(
    trainer: Trainer, env: TaskEnv, link: InprocLink, operators: Sequence[ResumableOperator], starts: DemoStarts | None, rule: bytes
) -> Actor:
    config, spec = trainer.config, trainer.spec
    helping = with_self_help(operators, spec, config.num_envs, config.seed) if config.notice else []
    actor = Actor(
        env,
        link,
        helping or operators,
        source=f"actor-{uuid.uuid4().hex[:12]}",
        seed=config.seed,
        random_steps=config.random_steps,
        deterministic_share=config.deterministic_share,
        deterministic_from=config.deterministic_from,
        starts=starts,
        say=trainer.log,
        broken=trainer.run.broken,
        rewards=reward_source(config.reward_source, env.spec, config.num_envs, rule),
        spec=spec,
    )
    attach(helping, actor)
    return actor


def _require_no_real_time(config: TrainConfig, env: TaskEnv) -> None:
    if config.operator in DEVICES or config.reward_source == "person":
        raise ConfigError(
            f"--sync with operator '{config.operator}' and reward source '{config.reward_source}': synchronous training does not run in "
            "real time, so no person can take part. Leave --sync out, or use --operator person:scripted."
        )
    if env.capabilities.clock == "real":
        env.close()
        raise ConfigError(f"--sync is not for a robot: it does not run in real time, and the clock of environment '{config.task}' is real")


def _keep(run: RunFolder, encoder: Encoder | None, rule: bytes) -> None:
    """What its observations and rewards come from, for a resume and for everybody who reads the run later."""
    if encoder is not None:
        encoder.write(run.encoder_file)
    if rule:
        write_atomically(run.rule_file, rule)


def _with_eyes(
    env: TaskEnv, config: TrainConfig, path: Path, display: Display, resume: bool, init_from: Path | None, rule: bytes
) -> tuple[TaskEnv, Encoder, TrainConfig]:
    """The environment with features in the place of pictures, the encoder, and the settings with encoded demonstrations."""
    from tandem.acting.eyes import EncodedEnv  # only runs with cameras need it
    from tandem.off_policy.eyes import open_eyes

    encoder, config = open_eyes(env.spec, config, path, resume=resume, init_from=init_from, rule=rule, say=display.say)
    return EncodedEnv(env, encoder, config.keep_pictures, config.agent.critics_know_more), encoder, config


def _starts(config: TrainConfig) -> DemoStarts:
    from tandem.acting.demo_starts import demo_starts  # only runs that begin in demonstrations need it

    return demo_starts(config.task, config.demos, config.demo_starts, config.demo_starts_steps)


def _open_journal(run: RunFolder, spec: Spec, resume: bool) -> Journal:
    """No step is acknowledged here, and a run that broke off makes its steps again: no commit waits for the disk."""
    if resume:
        return Journal.open(run.journal, spec, read_only=False, durability="process")
    return Journal.create(run.journal, spec, durability="process")


def _begin(trainer: Trainer, actor: Actor, start: PolicySnapshot | None) -> None:
    trainer.begin(start)
    actor.begin()
