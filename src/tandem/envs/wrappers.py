"""Wrappers around a `TaskEnv`: one concern each, and everything else forwarded."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tandem.envs.rotations import compose, quat_conjugate, rotate, rotvec_to_quat
from tandem.envs.task_env import TaskEnv
from tandem.envs.wrapped import WrappedEnv
from tandem.errors import ConfigError
from tandem.layouts import ActionLayout
from tandem.types import Observation, Step


class ToolFrame(WrappedEnv):
    """Actions and velocities in the tool's own axes, and the pose relative to where the episode began.

    A policy that acts in the tool's axes does not have to learn where the base is. The map is a rotation and nothing else,
    because an action is a step of the pose (no lever arm, no adjoint), and rotations are rotation vectors:

        base step     =  R  tool step           R: orientation of the tool when the action is taken
        tool velocity =  R' base velocity
        relative pose =  (R0' (p - p0),  log(R0' R))

    Executed actions that the environment reports are turned back into the tool's axes. A box turned into another leaves corners
    outside: a step that does not fit is shortened, keeping its direction, and reported as executed.
    """

    def __init__(self, env: TaskEnv, pose: str = "tcp_pose", vectors: tuple[str, ...] = ("tcp_velocity", "command_offset")) -> None:
        spec = env.spec
        for name in (pose, *vectors):
            entry = spec.observation.get(name)
            if entry is None or entry.shape != (6,):
                found = f"shape {entry.shape}" if entry is not None else f"only {sorted(spec.observation)}"
                raise ConfigError(f"ToolFrame of '{spec.task}' needs the observation entry '{name}' of shape (6,), found {found}")
        if spec.action_dim < 3 or spec.action_dim in (4, 5):
            raise ConfigError(f"ToolFrame of '{spec.task}' needs 3 axes or 6 (and a gripper), the action has {spec.action_dim}")
        # another frame is another meaning of the same shapes: the name makes the hash differ
        super().__init__(env, dataclasses.replace(spec, task=f"{spec.task}+tool_frame"))
        self._pose_name, self._vectors = pose, vectors
        self._layout = ActionLayout.of(spec)
        self._scale = self._layout.scales.astype(float)
        self._pose = np.zeros((env.num_envs, 6))
        self._start = np.zeros((env.num_envs, 6))
        self._last_action = np.zeros((env.num_envs, spec.action_dim), np.float32)

    def reset(self, rows: Sequence[int] | None = None, seeds: Sequence[int | None] | None = None) -> Observation:
        observation = self._env.reset(rows, seeds)
        begun = slice(None) if rows is None else np.asarray(rows, int)
        self._start[begun] = observation[self._pose_name][begun]
        self._last_action[begun] = 0.0
        return self._seen(observation)

    def step(self, action: np.ndarray) -> Step:
        asked = self._layout.checked(action, (self.num_envs,), self.spec.task)
        orientation = rotvec_to_quat(self._pose[:, 3:])
        wanted = self._turned(orientation, asked)
        sent = wanted.copy()
        for axes in _axes(sent.shape[1]):
            sent[:, axes] /= np.maximum(1.0, np.abs(sent[:, axes]).max(axis=1, keepdims=True))
        step = self._env.step(sent)
        executed = self._turned(quat_conjugate(orientation), sent if step.executed is None else step.executed.astype(float))
        self._last_action = executed.astype(np.float32)
        changed = step.executed is not None or not np.array_equal(sent, wanted)
        return dataclasses.replace(step, observation=self._seen(step.observation), executed=self._last_action.copy() if changed else None)

    def _turned(self, orientation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """The same physical step in other axes; scales may differ from axis to axis, so it is turned in metres and radians."""
        turned = action.copy()
        for axes in _axes(action.shape[1]):
            turned[:, axes] = rotate(orientation, action[:, axes] * self._scale[axes]) / self._scale[axes]
        return turned

    def _seen(self, observation: Observation) -> Observation:
        self._pose = observation[self._pose_name].astype(float)
        seen = dict(observation)
        back = quat_conjugate(rotvec_to_quat(self._pose[:, 3:]))
        for name in self._vectors:
            vector = observation[name].astype(float)
            seen[name] = np.concatenate([rotate(back, vector[:, :3]), rotate(back, vector[:, 3:])], axis=1).astype(np.float32)
        start_back = quat_conjugate(rotvec_to_quat(self._start[:, 3:]))
        place = rotate(start_back, self._pose[:, :3] - self._start[:, :3])
        seen[self._pose_name] = np.concatenate([place, compose(-self._start[:, 3:], self._pose[:, 3:])], axis=1).astype(np.float32)
        if "previous_action" in seen:
            seen["previous_action"] = self._last_action.copy()
        return seen

    def state(self) -> dict[str, Any]:
        return {"env": self._env.state(), "start": self._start.copy(), "last_action": self._last_action.copy()}

    def restore(self, state: dict[str, Any]) -> Observation:
        self._start, self._last_action = np.array(state["start"]), np.array(state["last_action"])
        return self._seen(self._env.restore(state["env"]))


def _axes(action_dim: int) -> tuple[slice, ...]:
    """Translation, and rotation where there is one; a gripper that follows has no direction."""
    return (slice(0, 3), slice(3, 6)) if action_dim >= 6 else (slice(0, 3),)
