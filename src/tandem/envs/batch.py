"""N simulations of one task stepped together: `BatchEnv` for PPO, `SimulatedEnv` for everything that acts.

`BatchEnv` is a Gymnasium vector environment. A row that ends starts its next episode in the same step: the observation returned is the
first of the new episode, and `info["final_obs"]` is what the step really led to (for every row, ended or not).
With `AutoresetMode.DISABLED` an ended row stands still until it is reset: so `SimulatedEnv`, which is a `TaskEnv`, uses it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import Any

import mujoco
import mujoco.batch
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from tandem.envs.physics import BatchPhysics, Physics, camera_names
from tandem.envs.rendering import Camera
from tandem.envs.rows import STREAMS
from tandem.envs.spaces import action_space, observation_space
from tandem.envs.task import ALL, Rows, Task
from tandem.envs.task_env import Capabilities
from tandem.errors import ConfigError, SimulationDiverged
from tandem.layouts import ActionLayout
from tandem.types import Observation, Spec, Step


class BatchEnv(VectorEnv):
    """`num_envs` rows of a task on `num_threads` threads (0: one per core)."""

    saves = True

    def __init__(self, task: Task, num_envs: int, *, num_threads: int = 0, autoreset: AutoresetMode = AutoresetMode.SAME_STEP) -> None:
        if num_envs < 1:
            raise ConfigError(f"a BatchEnv of '{task.spec.task}' needs at least one simulation, got num_envs={num_envs}")
        if autoreset not in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):
            raise ConfigError(f"BatchEnv resets in the same step or not by itself (SAME_STEP, DISABLED), got {autoreset}")
        self.task = task
        self.task_spec, self.symmetry = task.spec, task.symmetry
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": autoreset, "render_fps": round(task.spec.control_hz)}
        self.single_observation_space = observation_space(task.spec)
        self.single_action_space = action_space(task.spec)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._layout = ActionLayout.of(task.spec)

        self.model = task.build()
        threads = min(num_envs, num_threads or os.cpu_count() or 1)
        self.batch = mujoco.batch.Batch(self.model, num_envs, nthread=threads, persistent=task.persistent)
        self._warnings = self.batch.warning[:, :, 1]  # counts (num_envs, kind), live
        self._start = np.array(self.batch.state[0])
        """The state that the model starts from; all there is to a simulation."""
        task.bind(self.batch)
        self.streams = [np.random.default_rng() for _ in range(num_envs)]
        self._autoreset = autoreset == AutoresetMode.SAME_STEP
        self._elapsed = np.zeros(num_envs, int)
        self._standing = np.ones(num_envs, bool)  # ended and not yet reset; before the first reset, all of them
        self._last: Observation = {name: np.zeros((num_envs, *entry.shape), entry.dtype) for name, entry in task.spec.observation.items()}

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start new episodes in all rows, or in those of `options["reset_mask"]`. Row i of `seed=s` gets the seed s + i."""
        mask = (options or {}).get("reset_mask")
        rows = np.arange(self.num_envs) if mask is None else np.flatnonzero(mask)
        if seed is not None:
            seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else list(seed)
            if len(seeds) != self.num_envs:
                raise ConfigError(f"reset of {self.num_envs} simulations got {len(seeds)} seeds; give one seed, or one for each")
            for row in rows:
                if seeds[row] is not None:
                    self.streams[row] = np.random.default_rng(seeds[row])
        return self.begin(rows), {}

    def begin(self, rows: np.ndarray) -> Observation:
        """New episodes in these rows (indices in rising order); returns the observation of all rows, copied."""
        if len(rows):
            self._begin(rows)
        return {name: values.copy() for name, values in self._last.items()}

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        actions = self._layout.checked(actions, (self.num_envs,), self.task_spec.task)
        rows: Rows = np.flatnonzero(~self._standing) if self._standing.any() else ALL
        if isinstance(rows, slice) or len(rows):
            reward, terminated, truncated, info = self._advance(rows, actions[rows])
        else:
            reward, (terminated, truncated, success) = np.zeros(self.num_envs), (np.zeros(self.num_envs, bool) for _ in range(3))
            info: dict[str, Any] = {"success": success}
        ended = terminated | truncated
        info["success_known"] = self.task_spec.return_range is not None
        info["final_obs"], info["_final_obs"] = {name: values.copy() for name, values in self._last.items()}, ended
        if ended.any():
            self._standing |= ended
            if self._autoreset:
                self._begin(np.flatnonzero(ended))
        return {name: values.copy() for name, values in self._last.items()}, reward, terminated, truncated, info

    def _advance(self, rows: Rows, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One step of these rows; nothing happens in the others."""
        self.task.advance(rows, actions, self._streams_of(rows))
        self._check_warnings(rows)
        self._elapsed[rows] += 1
        judgement = self.task.judge(rows)
        reward, terminated, success = (self._spread(rows, part) for part in (judgement.reward, judgement.terminated, judgement.success))
        truncated = self._spread(rows, self._elapsed[rows] >= self.task_spec.max_episode_steps) & ~terminated
        info: dict[str, Any] = {"success": success}
        if judgement.terms:
            info["reward_terms"] = {name: self._spread(rows, part) for name, part in judgement.terms.items()}
        self._remember(rows, self.task.observe(rows))
        return reward, terminated, truncated, info

    def set_elapsed(self, steps: np.ndarray) -> None:
        """Set the age of each row's episode in steps, so that rows that began together do not all end together."""
        steps = np.asarray(steps)
        limit = self.task_spec.max_episode_steps
        if steps.shape != (self.num_envs,) or steps.min() < 0 or steps.max() >= limit:
            raise ConfigError(
                f"set_elapsed of {self.num_envs} simulations of '{self.task_spec.task}' takes one age each, of 0 to {limit - 1} steps; "
                f"got shape {steps.shape}, {steps.min()} to {steps.max()}"
            )
        self._elapsed[:] = steps

    def halt(self, reason: str) -> None:
        """A simulation moves only inside of `step`."""

    def close_extras(self, **kwargs: Any) -> None:
        self.task.close()

    def figures(self) -> dict[str, float]:
        return {} if self.task.figures is None else self.task.figures()

    def _begin(self, rows: np.ndarray) -> None:
        chosen: Rows = ALL if len(rows) == self.num_envs else rows
        self.batch.state[chosen] = self._start  # what batch.reset does, without waking its threads
        self._warnings[chosen] = 0
        self.task.reset(chosen, self._streams_of(chosen))
        self._check_warnings(chosen)
        self._elapsed[rows] = 0
        self._standing[rows] = False
        self._remember(chosen, self.task.observe(chosen))

    def _remember(self, rows: Rows, observation: Observation) -> None:
        if isinstance(rows, slice):
            self._last = observation
            return
        for name, values in observation.items():
            self._last[name][rows] = values

    def _spread(self, rows: Rows, values: np.ndarray) -> np.ndarray:
        """Values of some rows as an array of all rows, zero in the others."""
        if isinstance(rows, slice):
            return values.copy()
        spread = np.zeros((self.num_envs, *values.shape[1:]), values.dtype)
        spread[rows] = values
        return spread

    def _streams_of(self, rows: Rows) -> list[np.random.Generator]:
        return self.streams if isinstance(rows, slice) else [self.streams[row] for row in rows]

    def _check_warnings(self, rows: Rows) -> None:
        # MuJoCo resets a simulation that left the finite numbers and goes on; nobody else would notice.
        counts = self._warnings[rows]
        if counts.any():
            row, kind = np.argwhere(counts)[0]
            row = int(np.arange(self.num_envs)[rows][row])
            raise SimulationDiverged(
                f"task '{self.task_spec.task}', simulation {row}: MuJoCo reports {mujoco.mjtWarning(int(kind)).name} after "
                f"{int(self._elapsed[row])} steps of the episode. Likely cause: contact too stiff for the time step, or a "
                f"randomised value out of its physical range. Replay the episode with the same seed to see it."
            )

    def state(self) -> dict[str, Any]:
        """Everything that decides the future of these simulations, copied, as arrays; `restore` continues bit for bit."""
        return {
            "physics": np.array(self.batch.state),
            "memory": {name: array.copy() for name, array in self.task.memory().items()},
            "last": {name: array.copy() for name, array in self._last.items()},
            "elapsed": self._elapsed.copy(),
            "standing": self._standing.copy(),
            STREAMS: np.stack([_stream_to_array(stream) for stream in self.streams]),
        }

    def restore(self, state: dict[str, Any]) -> Observation:
        """Continue where `state` was taken; returns the observation that the next action answers."""
        for name, array in self.task.memory().items():
            array[:] = state["memory"][name]
        self.batch.state[:] = state["physics"]
        self.batch.forward()
        self.batch.state[:] = state["physics"]  # forward moves the solver's warm start, which is part of the state
        for name, array in self._last.items():
            array[:] = state["last"][name]
        self._elapsed[:], self._standing[:] = state["elapsed"], state["standing"]
        for stream, saved in zip(self.streams, _saved_streams(state[STREAMS]), strict=True):
            stream.bit_generator.state = saved
        return {name: array.copy() for name, array in self._last.items()}


class SimulatedEnv:
    """`num_envs` simulations of a task as a `TaskEnv`, reset only when asked. `camera` and `size` are those of `render`."""

    def __init__(
        self, task: Task, num_envs: int = 1, *, num_threads: int = 0, camera: str | None = None, size: tuple[int, int] = (640, 480)
    ) -> None:
        self.batch = BatchEnv(task, num_envs, num_threads=num_threads, autoreset=AutoresetMode.DISABLED)
        self.spec: Spec = task.spec
        self.num_envs = num_envs
        self.capabilities = Capabilities(saves=True, renders=True, cameras=camera_names(self.batch.model))
        self._camera_name, self._size = camera, size
        self._camera: Camera | None = None

    def reset(self, rows: Sequence[int] | None = None, seeds: Sequence[int | None] | None = None) -> Observation:
        chosen = np.arange(self.num_envs) if rows is None else np.asarray(rows, int)
        if seeds is not None and len(seeds) != len(chosen):
            raise ConfigError(f"reset of {len(chosen)} simulations of '{self.spec.task}' got {len(seeds)} seeds; give one for each")
        for row, seed in zip(chosen, seeds or (), strict=False):
            if seed is not None:
                self.batch.streams[row] = np.random.default_rng(seed)
        return self.batch.begin(chosen)

    def step(self, action: np.ndarray) -> Step:
        began = time.perf_counter()
        observation, reward, terminated, truncated, info = self.batch.step(action)
        return Step(
            observation,
            reward,
            terminated,
            truncated,
            info["success"],
            success_known=info["success_known"],
            reward_terms=info.get("reward_terms", {}),
            seconds=time.perf_counter() - began,
        )

    def halt(self, reason: str) -> None:
        """A simulation moves only inside of `step`."""

    def state(self) -> dict[str, Any]:
        return self.batch.state()

    def restore(self, state: dict[str, Any]) -> Observation:
        return self.batch.restore(state)

    def render(self) -> np.ndarray:
        if self._camera is None:
            self._camera = Camera(self.batch.batch, self._camera_name, self._size)
        return self._camera.picture(0)

    def physics(self) -> Physics:
        return BatchPhysics(self.batch.batch)

    def close(self) -> None:
        if self._camera is not None:
            self._camera.close()
            self._camera = None
        self.batch.close()


_LOW_BITS = 2**64 - 1


def _stream_to_array(stream: np.random.Generator) -> np.ndarray:
    """(6,) int64: the two 128-bit integers of a PCG64 as halves, and the half word that it has left over."""
    saved = stream.bit_generator.state
    state, increment = saved["state"]["state"], saved["state"]["inc"]
    words = (state >> 64, state & _LOW_BITS, increment >> 64, increment & _LOW_BITS, saved["has_uint32"], saved["uinteger"])
    return np.array(words, np.uint64).view(np.int64)


def _saved_streams(saved: Any) -> list[dict[str, Any]]:
    """The random streams as NumPy takes them. Checkpoints written before they were arrays hold them as JSON text."""
    if isinstance(saved, str):
        return json.loads(saved)
    streams = []
    for words in np.asarray(saved, np.int64).view(np.uint64).tolist():
        numbers = {"state": words[0] << 64 | words[1], "inc": words[2] << 64 | words[3]}
        streams.append({"bit_generator": "PCG64", "state": numbers, "has_uint32": words[4], "uinteger": words[5]})
    return streams
