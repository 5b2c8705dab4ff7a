"""The benchmark of foreign worlds: its tasks and scripts exist, and what was measured is kept and not mixed."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from benchmarks.worlds import PACKAGES, WORLDS, Results, pooled, report_of, settings_of
from tandem.off_policy.recipes import RECIPES, default

ROOT = Path(__file__).parents[1]
CONDITIONS = {"minutes": 10.0, "episodes": 50, "recipe": "fitted"}


@pytest.fixture
def foreign_path(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (ROOT / "benchmarks", ROOT / "examples" / "operators"):
        monkeypatch.syspath_prepend(str(folder))


@pytest.mark.usefixtures("foreign_path")
def test_every_task_is_registered_and_has_an_operator() -> None:
    importlib.import_module("worlds_tasks")
    assert len(WORLDS) == 8 and {world.package for world in WORLDS.values()} == set(PACKAGES)
    for task, world in WORLDS.items():
        module, _, cls = world.operator.partition(":")
        assert task in gymnasium.registry and gymnasium.spec(task).max_episode_steps
        assert callable(getattr(importlib.import_module(module), cls).decide)


@pytest.mark.usefixtures("foreign_path")
def test_the_tasks_import_nothing_of_tandem() -> None:
    source = (ROOT / "benchmarks" / "worlds_tasks.py").read_text()
    assert "tandem" not in [
        line.split()[1].partition(".")[0] for line in source.splitlines() if line.strip().startswith(("import ", "from "))
    ]


class Counting(gymnasium.Env):
    """Succeeds at the third step, and says so under its own name."""

    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return np.zeros(1, np.float32), -7.0, False, False, {"is_success": float(self.steps == 3)}


@pytest.mark.usefixtures("foreign_path")
def test_the_reward_is_one_at_success_and_ends_the_episode() -> None:
    env = importlib.import_module("worlds_tasks").SparseSuccess(Counting(), "is_success")
    env.reset()
    seen = [env.step(np.zeros(1, np.float32))[1:] for _ in range(3)]
    assert seen == [(0.0, False, False, {"success": False})] * 2 + [(1.0, True, False, {"success": True})]
    assert env.metadata["tandem"] == {"return_range": [0.0, 1.0]}


@pytest.mark.usefixtures("foreign_path")
def test_a_script_goes_over_the_object_then_down_and_closes_at_it() -> None:
    lift = importlib.import_module("grasping_scripts").FetchPickAndPlace()
    lift.reset()

    def decided(gripper: list[float]) -> np.ndarray:
        at, cube = np.array(gripper, np.float32), np.array([0.1, 0.0, 0.0], np.float32)
        return lift.decide({"observation": at, "achieved_goal": cube, "desired_goal": cube + np.float32(0.1)})[0]

    over, down = decided([0.0, 0.0, 0.0]), decided([0.1, 0.0, 0.08])
    assert over[0] > 0 and over[2] > 0 and over[3] == 1, "sideways and up, the gripper open"
    assert abs(down[0]) < 1e-6 and down[2] < 0 and down[3] == 1, "straight down"
    closing = [decided([0.1, 0.0, 0.005]) for _ in range(lift.closing_steps)]
    carried = decided([0.1, 0.0, 0.005])
    assert all(action[3] == -1 and action[2] <= 0 for action in closing) and carried[3] == -1 and (carried[:3] > 0).all()
    assert decided([0.3, 0.0, 0.0])[3] == 1, "it slipped out: open again"


def test_results_are_kept_and_continued(tmp_path: Path) -> None:
    results = Results(tmp_path / "runs" / "results.json", CONDITIONS)
    results.keep("Lift-v0", "rlpd", 0, {"successes": 48, "episodes": 50})
    again = Results(tmp_path / "runs" / "results.json", CONDITIONS)
    assert again.of("Lift-v0", "rlpd", 0) == {"successes": 48, "episodes": 50, "settings": settings_of("fitted")}
    assert again.of("Lift-v0", "sbx", 0) is None
    assert pooled(again, "Lift-v0", "rlpd", (0,)) == (48, 50) and pooled(again, "Lift-v0", "rlpd", (0, 1)) is None
    with pytest.raises(SystemExit, match=r"measured with .*give another file with --results"):
        Results(tmp_path / "runs" / "results.json", {**CONDITIONS, "minutes": 1.0})


def test_a_recipe_that_has_changed_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results(tmp_path / "results.json", CONDITIONS)
    for method in ("rlpd", "cloning"):
        results.keep("Lift-v0", method, 0, {"successes": 48, "episodes": 50})
    monkeypatch.setitem(RECIPES, "fitted", lambda: replace(default(), batch_size=7))
    again = Results(tmp_path / "results.json", CONDITIONS)
    assert again.of("Lift-v0", "rlpd", 0) is None and again.of("Lift-v0", "cloning", 0) is not None


def test_figures_are_means_over_the_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = Results(tmp_path / "results.json", CONDITIONS)
    results.keep("Lift-v0", "rlpd", 0, {"successes": 46, "episodes": 50})
    results.keep("Assembly-v0", "rlpd", 0, {"successes": 45, "episodes": 50})
    results.keep("Lift-v0", "cloning", 0, {"successes": 10, "episodes": 50})
    report = report_of(results, ("Lift-v0", "Assembly-v0"), ("rlpd", "cloning", "sbx"), (0,))
    assert report.figures == pytest.approx({"mean_success": 0.91, "tasks_over_0_9": 1, "cloning_mean": 0.2})
    report.show(True)
    assert json.loads(capsys.readouterr().out)["figures"]["tasks_over_0_9"] == 1


def test_no_foreign_package_was_imported() -> None:
    assert not {"metaworld", "robosuite", "gymnasium_robotics", "gym_hil"} & set(sys.modules)
