"""How long does a diagnosis take, and does the doctor see why the robot still moves at random?

    python -m benchmarks.doctor [--quick] [--json] [--runs FOLDER]

Two runs of 12,804 learner steps and some 100,000 actor steps on `reach` that are the same but for one thing: in the second the actor
never hears of a policy after the first (the case of docs/steps.md: a learner at step 12,804 and an actor that still moves at random).
`tandem doctor RUN` is then run as a person would, in a process of its own.

* `seconds_healthy`, `seconds_deaf`: the median of five diagnoses, Python's start included; <= 2.
* `healthy_findings`: findings above a note in the first; 0.
* `deaf_named_first`: whether the second begins with `policies_not_applied`; 1.
* `jax_imported`: whether a diagnosis imports JAX; 0.
"""

from __future__ import annotations

import json as json_format
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import tyro

import tandem.off_policy.sync
from benchmarks.report import Report
from tandem.agents.sac import SACConfig
from tandem.envs.registry import make_env, make_expert
from tandem.link.inproc import InprocLink
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.sync import train
from tandem.programs.record import record_demos
from tandem.runs.display import Display
from tandem.types import PolicySnapshot

LEARNER_STEPS, ROWS = 12_804, 8
TARGETS = {
    "seconds_healthy": ("<=", 2.0),
    "seconds_deaf": ("<=", 2.0),
    "healthy_findings": ("==", 0),
    "deaf_named_first": ("==", 1),
    "jax_imported": ("==", 0),
}


class DeafLink(InprocLink):
    """The actor gets the first policy and no other."""

    def newest_policy(self, newer_than: int = -1) -> PolicySnapshot | None:
        return super().newest_policy(newer_than) if newer_than < 0 else None


def lived(path: Path, demos: Path, steps: int, link: type[InprocLink]) -> Path:
    """A run with this link."""
    config = TrainConfig(
        task="reach",
        agent=SACConfig(hidden=(64, 64)),
        demos=(demos,),
        batch_size=64,
        num_envs=ROWS,
        updates_per_actor_step=1 / ROWS,
        max_steps=steps,
        eval_period=0,
        final_episodes=0,
    )
    tandem.off_policy.sync.InprocLink = link
    train(config, path, Display("quiet"))
    return path


def diagnosed(run: Path) -> dict[str, Any]:
    told = subprocess.run([sys.executable, "-m", "tandem.cli", "doctor", str(run), "--json"], capture_output=True, text=True)
    return json_format.loads(told.stdout)


def seconds(run: Path) -> float:
    def once() -> float:
        began = time.perf_counter()
        diagnosed(run)
        return time.perf_counter() - began

    return statistics.median(once() for _ in range(5))


def imports_jax(run: Path) -> bool:
    script = "import sys; from tandem.doctor.diagnosis import diagnose_run; from pathlib import Path\n"
    script += "diagnose_run(Path(sys.argv[1])); print('jax' in sys.modules)"
    return subprocess.run([sys.executable, "-c", script, run], capture_output=True, text=True, check=True).stdout.strip() == "True"


def main(quick: bool = False, json: bool = False, runs: Path = Path("runs/benchmark_doctor")) -> None:
    """Two runs, and the doctor's word on them.

    Args:
        quick: A twentieth of the steps, to see that it runs.
        json: One JSON object instead of the table.
        runs: Folder of the runs.
    """
    folder, steps = runs / time.strftime("%Y-%m-%d_%H-%M-%S"), LEARNER_STEPS // (20 if quick else 1)
    demos = record_demos(make_env("reach"), make_expert("reach", 0), 10, folder / "demos", 0)
    healthy = lived(folder / "healthy", demos, steps, InprocLink)
    deaf = lived(folder / "deaf", demos, steps, DeafLink)
    report = Report("doctor", ("run", "steps", "seconds", "found"), TARGETS)
    for name, run in (("healthy", healthy), ("deaf", deaf)):
        told = diagnosed(run)
        above = [finding["name"] for finding in told["findings"] if finding["severity"] != "note"]
        report.figures[f"seconds_{name}"] = seconds(run)
        clocks = f"{told['clocks']['learner_step']:,} learner, {told['clocks']['actor_step']:,} actor"
        report.row(name, clocks, f"{report.figures[f'seconds_{name}']:.2f}", ", ".join(above) or "nothing above a note")
        if name == "healthy":
            report.figures["healthy_findings"] = len(above)
        else:
            report.figures["deaf_named_first"] = int(above[:1] == ["policies_not_applied"])
    report.figures["jax_imported"] = int(imports_jax(healthy))
    report.show(json)
    if not json:
        print(f"runs in {folder}")


if __name__ == "__main__":
    tyro.cli(main)
