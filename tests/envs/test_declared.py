"""What an environment may declare, from which place it is taken, and what is said when it does not fit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.envs.declared import Declaration, declaration_file, read_file, read_mapping
from tandem.envs.registry import make_batch, make_env, spec_for
from tandem.errors import ConfigError, EnvironmentFailed
from tandem.off_policy.config import require_learnable
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.run import agent_for
from tandem.types import Continuous
from tests.envs.strange_envs import strange_module


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with strange_module(tmp_path_factory.mktemp("strange")):
        yield


@pytest.fixture(autouse=True)
def here(path: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def declare(name: str, text: str) -> None:
    file = declaration_file(name)
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def test_the_file_beats_the_attribute_the_attribute_the_metadata_and_all_of_them_a_guess() -> None:
    guessed, spec = spec_for("strange:Drive-v0"), spec_for("strange:Declared-v0")
    assert (guessed.control_hz, guessed.max_episode_steps, guessed.return_range, guessed.observation["state"].scale) == (10, 40, None, 1.0)
    assert (spec.control_hz, spec.max_episode_steps, spec.return_range) == (20, 5, (0.0, 1.0)), "metadata, attribute, attribute"
    assert spec.observation["state"].scale == 2.0, "metadata"
    [part] = spec.action
    assert isinstance(part, Continuous) and (part.meaning, part.unit) == ("x", "m")
    declare("strange:Declared-v0", "max_episode_steps = 9\n[scales]\nstate = [1000.0, 1.0, 1.0]\n")
    spec = spec_for("strange:Declared-v0")
    assert (spec.control_hz, spec.max_episode_steps, spec.return_range) == (20, 9, (0.0, 1.0)), "the file says only one of them"
    assert spec.observation["state"].scale == (1000.0, 1.0, 1.0)


def test_a_file_is_found_by_what_stands_after_the_last_colon(monkeypatch: pytest.MonkeyPatch) -> None:
    assert declaration_file("my_robot:Arm-v0") == declaration_file("serve:/opt/python:other:Arm-v0") == Path("environments/Arm-v0.toml")
    assert declaration_file("Meta-World/peg-v3") == Path("environments/Meta-World_peg-v3.toml")
    monkeypatch.setenv("TANDEM_ENVIRONMENTS", "/robots")
    assert declaration_file("my_robot:Arm-v0") == Path("/robots/Arm-v0.toml")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"return_range": [1, 0]}, r"here: 'return_range' is \[1, 0\], expected \[lowest, highest\]"),
        ({"return_range": [0, float("inf")]}, "'return_range' is .* two finite numbers"),
        ({"return_range": 1.0}, "'return_range' is 1.0, expected"),
        ({"success_key": 3}, "'success_key' is 3, expected a word"),
        ({"scales": {"state": [1, 0]}}, "'scales.state' is 0, expected a number above 0"),
        ({"scales": 2.0}, "'scales' is 2.0, expected a table"),
        ({"control_hz": "fast"}, "'control_hz' is 'fast', expected a number above 0"),
        ({"control_hz": True}, "'control_hz' is True"),
        ({"max_episode_steps": 2.5}, "'max_episode_steps' is 2.5, expected a whole number from 1"),
        ({"action": {"axes": "xyz"}}, "'action.axes' is 'xyz', expected a list of words"),
        ({"action": ["x"]}, r"'action' is \['x'\], expected a table"),
        ({"cameras": "front"}, "'cameras' is 'front', expected a list of words"),
        ({"sucess_key": "done"}, "no declaration is called 'sucess_key'; there are return_range, success_key, scales"),
        (["return_range"], "expected a dict of declarations, got list"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_expected(given: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_mapping(given, "here")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[scales]\nstatus = 2.0\n", "'scales' is about the observation entry 'status', expected one of state"),
        ("[scales]\nstate = [1.0, 2.0]\n", r"'scales.state' is 2 numbers, expected one number, or 3 for the shape \(3,\)"),
        ('cameras = ["state"]\n', r"'cameras' is the entry 'state' of shape \(3,\) float32, expected \(height, width, channels\) uint8"),
        ('[action]\naxes = ["x", "y"]\n', "'action.axes' is 2 names, expected 1, one for each axis"),
        ("control_hz = \n", r"Drive-v0.toml is not TOML: .*line 1"),
    ],
)
def test_a_declaration_that_does_not_fit_the_environment_is_refused(text: str, says: str) -> None:
    declare("strange:Drive-v0", text)
    with pytest.raises(ConfigError, match=says):
        make_env("strange:Drive-v0")


def test_nothing_declared_changes_nothing() -> None:
    spec = spec_for("strange:Drive-v0")
    assert Declaration().applied(spec) == spec
    declare("strange:Drive-v0", "")
    assert read_file(declaration_file("strange:Drive-v0")) == Declaration()


def test_an_episode_ends_by_the_declared_length_for_every_learner() -> None:
    env, batch = make_env("strange:Declared-v0"), make_batch("strange:Declared-v0", 2)
    env.reset(seeds=[0])
    batch.reset(seed=0)
    ends = [bool(env.step(np.zeros((1, 1))).truncated[0]) for _ in range(5)]
    assert ends == [False] * 4 + [True]
    assert [batch.step(np.zeros((2, 1)))[3].tolist() for _ in range(6)] == [[False] * 2] * 4 + [[True] * 2, [False] * 2], "and begins anew"
    env.close()
    batch.close()


def test_an_environment_without_a_length_is_cut_off_at_the_length_of_its_spec(here: Path) -> None:
    declare("strange:NoSuccess-v0", "max_episode_steps = 3\n")
    env = make_env("strange:NoSuccess-v0", 2)
    env.reset(seeds=[0, 1])
    env.step(np.zeros((2, 1)))
    env.reset([1], [2])
    assert env.step(np.zeros((2, 1))).truncated.tolist() == [False, False]
    assert env.step(np.zeros((2, 1))).truncated.tolist() == [True, False], "each row counts its own episode"


@pytest.mark.parametrize(("name", "known"), [("Drive", True), ("OtherKey", True), ("NoSuccess", False)])
def test_success_is_known_where_info_has_it(name: str, known: bool) -> None:
    env = make_env(f"strange:{name}-v0")
    env.reset(seeds=[0])
    steps = [env.step(np.ones((1, 1))) for _ in range(4)]
    assert [step.success_known for step in steps] == [known] * 4
    assert [bool(step.success[0]) for step in steps] == [False, False, known, False], "on the step that achieved it"


def test_success_inside_of_final_info_counts() -> None:
    from tandem.envs.foreign import reported_success

    assert reported_success({"final_info": {"succeed": np.array([1.0])}}) is True
    assert reported_success({"final_info": None, "is_success": np.False_}) is False
    assert reported_success({"other": 1}) is None
    assert reported_success({"success": True, "solved": False}, "solved") is False, "the declared key alone"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Fails", r"'strange:Fails-v0' failed in step\(\): RuntimeError: motor 3 does not answer \(strange.py, line \d+\)"),
        ("FailsToReset", r"failed in reset\(\): RuntimeError: the gripper is not calibrated \(strange.py, line"),
    ],
)
def test_an_error_of_the_environment_names_the_call_and_the_place(name: str, says: str) -> None:
    with pytest.raises(EnvironmentFailed, match=says):
        _step_until_it_fails(name, make_env)
    with pytest.raises(EnvironmentFailed, match=says):
        _step_until_it_fails(name, make_batch)


def _step_until_it_fails(name: str, make: Any) -> None:
    env = make(f"strange:{name}-v0", 1)
    env.reset()
    for _ in range(40):
        env.step(np.zeros((1, 1)))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("strange:NotMade-v0", "could not be made: OSError: no licence file .*the environment's own error"),
        ("strange:Several-v0", "could not be made: .*inherit.* Tandem takes environments with one agent"),
        (
            "strange:Nested-v0",
            "'pixels': Tandem needs a Box or a flat Dict of Boxes.* nested.* 'front' are pictures: beside the others they are learned from",
        ),
    ],
)
def test_what_cannot_be_made_is_said_in_words(name: str, says: str) -> None:
    with pytest.raises((ConfigError, EnvironmentFailed), match=says):
        make_env(name)


def test_a_package_that_the_module_needs_is_named_and_not_the_path(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "needs_more.py").write_text("import package_that_nobody_has\n")
    (here / "breaks.py").write_text("raise RuntimeError('half installed')\n")
    monkeypatch.syspath_prepend(here)
    with pytest.raises(ConfigError, match="needs the package 'package_that_nobody_has', which is not installed") as raised:
        make_env("needs_more:Arm-v0")
    assert "PYTHONPATH" not in str(raised.value)
    with pytest.raises(ConfigError, match="PYTHONPATH"):
        make_env("nowhere_at_all:Arm-v0")
    with pytest.raises(EnvironmentFailed, match=r"'breaks:Arm-v0' failed in `import breaks`: RuntimeError: half installed"):
        make_env("breaks:Arm-v0")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "Pixels",
            r"RLPD cannot learn from the observation entry 'pixels' of 'strange:Pixels-v0': its role is 'image' .*encode first",
        ),
        ("FloatPixels", r"RLPD cannot learn from the observation entry 'state' .*\(64, 64, 3\) float32 is that of a picture"),
    ],
)
def test_pictures_are_refused_in_words(name: str, says: str) -> None:
    spec = spec_for(f"strange:{name}-v0")
    with pytest.raises(ConfigError, match=says):
        require_learnable(spec)
    with pytest.raises(ConfigError, match=says.replace("RLPD", "PPO")):
        agent_for(OnPolicyConfig(task=spec.task), spec)
