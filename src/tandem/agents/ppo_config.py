"""Settings of PPO, under the names and with the defaults of rsl_rl."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tandem.errors import ConfigError
from tandem.networks.gaussian import StdType
from tandem.networks.mlp import ACTIVATIONS, Init
from tandem.networks.recurrent import RNN_TYPES, RNNType


@dataclass(frozen=True)
class PPOConfig:
    """Settings of the algorithm and of its two networks."""

    num_learning_epochs: int = 5
    """How often each sample is used in one iteration."""
    num_mini_batches: int = 4
    """Gradient steps per epoch. The number of samples in a rollout must be a multiple of it."""
    clip_param: float = 0.2
    """Clip range of the ratio of new to old probability, and of value changes with use_clipped_value_loss."""
    gamma: float = 0.99
    """Discount factor."""
    lam: float = 0.95
    """GAE's lambda: 0 trusts the value network after one step, 1 uses the rewards to the end of the episode."""
    value_loss_coef: float = 1.0
    """Weight of the value loss."""
    entropy_coef: float = 0.01
    """Weight of the entropy bonus."""
    learning_rate: float = 1e-3
    """Learning rate of Adam at the start."""
    max_grad_norm: float = 1.0
    """Largest gradient norm, of policy and value network separately unless joint_grad_norm is set."""
    joint_grad_norm: bool = False
    """Clip the gradients of policy and value network by their common norm."""
    use_clipped_value_loss: bool = True
    """Clip value changes to clip_param, in the units of the values: with large returns use normalize_values, or switch this off."""
    schedule: Literal["adaptive", "fixed", "linear"] = "adaptive"
    """Learning rate schedule: adaptive (by the KL divergence), fixed, or linear (decays to 0 over max_iterations)."""
    desired_kl: float = 0.01
    """KL divergence from old to new policy that the adaptive schedule aims at."""
    kl_high: float = 2.0
    """The learning rate is lowered when the KL is above this multiple of desired_kl."""
    kl_low: float = 0.5
    """The learning rate is raised when the KL is below this multiple of desired_kl."""
    learning_rate_factor: float = 1.5
    """Factor by which the adaptive schedule changes the learning rate."""
    learning_rate_range: tuple[float, float] = (1e-5, 1e-2)
    """Bounds of the adaptive learning rate."""
    stop_kl: float | None = None
    """Skip the remaining updates of an iteration once the KL of a mini-batch is above this value."""
    normalize_advantage_per_mini_batch: bool = False
    """Normalise advantages over each mini-batch instead of over the whole rollout."""
    normalize_values: bool = False
    """Learn values in units of the returns' running std (PopArt: predictions do not jump when the units change)."""
    adam_epsilon: float = 1e-8
    """Adam's epsilon."""
    use_data_augmentation: bool = False
    """Learn from the mirrored copy of every sample too. The task must declare a symmetry."""
    use_mirror_loss: bool = False
    """Add a loss that makes the policy symmetric. The task must declare a symmetry."""
    mirror_loss_coeff: float = 0.0
    """Weight of the mirror loss."""

    actor_hidden_dims: tuple[int, ...] = (256, 256, 256)
    """Units of the policy's hidden layers."""
    critic_hidden_dims: tuple[int, ...] = (256, 256, 256)
    """Units of the value network's hidden layers."""
    actor_rnn_type: RNNType = "none"
    """Type of the recurrent layers before the policy's hidden layers."""
    actor_rnn_hidden_dim: int = 256
    """Units of each of the policy's recurrent layers."""
    actor_rnn_num_layers: int = 1
    """Number of the policy's recurrent layers."""
    critic_rnn_type: RNNType = "none"
    """Type of the recurrent layers before the value network's hidden layers. It may differ from the policy's."""
    critic_rnn_hidden_dim: int = 256
    """Units of each of the value network's recurrent layers."""
    critic_rnn_num_layers: int = 1
    """Number of the value network's recurrent layers."""
    activation: Literal["tanh", "relu", "swish", "elu"] = "elu"
    """Activation function of every hidden layer."""
    init: Init = "torch"
    """Initialisation of the weights: PyTorch's default, orthogonal (with a policy output near 0), or Xavier uniform."""
    init_std: float = 1.0
    """Standard deviation of the actions at the start."""
    std_type: StdType = "scalar"
    """What is learned: the std itself (scalar), its logarithm (log), or its logarithm as a function of the observation (state)."""
    std_range: tuple[float, float] = (0.01, 10.0)
    """Bounds of the standard deviation. They are approached smoothly and never reached."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("num_learning_epochs", 1, np.inf),
            ("num_mini_batches", 1, np.inf),
            ("clip_param", 1e-6, np.inf),
            ("gamma", 0.0, 1.0),
            ("lam", 0.0, 1.0),
            ("value_loss_coef", 0.0, np.inf),
            ("learning_rate", 0.0, np.inf),
            ("max_grad_norm", 1e-12, np.inf),
            ("desired_kl", 1e-12, np.inf),
            ("kl_low", 0.0, self.kl_high),
            ("learning_rate_factor", 1.0, np.inf),
            ("stop_kl", 0.0, np.inf),
            ("adam_epsilon", 0.0, np.inf),
            ("mirror_loss_coeff", 0.0, np.inf),
            ("actor_rnn_hidden_dim", 1, np.inf),
            ("actor_rnn_num_layers", 1, np.inf),
            ("critic_rnn_hidden_dim", 1, np.inf),
            ("critic_rnn_num_layers", 1, np.inf),
        ):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ConfigError(f"{name} must be from {low:g} to {high:g}, got {value}")
        for name, known in (
            ("schedule", ("adaptive", "fixed", "linear")),
            ("activation", tuple(ACTIVATIONS)),
            ("init", ("xavier", "orthogonal", "torch")),
            ("std_type", ("scalar", "log", "state")),
            ("actor_rnn_type", ("none", *RNN_TYPES)),
            ("critic_rnn_type", ("none", *RNN_TYPES)),
        ):
            if getattr(self, name) not in known:
                raise ConfigError(f"{name} must be one of {', '.join(known)}, got '{getattr(self, name)}'")
        for name in ("actor_hidden_dims", "critic_hidden_dims"):
            if not getattr(self, name) or min(getattr(self, name)) < 1:
                raise ConfigError(f"{name} must list the units of at least one layer, got {getattr(self, name)}")
        for name, inside in (("std_range", self.init_std), ("learning_rate_range", None)):
            low, high = getattr(self, name)
            if not 0 < low < high:
                raise ConfigError(f"{name} must be two increasing numbers above 0, got {low} {high}")
            if inside is not None and not low < inside < high:
                raise ConfigError(f"init_std must be between the bounds of std_range ({low:g} and {high:g}), got {inside}")

    @property
    def recurrent(self) -> bool:
        """Whether either network has recurrent layers (`RecurrentPPO`)."""
        return self.actor_rnn_type != "none" or self.critic_rnn_type != "none"
