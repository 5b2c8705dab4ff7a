"""The hub's side of a person in the loop: who watches which actor, who steers it, what was seen last.

Everything is called in the hub's loop and returns at once. A page is a name of its own choosing; an actor is named by its source.

    watching     while somebody does, the actor is asked for views, again each second; it stops by itself when it is not asked any more
    steering     one page at a time. Every `steer` goes to the actor at once and is the sign of life: an actor that hears nothing for
                 0.3 s stands still, whatever the hub thinks (`teleop/steering.py`)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tandem.link.actors import ActorLine
from tandem.link.messages import COMMANDS, BadFrame, Camera, Command, Control, Scene, View

WATCH_HZ, STEER_HZ = 12, 20
"""Views a second at most, for who looks on and for who steers (a page draws what lies between). At 10 Hz every step is seen."""
RENEW_S = 1.0
"""Between two requests for views."""
LAPSE_S = 3.0
"""Without a request an actor sends no more views; without a `steer` a page does not hold control any more."""


@dataclass
class _Seen:
    """What is known of one actor, and who looks at it."""

    watchers: dict[int, Callable[[View], None]] = field(default_factory=dict)
    cameras: dict[int, str] = field(default_factory=dict)
    scene: dict[str, Any] | None = None
    view: View | None = None
    picture: Camera | None = None
    asked_at: float = -RENEW_S


@dataclass
class _Hold:
    page: str
    steered_at: float
    seq: int = 0


class Stage:
    """See the module. `connected` gives the actors that are there, `pass_on` sends a command and returns who was told."""

    def __init__(self, connected: Callable[[], list[ActorLine]], pass_on: Callable[[Command, str], list[str]]) -> None:
        self._connected, self._pass_on = connected, pass_on
        self._seen: dict[str, _Seen] = {}
        self._holds: dict[str, _Hold] = {}
        self._next = 0

    # ---- watching

    def actors(self) -> list[str]:
        """Sources of the actors that are connected."""
        return [line.hello.source for line in self._connected()]

    def watch(self, source: str, seen: Callable[[View], None], camera: str = "") -> Callable[[], None]:
        """Be told every view of an actor, at most 12 a second, 20 while a page steers it; `seen` must be quick. Returns what ends it.

        `camera`: ask for the pictures of that camera too (see `picture`).
        """
        number, self._next = self._next, self._next + 1
        entry = self._seen.setdefault(source, _Seen())
        entry.watchers[number] = seen
        if camera:
            entry.cameras[number] = camera
        self._ask(source, entry, time.monotonic())

        def unwatch() -> None:
            entry.cameras.pop(number, None)
            if entry.watchers.pop(number, None) is not None and not entry.watchers:
                self._tell(source, "watch", {"hz": 0})

        return unwatch

    def scene(self, source: str) -> dict[str, Any] | None:
        """What there is to draw of an actor; None until somebody has watched it."""
        return self._seen[source].scene if source in self._seen else None

    def newest(self, source: str) -> View | None:
        return self._seen[source].view if source in self._seen else None

    def picture(self, source: str) -> Camera | None:
        """The newest picture of a camera that somebody watches through."""
        return self._seen[source].picture if source in self._seen else None

    # ---- steering

    def take(self, page: str, source: str) -> str:
        """Take control of an actor; empty if this page holds it now, else why not.

        The actor follows within a control period: its view then names the page as `holder`. A device on the actor's own machine that holds
        it already goes on doing so, and the view names that.
        """
        if source not in self.actors():
            return "no such actor"
        if self.holder(source) not in ("", page):
            return "another page"
        for other in [held for held, hold in self._holds.items() if hold.page == page and held != source]:
            self._release(other)  # one hand, one robot
        if self.holder(source) != page:
            self._holds[source] = _Hold(page, time.monotonic())
            if source in self._seen and self._seen[source].watchers:
                self._ask(source, self._seen[source], time.monotonic())
        return "" if self._tell(source, "take_over", {"holder": page}) else "the actor does not listen"

    def steer(self, page: str, axes: Sequence[float], fine: bool = False) -> None:
        """What the hand does now; ignored unless this page holds an actor. Every call is a sign of life, also with the same axes."""
        now = time.monotonic()
        for source, hold in self._holds.items():
            if hold.page == page:
                hold.steered_at, hold.seq = now, hold.seq + 1
                line = self._line(source)
                if line is not None:
                    line.control(Control(page, [max(-1.0, min(1.0, float(axis))) for axis in axes], hold.seq, fine))
                return

    def let_go(self, page: str) -> None:
        """Hand back to the policy."""
        for source in [source for source, hold in self._holds.items() if hold.page == page]:
            self._release(source)

    def holder(self, source: str) -> str:
        """The page that steers an actor; empty if none does. One that has said nothing for 3 s does not any more."""
        hold = self._holds.get(source)
        if hold is not None and time.monotonic() - hold.steered_at > LAPSE_S:
            del self._holds[source]
            return ""
        return hold.page if hold else ""

    def gone(self, page: str) -> None:
        """A page that disconnected. What it held stands still at once, until somebody takes it or tells it to resume."""
        for source in [source for source, hold in self._holds.items() if hold.page == page]:
            del self._holds[source]
            self._tell(source, "release", {"holder": page, "lost": True})

    def order(self, command: str, to: str, detail: dict[str, Any]) -> str:
        """A command to the `trainer`, the `actors`, `all`, or one actor by name or source; empty, or why it could not be given."""
        if command not in COMMANDS:
            return f"no command '{command}'; there are {', '.join(COMMANDS)}"
        try:
            order = Command.from_fields({"command": command, "to": to, "detail": detail})
        except BadFrame as problem:
            return str(problem)
        return "" if self._pass_on(order, "page") else f"nobody took it: '{to}' is not connected, or does not know '{command}'"

    # ---- from the hub

    def seen(self, source: str, message: Scene | View | Camera) -> None:
        """What an actor showed. A watcher that fails is not asked again: a page is never a reason to stop."""
        entry = self._seen.setdefault(source, _Seen())
        if isinstance(message, Scene):
            entry.scene = message.description
        elif isinstance(message, Camera):
            entry.picture = message
        else:
            entry.view = message
            for number, watcher in list(entry.watchers.items()):
                try:
                    watcher(message)
                except Exception:
                    entry.watchers.pop(number, None)

    def ordered(self, command: Command) -> None:
        """Any command, also one that a program gave over the API: who steers must be known here."""
        holder = str(command.detail.get("holder", ""))
        if command.command == "release" and command.to in self._holds and self._holds[command.to].page == holder:
            del self._holds[command.to]

    def keep_time(self, now: float) -> None:
        """Ask again for what is watched, also actors that came back; forget those that nobody looks at and that are gone."""
        there = set(self.actors())
        for source, entry in list(self._seen.items()):
            if source in there and entry.watchers and now - entry.asked_at >= RENEW_S:
                self._ask(source, entry, now)
            elif source not in there and not entry.watchers:
                del self._seen[source]

    def left(self, source: str) -> None:
        """An actor's connection ended. Who held it must take it anew: nobody steers a robot that was away without knowing it."""
        self._holds.pop(source, None)
        if source in self._seen:
            self._seen[source].asked_at = -RENEW_S

    def _ask(self, source: str, entry: _Seen, now: float) -> None:
        detail: dict[str, Any] = {"hz": STEER_HZ if self.holder(source) else WATCH_HZ}
        if entry.scene is None:
            detail["scene"] = True
        if entry.cameras:
            detail["camera"] = next(reversed(entry.cameras.values()))
        if self._tell(source, "watch", detail):
            entry.asked_at = now

    def _release(self, source: str) -> None:
        page = self._holds.pop(source).page
        self._tell(source, "release", {"holder": page})

    def _tell(self, source: str, command: str, detail: dict[str, Any]) -> bool:
        line = self._line(source)
        return line is not None and line.command(Command(command, source, detail))

    def _line(self, source: str) -> ActorLine | None:
        return next((line for line in self._connected() if line.hello.source == source), None)
