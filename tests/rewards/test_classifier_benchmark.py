"""The benchmark of the reward classifier: which frames are labelled, which settings it learns with, and what it goes on with."""

from dataclasses import replace
from json import dumps
from pathlib import Path

import pytest

from benchmarks.classifier import FAILURES_EACH, TASK, judged, labelled, learned, recorded, settings
from tandem.data.demos import read_demos
from tandem.off_policy.recipes import RECIPES
from tandem.rewards.labels import FAILURE, read_labels
from tandem.rewards.stored import open_stored
from tandem.runs.display import Display


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded("reach", 3, tmp_path_factory.mktemp("bench") / "demos", 0)


def test_the_last_frame_is_a_success_and_five_others_are_none_the_one_before_it_among_them(demos: Path, tmp_path: Path) -> None:
    labelled(demos, tmp_path / "labels.csv", 0)
    found = read_labels(tmp_path / "labels.csv")
    for episode in open_stored([demos]).episodes():
        mine = {frame.frame: given.label for frame, given in found.items() if (frame.source, frame.episode) == episode.name}
        last = len(episode) - 1
        assert len(mine) == 1 + min(FAILURES_EACH, last), "a short episode has fewer"
        assert [frame for frame, label in mine.items() if label == "success"] == [last] and mine[last - 1] == FAILURE


def test_it_learns_with_the_recipe_of_the_task_and_only_the_reward_differs(demos: Path) -> None:
    one, other = (settings(source, demos, 3, quick=False) for source in ("simulation", "classifier:seated.safetensors"))
    assert replace(one, demos=(), seed=0) == replace(RECIPES[TASK](), task=TASK)
    assert replace(other, reward_source="simulation") == one


def test_the_demonstrations_are_paid_by_the_same_source_as_the_run(demos: Path, tmp_path: Path) -> None:
    """By a rule that is never met none of them is a success: nothing of the simulation's reward is left."""
    (tmp_path / "never.toml").write_text("name = 'never'\n[[stage]]\nname = 'gone'\nconditions = ['to_ball[0] > 100']\n")
    paid = judged(demos, f"conditions:{tmp_path / 'never.toml'}", tmp_path / "judged")
    assert not any(step.reward or step.success for step in read_demos(paid).transitions)
    assert read_demos(paid).spec.reward.startswith("conditions:never:")
    assert judged(demos, "conditions:of a file that is gone", tmp_path / "judged") == paid, "it goes on with what is there"


def test_what_was_made_and_learned_to_the_end_is_taken_again(demos: Path, tmp_path: Path) -> None:
    assert recorded("reach", 3, demos.parent, 0) == demos and len(list(demos.parent.glob("*.db"))) == 1
    (tmp_path / "classifier.json").write_text(dumps({"summary": {"deterministic": {"success": 0.5}}, "minutes": 4.5}))
    config = settings("classifier:of a file that is gone", demos, 0, quick=True)
    assert learned(config, tmp_path / "classifier", Display("quiet")) == ({"deterministic": {"success": 0.5}}, 4.5)
