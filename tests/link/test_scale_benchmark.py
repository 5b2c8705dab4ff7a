"""The benchmark of many actors: its models and its trace by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
from link_samples import SPEC, make_run, step

from benchmarks.scale import Collecting
from benchmarks.scale_hub import RATES, Costs, proof
from benchmarks.scale_nodes import Trace
from tandem.link.trainer_end import open_journal
from tandem.runs.folder import RunFolder


def test_places_of_ppo_simulate_at_the_same_time_and_are_asked_one_after_the_other() -> None:
    parts = Collecting(row_s=0.001, exchange_s=0.016)  # 64 rows: 64 ms and 16 ms
    assert parts.speedup(64, 1) == 1
    assert parts.speedup(64, 2) == pytest.approx(2 * 80 / (64 + 32))
    assert parts.speedup(64, 10**6) == pytest.approx(80 / 16, rel=1e-3), "no number of places exchanges faster"


def test_the_model_of_a_hub_adds_actors_steps_policies_and_messages() -> None:
    costs = Costs(at_rest=1e-4, step=1e-5, policy=1e-3, messages=(0.2, 0.5))
    assert costs.cores(64, 10.0, 0.0) == pytest.approx(64 * 1e-4 + 640 * 1e-5 + 0.2), "640 messages a second, as measured"
    assert costs.cores(64, 10.0, 2.0) - costs.cores(64, 10.0, 0.0) == pytest.approx(64 * 2 * 1e-3)
    # 1,000 actors are asked to let steps wait 0.4 s: 2,500 messages a second, at 4 Hz as at 100 Hz
    messages = np.interp(2500, RATES, (0.2, 0.5))
    for hz in (4.0, 100.0):
        assert costs.cores(1000, hz, 0.0) == pytest.approx(1000 * (1e-4 + hz * 1e-5) + messages)


def test_recovery_is_when_as_many_actors_are_connected_as_before(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    moves = [(98.0, "actor_left"), (100.1, "actor_left"), (100.2, "actor_left"), (103.0, "actor_joined"), (104.5, "actor_joined")]
    lines = [json.dumps({"time": at, "kind": kind}) for at, kind in moves]
    RunFolder(run).events_file.write_text("\n".join(lines) + "\n")
    trace = Trace(run, stored=[(98.0, 0), (100.0, 200), (102.0, 200), (106.0, 600)], killed_at=100.0)
    assert trace.recovery_s == pytest.approx(4.5), "the one that left before is not missed"
    assert trace.lines()[1:4] == ["    -2      100     0       0", "    -1      100     0       0", "     0        0     2       0"]


def test_a_step_that_is_missing_or_out_of_order_is_found(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "witness").mkdir()
    (run / "witness" / "a.json").write_text(json.dumps(["a", "b"]))
    np.memmap(run / "witness" / "a.made", np.int64, "w+", shape=(2,))[:] = [3, 2]
    with open_journal(run, SPEC, read_only=False) as journal:
        journal.append([step(0, "a"), step(2, "a"), step(1, "b"), step(0, "b")])
    found = proof(run)
    assert (found.lost, found.doubled, found.reordered) == (1, 0, 1)
