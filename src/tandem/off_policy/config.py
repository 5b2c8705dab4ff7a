"""The configuration of an RLPD run. Names and defaults are those of hil-serl; settings that it does not have are marked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import tyro

from tandem.acting.judge import check_share
from tandem.acting.operators import check_operator
from tandem.agents.sac_config import SACConfig
from tandem.data.mixing import DEMO_SHARE
from tandem.decisions import Between, Decisions
from tandem.errors import ConfigError
from tandem.learnable import require_roles
from tandem.networks.encoders.trunks import check_name
from tandem.rewards.named import check_source
from tandem.types import Spec


@dataclass(frozen=True)
class TrainConfig:
    """RLPD: SAC on batches of half demonstrations, half the robot's own steps."""

    task: tyro.conf.Suppress[str] = ""
    agent: SACConfig = field(default_factory=SACConfig)

    seed: int = 0
    """Random seed for networks, sampling, exploration and simulations."""
    demos: tuple[Path, ...] = ()
    """Files of demonstrations, in any format that `tandem demos import` reads. Without any: learn from online data alone."""
    max_steps: int = 1_000_000
    """Learner steps after which training ends."""
    batch_size: int = 256
    """Transitions per update; half of them (`initial_demo_ratio`) come from demonstrations, if there are any."""
    initial_demo_ratio: float = DEMO_SHARE
    """Share of a batch from demonstrations when the robot's own steps begin to count, after `pretrain_steps` (not in hil-serl: 0.5)."""
    final_demo_ratio: float = DEMO_SHARE
    """The same at the end of `demo_ratio_anneal_steps` learner steps, over which it changes linearly (not in hil-serl: 0.5)."""
    demo_ratio_anneal_steps: int = 20_000
    """Learner steps from the one share to the other (not in hil-serl)."""
    training_starts: int = 100
    """Actor steps in the replay buffer before the first update."""
    random_steps: int = 0
    """Actor steps with uniform random actions before the policy acts."""
    decision_steps: int | Literal["auto"] = 1
    """Control steps of a decision: the policy decides every so many, which long tasks with small actions need (docs/long-tasks.md). The
    discount stays that of one control step, and n_step counts decisions. auto: from the demonstrations (not in hil-serl)."""
    between_decisions: Between = "hold"
    """What is executed until the next decision: hold (the same action), or interpolate (from the last executed action to the decided
    one; fewer jerks, and it takes the whole decision to get there) (not in hil-serl)."""
    deterministic_share: float = 0.0
    """Share of the episodes that are acted without exploration noise, once the policy is skilled (`deterministic_from`). It is judged
    without noise; where it would stand still then, noise hides it from the critics (not in hil-serl)."""
    deterministic_from: float = 0.9
    """Success of the last 20 episodes from which on the policy counts as skilled (not in hil-serl)."""
    demo_starts: float = 0.0
    """Share of the training episodes that begin in the middle of a demonstration; simulations only (not in hil-serl)."""
    demo_starts_steps: int = 20_000
    """Actor steps over which that share falls to 0 (not in hil-serl)."""
    pretrain_steps: int = 0
    """Learner steps on the demonstrations alone before the robot moves; no policy is published before they are done."""
    clone_steps: int = 0
    """Updates of cloning the demonstrations before the robot moves: the policy starts as their clone. 0: it starts from random
    parameters, or from --init-from (not in hil-serl)."""
    critic_steps: int = 0
    """Learner steps at the start in which only the critics learn, and until 10 episodes have ended: a policy that starts from a clone or
    from --init-from is not moved by critics that know nothing yet (not in hil-serl)."""
    steps_per_update: int = 50
    """Learner steps between two publications of the policy."""
    replay_buffer_capacity: int = 200_000
    """Transitions kept in each of the two replay buffers, demonstrations and online data."""
    encoder: str = "efficientnet-lite0"
    """Frozen network that turns pictures into features, for tasks with cameras: efficientnet-lite0 (trained on ImageNet), random-lite0 (for
    comparison), resnet10:FILE, hil-serl's resnet10_params.pkl or LeRobot's model.safetensors, or end-to-end: none, and a convolutional
    network that learns to see (for a GPU)."""
    keep_pictures: bool = True
    """Keep what the cameras of a training showed, each picture once and without loss, in the journal of the run: for people, and for
    another encoder. Drawn pictures take about 4 kB each, those of a sensor 25 kB at 128 x 128 (not in hil-serl)."""
    log_period: int = 10
    """Learner steps between two rows of metrics."""
    checkpoint_period: int = 5000
    """Learner steps between two checkpoints."""

    num_envs: int = 1
    """Simulations that an actor steps at once (not in hil-serl)."""
    pace: Literal["fast", "realtime"] = "fast"
    """Speed of the actors that are started with the run: as fast as the learner keeps up, or the task's control rate (not in hil-serl)."""
    operator: str = "browser"
    """Who may take over the robots of the actors that are started with the run: browser (a page), none, person:scripted (a script that
    corrects with the task's expert; docs/when-to-help.md has others), spacemouse, gamepad, or module:Class (your own,
    docs/demonstrations.md) (not in hil-serl)."""
    notice: bool = False
    """Notice when a robot is stuck: it tries to get out by itself, and then asks a person for help (docs/person-in-the-loop.md). The
    policies carry two critics for it (not in hil-serl)."""
    reward_source: str = "simulation"
    """Where rewards come from: simulation (the environment), person (success and failure labels), classifier:FILE or conditions:FILE
    (docs/rewards.md) (not in hil-serl)."""
    updates_per_actor_step: float = 1.0
    """Learner steps per actor step, at most; actors at pace `fast` wait so that the ratio is kept (not in hil-serl)."""
    eval_period: int = 1000
    """Learner steps between two evaluations; 0: no evaluations (not in hil-serl)."""
    eval_episodes: int = 50
    """Episodes of an evaluation during training (not in hil-serl)."""
    eval_share: float = 0.2
    """Largest share of the training time for evaluations of an environment that is not Tandem's own, and so is stepped alone: they get
    fewer episodes and become rarer. 0: no bound (not in hil-serl)."""
    eval_stochastic: bool = False
    """Evaluate during training with sampled actions instead of the most likely ones (not in hil-serl)."""
    final_episodes: int = 100
    """Episodes of the final evaluation, on seeds that were not used for any choice (not in hil-serl)."""
    stop_success: float | None = None
    """Stop when `stop_evaluations` evaluations in a row have at least this success rate (not in hil-serl)."""
    stop_evaluations: int = 2
    """How many evaluations in a row `stop_success` takes; one alone may be luck (not in hil-serl)."""
    max_minutes: float | None = None
    """Stop after this many minutes (not in hil-serl)."""
    wandb: str | None = None
    """Weights & Biases project to log to as well."""

    def __post_init__(self) -> None:
        for name in (
            "max_steps",
            "batch_size",
            "steps_per_update",
            "log_period",
            "checkpoint_period",
            "num_envs",
            "replay_buffer_capacity",
            "demo_starts_steps",
            "demo_ratio_anneal_steps",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        check_share(self.eval_share)
        if self.decision_steps != "auto":
            Decisions(self.decision_steps, self.between_decisions)  # says what is wrong
        for name in ("deterministic_share", "deterministic_from", "demo_starts", "initial_demo_ratio", "final_demo_ratio"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be from 0 to 1, got {getattr(self, name)}")
        if self.seed < 0:
            raise ConfigError(f"seed must be at least 0, got {self.seed}")
        if self.updates_per_actor_step <= 0:
            raise ConfigError(f"updates_per_actor_step must be above 0, got {self.updates_per_actor_step}: the learner would never train")
        if self.training_starts > self.replay_buffer_capacity:
            raise ConfigError(
                f"training_starts ({self.training_starts}) is more than the replay buffer holds ({self.replay_buffer_capacity}): "
                f"training would never start"
            )
        check_operator(self.operator)
        check_source(self.reward_source)
        check_name(self.encoder)
        if self.notice and self.agent.critics_know_more:
            raise ConfigError(
                "--notice with --critic-sees state: actors would ask critics that see what no actor sees. Leave one of the two out."
            )

    @property
    def decisions(self) -> Decisions:
        """How often the policy decides, once that is settled (`horizon.settle`)."""
        if self.decision_steps == "auto":
            raise ConfigError("decision_steps is 'auto': `off_policy.horizon.settle` puts a number in the place of it")
        return Decisions(self.decision_steps, self.between_decisions)


def require_learnable(spec: Spec, critics_know_more: bool = False) -> None:
    """Refuse a task that RLPD cannot learn, before anything is written."""
    require_roles(spec, "RLPD", ("vector", "features", *(("privileged",) if critics_know_more else ())))
    if critics_know_more and not any(entry.role == "privileged" for entry in spec.observation.values()):
        raise ConfigError(
            f"--critic-sees state: '{spec.task}' tells nothing that its policy does not see (no observation entry has the role "
            f"'privileged'). That is for simulations that know more than their cameras show; leave it out."
        )
