"""The eight tasks of `benchmarks.worlds` as Gymnasium environments, each with the reward 1 at success and 0 before.

It runs in the Python of the package that it needs and imports nothing of Tandem: `gymnasium.make("worlds_tasks:Lift-v0")` makes one.
Every task ends at success; `info["success"]` says so. Nothing else of the packages is changed: observations, actions, control rate and
starts are their own. The episode lengths are about twice what the scripts of `examples/operators` need, or the packages' own.

As a program, `python worlds_tasks.py ID`, it steps one environment over pipes for a learner in another Python, in JSON lines:

    started           -> {"low": [..], "high": [..]}                     the range of the action
    {"reset": seed}   -> {"observation": {entry: values}}                seed null: the next start of its random stream
    {"step": action}  -> {"observation", "reward", "terminated", "truncated", "success"}
"""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import Any

import gymnasium
import numpy as np

METAWORLD = {
    "PegInsertSide-v0": ("peg-insert-side-v3", 200),
    "PickPlace-v0": ("pick-place-v3", 200),
    "DoorOpen-v0": ("door-open-v3", 200),
    "DrawerClose-v0": ("drawer-close-v3", 200),
    "Assembly-v0": ("assembly-v3", 200),
}
"""Metaworld's name and the episode length in steps (80 Hz)."""
LIFT_STEPS = 100
"""At 20 Hz."""
FETCH_STEPS = 50
"""Gymnasium-Robotics' own, at 25 Hz."""
PICK_STEPS = 100
"""gym-hil's own, at 10 Hz."""


class SparseSuccess(gymnasium.Wrapper):
    """The reward is 1 in the step that succeeds, and that step ends the episode."""

    def __init__(self, env: gymnasium.Env, key: str = "success") -> None:
        super().__init__(env)
        self._key = key
        self.metadata = {**env.metadata, "tandem": {"return_range": [0.0, 1.0]}}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, terminated, truncated, info = self.env.step(action)
        success = bool(info[self._key])
        return observation, float(success), bool(terminated) or success, bool(truncated), {"success": success}


class MetaworldTask(gymnasium.Wrapper):
    """A task of Metaworld that shows its goal and draws a new start from the seed at every reset."""

    def __init__(self, name: str, render_mode: str | None = None) -> None:
        from metaworld.env_dict import ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE

        super().__init__(ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE[f"{name}-goal-observable"](render_mode=render_mode))
        bare: Any = self.unwrapped
        bare._freeze_rand_vec, bare.seeded_rand_vec = False, True
        self.observation_space = bare.sawyer_observation_space  # what it declares itself has the goal at 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            bare: Any = self.unwrapped
            bare.seed(seed)  # its reset ignores the seed
        return self.env.reset(options=options)


class LiftTask(gymnasium.Env):
    """robosuite's Lift: a Panda with its default controller lifts a cube by 4 cm."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012  as Gymnasium has it
    ENTRIES = ("robot0_proprio-state", "object-state")

    def __init__(self, render_mode: str | None = None) -> None:
        import robosuite

        draws = render_mode == "rgb_array"
        self.render_mode = render_mode
        self._make = functools.partial(
            robosuite.make,
            "Lift",
            robots="Panda",
            has_renderer=False,
            has_offscreen_renderer=draws,
            use_camera_obs=False,
            control_freq=20,
            horizon=10 * LIFT_STEPS,  # Gymnasium's time limit comes first
            ignore_done=True,
            hard_reset=False,
        )
        self._env = self._make(seed=0)
        low, high = self._env.action_spec
        self.action_space = gymnasium.spaces.Box(low.astype(np.float32), high.astype(np.float32))
        shown = self._shown(self._env.reset())
        boxes = {name: gymnasium.spaces.Box(-np.inf, np.inf, values.shape, np.float32) for name, values in shown.items()}
        self.observation_space = gymnasium.spaces.Dict(boxes)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self._seed(seed)
        return self._shown(self._env.reset()), {}

    def _seed(self, seed: int) -> None:
        """robosuite takes a seed only when it is made; its parts keep the generator that they were given then."""
        self._env.rng.bit_generator.state = np.random.default_rng(seed).bit_generator.state

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        observation, reward, _, _ = self._env.step(action)
        return self._shown(observation), float(reward), False, False, {"success": bool(self._env._check_success())}

    def _shown(self, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: np.asarray(observation[name], np.float32) for name in self.ENTRIES}

    def render(self) -> np.ndarray:
        return self._env.sim.render(width=480, height=360, camera_name="frontview")[::-1]

    def close(self) -> None:
        self._env.close()


class PickCubeTask(gymnasium.Wrapper):
    """gym-hil's PandaPickCube from states, with a cube that lies elsewhere in every episode."""

    def __init__(self, render_mode: str | None = None) -> None:
        from gym_hil.wrappers.factory import make_env

        env = make_env("gym_hil/PandaPickCubeBase-v0", reset_delay_seconds=0.0, image_obs=False, random_block_position=True)
        super().__init__(env)
        del render_mode  # it always draws, to an image in memory

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            np.random.seed(seed % 2**32)  # noqa: NPY002  it draws the cube's place from NumPy's global generator
        return self.env.reset(seed=seed)

    def render(self) -> Any:
        pictures: Any = self.env.render()
        return pictures[0]


def make_metaworld(task: str, render_mode: str | None = None) -> gymnasium.Env:
    return SparseSuccess(MetaworldTask(task, render_mode))


def make_lift(render_mode: str | None = None) -> gymnasium.Env:
    return SparseSuccess(LiftTask(render_mode))


def make_fetch(render_mode: str | None = None) -> gymnasium.Env:
    """FetchPickAndPlace; its observation, achieved_goal and desired_goal are a flat dict already."""
    import gymnasium_robotics

    gymnasium.register_envs(gymnasium_robotics)
    env = gymnasium.make("FetchPickAndPlace-v4", render_mode=render_mode, max_episode_steps=-1, disable_env_checker=True)
    return SparseSuccess(env, "is_success")


def make_pick_cube(render_mode: str | None = None) -> gymnasium.Env:
    return SparseSuccess(PickCubeTask(render_mode), "succeed")


def _register(name: str, entry: Any, steps: int, **options: Any) -> None:
    gymnasium.register(name, entry_point=entry, max_episode_steps=steps, kwargs=options, disable_env_checker=True)


for _name, (_metaworld, _steps) in METAWORLD.items():
    _register(_name, make_metaworld, _steps, task=_metaworld)
_register("Lift-v0", make_lift, LIFT_STEPS)
_register("FetchPickAndPlaceSparse-v0", make_fetch, FETCH_STEPS)
_register("PandaPickCubeState-v0", make_pick_cube, PICK_STEPS)


def step_over_pipes(env: gymnasium.Env) -> None:
    """Until the pipe closes. What the packages print goes to stderr, not into the answers."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**values: Any) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    def listed(observation: Any) -> dict[str, list[float]]:
        entries = observation if isinstance(observation, dict) else {"state": observation}
        return {name: np.asarray(values, np.float32).ravel().tolist() for name, values in entries.items()}

    space: Any = env.action_space
    answer(low=space.low.tolist(), high=space.high.tolist())
    for line in sys.stdin:
        request = json.loads(line)
        if "reset" in request:
            answer(observation=listed(env.reset(seed=request["reset"])[0]))
            continue
        seen, reward, terminated, truncated, info = env.step(np.array(request["step"], space.dtype))
        answer(observation=listed(seen), reward=reward, terminated=terminated, truncated=truncated, success=info["success"])
    env.close()


if __name__ == "__main__":
    step_over_pipes(gymnasium.make(sys.argv[1]))
