"""Faults in short real runs on `reach`: the doctor must list each as its first finding."""

import contextlib
import dataclasses
import json
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import tandem.envs.reach
import tandem.off_policy.sync
from tandem.acting.actor import Actor
from tandem.data.journal import Journal
from tandem.doctor.diagnosis import diagnose_run
from tandem.doctor.records import load_run
from tandem.doctor.watch import watch_trainer
from tandem.envs.gear_assembly.task import SPEC as GEARS
from tandem.envs.reach import SPEC, Reach
from tandem.envs.task import Judgement
from tandem.errors import SimulationDiverged
from tandem.link.inproc import InprocLink
from tandem.types import PolicySnapshot, Transition
from tests.doctor.doctor_samples import assert_healthy, copy_of, edit_json, edit_rows, edit_steps, findings, first, short_run


def test_a_healthy_run_has_only_notes(healthy: Path) -> None:
    assert_healthy(healthy)
    assert [line["mark"] for line in diagnose_run(healthy)["checklist"]] == ["ok"] * 9


# ---- faults of the loops


class DeafLink(InprocLink):
    """The actor gets the initial network and never another policy."""

    def newest_policy(self, newer_than: int = -1) -> PolicySnapshot | None:
        return super().newest_policy(newer_than) if newer_than < 0 else None


def test_policies_that_are_not_applied(demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tandem.off_policy.sync, "InprocLink", DeafLink)
    run = short_run(tmp_path / "run", demos=(demos,), max_steps=600, watch=watch_trainer(tmp_path / "run"))
    assert first(run) == "policies_not_applied"
    [seen] = [finding for finding in findings(run) if finding["name"] == "policies_not_applied"]
    # 600 learner steps, one policy every 10, and the initial one
    assert any("version 61" in line and "60 policies" in line for line in seen["evidence"]), seen
    assert any("version 1" in line and "random" in line for line in seen["evidence"]), seen
    warned = [event["warning"] for event in load_run(run).events_of("warned")]
    assert len(warned) == 1 and "policies_not_applied" in warned[0], "the trainer reports it too, once"


def test_random_steps_that_never_end(demos: Path, tmp_path: Path) -> None:
    assert first(short_run(tmp_path / "run", demos=(demos,), random_steps=1_000_000)) == "still_random"


def test_training_starts_that_is_never_reached(demos: Path, tmp_path: Path) -> None:
    run = short_run(tmp_path / "run", demos=(demos,), training_starts=200_000, max_minutes=0.01)
    assert first(run) == "still_filling"


def test_a_learning_rate_of_zero(demos: Path, tmp_path: Path) -> None:
    run = short_run(tmp_path / "run", demos=(demos,), learning_rate=0.0)
    assert first(run) == "parameters_frozen"
    edit_rows(run, lambda _, row: {name: value for name, value in row.items() if not name.startswith("policy/")})
    assert first(run) == "parameters_frozen", "in an older run without these metrics it is detected by the hashes in the log"


def test_a_policy_that_waits_for_its_critics_is_not_frozen(demos: Path, tmp_path: Path) -> None:
    run = short_run(tmp_path / "run", demos=(demos,), critic_steps=1_000_000)
    assert "parameters_frozen" not in [finding["name"] for finding in findings(run)]
    edit_rows(run, lambda _, row: {name: value for name, value in row.items() if name != "policy/waits"})
    assert first(run) == "parameters_frozen", "what it was taken for"


def test_a_critic_that_diverges(demos: Path, tmp_path: Path) -> None:
    run = short_run(tmp_path / "run", demos=(demos,), learning_rate=30.0)
    assert first(run) == "critic_diverged"
    assert list((run / "broken").glob("batch_*")), "the batch is saved"


def test_a_task_that_never_rewards(demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tandem.envs.reach, "TOLERANCE", 1e-6)
    # 30 actions an episode: 200 episodes are 6,000 actor steps, 750 learner steps
    run = short_run(tmp_path / "run", demos=(demos,), max_steps=800)
    assert first(run) == "reward_never_seen"


def test_a_success_without_reward(demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Reach.judge

    def without_reward(self: Reach, rows: object) -> Judgement:
        judged = judge(self, rows)  # pyright: ignore[reportArgumentType]
        return dataclasses.replace(judged, reward=0.0 * judged.reward)

    monkeypatch.setattr(Reach, "judge", without_reward)
    assert first(short_run(tmp_path / "run", demos=(demos,), max_steps=400)) == "success_without_reward"


@pytest.mark.parametrize(("amount", "name"), [(0.3, "actions_constant"), (None, "actions_saturated")])
def test_constant_and_saturated_actions(
    amount: float | None, name: str, demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def propose(self: Actor) -> np.ndarray:
        shape = (self.env.num_envs, 3)
        return np.full(shape, amount, np.float32) if amount else np.sign(self._random.normal(size=shape)).astype(np.float32)

    monkeypatch.setattr(Actor, "_propose", propose)
    assert first(short_run(tmp_path / "run", demos=(demos,))) == name


def test_versions_that_decrease(demos: Path, tmp_path: Path) -> None:
    run = short_run(tmp_path / "run", demos=(demos,), max_steps=100)
    (run / "policy_version").write_text("2")  # restored from an old copy
    short_run(run, demos=(demos,), max_steps=200, resume=True)
    assert first(run) == "versions_went_back"


def test_a_simulation_that_diverges(demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    advance, count = Reach.advance, iter(range(10_000))

    def explode(self: Reach, rows: object, action: np.ndarray, streams: list[np.random.Generator]) -> None:
        if next(count) == 60:
            self._batch.bind("qvel")[3, 0] = 1e12
        advance(self, rows, action, streams)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Reach, "advance", explode)
    with pytest.raises(SimulationDiverged, match="tandem doctor replay"):
        short_run(tmp_path / "run", demos=(demos,))
    assert first(tmp_path / "run") == "run_broke"


# ---- demonstration files that were damaged after the start of the run


def broken_by_nan(path: Path, steps: list[Transition]) -> str:
    with Journal.create(path, SPEC) as journal:
        bad = steps[3].observation | {"to_ball": np.array([0, np.nan, 0], np.float32)}
        journal.append([*steps[:3], dataclasses.replace(steps[3], observation=bad), *steps[4:]])
    return "demos_broken"


def without_reward(path: Path, steps: list[Transition]) -> str:
    with Journal.create(path, SPEC) as journal:
        journal.append([dataclasses.replace(step, reward=0.0) for step in steps])
    return "demos_without_reward"


def empty(path: Path, steps: list[Transition]) -> str:
    del steps
    Journal.create(path, SPEC).close()
    return "demos_empty"


def of_another_task(path: Path, steps: list[Transition]) -> str:
    del steps
    Journal.create(path, GEARS).close()
    return "demos_foreign"


def of_another_spec(path: Path, steps: list[Transition]) -> str:
    with Journal.create(path, dataclasses.replace(SPEC, control_hz=2 * SPEC.control_hz)) as journal:
        journal.append(steps)
    return "demos_foreign"


def cut_off(path: Path, steps: list[Transition]) -> str:
    del steps
    path.write_bytes(b"SQLite format 3\x00")
    return "demos_missing"


def gone(path: Path, steps: list[Transition]) -> str:
    del path, steps
    return "demos_missing"


def standing_still(path: Path, steps: list[Transition]) -> str:
    with Journal.create(path, SPEC) as journal:
        journal.append([dataclasses.replace(step, action=0 * step.action) for step in steps])
    return "demos_idle"


def pushing(path: Path, steps: list[Transition]) -> str:
    with Journal.create(path, SPEC) as journal:
        journal.append([dataclasses.replace(step, action=np.clip(50 * step.action, -1, 1)) for step in steps])
    return "demos_saturated"


def failures(path: Path, steps: list[Transition]) -> str:
    keep = {0, 1}  # two of 25 episodes succeed
    with Journal.create(path, SPEC) as journal:
        journal.append(
            [
                step
                if step.episode in keep
                else dataclasses.replace(step, reward=0.0, success=False, terminated=False, truncated=step.last)
                for step in steps
            ]
        )
    return "demos_fail"


@pytest.mark.parametrize(
    "spoil", [empty, of_another_task, of_another_spec, without_reward, broken_by_nan, cut_off, gone, standing_still, pushing, failures]
)
def test_demonstrations(spoil: Callable[[Path, list[Transition]], str], healthy: Path, demos: Path, tmp_path: Path) -> None:
    with Journal.open(demos) as journal:
        steps = [step for _, step in journal.read()]
    name = spoil(tmp_path / "demos.db", steps)
    run = copy_of(healthy, tmp_path / "run")
    edit_json(run / "config.json", lambda described: described["config"].update(demos=[str(tmp_path / "demos.db")]))
    assert first(run) == name


def test_an_axis_that_is_only_open_or_closed_is_no_fault(healthy: Path, demos: Path, tmp_path: Path) -> None:
    with Journal.open(demos) as journal:
        steps = [step for _, step in journal.read()]
    with Journal.create(tmp_path / "demos.db", SPEC) as journal:
        journal.append([dataclasses.replace(s, action=np.append(s.action[:2] / 2, np.float32(1 if s.step < 3 else -1))) for s in steps])
    run = copy_of(healthy, tmp_path / "run")
    edit_json(run / "config.json", lambda described: described["config"].update(demos=[str(tmp_path / "demos.db")]))
    assert_healthy(run)


# ---- faults in the stored data


def test_steps_that_cannot_be_used(healthy: Path, tmp_path: Path) -> None:
    run = copy_of(healthy, tmp_path / "run")
    with Journal.open(run / "journal.db", read_only=False) as journal:
        [(_, step)] = journal.read(limit=1)
        bad = step.observation | {"tcp_velocity": np.full(3, np.inf, np.float32)}
        journal.append([dataclasses.replace(step, source="camera", seq=number, observation=bad) for number in range(50)])
    assert first(run) == "steps_rejected"
    assert any("tcp_velocity" in line for line in findings(run)[0]["evidence"])


def test_steps_that_are_missing(healthy: Path, tmp_path: Path) -> None:
    run = copy_of(healthy, tmp_path / "run")
    with contextlib.closing(sqlite3.connect(run / "journal.db")) as connection:
        connection.execute("DELETE FROM steps WHERE ord BETWEEN 100 AND 140")
        connection.commit()
    assert first(run) == "steps_missing"


def test_time_outs_stored_as_terminated(healthy: Path, tmp_path: Path) -> None:
    run = copy_of(healthy, tmp_path / "run")
    edit_steps(run, lambda _, step: dataclasses.replace(step, truncated=False, terminated=True) if step.truncated else step)
    assert first(run) == "timeouts_as_terminal"


def test_episodes_that_end_at_once(healthy: Path, tmp_path: Path) -> None:
    run = copy_of(healthy, tmp_path / "run")

    def fail(_: int, step: Transition) -> Transition:
        return dataclasses.replace(step, terminated=True, truncated=False, success=False, reward=0.0) if step.step == 2 else step

    edit_steps(run, fail)
    assert first(run) == "terminal_without_reward"


def test_a_sensor_that_drifts(healthy: Path, tmp_path: Path) -> None:
    run = copy_of(healthy, tmp_path / "run")

    def drift(number: int, step: Transition) -> Transition:
        moved = step.observation["tcp_position"] + np.float32(1e-4 * max(0, number - 1000))  # 0.38 m after 4,800 steps
        return dataclasses.replace(step, observation=step.observation | {"tcp_position": moved})

    edit_steps(run, drift)
    assert first(run) == "observations_drifted"


def test_a_robot_at_the_edge_of_its_workspace(demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tandem.envs.reach, "TOLERANCE", 1e-6)
    count = iter(range(100_000))

    def outwards(self: Actor) -> np.ndarray:
        """At first in any direction, then always to the left."""
        actions = self._random.uniform(-0.5, 0.5, (self.env.num_envs, 3)).astype(np.float32)
        if next(count) > 120:
            actions[:, 1] = self._random.uniform(0.3, 0.9)
        return actions

    monkeypatch.setattr(Actor, "_propose", outwards)
    monkeypatch.setattr(tandem.envs.reach, "SPEC", dataclasses.replace(SPEC, max_episode_steps=100))
    run = short_run(tmp_path / "run", max_steps=200)
    assert first(run) == "stuck_at_limit"
    assert "tcp_position[1]" in findings(run)[0]["evidence"][0]


def test_identical_critics(healthy: Path, tmp_path: Path) -> None:
    run = copy_of(healthy, tmp_path / "run")
    path = max((run / "checkpoints").glob("0*")) / "agent.safetensors"
    arrays = safetensors.numpy.load_file(path)
    one = {name: np.repeat(array[:1], len(array), axis=0) if name.startswith("critic/") else array for name, array in arrays.items()}
    safetensors.numpy.save_file(one, path)
    assert first(run) == "ensemble_collapsed"


def test_a_journal_that_was_cut_off(healthy: Path, tmp_path: Path) -> None:
    run = copy_of(healthy, tmp_path / "run")
    content = (run / "journal.db").read_bytes()
    (run / "journal.db").write_bytes(content[: len(content) // 2])
    for companion in run.glob("journal.db-*"):
        companion.unlink()
    assert first(run) == "journal_unreadable"


def test_a_run_that_died(healthy: Path, tmp_path: Path) -> None:
    run = copy_of(healthy, tmp_path / "run")
    (run / "summary.json").unlink()
    hour_ago = time.time() - 3600
    for path in run.iterdir():
        os.utime(path, (hour_ago, hour_ago))
    assert first(run) == "run_died"


def test_a_running_run_is_not_taken_for_a_dead_one(healthy: Path, tmp_path: Path) -> None:
    run = copy_of(healthy, tmp_path / "run")
    (run / "summary.json").unlink()
    (run / "metrics.jsonl").touch()
    assert load_run(run).running
    assert_healthy(run)


# ---- metrics over time, edited in a copy


def later(name: str, value: float | Callable[[int], float]) -> Callable[[int, dict], dict]:
    return lambda number, row: row | ({name: value(number) if callable(value) else value} if number > 20 else {})


def long_run(_: int, row: dict) -> dict:
    """Multiplies the learner steps by twenty: 12,000 of them."""
    return row | {"learner_step": 20 * row["learner_step"]}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("q_overestimated", [later("critic/predicted_qs", 1.5)]),
        ("critic_diverged", [later("critic/predicted_qs", -40.0)]),
        ("temperature_runaway", [later("actor/temperature", 3.0)]),
        ("entropy_collapsed", [later("actor/entropy", -30.0)]),
        ("entropy_high", [long_run, later("actor/entropy", 2.07)]),
        ("updates_dropped", [later("learner/dropped_updates", lambda number: number)]),
        ("worse_than_demos", [long_run, later("environment/episode/success", 0.1)]),
        (
            "evaluation_differs",
            [lambda _, row: row | ({"eval/success": 0.2} if "eval/success" in row else {}), later("environment/episode/success", 0.9)],
        ),
        ("learner_slow", [lambda number, row: row | {"actor_step": 100 * row["actor_step"]}]),
    ],
)
def test_a_curve(name: str, changes: list[Callable[[int, dict], dict]], healthy: Path, tmp_path: Path) -> None:
    run = copy_of(healthy, tmp_path / "run")
    for change in changes:
        edit_rows(run, change)
    if long_run in changes:
        edit_json(run / "config.json", lambda described: described["config"].update(steps_per_update=200))
    assert first(run) == name


def many_rows(run: Path, row_at: Callable[[int], dict]) -> None:
    """300 rows of 3,000 learner steps, copies of the last row with some values changed."""
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    rows = [
        last | {"learner_step": 10 * n, "policy_version": n + 1, "wall_s": 0.1 * n, "actor_step": 80 * n} | row_at(n) for n in range(1, 301)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run / "summary.json").unlink()


def test_a_critic_loss_that_rises(healthy: Path, tmp_path: Path) -> None:
    run = copy_of(healthy, tmp_path / "run")
    many_rows(run, lambda n: {"critic/critic_loss": 0.01 if n < 200 else 0.3})
    records = dataclasses.replace(load_run(run), journal=None)
    assert first(records) == "critic_loss_rising"


def test_help_that_does_not_help(healthy: Path, tmp_path: Path) -> None:
    run = copy_of(healthy, tmp_path / "run")
    helped = {"environment/episode/intervention_steps": 15.0, "environment/episode/l": 30.0, "environment/episode/success_alone": 0.1}
    many_rows(run, lambda n: helped)
    assert first(dataclasses.replace(load_run(run), journal=None)) == "success_stuck"
