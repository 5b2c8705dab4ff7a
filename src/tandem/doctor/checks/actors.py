"""Is an actor running, with which policy, and what are its actions?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tandem.data.fitting import moving
from tandem.data.report import IDLE, SATURATED
from tandem.doctor import limits
from tandem.doctor.findings import NOTE, PROBLEM, WARNING, Finding, Seconds, Share
from tandem.doctor.records import Records
from tandem.layouts import Layout
from tandem.runs.live import LiveView
from tandem.types import Spec


def _live(records: Records) -> LiveView | None:
    return records.live if records.hub_fresh else None


def no_actor(records: Records) -> Finding | None:
    live = _live(records)
    if live is None or live.actors or live.phase == "stopped" or records.events_of("actor_joined"):
        return None
    up = live.status.up_s
    return Finding("no_actor", PROBLEM if up > limits.NO_ACTOR_S else NOTE, {"up": Seconds(up)})


def actor_gone(records: Records) -> Finding | None:
    """It was connected and is not any more, while the run continues."""
    live = _live(records)
    if live is None or live.phase == "stopped":
        return None
    gone = [(actor.last_seen_s, actor.name) for actor in live.actors if not actor.connected]
    if not gone and not live.connected:
        left = [event for event in records.events_of("actor_left") if event["time"] > (records.started_at or 0.0)]
        gone = [(records.now - event["time"], event["name"]) for event in left[-1:]]
    if not gone:
        return None
    silent_s, name = min(gone)
    facts = {"actor": name, "silent": Seconds(silent_s), "others": len(live.connected)}
    return Finding("actor_gone", NOTE if live.connected else PROBLEM, facts)


def actor_silent(records: Records) -> Finding | None:
    live = _live(records)
    age = records.now - live.time if live is not None else 0.0
    silent = [actor for actor in (live.connected if live is not None else ()) if actor.last_seen_s + age > limits.SILENT_ACTOR_S]
    if not silent:
        return None
    worst = max(silent, key=lambda actor: actor.last_seen_s)
    return Finding("actor_silent", PROBLEM, {"actor": worst.name, "silent": Seconds(worst.last_seen_s + age)})


def robot_held(records: Records) -> Finding | None:
    """An actor's robot stands still until somebody says resume; also after a restart, when nobody remembers why."""
    live = _live(records)
    held = [actor for actor in (live.connected if live is not None else ()) if actor.standing]
    if not held:
        return None
    return Finding("robot_held", WARNING, {"actor": held[0].name, "why": held[0].standing, "count": len(held)})


def policies_not_applied(records: Records) -> Finding | None:
    """Published but not used: by the actor's reports, else by the steps it sent, or by what the learner received."""
    live = _live(records)
    facts = _stale_by_hub(live) if live is not None else _stale_by_journal(records) or _stale_by_rows(records)
    if facts is None:
        return None
    clocks = records.clocks
    return Finding("policies_not_applied", PROBLEM, {**facts, "learner_step": clocks.learner_step, "actor_step": clocks.actor_step})


def _stale_by_hub(live: LiveView) -> dict[str, Any] | None:
    for actor in live.connected:
        lag = actor.lag_versions
        if lag is not None and lag >= limits.LAG_VERSIONS and actor.lag_s > limits.LAG_S and actor.steps_per_s > 0:
            newest = actor.version + lag
            return _stale(actor.version, newest) | {"actor": actor.name, "since": Seconds(actor.lag_s)}
    return None


def _stale_by_journal(records: Records) -> dict[str, Any] | None:
    """The newest steps all have one version, and newer versions were published long ago."""
    versions = {step.policy_version for step in records.journal.tail} if records.journal is not None else set()
    if len(versions) != 1 or records.journal is None or len(records.journal.tail) < limits.ENOUGH_STEPS // 2 or records.kind != "rlpd":
        return None
    version, newest = versions.pop(), records.clocks.policy_version
    if version < 0:  # the actors have their own policy (`--policy`) and need not follow the learner
        return None
    return _stale(version, newest) | {"steps": len(records.journal.tail)} if newest - version >= limits.LAG_VERSIONS else None


def _stale_by_rows(records: Records) -> dict[str, Any] | None:
    """The version in the newest received steps does not change while new ones are published."""
    rows = [row for row in records.rows[-20:] if "clock/policy_lag" in row]
    if len(rows) < 20:
        return None
    acting = {row["policy_version"] - int(row["clock/policy_lag"]) for row in rows}
    newest, steps = rows[-1]["policy_version"], rows[-1]["actor_step"] - rows[0]["actor_step"]
    if len(acting) > 1 or min(acting) < 0 or newest - min(acting) < limits.LAG_VERSIONS or steps < limits.ENOUGH_STEPS // 4:
        return None
    return _stale(min(acting), newest) | {"steps": steps}


def _stale(version: int, newest: int) -> dict[str, Any]:
    """The first policy is the untrained network: an actor that still uses it acts at random."""
    facts: dict[str, Any] = {"version": version, "newest": newest, "missed": newest - version}
    return facts | ({"never": True} if version <= 1 else {"stopped": True})


def still_random(records: Records) -> Finding | None:
    wanted, clocks = int(records.setting("random_steps", 0) or 0), records.clocks
    if records.kind != "rlpd" or clocks.actor_step >= wanted:
        return None
    trained = clocks.learner_step >= 2 * records.setting("steps_per_update", 50)
    left = Seconds((wanted - clocks.actor_step) / records.pace.actor) if records.pace.actor else None
    facts = {"actor_step": clocks.actor_step, "random_steps": wanted, "learner_step": clocks.learner_step, "left": left}
    return Finding("still_random", PROBLEM if trained else NOTE, facts)


def no_steps(records: Records) -> Finding | None:
    """An actor is connected but no steps arrive. That is normal while the first update compiles, or during an evaluation."""
    live = _live(records)
    if live is None or not live.connected or live.clocks.actor_steps_per_s > 0 or not live.status.trainer.alive:
        return None
    longest = max(actor.connected_s for actor in live.connected)
    waits_for_policy = live.status.policy.version < 0
    settled = live.phase == "filling" or (live.phase == "training" and live.clocks.learner_step > 0)
    if longest < limits.NO_ACTOR_S or not settled or waits_for_policy:
        return None
    return Finding("no_steps", PROBLEM, {"actor": live.connected[0].name, "connected": Seconds(longest), "phase": live.phase})


def policy_lag(records: Records) -> Finding | None:
    live = _live(records)
    for actor in live.connected if live is not None else ():
        lag = actor.lag_versions
        if lag is not None and lag >= limits.LAG_VERSIONS and actor.lag_s > limits.LAG_S / 2:
            return Finding("policy_lag", WARNING, {"actor": actor.name, "versions": lag, "since": Seconds(actor.lag_s)})
    return None


def control_rate_low(records: Records) -> Finding | None:
    live = _live(records)
    for actor in live.connected if live is not None else ():
        if actor.pace != "realtime" or actor.connected_s < limits.NO_ACTOR_S:
            continue
        rate, wanted = actor.steps_per_s / actor.rows, records.spec.control_hz
        if 0 < rate < limits.CONTROL_RATE * wanted:
            return Finding("control_rate_low", WARNING, {"actor": actor.name, "rate": rate, "wanted": wanted})
    return None


def steps_lost(records: Records) -> Finding | None:
    for actor in records.live.actors if records.live is not None else ():
        if actor.dropped:
            return Finding("steps_lost", PROBLEM, {"actor": actor.name, "dropped": actor.dropped})
    return None


def _own_actions(records: Records) -> np.ndarray | None:
    actions = records.own_actions
    return actions if actions is not None and len(actions) >= limits.ENOUGH_STEPS else None


def actions_constant(records: Records) -> Finding | None:
    actions = _own_actions(records)
    if actions is None or float(actions.std(axis=0).max()) > limits.CONSTANT_STD:
        return None
    return Finding("actions_constant", PROBLEM, {"steps": len(actions), "action": _numbers(actions[-1])})


def actions_saturated(records: Records) -> Finding | None:
    actions = _own_actions(records)
    if actions is None or (records.success or 0.0) >= limits.LITTLE_SUCCESS or not records.reports_success:
        return None  # a good policy may push hard, and without success nobody knows whether it is good
    shares = (np.abs(actions) > SATURATED).mean(axis=0)
    if float(shares.mean()) < limits.SATURATED_SHARE:
        return None
    facts = {"share": Share(shares.mean()), "component": int(shares.argmax()), "most": Share(shares.max()), "steps": len(actions)}
    return Finding("actions_saturated", WARNING, facts)


_POSITION_UNITS = {"m", "cm", "mm", "rad", "deg"}
_POSITION_NAMES = ("pos", "position", "pose", "qpos")


def stuck_at_limit(records: Records) -> Finding | None:
    """One position stays at the edge of its observed range although the actions are not zero.

    Only an entry that is known to hold positions can say that. Any other number may have good reasons to stay at its largest value: the
    cosine of a pendulum that stands upright is 1. Nor is it a fault where nobody knows whether the robot succeeds there.
    """
    journal = records.journal
    if journal is None or len(journal.tail) < limits.ENOUGH_STEPS or (records.success or 0.0) > 0 or not records.reports_success:
        return None
    layout = Layout(records.spec)
    if not layout.size:
        return None
    seen = _flat(layout, [step.observation for step in journal.sample])
    newest = _flat(layout, [step.observation for step in journal.tail[-limits.ENOUGH_STEPS :]])
    acting = np.abs(np.stack([step.action for step in journal.tail[-limits.ENOUGH_STEPS :]])).max(axis=-1) > IDLE
    low, high = seen.min(axis=0), seen.max(axis=0)
    edge = 0.02 * (high - low)
    usual = seen.std(axis=0) > 0.05 * (high - low)
    at_edge = np.maximum((newest <= low + edge).mean(axis=0), (newest >= high - edge).mean(axis=0)) * (usual & (high > low))
    at_edge[_of_no_position(records, layout)] = 0.0
    at_edge[~moving(seen)] = 0.0  # what never moves is not stuck
    worst = int(at_edge.argmax())
    if float(at_edge[worst]) < limits.STUCK_SHARE or float(acting.mean()) < limits.LITTLE_SUCCESS:
        return None
    facts = {"entry": _column(records, layout, worst), "share": Share(at_edge[worst]), "steps": len(newest)}
    return Finding("stuck_at_limit", WARNING, facts | {"value": float(layout.offsets[worst] + newest[-1, worst] * layout.scales[worst])})


def _flat(layout: Layout, observations: list[Mapping[str, np.ndarray]]) -> np.ndarray:
    return layout.flatten({name: np.stack([observation[name] for observation in observations]) for name in layout.names})


def _columns(records: Records, layout: Layout) -> list[tuple[str, int]]:
    return [(name, index) for name in layout.names for index in range(records.spec.observation[name].size)]


def _column(records: Records, layout: Layout, number: int) -> str:
    name, index = _columns(records, layout)[number]
    return f"{name}[{index}]"


def _of_no_position(records: Records, layout: Layout) -> list[int]:
    """Columns that are not known to be positions, by the unit of their entry or by its name (`tcp_pose`, `agent_pos`)."""
    return [number for number, (name, _) in enumerate(_columns(records, layout)) if not _holds_positions(name, records.spec)]


def _holds_positions(name: str, spec: Spec) -> bool:
    units = {unit.strip() for unit in spec.observation[name].unit.split(",")} - {""}
    return units <= _POSITION_UNITS if units else name.rpartition(".")[2].split("_")[-1] in _POSITION_NAMES


def _numbers(values: np.ndarray) -> str:
    return "[" + ", ".join(f"{value:.3g}" for value in values) + "]"
