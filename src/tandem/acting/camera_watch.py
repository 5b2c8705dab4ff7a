"""Cameras that die while a robot moves: noticed before anything acts on, stores or learns from what they show.

A camera is dead if it shows the same picture, byte by byte, while the robot's own numbers say that it moves: a real one never does, for
its sensor has noise. It is blind if every pixel has the same value. Both have to last, so that a single bad picture holds nobody up.

In a simulation a picture may stay the same for good reasons (the hand presses and does not move, only the forces change), and a camera
may show nothing from the start. There only a camera that has shown something and then goes blank has failed; the rest is the doctor's.

`CameraFailed` is a `LimitViolated`: the control loop halts the robot, says which camera it is, and stands still until somebody says
resume. Then a new episode begins, and the watch begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tandem.data.frames import pictures_of
from tandem.errors import CameraFailed, EnvironmentFailed
from tandem.types import Observation, Spec

LASTS = 10
"""Steps in a row with the same picture, or with one that shows nothing."""
MOVED = 1.0
"""How far the robot must have moved meanwhile: changes of its scaled numbers, the largest of each step, summed."""


class CameraWatch:
    """Looks at every picture of N rows."""

    def __init__(self, spec: Spec, rows: int, real: bool) -> None:
        self._spec, self._cameras, self._real = spec, pictures_of(spec), real
        self._numbers = [name for name, entry in spec.observation.items() if entry.dtype == "float32"]
        self._before: Observation = {}
        self._still, self._blank, self._moved = ({name: np.zeros(rows) for name in self._cameras} for _ in range(3))
        """Steps with the same picture, steps with one that shows nothing, and the motion since the picture last changed."""
        self._alive = {name: np.full(rows, real) for name in self._cameras}
        """Has shown something."""

    def begin(self, rows: Sequence[int], observation: Observation) -> None:
        """New episodes in these rows."""
        self._require(observation)
        for counts in (self._still, self._blank, self._moved):
            for name in self._cameras:
                counts[name][list(rows)] = 0
        self._before = observation

    def look(self, observation: Observation) -> None:
        """What a step led to. Raises `CameraFailed` for a camera that is dead or blind."""
        self._require(observation)
        before, self._before = self._before, observation
        if not before:
            return
        moved = self._motion(before, observation)
        for name in self._cameras:
            self._count(name, before[name], observation[name], moved)
            for row in range(len(moved)):
                self._judge(name, row, observation[name][row])

    def _count(self, name: str, before: np.ndarray, now: np.ndarray, moved: np.ndarray) -> None:
        flat, flat_before = now.reshape(len(now), -1), before.reshape(len(now), -1)
        same, blank = (flat == flat_before).all(axis=1), flat.max(axis=1) == flat.min(axis=1)
        self._alive[name] |= ~same & ~blank
        self._still[name] = np.where(same, self._still[name] + 1, 0)
        self._moved[name] = np.where(same, self._moved[name] + moved, 0)
        self._blank[name] = np.where(blank, self._blank[name] + 1, 0)

    def _judge(self, name: str, row: int, picture: np.ndarray) -> None:
        if not self._alive[name][row]:
            return
        seconds = LASTS / self._spec.control_hz
        if self._blank[name][row] >= LASTS:
            raise _failed(
                name, row, f"shows nothing: every pixel has been {picture.flat[0]} for {seconds:.1f} s", "Is it covered, or dark?"
            )
        if self._real and self._still[name][row] >= LASTS and self._moved[name][row] >= MOVED:
            why = f"is frozen: the same picture for {self._still[name][row] / self._spec.control_hz:.1f} s, while the robot moved"
            raise _failed(name, row, why, "Has its driver stopped, or its cable come loose?")

    def _motion(self, before: Observation, now: Observation) -> np.ndarray:
        """(n,), the largest change of a scaled number."""
        moved = np.zeros(len(next(iter(now.values()))))
        for name in self._numbers:
            change = np.abs(now[name] - before[name]) / self._spec.observation[name].scales()
            moved = np.maximum(moved, np.nan_to_num(change.reshape(len(moved), -1)).max(axis=1, initial=0.0))
        return moved

    def _require(self, observation: Observation) -> None:
        for name, entry in self._cameras.items():
            values = observation[name]
            if values.dtype != np.uint8 or values.shape[1:] != entry.shape:
                raise EnvironmentFailed(
                    f"the camera '{name}' of '{self._spec.task}' handed out pictures of shape {values.shape[1:]} {values.dtype}, expected "
                    f"{entry.shape} uint8. Likely cause: it was set to another size or format while running. Nothing was learned from it."
                )


def _failed(name: str, row: int, why: str, ask: str) -> CameraFailed:
    where = f" (row {row})" if row else ""
    return CameraFailed(f"the camera '{name}'{where} {why}. {ask} Repair it, then resume.", row)
