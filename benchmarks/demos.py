"""Are faults of demonstrations found, are sound files left alone, and do the formats of others go in and out?

    python -m benchmarks.demos [--json] [--gigabytes 4] [--without-peers]

* `faults_found`: of the injected faults (`benchmarks/demo_faults.py`), how many are the first finding; at least 20.
* `false_alarms`: problems and warnings in sound files: scripted demonstrations of reach, gear_assembly and gear_pick_assembly; 0.
* `import_memory_gb`: the most memory that the import of a hil-serl pickle of this size takes, two cameras of 128 x 128; <= 1.
* `import_mb_per_s`: its speed, PNG compression included.
* `round_trip_exact_FORMAT`: exported and imported again, every step is the same to the last bit; 1.
* `opened_by_FORMAT`: the peer's own reader, in a virtual environment of its own (`.venv-peers/`), finds the same steps, rewards and
  actions; 1.
* `imported_of_lerobot`: a dataset with a film that LeRobot itself wrote is imported with the right picture at every step; 1.
"""

from __future__ import annotations

import dataclasses
import json as json_format
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.demo_faults import FAULTS, episodes, fork_pickle, write
from benchmarks.peers import PEERS as VENVS
from benchmarks.peers import python_of
from benchmarks.report import Report
from tandem.data.demos import read_demos
from tandem.data.formats.kinds import FORMATS, export, open_any
from tandem.doctor.demo_files import check, look_at
from tandem.envs.registry import make_env, make_expert
from tandem.programs.edit_demos import rewrite
from tandem.programs.record import record_demos

ROOT = Path(__file__).parents[1]
PEERS = {
    "lerobot": ("lerobot==0.4.4",),
    "robomimic": ("robomimic==0.3.0", "h5py"),
    "minari": ("minari[hdf5]==0.5.4", "pillow"),
}
OWN = ("reach", "gear_assembly", "gear_pick_assembly")
TARGETS: dict[str, tuple[str, float]] = {"faults_found": (">=", 20), "false_alarms": ("==", 0), "import_memory_gb": ("<=", 1.0)}


def reader(name: str) -> Path:
    """The interpreter of a peer's virtual environment."""
    return python_of(VENVS / f"demos-{name}", PEERS[name])


def exported(path: Path, name: str, folder: Path) -> Path:
    with open_any(path) as opened:
        return export(opened, name, folder / (f"{name}.hdf5" if name == "robomimic" else name))


def peer_reads(name: str, path: Path, folder: Path) -> bool:
    """Whether the peer's own reader finds what is in the file."""
    out, steps = exported(path, name, folder), read_demos(path).transitions
    command = [reader(name), ROOT / "benchmarks" / "demo_readers.py", name, out]
    made = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    if made.returncode:
        print(made.stderr[-2000:], file=sys.stderr)
        return False
    seen: dict[str, Any] = json_format.loads(made.stdout.strip().splitlines()[-1])
    ends = {"dones": sum(step.last for step in steps), "terminations": sum(step.terminated for step in steps)}
    same = seen["steps"] == len(steps) and math.isclose(seen["reward"], sum(step.reward for step in steps))
    same &= math.isclose(seen["actions"], float(np.sum([step.action.astype(float).sum() for step in steps])), rel_tol=1e-6)
    return same and all(seen[key] == value for key, value in ends.items() if key in seen)


def imports_what_lerobot_writes(folder: Path) -> bool:
    """Two episodes of 12 frames; frame n has a brightness of 20 n, and n in the state and three times in the action."""
    made = subprocess.run(
        [reader("lerobot"), ROOT / "benchmarks" / "demo_readers.py", "make-lerobot", folder / "theirs"],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    if made.returncode:
        print(made.stderr[-2000:], file=sys.stderr)
        return False
    with open_any(folder / "theirs", fit_actions=True) as opened:
        made_of_it = [(number, frame, step) for number, steps in enumerate(opened.episodes()) for frame, step in enumerate(steps)]
    ends = [bool(step.terminated and step.success) for _, _, step in made_of_it]
    return ends == [frame == 11 for _ in range(2) for frame in range(12)] and all(
        step.observation["state"].tolist() == [number, frame, 0] and abs(float(step.observation["wrist"].mean()) - 20 * frame) < 6
        for number, frame, step in made_of_it
    )


def round_trip_exact(path: Path, name: str, folder: Path) -> bool:
    out = exported(path, name, folder)
    with open_any(out) as opened:
        back, _ = rewrite([opened], lambda spec, overview: [], folder / f"{name}_back")
    one, other = read_demos(path), read_demos(back)
    if one.spec.difference(other.spec) or len(one.transitions) != len(other.transitions):
        return False
    fields = [field.name for field in dataclasses.fields(one.transitions[0]) if field.name not in ("source", "seq")]
    return all(
        _equal(getattr(a, name), getattr(b, name)) for a, b in zip(one.transitions, other.transitions, strict=True) for name in fields
    )


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
    return bool(np.array_equal(one, other))


def faults(report: Report, folder: Path) -> None:
    sound, found = episodes(), 0
    for number, (name, fault) in enumerate(FAULTS.items()):
        path = write(folder / f"fault{number}.db", fault.inject(sound))
        names = [finding["name"] for finding in check([look_at(path)], None, "en", fault.discount)[0]["findings"]]
        found += names[:1] == [fault.finding]
        report.row(name, names[0] if names else "nothing", "found" if names[:1] == [fault.finding] else f"expected {fault.finding}")
    report.figures |= {"faults_found": found, "faults_injected": len(FAULTS)}


def alarms(report: Report, folder: Path) -> dict[str, Path]:
    """Files of our own scripts, by task."""
    files = {task: record_demos(make_env(task), make_expert(task, 0), 25, folder / task, seed=0) for task in OWN}
    count = 0
    for task, path in files.items():
        bad = [each["name"] for each in check([look_at(path)], None, "en")[0]["findings"] if each["severity"] != "note"]
        count += len(bad)
        report.row(f"25 scripted demonstrations of {task}", ", ".join(bad) or "nothing", "false alarm" if bad else "")
    report.figures["false_alarms"] = count
    return files


def import_large(report: Report, folder: Path, gigabytes: float) -> None:
    """In a process of its own, whose largest memory is then known."""
    steps = int(gigabytes * 1e9 / (4 * 128 * 128 * 3))
    path = fork_pickle(folder / "large.pkl", max(1, steps // 830), 830, pictures=128)
    # not ru_maxrss, which begins with the memory of the process that started this one
    code = (
        "import re, sys; from tandem.cli import run; run('demos', ['import', sys.argv[1], '--out', sys.argv[2]]); "
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )
    began = time.perf_counter()
    made = subprocess.run([sys.executable, "-c", code, path, folder / "imported"], capture_output=True, text=True, check=True)
    seconds, size = time.perf_counter() - began, path.stat().st_size
    [imported] = (folder / "imported").iterdir()
    report.figures |= {
        "import_memory_gb": int(made.stdout.split()[-1]) * 1024 / 1e9,
        "import_mb_per_s": size / 1e6 / seconds,
        "pickle_gb": size / 1e9,
        "imported_gb": imported.stat().st_size / 1e9,
    }
    path.unlink()


def main(json: bool = False, gigabytes: float = 4.0, without_peers: bool = False) -> int:
    """Measure; exits with 1 if a target is not met."""
    exact = {f"round_trip_exact_{name}": ("==", 1.0) for name in FORMATS}
    opened = {} if without_peers else {f"opened_by_{name}": ("==", 1.0) for name in FORMATS} | {"imported_of_lerobot": ("==", 1.0)}
    report = Report("demonstrations", ("file", "first finding", ""), TARGETS | exact | opened)
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        faults(report, folder)
        files = alarms(report, folder)
        pictured = write(folder / "pictured.db", episodes(4))
        for name in FORMATS:
            trips = [round_trip_exact(path, name, _new(folder)) for path in (pictured, *files.values())]
            report.figures[f"round_trip_exact_{name}"] = float(all(trips))
            if not without_peers:
                report.figures[f"opened_by_{name}"] = float(peer_reads(name, pictured, _new(folder)))
        if not without_peers:
            report.figures["imported_of_lerobot"] = float(imports_what_lerobot_writes(_new(folder)))
        import_large(report, folder, gigabytes)
    report.show(json)
    return int(bool(report.unmet()))


def _new(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder))


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
