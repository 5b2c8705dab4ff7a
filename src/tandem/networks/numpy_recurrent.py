"""The recurrent policy without JAX: LSTM or GRU layers before PPO's Gaussian policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tandem.errors import SpecMismatch
from tandem.networks.numpy_policy import NumpyGaussian, no_policy

Layer = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""What a recurrent layer sees (rows, inputs), and its memory before -> its memory after."""


def _lstm(parameters: Mapping[str, np.ndarray], name: str) -> Layer:
    """The step of `recurrent.LSTM`."""
    of_input, of_hidden, bias = (parameters[f"{name}/{which}"] for which in ("input_weight", "hidden_weight", "bias"))

    def step(x: np.ndarray, memory: np.ndarray) -> np.ndarray:
        h, c = np.split(memory, 2, axis=1)
        i, f, g, o = np.split(x @ of_input + bias + h @ of_hidden, 4, axis=1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        return np.concatenate([_sigmoid(o) * np.tanh(c), c], axis=1)

    return step


def _gru(parameters: Mapping[str, np.ndarray], name: str) -> Layer:
    """The step of `recurrent.GRU`."""
    of_input, of_hidden, bias, own = (parameters[f"{name}/{which}"] for which in ("input_weight", "hidden_weight", "bias", "hidden_bias"))
    gates = 2 * len(of_hidden)

    def step(x: np.ndarray, memory: np.ndarray) -> np.ndarray:
        heard, recalled = x @ of_input + bias, memory @ of_hidden
        r, z = np.split(_sigmoid(heard[:, :gates] + recalled[:, :gates]), 2, axis=1)
        n = np.tanh(heard[:, gates:] + r * (recalled[:, gates:] + own))
        return n + z * (memory - n)

    return step


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(0.5 * x)  # nothing overflows


RNN_TYPES: tuple[tuple[Callable[[Mapping[str, np.ndarray], str], Layer], int], ...] = ((_lstm, 2), (_gru, 1))
"""A policy names its own by the place in this list, the order of `recurrent.RNN_TYPES`; with the vectors that each remembers."""


class NumpyRecurrent:
    """The forward pass of PPO's policy with memory: `rows` observations and what was remembered before them, to actions and what is after.

    It keeps nothing itself: the memory is the caller's, `begin` gives that of the first step of an episode.
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

    @property
    def memory_size(self) -> int:
        """Numbers that it remembers of a row."""
        return int(self._ends[-1])

    def begin(self, rows: int) -> np.ndarray:
        """What it remembers before anything was seen, `(rows, memory_size)`."""
        return np.zeros((rows, self.memory_size), np.float32)

    def seen(self, x: np.ndarray) -> np.ndarray:
        """What of an observation it looks at, normalised."""
        return self._gaussian.seen(x)

    def mode(self, x: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The actions without exploration."""
        mean, _, memory = self.gaussian(x, memory)
        return np.clip(mean, -1, 1), memory

    def sample(self, x: np.ndarray, memory: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Actions as they are drawn while learning, and as the environment gets them."""
        mean, std, memory = self.gaussian(x, memory)
        return np.clip(mean + std * rng.standard_normal(mean.shape, dtype=np.float32), -1, 1), memory

    def gaussian(self, x: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and std, neither squashed nor clipped, and what is remembered after it."""
        h, memories = self._gaussian.seen(x), []
        if memory.shape != (len(h), self.memory_size):
            raise SpecMismatch(
                f"the policy remembers {self.memory_size} numbers of each of {len(h)} rows, got a memory of shape {memory.shape}: "
                f"`begin({len(h)})` gives that of a first step"
            )
        for layer, units, before in zip(self._layers, self._units, np.split(memory, self._ends[:-1], axis=1), strict=True):
            memories.append(layer(h, before))
            h = memories[-1][:, :units]
        return *self._gaussian.answer(h), np.concatenate(memories, axis=1)
