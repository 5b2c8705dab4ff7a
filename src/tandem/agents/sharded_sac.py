"""SAC on several devices: each has a part of every batch's rows, and all have the same parameters.

XLA puts the sums over devices where a mean over the batch needs them, and random numbers do not depend on how an array is spread. So an
update computes what one device computes, except for the order in which numbers are added. A saved state is whole, and says nothing of
devices: it goes on with any number of them.

With `jax.distributed` the devices may belong to several processes. Each of them then calls `update` with the same batch, and computes
its part of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tandem.agents.sac import SAC, Info, SACState
from tandem.types import Batch

ROWS = "rows"
"""The axis of the mesh of devices: rows of a batch."""


@dataclass(frozen=True)
class ShardedSAC(SAC):
    """The same agent on the devices of a mesh. Their number divides the rows of a batch."""

    mesh: Mesh | None = None

    def update(self, state: SACState, batch: Batch, moves_actor: Array | bool = True) -> tuple[SACState, Info]:
        """One learner step. The batch is copied to the devices while they still compute the step before."""
        return self._update(self.everywhere(state), self.spread(batch, axis=1), moves_actor)

    def values(self, state: SACState, batch: Batch) -> Info:
        return super().values(self.everywhere(state), self.spread(batch, axis=0))

    @partial(jax.jit, static_argnames="self", donate_argnames="state")
    def _update(self, state: SACState, batch: Batch, moves_actor: Array | bool) -> tuple[SACState, Info]:
        return jax.lax.with_sharding_constraint(super().update(state, batch, moves_actor), self._whole)

    @property
    def _whole(self) -> NamedSharding:
        return self._sharding()

    def _sharding(self, *axes: str | None) -> NamedSharding:
        assert self.mesh is not None
        return NamedSharding(self.mesh, PartitionSpec(*axes))

    def everywhere(self, tree: Any) -> Any:
        """A whole copy on every device; what is there already is not copied again."""
        return jax.tree.map(lambda leaf: _put(leaf, self._whole), tree)

    def spread(self, batch: Batch, axis: int) -> Batch:
        """Each device has its rows."""
        return jax.tree.map(lambda leaf: _put(leaf, self._sharding(*[None] * axis, ROWS)), batch)


def _put(array: Any, sharding: NamedSharding) -> Array:
    if isinstance(array, Array) and array.sharding == sharding:
        return array
    on_host = np.asarray(array)
    return jax.make_array_from_callback(on_host.shape, sharding, lambda part: on_host[part])


def on_devices(agent: SAC, batch_size: int, devices: Sequence[Any]) -> SAC:
    """The agent on as many of these devices as divide a batch; on one device the agent as it is."""
    count = max(number for number in range(1, len(devices) + 1) if batch_size % number == 0)
    if count == 1:
        return agent
    settings = {field.name: getattr(agent, field.name) for field in dataclasses.fields(agent)}
    return ShardedSAC(**settings, mesh=Mesh(np.array(devices[:count]), (ROWS,)))
