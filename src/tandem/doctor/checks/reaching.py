"""Can the hub be reached from this machine? One finding for each way in which it can fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tandem.doctor import limits
from tandem.doctor.findings import NOTE, PROBLEM, WARNING, Finding, Seconds
from tandem.doctor.records import Records
from tandem.runs.live import ActorView


def _probed(records: Records, outcome: str, name: str, **facts: Any) -> Finding | None:
    probe = records.probe
    if probe is None or probe.outcome != outcome:
        return None
    return Finding(name, PROBLEM, {"address": probe.address, "detail": probe.detail or None, **facts})


def address_unknown(records: Records) -> Finding | None:
    return _probed(records, "unknown_name", "address_unknown")


def connection_refused(records: Records) -> Finding | None:
    return _probed(records, "refused", "connection_refused")


def host_unreachable(records: Records) -> Finding | None:
    return _probed(records, "unreachable", "host_unreachable")


def no_answer(records: Records) -> Finding | None:
    connected = records.probe is not None and records.probe.stage == "answer"
    return _probed(records, "silent", "no_answer", **{"connected" if connected else "not_connected": True})


def not_a_hub(records: Records) -> Finding | None:
    return _probed(records, "not_a_hub", "not_a_hub")


def untrusted_certificate(records: Records) -> Finding | None:
    return _probed(records, "untrusted", "untrusted_certificate")


def wrong_token(records: Records) -> Finding | None:
    given = records.probe is not None and records.probe.token_given
    return _probed(records, "wrong_token", "wrong_token", **{"given" if given else "not_given": True})


def other_version(records: Records) -> Finding | None:
    found = _probed(records, "other_version", "other_version")
    return found or _refusal(records, "protocol", "other_version")


def other_spec(records: Records) -> Finding | None:
    return _refusal(records, "spec", "other_spec")


def other_task(records: Records) -> Finding | None:
    return _refusal(records, "task", "other_task")


def actor_refused(records: Records) -> Finding | None:
    return _refusal(records, "run", "actor_refused") or _refusal(records, "busy", "actor_refused")


def _refusal(records: Records, code: str, name: str) -> Finding | None:
    """An actor that the hub refused; no longer reported once an actor of the same name has joined."""
    refused = [event for event in records.events_of("refused") if event.get("code") == code]
    if not refused or not records.running:
        return None
    last = refused[-1]
    if any(_joined_after(event, last) for event in records.events_of("actor_joined")):
        return None
    facts = {"actor": last.get("name") or None, "times": len(refused), "detail": last.get("problem"), "address": _address(records)}
    return Finding(name, PROBLEM, facts)


def _joined_after(joined: Mapping[str, Any], refused: Mapping[str, Any]) -> bool:
    return joined["time"] > refused["time"] and joined.get("name") == refused.get("name")


def _address(records: Records) -> str:
    return records.probe.address if records.probe is not None else "HOST:PORT"


def link_slow(records: Records) -> Finding | None:
    """The slowest round trip: as the actors measure it, and from this machine if an address was probed."""
    seen: list[tuple[float, str | None]] = [(actor.round_trip_ms, actor.name) for actor in _actors(records)]
    if records.probe is not None and records.probe.round_trip_ms is not None:
        seen.append((records.probe.round_trip_ms, None))
    slowest = max(seen, default=(0.0, None), key=lambda pair: pair[0])
    if slowest[0] < limits.SLOW_ROUND_TRIP_MS:
        return None
    return Finding("link_slow", WARNING, {"round_trip": slowest[0], "actor": slowest[1], "address": _address(records)})


def link_backlog(records: Records) -> Finding | None:
    """Unacknowledged steps: the link or the hub's disk is slower than the actor."""
    for actor in _actors(records):
        waiting, rate = actor.unacknowledged, actor.steps_per_s
        if waiting > max(limits.BACKLOG_STEPS, limits.BACKLOG_S * rate):
            behind = Seconds(waiting / rate) if rate else None
            facts = {"actor": actor.name, "waiting": waiting, "behind": behind, "megabytes": actor.spool_bytes / 1e6}
            return Finding("link_backlog", WARNING, facts | {"address": _address(records)})
    return None


def clocks_differ(records: Records) -> Finding | None:
    seen: list[tuple[float, str | None]] = [(actor.clock_difference_s, actor.name) for actor in _actors(records)]
    if records.probe is not None and records.probe.clock_difference_s is not None:
        seen.append((records.probe.clock_difference_s, None))
    furthest = max(seen, default=(0.0, None), key=lambda pair: abs(pair[0]))
    if abs(furthest[0]) < limits.CLOCKS_DIFFER_S:
        return None
    return Finding("clocks_differ", NOTE, {"difference": Seconds(abs(furthest[0])), "actor": furthest[1]})


def foreign_steps(records: Records) -> Finding | None:
    """Steps under a source that belongs to another credential."""
    if records.live is None or not records.live.status.foreign_steps:
        return None
    status = records.live.status
    return Finding("foreign_steps", PROBLEM, {"steps": status.foreign_steps, "detail": status.foreign_detail or None})


def failed_logins(records: Records) -> Finding | None:
    if records.live is None or not records.hub_fresh or records.live.status.failed_logins < limits.FAILED_LOGINS:
        return None
    status = records.live.status
    return Finding("failed_logins", WARNING, {"times": status.failed_logins, "host": status.failed_logins_from or None})


def _actors(records: Records) -> list[ActorView]:
    return records.live.connected if records.live is not None and records.hub_fresh else []
