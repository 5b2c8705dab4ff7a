"""The same life as Gymnasium's own environments, step by step and bit by bit."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from tandem.envs.batch import BatchEnv
from tandem.envs.foreign import GymnasiumEnv
from tandem.envs.locomotion import RULES, Locomotion
from tandem.envs.registry import make, make_batch
from tandem.envs.task import Task
from tandem.errors import ConfigError
from tandem.layouts import ActionLayout
from tandem.testing import TaskContract

ROWS, STEPS = 3, 1100
FALLS = {name for name, rules in RULES.items() if rules.healthy is not None}

# Gymnasium says that v4 is old, and complains of HalfCheetah's XML by writing a log file where it is run
pytestmark = pytest.mark.filterwarnings("ignore:.*out of date", "ignore:.*settotalmass")


@pytest.fixture(autouse=True)
def _log_file_elsewhere(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def gentle_and_wild(name: str, steps: int, rows: int) -> np.ndarray:
    """Actions (steps, rows, dim) of another strength in each row: some fall soon, some late, some at the end of their time."""
    random = np.random.default_rng(0)
    return random.uniform(-1, 1, (steps, rows, Locomotion(name).spec.action_dim)) * np.linspace(0.1, 1.0, rows)[:, None]


@pytest.mark.parametrize("name", RULES)
def test_every_step_is_gymnasiums_to_the_last_bit(name: str) -> None:
    """Own random streams are seeded as Gymnasium's, so that resets are the same too: whole lives are compared, episode after episode."""
    actions = gentle_and_wild(name, STEPS, ROWS)
    batch = make_batch(name, ROWS)
    assert isinstance(batch, BatchEnv)
    qpos, qvel = batch.batch.bind("qpos"), batch.batch.bind("qvel")
    theirs = [gymnasium.make(name) for _ in range(ROWS)]
    seen, _ = batch.reset(seed=40)
    for row, env in enumerate(theirs):
        assert np.array_equal(seen["state"][row], env.reset(seed=40 + row)[0].astype(np.float32))
    falls = time_outs = 0
    for step, action in enumerate(actions):
        seen, reward, terminated, truncated, info = batch.step(action)
        for row, env in enumerate(theirs):
            inner = env.unwrapped
            state, expected, fallen, timed_out, _ = env.step(action[row] * inner.action_space.high)  # pyright: ignore
            where = f"{name}, row {row}, step {step}"
            assert np.array_equal(info["final_obs"]["state"][row], state.astype(np.float32)), where
            assert reward[row] == expected and terminated[row] == fallen and truncated[row] == (timed_out and not fallen), where
            assert np.isclose(sum(part[row] for part in info["reward_terms"].values()), float(expected), rtol=1e-12, atol=1e-12), where
            if fallen or timed_out:
                falls, time_outs = falls + fallen, time_outs + timed_out
                assert np.array_equal(seen["state"][row], env.reset()[0].astype(np.float32)), where
            assert np.array_equal(qpos[row], inner.data.qpos) and np.array_equal(qvel[row], inner.data.qvel), where  # pyright: ignore
    assert falls or name not in FALLS, "not one fall was compared"
    assert time_outs or name in FALLS


@pytest.mark.parametrize("name", RULES)
def test_the_spec_is_the_one_that_gymnasiums_own_environment_would_have(name: str) -> None:
    ours, theirs = Locomotion(name).spec, GymnasiumEnv(name, [gymnasium.make(name)]).spec
    assert ours.hash == theirs.hash, ours.difference(theirs)


def test_the_pendulums_action_is_scaled_to_its_range() -> None:
    assert ActionLayout.of(Locomotion("InvertedPendulum-v4").spec).scales == 3.0


@pytest.mark.parametrize(
    ("name", "last"), [("InvertedPendulum-v4", 1.0), ("InvertedPendulum-v5", 0.0), ("Hopper-v4", 1.0), ("Hopper-v5", 0.0)]
)
def test_the_step_that_falls_is_paid_in_v4_and_not_in_v5(name: str, last: float) -> None:
    env = make(name)
    env.reset(seed=0)
    terminated = False
    while not terminated:
        *_, terminated, _, info = env.step(np.ones(env.action_space.shape or ()))
    assert info["reward_terms"]["healthy"] == last and info["success"] is False


def test_ants_contacts_are_observed_and_paid_for_in_v5_only() -> None:
    old, new = Locomotion("Ant-v4"), Locomotion("Ant-v5")
    # 15 positions without x and y, 14 velocities; then 13 bodies without the world, a torque and a force each
    assert old.spec.observation["state"].shape == (13 + 14,) and new.spec.observation["state"].shape == (13 + 14 + 13 * 6,)
    env = BatchEnv(new, 2)
    first, _ = env.reset(seed=0)
    assert not first["state"][:, 27:].any(), "nothing is felt before the first step"
    felt = False
    for _ in range(30):
        seen, *_, info = env.step(np.zeros((2, 8)))
        touching = seen["state"][:, 27:].any(axis=1)
        assert np.array_equal(info["reward_terms"]["contact"] < 0, touching)
        felt |= touching.all()
    assert felt and np.abs(seen["state"][:, 27:]).max() <= 1.0


@pytest.mark.parametrize("name", ["Ant-v4", "Ant-v5"])
def test_ants_progress_survives_a_save(name: str) -> None:
    """It is measured from where MuJoCo last computed the torso to be, which is not part of the physics' state."""
    actions = gentle_and_wild(name, 12, 2)
    env, other = BatchEnv(Locomotion(name), 2), BatchEnv(Locomotion(name), 2)
    env.reset(seed=1), other.reset(seed=2)
    for action in actions[:6]:
        env.step(action)
    other.restore(env.state())
    for action in actions[6:]:
        assert np.array_equal(env.step(action)[1], other.step(action)[1])


def test_episodes_can_be_made_to_end_at_different_times() -> None:
    env = BatchEnv(Locomotion("HalfCheetah-v4"), 3)
    env.reset(seed=0)
    env.set_elapsed(np.array([997, 998, 0]))
    ends = [env.step(np.zeros((3, 6)))[3].tolist() for _ in range(3)]
    assert ends == [[False, False, False], [False, True, False], [True, False, False]]
    with pytest.raises(ConfigError, match="0 to 999"):
        env.set_elapsed(np.array([0, 1000, 0]))


def test_an_unknown_id_is_refused() -> None:
    with pytest.raises(ConfigError, match="HalfCheetah-v4"):
        Locomotion("Humanoid-v4")


def test_a_row_that_fell_stands_still_until_it_is_reset() -> None:
    env = BatchEnv(Locomotion("InvertedPendulum-v4"), 2, autoreset=AutoresetMode.DISABLED)
    env.reset(seed=0)
    env.batch.bind("qvel")[0, 1] = 5.0  # the first pole is pushed over
    for _ in range(2):
        seen, reward, terminated, _, info = env.step(np.zeros((2, 1)))
    assert terminated.tolist() == [True, False]
    later, reward, _, _, info = env.step(np.zeros((2, 1)))
    assert np.array_equal(later["state"][0], seen["state"][0]) and reward[0] == info["reward_terms"]["healthy"][0] == 0.0
    assert reward[1] == 1.0 and not np.array_equal(later["state"][1], seen["state"][1])


class TestHalfCheetah(TaskContract):
    def make_task(self) -> Task:
        return Locomotion("HalfCheetah-v4")


class TestHopper(TaskContract):
    idle = 20

    def make_task(self) -> Task:
        return Locomotion("Hopper-v5")


class TestAnt(TaskContract):
    idle = 50  # it stands; this is to save time

    def make_task(self) -> Task:
        return Locomotion("Ant-v5")
