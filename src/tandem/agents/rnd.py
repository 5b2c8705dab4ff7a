"""Random network distillation (Burda et al. 2019): an intrinsic reward for states that are new.

A target network with random weights is never trained; a predictor learns to give the same output. Its error is small where states have
been visited often and large where they are new. The error is the intrinsic reward:

    r_i(s) = |f(s) - g(s)|         f learned by  mean (f(s) - g(s))²,  g random
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tandem.agents.parameters import Adam, AdamState, to_arrays
from tandem.agents.saved import from_arrays
from tandem.errors import ConfigError
from tandem.networks.embedding import Embedding
from tandem.networks.mlp import ACTIVATIONS, Hidden


@dataclass(frozen=True)
class RNDConfig:
    """Settings of random network distillation: names of rsl_rl with the prefix `rnd_`."""

    rnd_weight: float = 0.0
    """Weight of the intrinsic reward for new states (random network distillation). 0: off."""
    rnd_weight_schedule: Literal["constant", "step", "linear"] = "constant"
    """Schedule of the weight: constant, a step to rnd_final_value at rnd_final_step, or linear from rnd_initial_step to rnd_final_step."""
    rnd_initial_step: int = 0
    """Steps per environment after which the weight begins to change (linear schedule)."""
    rnd_final_step: int = 0
    """Steps per environment after which the weight is rnd_final_value."""
    rnd_final_value: float = 0.0
    """Weight at the end of the schedule."""
    rnd_num_outputs: int = 1
    """Outputs of predictor and target network."""
    rnd_predictor_hidden_dims: tuple[int, ...] = (64, 64)
    """Units of the predictor's hidden layers."""
    rnd_target_hidden_dims: tuple[int, ...] = (64, 64)
    """Units of the target network's hidden layers."""
    rnd_activation: Literal["tanh", "relu", "swish", "elu"] = "elu"
    """Activation function of every hidden layer of both networks."""
    rnd_learning_rate: float = 1e-3
    """Learning rate of the predictor."""
    rnd_state_normalization: bool = False
    """Normalise the observations of both networks to mean 0 and variance 1."""
    rnd_reward_normalization: bool = False
    """Divide intrinsic rewards by the running std of their discounted sum."""
    rnd_entries: tuple[str, ...] = ()
    """Observation entries that both networks see. Default: all."""

    def __post_init__(self) -> None:
        for name, low in (("rnd_weight", 0.0), ("rnd_final_value", 0.0), ("rnd_learning_rate", 0.0), ("rnd_num_outputs", 1)):
            if not getattr(self, name) >= low:
                raise ConfigError(f"{name} must be at least {low:g}, got {getattr(self, name)}")
        for name in ("rnd_predictor_hidden_dims", "rnd_target_hidden_dims"):
            if not getattr(self, name) or min(getattr(self, name)) < 1:
                raise ConfigError(f"{name} must list the units of at least one layer, got {getattr(self, name)}")
        if self.rnd_weight_schedule not in ("constant", "step", "linear"):
            raise ConfigError(f"rnd_weight_schedule must be constant, step or linear, got '{self.rnd_weight_schedule}'")
        if self.rnd_activation not in ACTIVATIONS:
            raise ConfigError(f"rnd_activation must be one of {', '.join(ACTIVATIONS)}, got '{self.rnd_activation}'")
        if self.rnd_weight_schedule == "linear" and not 0 <= self.rnd_initial_step < self.rnd_final_step:
            raise ConfigError(
                f"a linear rnd_weight_schedule goes from rnd_initial_step to a later rnd_final_step, got {self.rnd_initial_step} and "
                f"{self.rnd_final_step}"
            )

    @property
    def wanted(self) -> bool:
        return self.rnd_weight > 0 or (self.rnd_weight_schedule != "constant" and self.rnd_final_value > 0)

    def weights(self, steps: np.ndarray) -> np.ndarray:
        """The weight after this many steps per environment."""
        steps = np.asarray(steps, np.float64)
        if self.rnd_weight_schedule == "constant":
            return np.full(steps.shape, self.rnd_weight)
        if self.rnd_weight_schedule == "step":
            return np.where(steps < self.rnd_final_step, self.rnd_weight, self.rnd_final_value)
        done = np.clip((steps - self.rnd_initial_step) / (self.rnd_final_step - self.rnd_initial_step), 0, 1)
        return self.rnd_weight + done * (self.rnd_final_value - self.rnd_weight)


class RNDState(NamedTuple):
    """Both networks, and the optimiser of the predictor."""

    predictor: Embedding
    target: Embedding
    """Never trained."""
    optimiser: AdamState


@dataclass(frozen=True)
class RND:
    """The two networks' configuration, and the functions that use an `RNDState`."""

    config: RNDConfig
    inputs: int

    @partial(jax.jit, static_argnames="self")
    def init(self, seed: int) -> RNDState:
        config = self.config
        predictor_key, target_key = jax.random.split(jax.random.PRNGKey(seed))

        def network(key: Array, units: tuple[int, ...]) -> Embedding:
            hidden = Hidden(units, config.rnd_activation, layer_norm=False, init="torch")
            return Embedding(key, self.inputs, hidden, config.rnd_num_outputs)

        predictor = network(predictor_key, config.rnd_predictor_hidden_dims)
        target = network(target_key, config.rnd_target_hidden_dims)
        return RNDState(predictor, target, Adam(config.rnd_learning_rate).init(predictor))

    @partial(jax.jit, static_argnames="self")
    def novelty(self, state: RNDState, x: Array) -> Array:
        """Error of the predictor, `(rows,)`."""
        return jnp.linalg.norm(state.predictor(x) - state.target(x), axis=1)

    @partial(jax.jit, static_argnames="self", donate_argnames="state")
    def update(self, state: RNDState, x: Array, order: Array) -> tuple[RNDState, Array]:
        """One gradient step for each mini-batch: `order` `(mini-batches, size)` are rows of `x`. Also returns the mean loss."""
        adam = Adam(self.config.rnd_learning_rate)

        def loss(predictor: Embedding, rows: Array) -> Array:
            return jnp.mean(jnp.square(predictor(rows) - state.target(rows)))

        def one(carry: tuple[Embedding, AdamState], indices: Array) -> tuple[tuple[Embedding, AdamState], Array]:
            value, gradient = jax.value_and_grad(loss)(carry[0], x[indices])
            return adam.step(*carry, gradient, jnp.isfinite(value)), value

        (predictor, optimiser), losses = jax.lax.scan(one, (state.predictor, state.optimiser), order)
        return RNDState(predictor, state.target, optimiser), losses.mean()

    def arrays(self, state: RNDState) -> dict[str, np.ndarray]:
        return to_arrays(state)

    def from_arrays(self, template: RNDState, arrays: Mapping[str, np.ndarray]) -> RNDState:
        return from_arrays(template, arrays, "the state of random network distillation")
