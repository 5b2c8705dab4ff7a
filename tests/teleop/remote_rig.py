"""A real hub and a real actor process's loop, each in a thread of the test, so that a test sees both sides."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tandem.data.journal import Journal
from tandem.envs.registry import spec_for
from tandem.layouts import Layout
from tandem.link.hub import Hub, HubConfig
from tandem.link.trainer_end import TrainerEnd
from tandem.programs.actor import ActorArgs, act
from tandem.types import PolicySnapshot, Spec, Transition
from tests.waiting import wait_for

STEADY = 0.5
"""What the policy of these tests does on every axis, always."""


def spec_of(task: str) -> Spec:
    return spec_for(task)


def steady_policy(spec: Spec, version: int = 1, action: float = STEADY) -> PolicySnapshot:
    """Does the same whatever it sees, almost without noise."""
    size, dim = Layout(spec).size, spec.action_dim
    return PolicySnapshot(
        version,
        0,
        {
            "activation": np.array(0),
            "std_range": np.array([1e-6, 1e-5], np.float32),
            "trunk/layers/0/weight": np.zeros((size, 4), np.float32),
            "trunk/layers/0/bias": np.zeros(4, np.float32),
            "mean/weight": np.zeros((4, dim), np.float32),
            "mean/bias": np.full(dim, np.arctanh(action), np.float32),
            "log_std/weight": np.zeros((4, dim), np.float32),
            "log_std/bias": np.full(dim, -12.0, np.float32),
        },
    )


class Rig:
    """A run of a task with its hub, a trainer's end and one actor. The trainer allows any number of steps."""

    def __init__(
        self,
        folder: Path,
        task: str = "reach",
        settings: dict[str, Any] | None = None,
        rule: bytes = b"",
        config: dict[str, Any] | None = None,
        prepare: Callable[[Hub], None] = lambda hub: None,
        **actor: Any,
    ) -> None:
        self.spec = spec_of(task)
        self.run = folder / "run"
        self.run.mkdir(parents=True)
        described = {"task": task, "spec": self.spec.to_json(), "spec_hash": self.spec.hash, "config": config or {}}
        (self.run / "config.json").write_text(json.dumps(described))
        self.hub = Hub(self.run, HubConfig(actor_settings=settings or {}, rule=rule))
        prepare(self.hub)
        self._hub_thread = threading.Thread(target=self.hub.serve, daemon=True)
        self._hub_thread.start()
        wait_for(lambda: (self.run / "hub.json").exists(), what="the hub to listen")
        self.trainer = TrainerEnd(self.run, self.spec)
        self.trainer.publish(steady_policy(self.spec))
        self.trainer.beat(learner_step=10**9, phase="training", steps_before=0, updates_per_actor_step=1.0)
        self.lines: list[str] = []
        self.pages: list[Page] = []
        self._stop = threading.Event()
        args = ActorArgs(task, run=self.run, name="left", spool=folder / "spool", threads=1, **actor)
        self._actor_thread = threading.Thread(target=act, args=(args, self.lines.append, self._stop.is_set), daemon=True)
        self._actor_thread.start()
        wait_for(lambda: self.do(self.hub.remote.actors), what="the actor to join")

    @property
    def source(self) -> str:
        return self.do(self.hub.remote.actors)[0]

    def do(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """In the hub's loop, as a page would."""
        done, result = threading.Event(), []

        def call() -> None:
            try:
                result.append(function(*arguments))
            finally:
                done.set()

        assert self.hub.loop is not None
        self.hub.loop.call_soon_threadsafe(call)
        assert done.wait(5), "the hub's loop does not answer"
        return result[0]

    def newest(self) -> Any:
        return self.do(self.hub.remote.newest_view, self.source)

    def stored(self) -> list[Transition]:
        with Journal.open(self.run / "journal.db") as journal:
            return [step for _, step in journal.read()]

    def newest_steps(self) -> int:
        """Steps of the actor, by the newest view."""
        return self.newest().steps

    def ends(self) -> list[Transition]:
        """The last steps of finished episodes."""
        return [step for step in self.stored() if step.last]

    @property
    def acting(self) -> bool:
        return self._actor_thread.is_alive()

    def close(self) -> None:
        for page in self.pages:
            page.be_silent()
        self._stop.set()
        self._actor_thread.join(10)
        self.trainer.close()
        self.hub.stop()
        self._hub_thread.join(10)
        assert not self._actor_thread.is_alive() and not self._hub_thread.is_alive()

    def __enter__(self) -> "Rig":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Page:
    """Steers through the hub 40 times a second until it is told to be silent, as a browser's page does."""

    def __init__(self, rig: Rig, name: str = "page-1") -> None:
        self.rig, self.name = rig, name
        self.axes: list[float] = [0.0] * rig.spec.action_dim
        self.silent = threading.Event()
        self._thread = threading.Thread(target=self._steer, daemon=True)
        rig.pages.append(self)

    def be_silent(self) -> None:
        """Say nothing more, as a page whose tab was closed or whose network is gone."""
        self.silent.set()
        if self._thread.is_alive():
            self._thread.join()

    def take(self) -> str:
        problem = self.rig.do(self.rig.hub.remote.take_control, self.name, self.rig.source)
        if not problem and not self._thread.is_alive():
            self._thread.start()
        return problem

    def _steer(self) -> None:
        while not self.silent.wait(0.025):
            self.rig.do(self.rig.hub.remote.steer, self.name, self.axes)

    def let_go(self) -> None:
        self.be_silent()
        self.rig.do(self.rig.hub.remote.release_control, self.name)
