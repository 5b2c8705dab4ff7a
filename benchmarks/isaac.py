"""Does the client of Isaac's gear server keep its rate, lose steps when connections break, and find what is wrong with a server?

    MUJOCO_GL=egl python -m benchmarks.isaac [--steps 300] [--disconnects 100] [--quick] [--json]

The server is the stand-in (`tandem serve-like isaac`) with its MuJoCo scene and two cameras.

* `rate_kept`: share of the steps whose command left within 5 ms of a control period (100 ms) after the one before. Server and client are
  processes of their own; the client has the control loop's rhythm.
* `machine_kept`: the same share of a loop that only sleeps; below 0.99 other programs use the cores, and nothing keeps its rate.
* `steps_lost`, `steps_invented`: steps that the server executed and that were no transition, and transitions whose command the server
  never got, while a proxy cuts all connections at random moments.
* `preflight_found`, `false_alarms`: of 8 quirks, each alone on a server, how many `tandem robot check` names; and what it names that is not
  there, the clean server included.

`isaac_lift_success` (the lift learned from cameras) is not measured here.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tyro

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
    command = [sys.executable, "-u", "-m", "tandem.cli", "serve-like", "isaac", "--port", "0", "--seed", "0", "--quirks", ",".join(quirks)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = next(word for word in process.stdout.readline().replace(",", " ").split() if word.startswith("http://"))
        yield Address.of(f"isaac+{url}", DEFAULT, "isaac")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


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
    while not done.is_set():
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


def main(steps: int = 300, disconnects: int = 100, quick: bool = False, json: bool = False) -> None:
    """Rate, broken connections and pre-flight against the stand-in for Isaac's server.

    Args:
        steps: Steps whose rhythm is measured.
        disconnects: Connections that are broken.
        quick: 50 steps, 10 connections, two quirks.
        json: Print one JSON object.
    """
    steps, disconnects = (50, 10) if quick else (steps, disconnects)
    report = Report("Isaac's server", ("figure", "value", "target"), TARGETS)
    figures = report.figures
    figures["rate_kept"], figures["period_off_ms_p99"] = rate_kept(steps)
    figures["machine_kept"] = machine_kept(steps)
    figures["steps_lost"], figures["steps_invented"], figures["disconnects"] = broken_connections(disconnects)
    chosen = list(QUIRKS)[:2] if quick else list(QUIRKS)
    found = {quirk: check(quirk) for quirk in chosen}
    figures["preflight_found"] = sum(quirk in codes for quirk, codes in found.items())
    figures["false_alarms"] = len(check()) + sum(len(codes - {quirk}) for quirk, codes in found.items())
    for name, value in figures.items():
        report.row(name, f"{value:.3g}", " ".join(str(part) for part in TARGETS.get(name, ("",))))
    report.show(json)


if __name__ == "__main__":
    tyro.cli(main)
