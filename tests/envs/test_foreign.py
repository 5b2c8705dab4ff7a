"""Environments of others, many at a time: nothing they do to their buffers or shapes reaches the training unnoticed."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import make as make_gymnasium

from tandem.envs.foreign import GymnasiumEnv
from tandem.envs.registry import make, make_batch, make_env
from tandem.errors import ConfigError, UnknownTaskError
from tandem.programs.actor import ActorArgs, act
from tandem.programs.record import play_episode
from tandem.types import Observation

# A counter: row i counts from its seed in steps of one, and ends at a multiple of four (terminated) or of six (truncated).
MODULE = '''
import gymnasium, numpy as np
from gymnasium.vector import AutoresetMode

Box, Dict = gymnasium.spaces.Box, gymnasium.spaces.Dict
SHARED = np.zeros(2, np.float32)

class Counter(gymnasium.Env):
    """Every environment of this class hands out the very same buffer."""
    observation_space = Box(-np.inf, np.inf, (2,), np.float32)
    action_space = Box(-3.0, 5.0, (1,), np.float32)
    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.base, self.count = (seed if seed is not None else 1000), 0
        return self.seen(), {}
    def seen(self):
        SHARED[:] = self.base, self.count
        return SHARED
    def step(self, action):
        self.count += 1
        info = {"is_success": True} if self.count == 4 else {}
        return self.seen(), float(action[0]), self.count % 4 == 0 and self.base < 50, self.count == 6, info

class Named(Counter):
    observation_space = Dict({"base": Box(-np.inf, np.inf, (1,)), "count": Box(-np.inf, np.inf, (1,))})
    def seen(self):
        SHARED[:] = self.base, self.count
        return {"base": SHARED[:1], "count": SHARED[1:]}

class ListOfDones(Counter):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, np.array([terminated, terminated]), truncated, info

class ColumnOfRewards(Counter):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, np.array([reward]), terminated, truncated, info

class GrowingObservation(Counter):
    def seen(self):
        return np.zeros(2 if self.count < 2 else 3, np.float32)

class Choice(Counter):
    action_space = gymnasium.spaces.Discrete(3)

class Endless(Counter):
    action_space = Box(-np.inf, np.inf, (1,), np.float32)

class Words(Counter):
    observation_space = Dict({"count": Box(-np.inf, np.inf, (1,)), "words": gymnasium.spaces.Text(5)})

class Reports(Counter):
    """Executes half of what it is asked for, and says so; from the third step on a person has taken over. In its own units, -3 to 5."""
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        info = {"executed_action": 1 + 0.5 * (action - 1)} if self.count < 3 else {"intervene_action": np.array([5.0])}
        return observation, reward, terminated, truncated, info

class Robot(Counter):
    metadata = {"clock": "real", "render_modes": []}
    halted = 0
    def halt(self):
        self.halted += 1

class Native(gymnasium.vector.VectorEnv):
    """Steps its rows by itself, in one buffer."""
    mode, column, keeps_final = AutoresetMode.SAME_STEP, False, True
    def __init__(self, num_envs, max_episode_steps=None):
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": self.mode}
        self.single_observation_space = Box(-np.inf, np.inf, (1,), np.float32)
        self.single_action_space = Box(-3.0, 5.0, (1,), np.float32)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self.buffer = np.zeros((num_envs, 1), np.float32)
    def reset(self, *, seed=None, options=None):
        self.buffer[:, 0] = np.arange(self.num_envs)
        return self.buffer, {}
    def step(self, actions):
        self.buffer += 1
        ended = self.buffer[:, 0] >= 4
        info = {"final_obs": self.buffer.copy(), "_final_obs": ended} if self.keeps_final else {}
        self.buffer[ended] = 0
        dones = ended[:, None] if self.column else ended
        return self.buffer, actions[:, 0], dones, np.zeros(self.num_envs, bool), info

class NextStep(Native):
    mode = AutoresetMode.NEXT_STEP

class Column(Native):
    column = True

class Forgetful(Native):
    keeps_final = False

for kind in (Counter, Named, ListOfDones, ColumnOfRewards, GrowingObservation, Choice, Endless, Words, Reports, Robot):
    gymnasium.register(f"{kind.__name__}-v0", kind, disable_env_checker=True, order_enforce=False)
for kind in (Native, NextStep, Column, Forgetful):
    gymnasium.register(f"{kind.__name__}-v0", vector_entry_point=kind)
'''


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "counters.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(gymnasium.registry)
    yield
    sys.modules.pop("counters", None)
    for name in set(gymnasium.registry) - before:
        gymnasium.registry.pop(name)


def test_rows_that_share_a_buffer_are_kept_apart_and_final_observations_survive_the_reset() -> None:
    env = make_batch("counters:Counter-v0", 3)
    seen, _ = env.reset(seed=48)  # the bases 48, 49 and 50; only the first two are terminated, at 4
    assert seen["state"].tolist() == [[48, 0], [49, 0], [50, 0]]
    first = seen["state"].copy()
    for step in range(1, 8):
        seen, reward, terminated, truncated, info = env.step(np.array([[1.0], [0.0], [-1.0]]))
        assert reward.tolist() == [5.0, 1.0, -3.0], "the action's own range is -3 to 5"
        if step == 4:
            assert terminated.tolist() == [True, True, False] and not truncated.any()
            assert info["final_obs"]["state"].tolist() == [[48, 4], [49, 4], [50, 4]], "for every row, ended or not"
            assert seen["state"].tolist() == [[1000, 0], [1000, 0], [50, 4]] and info["_final_obs"].tolist() == [True, True, False]
            assert info["success"].tolist() == [True, True, True], "from the last step's own info, not from the reset's"
        elif step == 6:
            assert truncated.tolist() == [False, False, True] and not terminated.any()
            assert info["final_obs"]["state"].tolist() == [[1000, 2], [1000, 2], [50, 6]] and seen["state"][2].tolist() == [1000, 0]
        else:
            assert np.array_equal(seen["state"], info["final_obs"]["state"])
    assert first.tolist() == [[48, 0], [49, 0], [50, 0]], "what was handed out changed"
    env.close()


def test_named_observations_do_so_too() -> None:
    env = make_batch("counters:Named-v0", 2)
    env.reset(seed=0)
    for _ in range(4):
        seen, *_, info = env.step(np.zeros((2, 1)))
    assert info["final_obs"]["base"].tolist() == [[0], [1]] and info["final_obs"]["count"].tolist() == [[4], [4]]
    assert seen["base"].tolist() == [[1000], [1000]] and seen["count"].tolist() == [[0], [0]]
    assert all(values.dtype == np.float32 for values in (*seen.values(), *info["final_obs"].values()))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ListOfDones", r"`terminated` of shape \(2,\), expected one plain value"),
        ("ColumnOfRewards", r"a reward of shape \(1,\), expected one plain value"),
        ("GrowingObservation", r"'state' of shape \(3,\), expected shape \(2,\)"),
    ],
)
def test_shapes_that_would_be_broadcast_are_refused_by_name(name: str, says: str) -> None:
    single, batch = make(f"counters:{name}-v0"), make_batch(f"counters:{name}-v0", 2)
    single.reset(seed=0)
    batch.reset(seed=0)
    with pytest.raises(ConfigError, match=says):
        for _ in range(2):
            single.step(np.zeros(1))
    with pytest.raises(ConfigError, match=says):
        for _ in range(2):
            batch.step(np.zeros((2, 1)))


@pytest.mark.parametrize(("name", "says"), [("Choice", "continuous"), ("Endless", "bounded"), ("Words", "'words'")])
def test_spaces_that_no_policy_here_fits_are_refused_before_the_first_step(name: str, says: str) -> None:
    for build in (lambda: make(f"counters:{name}-v0"), lambda: make_batch(f"counters:{name}-v0", 2)):
        with pytest.raises(ConfigError, match=says):
            build()


def test_an_environment_that_steps_its_rows_by_itself() -> None:
    env = make_batch("counters:Native-v0", 3)
    first, _ = env.reset(seed=0)
    assert first["state"].tolist() == [[0], [1], [2]]
    for _ in range(2):
        seen, reward, terminated, truncated, info = env.step(np.full((3, 1), 0.5))
    assert seen["state"].tolist() == [[2], [3], [0]] and info["final_obs"]["state"].tolist() == [[2], [3], [4]]
    assert reward.tolist() == [3.0] * 3 and terminated.tolist() == [False, False, True] and not truncated.any()
    assert first["state"].tolist() == [[0], [1], [2]], "it reuses its buffer; we do not"


@pytest.mark.parametrize(
    ("name", "says"),
    [("NextStep", "SAME_STEP"), ("Column", r"`terminated` of shape \(4, 1\), expected shape \(4,\)"), ("Forgetful", "final_obs")],
)
def test_one_that_does_it_otherwise_is_refused(name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        env = make_batch(f"counters:{name}-v0", 4)
        env.reset(seed=0)
        for _ in range(4):
            env.step(np.zeros((4, 1)))


@pytest.mark.parametrize("rows", [1, 3])
def test_executed_actions_are_translated_to_the_agents_units(rows: int) -> None:
    """Asked 0.8 (4.2 in its own units), executed half of it: 0.4. Then a person's 5.0, which is 1."""
    env = make_env("counters:Reports-v0", rows)
    env.reset(seeds=list(range(50, 50 + rows)))
    for _ in range(2):
        step = env.step(np.full((rows, 1), 0.8))
        assert step.executed is not None and step.intervened is None
        np.testing.assert_allclose(step.executed, np.full((rows, 1), 0.4), atol=1e-6)
    step = env.step(np.full((rows, 1), 0.8))
    assert step.executed is not None and step.intervened is not None and step.intervened.all()
    np.testing.assert_allclose(step.executed, np.ones((rows, 1)), atol=1e-6)


def test_rows_that_report_nothing_executed_what_was_asked() -> None:
    env = GymnasiumEnv("mixed", [make_gymnasium("counters:Reports-v0"), make_gymnasium("counters:Counter-v0")])
    env.reset(seeds=[50, 51])
    step = env.step(np.array([[0.8], [0.6]]))
    assert step.executed is not None
    np.testing.assert_allclose(step.executed, [[0.4], [0.6]], atol=1e-6)


def test_the_gymnasium_face_reports_it_too() -> None:
    env = make("counters:Reports-v0")
    env.reset(seed=50)
    *_, info = env.step(np.array([0.8]))
    assert info["executed_action"] == pytest.approx([0.4]) and "intervene_action" not in info
    env.step(np.array([0.8]))
    assert env.step(np.array([0.8]))[4]["intervene_action"] == pytest.approx([1.0])


def test_a_recording_stores_what_was_executed() -> None:
    class Pushes:
        name = "pushes"

        def reset(self) -> None:
            pass

        def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
            return np.array([0.8], np.float32), False

    steps = play_episode(make_env("counters:Reports-v0"), Pushes(), seed=50)
    np.testing.assert_allclose([step.action[0] for step in steps], [0.4, 0.4, 1.0, 1.0, 1.0, 1.0], atol=1e-6)
    assert [step.intervened for step in steps] == [False, False, True, True, True, True]


def test_a_robot_is_not_driven_too_fast_or_without_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_TOKEN", "t")
    with pytest.raises(ConfigError, match=r"runs in real time.*--pace realtime, got --pace fast"):
        act(ActorArgs("counters:Robot-v0", limits=tmp_path / "limits.toml"), print)
    with pytest.raises(ConfigError, match=r"moves a robot and no limits were given.*--limits FILE.*--no-limits"):
        act(ActorArgs("counters:Robot-v0", pace="realtime"), print)


def test_a_report_of_another_shape_is_refused() -> None:
    env = make_env("counters:Reports-v0")
    env.reset(seeds=[50])
    inner: Any = env
    inner._envs[0].unwrapped.step = lambda action: (np.zeros(2), 0.0, False, False, {"executed_action": np.zeros(4)})
    with pytest.raises(ConfigError, match=r"info\['executed_action'\] of shape \(4,\), expected shape \(1,\)"):
        env.step(np.zeros((1, 1)))


def test_halt_reaches_every_robot_and_a_robot_declares_its_clock() -> None:
    env = make_env("counters:Robot-v0", 2)
    assert env.capabilities.clock == "real" and env.capabilities.needs_limits
    env.halt("a test")
    env.halt("again")
    inner: Any = env
    assert [each.unwrapped.halted for each in inner._envs] == [2, 2]
    simulated = make_env("counters:Counter-v0")
    simulated.halt("nothing moves")
    assert simulated.capabilities.clock == "simulated" and not simulated.capabilities.needs_limits


def test_rows_end_apart_and_are_reset_only_when_asked() -> None:
    env = make_env("counters:Counter-v0", 2)
    env.reset(seeds=[48, 50])  # the first terminates at its fourth step, the second is truncated at its sixth
    for count in range(1, 7):
        step = env.step(np.zeros((2, 1)))
        assert step.observation["state"].tolist() == [[48, min(count, 4)], [50, count]], "what ended stands still"
        assert step.terminated.tolist() == [count == 4, False] and step.truncated.tolist() == [False, count == 6]
    fresh = env.reset([1])
    assert fresh["state"].tolist() == [[48, 4], [1000, 0]]
    assert env.step(np.zeros((2, 1))).observation["state"].tolist() == [[48, 4], [1000, 1]]


def test_no_environment_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="num_envs=0"):
        make_batch("Pendulum-v1", 0)
    with pytest.raises(UnknownTaskError, match="PYTHONPATH"):
        make_batch("no_such_module:Thing-v0", 2)
