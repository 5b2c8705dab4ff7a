"""An operator of a user's: found by name, made with what it asks for, checked, and run in another Python if need be."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.acting.operators import make_operators
from tandem.data.demos import load_demos, read_demos
from tandem.envs.registry import make_env
from tandem.errors import ActionError, ConfigError
from tandem.programs.library import record
from tandem.teleop.own_operator import checked, own_operator
from tandem.teleop.steering import Steering
from tests.waiting import wait_for

MODULE = """
import numpy as np
import gymnasium

class Line(gymnasium.Env):
    "A point that moves to 0; an action of 2 moves it by 0.2."
    observation_space = gymnasium.spaces.Box(-2, 2, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-2, 2, (1,), np.float32)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = float(self.np_random.uniform(0.5, 1.0))
        return np.array([self.place], np.float32), {}
    def step(self, action):
        self.place += 0.1 * float(action[0])
        success = abs(self.place) < 0.11
        return np.array([self.place], np.float32), float(success), success, False, {"success": success}

gymnasium.registry.pop("Line-v0", None)
gymnasium.register("Line-v0", entry_point=Line, max_episode_steps=30)

class Towards:
    name = "towards"
    def reset(self): self.steps = 0
    def decide(self, observation, proposed=None):
        self.steps += 1
        print("a script may print")
        return -np.sign(observation["state"]), False

class Inside(Towards):
    name = "inside"
    def __init__(self, env, seed): self.env, self.seed = env, seed
    def decide(self, observation, proposed=None):
        return [-np.sign(self.env.place)], True

class Wide(Towards):
    def decide(self, observation, proposed=None): return np.zeros(2), False

class Bare(Towards):
    def decide(self, observation, proposed=None): return np.zeros(1)

class Nan(Towards):
    def decide(self, observation, proposed=None): return [float("nan")], False

class Demanding(Towards):
    def __init__(self, robot): pass

class Dying(Towards):
    def decide(self, observation, proposed=None): raise SystemExit(3)

class Mute:
    def reset(self): pass

number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with a name of its own: Python keeps what it has imported."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(MODULE))
    (tmp_path / f"{name}_needy.py").write_text("import a_package_that_nobody_has\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return name


def elsewhere(place: str) -> str:
    return f"serve:{sys.executable}:{place}"


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_class_of_your_own_records_demonstrations(module: str, where: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    operator = f"{module}:Towards" if where == "here" else elsewhere(f"{module}:Towards")
    path = record(f"{module}:Line-v0", operator, demos=3, out=tmp_path / "demos", quiet=True)
    steps = load_demos(path, make_env(f"{module}:Line-v0").spec)
    assert read_demos(path).attributes == {"operator": "towards", "seed": 0}
    assert sum(bool(step.success) for step in steps) == 3 and all(step.action.tolist() == [-1.0] and not step.intervened for step in steps)
    np.testing.assert_allclose(steps[0].observation["state"] - steps[0].next_observation["state"], 0.2, atol=1e-6)
    assert "a script may print" in "".join(capfd.readouterr()), "what it prints reaches the terminal and disturbs nothing"


def test_both_places_decide_the_same_to_the_last_bit(module: str) -> None:
    env = make_env(f"{module}:Line-v0")
    here, there = own_operator(f"{module}:Towards", env), own_operator(elsewhere(f"{module}:Towards"), env)
    for operator in (here, there):
        operator.reset()
    seen = {"state": np.array([np.float32(0.1) / 3], np.float32)}
    proposed = np.array([0.25], np.float32)
    assert here.decide(seen, proposed)[0].tobytes() == there.decide(seen, proposed)[0].tobytes()
    assert here.name == there.name == "towards"


def test_a_constructor_gets_what_it_names_and_each_robot_its_own(module: str) -> None:
    env = make_env(f"{module}:Line-v0", 2)
    operators, steering = make_operators(f"{module}:Inside", env, seed=5)
    assert isinstance(steering, Steering) and operators[0] is steering, "a page may still take over"
    inside: list[Any] = [steering.inner, operators[1]]
    scripts = [one._operator for one in inside]
    assert scripts[0].env is not scripts[1].env and scripts[0].env.__class__.__name__ == "Line" and scripts[0].seed != scripts[1].seed
    env.reset(seeds=[1, 2])
    action, by_human = inside[1].decide({}, None)
    assert action.tolist() == [-1.0] and by_human


def test_an_object_that_a_program_made_is_checked_too(module: str, tmp_path: Path) -> None:
    class Short:
        name = "short"

        def reset(self) -> None: ...

        def decide(self, observation: Any, proposed: Any = None) -> tuple[np.ndarray, bool]:
            return np.zeros(3), False

    with pytest.raises(ActionError, match=r"operator 'Short' gave an action with shape \(3,\); expected shape \(1,\)"):
        record(f"{module}:Line-v0", Short(), demos=1, out=tmp_path / "demos", quiet=True)
    assert not list((tmp_path / "demos").glob("*"))
    assert checked(Short(), make_env(f"{module}:Line-v0")).name == "short"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("no_such_module:Towards", "finds no module 'no_such_module'.*PYTHONPATH=. tandem"),
        ("MODULE_needy:Towards", "the module 'MODULE_needy' needs 'a_package_that_nobody_has'"),
        ("MODULE:Toward", "has no class 'Toward'; it has Line, Towards"),
        ("MODULE:number", "has no class 'number'"),
        ("MODULE:Mute", "has no method decide; an operator has reset"),
        ("MODULE:Demanding", "wants 'robot', and nobody can give that"),
        (":Towards", "expected module:Class"),
    ],
)
@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_what_cannot_be_an_operator_is_refused(module: str, where: str, place: str, message: str) -> None:
    env, place = make_env(f"{module}:Line-v0"), place.replace("MODULE", module)
    if where == "elsewhere" or not place.startswith(":"):
        with pytest.raises(ConfigError, match=message.replace("MODULE", module)) as refused:
            own_operator(place if where == "here" else elsewhere(place), env)
        assert "--operator" in str(refused.value)


@pytest.mark.parametrize("where", ["here", "elsewhere"])
@pytest.mark.parametrize(
    ("cls", "message"),
    [
        ("Wide", r"gave an action with shape \(2,\); expected shape \(1,\), numbers in \[-1, 1\]"),
        ("Bare", r"gave a ndarray of shape \(1,\); expected two things: \(action, by_human\)"),
        ("Nan", "values that are not finite"),
    ],
)
def test_what_is_no_decision_never_reaches_the_robot(module: str, where: str, cls: str, message: str) -> None:
    place = f"{module}:{cls}"
    operator = own_operator(place if where == "here" else elsewhere(place), make_env(f"{module}:Line-v0"))
    operator.reset()
    with pytest.raises(ActionError, match=message):
        operator.decide({"state": np.zeros(1, np.float32)})


def test_an_environment_that_is_not_gymnasiums_has_nothing_inside_to_look_at(module: str) -> None:
    for operator, env in ((f"{module}:Inside", make_env("reach")), (elsewhere(f"{module}:Inside"), make_env(f"{module}:Line-v0"))):
        with pytest.raises(ConfigError, match=r"wants 'env', and the environment is not a Gymnasium environment of this process; .* seed"):
            own_operator(operator, env)


def test_an_operator_whose_process_ends_is_said_with_its_code(module: str) -> None:
    operator = own_operator(elsewhere(f"{module}:Dying"), make_env(f"{module}:Line-v0"))
    operator.reset()
    with pytest.raises(ConfigError, match="its process ended with code 3"):
        operator.decide({"state": np.zeros(1, np.float32)})


def test_a_python_that_does_not_exist_is_said(module: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot start /no/python \(No such file or directory\)"):
        own_operator(f"serve:/no/python:{module}:Towards", make_env(f"{module}:Line-v0"))


def test_a_python_may_be_named_by_the_folder_of_its_virtual_environment(module: str) -> None:
    assert own_operator(f"serve:{sys.prefix}:{module}:Towards", make_env(f"{module}:Line-v0")).name == "towards"


def test_a_resumed_operator_begins_as_in_a_new_episode(module: str) -> None:
    operator = own_operator(f"{module}:Towards", make_env(f"{module}:Line-v0"))
    operator.restore(operator.memory())
    operator.decide({"state": np.ones(1, np.float32)})


def test_the_process_ends_with_the_program_that_asks(module: str) -> None:
    """Also when that program is killed and can tell nobody."""
    code = f"""
import os, signal
from tandem.envs.registry import make_env
from tandem.teleop.own_operator import own_operator
operator = own_operator({elsewhere(module + ":Towards")!r}, make_env({module + ":Line-v0"!r}))
print(operator._operator._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    child = int(done.stdout.split()[-1])
    wait_for(lambda: not alive(child), what="the end of the operator's process")


def alive(process: int) -> bool:
    """Whether it runs; a process that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
