"""How long does a diagnosis take, and does the doctor find out why the robot still moves at random?

    python -m benchmarks.doctor [--quick] [--json] [--runs FOLDER]

Two runs of 12,804 learner steps and about 100,000 actor steps on `reach`, with one difference: in the second ("deaf") the actor
never receives a policy after the first one. Then `tandem doctor RUN` is run on both, in its own process.

* `seconds_healthy`, `seconds_deaf`: the median of five diagnoses, the start of Python included; <= 2.
* `healthy_findings`: problems and warnings in the first run; 0.
* `deaf_named_first`: whether the first finding of the second run is `policies_not_applied`; 1.
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
from tandem.agents.sac_config import SACConfig
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


def make_run(path: Path, demos: Path, steps: int, link: type[InprocLink]) -> Path:
    """Train with this link."""
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
    """Run `tandem doctor RUN --json`."""
    done = subprocess.run([sys.executable, "-m", "tandem.cli", "doctor", str(run), "--json"], capture_output=True, text=True)
    return json_format.loads(done.stdout)


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
    """Diagnose a healthy run and one whose actor never receives a new policy.

    Args:
        quick: A twentieth of the steps, to check that it works.
        json: One JSON object instead of the table.
        runs: Folder for the runs.
    """
    folder, steps = runs / time.strftime("%Y-%m-%d_%H-%M-%S"), LEARNER_STEPS // (20 if quick else 1)
    demos = record_demos(make_env("reach"), make_expert("reach", 0), 10, folder / "demos", 0)
    healthy = make_run(folder / "healthy", demos, steps, InprocLink)
    deaf = make_run(folder / "deaf", demos, steps, DeafLink)
    report = Report("doctor", ("run", "steps", "seconds", "findings"), TARGETS)
    for name, run in (("healthy", healthy), ("deaf", deaf)):
        diagnosis = diagnosed(run)
        above = [finding["name"] for finding in diagnosis["findings"] if finding["severity"] != "note"]
        report.figures[f"seconds_{name}"] = seconds(run)
        clocks = f"{diagnosis['clocks']['learner_step']:,} learner, {diagnosis['clocks']['actor_step']:,} actor"
        report.row(name, clocks, f"{report.figures[f'seconds_{name}']:.2f}", ", ".join(above) or "no problem")
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
