"""A saved state of networks and optimisers, read again. What does not fit is named."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from tandem.agents.parameters import Tree, name_of
from tandem.errors import FileUnreadable


def from_arrays(template: Tree, arrays: Mapping[str, np.ndarray], what: str = "the agent's state") -> Tree:
    """A tree like the template with these values. Both must have the same leaves, shapes and types."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    names = [name_of(path) for path, _ in leaves]
    missing, unknown = [name for name in names if name not in arrays], sorted(set(arrays) - set(names))
    if missing or unknown:
        raise FileUnreadable(
            f"{what} does not fit: {_some(missing, 'missing')}{_some(unknown, 'not known here')}"
            f"it was saved by another version, or with another number of layers or another optimiser (`weight_decay`)"
        )
    for name, (_, leaf) in zip(names, leaves, strict=True):
        if arrays[name].shape != leaf.shape or arrays[name].dtype != leaf.dtype:
            raise FileUnreadable(
                f"{what} does not fit: '{name}' is {arrays[name].dtype} {arrays[name].shape} as saved, "
                f"{leaf.dtype} {tuple(leaf.shape)} as configured. Likely other observation entries, hidden sizes or "
                f"`critic_ensemble_size`: use the configuration it was saved with"
            )
    return jax.tree.unflatten(structure, [jnp.array(arrays[name]) for name in names])


def _some(names: list[str], which: str) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more} {which}; " if names else ""
