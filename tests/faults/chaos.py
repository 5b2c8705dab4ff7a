"""Random faults at random moments of long runs, with the proof after each. `make chaos`, or

python -m tests.faults.chaos [--faults 1000] [--transitions 1000000] [--json]        `--faults 20` is a smoke run of some minutes

Each round is a run of its own: a learner, and two actors with light environments (`counted_point`). A fault strikes about every two
seconds; one of eight strikes while all robots have been told to STOP. Where this machine can make one, everything lies on a disk that
forgets what was not flushed (`volatile_disk`), and some of the faults are power cuts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tyro

from benchmarks.report import Report
from tests.faults.rig import LATCHED, Proof, Rig
from tests.faults.volatile_disk import NoVolatileDisk, VolatileDisk

CHANCES = {
    "kill_actor": 24,
    "cut_mid_frame": 24,
    "kill_hub": 14,
    "clock_jumps": 12,
    "stop_actor": 8,
    "stop_hub": 5,
    "silence": 3,
    "disk_full": 3,
    "slow_and_lossy": 2,
    "kill_trainer": 2,
    "kill_all": 1.5,
    "power_cut": 1.5,
    "disk_fills_up": 2,
}
"""How often each fault strikes among a hundred: those after which a trainer has to start take the time of ten others."""
STOPPED = 1 / 8
"""The share of faults that strike while the robots have been told to stand still."""
RESTARTS_ACTORS = ("kill_actor", "kill_all", "power_cut")
ROUND_FAULTS, ENVIRONMENTS = 100, 64
DISK_MB = 512
TARGETS = {
    "lost": ("==", 0.0),
    "doubled": ("==", 0.0),
    "reordered": ("==", 0.0),
    "unknown": ("==", 0.0),
    "moved_while_stopped": ("==", 0.0),
}


@dataclass
class Tally:
    """What all rounds together have shown."""

    faults: Counter[str] = field(default_factory=Counter)
    while_stopped: Counter[str] = field(default_factory=Counter)
    recoveries: dict[str, list[float]] = field(default_factory=dict)
    proof: Counter[str] = field(default_factory=Counter)
    broken_off: list[str] = field(default_factory=list)

    def add(self, proof: Proof) -> None:
        self.proof.update(dataclasses.asdict(proof))


def main(
    faults: int = 1000, transitions: int = 1_000_000, seed: int = 0, json: bool = False, latch: bool = LATCHED, only: tuple[str, ...] = ()
) -> int:
    """Put runs through random faults and count what became of their steps, and whether a robot moved that had to stand still.

    Args:
        faults: How many, in rounds of at most 100.
        transitions: Each round goes on until it has its share of these (--faults below 100: a thousand for each fault).
        seed: Of the faults and their moments.
        json: One JSON object instead of a table.
        latch: Also restart actors while their robots must stand still. Default: where this version has the latch.
        only: These faults alone, such as `disk_fills_up` (the disk of run and spools, for everyone; `disk_full` is the hub's alone).
    """
    rounds = max(1, round(faults / ROUND_FAULTS))
    if faults < ROUND_FAULTS:
        transitions = min(transitions, 1000 * faults)
    tally, began = Tally(), time.monotonic()
    for number in range(rounds):
        share = faults // rounds + (number < faults % rounds)
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder, contextlib.ExitStack() as stack:
            disk = _disk(Path(folder) / "disk", stack)
            rig = Rig(Path(folder), seed=seed + number, num_envs=ENVIRONMENTS, ratio=0.01, disk=disk)
            stack.callback(rig.close)
            try:
                left_out = (() if disk else ("power_cut", "disk_fills_up")) + tuple(name for name in CHANCES if only and name not in only)
                one_round(rig, tally, share, transitions // rounds, left_out, latch)
            except AssertionError as problem:
                tally.broken_off.append(f"round {number}: {problem}")
        minutes = (time.monotonic() - began) / 60
        print(f"round {number + 1} of {rounds}: {tally.faults.total()} faults, {dict(tally.proof)}, {minutes:.1f} min", file=sys.stderr)
    report = summary(tally, faults, transitions, (time.monotonic() - began) / 60)
    report.show(json)
    for problem in tally.broken_off:
        print(problem, file=sys.stderr)
    return 1 if tally.broken_off or report.unmet() else 0


def _disk(folder: Path, stack: contextlib.ExitStack) -> VolatileDisk | None:
    try:
        disk = VolatileDisk(folder, DISK_MB)
    except NoVolatileDisk as problem:
        print(f"no power cuts: this machine can make no disk that forgets ({problem})", file=sys.stderr)
        return None
    stack.callback(disk.close)
    return disk


def one_round(rig: Rig, tally: Tally, faults: int, transitions: int, left_out: tuple[str, ...], latch: bool) -> None:
    chance = random.Random(rig.random.random())
    possible = {name: share for name, share in CHANCES.items() if name not in left_out}
    harmless = {name: share for name, share in possible.items() if latch or name not in RESTARTS_ACTORS}
    rig.wait("all is well", rig.well)
    for _ in range(faults):
        stopped = chance.random() < STOPPED
        chances = harmless if stopped else possible
        [fault] = chance.choices(list(chances), list(chances.values()))
        tally.faults[fault] += 1
        if stopped:
            tally.while_stopped[fault] += 1
            rig.strike_while_stopped(fault)
        else:
            tally.recoveries.setdefault(fault, []).append(rig.strike(fault))
    rig.wait(f"{transitions:,} transitions", lambda: rig.steps() >= transitions, seconds=1800)
    summary = rig.finish()
    proof = rig.proof()
    tally.add(proof)
    assert proof.steps == summary["actor_step"], f"{proof.steps} steps are proven, the learner has {summary['actor_step']}"


def summary(tally: Tally, faults: int, transitions: int, minutes: float) -> Report:
    targets = TARGETS | {"faults": (">=", float(faults)), "transitions": (">=", float(transitions)), "minutes": ("<=", 60.0)}
    report = Report("chaos", ("fault", "times", "of them while stopped", "return, median", "slowest"), targets)
    for fault in CHANCES:
        times = tally.recoveries.get(fault, [])
        shown = (f"{np.median(times):.1f} s", f"{max(times):.1f} s") if times else ("", "")
        report.row(fault, tally.faults[fault], tally.while_stopped[fault], *shown)
    every = [seconds for times in tally.recoveries.values() for seconds in times]
    report.figures = {
        "faults": float(tally.faults.total()),
        "transitions": float(tally.proof["steps"]),
        **{name: float(tally.proof[name]) for name in ("lost", "doubled", "reordered", "unknown", "moved_while_stopped", "unflushed")},
        "stops": float(tally.while_stopped.total()),
        "recoveries_s_p50": round(float(np.median(every)), 2) if every else 0.0,
        "recoveries_s_p99": round(float(np.percentile(every, 99)), 2) if every else 0.0,
        "minutes": round(minutes, 1),
        "rounds_broken_off": float(len(tally.broken_off)),
        **{f"faults_{name}": float(tally.faults[name]) for name in CHANCES},
    }
    return report


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
