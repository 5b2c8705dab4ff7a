"""The demonstration files of a run: readable, of this task, valid, and worth learning from?"""

from __future__ import annotations

from tandem.data.report import IDLE
from tandem.doctor import limits
from tandem.doctor.checks.demo_numbers import pause
from tandem.doctor.findings import NOTE, PROBLEM, WARNING, Finding, Share
from tandem.doctor.records import DemoFile, Records


def _files(records: Records) -> list[DemoFile]:
    return list(records.demos or ())


def _named(file: DemoFile) -> dict[str, str]:
    return {"file": str(file.path), "short": file.path.name}


def demos_missing(records: Records) -> Finding | None:
    for file in _files(records):
        if file.problem:
            return Finding("demos_missing", PROBLEM, {**_named(file), "detail": file.problem})
    return None


def demos_foreign(records: Records) -> Finding | None:
    for file in _files(records):
        differences = [] if file.spec is None else records.spec.data_difference(file.spec)
        if file.report and file.report.kind != "journal":  # it carries no spec: its import was checked against the task's
            if file.foreign:
                return Finding("demos_foreign", PROBLEM, {**_named(file), "import": file.foreign})
            continue
        if file.spec is None or not differences:
            continue
        facts = {"there": file.spec.task, "here": records.task, "detail": "; ".join(differences[:3]), "differences": len(differences)}
        return Finding("demos_foreign", PROBLEM, {**_named(file), **facts})
    return None


def demos_broken(records: Records) -> Finding | None:
    for file in _files(records):
        if file.unusable:
            return Finding("demos_broken", PROBLEM, {**_named(file), "count": len(file.unusable), "detail": file.unusable[0]})
    return None


def demos_empty(records: Records) -> Finding | None:
    for file in _files(records):
        if not file.problem and not file.steps:
            return Finding("demos_empty", PROBLEM, {**_named(file), "steps": 0})
    if records.setting("demos") and records.demo_transitions == 0:
        return Finding("demos_empty", PROBLEM, {"file": str(records.setting("demos")[0]), "buffer": 0})
    return None


def demos_without_reward(records: Records) -> Finding | None:
    for file in _files(records):
        if file.steps and not file.problem and not file.rewarded:
            return Finding("demos_without_reward", PROBLEM, {**_named(file), "steps": file.steps})
    return None


def demos_fail(records: Records) -> Finding | None:
    for file in _files(records):
        if file.report is not None and file.rewarded and records.sparse and file.report.success_share < limits.LITTLE_SUCCESS:
            facts = {"share": Share(file.report.success_share), "episodes": file.report.episodes}
            return Finding("demos_fail", WARNING, {**_named(file), **facts})
    return None


def demos_idle(records: Records) -> Finding | None:
    for file in _files(records):
        if file.report is not None and file.report.idle_share > limits.IDLE_DEMOS:
            return Finding("demos_idle", WARNING, {**_named(file), "share": Share(file.report.idle_share), **pause(file, IDLE)})
    return None


def demos_saturated(records: Records) -> Finding | None:
    for file in _files(records):
        shares = file.report.saturated if file.report is not None else {}
        worst = max(shares, key=lambda axis: shares[axis], default=None)
        if worst is not None and shares[worst] > limits.SATURATED_DEMOS:
            facts = {"share": Share(shares[worst]), "component": worst}
            return Finding("demos_saturated", WARNING, {**_named(file), **facts})
    return None


def no_demos(records: Records) -> Finding | None:
    if records.kind != "rlpd" or records.setting("demos") or records.setting("demos") is None:
        return None
    return Finding("no_demos", NOTE, {"task": records.task})
