"""Where a learner computes: all devices of this machine, and whether what it holds has room there."""

from __future__ import annotations

import math
from typing import Any

import jax

from tandem.agents.sac import SAC
from tandem.agents.sac_config import SACConfig
from tandem.agents.sac_start import agent_for
from tandem.agents.sharded_sac import ShardedSAC, on_devices
from tandem.errors import ConfigError
from tandem.types import Spec

COPIES = 3
"""Copies of the state, at least: itself, the last good one, and gradients with what the layers keep for them."""


def learning_agent(config: SACConfig, spec: Spec, batch_size: int) -> SAC:
    """The agent for a task, where this process computes: on all devices of this machine, or of all processes that it leads."""
    agent = agent_for(config, spec)
    if jax.process_count() == 1:
        return on_all_devices(agent, batch_size)
    from tandem.agents.together import leading  # only learners of several processes need it

    return leading(agent, spec, batch_size)


def on_all_devices(agent: SAC, batch_size: int) -> SAC:
    """The agent on all devices of this machine; on a machine with one device the agent as it is."""
    return on_devices(agent, batch_size, jax.local_devices())


def memory_in_words(agent: SAC, spec: Spec, batch_size: int) -> str:
    """What each device holds, before anything is put there. What cannot fit is refused."""
    there = agent.mesh.devices.flatten().tolist() if isinstance(agent, ShardedSAC) and agent.mesh is not None else jax.local_devices()[:1]
    state = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(jax.eval_shape(agent.init, 0)))
    row = 2 * sum(entry.size * 4 if entry.dtype == "float32" else entry.size for entry in spec.observation.values())
    batch = agent.config.cta_ratio * batch_size // len(there) * (row + 4 * (spec.action_dim + 4))
    least, most = COPIES * state + batch, device_memory(there[0])
    of = "" if most is None else f" of {_size(most)}"
    idle = len(jax.devices()) - len(there)
    left = f"; {idle} more are idle, because they do not divide a batch of {batch_size}" if idle else ""
    name = f"{len(there)} {there[0].platform} device{'s' if len(there) > 1 else ''}"
    if most is not None and least > most:
        raise ConfigError(
            f"the learner does not fit on a device: {COPIES} copies of {_size(state)} of networks and optimisers and {_size(batch)} of "
            f"batch are {_size(least)}, and {there[0].device_kind} has {_size(most)}. Use smaller --hidden layers, a smaller --batch-size "
            f"or --critic-ensemble-size, or a frozen --encoder instead of end-to-end."
        )
    return f"memory on {name}: networks and optimisers {_size(state)}, batch {_size(batch)}, at least {_size(least)}{of} each{left}"


def device_memory(device: Any) -> int | None:
    """Bytes that a device has for arrays; None where they are in the machine's own memory."""
    stats = device.memory_stats() if device.platform != "cpu" else None
    return None if not stats else stats.get("bytes_limit")


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
