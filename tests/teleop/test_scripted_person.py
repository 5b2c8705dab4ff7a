"""The stand-in for a person: lets try, helps where it is needed, and less and less."""

import numpy as np
import pytest

from tandem.acting.operators import make_operators, scripted_people
from tandem.codec import pack, unpack
from tandem.envs.registry import make, make_env
from tandem.errors import ConfigError
from tandem.layouts import ActionLayout
from tandem.teleop.operator import RandomActions
from tandem.teleop.scripted_person import Manner, ScriptedPerson
from tandem.teleop.steering import Steering
from tandem.types import Continuous

MANNER = Manner(often=1.0, look_on=(5, 5), compare=4, correct=(3, 3), try_again=(4, 4), see_through=30, trust=0.0)
PROPOSED = np.zeros(1, np.float32)


class Expert:
    """Does one and the same, so that it is known again."""

    name = "expert"

    def __init__(self) -> None:
        self.begun = 0

    def reset(self) -> None:
        self.begun += 1

    def decide(self, observation, proposed=None):
        return np.ones(1, np.float32), True


def person(**changes) -> tuple[ScriptedPerson, Expert]:
    expert = Expert()
    manner = Manner(**{**vars(MANNER), **changes})
    standing_in = ScriptedPerson(expert, lambda observation: float(observation["distance"][0]), 40, 0, manner)
    standing_in.reset()
    return standing_in, expert


def episode(standing_in: ScriptedPerson, distances: list[float]) -> list[bool]:
    """Who acted, while things look so far away; then the episode is over."""
    helped = [standing_in.decide({"distance": np.array([distance])}, PROPOSED)[1] for distance in distances]
    standing_in.reset()
    return helped


def test_it_looks_on_and_then_corrects_one_that_stands_for_a_moment_only() -> None:
    standing_in, expert = person()
    helped = episode(standing_in, [1.0] * 20)
    # five steps to look on, then three by the person, four for the policy, three by the person, ...
    assert helped == [False] * 5 + [True] * 3 + [False] * 4 + [True] * 3 + [False] * 4 + [True]
    assert expert.begun == 3, "every correction begins anew"


def test_in_long_episodes_it_helps_in_the_middle_and_for_longer() -> None:
    """Ten times as long: it looks on for 80 to 150 steps, and corrects for 60 to 120 of them at a time until step 600."""
    assert Manner.for_episodes(100) == Manner.for_episodes(30) == Manner()
    standing_in = ScriptedPerson(Expert(), lambda observation: float(observation["distance"][0]), 1000, 0)
    standing_in.reset()
    while standing_in._next_look >= 1000:
        standing_in.reset()  # one of ten episodes is the policy's own
    slow = [1 - step / 1000 for step in range(400)]  # a thousandth a step: a hundredth in 8 steps, but a tenth and more in 80
    helped = np.array(episode(standing_in, slow + [0.6] * 400))
    assert not helped[:80].any() and helped[500:].any()
    runs = np.diff(np.flatnonzero(np.diff(np.concatenate([[False], helped[:600], [False]]))))[::2]
    assert len(runs) >= 2 and (runs >= 60).all() and (runs <= 120).all()


@pytest.mark.parametrize("task", ["gear_assembly", "gear_assembly_fine", "gear_pick_assembly_fine", "gear_lift", "reach"])
def test_a_checkpoint_takes_what_it_remembers(task: str) -> None:
    env = make_env(task)
    one, other = scripted_people(env.spec, 1, 0)[0], scripted_people(env.spec, 1, 1)[0]
    seen = {name: values[0] for name, values in env.reset(seeds=[0]).items()}
    for standing_in in (one, other):
        standing_in.reset()
        standing_in.decide(seen, np.zeros(env.spec.action_dim, np.float32))
    other.restore(unpack(pack(one.memory())))
    assert other.memory() == one.memory()
    assert np.array_equal(other._expert.decide(seen)[0], one._expert.decide(seen)[0]), "the same hand"


def test_one_that_comes_nearer_is_left_alone_and_one_that_strays_is_not() -> None:
    nearer = [0.9**step for step in range(25)]  # a third less in four steps
    assert not any(episode(person()[0], nearer))
    assert any(episode(person()[0], [1.0 + 0.05 * step for step in range(10)]))


def test_late_in_an_episode_it_sees_it_through() -> None:
    standing_in, _ = person(look_on=(30, 30))
    assert episode(standing_in, [1.0] * 40) == [False] * 30 + [True] * 10


def test_it_looks_on_for_longer_as_the_policy_succeeds_alone() -> None:
    standing_in, _ = person(trust=3.0)
    assert standing_in.managed_alone == 0.0
    first = episode(standing_in, [1.0] * 40)
    for _ in range(10):
        episode(standing_in, [0.5**step for step in range(10)])  # ends before its time: a success
    assert standing_in.managed_alone == 1.0
    last = episode(standing_in, [1.0] * 40)
    assert first.index(True) == 5 and last.index(True) == 20
    assert sum(last) < sum(first)
    assert standing_in.managed_alone == pytest.approx(0.9), "one of ten was helped"


def test_some_episodes_are_the_policys_own_whatever_happens() -> None:
    standing_in, _ = person(often=0.5)
    helped = [any(episode(standing_in, [1.0] * 40)) for _ in range(200)]
    assert 80 <= sum(helped) <= 120  # half of 200, and three standard deviations of 7


def test_a_success_with_help_is_none_that_was_managed_alone() -> None:
    standing_in, _ = person()
    for _ in range(10):
        episode(standing_in, [1.0] * 10)
    assert standing_in.managed_alone == 0.0


def test_the_same_seed_helps_at_the_same_moments_and_a_saved_one_goes_on() -> None:
    """On the real task, with a policy that fumbles."""

    def life(steps: int, saved_at: int | None = None) -> list[tuple[bool, bytes]]:
        env = make("gear_assembly")
        [one] = scripted_people(env.get_wrapper_attr("task_spec"), 1, 5)
        chance, stepped = RandomActions(ActionLayout([Continuous("arm", 6)]), 0), []
        observation, _ = env.reset(seed=1)
        one.reset()
        for step in range(steps):
            if step == saved_at:
                memory = one.memory()
                [one] = scripted_people(env.get_wrapper_attr("task_spec"), 1, 99)  # another life, until it remembers this one
                one.restore(memory)
            action, by_person = one.decide(observation, chance.decide(observation)[0])
            stepped.append((by_person, action.tobytes()))
            observation, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                observation, _ = env.reset(seed=step)
                one.reset()
        return stepped

    first = life(120)
    assert any(helped for helped, _ in first) and not all(helped for helped, _ in first)
    assert life(120) == first
    assert life(120, saved_at=31) == first


def test_every_robot_has_a_person_of_its_own_and_a_page_may_still_take_the_first() -> None:
    env = make_env("reach", 3)
    operators, steering = make_operators("person:scripted", env, seed=1)
    assert isinstance(operators[0], Steering) and operators[0] is steering and isinstance(operators[0].inner, ScriptedPerson)
    assert len({id(one) for one in operators}) == 3
    assert make_operators("none", env, 0) == ([], None)
    with pytest.raises(ConfigError, match="no operator 'nobody'; there are browser, none, person:scripted, spacemouse, gamepad"):
        make_operators("nobody", env, 0)
    with pytest.raises(ConfigError, match="tasks that do: gear_assembly, gear_assembly_fine, gear_assembly_pixels"):
        scripted_people(make("Pendulum-v1").get_wrapper_attr("task_spec"), 1, 0)


def test_the_expert_can_finish_what_a_chance_policy_began() -> None:
    """Most of the gears that it sees through end up on the peg."""
    env = make("gear_assembly")
    [one] = scripted_people(env.get_wrapper_attr("task_spec"), 1, 0)
    chance, successes = RandomActions(ActionLayout([Continuous("arm", 6)]), 0), 0
    for seed in range(8):
        observation, _ = env.reset(seed=seed)
        one.reset()
        ended = False
        while not ended:
            action, _ = one.decide(observation, 0.3 * chance.decide(observation)[0])
            observation, _, terminated, truncated, info = env.step(action)
            ended = terminated or truncated
        successes += info["success"]
    assert successes >= 3  # a third of the early episodes end in reward
