"""Hundreds and thousands of connections against one real hub: what its one writer takes, and whether the model of docs/scale.md holds.

A part of `benchmarks.scale`. The actors are those of `benchmarks/swarm.py`, all in one process beside the hub.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.link import STATE_SPEC, HubProcess, Processes
from benchmarks.report import Report
from benchmarks.swarm import Order, packed_step, serve_swarm
from tandem.link.hub_config import HubConfig
from tandem.link.link_thread import LINGER_S
from tandem.link.steps import Record
from tandem.link.trainer_end import TrainerEnd, open_journal
from tandem.link.writer import Group, Writer
from tandem.runs.board import Board
from tandem.runs.folder import RunFolder
from tandem.types import PolicySnapshot

POLICY_BYTES = 307_200
"""The policy of the gear assembly: 32 numbers, two layers of 256, 6 actions with their deviations."""
INGEST = (64, 128, 256)
SIMULATED = ((256, 10.0), (1000, 4.0), (2000, 1.0))
"""Actors, and steps per second of each: what the hub and all of these actors can do on two cores."""
POLICY_EVERY_S = 4.0
FEW = 64
RATES = (640, 2560)
"""Messages a second: of 64 robots of 10 Hz, and as many as a hub asks for at most (`hub_config.MESSAGES_PER_S`)."""


def serve_many(run: Path, port: int, most: int) -> None:
    from tandem.link.hub import Hub

    Hub(run, HubConfig(port=port, max_actors=most)).serve()


@contextlib.contextmanager
def hub_for(most: int) -> Iterator[HubProcess]:
    """A hub that takes so many actors."""
    with tempfile.TemporaryDirectory() as folder:
        hub = HubProcess(Path(folder) / "run", STATE_SPEC, partial(serve_many, most=most))
        try:
            yield hub
        finally:
            hub.close()


# ---- the proof


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
        for source, count in zip(json.loads(witness.read_text()), made.tolist(), strict=True):
            found = stored.get(source, [])
            lost += len(set(range(count)) - set(found))
            doubled += len(found) - len(set(found))
            reordered += found != sorted(found)
    return Proof(lost, doubled, reordered)


# ---- light actors


@dataclass
class Light:
    """All light actors of one hub."""

    hub: HubProcess
    actors: int

    def __post_init__(self) -> None:
        witness = self.hub.run / "witness"
        witness.mkdir()
        names = [f"light {number}" for number in range(self.actors)]
        self._process = Processes(serve_swarm, [(self.hub.address, self.hub.token, STATE_SPEC, names, witness / "swarm.json")])

    def begin(self, order: Order) -> None:
        self._process.send(order)

    def end(self) -> Any:
        return self._process.results()[0]

    def do(self, order: Order) -> float:
        """Returns the seconds until all is stored."""
        began = time.perf_counter()
        self.begin(order)
        self.end()
        return time.perf_counter() - began

    def hub_cores(self, order: Order) -> float:
        """What the hub uses meanwhile, of one core, per second that the order should take."""
        used = self.hub.cpu_s()
        self.do(order)
        return (self.hub.cpu_s() - used) / (order.steps / order.hz)

    def close(self) -> None:
        self._process.close()


@contextlib.contextmanager
def light_actors(actors: int) -> Iterator[Light]:
    with hub_for(actors) as hub:
        light = Light(hub, actors)
        try:
            light.do(Order(5))
            yield light
        finally:
            light.close()


# ---- one writer for all


def writer_rate(sources: int, steps: int) -> tuple[float, float]:
    """Steps per second, and CPU microseconds per step, of the hub's writer alone, where every step is a message of its own."""
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", "recording", {}, STATE_SPEC).path
        step, problems = packed_step(STATE_SPEC), []
        with open_journal(run, STATE_SPEC, read_only=False) as journal:
            said = {"stored": lambda stored: None, "trouble": problems.append, "failed": problems.append}
            writer = Writer(run, journal, Board(run), durability="power", **said)  # pyright: ignore[reportArgumentType]
            for seq in range(steps // sources):
                for number in range(sources):
                    writer.put(Group(None, seq + 1, True, 1, len(step), [Record(f"source {number}", seq, step)]))
            began, used = time.perf_counter(), time.process_time()
            writer.start()
            writer.stop()
            took, used = time.perf_counter() - began, time.process_time() - used
        assert not problems and writer.accepted == steps // sources * sources, problems
        return writer.accepted / took, used / writer.accepted * 1e6


def behind(light: Light, order: Order) -> np.ndarray:
    """How long after it was made a step is with the trainer, sampled: the steps that are missing there, over those made per second."""
    end = TrainerEnd(light.hub.run, STATE_SPEC)
    end.receive()
    received, rate, samples = 0, light.actors * order.hz, []
    began = time.monotonic()
    light.begin(order)
    while received < light.actors * order.steps:
        time.sleep(0.02)
        received += len(end.receive())
        made = (time.monotonic() - began) * rate
        if made < light.actors * order.steps:
            samples.append((made - received) / rate)
    light.end()
    end.close()
    return np.array(samples)


def ingest(report: Report, quick: bool) -> None:
    """64 to 256 actors and the one thread that writes what they send."""
    flood, paced, found = Order(40 if quick else 400), Order(30 if quick else 100, 10.0), []
    for actors in INGEST:
        with light_actors(actors) as light:
            report.figure(f"ingest_{actors}_steps_per_s", flood.steps * actors / light.do(flood), "steps/s")
            report.figure(f"ingest_{actors}_hub_cores_at_10_hz", light.hub_cores(paced), "cores")
            late = behind(light, paced) * 1e3
            report.figure(f"ingest_{actors}_behind_ms", float(late.mean()), f"ms (the longest {late.max():.0f})")
            light.begin(paced)
            time.sleep(0.4 * paced.steps / paced.hz)
            light.hub.restart()
            light.end()
            found.append(proof(light.hub.run))
        rate, cpu = writer_rate(actors, 10_000 if quick else 100_000)
        report.figure(f"writer_{actors}_steps_per_s", rate, f"steps/s ({cpu:.0f} us of CPU a step)")
    for name in ("lost", "doubled", "reordered"):
        report.figure(f"ingest_{name}", sum(getattr(each, name) for each in found), "with a hub that is killed each time")


# ---- the model


@dataclass(frozen=True)
class Costs:
    """CPU seconds of the hub."""

    at_rest: float
    """For each actor and second."""
    step: float
    policy: float
    """For each actor."""
    messages: tuple[float, float]
    """For each second with `RATES` messages in it. The more of them come, the more are handled together, so this is no line."""

    def cores(self, actors: int, hz: float, policies: float) -> float:
        """The model: what so many actors of this rate take of one core, with so many policies a second."""
        rate = actors * min(hz, 1 / max(LINGER_S["realtime"], HubConfig(max_actors=actors).linger_s))
        messages = float(np.interp(rate, (0, *RATES), (0, *self.messages))) * max(1.0, rate / RATES[-1])
        return actors * (self.at_rest + hz * self.step + policies * self.policy) + messages


def costs(quick: bool) -> Costs:
    """Measured with few actors."""
    seconds, flood = 3 if quick else 10, Order(100 if quick else 1000)
    with light_actors(FEW) as light:
        used = light.hub.cpu_s()
        time.sleep(seconds)
        at_rest = (light.hub.cpu_s() - used) / seconds
        used = light.hub.cpu_s()
        light.do(flood)  # in messages of 100 steps and more
        step = (light.hub.cpu_s() - used) / (flood.steps * FEW)
        alone = [light.hub_cores(Order(int(rate / FEW * seconds), rate / FEW, linger_s=0.0)) for rate in RATES]
        policy = hub_s_per_policy(light.hub, 4 if quick else 20, at_rest) / FEW
    first, second = (cores - at_rest - rate * step for cores, rate in zip(alone, RATES, strict=True))
    return Costs(at_rest / FEW, step, policy, (first, second))


def hub_s_per_policy(hub: HubProcess, count: int, at_rest: float) -> float:
    """CPU seconds for one policy to all actors, who do nothing else. `at_rest`: its CPU seconds per second without any."""
    end, used, began = TrainerEnd(hub.run, STATE_SPEC), hub.cpu_s(), time.perf_counter()
    for version in range(1, count + 1):
        end.publish(a_policy(version))
        time.sleep(0.5)
    end.close()
    return (hub.cpu_s() - used - at_rest * (time.perf_counter() - began)) / count


def a_policy(version: int) -> PolicySnapshot:
    return PolicySnapshot(version, version, {"w": np.zeros(POLICY_BYTES // 4, np.float32)})


def simulated(report: Report, quick: bool) -> None:
    """The model, from what 64 actors cost, against thousands of them."""
    known = costs(quick)
    for name in ("at_rest", "step", "policy"):
        report.figure(f"model_{name}_us", getattr(known, name) * 1e6, f"us of the hub, with {FEW} actors")
    for rate, cores in zip(RATES, known.messages, strict=True):
        report.figure(f"model_{rate}_messages_cores", cores, "cores, for so many messages a second")
    ratios, found = [], []
    for actors, hz in SIMULATED:
        with light_actors(actors) as light:
            steps = int((5 if quick else 20) * hz)
            policies = 0 if quick else int(steps / hz / POLICY_EVERY_S)
            used, end = light.hub.cpu_s(), TrainerEnd(light.hub.run, STATE_SPEC)
            began = time.perf_counter()
            light.begin(Order(steps, hz))
            for version in range(1, policies + 1):
                end.publish(a_policy(version))
                time.sleep(POLICY_EVERY_S)
            light.end()
            took = time.perf_counter() - began
            end.close()
            measured = (light.hub.cpu_s() - used) / (steps / hz)
            expected = known.cores(actors, hz, policies * hz / steps)
            found.append(proof(light.hub.run))
        ratios.append(measured / expected)
        report.figure(
            f"simulated_{actors}_hub_cores", measured, f"cores ({steps * actors / took:.0f} steps/s; the model says {expected:.2f})"
        )
    report.figure("simulated_over_model", max(ratios), "the worst of them")
    report.figure("simulated_lost", sum(each.lost + each.doubled + each.reordered for each in found), "lost, doubled or reordered")
