"""Settings of SAC, under the names and with the defaults of hil-serl; and those of RLPD as published."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tandem.errors import ConfigError
from tandem.networks.mlp import ACTIVATIONS


@dataclass(frozen=True)
class SACConfig:
    """Settings of the algorithm and of its networks."""

    discount: float | Literal["auto"] = 0.97
    """Discount factor. auto: from the length of the demonstrations (not in hil-serl)."""
    value_at_start: float = 0.2
    """With discount auto: what a success is worth where a demonstration begins. More makes haste worth less, next to what it risks; near 1
    all actions look alike (not in hil-serl)."""
    n_step: int | Literal["auto"] = 1
    """Steps of reward in a target before the critics' value is used. auto: from the length of the demonstrations (not in hil-serl)."""
    return_bound: Literal["off", "demos", "all", "while-failing"] = "off"
    """Targets are at least the return that really followed: nowhere, for demonstrations, or for all steps of episodes that ended in
    success or failure (not in hil-serl). while-failing: for all steps, but the better the policy is, for the fewer rows of a batch. What
    followed once is luck where an episode may be lost for good: a target that is never below it does not see that risk."""
    cta_ratio: int = 2
    """Critic updates per actor update."""
    critic_ensemble_size: int = 2
    """Number of independent critics."""
    critic_sees: Literal["policy", "apart", "state"] = "policy"
    """What the critics look at where a task has cameras. policy: what the policy looks at, through the same heads, which their loss trains.
    apart: the same through heads of their own; the policy's loss trains the policy's, so it can start as a clone. state: no camera, but
    the numbers that only a simulation knows (entries of the role `privileged`) (docs/pixels.md; not in hil-serl)."""
    state_loss: float = 0.0
    """With `critic_sees` state: weight of a second task for the policy's eyes, to say these numbers from what they see. It teaches them
    where things are long before the critics know what that is worth (not in hil-serl)."""
    camera_head: Literal["dense", "spatial"] = "dense"
    """What is learned of a camera's features: dense (one layer on all of them), or spatial (hil-serl's spatial embeddings: eight learned
    sums over all places of each channel, then one layer). Heads that get pictures (`--encoder end-to-end`) are convolutional."""
    critic_subsample_size: int | None = None
    """Number of critics, drawn at random for each update, over which the target takes the minimum. None: all."""
    backup_entropy: bool = False
    """Include the entropy of future actions in the target. Targets are then not clipped to the task's range of returns."""
    soft_target_update_rate: float = 0.005
    """Polyak rate of the target critics, applied at each critic update."""
    temperature_init: float = 0.01
    """Entropy weight (temperature) at the start. It is learned."""
    target_entropy: float | None = None
    """Entropy that the temperature aims at, in nats. None: -action_dim / 2."""
    entropy_of: Literal["all", "own"] = "all"
    """Whose entropy the temperature holds at its target: of all rows of a batch, or of those that are not imitated (not in hil-serl)."""
    learning_rate: float = 3e-4
    """Learning rate of Adam, for actor, critics and temperature."""
    weight_decay: float = 0.0
    """Weight decay of AdamW, for actor and critics. 0: plain Adam."""
    hidden: tuple[int, ...] = (256, 256)
    """Units of the hidden layers of actor and critics."""
    activation: Literal["tanh", "relu", "swish"] = "tanh"
    """Activation function of every hidden layer."""
    actor_layer_norm: bool = True
    """Use LayerNorm in the actor."""
    critic_layer_norm: bool = True
    """Use LayerNorm in the critics. Without it the values of unseen actions diverge."""
    critic_dropout: float = 0.0
    """Dropout rate of the critics' hidden units."""
    imitation: float = 0.0
    """Weight of imitating a person's corrections in the actor's loss. 0: corrections are data like any other (not in hil-serl)."""
    demo_imitation: float = 0.0
    """The same for demonstrations, times (1 - success)² of the last 20 episodes without help: what succeeds is not held back (not in
    hil-serl)."""
    imitation_steps: int = 10_000
    """Both weights decay linearly to 0 over this many learner steps; after that only returns count (not in hil-serl)."""
    anchor: bool = False
    """Imitate people only where they are consistent, with a weight that is learned for each state; `imitation` must be above 0, and how far
    above plays no part (docs/when-to-help.md; not in hil-serl)."""
    blame: Literal["none", "penalty", "critics"] = "none"
    """What the steps before a person takes over lose in their targets: nothing; a penalty on the last of them; or as much as the critics
    still prefer what the policy would do there to what the person did (docs/when-to-help.md; not in hil-serl)."""
    blame_size: float = 0.05
    """The penalty, or the most that a step loses, in units of the reward (not in hil-serl)."""
    blame_steps: int = 5
    """Steps before a take-over that lose something, with blame `critics` (not in hil-serl)."""
    actor_average: float = 0.0
    """Rate of a moving average of the actor, which acts and is evaluated in its place. 0: the newest actor (not in hil-serl)."""
    grasp_penalty: float = 0.02
    """Cost of telling a discrete part something new, such as opening or closing a gripper; in the grasp critic's target alone."""
    grasp_ensemble_size: int = 1
    """Number of independent grasp critics; targets take the minimum, choices the mean (not in hil-serl: 1)."""
    grasp_doubt: float = 0.0
    """By how much a choice must be worth more than rest, in units of the difference that the grasp critics see: when in doubt, nothing is
    changed (not in hil-serl: 0, and one critic has no doubts)."""
    grasp_epsilon: float = 0.0
    """Exploration: share of the steps with a random choice (not in hil-serl)."""
    grasp_temperature: float = 0.0
    """Exploration: choices are drawn with probability exp(value / this), so that near ties are tried. 0: the best one (not in hil-serl)."""
    std_min: float = 1e-5
    """Lower bound of the policy's standard deviation, before tanh."""
    std_max: float = 5.0
    """Upper bound of the policy's standard deviation, before tanh."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("discount", 0.0, 1.0),
            ("n_step", 1, np.inf),
            ("actor_average", 0.0, 1.0),
            ("demo_imitation", 0.0, np.inf),
            ("soft_target_update_rate", 0.0, 1.0),
            ("critic_dropout", 0.0, 0.99),
            ("cta_ratio", 1, np.inf),
            ("critic_ensemble_size", 1, np.inf),
            ("critic_subsample_size", 1, self.critic_ensemble_size),
            ("temperature_init", 1e-8, np.inf),
            ("learning_rate", 0.0, np.inf),
            ("weight_decay", 0.0, np.inf),
            ("imitation", 0.0, np.inf),
            ("state_loss", 0.0, np.inf),
            ("imitation_steps", 1, np.inf),
            ("blame_size", 0.0, np.inf),
            ("blame_steps", 2, np.inf),
            ("grasp_penalty", 0.0, np.inf),
            ("grasp_ensemble_size", 1, np.inf),
            ("grasp_doubt", 0.0, np.inf),
            ("value_at_start", 0.01, 0.99),
            ("grasp_epsilon", 0.0, 1.0),
            ("grasp_temperature", 0.0, np.inf),
            ("std_min", 0.0, self.std_max),
        ):
            value = getattr(self, name)
            if value not in (None, "auto") and not low <= value <= high:
                raise ConfigError(f"{name} must be from {low:g} to {high:g}, got {value}")
        if not self.hidden or min(self.hidden) < 1:
            raise ConfigError(f"hidden must list the units of at least one layer, got {self.hidden}")
        if self.activation not in ACTIVATIONS:
            raise ConfigError(f"activation must be one of {', '.join(ACTIVATIONS)}, got '{self.activation}'")
        if self.anchor and not self.imitation:
            raise ConfigError("anchor is on, but imitation is 0: nobody would be imitated. Set imitation to 1, or anchor to False.")
        if self.state_loss and not self.critics_know_more:
            raise ConfigError(f"state_loss {self.state_loss:g} takes --critic-sees state: no other run knows what the cameras should say")

    @property
    def critics_know_more(self) -> bool:
        """Whether critics see what no policy does."""
        return self.critic_sees == "state"

    @property
    def blamed_steps(self) -> int:
        """Steps before a take-over that lose something."""
        return {"none": 0, "penalty": 1, "critics": self.blame_steps}[self.blame]


RLPD_PUBLISHED = dataclasses.replace(
    SACConfig(),
    discount=0.99,
    cta_ratio=20,
    critic_ensemble_size=10,
    critic_subsample_size=2,
    backup_entropy=True,
    temperature_init=1.0,
    activation="relu",
    actor_layer_norm=False,
    std_min=float(np.exp(-20)),
    std_max=float(np.exp(2)),
)
"""RLPD as published (Ball et al. 2023) for D4RL's locomotion."""
