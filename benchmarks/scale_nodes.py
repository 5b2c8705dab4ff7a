"""Light actors with spools on four machines, one of which is killed: nodes of Ray on this machine, or processes where Ray is missing.

A part of `benchmarks.scale`. Each machine has one process with its share of the actors. Under Ray that process is a Ray actor, and Ray
starts it again on another node when its own is gone; the spools are on the disk that all of these machines share here.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.link import STATE_SPEC, HubProcess, Processes, Steps
from benchmarks.swarm import UNACKNOWLEDGED, Order
from tandem.link.client import ActorClient, ClientConfig
from tandem.runs.board import Board
from tandem.runs.folder import RunFolder

NODES = 4
_CONNECT_S = 120.0


class LightNode:
    """The light actors of one machine. What is in their spools is counted in a file, which outlives the process."""

    def __init__(self, options: Sequence[dict[str, Any]], witnesses: str) -> None:
        self._clients = [ActorClient(STATE_SPEC, ClientConfig(**each)) for each in options]
        for client in self._clients:
            client.connect(_CONNECT_S)
        witness = Path(witnesses) / f"{uuid.uuid4().hex}.json"
        self._made = np.memmap(witness.with_suffix(".made"), np.int64, "w+", shape=(len(self._clients),))
        witness.write_text(json.dumps([client.source for client in self._clients]))
        self._steps = [Steps(STATE_SPEC, client.source) for client in self._clients]

    def do(self, order: Order) -> float:
        """Returns the CPU seconds that it took."""
        used, began = time.process_time(), time.perf_counter()
        for number in range(order.steps):
            if order.hz:
                time.sleep(max(0.0, began + number / order.hz - time.perf_counter()))
            for index, client in enumerate(self._clients):
                while client.status.unacknowledged > UNACKNOWLEDGED:
                    time.sleep(0.001)
                client.send([self._steps[index].next()])
                self._made[index] += 1
        while any(client.status.unacknowledged or client.status.left_behind for client in self._clients):
            time.sleep(0.002)
        return time.process_time() - used


class Machines(Protocol):
    """Where the light actors are."""

    def begin(self, order: Order) -> None: ...
    def end(self) -> float:
        """Wait until all have done it; returns their CPU seconds."""
        ...

    def kill_one(self) -> None:
        """At once, with all that runs there. Its actors come back, first send what the dead ones left behind, and begin again."""
        ...

    def close(self) -> None: ...


def _serve_node(end: Connection, options: Sequence[dict[str, Any]], witnesses: str) -> None:
    node = LightNode(options, witnesses)
    end.recv()
    end.send("ready")
    while True:
        end.send(node.do(end.recv()))


class InProcesses:
    """A process for each machine."""

    def __init__(self, arguments: Sequence[tuple[Any, ...]]) -> None:
        self._arguments = arguments
        self._nodes = [Processes(_serve_node, [each]) for each in arguments]

    def begin(self, order: Order) -> None:
        self._order = order
        for node in self._nodes:
            node.send(order)

    def end(self) -> float:
        return sum(node.results()[0] for node in self._nodes)

    def kill_one(self) -> None:
        self._nodes[0].close()  # a kill
        self._nodes[0] = Processes(_serve_node, [self._arguments[0]])
        self._nodes[0].send(self._order)

    def close(self) -> None:
        for node in self._nodes:
            node.close()


class UnderRay:
    """A node of Ray for each machine, with room for the actors of another one, and a head without room."""

    def __init__(self, arguments: Sequence[tuple[Any, ...]]) -> None:
        paths = (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", ""))  # for the workers
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self._ray: Any = importlib.import_module("ray")
        cluster: Any = importlib.import_module("ray.cluster_utils").Cluster
        self._cluster = cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        self._machines = [self._cluster.add_node(num_cpus=2, resources={"machine": 2}) for _ in arguments]
        self._ray.init(address=self._cluster.address, logging_level="ERROR", log_to_driver=False)
        options = {"num_cpus": 1, "resources": {"machine": 1}, "max_restarts": -1, "scheduling_strategy": "SPREAD"}
        self._nodes = [self._ray.remote(LightNode).options(**options).remote(*each) for each in arguments]
        self.begin(Order(0))
        self.end()

    def begin(self, order: Order) -> None:
        self._order, self._asked = order, [node.do.remote(order) for node in self._nodes]

    def end(self) -> float:
        return sum(self._done(node, asked) for node, asked in zip(self._nodes, self._asked, strict=True))

    def _done(self, node: Any, asked: Any) -> float:
        """Asked again where its machine died: Ray has then started it on another one."""
        until = time.monotonic() + _CONNECT_S
        while True:
            try:
                return self._ray.get(asked)
            except self._ray.exceptions.RayActorError:
                if time.monotonic() > until:
                    raise
            time.sleep(0.1)
            asked = node.do.remote(self._order)

    def kill_one(self) -> None:
        machine = next(each for each in self._machines if self._workers(each))
        for pid in _family(machine.all_processes["raylet"][0].process.pid):
            os.kill(pid, signal.SIGKILL)
        self._cluster.remove_node(machine, allow_graceful=False)
        self._machines.remove(machine)

    def _workers(self, machine: Any) -> bool:
        """Whether light actors are there."""
        return any(b"LightNode" in _command_line(pid) for pid in _family(machine.all_processes["raylet"][0].process.pid))

    def close(self) -> None:
        self._ray.shutdown()
        self._cluster.shutdown()


def _family(pid: int) -> list[int]:
    """A process, all that it started, and what those started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(each for child in children for each in _family(int(child)))]


def _command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@contextlib.contextmanager
def machines_for(hub: HubProcess, actors: int, by_ray: bool) -> Iterator[Machines]:
    """So many light actors on four machines."""
    witnesses, arguments = hub.run / "witness", []
    witnesses.mkdir()
    for number in range(NODES):
        names = [f"light {number}.{index}" for index in range(actors // NODES)]
        options = [hub.client(STATE_SPEC, hub.run / "spools" / name, pace="realtime", name=name) for name in names]
        for each in options:
            each.pop("spec")
            each["durability"] = "process"  # the disks of the robots, which are one disk here, are not what is measured
        arguments.append((options, str(witnesses)))
    machines = UnderRay(arguments) if by_ray else InProcesses(arguments)
    try:
        yield machines
    finally:
        machines.close()


@dataclass
class Trace:
    """What happens at a hub around the death of a machine: (seconds since the kill, steps stored so far), and who comes and goes."""

    run: Path
    stored: list[tuple[float, int]] = field(default_factory=list)
    killed_at: float = 0.0

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        over = threading.Event()

        def look() -> None:
            board = Board(self.run)
            while not over.wait(0.1):
                self.stored.append((time.time(), board["accepted"]))
            board.close()

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def moves(self) -> list[tuple[float, int]]:
        """Seconds since the kill, and how many actors more or fewer."""
        worth = {"actor_joined": 1, "actor_left": -1}
        events = [event for event in RunFolder(self.run).events() if event["kind"] in worth and event["time"] >= self.killed_at]
        return [(event["time"] - self.killed_at, worth[event["kind"]]) for event in events]

    @property
    def recovery_s(self) -> float:
        """Until as many actors are connected as before."""
        missing = 0
        for seconds, change in self.moves():
            missing -= change
            if missing <= 0:
                return seconds
        return float("nan")

    def lines(self) -> list[str]:
        """A table: a row for each second, from two seconds before the kill until two seconds after the recovery."""
        moves, rows = self.moves(), ["second  steps/s  left  joined"]
        times, counts = (np.array(each) for each in zip(*self.stored, strict=True))
        last = 2.0 if np.isnan(self.recovery_s) else self.recovery_s + 3.0
        for second in np.arange(-2.0, last):
            first, end = np.interp([second, second + 1.0], times - self.killed_at, counts)
            here = [change for at, change in moves if second <= at < second + 1]
            rows.append(f"{second:6.0f}  {end - first:7.0f}  {here.count(-1):4d}  {here.count(1):6d}")
        return rows
