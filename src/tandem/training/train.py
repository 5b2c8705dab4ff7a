"""Synchronous training: actor and learner in one thread, k steps of the environments for each learner step.

Reproducible to the last bit on the same machine, and resumable the same way. Nothing is waited for that need not be: an update is
computed in the background while the simulations make their next step.
"""

from __future__ import annotations

import dataclasses
import math
import signal
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gymnasium.vector import VectorEnv

from tandem.agents.sac import SAC
from tandem.data.demos import load_demos
from tandem.data.journal import Journal
from tandem.envs.registry import make_batch
from tandem.errors import SpecMismatch
from tandem.link.inproc import InprocLink
from tandem.observations import Layout
from tandem.teleop.operator import HandsOff
from tandem.training.actor import Actor
from tandem.training.checkpoint import newest_checkpoint, read_checkpoint, read_policy, write_checkpoint, write_policy
from tandem.training.config import TrainConfig
from tandem.training.display import Display
from tandem.training.evaluate import FINAL_SEEDS, SELECTION_SEEDS, evaluate
from tandem.training.learner import Learner
from tandem.training.loggers import TensorBoard, WandB
from tandem.training.policy import act_with, describe, load_policy
from tandem.training.run import Clocks, RunFolder
from tandem.training.transfer import as_sac_policy, learned_by_ppo
from tandem.types import PolicySnapshot, Spec, Transition


@dataclass
class Progress:
    """What the choice of the best policy and the end of the run depend on."""

    credit: float = 0.0
    best: float = -math.inf
    best_step: int = -1
    reached: int = 0
    """Evaluations in a row at or above `stop_success`."""


class Run:
    """All parts of one synchronous run."""

    def __init__(
        self, config: TrainConfig, run: RunFolder, env: VectorEnv, demos: Sequence[Transition], display: Display, journal: Journal
    ) -> None:
        self.config, self.run, self.env, self.display, self.journal = config, run, env, display, journal
        self.spec: Spec = env.task_spec  # pyright: ignore[reportAttributeAccessIssue]
        self.link = InprocLink(journal)
        agent = SAC(config.agent, Layout(self.spec).size, self.spec.action_dim, self.spec.return_range)
        self.learner = Learner(config, self.spec, agent, self.link, run, demos, self.log)
        source = f"actor-{uuid.uuid4().hex[:12]}"
        operators = [HandsOff()] * env.num_envs
        self.actor = Actor(env, self.link, operators, source=source, seed=config.seed, random_steps=config.random_steps, say=self.log)
        ends = sum(step.last for step in demos)
        self._demo_seconds = len(demos) / ends / self.spec.control_hz if ends else None
        self.progress = Progress()
        self.best: PolicySnapshot | None = None
        self._stop_reason: str | None = None
        self._said: set[str] = set()
        self.log(f"demo buffer size: {len(self.learner.demos)}")

    def log(self, line: str) -> None:
        """Every line goes to train.log; the first of its kind to the terminal too."""
        self.run.log_line(line)
        kind = line.split(" at step")[0].split(" (")[0]
        if self.display.verbose or kind not in self._said:
            self._said.add(kind)
            self.display.say(line)

    @property
    def clocks(self) -> Clocks:
        return Clocks(self.learner.steps, self.actor.steps, self.learner.version)

    def begin(self, start: PolicySnapshot | None) -> None:
        """A new run, from random parameters or from a policy that exists."""
        self.run.event("started", seed=self.config.seed, init_from=None if start is None else start.hash)
        self.log(f"online buffer size: {len(self.learner.online)}")
        if start is not None:
            self.learner.start_from(start)
        while self.learner.steps < self.config.pretrain_steps:
            self.learner.step()
            self.display.waiting("training on demonstrations alone", self.learner.steps, self.config.pretrain_steps)
        self.learner.publish()
        self.log("sent initial network to actor")
        self.actor.begin()

    def loop(self) -> str:
        """Until something says stop; returns the reason."""
        config, learner, actor = self.config, self.learner, self.actor
        while self._stop_reason is None:
            while self.progress.credit >= 1 and self._stop_reason is None:
                self.progress.credit -= 1
                learner.step()
                self._after_learner_step()
            if self._stop_reason is not None:
                break  # no step of the environment that nothing would be learned from
            actor.step()
            learner.take_in()
            if learner.ready:
                self.progress.credit += config.updates_per_actor_step * self.env.num_envs
            else:
                self.display.waiting("Filling up replay buffer", len(learner.online), config.training_starts)
                self._check_time()
        return self._stop_reason

    def stop(self, reason: str) -> None:
        self._stop_reason = reason

    def _after_learner_step(self) -> None:
        config, step = self.config, self.learner.steps
        if step % config.log_period == 0:
            metrics = self.learner.latest | self.learner.episodes.metrics() | self._clock_metrics()
            self.run.log_metrics(self.clocks, metrics)
            self.display.metrics_row(self.clocks, metrics)
        self.display.training(self.clocks, config.max_steps, self.learner.episodes.success_rate, self.learner.latest, self._seconds_left())
        if config.eval_period and step % config.eval_period == 0 and self._worth_evaluating():
            self._evaluate()
        if step % config.checkpoint_period == 0:
            self.save()
        if step >= config.max_steps:
            self.stop(f"max_steps ({config.max_steps:,}) reached")
        self._check_time()

    def _worth_evaluating(self) -> bool:
        """A policy that fails takes the longest to evaluate and is not the one to stop with: it waits until half of what is wanted."""
        if self.config.stop_success is None:
            return True
        return (self.learner.episodes.success_rate or 0.0) >= self.config.stop_success / 2

    def _check_time(self) -> None:
        left = self._seconds_left()
        if left is not None and left <= 0:
            self.stop(f"max_minutes ({self.config.max_minutes:g}) reached")

    def _seconds_left(self) -> float | None:
        return None if self.config.max_minutes is None else self.config.max_minutes * 60 - self.run.wall_s

    def _clock_metrics(self) -> dict[str, float]:
        lag = self.learner.version - (self.actor.snapshot.version if self.actor.snapshot else 0)
        return {"clock/policy_lag": float(lag), "clock/online_transitions": float(len(self.learner.online))}

    def _evaluate(self) -> None:
        """On seeds of its own; keeps the best policy, and stops when it is good enough twice in a row."""
        snapshot = PolicySnapshot(self.learner.version, self.learner.steps, self.learner.agent.policy_parameters(self.learner.state))
        result = evaluate(
            self.config.task, act_with(snapshot, self.spec), range(SELECTION_SEEDS, SELECTION_SEEDS + self.config.eval_episodes)
        )
        score = float(result.rate.value) if has_success(self.spec) else float(result.returns.mean())
        metrics = {
            "eval/success": float(result.rate.value),
            "eval/return": float(result.returns.mean()),
            "eval/length": float(result.length.mean()),
        }
        self.run.log_metrics(self.clocks, metrics)
        self.display.metrics_row(self.clocks, metrics)
        clock = f"{self.run.wall_s / 60:.1f} min, learner step {self.learner.steps:,}, actor step {self.actor.steps:,}"
        outcome = f"success {result.rate}" if has_success(self.spec) else f"return {result.returns.mean():.1f}"
        self.display.say(f"evaluation at {clock}: {outcome}, {result.length.mean():.1f} actions")
        if score >= self.progress.best:
            self.progress.best, self.progress.best_step, self.best = score, self.learner.steps, snapshot
            write_policy(self.run.checkpoints / "best.safetensors", snapshot, self.spec, score=score)
        if self.config.stop_success is not None:
            self.progress.reached = self.progress.reached + 1 if result.rate.value >= self.config.stop_success else 0
            if self.progress.reached >= self.config.stop_evaluations:
                self.stop(f"stop_success ({self.config.stop_success:g}) reached in {self.progress.reached} evaluations in a row")

    def save(self) -> Path:
        arrays, learner = self.learner.checkpoint()
        meta = {
            "actor_step": self.actor.steps,
            "ord": self.link.ord,
            "policy_version": self.learner.version,
            "wall_s": self.run.wall_s,
            "incarnation": self.run.incarnation,
            "spec_hash": self.spec.hash,
        }
        loops = {"learner": learner, "actor": self.actor.state(), "progress": dataclasses.asdict(self.progress)}
        return write_checkpoint(self.run.checkpoints, self.learner.steps, arrays, loops, meta)

    def restore(self) -> None:
        """Where the newest checkpoint was; in simulation bit for bit, elsewhere with the same data and a new episode."""
        checkpoint = read_checkpoint(newest_checkpoint(self.run.checkpoints))
        meta = checkpoint.meta
        if meta["spec_hash"] != self.spec.hash:
            raise SpecMismatch(f"run {self.run.path} was trained on another spec: {'; '.join(self.spec.difference(self.run.spec))}")
        self.run.incarnation, self.run.wall_before = meta["incarnation"] + 1, meta["wall_s"]
        exact = checkpoint.loops["actor"]["env"] is not None
        position = meta["ord"]
        if exact:
            self.journal.forget_after(position)  # they will be lived again, the same
        start = self.journal.start_of_last(self.config.replay_buffer_capacity, up_to_ord=position)
        self.learner.remember([step for _, step in self.journal.read(start, up_to_ord=position)])
        self.link.ord = position
        self.learner.restore(dict(checkpoint.agent), checkpoint.loops["learner"])
        self.progress = Progress(**checkpoint.loops["progress"])
        self.actor.restore(checkpoint.loops["actor"])
        best = self.run.checkpoints / "best.safetensors"
        if self.progress.best_step >= 0 and best.exists():
            self.best = read_policy(best, self.spec)[0]
        self.run.event("resumed", learner_step=self.learner.steps, exact=exact)
        self.display.say(f"resumed {self.run.path} at learner step {self.learner.steps:,}, actor step {self.actor.steps:,}")

    def finish(self, reason: str, evaluate_finally: bool) -> dict[str, Any]:
        """Save, judge the best policy on seeds that nothing was chosen by, and sum up."""
        self.save()
        snapshot = PolicySnapshot(self.learner.version, self.learner.steps, self.learner.agent.policy_parameters(self.learner.state))
        write_policy(self.run.checkpoints / "latest.safetensors", snapshot, self.spec)
        summary: dict[str, Any] = {
            "task": self.config.task,
            "stopped": reason,
            **dataclasses.asdict(self.clocks),
            "minutes": self.run.wall_s / 60,
            "demo_transitions": len(self.learner.demos),
            "demo_seconds": self._demo_seconds,
            "rolled_back": self.learner.rolled_back,
            "best_learner_step": self.best.learner_step if self.best else self.learner.steps,
        }
        if evaluate_finally and self.config.final_episodes:
            chosen = self.best or snapshot
            seeds = range(FINAL_SEEDS, FINAL_SEEDS + self.config.final_episodes)
            for name, stochastic_seed in (("deterministic", None), ("stochastic", self.config.seed)):
                summary[name] = describe(evaluate(self.config.task, act_with(chosen, self.spec, stochastic_seed), seeds), self.spec)
            summary["minutes"] = self.run.wall_s / 60
        self.run.summarise(summary)
        self.run.event("stopped", reason=reason, **dataclasses.asdict(self.clocks))
        return summary


def train(config: TrainConfig, path: Path, display: Display, *, resume: bool = False, init_from: Path | None = None) -> dict[str, Any]:
    """Train until a limit is reached or the person presses Ctrl-C; returns the summary that is also in the run folder."""
    env = make_batch(config.task, config.num_envs)
    spec: Spec = env.task_spec  # pyright: ignore[reportAttributeAccessIssue]
    demos = [step for file in config.demos for step in load_demos(file, spec)]
    start = _start(config, spec, init_from, display) if init_from is not None else None
    if config.wandb:
        WandB.require()
    # nothing above has written anything: what cannot be used leaves no folder behind
    run = RunFolder.open(path) if resume else RunFolder.create(path, config, spec)
    run.loggers.add(TensorBoard(path / "tensorboard"))
    if config.wandb:
        run.loggers.add(WandB(config.wandb, path, run.config))
    with Journal.open(run.journal, spec, read_only=False) if resume else Journal.create(run.journal, spec) as journal, display:
        parts = Run(config, run, env, demos, display, journal)
        if resume:
            parts.restore()
        else:
            parts.begin(start)
        with interruptible(parts):
            reason = parts.loop()
        summary = parts.finish(reason, evaluate_finally=reason != INTERRUPTED)
    run.close()
    env.close()
    return summary


def _start(config: TrainConfig, spec: Spec, path: Path, display: Display) -> PolicySnapshot:
    """The policy of another run; PPO's is of another kind, and cloned."""
    snapshot = load_policy(path, spec=spec)[0]
    if not learned_by_ppo(snapshot):
        return snapshot
    display.say(f"cloning the PPO policy of {path} (iteration {snapshot.learner_step:,})")
    snapshot, difference = as_sac_policy(snapshot, spec, config.agent, config.seed)
    display.say(f"its actions are met to {difference:.3f} (root mean square)")
    return snapshot


INTERRUPTED = "interrupted"


class Stoppable(Protocol):
    def stop(self, reason: str) -> None: ...


class interruptible:
    """Ctrl-C ends the loop after the step it is in; a second one ends the program."""

    def __init__(self, parts: Stoppable) -> None:
        self._parts = parts

    def __enter__(self) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        try:
            signal.signal(signal.SIGINT, self._stop)
        except ValueError:  # not the main thread: whoever runs us handles signals
            self._before = None

    def _stop(self, *_: object) -> None:
        self._parts.stop(INTERRUPTED)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)


def has_success(spec: Spec) -> bool:
    """Whether success is a notion of the task; a foreign environment has only its return."""
    return spec.return_range is not None
