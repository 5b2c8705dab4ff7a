"""Runs the checks inside the trainer's and the actor's loop. A finding that persists is reported once.

The checks are the same, on fewer records: a check whose data is missing reports nothing.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tandem.doctor import limits
from tandem.doctor.checks import run_checks
from tandem.doctor.findings import NOTE, Finding
from tandem.doctor.records import Records
from tandem.doctor.show import brief_line
from tandem.doctor.texts import Language, describe
from tandem.link.client import ActorClient
from tandem.runs.folder import RunFolder
from tandem.runs.live import ActorView, ClockView, HubView, JournalView, LiveView, PolicyView, TrainerView

LOOK_EVERY_ROWS = 20
ROWS_KEPT = 400
LOOK_EVERY_S = 5.0


class OnceReporter:
    """Reports a finding when two checks in a row found it, and then never again."""

    def __init__(self, lang: Language = "en") -> None:
        self._lang: Language = lang
        self._before: set[str] = set()
        self._reported: set[str] = set()

    def new_lines(self, findings: Iterable[Finding], names: Mapping[str, Any]) -> list[str]:
        bad = [finding for finding in findings if finding.severity != NOTE]
        due = [finding for finding in bad if finding.name in self._before and finding.name not in self._reported]
        self._before = {finding.name for finding in bad}
        self._reported |= {finding.name for finding in due}
        return [self._line(finding, names) for finding in due]

    def _line(self, finding: Finding, names: Mapping[str, Any]) -> str:
        return brief_line(dataclasses.asdict(describe(finding, self._lang, names)))


def watch_trainer(path: Path) -> Callable[[dict[str, Any]], list[str]]:
    """For `Trainer.watch`: checks the newest rows of metrics every few rows."""
    rows: deque[dict[str, Any]] = deque(maxlen=ROWS_KEPT)
    reporter, folder = OnceReporter(), RunFolder(path)
    count = 0

    def watch(row: dict[str, Any]) -> list[str]:
        nonlocal count
        rows.append(row)
        count += 1
        if count % LOOK_EVERY_ROWS:
            return []
        info = folder.info  # not before there is a folder
        records = Records(time.time(), info.task, info.spec, info.settings, info.kind, rows=list(rows))
        return reporter.new_lines(run_checks(records), {"run": str(path), "task": info.task})

    return watch


def watch_actor() -> Callable[[Any, ActorClient], list[str]]:
    """For the actor's loop: checks its policy version, its link and its actions."""
    actions: deque[np.ndarray] = deque(maxlen=limits.ENOUGH_STEPS)
    reporter = OnceReporter()
    began = looked_at = time.monotonic()
    steps_before, reported = 0, False

    def watch(actor: Any, client: ActorClient) -> list[str]:
        nonlocal looked_at, steps_before, reported
        actions.extend(step.action for step in actor.transitions)
        reported |= any(step.success is not None for step in actor.transitions)
        now = time.monotonic()
        if now - looked_at < LOOK_EVERY_S:
            return []
        rate, steps_before = (actor.steps - steps_before) / (now - looked_at), actor.steps
        looked_at = now
        own = np.stack(actions) if len(actions) == actions.maxlen else None
        view = _own_view(actor, client, now - began, rate)
        records = Records(time.time(), actor.spec.task, actor.spec, live=view, own_actions=own, success_reported=reported)
        return reporter.new_lines(run_checks(records), {"task": actor.spec.task, "address": client.uri.split("/")[2]})

    return watch


def _own_view(actor: Any, client: ActorClient, age_s: float, rate: float) -> LiveView:
    """The actor as the hub would show it. Hub and trainer, which it cannot check, are assumed healthy."""
    status, version = client.status, actor.snapshot.version if actor.snapshot is not None else -1
    view = ActorView(
        name=client.name,
        connected=status.connected,
        pace=client.pace,
        rows=client.rows,
        version=version,
        lag_versions=None if actor.own_policy is not None else max(0, status.newest_version - version),
        lag_s=LOOK_EVERY_S * 3,  # a healthy loop takes a newer policy before its next step
        steps_per_s=rate,
        connected_s=age_s,
        unacknowledged=status.unacknowledged,
        spool_bytes=status.spool_bytes,
        dropped=status.dropped,
        round_trip_ms=1e3 * status.round_trip_s,
        clock_difference_s=status.clock_difference_s,
    )
    hub = HubView(up_s=age_s, trainer=TrainerView(alive=True), policy=PolicyView(status.newest_version), journal=JournalView())
    return LiveView(time.time(), hub, ClockView(actor_step=actor.steps, actor_steps_per_s=rate), [view])
