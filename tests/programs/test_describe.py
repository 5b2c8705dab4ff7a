"""`tandem env describe`: what is seen of an environment, as a file that can be read again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.cli import run
from tandem.envs.declared import read_file
from tandem.envs.registry import make_env, spec_for
from tandem.errors import EnvironmentFailed
from tandem.programs.describe import describe, env, look
from tests.envs.strange_envs import strange_module


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with strange_module(tmp_path_factory.mktemp("strange")):
        yield


@pytest.fixture(autouse=True)
def here(path: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_seen_is_written_and_then_holds(capsys: pytest.CaptureFixture[str]) -> None:
    run("env", ["describe", "strange:OtherKey-v0", "--episodes", "4"])
    file = Path("environments/OtherKey-v0.toml")
    text = file.read_text()
    assert f"wrote {file}" in capsys.readouterr().out.replace("\n", "")
    assert "# keys of `info` that look like success: goal_reached" in text
    assert "state[2]  0.25 to 0.25  constant" in text and "state[1]" in text and "constant\n#   state[0]" not in text
    assert "# rewards seen: 0, 1" in text, "random actions reach the goal now and then"
    declared = read_file(file)
    assert (declared.success_key, declared.return_range) == ("goal_reached", (0.0, 1.0))
    assert (declared.control_hz, declared.max_episode_steps, declared.scales) == (10, 40, {}), "random actions go nowhere: no scale is sure"
    assert spec_for("strange:OtherKey-v0").return_range == (0.0, 1.0), "every command finds it"


def test_an_edited_file_is_never_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    run("env", ["describe", "strange:Drive-v0"])
    file = Path("environments/Drive-v0.toml")
    file.write_text("control_hz = 25\n")
    run("env", ["describe", "strange:Drive-v0"])
    assert file.read_text() == "control_hz = 25\n" and "was not written over" in capsys.readouterr().out
    run("env", ["describe", "reach"])
    assert "nothing was written" in capsys.readouterr().out and not Path("environments/reach.toml").exists()


def test_scales_of_demonstrations_are_sure() -> None:
    made = make_env("strange:Drive-v0")
    seen = look(made, 5, 1000, 0)
    assert "\n# [scales]\n# state = [" in describe(made.spec, seen, "random actions")
    assert "\n[scales]\nstate = [" in describe(made.spec, seen, "demonstrations")


def test_an_environment_that_reports_nothing_is_told_so() -> None:
    made = make_env("strange:NoSuccess-v0")
    text = describe(made.spec, look(made, 1, 20, 0), "random actions")
    assert "`info` never had a key for success" in text and "\n# success_key" in text
    assert "no episode came to its end" in text and "\n# return_range" in text


def test_an_environment_that_fails_fails_here_too() -> None:
    with pytest.raises(EnvironmentFailed, match=r"failed in step\(\): RuntimeError: motor 3"):
        env("describe", "strange:Fails-v0")
