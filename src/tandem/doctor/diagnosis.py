"""The whole diagnosis of a run as plain data: findings, checklist, clocks, machine. Plain, so that the hub can send it as JSON."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tandem.doctor.checklist import checklist
from tandem.doctor.checks import run_checks
from tandem.doctor.findings import Finding, worst
from tandem.doctor.records import Records, load_run
from tandem.doctor.stages import stage_table
from tandem.doctor.texts import Language, describe
from tandem.envs.registry import known_task
from tandem.runs.clocks import relations, stage
from tandem.runs.live import LiveView

Diagnosis = dict[str, Any]
"""Returned by `diagnose`, printed by `--json`, sent by `/api/findings`."""


def diagnose(records: Records, lang: Language = "en", remote: bool = False) -> Diagnosis:
    """Run all checks. With `remote`, for a reader on another machine, commands name the hub's address instead of the folder."""
    findings = run_checks(records)
    return {
        "run": records.label,
        "task": records.task,
        "kind": records.kind,
        "state": records.state,
        "phase": records.live.phase if records.live is not None and records.hub_fresh else None,
        "severity": worst(findings),
        "findings": descriptions(findings, records, lang, remote),
        "checklist": [dataclasses.asdict(line) for line in checklist(records, findings, lang)],
        "stages": stage_table(records),
        "clocks": clocks_of(records),
        "machine": _machine(records),
    }


def descriptions(findings: list[Finding], records: Records, lang: Language, remote: bool = False) -> list[dict[str, Any]]:
    common = names(records, remote)
    return [dataclasses.asdict(describe(finding, lang, common)) for finding in findings]


def names(records: Records, remote: bool = False) -> dict[str, Any]:
    """The names that are filled into commands."""
    address = records.probe.address if records.probe is not None else records.address
    host, _, port = (address or "").rpartition(":")
    by_folder = records.path is not None and records.here and not remote
    join = f"--run {records.path}" if by_folder else f"--learner {address or 'HOST:PORT'} --token-file TOKEN"
    return {
        "run": records.label,
        "task": records.task or None,
        "address": address,
        "host": host or None,
        "port": port or None,
        "join": join,
        "scripted": _scripted(records.task),
    }


def _scripted(task: str) -> bool:
    """Whether the task has a scripted operator, so that commands with one are accepted."""
    entry = known_task(task)
    return entry is not None and entry.expert is not None


def clocks_of(records: Records) -> dict[str, Any]:
    """The three counts and their relations (computed in `runs.clocks`), and the success measured at each row of the table.

    In an environment that reports no success it is the return.
    """
    every = int(records.setting("steps_per_update", 0) or 0)
    counts: dict[str, Any] = dataclasses.asdict(records.clocks)
    if not every:
        return counts
    starts, random_steps, critic_steps = (
        int(records.setting(name, 0) or 0) for name in ("training_starts", "random_steps", "critic_steps")
    )
    related = relations(every, records.pace).to_json()
    for row in related["table"]:
        row["success"] = records.success_at(row["learner_steps"])
        if not records.reports_success:
            row["return"] = records.return_at(row["learner_steps"])
    return {
        **related,
        **counts,
        "updates_per_actor_step": records.setting("updates_per_actor_step"),
        "stage": stage(records.clocks, starts, random_steps, critic_steps),
        "training_starts": starts,
        "random_steps": random_steps,
    }


def _machine(records: Records) -> dict[str, Any]:
    if records.machine is None:
        return {}
    seen = records.machine
    return {
        "host": seen.host,
        "cores": seen.cores,
        "memory_gb": round(seen.memory / 1e9, 1),
        "disk_free_gb": round(seen.disk_free / 1e9, 1),
        "gpu": seen.gpu,
        "gl": seen.gl,
        "python": seen.python,
        **seen.versions,
    }


def diagnose_run(path: Path, lang: Language = "en", live: LiveView | None = None, remote: bool = False) -> Diagnosis:
    """Diagnose a run folder; `seconds` in the result is the time it took."""
    began = time.perf_counter()
    diagnosis = diagnose(load_run(path, live), lang, remote)
    return diagnosis | {"seconds": round(time.perf_counter() - began, 3)}


def for_hub(path: Path) -> Callable[[LiveView, str], Diagnosis]:
    """The function with which a hub replies to `/api/findings`."""
    return lambda live, lang: diagnose_run(path, "zh" if lang == "zh" else "en", live, remote=True)
