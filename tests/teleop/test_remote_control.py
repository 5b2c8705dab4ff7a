"""Watching and steering through the hub: real hub, real socket, real control loop."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from remote_rig import Page, Rig

from tandem.link.messages import View
from tests.waiting import wait_for


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Rig(tmp_path, pace="realtime") as rig:
        yield rig


def watch(rig: Rig, seen: list[View]) -> Any:
    return rig.do(rig.hub.remote.watch, rig.source, seen.append)


def test_an_actor_sends_views_only_while_somebody_watches(rig: Rig) -> None:
    wait_for(lambda: len(rig.stored()) > 3, what="steps")
    assert rig.newest() is None and rig.do(rig.hub.remote.scene, rig.source) is None
    seen: list[View] = []
    unwatch = watch(rig, seen)
    wait_for(lambda: len(seen) >= 5, what="views")
    view, scene = seen[-1], rig.do(rig.hub.remote.scene, rig.source)
    assert (view.who, view.holder, view.state) == ("policy", "", "running")
    assert view.notice in ("", "limited: workspace")  # it always goes the same way, and arrives at an edge sooner or later
    assert view.notice or np.allclose(view.action, 0.5, atol=1e-3)
    assert set(view.observation) == {"tcp_position", "tcp_velocity", "to_ball", "command_offset"}
    # seven float32 for each body of the scene; the base does not move, the hand does
    poses = [np.frombuffer(one.poses, np.float32).reshape(len(scene["bodies"]), 7) for one in seen]
    hand = scene["bodies"].index("hand")
    assert not np.array_equal(poses[0][hand], poses[-1][hand]) and np.array_equal(poses[0][1], poses[-1][1])
    np.testing.assert_allclose(np.linalg.norm(poses[-1][:, 3:], axis=1), 1.0, atol=1e-5)
    assert scene["axes"] == ["x", "y", "z"] and scene["control_hz"] == 10.0
    assert {geom["type"] for geom in scene["geoms"]} == {"box", "cylinder", "capsule", "sphere"}
    assert all(0 <= geom["body"] < len(scene["bodies"]) and len(geom["quat"]) == 4 for geom in scene["geoms"])
    rig.do(unwatch)
    count = len(seen)
    steps = len(rig.stored())
    wait_for(lambda: len(rig.stored()) >= steps + 5, what="steps after that")
    assert len(seen) <= count + 1, "views go on though nobody watches"


def test_viewers_get_twelve_views_a_second_however_fast_the_robot_is(tmp_path: Path) -> None:
    with Rig(tmp_path, pace="fast") as rig:
        seen: list[View] = []
        watch(rig, seen)
        wait_for(lambda: seen, what="a view")
        before, steps = len(seen), seen[-1].steps
        time.sleep(2.0)
        shown, stepped = len(seen) - before, seen[-1].steps - steps
    assert 6 <= shown <= 27 and stepped > 3 * shown


def test_one_page_steers_at_a_time_and_the_others_get_the_reason(rig: Rig) -> None:
    remote, one = rig.hub.remote, Page(rig)
    assert one.take() == "" and rig.do(remote.holder, rig.source) == "page-1"
    assert Page(rig, "page-2").take() == "another page"
    assert rig.do(remote.take_control, "page-2", "actor-nobody") == "no such actor"
    rig.do(remote.steer, "page-2", [1.0, 1.0, 1.0])  # ignored: it does not hold
    seen: list[View] = []
    watch(rig, seen)
    one.axes = [0.25, 0.0, -1.0]
    wait_for(lambda: seen and seen[-1].action == [0.25, 0.0, -1.0], what="the page's action")
    assert (seen[-1].who, seen[-1].holder) == ("person", "page-1")
    one.let_go()
    wait_for(lambda: seen[-1].who == "policy" and seen[-1].holder == "", what="the policy")
    assert rig.do(remote.holder, rig.source) == "" and Page(rig, "page-2").take() == ""


def test_commands_reach_their_receivers_or_return_the_problem(rig: Rig) -> None:
    remote, seen = rig.hub.remote, []
    watch(rig, seen)
    assert rig.do(remote.command, "pause", "left", {}) == ""
    wait_for(lambda: seen and seen[-1].state == "paused" and seen[-1].who == "nobody", what="a pause")
    assert rig.do(remote.command, "resume", rig.source, {}) == ""
    wait_for(lambda: seen[-1].state == "running", what="going on")
    assert "nobody received it" in rig.do(remote.command, "pause", "right", {})
    assert "no command 'dance'" in rig.do(remote.command, "dance", "left", {})
    assert rig.do(remote.command, "checkpoint", "trainer", {}) == ""


def test_a_watcher_that_raises_affects_nobody_else(rig: Rig) -> None:
    seen: list[View] = []

    def broken(view: View) -> None:
        raise RuntimeError("a page with a bug")

    rig.do(rig.hub.remote.watch, rig.source, broken)
    watch(rig, seen)
    wait_for(lambda: len(seen) > 3, what="views beside a broken page")
