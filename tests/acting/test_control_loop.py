"""The phases of the control loop: a reset is not a step, has a limit of its own, and waits while the robot has to stand still."""

import threading
import time
from typing import Any

import pytest

from tandem.acting import control_loop
from tandem.acting.actor import Actor
from tandem.acting.control_loop import ControlLoop
from tandem.acting.limits import Limits, LimitSettings
from tandem.acting.person_reward import PersonReward
from tandem.acting.view_stream import ViewStream
from tandem.envs.scenery import Scenery
from tandem.link.messages import Command
from tandem.teleop.operator import HandsOff
from tests.acting.counter_env import LENGTH, Link, counters, steady
from tests.waiting import wait_for


class Loop:
    """A control loop in a thread, over a counter and a link that keeps what passes."""

    def __init__(
        self, settings: LimitSettings | None = None, realtime: bool = True, rewards: Any = None, stalled: Any = None, **env: Any
    ) -> None:
        self.env, [self.counter] = counters()
        for name, value in env.items():
            setattr(self.counter, name, value)
        self.link, self.lines, self.stop = Link(steady(0.4)), [], threading.Event()
        actor = Actor(self.env, self.link, [HandsOff()], source="robot", seed=0, rewards=rewards)
        views = ViewStream(actor, self.link, lambda: Scenery(self.env, ["x"]))
        self.loop = ControlLoop(
            actor,
            self.link,  # pyright: ignore[reportArgumentType]  stands in for an ActorClient
            None,
            views,
            realtime=realtime,
            stopped=self.stop.is_set,
            say=self.lines.append,
            limits=Limits(self.env.spec, settings or LimitSettings()),
            stalled=stalled or (lambda phase, seconds: None),
        )
        self.command("watch", hz=20)
        self._thread = threading.Thread(target=self.loop.run, daemon=True)

    def command(self, name: str, **detail: Any) -> None:
        self.link.waiting = [*self.link.waiting, Command(name, "robot", detail)]

    def __enter__(self) -> "Loop":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join(10)
        self.loop.close()
        assert not self._thread.is_alive()


def test_a_reset_of_three_seconds_is_no_hang_and_is_shown() -> None:
    """The limit of a step is 2 s by default: it must not hold for a robot that drives to its start."""
    with Loop(reset_s=3.0) as run:
        wait_for(lambda: run.counter.episode == 1, 15, what="the second episode")
    assert run.counter.halts == 0 and not any("hangs" in line for line in run.lines)
    shown = [view.state for view in run.link.views]
    assert "resetting" in shown and shown.index("resetting") > shown.index("running"), "people see why nothing happens"
    resetting = next(view for view in run.link.views if view.state == "resetting" and view.steps)
    assert resetting.who == "nobody" and resetting.steps == LENGTH


def test_a_reset_beyond_its_own_limit_is_halted_once_from_another_thread() -> None:
    with Loop(LimitSettings(reset_s=0.2), reset_s=0.6) as run:
        wait_for(lambda: run.link.sent, what="a step")
        run.stop.set()
    assert run.counter.halts == 1 and run.counter.thread_of_halt not in (None, threading.get_ident())
    assert [line for line in run.lines if "hangs" in line] == [
        "[ACTOR] the environment's reset takes longer than 0.2 s: it hangs. Motion is stopped."
    ]


def test_a_step_beyond_its_limit_is_still_a_hang() -> None:
    with Loop(LimitSettings(stall_s=0.2), step_s=0.5) as run:
        wait_for(lambda: run.link.sent, what="a step")
    assert run.counter.halts >= 1 and any("environment's step takes longer than 0.2 s" in line for line in run.lines)


def test_a_fast_simulation_has_no_time_limit_and_makes_many_episodes() -> None:
    with Loop(LimitSettings(stall_s=0.0, reset_s=0.0), realtime=False) as run:
        wait_for(lambda: run.counter.episode > 20, what="many episodes")
    ends = [step for step in run.link.sent if step.last]
    assert [step.next_observation["state"].tolist() for step in ends[:3]] == [[0, LENGTH], [1, LENGTH], [2, LENGTH]]


def test_a_robot_that_has_to_stand_still_is_not_reset_either() -> None:
    with Loop(step_s=0.05) as run:
        wait_for(lambda: len(run.link.sent) == 1, what="a step")
        run.command("pause")
        run.command("record", what="discard")
        wait_for(lambda: run.link.ends, what="the discard")
        time.sleep(0.2)
        assert run.counter.episode == 0 and len(run.link.sent) <= 2
        run.command("resume")
        wait_for(lambda: run.counter.episode == 1, what="the reset")


def test_a_step_that_could_not_be_kept_is_not_made() -> None:
    with Loop(step_s=0.02) as run:
        wait_for(lambda: run.link.sent, what="a step")
        run.link.full = "standing still until steps can be kept: the disk is full"
        wait_for(lambda: run.link.views and run.link.views[-1].state == "holding", what="the state on the page")
        made = len(run.link.sent)
        time.sleep(0.3)
        assert len(run.link.sent) == made and run.link.views[-1].who == "nobody"
        assert run.link.views[-1].notice == run.link.full and any(run.link.full in line for line in run.lines)
        run.link.full = ""
        wait_for(lambda: len(run.link.sent) > made, what="the next step")
        assert run.link.views[-1].notice == ""


def test_a_late_label_is_refused_aloud() -> None:
    with Loop(step_s=0.02) as run:
        wait_for(lambda: run.counter.episode >= 1, what="the second episode")
        run.command("label", success=True, episode=0)
        wait_for(lambda: any("'success' was ignored: it is about episode 0" in line for line in run.lines), what="the refusal")
    assert run.link.ends == []


def test_an_episode_waits_for_its_label_and_the_loop_goes_on_after_it() -> None:
    with Loop(rewards=PersonReward()) as run:
        wait_for(lambda: any("was it a success?" in view.notice for view in run.link.views), what="the question")
        assert len(run.link.sent) == LENGTH - 1 and run.link.views[-1].state == "holding"
        time.sleep(0.1)
        assert run.counter.episode == 0
        run.command("label", success=True, episode=0)
        wait_for(lambda: run.counter.episode == 1, what="the next episode")
    assert run.link.sent[LENGTH - 1].success and run.link.ends[0].success is True


def test_an_episode_that_waits_for_its_label_is_stored_when_the_actor_stops() -> None:
    with Loop(rewards=PersonReward()) as run:
        wait_for(lambda: any("was it a success?" in view.notice for view in run.link.views), what="the question")
        run.command("stop")
    assert len(run.link.sent) == LENGTH and run.link.sent[-1].truncated


def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.acting.control_loop.LABEL_S", 0.1)
    with Loop(rewards=PersonReward()) as run:
        wait_for(lambda: run.counter.episode == 1, what="the next episode")
    assert run.link.sent[LENGTH - 1].truncated and any("nobody judged the last episode" in line for line in run.lines)


def test_a_step_that_hung_and_came_back_leaves_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_loop, "STEP_STALL_S", 0.3)
    monkeypatch.setattr(control_loop, "RESET_STALL_S", 0.3)
    stalls: list[tuple[str, float]] = []
    with Loop(LimitSettings(stall_s=0.0), step_s=0.5, reset_s=0.4, stalled=lambda phase, seconds: stalls.append((phase, seconds))) as run:
        wait_for(lambda: run.counter.episode == 1, 15, what="the second episode")
    assert {phase for phase, _ in stalls} == {"step", "reset"} and all(seconds > 0.3 for _, seconds in stalls)
    assert any(line.startswith("[ACTOR] a step of the environment took 0.5") for line in run.lines)
