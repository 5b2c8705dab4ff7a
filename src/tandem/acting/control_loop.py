"""The control loop of an actor process: steps at its pace, what people want of it, and what they see.

Nobody who watches or steers is waited for. What a person may do at any moment:

    take over, let go     the hand's actions instead of the policy's, at the pace of the real world (`teleop/steering.py`)
    pause, resume         stand still and go on; resume also ends the standing still after a hand was lost
    stop                  the actor ends. With {"stay": true} it stands still and stays there until resume
    label                 {"success": true | false | null}: the episode of row 0 ends with the next step, as success, failure, or cut short
    record                {"what": "discard" | "redo"}: the episode of row 0 is thrown away and another begins
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from tandem.acting.actor import Actor, Verdict
from tandem.acting.limits import Limits, Watchdog
from tandem.acting.showing import Showing
from tandem.link.client import ActorClient
from tandem.link.messages import Command
from tandem.teleop.steering import Steering

Watch = Callable[[Actor, ActorClient], Iterable[str]]
"""Looks at the loop now and then; what it finds wrong it says once, in words."""
_LATE = 0.1
"""An action that comes this share of a control period too late counts as late."""
_IDLE_S = 0.02
JUDGE_S = 30.0
"""How long an episode that ended waits for the person who has to judge it; after that it counts as cut short."""


class ControlLoop:
    """`run` until told to stop; everything happens in the thread that calls it."""

    def __init__(
        self,
        actor: Actor,
        client: ActorClient,
        steering: Steering | None,
        showing: Showing,
        *,
        realtime: bool,
        stopped: Callable[[], bool],
        say: Callable[[str], None],
        watch: Watch = lambda actor, client: (),
        max_steps: int | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._actor, self._client, self._steering, self._showing = actor, client, steering, showing
        self._realtime, self._stopped, self._say, self._watch, self._max_steps = realtime, stopped, say, watch, max_steps
        self._rhythm = Rhythm(actor.spec.control_hz)
        self._limits = limits
        self._watchdog = Watchdog(limits.settings.stall_s if limits else 0.0, getattr(actor.env, "halt", None), say)
        self._paused = self._stays = self._ended = self._judging = self._unwanted = False
        self._notice = ""
        self._said = ""
        self._said_limits: set[str] = set()
        self._said_late = False
        actor.ask_verdict = self._ask_verdict

    @property
    def state(self) -> str:
        """As people see it (`link.messages.STATES`)."""
        if self._ended or self._stays:
            return "stopped"
        if self._paused:
            return "paused"
        if self._judging:
            return "holding"
        return "holding" if self._steering is not None and self._steering.state in ("lost", "stranded") else "running"

    def run(self) -> None:
        self._wait_for_policy()
        if not self._over():
            self._actor.begin()
        self._rhythm.restart()
        while not self._over():
            self.obey()
            if self._ended:
                break
            moved = not self._stands() and self._may_step()
            if moved:
                self._step()
            self._show(moved)
            if not moved:
                self._rhythm.restart()
                time.sleep(_IDLE_S if self._stands() else 0.0)
            elif self._at_real_pace():
                self._rhythm.wait()
                self._tell_if_late()
        self._ended = True
        self._show(moved=False)

    def _over(self) -> bool:
        return self._ended or self._stopped() or (self._max_steps is not None and self._actor.steps >= self._max_steps)

    def _wait_for_policy(self) -> None:
        """A robot does not move before there is something to move by."""
        if self._actor.own_policy is not None:
            return
        if self._client.newest_policy() is None:
            self._say("[ACTOR] waiting for the first policy")
        while self._client.newest_policy() is None and not self._over():
            self.obey()
            time.sleep(_IDLE_S)

    def _tell_if_late(self) -> None:
        if self._rhythm.late and self._realtime and not self._said_late:
            self._said_late = True
            period_ms = 1e3 / self._actor.spec.control_hz
            self._say(f"[ACTOR] a control period of {period_ms:.0f} ms was overrun: the environment takes longer than that")

    def _stands(self) -> bool:
        return self._paused or self._stays or (self._steering is not None and self._steering.stands)

    def _at_real_pace(self) -> bool:
        """A robot always, a simulation while a person's hand is on it."""
        return self._realtime or (self._steering is not None and self._steering.held)

    def _may_step(self) -> bool:
        """A person is not kept waiting for a learner's credit: ten steps a second do no harm to the ratio."""
        return (self._steering is not None and self._steering.held) or self._client.may_step(timeout=0.1)

    def _step(self) -> None:
        if not self._at_real_pace():
            self._rhythm.restart()
        with self._watchdog:
            self._actor.step()
        if self._unwanted:  # said while it was being judged: it has ended meanwhile, so it is the one before
            self._unwanted = False
            self._discard()
        for warning in self._watch(self._actor, self._client):
            self._say(f"[ACTOR] {warning}")

    def _show(self, moved: bool) -> None:
        steering = self._steering
        said = "; ".join(part for part in (self._notice, steering.notice if steering else "") if part)
        if said != self._said:
            self._said = said
            if said:
                self._say(f"[ACTOR] {said}")
        notice = "; ".join(part for part in (said, self._limited() if moved else "") if part)
        who = "nobody" if self._stands() or self._judging else steering.who if steering else "policy"
        self._showing.turn(who=who, holder=steering.holder if steering else "", state=self.state, notice=notice, moved=moved)

    def _limited(self) -> str:
        """What the limits changed in the last action; each kind is said once, and shown every time."""
        notice = self._limits.notice if self._limits is not None else ""
        if notice and notice not in self._said_limits:
            self._said_limits.add(notice)
            self._say(f"[ACTOR] {notice} (said once; a page shows it every time)")
        return notice

    def close(self) -> None:
        self._watchdog.close()
        if self._steering is not None and self._steering.hand is not None:
            self._steering.hand.close()

    # ---- what people want

    def obey(self) -> None:
        """All that was wanted since the last call, in order, and the newest steering."""
        for order in self._client.commands():
            self._obey(order)
        if self._steering is not None:
            newest = self._client.control()
            if newest is not None:
                control, at = newest
                self._steering.steer(control.holder, control.axes, at)
            if self._stands() or self._judging:
                self._steering.watch_hand()
            while self._steering.orders:
                command, detail = self._steering.orders.pop(0)
                self._obey(Command(command, self._client.source, detail))

    def _obey(self, order: Command) -> None:
        if order.command == "watch":
            self._showing.watch(order)
        elif order.command == "stop":
            self._stays = bool(order.detail.get("stay"))
            self._ended = not self._stays
            self._say("[ACTOR] stopped by a person" + (": standing still until resume" if self._stays else ""))
        elif order.command == "pause":
            self._paused = True
            self._say("[ACTOR] pause")
        elif order.command == "resume":
            self._paused = self._stays = False
            if self._steering is not None:
                self._steering.resume()
            self._say("[ACTOR] resume")
        elif order.command in ("take_over", "release") and self._steering is not None:
            self._change_hands(self._steering, order)
        elif order.command == "label":
            said = order.detail.get("success")
            self._actor.verdict = Verdict(said if isinstance(said, bool) else None)
            self._say(f"[ACTOR] a person says: {_WORDS[self._actor.verdict.success]}")
        elif order.command == "record" and order.detail.get("what") in ("discard", "redo"):
            self._discard()

    def _discard(self) -> None:
        if self._judging:
            self._unwanted = True
        else:
            self._say(f"[ACTOR] a person throws away episode {self._actor.discard()}")

    def _ask_verdict(self) -> Verdict | None:
        """Wait for the word of the person who has to judge an episode that ended; the robot stands still meanwhile."""
        self._judging, self._notice, until = True, "the episode has ended: was it a success?", time.monotonic() + JUDGE_S
        self._unwanted = False
        self._watchdog.rest()
        while self._actor.verdict is None and not (self._unwanted or self._ended or self._over()) and time.monotonic() < until:
            self.obey()
            self._show(moved=False)
            time.sleep(_IDLE_S)
        self._judging, self._notice = False, "" if self._actor.verdict else "nobody judged the last episode: it counts as cut short"
        self._rhythm.restart()
        self._watchdog.begin()
        return self._actor.verdict

    def _change_hands(self, steering: Steering, order: Command) -> None:
        holder = str(order.detail.get("holder", "")) or "somebody"
        if order.command == "take_over":
            other = steering.take(holder)
            self._say(f"[ACTOR] '{holder}' has taken control" if not other else f"[ACTOR] '{holder}' wants control, but '{other}' has it")
        elif order.detail.get("lost"):
            steering.lose(holder, f"the page '{holder}' was lost")
        else:
            steering.let_go(holder)
            self._say(f"[ACTOR] '{holder}' has let go")


_WORDS = {True: "success", False: "failure", None: "cut short"}


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
