"""The recurrent policy without JAX: LSTM or GRU layers before PPO's Gaussian policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tandem.errors import SpecMismatch
from tandem.networks.numpy_gaussian import NumpyGaussian, Outputs
from tandem.networks.numpy_policy import no_policy

Layer = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(Inputs (rows, inputs), hidden state) -> new hidden state."""


def _lstm(parameters: Mapping[str, np.ndarray], name: str) -> Layer:
    """The step of `recurrent.LSTM`."""
    input_weight, hidden_weight, bias = (parameters[f"{name}/{which}"] for which in ("input_weight", "hidden_weight", "bias"))

    def step(x: np.ndarray, memory: np.ndarray) -> np.ndarray:
        h, c = np.split(memory, 2, axis=1)
        i, f, g, o = np.split(x @ input_weight + bias + h @ hidden_weight, 4, axis=1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        return np.concatenate([_sigmoid(o) * np.tanh(c), c], axis=1)

    return step


def _gru(parameters: Mapping[str, np.ndarray], name: str) -> Layer:
    """The step of `recurrent.GRU`."""
    input_weight, hidden_weight, bias, hidden_bias = (
        parameters[f"{name}/{which}"] for which in ("input_weight", "hidden_weight", "bias", "hidden_bias")
    )
    gates = 2 * len(hidden_weight)

    def step(x: np.ndarray, memory: np.ndarray) -> np.ndarray:
        from_input, from_hidden = x @ input_weight + bias, memory @ hidden_weight
        r, z = np.split(_sigmoid(from_input[:, :gates] + from_hidden[:, :gates]), 2, axis=1)
        n = np.tanh(from_input[:, gates:] + r * (from_hidden[:, gates:] + hidden_bias))
        return n + z * (memory - n)

    return step


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(0.5 * x)  # does not overflow


RNN_TYPES: tuple[tuple[Callable[[Mapping[str, np.ndarray], str], Layer], int], ...] = ((_lstm, 2), (_gru, 1))
"""Layer types, and how many vectors each keeps per unit. Policy parameters hold the index. Same order as `recurrent.RNN_TYPES`."""


class NumpyRecurrent:
    """The forward pass of PPO's recurrent policy: observations `(rows, D)` and hidden state to actions and new hidden state.

    The caller keeps the hidden state ("memory"); `begin` returns that of the first step of an episode.
    """

    observation_clip = np.inf

    def __init__(self, parameters: Mapping[str, np.ndarray]):
        self._gaussian = NumpyGaussian(parameters)
        try:
            layer, vectors = RNN_TYPES[int(parameters["rnn_type"])]
            depth = sum(name.startswith("rnn/") and name.endswith("/hidden_weight") for name in parameters)
            self._layers = [layer(parameters, f"rnn/{i}") for i in range(depth)]
            self._units = [len(parameters[f"rnn/{i}/hidden_weight"]) for i in range(depth)]
        except (KeyError, IndexError) as problem:
            raise no_policy(parameters, problem) from problem
        self._ends = np.cumsum([vectors * units for units in self._units])
        self.observation_dim, self.action_dim = self._gaussian.observation_dim, self._gaussian.action_dim
        self.choices = self._gaussian.choices

    @property
    def memory_size(self) -> int:
        """Size of the hidden state of a row."""
        return int(self._ends[-1])

    def begin(self, rows: int) -> np.ndarray:
        """The hidden state at the first step of an episode, `(rows, memory_size)`."""
        return np.zeros((rows, self.memory_size), np.float32)

    def seen(self, x: np.ndarray) -> np.ndarray:
        """Input of the first layer: the policy's own entries, normalised."""
        return self._gaussian.seen(x)

    def mode(self, x: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The actions without exploration."""
        outputs, memory = self.outputs(x, memory)
        return self._gaussian.likeliest(outputs), memory

    def sample(self, x: np.ndarray, memory: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Random actions, as drawn during training and then clipped for the environment."""
        outputs, memory = self.outputs(x, memory)
        drawn = self.drawn(outputs, rng.standard_normal((len(x), self.action_dim), dtype=np.float32))
        return self._gaussian.clipped(drawn), memory

    def drawn(self, outputs: Outputs, noise: np.ndarray) -> np.ndarray:
        """Actions of these means, stds and logits, not clipped."""
        return self._gaussian.drawn(outputs, noise)

    def gaussian(self, x: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and std of the axes, neither squashed nor clipped, and the new hidden state."""
        (mean, std, _), memory = self.outputs(x, memory)
        return mean, std, memory

    def outputs(self, x: np.ndarray, memory: np.ndarray) -> tuple[Outputs, np.ndarray]:
        """Mean, std and logits, and the new hidden state."""
        h, memories = self._gaussian.seen(x), []
        if memory.shape != (len(h), self.memory_size):
            raise SpecMismatch(
                f"the policy has a memory of {self.memory_size} numbers for each of {len(h)} rows, got a memory of shape {memory.shape}: "
                f"`begin({len(h)})` returns that of a first step"
            )
        for layer, units, before in zip(self._layers, self._units, np.split(memory, self._ends[:-1], axis=1), strict=True):
            memories.append(layer(h, before))
            h = memories[-1][:, :units]
        return self._gaussian.dense(h), np.concatenate(memories, axis=1)
