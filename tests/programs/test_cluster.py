"""Actors on a Ray cluster: placed where there is room, started again on another node when theirs dies, and no step is lost.

Several nodes of Ray on this machine. Skipped where Ray is not installed: pip install 'tandem-rl[cluster]'
"""

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.data.journal import Journal
from tandem.runs.checkpoint import read_policy
from tandem.runs.folder import RunFolder
from tests.faults.counted_point import WITNESS
from tests.faults.rig import HERE as TASKS
from tests.faults.rig import TASK, proof_of
from tests.programs.test_sweep import SMALL
from tests.waiting import wait_for

pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own: sockets that it leaves open, and what it calls deprecated


def family(pid: int) -> list[int]:
    """A process and all that it started, and what those started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(each for child in children for each in family(int(child)))]


def actor_parts(pid: int) -> set[int]:
    """Actors among them: processes that step an environment."""
    return {each for each in family(pid) if b"tandem.programs.parts\0actor" in _command_line(each)}


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class Nodes:
    """A head without room for actors, and two nodes with a robot each for two of them."""

    def __init__(self) -> None:
        Cluster = importlib.import_module("ray.cluster_utils").Cluster

        self.cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        self.nodes = [self.add() for _ in range(2)]

    def add(self) -> Any:
        return self.cluster.add_node(num_cpus=2, resources={"robot": 2})

    @staticmethod
    def raylet(node: Any) -> int:
        return node.all_processes["raylet"][0].process.pid

    def kill(self, node: Any) -> set[int]:
        """As if its machine had lost its power: everything at once. Returns the actors that it had."""
        victims, actors = family(self.raylet(node)), actor_parts(self.raylet(node))
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        self.cluster.remove_node(node, allow_graceful=False)
        return actors


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    witness = tmp_path_factory.mktemp("witness")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", WITNESS: str(witness)}.items():
            patch.setenv(name, value)
        started = Nodes()
        yield started
        started.cluster.shutdown()


def tandem(log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A command on this machine, which alone knows where the task is: Ray ships it."""
    environment = {**os.environ, "PYTHONPATH": f"{TASKS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    with log.open("wb") as output:
        return subprocess.Popen([sys.executable, "-m", "tandem.cli", *arguments], stdout=output, stderr=output, env=environment)


def test_the_runs_of_a_sweep_are_made_on_the_cluster(nodes: Nodes, tmp_path: Path) -> None:
    file, out, log = tmp_path / "asked.toml", tmp_path / "swept", tmp_path / "log"
    file.write_text(SMALL)
    options = ("--launcher", "ray", "--cluster.address", nodes.cluster.address, "--out", str(out))
    assert tandem(log, "sweep", str(file), *options).wait(240) == 0, log.read_text()
    assert [run["error"] for run in json.loads((out / "results.json").read_text())["runs"]] == ["", ""]


def test_ppo_learns_the_same_from_simulations_on_several_nodes(nodes: Nodes, tmp_path: Path) -> None:
    small = ["--num-envs", "6", "--num-steps-per-env", "8", "--num-mini-batches", "2", "--max-iterations", "3", "--eval-period", "0"]
    small += ["--final-episodes", "0", "--quiet"]
    ray = ["--launcher", "ray", "--cluster.address", nodes.cluster.address, "--collectors", "3"]
    runs = {"here": [], "there": ray}
    for name, options in runs.items():
        log = tmp_path / f"{name}.log"
        assert tandem(log, "ppo", "reach", *small, *options, "--run", str(tmp_path / name)).wait(240) == 0, log.read_text()
    here, there = (read_policy(RunFolder(tmp_path / name).latest_policy)[0] for name in runs)
    assert here.hash == there.hash, "to the last bit"


def test_a_node_dies_its_actors_come_back_elsewhere_and_no_step_is_lost(nodes: Nodes, tmp_path: Path) -> None:
    run, log = tmp_path / "run", tmp_path / "log"
    options = ["--launcher", "ray", "--cluster.address", nodes.cluster.address, "--cluster.resource", "robot", "--actors", "2"]
    options += ["--hidden", "16", "16", "--batch-size", "16", "--training-starts", "20", "--updates-per-actor-step", "0.05"]
    options += ["--eval-period", "0", "--final-episodes", "0", "--steps-per-update", "5", "--no-film", "--run", str(run)]
    training = tandem(log, "train", TASK, *options)

    def actors() -> dict[int, set[int]]:
        """By node."""
        assert training.poll() is None, log.read_text()
        return {number: actor_parts(nodes.raylet(node)) for number, node in enumerate(nodes.nodes)}

    def steps() -> int:
        assert training.poll() is None, log.read_text()
        if not (run / "journal.db").exists():
            return 0
        with Journal.open(run / "journal.db") as journal:
            return journal.counts().accepted

    def events(kind: str) -> list[dict[str, Any]]:
        return [event for event in RunFolder(run).events() if event["kind"] == kind]

    try:
        wait_for(lambda: len(events("actor_joined")) == 2, 120, f"both actors join {run}; see {log}")
        wait_for(lambda: steps() > 200, 120, f"steps in {run}; see {log}")
        assert sum(map(len, actors().values())) == 2
        first = next(number for number, found in actors().items() if found)
        killed = nodes.kill(nodes.nodes.pop(first))
        assert killed, "it had an actor"
        wait_for(lambda: len(actors()[0]) == 2, 120, "both actors are on the node that is left")
        wait_for(lambda: len(events("actor_joined")) == 2 + len(killed) and events("restarted"), 120, "the new ones have joined")
        wait_for(lambda: len(list((run / "spool").iterdir())) == 2, 60, "what the dead ones left behind is handed over")
        now = steps()
        wait_for(lambda: steps() > now + 200, 120, "steps arrive again")
        training.send_signal(signal.SIGTERM)
        assert training.wait(120) == 0, log.read_text()
    finally:
        training.kill()
        training.wait()
    proof = proof_of(run, Path(os.environ[WITNESS]), killed)
    assert proof.holds and proof.steps > 400, proof
    assert "was started again by Ray" in log.read_text(), log.read_text()
    assert [event["signal"] for event in events("restarted")] == ["node lost"] * len(killed)
    assert json.loads((run / "summary.json").read_text())["actor_step"] <= proof.steps
