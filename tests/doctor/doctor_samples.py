"""Short real runs on `reach`, and functions that inject faults into a copy of one."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tandem.agents.sac_config import SACConfig
from tandem.codec import pack_transition, unpack_transition
from tandem.doctor.diagnosis import diagnose
from tandem.doctor.records import Records, load_run
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.sync import train
from tandem.runs.display import Display
from tandem.types import Transition

SMALL = TrainConfig(
    task="reach",
    agent=SACConfig(hidden=(32, 32), learning_rate=1e-3),
    batch_size=32,
    training_starts=40,
    steps_per_update=10,
    eval_period=0,
    final_episodes=0,
    num_envs=8,
    updates_per_actor_step=0.125,
    max_steps=200,
)


def short_run(path: Path, **changes: Any) -> Path:
    """A real run in this process, with some settings changed."""
    agent = dataclasses.replace(SMALL.agent, **{name: changes.pop(name) for name in ("learning_rate",) if name in changes})
    resume, watch = changes.pop("resume", False), changes.pop("watch", None)
    train(dataclasses.replace(SMALL, agent=agent, **changes), path, Display("quiet"), resume=resume, watch=watch)
    return path


def findings(run: Path | Records) -> list[dict[str, Any]]:
    return diagnose(run if isinstance(run, Records) else load_run(run))["findings"]


def first(run: Path | Records) -> str:
    """The name of the first finding, which must be a problem or a warning."""
    found = findings(run)
    assert found and found[0]["severity"] != "note", f"no problem was found, only {[finding['name'] for finding in found]}"
    write_down(found)
    return found[0]["name"]


def write_down(found: list[dict[str, Any]]) -> None:
    """For the table of faults in docs/doctor.md: TANDEM_FAULTS=faults.jsonl python -m pytest tests/doctor."""
    if "TANDEM_FAULTS" in os.environ:
        line = {"test": os.environ["PYTEST_CURRENT_TEST"].split("::")[-1].split(" ")[0], "found": [finding["name"] for finding in found]}
        with Path(os.environ["TANDEM_FAULTS"]).open("a") as file:
            file.write(json.dumps(line) + "\n")


def assert_healthy(run: Path | Records | dict[str, Any]) -> None:
    found = run["findings"] if isinstance(run, dict) else findings(run)
    assert all(finding["severity"] == "note" for finding in found), found


def copy_of(run: Path, path: Path) -> Path:
    shutil.copytree(run, path)
    return path


def edit_json(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    contents = json.loads(path.read_text())
    change(contents)
    path.write_text(json.dumps(contents))


def edit_rows(run: Path, change: Callable[[int, dict[str, Any]], dict[str, Any]]) -> None:
    """Change every row of the metrics; `change` gets the number of the row and the row."""
    path = run / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(change(number, row)) + "\n" for number, row in enumerate(rows)))
    (run / "summary.json").touch()  # the run has still ended


def edit_steps(run: Path, change: Callable[[int, Transition], Transition]) -> None:
    """Change every step of the journal; `change` gets its position from 0 and the step."""
    connection = sqlite3.connect(run / "journal.db")
    rows = connection.execute("SELECT ord, source, seq, record FROM steps ORDER BY ord").fetchall()
    for number, (ord, source, seq, record) in enumerate(rows):
        step = unpack_transition(record, source, seq)
        changed = change(number, step)
        if changed is not step:
            connection.execute("UPDATE steps SET record = ? WHERE ord = ?", (pack_transition(changed), ord))
    connection.commit()
    connection.close()
