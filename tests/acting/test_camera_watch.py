"""A camera that dies while a robot moves: named, held, resumed; what it showed is not learned from."""

import dataclasses
import threading
from pathlib import Path

import numpy as np
import pytest

from tandem.acting.actor import Actor
from tandem.acting.camera_watch import LASTS, CameraWatch
from tandem.acting.control_loop import ControlLoop
from tandem.acting.eyes import EncodedEnv
from tandem.acting.latch import Latch
from tandem.acting.limits import Limits, LimitSettings
from tandem.acting.policy import OwnPolicy
from tandem.acting.view_stream import ViewStream
from tandem.envs.registry import make_env
from tandem.envs.scenery import Scenery
from tandem.envs.task_env import Capabilities
from tandem.envs.wrapped import WrappedEnv
from tandem.errors import CameraFailed, EnvironmentFailed
from tandem.link.messages import Command
from tandem.networks.encoders.efficientnet import CHANNELS
from tandem.networks.encoders.encoder import COMPONENTS, Encoder
from tandem.teleop.operator import HandsOff
from tandem.types import Continuous, Entry, ForeignPolicy, Observation, Spec, Step
from tests.acting.counter_env import Link
from tests.waiting import wait_for

SPEC = Spec("t", {"eye": Entry((32, 32, 3), "uint8"), "pose": Entry((2,), scale=10.0)}, (Continuous("arm", 1),), 10.0, 100)
RNG = np.random.default_rng(0)


def seen(pose: float, picture: np.ndarray | None = None, rows: int = 2) -> Observation:
    pictures = RNG.integers(0, 256, (rows, 32, 32, 3), dtype=np.uint8) if picture is None else np.stack([picture] * rows)
    return {"eye": pictures, "pose": np.full((rows, 2), pose, np.float32)}


def watch(real: bool = True) -> CameraWatch:
    looking = CameraWatch(SPEC, 2, real)
    looking.begin([0, 1], seen(0.0))
    return looking


def test_the_same_picture_while_the_robot_moves_is_a_dead_camera() -> None:
    looking, still = watch(), seen(0.0)["eye"][0]
    looking.look(seen(0.0, still))
    for number in range(LASTS - 1):
        looking.look(seen(number + 1.0, still))  # 0.1 of the scale each: 1.0 in ten steps
    with pytest.raises(CameraFailed, match=r"the camera 'eye' is frozen: the same picture for 1.0 s, while the robot moved.*then resume"):
        looking.look(seen(LASTS + 1.0, still))


def test_a_robot_that_stands_may_see_the_same_for_long_and_a_picture_that_changes_once_starts_anew() -> None:
    looking, still = watch(), seen(0.0)["eye"][0]
    for _ in range(50):
        looking.look(seen(0.0, still))
    looking.look(seen(5.0))
    for _ in range(LASTS - 1):
        looking.look(seen(9.0, still))


def test_a_picture_of_one_value_is_a_blind_camera_also_if_that_value_changes() -> None:
    looking = watch()
    for number in range(LASTS - 1):
        looking.look(seen(0.0, np.full((32, 32, 3), number, np.uint8)))
    with pytest.raises(CameraFailed, match=r"'eye' shows nothing: every pixel has been 7 for 1.0 s.*covered"):
        looking.look(seen(0.0, np.full((32, 32, 3), 7, np.uint8)))


def test_in_a_simulation_a_picture_that_stays_the_same_or_never_showed_anything_is_left_to_the_doctor() -> None:
    looking, black = CameraWatch(SPEC, 2, real=False), np.zeros((32, 32, 3), np.uint8)
    looking.begin([0, 1], seen(0.0, black))
    for number in range(40):
        looking.look(seen(float(number), black))
    still = seen(0.0)["eye"][0]
    for number in range(40):  # from here on it has shown something
        looking.look(seen(float(number), still))
    with pytest.raises(CameraFailed):
        for number in range(40):
            looking.look(seen(float(number), black))


def test_the_row_whose_camera_failed_is_named() -> None:
    looking, still = watch(), seen(0.0)["eye"][1]
    with pytest.raises(CameraFailed, match=r"\(row 1\)") as failed:
        for number in range(40):
            now = seen(number + 1.0)
            now["eye"][1] = still
            looking.look(now)
    assert failed.value.row == 1


@pytest.mark.parametrize(
    ("pictures", "words"),
    [
        (np.zeros((2, 64, 64, 3), np.uint8), r"shape \(64, 64, 3\) uint8, expected \(32, 32, 3\) uint8"),
        (np.zeros((2, 32, 32, 3), np.float32), r"float32, expected \(32, 32, 3\) uint8"),
    ],
)
def test_a_picture_of_another_size_or_kind_is_refused(pictures: np.ndarray, words: str) -> None:
    looking = watch()
    with pytest.raises(EnvironmentFailed, match=words):
        looking.look({**seen(0.0), "eye": pictures})


# ---- in a control loop


class Failing(WrappedEnv):
    """A robot whose camera freezes when told to. It drives to and fro."""

    frozen: np.ndarray | None = None

    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(self._env.capabilities, clock="real")

    def step(self, action: np.ndarray) -> Step:
        step = self._env.step(action)
        if self.frozen is not None:
            step.observation["eye"][:] = self.frozen
        return step


class ToAndFro:
    """A policy at full speed: the numbers change all the time."""

    held = None  # it decides at every step

    def __call__(self, observation: Observation) -> np.ndarray:
        return np.where(RNG.random((1, 3)) < 0.5, -1.0, 1.0).astype(np.float32)

    def reset(self, rows: np.ndarray) -> None: ...


def test_the_robot_stands_still_the_camera_is_named_and_it_goes_on_after_resume(tmp_path: Path) -> None:
    inner = Failing(make_env("tests.seeing_task:seeing_reach"))
    components = np.linalg.qr(np.random.default_rng(0).standard_normal((CHANNELS, COMPONENTS)))[0].astype(np.float32)
    encoder = Encoder("efficientnet-lite0", np.zeros(CHANNELS, np.float32), components, np.ones(COMPONENTS, np.float32))
    env = EncodedEnv(inner, encoder)
    link, lines, stop = Link(), [], threading.Event()
    own = OwnPolicy(ToAndFro(), ForeignPolicy("f"))  # pyright: ignore[reportArgumentType]  as an `Acting` does
    actor = Actor(env, link, [HandsOff()], source="robot", seed=0, own_policy=own)
    latch = Latch.open(tmp_path, "seeing_reach", "robot", takes_over=False)
    loop = ControlLoop(
        actor,
        link,  # pyright: ignore[reportArgumentType]  stands in for an ActorClient
        None,
        ViewStream(actor, link, lambda: Scenery(env, ["x", "y", "z"])),
        latch=latch,
        realtime=False,
        stopped=stop.is_set,
        say=lines.append,
        limits=Limits(env.spec, LimitSettings()),
    )
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    try:
        wait_for(lambda: len(link.sent) > 5, what="steps")
        inner.frozen = np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        wait_for(lambda: "limit" in latch.holds and link.ends, what="the robot to stand still")
        assert "the camera 'eye' is frozen" in latch.holds["limit"].why and loop.state == "holding"
        [end] = link.ends
        failed = [step for step in link.sent if step.episode == end.episode]
        assert not end.kept and len(failed) >= LASTS - 1 and end.source == failed[0].source, "the episode that saw through it"
        wait_for(lambda: any("not learned from: its camera had failed" in line for line in lines), what="the words")
        inner.frozen, before = None, len(link.sent)
        link.waiting = [Command("resume", "robot", {})]
        wait_for(lambda: len(link.sent) > before + 20, what="steps again")
        assert link.sent[before].episode > end.episode
    finally:
        stop.set()
        thread.join(10)
        loop.close()
        latch.close()
        env.close()
