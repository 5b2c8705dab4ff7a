"""What a batch does when the physics does not hold."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tandem.envs.batch import BatchEnv
from tandem.envs.locomotion import Locomotion
from tandem.envs.reach import Reach
from tandem.envs.task import Task
from tandem.errors import SimulationDiverged


@pytest.mark.parametrize("build", [Reach, lambda: Locomotion("Ant-v5")], ids=["reach", "Ant-v5"])
def test_a_simulation_that_leaves_the_finite_numbers_is_named_and_a_reset_mends_it(
    build: Callable[[], Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log file
    task = build()
    env, nothing = BatchEnv(task, 3), np.zeros((3, task.spec.action_dim))
    env.reset(seed=0)
    env.step(nothing)
    env.batch.bind("qvel")[1, 0] = np.nan
    with pytest.raises(SimulationDiverged, match=rf"'{task.spec.task}', simulation 1: .* after 1 steps"):
        env.step(nothing)
    first, _ = env.reset(seed=0)
    again, *_ = env.step(nothing)
    twin = BatchEnv(build(), 3)
    for name, values in twin.reset(seed=0)[0].items():
        assert np.array_equal(first[name], values)
    for name, values in twin.step(nothing)[0].items():
        assert np.array_equal(again[name], values), "something of the lost simulation was left"
