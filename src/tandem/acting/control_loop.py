"""The control loop of an actor process: resets and steps at its pace, commands of people, and views for them.

The loop never waits for people who watch or steer. Their commands, at any moment:

    take over, let go     the hand's actions instead of the policy's, at the pace of the real world (`teleop/steering.py`)
    pause, resume         stand still and go on; resume also ends the standing still after a hand was lost
    stop                  the actor ends. With {"stay": true} it stands still until resume
    label                 {"success": true | false | null, "episode": its number}: the episode of row 0 ends with the next step, as
                          success, failure, or cut short
    record                {"what": "discard" | "redo"}: the episode of row 0 is thrown away and another begins
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from tandem.acting.actor import Actor
from tandem.acting.limits import Limits
from tandem.acting.rewards import Label
from tandem.acting.view_stream import ViewStream
from tandem.acting.watchdog import Watchdog
from tandem.link.client import ActorClient
from tandem.link.messages import Command
from tandem.teleop.steering import Steering

Watch = Callable[[Actor, ActorClient], Iterable[str]]
"""Checks the loop now and then; returns each problem once, in words."""
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

    A reset has a time limit of its own and waits, like a step, while the robot has to stand still.
    """

    def __init__(
        self,
        actor: Actor,
        client: ActorClient,
        steering: Steering | None,
        views: ViewStream,
        *,
        realtime: bool,
        stopped: Callable[[], bool],
        say: Callable[[str], None],
        watch: Watch = lambda actor, client: (),
        max_steps: int | None = None,
        limits: Limits | None = None,
        stalled: Callable[[str, float], None] = lambda phase, seconds: None,
    ) -> None:
        self._stalled = stalled
        self._actor, self._client, self._steering, self._views = actor, client, steering, views
        self._realtime, self._stopped, self._say, self._watch, self._max_steps = realtime, stopped, say, watch, max_steps
        self._rhythm = Rhythm(actor.spec.control_hz)
        self._limits = limits
        self._stall_s, self._reset_s = (limits.settings.stall_s, limits.settings.reset_s) if limits else (0.0, 0.0)
        self._watchdog = Watchdog(actor.env.halt, say)
        self._paused = self._stays = self._ended = self._resetting = False
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
        if self._ended or self._stays:
            return "stopped"
        if self._paused:
            return "paused"
        if self._resetting:
            return "resetting"
        lost = self._steering is not None and self._steering.state in ("lost", "stranded")
        return "holding" if lost or self._no_room or self._actor.needs_label else "running"

    def run(self) -> None:
        self._wait_for_policy()
        if not self._over():
            self._reset(self._actor.begin)
        while not self._over():
            self.handle_commands()
            if self._ended:
                break
            moved = self._advance()
            self._show(moved)
            if not moved:
                self._rhythm.restart()
                time.sleep(_IDLE_S if self._stands() or self._actor.needs_label else 0.0)
            elif self._at_real_pace():
                self._rhythm.wait()
                self._say_if_late()
        if self._actor.needs_label:
            self._actor.settle()
        self._ended = True
        self._show(moved=False)

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
            time.sleep(_IDLE_S)

    def _advance(self) -> bool:
        """The next phase; returns whether a step was made."""
        self._no_room = self._client.no_room()
        if self._actor.needs_label:
            self._await_label()
        elif self._stands():
            return False
        elif self._actor.needs_reset:
            self._reset(self._actor.reset_ended)
        elif self._may_step():
            self._step()
            return True
        return False

    def _reset(self, reset: Callable[[], None]) -> None:
        self._resetting = True
        self._show(moved=False, at_once=self._at_real_pace())
        began = time.monotonic()
        with self._watchdog.limit("reset", self._reset_s):
            reset()
        self._report_stall("reset", time.monotonic() - began, RESET_STALL_S)
        self._resetting = False
        self._rhythm.restart()

    def _step(self) -> None:
        if not self._at_real_pace():
            self._rhythm.restart()
        began = time.monotonic()
        with self._watchdog.limit("step", self._stall_s):
            self._actor.step()
        self._report_stall("step", time.monotonic() - began, max(STEP_STALL_S, _STALLED_PERIODS / self._actor.spec.control_hz))
        for warning in self._watch(self._actor, self._client):
            self._say(f"[ACTOR] {warning}")

    def _report_stall(self, phase: str, seconds: float, longest: float) -> None:
        """An environment that hangs and comes back leaves a word behind: otherwise nobody knows where the minutes went."""
        if seconds > longest:
            self._say(f"[ACTOR] a {phase} of the environment took {seconds:.1f} s")
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

    def _stands(self) -> bool:
        return self._paused or self._stays or bool(self._no_room) or (self._steering is not None and self._steering.stands)

    def _at_real_pace(self) -> bool:
        """A robot always, a simulation while a person's hand is on it."""
        return self._realtime or (self._steering is not None and self._steering.held)

    def _may_step(self) -> bool:
        """A person need not wait for the learner's credit: ten steps a second do no harm to the ratio."""
        return (self._steering is not None and self._steering.held) or self._client.may_step(timeout=0.1)

    def _show(self, moved: bool, at_once: bool = False) -> None:
        steering = self._steering
        said = "; ".join(part for part in (self._notice, self._no_room, steering.notice if steering else "") if part)
        if said != self._said:
            self._said = said
            if said:
                self._say(f"[ACTOR] {said}")
        notice = "; ".join(part for part in (said, self._limited() if moved else "") if part)
        nobody = self._stands() or self._actor.needs_label or self._resetting
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
        for command in self._client.commands():
            self._handle(command)
        if self._steering is not None:
            newest = self._client.control()
            if newest is not None:
                control, at = newest
                self._steering.steer(control.holder, control.axes, at)
            if self._stands() or self._actor.needs_label:
                self._steering.watch_hand()
            while self._steering.commands:
                name, detail = self._steering.commands.pop(0)
                self._handle(Command(name, self._client.source, detail))

    def _handle(self, command: Command) -> None:
        if command.command == "watch":
            self._views.watch(command)
        elif command.command == "stop":
            self._stays = bool(command.detail.get("stay"))
            self._ended = not self._stays
            self._say("[ACTOR] stopped by a person" + (": standing still until resume" if self._stays else ""))
        elif command.command == "pause":
            self._paused = True
            self._say("[ACTOR] pause")
        elif command.command == "resume":
            self._paused = self._stays = False
            if self._steering is not None:
                self._steering.resume()
            self._say("[ACTOR] resume")
        elif command.command in ("take_over", "release") and self._steering is not None:
            self._change_hands(self._steering, command)
        elif command.command == "label":
            self._label(command)
        elif command.command == "record" and command.detail.get("what") in ("discard", "redo"):
            self._label_until, self._notice = None, ""
            self._say(f"[ACTOR] a person discards episode {self._actor.discard()}")

    def _label(self, command: Command) -> None:
        success, episode = command.detail.get("success"), command.detail.get("episode")
        label = Label(success if isinstance(success, bool) else None)
        refused = self._actor.give_label(label, episode if type(episode) is int else None)
        self._label_until, self._notice = None, f"the label '{label}' was ignored: {refused}" if refused else ""
        if not refused:
            self._say(f"[ACTOR] a person says: {label}")

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


class Rhythm:
    """One beat per control period. A late one moves those that follow: two actions are never squeezed into one period."""

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
            self._next += self._period
            return
        if left < -_LATE * self._period:
            self.late += 1
        self.restart()
