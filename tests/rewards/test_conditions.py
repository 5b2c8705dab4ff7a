"""Conditions on entries and object poses, and how stages become rewards."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

from tandem.acting.person_reward import reward_source
from tandem.acting.rewards import Label
from tandem.data.demos import DemoWriter, read_demos
from tandem.envs.isaac.profile import RewardProfile
from tandem.envs.isaac.rewards import Judge
from tandem.errors import ConfigError, SpecMismatch
from tandem.programs.record import record
from tandem.programs.reward import apply
from tandem.rewards.conditions import parse_conditions, read_conditions
from tandem.rewards.named import check_source
from tandem.rewards.rule import Progress
from tandem.types import Continuous, Entry, Spec, Step
from tests.data.data_samples import SPEC as PEG
from tests.data.data_samples import episode

POSES = Spec("gears", {"gear": Entry((7,)), "base": Entry((7,))}, (Continuous("arm", 1),), 10.0, 100)
SEATED = b"""
name = "seated"
hold_s = 0.3
quaternions = "xyzw"
[[stage]]
name = "near"
conditions = ["distance(gear, base) < 0.1"]
[[stage]]
name = "seated"
conditions = ["gear[2] < 0.402", "tilt(gear, base) < 5.1",
  "in_frame(gear, base)[0] = 0.0 +- 0.002", "in_frame(gear, base)[1] = 0.0 +- 0.002"]
"""


def poses(gear: list[float], turn: list[float] | None = None) -> dict[str, np.ndarray]:
    """One row: a gear at this place over a base that is turned by 90 degrees about z."""
    upright, quarter = turn or [0, 0, 0, 1], [0, 0, np.sqrt(0.5), np.sqrt(0.5)]
    return {"gear": np.array([[*gear, *upright]], np.float32), "base": np.array([[0, -0.6, 0.4, *quarter]], np.float32)}


def test_conditions_on_poses_see_what_the_forks_own_judge_sees() -> None:
    """`Judge` is the reward of the Isaac server, written by itself. With a hole in the gear's centre both ask for the same."""
    rule = parse_conditions(SEATED, "file")
    profile = RewardProfile(kind="assembly", hole_m=0.0, hold_steps=0, axis_cosine=float(np.cos(np.radians(5.1))), aside_m=0.002)
    agreed = []
    for x, y, z, tilt in itertools.product((0, 0.0015, 0.0025), (-0.6, -0.597), (0.4005, 0.41), (0, 4, 6)):
        look = poses([x, y, z], [np.sin(np.radians(tilt) / 2), 0, 0, np.cos(np.radians(tilt) / 2)])
        judge = Judge(profile, "server")
        objects = {profile.gear: look["gear"][0].tolist(), profile.base: look["base"][0].tolist()}
        judge.begin(objects)
        assert judge.success(objects) == rule.met(rule.values(look))[0, 1], (x, y, z, tilt)
        agreed.append(judge.success(objects))
    assert sum(agreed) == 4, "upright or 4 degrees, x of 0 or 1.5 mm"


def test_a_stage_is_paid_once_and_after_it_has_held() -> None:
    rule = parse_conditions(SEATED, "file")
    progress = Progress(rule, 1, control_hz=10.0)  # 0.3 s are 3 steps
    far, near, seated = poses([1, 0, 1]), poses([0.05, -0.6, 0.41]), poses([0, -0.6, 0.4005])
    rewards = [progress.advance(rule.values(look)) for look in (far, near, near, far, near, near, near, near, seated, seated, seated)]
    assert [float(verdict.reward[0]) for verdict in rewards] == [0, 0, 0, 0, 0, 0, 0.5, 0, 0, 0, 0.5], "interrupted after two steps"
    assert [bool(verdict.success[0]) for verdict in rewards] == [False] * 10 + [True]
    progress.begin([0])
    assert progress.advance(rule.values(seated)).reward[0] == 0, "a new episode counts from 0"


def test_who_reaches_the_last_stage_has_reached_those_before() -> None:
    rule = dataclasses.replace(parse_conditions(SEATED, "file"), hold_s=0.0)
    verdict = Progress(rule, 1, 10.0).advance(rule.values(poses([0, -0.6, 0.4005])))
    assert verdict.reward[0] == 1.0 and verdict.success[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"hold_s = 1", "at least one table"),
        (b"hold = 1\n[[stage]]\nconditions=['a > 1']", "'hold' is no setting"),
        (b"hold_s = -1\n[[stage]]\nconditions=['a > 1']", "time in seconds, got -1"),
        (b"[[stage]]\nconditions=['a >= 1']", "a condition is a text such as"),
        (b"[[stage]]\nconditions=['a = 1']", "needs a tolerance"),
        (b"[[stage]]\nconditions=['tilt(a, b)[0] < 1']", "without an index"),
        (b"[[stage]]\nconditions=['in_frame(a, b)[3] < 1']", "three coordinates"),
        (b"[[stage]]\nconditions=[]", "stage 0 needs `conditions`"),
        (b"quaternions='zxyw'\n[[stage]]\nconditions=['a > 1']", "'wxyz' or 'xyzw'"),
    ],
)
def test_a_file_that_could_be_misread_is_refused_with_what_is_wrong(tmp_path: Path, text: bytes, said: str) -> None:
    (tmp_path / "rule.toml").write_bytes(text)
    with pytest.raises(ConfigError, match=said):
        read_conditions(tmp_path / "rule.toml")


def test_a_task_without_the_entry_is_refused() -> None:
    rule = parse_conditions(b"[[stage]]\nconditions=['touch[3] > 1']", "file")
    with pytest.raises(SpecMismatch, match="'touch', which has 1"):
        rule.require(PEG)
    with pytest.raises(SpecMismatch, match="looks at 'touch', and 'gears' observes gear, base"):
        rule.require(POSES)


def test_an_unknown_source_is_named() -> None:
    with pytest.raises(ConfigError, match="no reward source 'magic'; there are simulation, person, classifier:FILE"):
        check_source("magic")


def made(height: float, ended: bool = False) -> Step:
    no = np.array([False])
    look = {"pose": np.array([[height, 0, 0]], np.float32), "touch": np.array([0], np.float32)}
    return Step(look, np.array([0.3]), np.array([ended]), no, np.array([ended]), success_known=False)


def test_as_the_reward_of_an_actor_the_environment_says_only_when_its_time_is_up() -> None:
    source = reward_source("conditions:lift.toml", PEG, 1, b"[[stage]]\nname='lifted'\nconditions=['pose[0] > 2']")
    source.begin([0])
    low = source.judge(made(1, ended=True)).step
    assert (low.reward[0], low.terminated[0], low.truncated[0], low.success[0]) == (0.0, False, True, False)
    source.begin([0])
    judged = source.judge(made(3))
    high = judged.step
    assert (high.reward[0], high.terminated[0], high.truncated[0], high.success[0]) == (1.0, True, False, True)
    assert judged.values == {"lifted": 1.0} and high.success_known and source.name.startswith("conditions:conditions:")
    source.begin([0])
    source.give_label(Label(False))
    labelled = source.judge(made(3)).step
    assert (labelled.reward[0], labelled.success[0]) == (0.0, False), "a person's word counts more"


def test_stored_steps_get_new_rewards_in_a_new_file_that_remembers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with DemoWriter(tmp_path, PEG) as writer:
        writer.add(episode(6))
        writer.add(episode(3, number=1))
        old = writer.finish()
    (tmp_path / "lift.toml").write_text("name = 'lifted'\n[[stage]]\nconditions = ['pose[0] > 3.5']")
    assert apply((old,), f"conditions:{tmp_path / 'lift.toml'}", tmp_path / "new") == 0
    [file] = (tmp_path / "new").glob("*.db")
    recording = read_demos(file)
    first, second = recording.episodes()
    # the observation after step t says t + 1: above 3.5 after the fourth step
    assert [step.reward for step in first] == [0, 0, 0, 1] and first[-1].terminated and first[-1].success
    assert [step.reward for step in second] == [0, 0, 0] and second[-1].truncated and not second[-1].terminated and not second[-1].success
    assert recording.spec.reward.startswith("conditions:lifted:") and recording.spec.hash == PEG.hash
    assert (
        "1 of 2 episodes succeed, 2 did before; changed: 1; 2 steps after the success left out"
        in recording.attributes["history"][0]["did"][0]
    )
    assert [step.reward for step in read_demos(old).episodes()[0]] == [0] * 5 + [1], "the old file is as it was"
    assert "episodes succeed" in capsys.readouterr().out


def test_what_nobody_can_judge_again_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither a simulation nor a person can judge stored steps again"):
        apply((tmp_path / "x.db",), "person")


def test_a_script_that_records_does_not_choose_its_reward(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tandem reward apply FILE --source conditions:x.toml"):
        record("reach", demos=1, out=tmp_path, reward_source="conditions:x.toml")
