"""LSTM and GRU layers before a network.

The hidden state ("memory") is an argument and a result; no module keeps any, so it cannot be advanced by accident or left over from
another episode. The hidden states of all layers of one row are one vector:

    LSTM    h c of the first layer, h c of the second, ...
    GRU     h of the first layer, h of the second, ...

It starts as zeros, and is reset to zeros after the last step of an episode, for whatever reason it ended.

The weights of all gates are concatenated in PyTorch's order (ONNX wants an LSTM's as i o f g, and a GRU's as z r n with
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
"""Time constant, in steps, of the slowest unit at the start."""


class LSTM(eqx.Module):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), with forget gates."""

    input_weight: Array  # (inputs, 4 units): i f g o
    hidden_weight: Array  # (units, 4 units)
    bias: Array  # (4 units,)

    def __init__(self, random: np.random.Generator, inputs: int, units: int):
        self.input_weight, self.hidden_weight, slow = _start(random, inputs, units, gates=4)
        zeros = jnp.zeros(units)
        self.bias = jnp.concatenate([-slow, slow, zeros, zeros])

    @property
    def units(self) -> int:
        return self.hidden_weight.shape[0]

    @property
    def size(self) -> int:
        """Size of the hidden state of a row."""
        return 2 * self.units

    def from_input(self, x: Array) -> Array:
        """x W + b: the part of the gates that does not depend on the past, `(rows, 4 units)`; computed for all steps at once."""
        return affine(x, self.input_weight, self.bias)

    def hidden_layer(self) -> tuple[Array, Array]:
        """U and its bias: the part of the gates that depends on h."""
        return self.hidden_weight, jnp.zeros_like(self.bias)

    @staticmethod
    def gates(from_input: Array, from_hidden: Array, memory: Array) -> Array:
        """The hidden state after the step, `(rows, size)`."""
        c = memory[:, memory.shape[1] // 2 :]
        i, f, g, o = jnp.split(from_input + from_hidden, 4, axis=1)
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
        zeros = jnp.zeros(units)
        self.bias, self.hidden_bias = jnp.concatenate([zeros, slow, zeros]), zeros

    @property
    def units(self) -> int:
        return self.hidden_weight.shape[0]

    @property
    def size(self) -> int:
        """Size of the hidden state of a row."""
        return self.units

    def from_input(self, x: Array) -> Array:
        """x W + b: the part of the gates that does not depend on the past, `(rows, 3 units)`; computed for all steps at once."""
        return affine(x, self.input_weight, self.bias)

    def hidden_layer(self) -> tuple[Array, Array]:
        """U and its bias: the part of the gates that depends on h."""
        return self.hidden_weight, jnp.concatenate([jnp.zeros(2 * self.units), self.hidden_bias])

    @staticmethod
    def gates(from_input: Array, from_hidden: Array, memory: Array) -> Array:
        """The hidden state after the step, `(rows, size)`."""
        both = 2 * memory.shape[1]
        r, z = jnp.split(jax.nn.sigmoid(from_input[:, :both] + from_hidden[:, :both]), 2, axis=1)
        n = jnp.tanh(from_input[:, both:] + r * from_hidden[:, both:])
        return n + z * (memory - n)


RNN_TYPES: dict[str, type[LSTM] | type[GRU]] = {"lstm": LSTM, "gru": GRU}
"""By their names in a configuration. Policy parameters hold the index in this list."""


def _start(random: np.random.Generator, inputs: int, units: int, gates: int) -> tuple[Array, Array, Array]:
    """Orthogonal weights of each gate, and biases that give every unit a time constant of its own.

    Orthogonal recurrent weights neither shrink nor grow what passes through them many times (Saxe et al. 2014). A forget gate with bias b
    has a time constant of 1 + exp(b) steps; a bias of 0 is two steps, the usual 1 is four. With b = log u, u uniform from 1 to
    `LONGEST` - 1, some units remember a few steps and some a hundred before anything is learned (Tallec and Ollivier 2018), and the
    gradient reaches back as far.
    """
    input_weight, hidden_weight = (
        np.concatenate([_orthogonal(random, rows, units) for _ in range(gates)], axis=1) for rows in (inputs, units)
    )
    slow = np.log(random.uniform(1.0, LONGEST - 1.0, units))
    return jnp.asarray(input_weight, jnp.float32), jnp.asarray(hidden_weight, jnp.float32), jnp.asarray(slow, jnp.float32)


def _orthogonal(random: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Orthonormal rows or columns, whichever are fewer. By NumPy: XLA takes seconds to compile a decomposition."""
    q, r = np.linalg.qr(random.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))  # makes the distribution uniform
    return q if rows >= columns else q.T


class Recurrent(eqx.Module, Generic[Network]):
    """A network after recurrent layers. Without layers it gets the inputs directly."""

    rnn: tuple[LSTM | GRU, ...]
    network: Network

    @property
    def size(self) -> int:
        """Size of the hidden state of a row; 0 without layers."""
        return sum(layer.size for layer in self.rnn)

    @property
    def head(self) -> Any:
        """The last layer of a value network."""
        return self.network.head  # pyright: ignore[reportAttributeAccessIssue]

    def step(self, x: Array, memory: Array) -> tuple[Array, Array]:
        """Input of the network, `(rows, units)`, and the hidden state after this step."""
        memories = []
        for layer, before in zip(self.rnn, self._split(memory), strict=True):
            memories.append(_after(layer, layer.from_input(x), before))
            x = memories[-1][:, : layer.units]
        return x, jnp.concatenate(memories, axis=1) if memories else memory

    def sequence(self, x: Array, ended: Array, memory: Array) -> tuple[Array, Array]:
        """All steps of `x` `(T, rows, inputs)`, starting with the hidden state `memory`.

        `ended` `(T, rows)`: an episode ended with this step. Returns the inputs of the network, `(T, rows, units)`, and the hidden state
        after every step, `(T, rows, size)`, before it is reset.
        """
        steps, rows = x.shape[:2]
        memories = []
        for layer, before in zip(self.rnn, self._split(memory), strict=True):
            from_input = layer.from_input(x.reshape(steps * rows, -1)).reshape(steps, rows, -1)
            memories.append(_run(layer, from_input, ended, before))
            x = memories[-1][..., : layer.units]
        return x, jnp.concatenate(memories, axis=2) if memories else jnp.zeros((steps, rows, 0))

    def _split(self, memory: Array) -> list[Array]:
        """The hidden state of each layer."""
        ends = np.cumsum([layer.size for layer in self.rnn])
        return jnp.split(memory, ends[:-1], axis=1) if self.rnn else []


def _after(layer: LSTM | GRU, from_input: Array, memory: Array) -> Array:
    return layer.gates(from_input, affine(memory[:, : layer.units], *layer.hidden_layer()), memory)


@jax.custom_vjp
def _run(layer: LSTM | GRU, from_input: Array, ended: Array, memory: Array) -> Array:
    """The hidden state of one layer after every step."""
    return _run_forward(layer, from_input, ended, memory)[0]


def _run_forward(layer: LSTM | GRU, from_input: Array, ended: Array, memory: Array) -> tuple[Array, Any]:
    weight, bias = layer.hidden_layer()

    def one(memory: Array, now: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        from_input, end = now
        from_hidden = affine(memory[:, : layer.units], weight, bias)
        after = layer.gates(from_input, from_hidden, memory)
        return jnp.where(end[:, None], 0.0, after), (after, from_hidden)

    _, (after, from_hidden) = jax.lax.scan(one, memory, (from_input, ended))
    return after, (layer, from_input, from_hidden, ended, memory, after)


def _run_backward(saved: Any, g: Array) -> tuple[Any, Array, None, Array]:
    """Back-propagation through time. The gradient of the weights is one product over all steps at the end, instead of one per step."""
    layer, from_input, from_hidden, ended, first, after = saved
    before = jnp.concatenate([first[None], jnp.where(ended[..., None], 0.0, after)[:-1]])
    (weight, bias), of_layer = jax.vjp(lambda layer: layer.hidden_layer(), layer)

    def one(g_later: Array, then: tuple[Array, ...]) -> tuple[Array, tuple[Array, Array]]:
        from_input, from_hidden, before, end, g = then
        _, back = jax.vjp(layer.gates, from_input, from_hidden, before)
        g_input, g_hidden, g_before = back(g + jnp.where(end[:, None], 0.0, g_later))
        return g_before.at[:, : layer.units].add(g_hidden @ weight.T), (g_input, g_hidden)

    g_first, (g_input, g_hidden) = jax.lax.scan(one, jnp.zeros_like(first), (from_input, from_hidden, before, ended, g), reverse=True)
    _, back = jax.vjp(affine, before[..., : layer.units].reshape(-1, layer.units), weight, bias)
    _, g_weight, g_bias = back(g_hidden.reshape(-1, g_hidden.shape[2]))
    return of_layer((g_weight, g_bias))[0], g_input, None, g_first


_run.defvjp(_run_forward, _run_backward)


def layers(random: np.random.Generator, kind: RNNType, inputs: int, units: int, count: int) -> tuple[LSTM | GRU, ...]:
    """`count` layers, of which the first has `inputs` inputs; no layers for `none`."""
    if kind == "none":
        return ()
    return tuple(RNN_TYPES[kind](random, size, units) for size in (inputs, *[units] * (count - 1)))
