"""Recording by hand, through a real hub: what a person keeps is in the file, and nothing else."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.acting.limits import Asked
from tandem.data.demos import load_demos, read_demos
from tandem.envs.registry import make_expert, spec_for
from tandem.errors import DataError
from tandem.link.hub import Hub
from tandem.programs.teaching import teach
from tandem.teleop.steering import Reading
from tandem.types import Spec
from tests.waiting import wait_for


class Recording:
    """`teach` in a thread, and a page's hand on it."""

    def __init__(self, folder: Path, demos: int, task: str = "reach", **options: Any) -> None:
        self.hub: Hub | None = None
        self.result: list[Path] = []
        self.views: list[Any] = []
        self.stop = threading.Event()

        def run() -> None:
            options.setdefault("mount", lambda hub: setattr(self, "hub", hub))
            with contextlib.suppress(DataError):  # it was ended before anything was kept
                self.result.append(teach(task, demos, folder, 7, stopped=self.stop.is_set, **options))

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        wait_for(lambda: self.hub is not None and self.hub.loop is not None and self.do(self.hub.remote.actors), what="the robot")
        self.source = self.do(self.remote.actors)[0]
        self.do(self.remote.watch, self.source, self.views.append)
        wait_for(lambda: self.views, what="a view")

    @property
    def remote(self) -> Any:
        assert self.hub is not None
        return self.hub.remote

    def do(self, function: Callable[..., Any], *arguments: Any) -> Any:
        done, result = threading.Event(), []
        assert self.hub is not None and self.hub.loop is not None
        self.hub.loop.call_soon_threadsafe(lambda: (result.append(function(*arguments)), done.set()))
        assert done.wait(5)
        return result[0]

    @property
    def state(self) -> dict[str, Any]:
        assert self.hub is not None
        return self.do(self.hub.live).to_json()["recording"]

    def order(self, what: str) -> None:
        assert self.do(self.remote.command, "record", self.source, {"what": what}) == ""

    def reach(self) -> None:
        """Take control and bring the tool to the ball, as the page shows it."""
        assert self.do(self.remote.take_control, "page-1", self.source) == ""
        wait_for(lambda: self.views[-1].holder == "page-1", what="control")
        self.order("start")

        def arrived() -> bool:
            seen = self.views[-1].observation
            wanted = (np.array(seen["to_ball"]) - seen["command_offset"]) / 0.03
            self.do(self.remote.steer, "page-1", list(wanted / max(1.0, np.abs(wanted).max())))
            return self.state["phase"] == "judging"

        wait_for(arrived, what="the ball")


def test_a_person_records_keeps_discards_and_does_again(tmp_path: Path) -> None:
    recording = Recording(tmp_path, 2)
    assert recording.state == {"kept": 0, "wanted": 2, "phase": "ready"}
    start = recording.views[-1].observation["to_ball"]
    recording.order("keep")  # nothing to keep yet
    wait_for(lambda: "cannot keep while ready" in recording.views[-1].notice, what="the objection")
    recording.reach()
    recording.order("redo")
    wait_for(lambda: recording.state["phase"] == "ready" and recording.views[-1].observation["to_ball"] == start, what="the same start")
    recording.reach()
    recording.order("keep")
    wait_for(lambda: recording.state == {"kept": 1, "wanted": 2, "phase": "ready"}, what="one more")
    wait_for(lambda: recording.views[-1].observation["to_ball"] != start, what="another start")
    recording.order("start")
    wait_for(lambda: recording.views[-1].step >= 2, what="steps")
    recording.order("discard")
    recording.reach()
    recording.order("keep")
    recording.thread.join(10)
    [path] = recording.result
    assert path.name.startswith("reach_2_demos_") and not list(tmp_path.glob("*.partial"))
    kept = read_demos(path)
    assert kept.attributes == {"operator": "browser", "seed": 7}
    assert len(kept.episodes()) == 2 and all(episode[-1].success and episode[-1].terminated for episode in kept.episodes())
    steps = load_demos(path, spec_for("reach"))
    assert np.mean([step.intervened for step in steps]) > 0.5  # on a busy machine the page may fall silent for a moment
    assert [step.step for step in kept.episodes()[0]] == list(range(len(kept.episodes()[0])))
    np.testing.assert_allclose(kept.episodes()[0][0].observation["to_ball"], start, atol=1e-5)


def test_a_person_may_be_the_judge(tmp_path: Path) -> None:
    recording = Recording(tmp_path, 1, reward_source="person")
    recording.order("start")
    wait_for(lambda: recording.views[-1].step >= 2, what="steps")
    recording.do(recording.remote.command, "label", recording.source, {"success": False})
    wait_for(lambda: recording.state["phase"] == "judging", what="the end")
    recording.order("keep")
    wait_for(lambda: "only successes are kept" in recording.views[-1].notice, what="the objection")
    recording.do(recording.remote.command, "label", recording.source, {"success": True})  # on second thoughts
    wait_for(lambda: "keep, discard or redo?" in recording.views[-1].notice, what="the question")
    recording.order("keep")
    recording.thread.join(10)
    steps = read_demos(recording.result[0]).transitions
    assert [(step.reward, step.terminated, step.success) for step in steps[-2:]] == [(0.0, False, False), (1.0, True, True)]


class Stick:
    """A device that knows the way: it holds from the first moment and goes to the ball."""

    name = "gamepad"

    def __init__(self, spec: Spec) -> None:
        self.expert = make_expert("reach", 0)
        self.seen: Any = None

    def read(self) -> Reading:
        action = np.zeros(3, np.float32) if self.seen is None else self.expert.decide(self.seen)[0]
        return Reading(action, True)

    def close(self) -> None:
        pass


def test_with_a_device_what_succeeds_is_kept_without_being_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tandem.programs import teaching

    begin = teaching.Teacher._handle_commands

    def looking(self: Any) -> None:
        self._steering.hand.seen = self.observation  # the person sees the robot
        begin(self)

    monkeypatch.setattr(teaching.Teacher, "_handle_commands", looking)
    path = teach("reach", 2, tmp_path, 3, hand=Stick)
    kept = read_demos(path)
    assert len(kept.episodes()) == 2 and kept.attributes["operator"] == "gamepad"


class Witnessed(Recording):
    """Recording with a robot that writes down when it moves, in a process of its own."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: str = "") -> None:
        self.witness = tmp_path / "witness"
        self.witness.touch()
        monkeypatch.setenv("WITNESS", str(self.witness))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
        (tmp_path / "limits.toml").write_text(f"{limits}\nstall_s = 0.5\naxis.x.speed_share = 0.9\naxis.y.speed_share = 0.9\n")
        self.said: list[str] = []
        task, asked = f"serve:{sys.executable}:stamped_robot:StampedPushed-v0", Asked(tmp_path / "limits.toml")
        super().__init__(tmp_path / "demos", 1, task, asked=asked, say=self.said.append)

    def count(self, what: str) -> int:
        return self.witness.read_text().count(f"{what} ")

    def moves(self) -> None:
        before = self.count("action")
        wait_for(lambda: self.count("action") > before + 2, 30, what=f"motion; it said {self.said}")

    def end(self) -> None:
        self.do(self.remote.command, "stop", self.source, {})
        self.thread.join(20)


def test_a_robot_that_hangs_while_a_person_records_is_halted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Witnessed(tmp_path, monkeypatch)
    recording.order("start")
    recording.moves()
    hang = tmp_path / "witness.hang"
    hang.touch()
    wait_for(lambda: recording.count("halt") == 1, 30, what="the halt")
    wait_for(lambda: any("step takes longer than 0.5 s: it hangs. Motion is stopped." in line for line in recording.said), what="the line")
    hang.unlink()
    recording.moves()
    recording.end()


def test_while_a_person_records_a_violated_limit_or_a_stop_allows_no_motion_and_no_reset_until_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Witnessed(tmp_path, monkeypatch, 'wrench = "wrench"\nstop_force_n = 30.0')

    def stands(state: str, why: str) -> None:
        wait_for(lambda: recording.views[-1].state == state and why in recording.views[-1].notice, 30, what=f"{state}: {why}")
        moved = recording.count("action") + recording.count("reset")
        for what in ("discard", "redo"):
            recording.order(what)
        time.sleep(0.5)
        assert recording.count("action") + recording.count("reset") == moved, "a reset moves the robot too"
        recording.do(recording.remote.command, "resume", recording.source, {})
        wait_for(lambda: recording.count("action") + recording.count("reset") == moved + 1, 30, what="the reset after resume")

    recording.order("start")
    recording.moves()
    pushed = tmp_path / "witness.force"
    pushed.touch()
    wait_for(lambda: recording.count("halt") == 1, 30, what="the halt")
    pushed.unlink()
    stands("stopped", "a force of 90 N was measured; at most 30 N are allowed")
    recording.order("start")
    recording.moves()
    recording.do(recording.remote.command, "stop", recording.source, {"stay": True})
    wait_for(lambda: recording.count("halt") == 2, 30, what="the halt")
    stands("stopped", "")
    recording.end()
