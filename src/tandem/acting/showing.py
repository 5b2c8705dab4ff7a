"""The actor's side of the stage: views of row 0 for whoever watches, none while nobody does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from tandem.envs.scenery import Scenery
from tandem.link.messages import MAX_TEXT, Camera, Command, Scene, View
from tandem.types import Observation, Transition

LAPSE_S = 3.0
"""Without being asked again nothing is shown any more."""
MAX_HZ = 20.0
_STANDING_HZ = 4.0
"""While nothing moves, unless something else has changed."""
_MAX_NUMBERS = 16
"""Of an observation entry; images and other large ones are not shown as numbers."""


class Audience(Protocol):
    """The end of a link that takes what is to be shown."""

    def show(self, seen: Scene | View | Camera) -> None: ...


class Shown(Protocol):
    """Whoever lives in the environment: an actor, or the loop that records demonstrations."""

    steps: int
    lived: list[Transition]
    returns: np.ndarray

    @property
    def observation(self) -> Observation: ...

    @property
    def place(self) -> tuple[int, int]: ...


class Showing:
    """Asked for by `watch` commands, looked at once for every turn of the control loop; costs nothing while nobody watches."""

    def __init__(
        self,
        actor: Shown,
        audience: Audience,
        scenery: Callable[[], Scenery],
        clock: Callable[[], float] = time.monotonic,
        take_picture: Callable[[str, Observation], None] = lambda camera, observation: None,
    ) -> None:
        self._actor, self._audience, self._make_scenery, self._clock = actor, audience, scenery, clock
        self._take_picture = take_picture
        self._scenery: Scenery | None = None
        self._hz, self._until, self._at, self._camera = 0.0, 0.0, 0.0, ""
        self._wants_scene = False
        self._said: tuple[str, ...] = ()

    @property
    def watched(self) -> bool:
        return self._hz > 0 and self._clock() < self._until

    def watch(self, order: Command) -> None:
        """Somebody watches, still watches, or watches no more."""
        hz, before = order.detail.get("hz", MAX_HZ), self.watched
        self._hz = min(MAX_HZ, float(hz)) if isinstance(hz, int | float) and hz > 0 else 0.0
        self._camera = str(order.detail.get("camera", ""))
        self._until = self._clock() + LAPSE_S
        self._wants_scene = self._wants_scene or (self.watched and (not before or bool(order.detail.get("scene"))))

    def turn(self, *, who: str, holder: str, state: str, notice: str, moved: bool) -> None:
        """Show where things are, if it is time to."""
        if not self.watched:
            return
        now, said = self._clock(), (who, holder, state, notice)
        period = 1 / (self._hz if moved or said != self._said else _STANDING_HZ)
        if now - self._at < period:
            return
        self._at, self._said = max(self._at + period, now - period), said  # so that a step that came late does not hide the next one
        if self._scenery is None:
            self._scenery = self._make_scenery()
        if self._wants_scene:
            self._wants_scene = False
            self._audience.show(Scene(self._scenery.description()))
        self._audience.show(self._view(*said))
        if self._camera:
            self._take_picture(self._camera, self._actor.observation)

    def _view(self, who: str, holder: str, state: str, notice: str) -> View:
        assert self._scenery is not None
        actor = self._actor
        episode, step = actor.place
        last = actor.lived[0] if actor.lived else None
        return View(
            episode=max(0, episode),
            step=step,
            steps=actor.steps,
            who=who,
            holder=holder,
            state=state,
            notice=notice[:MAX_TEXT],
            reward=float(actor.returns[0]),
            success=None if last is None else bool(last.success),
            action=[] if last is None else [round(float(axis), 5) for axis in last.action.reshape(-1)],
            observation=small(actor.observation),
            poses=self._scenery.poses().tobytes(),
        )


def small(observation: Observation) -> dict[str, list[float]]:
    """The entries that a person can read as numbers."""
    return {
        name: [round(float(value), 5) for value in values.reshape(-1)]
        for name, values in observation.items()
        if values.dtype == np.float32 and values.size <= _MAX_NUMBERS and np.isfinite(values).all()
    }
