"""Behaviour cloning as a run: the same demonstrations, the same network, the same folder and evaluation as RLPD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from tandem.acting.evaluate import evaluate
from tandem.acting.policy import act_with, describe
from tandem.agents.bc import BCConfig, clone, start_as_clone, validation_episodes
from tandem.agents.sac import SAC
from tandem.agents.sac_config import SACConfig
from tandem.agents.sac_start import agent_for
from tandem.data.replay import Replay
from tandem.envs.registry import spec_for
from tandem.errors import ConfigError
from tandem.files import private_files
from tandem.layouts import ActionLayout, Layout
from tandem.learnable import sees
from tandem.networks.numpy_chunks import CHUNK, NumpyChunks
from tandem.networks.numpy_heads import NumpyHeads
from tandem.networks.numpy_policy import acting_policy
from tandem.off_policy.clone_report import report_clone
from tandem.off_policy.config import TrainConfig, require_learnable
from tandem.off_policy.run_spec import decide_spec
from tandem.runs.checkpoint import write_policy
from tandem.runs.clocks import Clocks
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.seeding import episode_seeds
from tandem.types import Batch, PolicySnapshot, Spec


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
    chunk: int = 1
    """Actions that the policy decides at once and executes before it looks again. Above 1: such a policy can act, but RLPD cannot start
    from it, and it cannot be exported."""
    run: Path | None = None
    """Folder of the run. Default: runs/TASK_bc_TIME."""
    quiet: bool = False
    """Print only the summary."""
    json: bool = False
    """Print one JSON object per line."""


@private_files()
def clone_demos(args: CloneArgs, path: Path, display: Display) -> dict[str, Any]:
    """Write two policies to one run folder: `best` predicts held-out episodes best, `latest` was trained to the last step."""
    if not args.demos or args.chunk < 1:
        raise ConfigError("nothing to clone: give --demos FILE" if not args.demos else f"--chunk is at least 1, got {args.chunk}")
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
    shown = chunked(actions, episodes, args.chunk, layout) if args.chunk > 1 else actions[:, ~layout.is_discrete]
    result = clone(args.config, network, observations, shown, episodes, args.seed, features)
    grasp = agent_for(network, spec).grasp
    held_out = validation_episodes(args.config, episodes, args.seed)
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
        further |= {CHUNK: np.array(args.chunk, np.int32)} if args.chunk > 1 else {}
        snapshot = PolicySnapshot(run.next_version(), step, parameters | further)
        write_policy(file, snapshot, spec, learned_by="bc")
        report = report_clone(spec, _predicted(snapshot, seen, spec.action_dim), actions, episodes, held_out)
        summary[f"{key}_held_out"] = report.to_json()
        display.say(f"{file.stem}, after update {step:,}:")
        for line in report.lines():
            display.say(line)
        if evaluated:
            summary[key] = _rolled_out(args.task, snapshot, spec, seeds, display)
    summary |= {"policy_version": 2, "minutes": run.wall_s / 60, "best_learner_step": result.best_step}
    run.summarise(summary)
    run.close()
    return summary


def _predicted(snapshot: PolicySnapshot, seen: np.ndarray, action_dim: int) -> np.ndarray:
    """(N, action_dim): the first action of each decision. `seen` is what comes after the heads of its cameras."""
    policy = NumpyChunks(snapshot.parameters).policy if CHUNK in snapshot.parameters else acting_policy(snapshot)
    return policy.mode(seen)[:, :action_dim]


def _rolled_out(task: str, snapshot: PolicySnapshot, spec: Spec, seeds: Sequence[int], display: Display) -> dict[str, Any]:
    """Episodes of the policy alone: success with its interval, and how much it moves."""
    found = evaluate(task, act_with(snapshot, spec), seeds)
    said = f"success {found.rate}" if found.success_known else f"return {found.returns.mean():.2f}"
    display.say(f"  {len(seeds)} episodes of its own: {said}, {found.length.mean():.0f} actions in the mean")
    return describe(found, spec)


def chunked(actions: np.ndarray, episodes: np.ndarray, chunk: int, layout: ActionLayout) -> np.ndarray:
    """(N, chunk * action_dim): the action of each step and those that follow it in its episode; after the end the robot stands still."""
    if not layout.all_continuous:
        raise ConfigError(f"--chunk {chunk} takes a task whose action is continuous; this one has a discrete part")
    result = np.empty((len(actions), chunk, layout.size), np.float32)
    for number in np.unique(episodes):
        rows = np.flatnonzero(episodes == number)
        resting = np.where(layout.stays, actions[rows[-1]], 0.0)  # an absolute command stays where it is
        longer = np.concatenate([actions[rows], np.tile(resting, (chunk, 1))])
        for later in range(chunk):
            result[rows, later] = longer[later : later + len(rows)]
    return result.reshape(len(actions), -1)


def _without_returns(observations: np.ndarray, actions: np.ndarray) -> Batch:
    """Demonstrations of which only the actions count: what was shown is worth 0 everywhere, and everything else less."""
    none = np.zeros(len(actions), np.float32)
    return Batch(observations, actions, none, none, observations, bounds=none, switches=none, switches_ahead=none)


def clone_to_start_from(config: TrainConfig, agent: SAC, demos: Replay) -> PolicySnapshot:
    """A policy that imitates the demonstrations, for RLPD to start from."""
    batch, axes = demos.rows(np.arange(len(demos))), ~ActionLayout.of(demos.spec).is_discrete
    known = batch.observations[:, : agent.observation_dim]
    state = batch.observations[:, np.array(agent.told)] if config.agent.state_loss else None
    parameters = start_as_clone(config.agent, known, batch.actions[:, axes], config.clone_steps, config.seed, batch.raw, state)
    if agent.grasp is not None:  # what acts sees through the heads that the arm's clone has learned
        seen = NumpyHeads(parameters)(known, batch.raw) if batch.raw else known
        batch = batch._replace(observations=np.asarray(agent.known_to_critics(batch.observations)) if agent.privileged else seen)
        parameters |= agent.grasp.cloned(batch, config.clone_steps, config.seed, seen)
    return PolicySnapshot(0, 0, parameters)
