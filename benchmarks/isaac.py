"""Does the client of Isaac's gear server keep its rate, lose steps when connections break, and find what is wrong with a server?

    MUJOCO_GL=egl python -m benchmarks.isaac [--figures rate steps preflight] [--out benchmark_isaac] [--quick] [--json]
    MUJOCO_GL=egl python -m benchmarks.isaac --figures lift --minutes 60

The server is the stand-in (`tandem serve-like isaac`) with its MuJoCo scene and two cameras. What was measured is kept in OUT/figures.json
after each part (of the pre-flight after each server), and is not measured again: a benchmark that was interrupted goes on. `--fresh` begins
anew. Every part says how far it is, and ends within a time.

* `rate_kept`: share of the steps whose command left within 5 ms of a control period (100 ms) after the one before. Server and client are
  processes of their own; the client has the control loop's rhythm.
* `machine_kept`: the same share of a loop that only sleeps; below 0.99 other programs use the cores, and nothing keeps its rate.
* `steps_lost`, `steps_invented`: steps that the server executed and that were no transition, and transitions whose command the server
  never got, while a proxy cuts all connections at random moments.
* `preflight_found`, `false_alarms`: of 8 quirks, each alone on a server, how many `tandem robot check` names; and what it names that is not
  there, the clean server included.

* `isaac_lift_success`: share of the episodes in which the gear is lifted by a policy that learned from 25 demonstrations, two cameras and
  the actor's own steps for `--minutes`, at the user's action scale and simulated speed (`benchmarks/isaac_lift.py`); `lift_minutes` says
  after how long. It is not among the parts that are measured by default.
"""

from __future__ import annotations

import json as json_module
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

from benchmarks.isaac_lift import Lift, lift_success, stand_in
from benchmarks.proxy import Proxy
from benchmarks.report import Report
from tandem.acting.control_loop import Rhythm
from tandem.envs.http_robot.env import RobotEnv
from tandem.envs.http_robot.wire import Address
from tandem.envs.isaac.env import isaac_env
from tandem.envs.isaac.profile import DEFAULT, read_profile
from tandem.envs.isaac.scene import GearScene
from tandem.envs.isaac.stand_in import QUIRKS, isaac_server
from tandem.envs.robot_checks import open_preflight
from tandem.files import write_atomically

TARGETS = {
    "rate_kept": (">=", 0.99),
    "steps_lost": ("==", 0.0),
    "steps_invented": ("==", 0.0),
    "preflight_found": ("==", float(len(QUIRKS))),
    "false_alarms": ("==", 0.0),
}
BETWEEN_CUTS_S = (0.15, 0.5)
"""Shortest and longest time between two cuts; a step takes 0.1 s, and a picture comes every 0.05 s."""
SLACK_S = 0.005
STEP = np.array([[0.0, 0.0, 0.02, 0.0, 0.0, 0.0, 1.0]], np.float32)
"""A slow way along the tool's z, so that every command is another one."""


@contextmanager
def served(*quirks: str) -> Iterator[Address]:
    """A stand-in in a process of its own."""
    with stand_in(1.0, *quirks) as url:
        yield Address.of(f"isaac+{url}", DEFAULT, "isaac")


def rate_kept(steps: int) -> tuple[float, float]:
    """Share of the periods within the slack, and the 99th percentile of the difference (ms)."""
    with served("async-reset") as address:
        env = isaac_env(read_profile(DEFAULT), address)
        env.reset()
        rhythm, sent = Rhythm(env.spec.control_hz), []
        rhythm.restart()
        for _ in range(steps):
            sent.append(time.monotonic())
            assert env.step(STEP).lost is None
            rhythm.wait()
        env.halt("the benchmark ends")
        env.close()
    off = np.abs(np.diff(sent) - 1 / env.spec.control_hz)
    return float((off < SLACK_S).mean()), 1e3 * float(np.percentile(off, 99))


def machine_kept(steps: int) -> float:
    """The share that a loop without any work keeps."""
    rhythm, woken = Rhythm(read_profile(DEFAULT).time.control_hz), []
    for _ in range(steps):
        rhythm.wait()
        woken.append(time.monotonic())
    return float((np.abs(np.diff(woken) - 1 / read_profile(DEFAULT).time.control_hz) < SLACK_S).mean())


def broken_connections(disconnects: int) -> tuple[int, int, int]:
    """Steps lost, steps invented, and connections that were broken."""
    with isaac_server(GearScene(0)) as server, Proxy(int(server.address.rstrip("/").rpartition(":")[2])) as proxy:
        got: set[tuple[float, ...]] = set()
        command = server.loop.command

        def witness(kind: str, value: Any) -> None:
            if kind == "pose":
                got.add(tuple(np.asarray(value, np.float32)[:3].tolist()))
            command(kind, value)

        env = isaac_env(read_profile(DEFAULT), Address("127.0.0.1", proxy.port, DEFAULT))
        env.reset()
        server.loop.command = witness
        before = proxy.cuts
        lost, places = _act(env, proxy, disconnects)
        cuts = proxy.cuts - before
        env.close()
    return lost + len(got - places), len(places - got), cuts


def _act(env: RobotEnv, proxy: Proxy, disconnects: int) -> tuple[int, set[tuple[float, ...]]]:
    """Step while another thread cuts; the steps that were lost, and the commands of those that were made."""
    first, done = proxy.cuts, threading.Event()

    def cut() -> None:
        random = np.random.default_rng(0)
        while proxy.cuts - first < disconnects:
            time.sleep(random.uniform(*BETWEEN_CUTS_S))
            proxy.cut()
        done.set()

    threading.Thread(target=cut, daemon=True).start()
    lost, places, rhythm = 0, set[tuple[float, ...]](), Rhythm(env.spec.control_hz)
    until = time.monotonic() + 60 + disconnects * BETWEEN_CUTS_S[1]
    while not done.is_set() and time.monotonic() < until:
        step = env.step(STEP)
        lost += step.lost is not None
        if step.lost is not None:
            break
        assert env.arm.commanded is not None
        places.add(tuple(env.arm.commanded[0].astype(np.float32).tolist()))
        rhythm.wait()
    return lost, places


def check(*quirks: str) -> set[str]:
    """What the pre-flight names."""
    with served(*quirks) as address:
        _, _, preflight = open_preflight(f"isaac+{address.url}")
        try:
            preflight.look()
            preflight.move()
        finally:
            preflight.close()
    return preflight.report.codes


class Kept:
    """The figures so far, in a file."""

    def __init__(self, folder: Path, fresh: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "figures.json"
        kept = self._path.exists() and not fresh
        self._values: dict[str, Any] = json_module.loads(self._path.read_text()) if kept else {}

    def get(self, name: str, measure: Callable[[], Any]) -> Any:
        """The figure of this name; measured and written down if it is not there yet."""
        if name not in self._values:
            began = time.monotonic()
            say(f"measuring {name}")
            value = measure()
            say(f"{name}: {value} ({time.monotonic() - began:.0f} s)")
            self._values[name] = value
            write_atomically(self._path, json_module.dumps(self._values, indent=1).encode())
        return self._values[name]


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def main(
    figures: tuple[Literal["rate", "steps", "preflight", "lift"], ...] = ("rate", "steps", "preflight"),
    steps: int = 300,
    disconnects: int = 100,
    minutes: float = 60.0,
    speed: float = 3.0,
    profile: str = "gear_lift_10mm",
    turn_rad: float = 0.0,
    pretrain_steps: int = Lift.pretrain_steps,
    out: Path = Path("benchmark_isaac"),
    fresh: bool = False,
    quick: bool = False,
    json: bool = False,
) -> None:
    """Rate, broken connections, pre-flight and learning against the stand-in for Isaac's server.

    Args:
        figures: What to measure.
        steps: Steps whose rhythm is measured.
        disconnects: Connections that are broken.
        minutes: How long the lift is learned, evaluations and recording not counted.
        speed: Seconds that are simulated in a second while the lift is learned.
        profile: The version of the user's lift.
        turn_rad: Keep the tool within so many radians of its orientation at the start; 0: free, as the user's client lets it.
        pretrain_steps: Learner steps of the lift on the demonstrations alone before the robot's own count; the user's script makes 5,000.
        out: Folder for what was measured; the same folder goes on.
        fresh: Measure again what is in the folder. A run of the lift there is continued all the same.
        quick: 50 steps, 10 connections, two quirks; of the lift 3 demonstrations, 2 minutes and 2 episodes.
        json: Print one JSON object.
    """
    steps, disconnects = (50, 10) if quick else (steps, disconnects)
    report, kept = Report("Isaac's server", ("figure", "value", "target"), _targets(figures)), Kept(out, fresh)
    values = report.figures
    if "rate" in figures:
        values["rate_kept"], values["period_off_ms_p99"] = kept.get("rate", lambda: rate_kept(steps))
        values["machine_kept"] = kept.get("machine", lambda: machine_kept(steps))
    if "steps" in figures:
        values["steps_lost"], values["steps_invented"], values["disconnects"] = kept.get("steps", lambda: broken_connections(disconnects))
    if "preflight" in figures:
        chosen = list(QUIRKS)[:2] if quick else list(QUIRKS)
        found = {quirk: set(kept.get(f"preflight {quirk}", lambda quirk=quirk: sorted(check(quirk)))) for quirk in chosen}
        values["preflight_found"] = sum(quirk in codes for quirk, codes in found.items())
        clean = kept.get("preflight clean", lambda: sorted(check()))
        values["false_alarms"] = len(clean) + sum(len(codes - {quirk}) for quirk, codes in found.items())
    if "lift" in figures:
        lift = Lift(out / "lift", minutes, speed=speed, profile=profile, turn_rad=turn_rad, pretrain_steps=pretrain_steps)
        lift = replace(lift, demos=3, minutes=2.0, episodes=2, pretrain_steps=20) if quick else lift
        values |= kept.get(f"lift after {lift.minutes:g} min", lambda: lift_success(lift, say))
    for name, value in values.items():
        report.row(name, f"{value:.3g}", " ".join(str(part) for part in TARGETS.get(name, ("",))))
    report.show(json)


def _targets(figures: tuple[str, ...]) -> dict[str, tuple[str, float]]:
    """The targets of what is measured."""
    parts = {
        "rate": ("rate_kept",),
        "steps": ("steps_lost", "steps_invented"),
        "preflight": ("preflight_found", "false_alarms"),
        "lift": (),
    }
    return {name: TARGETS[name] for figure in figures for name in parts[figure]}


if __name__ == "__main__":
    tyro.cli(main)
