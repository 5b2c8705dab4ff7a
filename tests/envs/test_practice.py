"""Practice is easier, or other, than the task; where there is none the task is what it was."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from tandem.envs.batch import BatchEnv
from tandem.envs.gear_assembly import GearAssembly
from tandem.envs.gear_assembly.practice import LOWEST_START, ON_THE_PEG, STEP_DOWN, STEP_UP, Levels
from tandem.envs.gear_assembly.task import GearOptions
from tandem.envs.registry import make_batch
from tandem.envs.task import Practice
from tandem.errors import ConfigError


def started(practice: Practice | None, rows: int = 16) -> tuple[BatchEnv, GearAssembly, np.ndarray]:
    task = GearAssembly(practice=practice)
    env = BatchEnv(task, rows, autoreset=AutoresetMode.DISABLED)
    observation, _ = env.reset(seed=0)
    return env, task, observation["tcp_pose"]


def at_level(level: float, rows: int = 16) -> tuple[BatchEnv, GearAssembly]:
    task = GearAssembly(practice=Practice(curriculum=True))
    env = BatchEnv(task, rows, autoreset=AutoresetMode.DISABLED)
    task.levels.level[:] = level
    env.reset(seed=0)
    return env, task


@pytest.mark.parametrize("level", [0.0, 0.2, ON_THE_PEG])
def test_on_the_peg_nothing_is_left_to_do_but_to_push(level: float) -> None:
    env, task = at_level(level)
    assert not task.board.measured_error.any()
    down = np.zeros((16, 6))
    down[:, 2] = -1
    seated = np.zeros(16, bool)
    for _ in range(12):
        seated |= env.step(down)[4]["success"]
    assert seated.mean() > 0.9


def test_beyond_the_peg_every_range_widens_to_the_tasks_own() -> None:
    _, hard, _ = started(None)
    half = (1 + ON_THE_PEG) / 2
    _, task = at_level(half)
    # the same draws, half as wide
    np.testing.assert_allclose(task.board.measured_error, 0.5 * hard.board.measured_error, atol=1e-12)


def test_the_start_rises_with_the_level() -> None:
    levels = Levels(3, curriculum=True)
    levels.level[:] = [0, ON_THE_PEG / 2, 1]
    peg = 0.021
    assert [levels.start(row, peg) for row in range(3)] == pytest.approx([LOWEST_START, (LOWEST_START + peg) / 2, peg])


def test_at_level_one_an_episode_is_the_tasks_own_to_the_last_bit() -> None:
    _, _, expected = started(None, rows=4)
    task = GearAssembly(practice=Practice(curriculum=True))
    env = BatchEnv(task, 4, autoreset=AutoresetMode.DISABLED)
    task.levels.level[:] = 1
    observation, _ = env.reset(seed=0)
    assert np.array_equal(observation["tcp_pose"], expected)


def test_success_raises_the_level_of_its_own_row_and_failure_lowers_it_by_half_as_much() -> None:
    levels = Levels(3, curriculum=True)
    levels.level[:] = 0.5
    levels.finished_step(slice(None), np.array([True, False, True]))
    levels.begin(np.array([0, 1]))  # the third episode goes on
    np.testing.assert_allclose(levels.level, [0.5 + STEP_UP, 0.5 - STEP_DOWN, 0.5])
    levels.begin(np.array([0, 1]))  # begun again without a step: nothing was shown
    np.testing.assert_allclose(levels.level, [0.5 + STEP_UP, 0.5 - STEP_DOWN, 0.5])


def test_levels_stay_between_the_easiest_and_the_task_itself() -> None:
    levels = Levels(2, curriculum=True)
    for _ in range(30):
        levels.finished_step(slice(None), np.array([True, False]))
        levels.begin(slice(None))
    assert levels.level.tolist() == [1.0, 0.0] and levels.width(0) == 1.0


def test_randomised_physics_differs_between_rows_and_episodes_and_is_bounded() -> None:
    env, _, _ = started(Practice(randomise=0.3))
    friction = env.batch.expand("geom_friction")[:, :, 0] / env.model.geom_friction[:, 0]
    assert np.ptp(friction, axis=1).max() < 1e-6 and np.ptp(friction[:, 0]) > 0.1  # one factor a row
    assert (np.abs(friction - 1) <= 0.3).all()
    gain = env.batch.expand("actuator_gainprm")[:, 0, 0]
    # a spring is still one: what pulls to the command grows with what pulls from the pose
    np.testing.assert_allclose(gain, -env.batch.expand("actuator_biasprm")[:, 0, 1])
    before = gain.copy()
    env.reset(options={"reset_mask": np.arange(16) < 8})
    assert (gain[:8] != before[:8]).all() and (gain[8:] == before[8:]).all()


def test_a_randomised_simulation_is_saved_with_its_physics() -> None:
    env, _, _ = started(Practice(curriculum=True, randomise=0.3), rows=2)
    actions = np.full((2, 6), 0.3)
    env.step(actions)
    saved = env.state()
    expected = env.step(actions)[0]
    other, _, _ = started(Practice(curriculum=True, randomise=0.3), rows=2)
    other.reset(seed=99)
    other.restore(saved)
    for name, values in other.step(actions)[0].items():
        assert np.array_equal(values, expected[name]), name


def test_practice_is_refused_where_there_is_none_to_have() -> None:
    with pytest.raises(ConfigError, match=r"'reach' has neither a curriculum nor .*tasks that do: gear_assembly"):
        make_batch("reach", 2, practice=Practice(curriculum=True))
    make_batch("reach", 2, practice=Practice()).close()
    with pytest.raises(ConfigError, match="randomise must be from 0 to below 1"):
        Practice(randomise=1.0)


def test_the_ranges_of_the_task_itself_are_not_touched() -> None:
    assert GearAssembly(practice=Practice(curriculum=True, randomise=0.2)).options == GearOptions()
