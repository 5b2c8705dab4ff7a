"""What is learned of worlds that nobody here wrote? Eight tasks of four packages, one recipe, 20 scripted demonstrations, minutes.

    python -m benchmarks.worlds [--minutes 10] [--tasks Lift-v0 ...] [--methods rlpd cloning sbx] [--seeds 0] [--json] [--runs FOLDER]

Every package is installed into a virtual environment of its own (`.venv-worlds/`) and its tasks are stepped there (`serve:PYTHON:...`).
The reward is 1 at success and 0 before (`benchmarks/worlds_tasks.py`). Three methods get the same demonstrations, the same minutes on
2 cores and the same held-out episodes: RLPD as `tandem train` does it, cloning as `tandem bc` does it, and SBX's SAC with the
demonstrations in its replay buffer. SBX makes as many steps as it would in these minutes (measured once, `--sbx-speed`), so that its
results do not depend on what else the machine does; it stops earlier when it has solved the task, as RLPD does.

Each result is written to benchmarks/measured/worlds.json as it comes: start the same command again to go on where it was interrupted.
RLPD's results are measured again when a setting of the recipe has changed.
"""

from __future__ import annotations

import hashlib
import json as json_module
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

from benchmarks.peers import Peers, python_of
from benchmarks.report import Report, machine_gflops
from tandem.acting.evaluate import wilson
from tandem.data.demos import read_demos
from tandem.files import write_atomically
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.recipes import RECIPES
from tandem.runs.folder import plain
from tandem.seeding import episode_seeds

ROOT = Path(__file__).parents[1]
VENVS = ROOT / ".venv-worlds"
SERVING = ("msgpack==1.2.4", "websockets==17.4", "gymnasium==1.4.0")
"""What every one of them needs to be stepped from here."""
PACKAGES = {
    "metaworld": ("metaworld==3.1.1", "mujoco==3.3.0", "numpy==2.4.6", "packaging", "imageio"),
    "robosuite": ("robosuite==1.5.2", "mujoco==3.3.7", "numpy==1.26.4", "h5py", "packaging"),
    "gymnasium-robotics": ("gymnasium-robotics==1.4.2", "mujoco==3.3.7", "numpy==2.4.6", "packaging"),
    "gym-hil": ("gym-hil==0.1.14", "mujoco==3.8.1", "numpy==2.4.6", "packaging"),
}
"""Versions that run together on Python 3.11. None of the packages runs on MuJoCo 4; Gymnasium needs `packaging` and does not ask for it."""
CORES = 2
DEMOS = 20
EPISODES = 50
SOLVED = 0.98
"""RLPD stops before its minutes are over when two evaluations in a row are at least this good."""
CLONING_STEPS = 20_000
"""Updates of cloning. The policy after the last one counts: it usually succeeds more often than the one with the best validation."""
SBX_CHECKS = 20
"""Episodes that SBX has to succeed in, all of them and twice in a row, to stop before its steps are over."""
Method = Literal["rlpd", "cloning", "sbx"]


@dataclass(frozen=True)
class World:
    """One of the eight tasks."""

    package: str
    operator: str
    """Class of examples/operators that demonstrates it; those of Metaworld need the package, and run in its Python."""
    sbx_steps: int
    """Steps that SBX makes in a minute here, alone on 2 cores (`--sbx-speed`, 250 GFLOP/s)."""


WORLDS = {
    "PegInsertSide-v0": World("metaworld", "metaworld_scripts:PegInsertSide", 14386),
    "PickPlace-v0": World("metaworld", "metaworld_scripts:PickPlace", 12420),
    "DoorOpen-v0": World("metaworld", "metaworld_scripts:DoorOpen", 13250),
    "DrawerClose-v0": World("metaworld", "metaworld_scripts:DrawerClose", 13124),
    "Assembly-v0": World("metaworld", "metaworld_scripts:Assembly", 13154),
    "Lift-v0": World("robosuite", "grasping_scripts:Lift", 6952),
    "FetchPickAndPlaceSparse-v0": World("gymnasium-robotics", "grasping_scripts:FetchPickAndPlace", 12226),
    "PandaPickCubeState-v0": World("gym-hil", "grasping_scripts:PandaPickCube", 6312),
}
"""Named before anything was tuned; not to be changed."""


def python_of_package(package: str) -> Path:
    """The interpreter of a package's virtual environment."""
    return python_of(VENVS / package, (*PACKAGES[package], *SERVING))


@dataclass(frozen=True)
class Trial:
    """One task with one seed."""

    task: str
    seed: int
    minutes: float
    episodes: int
    recipe: str
    folder: Path

    @property
    def python(self) -> Path:
        return python_of_package(WORLDS[self.task].package)

    @property
    def env(self) -> str:
        return f"serve:{self.python}:worlds_tasks:{self.task}"

    def demos(self) -> Path:
        """The file of demonstrations, recorded once."""
        folder = self.folder / "demos"
        found = sorted(folder.glob(f"*_{DEMOS}_demos_*.db"))
        if not found:
            operator = WORLDS[self.task].operator
            operator = f"serve:{self.python}:{operator}" if operator.startswith("metaworld") else operator
            self._tandem("record", self.env, "--operator", operator, "--demos", DEMOS, "--seed", self.seed, "--out", folder, "--quiet")
            found = sorted(folder.glob(f"*_{DEMOS}_demos_*.db"))
        return found[0]

    def rlpd(self) -> dict[str, Any]:
        """`tandem train`, with processes, as a user runs it."""
        limits = ("--max-minutes", self.minutes, "--stop-success", SOLVED, "--final-episodes", self.episodes)
        summary = self._run("train", *limits, "--recipe", self.recipe)
        return _outcome(summary["deterministic"]) | {"steps": summary["actor_step"], "updates": summary["learner_step"]}

    def cloning(self) -> dict[str, Any]:
        """`tandem bc`, trained long; it takes less than the minutes."""
        updates = ("--min-steps", CLONING_STEPS, "--max-steps", CLONING_STEPS)
        summary = self._run("bc", *updates, "--final-episodes", self.episodes)
        return _outcome(summary["trained_long"]) | {"plateau": summary["deterministic"]["successes"], "updates": summary["learner_step"]}

    def _run(self, command: str, *options: object) -> dict[str, Any]:
        run = self.folder / f"{command}_{time.strftime('%Y-%m-%d_%H-%M-%S')}"
        self._tandem(command, self.env, "--demos", self.demos(), "--seed", self.seed, "--run", run, "--quiet", *options)
        return json_module.loads((run / "summary.json").read_text())

    def _tandem(self, command: str, *arguments: object) -> None:
        """A command of Tandem's in a process of its own, with the tasks and the operators on its path; its words go to a file."""
        found = (str(ROOT / "src"), str(ROOT / "benchmarks"), str(ROOT / "examples" / "operators"))
        environment = {"MUJOCO_GL": "egl", **os.environ, "PYTHONPATH": os.pathsep.join(found)}
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{command}.log"
        with log.open("w") as words:
            line = [sys.executable, "-m", "tandem.cli", command, *map(str, arguments)]
            code = subprocess.run(line, env=environment, stdout=words, stderr=words).returncode
        if code:
            raise SystemExit(f"`tandem {command}` ended with code {code} at {self.task}; {log} ends with:\n{log.read_text()[-2000:]}")

    def sbx(self) -> dict[str, Any]:
        """As many steps as it makes in the minutes when it is alone."""
        peers = Peers("worlds_sbx.py")
        try:
            return self._ask_sbx(peers, steps=round(WORLDS[self.task].sbx_steps * self.minutes), minutes=None, episodes=self.episodes)
        finally:
            peers.close()

    def sbx_speed(self) -> int:
        """Steps of SBX in a minute, without compiling."""
        peers = Peers("worlds_sbx.py")
        try:
            for minutes in (0.35, 0.5):
                found = self._ask_sbx(peers, steps=None, minutes=minutes, episodes=0)
            return round(found["steps"] / minutes)
        finally:
            peers.close()

    def _ask_sbx(self, peers: Peers, *, steps: int | None, minutes: float | None, episodes: int) -> dict[str, Any]:
        return peers.ask(
            python=str(self.python),
            task=self.task,
            demos_file=str(self._demos_as_arrays()),
            steps=steps,
            minutes=minutes,
            seed=self.seed,
            check_seeds=episode_seeds(self.seed, "selection", SBX_CHECKS),
            final_seeds=episode_seeds(self.seed, "final", episodes),
        )

    def _demos_as_arrays(self) -> Path:
        """The demonstrations for a program without Tandem: flat observations in their own units, actions in [-1, 1]."""
        steps = [step for episode in read_demos(self.demos()).episodes() for step in episode]
        entries = list(steps[0].observation)

        def flat(of: Callable[[Any], Any]) -> np.ndarray:
            return np.stack([np.concatenate([of(step)[name].ravel() for name in entries]) for step in steps])

        path = self.folder.absolute() / "demos.npz"
        np.savez(
            path,
            entries=entries,
            observation=flat(lambda step: step.observation),
            next_observation=flat(lambda step: step.next_observation),
            action=np.stack([step.action for step in steps]),
            reward=np.array([step.reward for step in steps]),
            terminated=np.array([step.terminated for step in steps]),
        )
        return path


def _outcome(described: dict[str, Any]) -> dict[str, Any]:
    return {"successes": described["successes"], "episodes": described["episodes"]}


def settings_of(recipe: str) -> str:
    """A short name of the settings in which it differs from the defaults; a new setting that it leaves alone changes nothing."""
    chosen, defaults = (_flat(plain(config)) for config in (RECIPES[recipe](), TrainConfig()))
    differences = {name: value for name, value in chosen.items() if value != defaults[name]}
    return hashlib.sha256(json_module.dumps(differences, sort_keys=True).encode()).hexdigest()[:12]


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The settings of the agent beside the others, by dotted names."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


class Results:
    """What has been measured so far, in a file; it belongs to one set of conditions.

    Results of RLPD also belong to the settings of its recipe: those of other settings are not there, and are written over.
    """

    def __init__(self, path: Path, conditions: dict[str, Any]) -> None:
        self._path, self._conditions = path, conditions
        self._settings = settings_of(conditions["recipe"])
        self.measured: dict[str, dict[str, Any]] = {}
        if path.exists():
            saved = json_module.loads(path.read_text())
            if saved["conditions"] != conditions:
                raise SystemExit(
                    f"{path} was measured with {saved['conditions']}, now it is {conditions}: give another file with --results"
                )
            self.measured = saved["measured"]

    def of(self, task: str, method: Method, seed: int) -> dict[str, Any] | None:
        found = self.measured.get(f"{task} {method} {seed}")
        return None if found is None or (method == "rlpd" and found["settings"] != self._settings) else found

    def keep(self, task: str, method: Method, seed: int, result: dict[str, Any]) -> None:
        self.measured[f"{task} {method} {seed}"] = result | ({"settings": self._settings} if method == "rlpd" else {})
        text = json_module.dumps({"conditions": self._conditions, "measured": self.measured}, indent=1)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, text.encode())


def measure(trial: Trial, method: Method, results: Results) -> None:
    """One cell of the table, unless it is known already."""
    if results.of(trial.task, method, trial.seed) is not None:
        return
    gflops = machine_gflops()
    trial.demos()
    began = time.monotonic()
    result = {"rlpd": trial.rlpd, "cloning": trial.cloning, "sbx": trial.sbx}[method]()
    minutes = (time.monotonic() - began) / 60
    results.keep(trial.task, method, trial.seed, result | {"minutes": round(minutes, 2), "gflops": round(gflops, 1)})
    print(
        f"{trial.task}, {method}, seed {trial.seed}: {result['successes']} of {result['episodes']}, {minutes:.1f} minutes", file=sys.stderr
    )


def pooled(results: Results, task: str, method: Method, seeds: tuple[int, ...]) -> tuple[int, int] | None:
    """Successes and episodes of all seeds; None while one of them is missing."""
    found = [results.of(task, method, seed) for seed in seeds]
    known = [each for each in found if each is not None]
    return (sum(each["successes"] for each in known), sum(each["episodes"] for each in known)) if len(known) == len(found) else None


def report_of(results: Results, tasks: tuple[str, ...], methods: tuple[Method, ...], seeds: tuple[int, ...]) -> Report:
    report = Report("worlds", ("task", *methods), {})
    rates: dict[Method, list[float]] = {method: [] for method in methods}
    for task in tasks:
        cells = []
        for method in methods:
            found = pooled(results, task, method, seeds)
            cells.append("" if found is None else wilson(*found))
            if found is not None:
                rates[method].append(found[0] / found[1])
        report.row(task, *cells)
    names: dict[Method, str] = {"rlpd": "mean_success", "cloning": "cloning_mean", "sbx": "sbx_mean"}
    report.figures = {names[method]: float(np.mean(rates[method])) for method in methods if rates[method]}
    if rates.get("rlpd"):
        report.figures["tasks_over_0_9"] = sum(rate > 0.9 for rate in rates["rlpd"])
    return report


def main(
    tasks: tuple[str, ...] = tuple(WORLDS),
    methods: tuple[Method, ...] = ("rlpd", "cloning", "sbx"),
    seeds: tuple[int, ...] = (0,),
    minutes: float = 10.0,
    episodes: int = EPISODES,
    recipe: str = "fitted",
    sbx_speed: bool = False,
    json: bool = False,
    runs: Path = Path("runs/benchmark_worlds"),
    results: Path = ROOT / "benchmarks" / "measured" / "worlds.json",
) -> None:
    """Eight foreign tasks, each learned from 20 demonstrations.

    Args:
        tasks: Some of the eight, by name.
        methods: Some of the three.
        seeds: One run per seed; the seeds of a task are pooled.
        minutes: Minutes of training, of each run.
        episodes: Held-out episodes of each run.
        recipe: The recipe of RLPD, one for all tasks.
        sbx_speed: Only measure how many steps SBX makes in a minute; for `WORLDS`.
        json: One JSON object instead of the table.
        runs: Folder for demonstrations and runs.
        results: File of what has been measured; what is in it is not measured again.
    """
    unknown = [task for task in tasks if task not in WORLDS]
    if unknown:
        raise SystemExit(f"no task '{unknown[0]}'; there are {', '.join(WORLDS)}")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    gflops = machine_gflops()
    conditions = {"minutes": minutes, "episodes": episodes, "demos": DEMOS, "recipe": recipe, "cores": CORES}
    measured = Results(results, conditions)
    trials = [Trial(task, seed, minutes, episodes, recipe, runs / f"{task}_{seed}") for task in tasks for seed in seeds]
    if sbx_speed:
        for trial in trials:
            print(f"{trial.task}: {trial.sbx_speed():,} steps of SBX in a minute, {gflops:.0f} GFLOP/s", flush=True)
        return
    for trial in trials:
        for method in methods:
            measure(trial, method, measured)
    report = report_of(measured, tasks, methods, seeds)
    report.figures["gflops"] = gflops
    report.show(json)
    if not json:
        print(f"results: {results}; this machine: {gflops:.0f} GFLOP/s, {CORES} cores")


if __name__ == "__main__":
    tyro.cli(main)
