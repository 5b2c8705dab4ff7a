"""Speed, force and workspace limits, applied to every action of every row just before the environment gets it.

    policy or person ──► LimitedEnv ──► environment
                             ├────► every change is reported, and the changed action is the one that is stored
                             └────► what was measured beyond `stop_force` or `stop_outside` raises `LimitViolated`: it stands still

A task inside Tandem has limits of its own (leash, workspace, force), which belong to the physics; these here are for a robot whose
environment has none, or that must stay within less. `limits_file.py` reads them from a file, `limit_rules.py` refuses what cannot hold.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tandem.acting.limit_rules import limit_axes, problems
from tandem.acting.limits_file import read_limits
from tandem.envs.limits import LimitSettings
from tandem.envs.registry import registered
from tandem.envs.task_env import Capabilities, TaskEnv
from tandem.envs.wrapped import WrappedEnv
from tandem.errors import ConfigError, LimitViolated
from tandem.layouts import ActionLayout
from tandem.types import Observation, Spec, Step


@dataclass(frozen=True)
class Asked:
    """What a command line says about limits."""

    file: Path | None = None
    """`--limits FILE`"""
    none: bool = False
    """`--no-limits`: move a robot without any."""


def own_settings(task: str) -> LimitSettings:
    """The limits that a task declares for its robot."""
    entry = registered(task)
    return entry.limits() if entry is not None else LimitSettings()


def settings_for(task: str, spec: Spec, realtime: bool, file: Path | None = None) -> LimitSettings:
    """The limits of the file, else the task's own on a robot; a simulation at a fast pace is limited by its task alone."""
    own = own_settings(task)
    if file is None:
        return own if realtime else LimitSettings(stall_s=0.0, reset_s=0.0)
    return read_limits(file, spec, own)


def is_robot(able: Capabilities) -> bool:
    """Whether something real moves: the environment's clock is real, or it says that nothing behind it limits motion.

    By what the environment declares, not by its name: a simulation that is served from another process or machine is none.
    """
    return able.clock == "real" or able.needs_limits


def limits_for(task: str, env: TaskEnv, asked: Asked, realtime: bool) -> Limits:
    """The limits under which this environment may move. A robot without any is refused, unless that was typed."""
    if asked.none and asked.file is not None:
        raise ConfigError(f"--no-limits and --limits {asked.file} contradict each other: leave one of them out")
    if asked.none:
        times = settings_for(task, env.spec, realtime)  # a step that hangs is still stopped
        return Limits(env.spec, LimitSettings(stall_s=times.stall_s, reset_s=times.reset_s))
    limits = Limits(env.spec, settings_for(task, env.spec, realtime, asked.file))
    if is_robot(env.capabilities) and limits.idle and not env.capabilities.bounded:
        given = f"the file {asked.file} limits nothing" if asked.file else "no limits were given, and it has none of its own"
        raise ConfigError(
            f"environment '{task}' moves a robot and {given}: give speed, workspace and force limits with --limits FILE (`tandem limits "
            f"template {task}` writes a first file, docs/limits.md explains it), or type --no-limits to move it without any"
        )
    return limits


@dataclass
class Limits:
    """Applies the settings of one robot to its actions, row by row."""

    spec: Spec
    settings: LimitSettings
    counts: dict[str, int] = field(default_factory=lambda: {"speed": 0, "workspace": 0, "force": 0})
    """Actions that each limit has changed so far."""
    notice: str = ""
    """What the limits changed in the last action of any row, in words; empty if nothing."""

    def __post_init__(self) -> None:
        settings, layout, axes = self.settings, ActionLayout.of(self.spec), limit_axes(self.spec)
        self._axes = axes
        wrong = problems(self.spec, settings)
        if wrong:
            raise ConfigError(f"the limits of '{self.spec.task}' cannot hold: " + "; ".join(wrong))
        self._columns = np.array([axis.column for axis in axes], int)
        self._moved = np.array([axis.moved for axis in axes])
        self._fastest = np.where(layout.is_discrete, np.inf, 1.0)
        if settings.speed:
            self._fastest[self._columns] = np.minimum(1.0, np.array(settings.speed) / [axis.fastest for axis in axes])
        self._low, self._high = np.array(settings.low, float), np.array(settings.high, float)
        self._bounded = np.flatnonzero(np.isfinite(self._low) | np.isfinite(self._high))
        """Which axes have a workspace."""

    @property
    def idle(self) -> bool:
        """Nothing is limited at all."""
        return not (len(self._bounded) or self.settings.force or self.settings.stop_force) and bool((self._fastest >= 1).all())

    def violation(self, observation: Observation) -> str:
        """What was measured in a row that must never be measured, in words; empty if nothing was. NaN is no measurement."""
        settings = self.settings
        if settings.stop_force:
            wrench = observation[settings.wrench]
            forces = np.linalg.norm(wrench.reshape(len(wrench), -1)[:, :3].astype(float), axis=1)
            for row in np.flatnonzero(forces > settings.stop_force):
                return (
                    f"a force of {forces[row]:.4g} N was measured{_in_row(int(row), forces)}; at most {settings.stop_force:g} N are allowed"
                )
        if settings.stop_outside:
            places = observation[settings.position]
            places = places.reshape(len(places), -1)[:, self._bounded].astype(float)
            low, high = self._low[self._bounded], self._high[self._bounded]
            outside = np.maximum(low - places, places - high)
            for row, index in np.argwhere(outside > settings.stop_outside * (high - low)):
                axis = self._axes[self._bounded[index]]
                named = f"'{axis.name}'{f' ({axis.unit})' if axis.unit else ''}"
                return (
                    f"the position {places[row, index]:.4g} of axis {named} was measured{_in_row(int(row), places)}, "
                    f"outside of the workspace from {low[index]:g} to {high[index]:g} by more than {settings.stop_outside:g} of its width"
                )
        return ""

    def rows(self, observation: Observation, actions: np.ndarray) -> np.ndarray:
        """`(N, action_dim)`: what each row may execute; the same object if nothing had to be changed."""
        allowed, changed = np.array(actions), {}
        for row in range(len(actions)):
            allowed[row] = self({name: values[row] for name, values in observation.items()}, actions[row])
            if self.notice:
                changed.setdefault(self.notice, []).append(row)
        where = "" if len(actions) == 1 else " (row {})"
        self.notice = "; ".join(f"{notice}{where.format(', '.join(map(str, rows)))}" for notice, rows in changed.items())
        return allowed if changed else actions

    def __call__(self, observation: Observation, action: np.ndarray) -> np.ndarray:
        """The action that one robot may execute; the same object if nothing had to be changed."""
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
        settings, axes = self.settings, self._bounded
        if not len(axes):
            return action
        command = observation[settings.position].reshape(-1)[axes].astype(float)
        if settings.offset:
            command = command + observation[settings.offset].reshape(-1)[axes]
        limited, columns = np.array(action, float), self._columns[axes]
        lowest = np.minimum(0.0, (self._low[axes] - command) / self._moved[axes])
        highest = np.maximum(0.0, (self._high[axes] - command) / self._moved[axes])
        known = np.isfinite(command)  # from a sensor that does not know where it is, nothing moves
        limited[columns] = np.where(known, np.clip(limited[columns], lowest, highest), 0.0)
        return limited

    def _not_against(self, observation: Observation, action: np.ndarray) -> np.ndarray:
        """Beyond the largest force, the part of the motion that goes against it is taken out; along and away from it stays free.

        In metres, for the axes may have different scales. Where the rest would be too fast, or leave the workspace, the axes that go
        against the force stand still.
        """
        if not self.settings.force:
            return action
        force = observation[self.settings.wrench].reshape(-1)[:3].astype(float)
        size = float(np.linalg.norm(force))
        if size <= self.settings.force:
            return action
        columns, moved, limited = self._columns[:3], self._moved[:3], np.array(action, float)
        if not np.isfinite(size):
            limited[columns] = 0.0
            return limited
        away, motion = force / size, action[columns] * moved
        against = float(motion @ away)
        if against < 0:
            limited[columns] = (motion - against * away) / moved
            if not np.allclose(self._in_workspace(observation, np.clip(limited, -self._fastest, self._fastest)), limited):
                limited[columns] = np.where(motion * away < 0, 0.0, action[columns])
        return limited


def _in_row(row: int, rows: np.ndarray) -> str:
    return f" in row {row}" if len(rows) > 1 else ""


class LimitedEnv(WrappedEnv):
    """A `TaskEnv` under limits: they hold in every row, for every operator and policy, and what was executed is reported.

    With `paced`, steps are at least a control period apart, for callers without a rhythm of their own: a speed is a way per period.
    """

    def __init__(self, env: TaskEnv, limits: Limits, paced: bool = False) -> None:
        super().__init__(env)
        self._limits, self._paced = limits, paced
        self._layout = ActionLayout.of(env.spec)
        self._observation: Observation = {}
        self._next = 0.0

    def reset(self, rows: Sequence[int] | None = None, seeds: Sequence[int | None] | None = None) -> Observation:
        self._observation = self._env.reset(rows, seeds)
        self._require_sound()
        return self._observation

    def step(self, action: np.ndarray) -> Step:
        asked = self._layout.checked(action, (self.num_envs,), self.spec.task)
        allowed = self._limits.rows(self._observation, asked)
        if self._paced:
            time.sleep(max(0.0, self._next - time.monotonic()))
            self._next = time.monotonic() + 1 / self.spec.control_hz
        step = self._env.step(action if allowed is asked else allowed)
        self._observation = step.observation
        self._require_sound()
        if allowed is asked or step.executed is not None:
            return step
        return dataclasses.replace(step, executed=allowed.astype(np.float32))

    def _require_sound(self) -> None:
        """The command was limited, and all the same something was measured that must not be: the robot does not go on by itself."""
        violation = self._limits.violation(self._observation)
        if violation:
            raise LimitViolated(f"a limit of '{self.spec.task}' was violated: {violation}")

    def restore(self, state: dict[str, Any]) -> Observation:
        self._observation = self._env.restore(state)
        return self._observation


def limited(env: TaskEnv, limits: Limits) -> TaskEnv:
    """The environment under these limits; itself where nothing is limited."""
    return env if limits.idle else LimitedEnv(env, limits)


def opened_for(task: str, asked: Asked) -> Callable[[TaskEnv], TaskEnv]:
    """For programs without a control loop of their own (recording by a script, evaluating, playing): under limits and in pace on a robot.

    The environment is closed if it may not be moved.
    """

    def check(env: TaskEnv) -> TaskEnv:
        robot = is_robot(env.capabilities)
        try:
            limits = limits_for(task, env, asked, realtime=robot)
        except ConfigError:
            env.close()
            raise
        return LimitedEnv(env, limits, paced=robot) if robot or not limits.idle else env

    return check
