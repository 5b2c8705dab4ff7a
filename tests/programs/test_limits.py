"""`tandem limits`, and that no command moves a robot without limits unless that was typed."""

import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from tandem.acting.evaluate import evaluate
from tandem.acting.limits import Asked, opened_for
from tandem.cli import run
from tandem.data.demos import load_demos
from tandem.envs.registry import make_batch, spec_for
from tandem.errors import ConfigError

MODULE = '''
import gymnasium, numpy as np

Box = gymnasium.spaces.Box

class Slide(gymnasium.Env):
    """Moves by what it is told, in m; done after five steps. What it was told is kept."""
    observation_space = Box(-np.inf, np.inf, (1,), np.float32)
    action_space = Box(-0.1, 0.1, (1,), np.float32)
    metadata = {"clock": "real", "render_modes": ["rgb_array"], "render_fps": 50, "tandem": {"action": {"axes": ["slide"], "units": ["m"]}}}
    told = []
    def __init__(self, render_mode=None):
        self.render_mode = render_mode
    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.count = 0.0, 0
        return np.array([0.0], np.float32), {}
    def step(self, action):
        Slide.told.append(float(action[0]))
        self.place, self.count = self.place + float(action[0]), self.count + 1
        done = self.count == 5
        return np.array([self.place], np.float32), float(done), done, False, {"success": done}
    def render(self):
        return np.zeros((64, 64, 3), np.uint8)
    def halt(self):
        pass

class Push:
    name = "push"
    def reset(self): pass
    def decide(self, observation, proposed=None): return np.ones(1, np.float32), True

class Simulated(Slide):
    metadata = {**Slide.metadata, "clock": "simulated"}

gymnasium.register("Slide-v0", Slide)
gymnasium.register("Simulated-v0", Simulated)
'''
ROBOT = "slides:Slide-v0"
SLOW = "[axis.slide]\nspeed_m_per_s = 1.0\n"  # 0.1 m at 50 Hz are 5 m/s: a fifth


@pytest.fixture(autouse=True)
def slides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    (tmp_path / "slides.py").write_text(MODULE)
    (tmp_path / "slow.toml").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    import slides  # pyright: ignore[reportMissingImports]

    yield slides.Slide.told
    sys.modules.pop("slides")
    for name in ("Slide-v0", "Simulated-v0"):
        gymnasium.registry.pop(name)


@pytest.mark.parametrize(
    "command",
    [
        ["record", ROBOT, "--operator", "slides:Push", "--demos", "1"],
        ["record", ROBOT, "--operator", "browser", "--demos", "1"],
        ["play", ROBOT, "--operator", "random", "--film"],
        ["env", "describe", ROBOT],
        ["train", ROBOT, "--pace", "realtime"],
        ["actor", ROBOT, "--pace", "realtime"],
    ],
)
def test_no_command_moves_a_robot_without_limits(command: list[str], slides: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_TOKEN", "t")
    with pytest.raises(ConfigError, match=r"moves a robot and no limits were given.*--limits FILE.*--no-limits"):
        run(command[0], command[1:])
    Path("nothing.toml").write_text("stall_s = 1.0\n")
    with pytest.raises(ConfigError, match=r"moves a robot and the file nothing.toml limits nothing"):
        run(command[0], [*command[1:], "--limits", "nothing.toml"])
    with pytest.raises(ConfigError, match=r"contradict each other"):
        run(command[0], [*command[1:], "--limits", "slow.toml", "--no-limits"])
    assert slides == [] and not Path("runs").exists()


def test_commands_that_are_not_for_robots_refuse_one(slides: list[float]) -> None:
    with pytest.raises(ConfigError, match=r"moves a robot.*many simulations"):
        make_batch(ROBOT, 2)
    with pytest.raises(ConfigError, match="--sync is not for a robot"):
        run("train", [ROBOT, "--sync", "--pace", "realtime", "--max-steps", "1"])
    assert slides == []


def test_limits_hold_while_recording_playing_and_looking(slides: list[float]) -> None:
    run("record", [ROBOT, "--operator", "slides:Push", "--demos", "2", "--limits", "slow.toml", "--quiet"])
    np.testing.assert_allclose(slides, 0.02, rtol=1e-5)
    [file] = Path("demos").glob("*.db")
    np.testing.assert_allclose([step.action for step in load_demos(file, spec_for(ROBOT))], 0.2, atol=1e-6)
    run("play", [ROBOT, "--operator", "slides:Push", "--film", "--episodes", "1", "--limits", "slow.toml"])
    run("env", ["describe", ROBOT, "--episodes", "1", "--limits", "slow.toml"])
    assert len(slides) == 20 and max(np.abs(slides)) == pytest.approx(0.02)
    run("record", [ROBOT, "--operator", "slides:Push", "--demos", "1", "--no-limits", "--quiet"])
    np.testing.assert_allclose(slides[20:], 0.1, rtol=1e-5)


def test_limits_hold_while_a_policy_is_evaluated(slides: list[float]) -> None:
    """As `tandem eval` does it."""
    with pytest.raises(ConfigError, match="moves a robot and no limits were given"):
        evaluate(ROBOT, lambda seen: np.ones((1, 1)), [0], accept=opened_for(ROBOT, Asked()))
    evaluate(ROBOT, lambda seen: np.ones((1, 1)), [0, 1], accept=opened_for(ROBOT, Asked(Path("slow.toml"))))
    np.testing.assert_allclose(slides, [0.02] * 10, rtol=1e-5)


def test_a_simulation_needs_no_limits_and_may_have_them(slides: list[float]) -> None:
    run("record", ["slides:Simulated-v0", "--operator", "slides:Push", "--demos", "1", "--quiet"])
    run("record", ["slides:Simulated-v0", "--operator", "slides:Push", "--demos", "1", "--quiet", "--limits", "slow.toml"])
    np.testing.assert_allclose(slides, [0.1] * 5 + [0.02] * 5, rtol=1e-5)


def test_check_says_what_limits_mean(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("limits", ["check", "slow.toml", "--task", ROBOT]) == 0
    said = capsys.readouterr().out
    for line in (
        "slide: at most 1 m/s, 20.0% of what the action can do; workspace not limited",
        "force: not limited",
        "a step that takes longer than 2 s is stopped",
    ):
        assert line in said
    assert run("limits", ["check", "slow.toml"]) == 0
    assert "slide: at most 1 m/s" in capsys.readouterr().out


def test_check_names_all_problems_and_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.toml").write_text("force_n = nan\n[axis.slide]\nspeed_m_per_s = -5\n")
    for options in ([], ["--task", ROBOT]):
        assert run("limits", ["check", "bad.toml", *options]) == 1
        said = capsys.readouterr().out
        assert "'force_n' is nan" in said and "'speed_m_per_s' is -5" in said
    assert run("limits", ["check", "slow.toml", "--task", "reach"]) == 1
    assert "[axis.slide]: no such axis; the action has x, y, z" in capsys.readouterr().out


def test_template_writes_a_file_that_check_accepts(capsys: pytest.CaptureFixture[str]) -> None:
    run("limits", ["template", "gear_assembly", "--out", "gear.toml"])
    assert run("limits", ["check", "gear.toml", "--task", "gear_assembly"]) == 0
    assert "beyond 20 N in 'wrench'" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="was not written over"):
        run("limits", ["template", "gear_assembly", "--out", "gear.toml"])
