"""The control loop of an actor process: resets and steps at its pace, commands of people, and views for them.

The loop never waits for people who watch or steer. Their commands, at any moment:

    take over, let go     the hand's actions instead of the policy's, at the pace of the real world (`teleop/steering.py`)
    tag                   {"why": one of `teleop.ask.TAGS`}: why the person took over
    pause, resume         stand still and go on; resume also ends the standing still after a STOP, a lost hand and a violated limit.
                          With {"ask": true} it only tells a robot that asks for help to go on without: what holds it stays
    stop                  the actor ends. With {"stay": true} it stands still until resume
    label                 {"success": true | false | null, "episode": its number}: the episode of row 0 ends with the next step, as
                          success, failure, or cut short
    record                {"what": "discard" | "redo"}: the episode of row 0 is thrown away and another begins
                          {"what": "wrong", "episode": its number}: a success of row 0 was none; the episode is thrown away

What makes the robot stand still halts it first, is then written to the disk (`latch.py`), and only then shown or logged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Literal

from tandem.acting.actor import Actor
from tandem.acting.asking import Asking, Ending
from tandem.acting.latch import Latch, short
from tandem.acting.limits import Limits
from tandem.acting.rewards import Label
from tandem.acting.verdicts import contradict, discard, give_label
from tandem.acting.view_stream import ViewStream
from tandem.acting.watchdog import Halt, Watchdog
from tandem.acting.watchdog_process import WatchdogProcess
from tandem.errors import CameraFailed, LimitViolated
from tandem.link.client import ActorClient
from tandem.link.messages import Command
from tandem.runs.isolation import Apart, Lines
from tandem.teleop.ask import TAGS
from tandem.teleop.steering import Steering

Watch = Callable[[Actor, ActorClient], Iterable[str]]
"""Checks the loop now and then; returns each problem once, in words."""
WhenAlone = Literal["hold", "finish-episode", "go-on"]
"""What a robot does while the hub is away: nobody could stop it from afar."""
_LATE = 0.1
"""An action that comes this share of a control period too late counts as late."""
_IDLE_S = 0.02
STEP_STALL_S, _STALLED_PERIODS = 2.0, 20
"""A step that takes longer than both has hung: seconds, and control periods."""
RESET_STALL_S = 60.0
"""A reset: a robot may drive to its start for a while."""
LABEL_S = 30.0
"""How long an episode that ended waits for the person who has to judge it; after that it counts as cut short."""


class ControlLoop:
    """`run` until stopped; everything happens in the thread that calls it, one phase after the other:

    reset ──► step ──► step ──► ... ──► the episode ends ──► (wait for a label) ──► reset ──► ...

    A reset has a time limit of its own and waits, like a step, while the robot has to stand still: also the first one, of an actor
    that was started again while something holds its robot.
    """

    def __init__(
        self,
        actor: Actor,
        client: ActorClient,
        steering: Steering | None,
        views: ViewStream,
        *,
        latch: Latch,
        realtime: bool,
        stopped: Callable[[], bool],
        say: Callable[[str], None],
        when_alone: WhenAlone = "go-on",
        guard: WatchdogProcess | None = None,
        watch: Watch = lambda actor, client: (),
        max_steps: int | None = None,
        limits: Limits | None = None,
        stalled: Callable[[str, float], None] = lambda phase, seconds: None,
        asking: Asking | None = None,
    ) -> None:
        self._stalled = stalled
        self._asking, self._waits = asking, False
        """Whom the robot asks for help, and whether it waits for the answer; None: it never asks."""
        self._actor, self._client, self._steering, self._views = actor, client, steering, views
        self._realtime, self._stopped, self._watch, self._max_steps = realtime, stopped, watch, max_steps
        self._say = say = Lines(say)
        self._apart = Apart(lambda line: say(f"[ACTOR] {line}"))
        """Views, pictures and checks: none of them may end the control of a robot."""
        self._rhythm = Rhythm(actor.spec.control_hz)
        self._limits = limits
        self._stall_s, self._reset_s = (limits.settings.stall_s, limits.settings.reset_s) if limits else (0.0, 0.0)
        self._halt = Halt(actor.env.halt, say)
        self._watchdog, self._guard = Watchdog(self._halt, say), guard
        self._latch, self._when_alone = latch, when_alone
        self._begun = self._ended = self._resetting = self._alone = self._stranded = False
        self._label_until: float | None = None
        """How long the episode that ended waits for its label."""
        self._no_room = ""
        """Why the next step could not be kept: it is not made."""
        self._notice = ""
        self._said = ""
        self._said_limits: set[str] = set()
        self._said_late = False

    @property
    def state(self) -> str:
        """As people see it (`link.messages.STATES`)."""
        holds = self._latch.holds
        if self._ended or "stop" in holds:
            return "stopped"
        if "pause" in holds:
            return "paused"
        if self._resetting:
            return "resetting"
        return "holding" if holds or self._alone or self._waits or self._no_room or self._actor.needs_label else "running"

    def run(self) -> None:
        """Until it is over, or something fails: in both cases the robot is halted before anything else."""
        try:
            self._say_what_holds()
            self._go_on()
        finally:
            self._halt("the actor ends")
            if self._guard is not None:
                self._guard.end()
        if self._actor.needs_label:
            self._actor.settle()
        self._ended = True
        self._show(moved=False)

    def _say_what_holds(self) -> None:
        """The robot of an actor that was started again stands still as it did before."""
        if not self._latch.holds:
            return
        if "lost" in self._latch.holds and self._steering is not None:
            self._steering.strand()
        self._say(
            f"[ACTOR] the robot stands still: {self._latch.words}. It moves after `resume` in the page, or, while this actor is stopped: "
            f"tandem latch --folder {self._latch.path.parent} --release '{self._client.name}'"
        )

    def _go_on(self) -> None:
        self._wait_for_policy()
        while not self._over():
            self.handle_commands()
            if self._ended:
                break
            moved = self._advance()
            self._note_hand()
            self._show(moved)
            if not moved:
                self._rhythm.restart()
                time.sleep(_IDLE_S if self._stands() or self._alone or self._waits or self._actor.needs_label else 0.0)
            elif self._at_real_pace():
                self._rhythm.wait()
                self._say_if_late()

    def _over(self) -> bool:
        return self._ended or self._stopped() or (self._max_steps is not None and self._actor.steps >= self._max_steps)

    def _wait_for_policy(self) -> None:
        """A robot does not move before there is a policy."""
        if self._actor.own_policy is not None:
            return
        if self._client.newest_policy() is None:
            self._say("[ACTOR] waiting for the first policy")
        while self._client.newest_policy() is None and not self._over():
            self.handle_commands()
            self._show(moved=False)
            time.sleep(_IDLE_S)

    def _advance(self) -> bool:
        """The next phase; returns whether a step was made."""
        self._no_room = self._client.no_room()
        if self._actor.needs_label:
            self._await_label()
        elif self._stands() or self._waits_alone() or self._waits_for_help():
            return False
        elif not self._begun:
            self._begun = self._reset(self._actor.begin)
        elif self._actor.needs_reset:
            self._reset(self._actor.reset_ended)
        elif self._may_step():
            return self._step()
        return False

    def _reset(self, reset: Callable[[], None]) -> bool:
        self._resetting = True
        self._show(moved=False, at_once=self._at_real_pace())
        began = time.monotonic()
        made = self._call(reset, "reset", self._reset_s)
        self._report_stall("reset", time.monotonic() - began, RESET_STALL_S)
        self._resetting = False
        self._rhythm.restart()
        return made

    def _call(self, call: Callable[[], None], phase: str, seconds: float) -> bool:
        """A step or a reset within its time; False if it violated a limit, and the robot stands still from now on."""
        if self._guard is not None:
            self._guard.expect_next(seconds)
        try:
            with self._watchdog.limit(phase, seconds):
                call()
            return True
        except LimitViolated as problem:
            self._stand("limit", "the robot", str(problem))
            if isinstance(problem, CameraFailed):  # what it showed before that was noticed is stored already
                episode = discard(self._actor, problem.row)
                self._say(f"[ACTOR] episode {episode} is not learned from: its camera had failed")
            self._actor.leave_episodes()
            return False

    def _step(self) -> bool:
        if not self._at_real_pace():
            self._rhythm.restart()
        began = time.monotonic()
        if not self._call(self._actor.step, "step", self._stall_s):
            return False
        self._report_stall("step", time.monotonic() - began, max(STEP_STALL_S, _STALLED_PERIODS / self._actor.spec.control_hz))
        with self._apart("the check of the loop"):
            for warning in self._watch(self._actor, self._client):
                self._say(f"[ACTOR] {warning}")
        return True

    def _report_stall(self, phase: str, seconds: float, longest: float) -> None:
        """An environment that hangs and comes back leaves a word behind: otherwise nobody knows where the minutes went."""
        if seconds > longest:
            self._say(f"[ACTOR] a {phase} of the environment took {seconds:.1f} s")
            with self._apart("the note about it"):
                self._stalled(phase, seconds)

    def _await_label(self) -> None:
        """The robot stands still until a person has judged the episode, or nobody has for too long."""
        now = time.monotonic()
        if self._label_until is None:
            self._label_until, self._notice = now + LABEL_S, "the episode has ended: was it a success?"
        elif now > self._label_until:
            self._actor.settle()
            self._label_until, self._notice = None, self._actor.judged.why if self._actor.judged else ""

    def _say_if_late(self) -> None:
        if self._rhythm.late and self._realtime and not self._said_late:
            self._said_late = True
            period_ms = 1e3 / self._actor.spec.control_hz
            took = "" if self._actor.judged is None else f" (its last step took {1e3 * self._actor.judged.step.seconds:.0f} ms)"
            self._say(f"[ACTOR] a control period of {period_ms:.0f} ms was overrun: the environment is too slow for it{took}")

    def _stand(self, kind: str, who: str, why: str) -> None:
        """Stand still until somebody says resume: halt, then write it down. `_show` says it after that."""
        self._halt(why)
        self._latch.hold(kind, who, why)
        self._end_ask("over")

    def _stands(self) -> bool:
        """A hand that was lost a moment ago commands no motion for 3 s, as steps that are stored; all else that holds it makes no step.

        Nothing that holds it allows a reset, which moves the robot.
        """
        if self._no_room:
            return True
        if self._steering is not None and self._steering.state == "lost" and self._begun and not self._actor.needs_reset:
            return bool(self._latch.holds.keys() - {"lost"})
        return bool(self._latch.holds)

    def _note_hand(self) -> None:
        """A hand that was lost is a reason to stand still, until somebody takes control again."""
        steering = self._steering
        if steering is None:
            return
        if steering.stands and not self._stranded:
            self._halt(steering.notice)
        self._stranded = steering.stands
        if steering.state in ("lost", "stranded"):
            if "lost" not in self._latch.holds:
                self._latch.hold("lost", steering.holder, steering.notice)
        elif "lost" in self._latch.holds:
            self._latch.release("lost")

    def _waits_alone(self) -> bool:
        """The hub is away, so nobody could stop this robot from afar. A hand on this machine may move it."""
        held = self._steering is not None and self._steering.held
        begun = self._begun and not self._actor.needs_reset and self._actor.place[1] > 0
        goes_on = self._when_alone == "go-on" or held or (self._when_alone == "finish-episode" and begun)
        alone = not goes_on and self._client.alone
        if alone and not self._alone:
            self._halt("the hub is away")
            self._say(f"[ACTOR] the hub is away: standing still until it is back (--when-alone {self._when_alone})")
        elif self._alone and not alone:
            self._say("[ACTOR] going on")
        self._alone = alone
        return alone

    def _waits_for_help(self) -> bool:
        """It has asked a person and holds still until somebody takes over, says resume, or nobody has answered in time."""
        held = self._steering is not None and self._steering.held
        waits = self._asking is not None and self._asking.holds and not held
        if waits and not self._waits:
            self._halt("the robot asks for help")
        self._waits = waits
        return waits

    def _at_real_pace(self) -> bool:
        """A robot always, a simulation while a person's hand is on it."""
        return self._realtime or (self._steering is not None and self._steering.held)

    def _may_step(self) -> bool:
        """A person need not wait for the learner's credit: ten steps a second do no harm to the ratio."""
        return (self._steering is not None and self._steering.held) or self._client.may_step(timeout=0.1)

    def _show(self, moved: bool, at_once: bool = False) -> None:
        """For people who watch. A view that cannot be made is said once, and control goes on without it."""
        with self._apart("the view for people"):
            self._show_state(moved, at_once)

    def _show_state(self, moved: bool, at_once: bool) -> None:
        steering = self._steering
        held = [f"{hold}: standing still until resume" for kind, hold in self._latch.holds.items() if kind != "lost" or steering is None]
        self._client.stands_still(self._latch.words)
        asks = self._asking.words if self._asking is not None else ""
        self._client.asks_for_help(asks)
        said = "; ".join(
            part for part in (self._notice, self._no_room, steering.notice if steering else "", *held, self._latch.problem, asks) if part
        )
        if said != self._said:
            self._said = said
            if said:
                self._say(f"[ACTOR] {said}")
        notice = "; ".join(part for part in (said, self._limited() if moved else "") if part)
        nobody = self._stands() or self._alone or self._waits or self._actor.needs_label or self._resetting
        who = "nobody" if nobody else steering.who if steering else "policy"
        holder = steering.holder if steering else ""
        self._views.turn(who=who, holder=holder, state=self.state, notice=notice, moved=moved, at_once=at_once)

    def _limited(self) -> str:
        """What the limits changed in the last action; each kind is logged once, and shown every time."""
        notice = self._limits.notice if self._limits is not None else ""
        if notice and notice not in self._said_limits:
            self._said_limits.add(notice)
            self._say(f"[ACTOR] {notice} (logged once; a page shows it every time)")
        return notice

    def close(self) -> None:
        self._watchdog.close()
        if self._steering is not None and self._steering.hand is not None:
            self._steering.hand.close()

    # ---- commands

    def handle_commands(self) -> None:
        """All commands since the last call, in order, and the newest steering."""
        if self._guard is not None:
            self._guard.expect_next()
        self._latch.try_again()
        for command in self._client.commands():
            self._handle(command)
        if self._asking is not None:
            self._asking.tick()
        if self._steering is not None:
            newest = self._client.control()
            if newest is not None:
                control, at = newest
                self._steering.steer(control.holder, control.axes, at)
            if self._stands() or self._alone or self._waits or self._actor.needs_label:
                self._steering.watch_hand()
            while self._steering.commands:
                name, detail = self._steering.commands.pop(0)
                self._handle(Command(name, self._client.source, {"who": self._steering.hand_name, **detail}))
            self._note_hand()

    def _handle(self, command: Command) -> None:
        if self._asking is not None and command.command != "watch":
            self._asking.somebody_is_there()
        if command.command == "watch":
            with self._apart("the view for people"):
                self._views.watch(command)
        elif command.command == "stop" and command.detail.get("stay"):
            self._stand("stop", _who(command), "stopped by a person")
        elif command.command == "stop":
            self._halt("stopped by a person")
            self._ended = True
            self._say("[ACTOR] stopped by a person")
        elif command.command == "pause":
            self._stand("pause", _who(command), "paused by a person")
        elif command.command == "resume" and command.detail.get("ask"):
            self._end_ask("dismissed")
        elif command.command == "resume":
            self._resume(_who(command))
        elif command.command in ("take_over", "release") and self._steering is not None:
            self._change_hands(self._steering, command)
        elif command.command == "label":
            self._label(command)
        elif command.command == "record" and command.detail.get("what") in ("discard", "redo"):
            self._label_until, self._notice = None, ""
            self._say(f"[ACTOR] a person discards episode {discard(self._actor)}")
        elif command.command == "record" and command.detail.get("what") == "wrong":
            self._contradict(command)
        elif command.command == "tag" and command.detail.get("why") in TAGS:
            self._tag(str(command.detail["why"]))

    def _end_ask(self, ending: Ending) -> None:
        if self._asking is not None:
            self._asking.end(ending)

    def _tag(self, why: str) -> None:
        """Stored with the steps that the person makes from now on."""
        if self._steering is not None and self._steering.held:
            self._steering.tag = why
            self._say(f"[ACTOR] a person says why they took over: {why}")

    def _resume(self, who: str) -> None:
        self._latch.release()
        self._end_ask("dismissed")
        if self._steering is not None:
            self._steering.resume()
        self._say(f"[ACTOR] resume, by {who}")

    def _label(self, command: Command) -> None:
        success, episode = command.detail.get("success"), command.detail.get("episode")
        label = Label(success if isinstance(success, bool) else None)
        refused = give_label(self._actor, label, episode if type(episode) is int else None)
        self._label_until, self._notice = None, f"the label '{label}' was ignored: {refused}" if refused else ""
        if not refused:
            self._say(f"[ACTOR] a person says: {label}")

    def _contradict(self, command: Command) -> None:
        given = command.detail.get("episode")
        episode = contradict(self._actor, given if type(given) is int else None)
        self._notice = "no episode of this robot has ended as a success yet: there is no reward to take back" if episode is None else ""
        if episode is not None:
            self._say(f"[ACTOR] a person says: the success of episode {episode} was none; it is discarded")

    def _change_hands(self, steering: Steering, command: Command) -> None:
        holder = str(command.detail.get("holder", "")) or "somebody"
        if command.command == "take_over":
            other = steering.take(holder)
            self._say(f"[ACTOR] '{holder}' has taken control" if not other else f"[ACTOR] '{holder}' wants control, but '{other}' has it")
        elif command.detail.get("lost"):
            steering.lose(holder, f"the page '{holder}' was lost")
        else:
            steering.let_go(holder)
            self._say(f"[ACTOR] '{holder}' has let go")


def _who(command: Command) -> str:
    """Who gave a command, as the hub or the device on this machine says it."""
    return short(str(command.detail.get("who", ""))) or "a person"


class Rhythm:
    """One beat per control period. A late one moves those that follow: two are never closer together than half a period.

    A step that came back late by more than half a period has hung. Its action may have been executed just before it came back, so the
    next one waits for half a period.
    """

    def __init__(self, hz: float) -> None:
        self._period = 1 / hz
        self.late = 0
        """Beats that were missed."""
        self.restart()

    def restart(self) -> None:
        self._next = time.monotonic() + self._period

    def wait(self) -> None:
        left = self._next - time.monotonic()
        if left > 0:
            time.sleep(left)
            # the sleep itself may have lasted long: a quarter of a period is caught up at most, so that half of one is kept in any case
            self._next = max(self._next, time.monotonic() - self._period / 4) + self._period
            return
        if left < -_LATE * self._period:
            self.late += 1
        if left < -self._period / 2:
            time.sleep(self._period / 2)
        self.restart()
