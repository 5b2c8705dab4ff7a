"""What do many actors, many devices and many runs cost, and is a step lost when a machine of a cluster dies?

    python -m benchmarks.scale [--quick] [--json] [--actors 64] [--only ingest] [--trace FILE]

* `actors_64_steps_per_s`: 64 light actors against a real hub, on this machine: each has its own connection and spool and sends steps of
  the gear assembly as fast as the hub takes them; it computes nothing else. They share four machines: nodes of Ray where it is installed,
  else processes.
* `hub_cpu_us_per_step`: CPU time of the hub process per step meanwhile; `_one_by_one`: where every step is a message of its own.
* `hub_cores_at_10_hz`: CPU time of the hub per second while every actor makes 10 steps a second, as robots do. A hub for many actors asks
  them to let steps share messages.
* `actor_cpu_us_per_step`: the same for the actors' side; `reader_cpu_us_per_step`: for the trainer, which reads the journal.
* `hub_cpu_us_per_policy`: for passing on one policy of the gear assembly to one actor; `policy_bytes`: its size.
* `lost`, `doubled`, `reordered`: the first of the four machines is killed while all of them send, and its actors come back on another one.
  Every step that an actor had in its spool must be in the journal, once, in order. `recovery_s`: until as many actors are connected as
  before; `--trace` writes its course.
* `ingest_64_steps_per_s` to `ingest_256_`: what the hub takes of so many actors without spools; `_hub_cores_at_10_hz`: what it needs for
  robots; `_behind_ms`: how long after it was made a step of theirs is with the trainer. `writer_64_steps_per_s` to `writer_256_`: what its
  one writer stores by itself, one step in a message. `ingest_lost`, `_doubled`, `_reordered`: the hub is killed while all of them send.
* `simulated_2000_hub_cores`: the same for up to 2,000 actors; `simulated_over_model`: the worst ratio to what the model of docs/scale.md
  says, whose numbers (`model_*_us`) are measured with 64 actors in the same call.
* `sharded_equals_single`: largest difference after 10 updates of the default agent on two forced devices and on one, relative to the size
  of each array. `sharding_overhead`: time of an update on two devices over that on one, minus 1, with the same cores.
* `sweep_overhead`: time of a sweep that is not spent in its runs, over the time in its runs.
* `ray_start_s`: until a Ray cluster on this machine has placed its first actor; only where Ray is installed.
* `two_process_ppo_speedup`: simulation steps per second of PPO's environments in two processes of Ray, 64 gear assemblies each with one
  thread each, over those in one. `ppo_modelled_speedup_8`: the same for more places with a core each, from `ppo_simulation_us` and
  `ppo_exchange_ms`, which are measured; `_2` is to be compared with what was measured where two cores were free.
"""

from __future__ import annotations

import importlib.util
import json as json_format
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

from benchmarks.link import STATE_SPEC, HubProcess
from benchmarks.report import Report
from benchmarks.scale_hub import POLICY_BYTES, a_policy, hub_for, ingest, proof, simulated
from benchmarks.scale_nodes import Machines, Trace, machines_for
from benchmarks.swarm import Order
from tandem.link.trainer_end import TrainerEnd
from tandem.runs.folder import RunFolder

Which = Literal["all", "actors", "ingest", "simulated", "devices", "sweep", "ray"]
Nodes = Literal["ray", "processes"]
MESSAGES_PER_S = 640
"""Messages of all actors together, where steps are sent one by one."""
PPO_ROWS = 64
"""Simulations in each process."""
TARGETS: dict[str, tuple[str, float]] = {
    "hub_cpu_us_per_step": ("<=", 50.0),
    "lost": ("==", 0),
    "doubled": ("==", 0),
    "reordered": ("==", 0),
    "ingest_lost": ("==", 0),
    "ingest_doubled": ("==", 0),
    "ingest_reordered": ("==", 0),
    "simulated_over_model": ("<=", 1.25),
    "simulated_lost": ("==", 0),
    "sharded_equals_single": ("<=", 1e-3),
    "sweep_overhead": ("<=", 0.05),
}


@dataclass
class Bench:
    quick: bool
    report: Report

    def many_actors(self, actors: int, by_ray: bool, trace_file: Path | None) -> None:
        hz = min(10.0, MESSAGES_PER_S / actors)
        seconds = 3.0 if self.quick else 10.0
        flood, paced, robots = Order(40 if self.quick else 400), Order(int(seconds * hz), hz), Order(int(seconds * 10), 10.0)
        with hub_for(2 * actors) as hub, machines_for(hub, actors, by_ray) as machines:  # those of a machine that died come as new ones
            self._do(machines, Order(5))
            used = hub.cpu_s()
            took, on_actors = self._do(machines, flood)
            used, count = hub.cpu_s() - used, flood.steps * actors
            self.report.figure(f"actors_{actors}_steps_per_s", count / took, f"steps/s ({'under Ray' if by_ray else 'in processes'})")
            self.report.figure("hub_cpu_us_per_step", used / count * 1e6, "us")
            self.report.figure("actor_cpu_us_per_step", on_actors / count * 1e6, "us")
            used = hub.cpu_s()
            self._do(machines, paced)
            alone = (hub.cpu_s() - used) / (paced.steps * actors) * 1e6
            self.report.figure("hub_cpu_us_per_step_one_by_one", alone, f"us ({actors} x {hz:g} steps/s)")
            used = hub.cpu_s()
            took, _ = self._do(machines, robots)
            self.report.figure("hub_cores_at_10_hz", (hub.cpu_s() - used) / took, f"cores ({robots.steps * actors / took:.0f} steps/s)")
            self._publish(hub, actors)
            self._kill_one(hub, machines, robots, trace_file)
            found = proof(hub.run)
            for name in ("lost", "doubled", "reordered"):
                self.report.figure(name, getattr(found, name), "")
            self._read(hub.run)

    @staticmethod
    def _do(machines: Machines, order: Order) -> tuple[float, float]:
        """Seconds until all is stored, and the CPU seconds of the actors."""
        began = time.perf_counter()
        machines.begin(order)
        used = machines.end()
        return time.perf_counter() - began, used

    def _publish(self, hub: HubProcess, actors: int) -> None:
        """Policies to all actors, who do nothing else."""
        end, count = TrainerEnd(hub.run, STATE_SPEC), 4 if self.quick else 20
        used, began = hub.cpu_s(), time.perf_counter()
        for version in range(1, count + 1):
            end.publish(a_policy(version))
            time.sleep(max(0.5, 20 * POLICY_BYTES * actors / 2**30))
        idle = hub.cpu_s()
        seconds = time.perf_counter() - began
        time.sleep(2.0)
        at_rest = (hub.cpu_s() - idle) / 2.0
        self.report.figure("policy_bytes", POLICY_BYTES, "bytes")
        self.report.figure("hub_cpu_us_per_policy", (idle - used - at_rest * seconds) / (count * actors) * 1e6, f"us ({actors} actors)")
        self.report.figure("hub_cpu_us_per_s_and_actor", at_rest / actors * 1e6, "us, at rest")
        end.close()

    def _kill_one(self, hub: HubProcess, machines: Machines, order: Order, trace_file: Path | None) -> None:
        """While all send; its actors come back as new ones, who first send what the dead ones left behind."""
        trace = Trace(hub.run)
        with trace.kept():
            machines.begin(order)
            time.sleep(min(2.0, 0.3 * order.steps / order.hz))
            trace.killed_at = time.time()
            machines.kill_one()
            machines.end()
        self.report.figure("recovery_s", trace.recovery_s, "s from the kill until all actors are back")
        if trace_file is not None:
            trace_file.write_text("\n".join(trace.lines()) + "\n")

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
        about = f"({found['one']:.0f} simulation steps/s in one process)"
        self.report.figure("two_process_ppo_speedup", found["two"] / found["one"], about)
        parts = Collecting(1 / found["here"], PPO_ROWS / found["one"] - PPO_ROWS / found["here"])
        self.report.figure("ppo_simulation_us", parts.row_s * 1e6, "us for a step of a row, on one core")
        self.report.figure(
            "ppo_exchange_ms", parts.exchange_s * 1e3, f"ms for a step of {PPO_ROWS} rows in another process, beside its simulation"
        )
        for places in (2, 8, 64):
            self.report.figure(
                f"ppo_modelled_speedup_{places}", parts.speedup(PPO_ROWS, places), "by the model, with a core for each process"
            )


@dataclass(frozen=True)
class Collecting:
    """What PPO's collection on several places is made of (docs/scale.md)."""

    row_s: float
    """Seconds for a step of one row on one core."""
    exchange_s: float
    """Seconds in which actions go to a place and observations come back."""

    def speedup(self, rows: int, places: int) -> float:
        """Steps per second of so many places with so many rows each, over those of one place. Places simulate at the same time, and the
        one process that asks them packs and unpacks for one after the other."""
        one = rows * self.row_s + self.exchange_s
        return places * one / (rows * self.row_s + places * self.exchange_s)


def ray_here(quick: bool) -> None:
    """Starts Ray on this machine; prints how long that takes, and simulation steps per second in one and in two processes, as JSON."""
    from tandem.envs.registry import make_batch
    from tandem.programs.cluster import ClusterArgs, RayLauncher, simulations_on
    from tandem.programs.launcher import Part

    began = time.perf_counter()
    handle = RayLauncher(ClusterArgs(), lambda line: None).start(Part("actor", ("actor", "--help")))
    while handle.code is None:
        time.sleep(0.01)
    handle.stop(1.0)  # its place is free again
    start_s, rows, random = time.perf_counter() - began, PPO_ROWS, np.random.default_rng(0)
    envs: dict[str, Any] = {"here": make_batch("gear_assembly", rows, num_threads=1)}
    envs |= {name: simulations_on(ClusterArgs(cpus=0.4), count)("gear_assembly", rows * count) for name, count in (("one", 1), ("two", 2))}
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
    quick: bool = False, json: bool = False, actors: int = 64, only: Which = "all", nodes: Nodes | None = None, trace: Path | None = None
) -> None:
    """What many actors, devices and runs cost.

    Args:
        quick: Short runs, to check that it works.
        json: One JSON object instead of the table.
        actors: Light actors with spools; a multiple of four.
        only: One of the measurements.
        nodes: What the four machines of these actors are. Default: nodes of Ray where it is installed, else processes.
        trace: Write the second by second course of a machine's death and recovery to this file.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    bench = Bench(quick, Report("scale", ("figure", "measured", "target"), TARGETS))
    by_ray = nodes == "ray" or (nodes is None and importlib.util.find_spec("ray") is not None)
    parts = {
        "actors": partial(bench.many_actors, actors, by_ray, trace),
        "ingest": partial(ingest, bench.report, quick),
        "simulated": partial(simulated, bench.report, quick),
        "devices": bench.many_devices,
        "sweep": bench.sweep,
        "ray": bench.ray,
    }
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
