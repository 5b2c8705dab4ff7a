"""Checks on the stored steps (rewards, episode ends, rejected or missing steps, sensor drift), on disk, memory and machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tandem.data.fitting import columns, constant_numbers
from tandem.doctor import limits
from tandem.doctor.findings import NOTE, PROBLEM, WARNING, Bytes, Finding, Seconds, Share
from tandem.doctor.records import Records
from tandem.envs.registry import known_task
from tandem.layouts import Layout
from tandem.types import OBSERVATION_CLIP, Transition

FEW_NAMES = 12


def success_without_reward(records: Records) -> Finding | None:
    """The task reports success, but the reward is 0."""
    succeeded = [step for step in records.journal.sample if step.success] if records.journal is not None else []
    unpaid = [step for step in succeeded if step.reward == 0]
    if len(unpaid) < 3 or len(unpaid) < 0.5 * len(succeeded):
        return None
    return Finding("success_without_reward", PROBLEM, {"unpaid": len(unpaid), "successes": len(succeeded), "task": records.task})


def steps_rejected(records: Records) -> Finding | None:
    journal = records.journal
    if journal is None or not journal.rejected:
        return None
    total = journal.accepted + journal.rejected
    reason, count = journal.reasons[0] if journal.reasons else (None, None)
    source, sent = journal.rejected_sources[0] if journal.rejected_sources else (None, None)
    facts = {"rejected": journal.rejected, "share": Share(journal.rejected / total), "detail": reason, "count": count}
    facts |= {"source": source, "sent": sent}
    return Finding("steps_rejected", PROBLEM if journal.rejected > 0.5 * total else WARNING, facts)


def steps_missing(records: Records) -> Finding | None:
    """A source numbers its steps from 0 without gaps."""
    for source in records.journal.sources if records.journal is not None else ():
        missing = source.last_seq + 1 - source.steps
        if missing > 0:
            return Finding("steps_missing", WARNING, {"source": source.name, "missing": missing, "last": source.last_seq})
    return None


def _terminal_failures(records: Records) -> tuple[list[Transition], list[Transition]]:
    ends = records.journal.ends if records.journal is not None else []
    return ends, [step for step in ends if step.terminated and not step.success and step.reward == 0]


def timeouts_as_terminal(records: Records) -> Finding | None:
    ends, failures = _terminal_failures(records)
    late = [step for step in failures if step.step + 1 >= records.spec.max_episode_steps]
    if len(late) < limits.ENDS // 2 or len(late) < 0.5 * len(failures):
        return None
    return Finding("timeouts_as_terminal", WARNING, {"count": len(late), "ends": len(ends), "limit": records.spec.max_episode_steps})


def terminal_without_reward(records: Records) -> Finding | None:
    ends, failures = _terminal_failures(records)
    early = [step for step in failures if step.step + 1 < records.spec.max_episode_steps]
    if not records.sparse or len(ends) < limits.ENDS or len(early) < 0.5 * len(ends):
        return None
    length = float(np.mean([step.step + 1 for step in early]))
    return Finding("terminal_without_reward", WARNING, {"count": len(early), "ends": len(ends), "length": length})


def observations_drifted(records: Records) -> Finding | None:
    """Episodes should start alike: early, late and in the demonstrations. Otherwise a sensor or the set-up has moved."""
    if records.journal is None:
        return None
    late = [step for step in records.journal.tail if step.step == 0]
    early = [step for block in records.journal.blocks[: len(records.journal.blocks) // 3] for step in block if step.step == 0]
    shown = [step for file in records.demos or () for step in file.starts if file.spec and not records.spec.data_difference(file.spec)]
    for than, reference in (("early", early), ("demos", shown)):
        if len(late) < limits.FEW_EPISODES or len(reference) < limits.FEW_EPISODES:
            continue
        found = _drift(records, reference, late)
        if found is not None and found[1] > limits.DRIFT:
            column, drift, before, now = found
            facts = {"entry": column, "drift": drift, "before": before, "now": now, f"than_{than}": True}
            return Finding("observations_drifted", WARNING, facts)
    return None


def _drift(records: Records, reference: list[Transition], late: list[Transition]) -> tuple[str, float, float, float] | None:
    layout = Layout(records.spec)
    if not layout.size:
        return None
    before, now = (_scaled(layout, steps) for steps in (reference, late))
    drift = np.abs(now.mean(axis=0) - before.mean(axis=0)) / (before.std(axis=0) + 0.05)
    worst = int(drift.argmax())
    means = [float(layout.offsets[worst] + layout.scales[worst] * scaled[:, worst].mean()) for scaled in (before, now)]
    return columns(records.spec)[worst], float(drift[worst]), means[0], means[1]


def _scaled(layout: Layout, steps: Sequence[Transition]) -> np.ndarray:
    """What the networks would see of these steps if nothing were clipped, `(steps, D)`."""
    return layout.flatten({name: np.stack([step.observation[name] for step in steps]) for name in layout.names}, clip=np.inf)


def observations_clipped(records: Records) -> Finding | None:
    """Values further from their offset than 5 times their scale, which the networks see clipped."""
    tail = records.journal.tail if records.journal is not None else ()
    layout = Layout(records.spec)
    if len(tail) < limits.ENOUGH_STEPS or not layout.size:
        return None
    shares = (np.abs(_scaled(layout, tail)) > OBSERVATION_CLIP).mean(axis=0)
    worst = int(shares.argmax())
    if float(shares[worst]) < limits.CLIPPED_SHARE:
        return None
    facts = {"entry": columns(records.spec)[worst], "share": Share(shares[worst]), "scale": float(layout.scales[worst])}
    always = int((shares >= limits.ALWAYS_CLIPPED).sum())
    return Finding("observations_clipped", PROBLEM if always else NOTE, facts | ({"always": True, "count": always} if always else {}))


def entries_constant(records: Records) -> Finding | None:
    """Numbers that never move, in the demonstrations or in the journal. Said for environments of others: nobody here knows them."""
    sample = records.journal.sample if records.journal is not None else []
    if known_task(records.task) is not None or len(sample) < limits.ENOUGH_STEPS:
        return None
    names = constant_numbers(records.spec, sample)
    if not names:
        return None
    shown = ", ".join(names[:FEW_NAMES]) + (", ..." if len(names) > FEW_NAMES else "")
    facts = {"names": shown, "count": len(names), "total": Layout(records.spec).size, "steps": len(sample)}
    return Finding("entries_constant", NOTE, facts)


def return_range_unknown(records: Records) -> Finding | None:
    if records.kind != "rlpd" or records.spec.return_range is not None or known_task(records.task) is not None:
        return None
    return Finding("return_range_unknown", NOTE, {"task": records.task})


def disk_will_fill(records: Records) -> Finding | None:
    """At the rate at which the journal has grown so far."""
    journal, readings = records.journal, records.samples
    if journal is None or records.machine is None or not records.running or not readings or readings[-1].wall_s < 30:
        return None
    growth = journal.bytes / readings[-1].wall_s
    left = records.machine.disk_free / growth if growth > 0 else float("inf")
    steps_left = max(0, int(records.setting("max_steps", 0) or 0) - records.clocks.learner_step)
    run_left = steps_left / records.pace.learner if records.pace.learner else float("inf")
    minutes = records.setting("max_minutes")
    if minutes is not None:
        run_left = min(run_left, 60 * minutes - readings[-1].wall_s)
    if left > min(limits.DISK_S, run_left):
        return None
    facts = {"left": Seconds(left), "free": Bytes(records.machine.disk_free), "growth": Bytes(growth * 3600)}
    return Finding("disk_will_fill", WARNING, facts)


def memory_will_fill(records: Records) -> Finding | None:
    """The replay buffer uses more memory as it fills."""
    capacity = int(records.setting("replay_buffer_capacity", 0) or 0)
    if not capacity or records.machine is None or not records.machine.memory or not records.running or not records.here:
        return None
    one = sum(entry.size * np.dtype(entry.dtype).itemsize for entry in records.spec.observation.values())
    shared = sum(entry.size for entry in records.spec.observation.values() if entry.role == "features")  # a frame is kept once
    to_come = max(0, capacity - records.clocks.actor_step) * (2 * one - shared + 4 * (records.spec.action_dim + 2))
    if to_come < limits.MEMORY_SHARE * records.machine.memory_free:
        return None
    facts = {"to_come": Bytes(to_come), "free": Bytes(records.machine.memory_free), "capacity": capacity}
    return Finding("memory_will_fill", WARNING, facts)


# ---- the machine


def no_gl(records: Records) -> Finding | None:
    cameras = [name for name, entry in records.spec.observation.items() if entry.role in ("image", "features")]
    if not cameras or records.machine is None or records.machine.gl is not None or not records.here:
        return None
    return Finding("no_gl", WARNING, {"entry": cameras[0]})


def few_cores(records: Records) -> Finding | None:
    if records.machine is None or not records.here or not records.running or records.machine.cores > 1:
        return None
    return Finding("few_cores", NOTE, {"cores": records.machine.cores})


def gpu_present(records: Records) -> Finding | None:
    """There is a GPU, and JAX has no plugin for it."""
    if records.machine is None or not records.here or not records.machine.gpu or _gpu_jax(records):
        return None
    return Finding("gpu_present", NOTE, {"jax": records.machine.versions.get("jax")})


def _gpu_jax(records: Records) -> bool:
    import importlib.util

    return any(importlib.util.find_spec(name) is not None for name in ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm60_plugin"))


def other_tandem(records: Records) -> Finding | None:
    made = next((event["tandem"] for event in reversed(records.events) if "tandem" in event), None)
    mine = records.machine.versions.get("tandem") if records.machine is not None else None
    if made is None or mine is None or made == mine:
        return None
    return Finding("other_tandem", NOTE, {"made": made, "mine": mine})
