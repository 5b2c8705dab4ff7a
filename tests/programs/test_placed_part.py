"""What a node of a cluster does with a part: the files that it needs are there for its owner alone, and its end is noticed."""

import os
import stat
from pathlib import Path

import pytest

from tandem.errors import ConfigError
from tandem.programs.arguments import TrainArgs
from tandem.programs.cluster import ClusterArgs, shipped
from tandem.programs.launch import listening_of
from tandem.programs.placed_part import PlacedPart


def test_a_placed_part_gets_its_files_and_says_how_it_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    part = PlacedPart(("film", "@token", str(tmp_path), "1"), {"token": b"secret"}, str(log), str(tmp_path))
    [token] = [Path(path) for path in part.files()]
    assert token.read_bytes() == b"secret" and stat.S_IMODE(token.stat().st_mode) == 0o600
    assert stat.S_IMODE(token.parent.stat().st_mode) == 0o700
    seen = part.end(60.0)
    assert seen.code == 2 and str(token) in log.read_text(), "the file's path stood in its command line"
    assert not token.exists(), "no secret is left behind"


def test_a_task_of_your_own_is_sent_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "somebodys_envs.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    modules = shipped("somebodys_envs:Peg-v0")["py_modules"]
    assert [os.path.basename(module) for module in modules] == ["tandem", "somebodys_envs.py"]
    assert len(shipped("reach")["py_modules"]) == 1


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (TrainArgs(cluster=ClusterArgs(cpus=2.0)), "options of --cluster are for `--launcher ray`"),
        (TrainArgs(launcher="ray", cluster=ClusterArgs(host="10.0.0.1")), "--host 10.0.0.1 lets other machines in"),
        (TrainArgs(launcher="ray", cluster=ClusterArgs(host="10.0.0.1", key=Path("key.pem"))), "are needed together"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(asked: TrainArgs, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        listening_of(asked)


def test_a_hub_listens_here_alone_unless_other_machines_are_named() -> None:
    assert listening_of(TrainArgs(launcher="ray", actors=100)).host == "127.0.0.1"
    assert listening_of(TrainArgs(launcher="ray", actors=100)).max_actors >= 100
    assert listening_of(TrainArgs(launcher="ray", cluster=ClusterArgs(host="10.0.0.1", insecure=True))).host == "10.0.0.1"
