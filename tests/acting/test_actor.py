"""What the actor stores: the executed action, the observation that it really led to, and the person's label where it belongs."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.acting.actor import Actor
from tandem.acting.actor_state import actor_state, restore_actor
from tandem.acting.limits import LimitedEnv, Limits
from tandem.acting.person_reward import PersonReward, reward_source
from tandem.acting.rewards import Label
from tandem.acting.verdicts import contradict, discard, give_label
from tandem.data.validation import Validator
from tandem.envs.foreign import GymnasiumEnv
from tandem.envs.limits import LimitSettings
from tandem.envs.registry import make_env
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError, EnvironmentFailed
from tandem.layouts import ActionLayout
from tandem.link.messages import EpisodeEnd
from tandem.teleop.operator import HandsOff
from tandem.types import PolicySnapshot, Step
from tests.acting.counter_env import LENGTH, Counter, Link, counters, steady
from tests.envs.strange_envs import strange_module

SPEC = counters()[0].spec


def acting(rows: int = 1, link: Link | None = None, env: TaskEnv | None = None, **options: Any) -> tuple[Actor, Link]:
    link = link or Link(steady(0.4))
    actor = Actor(env or counters(rows)[0], link, [HandsOff()] * rows, source="robot", seed=3, **options)
    actor.begin()
    return actor, link


def turns(actor: Actor, count: int) -> None:
    for _ in range(count):
        actor.step()
        actor.reset_ended()


def test_the_last_step_of_an_episode_keeps_the_observation_from_before_the_reset() -> None:
    actor, link = acting(rows=2)
    turns(actor, 2 * LENGTH)
    of_row = [step for step in link.sent if step.source == "robot.1"]
    seen = [(step.observation["state"].tolist(), step.next_observation["state"].tolist()) for step in of_row]
    assert seen == [([e, s], [e, s + 1]) for e in (0, 1) for s in range(LENGTH)]
    assert [(step.episode, step.step, step.last) for step in of_row] == [(e, s, s == 2) for e in (0, 1) for s in range(LENGTH)]


def test_without_operators_the_proposals_stand() -> None:
    def life(operators: list[HandsOff]) -> list[tuple[Any, ...]]:
        link = Link(steady(0.4))
        actor = Actor(counters(2)[0], link, operators, source="robot", seed=3)
        actor.begin()
        turns(actor, LENGTH + 1)
        assert actor_state(actor)["operators"] == [{}] * len(operators)
        return [(step.source, step.episode, step.step, step.action.tolist(), step.intervened) for step in link.sent]

    alone = life([])
    assert alone == life([HandsOff()] * 2) and not any(intervened for *_, intervened in alone)


def test_why_a_person_took_over_is_stored_with_each_of_their_steps() -> None:
    class Takes(HandsOff):
        """The second step of each episode."""

        tag = "danger"

        def reset(self) -> None:
            self.made = 0

        def decide(self, observation: Any, proposed: Any = None) -> tuple[np.ndarray, bool]:
            self.made += 1
            return proposed, self.made == 2

    link = Link(steady(0.4))
    actor = Actor(counters(2)[0], link, [HandsOff(), Takes()], source="robot", seed=3)
    actor.begin()
    turns(actor, 2 * LENGTH)
    assert [(step.source, step.step) for step in link.sent if step.tag == "danger"] == [("robot.1", 1)] * 2
    assert all(step.tag == "" for step in link.sent if not step.intervened)


def test_the_same_holds_in_our_simulations() -> None:
    link = Link()
    actor = Actor(make_env("reach", 3), link, [HandsOff()] * 3, source="robot", seed=3)
    actor.begin()
    turns(actor, 65)  # two time-outs of 30 steps in every row
    ends = [step for step in link.sent if step.last]
    assert len(ends) >= 6
    for end in ends:
        following = next(s for s in link.sent if s.source == end.source and s.episode == end.episode + 1 and s.step == 0)
        ball = end.observation["to_ball"] + end.observation["tcp_position"]
        np.testing.assert_allclose(end.next_observation["to_ball"] + end.next_observation["tcp_position"], ball, atol=1e-6)
        assert not np.allclose(following.observation["to_ball"] + following.observation["tcp_position"], ball, atol=1e-3)


def test_limits_change_the_action_of_every_row_that_is_executed_and_stored() -> None:
    """The policy asks for 0.8; the speed limit allows 0.1."""
    env, rows = counters(3)
    spec = env.spec
    limits = Limits(spec, LimitSettings(speed=(0.1 * float(ActionLayout.of(spec).scales[0]) * spec.control_hz,)))
    actor, link = acting(3, Link(steady(0.8)), LimitedEnv(env, limits))
    turns(actor, 2)
    assert [step.source for step in link.sent] == ["robot.0", "robot.1", "robot.2"] * 2
    np.testing.assert_allclose([step.action[0] for step in link.sent], 0.1, atol=1e-3)
    np.testing.assert_allclose([row.asked for row in rows], 0.1, atol=1e-3)
    assert limits.counts["speed"] == 6 and limits.notice == "limited: speed (row 0, 1, 2)"


class Losing(GymnasiumEnv):
    """Loses the episode of row 1 in its second step, as a served environment does whose server was restarted."""

    made = 0

    def step(self, action: np.ndarray) -> Step:
        step = super().step(action)
        self.made += 1
        lost = np.arange(self.num_envs) == 1
        return dataclasses.replace(step, lost=lost) if self.made == 2 else step


def test_an_episode_that_is_lost_is_cut_off_and_nothing_is_invented() -> None:
    link = Link(steady(0.4))
    actor = Actor(Losing("counter", [Counter(), Counter()]), link, [HandsOff()] * 2, source="robot", seed=3)
    actor.begin()
    turns(actor, LENGTH + 1)
    here, there = ([s for s in link.sent if s.source == f"robot.{row}"] for row in range(2))
    assert [(s.episode, s.step, s.last) for s in here] == [(0, 0, False), (0, 1, False), (0, 2, True), (1, 0, False)]
    assert [(s.episode, s.step, s.last) for s in there] == [(0, 0, False), (1, 0, False), (1, 1, False)]
    assert [s.seq for s in there] == [0, 1, 2] and actor.steps == 7


@pytest.mark.parametrize("rows", [1, 3])
def test_the_executed_action_is_stored(rows: int) -> None:
    """The policy asks for 0.8, the environment executes 0.4 and says so."""
    actor, link = acting(rows, Link(steady(0.8)))
    actor.step()
    assert len(link.sent) == rows
    np.testing.assert_allclose([step.action for step in link.sent], np.full((rows, 1), 0.4), atol=1e-3)
    assert not any(step.intervened for step in link.sent)


def test_random_steps_come_before_the_policy_even_where_there_is_one() -> None:
    actor, link = acting(random_steps=10, link=Link(steady(0.4)))
    turns(actor, 20)
    actions = np.array([step.action[0] for step in link.sent])
    assert actions[:10].std() > 0.1 and (actions[:10] < 0).any(), "drawn evenly"
    np.testing.assert_allclose(actions[10:], 0.4, atol=1e-3)


def test_a_reset_is_never_part_of_a_step() -> None:
    env, [counter] = counters()
    actor = Actor(env, Link(steady(0.4)), [HandsOff()], source="robot", seed=3)
    actor.begin()
    for _ in range(LENGTH):
        assert not actor.needs_reset
        actor.step()
    assert actor.needs_reset and counter.episode == 0
    actor.reset_ended()
    assert not actor.needs_reset and counter.episode == 1


# ---- labels


def test_a_label_ends_the_episode_with_its_next_step() -> None:
    actor, link = acting()
    turns(actor, 1)
    assert give_label(actor, Label(True), episode=0) == ""
    turns(actor, 1)
    last = link.sent[-1]
    assert (last.step, last.reward, last.terminated, last.success) == (1, 1.0, True, True)
    assert link.ends == [EpisodeEnd("robot.0", 0, 2, True, True)]
    turns(actor, 1)
    assert (link.sent[-1].episode, link.sent[-1].step, link.sent[-1].last) == (1, 0, False)


@pytest.mark.parametrize(("label", "stored"), [(True, True), (False, False), (None, None)])
def test_a_label_is_known_where_the_environment_reports_no_success(label: bool | None, stored: bool | None, tmp_path: Path) -> None:
    with strange_module(tmp_path):
        link = Link()
        actor = Actor(make_env("strange:NoSuccess-v0", 2), link, [HandsOff()] * 2, source="robot", seed=3)
        actor.begin()
        turns(actor, 1)
        give_label(actor, Label(label))
        turns(actor, 1)
    assert [step.success for step in link.sent] == [None, None, stored, None], "the person judged row 0 alone"


@pytest.mark.parametrize("episode", [None, 0])
def test_a_label_that_comes_too_late_does_not_end_the_next_episode(episode: int | None) -> None:
    """The episode had ended by itself while the person was pressing the key."""
    actor, link = acting()
    for _ in range(LENGTH):
        actor.step()
    assert "had ended before" in give_label(actor, Label(True)) and actor.needs_reset
    actor.reset_ended()
    assert give_label(actor, Label(True), episode) != "", "the next one has begun, and nobody has seen a step of it"
    turns(actor, 2)
    assert [(step.last, step.success) for step in link.sent[LENGTH:]] == [(False, False)] * 2
    assert "episode 0, which is over" in give_label(actor, Label(True), episode=0)
    turns(actor, 1)
    assert [step.success for step in link.sent] == [False, False, True] * 2 and link.ends == []


def test_a_label_that_was_not_used_dies_with_its_episode() -> None:
    actor, link = acting()
    turns(actor, 1)
    give_label(actor, Label(True))
    discard(actor)
    actor.reset_ended()
    turns(actor, 1)
    assert not link.sent[-1].last and link.sent[-1].episode == 1


def test_a_person_is_asked_how_an_episode_ended_and_the_step_waits_for_the_answer() -> None:
    actor, link = acting(rewards=PersonReward())
    for _ in range(LENGTH):
        assert not actor.needs_label
        actor.step()
    assert actor.needs_label and len(link.sent) == LENGTH - 1 and not actor.needs_reset
    assert give_label(actor, Label(False)) == ""
    assert not actor.needs_label and actor.needs_reset
    last = link.sent[-1]
    assert (last.reward, last.terminated, last.truncated, last.success) == (0.0, True, False, False)


def test_an_episode_that_nobody_judged_is_cut_short() -> None:
    actor, link = acting(rewards=PersonReward())
    for _ in range(LENGTH):
        actor.step()
    actor.settle()
    last = link.sent[-1]
    assert (last.reward, last.terminated, last.truncated, last.success) == (0.0, False, True, False)
    assert actor.judged is not None and "nobody judged" in actor.judged.why


def test_a_person_judges_one_robot() -> None:
    with pytest.raises(ConfigError, match="num_envs 1, got 2"):
        reward_source("person", SPEC, 2)
    assert (reward_source("person", SPEC).name, reward_source("simulation", SPEC, 2).name) == ("person", "simulation")


def test_a_success_that_was_none_is_taken_back_with_its_episode() -> None:
    actor, link = acting()
    assert contradict(actor) is None, "nothing has succeeded yet"
    turns(actor, LENGTH + 1)
    assert contradict(actor) == 0, "the one before, though the next one goes on"
    assert contradict(actor, episode=1) is None, "it is not over"
    [end] = link.ends
    assert (end.source, end.episode, end.kept, end.success) == ("robot.0", 0, False, False)
    assert not actor.needs_reset


# ---- discards


def test_what_is_discarded_is_the_episode_that_the_person_saw() -> None:
    actor, link = acting()
    turns(actor, 1)
    assert discard(actor) == 0 and actor.needs_reset, "in the middle: this one"
    actor.reset_ended()
    assert discard(actor) == 0, "before the first step: the one before"
    assert not actor.needs_reset
    for _ in range(LENGTH):
        actor.step()
    assert discard(actor) == 1, "it has ended and the next one has not begun"
    actor.reset_ended()
    assert [(end.episode, end.kept) for end in link.ends] == [(0, False), (0, False), (1, False)]
    assert actor.place == (2, 0)


def test_an_episode_that_waits_for_its_label_can_be_discarded() -> None:
    actor, link = acting(rewards=PersonReward())
    for _ in range(LENGTH):
        actor.step()
    assert discard(actor) == 0 and not actor.needs_label and actor.needs_reset
    assert len(link.sent) == LENGTH and link.sent[-1].truncated and [end.kept for end in link.ends] == [False]


# ---- to go on


def noisy(action: float) -> PolicySnapshot:
    """A policy with a standard deviation of 0.3, before tanh."""
    snapshot = steady(action)
    std = {"std_range": np.array([1e-6, 5.0], np.float32), "log_std/bias": np.full(1, np.log(0.3), np.float32)}
    return dataclasses.replace(snapshot, parameters={**snapshot.parameters, **std})


def test_a_robot_that_succeeds_acts_without_noise_in_a_share_of_its_episodes() -> None:
    actor, link = acting(link=Link(noisy(0.4)), deterministic_share=0.5)
    turns(actor, 400 * LENGTH)
    calm = [all(abs(step.action[0] - 0.4) < 1e-6 for step in link.sent[i : i + LENGTH]) for i in range(0, len(link.sent), LENGTH)]
    assert not any(calm[:18]), "not before 18 of 20 episodes have succeeded"
    assert 0.4 < np.mean(calm[18:]) < 0.6, "whole episodes, half of them, since every one succeeds"
    mixed = [i for i, each in enumerate(calm) if not each and any(s.action[0] == np.float32(0.4) for s in link.sent[3 * i : 3 * i + 3])]
    assert not mixed, "an episode is acted one way or the other"


def test_without_a_share_every_episode_explores_and_no_random_number_is_spent_on_it() -> None:
    (plain, one), (zero, other) = acting(link=Link(noisy(0.4))), acting(link=Link(noisy(0.4)), deterministic_share=0.0)
    for actor in (plain, zero):
        turns(actor, 100)
    assert [step.action.tolist() for step in one.sent] == [step.action.tolist() for step in other.sent]
    assert len({float(step.action[0]) for step in one.sent}) == 100


def test_a_saved_actor_knows_which_episodes_it_explores_in() -> None:
    actor, _ = acting(link=Link(noisy(0.4)), deterministic_share=0.5)
    turns(actor, 50 * LENGTH)
    saved = actor_state(actor)
    other, _ = acting(link=Link(noisy(0.4)), deterministic_share=0.5)
    restore_actor(other, {**saved, "env": None})
    assert actor_state(other)["successes"] == saved["successes"] == [True] * 20


def test_a_saved_actor_goes_on_bit_for_bit() -> None:
    def made(seed: int, link: Link) -> Actor:
        return Actor(make_env("reach", 2), link, [HandsOff()] * 2, source="robot", seed=seed, random_steps=1000)

    link, again = Link(), Link()
    actor, other = made(3, link), made(4, again)
    actor.begin()
    turns(actor, 40)
    saved, count = actor_state(actor), len(link.sent)
    turns(actor, 30)
    restore_actor(other, saved)
    turns(other, 30)
    for one, same in zip(link.sent[count:], again.sent, strict=True):
        np.testing.assert_equal(vars(one), vars(same))


def test_an_observation_that_is_not_a_number_ends_the_episode_and_not_the_run(tmp_path: Path) -> None:
    with strange_module(tmp_path):
        env, link, lines = make_env("strange:NotANumber-v0"), Link(), []
        actor = Actor(env, link, [HandsOff()], source="robot", seed=0, say=lines.append)
        actor.begin()
        for _ in range(12):
            actor.step()
            actor.reset_ended()
        assert [(step.episode, step.step) for step in link.sent] == [(episode, step) for episode in range(3) for step in range(4)]
        rejected = [Validator(env.spec).reason(step) for step in link.sent]
        assert [number for number, reason in enumerate(rejected) if reason] == [3, 7, 11] and "nan at [1]" in str(rejected[3])
        assert lines[0].startswith("[ACTOR] environment 'strange:NotANumber-v0' handed out nan in the observation 'state' at [1]")
        at_first = make_env("strange:NotANumberAtFirst-v0")
        with pytest.raises(EnvironmentFailed, match=r"handed out nan in the observation 'state' at \[0\] in reset\(\)"):
            Actor(at_first, link, [HandsOff()], source="robot", seed=0).begin()
