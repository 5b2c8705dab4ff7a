"""When should a person step in, and how little is enough? Robot minutes and take-overs until the policy needs no help, on one clock.

    python -m benchmarks.help [--arms hil-serl cloned ...] [--operators scripted late ...] [--modes watching asked] [--seeds 0 1 2 3 4]

One robot. Its clock counts control steps at the control rate, 2 s for each reset, and the time that it waits for a person whom it asked.
Every 500 control steps the policy acts in 20 episodes without help and without noise, on starts that it has not seen. When all 20 succeed,
50 more are made: at least 47 successes confirm it, and the run ends; otherwise it goes on. A run that does not get there in its minutes
is censored: it counts with all its minutes and take-overs, and the table says how many there are. Evaluations cost the robot nothing.

All runs of a seed have the same demonstrations, starts and random numbers. Results go to a file as they come (`--results`); what is there
is not run again, so that the benchmark can be stopped and continued, and its grid extended. Several calls may share the file.

An arm is what a correction teaches, as settings of the one agent (`ARMS`); an operator is a stand-in (`teleop/people.py`) who watches all
the time or comes when asked. Asking takes noticing (`--notice`, docs/when-to-help.md). A robot that has asked holds still: that costs the
seconds until somebody comes, and a minute if nobody does.

* `takeovers_ratio`, `robot_minutes_ratio`: the default arm with a perfect operator who comes when asked, against hil-serl's treatment with
  one who watches; summed over the seeds that both have. `noisy_*`, `late_*`: the same with these operators on both sides.
* `asks_right`: share of the asks where the stand-in, who knows how far from done things are, agrees. `missed_stalls`: share of the stalls
  of 1.6 s and more that the robot neither got out of nor asked about. `false_asks_per_success`: asks without need for each episode
  that succeeded.
* `long_takeovers_ratio`: `takeovers_ratio` on the task of 300 steps (`--task gear_assembly_fine`).
"""

from __future__ import annotations

import json as jsons
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from fcntl import LOCK_EX, flock
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

from benchmarks.report import Report
from tandem.acting.actor import Actor
from tandem.acting.asking import AskingConfig
from tandem.acting.evaluate import evaluate
from tandem.acting.policy import act_with
from tandem.acting.self_help import SelfHelp
from tandem.data.journal import Journal
from tandem.envs.registry import make_env, make_expert
from tandem.files import write_atomically
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.recipes import RECIPES, for_one_robot
from tandem.off_policy.sync import train
from tandem.off_policy.trainer import Trainer
from tandem.programs.record import record_demos
from tandem.runs.display import Display
from tandem.seeding import episode_seeds
from tandem.teleop.operator import Operator
from tandem.teleop.people import ASKED, PEOPLE, PREFIX, Seen
from tandem.teleop.scripted_person import ScriptedPerson
from tandem.teleop.steering import Steering
from tandem.types import Transition

LONG = "gear_assembly_fine"
DEMOS, RESET_S = 25, 2.0
EVAL_STEPS, EPISODES, CONFIRM, CONFIRMED = 500, 20, 50, 47
DEFAULT, BASE = "cloned", "hil-serl"
Arm = Literal["hil-serl", "imitated", "cloned", "anchored", "blamed", "penalty"]
Mode = Literal["watching", "asked"]
Person = Literal["scripted", "late", "noisy", "wrong", "inattentive", "trigger-happy"]
TARGETS: dict[str, tuple[str, float]] = {
    "takeovers_ratio": ("<=", 0.4),
    "robot_minutes_ratio": ("<=", 0.7),
    "noisy_takeovers_ratio": ("<=", 0.6),
    "noisy_minutes_ratio": ("<=", 0.9),
    "late_takeovers_ratio": ("<=", 0.6),
    "late_minutes_ratio": ("<=", 0.9),
    "asks_right": (">=", 0.7),
    "missed_stalls": ("<=", 0.2),
    "false_asks_per_success": ("<=", 0.2),
}


def _agent(**changes: Any) -> Callable[[TrainConfig], TrainConfig]:
    return lambda config: replace(config, agent=replace(config.agent, **changes))


def _bare(config: TrainConfig) -> TrainConfig:
    """From random parameters, and demonstrations are not imitated."""
    return replace(config, clone_steps=0, critic_steps=0, agent=replace(config.agent, demo_imitation=0.0))


ARMS: dict[str, Callable[[TrainConfig], TrainConfig]] = {
    "hil-serl": lambda config: _agent(imitation=0.0)(_bare(config)),
    "imitated": _bare,
    "cloned": lambda config: config,
    "anchored": _agent(anchor=True),
    "blamed": _agent(blame="critics", blame_size=0.2),
    "penalty": _agent(blame="penalty", blame_size=0.05, return_bound="demos"),
}
"""What a correction teaches. hil-serl: it is data in both buffers, nothing else. imitated: also imitated, with a weight that fades. cloned:
that, from a clone that the critics catch up with (the recipe). The others change one thing of `cloned`; with a penalty the return that
followed is no bound for the policy's own steps, which would undo it."""


# ---- one run


@dataclass
class Tally:
    """The robot's clock and what the person did, counted step by step."""

    control_hz: float
    steps: int = 0
    resets: int = 0
    takeovers: int = 0
    human_steps: int = 0
    successes: int = 0
    waited_s: float = 0.0
    tags: dict[str, int] = field(default_factory=dict)
    """Take-overs by their reason."""
    _held: bool = False

    def add(self, step: Transition) -> None:
        self.steps += 1
        self.resets += step.last
        self.human_steps += step.intervened
        self.successes += bool(step.success)
        if step.intervened and not self._held:
            self.takeovers += 1
            self.tags[step.tag] = self.tags.get(step.tag, 0) + 1
        self._held = step.intervened and not step.last

    @property
    def minutes(self) -> float:
        return (self.steps / self.control_hz + RESET_S * self.resets + self.waited_s) / 60


def waited_s(seen: Iterable[Seen]) -> float:
    """How long a robot that holds still stood because it had asked: until somebody came, or nobody did."""
    return sum(one.seconds or AskingConfig().ask_timeout for one in seen if one.kind == "ask")


def person_of(operator: Operator) -> ScriptedPerson:
    """The stand-in, within what is around it."""
    while isinstance(operator, SelfHelp | Steering):
        operator = operator.inner
    assert isinstance(operator, ScriptedPerson), operator
    return operator


class Measured:
    """The loop of one run, in the place of `off_policy.turns.take_turns`."""

    def __init__(self, minutes: float, eval_steps: int, episodes: int = EPISODES) -> None:
        self._limit, self._eval_steps, self._episodes = minutes, eval_steps, episodes
        self.outcome: dict[str, Any] = {}

    def __call__(self, trainer: Trainer, actor: Actor, journal: Journal) -> str:
        del journal
        tally, person, looks = Tally(trainer.spec.control_hz), person_of(actor.operators[0]), list[list[float]]()
        reached = False
        while not reached and tally.minutes < self._limit:
            while trainer.progress.credit >= 1 and trainer.stop_reason is None:
                trainer.step()
            if trainer.stop_reason is not None:  # Ctrl-C
                return trainer.stop_reason
            actor.step()
            tally.add(actor.transitions[0])
            actor.reset_ended()
            trainer.receive()
            tally.waited_s = waited_s(person.seen)
            if tally.steps % self._eval_steps == 0:
                reached = self._look(trainer, tally, looks)
        self.outcome = self._summed_up(reached, tally, looks, person)
        return "20 of 20 without help" if reached else f"{self._limit:g} robot minutes are over"

    def _look(self, trainer: Trainer, tally: Tally, looks: list[list[float]]) -> bool:
        """Act without help; returns whether it is confirmed that none is needed. Each look has starts of its own."""
        seeds = episode_seeds(trainer.config.seed, "selection", self._episodes + CONFIRM, len(looks))
        act = act_with(trainer.learner.current_policy(), trainer.spec)
        good = int(evaluate(trainer.config.task, act, seeds[: self._episodes]).success.sum())
        confirmed = int(evaluate(trainer.config.task, act, seeds[self._episodes :]).success.sum()) if good == self._episodes else -1
        looks.append([round(tally.minutes, 3), good, confirmed, tally.takeovers, tally.human_steps, trainer.learner.steps])
        return confirmed >= CONFIRMED

    def _summed_up(self, reached: bool, tally: Tally, looks: list[list[float]], person: ScriptedPerson) -> dict[str, Any]:
        asks, stalls = ([one for one in person.seen if one.kind == kind] for kind in ("ask", "stall"))
        counted = {name: value for name, value in asdict(tally).items() if not name.startswith("_")}
        return {
            "reached": reached,
            "minutes": tally.minutes,
            **counted,
            "asks": len(asks),
            "asks_right": sum(one.right for one in asks),
            "asks_missed": sum(not one.seconds for one in asks),
            "stalls": len(stalls),
            "stalls_asked": sum(one.right for one in stalls),
            "looks": looks,
        }


def config_of(arm: str, operator: str, mode: str, task: str, demos: Path, seed: int, quick: bool) -> TrainConfig:
    config = ARMS[arm](for_one_robot(RECIPES[task]()))
    if quick:
        config = replace(
            config, agent=replace(config.agent, hidden=(32, 32)), updates_per_actor_step=0.5, clone_steps=min(50, config.clone_steps)
        )
    return replace(
        config,
        task=task,
        demos=(demos,),
        seed=seed,
        operator=f"{PREFIX}{operator}{ASKED if mode == 'asked' else ''}",
        notice=mode == "asked",
        eval_period=0,
        final_episodes=0,
        stop_success=None,
        max_minutes=None,
        max_steps=10**9,
        checkpoint_period=10**9,
    )


# ---- all of them


Key = tuple[str, str, str, str, int]
"""Task, arm, operator, mode, seed."""


class Results:
    """What was measured, in a file that several calls may extend."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: dict[Key, dict[str, Any]] = {}
        self._read()

    def _read(self) -> None:
        if self._path.exists():
            self.rows |= {key_of(row): row for row in jsons.loads(self._path.read_text())}

    def add(self, row: dict[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("w") as lock:
            flock(lock, LOCK_EX)
            self._read()
            self.rows[key_of(row)] = row
            write_atomically(self._path, jsons.dumps(list(self.rows.values()), indent=1).encode())

    def cell(self, task: str, arm: str, operator: str, mode: str) -> dict[int, dict[str, Any]]:
        """The runs of one cell of the table, by seed."""
        return {row["seed"]: row for row in self.rows.values() if key_of(row)[:4] == (task, arm, operator, mode)}


def key_of(row: dict[str, Any]) -> Key:
    return row["task"], row["arm"], row["operator"], row["mode"], row["seed"]


def ratio(ours: dict[int, dict[str, Any]], theirs: dict[int, dict[str, Any]], what: str) -> tuple[float, float, float] | None:
    """Sum over the seeds that both have, ours by theirs, with a 95 % interval (bootstrap over the seeds); None without a common seed."""
    seeds = sorted(ours.keys() & theirs.keys())
    pairs = np.array([(ours[seed][what], theirs[seed][what]) for seed in seeds], float)
    if not len(pairs) or not pairs[:, 1].sum():
        return None
    drawn = pairs[np.random.default_rng(0).integers(len(pairs), size=(2000, len(pairs)))].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / np.maximum(drawn[:, 1], 1e-9), [0.025, 0.975])
    return float(pairs[:, 0].sum() / pairs[:, 1].sum()), float(low), float(high)


def figures(results: Results, task: str) -> dict[str, float]:
    """All that the data is there for; ratios also with the ends of their intervals and the number of censored runs behind them."""
    found: dict[str, float] = {}
    for operator, prefix in (("scripted", ""), ("noisy", "noisy_"), ("late", "late_")):
        ours, theirs = results.cell(task, DEFAULT, operator, "asked"), results.cell(task, BASE, operator, "watching")
        for what, name in (("takeovers", "takeovers_ratio"), ("minutes", "minutes_ratio" if prefix else "robot_minutes_ratio")):
            measured = ratio(ours, theirs, what)
            if measured is not None:
                named = ("long_" if task == LONG else "") + prefix + name
                found |= dict(zip((named, f"{named}_low", f"{named}_high"), measured, strict=True))
        for side, name in ((ours, "default"), (theirs, "hil_serl")):
            if ours.keys() & theirs.keys():
                found[f"{prefix}censored_{name}"] = sum(not side[seed]["reached"] for seed in ours.keys() & theirs.keys())
    asked = list(results.cell(task, DEFAULT, "scripted", "asked").values())
    total = (
        {name: sum(row[name] for row in asked) for name in ("asks", "asks_right", "stalls", "stalls_asked", "successes")} if asked else {}
    )
    if total.get("asks"):
        found["asks_right"] = total["asks_right"] / total["asks"]
    if total.get("stalls"):
        found["missed_stalls"] = 1 - total["stalls_asked"] / total["stalls"]
    if total.get("successes"):
        found["false_asks_per_success"] = (total["asks"] - total["asks_right"]) / total["successes"]
    return found


def show(results: Results, task: str, cells: Sequence[tuple[str, str, str]], json: bool) -> None:
    columns = ("arm, operator, mode", "reached", "robot minutes, median [all]", "take-overs, median [all]", "person's share", "asks, right")
    report = Report("help", columns, {} if task == LONG else TARGETS)
    for arm, operator, mode in cells:
        rows = [row for _, row in sorted(results.cell(task, arm, operator, mode).items())]
        if not rows:
            continue
        minutes, takeovers = ([row[name] for row in rows] for name in ("minutes", "takeovers"))
        marks = ["" if row["reached"] else "+" for row in rows]
        share = sum(row["human_steps"] for row in rows) / sum(row["steps"] for row in rows)
        asks = sum(row["asks"] for row in rows)
        report.row(
            f"{arm}, {operator}, {mode}",
            f"{sum(row['reached'] for row in rows)} of {len(rows)}",
            f"{np.median(minutes):.1f} [{' '.join(f'{one:.1f}{mark}' for one, mark in zip(minutes, marks, strict=True))}]",
            f"{np.median(takeovers):.0f} [{' '.join(f'{one}{mark}' for one, mark in zip(takeovers, marks, strict=True))}]",
            f"{share:.0%}",
            f"{asks}, {sum(row['asks_right'] for row in rows) / asks:.0%}" if asks else "-",
        )
    report.figures = figures(results, task)
    report.show(json)
    if not json:
        print("+ censored: 20 of 20 were not reached in these minutes, and with these take-overs")


def main(
    arms: tuple[Arm, ...] = ("hil-serl", "cloned"),
    operators: tuple[Person, ...] = ("scripted",),
    modes: tuple[Mode, ...] = ("watching", "asked"),
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    minutes: float = 25.0,
    task: str = "gear_assembly",
    quick: bool = False,
    json: bool = False,
    results: Path = Path("runs/benchmark_help/results.json"),
    show_only: bool = False,
) -> None:
    """Robot minutes and take-overs until no help is needed, for each arm, operator and mode.

    Args:
        arms: What a correction teaches.
        operators: Stand-ins for a person.
        modes: They watch all the time, or come when the robot asks.
        seeds: One run per seed in each cell.
        minutes: Robot minutes after which a run is censored.
        task: gear_assembly, or gear_assembly_fine for the task of 300 steps.
        quick: One seed and half a robot minute with small networks, to check that it works; in a results file of its own.
        json: One JSON object instead of the table.
        results: The file that results are added to; runs and demonstrations are next to it.
        show_only: Run nothing, show what is there.
    """
    if quick:
        results = results.with_name(f"quick_{time.strftime('%Y-%m-%d_%H-%M-%S')}") / results.name
        seeds, minutes = seeds[:1], 0.5
    known, display = Results(results), Display("quiet")
    cells = [(arm, operator, mode) for arm, operator, mode in product(arms, operators, modes)]
    for seed, (arm, operator, mode) in product(() if show_only else seeds, cells):  # all cells of a seed first: pairs as early as possible
        if (task, arm, operator, mode, seed) in known.rows:
            continue
        demos = _demos(results.parent, task, seed, 3 if quick else DEMOS)
        run = results.parent / f"{task}_{arm}_{operator}_{mode}_{seed}"
        shutil.rmtree(run, ignore_errors=True)  # one that was broken off
        loop, began = Measured(minutes, 150 if quick else EVAL_STEPS, 4 if quick else EPISODES), time.monotonic()
        train(config_of(arm, operator, mode, task, demos, seed, quick), run, display, turns=loop)
        if not loop.outcome:
            print("interrupted: this run begins again the next time")
            break
        row = {
            "task": task,
            "arm": arm,
            "operator": operator,
            "mode": mode,
            "seed": seed,
            "limit": minutes,
            "wall_s": time.monotonic() - began,
        }
        known.add({**row, **loop.outcome})
        if not json:
            said = "" if loop.outcome["reached"] else " (censored)"
            print(
                f"{arm}, {operator}, {mode}, seed {seed}: {loop.outcome['minutes']:.1f} min{said}, {loop.outcome['takeovers']} take-overs"
            )
    show(known, task, [cell for cell in product(ARMS, PEOPLE, ("watching", "asked"))], json)


def _demos(folder: Path, task: str, seed: int, count: int) -> Path:
    """The demonstrations of a seed, which all its runs share."""
    place = folder / f"demos_{task}_{seed}"
    found = next(iter(sorted(place.glob("*.db"))), None)
    return found or record_demos(make_env(task), make_expert(task, seed), count, place, seed)


if __name__ == "__main__":
    tyro.cli(main)
