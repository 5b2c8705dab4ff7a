"""People at pages: who watches which actor, who steers it, and the newest view of each.

Everything is called in the hub's loop and returns at once. A page has an id of its own choosing; an actor is named by its source.

    watching    as long as a page watches an actor, the hub asks that actor for views, again every second. An actor that is not asked
                any more stops sending by itself.
    steering    one page at a time. Every `steer` is sent to the actor at once, and shows that the person is still there: an actor
                that gets nothing for 0.3 s stands still, whatever the hub does (`teleop/steering.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tandem.link.access import HERE, Asker
from tandem.link.actors import ActorConnection
from tandem.link.commands import COMMANDS
from tandem.link.fields import BadFrame
from tandem.link.messages import Camera, Command, Control, Scene, View

WATCH_HZ, STEER_HZ = 12, 20
"""Most views per second: for a page that only watches, and while a page steers. The page interpolates between them."""
RENEW_S = 1.0
"""Between two requests for views."""
LAPSE_S = 3.0
"""Without a request for so long an actor sends no more views; without a `steer` for so long a page loses control."""


@dataclass
class _Watched:
    """One actor: who watches it, and the newest that it sent."""

    watchers: dict[int, Callable[[View], None]] = field(default_factory=dict)
    cameras: dict[int, str] = field(default_factory=dict)
    scene: dict[str, Any] | None = None
    view: View | None = None
    picture: Camera | None = None
    asked_at: float = -RENEW_S


@dataclass
class _Hold:
    """A page that has control of an actor."""

    page: str
    steered_at: float
    seq: int = 0


class RemoteControl:
    """Watching and steering through the hub.

    `connected` returns the actors that are connected; `send_command` sends a command and returns who got it; `require` raises `NotAllowed`
    if somebody may not do something. Both write it to the audit log.
    """

    def __init__(
        self,
        connected: Callable[[], list[ActorConnection]],
        send_command: Callable[[Command, Asker], list[str]],
        require: Callable[..., None],
    ) -> None:
        self._connected, self._send_command, self._require = connected, send_command, require
        self._watched: dict[str, _Watched] = {}
        self._holds: dict[str, _Hold] = {}
        self._next = 0

    # ---- watching

    def actors(self) -> list[str]:
        """Sources of the connected actors."""
        return [actor.hello.source for actor in self._connected()]

    def watch(self, source: str, receive: Callable[[View], None], camera: str = "") -> Callable[[], None]:
        """Get every view of an actor, at most 12 per second, 20 while a page steers it. `receive` must be quick.

        `camera`: ask for the pictures of that camera too (see `picture`). Returns the function that ends the watching.
        """
        number, self._next = self._next, self._next + 1
        entry = self._watched.setdefault(source, _Watched())
        entry.watchers[number] = receive
        if camera:
            entry.cameras[number] = camera
        self._ask_for_views(source, entry, time.monotonic())

        def unwatch() -> None:
            entry.cameras.pop(number, None)
            if entry.watchers.pop(number, None) is not None and not entry.watchers:
                self._send_to(source, "watch", {"hz": 0})

        return unwatch

    def scene(self, source: str) -> dict[str, Any] | None:
        """What to draw of an actor; None until somebody has watched it."""
        return self._watched[source].scene if source in self._watched else None

    def newest_view(self, source: str) -> View | None:
        return self._watched[source].view if source in self._watched else None

    def picture(self, source: str) -> Camera | None:
        """The newest picture of the camera that is being watched."""
        return self._watched[source].picture if source in self._watched else None

    # ---- steering

    def take_control(self, page: str, source: str, asker: Asker = HERE) -> str:
        """Give a page control of an actor. Returns the empty text, or why not.

        The actor follows within a control period: its view then names the page as `holder`. If a device on the actor's own machine has
        control already, it keeps it, and the view names that device.
        """
        self._require(asker, "take_over", to=source, page=page)
        if source not in self.actors():
            return "no such actor"
        if self.holder(source) not in ("", page):
            return "another page"
        for other in [held for held, hold in self._holds.items() if hold.page == page and held != source]:
            self._release(other)  # a page steers one robot at a time
        if self.holder(source) != page:
            self._holds[source] = _Hold(page, time.monotonic())
            if source in self._watched and self._watched[source].watchers:
                self._ask_for_views(source, self._watched[source], time.monotonic())
        return "" if self._send_to(source, "take_over", {"holder": page}) else "the actor does not respond"

    def steer(self, page: str, axes: Sequence[float]) -> None:
        """Send the axes to the actor that this page controls, if any. Unchanged axes are sent too: they are the heartbeat."""
        now = time.monotonic()
        for source, hold in self._holds.items():
            if hold.page == page:
                hold.steered_at, hold.seq = now, hold.seq + 1
                actor = self._actor(source)
                if actor is not None:
                    actor.send_control(Control(page, [max(-1.0, min(1.0, float(axis))) for axis in axes], hold.seq))
                return

    def release_control(self, page: str, asker: Asker = HERE) -> None:
        """Give control back to the policy: a page its own, which needs no right that taking over did not need."""
        for source in [source for source, hold in self._holds.items() if hold.page == page]:
            self._require(asker, "release", to=source, page=page)
            self._release(source)

    def holder(self, source: str) -> str:
        """The page that controls an actor; empty if none does. A page that has not steered for 3 s loses control."""
        hold = self._holds.get(source)
        if hold is not None and time.monotonic() - hold.steered_at > LAPSE_S:
            del self._holds[source]
            return ""
        return hold.page if hold else ""

    def page_closed(self, page: str) -> None:
        """A page disconnected. The actor it controlled stands still at once, until somebody takes over or resumes it."""
        for source in [source for source, hold in self._holds.items() if hold.page == page]:
            del self._holds[source]
            self._send_to(source, "release", {"holder": page, "lost": True})

    def command(self, name: str, to: str, detail: dict[str, Any], asker: Asker = HERE) -> str:
        """Send a command to the `trainer`, the `actors`, `all`, or one actor by name or source. Returns the empty text, or the problem."""
        if name not in COMMANDS:
            return f"no command '{name}'; there are {', '.join(COMMANDS)}"
        try:
            command = Command.from_fields({"command": name, "to": to, "detail": detail})
        except BadFrame as problem:
            return str(problem)
        return "" if self._send_command(command, asker) else f"nobody received it: '{to}' is not connected, or does not know '{name}'"

    # ---- from the hub

    def receive(self, source: str, message: Scene | View | Camera) -> None:
        """What an actor sent for its watchers. A watcher that raises is removed: a faulty page must not stop anything."""
        entry = self._watched.setdefault(source, _Watched())
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

    def command_passed(self, command: Command) -> None:
        """Any command that the hub sends, also from the API: a `release` ends the hold of its page."""
        holder = str(command.detail.get("holder", ""))
        if command.command == "release" and command.to in self._holds and self._holds[command.to].page == holder:
            del self._holds[command.to]

    def tick(self, now: float) -> None:
        """Ask again for views of watched actors, also of those that came back; forget actors that are gone and not watched."""
        connected = set(self.actors())
        for source, entry in list(self._watched.items()):
            if source in connected and entry.watchers and now - entry.asked_at >= RENEW_S:
                self._ask_for_views(source, entry, now)
            elif source not in connected and not entry.watchers:
                del self._watched[source]

    def actor_left(self, source: str) -> None:
        """An actor's connection ended. A page that controlled it must take over again: nobody steers a robot without knowing it."""
        self._holds.pop(source, None)
        if source in self._watched:
            self._watched[source].asked_at = -RENEW_S

    def _ask_for_views(self, source: str, entry: _Watched, now: float) -> None:
        detail: dict[str, Any] = {"hz": STEER_HZ if self.holder(source) else WATCH_HZ}
        if entry.scene is None:
            detail["scene"] = True
        if entry.cameras:
            detail["camera"] = next(reversed(entry.cameras.values()))
        if self._send_to(source, "watch", detail):
            entry.asked_at = now

    def _release(self, source: str) -> None:
        page = self._holds.pop(source).page
        self._send_to(source, "release", {"holder": page})

    def _send_to(self, source: str, command: str, detail: dict[str, Any]) -> bool:
        actor = self._actor(source)
        return actor is not None and actor.send_command(Command(command, source, detail))

    def _actor(self, source: str) -> ActorConnection | None:
        return next((actor for actor in self._connected() if actor.hello.source == source), None)
