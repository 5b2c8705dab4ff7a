"""Metaworld's own scripted policies as operators. They need the package, so they run in its Python:

    PYTHONPATH=benchmarks:examples/operators tandem record serve:METAWORLD_PYTHON:worlds_tasks:PegInsertSide-v0 \\
        --operator serve:METAWORLD_PYTHON:metaworld_scripts:PegInsertSide

Their input is the 39 numbers that every task of Metaworld shows, with the goal visible.
"""

from __future__ import annotations

import warnings

import numpy as np


class MetaworldScript:
    """One of Metaworld's policies; `policy` is its name in `metaworld.policies`."""

    policy: str

    def __init__(self) -> None:
        import metaworld.policies

        warnings.filterwarnings("ignore", message="Constant.*may be too high")  # the environment limits its actions
        self.name = self.policy
        self._script = getattr(metaworld.policies, self.policy)()

    def reset(self) -> None:
        """It decides by the observation alone."""

    def decide(self, observation: dict[str, np.ndarray], proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        action = self._script.get_action(observation["state"].astype(np.float64))
        return np.clip(action, -1.0, 1.0).astype(np.float32), False


class PegInsertSide(MetaworldScript):
    policy = "SawyerPegInsertionSideV3Policy"


class PickPlace(MetaworldScript):
    policy = "SawyerPickPlaceV3Policy"


class DoorOpen(MetaworldScript):
    policy = "SawyerDoorOpenV3Policy"


class DrawerClose(MetaworldScript):
    policy = "SawyerDrawerCloseV3Policy"


class Assembly(MetaworldScript):
    policy = "SawyerAssemblyV3Policy"
