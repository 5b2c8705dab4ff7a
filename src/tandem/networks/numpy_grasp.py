"""A policy with discrete parts, without JAX: the arm's Gaussian, and the choice that the grasp critic values most."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tandem.networks.numpy_policy import NumpyPolicy, Trunk, no_policy


class NumpyHybrid(NumpyPolicy):
    """`NumpyPolicy` for the axes, and a table of values for the choices (`agents/grasp.py`). Actions are whole vectors."""

    def __init__(self, parameters: Mapping[str, np.ndarray]):
        super().__init__(parameters)
        try:
            self.columns, self.sizes = parameters["grasp/columns"], tuple(parameters["grasp/sizes"].tolist())
            self._epsilon, self._temperature = parameters["grasp/exploration"].tolist()
            # policies from before there was a doubt have none
            self._doubt, self._rest = float(parameters.get("grasp/doubt", 0.0)), int(parameters.get("grasp/rest", 0))
            heads = parameters["grasp/head/weight"], parameters["grasp/head/bias"]
            self._heads = list(zip(*heads, strict=True))
            trunk = {name.removeprefix("grasp/"): array for name, array in parameters.items() if name.startswith("grasp/trunk/")}
            activation = parameters["activation"]
            self._trunks = [
                Trunk({name: array[member] for name, array in trunk.items()} | {"activation": activation})
                for member in range(len(self._heads))
            ]
        except (KeyError, IndexError, ValueError) as problem:
            raise no_policy(parameters, problem) from problem

    @property
    def action_dim(self) -> int:
        return super().action_dim + len(self.columns)

    def values(self, x: np.ndarray) -> np.ndarray:
        """What each choice is worth: the mean of the members, less the doubt about the advantage over rest, `(..., choices)`."""
        seen = self.seen(x)
        said = np.stack([trunk(seen) @ weight + bias for trunk, (weight, bias) in zip(self._trunks, self._heads, strict=True)])
        worth = said.mean(axis=0)
        return worth - self._doubt * (said - said[..., self._rest, None]).std(axis=0) if self._doubt else worth

    def mode(self, x: np.ndarray) -> np.ndarray:
        """The action without exploration."""
        return self._joined(super().mode(x), self.values(x).argmax(axis=-1))

    def sample(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A random action, as drawn during training; choices are random only where a setting says so (`grasp_epsilon`)."""
        arm, values = super().sample(x, rng), self.values(x)
        if self._temperature:
            # the largest of values with Gumbel noise is a draw from their softmax
            values = values / self._temperature + rng.gumbel(size=values.shape)
        chosen = values.argmax(axis=-1)
        if self._epsilon:
            at_random = rng.random(chosen.shape) < self._epsilon
            chosen = np.where(at_random, rng.integers(values.shape[-1], size=chosen.shape), chosen)
        return self._joined(arm, chosen)

    def _joined(self, arm: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """The whole action; in a table of several parts the last one counts fastest."""
        action = np.zeros((*arm.shape[:-1], self.action_dim), np.float32)
        is_choice = np.isin(np.arange(self.action_dim), self.columns)
        action[..., ~is_choice] = arm
        action[..., is_choice] = np.stack(np.unravel_index(chosen, self.sizes), axis=-1)
        return action
