"""LSTM and GRU layers before a network: what it may know of the past.

What is remembered is data. A layer takes the memory and gives the next one; no module keeps any, so nothing can be advanced by
accident and nothing is left over from another episode. The memory of all layers of one row lies side by side in one vector:

    LSTM    h c of the first layer, h c of the second, ...
    GRU     h of the first layer, h of the second, ...

It begins as zeros, and is zeros again after the last step of an episode, for whatever reason it ended.

The weights of all gates lie side by side too, in PyTorch's order (ONNX wants an LSTM's as i o f g, and a GRU's as z r n with
`linear_before_reset` 1):

    LSTM    i f g o     c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c')       a gate: x W + h U + b
    GRU     r z n       n = tanh(x W + b + σ(r) (h U + b_h)),  h' = (1 - σ(z)) n + σ(z) h
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tandem.networks.gaussian import Gaussian
from tandem.networks.mlp import Regressor, affine

RNNType = Literal["none", "lstm", "gru"]
Network = TypeVar("Network", Gaussian, Regressor)
LONGEST = 100
"""Steps that the slowest unit remembers to begin with."""


class LSTM(eqx.Module):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), with forget gates."""

    input_weight: Array  # (inputs, 4 units): i f g o
    hidden_weight: Array  # (units, 4 units)
    bias: Array  # (4 units,)

    def __init__(self, random: np.random.Generator, inputs: int, units: int):
        self.input_weight, self.hidden_weight, slow = _start(random, inputs, units, gates=4)
        nothing = jnp.zeros(units)
        self.bias = jnp.concatenate([-slow, slow, nothing, nothing])

    @property
    def units(self) -> int:
        return self.hidden_weight.shape[0]

    @property
    def size(self) -> int:
        """Numbers that it remembers of a row."""
        return 2 * self.units

    def heard(self, x: Array) -> Array:
        """What of a step does not depend on the past, `(rows, 4 units)`: computed for all steps at once."""
        return affine(x, self.input_weight, self.bias)

    def recalling(self) -> tuple[Array, Array]:
        """Weight and bias by which h is heard again."""
        return self.hidden_weight, jnp.zeros_like(self.bias)

    @staticmethod
    def gates(heard: Array, recalled: Array, memory: Array) -> Array:
        """The memory after the step, `(rows, size)`."""
        c = memory[:, memory.shape[1] // 2 :]
        i, f, g, o = jnp.split(heard + recalled, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jnp.concatenate([jax.nn.sigmoid(o) * jnp.tanh(c), c], axis=1)


class GRU(eqx.Module):
    """Gated recurrent unit (Cho et al. 2014), in the form of PyTorch and cuDNN."""

    input_weight: Array  # (inputs, 3 units): r z n
    hidden_weight: Array  # (units, 3 units)
    bias: Array  # (3 units,)
    hidden_bias: Array  # (units,): of n alone, inside the reset gate

    def __init__(self, random: np.random.Generator, inputs: int, units: int):
        self.input_weight, self.hidden_weight, slow = _start(random, inputs, units, gates=3)
        nothing = jnp.zeros(units)
        self.bias, self.hidden_bias = jnp.concatenate([nothing, slow, nothing]), nothing

    @property
    def units(self) -> int:
        return self.hidden_weight.shape[0]

    @property
    def size(self) -> int:
        """Numbers that it remembers of a row."""
        return self.units

    def heard(self, x: Array) -> Array:
        """What of a step does not depend on the past, `(rows, 3 units)`: computed for all steps at once."""
        return affine(x, self.input_weight, self.bias)

    def recalling(self) -> tuple[Array, Array]:
        """Weight and bias by which h is heard again."""
        return self.hidden_weight, jnp.concatenate([jnp.zeros(2 * self.units), self.hidden_bias])

    @staticmethod
    def gates(heard: Array, recalled: Array, memory: Array) -> Array:
        """The memory after the step, `(rows, size)`."""
        both = 2 * memory.shape[1]
        r, z = jnp.split(jax.nn.sigmoid(heard[:, :both] + recalled[:, :both]), 2, axis=1)
        n = jnp.tanh(heard[:, both:] + r * recalled[:, both:])
        return n + z * (memory - n)


RNN_TYPES: dict[str, type[LSTM] | type[GRU]] = {"lstm": LSTM, "gru": GRU}
"""By the names of a configuration. A policy names its own by the place in this list."""


def _start(random: np.random.Generator, inputs: int, units: int, gates: int) -> tuple[Array, Array, Array]:
    """Weights of the gates, orthogonal each, and biases that let every unit forget at a pace of its own.

    Orthogonal recurrent weights neither shrink nor blow up what passes through them many times (Saxe et al. 2014). A gate that keeps
    with probability σ(b) forgets within 1 + exp(b) steps; a bias of 0 is two steps, the usual 1 is four. With b = log u, u uniform
    from 1 to `LONGEST` - 1, some units remember a few steps and some a hundred before anything is learned (Tallec and Ollivier 2018),
    and the gradient reaches back as far.
    """
    of_input, of_hidden = (np.concatenate([_orthogonal(random, rows, units) for _ in range(gates)], axis=1) for rows in (inputs, units))
    slow = np.log(random.uniform(1.0, LONGEST - 1.0, units))
    return jnp.asarray(of_input, jnp.float32), jnp.asarray(of_hidden, jnp.float32), jnp.asarray(slow, jnp.float32)


def _orthogonal(random: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Orthonormal rows or columns, whichever are fewer. By NumPy, for it takes XLA seconds to compile a decomposition."""
    q, r = np.linalg.qr(random.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))  # without it not all of them are equally likely
    return q if rows >= columns else q.T


class Recurrent(eqx.Module, Generic[Network]):
    """A network that sees what the last recurrent layer gives; without layers, what there is to see."""

    rnn: tuple[LSTM | GRU, ...]
    network: Network

    @property
    def size(self) -> int:
        """Numbers that it remembers of a row; 0 without layers."""
        return sum(layer.size for layer in self.rnn)

    @property
    def head(self) -> Any:
        """The last layer of a value network."""
        return self.network.head  # pyright: ignore[reportAttributeAccessIssue]

    def step(self, x: Array, memory: Array) -> tuple[Array, Array]:
        """What the network gets to see now, `(rows, units)`, and the memory after it."""
        memories = []
        for layer, before in zip(self.rnn, self._apart(memory), strict=True):
            memories.append(_after(layer, layer.heard(x), before))
            x = memories[-1][:, : layer.units]
        return x, jnp.concatenate(memories, axis=1) if memories else memory

    def sequence(self, x: Array, ended: Array, memory: Array) -> tuple[Array, Array]:
        """All steps of `x` `(T, rows, inputs)` from `memory` on, which is that of before the first.

        `ended` `(T, rows)` says after which of them an episode was over. Gives what the network gets to see, `(T, rows, units)`, and
        the memory after every step, `(T, rows, size)`, before anything is forgotten.
        """
        steps, rows = x.shape[:2]
        memories = []
        for layer, before in zip(self.rnn, self._apart(memory), strict=True):
            heard = layer.heard(x.reshape(steps * rows, -1)).reshape(steps, rows, -1)
            memories.append(_lived(layer, heard, ended, before))
            x = memories[-1][..., : layer.units]
        return x, jnp.concatenate(memories, axis=2) if memories else jnp.zeros((steps, rows, 0))

    def _apart(self, memory: Array) -> list[Array]:
        """Of each layer."""
        ends = np.cumsum([layer.size for layer in self.rnn])
        return jnp.split(memory, ends[:-1], axis=1) if self.rnn else []


def _after(layer: LSTM | GRU, heard: Array, memory: Array) -> Array:
    return layer.gates(heard, affine(memory[:, : layer.units], *layer.recalling()), memory)


@jax.custom_vjp
def _lived(layer: LSTM | GRU, heard: Array, ended: Array, memory: Array) -> Array:
    """The memory of one layer after every step."""
    return _lived_forward(layer, heard, ended, memory)[0]


def _lived_forward(layer: LSTM | GRU, heard: Array, ended: Array, memory: Array) -> tuple[Array, Any]:
    weight, bias = layer.recalling()

    def one(memory: Array, now: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        heard, end = now
        recalled = affine(memory[:, : layer.units], weight, bias)
        after = layer.gates(heard, recalled, memory)
        return jnp.where(end[:, None], 0.0, after), (after, recalled)

    _, (after, recalled) = jax.lax.scan(one, memory, (heard, ended))
    return after, (layer, heard, recalled, ended, memory, after)


def _lived_backward(saved: Any, g: Array) -> tuple[Any, Array, None, Array]:
    """Through time and back. The gradient of the weights is left for the end, where it is one product of all steps and not one of each."""
    layer, heard, recalled, ended, first, after = saved
    before = jnp.concatenate([first[None], jnp.where(ended[..., None], 0.0, after)[:-1]])
    (weight, bias), of_layer = jax.vjp(lambda layer: layer.recalling(), layer)

    def one(g_later: Array, then: tuple[Array, ...]) -> tuple[Array, tuple[Array, Array]]:
        heard, recalled, before, end, g = then
        _, back = jax.vjp(layer.gates, heard, recalled, before)
        g_heard, g_recalled, g_before = back(g + jnp.where(end[:, None], 0.0, g_later))
        return g_before.at[:, : layer.units].add(g_recalled @ weight.T), (g_heard, g_recalled)

    g_first, (g_heard, g_recalled) = jax.lax.scan(one, jnp.zeros_like(first), (heard, recalled, before, ended, g), reverse=True)
    _, back = jax.vjp(affine, before[..., : layer.units].reshape(-1, layer.units), weight, bias)
    _, g_weight, g_bias = back(g_recalled.reshape(-1, g_recalled.shape[2]))
    return of_layer((g_weight, g_bias))[0], g_heard, None, g_first


_lived.defvjp(_lived_forward, _lived_backward)


def layers(random: np.random.Generator, kind: RNNType, inputs: int, units: int, count: int) -> tuple[LSTM | GRU, ...]:
    """As many layers as asked for, the first of which sees `inputs`; none for `none`."""
    if kind == "none":
        return ()
    return tuple(RNN_TYPES[kind](random, size, units) for size in (inputs, *[units] * (count - 1)))
