"""How Isaac's gear server is checked: its reset takes a while after its answer, and it drives the arm by itself."""

from __future__ import annotations

import time

import numpy as np

from tandem.envs.http_robot.preflight import Preflight, mm
from tandem.envs.isaac.env import IsaacDriver
from tandem.envs.isaac.profile import Profile


class IsaacChecks:
    judges_pictures = True
    at_once = True
    opening = 0.3

    def __init__(self, profile: Profile, driver: IsaacDriver) -> None:
        self._profile, self._driver = profile, driver
        self.objects = (profile.reward.gear, profile.reward.base)

    def go(self, position: np.ndarray, turn: np.ndarray) -> None:
        self._driver.arm.command(position, turn, within=1.0)

    def end(self) -> None:
        """There is nothing to put back."""

    def restart(self, preflight: Preflight) -> float:
        """Reset the scene from a place away from the start, and see whether and when it is done."""
        (start, turn), report, reset = preflight.start, preflight.report, self._profile.reset
        before = preflight.drive(2, 0.1, start - np.array([0.0, 0.0, 0.1]), turn)
        began = time.monotonic()
        self._driver.arm.post("reset_scene", None, within=reset.within_s)
        answered = time.monotonic()
        state = preflight.ask()
        if np.linalg.norm(state.position - before.position) < 0.01:
            report.find("async-reset", False)
        changes, last, moving_s, first = 0, state.position, 0.0, answered
        while np.linalg.norm(state.position - start) > reset.within_m:
            if time.monotonic() - answered > reset.within_s:
                report.find("reset-not-seen", True, seconds=reset.within_s, at=mm(state.position), start=mm(start))
                return np.inf
            time.sleep(0.01)
            at, state = time.monotonic(), preflight.ask()
            if not np.array_equal(state.position, last):
                moving_s = at - first if changes else 0.0
                first = first if changes else at
                changes, last = changes + 1, state.position
        report.figures["reset"] = f"{answered - began:.1f} s + {time.monotonic() - answered:.1f} s"
        return (changes - 1) / moving_s if moving_s > 0 else np.inf
