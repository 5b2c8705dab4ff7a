"""The live view keeps what the hub wrote, and can be read by a reader of another version."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tandem.link.hub import Hub
from tandem.runs.clocks import Clocks, Rates
from tandem.runs.folder import RunFolder
from tandem.runs.live import (
    ActorView,
    ClockView,
    HubView,
    JournalView,
    LiveView,
    PolicyView,
    RecordingView,
    TrainerView,
    read_live,
)
from tandem.types import Continuous, Entry, Spec

SPEC = Spec("toy", {"q": Entry((2,))}, (Continuous("action", 1),), 10, 100)
ACTOR = ActorView(name="left", connected=True, pace="fast", rows=8, version=86, lag_versions=1, lag_s=0.4, steps=120, steps_per_s=40.0)
HUB = HubView(
    trainer=TrainerView(alive=True, phase="training", ord=18),
    policy=PolicyView(87, "a3f5", 298),
    journal=JournalView(18, 2, "no room"),
    up_s=12.5,
    run="0f9c",
    folder="runs/toy",
    task="toy",
    spec_hash="56c1",
    time=1e9,
    episodes={"success": 0.85},
    actors=1,
    strangers_turned_away=3,
)
CLOCKS = ClockView(4300, 18231, 87, 150.0, 40.0, 100, 0.25, "training")
VIEW = LiveView(1e9, HUB, CLOCKS, [ACTOR, replace(ACTOR, name="right", connected=False)], closed=True)


@pytest.mark.parametrize(
    "view",
    [VIEW, replace(VIEW, clocks=CLOCKS.related(50)), replace(VIEW, recording=RecordingView(2, 5, "judging")), replace(VIEW, actors=[])],
    ids=["plain", "related", "recording", "no actors"],
)
def test_what_is_written_is_read(view: LiveView, tmp_path: Path) -> None:
    path = tmp_path / "live.json"
    path.write_text(json.dumps(view.to_json()))
    assert read_live(path) == view
    assert [actor.name for actor in view.connected] == (["left"] if view.actors else [])


def test_the_clocks_and_their_relations_stand_side_by_side() -> None:
    """150 learner steps a second are 3 policies a second at one every 50; 100 actor steps are 2.5 s at 40 a second."""
    told = CLOCKS.related(50).to_json()
    assert (told["learner_step"], told["versions_per_s"], told["steps_per_update"], told["updates_per_actor_step_seen"]) == (
        4300,
        3.0,
        50,
        3.75,
    )
    assert told["table"][2] == {"learner_steps": 100, "versions": 2, "seconds": pytest.approx(2 / 3), "actor_steps": pytest.approx(80 / 3)}
    assert "relations" not in told and CLOCKS.to_json().keys() == {
        "learner_step",
        "actor_step",
        "policy_version",
        "learner_steps_per_s",
        "actor_steps_per_s",
        "steps_before",
        "updates_per_actor_step",
        "phase",
    }
    assert CLOCKS.clocks == Clocks(4300, 18231, 87)
    assert CLOCKS.rates == Rates(150.0, 40.0, None) and CLOCKS.related(50).rates == Rates(150.0, 40.0, 3.0)
    assert ClockView().related(50).rates == Rates(None, None, None), "nothing moves"


def test_a_view_of_another_version_is_read_as_far_as_it_is_known() -> None:
    told = VIEW.to_json()
    told["new_part"] = told["status"]["new_part"] = told["clocks"]["new_part"] = told["actors"][0]["new_part"] = 1
    del told["status"]["strangers_turned_away"], told["closed"], told["actors"][0]["dropped"]
    found = LiveView.from_json(told)
    assert found == replace(VIEW, status=replace(HUB, strangers_turned_away=0), closed=False)


@pytest.mark.parametrize("contents", ["{", "[]", "3", "null", '{"time": 1}', '{"time": 1, "status": 3, "clocks": {}, "actors": []}'])
def test_a_damaged_view_is_none(tmp_path: Path, contents: str) -> None:
    assert read_live(tmp_path / "live.json") is None
    (tmp_path / "live.json").write_text(contents)
    assert read_live(tmp_path / "live.json") is None


def test_what_a_hub_leaves_behind(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", "recording", {}, SPEC)
    hub = Hub(run.path, wall=lambda: 123.0, clocks=lambda counts: counts.related(50))
    hub.recording = RecordingView(1, 5, "ready")
    during = hub.live()
    assert not during.closed and during.status.task == "toy" and during.status.spec_hash == SPEC.hash
    hub.close()
    left = read_live(run.live_file)
    assert left is not None and left.closed and left.time == 123.0 and left.recording == RecordingView(1, 5, "ready")
    assert left.clocks.relations is not None and left.clocks.relations.steps_per_update == 50
    assert not [path for path in run.path.iterdir() if "partial" in path.name]
