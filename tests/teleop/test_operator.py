"""Who decides, and whether a person did."""

import numpy as np
import pytest

from tandem.envs.registry import make, make_expert, spec_for, tasks_with_expert
from tandem.layouts import ActionLayout
from tandem.learnable import sees
from tandem.teleop.operator import HandsOff, Operator, RandomActions, Still
from tandem.types import Continuous

SEEN = {"state": np.zeros(3, np.float32)}

SCRIPTED = [task for task in tasks_with_expert() if not sees(spec_for(task))]
"""Those with cameras need OpenGL; their script is tested in envs/test_gear_pixels.py."""


def test_hands_off_lets_the_proposal_stand_and_no_person_chose_it() -> None:
    proposal = np.array([0.25, -0.5], np.float32)
    action, by_human = HandsOff().decide(SEEN, proposal)
    assert np.array_equal(action, proposal) and by_human is False


def test_hands_off_has_nothing_to_offer_without_a_proposal() -> None:
    with pytest.raises(ValueError, match="needs a proposal"):
        HandsOff().decide(SEEN)


def test_still_moves_nothing_whatever_is_proposed() -> None:
    action, by_human = Still(ActionLayout([Continuous("arm", 4)])).decide(SEEN, np.ones(4, np.float32))
    assert np.array_equal(action, np.zeros(4)) and action.dtype == np.float32 and by_human is False


def test_random_actions_fill_the_whole_range_and_are_the_same_for_the_same_seed() -> None:
    def actions(seed: int) -> np.ndarray:
        operator = RandomActions(ActionLayout([Continuous("arm", 2)]), seed)
        return np.stack([operator.decide(SEEN)[0] for _ in range(500)])

    first = actions(0)
    assert first.dtype == np.float32 and np.abs(first).max() <= 1.0
    # 0.03 / 2 = 1.5 % of the numbers lie beyond 0.97; that none of 500 does happens once in 2000 times (0.985^500)
    assert (first.min(axis=0) < -0.97).all() and (first.max(axis=0) > 0.97).all()
    assert np.array_equal(first, actions(0)) and not np.array_equal(first, actions(1))


@pytest.mark.parametrize("task", SCRIPTED)
def test_the_script_of_every_task_is_an_operator_who_counts_as_a_person(task: str) -> None:
    env = make(task)
    expert: Operator = make_expert(task, seed=0)
    observation, _ = env.reset(seed=0)
    expert.reset()
    action, by_human = expert.decide(observation, np.zeros(env.action_space.shape or (), np.float32))
    assert by_human is True and env.action_space.contains(action) and expert.name == "scripted"


FIRST_STEPS = 20
"""Where actions are small, the first ones all are as large as they can be."""


@pytest.mark.parametrize("task", SCRIPTED)
def test_a_script_does_not_behave_alike_in_two_episodes(task: str) -> None:
    """Demonstrations of one start would otherwise be copies of each other."""
    env, expert = make(task), make_expert(task, seed=0)
    episodes = []
    for _ in range(2):
        observation, _ = env.reset(seed=0)
        expert.reset()
        actions = []
        for _ in range(FIRST_STEPS):
            actions.append(expert.decide(observation)[0])
            observation, _, terminated, truncated, _ = env.step(actions[-1])
            if terminated or truncated:
                break
        episodes.append(actions)
    assert not all(np.array_equal(one, other) for one, other in zip(*episodes, strict=False))
