"""How many robot steps does a correcting person save? The gear assembly from five demonstrations, with and without a scripted person.

    python -m benchmarks.intervention [--quick] [--json] [--seeds 0 1 2] [--runs FOLDER]

One robot, one person and the learner take turns (reproducible to the last bit), with two learner steps per actor step: the rate of a
learner with twenty steps per second and a robot at 10 Hz. Both runs use the recipe's settings, which imitate corrections
(`agent.imitation`). Without a person there are no corrections, so that run is plain RLPD.

* `solved_with`: runs with the person that reach 90 % success *without* help (an evaluation of 50 episodes every 250 actor steps, with
  stochastic actions: in the middle of training the deterministic policy lags behind, docs/gear_learning.md).
* `steps_ratio`: actor steps until then, with the person divided by without, summed over the seeds. A run that does not reach 90 % counts
  with all its steps.
* `intervened_share_first`, `_last`: share of the steps made by the person, in the first and in the last tenth of the runs with a person.
* `key_to_action_ms_p95`: from a page's `steer` at the hub to the executed action, through a real hub, a WebSocket and an actor process at
  10 Hz, while niced processes use all cores. It includes the time of the simulation step.
* `trainer_slowdown_10_pages`: how much slower the trainer is while ten pages are open (`benchmarks/pages.py`).
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.gear_assembly import BASELINE
from benchmarks.report import Report
from tandem.acting.actor import Actor
from tandem.data.journal import Journal
from tandem.envs.registry import make_env, make_expert, spec_for
from tandem.layouts import Layout
from tandem.link.client import ActorClient
from tandem.link.hub import Hub
from tandem.link.trainer_end import TrainerEnd
from tandem.off_policy.recipes import RECIPES
from tandem.off_policy.sync import train
from tandem.programs.actor import ActorArgs, act
from tandem.programs.record import record_demos
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.types import PolicySnapshot, Spec

TASK = "gear_assembly"
DEMOS = 5
REACHED = 0.9
MAX_STEPS, MAX_MINUTES = 20_000, 10.0
CONTROL_MS = 100.0
TARGETS = {
    "solved_with": (">=", 3),
    "steps_ratio": ("<=", 0.6),
    "key_to_action_ms_p95": ("<=", CONTROL_MS + 50.0),
    "trainer_slowdown_10_pages": ("<=", 0.05),
}
CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Outcome:
    """The result of one run."""

    reached: bool
    steps: int
    """Actor steps until 90 %, or all steps of the run."""
    minutes: float
    best: float
    shares: tuple[float, ...]
    """Share of steps made by the person, by tenths of the run."""


def one_run(seed: int, operator: str, demos: Path, path: Path, display: Display, quick: bool, imitation: float | None) -> Outcome:
    recipe = BASELINE
    config = replace(
        recipe,
        task=TASK,
        agent=recipe.agent if imitation is None else replace(recipe.agent, imitation=imitation),
        demos=(demos,),
        seed=seed,
        operator=operator,
        num_envs=1,
        updates_per_actor_step=2.0,
        eval_stochastic=True,
        stop_success=REACHED,
        stop_evaluations=1,
        eval_episodes=50,
        final_episodes=0,
        max_steps=300 if quick else MAX_STEPS,
        max_minutes=1.0 if quick else MAX_MINUTES,
    )
    summary = train(config, path, display)
    evaluations = [row for row in RunFolder.open(path).metrics() if "eval/success" in row]
    first = next((row["actor_step"] for row in evaluations if row["eval/success"] >= REACHED), None)
    with Journal.open(RunFolder(path).journal) as journal:
        helped = np.array([step.intervened for _, step in journal.read()])
    best = max((row["eval/success"] for row in evaluations), default=0.0)
    shares = tuple(float(part.mean()) for part in np.array_split(helped, 10))
    return Outcome(first is not None, first or summary["actor_step"], summary["minutes"], best, shares)


# ---- from a key to the robot


def steady(spec: Spec) -> PolicySnapshot:
    """A policy with zero weights, so that the actor can start."""
    size, dim = Layout(spec).size, spec.action_dim
    shapes = {"trunk/layers/0": (size, 8), "mean": (8, dim), "log_std": (8, dim)}
    parameters: dict[str, np.ndarray] = {"activation": np.array(0), "std_range": np.array([1e-5, 5.0], np.float32)}
    for name, shape in shapes.items():
        parameters |= {f"{name}/weight": np.zeros(shape, np.float32), f"{name}/bias": np.zeros(shape[1], np.float32)}
    return PolicySnapshot(1, 0, parameters)


def act_there(run: Path, spool: Path, done: Connection) -> None:
    """The actor's process; sends each executed action with its time (all processes of a machine share one monotonic clock)."""

    def report(actor: Actor, client: ActorClient) -> tuple[str, ...]:
        done.send((time.monotonic(), actor.transitions[0].action.tolist(), actor.transitions[0].intervened))
        return ()

    act(ActorArgs(TASK, run=run, spool=spool, pace="realtime", name="measured", threads=1), lambda line: None, watch=report)


def work() -> None:
    """Stands for a trainer on the same machine: uses one core at low priority."""
    os.nice(5)
    matrix = np.ones((512, 512), np.float32)
    while True:
        matrix @ matrix


@contextmanager
def processes(*targets: tuple[Any, tuple[Any, ...]]) -> Iterator[None]:
    started = [CONTEXT.Process(target=target, args=arguments, daemon=True) for target, arguments in targets]
    for process in started:
        process.start()
    try:
        yield
    finally:
        for process in started:
            process.terminate()
            process.join()


def key_to_action(samples: int) -> np.ndarray:
    """Milliseconds from `steer` to the executed action, at times independent of the control period."""
    spec: Spec = spec_for(TASK)
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        RunFolder.create(run, "rlpd", replace(RECIPES[TASK](), task=TASK), spec)
        hub = Hub(run)
        serving = threading.Thread(target=hub.serve, daemon=True)
        serving.start()
        trainer = TrainerEnd(run, spec)
        trainer.publish(steady(spec))
        trainer.beat(learner_step=1, phase="training", steps_before=0, updates_per_actor_step=1.0)
        try:
            burners = [(work, ())] * (os.cpu_count() or 1)
            receiver, sender = CONTEXT.Pipe(duplex=False)
            with processes((act_there, (run, Path(name) / "spool", sender)), *burners):
                while hub.loop is None or not hub.remote.actors():
                    time.sleep(0.05)
                steering = asyncio.run_coroutine_threadsafe(_steer(hub, spec, samples), hub.loop)
                executed = []
                while not steering.done():  # read all the time: a full pipe would block the robot
                    if receiver.poll(0.05):
                        executed.append(receiver.recv())
                return _delays(steering.result(), executed)
        finally:
            trainer.close()
            hub.stop()
            serving.join()


async def _steer(hub: Hub, spec: Spec, samples: int) -> list[tuple[float, np.ndarray]]:
    """Steer as a page does: 20 messages per second, with a new direction at random times. Returns the times and the directions."""
    source, page, chance = hub.remote.actors()[0], "page", random.Random(0)
    asked = []
    hub.remote.take_control(page, source)
    for number in range(samples):
        wanted = np.zeros(spec.action_dim)  # small rotations, which no limit of the task changes
        wanted[3 + number % 3] = 0.05 + 0.001 * (number % 7)
        wanted[3 + (number + 1) % 3] = -0.05
        asked.append((time.monotonic(), wanted))
        until = time.monotonic() + 0.25 + 0.2 * chance.random()
        while time.monotonic() < until:
            hub.remote.steer(page, list(wanted))
            await asyncio.sleep(0.05)
    hub.remote.release_control(page)
    return asked


def _delays(asked: list[tuple[float, np.ndarray]], executed: list[tuple[float, list[float], bool]]) -> np.ndarray:
    """Time from each command to the first step that executed it, in ms; a command that was never executed counts as one second."""
    found = []
    for at, wanted in asked:
        moments = [when for when, action, by_person in executed if by_person and when > at and np.allclose(action, wanted, atol=1e-5)]
        found.append(min(1.0, moments[0] - at) if moments else 1.0)
    return 1e3 * np.array(found)


def main(
    seeds: tuple[int, ...] = (0, 1, 2),
    imitation: float | None = None,
    quick: bool = False,
    json: bool = False,
    runs: Path = Path("runs/benchmark_intervention"),
) -> None:
    """The gear assembly with and without a scripted person.

    Args:
        seeds: Two runs per seed: with the person and without.
        imitation: Weight of the imitation of corrections, instead of the recipe's.
        quick: One seed and a few hundred steps, to check that it works.
        json: One JSON object instead of the table.
        runs: Folder for the runs.
    """
    from benchmarks.pages import trainer_slowdown  # late: that module imports this one

    runs = runs / time.strftime("%Y-%m-%d_%H-%M-%S")
    display = Display("quiet" if json else "lines")
    outcomes: dict[str, list[Outcome]] = {"person:scripted": [], "none": []}
    for seed in seeds[:1] if quick else seeds:
        demos = record_demos(make_env(TASK), make_expert(TASK, seed), DEMOS, runs / f"demos_{seed}", seed)
        for operator, done in outcomes.items():
            done.append(one_run(seed, operator, demos, runs / f"{operator.replace(':', '_')}_{seed}", display, quick, imitation))
    helped, alone = outcomes["person:scripted"], outcomes["none"]
    latency = key_to_action(10 if quick else 200)
    report = Report(
        "intervention",
        ("seed", "operator", "reached 90 %", "actor steps", "minutes", "best evaluation", "person's share by tenths"),
        TARGETS,
    )
    for operator, done in outcomes.items():
        for seed, outcome in zip(seeds, done, strict=False):
            share = " ".join(f"{100 * part:.0f}" for part in outcome.shares)
            report.row(seed, operator, outcome.reached, f"{outcome.steps:,}", f"{outcome.minutes:.1f}", f"{outcome.best:.0%}", share)
    report.figures = {
        "solved_with": sum(outcome.reached for outcome in helped),
        "solved_without": sum(outcome.reached for outcome in alone),
        "steps_ratio": sum(outcome.steps for outcome in helped) / sum(outcome.steps for outcome in alone),
        "intervened_share_first": float(np.mean([outcome.shares[0] for outcome in helped])),
        "intervened_share_last": float(np.mean([outcome.shares[-1] for outcome in helped])),
        "key_to_action_ms_p50": float(np.percentile(latency, 50)),
        "key_to_action_ms_p95": float(np.percentile(latency, 95)),
    }
    report.figures["trainer_slowdown_10_pages"] = trainer_slowdown(10, quick)
    report.show(json)


if __name__ == "__main__":
    tyro.cli(main)
