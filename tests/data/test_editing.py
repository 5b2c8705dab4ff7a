"""Edits of demonstrations: a new file, sound episodes, and the history of every change inside."""

import dataclasses
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.demo_faults import FAULTS, SPEC, acted, episodes, fork_pickle, write
from tandem.cli import run
from tandem.data.demos import Recording, read_demos
from tandem.doctor.demo_files import check, look_at
from tandem.errors import ConfigError, SpecMismatch
from tandem.layouts import ActionLayout

SOUND = episodes()


def edit(tmp_path: Path, *args: object) -> Recording:
    out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
    assert run("demos", ["edit", *(str(arg) for arg in args), "--out", str(out)]) == 0
    [path] = out.iterdir()
    recording = read_demos(path)
    for steps in recording.episodes():
        assert [step.step for step in steps] == list(range(len(steps))) and steps[-1].last and not any(step.last for step in steps[:-1])
        for step, following in pairwise(steps):
            np.testing.assert_equal(step.next_observation, following.observation)
    return recording


def first_findings(path: Path) -> list[str]:
    return [finding["name"] for finding in check([look_at(path)], None, "en")[0]["findings"]]


REPAIRS = [
    "three dead channels",
    "a sensor that froze in one episode",
    "actions of at most 0.2",
    "pauses in 40 % of the steps",
    "a gripper label of 0 in idle frames",
    "another sensitivity in half of the file",
    "a state that is not read anew",
    "episodes without an end",
    "an end inside of the episodes",
    "pauses cut out",
    "steps cut out",
    "frames appended after the success",
    "the same episodes twice",
    "episodes of one step",
    "time-outs as terminals",
    "a success without a reward",
    "black first pictures",
    "swapped cameras in two episodes",
    "a reward in every step",
    "most episodes fail",
]


@pytest.mark.parametrize("name", REPAIRS)
def test_the_command_that_the_doctor_names_repairs_the_file(tmp_path: Path, name: str) -> None:
    bad = write(tmp_path / "bad.db", FAULTS[name].inject(SOUND))
    [first, *_] = check([look_at(bad)], None, "en", FAULTS[name].discount)[0]["findings"]
    arguments = [part.strip("'") for part in first["next"].split()[3:]]
    repaired = edit(tmp_path, *arguments)
    assert FAULTS[name].finding not in first_findings(repaired.path)


def test_history_and_attributes_go_along(tmp_path: Path) -> None:
    path = write(tmp_path / "one.db", SOUND)
    once = edit(tmp_path, path, "--delete", "0,2")
    twice = edit(tmp_path, once.path, "--trim-start", "3")
    assert [entry["did"] for entry in twice.attributes["history"]] == [["2 episodes left out"], ["30 steps trimmed"]]
    assert twice.attributes["history"][0]["from"][0]["file"] == "one.db" and len(twice.episodes()) == 10
    assert read_demos(path).attributes == {}, "the old file is as it was"


def test_merge_keep_and_split(tmp_path: Path) -> None:
    one, other = write(tmp_path / "one.db", SOUND[:2]), write(tmp_path / "other.db", SOUND[2:5])
    merged = edit(tmp_path, one, other, "--keep", "1:4", "--split", "3:10")
    assert [len(steps) for steps in merged.episodes()] == [len(SOUND[1]), len(SOUND[2]), 10, len(SOUND[3]) - 10]
    assert merged.episodes()[2][-1].truncated and not merged.episodes()[2][-1].terminated
    with pytest.raises(SpecMismatch, match=r"control_hz: 10\.0 here, 20\.0 there"):
        edit(tmp_path, one, write(tmp_path / "fast.db", SOUND[:1], dataclasses.replace(SPEC, control_hz=20.0)))


def test_scaling_says_what_is_lost_and_changes_the_scale_of_the_spec(tmp_path: Path) -> None:
    path = write(tmp_path / "one.db", SOUND)
    scaled = edit(tmp_path, path, "--scale-actions", "0:3=2")
    before, after = SOUND[0][0].action, scaled.transitions[0].action
    np.testing.assert_allclose(after[:3], np.clip(2 * before[:3], -1, 1), atol=1e-6)
    np.testing.assert_array_equal(after[3:], before[3:])
    lost = sum(bool((np.abs(2 * step.action[:3]) > 1 + 1e-6).any()) for steps in SOUND for step in steps)
    [said] = scaled.attributes["history"][0]["did"]
    assert f"{lost} steps are cut off at 1: what they were is lost" in said
    np.testing.assert_array_equal(ActionLayout.of(scaled.spec).scales, [0.5, 0.5, 0.5, 1, 1, 1, 1])


def test_a_lower_rate_puts_steps_together(tmp_path: Path) -> None:
    """Of 3 steps with the deltas a, b, c: one with their mean, whose 1 moves 3 times as far; the gripper's last command, all rewards."""
    path = write(tmp_path / "one.db", SOUND[:2])
    slow = edit(tmp_path, path, "--rate", "3.3333333333")
    first, steps = slow.episodes()[0][0], SOUND[0]
    np.testing.assert_allclose(first.action[:6], np.mean([step.action[:6] for step in steps[:3]], axis=0), atol=1e-6)
    assert first.action[6] == steps[2].action[6] and slow.spec.control_hz == pytest.approx(10 / 3)
    np.testing.assert_equal(first.next_observation, steps[2].next_observation)
    assert [sum(step.reward for step in episode) for episode in slow.episodes()] == [1.0, 1.0]
    with pytest.raises(ConfigError, match="not a whole part of the file's 10 Hz; possible are 5"):
        edit(tmp_path, path, "--rate", "4")


def test_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "one.db", SOUND[:3])
    labelled = edit(tmp_path, path, "--failure", "1")
    assert [(steps[-1].success, steps[-1].reward, steps[-1].terminated) for steps in labelled.episodes()] == [
        (True, 1.0, True),
        (False, 0.0, False),
        (True, 1.0, True),
    ]


@pytest.mark.parametrize("version", ["january", "february_4", "february", "march", "filtered", "scaled"])
def test_a_pickle_of_the_fork_is_repaired_with_one_command(tmp_path: Path, version: str) -> None:
    path = fork_pickle(tmp_path / "fork.pkl", 5, 90, version=version)
    options = ["--drop", "state[1:4]", "state[10:19]", "--gripper", "6=state[0]", "--drop-copies", "--drop-static", "--join"]
    if version != "scaled":
        options += ["--scale-actions", "0:6=5"]
    repaired = edit(tmp_path, path, *options, "--shortest", "2")
    assert len(repaired.episodes()) == 5 and {*first_findings(repaired.path)} <= {"demos_saturated"}
    assert repaired.spec.observation["state"].shape == (7,)
    assert all(steps[-1].success and steps[-1].terminated and sum(step.reward for step in steps) == 1 for steps in repaired.episodes())


def test_where_pauses_were_cut_out_steps_are_joined_or_the_episode_is_split(tmp_path: Path) -> None:
    path = write(tmp_path / "cut.db", FAULTS["pauses cut out"].inject(SOUND[:3]))
    assert len(edit(tmp_path, path).episodes()) == 9
    joined = edit(tmp_path, path, "--join")
    assert [len(steps) for steps in joined.episodes()] == [len(steps) for steps in SOUND[:3]]
    np.testing.assert_equal(joined.episodes()[1][8].next_observation, SOUND[1][9].observation)
    assert joined.attributes["history"][0]["did"][0].startswith("6 ends and gaps repaired: steps around a gap joined")


def test_ends_are_trimmed_and_pauses_shortened(tmp_path: Path) -> None:
    """An episode that lost its end is cut off; of pauses of five steps two stay, and the arm's actions are those of the others."""
    path = write(tmp_path / "one.db", SOUND[:2])
    trimmed = edit(tmp_path, path, "--trim-end", "4")
    assert [len(steps) for steps in trimmed.episodes()] == [len(steps) - 4 for steps in SOUND[:2]]
    assert all(steps[-1].truncated and not steps[-1].terminated and not steps[-1].success for steps in trimmed.episodes())
    paused = acted(SOUND[:2], lambda n, t, action: np.concatenate([np.zeros(6), [1.0]]) if 4 <= t < 9 else action)
    short = edit(tmp_path, write(tmp_path / "paused.db", paused), "--drop-static", "--static-keep", "2")
    assert [len(steps) for steps in short.episodes()] == [len(steps) - 3 for steps in SOUND[:2]]
    np.testing.assert_array_equal(short.episodes()[0][6].action, SOUND[0][9].action)


def test_the_episodes_of_a_whole_file_are_chosen(tmp_path: Path) -> None:
    failed = [dataclasses.replace(SOUND[1][-1], reward=0.0, success=False, terminated=False, truncated=True)]
    path = write(tmp_path / "one.db", [SOUND[0], [*SOUND[1][:-1], *failed], SOUND[2][-6:], SOUND[3]])
    assert [len(steps) for steps in edit(tmp_path, path, "--only-success", "--shortest", "10").episodes()] == [len(SOUND[0]), len(SOUND[3])]
    told = edit(tmp_path, path, "--keep", "1", "--success", "1").episodes()
    assert [(steps[-1].success, steps[-1].reward, steps[-1].terminated) for steps in told] == [(True, 1.0, True)]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (["--keep", "a"], "--keep takes numbers"),
        (["--drop", "torque"], "there is no such number; the entries are pose"),
        (["--gripper", "9=gripper"], "no column 9"),
        (["--scale-actions", "0:9=2"], "continuous columns from 0 to 6"),
        (["--swap-pictures", "left"], "two cameras and episodes"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, option: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("[", r"\[")):
        edit(tmp_path, write(tmp_path / "one.db", SOUND[:1]), *option)
