"""Speed, force and workspace limits, applied to every action just before the environment gets it.

    policy or person ──► operator ──► Limits ──► environment
                                         └────► every change is reported, and the changed action is the one that is stored

A task inside Tandem has limits of its own (leash, workspace, force), which belong to the physics; these here are for a robot whose
environment has none, or that must stay within less. In the units of the spec, per axis of the action.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np

from tandem.envs.limits import LimitSettings
from tandem.envs.registry import registered
from tandem.errors import ConfigError
from tandem.files import read_toml
from tandem.layouts import ActionLayout
from tandem.types import Observation, Spec


def settings_for(task: str, realtime: bool, file: Path | None = None) -> LimitSettings:
    """The limits of the file, else the task's own on a robot; a simulation at a fast pace is limited by its task alone."""
    entry = registered(task)
    own = entry.limits() if entry is not None else LimitSettings()
    if file is None:
        return own if realtime else LimitSettings(stall_s=0.0, reset_s=0.0)
    given = read_toml(file, "file of limits")
    known = {item.name for item in fields(LimitSettings)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ConfigError(f"the file of limits {file} has unknown entries {unknown}; there are {', '.join(sorted(known))}")
    return replace(own, **{name: tuple(float(v) for v in value) if isinstance(value, list) else value for name, value in given.items()})


@dataclass
class Limits:
    """Applies the settings of one robot to its actions, one at a time."""

    spec: Spec
    settings: LimitSettings
    counts: dict[str, int] = field(default_factory=lambda: {"speed": 0, "workspace": 0, "force": 0})
    """Actions that each limit has changed so far."""
    notice: str = ""
    """What the limits changed in the last action, in words; empty if nothing."""

    def __post_init__(self) -> None:
        settings, spec, layout = self.settings, self.spec, ActionLayout.of(self.spec)
        axes = int(np.argmax(layout.is_discrete)) if not layout.all_continuous else layout.size  # those before the first choice
        for name in (settings.position, settings.offset, settings.wrench):
            if name and name not in spec.observation:
                raise ConfigError(f"the limits of '{spec.task}' name the observation entry '{name}'; it has {', '.join(spec.observation)}")
        for name in ("speed", "low", "high"):
            if len(getattr(settings, name)) > axes:
                raise ConfigError(
                    f"the limits of '{spec.task}' have {len(getattr(settings, name))} numbers in `{name}`; its action has {axes} axes"
                )
        if len(settings.low) != len(settings.high) or (settings.low and not settings.position):
            raise ConfigError(f"the limits of '{spec.task}' need `low` and `high` of the same length, and `position` for them")
        self._scale = layout.scales.astype(float)
        step = self._scale * spec.control_hz
        self._fastest = np.where(layout.is_discrete, np.inf, 1.0)
        self._fastest[: len(settings.speed)] = np.minimum(1.0, np.array(settings.speed) / step[: len(settings.speed)])

    @property
    def idle(self) -> bool:
        """Nothing is limited at all."""
        return not (self.settings.low or self.settings.force) and bool((self._fastest >= 1).all())

    def __call__(self, observation: Observation, action: np.ndarray) -> np.ndarray:
        """The action that may be executed; the same object if nothing had to be changed."""
        changed = []
        allowed = np.clip(action, -self._fastest, self._fastest)
        if (np.abs(action) > self._fastest + 1e-6).any():
            changed.append("speed")
        for name, limit in (("workspace", self._in_workspace), ("force", self._not_against)):
            limited = limit(observation, allowed)
            if not np.allclose(limited, allowed, atol=1e-6):
                changed.append(name)
            allowed = limited
        for name in changed:
            self.counts[name] += 1
        self.notice = f"limited: {', '.join(changed)}" if changed else ""
        return allowed.astype(action.dtype) if changed else action

    def _in_workspace(self, observation: Observation, action: np.ndarray) -> np.ndarray:
        """The command stays within, and one that is outside may only come back."""
        settings = self.settings
        count = len(settings.low)
        if not count:
            return action
        command = observation[settings.position].reshape(-1)[:count].astype(float)
        if settings.offset:
            command = command + observation[settings.offset].reshape(-1)[:count]
        scale, limited = self._scale[:count], np.array(action, float)
        lowest = np.minimum(0.0, (np.array(settings.low) - command) / scale)
        highest = np.maximum(0.0, (np.array(settings.high) - command) / scale)
        limited[:count] = np.clip(limited[:count], lowest, highest)
        return limited

    def _not_against(self, observation: Observation, action: np.ndarray) -> np.ndarray:
        """Beyond the largest force, the part of the motion that goes against it is taken out; along and away from it stays free."""
        settings = self.settings
        if not settings.force or not settings.wrench:
            return action
        force = observation[settings.wrench].reshape(-1)[:3].astype(float)
        size = float(np.linalg.norm(force))
        if size <= settings.force:
            return action
        away, limited = force / size, np.array(action, float)
        against = float(limited[:3] @ away)
        if against < 0:
            limited[:3] -= against * away
        return limited
