"""The findings of a robot's pre-flight while a run lives: the commanded motion of its newest steps against the measured one.

For robots behind HTTP (`tandem robot check` is their pre-flight), whose state is known number by number. In other runs nothing is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tandem.doctor import limits
from tandem.doctor.findings import NOTE, PROBLEM, WARNING, Finding, Seconds
from tandem.doctor.records import Records
from tandem.envs.http_robot.names import is_http_robot
from tandem.envs.http_robot.quaternions import from_euler
from tandem.envs.rotations import quat_conjugate, quat_multiply, quat_to_rotvec, rotate
from tandem.types import Continuous, Discrete, Transition

GRIPPER, POSITION, ANGLES = 0, slice(4, 7), slice(7, 10)
CHANNELS = {"force": slice(1, 4), "torque": slice(10, 13), "velocity": slice(13, 19)}
"""Places in the 19 numbers of the state (`envs/http_robot/profile.py`)."""
AXES = "xyz"
COMMANDED = 0.05
"""Part of a full step that counts as a commanded motion."""


def robot_state_stale(records: Records) -> Finding | None:
    """Motions are commanded, and the state does not change by a single bit."""
    steps = [step for step in _tail(records) if np.abs(step.action[:6]).max() > COMMANDED]
    if len(steps) < limits.ENOUGH_STEPS // 2:
        return None
    stale = sum(np.array_equal(step.observation["state"], step.next_observation["state"]) for step in steps)
    if stale <= limits.ROBOT_STALE * len(steps):
        return None
    return Finding("robot_state_stale", PROBLEM, {"stale": stale, "steps": len(steps)})


def robot_axes_wrong(records: Records) -> Finding | None:
    """Along an axis the tool goes the other way, another way, or not at all."""
    return _wrong("robot_axes_wrong", records, turning=False)


def robot_turns_wrong(records: Records) -> Finding | None:
    """The same for rotations. About x and z exchanged: the order of a quaternion is read wrongly."""
    return _wrong("robot_turns_wrong", records, turning=True)


def robot_channels_dead(records: Records) -> Finding | None:
    """Numbers that are zero while the arm moves."""
    steps = _tail(records)
    if len(steps) < limits.ENOUGH_STEPS or np.ptp([step.observation["state"][POSITION] for step in steps], axis=0).max() < 1e-3:
        return None
    states = np.stack([step.observation["state"] for step in steps])
    dead = [name for name, place in CHANNELS.items() if not states[:, place].any()]
    return Finding("robot_channels_dead", WARNING, {"channels": ", ".join(dead), "steps": len(steps)}) if dead else None


def robot_lags(records: Records) -> Finding | None:
    """The measured motion follows the commanded one many steps later."""
    best, fits = _lag(_motions(records, turning=False))
    if best < limits.ROBOT_LAG or fits[best] < limits.ROBOT_LAG_FITS:
        return None
    facts = {"later": best, "late": Seconds(best / records.spec.control_hz), "fit": round(fits[best], 2), "at_once": round(fits[0], 2)}
    return Finding("robot_lags", WARNING, facts)


def robot_gripper_echo(records: Records) -> Finding | None:
    """The measured opening is what was commanded, at once and to the last digit."""
    seen, echoed = 0, 0
    for before, step in _followed(_tail(records)):
        wanted, earlier = _opening(records, step), _opening(records, before)
        if wanted is None or earlier is None or abs(wanted - earlier) < 0.1:
            continue
        seen += 1
        echoed += abs(float(step.next_observation["state"][GRIPPER]) - wanted) < 1e-6
    if seen < limits.ROBOT_GRIPPER_CHANGES or echoed < 0.95 * seen:
        return None
    return Finding("robot_gripper_echo", NOTE, {"echoed": echoed, "changes": seen})


# ---- commanded against measured


@dataclass(frozen=True)
class Motion:
    """Consecutive steps of an episode; all in the axes of its start, in metres or radians."""

    commanded: np.ndarray
    """(n, 3): what each step added."""
    measured: np.ndarray
    """(n, 3): how far the tool moved or turned in it."""


def _wrong(name: str, records: Records, turning: bool) -> Finding | None:
    motions = _motions(records, turning)
    late, _ = _lag(motions)
    motions = [Motion(motion.commanded[: len(motion.commanded) - late], motion.measured[late:]) for motion in motions]
    for axis, letter in enumerate(AXES):
        count, response = _response(motions, axis)
        if count < limits.ROBOT_WINDOWS:
            continue
        main = int(np.argmax(np.abs(response)))
        if main != axis and abs(response[main]) > limits.ROBOT_SWAPPED:
            kind = "swapped"
        elif response[axis] < -limits.ROBOT_FLIPPED:
            kind = "flipped"
        elif abs(response[axis]) < limits.ROBOT_DEAD and _blocked_on_no_side(motions, axis):
            kind = "dead"
        else:
            continue
        facts = {"axis": letter, "windows": count, "got": ", ".join(f"{100 * part:.0f} %" for part in response), kind: AXES[main]}
        return Finding(name, PROBLEM, facts)
    return None


def _response(motions: Sequence[Motion], axis: int, side: int = 0) -> tuple[int, np.ndarray]:
    """Measured motion for a commanded one along this axis (to one side only), where hardly anything else was commanded."""
    count, moved, asked = 0, np.zeros(3), 0.0
    for commanded, measured in _windows(motions):
        main = commanded[axis]
        if abs(main) < limits.ROBOT_MAINLY * np.linalg.norm(commanded) or abs(main) < 1e-9 or main * side < 0:
            continue
        count, moved, asked = count + 1, moved + np.sign(main) * measured, asked + abs(main)
    return count, moved / max(asked, 1e-12)


def _windows(motions: Sequence[Motion]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Commanded and measured motion over a few steps, since an arm follows late; none in which little was commanded."""
    width, found = limits.ROBOT_WINDOW, list[tuple[np.ndarray, np.ndarray]]()
    for motion in motions:
        largest = np.abs(motion.commanded).max(initial=0.0)
        for start in range(0, len(motion.commanded) - width + 1):
            commanded = motion.commanded[start : start + width].sum(axis=0)
            if np.linalg.norm(commanded) > largest:
                found.append((commanded, motion.measured[start : start + width].sum(axis=0)))
    return found


def _blocked_on_no_side(motions: Sequence[Motion], axis: int) -> bool:
    """It stands in both directions: a table stops it in one."""
    sides = [_response(motions, axis, side) for side in (-1, 1)]
    return all(count >= limits.ROBOT_WINDOWS // 2 and abs(response[axis]) < limits.ROBOT_DEAD for count, response in sides)


def _together(motions: Sequence[Motion], later: int) -> float:
    """Correlation of the commanded motion with the measured one so many steps later, whatever axes are exchanged: 0 to 1."""
    commanded = np.concatenate([motion.commanded[: len(motion.commanded) - later] for motion in motions])
    measured = np.concatenate([motion.measured[later:] for motion in motions])
    spread = float(np.linalg.norm(commanded) * np.linalg.norm(measured))
    return float(np.linalg.svd(commanded.T @ measured, compute_uv=False).sum()) / spread if spread > 0 else 0.0


def _lag(motions: Sequence[Motion]) -> tuple[int, list[float]]:
    """How many steps later the arm follows, and the correlation for each number of steps."""
    long = [motion for motion in motions if len(motion.commanded) > 2 * limits.ROBOT_LAG_MOST]
    if sum(len(motion.commanded) for motion in long) < limits.ENOUGH_STEPS:
        return 0, []
    fits = [_together(long, later) for later in range(limits.ROBOT_LAG_MOST + 1)]
    return int(np.argmax(fits)), fits


def _motions(records: Records, turning: bool) -> list[Motion]:
    arm = records.spec.action[0] if records.spec.action else None
    if not isinstance(arm, Continuous) or "axes of the tool" not in arm.meaning:
        return []  # in the axes of the world: how the start is turned in it is not in the data
    scale = np.broadcast_to(np.asarray(arm.scale, float), (6,))[3 * turning : 3 * turning + 3]
    motions = []
    for episode in _episodes(_tail(records)):
        turns = [from_euler(step.observation["state"][ANGLES].astype(float)) for step in episode]
        turns.append(from_euler(episode[-1].next_observation["state"][ANGLES].astype(float)))
        asked = [rotate(turn, step.action[3 * turning : 3 * turning + 3] * scale) for turn, step in zip(turns, episode, strict=False)]
        if turning:
            moved = [quat_to_rotvec(quat_multiply(later, quat_conjugate(turn))) for turn, later in pairwise(turns)]
        else:
            moved = [step.next_observation["state"][POSITION] - step.observation["state"][POSITION] for step in episode]
        motions.append(Motion(np.array(asked), np.array(moved, float)))
    return motions


# ---- steps


def _tail(records: Records) -> Sequence[Transition]:
    """The newest steps of a robot behind HTTP; none of another environment."""
    entry = records.spec.observation.get("state")
    if records.journal is None or not is_http_robot(records.task) or entry is None or entry.shape != (19,):
        return ()
    return records.journal.tail


def _episodes(steps: Sequence[Transition]) -> list[list[Transition]]:
    """Steps that follow each other."""
    found: list[list[Transition]] = []
    for step in steps:
        before = found[-1][-1] if found else None
        if before is not None and (before.source, before.episode, before.step + 1) == (step.source, step.episode, step.step):
            found[-1].append(step)
        else:
            found.append([step])
    return found


def _followed(steps: Sequence[Transition]) -> list[tuple[Transition, Transition]]:
    return [pair for episode in _episodes(steps) for pair in pairwise(episode)]


def _opening(records: Records, step: Transition) -> float | None:
    """The opening that a step commands; None where it commands none."""
    part, wanted = records.spec.action[-1], float(step.action[-1])
    if isinstance(part, Discrete):
        return wanted / 2 if wanted != part.rest else None
    absolute = isinstance(part, Continuous) and part.name == "gripper" and part.stands_at is not None
    return (wanted + 1) / 2 if absolute else None
