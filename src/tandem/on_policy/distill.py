"""A student that sees less than its teacher: `tandem distill TASK --teacher RUN --student-entries ...`.

The teacher may have learned from what no robot measures. The student acts in the simulations with what one does measure, the teacher
says what it would have done, and the student learns that. It may have memory, to make up for what it does not see.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from tandem.acting.evaluate import FINAL_SEEDS, SELECTION_SEEDS, evaluate, has_success
from tandem.acting.policy import act_with, describe, load_policy
from tandem.agents.distillation import Distillation, Lesson, LossType
from tandem.agents.ppo import PPOConfig
from tandem.agents.recurrent_ppo import RecurrentPPO
from tandem.envs.registry import make_batch
from tandem.errors import ConfigError
from tandem.networks.numpy_policy import NumpyRecurrent, numpy_policy
from tandem.networks.recurrent import RNNType
from tandem.on_policy.collector import Collector, forgotten
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.rollout_model import reading_of
from tandem.on_policy.run import FEW, agent_for, policy_kind_of
from tandem.runs.checkpoint import write_policy
from tandem.runs.clocks import Clocks
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder, this_machine
from tandem.runs.loggers import TensorBoard
from tandem.runs.stopping import INTERRUPTED, interruptible
from tandem.types import Metrics, PolicySnapshot, Spec


@dataclass(frozen=True)
class DistillConfig:
    """What a student is asked to do. Names are rsl_rl's where it has them."""

    student_entries: tuple[str, ...] = ()
    """Observation entries that the student sees. Default: all."""
    hidden_dims: tuple[int, ...] = (128, 128, 128)
    """Units of the student's hidden layers."""
    activation: Literal["tanh", "relu", "swish", "elu"] = "elu"
    """Of every hidden layer."""
    rnn_type: RNNType = "none"
    """Recurrent layers before them, to remember by what is not seen."""
    rnn_hidden_dim: int = 128
    """Units of each of them."""
    rnn_num_layers: int = 1
    """How many."""
    init_std: float = 0.1
    """Noise of the student's actions; it stays as it is."""
    obs_normalization: bool = False
    """The student's observations to mean 0 and variance 1."""

    num_learning_epochs: int = 1
    """Times that a rollout is learned from."""
    gradient_length: int = 15
    """Steps that a gradient reaches back, and after which one is made."""
    learning_rate: float = 1e-3
    """Of the student's Adam."""
    max_grad_norm: float | None = None
    """Longest gradient. Default: any."""
    loss_type: LossType = "mse"
    """Of the distance between the student's action and the teacher's."""

    seed: int = 0
    """Of the network, the noise and the simulations."""
    num_envs: int = 64
    """Simulations stepped together."""
    num_steps_per_env: int = 30
    """Steps of each of them in one iteration."""
    max_iterations: int = 200
    """Iterations after which it ends."""
    max_minutes: float | None = None
    """Stop after this time."""
    eval_period: int = 25
    """Iterations between two evaluations; 0: none."""
    eval_episodes: int = 20
    """Episodes of an evaluation."""
    final_episodes: int = 100
    """Episodes of the last one, of the student and of the teacher, on seeds that nothing was chosen by."""

    def __post_init__(self) -> None:
        for name in ("num_learning_epochs", "gradient_length", "num_envs", "num_steps_per_env", "max_iterations"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.loss_type not in ("mse", "huber"):
            raise ConfigError(f"loss_type must be mse or huber, got '{self.loss_type}'")
        if self.max_grad_norm is not None and not self.max_grad_norm > 0:
            raise ConfigError(f"max_grad_norm must be above 0, got {self.max_grad_norm}")

    def on_policy(self, task: str) -> OnPolicyConfig:
        """The student as PPO's policy, for the collector and the policy file: it is one like any other."""
        network = PPOConfig(
            actor_hidden_dims=self.hidden_dims,
            critic_hidden_dims=(1,),
            activation=self.activation,
            init_std=self.init_std,
            std_range=(min(0.01, self.init_std / 10), max(10.0, self.init_std * 10)),
            actor_rnn_type=self.rnn_type,
            actor_rnn_hidden_dim=self.rnn_hidden_dim,
            actor_rnn_num_layers=self.rnn_num_layers,
            num_mini_batches=1,
        )
        return OnPolicyConfig(
            task=task,
            agent=network,
            seed=self.seed,
            num_envs=self.num_envs,
            num_steps_per_env=self.num_steps_per_env,
            obs_normalization=self.obs_normalization,
            actor_entries=self.student_entries,
            eval_period=0,
        )


@dataclass(frozen=True)
class DistillArgs:
    """Teach a policy that sees less to do what one that sees more does."""

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A task (see `tandem tasks`), a Gymnasium id, or module:Id."""
    teacher: Path
    """The teacher's run folder or policy file; PPO's, RLPD's or a clone's."""
    config: tyro.conf.OmitArgPrefixes[DistillConfig] = field(default_factory=DistillConfig)
    run: Path | None = None
    """Folder of the student's run. Default: runs/TASK_distill_TIME."""
    quiet: bool = False
    """Only the summary."""
    json: bool = False
    """One JSON object per line."""


class Teacher:
    """What another policy would have done, whatever kind it is of; its memory follows the student's episodes."""

    def __init__(self, snapshot: PolicySnapshot, num_envs: int) -> None:
        self._policy = numpy_policy(snapshot)
        self._memory = self._policy.begin(num_envs) if isinstance(self._policy, NumpyRecurrent) else np.zeros((num_envs, 0), np.float32)

    def actions(self, seen: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """For scaled observations `(T, N, D)` of all that the task shows: `(T, N, action_dim)` in [-1, 1]."""
        clip = self._policy.observation_clip
        seen = np.clip(seen, -clip, clip) if np.isfinite(clip) else seen
        if not isinstance(self._policy, NumpyRecurrent):
            return self._policy.mode(seen)
        wanted = []
        for x, end in zip(seen, ended, strict=True):
            action, memory = self._policy.mode(x, self._memory)
            self._memory = forgotten(memory, end)
            wanted.append(action)
        return np.stack(wanted)


class DistillRun:
    """All parts of one student's education."""

    def __init__(self, config: DistillConfig, teacher: PolicySnapshot, run: RunFolder, env: Any, display: Display) -> None:
        self.config, self.run, self.display = config, run, display
        self.spec: Spec = env.task_spec
        on_policy = config.on_policy(self.spec.task)
        self.agent = agent_for(on_policy, self.spec)
        self.reading = reading_of(self.agent, config.num_envs)
        self.collector = Collector(on_policy, env, self.reading.actor_memory_dim)
        self.networks = self.agent.init(config.seed)
        self.teacher = Teacher(teacher, config.num_envs)
        self.learning = Distillation(
            config.num_learning_epochs, config.gradient_length, config.learning_rate, config.max_grad_norm, config.loss_type
        )
        self.student = self.learning.init(self.networks.actor)
        self._columns = (self.agent.ppo if isinstance(self.agent, RecurrentPPO) else self.agent).actor_columns
        self.iterations = self._version = 0
        self.best: PolicySnapshot | None = None
        self._best_score = -np.inf
        self._stop_reason: str | None = None

    def stop(self, reason: str) -> None:
        self._stop_reason = reason

    def loop(self) -> str:
        """Until something says stop; returns the reason."""
        self.collector.begin()
        while self._stop_reason is None:
            self.iterate()
        return self._stop_reason

    def iterate(self) -> None:
        """The student acts, the teacher says what it would have done, the student learns it."""
        config = self.config
        self.networks = self.networks._replace(actor=self.student.actor)
        rollout = self.collector.collect(self.reading.acting(self.networks, by_numpy=config.num_envs <= FEW))
        wanted = self.teacher.actions(np.stack(self.collector.lived), rollout.ended)
        seen = rollout.observations if self._columns is None else rollout.observations[..., np.array(self._columns)]
        self.student, loss = self.learning.update(self.student, Lesson(seen, rollout.ended, wanted, rollout.memory))
        if config.obs_normalization:
            self.collector.normaliser.advance()
        self.iterations += 1
        metrics: Metrics = {"Loss/behavior": float(loss), **self.collector.episodes.metrics()}
        self.run.log_metrics(self.clocks, metrics)
        self.display.metrics_row(self.clocks, metrics)
        if config.eval_period and self.iterations % config.eval_period == 0:
            self._evaluate(float(loss))
        if self.iterations >= config.max_iterations:
            self.stop(f"max_iterations ({config.max_iterations:,}) reached")
        if config.max_minutes is not None and self.run.wall_s >= config.max_minutes * 60:
            self.stop(f"max_minutes ({config.max_minutes:g}) reached")

    @property
    def clocks(self) -> Clocks:
        return Clocks(self.iterations, self.collector.steps, self._version)

    def snapshot(self) -> PolicySnapshot:
        self._version = self.run.next_version()
        normaliser, state = self.collector.normaliser, self.networks._replace(actor=self.student.actor)
        parameters = self.agent.policy_parameters(state, normaliser.mean, normaliser.std, normaliser.clip)
        return PolicySnapshot(self._version, self.iterations, parameters, policy_kind_of(self.agent.config))

    def _evaluate(self, loss: float) -> None:
        """On seeds of its own, without noise; the best student is kept."""
        snapshot = self.snapshot()
        seeds = range(SELECTION_SEEDS, SELECTION_SEEDS + self.config.eval_episodes)
        result = evaluate(self.spec.task, act_with(snapshot, self.spec), seeds)
        mean, rate = float(result.returns.mean()), float(result.rate.value)
        self.run.log_metrics(self.clocks, {"eval/success": rate, "eval/return": mean, "eval/length": float(result.length.mean())})
        outcome = f"success {result.rate}" if has_success(self.spec) else f"return {mean:.1f}"
        self.display.say(f"evaluation at iteration {self.iterations:,}: {outcome}; behaviour loss {loss:.4f}")
        score = rate if has_success(self.spec) else mean
        if score >= self._best_score:
            self._best_score, self.best = score, snapshot
            write_policy(self.run.checkpoints / "best.safetensors", snapshot, self.spec, score=score, learned_by="distill")

    def finish(self, reason: str, teacher: PolicySnapshot, evaluate_finally: bool) -> dict[str, Any]:
        last = self.snapshot()
        write_policy(self.run.checkpoints / "latest.safetensors", last, self.spec, learned_by="distill")
        chosen = self.best or last
        summary: dict[str, Any] = {
            "command": "distill",
            "task": self.spec.task,
            "stopped": reason,
            "learner_step": self.iterations,
            "actor_step": self.collector.steps,
            "policy_version": self._version,
            "minutes": self.run.wall_s / 60,
            "best_learner_step": chosen.learner_step,
            **self.collector.episodes.metrics(),
        }
        if evaluate_finally and self.config.final_episodes:
            seeds = range(FINAL_SEEDS, FINAL_SEEDS + self.config.final_episodes)
            for name, policy, seed in (
                ("deterministic", chosen, None),
                ("stochastic", chosen, self.config.seed),
                ("teacher", teacher, None),
            ):
                summary[name] = describe(evaluate(self.spec.task, act_with(policy, self.spec, seed), seeds), self.spec)
        self.run.summarise(summary)
        self.run.event("stopped", reason=reason)
        return summary


def distill(args: DistillArgs, path: Path, display: Display) -> dict[str, Any]:
    """Teach until a limit is reached or the person presses Ctrl-C; returns the summary that is also in the run folder."""
    env = make_batch(args.task, args.config.num_envs)
    spec = env.task_spec
    teacher = load_policy(args.teacher, spec=spec)[0]
    agent_for(args.config.on_policy(args.task), spec)  # what cannot be is refused before there is a folder
    run = RunFolder.create(path, args, spec)
    run.loggers.add(TensorBoard(path / "tensorboard"))
    run.event("started", seed=args.config.seed, **this_machine())
    with display:
        parts = DistillRun(args.config, teacher, run, env, display)
        with interruptible(parts):
            reason = parts.loop()
        summary = parts.finish(reason, teacher, evaluate_finally=reason != INTERRUPTED)
    run.close()
    env.close()
    return summary
