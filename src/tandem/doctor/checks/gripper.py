"""Does the hand learn? A gripper that is moved all the time or never, a grasp critic that cannot choose, grasps that are lost.

A command of a gripper is the choice of a discrete part, or an absolute axis beyond a third of its range. A choice of rest, and an axis
between the two, leave what was commanded before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tandem.doctor import limits
from tandem.doctor.findings import WARNING, Finding, Share
from tandem.doctor.records import Records
from tandem.doctor.stages import Ended, ended_episodes
from tandem.layouts import ActionLayout
from tandem.types import Discrete, Transition


def gripper_chatters(records: Records) -> Finding | None:
    for column, name in _grippers(records):
        pieces = _own_pieces(records)
        steps, changes = sum(map(len, pieces)), sum(_changes(records, piece, column) for piece in pieces)
        if steps >= limits.ENOUGH_STEPS and 100 * changes / steps > limits.CHATTER:
            return Finding("gripper_chatters", WARNING, {"part": name, "rate": 100 * changes / steps, "steps": steps, "changes": changes})
    return None


def gripper_never_closes(records: Records) -> Finding | None:
    """No episode succeeds either: a task that is done with an open hand is none of this."""
    ends = [step for step in records.journal.tail if step.last] if records.journal is not None else []
    if len(ends) < limits.ENDS // 2 or any(step.success for step in ends) or not records.reports_success:
        return None
    pieces = _own_pieces(records)
    steps = sum(map(len, pieces))
    for column, name in _grippers(records):
        closes = _closing(records, column)
        if closes is None or steps < limits.ENOUGH_STEPS or any((_commands(records, piece, column) == closes).any() for piece in pieces):
            continue
        return Finding("gripper_never_closes", WARNING, {"part": name, "ends": len(ends), "steps": steps})
    return None


def grasp_critic_flat(records: Records) -> Finding | None:
    spread = records.newest("grasp_critic/spread", 10)
    low, high = records.spec.return_range or (0.0, 1.0)
    if not len(spread) or records.clocks.learner_step < limits.RECENT_STEPS or not float(spread.max()) < limits.FLAT * (high - low):
        return None
    facts = {"spread": float(np.median(spread)), "range": high - low, "penalty": records.setting("grasp_penalty")}
    return Finding("grasp_critic_flat", WARNING, facts)


def grasp_slips(records: Records) -> Finding | None:
    """Episodes that end by themselves, without success, after the object was held."""
    ended = ended_episodes(records)
    lost = [episode for episode in ended if episode.lost]
    if len(ended) < limits.ENDS or len(lost) < limits.LOST_SHARE * len(ended):
        return None
    where = [episode.stage for episode in lost]
    opened = sum(_told_to_open(records, episode) for episode in lost)
    facts = {
        "lost": len(lost),
        "ends": len(ended),
        "share": Share(len(lost) / len(ended)),
        "stage": max(set(where), key=where.count),
        "opened": opened,
        "closed": len(lost) - opened,
    }
    return Finding("grasp_slips", WARNING, facts)


# ---- what a gripper was told


def _grippers(records: Records) -> list[tuple[int, str]]:
    """Columns of the action that command a gripper, and the names of their parts."""
    layout = ActionLayout.of(records.spec)
    names = [part.name for part in records.spec.action for _ in range(part.size)]
    return [(int(column), names[column]) for column in np.flatnonzero(layout.is_discrete | layout.stays)]


def _own_pieces(records: Records) -> list[list[Transition]]:
    """The newest steps that were the policy's, episode by episode."""
    pieces: dict[tuple[str, int], list[Transition]] = {}
    for step in records.journal.tail if records.journal is not None else ():
        if not step.intervened and step.policy_version >= 0:
            pieces.setdefault((step.source, step.episode), []).append(step)
    return list(pieces.values())


def _commands(records: Records, steps: Sequence[Transition], column: int) -> np.ndarray:
    """What the gripper was told last, at every step; NaN before the first command."""
    layout = ActionLayout.of(records.spec)
    told = np.array([step.action[column] for step in steps], float)
    if layout.is_discrete[column]:
        told[told == layout.rest[column]] = np.nan
    else:
        told = np.where(np.abs(told) < limits.COMMANDS_AXIS, np.nan, np.sign(told))
    newest = np.maximum.accumulate(np.where(np.isfinite(told), np.arange(len(told)), -1))
    return np.where(newest < 0, np.nan, told[np.maximum(newest, 0)])


def _changes(records: Records, steps: Sequence[Transition], column: int) -> int:
    told = _commands(records, steps, column)
    return int((np.diff(told[np.isfinite(told)]) != 0).sum())


def _closing(records: Records, column: int) -> float | None:
    """The command that closes: the choice of that name, or the other end of an absolute axis than where it stands; None: nobody knows."""
    for part in records.spec.action:
        if column < part.size:
            if isinstance(part, Discrete):
                return float(part.choices.index("close")) if "close" in part.choices else None
            return -float(np.sign(part.stands_at or 0.0)) or None
        column -= part.size
    return None


def _told_to_open(records: Records, episode: Ended) -> bool:
    """Whether the gripper was told something new in the last steps of the episode."""
    for column, _ in _grippers(records):
        told = _commands(records, episode.steps, column)
        new = np.isfinite(told[1:]) & (told[1:] != told[:-1])  # also where the command before it is not known
        if new[-limits.LAST_STEPS :].any():
            return True
    return False
