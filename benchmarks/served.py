"""What does it cost to run an environment in another process, and does a broken connection lose or invent a step?

    python -m benchmarks.served [--steps 3000] [--disconnects 100] [--json]

* `overhead_ms_p50`, `overhead_ms_p99`: a step of `serve:` (39 numbers seen, 4 actions) minus the median step of the bare environment.
* `image_overhead_ms_p50`, `image_overhead_ms_p99`: the same with two pictures of 128 x 128.
* `machine_ms_p99`: the same percentile of a computation in this process alone that takes as long as a served step, minus its median.
  On an idle machine it is near 0; where other programs use the cores, no process that computes that long has better percentiles.
* `steps_lost`, `steps_invented`: steps that the environment executed and the client did not get, and the other way round, while a proxy
  cuts the TCP connection at random moments. The environment itself writes down what it executed.
* `disconnects`: connections that the proxy broke, all of them in the middle of an episode.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import gymnasium
import numpy as np
import tyro

from benchmarks.proxy import Proxy
from benchmarks.report import Report
from tandem.envs.served.client import Address, Deadlines, RemoteEnv, ServedEnv
from tandem.envs.served.names import open_served
from tandem.envs.served.process import ServedProcess
from tandem.envs.served.server import make_environment
from tandem.types import Step

TARGETS = {
    "overhead_ms_p50": ("<=", 0.5),
    "overhead_ms_p99": ("<=", 2.0),
    "image_overhead_ms_p50": ("<=", 1.5),
    "image_overhead_ms_p99": ("<=", 5.0),
    "steps_lost": ("==", 0.0),
    "steps_invented": ("==", 0.0),
}
MODULE = "benchmarks.served_world"
BETWEEN_CUTS_S = (0.005, 0.06)
"""Shortest and longest time between two cuts; a step takes 1 ms and a reconnection a few."""


def local(name: str) -> str:
    return f"serve:{sys.executable}:{MODULE}:{name}"


def step_times(env: gymnasium.Env | ServedEnv, steps: int) -> np.ndarray:
    """Seconds of each step. An episode that ends is begun again: a row that has ended stands still, which costs nothing."""
    served = isinstance(env, ServedEnv)
    action = np.zeros((1, 4) if served else 4, np.float32)
    env.reset()
    made = np.empty(steps)
    for i in range(steps):
        began = time.perf_counter()
        step = env.step(action)
        made[i] = time.perf_counter() - began
        if step.ended.any() if isinstance(step, Step) else step[2] or step[3]:
            env.reset()
    return made


def overhead(name: str, steps: int) -> tuple[float, float]:
    """Median and 99th percentile in milliseconds."""
    bare, served = make_environment(f"{MODULE}:{name}"), open_served(local(name))
    step_times(served, 200)
    times, alone = step_times(served, steps), step_times(bare, steps)
    served.close()
    return 1e3 * float(np.median(times) - np.median(alone)), 1e3 * float(np.quantile(times, 0.99) - np.median(alone))


def machine_noise(milliseconds: float, repeats: int) -> float:
    """99th percentile minus median of a computation that takes about this long, in milliseconds."""
    made, rounds = np.empty(repeats), 1000
    began = time.perf_counter()
    sum(range(rounds * 100))
    rounds = int(rounds * 100 * milliseconds / (1e3 * (time.perf_counter() - began)))
    for i in range(repeats):
        began = time.perf_counter()
        sum(range(rounds))
        made[i] = time.perf_counter() - began
    return 1e3 * float(np.quantile(made, 0.99) - np.median(made))


def broken_connections(disconnects: int, witness: Path) -> tuple[int, int, int]:
    """Steps lost, steps invented, connections that were broken."""
    os.environ["WITNESS"] = str(witness)
    name = local("Witnessed")
    process = ServedProcess(name)
    behind = process.address(Deadlines())
    with Proxy(int(behind.uri.rpartition(":")[2])) as proxy:
        row = RemoteEnv(name, Address(f"ws://127.0.0.1:{proxy.port}", behind.token), Deadlines(), process)
        env, done = ServedEnv(name, [row]), threading.Event()

        def cut() -> None:
            random = np.random.default_rng(0)
            while row.caller.returned < disconnects:
                time.sleep(random.uniform(*BETWEEN_CUTS_S))
                proxy.cut()
            done.set()

        threading.Thread(target=cut, daemon=True).start()
        got = act_until(env, done)
        env.close()
        returned = row.caller.returned
    executed, received = Counter(witness.read_text().splitlines()), Counter(got)
    return (executed - received).total(), (received - executed).total(), returned


def act_until(env: ServedEnv, done: threading.Event) -> list[str]:
    """Episodes with random actions; what was seen of every step, as the environment writes it."""
    random, got = np.random.default_rng(1), []
    env.reset(seeds=[0])
    while not done.is_set():
        step = env.step(random.uniform(-1, 1, (1, 1)))
        assert step.lost is None, "the server never ended"
        episode, count, place = step.observation["state"][0]
        got.append(f"{int(episode)} {int(count)} {place:.6e}")
        if step.ended.any():
            env.reset([0])
    return got


def main(steps: int = 3000, disconnects: int = 100, json: bool = False) -> None:
    """Measure the overhead of served environments, and break their connections.

    Args:
        steps: Steps that are timed.
        disconnects: Connections that are broken.
        json: Print one JSON object.
    """
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    report = Report("served environments", ("figure", "value", "target"), TARGETS)
    figures = report.figures
    figures["overhead_ms_p50"], figures["overhead_ms_p99"] = overhead("State", steps)
    figures["image_overhead_ms_p50"], figures["image_overhead_ms_p99"] = overhead("Cameras", steps)
    figures["machine_ms_p99"] = machine_noise(figures["overhead_ms_p50"], steps)
    with tempfile.TemporaryDirectory() as folder:
        lost, invented, broken = broken_connections(disconnects, Path(folder) / "witness")
    figures.update(steps_lost=lost, steps_invented=invented, disconnects=broken)
    for name, value in figures.items():
        report.row(name, f"{value:.3g}", " ".join(str(part) for part in TARGETS.get(name, ("",))))
    report.show(json)


if __name__ == "__main__":
    tyro.cli(main)
