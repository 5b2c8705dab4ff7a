"""Any environment by name, behind one face."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from tandem.acting.evaluate import evaluate
from tandem.acting.limits import settings_for
from tandem.envs import registry
from tandem.envs.limits import LimitSettings
from tandem.envs.locomotion import RULES
from tandem.envs.reach import Reach
from tandem.envs.registry import make, make_batch, make_env, make_expert, register_task, spec_for
from tandem.errors import ConfigError, UnknownTaskError
from tandem.layouts import ActionLayout
from tandem.programs.record import play_episode


def test_an_unknown_task_suggests_the_nearest() -> None:
    with pytest.raises(UnknownTaskError, match="Did you mean 'gear_assembly'"):
        make("gear_asembly")
    with pytest.raises(UnknownTaskError, match="'Pendulum-v1'"):
        make("Pendulm-v1")
    with pytest.raises(UnknownTaskError, match="PYTHONPATH"):
        make("no_such_module:Thing-v0")


def test_the_names_of_locomotion_tasks_are_known_without_importing_them() -> None:
    assert tuple(RULES) == registry._LOCOMOTION


WITHOUT_MUJOCO = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == BLOCKED or name.startswith(BLOCKED + "."):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Blocked())
import numpy as np
import tandem.acting.actor, tandem.cli, tandem.programs.actor, tandem.programs.evaluate, tandem.programs.record, tandem.programs.tasks
from tandem.envs.registry import make_batch, make_env
from tandem.errors import ConfigError
for name in ("Pendulum-v1", f"serve:{sys.executable}:Pendulum-v1"):
    env = make_env(name)
    env.reset(seeds=[0])
    env.step(np.zeros((1, 1)))
    env.close()
batch = make_batch("Pendulum-v1", 2)
batch.reset(seed=0)
batch.step(np.zeros((2, 1)))
assert not [name for name in sys.modules if name == "mujoco.batch"]
try:
    make_env("reach")
except ConfigError as problem:
    assert "MuJoCo >= 4.0" in str(problem), problem
else:
    raise AssertionError("a task without its simulator")
"""


@pytest.mark.parametrize("blocked", ["mujoco", "mujoco.batch"])
def test_foreign_and_served_environments_need_no_mujoco(blocked: str) -> None:
    """It is not installed, or is an older version, pinned by the package of the environment."""
    made = subprocess.run([sys.executable, "-c", WITHOUT_MUJOCO.replace("BLOCKED", repr(blocked))], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


def test_a_gymnasium_environment_gets_dict_observations_and_unit_actions() -> None:
    env, raw = make("Pendulum-v1"), gymnasium.make("Pendulum-v1")
    seen, _ = env.reset(seed=3)
    raw.reset(seed=3)
    assert ActionLayout.of(env.task_spec).scales == 2.0  # Pendulum takes torques of -2 .. 2
    observation, reward, *_ = env.step(np.array([0.5]))
    expected, expected_reward, *_ = raw.step(np.array([1.0], np.float32))
    assert np.allclose(observation["state"], expected) and np.isclose(float(reward), float(expected_reward))
    assert seen["state"].dtype == np.float32


def test_a_gymnasium_batch_tells_the_final_observation_from_the_first_of_the_next_episode() -> None:
    batch = make_batch("Pendulum-v1", 2)
    batch.reset(seed=0)
    for step in range(1, 201):
        observation, _, terminated, truncated, info = batch.step(np.full((2, 1), 0.1))
        same = np.array_equal(observation["state"], info["final_obs"]["state"])
        assert same == (step < 200) and truncated.all() == (step == 200) and not terminated.any()
    batch.close()


def test_a_users_own_environment_by_module_and_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_robot.py").write_text(
        "import gymnasium, numpy as np\n"
        "class Box(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Dict({'q': gymnasium.spaces.Box(-1, 1, (2,)), 'v': gymnasium.spaces.Box(-1, 1, (3,))})\n"
        "    action_space = gymnasium.spaces.Box(-3, 5, (1,))\n"
        "    buffer = {'q': np.zeros(2, np.float32), 'v': np.zeros(3, np.float32)}\n"
        "    def reset(self, seed=None, options=None):\n"
        "        return self.buffer, {}\n"
        "    def step(self, action):\n"
        "        self.buffer['q'][:] = action\n"
        "        return self.buffer, 0.0, False, False, {'is_success': True}\n"
        "gymnasium.register('Box-v0', Box, disable_env_checker=True, order_enforce=False)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    env = make("my_robot:Box-v0")
    first, _ = env.reset()
    observation, *_, info = env.step(np.array([1.0]))
    assert observation["q"][0] == 5.0 and info["success"] is True
    assert first["q"][0] == 0.0, "an environment that reuses its buffer must not change what was handed out"
    sys.modules.pop("my_robot")
    gymnasium.registry.pop("Box-v0")


def test_discrete_actions_and_missing_experts_are_refused() -> None:
    with pytest.raises(ConfigError, match="continuous"):
        make("CartPole-v1")
    with pytest.raises(ConfigError, match="no scripted operator"):
        make_expert("Pendulum-v1")
    with pytest.raises(ConfigError, match="num_envs=0"):
        make_batch("reach", 0)
    with pytest.raises(ConfigError, match="num_envs=0"):
        make_env("Pendulum-v1", 0)


@pytest.mark.parametrize(
    ("name", "hash_before"),
    [
        ("reach", "bb6912ece5cdee39"),
        ("gear_assembly", "0d9dfea4c7a7c9c3"),
        ("gear_pick_assembly", "4d8350192aeca89a"),
        ("gear_lift_threeway", "a06a42eea26f260d"),
        ("cartpole", "837a854e52303c5b"),
        ("recall", "8ccb10ac9a9849de"),
        ("HalfCheetah-v4", "502610b942012041"),
        ("Pendulum-v1", "21906084e5afc6ac"),
    ],
)
def test_the_hash_of_a_task_is_that_of_its_older_runs_and_journals(name: str, hash_before: str) -> None:
    assert spec_for(name).hash == hash_before


OWN = """
import dataclasses
from tandem.envs.limits import LimitSettings
from tandem.envs.reach import SPEC, Reach, ReachExpert
from tandem.envs.registry import register_task

class Touch(Reach):
    def __init__(self):
        super().__init__()
        self.spec = dataclasses.replace(SPEC, task="touch")

register_task("touch", Touch, "touch the ball", camera="front", expert=ReachExpert, limits=LimitSettings(speed=(0.1,) * 3, reset_s=5.0))
"""


def test_a_users_own_task_is_known_everywhere_by_its_module_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_tasks.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "TASKS", dict(registry.TASKS))
    monkeypatch.setattr(registry, "_OWN", set())
    with pytest.raises(UnknownTaskError):
        make_env("touch")
    env = make_env("my_tasks:touch", 2)
    assert env.spec.task == "touch" and env.capabilities.saves and "front" in env.capabilities.cameras
    assert settings_for("my_tasks:touch", env.spec, realtime=True) == LimitSettings(speed=(0.1,) * 3, reset_s=5.0)
    steps = play_episode(make_env("my_tasks:touch"), make_expert("my_tasks:touch", 0), seed=0)
    assert steps[-1].success
    assert evaluate("my_tasks:touch", lambda seen: np.zeros((len(seen["to_ball"]), 3)), range(2)).length.tolist() == [30, 30]
    assert make_batch("my_tasks:touch", 2).task_spec.task == "touch" and make_env("touch").spec.task == "touch"
    sys.modules.pop("my_tasks")


def test_a_registration_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "TASKS", dict(registry.TASKS))
    for name, says in (("reach", "there is one already"), ("a:b", "no colon"), ("touch", "its spec says 'reach'")):
        with pytest.raises(ConfigError, match=says):
            register_task(name, Reach)
    assert "touch" not in registry.TASKS
