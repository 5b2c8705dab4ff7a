"""Any Gymnasium environment with Box actions, behind the same face as our tasks: dict observations, actions in [-1, 1], a Spec."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from tandem.envs.batch import action_space, checked_action, observation_space
from tandem.errors import ConfigError
from tandem.types import Entry, Observation, Spec

FALLBACK_STEPS = 1000
"""Episode length where the environment declares none."""


def spec_of(name: str, env: gymnasium.Env | VectorEnv, observation: gymnasium.Space, action: gymnasium.Space) -> Spec:
    """What a foreign environment shows and takes; scales are 1, for nobody knows its units."""
    if not isinstance(action, gymnasium.spaces.Box) or len(action.shape) != 1 or not np.isfinite([action.low, action.high]).all():
        raise ConfigError(f"environment '{name}' takes {action}; Tandem needs a flat, bounded Box of continuous actions")
    entries = observation.spaces if isinstance(observation, gymnasium.spaces.Dict) else {"state": observation}
    for key, space in entries.items():
        if not isinstance(space, gymnasium.spaces.Box):
            raise ConfigError(f"environment '{name}', observation entry '{key}': Tandem needs a Box or a flat Dict of Boxes, got {space}")
    declared = env.spec.max_episode_steps if env.spec is not None else None
    return Spec(
        task=name,
        observation={key: Entry(space.shape, dtype=_kept_dtype(space.dtype)) for key, space in entries.items() if space.shape is not None},
        action=Entry(action.shape, scale=tuple(float(s) for s in (action.high - action.low) / 2)),
        control_hz=float(env.metadata.get("render_fps", 10)),
        max_episode_steps=declared or FALLBACK_STEPS,
    )


def _kept_dtype(dtype: Any) -> str:
    return "uint8" if dtype == np.uint8 else "float32"  # images stay bytes, all else becomes a number the networks take


def _convert(spec: Spec, observation: Any) -> Observation:
    entries = observation if isinstance(observation, dict) else {"state": observation}
    return {name: np.array(entries[name], entry.dtype) for name, entry in spec.observation.items()}  # a copy: many reuse their buffer


def _success(info: dict[str, Any]) -> Any:
    """Whatever name the environment has for it."""
    for name in ("success", "is_success", "succeed"):
        if name in info:
            return info[name]
    return False


def from_unit(action: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """[-1, 1] to the environment's own range."""
    return (low + (action + 1) * 0.5 * (high - low)).astype(low.dtype)


def to_unit(action: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.clip(2 * (action - low) / (high - low) - 1, -1, 1).astype(np.float32)


class ForeignEnv(gymnasium.Wrapper):
    """One foreign environment."""

    def __init__(self, name: str, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.task_spec = spec_of(name, env, env.observation_space, env.action_space)
        self._low, self._high = env.action_space.low, env.action_space.high  # pyright: ignore[reportAttributeAccessIssue]
        self.observation_space = observation_space(self.task_spec)
        self.action_space = action_space(self.task_spec)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return _convert(self.task_spec, observation), info

    def step(self, action: np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        action = checked_action(action, self.task_spec.action.shape, self.task_spec.task)
        raw = from_unit(action, self._low, self._high)
        observation, reward, terminated, truncated, info = self.env.step(raw)
        info = {**info, "success": bool(_success(info))}
        if "intervene_action" in info:  # in the environment's own units
            info["intervene_action"] = to_unit(np.asarray(info["intervene_action"]), self._low, self._high)
        return _convert(self.task_spec, observation), float(reward), terminated, truncated, info


def _about(info: dict[str, Any], row: int) -> dict[str, Any]:
    """What Gymnasium's vector info says of one row: entries whose mask is set for it."""
    return {key: value[row] for key, value in info.items() if not key.startswith("_") and f"_{key}" in info and info[f"_{key}"][row]}


class ForeignBatch(VectorEnv):
    """N foreign environments through `gymnasium.make_vec`, with `final_obs` of every row as `BatchEnv` gives it."""

    def __init__(self, name: str, num_envs: int) -> None:
        self.rows = gymnasium.make_vec(
            name, num_envs=num_envs, vectorization_mode="sync", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP}
        )
        inner = self.rows
        self.task_spec = spec_of(name, inner, inner.single_observation_space, inner.single_action_space)
        self.num_envs = num_envs
        self.metadata = {**inner.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space, self.single_action_space = observation_space(self.task_spec), action_space(self.task_spec)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self._low, self._high = inner.single_action_space.low, inner.single_action_space.high  # pyright: ignore[reportAttributeAccessIssue]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        observation, info = self.rows.reset(seed=seed, options=options)
        return _convert(self.task_spec, observation), info

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        actions = checked_action(actions, (self.num_envs, self.task_spec.action_dim), self.task_spec.task)
        raw = from_unit(actions, self._low, self._high)
        observation, reward, terminated, truncated, info = self.rows.step(raw)
        observation = _convert(self.task_spec, observation)
        final_obs = {key: values.copy() for key, values in observation.items()}
        ended = terminated | truncated
        told: dict[str, Any] = {"success": np.zeros(self.num_envs, bool), "final_obs": final_obs, "_final_obs": ended}
        for row in range(self.num_envs):
            about = _about(info["final_info"] if ended[row] else info, row)
            told["success"][row] = bool(_success(about))
            if ended[row]:
                for key, value in _convert(self.task_spec, info["final_obs"][row]).items():
                    final_obs[key][row] = value
            if "intervene_action" in about:
                told.setdefault("intervene_action", np.zeros(actions.shape, np.float32))
                told.setdefault("_intervene_action", np.zeros(self.num_envs, bool))
                told["intervene_action"][row] = to_unit(about["intervene_action"], self._low, self._high)
                told["_intervene_action"][row] = True
        return observation, reward, terminated, truncated, told

    def close_extras(self, **kwargs: Any) -> None:
        self.rows.close(**kwargs)
