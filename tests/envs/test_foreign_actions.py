"""An environment that takes a Dict or a Tuple of Box and Discrete is given what it takes, and its report becomes one vector again."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple

from tandem.envs.foreign import GymnasiumEnv
from tandem.errors import ConfigError
from tandem.types import Continuous
from tandem.types import Discrete as Choices

ARM, HAND = Box(np.float32(-0.1), np.float32(0.3), (2,)), Discrete(3, start=-1)


class Hand(gymnasium.Env):
    """Keeps what it was given; it reports that the hand was held in place of what was asked for."""

    observation_space = Box(-1, 1, (1,))

    def __init__(self, space: gymnasium.Space, reports: Any = None) -> None:
        self.action_space, self.given, self._reports = space, [], reports

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.given.append(action)
        info = {} if self._reports is None else {"intervene_action": self._reports}
        return np.zeros(1, np.float32), 0.0, False, False, info


def test_a_dict_of_box_and_discrete_becomes_parts_and_is_given_back_as_it_is() -> None:
    inner = Hand(Dict(arm=ARM, gripper=HAND), reports={"arm": np.array([0.3, 0.1]), "gripper": 0})
    env = GymnasiumEnv("hand", [inner])
    arm, gripper = env.spec.action
    assert isinstance(arm, Continuous) and arm.size == 2 and arm.scales() == pytest.approx([0.2, 0.2])
    assert gripper == Choices("gripper", ("-1", "0", "1"), rest=1), "the choice of value 0 is the one at rest"
    env.reset()
    step = env.step(np.array([[0.5, -1.0, 2.0]]))
    [given] = inner.given
    # from the middle 0.1: 0.1 + 0.5 · 0.2, 0.1 - 0.2
    np.testing.assert_allclose(given["arm"], [0.2, -0.1], atol=1e-6)
    assert given["gripper"] == 1 and given["arm"].dtype == np.float32 and inner.action_space.contains(given)
    assert step.executed is not None and step.intervened is not None and step.intervened.all()
    np.testing.assert_allclose(step.executed, [[1.0, 0.0, 1.0]], atol=1e-6)


def test_a_tuple_too() -> None:
    inner = Hand(Tuple((Discrete(2), ARM)), reports=(0, np.array([0.1, 0.1])))
    env = GymnasiumEnv("hand", [inner])
    assert [part.name for part in env.spec.action] == ["part 0", "part 1"]
    env.reset()
    step = env.step(np.array([[1.0, 0.0, 0.0]]))
    assert inner.given[0][0] == 1 and inner.action_space.contains(inner.given[0])
    assert step.executed is not None
    np.testing.assert_allclose(step.executed, [[0, 0, 0]], atol=1e-6)


@pytest.mark.parametrize(
    ("space", "says"),
    [
        (Dict(arm=ARM, lamps=MultiBinary(3)), "the part 'lamps' of its action; Tandem needs a flat, bounded Box or a Discrete"),
        (Dict(arm=Box(-np.inf, np.inf, (2,))), "the part 'arm'"),
        (Dict(gripper=HAND), "at least one continuous axis"),
    ],
)
def test_what_cannot_be_learned_is_refused_by_the_name_of_the_part(space: gymnasium.Space, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        GymnasiumEnv("hand", [Hand(space)])


def test_a_report_of_another_form_is_refused() -> None:
    env = GymnasiumEnv("hand", [Hand(Dict(arm=ARM, gripper=HAND), reports=np.zeros(3))])
    env.reset()
    with pytest.raises(ConfigError, match="expected one of its own action space"):
        env.step(np.zeros((1, 3)))
