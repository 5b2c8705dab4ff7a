"""`tandem access`, as a person types it, and what `tandem learner` says about a network without TLS."""

import stat
from pathlib import Path

import pytest

from tandem import cli
from tandem.errors import ConfigError
from tandem.link.access import Access
from tandem.programs.arguments import LearnerArgs, read_run_args
from tandem.programs.launch import learn_here
from tandem.programs.terminal import make_display
from tandem.runs.folder import RunFolder
from tandem.types import Continuous, Entry, Spec

SPEC = Spec("toy", {"q": Entry((2,))}, (Continuous("force", 1),), 10, 100)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return RunFolder.create(tmp_path / "run", "recording", {}, SPEC).path


def test_a_credential_is_made_listed_and_revoked(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "left.token"
    cli.run("access", [str(run), "add", "left arm", "--role", "actor", "--out", str(out)])
    token = out.read_text().strip()
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    said = capsys.readouterr().out
    assert token not in said and "--token-file" in said
    who = Access(RunFolder(run)).by_token(token)
    assert who is not None and (who.name, who.role) == ("left arm", "actor")
    cli.run("access", [str(run)])
    assert "left arm" in capsys.readouterr().out
    cli.run("access", [str(run), "revoke", "left arm"])
    assert Access(RunFolder(run)).by_token(token) is None


def test_a_token_is_printed_once_with_the_link_that_it_opens(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.run("access", [str(run), "add", "anna", "--role", "viewer"])
    token = capsys.readouterr().out.splitlines()[1].strip()
    assert Access(RunFolder(run)).by_token(token)
    cli.run("access", [str(run), "list"])
    assert token not in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [("add",), ("add", "anna"), ("revoke",), ("revoke", "nobody")])
def test_what_is_missing_is_named(run: Path, arguments: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"missing|no credential"):
        cli.run("access", [str(run), *arguments])


def test_a_learner_for_other_machines_needs_tls_or_insecure(tmp_path: Path) -> None:
    """Refused before anything is made."""
    asked = read_run_args(LearnerArgs, ["reach", "--host", "0.0.0.0"], "tandem learner")
    with pytest.raises(ConfigError, match=r"--certificate and --key.*--insecure"):
        learn_here(asked, asked.config, tmp_path / "run", make_display(True, False))
    assert not (tmp_path / "run").exists()
    given = read_run_args(LearnerArgs, ["reach", "--insecure", "--host-name", "lab", "lab.example"], "tandem learner")
    assert given.insecure and given.host_name == ("lab", "lab.example")
