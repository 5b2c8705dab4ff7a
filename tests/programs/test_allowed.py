"""No module is imported because a file names it: a person types the task, or allows the module."""

import dataclasses
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from tandem.allowed import VARIABLE, allow, code_of, require_allowed, take_option
from tandem.cli import run as tandem
from tandem.codec import pack
from tandem.envs.registry import make_env, spec_for
from tandem.errors import ConfigError, UnknownTaskError
from tandem.off_policy.config import TrainConfig
from tandem.on_policy.config import OnPolicyConfig
from tandem.runs.checkpoint import write_policy
from tandem.runs.folder import RunFolder
from tandem.teleop.own_operator import own_operator
from tests.acting.counter_env import steady

MODULE = "named_by_a_file"


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whether the module was imported. It is on Python's path, as an installed one is."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / f"{MODULE}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "path")
    monkeypatch.setenv(VARIABLE, "")
    sys.modules.pop(MODULE, None)
    yield lambda: MODULE in sys.modules
    sys.modules.pop(MODULE, None)


def policy_file(folder: Path) -> Path:
    write_policy(folder / "policy.safetensors", steady(0.4), dataclasses.replace(spec_for("reach"), task=f"{MODULE}:Foo"))
    return folder / "policy.safetensors"


@pytest.mark.parametrize("command", [("eval",), ("play", "--film")])
def test_a_policy_file_that_names_a_module_does_not_have_it_imported(imported, tmp_path: Path, command: tuple[str, ...]) -> None:
    file = policy_file(tmp_path)
    with pytest.raises(ConfigError, match=rf"policy\.safetensors names '{MODULE}:Foo'.*--allow-module {MODULE}"):
        tandem(command[0], [str(file), *command[1:]])
    assert not imported()
    with pytest.raises(UnknownTaskError):  # it is imported now, and has no such environment
        tandem(command[0], take_option([str(file), *command[1:], "--allow-module", MODULE]))
    assert imported()


RESUMED = [("train", "rlpd", TrainConfig), ("learner", "rlpd", TrainConfig), ("ppo", "ppo", OnPolicyConfig)]


@pytest.mark.parametrize(("command", "kind", "config"), RESUMED)
def test_a_run_folder_that_names_a_module_asks_the_person(imported, tmp_path: Path, command: str, kind, config) -> None:
    task = f"{MODULE}:Foo"
    run = RunFolder.create(tmp_path / "run", kind, config(task=task), dataclasses.replace(spec_for("reach"), task=task))
    sync = ["--sync"] if command == "train" else []
    with pytest.raises(ConfigError, match=rf"config\.json names '{task}'.*--allow-module {MODULE}"):
        tandem(command, ["--resume", str(run.path), *sync])
    with pytest.raises(ConfigError, match="names"):
        tandem(command, ["reach", "--resume", str(run.path), *sync])
    assert not imported()
    if command != "learner":  # which would begin to listen
        with pytest.raises(UnknownTaskError):
            tandem(command, [task, "--resume", str(run.path), *sync])
        assert imported(), "a task that was typed is the person's word"


def test_an_operator_that_a_run_folder_names_is_asked_for_too(imported, tmp_path: Path) -> None:
    config = TrainConfig(task="reach", operator=f"{MODULE}:Helper")
    run = RunFolder.create(tmp_path / "run", "rlpd", config, spec_for("reach"))
    with pytest.raises(ConfigError, match=f"names '{MODULE}:Helper'"):
        tandem("train", ["--resume", str(run.path), "--sync"])
    assert not imported()


def test_a_file_of_a_numerical_failure_is_no_exception(imported, tmp_path: Path) -> None:
    broken = {"format": "tandem-broken-1", "kind": "simulation", "task": f"{MODULE}:Foo", "reward": None, "problem": "NaN"}
    (tmp_path / "broken.msgpack").write_bytes(pack({**broken, "state": {"physics": np.zeros((1, 2))}, "actions": []}))
    with pytest.raises(ConfigError, match="Nothing was imported"):
        tandem("doctor", ["replay", str(tmp_path / "broken.msgpack")])
    assert not imported()


def test_what_counts_as_code(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("reach", "Pendulum-v1", "ws://robot:5599", "wss://robot:5599", "person:scripted", "policy:runs/a", "browser"):
        assert code_of(name) == ""
    assert code_of("a.b:Id-v0") == "a.b" and code_of("serve:/usr/bin/python3:mw:Peg-v3") == "serve:/usr/bin/python3:mw"
    monkeypatch.setenv(VARIABLE, "")
    allow("mw")
    require_allowed("mw:Peg-v3", "a file")
    with pytest.raises(ConfigError, match="would run the code of 'serve:/tmp/python:mw'"):
        require_allowed("serve:/tmp/python:mw:Peg-v3", "a file")  # another interpreter is other code
    assert take_option(["reach", "--allow-module=one", "--seed", "3"]) == ["reach", "--seed", "3"] and "one" in os.environ[VARIABLE]
    with pytest.raises(ConfigError, match="needs the name of a module"):
        take_option(["reach", "--allow-module"])


def test_an_operator_in_another_python_does_not_look_into_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the working directory is on the path')")
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "helpers.py").write_text(
        "class Still:\n    def reset(self): pass\n    def decide(self, observation, proposed): return [0.0] * 6, False\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    env = make_env("reach")
    assert own_operator(f"serve:{sys.executable}:helpers:Still", env).name == "Still"
    env.close()


def test_a_damaged_configuration_is_refused_by_the_command(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", "rlpd", TrainConfig(task="reach"), spec_for("reach"))
    described = json.loads(run.config_file.read_text())
    for damaged in ({**described["config"], "agent": 3}, {**described["config"], "demos": 5}, {"task": "reach", "steps_per_update": 1}):
        run.config_file.write_text(json.dumps({**described, "config": damaged}))
        with pytest.raises(ConfigError, match=r"config\.json .*damaged"):
            tandem("train", ["--resume", str(run.path)])
