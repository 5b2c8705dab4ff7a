"""What do many actors, many devices and many runs cost, and is a step lost when a machine of a cluster dies?

    python -m benchmarks.scale [--quick] [--json] [--actors 64]

* `actors_64_steps_per_s`: 64 light actors against a real hub, on this machine: each has its own connection and spool and sends steps of
  the gear assembly as fast as the hub takes them; it computes nothing else. They share four processes, which stand for four machines.
* `hub_cpu_us_per_step`: CPU time of the hub process per step meanwhile; `_one_by_one`: where every step is a message of its own.
* `hub_cores_at_10_hz`: CPU time of the hub per second while every actor makes 10 steps a second, as robots do. A hub for many actors asks
  them to let steps share messages.
* `actor_cpu_us_per_step`: the same for the actors' side; `reader_cpu_us_per_step`: for the trainer, which reads the journal.
* `hub_cpu_us_per_policy`: for passing on one policy of the gear assembly to one actor; `policy_bytes`: its size.
* `lost`, `doubled`, `reordered`: the first of the four processes is killed while all of them send, and started again. Every step that
  an actor had in its spool must be in the journal, once, in order.
* `sharded_equals_single`: largest difference after 10 updates of the default agent on two forced devices and on one, relative to the size
  of each array. `sharding_overhead`: time of an update on two devices over that on one, minus 1, with the same cores.
* `sweep_overhead`: time of a sweep that is not spent in its runs, over the time in its runs.
* `ray_start_s`: until a Ray cluster on this machine has placed its first actor; only where Ray is installed.
* `two_process_ppo_speedup`: simulation steps per second of PPO's environments in two processes of Ray, 64 gear assemblies each with one
  thread each, over those in one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json as json_format
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

from benchmarks.link import STATE_SPEC, HubProcess, Processes, Steps
from benchmarks.report import Report
from tandem.link.client import ActorClient, ClientConfig
from tandem.link.trainer_end import TrainerEnd
from tandem.runs.folder import RunFolder
from tandem.types import PolicySnapshot

Which = Literal["all", "actors", "devices", "sweep", "ray"]
NODES = 4
MESSAGES_PER_S = 640
"""Messages of all actors together, where steps are sent one by one."""
POLICY_BYTES = 307_200
"""The policy of the gear assembly: 32 numbers, two layers of 256, 6 actions with their deviations."""
UNACKNOWLEDGED = 200
"""A light actor waits while this many of its steps are not stored yet."""
TARGETS: dict[str, tuple[str, float]] = {
    "hub_cpu_us_per_step": ("<=", 50.0),
    "lost": ("==", 0),
    "doubled": ("==", 0),
    "reordered": ("==", 0),
    "sharded_equals_single": ("<=", 1e-3),
    "sweep_overhead": ("<=", 0.05),
}


# ---- actors


def serve_many(run: Path, port: int, most: int) -> None:
    from tandem.link.hub import Hub, HubConfig

    Hub(run, HubConfig(port=port, max_actors=most)).serve()


@contextlib.contextmanager
def hub_for(actors: int) -> Iterator[HubProcess]:
    with tempfile.TemporaryDirectory() as folder:
        hub = HubProcess(Path(folder) / "run", STATE_SPEC, partial(serve_many, most=2 * actors))
        try:
            yield hub
        finally:
            hub.close()


@dataclass(frozen=True)
class Order:
    """What the actors of a node do next: `steps` each, at this rate each (0: as fast as the hub takes them)."""

    steps: int
    hz: float = 0.0


def node(end: Connection, options: Sequence[dict[str, Any]], witness: Path) -> None:
    """Light actors in one process. What is in their spools is counted in a file, which outlives the process."""
    clients = [ActorClient(STATE_SPEC, ClientConfig(**each)) for each in options]
    for client in clients:
        client.connect(120.0)
    made = np.memmap(witness.with_suffix(".made"), np.int64, "w+", shape=(len(clients),))
    witness.write_text(json_format.dumps([client.source for client in clients]))
    steps = [Steps(STATE_SPEC, client.source) for client in clients]
    end.recv()
    end.send("ready")
    while True:
        order: Order = end.recv()
        used, began = time.process_time(), time.perf_counter()
        for number in range(order.steps):
            if order.hz:
                time.sleep(max(0.0, began + number / order.hz - time.perf_counter()))
            for index, client in enumerate(clients):
                while client.status.unacknowledged > UNACKNOWLEDGED:
                    time.sleep(0.001)
                client.send([steps[index].next()])
                made[index] += 1
        while any(client.status.unacknowledged or client.status.left_behind for client in clients):
            time.sleep(0.002)
        end.send(time.process_time() - used)


@dataclass
class Cluster:
    """The nodes of one measurement. A node that is killed can be started again."""

    hub: HubProcess
    actors: int

    def __post_init__(self) -> None:
        self.witness = self.hub.run / "witness"
        self.witness.mkdir()
        self._starts = 0
        self.nodes = [self.start(number) for number in range(NODES)]

    def start(self, number: int) -> Processes:
        names = [f"light {number}.{index}" for index in range(self.actors // NODES)]
        options = [self.hub.client(STATE_SPEC, self.hub.run / "spools" / name, pace="realtime", name=name) for name in names]
        for each in options:
            each.pop("spec")
            each["durability"] = "process"  # the disks of the robots, which are one disk here, are not what is measured
        self._starts += 1
        return Processes(node, [(options, self.witness / f"{self._starts}.json")])

    def do(self, order: Order) -> float:
        """On all nodes; returns the CPU seconds of all of them."""
        for each in self.nodes:
            each.send(order)
        return sum(each.results()[0] for each in self.nodes)

    def close(self) -> None:
        for each in self.nodes:
            each.close()


@dataclass(frozen=True)
class Proof:
    """What became of the steps that were in a spool."""

    lost: int
    doubled: int
    reordered: int


def proof(run: Path) -> Proof:
    """Every witnessed step must be in the journal, once, and in the order of its source."""
    with contextlib.closing(sqlite3.connect(RunFolder(run).journal)) as journal:
        rows = journal.execute("SELECT source, seq FROM steps WHERE status = 'accepted' ORDER BY ord").fetchall()
    stored: dict[str, list[int]] = {}
    for source, seq in rows:
        stored.setdefault(source, []).append(seq)
    lost = doubled = reordered = 0
    for witness in (run / "witness").glob("*.json"):
        made = np.memmap(witness.with_suffix(".made"), np.int64, "r")
        for source, count in zip(json_format.loads(witness.read_text()), made.tolist(), strict=True):
            found = stored.get(source, [])
            lost += len(set(range(count)) - set(found))
            doubled += len(found) - len(set(found))
            reordered += found != sorted(found)
    return Proof(lost, doubled, reordered)


@dataclass
class Bench:
    quick: bool
    report: Report

    def many_actors(self, actors: int) -> None:
        hz = min(10.0, MESSAGES_PER_S / actors)
        seconds = 3.0 if self.quick else 10.0
        flood, paced, robots = Order(40 if self.quick else 400), Order(int(seconds * hz), hz), Order(int(seconds * 10), 10.0)
        with hub_for(actors) as hub:
            cluster = Cluster(hub, actors)
            cluster.do(Order(5))
            used, began = hub.cpu_s(), time.perf_counter()
            on_actors = cluster.do(flood)
            took, used, count = time.perf_counter() - began, hub.cpu_s() - used, flood.steps * actors
            self.report.figure(f"actors_{actors}_steps_per_s", count / took, "steps/s")
            self.report.figure("hub_cpu_us_per_step", used / count * 1e6, "us")
            self.report.figure("actor_cpu_us_per_step", on_actors / count * 1e6, "us")
            used = hub.cpu_s()
            cluster.do(paced)
            alone = (hub.cpu_s() - used) / (paced.steps * actors) * 1e6
            self.report.figure("hub_cpu_us_per_step_one_by_one", alone, f"us ({actors} x {hz:g} steps/s)")
            used, began = hub.cpu_s(), time.perf_counter()
            cluster.do(robots)
            took = time.perf_counter() - began
            self.report.figure("hub_cores_at_10_hz", (hub.cpu_s() - used) / took, f"cores ({robots.steps * actors / took:.0f} steps/s)")
            self._publish(hub, actors)
            self._kill_a_node(cluster, flood)
            cluster.close()
            found = proof(hub.run)
            for name in ("lost", "doubled", "reordered"):
                self.report.figure(name, getattr(found, name), "")
            self._read(hub.run)

    def _publish(self, hub: HubProcess, actors: int) -> None:
        """Policies to all actors, who do nothing else."""
        end, count = TrainerEnd(hub.run, STATE_SPEC), 4 if self.quick else 20
        parameters = {"w": np.zeros(POLICY_BYTES // 4, np.float32)}
        used, began = hub.cpu_s(), time.perf_counter()
        for version in range(1, count + 1):
            end.publish(PolicySnapshot(version, version, parameters))
            time.sleep(max(0.5, 20 * POLICY_BYTES * actors / 2**30))
        idle = hub.cpu_s()
        seconds = time.perf_counter() - began
        time.sleep(2.0)
        at_rest = (hub.cpu_s() - idle) / 2.0
        self.report.figure("policy_bytes", POLICY_BYTES, "bytes")
        self.report.figure("hub_cpu_us_per_policy", (idle - used - at_rest * seconds) / (count * actors) * 1e6, f"us ({actors} actors)")
        self.report.figure("hub_cpu_us_per_s_and_actor", at_rest / actors * 1e6, "us, at rest")
        end.close()

    def _kill_a_node(self, cluster: Cluster, order: Order) -> None:
        """While all send; it comes back with new actors, who first send what the dead ones left behind."""
        for each in cluster.nodes:
            each.send(order)
        time.sleep(0.3)
        cluster.nodes[0].close()  # a kill
        cluster.nodes[0] = cluster.start(0)
        cluster.nodes[0].send(order)
        for each in cluster.nodes:
            each.results()

    def _read(self, run: Path) -> None:
        """What the trainer spends on getting the steps out of the journal."""
        end = TrainerEnd(run, STATE_SPEC)
        used = time.process_time()
        count = len(end.receive())
        self.report.figure("reader_cpu_us_per_step", (time.process_time() - used) / count * 1e6, "us")
        self.report.figure("journal_bytes_per_step", RunFolder(run).journal.stat().st_size / count, "bytes")
        end.close()

    def many_devices(self) -> None:
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
        command = [sys.executable, "-m", "benchmarks.scale", "--devices-here", *(["--quick"] if self.quick else [])]
        said = subprocess.run(command, env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True, check=True).stdout
        found = json_format.loads(said.splitlines()[-1])
        self.report.figure("sharded_equals_single", found["difference"], "relative")
        self.report.figure("learner_step_ms", found["single_ms"], "ms on one device")
        self.report.figure("sharding_overhead", found["sharded_ms"] / found["single_ms"] - 1, "on two forced devices, the same cores")

    def sweep(self) -> None:
        steps = 1500 if self.quick else 4000
        asked = f'command = "train"\ntask = "reach"\nseeds = 2\n[every]\nsync = true\neval_period = 0\nmax_steps = {steps}\n'
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "asked.toml"
            file.write_text(asked)
            began = time.perf_counter()
            command = [sys.executable, "-m", "tandem.cli", "sweep", file, "--out", Path(folder) / "out", "--at-once", "1", "--json"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            whole = time.perf_counter() - began
            runs = json_format.loads((Path(folder) / "out" / "results.json").read_text())["runs"]
        in_runs = sum(run["process_s"] for run in runs)
        self.report.figure("sweep_overhead", whole / in_runs - 1, f"of {in_runs:.0f} s in runs")

    def ray(self) -> None:
        """In a process of its own: Ray leaves threads behind."""
        if importlib.util.find_spec("ray") is None:
            return
        command = [sys.executable, "-m", "benchmarks.scale", "--ray-here", *(["--quick"] if self.quick else [])]
        found = json_format.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
        self.report.figure("ray_start_s", found["start_s"], "s")
        self.report.figure(
            "two_process_ppo_speedup", found["two"] / found["one"], f"({found['one']:.0f} simulation steps/s in one process)"
        )


def ray_here(quick: bool) -> None:
    """Starts Ray on this machine; prints how long that takes, and simulation steps per second in one and in two processes, as JSON."""
    from tandem.programs.cluster import ClusterArgs, RayLauncher, simulations_on
    from tandem.programs.launcher import Part

    began = time.perf_counter()
    handle = RayLauncher(ClusterArgs(), lambda line: None).start(Part("actor", ("actor", "--help")))
    while handle.code is None:
        time.sleep(0.01)
    handle.stop(1.0)  # its place is free again
    start_s, rows, random = time.perf_counter() - began, 64, np.random.default_rng(0)
    envs = {name: simulations_on(ClusterArgs(cpus=0.4), count)("gear_assembly", rows * count) for name, count in (("one", 1), ("two", 2))}
    for env in envs.values():
        env.reset(seed=0)
    rates: dict[str, list[float]] = {name: [] for name in envs}
    for turn in range(3 if quick else 9):  # in turns; the first one starts the processes
        for name, env in envs.items():
            began = time.perf_counter()
            for _ in range(5):
                env.step(random.uniform(-1, 1, (env.num_envs, env.task_spec.action_dim)).astype(np.float32))
            if turn:
                rates[name].append(5 * env.num_envs / (time.perf_counter() - began))
    print(json_format.dumps({"start_s": start_s} | {name: float(np.median(found)) for name, found in rates.items()}))


def devices_here(quick: bool) -> None:
    """In a process with two forced devices: prints the difference and both times, as JSON."""
    import jax

    from tandem.agents.sac import SAC
    from tandem.agents.sac_config import SACConfig
    from tandem.agents.sharded_sac import on_devices
    from tandem.layouts import Layout
    from tandem.types import Batch

    size, actions = Layout(STATE_SPEC).size, STATE_SPEC.action_dim
    one = SAC(SACConfig(), size, actions, STATE_SPEC.return_range)
    random, shape = np.random.default_rng(0), (one.config.cta_ratio, 256)
    batch = Batch(
        observations=random.standard_normal((*shape, size), dtype=np.float32),
        actions=random.uniform(-1, 1, (*shape, actions)).astype(np.float32),
        rewards=(random.random(shape) < 0.1).astype(np.float32),
        masks=np.ones(shape, np.float32),
        next_observations=random.standard_normal((*shape, size), dtype=np.float32),
    )
    agents, turns = {"single": one, "sharded": on_devices(one, 256, jax.devices())}, 3 if quick else 15
    states, took = {name: agent.init(0) for name, agent in agents.items()}, {name: [] for name in agents}
    for turn in range(turns + 1):  # in turns, so that a busy machine is busy for both; the first one compiles
        for name, agent in agents.items():
            began = time.perf_counter()
            for _ in range(10):
                states[name], _ = agent.update(states[name], batch)
            jax.block_until_ready(states[name])
            took[name].append((time.perf_counter() - began) * 100)
        if turn == 0:
            a, b = (agent.arrays(states[name]) for name, agent in agents.items())
            difference = max(float(np.abs(a[name] - b[name]).max() / (np.abs(a[name]).max() + 1e-8)) for name in a if name != "key")
    print(json_format.dumps({"difference": difference} | {f"{name}_ms": float(np.median(found[1:])) for name, found in took.items()}))


def main(
    quick: bool = False, json: bool = False, actors: int = 64, only: Literal["all", "actors", "devices", "sweep", "ray"] = "all"
) -> None:
    """What many actors, devices and runs cost.

    Args:
        quick: Short runs, to check that it works.
        json: One JSON object instead of the table.
        actors: Light actors; a multiple of four.
        only: One of the measurements.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    bench = Bench(quick, Report("scale", ("figure", "measured", "target"), TARGETS))
    parts = {"actors": partial(bench.many_actors, actors), "devices": bench.many_devices, "sweep": bench.sweep, "ray": bench.ray}
    for measure in parts.values() if only == "all" else [parts[only]]:
        measure()
    bench.report.targets = {name: target for name, target in TARGETS.items() if only == "all" or name in bench.report.figures}
    bench.report.show(json)


if __name__ == "__main__":
    if "--devices-here" in sys.argv:
        devices_here("--quick" in sys.argv)
    elif "--ray-here" in sys.argv:
        ray_here("--quick" in sys.argv)
    else:
        tyro.cli(main)
