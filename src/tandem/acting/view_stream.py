"""Views of row 0 for people who watch: its numbers and the poses of its bodies. Nothing is sent while nobody watches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from tandem.envs.scenery import Scenery
from tandem.link.messages import MAX_TEXT, Camera, Command, Scene, View
from tandem.types import Observation, Transition

LAPSE_S = 3.0
"""A `watch` command is good for so long; after that no view is sent."""
MAX_HZ = 20.0
_STANDING_HZ = 4.0
"""Rate while nothing moves, unless the state or the notice has changed."""
_MOST_NAMES = 32
"""Cameras without pictures that a page learns of: names come from viewers, who may ask for any."""
_MAX_NUMBERS = 16
"""Largest observation entry that is shown as numbers."""


class ViewSink(Protocol):
    """The end of a link that takes views."""

    def show(self, seen: Scene | View | Camera) -> None: ...


class Viewed(Protocol):
    """The loop that is viewed: an actor, or the recording of demonstrations."""

    steps: int
    transitions: list[Transition]
    returns: np.ndarray

    @property
    def values(self) -> Mapping[str, float]:
        """How sure the rule that gives the rewards is of each stage; empty without a rule."""
        ...

    @property
    def observation(self) -> Observation: ...

    @property
    def place(self) -> tuple[int, int]: ...


class ViewStream:
    """Started by `watch` commands; `turn` is called once for every turn of the control loop and costs nothing while nobody watches."""

    def __init__(
        self,
        actor: Viewed,
        sink: ViewSink,
        scenery: Callable[[], Scenery],
        clock: Callable[[], float] = time.monotonic,
        take_picture: Callable[[str, Observation], str] = lambda camera, observation: "",
        progress: Callable[[], Sequence[float]] = lambda: (),
    ) -> None:
        self._actor, self._sink, self._make_scenery, self._clock = actor, sink, scenery, clock
        self._take_picture, self._progress = take_picture, progress
        self._scenery: Scenery | None = None
        self._hz, self._until, self._at, self._camera = 0.0, 0.0, 0.0, ""
        self._wants_scene = False
        self._no_picture: dict[str, str] = {}
        """Cameras that were asked for and give no picture, and why: a page shows this in the place of the picture."""
        self._said: tuple[str, ...] = ()

    @property
    def watched(self) -> bool:
        return self._hz > 0 and self._clock() < self._until

    def watch(self, command: Command) -> None:
        """Start, keep alive or stop the views."""
        hz, before = command.detail.get("hz", MAX_HZ), self.watched
        self._hz = min(MAX_HZ, float(hz)) if isinstance(hz, int | float) and hz > 0 else 0.0
        self._camera = str(command.detail.get("camera", ""))
        self._until = self._clock() + LAPSE_S
        self._wants_scene = self._wants_scene or (self.watched and (not before or bool(command.detail.get("scene"))))

    def turn(self, *, who: str, holder: str, state: str, notice: str, moved: bool, at_once: bool = False) -> None:
        """Send a view if it is due, or `at_once`: before a call that may take long."""
        if not self.watched:
            return
        now, said = self._clock(), (who, holder, state, notice)
        period = 1 / (self._hz if moved or said != self._said else _STANDING_HZ)
        if now - self._at < period and not at_once:
            return
        self._at, self._said = max(self._at + period, now - period), said  # so that a step that came late does not hide the next one
        if self._scenery is None:
            self._scenery = self._make_scenery()
        if self._wants_scene:
            self._wants_scene = False
            self._sink.show(Scene({**self._scenery.description(), "no_picture": dict(self._no_picture)}))
        self._sink.show(self._view(*said))
        if self._camera:
            self._look_through(self._camera)

    def _look_through(self, camera: str) -> None:
        why = self._take_picture(camera, self._actor.observation)[:MAX_TEXT]
        if why and camera not in self._no_picture and len(self._no_picture) < _MOST_NAMES:
            self._no_picture[camera] = why
            self._wants_scene = True  # with the next view

    def _view(self, who: str, holder: str, state: str, notice: str) -> View:
        assert self._scenery is not None
        actor = self._actor
        episode, step = actor.place
        last = actor.transitions[0] if actor.transitions else None
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
            observation=small(actor.observation) | self._judged(),
            poses=self._scenery.poses().tobytes(),
        )

    def _judged(self) -> dict[str, list[float]]:
        """How sure the rule of the rewards is of each stage; how far the episode has come, and how near to stuck it is (1)."""
        stages = {f"reward: {stage}": [round(value, 3)] for stage, value in self._actor.values.items()}
        progress = [round(value, 3) for value in self._progress()]
        return stages | {"progress": progress} if progress else stages


def small(observation: Observation) -> dict[str, list[float]]:
    """The entries that a person can read as numbers."""
    return {
        name: [round(float(value), 5) for value in values.reshape(-1)]
        for name, values in observation.items()
        if values.dtype == np.float32 and values.size <= _MAX_NUMBERS and np.isfinite(values).all()
    }
