"""The phases of the control loop: a reset is not a step, has a limit of its own, and waits while the robot has to stand still."""

import itertools
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tandem.acting import control_loop
from tandem.acting.actor import Actor
from tandem.acting.control_loop import ControlLoop, Rhythm
from tandem.acting.latch import Latch, read_latch
from tandem.acting.limits import Limits, LimitSettings
from tandem.acting.person_reward import PersonReward
from tandem.acting.view_stream import ViewStream
from tandem.envs.scenery import Scenery
from tandem.errors import LimitViolated
from tandem.layouts import ActionLayout
from tandem.link.messages import Command
from tandem.teleop.operator import HandsOff
from tandem.teleop.steering import Steering
from tests.acting.counter_env import LENGTH, Link, counters, steady
from tests.waiting import wait_for


class Loop:
    """A control loop in a thread, over a counter and a link that keeps what passes."""

    def __init__(
        self,
        settings: LimitSettings | None = None,
        realtime: bool = True,
        rewards: Any = None,
        stalled: Any = None,
        folder: Path | None = None,
        when_alone: Any = "hold",
        steering: Steering | None = None,
        **env: Any,
    ) -> None:
        self.env, [self.counter] = counters()
        self.latch = Latch.open(folder or Path(tempfile.mkdtemp()), "counter", "robot", takes_over=realtime)
        for name, value in env.items():
            setattr(self.counter, name, value)
        self.link, self.lines, self.stop = Link(steady(0.4)), [], threading.Event()
        actor = Actor(self.env, self.link, [steering or HandsOff()], source="robot", seed=0, rewards=rewards)
        views = ViewStream(actor, self.link, lambda: Scenery(self.env, ["x"]))
        self.loop = ControlLoop(
            actor,
            self.link,  # pyright: ignore[reportArgumentType]  stands in for an ActorClient
            steering,
            views,
            latch=self.latch,
            realtime=realtime,
            when_alone=when_alone,
            stopped=self.stop.is_set,
            say=self.lines.append,
            limits=Limits(self.env.spec, settings or LimitSettings()),
            stalled=stalled or (lambda phase, seconds: None),
        )
        self.command("watch", hz=20)
        self._thread = threading.Thread(target=self.loop.run, daemon=True)

    def command(self, name: str, **detail: Any) -> None:
        self.link.waiting = [*self.link.waiting, Command(name, "robot", detail)]

    @property
    def thread(self) -> int | None:
        return self._thread.ident

    def __enter__(self) -> "Loop":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join(10)
        self.loop.close()
        self.latch.close()
        assert not self._thread.is_alive()


def test_a_reset_of_three_seconds_is_no_hang_and_is_shown() -> None:
    """The limit of a step is 2 s by default: it must not hold for a robot that drives to its start."""
    with Loop(reset_s=3.0) as run:
        wait_for(lambda: run.counter.episode == 0, 15, what="the first episode")
        run.command("watch", hz=20)  # as a page does again every second
        wait_for(lambda: run.counter.episode == 1, 15, what="the second episode")
        assert run.counter.halts == 0
    assert run.counter.halts == 1 and not any("hangs" in line for line in run.lines), "halted at its end alone"
    shown = [view.state for view in run.link.views]
    assert "resetting" in shown[shown.index("running") :], "people see why nothing happens"
    resetting = next(view for view in run.link.views if view.state == "resetting" and view.steps)
    assert resetting.who == "nobody" and resetting.steps == LENGTH


def test_a_reset_beyond_its_own_limit_is_halted_once_from_another_thread() -> None:
    with Loop(LimitSettings(reset_s=0.2), reset_s=0.6) as run:
        wait_for(lambda: run.link.sent, what="a step")
        assert run.counter.halts == 1 and run.counter.thread_of_halt not in (None, threading.get_ident(), run.thread)
        run.stop.set()
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
        wait_for(lambda: run.link.sent, what="a step")
        run.command("pause")
        run.command("record", what="discard")
        wait_for(lambda: run.link.ends, what="the discard")
        episode, made = run.counter.episode, len(run.link.sent)
        time.sleep(0.2)
        assert (run.counter.episode, len(run.link.sent)) == (episode, made)
        run.command("resume")
        wait_for(lambda: run.counter.episode == episode + 1, what="the reset")


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


# ---- standing still


def test_a_stop_halts_first_is_then_on_the_disk_and_only_then_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    order: list[str] = []
    with Loop(folder=tmp_path, step_s=0.02) as run:
        wait_for(lambda: len(run.link.sent) > 1, what="steps")
        monkeypatch.setattr(run.counter, "halt", lambda: order.append("halt"))
        run.env._halts[:] = [lambda: order.append("halt")]
        hold = run.latch.hold

        def hold_slowly(*arguments: str) -> None:
            hold(*arguments)
            order.append("written" if "stopped by a person" in run.latch.path.read_text() else "not written")

        monkeypatch.setattr(run.latch, "hold", hold_slowly)
        say = run.lines.append

        def say_in_order(line: str) -> None:
            if "overrun" not in line:  # a busy machine may be late at any moment
                order.append("said")
            say(line)

        monkeypatch.setattr(run.loop._say, "_say", say_in_order)
        run.command("stop", stay=True, who="Ada")
        wait_for(lambda: run.link.standing, what="the stop")
        assert order[:3] == ["halt", "written", "said"]
        steps = len(run.link.sent)
        time.sleep(0.1)
        assert len(run.link.sent) == steps
        assert "stopped by a person (by Ada, 2" in run.link.standing and run.link.views[-1].state == "stopped"
        assert "stopped by a person (by Ada" in run.link.views[-1].notice and run.link.views[-1].who == "nobody"


def test_what_held_the_robot_holds_it_after_a_restart_before_it_is_reset(tmp_path: Path) -> None:
    for command, state in (("stop", "stopped"), ("pause", "paused")):
        with Loop(folder=tmp_path) as run:
            wait_for(lambda run=run: run.link.sent, what="a step")
            run.command(command, stay=True)
            wait_for(lambda run=run: run.link.standing, what="standing still")
        with Loop(folder=tmp_path) as again:
            time.sleep(0.3)
            assert not again.link.sent and again.counter.episode == -1, "it is not even reset"
            assert again.loop.state == state and any("the robot stands still" in line and "tandem latch" in line for line in again.lines)
            again.command("resume")
            wait_for(lambda again=again: again.link.sent, what="a step after resume")
        with Loop(folder=tmp_path) as free:
            wait_for(lambda free=free: free.link.sent, what="a step: resume outlives the process too")


def test_a_lost_hand_holds_the_robot_of_a_restarted_actor_until_somebody_takes_it(tmp_path: Path) -> None:
    with Loop(folder=tmp_path, steering=_steering()) as run:
        wait_for(lambda: run.link.sent, what="a step")
        run.command("take_over", holder="page-1")  # which then says nothing
        wait_for(lambda: any(view.state == "holding" for view in run.link.views), what="the loss")
        assert "page-1" in read_latch(run.latch.path).holds["lost"].who, "written before it is shown"
        episode = run.counter.episode
        time.sleep(0.2)
        assert run.counter.episode == episode, "steps without motion until the episode ends, but no reset: that would move the robot"
        run.command("take_over", holder="page-2")
        wait_for(lambda: not read_latch(run.latch.path).holds, what="another hand")
        wait_for(lambda: read_latch(run.latch.path).holds, what="its loss")
    with Loop(folder=tmp_path, steering=_steering()) as again:
        time.sleep(0.2)
        assert not again.link.sent and again.counter.episode == -1 and again.loop.state == "holding"
        again.command("take_over", holder="page-3")
        wait_for(lambda: again.link.sent, what="a step")


def _steering() -> Steering:
    return Steering(ActionLayout.of(counters()[0].spec))


def test_a_violated_limit_holds_the_robot_and_a_new_episode_begins_after_resume(tmp_path: Path) -> None:
    with Loop(folder=tmp_path, step_s=0.02) as run:
        wait_for(lambda: len(run.link.sent) >= 1, what="a step")
        step = run.counter.step
        run.counter.step = lambda action: _violate()
        wait_for(lambda: run.link.standing, what="standing still")
        assert "force of 80 N" in run.link.standing and run.counter.halts == 1 and run.loop.state == "holding"
        run.counter.step = step
        episode = run.counter.episode
        run.command("resume")
        wait_for(lambda: run.counter.episode == episode + 1, what="another episode")
    assert "force of 80 N" not in run.latch.path.read_text()


def _violate() -> Any:
    raise LimitViolated("a force of 80 N was measured; at most 30 N are allowed")


def _fail() -> Any:
    raise ZeroDivisionError("a fault of the environment")


def test_an_exception_in_the_loop_halts_the_robot_before_anything_else() -> None:
    run = Loop(step_s=0.01)
    run.counter.step = lambda action: _fail()
    run._thread = threading.Thread(target=_catching(run.loop.run, run.lines), daemon=True)
    run._thread.start()
    wait_for(lambda: any("ZeroDivisionError" in line for line in run.lines), what="the exception")
    assert run.counter.halts == 1
    run.loop.close()
    run.latch.close()


def _catching(function: Any, lines: list[str]) -> Any:
    def call() -> None:
        try:
            function()
        except Exception as problem:
            lines.append(f"{type(problem).__name__}: {problem}")

    return call


def test_a_view_that_cannot_be_made_does_not_end_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scenery, "poses", lambda scenery: 1 / 0)
    with Loop(step_s=0.01) as run:
        wait_for(lambda: len(run.link.sent) > 5, what="steps")
    assert len([line for line in run.lines if "the view for people failed: ZeroDivisionError" in line]) == 1


@pytest.mark.parametrize("when_alone", ["hold", "finish-episode", "go-on"])
def test_without_the_hub(when_alone: str) -> None:
    """An episode has three steps of 20 ms; the hub is gone during the first."""
    with Loop(when_alone=when_alone, step_s=0.02) as run:
        wait_for(lambda: len(run.link.sent) >= LENGTH and run.loop._actor.place[1] == 1, what="the first step of an episode")
        run.link.alone = True
        if when_alone == "go-on":
            episode = run.counter.episode
            wait_for(lambda: run.counter.episode > episode + 2, what="more episodes")
            return
        wait_for(lambda: any("the hub is away: standing still" in line for line in run.lines), what="its word")
        steps, halts = len(run.link.sent), run.counter.halts
        time.sleep(0.2)
        assert len(run.link.sent) == steps and run.loop.state == "holding" and halts == run.counter.halts == 1
        assert (steps % LENGTH == 0) == (when_alone == "finish-episode")
        run.link.alone = False
        wait_for(lambda: len(run.link.sent) > steps, what="steps: nothing has to be resumed")


class Stamps:
    """The moments at which actions reach the robot: at the end of a step, as of an environment that hung before it sent them."""

    def __init__(self, run: Loop) -> None:
        self.at: list[float] = []
        self.stall_s = 0.0
        self._step = run.counter.step
        run.counter.step = self._stamped

    def _stamped(self, action: Any) -> Any:
        time.sleep(self.stall_s)
        self.stall_s = 0.0
        self.at.append(time.monotonic())
        return self._step(action)

    def closest(self) -> float:
        return min(b - a for a, b in itertools.pairwise(self.at))


def test_two_actions_are_never_closer_together_than_half_a_control_period_after_a_stall() -> None:
    with Loop() as run:  # 50 Hz: a period of 20 ms
        stamps = Stamps(run)
        wait_for(lambda: len(stamps.at) > 3, what="steps")
        stamps.stall_s = 0.5
        count = len(stamps.at)
        wait_for(lambda: len(stamps.at) > count + 4, what="steps after the stall")
    assert stamps.closest() >= 0.01


def test_lines_views_and_checks_that_fail_do_not_end_the_control_of_a_robot() -> None:
    """A full disk, a closed terminal, a page that asks for nonsense: the robot goes on, and each failure is said once."""
    with Loop(step_s=0.01) as run:
        written: list[str] = []
        full = [True]

        def say(line: str) -> None:
            if full[0]:
                raise OSError(28, "No space left on device")
            written.append(line)

        def fail(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("a fault of our own")

        run.loop._say._say = say
        run.command("pause")
        wait_for(lambda: run.loop._say.missing >= 1, what="the first line that cannot be written")
        run.command("resume")
        wait_for(lambda: run.loop._say.missing >= 2, what="the lines that cannot be written")
        full[0] = False
        before = len(run.link.sent)
        run.loop._watch = run.loop._views.turn = run.loop._views.watch = fail
        run.command("watch", hz=20)
        wait_for(lambda: len(run.link.sent) > before + 20, what="the robot to go on")
    assert len([line for line in written if "the view for people failed" in line]) == 1
    assert len([line for line in written if "the check of the loop failed" in line]) == 1
    assert "lines before this one are missing: OSError" in written[0]


class Oversleeping:
    """The module `time`, whose first sleep lasts too long: as by SIGSTOP, or on a machine that is too busy."""

    def __init__(self, seconds: float) -> None:
        self._left, self.monotonic = seconds, time.monotonic

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds + self._left)
        self._left = 0.0


@pytest.mark.parametrize("seconds", [0.014, 0.3])
def test_a_rhythm_that_overslept_does_not_catch_up(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(control_loop, "time", Oversleeping(seconds))
    rhythm, beats = Rhythm(50), []  # a period of 20 ms
    for _ in range(4):
        rhythm.wait()
        beats.append(time.monotonic())
    assert min(b - a for a, b in itertools.pairwise(beats)) >= 0.0099
