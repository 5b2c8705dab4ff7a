"""The run folder: one owner of its paths, its kind, its names and numbers."""

import ast
import json
import os
import stat
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import tandem
from tandem.agents.bc import BCConfig
from tandem.errors import ConfigError, FileMissing, FileUnreadable, StorageFull
from tandem.files import make_once, private_files, whole_or_nothing, write_atomically
from tandem.link.trainer_end import open_journal
from tandem.off_policy.cloning import CloneArgs
from tandem.off_policy.config import TrainConfig
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.distill import DistillArgs
from tandem.runs.board import Board
from tandem.runs.checkpoint import write_checkpoint
from tandem.runs.clocks import Clocks
from tandem.runs.folder import Kind, RunFolder, plain
from tandem.types import Continuous, Entry, Spec

SPEC = Spec("toy", {"q": Entry((2,))}, (Continuous("action", 1),), 10, 100)
CONFIGS: dict[Kind, Any] = {
    "rlpd": TrainConfig(task="toy"),
    "ppo": OnPolicyConfig(task="toy"),
    "distill": DistillArgs(task="toy", teacher=Path("teacher")),
    "bc": CloneArgs(task="toy", demos=(), config=BCConfig()),
    "recording": {},
}


def test_a_new_run_says_what_it_is(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", "rlpd", CONFIGS["rlpd"], SPEC)
    info = RunFolder.open(tmp_path / "run").info
    assert (info.kind, info.task, info.spec, info.settings) == ("rlpd", "toy", SPEC, plain(CONFIGS["rlpd"]))
    with pytest.raises(ConfigError, match="exists"):
        RunFolder.create(tmp_path / "run", "rlpd", CONFIGS["rlpd"], SPEC)


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_kind_of_a_run_is_written_down_and_known_of_older_folders(tmp_path: Path, kind: Kind) -> None:
    run = RunFolder.create(tmp_path / "run", kind, CONFIGS[kind], SPEC)
    described = json.loads(run.config_file.read_text())
    assert described.pop("kind") == kind and RunFolder.open(run.path).kind == kind
    run.config_file.write_text(json.dumps(described))
    assert RunFolder.open(run.path).kind == kind, "a folder from before the kind was written down"


def test_a_run_is_continued_by_the_command_that_made_it(tmp_path: Path) -> None:
    runs = {kind: RunFolder.create(tmp_path / kind, kind, config, SPEC) for kind, config in CONFIGS.items()}
    assert runs["ppo"].settings_of("ppo") == plain(CONFIGS["ppo"])
    with pytest.raises(ConfigError, match=r"not trained with RLPD but with PPO; go on with it by `tandem ppo --resume .*ppo`"):
        runs["ppo"].settings_of("rlpd")
    with pytest.raises(ConfigError, match=r"not trained with PPO but with RLPD; go on with it by `tandem train --resume .*rlpd`"):
        runs["rlpd"].settings_of("ppo")
    with pytest.raises(ConfigError, match="behaviour cloning; such a run cannot be resumed: start it again"):
        runs["bc"].settings_of("rlpd")


def test_a_folder_that_is_not_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match=r"is not a run folder: it has no config\.json"):
        RunFolder.open(tmp_path)


@pytest.mark.parametrize(
    "contents",
    ['{"task": "toy"}', '{"task": "to', "[]", '{"task": "toy", "spec": 3}', '{"task": "toy", "spec": {}, "config": {"strange": 1}}'],
)
def test_a_damaged_configuration_is_named(tmp_path: Path, contents: str) -> None:
    (tmp_path / "config.json").write_text(contents)
    with pytest.raises(FileUnreadable, match=r"config\.json is damaged .* Restore it from a copy"):
        _ = RunFolder.open(tmp_path).info


def test_a_kind_of_a_later_version_is_refused(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", "rlpd", CONFIGS["rlpd"], SPEC)
    run.config_file.write_text(run.config_file.read_text().replace('"rlpd"', '"diffusion"'))
    with pytest.raises(FileUnreadable, match=r"kind 'diffusion'; this version knows rlpd, ppo"):
        _ = RunFolder.open(run.path).info


def make_names(run: Path) -> tuple[str, str, int]:
    board, folder = Board(run), RunFolder(run)
    board.close()
    return folder.run_id, folder.token, folder.board_file.stat().st_ino


def test_no_other_module_spells_a_file_name_of_the_run_folder() -> None:
    names = {path.name for path in vars(RunFolder(Path("run"))).values() if isinstance(path, Path) and "." in path.name[1:]}
    assert {"config.json", "metrics.jsonl", "live.json", "policy.bin", "best.safetensors"} <= names
    names -= {"mapping.toml"}  # also the name of the default, which is part of the package
    package = Path(tandem.__file__).parent
    spelled = [
        f"{file.relative_to(package)}:{node.lineno} {node.value}"
        for file in package.rglob("*.py")
        if file != package / "runs" / "folder.py"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and node.value in names
    ]
    assert spelled == []


def test_the_first_process_makes_the_files_and_all_agree(tmp_path: Path) -> None:
    with get_context("spawn").Pool(3) as pool:
        made = pool.map(make_names, [tmp_path] * 9, chunksize=1)
    assert len(set(made)) == 1
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert len(made[0][0]) == 32 and len(made[0][1]) > 32


def test_a_number_that_was_given_out_is_never_given_out_again(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert [run.next_version() for _ in range(3)] == [1, 2, 3]
    assert RunFolder(tmp_path).next_version() == 4, "after any crash"
    run.next_incarnation()
    assert run.incarnation == 1


def test_metrics_have_all_clocks_and_events_their_time(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.wall_before = 100.0
    row = run.log_metrics(Clocks(10, 20, 3), {"a/b": 1.5})
    assert run.metrics() == [row] and row["wall_s"] >= 100.0
    assert (row["learner_step"], row["actor_step"], row["policy_version"], row["incarnation"], row["a/b"]) == (10, 20, 3, 0, 1.5)
    run.event("stopped", reason="enough")
    [event] = run.events()
    assert event["kind"] == "stopped" and event["reason"] == "enough" and event["time"] > 1e9
    run.log_line("a sentence")
    assert run.log_file.read_text().endswith("a sentence\n")
    assert run.summary() is None
    run.summarise({"stopped": "enough"})
    assert run.summary() == {"stopped": "enough"}


def test_a_disk_that_takes_no_line_does_not_stop_a_run(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for file in (run.metrics_file, run.events_file, run.log_file):
        file.mkdir()  # nothing can be appended to it
    assert run.log_metrics(Clocks(1, 1, 1), {})["learner_step"] == 1
    run.event("stopped")
    run.log_line("a sentence")
    assert run.metrics() == run.events() == []


def test_the_policy_of_a_run_is_its_best_or_its_latest(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", "rlpd", CONFIGS["rlpd"], SPEC)
    assert run.policy() == run.policy("latest") == run.latest_policy
    run.best_policy.write_bytes(b"")
    assert run.policy() == run.best_policy and run.policy("latest") == run.latest_policy


def test_only_complete_checkpoints_count(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", "rlpd", CONFIGS["rlpd"], SPEC)
    (run.checkpoints / ".00000010.partial").mkdir()
    assert not run.has_checkpoint()
    for step in (20, 3):
        (run.checkpoints / f"{step:08d}").mkdir()
    assert run.has_checkpoint() and [path.name for path in run.checkpoint_folders()] == ["00000003", "00000020"]


class Broken(Exception):
    """A crash in the middle of writing."""


def test_a_crash_in_the_middle_of_writing_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.bin"
    write_atomically(path, b"before")
    with pytest.raises(Broken), whole_or_nothing(path) as partial:
        partial.write_bytes(b"half of wh")
        raise Broken
    assert path.read_bytes() == b"before" and [found.name for found in tmp_path.iterdir()] == ["file.bin"]

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    for durable in (True, False):
        with pytest.raises(StorageFull, match=r"No space left on device\. What was there before is intact"):
            write_atomically(path, b"after", durable=durable)
    assert path.read_bytes() == b"before" and [found.name for found in tmp_path.iterdir()] == ["file.bin"]


def test_a_durable_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *arguments, name=name, real=real: (calls.append(name), real(*arguments))[1])
    write_atomically(tmp_path / "file", b"1")
    assert calls == ["fsync", "replace", "fsync"], "the content, then the name, then the folder"
    calls.clear()
    write_atomically(tmp_path / "file", b"2", durable=False)
    assert calls == ["replace"] and (tmp_path / "file").read_bytes() == b"2"


def test_a_file_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path) -> None:
    def half(path: Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageFull, match="No space left"):
        make_once(tmp_path / "token", half)
    assert list(tmp_path.iterdir()) == []


def test_only_its_owner_can_read_a_run(tmp_path: Path) -> None:
    with private_files():
        run = RunFolder.create(tmp_path / "run", "rlpd", CONFIGS["rlpd"], SPEC)
        run.event("started")
        run.next_version()
        open_journal(run.path, SPEC, read_only=False).close()
        write_checkpoint(run.checkpoints, 10, {}, {}, {})
    modes = {str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert {name: mode for name, mode in modes.items() if mode != (0o700 if (tmp_path / name).is_dir() else 0o600)} == {}
    (tmp_path / "shared").write_text("")
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) != 0o600, "demonstrations and exports keep the person's own mode"


def test_a_run_of_an_earlier_version_is_made_private_when_it_is_continued(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", "rlpd", CONFIGS["rlpd"], SPEC)
    run.path.chmod(0o755)
    RunFolder.resume(run.path)
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700


@pytest.mark.parametrize("contents", [b"", b"x", b"12x", b"\xff\xfe", b"9" * 40 + b"x"])
def test_a_damaged_number_is_named(tmp_path: Path, contents: bytes) -> None:
    run = RunFolder(tmp_path)
    run.version_file.write_bytes(contents)
    if contents.startswith(b"9"):
        assert run.next_version() == 10**20, "a number that is far too large is only large"
        return
    with pytest.raises(FileUnreadable, match=r"policy_version is damaged .* never be used twice"):
        run.next_version()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot make the run folder /proc/run: .* --run"):
        RunFolder.create(Path("/proc/run"), "rlpd", CONFIGS["rlpd"], SPEC)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot make the run folder"):
        RunFolder.create(tmp_path / "file" / "run", "rlpd", CONFIGS["rlpd"], SPEC)


def test_a_run_on_a_read_only_disk_is_refused_in_words(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", "rlpd", CONFIGS["rlpd"], SPEC).path
    code = f"from tandem.runs.folder import RunFolder; from pathlib import Path; RunFolder.resume(Path({str(run)!r}))"
    script = f'mount --bind {run} {run} && mount -o remount,ro,bind {run} || exit 77; exec {sys.executable} -c "{code}"'
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no mounts of our own on this machine")
    assert "ConfigError" in done.stderr and "cannot be written (Read-only file system)" in done.stderr and "chmod" in done.stderr
