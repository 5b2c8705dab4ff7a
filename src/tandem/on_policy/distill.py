"""Distil a teacher into a student that sees less: `tandem distill TASK --teacher RUN --student-entries ...`.

The teacher may use observations that no robot can measure. The student acts in the simulations with the entries that a robot has, the
teacher labels each state with its own action, and the student learns to imitate it. Recurrent layers can make up for what it does not see.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from tandem.acting.judge import Judge
from tandem.acting.policy import load_policy, numpy_policy
from tandem.agents.distillation import Distillation, LabelledRollout, LossType
from tandem.agents.ppo_config import PPOConfig
from tandem.envs.registry import make_batch
from tandem.envs.task_env import ending
from tandem.errors import ConfigError
from tandem.files import private_files
from tandem.learnable import require_continuous
from tandem.networks.numpy_recurrent import NumpyRecurrent
from tandem.networks.recurrent import RNNType
from tandem.on_policy.collector import Collector, reset_memory
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.run import NUMPY_ROWS, agent_for, policy_kind_of
from tandem.runs.campaign import Campaign, StopRules
from tandem.runs.clocks import Clocks
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder, this_machine
from tandem.runs.stopping import interruptible
from tandem.types import Metrics, PolicySnapshot, Spec


@dataclass(frozen=True)
class DistillConfig:
    """Settings of a distillation run. Names are those of rsl_rl where it has them."""

    student_entries: tuple[str, ...] = ()
    """Observation entries that the student sees. Default: all."""
    hidden_dims: tuple[int, ...] = (128, 128, 128)
    """Units of the student's hidden layers."""
    activation: Literal["tanh", "relu", "swish", "elu"] = "elu"
    """Activation function of every hidden layer."""
    rnn_type: RNNType = "none"
    """Type of the recurrent layers before the hidden layers."""
    rnn_hidden_dim: int = 128
    """Units of each recurrent layer."""
    rnn_num_layers: int = 1
    """Number of recurrent layers."""
    init_std: float = 0.1
    """Standard deviation of the student's actions while it acts. It is not learned."""
    obs_normalization: bool = False
    """Normalise the student's observations to mean 0 and variance 1."""

    num_learning_epochs: int = 1
    """Epochs over each rollout."""
    gradient_length: int = 15
    """Steps of back-propagation through time; there is one gradient step for every so many steps."""
    learning_rate: float = 1e-3
    """Learning rate of Adam."""
    max_grad_norm: float | None = None
    """Largest gradient norm. Default: no limit."""
    loss_type: LossType = "mse"
    """Loss between the student's action and the teacher's."""

    seed: int = 0
    """Random seed for network, noise and simulations."""
    num_envs: int = 64
    """Simulations stepped together."""
    num_steps_per_env: int = 30
    """Steps of each simulation in one iteration."""
    max_iterations: int = 200
    """Iterations after which the run ends."""
    max_minutes: float | None = None
    """Stop after this many minutes."""
    eval_period: int = 25
    """Iterations between two evaluations. 0: no evaluation."""
    eval_episodes: int = 20
    """Episodes of an evaluation."""
    final_episodes: int = 100
    """Episodes of the final evaluation of student and teacher, on seeds that were not used to choose the policy."""

    def __post_init__(self) -> None:
        for name in ("num_learning_epochs", "gradient_length", "num_envs", "num_steps_per_env", "max_iterations"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.loss_type not in ("mse", "huber"):
            raise ConfigError(f"loss_type must be mse or huber, got '{self.loss_type}'")
        if self.max_grad_norm is not None and not self.max_grad_norm > 0:
            raise ConfigError(f"max_grad_norm must be above 0, got {self.max_grad_norm}")

    def on_policy(self, task: str) -> OnPolicyConfig:
        """The student as a policy of PPO, for the collector and the policy file."""
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
    """Train a student policy to imitate a teacher that sees more."""

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A task (see `tandem tasks`), a Gymnasium id, or module:Id."""
    teacher: Path
    """The teacher's run folder or policy file: of PPO, RLPD or behaviour cloning."""
    config: tyro.conf.OmitArgPrefixes[DistillConfig] = field(default_factory=DistillConfig)
    run: Path | None = None
    """Run folder of the student. Default: runs/TASK_distill_TIME."""
    quiet: bool = False
    """Print only the summary."""
    json: bool = False
    """Print one JSON object per line."""


class Teacher:
    """Labels a rollout with the actions of another policy, of any kind. Its hidden state follows the student's episodes."""

    def __init__(self, snapshot: PolicySnapshot, num_envs: int) -> None:
        self._policy = numpy_policy(snapshot)
        self._memory = self._policy.begin(num_envs) if isinstance(self._policy, NumpyRecurrent) else np.zeros((num_envs, 0), np.float32)

    def actions(self, observations: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Actions `(T, N, action_dim)` in [-1, 1] for scaled observations `(T, N, D)` with all entries of the task."""
        clip = self._policy.observation_clip
        observations = np.clip(observations, -clip, clip) if np.isfinite(clip) else observations
        if not isinstance(self._policy, NumpyRecurrent):
            return self._policy.mode(observations)
        actions = []
        for x, end in zip(observations, ended, strict=True):
            action, memory = self._policy.mode(x, self._memory)
            self._memory = reset_memory(memory, end)
            actions.append(action)
        return np.stack(actions)


class DistillRun:
    """All parts of one distillation run."""

    def __init__(self, config: DistillConfig, teacher: PolicySnapshot, run: RunFolder, env: Any, display: Display) -> None:
        self.config, self.run, self.display = config, run, display
        self.spec: Spec = env.task_spec
        on_policy = config.on_policy(self.spec.task)
        self.agent = agent_for(on_policy, self.spec)
        self.collector = Collector(on_policy, env, self.agent.memory_sizes[0])
        self.networks = self.agent.init(config.seed)
        self.teacher = Teacher(teacher, config.num_envs)
        self.learning = Distillation(
            config.num_learning_epochs, config.gradient_length, config.learning_rate, config.max_grad_norm, config.loss_type
        )
        self.student = self.learning.init(self.networks.actor)
        self.iterations = self._version = 0
        self._teacher_policy = teacher
        self._judge = Judge(
            self.spec.task, self.spec, config.seed, eval_episodes=config.eval_episodes, final_episodes=config.final_episodes
        )
        rules = StopRules(config.max_iterations, config.max_minutes, steps_setting="max_iterations")
        self.campaign = Campaign(run, self.spec, display, rules, evaluate=self._judge.score, judge=self._judge_both)

    def stop(self, reason: str) -> None:
        self.campaign.stop(reason)

    def loop(self) -> str:
        """Until something says stop; returns the reason."""
        self.collector.begin()
        while self.campaign.stop_reason is None:
            self.iterate()
        return self.campaign.stop_reason

    def iterate(self) -> None:
        """The student acts, the teacher labels, the student learns."""
        config = self.config
        self.networks = self.networks._replace(actor=self.student.actor)
        rollout = self.collector.collect(self.agent.make_act(self.networks, with_numpy=config.num_envs <= NUMPY_ROWS))
        labels = self.teacher.actions(np.stack(self.collector.scaled), rollout.ended)
        columns = self.agent.actor_columns
        inputs = rollout.observations if columns is None else rollout.observations[..., np.array(columns)]
        self.student, loss = self.learning.update(self.student, LabelledRollout(inputs, rollout.ended, labels, rollout.memory))
        if config.obs_normalization:
            self.collector.normaliser.advance()
        self.iterations += 1
        metrics: Metrics = {"Loss/behavior": float(loss), **self.collector.episodes.metrics()}
        self.campaign.report(self.clocks, metrics)
        if config.eval_period and self.iterations % config.eval_period == 0:
            at = f"iteration {self.iterations:,} (behaviour loss {float(loss):.4f})"
            self.campaign.evaluate(self.snapshot(), self.clocks, at)
        self.campaign.check_limits(self.iterations)

    @property
    def clocks(self) -> Clocks:
        return Clocks(self.iterations, self.collector.steps, self._version)

    def snapshot(self) -> PolicySnapshot:
        self._version = self.run.next_version()
        normaliser, state = self.collector.normaliser, self.networks._replace(actor=self.student.actor)
        parameters = self.agent.policy_parameters(state, normaliser.mean, normaliser.std, normaliser.clip)
        return PolicySnapshot(self._version, self.iterations, parameters, policy_kind_of(self.agent.config))

    def _judge_both(self, student: PolicySnapshot) -> dict[str, Any]:
        """The student, and for comparison its teacher in the same episodes."""
        if not self.config.final_episodes:
            return {}
        return {**self._judge.final(student), "teacher": self._judge.on_final_seeds(self._teacher_policy)}

    def finish(self, reason: str) -> dict[str, Any]:
        """Keep the latest student, judge the best one, and sum up."""
        latest = self.snapshot()
        self.campaign.keep_latest(latest)
        return self.campaign.finish(reason, self.clocks, latest, command="distill", **self.collector.episodes.metrics())


@private_files()
def distill(args: DistillArgs, path: Path, display: Display) -> dict[str, Any]:
    """Train until a limit is reached or Ctrl-C is pressed. Returns the summary, which is also in the run folder."""
    env = make_batch(args.task, args.config.num_envs)
    spec = env.task_spec
    require_continuous(spec, "Distillation")
    teacher = load_policy(args.teacher, spec=spec)[0]
    agent_for(args.config.on_policy(args.task), spec)  # an impossible configuration is refused before there is a folder
    run = RunFolder.create(path, "distill", args, spec)
    run.add_loggers()
    run.event("started", seed=args.config.seed, **this_machine())
    with ending(env), display:
        parts = DistillRun(args.config, teacher, run, env, display)
        with interruptible(parts):
            reason = parts.loop()
        summary = parts.finish(reason)
    run.close()
    return summary
