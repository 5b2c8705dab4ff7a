"""Record demonstrations by hand: one robot, one person, a page or a device, and a file of successes at the end.

    ready ──start──► recording ──it ends, or a label──► judging ──keep──► ready, one more
      ▲                  │                                 │
      └──discard, redo───┴─────────────────────────────────┘

`discard` continues with another start of the task, `redo` with the same start. Episodes that are not kept are not stored. A page
talks to the same kind of hub as in training, without a trainer; the file is the same as that of `record_demos`. With a device
on this machine recording starts when the device takes control, and successes are kept without a question.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from tandem.acting.camera_stream import CameraStream
from tandem.acting.control_loop import Rhythm
from tandem.acting.limits import Asked, Limits, limited, limits_for
from tandem.acting.person_reward import reward_source as source_of_reward
from tandem.acting.rewards import EnvironmentReward, Label, RewardSource
from tandem.acting.view_stream import ViewStream
from tandem.acting.watchdog import Halt, Watchdog
from tandem.data.demos import DemoWriter
from tandem.data.episode import EpisodeRecorder
from tandem.envs.registry import make_env, registered
from tandem.envs.scenery import Scenery
from tandem.envs.task_env import TaskEnv
from tandem.errors import LimitViolated
from tandem.layouts import ActionLayout
from tandem.link.client import ActorClient, ClientConfig
from tandem.link.hub import Hub, HubConfig
from tandem.link.messages import Command
from tandem.rewards.named import judged_by
from tandem.runs.folder import RunFolder
from tandem.runs.live import RecordingView
from tandem.runs.stopping import interruptible
from tandem.seeding import episode_seed
from tandem.teleop.axes import axes_of
from tandem.teleop.operator import Still
from tandem.teleop.steering import Hand, Steering
from tandem.types import Observation, Spec, Transition, first_row

_IDLE_S = 0.02
_START_S = 20.0


def teach(
    task: str,
    demos: int,
    folder: Path,
    seed: int,
    *,
    hand: Callable[[Spec], Hand | None] = lambda spec: None,
    reward_source: str = "simulation",
    port: int = 0,
    host: str = "127.0.0.1",
    asked: Asked | None = None,
    mount: Callable[[Hub], None] = lambda hub: None,
    say: Callable[[str], None] = lambda line: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Path:
    """Record `demos` successes by a person and return the file. `mount` puts a page on the hub before it listens."""
    env = make_env(task, watched=True)
    spec, limits, halt = env.spec, limits_for(task, env, asked or Asked(), realtime=True), Halt(env.halt, say)
    device, (rule, judged) = hand(spec), judged_by(reward_source, spec)
    temporary = Path(tempfile.mkdtemp(prefix="tandem-recording-"))
    run = RunFolder.create(temporary / "run", "recording", {}, spec)
    hub = Hub(run.path, HubConfig(host=host, port=port))
    mount(hub)
    serving = threading.Thread(target=hub.serve, name="hub", daemon=True)
    serving.start()
    config = ClientConfig(hub.address, run.token, name="recording", rows=1, pace="realtime", spool=run.spool)
    client = ActorClient(spec, config)
    try:
        client.connect(_START_S)
        say(f"page to record with: http://{hub.address}/?token={run.token}")
        operator = device.name if device else "browser"
        with DemoWriter(folder, judged, operator=operator, seed=seed) as writer:
            teacher = Teacher(env, limits, client, writer, demos, seed, device, source_of_reward(reward_source, spec, 1, rule), say)
            teacher.tell = lambda state: setattr(hub, "recording", state)
            try:
                with interruptible(teacher):
                    teacher.run(stopped)
            finally:
                teacher.close()
            if teacher.interrupted:
                raise KeyboardInterrupt(f"{writer.episodes} of {demos} episodes are kept in {writer.partial_path}.")
            return writer.finish()
    finally:
        halt("the recording ends")
        client.close(0.0)
        hub.stop()
        serving.join(10)
        env.close()
        if device is not None:
            device.close()
        shutil.rmtree(temporary, ignore_errors=True)


class Teacher:
    """The loop: one episode after the other, by the person who holds control."""

    def __init__(
        self,
        env: TaskEnv,
        limits: Limits,
        client: ActorClient,
        writer: DemoWriter,
        wanted: int,
        seed: int,
        hand: Hand | None = None,
        rewards: RewardSource | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._env, self._client, self._writer, self._wanted, self._say = limited(env, limits), client, writer, wanted, say
        self._limits, self._halt = limits, Halt(env.halt, say)
        self._watchdog = Watchdog(self._halt, say)
        self.spec = writer.spec
        self._rewards, self._auto = rewards or EnvironmentReward(), hand is not None
        layout = ActionLayout.of(self.spec)
        self._steering = Steering(layout, Still(layout), hand)
        entry = registered(self.spec.task)
        camera = None if entry is None else entry.camera
        self.cameras = CameraStream(env, client, say)
        scenery = lambda: Scenery(env, axes_of(layout), camera)  # noqa: E731  made when somebody watches
        self._views = ViewStream(self, client, scenery, take_picture=self.cameras.take)
        self._rhythm = Rhythm(self.spec.control_hz)
        self._recorder = EpisodeRecorder(self.spec, source="")
        self._episode: list[Transition] = []
        self._seed, self._attempt = seed, 0
        self.phase: Literal["ready", "recording", "judging"] = "ready"
        self.interrupted = False
        self._notice, self._ended, self._stays = "", False, False
        self._violated, self._due = "", True
        """The limit that was violated; and whether the next episode waits to be begun."""
        self.steps, self.transitions, self.returns = 0, [], np.zeros(1)
        self.values: Mapping[str, float] = {}
        self.observation: Observation = {}
        self.tell: Callable[[RecordingView], None] = lambda state: None
        """Called with the progress (kept, wanted and phase), for the hub's live state."""

    @property
    def place(self) -> tuple[int, int]:
        return self._writer.episodes, len(self._episode)

    def stop(self, reason: str) -> None:
        """Ctrl-C: end after the step that is being made. An exception in the middle of it could be lost, or leave half a step."""
        del reason
        self.interrupted = True

    def run(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Until enough is kept, or a person stops it."""
        self._begin()
        while self._writer.episodes < self._wanted and not (stopped() or self._ended or self.interrupted):
            self._handle_commands()
            moves = self.phase == "recording" and not self._stays and not self._steering.stands
            if moves:
                self._step()
            self._show(moves)
            if moves:
                self._rhythm.wait()
            else:
                self._rhythm.restart()
                time.sleep(_IDLE_S)

    def close(self) -> None:
        self._watchdog.close()
        self.cameras.close()

    @contextlib.contextmanager
    def _watched(self, phase: str, seconds: float) -> Iterator[None]:
        """A step or a reset within its time. One that violates a limit halts the robot, and ends what was recorded of the episode."""
        try:
            with self._watchdog.limit(phase, seconds):
                yield
        except LimitViolated as problem:
            self._halt(str(problem))
            self._violated, self._stays = str(problem), True
            self._say(f"{problem}: standing still until resume")
            self._begin()

    def _begin(self) -> None:
        """Go to the start of an episode and wait there. While the robot has to stand still, not before resume: a reset moves it."""
        self._episode, self.phase, self._due = [], "ready", True
        if self._stays:
            self._tell()
            return
        self._violated, seeds = "", [episode_seed(self._seed, "demonstrations", self._attempt)]
        self._show(moved=False, resetting=True)
        with self._watched("reset", self._limits.settings.reset_s):
            self.observation, self._due = first_row(self._env.reset([0], seeds)), False
        if self._due:
            return
        self._recorder.begin(self.observation)
        self._rewards.begin([0])
        self.returns[0] = 0.0
        self._steering.reset()
        self._tell()

    def _step(self) -> None:
        action, by_human = self._steering.decide(self.observation)
        made = None
        with self._watched("step", self._limits.settings.stall_s):
            made = self._env.step(np.asarray(action)[None])
        if made is None:
            return
        if made.lost is not None:
            self._notice = "the environment lost this episode: it begins again"
            self._begin()
            return
        judged = self._rewards.judge(made)
        step, self.values = judged.step, judged.values
        self.observation = first_row(step.observation)
        transition = self._recorder.record(action, step, intervened=by_human)
        self._episode.append(transition)
        self.steps, self.transitions = self.steps + 1, [transition]
        self.returns[0] += transition.reward
        if transition.last:
            self._end()

    def _end(self) -> None:
        """The episode is over; the person says what becomes of it."""
        self.phase = "judging"
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

    def _show(self, moved: bool, resetting: bool = False) -> None:
        steering = self._steering
        state = "stopped" if self._stays else "holding" if steering.state in ("lost", "stranded") else "running" if moved else "paused"
        state = "resetting" if resetting else state
        limited = self._limits.notice if moved else ""
        notice = "; ".join(part for part in (self._violated, steering.notice, limited, self._notice) if part)
        who = steering.who if moved else "nobody"
        self._views.turn(who=who, holder=steering.holder, state=state, notice=notice, moved=moved, at_once=resetting)

    # ---- commands

    def _handle_commands(self) -> None:
        for command in self._client.commands():
            self._handle(command)
        newest = self._client.control()
        if newest is not None:
            self._steering.steer(newest[0].holder, newest[0].axes, newest[1])
        if self.phase != "recording" or self._stays or self._steering.stands:
            self._steering.watch_hand()
        while self._steering.commands:
            name, detail = self._steering.commands.pop(0)
            self._handle(Command(name, self._client.source, detail))
        if self._auto and self.phase == "ready" and self._steering.state == "held":
            self._record("start")

    def _handle(self, order: Command) -> None:
        command, detail = order.command, order.detail
        if command == "watch":
            self._views.watch(order)
        elif command == "take_over":
            self._steering.take(str(detail.get("holder", "")) or "somebody")
        elif command == "release":
            holder = str(detail.get("holder", ""))
            if detail.get("lost"):
                self._steering.lose(holder, f"the page '{holder}' was lost")
            else:
                self._steering.let_go(holder)
        elif command in ("stop", "pause"):
            self._halt(f"{command} by a person")
            self._stays = command == "pause" or bool(detail.get("stay"))
            self._ended = not self._stays
        elif command == "resume":
            self._stays = False
            self._steering.resume()
            if self._due:
                self._begin()
        elif command == "label" and isinstance(detail.get("success"), bool):
            self._judge(detail["success"])
        elif command == "record":
            self._record(str(detail.get("what", "")))

    def _judge(self, success: bool) -> None:
        if self.phase == "recording":
            self._rewards.give_label(Label(success))  # with the next step
        elif self.phase == "judging":
            self._relabel(success)
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
            self._attempt += what == "discard"
            self._notice = "discarded" if what == "discard" else "again from the same start"
            self._begin()
        else:
            self._notice = f"cannot {what} while {before}"

    def _keep(self) -> None:
        if not self._episode[-1].success:
            self._notice = "only successes are kept: label it a success, discard it or redo it"
            return
        self._writer.add(self._episode)
        self._say(f"{self._writer.episodes} of {self._wanted} kept ({len(self._episode)} steps)")
        self._notice = f"kept: {self._writer.episodes} of {self._wanted}"
        self._attempt += 1
        self._begin()
