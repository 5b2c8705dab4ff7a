"""A film that takes too long ends where it is; a robot that is shown stands still afterwards."""

import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from tandem.envs.foreign import GymnasiumEnv
from tandem.envs.registry import make_env
from tandem.envs.task_env import TaskEnv
from tandem.layouts import ActionLayout
from tandem.programs.filming import film_episodes
from tandem.programs.viewing import play
from tandem.teleop.operator import Still


class SlowPainter(gymnasium.Env):
    """Each picture takes 50 ms; an episode has a thousand steps."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    render_mode = "rgb_array"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), 0.0, False, False, {"success": False}

    def render(self) -> np.ndarray:
        time.sleep(0.05)
        return np.zeros((48, 64, 3), np.uint8)


def test_a_film_ends_after_its_seconds_and_is_whole(tmp_path: Path) -> None:
    env = GymnasiumEnv("slow", [SlowPainter()])
    began = time.monotonic()
    film, strip, outcomes = film_episodes(env, Still(ActionLayout.of(env.spec)), 5, 0, tmp_path, "slow", seconds=1.0)
    assert time.monotonic() - began < 20, "five episodes would take more than four minutes"
    assert film.stat().st_size > 0 and strip.exists() and not list(tmp_path.glob(".*"))
    assert len(outcomes) == 1 and "cut off after" in outcomes[0]


def test_a_robot_that_is_shown_in_a_window_is_halted_when_the_window_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However it ends: here by Ctrl-C. The window itself needs a screen and stands for any program that plays."""
    halts: list[str] = []

    def make(task: str, **options: Any) -> TaskEnv:
        env = make_env(task)
        monkeypatch.setattr(env, "halt", halts.append)
        return env

    def window(env: TaskEnv, *rest: Any) -> None:
        env.reset([0], [0])
        env.step(np.zeros((1, 3)))
        raise KeyboardInterrupt

    monkeypatch.setattr("tandem.envs.registry.make_env", make)
    monkeypatch.setattr("tandem.programs.filming.show_live", window)
    monkeypatch.setenv("DISPLAY", ":0")
    with pytest.raises(KeyboardInterrupt):
        play("reach")
    assert halts == ["the program ends"]
