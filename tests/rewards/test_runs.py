"""Rules as the reward of a run: over a real hub, seen on the page, contradicted by a person; and through a camera."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.acting.eyes import EncodedEnv
from tandem.acting.person_reward import reward_source
from tandem.agents.sac_config import SACConfig
from tandem.data.demos import read_demos
from tandem.data.journal import Journal
from tandem.doctor.records import load_run
from tandem.envs.reach import ReachExpert
from tandem.envs.registry import make_env
from tandem.errors import ConfigError
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.eyes import open_eyes
from tandem.off_policy.sync import train
from tandem.programs.label_frames import label
from tandem.programs.record import record_demos
from tandem.programs.reward import apply
from tandem.programs.train_reward import train_classifier
from tandem.rewards.classifier import read_classifier
from tandem.rewards.named import judged_by
from tandem.rewards.stored import open_stored
from tandem.runs.display import Display
from tests.seeing_task import SEEING
from tests.teleop.remote_rig import Rig
from tests.waiting import wait_for

LATER = b"""
name = "away"
[[stage]]
conditions = ["tcp_velocity[0] > 0.0001"]
"""
SEES = "tests.seeing_task:seeing_reach"


def test_a_rule_judges_the_steps_of_a_run_and_a_person_takes_a_success_back(tmp_path: Path) -> None:
    source, spec = judged_by_text(tmp_path, LATER)
    with Rig(tmp_path, settings={"reward_source": source}, rule=LATER, pace="realtime") as rig:
        views: list[Any] = []
        rig.do(rig.hub.remote.watch, rig.source, views.append)
        [end, *_] = wait_for(rig.ends, what="an episode")
        wait_for(lambda: any(view.observation.get("reward: success") == [1.0] for view in views), what="its value on the page")
        assert (end.reward, end.terminated, end.success) == (1.0, True, True), "the policy moves, which is this rule's success"
        rig.do(rig.hub.remote.command, "record", rig.source, {"what": "wrong", "episode": end.episode})
        wait_for(lambda: (rig.run / "episodes.jsonl").exists(), what="the word of the person")
        wait_for(lambda: all(step.episode != end.episode for step in rig.stored()), what="the episode to be discarded")
        said = open_stored([rig.run]).said(("success",))
        [(frame, given)] = said.items()
        assert frame == (end.source, end.episode, -1) and given.label == "failure" and "wrong" in given.by
        shown = [episode for episode in open_stored([rig.run]).episodes() if episode.name == frame[:2]]
        assert len(shown) == 1 and len(shown[0]) == end.step + 2, "a discarded episode still has its frames"
        assert [one.by for one in load_run(rig.run).reward_labels] == [given.by]
        assert spec.reward.startswith("conditions:away:")


def judged_by_text(folder: Path, text: bytes) -> tuple[str, Any]:
    (folder / "rule.toml").write_bytes(text)
    source = f"conditions:{folder / 'rule.toml'}"
    return source, judged_by(source, make_env("reach").spec)[1]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_demos(make_env(SEES), ReachExpert(0), 8, tmp_path_factory.mktemp("seen"), seed=0)


def test_a_classifier_sees_through_a_camera_and_its_run_through_the_same_encoder(seen: Path, tmp_path: Path) -> None:
    out = tmp_path / "at_ball.safetensors"
    label((seen,), labels=tmp_path / "labels.csv", how="success", last=2, every=2)
    train_classifier((seen,), labels=(tmp_path / "labels.csv",), out=out, updates=60)
    made = read_classifier(out)
    assert list(made.entries) == ["eye"] and made.encoder is not None and made.entries["eye"].role == "features"
    config = TrainConfig(task=SEES, demos=(seen,), reward_source=f"classifier:{out}")
    rule, spec = judged_by(config.reward_source, SEEING)
    encoder, _ = open_eyes(spec, config, tmp_path, rule=rule)
    assert encoder.hash == made.encoder.hash, "a picture is encoded once"
    env = EncodedEnv(make_env(SEES, 2), encoder)
    source = reward_source(config.reward_source, env.spec, 2, rule)
    env.reset(None, [0, 1])
    source.begin([0, 1])
    judged = source.judge(env.step(np.zeros((2, 3))))
    assert judged.step.reward.shape == (2,) and set(judged.values) == {"success"} and source.name == made.name
    apply((seen,), f"classifier:{out}", tmp_path / "again")  # pictures, encoded by the classifier itself
    [file] = (tmp_path / "again").glob("*.db")
    assert read_demos(file).spec.reward == made.name


def test_a_classifier_may_look_at_numbers_beside_a_camera(seen: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.safetensors"
    label((seen,), labels=tmp_path / "labels.csv", how="success")
    train_classifier((seen,), labels=(tmp_path / "labels.csv",), out=out, entries=("tcp_velocity",), updates=10)
    with pytest.raises(ConfigError, match="no reward source 'classifier:'"):
        TrainConfig(reward_source="classifier:")
    assert read_classifier(out).encoder is None


def test_a_run_in_one_thread_is_judged_by_its_rule_also_after_a_resume(tmp_path: Path) -> None:
    (tmp_path / "rule.toml").write_bytes(LATER)
    config = TrainConfig(
        task="reach",
        agent=SACConfig(hidden=(8, 8)),
        batch_size=8,
        training_starts=10,
        max_steps=10,
        eval_period=0,
        final_episodes=0,
        reward_source=f"conditions:{tmp_path / 'rule.toml'}",
    )
    train(config, tmp_path / "run", Display("quiet"))
    (tmp_path / "rule.toml").unlink()  # the run has its own copy
    train(replace(config, max_steps=15), tmp_path / "run", Display("quiet"), resume=True)
    with Journal.open(tmp_path / "run" / "journal.db") as journal:
        steps = [step for _, step in journal.read()]
        assert journal.spec.reward.startswith("conditions:away:")
    assert len(steps) > 20
    for step in steps:
        moved = float(step.next_observation["tcp_velocity"][0]) > 0.0001
        assert (step.reward, bool(step.success), step.terminated) == (float(moved), moved, moved)
