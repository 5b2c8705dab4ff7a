"""The doctor inside the loops: the trainer shows its rows, the actor itself; what stands for a while is said once.

The same checks on less: a part of the records that is not there makes the checks that need it say nothing.
"""

from __future__ import annotations

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
from tandem.doctor.texts import Language, tell
from tandem.link.client import ActorClient
from tandem.runs.folder import RunFolder
from tandem.runs.live import ActorView, ClockView, HubView, JournalView, LiveView, PolicyView, TrainerView

LOOK_EVERY_ROWS = 20
ROWS_KEPT = 400
LOOK_EVERY_S = 5.0


class Once:
    """Says a finding when it has stood for two looks in a row, and then never again."""

    def __init__(self, lang: Language = "en") -> None:
        self._lang: Language = lang
        self._before: set[str] = set()
        self._said: set[str] = set()

    def say(self, findings: Iterable[Finding], names: Mapping[str, Any]) -> list[str]:
        bad = [finding for finding in findings if finding.severity != NOTE]
        due = [finding for finding in bad if finding.name in self._before and finding.name not in self._said]
        self._before = {finding.name for finding in bad}
        self._said |= {finding.name for finding in due}
        return [self._line(finding, names) for finding in due]

    def _line(self, finding: Finding, names: Mapping[str, Any]) -> str:
        told = tell(finding, self._lang, names)
        seen = f" ({'; '.join(told.evidence)})" if told.evidence else ""
        return f"{told.severity.upper()} {told.name}: {told.what}{seen} `tandem doctor explain {told.name}` says more."


def watch_trainer(path: Path) -> Callable[[dict[str, Any]], list[str]]:
    """For `Trainer.watch`: looks at the newest rows now and then."""
    rows: deque[dict[str, Any]] = deque(maxlen=ROWS_KEPT)
    once, folder = Once(), RunFolder(path)
    count = 0

    def watch(row: dict[str, Any]) -> list[str]:
        nonlocal count
        rows.append(row)
        count += 1
        if count % LOOK_EVERY_ROWS:
            return []
        info = folder.info  # not before there is a folder
        records = Records(time.time(), info.task, info.spec, info.settings, info.kind, rows=list(rows))
        return once.say(run_checks(records), {"run": str(path), "task": info.task})

    return watch


def watch_actor() -> Callable[[Any, ActorClient], list[str]]:
    """For the actor's loop: what it acts with, how the link is, how it moves."""
    actions: deque[np.ndarray] = deque(maxlen=limits.ENOUGH_STEPS)
    once = Once()
    began = looked_at = time.monotonic()
    steps_before = 0

    def watch(actor: Any, client: ActorClient) -> list[str]:
        nonlocal looked_at, steps_before
        if actor.last_actions is not None:
            actions.extend(actor.last_actions)
        now = time.monotonic()
        if now - looked_at < LOOK_EVERY_S:
            return []
        rate, steps_before = (actor.steps - steps_before) / (now - looked_at), actor.steps
        looked_at = now
        own = np.stack(actions) if len(actions) == actions.maxlen else None
        records = Records(time.time(), actor.spec.task, actor.spec, live=_own_view(actor, client, now - began, rate), own_actions=own)
        return once.say(run_checks(records), {"task": actor.spec.task, "address": client.uri.split("/")[2]})

    return watch


def _own_view(actor: Any, client: ActorClient, age_s: float, rate: float) -> LiveView:
    """Itself as the hub would see it. What it cannot know of hub and trainer is said to be well."""
    status, version = client.status, actor.snapshot.version if actor.snapshot is not None else -1
    view = ActorView(
        name=client.name,
        connected=status.connected,
        pace=client.pace,
        rows=client.rows,
        version=version,
        lag_versions=None if actor.own_policy is not None else max(0, status.newest_version - version),
        lag_s=LOOK_EVERY_S * 3,  # a newer one lies ready: the loop takes it before its next step, if all is well
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
