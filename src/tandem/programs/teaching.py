"""Record demonstrations by hand: one robot, one person, a page or a device, and a file of successes at the end.

    ready ──start──► recording ──it ends, or a label──► judging ──keep──► ready, one more
      ▲                  │                                 │
      └──discard, redo───┴─────────────────────────────────┘

`discard` goes on with another start of the task, `redo` with the same one again. What was not kept leaves no trace. A page
talks to the same kind of hub as in training, with no trainer behind it; the file is the one that `record_demos` writes. With a device
on this machine recording starts when it takes hold, and what succeeded is kept without being asked for.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np

from tandem.acting.actor import RewardSource
from tandem.acting.control_loop import Rhythm
from tandem.acting.limits import Limits, settings_for
from tandem.acting.photographs import Photographs
from tandem.acting.showing import Showing
from tandem.data.demos import DemoWriter
from tandem.data.episode import EpisodeRecorder
from tandem.envs.registry import TASKS, make
from tandem.envs.scenery import Scenery
from tandem.link.client import ActorClient
from tandem.link.hub import Hub
from tandem.link.messages import Command
from tandem.runs.folder import RunFolder
from tandem.runs.live import RecordingView
from tandem.teleop.mapping import axis_names
from tandem.teleop.operator import Still
from tandem.teleop.steering import Hand, Steering
from tandem.types import Observation, Spec, Transition

_IDLE_S = 0.02
_START_S = 20.0


def teach(
    task: str,
    demos: int,
    folder: Path,
    seed: int,
    *,
    hand: Callable[[Spec], Hand | None] = lambda spec: None,
    reward_source: RewardSource = "simulation",
    port: int = 0,
    host: str = "127.0.0.1",
    mount: Callable[[Hub], None] = lambda hub: None,
    say: Callable[[str], None] = lambda line: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Path:
    """Record `demos` successes by a person and return the file. `mount` puts a page on the hub before it listens."""
    env = make(task)
    spec: Spec = env.get_wrapper_attr("task_spec")
    device = hand(spec)
    temporary = Path(tempfile.mkdtemp(prefix="tandem-recording-"))
    run = RunFolder.create(temporary / "run", "recording", {}, spec)
    hub = Hub(run.path, host=host, port=port)
    mount(hub)
    serving = threading.Thread(target=hub.serve, name="hub", daemon=True)
    serving.start()
    client = ActorClient(hub.address, spec, token=run.token, name="recording", rows=1, pace="realtime", spool=run.spool)
    try:
        client.connect(_START_S)
        say(f"page to record with: http://{hub.address}/?token={run.token}")
        operator = device.name if device else "browser"
        with DemoWriter(folder, spec, operator=operator, seed=seed) as writer:
            teacher = Teacher(env, client, writer, demos, seed, device, reward_source, say)
            teacher.tell = lambda state: setattr(hub, "recording", state)
            try:
                teacher.run(stopped)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"{writer.episodes} of {demos} episodes are kept in {writer.partial_path}.") from None
            finally:
                teacher.photographs.close()
            return writer.finish()
    finally:
        client.close(0.0)
        hub.stop()
        serving.join(10)
        env.close()
        if device is not None:
            device.close()
        shutil.rmtree(temporary, ignore_errors=True)


class Teacher:
    """The loop: one episode after the other, by whoever holds control."""

    def __init__(
        self,
        env: gymnasium.Env,
        client: ActorClient,
        writer: DemoWriter,
        wanted: int,
        seed: int,
        hand: Hand | None = None,
        reward_source: RewardSource = "simulation",
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._env, self._client, self._writer, self._wanted, self._say = env, client, writer, wanted, say
        self.spec = writer.spec
        self._by_person, self._auto = reward_source == "person", hand is not None
        self._steering = Steering(self.spec.action_dim, Still(self.spec.action_dim), hand)
        self._limits = Limits(self.spec, settings_for(self.spec.task, realtime=True))
        camera = TASKS[self.spec.task].camera if self.spec.task in TASKS else None
        rows: Any = getattr(env.unwrapped, "rows", env)
        self.photographs = Photographs(rows, client, say)
        self._showing = Showing(
            self,
            client,
            lambda: Scenery(env, axis_names(self.spec.action_dim), self.spec.control_hz, camera),
            take_picture=self.photographs.take,
        )
        self._rhythm = Rhythm(self.spec.control_hz)
        self._recorder = EpisodeRecorder(self.spec, source="")
        self._episode: list[Transition] = []
        self._seed = seed
        self.phase: Literal["ready", "recording", "judging"] = "ready"
        self._notice, self._label, self._ended = "", None, False
        self._stays = False
        self.steps, self.lived, self.returns = 0, [], np.zeros(1)
        self.observation: Observation = {}
        self.tell: Callable[[RecordingView], None] = lambda state: None
        """Told how far it is: kept, wanted and phase, for the hub's live state."""

    @property
    def place(self) -> tuple[int, int]:
        return self._writer.episodes, len(self._episode)

    def run(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Until enough is kept, or a person stops it."""
        self._begin()
        while self._writer.episodes < self._wanted and not (stopped() or self._ended):
            self._obey_all()
            moves = self.phase == "recording" and not self._stays and not self._steering.stands
            if moves:
                self._step()
            self._show(moves)
            if moves:
                self._rhythm.wait()
            else:
                self._rhythm.restart()
                time.sleep(_IDLE_S)

    def _begin(self) -> None:
        """To the start of an episode, and wait there."""
        self.observation, _ = self._env.reset(seed=self._seed)
        self._recorder.begin(self.observation)
        self._episode, self._label, self.phase = [], None, "ready"
        self.returns[0] = 0.0
        self._steering.reset()
        self._tell()

    def _step(self) -> None:
        action, by_human = self._steering.decide(self.observation)
        action = self._limits(self.observation, action)
        self.observation, reward, terminated, truncated, info = self._env.step(action)
        if self._by_person:
            reward, truncated, terminated, info = 0.0, terminated or truncated, False, {**info, "success": False}
        step = self._recorder.record(action, self.observation, float(reward), terminated, truncated, info, intervened=by_human)
        self._episode.append(step)
        self.steps, self.lived = self.steps + 1, [step]
        self.returns[0] += step.reward
        if self._label is not None or step.last:
            self._end()

    def _end(self) -> None:
        """The episode is over; the person says what becomes of it."""
        self.phase = "judging"
        if self._label is not None:
            self._relabel(self._label)
        word = "success" if self._episode[-1].success else "no success"
        self._notice = f"{word} after {len(self._episode)} steps: keep, discard or redo?"
        self._tell()
        if self._auto:
            self._record("keep" if self._episode[-1].success else "discard")

    def _relabel(self, success: bool) -> None:
        """A person's word on the last step: it is not in any file yet."""
        self._episode[-1] = dataclasses.replace(self._episode[-1], reward=float(success), terminated=True, truncated=False, success=success)

    def _tell(self) -> None:
        self.tell(RecordingView(self._writer.episodes, self._wanted, self.phase))

    def _show(self, moved: bool) -> None:
        steering = self._steering
        state = "stopped" if self._stays else "holding" if steering.state in ("lost", "stranded") else "running" if moved else "paused"
        notice = "; ".join(part for part in (steering.notice, self._limits.notice if moved else "", self._notice) if part)
        self._showing.turn(who=steering.who if moved else "nobody", holder=steering.holder, state=state, notice=notice, moved=moved)

    # ---- what the person wants

    def _obey_all(self) -> None:
        for order in self._client.commands():
            self._obey(order.command, order.detail, order)
        newest = self._client.control()
        if newest is not None:
            self._steering.steer(newest[0].holder, newest[0].axes, newest[1], newest[0].fine)
        if self.phase != "recording" or self._stays or self._steering.stands:
            self._steering.watch_hand()
        while self._steering.orders:
            self._obey(*self._steering.orders.pop(0))
        if self._auto and self.phase == "ready" and self._steering.state == "held":
            self._record("start")

    def _obey(self, command: str, detail: dict[str, Any], order: Command | None = None) -> None:
        if command == "watch" and order is not None:
            self._showing.watch(order)
        elif command == "take_over":
            self._steering.take(str(detail.get("holder", "")) or "somebody")
        elif command == "release":
            holder = str(detail.get("holder", ""))
            if detail.get("lost"):
                self._steering.lose(holder, f"the page '{holder}' was lost")
            else:
                self._steering.let_go(holder)
        elif command in ("stop", "pause"):
            self._stays = command == "pause" or bool(detail.get("stay"))
            self._ended = not self._stays
        elif command == "resume":
            self._stays = False
            self._steering.resume()
        elif command == "label" and isinstance(detail.get("success"), bool):
            self._judge(detail["success"])
        elif command == "record":
            self._record(str(detail.get("what", "")))

    def _judge(self, success: bool) -> None:
        if self.phase == "recording":
            self._label = success  # with the next step
        elif self.phase == "judging":
            self._label = success
            self._end()

    def _record(self, what: str) -> None:
        before = self.phase
        if what == "start" and before == "ready":
            self.phase, self._notice = "recording", ""
            self._rhythm.restart()
            self._tell()
        elif what == "keep" and before == "judging":
            self._keep()
        elif what in ("discard", "redo") and before != "ready":
            self._seed += what == "discard"
            self._notice = "thrown away" if what == "discard" else "once more from the same start"
            self._begin()
        else:
            self._notice = f"'{what}' does not fit while {before}"

    def _keep(self) -> None:
        if not self._episode[-1].success:
            self._notice = "only successes are kept: say success, discard or redo"
            return
        self._writer.add(self._episode)
        self._say(f"{self._writer.episodes} of {self._wanted} kept ({len(self._episode)} steps)")
        self._notice = f"kept: {self._writer.episodes} of {self._wanted}"
        self._seed += 1
        self._begin()
