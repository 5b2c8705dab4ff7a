"""A robot that helps itself stays within what a policy may do: whoever holds it decides, the limits come after, and stopped is stopped."""

import dataclasses
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.acting.actor import Actor
from tandem.acting.asking import AskingConfig
from tandem.acting.control_loop import ControlLoop
from tandem.acting.getting_out import BACK_S, Retrace
from tandem.acting.latch import Latch
from tandem.acting.limits import LimitedEnv, Limits
from tandem.acting.noticing import KNOWN
from tandem.acting.self_help import SelfHelp, attach, with_self_help
from tandem.acting.view_stream import ViewStream
from tandem.envs.limits import LimitSettings
from tandem.envs.scenery import Scenery
from tandem.layouts import ActionLayout
from tandem.link.messages import Command
from tandem.spec import Continuous, Discrete
from tandem.teleop.ask import Ask
from tandem.teleop.operator import HandsOff
from tandem.teleop.scripted_person import ScriptedPerson
from tandem.teleop.steering import Steering
from tandem.types import Transition
from tests.acting.counter_env import Link, steady
from tests.acting.slide_env import Slide, knowing, slides
from tests.waiting import wait_for

HZ = 20.0
BACK = round(BACK_S * HZ)


class Helping:
    """An actor on a slide, and what helps it."""

    def __init__(self, steering: Steering | None = None, snapshot: Any = None, limits: LimitSettings | None = None, **config: Any) -> None:
        self.slide = Slide()
        env = slides(self.slide)
        limited = env if limits is None else LimitedEnv(env, Limits(env.spec, limits))
        self.link = Link(snapshot or knowing(0.9))
        [self.help] = helping = with_self_help([steering or HandsOff()], env.spec, 1, 0, AskingConfig(**config))
        self.actor = Actor(limited, self.link, helping, source="robot", seed=0)
        attach(helping, self.actor)
        self.actor.begin()

    def episode(self) -> list[Any]:
        """The steps of the next episode."""
        before = len(self.link.sent)
        while not self.actor.needs_reset:
            self.actor.step()
        self.actor.reset_ended()
        return self.link.sent[before:]

    def succeed(self, times: int = KNOWN) -> None:
        for _ in range(times):
            assert self.episode()[-1].success


def free_steering() -> Steering:
    return Steering(ActionLayout.of(slides(Slide()).spec))


def test_it_learns_what_is_usual_from_its_own_successes_alone() -> None:
    run = Helping()
    run.succeed(KNOWN - 1)
    assert run.help.noticing.usual is None
    run.succeed(1)
    usual = run.help.noticing.usual
    assert usual is not None and usual.low == pytest.approx(0.0, abs=1e-3) and usual.high == pytest.approx(1.0, abs=0.06)


def test_stuck_it_goes_back_the_way_it_came_and_tries_again_as_its_own_data() -> None:
    run = Helping()
    run.succeed()
    run.slide.ditch = 0.5
    steps = run.episode()
    actions = np.array([step.action[0] for step in steps])
    back = np.flatnonzero(actions < 0.0)
    assert len(back) == back[0] < BACK and np.ptp(back) == len(back) - 1, "one way back, in one piece, as far as it had come"
    assert actions[back].mean() == pytest.approx(-0.9, abs=0.1) and actions[back].std() > 0.05, "the same way, a little beside it"
    assert not any(step.intervened for step in steps) and run.help.got_out == 1
    assert actions[back[-1] + 3 :].mean() == pytest.approx(0.9, abs=0.01), "after it the policy tries again"
    assert run.slide.episode == KNOWN + 1 and run.help.noticing.usual is not None
    assert len(run.help.noticing.memory()["successes"]) == KNOWN, "a failure says nothing about successes"


def test_what_it_goes_back_on_is_what_was_executed_within_the_limits() -> None:
    scale = float(ActionLayout.of(slides(Slide()).spec).scales[0])
    run = Helping(limits=LimitSettings(speed=(0.3 * scale * HZ,)))
    run.succeed()  # in 67 steps
    run.slide.ditch = 0.2
    actions = np.array([step.action[0] for step in run.episode()])
    assert np.abs(actions).max() == pytest.approx(0.3, abs=1e-5) and (actions < 0).sum() >= 10


def test_a_gripper_keeps_what_it_holds_on_the_way_back() -> None:
    layout = ActionLayout([Continuous("arm", 2), Continuous("grip", 1, stands_at=-1.0), Discrete("tool", ("off", "hold", "on"), rest=1)])
    retrace = Retrace(layout, 10.0, 0)
    assert not retrace.begin(), "there is no way back yet"
    for number in range(5):
        retrace.executed(np.array([0.1 * number, -0.5, 1.0, 2.0], np.float32))
    assert retrace.begin()
    back = np.array([retrace.next() for _ in range(5)])
    assert not retrace.under_way and (back[:, 2] == 1.0).all() and (back[:, 3] == 1.0).all()
    np.testing.assert_allclose(back[:, 0], [-0.4, -0.3, -0.2, -0.1, 0.0], atol=0.5)
    assert back[:, 1].mean() == pytest.approx(0.5, abs=0.2)


def test_a_person_who_takes_over_ends_the_way_back_at_once() -> None:
    steering = free_steering()
    run = Helping(steering)
    run.succeed()
    run.slide.ditch = 0.5
    while not run.help.goes_back:
        run.actor.step()
    steering.take("page")
    steering.steer("page", [0.1], steering.clock())
    run.actor.step()
    assert run.link.sent[-1].intervened and run.link.sent[-1].action[0] == pytest.approx(0.1) and not run.help.goes_back
    steering.let_go("page")
    for _ in range(6):
        run.actor.step()
    assert not run.help.goes_back and all(step.action[0] > 0 for step in run.link.sent[-6:])


def test_a_success_with_help_is_not_usual() -> None:
    steering = free_steering()
    run = Helping(steering)
    run.succeed()
    steering.take("page")
    steering.steer("page", [0.2], steering.clock())
    run.actor.step()
    steering.let_go("page")
    assert run.episode()[-1].success and run.link.sent[-1].episode == KNOWN
    assert len(run.help.noticing.memory()["successes"]) == KNOWN, "what a person did says nothing about what the policy does"


def test_stuck_again_it_asks_and_help_ends_the_ask() -> None:
    steering = free_steering()
    run = Helping(steering, ask_timeout=1e9)
    run.succeed()
    run.slide.ditch = 0.3
    while run.help.asking is not None and run.help.asking.ask is None:
        assert not run.actor.needs_reset, "it asks within the episode"
        run.actor.step()
    asking = run.help.asking
    assert asking is not None and asking.ask is not None and asking.holds and run.help.got_out == 1
    assert "s" in asking.ask.reason and asking.ask.since == run.actor.place[1] - 1
    steering.take("page")
    steering.steer("page", [0.5], steering.clock())
    run.actor.step()
    assert asking.ask is None and asking.endings[-1].ending == "answered"


def test_before_anything_has_succeeded_it_asks_when_half_of_the_time_is_over() -> None:
    run = Helping(free_steering())
    run.slide.ditch = 0.1
    run.episode()
    [ended] = run.help.asking.endings  # pyright: ignore[reportOptionalMemberAccess]
    assert ended.ending == "over" and ended.ask.since in range(40, 45) and run.help.got_out == 0


def test_a_stand_in_is_asked_and_other_robots_ask_nobody() -> None:
    person = ScriptedPerson(HandsOff(), lambda seen: 1.0 - float(seen["state"][0]), 80, 0)
    env = slides(Slide(), Slide(), Slide())
    helping = with_self_help([Steering(ActionLayout.of(env.spec), person), person, HandsOff()], env.spec, 3, 0)
    assert [one.asking is not None for one in helping] == [True, True, False]
    assert [type(one.inner) for one in with_self_help([], env.spec, 3, 0)] == [HandsOff] * 3
    person.reset()
    asked: list[Ask] = []
    person.asked = lambda ask: bool(asked.append(ask)) or True
    [one, *_] = with_self_help([person], env.spec, 1, 0)
    one.asking.begin("it stands", 3)  # pyright: ignore[reportOptionalMemberAccess]
    assert asked == [Ask("it stands", 3)] and not one.asking.holds  # pyright: ignore[reportOptionalMemberAccess]


def test_a_policy_that_carries_no_critics_is_watched_by_the_clock() -> None:
    run = Helping(snapshot=steady(0.9))
    run.succeed()
    assert run.help.noticing.values == [] and run.help.noticing.usual is not None
    run.slide.ditch = 0.5
    run.episode()
    assert run.help.got_out == 0, "late is no reason to go back"


def test_a_decision_that_lasts_for_several_steps_is_not_cut_by_a_way_back() -> None:
    slow = knowing(0.9)
    slow = dataclasses.replace(slow, parameters={**slow.parameters, "decision/steps": np.array([4, 0], np.int32)})
    run = Helping(snapshot=slow)
    run.succeed()
    run.slide.ditch = 0.5
    run.episode()
    assert run.help.got_out == 0


def test_a_checkpoint_goes_on_exactly() -> None:
    one, other = Helping(), Helping()
    one.succeed()
    one.slide.ditch = 0.5
    while not one.help.goes_back:
        one.actor.step()
    other.actor.begin()
    other.help.restore(one.help.memory())
    seen = {"state": np.array([0.5, 0.0], np.float32)}
    one.help.attach(other.actor, 0)
    decided = [(a.decide(seen, np.full(1, 0.9, np.float32))[0].tolist()) for a in (one.help, other.help) for _ in range(5)]
    assert decided[:5] == decided[5:] and decided[0][0] < 0
    plain = SelfHelp(HandsOff(), one.help.noticing, None, None, one.help.expected, 3)
    plain.restore({})  # of a run that did not notice


# ---- in the loop of an actor


class Loop:
    """A control loop over a slide that asks for help."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.slide = Slide(ditch=0.1)
        env = slides(self.slide)
        self.link, self.lines, self.stop = Link(knowing(0.9)), list[str](), threading.Event()
        self.steering = Steering(ActionLayout.of(env.spec))
        helping = with_self_help([self.steering], env.spec, 1, 0, AskingConfig(**config), clock=time.monotonic)
        actor = Actor(env, self.link, helping, source="robot", seed=0)
        attach(helping, actor)
        assert helping[0].asking is not None
        self.asking = helping[0].asking
        views = ViewStream(actor, self.link, lambda: Scenery(env, ["x"]), progress=lambda: helping[0].progress)
        self.latch = Latch.open(folder, "slide", "robot", takes_over=False)
        self.loop = ControlLoop(
            actor,
            self.link,  # pyright: ignore[reportArgumentType]  stands in for an ActorClient
            self.steering,
            views,
            latch=self.latch,
            realtime=False,
            stopped=self.stop.is_set,
            say=self.lines.append,
            asking=self.asking,
        )
        self.command("watch", hz=20)
        self._thread = threading.Thread(target=self.loop.run, daemon=True)

    def command(self, name: str, **detail: Any) -> None:
        self.link.waiting = [*self.link.waiting, Command(name, "robot", detail)]

    def __enter__(self) -> "Loop":
        self._thread.start()
        wait_for(lambda: self.asking.ask is not None, what="the ask")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join(10)
        self.loop.close()
        self.latch.close()
        assert not self._thread.is_alive()

    def stays(self, seconds: float = 0.15) -> bool:
        """Neither a step nor a reset for a while."""
        time.sleep(0.03)  # the step that was under way
        moves = self.slide.moves
        time.sleep(seconds)
        return self.slide.moves == moves


def test_a_robot_that_asks_holds_still_says_why_and_a_person_takes_over(tmp_path: Path) -> None:
    with Loop(tmp_path) as run:
        wait_for(lambda: run.loop.state == "holding", what="standing still")
        assert run.stays() and run.slide.halts == 1 and "half of the time" in run.link.asks
        view = run.link.views[-1]
        assert (view.who, view.state) == ("nobody", "holding") and "asks for help" in view.notice
        assert len(view.observation["progress"]) == 3 and view.observation["progress"][1] > 1
        run.command("take_over", holder="page")
        wait_for(lambda: run.steering.held, what="the hand")
        run.command("tag", why="stuck")
        run.command("tag", why="none of these")
        wait_for(lambda: any(step.tag for step in run.link.sent), what="steps of the person, with their reason")
        assert run.asking.endings[0].ending == "answered" and run.link.asks == ""
    person = [step for step in run.link.sent if step.intervened]
    assert {step.tag for step in person} <= {"", "stuck"} and not any(step.tag for step in run.link.sent if not step.intervened)


def test_a_robot_that_is_told_to_go_on_goes_on(tmp_path: Path) -> None:
    with Loop(tmp_path) as run:
        assert run.stays()
        run.command("resume", ask=True)
        episode = run.slide.episode
        wait_for(lambda: run.slide.episode > episode, what="the next episode")
    assert run.asking.endings[0].ending == "dismissed"


def test_nobody_comes_and_the_robot_goes_on(tmp_path: Path) -> None:
    with Loop(tmp_path, ask_timeout=0.2) as run:
        episode = run.slide.episode
        wait_for(lambda: run.slide.episode > episode + 2, what="episodes without another ask")
    assert [ended.ending for ended in run.asking.endings] == ["unanswered"]


def test_while_asking_it_may_go_on(tmp_path: Path) -> None:
    with Loop(tmp_path, while_asking="go-on") as run:
        wait_for(lambda: run.slide.episode > 2, what="episodes that nobody waits for")


def test_a_stopped_robot_never_moves_whatever_becomes_of_the_ask(tmp_path: Path) -> None:
    """The end of an ask is no permission: not an answer that comes late, not a hand that comes and goes."""
    with Loop(tmp_path) as run:
        run.command("stop", stay=True)
        run.command("resume", ask=True)  # of a page that did not see the stop yet
        wait_for(lambda: "stop" in run.latch.holds, what="the latch")
        wait_for(lambda: run.asking.ask is None, what="the end of the ask")
        assert run.asking.endings[0].ending == "over" and run.stays() and run.loop.state == "stopped"
        run.command("take_over", holder="page")
        wait_for(lambda: run.steering.held, what="the hand")
        run.command("release", holder="page")
        assert run.stays() and run.loop.state == "stopped"
        run.command("resume")
        wait_for(lambda: not run.latch.holds, what="the release")
        moves = run.slide.moves
        wait_for(lambda: run.slide.moves > moves, what="a step")


def test_a_robot_on_its_way_back_stops_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, send, paused_at = Loop(tmp_path, asks=0), Link.send, list[float]()
    run.slide.ditch = 2.0

    def pause_on_the_way_back(link: Link, steps: Sequence[Transition]) -> None:
        send(link, steps)
        if steps[-1].action[0] < -0.3 and not paused_at:
            paused_at.append(run.slide.x)
            run.command("pause")

    monkeypatch.setattr(Link, "send", pause_on_the_way_back)
    run._thread.start()
    try:
        wait_for(lambda: run.slide.episode > KNOWN, what="successes")
        run.slide.ditch = 0.5
        wait_for(lambda: paused_at and "pause" in run.latch.holds, what="the latch on the way back")
        assert run.stays() and run.slide.x == paused_at[0]
    finally:
        run.__exit__()
