"""Teacher and student: a policy that sees less learns to do what one that sees more would do there.

The student acts, the teacher says what it would have done in every state that the student came to (as DAgger, Ross et al. 2011, but on
the newest rollout alone, as rsl_rl does it). The loss is the distance between the student's mean action and the teacher's action; its
gradient reaches back `gradient_length` steps, through what the student remembers.

    L = mean of d²                                  mse       d = student - teacher, of every number of the action
    L = mean of d²/2 where |d| < 1, else |d| - 1/2  huber
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tandem.agents.adam import Adam, AdamState
from tandem.networks.recurrent import Recurrent

LossType = Literal["mse", "huber"]


class StudentState(NamedTuple):
    actor: Any
    """`Gaussian`, or `Recurrent` with one; its spread is not trained by this loss."""
    optimiser: AdamState


class Lesson(NamedTuple):
    """A rollout of the student's, with the teacher's word on it."""

    observations: Array
    """(T, N, numbers that the student sees), normalised"""
    ended: Array
    """(T, N): after which steps an episode was over"""
    actions: Array
    """(T, N, action_dim): the teacher's"""
    memory: Array
    """(N, size): what the student remembered before the first step"""


def behaviour_loss(student: Array, teacher: Array, kind: LossType) -> Array:
    assert student.shape == teacher.shape, (student.shape, teacher.shape)
    d = student - teacher
    if kind == "mse":
        return jnp.mean(jnp.square(d))
    return jnp.mean(jnp.where(jnp.abs(d) < 1, 0.5 * jnp.square(d), jnp.abs(d) - 0.5))


@dataclass(frozen=True)
class Distillation:
    """How a lesson changes a student. Names and defaults of rsl_rl."""

    num_learning_epochs: int = 1
    gradient_length: int = 15
    learning_rate: float = 1e-3
    max_grad_norm: float | None = None
    loss_type: LossType = "mse"

    def init(self, actor: Any) -> StudentState:
        return StudentState(actor, Adam(self.learning_rate).init(actor))

    @partial(jax.jit, static_argnames="self", donate_argnames="state")
    def update(self, state: StudentState, lesson: Lesson) -> tuple[StudentState, Array]:
        """Several times through the lesson in the order in which it was lived, a gradient step for every `gradient_length` steps.

        What is left over at the end is a shorter piece, and learned from too. Also the mean loss.
        """
        steps = lesson.ended.shape[0]
        length = min(self.gradient_length, steps)
        whole = steps // length
        pieces = jax.tree.map(lambda a: a[: whole * length].reshape(whole, length, *a.shape[1:]), lesson[:3])
        rest = jax.tree.map(lambda a: a[whole * length :], lesson[:3])

        def one(carry: tuple[StudentState, Array], piece: tuple[Array, Array, Array]) -> tuple[tuple[StudentState, Array], Array]:
            state, memory, loss = self._step(*carry, piece)
            return (state, memory), loss

        total = jnp.float32(0)
        for _ in range(self.num_learning_epochs):
            (state, memory), losses = jax.lax.scan(one, (state, lesson.memory), pieces)
            total = total + losses.sum() * length
            if steps % length:
                state, _, loss = self._step(state, memory, rest)
                total = total + loss * (steps % length)
        return state, total / (steps * self.num_learning_epochs)

    def _step(self, state: StudentState, memory: Array, piece: tuple[Array, Array, Array]) -> tuple[StudentState, Array, Array]:
        """One gradient step, and what is remembered after these steps; a gradient that is none is not followed."""
        observations, ended, wanted = piece

        def loss(actor: Any) -> tuple[Array, Array]:
            network = actor if isinstance(actor, Recurrent) else Recurrent((), actor)
            heard, remembered = network.sequence(observations, ended, memory)
            mean, _ = network.network(heard.reshape(ended.size, -1))
            return behaviour_loss(mean, wanted.reshape(mean.shape), self.loss_type), remembered[-1]

        (value, after), gradient = jax.value_and_grad(loss, has_aux=True)(state.actor)
        norm = jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(gradient)))
        if self.max_grad_norm is not None:
            shrink = jnp.minimum(1.0, self.max_grad_norm / (norm + 1e-6))
            gradient = jax.tree.map(lambda leaf: leaf * shrink, gradient)
        moved = Adam(self.learning_rate).step(state.actor, state.optimiser, gradient, jnp.isfinite(norm))
        return StudentState(*moved), jnp.where(ended[-1][:, None], 0.0, after), value
