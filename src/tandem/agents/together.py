"""A learner of several processes, on one machine or many: one leads, the others compute their part of each of its updates.

    leader   state, batch ──► told to all ──► update ─┐ one program on the devices of all (JAX's own distribution)
    part                          hear ─────► update ─┘

What is told is what only the leader has: the batch of every update, and the state where it is not what the update before made of it (at
the start, after a resume, after a step back). All else that a learner does with its state happens in the leader alone. What a leader and
its parts tell each other is arrays by name, without pickle; but JAX's ports know no password: they belong into a closed network.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np
import safetensors.numpy
from jax import Array
from jax.experimental import multihost_utils

from tandem.agents.sac import SAC, Info, SACState
from tandem.agents.sac_config import SACConfig
from tandem.agents.sac_start import agent_for
from tandem.agents.sharded_sac import ShardedSAC, on_devices
from tandem.errors import ConfigError
from tandem.types import Batch, Blamed, Spec

BEGIN, STATE, UPDATE, END = range(4)
WAIT_S = 300
"""How long the processes wait for each other at the start."""


def join(address: str, number: int, of: int) -> None:
    """Become process `number` of so many; before JAX computes anything. `address` is where the leader, number 0, listens."""
    if of < 2 or not 0 <= number < of:
        raise ConfigError(f"a learner of {of} processes has the numbers 0 to {of - 1}, and at least 2 processes; got number {number}")
    try:
        jax.distributed.initialize(address, of, number, initialization_timeout=WAIT_S)
    except RuntimeError as problem:
        raise ConfigError(
            f"process {number} of {of} waited {WAIT_S} s for the others at {address}: {str(problem).splitlines()[0]}. Start all of them "
            f"with the same number of processes and the same address: the leader's, as the others reach it."
        ) from None


class Told(NamedTuple):
    """Something that all processes know now."""

    what: int
    arrays: dict[str, np.ndarray]


def _tell(what: int, arrays: Mapping[str, np.ndarray]) -> None:
    message = np.frombuffer(safetensors.numpy.save({**arrays, "/what": np.array(what, np.int32)}), np.uint8)
    multihost_utils.broadcast_one_to_all(np.int32(len(message)))
    multihost_utils.broadcast_one_to_all(message)


def _hear() -> Told:
    size = int(multihost_utils.broadcast_one_to_all(np.int32(0)))
    arrays = safetensors.numpy.load(np.asarray(multihost_utils.broadcast_one_to_all(np.zeros(size, np.uint8))).tobytes())
    return Told(int(arrays.pop("/what")), arrays)


class _Parts:
    """The other processes, as the leader knows them."""

    def __init__(self) -> None:
        self.state: SACState | None = None
        """What they hold."""


@dataclass(frozen=True)
class LeadingSAC(ShardedSAC):
    """The agent of the process that leads."""

    parts: _Parts = field(default_factory=_Parts)

    def update(self, state: SACState, batch: Batch, moves_actor: Array | bool = True) -> tuple[SACState, Info]:
        if state is not self.parts.state:
            _tell(STATE, self.arrays(state))
        _tell(UPDATE, {**_named(batch._asdict()), "/moves": np.asarray(moves_actor)})
        made, info = super().update(state, batch, moves_actor)
        self.parts.state = made
        return made, info

    def values(self, state: SACState, batch: Batch) -> Info:
        """Here alone: the others do not know that somebody asks."""
        return SAC.values(self, _at_home(state), batch)

    def copy(self, state: SACState) -> SACState:
        return _at_home(state)

    def end(self) -> None:
        """The others may go."""
        _tell(END, {})


def leading(agent: SAC, spec: Spec, batch_size: int) -> LeadingSAC:
    """The agent of the leader; the other processes make theirs of the same settings."""
    told = {"agent": dataclasses.asdict(agent.config), "spec": spec.to_json(), "batch_size": batch_size}
    _tell(BEGIN, {"json": np.frombuffer(json.dumps(told).encode(), np.uint8)})
    spread = _everywhere(agent, batch_size)
    settings = {field.name: getattr(spread, field.name) for field in dataclasses.fields(spread)}
    return LeadingSAC(**settings)


def take_part(say: Callable[[str], None]) -> None:
    """Compute this process's part of every update until the leader ends."""
    agent, state, updates = None, None, 0
    while True:
        told = _hear()
        if told.what == BEGIN:
            asked = json.loads(told.arrays["json"].tobytes())
            config: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in asked["agent"].items()}
            spec = Spec.from_json(asked["spec"])
            agent = _everywhere(agent_for(SACConfig(**config), spec), asked["batch_size"])
            say(f"computing a part of each update of '{spec.task}' on {len(jax.local_devices())} of {len(jax.devices())} devices")
        elif told.what == STATE and agent is not None:
            state = agent.from_arrays(agent.init(0), told.arrays)
        elif told.what == UPDATE and agent is not None and state is not None:
            moves = bool(told.arrays.pop("/moves"))
            state, _ = agent.update(state, _batch(told.arrays), moves)
            updates += 1
        elif told.what == END:
            jax.block_until_ready(state)
            say(f"the leader has ended, after {updates:,} updates")
            return


def _everywhere(agent: SAC, batch_size: int) -> ShardedSAC:
    """On the devices of all processes."""
    devices = jax.devices()
    if batch_size % len(devices):
        raise ConfigError(
            f"a batch of {batch_size} rows cannot be shared equally by {len(devices)} devices of {jax.process_count()} processes: give a "
            f"--batch-size that they divide"
        )
    spread = on_devices(agent, batch_size, devices)
    assert isinstance(spread, ShardedSAC)
    return spread


def _at_home(state: SACState) -> SACState:
    """A copy in this process's memory. Every process has a whole one."""
    return jax.tree.map(np.array, state)


# ---- a batch by names


def _named(values: Mapping[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    named: dict[str, np.ndarray] = {}
    for name, value in values.items():
        if isinstance(value, Blamed):
            value = value._asdict()
        if isinstance(value, Mapping):
            named |= _named(value, f"{prefix}{name}/")
        elif value is not None:
            named[prefix + name] = np.ascontiguousarray(value)
    return named


def _batch(arrays: Mapping[str, np.ndarray]) -> Batch:
    def under(name: str, of: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {key.removeprefix(f"{name}/"): array for key, array in of.items() if key.startswith(f"{name}/")}

    def plain(of: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {key: array for key, array in of.items() if "/" not in key}

    blamed = under("blamed", arrays)
    return Batch(
        **plain(arrays),
        blamed=Blamed(**plain(blamed), raw=under("raw", blamed)) if blamed else None,
        raw=under("raw", arrays),
        next_raw=under("next_raw", arrays),
    )
