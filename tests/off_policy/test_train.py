"""The whole loop on `reach`: it learns, it can be stopped and resumed to the last bit, and it says what is wrong."""

import contextlib
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.agents.sac_config import SACConfig
from tandem.data.demos import load_demos
from tandem.data.journal import Journal
from tandem.envs.registry import make_env, make_expert, spec_for
from tandem.errors import ConfigError, FileUnreadable, SpecMismatch, StorageFull
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.recipes import RECIPES, config_of
from tandem.off_policy.sync import train
from tandem.programs.record import record_demos
from tandem.runs.checkpoint import newest_checkpoint, read_checkpoint, read_policy, write_checkpoint
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.runs.loggers import Isolated
from tests.small_disk import small_disk

SMALL = TrainConfig(
    task="reach",
    agent=SACConfig(hidden=(16, 16)),
    batch_size=16,
    training_starts=20,
    steps_per_update=10,
    eval_period=0,
    final_episodes=0,
    checkpoint_period=10_000,
    num_envs=2,
    updates_per_actor_step=0.5,
)


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_demos(make_env("reach"), make_expert("reach", 0), 10, tmp_path_factory.mktemp("demos"), seed=0)


def quiet() -> Display:
    return Display("quiet")


def final_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, Any]]:
    checkpoint = read_checkpoint(newest_checkpoint(path / "checkpoints"))
    return dict(checkpoint.agent), checkpoint.loops, checkpoint.meta


def test_reach_is_learned_from_ten_demonstrations(demos: Path, tmp_path: Path) -> None:
    summary = train(replace(RECIPES["reach"](), task="reach", demos=(demos,), final_episodes=50), tmp_path / "run", quiet())
    assert summary["stopped"].startswith("stop_success")
    assert summary["deterministic"]["success"] >= 0.9, summary
    assert summary["learner_step"] <= 4000
    # three clocks, three counts: versions are publications, one at the start and one per 50 learner steps
    assert summary["policy_version"] == 1 + summary["learner_step"] // 50
    rows = RunFolder.open(tmp_path / "run").metrics()
    for name in ("critic/critic_loss", "critic/predicted_qs", "critic/target_qs", "actor/actor_loss", "actor/entropy", "actor/temperature"):
        assert any(name in row for row in rows), name
    assert all({"learner_step", "actor_step", "policy_version", "wall_s", "incarnation"} <= row.keys() for row in rows)
    log = (tmp_path / "run" / "train.log").read_text()
    for line in ("demo buffer size:", "online buffer size:", "sent initial network to actor"):
        assert line in log, line
    assert "[LEARNER] Publishing network parameters at step 50" in log and "[ACTOR] Received network parameters update at step" in log


def test_what_the_actor_acts_with_is_what_the_learner_published(demos: Path, tmp_path: Path) -> None:
    train(replace(SMALL, demos=(demos,), max_steps=40), tmp_path / "run", quiet())
    with Journal.open(tmp_path / "run" / "journal.db") as journal:
        versions = [step.policy_version for _, step in journal.read()]
    assert versions[0] == 1 and sorted(set(versions)) == [1, 2, 3, 4] and versions == sorted(versions)


@pytest.mark.parametrize("decisions", [{}, {"decision_steps": 3, "between_decisions": "interpolate", "replay_buffer_capacity": 150}])
def test_two_n_steps_equal_n_and_resume_and_n_bit_for_bit(demos: Path, tmp_path: Path, decisions: dict[str, Any]) -> None:
    """Also in the middle of a decision, and where the beginning of one has left the replay."""
    config = replace(SMALL, demos=(demos,), **decisions)
    train(replace(config, max_steps=120), tmp_path / "whole", quiet())
    train(replace(config, max_steps=60), tmp_path / "parts", quiet())
    train(replace(config, max_steps=120), tmp_path / "parts", quiet(), resume=True)
    whole, whole_loops, whole_meta = final_arrays(tmp_path / "whole")
    parts, parts_loops, parts_meta = final_arrays(tmp_path / "parts")
    assert whole.keys() == parts.keys()
    for name in whole:
        assert np.array_equal(whole[name], parts[name]), name
    assert whole_loops["learner"]["random"] == parts_loops["learner"]["random"]
    assert whole_loops["actor"]["random"] == parts_loops["actor"]["random"]
    assert np.array_equal(whole_loops["actor"]["env"]["physics"], parts_loops["actor"]["env"]["physics"])
    assert (whole_meta["actor_step"], whole_meta["ord"], whole_meta["policy_version"]) == (
        parts_meta["actor_step"], parts_meta["ord"], parts_meta["policy_version"],
    )  # fmt: skip
    with Journal.open(tmp_path / "whole" / "journal.db") as one, Journal.open(tmp_path / "parts" / "journal.db") as other:
        for (_, a), (_, b) in zip(one.read(), other.read(), strict=True):
            assert np.array_equal(a.action, b.action) and (a.episode, a.step, a.seq) == (b.episode, b.step, b.seq)


def test_a_run_killed_after_its_checkpoint_lives_the_lost_steps_again_and_stores_them_once(demos: Path, tmp_path: Path) -> None:
    config = replace(SMALL, demos=(demos,), checkpoint_period=50)
    train(replace(config, max_steps=120), tmp_path / "whole", quiet())
    train(replace(config, max_steps=70), tmp_path / "killed", quiet())
    newest = newest_checkpoint(tmp_path / "killed" / "checkpoints")
    assert newest.name == "00000070"
    for file in newest.iterdir():
        file.unlink()
    newest.rmdir()  # as if it had died before this one: journal and version are ahead of the checkpoint at 50
    train(replace(config, max_steps=120), tmp_path / "killed", quiet(), resume=True)
    whole, _, whole_meta = final_arrays(tmp_path / "whole")
    killed, _, killed_meta = final_arrays(tmp_path / "killed")
    assert all(np.array_equal(whole[name], killed[name]) for name in whole)
    with Journal.open(tmp_path / "whole" / "journal.db") as one, Journal.open(tmp_path / "killed" / "journal.db") as other:
        assert one.counts() == other.counts()
    assert killed_meta["policy_version"] == whole_meta["policy_version"] + 2, "versions 7 and 8 of the lost life are not used again"


def test_a_run_goes_on_under_its_own_settings(demos: Path, tmp_path: Path) -> None:
    config = replace(SMALL, demos=(demos,), max_steps=25)
    train(config, tmp_path / "run", quiet())
    assert config_of(RunFolder.open(tmp_path / "run")) == config


def test_a_finished_run_that_is_resumed_trains_no_further(demos: Path, tmp_path: Path) -> None:
    config = replace(SMALL, demos=(demos,), max_steps=25)
    train(config, tmp_path / "run", quiet())
    assert train(config, tmp_path / "run", quiet(), resume=True)["learner_step"] == 25


def test_without_demonstrations_all_data_is_the_robots_own(tmp_path: Path) -> None:
    summary = train(replace(SMALL, max_steps=20), tmp_path / "run", quiet())
    assert summary["demo_transitions"] == 0 and summary["learner_step"] == 20


def test_a_gymnasium_environment_is_trained_by_its_id(tmp_path: Path) -> None:
    config = replace(SMALL, task="Pendulum-v1", num_envs=1, updates_per_actor_step=1.0, max_steps=40, final_episodes=1)
    summary = train(replace(config, eval_period=20, eval_episodes=1), tmp_path / "run", quiet())
    best, _ = read_policy(tmp_path / "run" / "checkpoints" / "best.safetensors")
    assert best.learner_step in (20, 40), "a return may be far below zero and still be the best so far"
    assert summary["deterministic"]["return"] < 0
    again = train(replace(config, max_steps=50), tmp_path / "run", quiet(), resume=True)
    assert again["learner_step"] == 50
    with Journal.open(tmp_path / "run" / "journal.db") as journal:
        assert len({step.source for _, step in journal.read()}) == 2, "a simulation that cannot be saved begins anew, under a new source"


def test_pretraining_uses_demonstrations_alone_and_publishes_what_it_learned(demos: Path, tmp_path: Path) -> None:
    summary = train(replace(SMALL, demos=(demos,), pretrain_steps=30, max_steps=35), tmp_path / "run", quiet())
    assert summary["learner_step"] == 35
    with pytest.raises(ConfigError, match="pretrain_steps"):
        train(replace(SMALL, demos=(), pretrain_steps=10), tmp_path / "none", quiet())
    assert not (tmp_path / "none").exists(), "refused before anything is written"


def test_a_policy_starts_another_run(demos: Path, tmp_path: Path) -> None:
    train(replace(SMALL, demos=(demos,), max_steps=30), tmp_path / "first", quiet())
    snapshot, _ = read_policy(tmp_path / "first" / "checkpoints" / "latest.safetensors")
    # before the first update the second run acts with exactly that policy
    train(replace(SMALL, demos=(demos,), max_steps=1), tmp_path / "second", quiet(), init_from=tmp_path / "first")
    log = (tmp_path / "second" / "train.log").read_text()
    assert f"version 1, {snapshot.hash}" in log


def test_what_exists_is_not_written_over(demos: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(ConfigError, match="--resume"):
        train(replace(SMALL, demos=(demos,)), tmp_path / "run", quiet())


def test_demonstrations_of_another_task_are_refused_before_anything_is_written(demos: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecMismatch, match="tcp_position"):
        train(replace(SMALL, task="gear_assembly", demos=(demos,)), tmp_path / "run", quiet())
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_of_another_shape_names_the_leaf(demos: Path, tmp_path: Path) -> None:
    train(replace(SMALL, demos=(demos,), max_steps=10), tmp_path / "run", quiet())
    wider = replace(SMALL, agent=SACConfig(hidden=(24, 16)), demos=(demos,), max_steps=20)
    with pytest.raises(FileUnreadable, match=r"16.*24|24.*16"):
        train(wider, tmp_path / "run", quiet(), resume=True)


def test_a_full_disk_leaves_the_old_checkpoint_intact(demos: Path, tmp_path: Path) -> None:
    train(replace(SMALL, demos=(demos,), max_steps=10), tmp_path / "run", quiet())
    folder = tmp_path / "run" / "checkpoints"
    arrays, loops, _ = final_arrays(tmp_path / "run")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limit[1]))
    try:
        with pytest.raises(StorageFull, match="intact"):
            write_checkpoint(folder, 20, arrays, loops, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    assert newest_checkpoint(folder).name == "00000010" and not list(folder.glob(".*"))
    read_checkpoint(newest_checkpoint(folder))


def test_a_checkpoint_that_finds_no_room_does_not_end_the_run(demos: Path, tmp_path: Path) -> None:
    """A full disk is mounted where the checkpoints go while the run trains, and taken away again."""
    said: list[str] = []
    display = quiet()
    display.say = lambda line, **_: said.append(line)
    with contextlib.ExitStack() as disks:

        def watch(row: dict[str, Any]) -> list[str]:
            if row["learner_step"] == 10:
                disks.enter_context(small_disk(tmp_path / "run" / "checkpoints", 0.004))
            if row["learner_step"] == 30:
                disks.close()
            return []

        config = replace(SMALL, demos=(demos,), max_steps=60, checkpoint_period=10, log_period=10)
        summary = train(config, tmp_path / "run", display, watch=watch)
    assert summary["learner_step"] == 60 and "max_steps" in summary["stopped"]
    assert newest_checkpoint(tmp_path / "run" / "checkpoints").name == "00000060"
    assert len([line for line in said if "the checkpoint failed" in line and "intact" in line]) == 1, said
    assert any("the checkpoint works again" in line for line in said)


def test_a_damaged_checkpoint_without_an_older_one_is_refused(demos: Path, tmp_path: Path) -> None:
    train(replace(SMALL, demos=(demos,), max_steps=10), tmp_path / "run", quiet())
    weights = newest_checkpoint(tmp_path / "run" / "checkpoints") / "agent.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(FileUnreadable, match="Without an older one"):
        train(replace(SMALL, demos=(demos,), max_steps=20), tmp_path / "run", quiet(), resume=True)
    assert weights.parent.name == "00000010" and weights.exists(), "it stays under its name: the run is not begun anew"


@pytest.mark.parametrize("name", ["agent.safetensors", "loops.msgpack", "meta.json", "SHA256SUMS"])
def test_a_checkpoint_whose_bytes_changed_is_left_out_for_the_one_before(demos: Path, tmp_path: Path, name: str) -> None:
    config = replace(SMALL, demos=(demos,), checkpoint_period=10, max_steps=20)
    train(config, tmp_path / "run", quiet())
    newest = newest_checkpoint(tmp_path / "run" / "checkpoints")
    data = bytearray((newest / name).read_bytes())
    data[len(data) // 2] ^= 1  # one bit
    (newest / name).write_bytes(data)
    summary = train(replace(config, max_steps=30), tmp_path / "run", quiet(), resume=True)
    assert summary["learner_step"] == 30
    events = RunFolder.open(tmp_path / "run").events()
    [resumed] = [event for event in events if event["kind"] == "resumed"]
    said = " ".join(event["problem"] for event in events if event["kind"] == "checkpoint_damaged")
    assert resumed["learner_step"] == 10 and "00000020 is damaged" in said and "the checkpoint before it" in said
    assert newest.with_name("00000020.damaged").exists(), "it is set aside, not deleted"


def test_a_checkpoint_of_an_earlier_version_is_read_and_that_is_said(demos: Path, tmp_path: Path) -> None:
    train(replace(SMALL, demos=(demos,), max_steps=10), tmp_path / "run", quiet())
    (newest_checkpoint(tmp_path / "run" / "checkpoints") / "SHA256SUMS").unlink()
    assert train(replace(SMALL, demos=(demos,), max_steps=20), tmp_path / "run", quiet(), resume=True)["learner_step"] == 20
    [event] = [event for event in RunFolder.open(tmp_path / "run").events() if event["kind"] == "checkpoint_damaged"]
    assert "no checksums" in event["problem"]


@pytest.mark.parametrize("contents", [b"", b"\xc0", b"\x93\x01\x02\x03", b"\x81\xa7learner\xc0"])
def test_loops_that_are_damaged_are_refused_in_words(demos: Path, tmp_path: Path, contents: bytes) -> None:
    """Also where an earlier version wrote no checksum."""
    train(replace(SMALL, demos=(demos,), max_steps=10), tmp_path / "run", quiet())
    newest = newest_checkpoint(tmp_path / "run" / "checkpoints")
    (newest / "SHA256SUMS").unlink()
    (newest / "loops.msgpack").write_bytes(contents)
    with pytest.raises(FileUnreadable, match="damaged"):
        train(replace(SMALL, demos=(demos,), max_steps=20), tmp_path / "run", quiet(), resume=True)


def test_a_changed_header_of_a_policy_is_refused(demos: Path, tmp_path: Path) -> None:
    train(replace(SMALL, demos=(demos,), max_steps=10), tmp_path / "run", quiet())
    path = tmp_path / "run" / "checkpoints" / "latest.safetensors"
    data = path.read_bytes()
    assert data.count(b'\\"scale\\": ') > 0
    at = data.index(b'\\"scale\\": ') + len(b'\\"scale\\": ')
    digit = next(index for index in range(at, at + 20) if data[index : index + 1] in b"123456789")
    path.write_bytes(data[:digit] + bytes([data[digit] ^ 1]) + data[digit + 1 :])  # another scale: the robot would act on other numbers
    with pytest.raises(FileUnreadable, match=r"header .* has changed"):
        read_policy(path)


def test_impossible_q_values_are_rolled_back_and_counted(demos: Path, tmp_path: Path) -> None:
    """A learning rate that blows the critic up: the run survives with its last good state and says how often."""
    wild = replace(SMALL, agent=SACConfig(hidden=(16, 16), learning_rate=30.0), demos=(demos,), max_steps=200)
    summary = train(wild, tmp_path / "run", quiet())
    assert summary["rolled_back"] >= 1
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert any(event["kind"] == "rolled_back" and "critic" in event["problem"] for event in events)


def test_ctrl_c_stops_cleanly_and_the_run_can_be_resumed(demos: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from tandem.cli import main; main()",
        "train",
        "reach",
        "--demos",
        str(demos),
        "--run",
        str(tmp_path / "run"),
    ]
    options = ["--hidden", "16", "16", "--batch-size", "16", "--max-steps", "1000000", "--eval-period", "0"]
    options += ["--stop-success", "None", "--json"]
    with subprocess.Popen(command + options, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line).get("learner_step", 0) >= 50:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read().splitlines()
        assert process.wait(timeout=30) == 0
    summary = json.loads(rest[-1])["summary"]
    assert summary["stopped"] == "interrupted" and summary["learner_step"] >= 50
    more = ["train", "--resume", str(tmp_path / "run"), "--max-steps", str(summary["learner_step"] + 20), "--final-episodes", "5", "--json"]
    done = subprocess.run([*command[:3], *more], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["summary"]["learner_step"] == summary["learner_step"] + 20


GUIDED = """
import gymnasium, numpy as np
class Guided(gymnasium.Env):
    "A person in the environment's own wrapper takes over on every third step, in the environment's own units."
    observation_space = gymnasium.spaces.Box(-10, 10, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-4, 4, (1,), np.float32)
    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2, np.float32), {}
    def step(self, action):
        self.t += 1
        info = {"intervene_action": np.array([2.0], np.float32)} if self.t % 3 == 0 else {}
        return np.full(2, self.t, np.float32), 0.0, False, self.t == 10, info
gymnasium.register("Guided-v0", Guided, max_episode_steps=10, disable_env_checker=True)
"""


def test_an_environments_own_interventions_are_stored_as_executed_in_both_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "guided_robot.py").write_text(GUIDED)
    monkeypatch.syspath_prepend(tmp_path)
    config = replace(SMALL, task="guided_robot:Guided-v0", num_envs=1, updates_per_actor_step=1.0, max_steps=40)
    summary = train(config, tmp_path / "run", quiet())
    with Journal.open(tmp_path / "run" / "journal.db") as journal:
        steps = [step for _, step in journal.read()]
    # the third, sixth and ninth step of an episode; 2.0 of a range of 4 is 0.5
    assert all(step.intervened == ((step.step + 1) % 3 == 0) for step in steps)
    assert all(step.action[0] == 0.5 for step in steps if step.intervened)
    assert all(step.truncated and not step.terminated for step in steps if step.step == 9)
    assert summary["demo_transitions"] == sum(step.intervened for step in steps)


def test_a_logger_that_fails_is_reported_once_and_does_not_stop_the_run(demos: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tandem-rl\[wandb\]"):
        train(replace(SMALL, demos=(demos,), max_steps=10, wandb="project"), tmp_path / "first", quiet())
    reported = []
    loggers = Isolated(lambda name, problem: reported.append((name, problem)))

    class Broken:
        name = "broken"

        def log(self, learner_step: int, metrics: dict[str, float]) -> None:
            raise OSError("no route to host")

        def show(self, learner_step: int, pictures: Mapping[str, np.ndarray]) -> None:
            raise AssertionError("a logger that was left out is not asked again")

        def close(self) -> None:
            raise AssertionError("a logger that was left out is not asked again")

    loggers.add(Broken())
    loggers.log(1, {})
    loggers.show(1, {})
    loggers.log(2, {})
    loggers.close()
    assert reported == [("broken", "OSError: no route to host")]


def test_demonstrations_load_as_they_were_recorded(demos: Path) -> None:
    steps = load_demos(demos, spec_for("reach"))
    assert sum(bool(step.success) for step in steps) == 10 and all(step.intervened for step in steps)
