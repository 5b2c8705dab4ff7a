"""Behaviour cloning as a run: the same demonstrations, the same network, the same folder and evaluation as RLPD."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from tandem.acting.evaluate import evaluate
from tandem.acting.policy import act_with, describe
from tandem.agents.bc import BCConfig, clone, start_as_clone
from tandem.agents.sac import SAC
from tandem.agents.sac_config import SACConfig
from tandem.agents.sac_start import agent_for
from tandem.data.replay import Replay
from tandem.envs.registry import spec_for
from tandem.errors import ConfigError
from tandem.files import private_files
from tandem.layouts import ActionLayout, Layout
from tandem.learnable import sees
from tandem.networks.numpy_heads import NumpyHeads
from tandem.off_policy.config import TrainConfig, require_learnable
from tandem.off_policy.run_spec import decide_spec
from tandem.runs.checkpoint import write_policy
from tandem.runs.clocks import Clocks
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.seeding import episode_seeds
from tandem.types import Batch, PolicySnapshot


@dataclass(frozen=True)
class CloneArgs:
    """Clone demonstrations: a baseline, and a start for `tandem train --init-from RUN`."""

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """The task that was demonstrated."""
    demos: tuple[Path, ...]
    """Files of demonstrations."""
    config: tyro.conf.OmitArgPrefixes[BCConfig] = field(default_factory=BCConfig)
    hidden: tuple[int, ...] = SACConfig.hidden
    """Units of the hidden layers; the same as in the run that it will start."""
    encoder: str = "efficientnet-lite0"
    """What turns pictures into features, for tasks with cameras: efficientnet-lite0, random-lite0, resnet10:FILE or end-to-end."""
    seed: int = 0
    """Random seed for the network, the batches and the choice of validation episodes."""
    final_episodes: int = 100
    """Episodes of the evaluation of each of the two policies."""
    run: Path | None = None
    """Folder of the run. Default: runs/TASK_bc_TIME."""
    quiet: bool = False
    """Print only the summary."""
    json: bool = False
    """Print one JSON object per line."""


@private_files()
def clone_demos(args: CloneArgs, path: Path, display: Display) -> dict[str, Any]:
    """Write two policies to one run folder: `best` predicts held-out episodes best, `latest` was trained to the last step."""
    if not args.demos:
        raise ConfigError("nothing to clone: give --demos FILE")
    clocks_seen: list[str] = []
    spec, demos, encoder = spec_for(args.task, lambda env: clocks_seen.append(env.capabilities.clock)), args.demos, None
    if sees(spec):
        from tandem.off_policy.eyes import encoded_demos  # only tasks with cameras need it

        encoder, demos = encoded_demos(spec, args.demos, None, args.encoder, display.say)
        spec = encoder.spec(spec)
    require_learnable(spec)
    spec, steps = decide_spec(spec, demos, say=display.say)
    names = {name: number for number, name in enumerate(dict.fromkeys((step.source, step.episode) for step in steps))}
    observations = Layout(spec).flatten({name: np.stack([step.observation[name] for step in steps]) for name in spec.observation})
    actions, layout = np.stack([step.action for step in steps]), ActionLayout.of(spec)
    episodes = np.array([names[step.source, step.episode] for step in steps])

    run = RunFolder.create(path, "bc", args, spec)
    display.say(f"cloning {len(steps):,} steps of {len(names)} episodes")
    network = SACConfig(hidden=args.hidden)
    features = {name: np.stack([step.observation[name] for step in steps]) for name in Layout(spec).raw_names}
    result = clone(args.config, network, observations, actions[:, ~layout.is_discrete], episodes, args.seed, features)
    grasp = agent_for(network, spec).grasp
    for number, (train_loss, validation_loss) in enumerate(zip(result.train_losses, result.validation_losses, strict=True), start=1):
        clocks = Clocks(learner_step=number * args.config.eval_period, actor_step=0, policy_version=0)
        run.log_metrics(clocks, {"bc/train_loss": train_loss, "bc/validation_loss": validation_loss})
    summary: dict[str, Any] = {"task": args.task, "stopped": "validation plateau", "learner_step": result.last_step, "actor_step": 0}
    evaluated = args.final_episodes if clocks_seen == ["simulated"] else 0
    if evaluated < args.final_episodes:
        display.say("no evaluation: a robot moves when somebody types it. tandem eval ROBOT --policy RUN")
    seeds = episode_seeds(args.seed, "final", args.final_episodes)
    for file, key, parameters, step in (
        (run.best_policy, "deterministic", result.best, result.best_step),
        (run.latest_policy, "trained_long", result.last, result.last_step),
    ):
        seen = NumpyHeads(parameters)(observations, features) if features else observations
        further = {} if grasp is None else grasp.cloned(_without_returns(seen, actions), step, args.seed)
        further |= {} if encoder is None else encoder.arrays()
        snapshot = PolicySnapshot(run.next_version(), step, parameters | further)
        write_policy(file, snapshot, spec, learned_by="bc")
        if evaluated:
            summary[key] = describe(evaluate(args.task, act_with(snapshot, spec), seeds), spec)
            known = summary[key]["success_known"]
            display.say(
                f"{file.stem} (update {step:,}): "
                + (f"success {summary[key]['success']:.0%}" if known else f"return {summary[key]['return']:.2f}")
            )
    summary |= {"policy_version": 2, "minutes": run.wall_s / 60, "best_learner_step": result.best_step}
    run.summarise(summary)
    run.close()
    return summary


def _without_returns(observations: np.ndarray, actions: np.ndarray) -> Batch:
    """Demonstrations of which only the actions count: what was shown is worth 0 everywhere, and everything else less."""
    none = np.zeros(len(actions), np.float32)
    return Batch(observations, actions, none, none, observations, bounds=none, switches=none, switches_ahead=none)


def clone_to_start_from(config: TrainConfig, agent: SAC, demos: Replay) -> PolicySnapshot:
    """A policy that imitates the demonstrations, for RLPD to start from."""
    batch, axes = demos.rows(np.arange(len(demos))), ~ActionLayout.of(demos.spec).is_discrete
    parameters = start_as_clone(config.agent, batch.observations, batch.actions[:, axes], config.clone_steps, config.seed)
    if agent.grasp is not None:
        parameters |= agent.grasp.cloned(batch, config.clone_steps, config.seed)
    return PolicySnapshot(0, 0, parameters)
