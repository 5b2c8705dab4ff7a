"""`tandem demos check`: each of many faults is the first finding, sound files have none, and files of a hil-serl fork are understood."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from benchmarks.demo_faults import FAULTS, SPEC, Fault, episodes, fork_pickle, write
from tandem.cli import run
from tandem.data.figures import measure
from tandem.doctor.checks.demo_episodes import demos_mixed_rewards
from tandem.doctor.demo_files import check, look_at, start_lines
from tandem.doctor.records import DemoFile, Records
from tandem.envs.registry import make_env, make_expert
from tandem.programs.record import record_demos

SOUND = episodes()


def findings(*paths: Path, discount: float | None = None, together: bool = False) -> list[dict[str, Any]]:
    diagnoses = check([look_at(path) for path in paths], None, "en", discount)
    return diagnoses[-1]["findings"] if together or len(paths) == 1 else diagnoses[0]["findings"]


def names(found: list[dict[str, Any]]) -> list[str]:
    return [finding["name"] for finding in found]


def test_a_sound_file_has_no_findings(tmp_path: Path) -> None:
    assert names(findings(write(tmp_path / "sound.db", SOUND))) == []


@pytest.mark.parametrize("task", ["reach", "gear_assembly"])
def test_files_of_our_own_scripts_raise_no_alarm(tmp_path: Path, task: str) -> None:
    path = record_demos(make_env(task), make_expert(task, 0), 8, tmp_path, seed=0)
    assert names(findings(path)) == []


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_a_fault_is_the_first_finding(tmp_path: Path, fault: Fault) -> None:
    found = findings(write(tmp_path / "bad.db", fault.inject(SOUND)), discount=fault.discount)
    assert names(found)[:1] == [fault.finding]
    assert "bad.db" in found[0]["evidence"][0] and found[0]["next"].startswith("tandem ")


def test_files_that_do_not_fit_together_are_found_only_together(tmp_path: Path) -> None:
    one, same, other = (tmp_path / f"{name}.db" for name in ("one", "same", "other"))
    write(one, SOUND), write(same, SOUND)
    spec = look_at(one).spec
    assert spec is not None
    write(other, SOUND, dataclasses.replace(spec, control_hz=20.0))
    assert names(findings(one, same)) == [] and names(findings(one, same, together=True)) == ["demos_doubled"]
    found = findings(one, other, together=True)
    assert names(found)[0] == "demos_mixed_specs" and "control_hz: 10.0 here, 20.0 there" in found[0]["evidence"][1]


def test_rewards_of_different_sources_are_found_together(tmp_path: Path) -> None:
    one, other = tmp_path / "one.db", tmp_path / "other.db"
    write(one, SOUND), write(other, episodes(seed=1), dataclasses.replace(SPEC, reward="conditions:seated:12345678"))
    [found] = [finding for finding in findings(one, other, together=True) if finding["name"] == "demos_mixed_rewards"]
    assert found["evidence"] == ["one.db: simulation; other.db: conditions:seated:12345678"] and names(findings(one, other)) == []


def test_a_run_whose_rule_did_not_judge_its_demonstrations_is_told_so_at_its_start(tmp_path: Path) -> None:
    rule = tmp_path / "seated.toml"
    rule.write_text("name = 'seated'\n[[stage]]\nname = 'seated'\nconditions = ['goal[0] < 100']\n")
    path = write(tmp_path / "mine.db", SOUND)
    [line] = start_lines([path], None, f"conditions:{rule}")
    assert line.startswith("WARNING demos_mixed_rewards: ")
    assert start_lines([path], None) == start_lines([path], None, "person") == [], "neither can judge them again"
    assert run("reward", ["apply", str(path), "--source", f"conditions:{rule}", "--out", str(tmp_path / "paid")]) == 0
    [paid] = (tmp_path / "paid").iterdir()
    assert not any("demos_mixed_rewards" in line for line in start_lines([paid], None, f"conditions:{rule}"))

    spec = dataclasses.replace(SPEC, reward="conditions:seated:12345678")
    found = demos_mixed_rewards(Records(0.0, "bench", spec, kind="rlpd", path=Path("runs/gears"), demos=[look_at(path)]))
    assert found is not None and (found.facts["first"], found.facts["other"]) == ("gears", "mine.db")


def test_the_january_file_of_a_fork(tmp_path: Path) -> None:
    """12 dead numbers of 19, gripper labels of 0 in idle frames, arm actions within 0.2, a discount of 0.97."""
    found = {finding["name"]: finding for finding in findings(fork_pickle(tmp_path / "jan.pkl", 4, 200), discount=0.97)}
    assert {*found} == {"demos_channels_dead", "demos_gripper_label", "demos_too_long", "demos_idle", "demos_actions_small", "demos_few"}
    assert "12 of 19 numbers" in found["demos_channels_dead"]["evidence"][0]
    assert found["demos_channels_dead"]["next"].endswith("--drop 'state[1:4]' 'state[10:19]'")
    assert found["demos_gripper_label"]["next"].endswith("--gripper '6=state[0]'")
    assert found["demos_actions_small"]["next"].endswith("--scale-actions 0:6=5")
    assert "0.97^" in found["demos_too_long"]["evidence"][0]
    [diagnosis] = check([look_at(tmp_path / "jan.pkl")], None, "en")
    options = "--drop 'state[1:4]' 'state[10:19]' --gripper '6=state[0]' --drop-static --scale-actions 0:6=5"
    assert diagnosis["repair"] == f"tandem demos edit {tmp_path / 'jan.pkl'} {options}"


@pytest.mark.parametrize("version", ["february", "march"])
def test_later_files_of_the_fork_have_frames_that_nobody_made(tmp_path: Path, version: str) -> None:
    found = findings(fork_pickle(tmp_path / "later.pkl", 5, 120, version=version))
    assert found[0]["name"] == "demos_copies" and "50 such steps" in found[0]["evidence"][0]
    assert found[0]["explains"][:1] == ["demos_one_step"]
    assert "demos_gripper_label" not in names(found), "its labels are right"


def test_the_file_with_one_frame_after_the_success(tmp_path: Path) -> None:
    """Its action is stored as 0, and what was executed is beside it; labels are right."""
    found = findings(fork_pickle(tmp_path / "feb4.pkl", 5, 120, version="february_4"))
    assert names(found)[0] == "demos_one_step" and found[0]["next"].endswith("--shortest 2")
    assert not {"demos_copies", "demos_gripper_label"} & {*names(found)}


@pytest.mark.parametrize("version", ["filtered", "scaled"])
def test_of_a_filtered_file_the_gaps_are_found_and_need_not_split_it(tmp_path: Path, version: str) -> None:
    """Of ten appended frames the filter leaves three: the first two, of which the gripper differs or begins a pause, and the end."""
    found = findings(fork_pickle(tmp_path / "later.pkl", 5, 120, version=version, pictures=16))
    assert names(found)[:2] == ["demos_copies", "demos_pauses_cut"] and "15 such steps" in found[0]["evidence"][0]
    assert found[1]["next"].endswith("--join") and "demos_steps_missing" not in names(found)
    assert ("demos_actions_small" in names(found)) == (version == "filtered")


def test_files_recorded_under_two_action_scales_that_they_do_not_say(tmp_path: Path) -> None:
    """2 mm and 1.2 mm for a step, as in March. That the files have other names and lengths is no difference of their specs."""
    one, other = (
        fork_pickle(tmp_path / f"{metres}.pkl", 6, 120, version="scaled", metres=metres, seed=int(1e4 * metres))
        for metres in (0.002, 0.0012)
    )
    assert names(findings(one, other, together=True)) == ["demos_response_mixed"]


def test_lengths_are_told_with_the_number() -> None:
    """0.97^830 = 1e-11"""
    long = [[dataclasses.replace(SOUND[0][0], step=step) for step in range(830)]]
    file = DemoFile(Path("long.db"), spec=None, steps=830, figures=measure(SPEC, long))
    [diagnosis] = check([file], SPEC, "en", 0.97)
    [found] = [finding for finding in diagnosis["findings"] if finding["name"] == "demos_too_long"]
    assert "0.97^830 = 1e-11" in found["evidence"][0] and "0.9981 would fit" in found["evidence"][1]


def test_the_command_prints_both_languages_and_exits_by_severity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = write(tmp_path / "good.db", SOUND), write(tmp_path / "bad.db", FAULTS["three dead channels"].inject(SOUND))
    assert run("demos", ["check", str(good)]) == 0 and "No problem found" in capsys.readouterr().out
    assert run("demos", ["check", str(bad)]) == 1
    shown = capsys.readouterr().out
    assert "WARNING  demos_channels_dead" in shown and "type next: tandem demos edit" in shown
    assert run("demos", ["check", str(bad), "--lang", "zh"]) == 1 and "观测中有些数在每一步都是 0" in capsys.readouterr().out
    assert run("demos", ["check", str(tmp_path / "lost.db")]) == 2 and "demos_missing" in capsys.readouterr().out


def test_a_run_says_at_its_start_what_is_wrong_with_its_demonstrations(tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.db", FAULTS["three dead channels"].inject(SOUND))
    [line] = start_lines([bad], None)
    assert line.startswith("WARNING demos_channels_dead: ") and "`tandem doctor explain demos_channels_dead`" in line
    assert start_lines([write(tmp_path / "good.db", SOUND)], None) == []
