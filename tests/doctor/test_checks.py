"""Checks on hand-made records: faults that are hard to produce, forecasts, PPO's metrics, and no finding without data."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.data.report import Range, Report
from tandem.doctor.checks import CHECKS, EXPLAINS, run_checks
from tandem.doctor.diagnosis import diagnose
from tandem.doctor.machine import Machine, look_at_machine
from tandem.doctor.probe import Probe
from tandem.doctor.records import DemoFile, JournalFigures, Records, load_run
from tandem.doctor.texts import describe
from tandem.doctor.values import DemoValues
from tandem.envs.reach import SPEC
from tandem.on_policy.config import OnPolicyConfig
from tandem.runs.folder import RunFolder, plain
from tandem.runs.live import LiveView
from tandem.types import Continuous, Entry, Spec, Transition
from tests.doctor.doctor_samples import SMALL, assert_healthy, first

NOW = 1_000_000.0
ACTOR = {
    "name": "arm",
    "connected": True,
    "pace": "realtime",
    "rows": 1,
    "version": 10,
    "lag_versions": 0,
    "lag_s": 0.0,
    "steps_per_s": 10.0,
    "last_seen_s": 0.1,
    "connected_s": 100.0,
    "unacknowledged": 1,
    "spool_bytes": 1000,
    "dropped": 0,
    "round_trip_ms": 2.0,
    "clock_difference_s": 0.0,
}
STATUS = {"up_s": 100.0, "trainer": {"alive": True}, "policy": {"version": 10}, "journal": {"trouble": ""}}
CLOCKS = {
    "phase": "training",
    "learner_step": 90,
    "actor_step": 900,
    "policy_version": 10,
    "actor_steps_per_s": 10.0,
    "learner_steps_per_s": 1.0,
}
MACHINE = Machine("here", 4, 16 * 10**9, 8 * 10**9, 100 * 10**9, "3.11", {"tandem": "0.1.0"}, False, "EGL")


def live(
    actor: dict[str, Any] | None = None, status: dict[str, Any] | None = None, clocks: dict[str, Any] | None = None, at: float = NOW
) -> LiveView:
    actors = [] if actor == {} else [ACTOR | (actor or {})]
    told = {"time": at, "status": STATUS | (status or {}), "clocks": CLOCKS | (clocks or {}), "actors": actors}
    return LiveView.from_json(told)


def seen(**parts: Any) -> Records:
    """The records of a healthy run, except for these parts."""
    usual = {
        "config": plain(SMALL) | {"demos": ["demos.db"]},
        "kind": "rlpd",
        "live": live(),
        "path": Path("run"),
        "written_at": NOW,
        "machine": MACHINE,
    }
    events = [{"kind": "started", "time": NOW - 100, "host": "here", "tandem": "0.1.0"}, *parts.pop("events", [])]
    return Records(**{"now": NOW, "task": "reach", "spec": SPEC, "events": events} | usual | parts)


def test_without_data_there_is_no_finding() -> None:
    assert not run_checks(Records(NOW, "reach", SPEC))
    assert not run_checks(seen())


def test_values_that_contain_entropy_are_not_compared_with_returns() -> None:
    """RLPD as published values entropy too: with temperature 1, far more than a return of 1."""
    rows = [{"learner_step": step, "actor_step": step, "policy_version": 1, "critic/predicted_qs": 50.0} for step in range(10, 1000, 10)]
    config = plain(SMALL) | {"demos": ["demos.db"]}
    names = {True: set(), False: set()}
    for entropy in names:
        agent = config["agent"] | {"backup_entropy": entropy}
        names[entropy] = {finding.name for finding in run_checks(seen(rows=rows, config=config | {"agent": agent}))}
    assert "critic_diverged" in names[False] and not names[True] & {"critic_diverged", "q_overestimated"}


@pytest.mark.parametrize(
    ("name", "records"),
    [
        ("no_actor", seen(live=live({}))),
        ("actor_gone", seen(live=live({"connected": False, "last_seen_s": 40.0}))),
        (
            "actor_gone",
            seen(live=live({}), events=[{"kind": kind, "time": NOW - 50, "name": "arm"} for kind in ("actor_joined", "actor_left")]),
        ),
        ("actor_silent", seen(live=live({"last_seen_s": 8.0}))),
        ("robot_held", seen(live=live({"standing": "stopped by a person (by Ada, 2026-01-01 10:00:00 UTC)"}))),
        ("policies_not_applied", seen(live=live({"version": 1, "lag_versions": 9, "lag_s": 30.0}))),
        ("policy_lag", seen(live=live({"version": 4, "lag_versions": 6, "lag_s": 6.0}))),
        ("no_steps", seen(live=live(clocks={"actor_steps_per_s": 0.0}))),
        ("control_rate_low", seen(live=live({"steps_per_s": 6.0}))),
        ("steps_lost", seen(live=live({"dropped": 3}))),
        ("link_slow", seen(live=live({"round_trip_ms": 700.0}))),
        ("link_slow", seen(probe=Probe("host:1", "ok", round_trip_ms=400.0))),
        ("link_backlog", seen(live=live({"unacknowledged": 5000}))),
        ("trainer_dead", seen(live=live(status={"trainer": {"alive": False}}))),
        ("hub_silent", seen(live=live(at=NOW - 60))),
        ("paused", seen(live=live(clocks={"phase": "paused"}))),
        ("disk_full", seen(live=live(status={"journal": {"trouble": "no room"}}))),
        ("foreign_steps", seen(live=live(status={"foreign_steps": 30, "foreign_detail": "actor 'x': source 'a' belongs to 'left'"}))),
        ("failed_logins", seen(live=live(status={"failed_logins": 25, "failed_logins_from": "10.0.0.9"}))),
        (
            "often_restarted",
            seen(events=[{"kind": "restarted", "time": NOW - i, "part": "actor 0", "signal": "SIGKILL"} for i in (9, 5, 1)]),
        ),
        ("actor_refused", seen(events=[{"kind": "refused", "time": NOW - 5, "code": "busy", "name": "arm", "problem": "64 actors"}])),
        ("host_unreachable", seen(probe=Probe("host:1", "unreachable", "no route"))),
        ("untrusted_certificate", seen(probe=Probe("host:1", "untrusted", "self-signed"))),
        ("other_version", seen(probe=Probe("host:1", "other_version", "protocol 2"))),
        ("memory_will_fill", seen(machine=dataclasses.replace(MACHINE, memory_free=10**6))),
        (
            "no_gl",
            seen(
                spec=dataclasses.replace(SPEC, observation={"camera": Entry((64, 64, 3), "uint8")}),
                machine=dataclasses.replace(MACHINE, gl=None),
            ),
        ),
        ("run_broke", seen(live=None, events=[{"kind": "broken", "time": NOW, "problem": "the reward is nan"}])),
        ("policies_not_published", seen(live=live(clocks={"learner_step": 500}))),
    ],
)
def test_one_fault_is_the_first_finding(name: str, records: Records) -> None:
    assert first(records) == name


@pytest.mark.parametrize(
    "records",
    [
        seen(live=live({}, status={"up_s": 4.0})),
        seen(live=live(status={"trainer": {"alive": False}}, clocks={"phase": "evaluating"})),
        seen(live=live(status={"trainer": {"alive": False}}, clocks={"phase": "training", "learner_step": 0, "policy_version": 1})),
        seen(
            live=live(status={"trainer": {"alive": False}}, clocks={"phase": "training", "learner_step": 0, "policy_version": 1}),
            rows=[{"learner_step": 70, "actor_step": 900, "policy_version": 10, "time": NOW}],
        ),
        seen(live=live({"version": 9, "lag_versions": 1, "lag_s": 0.2})),
        seen(live=live({"clock_difference_s": 30.0})),
        seen(events=[{"kind": "restarted", "time": NOW - 5000, "part": "hub", "signal": "SIGKILL"}] * 5),
        seen(
            events=[
                {"kind": "refused", "time": NOW - 50, "code": "spec", "name": "arm", "problem": "other"},
                {"kind": "actor_joined", "time": NOW - 20, "name": "arm"},
            ]
        ),
        seen(events=[{"kind": "rolled_back", "time": NOW - 90, "learner_step": -5000, "problem": "q"}]),
    ],
    ids=[
        "just begun",
        "evaluating",
        "compiling",
        "compiled since",
        "a version behind",
        "clocks",
        "restarts long ago",
        "joined since",
        "recovered long ago",
    ],
)
def test_a_healthy_run_may_look_like_this(records: Records) -> None:
    assert_healthy(records)


def test_a_journal_that_outgrows_the_disk() -> None:
    journal = JournalFigures(900, 0, [], [], 60 * 10**6, [], [])  # 60 MB in 60 s: 1 MB/s, so 1 GB is left for 1,000 s
    rows = [{"learner_step": n, "actor_step": 10 * n, "policy_version": 10, "wall_s": 0.6 * n} for n in range(1, 101)]
    config = plain(SMALL) | {"demos": ["demos.db"], "max_steps": 1_000_000}
    records = seen(config=config, journal=journal, rows=rows, machine=dataclasses.replace(MACHINE, disk_free=10**9))
    assert first(records) == "disk_will_fill"
    assert_healthy(dataclasses.replace(records, machine=MACHINE))


# ---- PPO


def ppo_run(path: Path, **metrics: float) -> Path:
    """100 iterations as `tandem ppo` logs them."""
    run = RunFolder.create(path, "ppo", OnPolicyConfig(task="reach"), SPEC)
    run.event("started", seed=0)
    usual = {"Loss/dropped_updates": 0.0, "Loss/updates": 20.0, "Policy/kl": 0.012, "Policy/clip_fraction": 0.2, "Policy/mean_std": 0.5}
    usual |= {"Value/explained_variance": 0.6, "Train/mean_reward": 3.0, "Train/mean_episode_length": 20.0, "Train/mean_success": 0.8}
    with (path / "metrics.jsonl").open("w") as file:
        for n in range(1, 101):
            row = {"learner_step": n, "actor_step": 1000 * n, "policy_version": 1 + n // 50, "wall_s": 0.5 * n, "incarnation": 0}
            file.write(json.dumps(row | usual | (metrics if n > 50 else {})) + "\n")
    run.close()
    return path


@pytest.mark.parametrize(
    ("name", "metrics"),
    [
        ("ppo_not_finite", {"Loss/dropped_updates": 4.0}),
        ("ppo_kl_high", {"Policy/kl": 0.3}),
        ("ppo_clip_fraction_high", {"Policy/clip_fraction": 0.7}),
        ("ppo_explained_variance_low", {"Value/explained_variance": -0.4}),
        ("ppo_std_collapsed", {"Policy/mean_std": 0.01}),
        ("ppo_std_runaway", {"Policy/mean_std": 8.0}),
        ("parameters_frozen", {"Policy/kl": 0.0, "Policy/clip_fraction": 0.0}),
    ],
)
def test_a_ppo_run(name: str, metrics: dict[str, float], tmp_path: Path) -> None:
    assert first(ppo_run(tmp_path / "run", **metrics)) == name


def test_a_healthy_ppo_run(tmp_path: Path) -> None:
    assert_healthy(ppo_run(tmp_path / "run"))


# ---- damaged folders


def test_a_folder_with_damaged_files(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", "rlpd", SMALL, SPEC).close()
    assert_healthy(tmp_path / "run")
    for name, content in (
        ("metrics.jsonl", b'{"learner_step": 1, "act'),
        ("events.jsonl", b"\xff\xfe[]\n3\n"),
        ("live.json", b"{"),
        ("summary.json", b""),
    ):
        (tmp_path / "run" / name).write_bytes(content)
    (tmp_path / "run" / "journal.db").write_bytes(b"")
    assert first(tmp_path / "run") == "journal_unreadable"


def test_this_machine_is_measured() -> None:
    machine = look_at_machine(Path("."))
    assert machine.cores >= 1 and machine.disk_free > 0 and "numpy" in machine.versions
    assert 0.1 < machine.gflops < 100_000


def test_a_large_file_of_metrics_is_sampled_and_keeps_its_evaluations_and_its_newest_rows(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", "rlpd", SMALL, SPEC).close()
    rows = (
        {"learner_step": n, "actor_step": n, "policy_version": 1, "wall_s": n} | ({"eval/success": 1.0} if n % 999 == 0 else {})
        for n in range(30_000)
    )
    (tmp_path / "run" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    records = load_run(tmp_path / "run")
    assert len(records.rows) < 11_000 and records.rows[-1]["learner_step"] == 29_999
    assert len(records.series("eval/success")[0]) == len(range(0, 30_000, 999))
    assert np.all(np.diff([row["learner_step"] for row in records.rows]) > 0)


def test_every_check_has_its_place_once() -> None:
    names = [check.__name__ for check in CHECKS]
    assert len(names) == len(set(names))


def test_a_finding_that_follows_from_another_is_listed_with_it_only() -> None:
    stale = live({"version": 1, "lag_versions": 9, "lag_s": 30.0})
    reported = run_checks(seen(live=stale))
    assert [finding.name for finding in reported] == ["policies_not_applied"] and reported[0].explains == ("policy_lag",)
    assert [finding.name for finding in run_checks(seen(live=live({"lag_versions": 6, "lag_s": 6.0})))] == ["policy_lag"], (
        "without its cause it is listed itself"
    )


def test_no_finding_explains_itself() -> None:
    order = [check.__name__ for check in CHECKS]
    for cause, follows in EXPLAINS.items():
        assert {cause, *follows} <= set(order) and cause not in follows


def test_commands_name_the_folder_on_this_machine_and_the_address_elsewhere() -> None:
    records = seen(live=live({}), address="10.0.0.5:5588", path=Path("runs/a"))
    assert diagnose(records)["findings"][0]["next"].startswith("tandem doctor 10.0.0.5:5588")
    gone = seen(live=live({"connected": False, "last_seen_s": 40.0}), address="10.0.0.5:5588", path=Path("runs/a"))
    assert "--run runs/a" in diagnose(gone)["findings"][0]["next"]
    assert "--learner 10.0.0.5:5588 --token-file TOKEN" in diagnose(gone, remote=True)["findings"][0]["next"]


def test_an_actor_with_a_policy_of_its_own_is_not_called_stale() -> None:
    """`tandem actor --policy FILE`: its steps have version -1, and it need not follow the learner."""
    rows = [
        {"learner_step": i, "actor_step": 100 * i, "policy_version": 20 + i, "clock/policy_lag": 21.0 + i, "wall_s": i} for i in range(25)
    ]
    stale = [row | {"clock/policy_lag": 19.0 + i} for i, row in enumerate(rows)]
    assert "policies_not_applied" in [finding.name for finding in run_checks(seen(rows=stale, live=None))], "version 1 throughout"
    assert "policies_not_applied" not in [finding.name for finding in run_checks(seen(rows=rows, live=None))]
    assert run_checks(seen(live=live({"version": -1, "lag_versions": None, "lag_s": 30.0}))) == []


# ---- environments of others

FOREIGN = Spec("mw:peg-v3", {"state": Entry((3,))}, (Continuous("action", 1),), 10, 50)
FAILED = {"kind": "part_failed", "time": NOW - 5, "part": "actor 0", "how": "ended with code 2", "error": "motor 3 does not answer"}
LAUNCHED = {"kind": "launched", "time": NOW - 90, "parts": ["hub", "trainer", "actor 0"]}
INTERRUPTED = {"stopped": "interrupted", "learner_step": 0, "actor_step": 12, "policy_version": 1}


def foreign(values: np.ndarray, entry: str = "state", unit: str = "", offset: tuple[float, ...] | float = 0.0, **parts: Any) -> Records:
    """A run on somebody's environment whose newest observations are these, `(n, 3)`; the actions move."""
    rows = [
        Transition({entry: row}, np.array([0.5 * (-1) ** n], np.float32), 0.0, {entry: row}, False, False, step=n % 50, seq=n, source="a")
        for n, row in enumerate(values.astype(np.float32))
    ]
    journal = JournalFigures(len(rows), 0, [], [], 1000, rows, [])
    spec = dataclasses.replace(FOREIGN, observation={entry: Entry((3,), unit=unit, offset=offset)})
    return seen(task=FOREIGN.task, spec=spec, journal=journal, **parts)


def test_a_part_that_failed_is_the_cause_and_not_ctrl_c() -> None:
    ended = {"live": None, "summary": INTERRUPTED, "written_at": NOW - 5}
    records = seen(events=[LAUNCHED, FAILED], task=FOREIGN.task, spec=FOREIGN, **ended)
    [found, *others] = diagnose(records)["findings"]
    assert found["name"] == "part_failed" and found["severity"] == "problem"
    assert found["evidence"] == ["the actor 0 ended with code 2", "its error: motor 3 does not answer"]
    assert {"interrupted", "still_filling"} <= set(found["explains"]) and "interrupted" not in {other["name"] for other in others}
    assert found["next"].startswith("tandem env describe mw:peg-v3")
    silent = diagnose(seen(events=[LAUNCHED, FAILED | {"error": ""}], **ended))["findings"][0]
    assert silent["evidence"][1] == "it left no error of its own" and silent["next"] == "tandem train --resume run"
    again = diagnose(seen(events=[LAUNCHED, FAILED, LAUNCHED | {"time": NOW - 1}], **ended))["findings"]
    assert again[0]["name"] == "interrupted" or "part_failed" not in {finding["name"] for finding in again}, "the parts were started again"


def test_a_hang_that_is_over_is_told() -> None:
    stalls = [{"kind": "stalled", "time": NOW - 9, "actor": "actor 0", "phase": "step", "seconds": s} for s in (3.0, 10.2)]
    [found] = [finding for finding in diagnose(seen(events=stalls))["findings"] if finding["name"] == "environment_stalled"]
    assert found["evidence"] == ["2 times; the longest step took 10 s (actor 'actor 0')"] and found["severity"] == "warning"


def test_a_number_that_is_always_clipped_is_a_problem() -> None:
    noise = np.random.default_rng(0).normal(size=(300, 3))
    far = np.array([0, 1000, 0])
    always, often = noise + far, noise + far * (np.arange(300) % 2)[:, None]
    [found] = [finding for finding in diagnose(foreign(always))["findings"] if finding["name"] == "observations_clipped"]
    assert found["severity"] == "problem" and found["evidence"][1] == "so the networks see nothing of it: 1 such numbers"
    [found] = [finding for finding in diagnose(foreign(often))["findings"] if finding["name"] == "observations_clipped"]
    assert found["severity"] == "note" and len(found["evidence"]) == 1


def test_a_number_far_from_0_is_seen_where_its_offset_says_so() -> None:
    far = np.random.default_rng(0).normal(size=(300, 3)) + np.array([0, 1000, 0])
    assert "observations_clipped" not in {found["name"] for found in diagnose(foreign(far, offset=(0.0, 1000.0, 0.0)))["findings"]}
    stuck = far.clip(None, 1000.5)
    stuck[-200:, 1] = 1000.5
    findings = diagnose(foreign(stuck, "agent_pos", offset=(0.0, 1000.0, 0.0)))["findings"]
    [found] = [found for found in findings if found["name"] == "stuck_at_limit"]
    assert "observed range (1e+03)" in found["evidence"][0], found["evidence"]


def test_a_number_that_never_moves_is_said_and_is_not_stuck() -> None:
    values = np.random.default_rng(0).normal(size=(300, 3)).clip(-2, 2)
    values[:, 2] = np.where(np.arange(300) < 30, 0.2501, 0.25)  # settles at the edge of a range that is nothing
    found = {finding["name"]: finding for finding in diagnose(foreign(values, "agent_pos"))["findings"]}
    assert found["entries_constant"]["evidence"] == ["agent_pos[2]; 1 of 3 numbers, in 300 steps"] and "stuck_at_limit" not in found
    values[:, 2] = np.where(np.arange(300) < 60, values[:, 0], 2.0)  # but this one ran into its limit
    found = {finding["name"] for finding in diagnose(foreign(values, "agent_pos"))["findings"]}
    assert "stuck_at_limit" in found and "entries_constant" not in found


@pytest.mark.parametrize(
    ("entry", "unit", "known"),
    [
        ("state", "", False),
        ("tcp_velocity", "m/s", False),
        ("gripper_pose", "", True),
        ("robot0_eef_pos", "", True),
        ("state", "m, rad", True),
        ("position", "m/s", False),
    ],
)
def test_an_upright_pendulum_is_not_stuck_and_a_robot_at_its_limit_is(entry: str, unit: str, known: bool) -> None:
    """Pendulum's state is (cos, sin, speed): swung up and balanced, its cosine stays at 1 while the actions go on."""
    random = np.random.default_rng(0)
    angle = np.where(np.arange(300) < 60, random.uniform(-np.pi, np.pi, 300), random.normal(0, 0.02, 300))
    swung_up = np.stack([np.cos(angle), np.sin(angle), random.normal(size=300)], axis=1)
    found = {finding["name"] for finding in diagnose(foreign(swung_up, entry, unit))["findings"]}
    assert ("stuck_at_limit" in found) == known


def test_a_robot_that_nobody_judges_is_not_called_stuck() -> None:
    """Without reported success the edge may be where it is wanted."""
    at_edge = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    at_edge[60:, 0] = 1.0
    returns = {"learner_step": 90, "actor_step": 900, "policy_version": 10, "wall_s": 9.0, "environment/episode/r": -3.0}
    for row, known in ((returns, False), (returns | {"environment/episode/success": 0.0}, True)):
        found = {finding["name"] for finding in diagnose(foreign(at_edge, "agent_pos", rows=[row]))["findings"]}
        assert ("stuck_at_limit" in found) == known


def test_an_unknown_range_is_said_for_somebodys_environment_only() -> None:
    values = np.random.default_rng(0).normal(size=(300, 3))
    names = {finding["name"] for finding in diagnose(foreign(values))["findings"]}
    assert "return_range_unknown" in names
    assert "return_range_unknown" not in {
        finding["name"] for finding in diagnose(seen(spec=dataclasses.replace(SPEC, return_range=None)))["findings"]
    }


# ---- long demonstrations


def test_the_run_that_could_not_learn_is_explained_first() -> None:
    """12,804 learner steps, discount 0.97, demonstrations of 830 steps in the mean: 0.97^830 = 1e-11. Nothing was ever learned, so there
    is no reward, no success, and Q is 0; the length of the demonstrations is the reason for all of it."""
    rows = [
        {
            "learner_step": step,
            "actor_step": 2 * step,
            "policy_version": step // 50,
            "critic/predicted_qs": 1e-3,
            "environment/episode/r": 0.0,
            "environment/episode/l": 800.0,
            "environment/episode/success": 0.0,
        }
        for step in range(10, 12_805, 10)
    ]
    config = plain(SMALL) | {"demos": ["demos.pkl"], "steps_per_update": 50}
    config["agent"] |= {"discount": 0.97, "n_step": 1}
    report = demo_report(episodes=25, transitions=20_752)
    demos = [DemoFile(Path("demos.pkl"), spec=SPEC, steps=20_752, report=report, rewarded=True)]
    clocks = {"learner_step": 12_804, "actor_step": 25_608, "policy_version": 257}
    records = seen(
        rows=rows, config=config, demos=demos, live=live({"version": 257}, status={"policy": {"version": 257}}, clocks=CLOCKS | clocks)
    )
    found = diagnose(records)["findings"]
    assert found[0]["name"] == "demos_too_long" and found[0]["severity"] == "problem"
    assert "830 steps in the mean, and 0.97^830 = 1e-11" in found[0]["evidence"][0] and "0.9981 would fit" in found[0]["evidence"][1]
    assert "worse_than_demos" in found[0]["explains"] and found[0]["next"].endswith("--demos demos.pkl --horizon auto")
    matched = config | {"agent": config["agent"] | {"discount": 0.9981}}
    assert "demos_too_long" not in {finding["name"] for finding in diagnose(seen(rows=rows, config=matched, demos=demos))["findings"]}


def demo_report(episodes: int, transitions: int) -> Report:
    return Report(
        path=Path("demos.pkl"),
        kind="hil-serl",
        complete=True,
        created="",
        attributes={},
        spec=SPEC,
        episodes=episodes,
        transitions=transitions,
        rejected=0,
        duration_s=0.1 * transitions,
        lengths=Range(590, 830, 1254),
        returns=Range(1, 1, 1),
        success_share=1.0,
        intervened_share=1.0,
        idle_share=0.0,
        action_low=(-1.0,) * 3,
        action_high=(1.0,) * 3,
        saturation_share=(0.0,) * 3,
        switches=(False,) * 3,
    )


def looked_at(q: float, gap: float, spread: float, start: float, followed: float) -> DemoValues:
    moments = np.arange(0, 300, 10)
    values = np.full(30, q)
    values[0] = start
    return DemoValues(moments, 300, np.full(30, followed), values, values - gap, np.full(30, spread))


@pytest.mark.parametrize(
    ("q", "gap", "spread", "alike"),
    [
        (0.68, 0.003, 0.003, True),  # only the discount matched
        (0.67, 0.005, 0.005, True),  # 5,000 steps on demonstrations alone, their share falling from 0.8 to 0.5
        (0.40, 0.025, 0.027, False),  # sums over 10 steps
        (0.42, 0.079, 0.038, False),  # decisions of 10 steps
        (0.40, 0.020, 0.060, True),  # random actions differ by far more than the demonstrated one stands out
    ],
)
def test_actions_that_look_alike(q: float, gap: float, spread: float, alike: bool) -> None:
    rows = [
        {"learner_step": step, "actor_step": step, "policy_version": 10, "environment/episode/success": 0.0} for step in range(10, 4000, 10)
    ]
    values = [looked_at(q, gap, spread, 0.69, 0.26)]
    found = {finding.name: finding for finding in run_checks(seen(rows=rows, values=values, live=None))}
    assert ("actions_look_alike" in found) == alike
    if alike:
        text = describe(found["actions_look_alike"], "en", {"task": "reach", "run": "run"})
        assert f"{gap:g} above random ones" in text.evidence[0] and "0.69; the return that followed was 0.26" in text.evidence[1]
    succeeding = [row | {"environment/episode/success": 0.9} for row in rows]
    assert "actions_look_alike" not in {finding.name for finding in run_checks(seen(rows=succeeding, values=values, live=None))}
