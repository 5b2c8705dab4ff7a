"""What does it cost to run actor, hub and trainer as separate processes?

    python -m benchmarks.link [--quick] [--json]

Real processes and sockets on this machine; steps of the gear assembly (about 700 bytes), and the policy of its default agent.

* `publish_to_applied_ms_p99`: from `TrainerEnd.publish` until the actor's control loop has the policy ready, at fast pace.
* `step_overhead_ms_p99_*`: time inside the link's calls in one period of a 100 Hz control loop (send, policy, credit, commands), with a
  healthy, a killed and a frozen hub, while a trainer, niced as in training, uses all cores.
* `hub_cpu_us_per_step`: CPU time of the hub process per step, with four actors of 500 steps per second each;
  `_flood`: one actor as fast as it can; `_fast_pace`: steps one by one as credit allows; `image_step`: with two images of 128 x 128.
* `fast_pace_steps_per_s_power`, `_process`: what waiting for the disk before an acknowledgement costs a simulation, at worst.
* `policy_bytes`, and its share of the agent's whole state.
* `eight_actors_steps_per_s`: the rate at which eight processes can make steps and the hub can store them.
* `trainer_slowdown_4_actors`: how much slower the trainer is because of the *link*, not because the actors' simulations use the same
  cores. In turns, four processes run the same simulated control loop (same rate, same CPU time per step): once with the link and a hub,
  once without the link and with the hub frozen. The benchmark compares the trainer's rates, and its CPU time per learner step, which
  shows what reading the journal and publishing add.
"""

from __future__ import annotations

import contextlib
import functools
import math
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.report import Report
from tandem.files import Durability
from tandem.link.client import ActorClient, ClientConfig
from tandem.link.messages import pack_policy
from tandem.link.trainer_end import TrainerEnd
from tandem.runs.folder import RunFolder
from tandem.types import Continuous, Entry, PolicySnapshot, Spec, Transition

TARGETS = {
    "publish_to_applied_ms_p99": ("<=", 50.0),
    "step_overhead_ms_p99_healthy": ("<=", 1.0),
    "step_overhead_ms_p99_dead": ("<=", 1.0),
    "step_overhead_ms_p99_stopped": ("<=", 1.0),
    "hub_cpu_us_per_step": ("<=", 50.0),
    "trainer_slowdown_4_actors": ("<=", 0.1),
}
CONTEXT = multiprocessing.get_context("spawn")
STATE_SPEC = Spec(
    task="benchmark",
    observation={name: Entry((6,)) for name in ("tcp_pose", "tcp_velocity", "wrench", "command_offset", "previous_action")}
    | {"gear_phase": Entry((2,))},
    action=(Continuous("arm", 6),),
    control_hz=10.0,
    max_episode_steps=100,
    return_range=(0.0, 1.0),
)
"""The shapes of the gear assembly."""
IMAGE_SPEC = Spec(
    task="benchmark",
    observation={"state": Entry((14,)), "wrist": Entry((128, 128, 3), "uint8"), "front": Entry((128, 128, 3), "uint8")},
    action=(Continuous("arm", 7),),
    control_hz=10.0,
    max_episode_steps=100,
    return_range=(0.0, 1.0),
)
SIMULATION_S = 0.004
"""Approximate CPU time of one simulation step of the gear assembly in contact."""


class Steps:
    """Steps of one source, without a simulation."""

    def __init__(self, spec: Spec, source: str) -> None:
        random = np.random.default_rng(0)
        self._seen = {name: (random.random(entry.shape) * 200).astype(entry.dtype) for name, entry in spec.observation.items()}
        self._action, self._source, self._seq = np.zeros(spec.action_dim, np.float32), source, 0

    def next(self) -> Transition:
        self._seq += 1
        return Transition(
            self._seen,
            self._action,
            0.0,
            self._seen,
            False,
            False,
            step=self._seq - 1,
            policy_version=1,
            source=self._source,
            seq=self._seq - 1,
        )


def burn(seconds: float) -> None:
    """Use this much CPU time, as a simulation would."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


# ---- processes


def serve(run: Path, port: int, durability: Durability = "power") -> None:
    from tandem.link.hub import Hub, HubConfig

    Hub(run, HubConfig(port=port, durability=durability)).serve()


class HubProcess:
    """A hub process that can be killed or frozen; reports its CPU time."""

    def __init__(self, run: Path, spec: Spec, target: Callable[[Path, int], None] = serve) -> None:
        self._folder, self.run, self._target = RunFolder.create(run, "recording", {}, spec), run, target
        self._start(0)
        self.token = self._folder.token

    def _start(self, port: int) -> None:
        self._process = CONTEXT.Process(target=self._target, args=(self.run, port), daemon=True)
        self._process.start()
        while (hub := self._folder.hub()) is None:
            time.sleep(0.01)
        self.address = hub["address"]

    def restart(self) -> None:
        """Killed, and started again on the same port."""
        self.close()
        self._folder.hub_file.unlink(missing_ok=True)
        self._start(int(self.address.rsplit(":", 1)[1]))

    def client(self, spec: Spec, spool: Path, **options: Any) -> dict[str, Any]:
        """Arguments with which an actor process makes its client."""
        return {"address": self.address, "spec": spec, "token": self.token, "name": "benchmark", "rows": 1, "spool": spool} | options

    def signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def cpu_s(self) -> float:
        """CPU time of all its threads so far, in seconds."""
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def close(self) -> None:
        self.signal(signal.SIGCONT)
        self._process.kill()
        self._process.join()


@contextlib.contextmanager
def hub_of(spec: Spec, durability: Durability = "power") -> Iterator[HubProcess]:
    with tempfile.TemporaryDirectory() as folder:
        hub = HubProcess(Path(folder) / "run", spec, functools.partial(serve, durability=durability))
        try:
            yield hub
        finally:
            hub.close()


class Processes:
    """Processes that run the same function; each reports that it is ready, waits for a command, and sends its result."""

    def __init__(self, work: Callable[..., None], arguments: list[tuple[Any, ...]]) -> None:
        self.ends: list[Any] = []
        self._processes = []
        for each in arguments:
            mine, theirs = CONTEXT.Pipe()
            process = CONTEXT.Process(target=work, args=(theirs, *each), daemon=True)
            process.start()
            theirs.close()
            self.ends.append(mine)
            self._processes.append(process)
        self.send("ready?")
        self.results()

    def send(self, command: Any) -> None:
        for end in self.ends:
            end.send(command)

    def results(self) -> list[Any]:
        return [end.recv() for end in self.ends]

    def close(self) -> None:
        for end, process in zip(self.ends, self._processes, strict=True):
            process.kill()
            process.join()
            end.close()


def connected(end: Connection, options: dict[str, Any]) -> ActorClient:
    """A connected client; replies to the question whether it is ready."""
    client = ActorClient(options["spec"], ClientConfig(**{name: value for name, value in options.items() if name != "spec"}))
    client.connect()
    end.recv()
    end.send(client.source)
    return client


def real_time(end: Connection, options: dict[str, Any], hz: float) -> None:
    """A control loop at a fixed rate for the commanded seconds; sends the time inside the link's calls in each period, in ms."""
    client = connected(end, options)
    steps = Steps(options["spec"], client.source)
    while True:
        seconds, took = end.recv(), []
        began = time.perf_counter()
        for number in range(int(seconds * hz)):
            time.sleep(max(0.0, began + number / hz - time.perf_counter()))
            step = steps.next()
            start = time.perf_counter()
            client.send([step])
            client.newest_policy(10**9)
            client.may_step(0.0)
            client.commands()
            took.append((time.perf_counter() - start) * 1e3)
        end.send(took)


def flood(end: Connection, options: dict[str, Any]) -> None:
    """Sends the commanded number of steps as fast as possible; replies when all are acknowledged."""
    client = connected(end, options)
    steps = Steps(options["spec"], client.source)
    while True:
        for _ in range(end.recv()):
            client.send([steps.next()])
        while client.status.unacknowledged:
            time.sleep(0.001)
        end.send(None)


def fast_pace(end: Connection, options: dict[str, Any]) -> None:
    """Makes steps as credit allows for the commanded seconds; sends their number and when each policy was ready."""
    from tandem.networks.numpy_policy import NumpyPolicy

    client = connected(end, options)
    steps = Steps(options["spec"], client.source)
    version = -1
    while True:
        until, made, applied = time.monotonic() + end.recv(), 0, {}
        while time.monotonic() < until:
            snapshot = client.newest_policy(version)
            if snapshot is not None:
                NumpyPolicy(snapshot.parameters)
                version = snapshot.version
                applied[version] = time.monotonic()
                client.acting_with(snapshot)
            if client.may_step(0.05):
                time.sleep(0.001)  # the simulation
                client.send([steps.next()])
                made += 1
        end.send((made, applied))


def with_or_without(end: Connection, options: dict[str, Any], hz: float) -> None:
    """A simulated control loop for the commanded seconds, with or without the link; sends its CPU time."""
    client = connected(end, options)
    steps = Steps(options["spec"], client.source)
    while True:
        seconds, linked = end.recv()
        began, used = time.perf_counter(), time.process_time()
        for number in range(int(seconds * hz)):
            time.sleep(max(0.0, began + number / hz - time.perf_counter()))
            burn(SIMULATION_S)
            if linked:
                client.newest_policy(10**9)
                client.send([steps.next()])
        end.send(time.process_time() - used)


# ---- the trainer


class Trainer:
    """The default agent on artificial data, at full speed."""

    def __init__(self) -> None:
        from tandem.agents.sac import SAC
        from tandem.agents.sac_config import SACConfig
        from tandem.data.mixing import Mixture
        from tandem.data.replay import Replay
        from tandem.layouts import Layout

        self.agent = SAC(SACConfig(), Layout(STATE_SPEC).size, STATE_SPEC.action_dim, STATE_SPEC.return_range)
        self.state = self.agent.init(0)
        steps = Steps(STATE_SPEC, "demo")
        demos, online = Replay(STATE_SPEC, 4000), Replay(STATE_SPEC, 4000)
        for replay in (demos, online):
            replay.extend([steps.next() for _ in range(2000)])
        self._mixture, self._random = Mixture(demos, online, 256), np.random.default_rng(0)
        self.steps, self.version = 0, 0
        self.learn(5)

    def learn(self, count: int) -> None:
        import jax

        for _ in range(count):
            batch = self._mixture.sample(self._random, self.agent.config.cta_ratio)
            self.state, _ = self.agent.update(self.state, batch)
        self.steps += count
        jax.block_until_ready(self.state)

    def snapshot(self) -> PolicySnapshot:
        self.version += 1
        return PolicySnapshot(self.version, self.steps, self.agent.policy_parameters(self.state))

    def learn_for(self, seconds: float, end: TrainerEnd | None) -> tuple[float, float]:
        """Learner steps per second, and CPU seconds per step; with an `end`, it reads and publishes as in training."""
        began, used, before = time.perf_counter(), time.process_time(), self.steps
        while time.perf_counter() - began < seconds:
            self.learn(1)
            if end is not None:
                end.receive()
                end.beat(learner_step=self.steps, phase="training", steps_before=0, updates_per_actor_step=0.01)
                if self.steps % 50 == 0:
                    end.publish(self.snapshot())
        count = self.steps - before
        return count / (time.perf_counter() - began), (time.process_time() - used) / count


def hog(end: Connection) -> None:
    """A trainer that runs until it receives a message."""
    os.nice(10)
    trainer = Trainer()
    end.recv()
    end.send(None)
    while not end.poll():
        trainer.learn(1)


# ---- the measurements


@dataclass
class Bench:
    quick: bool
    report: Report

    def policies(self, trainer: Trainer) -> None:
        packed = len(pack_policy(trainer.snapshot()))
        tree = sum(array.nbytes for array in trainer.agent.arrays(trainer.state).values())
        self.report.figure("policy_bytes", packed, "bytes")
        self.report.figure("policy_bytes_share_of_tree", packed / tree, "")
        with hub_of(STATE_SPEC) as hub:
            end = TrainerEnd(hub.run, STATE_SPEC)
            beat = {"phase": "training", "steps_before": 0, "updates_per_actor_step": 1.0}
            end.beat(learner_step=0, **beat)
            actors = Processes(fast_pace, [(hub.client(STATE_SPEC, hub.run / "spool", pace="fast"),)])
            count = 40 if self.quick else 400
            published, step, used = {}, 0, hub.cpu_s()
            actors.send(count * 0.05 + 1.0)
            for _ in range(count):
                snapshot = trainer.snapshot()
                published[snapshot.version] = time.monotonic()
                end.publish(snapshot)
                for _ in range(8):  # 160 learner steps a second
                    step += 1
                    end.beat(learner_step=step, **beat)
                    time.sleep(0.05 / 8)
            [(made, applied)] = actors.results()
            used = hub.cpu_s() - used
            actors.close()
            end.close()
        late = [(applied[version] - at) * 1e3 for version, at in published.items() if version in applied]
        assert len(late) > 0.9 * count, "most policies were never applied"
        self.report.figure("publish_to_applied_ms_p50", np.median(late), "ms")
        self.report.figure("publish_to_applied_ms_p99", np.percentile(late, 99), "ms")
        self.report.figure(
            "hub_cpu_us_per_step_fast_pace", used / made * 1e6, f"us ({made / (count * 0.05 + 1):.0f} steps/s, policies included)"
        )

    def overheads(self) -> None:
        trainer = Processes(hog, [()])
        seconds = 3.0 if self.quick else 30.0
        for name, number in (("healthy", 0), ("dead", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
            with hub_of(STATE_SPEC) as hub:
                actors = Processes(real_time, [(hub.client(STATE_SPEC, hub.run / "spool", pace="realtime"), 100.0)])
                if number:
                    hub.signal(number)
                actors.send(seconds)
                [took] = actors.results()
                actors.close()
            self.report.figure(f"step_overhead_ms_p50_{name}", np.median(took), "ms")
            self.report.figure(f"step_overhead_ms_p99_{name}", np.percentile(took, 99), "ms")
        trainer.close()

    def hub_costs(self) -> None:
        seconds = 3.0 if self.quick else 15.0
        for name, spec, hz in (("hub_cpu_us_per_step", STATE_SPEC, 500.0), ("hub_cpu_us_per_image_step", IMAGE_SPEC, 20.0)):
            with hub_of(spec) as hub:
                actors = Processes(real_time, [(hub.client(spec, hub.run / f"spool{i}", pace="realtime"), hz) for i in range(4)])
                actors.send(0.5)
                actors.results()
                used = hub.cpu_s()
                actors.send(seconds)
                took = actors.results()
                time.sleep(0.1)
                self.report.figure(name, (hub.cpu_s() - used) / sum(map(len, took)) * 1e6, f"us ({4 * hz:.0f} steps/s)")
                actors.close()
        for name, number, count in (("hub_cpu_us_per_step_flood", 1, 20_000), ("eight_actors_steps_per_s", 8, 5000)):
            with hub_of(STATE_SPEC) as hub:
                options = [(hub.client(STATE_SPEC, hub.run / f"spool{i}", pace="realtime"),) for i in range(number)]
                actors = Processes(flood, options)
                count = count // 5 if self.quick else count
                used, began = hub.cpu_s(), time.perf_counter()
                actors.send(count)
                actors.results()
                rate, used = number * count / (time.perf_counter() - began), hub.cpu_s() - used
                actors.close()
            if number == 1:
                self.report.figure(name, used / count * 1e6, f"us ({rate:.0f} steps/s)")
            else:
                self.report.figure(name, rate, "steps/s")

    def durabilities(self) -> None:
        """In turns, because a disk is not equally fast at all times: one actor that waits for credit after every second step."""
        rates: dict[Durability, list[float]] = {"power": [], "process": []}
        seconds, turns = (1.0, 2) if self.quick else (3.0, 6)
        for _ in range(turns):
            for durability, found in rates.items():
                with hub_of(STATE_SPEC, durability) as hub:
                    end = TrainerEnd(hub.run, STATE_SPEC)
                    end.beat(learner_step=0, phase="training", steps_before=10**9, updates_per_actor_step=1.0)
                    options = hub.client(STATE_SPEC, hub.run / "spool", pace="fast", durability=durability)
                    actors = Processes(fast_pace, [(options,)])
                    actors.send(seconds)
                    [(made, _)] = actors.results()
                    found.append(made / seconds)
                    actors.close()
                    end.close()
        for durability, found in rates.items():
            self.report.figure(f"fast_pace_steps_per_s_{durability}", np.median(found), "steps/s, at most two steps unacknowledged")

    def slowdown(self, trainer: Trainer) -> None:
        hz, seconds, turns = 25.0, 2.0 if self.quick else 5.0, 2 if self.quick else 10
        with hub_of(STATE_SPEC) as hub:
            end = TrainerEnd(hub.run, STATE_SPEC)
            options = [(hub.client(STATE_SPEC, hub.run / f"spool{i}", pace="realtime"), hz) for i in range(4)]
            actors = Processes(with_or_without, options)
            rates: dict[bool, list[float]] = {True: [], False: []}
            cpu: dict[bool, list[float]] = {True: [], False: []}
            actor_cpu: dict[bool, list[float]] = {True: [], False: []}
            for turn in range(2 * turns):
                linked = turn % 2 == 0
                hub.signal(signal.SIGCONT if linked else signal.SIGSTOP)
                actors.send((seconds, linked))
                rate, each = trainer.learn_for(seconds - 0.2, end if linked else None)
                actor_cpu[linked].append(sum(actors.results()) / seconds)
                rates[linked].append(rate)
                cpu[linked].append(each)
            hub.signal(signal.SIGCONT)
            actors.close()
            end.close()
        ratios = np.array(rates[False]) / np.array(rates[True])
        self.report.figure("trainer_steps_per_s_4_actors", np.median(rates[True]), "learner steps/s")
        self.report.figure("trainer_slowdown_4_actors", np.median(ratios) - 1, f"(4 x {hz:.0f} steps/s)")
        self.report.figure(
            "trainer_cpu_share_of_link", np.median(np.array(cpu[True]) / np.array(cpu[False])) - 1, "of its CPU time per learner step"
        )
        self.report.figure(
            "actors_cpu_share", np.median(actor_cpu[False]) / (os.cpu_count() or 1), "of all cores, for the simulations alone"
        )
        self.report.figure(
            "actors_cpu_share_of_link", np.median(np.array(actor_cpu[True]) / np.array(actor_cpu[False])) - 1, "of their CPU time"
        )


def main(quick: bool = False, json: bool = False) -> None:
    """What the link costs the actor, the hub and the trainer.

    Args:
        quick: Short runs, to check that it works.
        json: One JSON object instead of the table.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    bench = Bench(quick, Report("link", ("figure", "measured", "target"), TARGETS))
    bench.overheads()
    bench.hub_costs()
    bench.durabilities()
    trainer = Trainer()
    bench.policies(trainer)
    os.nice(10)  # as the trainer of a run, which leaves the cores to the control loops
    bench.slowdown(trainer)
    assert all(math.isfinite(value) for value in bench.report.figures.values())
    bench.report.show(json)


if __name__ == "__main__":
    tyro.cli(main)
