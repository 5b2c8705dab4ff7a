"""Policy distillation: a student that sees less learns to imitate a teacher that sees more.

The student acts, and the teacher labels every visited state with its own action (as in DAgger, Ross et al. 2011, but on the newest rollout
alone, as in rsl_rl). The loss is the distance between the student's mean action and the teacher's action; its gradient reaches back
`gradient_length` steps through the student's hidden state.

    L = mean of d²                                  mse       d = student - teacher, for each entry of the action
    L = mean of d²/2 where |d| < 1, else |d| - 1/2  huber
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tandem.agents.parameters import Adam, AdamState, norm
from tandem.networks.recurrent import Recurrent

LossType = Literal["mse", "huber"]


class StudentState(NamedTuple):
    actor: Any
    """A `Gaussian`, or a `Recurrent` of one. This loss does not train its std."""
    optimiser: AdamState


class LabelledRollout(NamedTuple):
    """A rollout of the student, labelled with the teacher's actions."""

    observations: Array
    """(T, N, student's inputs), normalised"""
    ended: Array
    """(T, N): an episode ended with this step"""
    actions: Array
    """(T, N, action_dim): the teacher's"""
    memory: Array
    """(N, size): the student's hidden state before the first step"""


def behaviour_loss(student: Array, teacher: Array, kind: LossType) -> Array:
    assert student.shape == teacher.shape, (student.shape, teacher.shape)
    d = student - teacher
    if kind == "mse":
        return jnp.mean(jnp.square(d))
    return jnp.mean(jnp.where(jnp.abs(d) < 1, 0.5 * jnp.square(d), jnp.abs(d) - 0.5))


@dataclass(frozen=True)
class Distillation:
    """How a labelled rollout changes a student. Names and defaults of rsl_rl."""

    num_learning_epochs: int = 1
    gradient_length: int = 15
    learning_rate: float = 1e-3
    max_grad_norm: float | None = None
    loss_type: LossType = "mse"

    def init(self, actor: Any) -> StudentState:
        return StudentState(actor, Adam(self.learning_rate).init(actor))

    @partial(jax.jit, static_argnames="self", donate_argnames="state")
    def update(self, state: StudentState, rollout: LabelledRollout) -> tuple[StudentState, Array]:
        """Epochs over the rollout in order of time, one gradient step per `gradient_length` steps. Also returns the mean loss.

        The remainder at the end is a shorter piece, and is learned from too.
        """
        steps = rollout.ended.shape[0]
        length = min(self.gradient_length, steps)
        whole = steps // length
        pieces = jax.tree.map(lambda a: a[: whole * length].reshape(whole, length, *a.shape[1:]), rollout[:3])
        rest = jax.tree.map(lambda a: a[whole * length :], rollout[:3])

        def one(carry: tuple[StudentState, Array], piece: tuple[Array, Array, Array]) -> tuple[tuple[StudentState, Array], Array]:
            state, memory, loss = self._step(*carry, piece)
            return (state, memory), loss

        total = jnp.float32(0)
        for _ in range(self.num_learning_epochs):
            (state, memory), losses = jax.lax.scan(one, (state, rollout.memory), pieces)
            total = total + losses.sum() * length
            if steps % length:
                state, _, loss = self._step(state, memory, rest)
                total = total + loss * (steps % length)
        return state, total / (steps * self.num_learning_epochs)

    def _step(self, state: StudentState, memory: Array, piece: tuple[Array, Array, Array]) -> tuple[StudentState, Array, Array]:
        """One gradient step, skipped if a value is NaN or infinite; and the hidden state after these steps."""
        observations, ended, labels = piece

        def loss(actor: Any) -> tuple[Array, Array]:
            network = actor if isinstance(actor, Recurrent) else Recurrent((), actor)
            features, memory_after = network.sequence(observations, ended, memory)
            mean, _ = network.network(features.reshape(ended.size, -1))
            return behaviour_loss(mean, labels.reshape(mean.shape), self.loss_type), memory_after[-1]

        (value, after), gradient = jax.value_and_grad(loss, has_aux=True)(state.actor)
        length = norm(gradient)
        if self.max_grad_norm is not None:
            shrink = jnp.minimum(1.0, self.max_grad_norm / (length + 1e-6))
            gradient = jax.tree.map(lambda leaf: leaf * shrink, gradient)
        moved = Adam(self.learning_rate).step(state.actor, state.optimiser, gradient, jnp.isfinite(length))
        return StudentState(*moved), jnp.where(ended[-1][:, None], 0.0, after), value
