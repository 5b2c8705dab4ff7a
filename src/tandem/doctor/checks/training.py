"""Does the learner train, is it fast enough, and do the parameters change?"""

from __future__ import annotations

import itertools

import numpy as np

from tandem.doctor import limits
from tandem.doctor.findings import NOTE, PROBLEM, WARNING, Finding, Seconds
from tandem.doctor.records import Records


def still_filling(records: Records) -> Finding | None:
    """No learner step yet, because the replay buffer has fewer steps than `training_starts`."""
    clocks, wanted = records.clocks, int(records.setting("training_starts", 0) or 0)
    if records.kind != "rlpd" or clocks.learner_step > 0 or clocks.actor_step >= wanted:
        return None
    rate, waited = records.pace.actor, None
    if records.started_at is not None:
        waited = records.now - records.started_at
        rate = rate or (clocks.actor_step / waited if waited > 1 else None)
    left = (wanted - clocks.actor_step) / rate if rate else None
    hopeless = left > limits.FILLING_S if left is not None else (waited or 0.0) > limits.FILLING_S / 10
    facts = {"have": clocks.actor_step, "wanted": wanted, "rate": rate, "left": None if left is None else Seconds(left)}
    return Finding("still_filling", PROBLEM if hopeless or not records.running else NOTE, facts)


def policies_not_published(records: Records) -> Finding | None:
    every, clocks = int(records.setting("steps_per_update", 0) or 0), records.clocks
    if not every or clocks.learner_step < 3 * every:
        return None
    expected, seen = 1 + clocks.learner_step // every, clocks.policy_version
    if seen >= expected / 2:
        return None
    facts = {"expected": expected, "seen": seen, "learner_step": clocks.learner_step, "every": every}
    return Finding("policies_not_published", PROBLEM, facts)


def versions_went_back(records: Records) -> Finding | None:
    """Versions must only increase: an actor ignores a policy older than the one it has."""
    for before, after in itertools.pairwise(records.rows):
        if after["policy_version"] < before["policy_version"]:
            facts = {"before": before["policy_version"], "after": after["policy_version"], "learner_step": after["learner_step"]}
            return Finding("versions_went_back", PROBLEM, facts | {"start": after.get("incarnation")})
    if records.live is not None and records.hub_fresh and records.rows:
        hub, trainer = records.live.status.policy.version, int(records.rows[-1]["policy_version"])
        if hub > trainer + limits.LAG_VERSIONS:
            facts = {"before": hub, "after": trainer, "learner_step": records.clocks.learner_step}
            return Finding("versions_went_back", PROBLEM, facts)
    return None


def parameters_frozen(records: Records) -> Finding | None:
    """Published policies are all the same: by the change of the parameters, their hashes, or (PPO) the KL divergence."""
    rate = records.setting("learning_rate")
    by_version = {row["policy_version"]: row for row in records.rows if "policy/change" in row}
    newest = [by_version[version] for version in sorted(by_version)][-limits.FROZEN_VERSIONS :]
    if any(row.get("policy/waits") for row in newest):
        return None  # the critics catch up first (`critic_steps`)
    if len(newest) == limits.FROZEN_VERSIONS:
        if any(row["policy/change"] > limits.FROZEN_CHANGE * row["policy/norm"] for row in newest):
            return None
        facts = {"versions": len(newest), "newest": newest[-1]["policy_version"], "norm": newest[-1]["policy/norm"], "learning_rate": rate}
        return Finding("parameters_frozen", PROBLEM, facts)
    published = records.published[-limits.FROZEN_VERSIONS - 1 :]
    if len(published) > limits.FROZEN_VERSIONS and len({event["hash"] for event in published}) == 1:
        facts = {"versions": len(published), "newest": published[-1]["version"], "hash": published[-1]["hash"], "learning_rate": rate}
        return Finding("parameters_frozen", PROBLEM, facts)
    kl = records.newest("Policy/kl", 10)
    if len(kl) and float(np.abs(kl).max()) < 1e-12:
        return Finding("parameters_frozen", PROBLEM, {"iterations": len(kl), "learning_rate": rate})
    return None


def learner_slow(records: Records) -> Finding | None:
    """Fewer learner steps per actor step than asked for, or learner steps far slower than this machine's matrix products."""
    wanted = records.setting("updates_per_actor_step")
    if records.live is not None and records.hub_fresh:
        wanted = records.live.clocks.updates_per_actor_step or wanted
    window = records.samples[-max(10, len(records.samples) // 5) :]
    seen = None
    if wanted and len(window) >= 10 and window[-1].clocks.actor_step > window[0].clocks.actor_step:
        first, last = window[0].clocks, window[-1].clocks
        seen = (last.learner_step - first.learner_step) / (last.actor_step - first.actor_step)
    times = records.newest("clock/learner_step_ms", 5)
    took = float(np.median(times)) if len(times) else None
    possible = expected_ms(records) if took is not None and took > limits.SLOW_MS else None
    behind = seen is not None and seen < limits.RATIO * wanted
    slow = possible is not None and took is not None and took > limits.SLOW_FACTOR * possible
    if not behind and not slow:
        return None
    facts = {"seen": seen if behind else None, "wanted": wanted if behind else None, "took": took, "possible": possible}
    return Finding("learner_slow", WARNING, facts)


def expected_ms(records: Records) -> float | None:
    """Estimated time of a learner step: its matrix products at a third of this machine's speed, plus one millisecond."""
    hidden, batch = records.setting("hidden"), records.setting("batch_size")
    if not records.here or records.machine is None or not hidden or not batch:
        return None
    seen = sum(entry.size for entry in records.spec.observation.values() if entry.dtype == "float32")
    acted = records.spec.action_dim
    inner = sum(one * other for one, other in itertools.pairwise(hidden))
    actor = seen * hidden[0] + inner + hidden[-1] * 2 * acted
    critics = records.setting("critic_ensemble_size", 2) * ((seen + acted) * hidden[0] + inner + hidden[-1])
    # two operations per weight and row; a backward pass costs twice a forward one
    critic_update = 2 * batch * (actor + critics + 3 * critics)
    actor_update = 2 * batch * (3 * actor + 2 * critics)
    operations = records.setting("cta_ratio", 2) * critic_update + actor_update
    return 1.0 + 1e3 * operations / (records.machine.gflops * 1e9) * 3


def updates_dropped(records: Records) -> Finding | None:
    """Updates that were dropped because they contained a NaN or infinite value."""
    steps, counts = records.series("learner/dropped_updates")
    if not len(counts) or counts[-1] <= 0:
        return None
    recent = counts[-1] - counts[np.searchsorted(steps, steps[-1] - limits.RECENT_STEPS)] if len(counts) > 1 else counts[-1]
    severity = WARNING if recent > 0 else NOTE
    return Finding("updates_dropped", severity, {"count": int(counts[-1]), "recent": int(recent), "learner_step": int(steps[-1])})
