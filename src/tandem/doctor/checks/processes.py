"""Do hub and trainer run, and can they write?"""

from __future__ import annotations

from tandem.doctor import limits
from tandem.doctor.findings import NOTE, PROBLEM, WARNING, Bytes, Finding, Seconds
from tandem.doctor.records import Records


def run_broke(records: Records) -> Finding | None:
    """It met a NaN or infinite value and stopped: there are saved simulation states, or an event `broken`."""
    since = records.started_at or 0.0
    simulations = [path for path in records.broken if path.name.startswith("simulation") and path.stat().st_mtime > since]
    events = [event for event in records.events_of("broken") if event["time"] >= since]
    if not simulations and not events:
        return None
    kept = simulations[-1] if simulations else records.broken[-1] if records.broken else None
    ended = not (records.running and records.hub_fresh)
    facts = {"file": str(kept) if kept else None, "detail": events[-1].get("problem") if events else None}
    return Finding("run_broke", PROBLEM if ended else WARNING, facts)


def part_failed(records: Records) -> Finding | None:
    """The run ended because a part of it ended with an error; obsolete once the run was started again.

    The parts of a supervised run start in any order, so there only the supervisor's own word counts.
    """
    starts = ("launched",) if records.events_of("launched") else ("started", "resumed")
    failed = records.events_of("part_failed", *starts)
    if not failed or failed[-1]["kind"] != "part_failed":
        return None
    told = failed[-1]
    command = "ppo" if records.kind == "ppo" else "train"
    facts = {"part": told.get("part"), "how": told.get("how"), "error": told.get("error") or None, "command": command}
    return Finding("part_failed", PROBLEM, facts | ({} if facts["error"] else {"silent": True}))


def run_died(records: Records) -> Finding | None:
    if records.state != "dead":
        return None
    silent = Seconds(records.now - records.written_at) if records.written_at is not None else None
    command = "ppo" if records.kind == "ppo" else "train"
    return Finding("run_died", PROBLEM, {"silent": silent, "learner_step": records.clocks.learner_step, "command": command})


def disk_full(records: Records) -> Finding | None:
    trouble = records.live.status.journal.trouble if records.live is not None else ""
    if not trouble and records.live is None:
        events = records.events_of("storage_trouble", "storage_well_again")
        trouble = events[-1].get("problem", "") if events and events[-1]["kind"] == "storage_trouble" else ""
    if not trouble:
        return None
    free = Bytes(records.machine.disk_free) if records.machine is not None else None
    return Finding("disk_full", PROBLEM, {"detail": trouble, "free": free})


def journal_unreadable(records: Records) -> Finding | None:
    return Finding("journal_unreadable", PROBLEM, {"detail": records.journal_problem}) if records.journal_problem else None


def hub_silent(records: Records) -> Finding | None:
    """Its status in the folder is out of date while the trainer continues."""
    live = records.live
    if live is None or live.closed or records.hub_fresh or not records.running:
        return None
    return Finding("hub_silent", PROBLEM, {"silent": Seconds(records.now - live.time)})


def trainer_dead(records: Records) -> Finding | None:
    """No heartbeat. While the first update compiles, and during an evaluation, that is normal."""
    live = records.live
    if live is None or not records.hub_fresh or live.status.trainer.alive:
        return None
    begun = live.clocks.learner_step > 0  # from the same status: the metrics may be newer
    if live.phase in ("filling", "paused") or (live.phase == "training" and begun):
        return Finding("trainer_dead", PROBLEM, {"phase": live.phase, "learner_step": records.clocks.learner_step})
    return None


def often_restarted(records: Records) -> Finding | None:
    recent = [event for event in records.events_of("restarted") if records.now - event["time"] < limits.RECENTLY_S]
    if len(recent) < limits.OFTEN_RESTARTED or not records.running:
        return None
    facts = {"times": len(recent), "part": recent[-1].get("part"), "signal": recent[-1].get("signal")}
    return Finding("often_restarted", WARNING, facts)


def environment_stalled(records: Records) -> Finding | None:
    """An actor waited very long for a step or a reset."""
    stalls = [event for event in records.events_of("stalled") if event["time"] >= (records.started_at or 0.0)]
    if not stalls:
        return None
    longest = max(stalls, key=lambda event: event.get("seconds", 0.0))
    facts = {"times": len(stalls), "phase": longest.get("phase"), "longest": Seconds(longest.get("seconds", 0.0))}
    return Finding("environment_stalled", WARNING, facts | {"actor": longest.get("actor")})


def paused(records: Records) -> Finding | None:
    if records.live is None or not records.hub_fresh or records.live.phase != "paused":
        return None
    return Finding("paused", WARNING, {"learner_step": records.clocks.learner_step})


def interrupted(records: Records) -> Finding | None:
    if records.state != "finished" or not records.summary or records.summary.get("stopped") != "interrupted":
        return None
    command = "ppo" if records.kind == "ppo" else "train"
    return Finding("interrupted", NOTE, {"learner_step": records.clocks.learner_step, "command": command})
