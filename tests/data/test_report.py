"""`inspect` gives a file's figures, `validate` names what is wrong with it."""

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest
from data_samples import SPEC, episode, observation, transition

from tandem.data.demos import DemoWriter
from tandem.data.journal import Journal
from tandem.data.report import Range, format_report, inspect, validate
from tandem.errors import DataError, FileMissing
from tandem.types import Continuous, Entry, Transition


def acting(steps: list[Transition], actions: list[list[float]]) -> list[Transition]:
    return [dataclasses.replace(step, action=np.array(action, np.float32)) for step, action in zip(steps, actions, strict=True)]


def file_of(folder: Path, *episodes: list[Transition], name: str = "journal.db") -> Path:
    """A journal with these episodes, named apart; it takes what a DemoWriter would refuse."""
    path = folder / name
    with Journal.create(path, SPEC, operator="scripted") as journal:
        for number, steps in enumerate(episodes):
            journal.append([dataclasses.replace(step, episode=number, seq=1000 * number + step.seq) for step in steps])
    return path


def problems(path: Path, spec=None) -> list[str]:
    return [f"{problem.severity}: {problem.message}" for problem in validate(path, spec)]


def test_the_figures_of_a_file_are_those_counted_by_hand(tmp_path):
    with DemoWriter(tmp_path, SPEC, operator="scripted", seed=5) as writer:
        writer.add(acting(episode(2), [[1.0, 0.0], [-0.5, 0.2]]))
        writer.add(acting(episode(4), [[0.005, -0.005], [0.0, 0.0], [0.995, -0.3], [0.1, -1.0]]))
        failed = episode(3)
        failed[2] = dataclasses.replace(failed[2], reward=0.0, success=False, terminated=False, truncated=True, intervened=True)
        writer.add(acting(failed, [[0.5, 0.5]] * 3))
        report = inspect(writer.finish())
    assert (report.episodes, report.transitions, report.rejected) == (3, 9, 0)
    assert report.lengths == Range(2, 3, 4) and report.returns == Range(0, 1, 1)
    assert report.success_share == pytest.approx(2 / 3)
    assert report.intervened_share == pytest.approx(1 / 9)
    assert report.idle_share == pytest.approx(2 / 9)  # [0.005, -0.005] and [0, 0]
    assert report.saturation_share == pytest.approx((2 / 9, 1 / 9))  # 1 and 0.995; -1
    np.testing.assert_allclose(report.action_low, [-0.5, -1.0])
    np.testing.assert_allclose(report.action_high, [1.0, 0.5])
    assert report.duration_s == pytest.approx(0.9)  # 9 steps at 10 Hz
    assert (report.operator, report.attributes["seed"], report.complete, report.spec) == ("scripted", 5, True, SPEC)


def test_the_printed_report_says_it_all(tmp_path):
    text = format_report(inspect(file_of(tmp_path, episode(5))))
    for part in ("journal.db", "peg", "10 Hz", "operator scripted", "1, 100% successful", "5 to 5", "pose", "[1]", SPEC.hash):
        assert part in text


def test_the_report_keeps_within_its_width_however_long_names_and_meanings_are(tmp_path):
    report = inspect(file_of(tmp_path, episode(5)))
    for name in ("pose", "a_name_that_takes_up_more_than_half_of_a_line_of_text"):
        entries = {name: Entry((3,), unit="m", meaning="word " * 30), "touch": Entry(())}
        lines = format_report(dataclasses.replace(report, spec=dataclasses.replace(SPEC, observation=entries))).splitlines()
        assert max(len(line) for line in lines) <= 80
        assert sum(line.count("word") for line in lines) == 30
        shapes = [line.index(shape) for shape in ("shape", "(3,)", "()") for line in lines if f" {shape}" in line][:3]
        assert len(set(shapes)) == 1, "one column"


def test_a_hil_serl_pickle_is_reported_too(tmp_path):
    record = {"observations": observation(0), "actions": np.ones(2), "next_observations": observation(1)}
    path = tmp_path / "demos.pkl"
    path.write_bytes(pickle.dumps([record | {"rewards": 1, "masks": 0, "dones": True}]))
    assert inspect(path).kind == "hil-serl pickle"
    assert inspect(path).success_share == 1.0
    assert problems(path, SPEC) == [
        "warning: action [0] is at its limit in 100% of the steps: a larger action scale would help",
        "warning: action [1] is at its limit in 100% of the steps: a larger action scale would help",
    ]
    [mismatch, *_] = problems(path, dataclasses.replace(SPEC, action=(Continuous("arm", 7),)))
    assert "error" in mismatch and "action: shape (7,) here, (2,) there" in mismatch


def test_a_file_without_steps_or_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match="no steps"):
        inspect(file_of(tmp_path))
    with pytest.raises(FileMissing):
        inspect(tmp_path / "lost.db")
    assert problems(tmp_path / "journal.db") == ["error: the file holds no steps to learn from"]
    [problem] = problems(tmp_path / "lost.db")
    assert problem.startswith("error: there is no file")


def test_a_good_file_has_no_problems(tmp_path):
    with DemoWriter(tmp_path, SPEC) as writer:
        writer.add(episode(5))
        writer.add(episode(9))
        assert validate(writer.finish(), SPEC) == []


def without_success(steps: list[Transition], **end) -> list[Transition]:
    return [*steps[:-1], dataclasses.replace(steps[-1], reward=0.0, success=False, **end)]


NAN = dataclasses.replace(episode(4)[2], observation=observation(2) | {"pose": np.array([np.nan, 0, 0], np.float32)})


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([*episode(4)[:2], NAN, episode(4)[3]], "error: episode 1, step 2: observation entry 'pose' has nan at [0]"),
        (acting(episode(1), [[2.0, 0.0]]), "error: episode 1, step 0: action at [0] is 2, outside [-1, 1]"),
        (episode(4)[:3], "warning: 1 of 2 episodes without an end"),
        ([episode(4)[3], *episode(8)[4:]], "error: 1 of 2 episodes with steps after the end"),
        ([*episode(4)[:3], dataclasses.replace(episode(4)[3], reward=0.0)], "error: 1 of 2 episodes marked as success without any reward"),
        (without_success(episode(4), terminated=False, truncated=True), "warning: 1 of 2 episodes without success: episode 1"),
        (without_success(episode(50)), "warning: 1 of 2 episodes terminated at the time limit without success"),
        ([*episode(6)[:2], *episode(6)[4:]], "warning: 1 of 2 episodes with gaps in the step numbers: episode 1"),
        (episode(4)[1:], "warning: 1 of 2 episodes with gaps in the step numbers: episode 1"),
        (
            [episode(4)[0], dataclasses.replace(episode(4)[1], observation=observation(77)), *episode(4)[2:]],
            "warning: 1 of 2 episodes in which a next observation is not the observation of the next step: episode 1",
        ),
        (
            acting(episode(20), [[0.0, -1.0]] * 18 + [[0.0, 0.2], [0.0, 0.4]]),
            "warning: action [1] is at its limit in 72% of the steps",  # 18 of 25
        ),
        (acting(episode(20), [[0.0, 0.0]] * 20), "warning: 80% of the steps do not move"),
    ],
)
def test_each_kind_of_problem_is_named(tmp_path, steps, says):
    found = problems(file_of(tmp_path, episode(5), steps))  # beside one good episode
    assert any(problem.startswith(says) for problem in found), found


def test_rewards_that_are_missing_everywhere_are_an_error(tmp_path):
    found = problems(file_of(tmp_path, without_success(episode(3))))
    assert found[0] == "error: no step has a reward: nothing tells success from failure"


def test_many_bad_steps_are_counted_not_listed(tmp_path):
    bad = [dataclasses.replace(step, reward=float("nan")) for step in episode(20)]
    found = problems(file_of(tmp_path, episode(5), bad))
    assert found[5] == "error: 15 more steps cannot be used" and len(found) == 6


def test_each_difference_from_the_tasks_spec_is_an_error(tmp_path):
    other = dataclasses.replace(SPEC, control_hz=20.0, observation={**SPEC.observation, "wrench": Entry((6,))})
    found = problems(file_of(tmp_path, episode(5)), other)
    assert ["control_hz: 20.0 here, 10.0 there" in found[0], "'wrench' (6,): only here" in found[1]] == [True, True]


def test_a_recording_that_was_not_finished_is_pointed_out(tmp_path):
    with DemoWriter(tmp_path, SPEC) as writer:
        writer.add(episode(5))
    [path] = tmp_path.iterdir()
    assert problems(path, SPEC) == ["warning: recording was not finished; the episodes that are there are complete"]
    assert "recording not finished" in format_report(inspect(path))


def test_errors_come_before_warnings(tmp_path):
    found = problems(file_of(tmp_path, episode(4)[:3], [transition(0, reward=float("nan"))]))
    assert [problem.split(":")[0] for problem in found] == sorted(problem.split(":")[0] for problem in found)
    assert found[0].startswith("error") and found[-1].startswith("warning")


def test_a_gripper_that_is_open_or_closed_is_a_switch_and_not_saturated(tmp_path):
    arm = np.linspace(-0.9, 0.9, 20).tolist()
    for name, gripper, switch in (
        ("open_or_closed", [-1.0] * 10 + [1.0] * 10, True),
        ("with_a_rest", [0.0] * 2 + [-1.0] * 9 + [1.0] * 9, True),
        ("four_values", [0.0, 0.5] + [-1.0] * 9 + [1.0] * 9, False),
        ("always_pushing", [1.0] * 20, False),
    ):
        path = file_of(tmp_path, acting(episode(20), [list(pair) for pair in zip(arm, gripper, strict=True)]), name=f"{name}.db")
        report = inspect(path)
        assert report.switches == (False, switch) and report.saturation_share[1] >= 0.9, "the table shows it all the same"
        assert report.saturated.keys() == ({0} if switch else {0, 1})
        assert any("action [1] is at its limit" in problem for problem in problems(path)) != switch
