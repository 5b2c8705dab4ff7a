"""All that is to be said about a run at once: findings, the checklist, the clocks. As plain data, so that it can cross a network."""

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
from tandem.doctor.texts import Language, tell
from tandem.runs.clocks import relations, stage
from tandem.runs.live import LiveView

Diagnosis = dict[str, Any]
"""What `diagnose` gives, what `--json` prints and what `/api/findings` answers."""


def diagnose(records: Records, lang: Language = "en", from_afar: bool = False) -> Diagnosis:
    """`from_afar`: for somebody who cannot read the folder; commands then name the address."""
    findings = run_checks(records)
    return {
        "run": records.label,
        "task": records.task,
        "kind": records.kind,
        "state": records.state,
        "phase": records.live.phase if records.live is not None and records.hub_fresh else None,
        "severity": worst(findings),
        "findings": told(findings, records, lang, from_afar),
        "checklist": [dataclasses.asdict(line) for line in checklist(records, findings, lang)],
        "clocks": clocks_of(records),
        "machine": _machine(records),
    }


def told(findings: list[Finding], records: Records, lang: Language, from_afar: bool = False) -> list[dict[str, Any]]:
    common = names(records, from_afar)
    return [dataclasses.asdict(tell(finding, lang, common)) for finding in findings]


def names(records: Records, from_afar: bool = False) -> dict[str, Any]:
    """What commands are filled in with."""
    address = records.probe.address if records.probe is not None else records.address
    host, _, port = (address or "").rpartition(":")
    by_folder = records.path is not None and records.here and not from_afar
    join = f"--run {records.path}" if by_folder else f"--learner {address or 'HOST:PORT'} --token-file TOKEN"
    return {
        "run": records.label,
        "task": records.task or None,
        "address": address,
        "host": host or None,
        "port": port or None,
        "join": join,
    }


def clocks_of(records: Records) -> dict[str, Any]:
    """The three counts, how they are related (`runs.clocks`), and the success this run had at each row of the table."""
    every = int(records.setting("steps_per_update", 0) or 0)
    counts: dict[str, Any] = dataclasses.asdict(records.clocks)
    if not every:
        return counts
    starts, random_steps = int(records.setting("training_starts", 0) or 0), int(records.setting("random_steps", 0) or 0)
    related = relations(every, records.pace).to_json()
    for row in related["table"]:
        row["success"] = records.success_at(row["learner_steps"])
    return {
        **related,
        **counts,
        "updates_per_actor_step": records.setting("updates_per_actor_step"),
        "stage": stage(records.clocks, starts, random_steps),
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


def diagnose_run(path: Path, lang: Language = "en", live: LiveView | None = None, from_afar: bool = False) -> Diagnosis:
    """Look at a run folder; says how long that took."""
    began = time.perf_counter()
    diagnosis = diagnose(load_run(path, live), lang, from_afar)
    return diagnosis | {"seconds": round(time.perf_counter() - began, 3)}


def for_hub(path: Path) -> Callable[[LiveView, str], Diagnosis]:
    """What a hub answers `/api/findings` with."""
    return lambda live, lang: diagnose_run(path, "zh" if lang == "zh" else "en", live, from_afar=True)
