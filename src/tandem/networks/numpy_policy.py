"""The policy without JAX: what an actor runs, on any computer, from the parameters that the learner publishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from tandem.errors import SpecMismatch
from tandem.networks.normaliser import normalised
from tandem.types import OBSERVATION_CLIP, PolicySnapshot

LAYER_NORM_EPSILON = 1e-6
LOG_STD_SOFTNESS = 0.5
"""That of `gaussian.SOFTNESS["state"]`."""


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def swish(x: np.ndarray) -> np.ndarray:
    return x * (0.5 + 0.5 * np.tanh(0.5 * x))  # the sigmoid by tanh: nothing overflows


def elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


ACTIVATIONS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (np.tanh, relu, swish, elu)
"""A policy names its own by the place in this list, the order of `mlp.ACTIVATIONS`."""


class ActingPolicy(Protocol):
    """Flat observations `(..., D)` to actions in [-1, 1], whichever way it was learned."""

    observation_clip: float
    """Bound of the scaled observations that it wants to see (`Layout.flatten`)."""

    @property
    def observation_dim(self) -> int: ...

    @property
    def action_dim(self) -> int: ...

    def mode(self, x: np.ndarray) -> np.ndarray: ...

    def sample(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray: ...


def numpy_policy(snapshot: PolicySnapshot) -> NumpyPolicy | NumpyGaussian | NumpyRecurrent:
    """The forward pass of a policy, by its kind."""
    kinds = {"tanh_gaussian": NumpyPolicy, "gaussian": NumpyGaussian, "recurrent_gaussian": NumpyRecurrent}
    return kinds[snapshot.kind](snapshot.parameters)


def acting_policy(snapshot: PolicySnapshot) -> ActingPolicy:
    """The same for an actor that keeps no memory; a policy with memory is refused."""
    policy = numpy_policy(snapshot)
    if isinstance(policy, NumpyRecurrent):
        raise SpecMismatch(
            "this policy has recurrent layers and acts by its memory as well as by its observation. The memory must be kept for it and "
            "begin anew with every episode (`NumpyRecurrent`), which is not done here"
        )
    return policy


class NumpyPolicy:
    """The forward pass of `TanhGaussian`. Observations `(D,)` or `(..., D)`, scaled and clipped; actions likewise."""

    observation_clip = OBSERVATION_CLIP

    def __init__(self, parameters: Mapping[str, np.ndarray]):
        try:
            self._activation = ACTIVATIONS[int(parameters["activation"])]
            self._log_std_range = np.log(parameters["std_range"])
            self._mean = parameters["mean/weight"], parameters["mean/bias"]
            self._log_std = parameters["log_std/weight"], parameters["log_std/bias"]
            depth = sum(name.startswith("trunk/layers/") and name.endswith("/weight") for name in parameters)
            self._layers = [(parameters[f"trunk/layers/{i}/weight"], parameters[f"trunk/layers/{i}/bias"]) for i in range(depth)]
            self._norms = [
                (parameters[f"trunk/norms/{i}/gain"], parameters[f"trunk/norms/{i}/shift"]) if "trunk/norms/0/gain" in parameters else None
                for i in range(depth)
            ]
        except (KeyError, IndexError) as problem:
            raise _no_policy(parameters, problem) from problem

    @property
    def observation_dim(self) -> int:
        return self._layers[0][0].shape[0]

    @property
    def action_dim(self) -> int:
        return self._mean[0].shape[1]

    def mode(self, x: np.ndarray) -> np.ndarray:
        """The action without exploration."""
        return np.tanh(self.gaussian(x)[0])

    def sample(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An action as it is drawn while learning."""
        mean, std = self.gaussian(x)
        return np.tanh(mean + std * rng.standard_normal(mean.shape, dtype=np.float32))

    def seen(self, x: np.ndarray) -> np.ndarray:
        """What the first layer gets."""
        return _checked(x, self.observation_dim)

    def gaussian(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and std, before tanh."""
        h = self.seen(x)
        for (weight, bias), norm in zip(self._layers, self._norms, strict=True):
            h = h @ weight + bias
            if norm is not None:
                h = h - h.mean(axis=-1, keepdims=True)
                h = h / np.sqrt((h * h).mean(axis=-1, keepdims=True) + LAYER_NORM_EPSILON) * norm[0] + norm[1]
            h = self._activation(h)
        log_std = np.clip(h @ self._log_std[0] + self._log_std[1], *self._log_std_range)
        return h @ self._mean[0] + self._mean[1], np.exp(log_std)


class NumpyGaussian:
    """The forward pass of PPO's `Gaussian`, with the running normaliser it was trained through. Actions are clipped to [-1, 1]."""

    observation_clip = np.inf  # it bounds what it sees itself, after normalising

    def __init__(self, parameters: Mapping[str, np.ndarray]):
        try:
            self.observation_dim = int(parameters["observation_dim"])
            columns, mean, std = parameters["columns"], parameters["normaliser/mean"], parameters["normaliser/std"]
            clip = float(parameters["normaliser/clip"])
            # what changes nothing is left out: it would take as long as a layer
            self._columns = None if np.array_equal(columns, np.arange(self.observation_dim)) else columns
            self._normaliser = None if not mean.any() and (std == 1).all() and clip == np.inf else (mean, std, clip)
            self._activation = ACTIVATIONS[int(parameters["activation"])]
            depth = sum(name.startswith("trunk/layers/") and name.endswith("/weight") for name in parameters)
            self._layers = [(parameters[f"trunk/layers/{i}/weight"], parameters[f"trunk/layers/{i}/bias"]) for i in range(depth)]
            self._mean = parameters["mean/weight"], parameters["mean/bias"]
            self._std = parameters.get("std")
            self._std_head = None if "std" in parameters else (parameters["raw_std/weight"], parameters["raw_std/bias"])
            self._log_std_range = np.log(parameters["std_range"])
        except (KeyError, IndexError) as problem:
            raise _no_policy(parameters, problem) from problem

    @property
    def action_dim(self) -> int:
        return self._mean[0].shape[1]

    def mode(self, x: np.ndarray) -> np.ndarray:
        """The action without exploration."""
        return np.clip(self.gaussian(x)[0], -1, 1)

    def sample(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An action as it is drawn while learning, and as the environment gets it."""
        mean, std = self.gaussian(x)
        return np.clip(mean + std * rng.standard_normal(mean.shape, dtype=np.float32), -1, 1)

    def seen(self, x: np.ndarray) -> np.ndarray:
        """What the first layer gets: the policy's own entries, normalised."""
        x = _checked(x, self.observation_dim)
        x = x if self._columns is None else x[..., self._columns]
        return x if self._normaliser is None else normalised(x, *self._normaliser)

    def gaussian(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and std, neither squashed nor clipped."""
        return self.answer(self.seen(x))

    def answer(self, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and std, from what its first dense layer gets."""
        for weight, bias in self._layers:
            h = self._activation(h @ weight + bias)
        mean = h @ self._mean[0] + self._mean[1]
        if self._std_head is None:
            return mean, np.full(mean.shape, self._std, np.float32)
        low, high = self._log_std_range
        below_high = high - LOG_STD_SOFTNESS * np.logaddexp(0, (high - (h @ self._std_head[0] + self._std_head[1])) / LOG_STD_SOFTNESS)
        return mean, np.exp(low + LOG_STD_SOFTNESS * np.logaddexp(0, (below_high - low) / LOG_STD_SOFTNESS)).astype(np.float32)


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
            raise _no_policy(parameters, problem) from problem
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


def _checked(x: np.ndarray, observation_dim: int) -> np.ndarray:
    x = np.asarray(x, np.float32)
    if x.shape[-1:] != (observation_dim,):
        raise SpecMismatch(
            f"the policy sees observations of {observation_dim} numbers, got an array of shape {x.shape}: "
            f"it was trained for another task, or with other entries"
        )
    return x


def _no_policy(parameters: Mapping[str, np.ndarray], problem: Exception) -> SpecMismatch:
    return SpecMismatch(
        f"these parameters are no policy: {problem} is not among {', '.join(sorted(parameters)) or 'them'}. "
        f"Expected those of `SAC.policy_parameters` or `PPO.policy_parameters`; is the learner of another version?"
    )
