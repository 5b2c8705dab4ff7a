"""Any Gymnasium environment with Box actions, behind the same interfaces as our tasks: dict observations, actions in [-1, 1], a Spec.

Actions that are a Dict or Tuple of Box and Discrete are in `foreign_actions.py`.

Everything that such an environment returns is checked: an observation of another shape than declared, or a reward or an end of the
episode that is not one value per environment, is an error. Without the check they would be broadcast, and trained on.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from tandem.envs import foreign_actions
from tandem.envs.declared import ATTRIBUTE, Declaration, declaration
from tandem.envs.framing import Framer
from tandem.envs.physics import GymnasiumPhysics, Physics, camera_names
from tandem.envs.spaces import action_space, observation_space
from tandem.envs.task_env import Capabilities, HaltPlan
from tandem.errors import ConfigError, EnvironmentFailed, RenderingUnavailable, TandemError
from tandem.layouts import ActionLayout
from tandem.types import ActionPart, Continuous, Entry, Observation, Spec, Step, Symmetry, bounds

if TYPE_CHECKING:
    import mujoco

NO_BOUND = 1e30
"""A bound of a space from here on is none."""
FALLBACK_STEPS = 1000
"""Episode length where the environment declares none."""


def spec_of(name: str, env: gymnasium.Env | VectorEnv, observation: gymnasium.Space, action: gymnasium.Space) -> Spec:
    """What a foreign environment shows and takes; scales are 1, for nobody knows its units."""
    parts = _parts_of(name, action)
    entries = observation.spaces if isinstance(observation, gymnasium.spaces.Dict) else {"state": observation}
    for key, space in entries.items():
        if not isinstance(space, gymnasium.spaces.Box):
            raise _not_a_box(name, key, space)
    declared = env.spec.max_episode_steps if env.spec is not None else None
    return Spec(
        task=name,
        observation={key: _entry_of(space) for key, space in entries.items() if isinstance(space, gymnasium.spaces.Box)},
        action=parts,
        control_hz=float(env.metadata.get("render_fps", 10)),
        max_episode_steps=declared or FALLBACK_STEPS,
    )


def _parts_of(name: str, action: gymnasium.Space) -> tuple[ActionPart, ...]:
    if isinstance(action, (gymnasium.spaces.Dict, gymnasium.spaces.Tuple)):
        return foreign_actions.parts_of(name, action)
    if not isinstance(action, gymnasium.spaces.Box) or len(action.shape) != 1 or not np.isfinite([action.low, action.high]).all():
        raise ConfigError(
            f"environment '{name}' takes {action}; Tandem needs a flat, bounded Box of continuous actions, or a Dict or Tuple of such "
            f"Boxes and Discretes"
        )
    return (Continuous("action", action.shape[0], scale=tuple(float(s) for s in (action.high - action.low) / 2)),)


def _entry_of(space: gymnasium.spaces.Box) -> Entry:
    """With the range that the space declares; a bound as large as floats go is how many say that there is none."""
    dtype = _kept_dtype(space.dtype)
    low, high = space.low.astype(float), space.high.astype(float)
    if dtype == "uint8" or not np.any((np.abs(low) < NO_BOUND) & (np.abs(high) < NO_BOUND)):
        return Entry(space.shape, dtype=dtype)
    lowest, highest = bounds(np.where(low > -NO_BOUND, low, -np.inf), np.where(high < NO_BOUND, high, np.inf))
    return Entry(space.shape, dtype=dtype, low=lowest, high=highest)


def _not_a_box(name: str, key: str, space: gymnasium.Space) -> ConfigError:
    problem = f"environment '{name}', observation entry '{key}': Tandem needs a Box or a flat Dict of Boxes, got {space}"
    if not isinstance(space, gymnasium.spaces.Dict):
        return ConfigError(problem)
    pictures = [inner for inner, part in space.spaces.items() if part.dtype == np.uint8 and part.shape is not None and len(part.shape) == 3]
    seen = f" Its entries {', '.join(map(repr, pictures))} are pictures: beside the others they are learned from." if pictures else ""
    return ConfigError(f"{problem}. It is nested: put its entries beside the others in a wrapper, or leave it out.{seen}")


def declaration_of(name: str, env: gymnasium.Env | VectorEnv) -> Declaration:
    """What this environment declares: a file, its attribute `tandem`, its metadata."""
    return declaration(name, getattr(env.unwrapped, ATTRIBUTE, None), env.metadata or {})


def _kept_dtype(dtype: Any) -> str:
    return "uint8" if dtype == np.uint8 else "float32"  # images stay bytes, all else becomes a number the networks take


def _convert(spec: Spec, framers: Mapping[str, Framer], observation: Any, lead: tuple[int, ...] = ()) -> Observation:
    """Named copies (many environments reuse their buffer), in the spec's dtypes; `lead` is (num_envs,) for many."""
    entries = observation if isinstance(observation, dict) else {"state": observation}
    converted = {}
    for name, entry in spec.observation.items():
        if name not in entries:
            raise ConfigError(f"environment '{spec.task}' declares the observation entry '{name}' and handed out only {sorted(entries)}")
        if name in framers:
            converted[name] = _picture(spec.task, name, framers[name], entries[name], lead)
            continue
        converted[name] = values = np.array(entries[name], entry.dtype)
        _require(spec.task, f"the observation '{name}'", values, (*lead, *entry.shape))
    return converted


def _picture(task: str, name: str, by: Framer, given: Any, lead: tuple[int, ...]) -> np.ndarray:
    values = np.asarray(given)
    _require(task, f"the picture '{name}'", values, (*lead, *by.taken))
    if values.dtype != np.uint8:
        raise ConfigError(
            f"environment '{task}' declares the picture '{name}' as uint8 and handed out {values.dtype}: as bytes its values would be "
            f"wrong. Hand out numbers from 0 to 255 as uint8."
        )
    return by(values)


def _require(name: str, what: str, value: Any, shape: tuple[int, ...]) -> None:
    if np.shape(value) != shape:
        wanted = "one plain value" if shape == () else f"shape {shape}"
        raise ConfigError(
            f"environment '{name}' handed out {what} of shape {np.shape(value)}, expected {wanted}. Likely cause: its step() returns an "
            f"array where one value is due, or does not keep to its own observation space. It was not trained on."
        )


def _require_step(name: str, reward: Any, terminated: Any, truncated: Any, shape: tuple[int, ...]) -> None:
    for what, value in (("a reward", reward), ("`terminated`", terminated), ("`truncated`", truncated)):
        _require(name, what, value, shape)


SUCCESS_KEYS = ("success", "is_success", "succeed")
"""Names under which environments report success in `info`."""


def reported_success(info: dict[str, Any], declared: str | None = None) -> bool | None:
    """What `info` says about success, under the declared key or one of the usual names, also inside of `final_info`; None: nothing."""
    for place in (info, info.get("final_info")):
        if isinstance(place, dict):
            for name in (declared,) if declared else SUCCESS_KEYS:
                if place.get(name) is not None:
                    return bool(np.any(place[name]))
    return None


@contextlib.contextmanager
def in_environment(name: str, call: str) -> Iterator[None]:
    """Turn an exception of the environment's own into an error that names the environment, the call, the exception and its place."""
    try:
        yield
    except (TandemError, gymnasium.error.Error):
        raise
    except Exception as problem:
        alone = f" `tandem env describe {name}` steps it alone, with random actions." if call.endswith("()") else ""
        raise EnvironmentFailed(f"environment '{name}' failed in {call}: {own_error(problem)}.{alone}") from problem


def own_error(problem: Exception) -> str:
    """An exception of somebody else's code, with the place where it was raised."""
    frames = traceback.extract_tb(problem.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(problem).__name__}: {problem}{place}, which is the environment's own error"


def from_unit(action: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """[-1, 1] to the environment's own range."""
    return (low + (action + 1) * 0.5 * (high - low)).astype(low.dtype)


def to_unit(action: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.clip(2 * (action - low) / (high - low) - 1, -1, 1).astype(np.float32)


def _action_range(space: gymnasium.Space) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(space, gymnasium.spaces.Box):
        raise ConfigError(f"many environments at once, as PPO steps them, take a Box of continuous actions; got {space}")
    return space.low, space.high


def taken_by(space: gymnasium.Space, layout: ActionLayout, action: np.ndarray) -> Any:
    """What one environment gets for one action."""
    if isinstance(space, (gymnasium.spaces.Dict, gymnasium.spaces.Tuple)):
        return foreign_actions.to_space(space, layout, action)
    return from_unit(action, *_action_range(space))


def _executed(name: str, info: dict[str, Any], space: gymnasium.Space, layout: ActionLayout) -> tuple[np.ndarray | None, bool]:
    """The action that was executed in place of the one asked for, in the agent's units, and whether a person chose it.

    This is the one place that knows how environments report it, in their own units: `intervene_action` (hil-serl: a person on the
    environment's side took over) and `executed_action` (the environment limited or changed it).
    """
    for key in ("intervene_action", "executed_action"):
        if info.get(key) is not None:
            if isinstance(space, (gymnasium.spaces.Dict, gymnasium.spaces.Tuple)):
                return foreign_actions.to_vector(name, space, layout, info[key]), key == "intervene_action"
            low, high = _action_range(space)
            reported = np.asarray(info[key], float)
            _require(name, f"info['{key}']", reported, low.shape)
            return to_unit(reported, low, high), key == "intervene_action"
    return None, False


def make_drawable(name: str) -> gymnasium.Env:
    """One that draws itself if it declares that it can, and if that works here; else a plain one."""
    if _declares_pictures(name):
        try:
            return gymnasium.make(name, render_mode="rgb_array")
        except Exception:  # no graphics on this machine: every package says it in its own way, and none of them is needed to act
            pass
    return gymnasium.make(name)


def _declares_pictures(name: str) -> bool:
    """By the `render_modes` of its class, or, where a function makes it, by the function's argument `render_mode`."""
    module, _, name_alone = name.rpartition(":")
    if module:
        importlib.import_module(module)  # registers it
    entry = gymnasium.spec(name_alone).entry_point
    creator: Any = load_env_creator(entry) if isinstance(entry, str) else entry
    modes = getattr(creator, "metadata", None)
    if isinstance(modes, dict):
        return "rgb_array" in (modes.get("render_modes") or ())
    return callable(creator) and "render_mode" in inspect.signature(creator).parameters


class GymnasiumEnv:
    """N Gymnasium environments as a `TaskEnv`, stepped one after the other; each is an environment of its own.

    An environment that moves a robot says so: `metadata["clock"] = "real"`, and a method `halt()` that stops all motion from any thread.
    Its attribute `halt_command` is a program that does the same from outside of this process.
    """

    def __init__(self, name: str, envs: Sequence[gymnasium.Env]) -> None:
        if not envs:
            raise ConfigError(f"'{name}' needs at least one environment, got num_envs=0")
        first = envs[0]
        self._envs, self.num_envs = list(envs), len(envs)
        self._declared = declaration_of(name, first)
        given = spec_of(name, first, first.observation_space, first.action_space)
        self.spec: Spec = self._declared.applied(given)
        self._framers = self._declared.framers(given)
        self._space, self._layout = first.action_space, ActionLayout.of(self.spec)
        self._halts = _halts_of(envs)
        model = _mujoco_of(first)
        real = first.metadata.get("clock") == "real"
        self.capabilities = Capabilities(
            renders=first.render_mode == "rgb_array",
            cameras=() if model is None else camera_names(model[0]),
            clock="real" if real else "simulated",
            needs_limits=real,
            halt_plan=_halt_plan(name, first),
        )
        self._standing = np.ones(self.num_envs, bool)
        """Ended and not reset yet; before the first reset, all of them."""
        self._age = np.zeros(self.num_envs, int)
        """Steps of the episode that each row is in."""
        self._infos: Callable[[dict[str, Any]], None] = lambda info: None
        self._success_known = self._declared.success_key is not None
        """Success is declared, or was seen in `info`."""
        entries = self.spec.observation.items()
        self._last: Observation = {key: np.zeros((self.num_envs, *entry.shape), entry.dtype) for key, entry in entries}

    def reset(self, rows: Sequence[int] | None = None, seeds: Sequence[int | None] | None = None) -> Observation:
        chosen = range(self.num_envs) if rows is None else rows
        for row, seed in zip(chosen, seeds if seeds is not None else [None] * len(chosen), strict=True):
            with in_environment(self.spec.task, "reset()"):
                observation, info = self._envs[row].reset(seed=None if seed is None else int(seed))
            self._succeeded(info)
            self._keep(row, observation)
            self._standing[row], self._age[row] = False, 0
        return self._seen()

    def step(self, action: np.ndarray) -> Step:
        began = time.perf_counter()
        asked = self._layout.checked(action, (self.num_envs,), self.spec.task)
        reward, executed = np.zeros(self.num_envs), asked.astype(np.float32)
        terminated, truncated, success, reported, intervened = (np.zeros(self.num_envs, bool) for _ in range(5))
        for row in np.flatnonzero(~self._standing).tolist():
            raw = taken_by(self._space, self._layout, asked[row])
            with in_environment(self.spec.task, "step()"):
                observation, gained, terminated_now, truncated_now, info = self._envs[row].step(raw)
            _require_step(self.spec.task, gained, terminated_now, truncated_now, ())
            self._keep(row, observation)
            reward[row], terminated[row], truncated[row] = float(gained), bool(terminated_now), bool(truncated_now)
            success[row] = self._succeeded(info)
            instead, intervened[row] = _executed(self.spec.task, info, self._space, self._layout)
            if instead is not None:
                executed[row], reported[row] = instead, True
            self._age[row] += 1
        truncated |= ~terminated & ~self._standing & (self._age >= self.spec.max_episode_steps)
        self._standing |= terminated | truncated
        return Step(
            self._seen(),
            reward,
            terminated,
            truncated,
            success,
            success_known=self._success_known,
            executed=executed if reported.any() else None,
            intervened=intervened if intervened.any() else None,
            seconds=time.perf_counter() - began,
        )

    def watch_infos(self, look: Callable[[dict[str, Any]], None]) -> None:
        """Hand every `info` of the environments to `look` from now on."""
        self._infos = look

    def _succeeded(self, info: dict[str, Any]) -> bool:
        self._infos(info)
        found = reported_success(info, self._declared.success_key)
        self._success_known |= found is not None
        return bool(found)

    def _keep(self, row: int, observation: Any) -> None:
        """Copied at once: the next reset, or another row, may write to the same buffer."""
        for key, values in _convert(self.spec, self._framers, observation).items():
            self._last[key][row] = values

    def _seen(self) -> Observation:
        return {key: values.copy() for key, values in self._last.items()}

    def halt(self, reason: str) -> None:
        _halt_all(self._halts)

    def state(self) -> dict[str, Any]:
        raise _cannot_be_saved(self.spec)

    def restore(self, state: dict[str, Any]) -> Observation:
        raise _cannot_be_saved(self.spec)

    def render(self) -> np.ndarray:
        if not self.capabilities.renders:
            raise RenderingUnavailable(f"environment '{self.spec.task}' was made without render_mode='rgb_array', so it draws no picture.")
        try:
            picture = self._envs[0].render()
        except gymnasium.error.DependencyNotInstalled as problem:
            raise RenderingUnavailable(f"environment '{self.spec.task}' cannot draw itself: {problem}") from None
        if not isinstance(picture, np.ndarray):
            got = type(picture).__name__
            raise RenderingUnavailable(f"environment '{self.spec.task}' draws no picture: render() gave a {got}, expected an array.")
        return picture

    def bare(self, row: int) -> gymnasium.Env:
        """The environment of one row without wrappers, for a script that looks into its simulation."""
        return self._envs[row].unwrapped

    def physics(self) -> Physics | None:
        found = _mujoco_of(self._envs[0])
        return None if found is None else GymnasiumPhysics(*found)

    def close(self) -> None:
        for env in self._envs:
            env.close()


def _halts_of(envs: Sequence[gymnasium.Env]) -> list[Callable[[], object]]:
    """The method `halt` of each environment, through all wrappers."""
    return [env.get_wrapper_attr("halt") for env in envs if env.has_wrapper_attr("halt")]


def _halt_all(halts: Sequence[Callable[[], object]]) -> None:
    """Every row, also after one that raises; then the first error."""
    problems = []
    for halt in halts:
        try:
            halt()
        except Exception as problem:
            problems.append(problem)
    if problems:
        raise problems[0]


def _halt_plan(name: str, env: gymnasium.Env) -> HaltPlan | None:
    """The program that an environment names as its attribute `halt_command`: a list of words, not run by a shell."""
    if not env.has_wrapper_attr("halt_command"):
        return None
    command = env.get_wrapper_attr("halt_command")
    if not isinstance(command, (list, tuple)) or not command or not all(isinstance(word, str) and word for word in command):
        raise ConfigError(f"environment '{name}' has halt_command = {command!r:.200}; expected a list of words: the program, its arguments")
    return HaltPlan(tuple(command))


def _cannot_be_saved(spec: Spec) -> ConfigError:
    return ConfigError(f"environment '{spec.task}' is Gymnasium's: its state cannot be saved (capabilities.saves is False)")


def _mujoco_of(env: gymnasium.Env) -> tuple[mujoco.MjModel, mujoco.MjData] | None:
    """The simulation inside of one of Gymnasium's MuJoCo environments; None for any other kind."""
    loaded = sys.modules.get("mujoco")
    if loaded is None:  # nobody can have made a model
        return None
    model, data = getattr(env.unwrapped, "model", None), getattr(env.unwrapped, "data", None)
    return (model, data) if isinstance(model, loaded.MjModel) and isinstance(data, loaded.MjData) else None


class _Row(gymnasium.Wrapper):
    """One of many: what it hands out is copied at once, for its next reset, or another row, may write to the same buffer."""

    def __init__(self, name: str, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._name, self._age = name, 0
        self._longest = declaration_of(name, env).max_episode_steps

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        with in_environment(self._name, "reset()"):
            observation, info = self.env.reset(seed=seed, options=options)
        self._age = 0
        return self._copied(observation), info

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        with in_environment(self._name, "step()"):
            observation, reward, terminated, truncated, info = self.env.step(action)
        _require_step(self._name, reward, terminated, truncated, ())
        self._age += 1
        cut = self._longest is not None and self._age >= self._longest and not terminated
        return self._copied(observation), float(reward), bool(terminated), bool(truncated) or cut, info

    def _copied(self, observation: Any) -> Any:
        spaces = self.env.observation_space.spaces if isinstance(self.env.observation_space, gymnasium.spaces.Dict) else None
        parts = observation if isinstance(observation, dict) else {"state": observation}
        for name, space in (spaces or {"state": self.env.observation_space}).items():
            if isinstance(space, gymnasium.spaces.Box) and name in parts:  # other kinds, and what is missing, are refused elsewhere
                _require(self._name, f"the observation '{name}'", parts[name], space.shape)
        return {name: np.array(values) for name, values in parts.items()} if spaces else np.array(observation)


def _about(info: dict[str, Any], row: int) -> dict[str, Any]:
    """What Gymnasium's vector info says of one row: entries whose mask is set for it."""
    return {key: value[row] for key, value in info.items() if not key.startswith("_") and f"_{key}" in info and info[f"_{key}"][row]}


class ForeignBatch(VectorEnv):
    """N foreign environments through `gymnasium.make_vec` for PPO, with `final_obs` of every row as `BatchEnv` gives it.

    An id that has nothing but a `vector_entry_point` steps its rows by itself; it must reset them in the same step.
    """

    saves = False

    def __init__(self, name: str, num_envs: int) -> None:
        if num_envs < 1:
            raise ConfigError(f"a batch of '{name}' needs at least one environment, got num_envs={num_envs}")
        self.rows = inner = _make_rows(name, num_envs)
        first = inner.envs[0].unwrapped if isinstance(inner, SyncVectorEnv) else inner
        self._declared = declaration_of(name, first)
        given = spec_of(name, inner, inner.single_observation_space, inner.single_action_space)
        self.task_spec, self._framers = self._declared.applied(given), self._declared.framers(given)
        self.symmetry: Symmetry | None = getattr(first, "symmetry", None)
        """Its own, where it declares one."""
        self.num_envs = num_envs
        self.metadata = {**inner.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space, self.single_action_space = observation_space(self.task_spec), action_space(self.task_spec)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self._low, self._high = _action_range(inner.single_action_space)
        self._layout = ActionLayout.of(self.task_spec)
        own_halt: Any = getattr(inner, "halt", None)
        self._halts = _halts_of(inner.envs) if isinstance(inner, SyncVectorEnv) else [own_halt] if callable(own_halt) else []
        self._success_known = self._declared.success_key is not None

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        if not isinstance(seed, int | None) and not isinstance(self.rows, SyncVectorEnv):
            seed = seed[0]  # an environment that steps its rows by itself takes one seed for all
        observation, info = self.rows.reset(seed=seed, options=options)  # pyright: ignore[reportArgumentType]
        return self._converted(observation), info

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        actions = self._layout.checked(actions, (self.num_envs,), self.task_spec.task)
        raw = from_unit(actions, self._low, self._high)
        observation, reward, terminated, truncated, info = self.rows.step(raw)
        _require_step(self.task_spec.task, reward, terminated, truncated, (self.num_envs,))
        terminated, truncated = np.array(terminated, bool), np.array(truncated, bool)
        observation = self._converted(observation)
        final_obs = {key: values.copy() for key, values in observation.items()}
        ended = terminated | truncated
        reported: dict[str, Any] = {"success": np.zeros(self.num_envs, bool), "final_obs": final_obs, "_final_obs": ended}
        for row in range(self.num_envs):
            about = _about(info.get("final_info", {}) if ended[row] else info, row)
            found = reported_success(about, self._declared.success_key)
            reported["success"][row] = bool(found)
            self._success_known |= found is not None
            if ended[row]:
                for key, value in self._final(info, row).items():
                    final_obs[key][row] = value
        reported["success_known"] = self._success_known
        return observation, np.array(reward, float), terminated, truncated, reported

    def _converted(self, observation: Any) -> Observation:
        return _convert(self.task_spec, self._framers, observation, (self.num_envs,))

    def _final(self, info: dict[str, Any], row: int) -> Observation:
        """What the last step of an episode led to, whether given as one observation of all rows or as one for each."""
        final = info.get("final_obs")
        if final is None:
            raise ConfigError(
                f"environment '{self.task_spec.task}' ended an episode in row {row} without info['final_obs']. Likely cause: it steps its "
                f"rows by itself and does not keep what the last step led to, which has a value when time runs out."
            )
        of_row = {name: part[row] for name, part in final.items()} if isinstance(final, dict) else final[row]
        return _convert(self.task_spec, self._framers, of_row)

    def set_elapsed(self, steps: np.ndarray) -> None:
        raise ConfigError(
            f"init_at_random_ep_len: environment '{self.task_spec.task}' counts its own steps, so its episodes cannot begin at another age"
        )

    def halt(self, reason: str) -> None:
        _halt_all(self._halts)

    def figures(self) -> dict[str, float]:
        return {}

    def state(self) -> dict[str, Any]:
        raise _cannot_be_saved(self.task_spec)

    def restore(self, state: dict[str, Any]) -> Observation:
        raise _cannot_be_saved(self.task_spec)

    def close_extras(self, **kwargs: Any) -> None:
        self.rows.close(**kwargs)


def _make_rows(name: str, num_envs: int) -> VectorEnv:
    module, _, name_alone = name.rpartition(":")
    if module:
        importlib.import_module(module)  # registers it
    registered = gymnasium.registry.get(name_alone)
    if registered is None or registered.entry_point is not None:
        careful = functools.partial(_Row, name)
        options = {"autoreset_mode": AutoresetMode.SAME_STEP}
        return gymnasium.make_vec(name, num_envs=num_envs, vectorization_mode="sync", vector_kwargs=options, wrappers=(careful,))
    env = gymnasium.make_vec(name, num_envs=num_envs, vectorization_mode="vector_entry_point")
    mode = env.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        raise ConfigError(
            f"environment '{name}' steps its rows by itself and resets them in the mode {mode}; Tandem needs AutoresetMode.SAME_STEP, "
            f"with what the last step led to in info['final_obs']"
        )
    return env
