"""A person at a running actor: real hub, sockets and control loop; what is executed is what is stored."""

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from remote_rig import STEADY, Page, Rig

from tandem.data.journal import Journal
from tandem.link.messages import View
from tests.waiting import wait_for


@pytest.fixture
def rigs(tmp_path: Path) -> Iterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def make(**options) -> Rig:
        made.append(Rig(tmp_path / str(len(made)), **options))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


def watched(rig: Rig) -> list[View]:
    seen: list[View] = []
    rig.do(rig.hub.remote.watch, rig.source, seen.append)
    wait_for(lambda: seen, what="a view")
    return seen


def test_what_a_person_did_is_stored_as_executed_and_flagged_with_its_true_neighbours(rigs: Callable[..., Rig], tmp_path: Path) -> None:
    wide = tmp_path / "limits.toml"
    free = "".join(f'[axis.{axis}]\nunlimited = ["workspace"]\n' for axis in "xyz")
    wide.write_text(free)  # no workspace: a start near its edge would change the actions
    rig = rigs(pace="realtime", limits=wide)
    page, seen = Page(rig), watched(rig)
    page.axes = [0.25, -0.5, 1.0]
    page.take()
    wait_for(lambda: sum(view.who == "person" for view in seen) >= 5, what="five steps by the person")
    page.let_go()
    wait_for(lambda: seen[-1].who == "policy", what="the policy")
    wait_for(lambda: any(step.intervened for step in rig.stored()) and not rig.stored()[-1].intervened, what="it")
    steps = rig.stored()
    person = [step for step in steps if step.intervened]
    moving = [step for step in person if step.action.any()]  # the first one or two may rest: control had not been steered yet
    assert len(moving) >= 4 and len(person) - len(moving) <= 2
    for step in moving:
        np.testing.assert_array_equal(step.action, np.array([0.25, -0.5, 1.0], np.float32))
    by_policy = [step.action for step in steps if not step.intervened and step.seq < person[0].seq]
    np.testing.assert_allclose(by_policy, STEADY, atol=1e-3)
    for before, after in itertools.pairwise(steps):  # nothing was cut out: each step begins where the last one ended
        if before.episode == after.episode:
            np.testing.assert_array_equal(before.next_observation["tcp_position"], after.observation["tcp_position"])


def test_a_fast_simulation_slows_to_the_real_pace_under_a_hand_and_speeds_up_again(rigs: Callable[..., Rig]) -> None:
    rig = rigs(pace="fast")
    page = Page(rig)

    def rate(seconds: float) -> float:
        seen = rig.newest_steps()
        began = time.monotonic()
        time.sleep(seconds)
        return (rig.newest_steps() - seen) / (time.monotonic() - began)

    watched(rig)
    assert rate(0.5) > 30
    page.take()
    wait_for(lambda: rig.newest().who == "person", what="the person")
    assert rate(1.0) == pytest.approx(10.0, abs=3.0)  # 10 Hz; views come a little late on a busy machine
    page.let_go()
    wait_for(lambda: rig.newest().who == "policy", what="the policy")
    assert rate(0.5) > 30


@pytest.mark.parametrize("how", ["silent", "gone"])
def test_a_page_that_is_lost_while_holding_leaves_the_robot_standing_until_somebody_says_resume(rigs: Callable[..., Rig], how: str) -> None:
    rig = rigs(pace="realtime")
    page, seen = Page(rig), watched(rig)
    page.axes = [1.0, 0.0, 0.0]
    page.take()
    wait_for(lambda: seen[-1].action == [1.0, 0.0, 0.0], what="motion")
    page.be_silent()
    silent = time.monotonic()
    if how == "gone":
        rig.do(rig.hub.remote.page_closed, page.name)
    wait_for(lambda: seen[-1].state == "holding" and not any(seen[-1].action), what="standing still")
    assert time.monotonic() - silent < (0.3 if how == "gone" else 0.7)  # 0.3 s of silence, a control period of 0.1 s, and some air
    assert "standing still" in seen[-1].notice and seen[-1].who == "nobody"
    assert any("standing still" in line for line in rig.lines)
    wait_for(lambda: "resume" in seen[-1].notice, 6, what="nobody holding it")
    steps = rig.newest_steps()
    time.sleep(0.3)
    assert rig.newest_steps() == steps, "a robot that nobody holds makes no step"
    assert rig.do(rig.hub.remote.holder, rig.source) == ""
    rig.do(rig.hub.remote.command, "resume", rig.source, {})
    wait_for(lambda: seen[-1].who == "policy" and seen[-1].state == "running", what="the policy")


def test_stop_works_whatever_the_actor_does(rigs: Callable[..., Rig]) -> None:
    rig = rigs(pace="realtime")
    page, seen = Page(rig), watched(rig)
    page.axes = [1.0, 1.0, 1.0]
    page.take()
    wait_for(lambda: seen[-1].who == "person", what="a hand")
    rig.do(rig.hub.remote.command, "stop", "actors", {"stay": True})
    wait_for(lambda: seen[-1].state == "stopped", what="the stop")
    steps = rig.newest_steps()
    time.sleep(0.3)
    assert rig.newest_steps() == steps and page.take() == "", "the page may hold it, but it does not move"
    assert rig.acting
    rig.do(rig.hub.remote.command, "pause", "actors", {})
    rig.do(rig.hub.remote.command, "stop", "actors", {})  # also while stopped and paused
    wait_for(lambda: not rig.acting, what="its end")


def test_labels_end_the_episode_and_are_its_reward(rigs: Callable[..., Rig]) -> None:
    rig = rigs(pace="realtime", settings={"reward_source": "person"})
    seen = watched(rig)
    for number, success in enumerate((True, False, None), start=1):
        step = seen[-1].steps
        # a policy of chance may be at the ball before: then the robot stands and asks for the label
        wait_for(lambda step=step: seen[-1].steps >= step + 3 or "was it a success?" in seen[-1].notice, what="steps")
        rig.do(rig.hub.remote.command, "label", rig.source, {"success": success})
        wait_for(lambda number=number: len(rig.ends()) == number, what="the end")
    ends = [(end.reward, end.terminated, end.truncated, end.success) for end in rig.ends()]
    assert ends == [(1.0, True, False, True), (0.0, True, False, False), (0.0, False, True, False)]
    steps = rig.stored()
    assert next(step.step for step in steps if step.episode == 1) == 0, "a new episode after each"
    assert all(step.reward == 0 for step in steps if not step.last)
    first = next(step for step in steps if step.episode == 1)
    last = next(step for step in steps if step.episode == 0 and step.last)
    assert not np.array_equal(first.observation["to_ball"], last.next_observation["to_ball"]), "the environment was reset"


def test_an_episode_that_ends_by_itself_waits_for_the_person_who_has_to_judge_it(rigs: Callable[..., Rig]) -> None:
    rig = rigs(pace="fast", settings={"reward_source": "person"})
    seen = watched(rig)
    # thirty steps towards a corner, and time is up; the simulation's own word does not count
    wait_for(lambda: "was it a success?" in seen[-1].notice, what="the question")
    assert seen[-1].state == "holding" and rig.ends() == []
    rig.do(rig.hub.remote.command, "label", rig.source, {"success": True})
    [end] = wait_for(rig.ends, what="the end")[:1]
    assert (end.reward, end.terminated, end.success) == (1.0, True, True)


def test_a_discarded_episode_stays_in_the_file_and_is_not_given_to_learn_from(rigs: Callable[..., Rig]) -> None:
    rig = rigs(pace="realtime")
    seen = watched(rig)
    wait_for(lambda: len(rig.stored()) >= 3, what="steps")
    received = rig.trainer.receive()
    assert received and rig.trainer.discarded() == set()
    rig.do(rig.hub.remote.command, "record", rig.source, {"what": "discard"})
    [(source, thrown)] = wait_for(rig.trainer.discarded, what="the word of it")
    assert source == received[0].source
    wait_for(lambda: seen[-1].episode > thrown and any(step.episode > thrown for step in rig.stored()), what="another episode")
    assert thrown not in {step.episode for step in rig.stored()}
    with Journal.open(rig.run / "journal.db") as journal:
        assert thrown in {step.episode for _, step in journal.read(with_discarded=True)}, "it is kept in the file"
    assert (rig.run / "episodes.jsonl").read_text().count('"kept": false') == 1


def test_limits_hold_behind_the_person_and_what_was_executed_is_stored(rigs: Callable[..., Rig], tmp_path: Path) -> None:
    slow = tmp_path / "limits.toml"
    slow.write_text(
        "".join(f"[axis.{axis}]\nspeed_m_per_s = 0.15\n" for axis in "xyz")
    )  # an action of 1 is 0.03 m ten times a second: 0.15 m/s is half of that
    rig = rigs(pace="realtime", limits=slow)
    page, seen = Page(rig), watched(rig)
    page.axes = [1.0, -1.0, 0.1]
    page.take()
    wait_for(lambda: seen[-1].who == "person" and seen[-1].action == [0.5, -0.5, 0.1], what="the limited action")
    assert seen[-1].notice == "limited: speed"
    # a hand whose signal comes late rests for a step, so that not every step has the action; but none has more
    wait_for(
        lambda: any(np.allclose(step.action, [0.5, -0.5, 0.1], atol=1e-6) for step in rig.stored() if step.intervened), what="the journal"
    )
    assert all(np.abs(step.action).max() <= 0.5 + 1e-6 for step in rig.stored() if step.intervened)
