"""RLPD's critics without JAX, from the arrays of a checkpoint or of a policy that carries some: for those who only look at what they
say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tandem.errors import FileUnreadable
from tandem.networks.numpy_policy import Trunk

ACTIVATION_NAMES = ("tanh", "relu", "swish", "elu")
"""Of `numpy_policy.ACTIVATIONS`, in its order."""
_MEMBERS = "critic/members/"
CRITICS = f"{_MEMBERS}head/bias"
"""A policy that carries critics has this parameter among its own."""


class NumpyCritics:
    """The forward pass of an `Ensemble` of a run without cameras."""

    def __init__(self, arrays: Mapping[str, np.ndarray], activation: str) -> None:
        own = {name.removeprefix(_MEMBERS): array for name, array in arrays.items() if name.startswith(_MEMBERS)}
        try:
            kind = np.array(ACTIVATION_NAMES.index(activation))
            each = [{name: array[member] for name, array in own.items()} for member in range(len(own["head/bias"]))]
            self._members = [(Trunk({**one, "activation": kind}), one["head/weight"], one["head/bias"]) for one in each]
        except (KeyError, IndexError, ValueError) as problem:
            raise FileUnreadable(f"the checkpoint has no critics that can be read here ({type(problem).__name__}: {problem})") from problem

    def __call__(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """What each critic says, `(members, rows)`; observations `(rows, D)` scaled and clipped."""
        pairs = np.concatenate([observations, actions], axis=1).astype(np.float32)
        return np.stack([(trunk(pairs) @ weight + bias)[:, 0] for trunk, weight, bias in self._members])
