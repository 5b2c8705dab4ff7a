"""Evaluate, keep the best, stop, sum up: once for every learner, with evaluations that are written down beforehand."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.errors import SpecMismatch, StorageFull
from tandem.runs.campaign import Campaign, Progress, Score, StopRules
from tandem.runs.checkpoint import read_policy, read_policy_notes, write_checkpoint
from tandem.runs.clocks import Clocks
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.runs.stopping import INTERRUPTED
from tandem.types import Continuous, Entry, PolicySnapshot, Spec

SPEC = Spec("toy", {"q": Entry((2,))}, (Continuous("action", 1),), 10, 100)
RULES = StopRules(max_steps=100, stop_success=0.9, stop_evaluations=2)


def policy(number: int) -> PolicySnapshot:
    return PolicySnapshot(number, 10 * number, {"w": np.full(3, number, np.float32)})


def score(value: float) -> Score:
    return Score(value, 2 * value, 30.0, value, f"success {value:.0%}")


class Rig:
    """A campaign whose evaluations give these values, one after the other."""

    def __init__(self, path: Path, values: Sequence[float] = (), rules: StopRules = RULES) -> None:
        self.run = RunFolder.open(path) if path.exists() else RunFolder.create(path, "ppo", {}, SPEC)
        self._values = iter(values)
        self.judged: list[PolicySnapshot] = []
        self.campaign = Campaign(
            self.run, SPEC, Display("quiet"), rules, evaluate=lambda snapshot: score(next(self._values)), judge=self._judge
        )
        self.number = 0

    def _judge(self, snapshot: PolicySnapshot) -> dict[str, Any]:
        self.judged.append(snapshot)
        return {"deterministic": {"success": 1.0}}

    def evaluate(self, **options: Any) -> str | None:
        """The next policy; returns why the run stops."""
        self.number += 1
        self.campaign.evaluate(policy(self.number), Clocks(10 * self.number, 0, self.number), "a step", **options)
        return self.campaign.stop_reason

    def save(self) -> None:
        meta = {"wall_s": 60.0, "spec_hash": SPEC.hash}
        write_checkpoint(self.run.checkpoints, 10 * self.number, {}, {"progress": self.campaign.state()}, meta)


def test_the_best_policy_is_kept_with_its_score_and_the_newer_of_two_equals(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "run", [0.2, 0.5, 0.4, 0.5])
    kept = []
    for _ in range(4):
        rig.evaluate()
        kept.append(read_policy(rig.run.best_policy, SPEC)[0].version)
    assert kept == [1, 2, 2, 4]
    assert read_policy_notes(rig.run.best_policy) == {"score": 0.5, "learned_by": "ppo"}
    assert [row["eval/success"] for row in rig.run.metrics()] == [0.2, 0.5, 0.4, 0.5]
    assert [row["learner_step"] for row in rig.run.metrics()] == [10, 20, 30, 40]


def test_a_run_stops_after_enough_good_evaluations_in_a_row(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "run", [0.95, 0.5, 0.9, 0.91])
    assert [rig.evaluate() for _ in range(3)] == [None, None, None], "the row was broken by 0.5"
    assert rig.evaluate() == "stop_success (0.9) reached in 2 evaluations in a row"


def test_evaluations_that_a_person_asks_for_do_not_stop_a_run(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "run", [1.0, 1.0, 1.0, 0.95, 0.1, 0.95])
    assert [rig.evaluate(scheduled=False) for _ in range(3)] == [None, None, None]
    assert read_policy(rig.run.best_policy)[0].version == 3, "the best is kept all the same"
    assert rig.evaluate() is None
    assert rig.evaluate(scheduled=False) is None, "nor do they break a row"
    assert rig.evaluate() == "stop_success (0.9) reached in 2 evaluations in a row"


def test_without_stop_success_no_evaluation_stops_a_run(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "run", [1.0] * 5, StopRules(max_steps=100))
    assert [rig.evaluate() for _ in range(5)] == [None] * 5


def test_the_limits_on_steps_and_time(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "run", rules=replace(RULES, max_minutes=2.0, steps_setting="max_iterations"))
    rig.campaign.check_limits(99)
    assert rig.campaign.stop_reason is None
    rig.campaign.check_limits(100)
    assert rig.campaign.stop_reason == "max_iterations (100) reached"
    rig.run.wall_before = 119.0
    left = rig.campaign.seconds_left
    assert left is not None and 0 < left <= 1
    rig.run.wall_before = 120.0
    rig.campaign.check_limits(1)
    assert rig.campaign.stop_reason == "max_minutes (2) reached"
    assert Rig(tmp_path / "other").campaign.seconds_left is None


def test_what_the_watch_finds_is_an_event(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "run")
    rig.campaign.watch = lambda row: ["the loss is not finite"] if math.isnan(row["loss"]) else []
    rig.campaign.report(Clocks(1, 1, 1), {"loss": 1.0})
    rig.campaign.report(Clocks(2, 1, 1), {"loss": math.nan})
    [event] = rig.run.events()
    assert (event["kind"], event["learner_step"], event["warning"]) == ("warned", 2, "the loss is not finite")


def test_a_resumed_run_knows_its_best_policy_and_its_row_of_successes(tmp_path: Path) -> None:
    first = Rig(tmp_path / "run", [0.5, 0.95])
    first.evaluate()
    first.evaluate()
    first.save()
    again = Rig(tmp_path / "run", [0.93])
    checkpoint = again.campaign.newest_checkpoint()
    again.campaign.restore(checkpoint)
    assert again.campaign.best is not None and again.campaign.best.version == 2 and again.campaign.progress.best == 0.95
    assert again.run.incarnation == 1 and again.run.wall_s >= 60.0
    again.number = 2
    assert again.evaluate() == "stop_success (0.9) reached in 2 evaluations in a row"
    assert read_policy(again.run.best_policy)[0].version == 2, "0.93 is less than what was kept before"


def test_a_checkpoint_of_an_older_version_is_restored(tmp_path: Path) -> None:
    """The fields as every version before this one wrote them, and one that no version knows."""
    rig = Rig(tmp_path / "run")
    loops = {"progress": {"credit": 1.5, "best": 0.7, "best_step": 40, "reached": 1, "strange": 3}}
    write_checkpoint(rig.run.checkpoints, 40, {}, loops, {"wall_s": 1.0, "spec_hash": SPEC.hash})
    rig.campaign.restore(rig.campaign.newest_checkpoint())
    assert rig.campaign.progress == Progress(credit=1.5, best=0.7, best_step=40, reached=1)
    assert rig.campaign.best is None, "its file is gone"


def test_a_checkpoint_of_another_spec_is_refused(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "run")
    write_checkpoint(rig.run.checkpoints, 40, {}, {"progress": rig.campaign.state()}, {"wall_s": 1.0, "spec_hash": "another"})
    with pytest.raises(SpecMismatch, match="was trained on another spec"):
        rig.campaign.newest_checkpoint()


def test_the_summary_judges_the_best_policy(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "run", [0.5, 0.4])
    rig.evaluate()
    rig.evaluate()
    summary = rig.campaign.finish("enough", Clocks(20, 200, 2), policy(2), command="ppo")
    assert [snapshot.version for snapshot in rig.judged] == [1]
    assert summary == rig.run.summary() == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert {name: summary[name] for name in ("task", "stopped", "learner_step", "actor_step", "policy_version", "command")} == {
        "task": "toy",
        "stopped": "enough",
        "learner_step": 20,
        "actor_step": 200,
        "policy_version": 2,
        "command": "ppo",
    }
    assert summary["best_learner_step"] == 10 and summary["deterministic"] == {"success": 1.0} and summary["minutes"] < 1
    assert rig.run.events()[-1]["kind"] == "stopped" and rig.run.events()[-1]["reason"] == "enough"


def test_without_an_evaluation_the_latest_policy_is_judged_and_an_interrupted_run_not_at_all(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "run")
    assert rig.campaign.finish("enough", Clocks(20, 200, 2), policy(2))["best_learner_step"] == 20
    assert [snapshot.version for snapshot in rig.judged] == [2]
    summary = rig.campaign.finish(INTERRUPTED, Clocks(20, 200, 2), policy(2))
    assert len(rig.judged) == 1 and "deterministic" not in summary


def test_a_full_disk_keeps_the_best_policy_of_before(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "run", [0.5, 0.6])
    rig.evaluate()
    (rig.run.checkpoints / ".best.partial.safetensors").mkdir()  # nothing can be written there
    with pytest.raises(StorageFull, match="intact"):
        rig.evaluate()
    assert read_policy(rig.run.best_policy)[0].version == 1
