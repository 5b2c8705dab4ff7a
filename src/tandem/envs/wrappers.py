"""One concern each, around a single environment that has a `task_spec`."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium
import numpy as np

from tandem.envs.rotations import compose, quat_conjugate, rotate, rotvec_to_quat
from tandem.errors import ConfigError
from tandem.types import Observation


class ToolFrame(gymnasium.Wrapper):
    """Actions and velocities in the tool's own axes, and the pose relative to where the episode began.

    A policy that acts in the tool's axes does not have to learn where the base is. The map is a rotation and nothing else,
    because an action is a step of the pose (no lever arm, no adjoint), and rotations are rotation vectors:

        base step     =  R  tool step           R: orientation of the tool when the action is taken
        tool velocity =  R' base velocity
        relative pose =  (R0' (p - p0),  log(R0' R))

    A person's action that the environment reports in its own frame (`info["intervene_action"]`) comes out in the agent's
    frame. Turning a box into another leaves corners outside: a step that does not fit is shortened, keeping its direction, and
    what was executed is reported in `info["executed_action"]`.
    """

    def __init__(self, env: gymnasium.Env, pose: str = "tcp_pose", vectors: tuple[str, ...] = ("tcp_velocity", "command_offset")) -> None:
        super().__init__(env)
        spec = env.get_wrapper_attr("task_spec")
        for name in (pose, *vectors):
            entry = spec.observation.get(name)
            if entry is None or entry.shape != (6,):
                found = f"shape {entry.shape}" if entry is not None else f"only {sorted(spec.observation)}"
                raise ConfigError(f"ToolFrame of '{spec.task}' needs the observation entry '{name}' of shape (6,), found {found}")
        if spec.action_dim < 3 or spec.action_dim in (4, 5):
            raise ConfigError(f"ToolFrame of '{spec.task}' needs 3 axes or 6 (and a gripper), the action has {spec.action_dim}")
        # another frame is another meaning of the same shapes: the name makes the hash differ
        self.task_spec = dataclasses.replace(spec, task=f"{spec.task}+tool_frame")
        self._pose_name, self._vectors = pose, vectors
        self._scale = spec.action.scales().astype(float)
        self._pose = self._start = np.zeros(6)
        self._last_action = np.zeros(spec.action_dim, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._start = observation[self._pose_name].astype(float)
        self._last_action = np.zeros_like(self._last_action)
        return self._seen(observation), info

    def step(self, action: np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        orientation = rotvec_to_quat(self._pose[3:])
        wanted = self._turned(orientation, np.asarray(action, float))
        sent = wanted.copy()
        for axes in _axes(len(sent)):
            sent[axes] /= max(1.0, float(np.abs(sent[axes]).max()))
        observation, reward, terminated, truncated, info = self.env.step(sent)
        back = quat_conjugate(orientation)
        executed = self._turned(back, sent)
        if "intervene_action" in info:
            executed = self._turned(back, np.asarray(info["intervene_action"], float))
            info = {**info, "intervene_action": executed.astype(np.float32)}
        elif not np.array_equal(sent, wanted):
            info = {**info, "executed_action": executed.astype(np.float32)}
        self._last_action = executed.astype(np.float32)
        return self._seen(observation), float(reward), terminated, truncated, info

    def _turned(self, orientation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """The same physical step in other axes; scales may differ from axis to axis, so it is turned in metres and radians."""
        turned = action.copy()
        for axes in _axes(len(action)):
            turned[axes] = rotate(orientation, action[axes] * self._scale[axes]) / self._scale[axes]
        return turned

    def _seen(self, observation: Observation) -> Observation:
        self._pose = observation[self._pose_name].astype(float)
        seen = dict(observation)
        back = quat_conjugate(rotvec_to_quat(self._pose[3:]))
        for name in self._vectors:
            vector = observation[name].astype(float)
            seen[name] = np.concatenate([rotate(back, vector[:3]), rotate(back, vector[3:])]).astype(np.float32)
        start_back = quat_conjugate(rotvec_to_quat(self._start[3:]))
        place = rotate(start_back, self._pose[:3] - self._start[:3])
        seen[self._pose_name] = np.concatenate([place, compose(-self._start[3:], self._pose[3:])]).astype(np.float32)
        if "previous_action" in seen:
            seen["previous_action"] = self._last_action
        return seen


def _axes(action_dim: int) -> tuple[slice, ...]:
    """Translation, and rotation where there is one; a gripper that follows has no direction."""
    return (slice(0, 3), slice(3, 6)) if action_dim >= 6 else (slice(0, 3),)
