"""A run on an environment that declares nothing: scales and range come from its demonstrations and are frozen into the run."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.acting.policy import load_any_policy
from tandem.agents.bc import BCConfig
from tandem.agents.sac_config import SACConfig
from tandem.data.demos import load_demos
from tandem.envs.registry import make_env, spec_for
from tandem.errors import SpecMismatch
from tandem.off_policy.cloning import CloneArgs, clone_demos
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.run_spec import decide_spec
from tandem.off_policy.sync import train
from tandem.programs.record import record_demos
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.types import Observation
from tests.envs.strange_envs import strange_module

TASK = "strange:Drive-v0"
QUIET = Display("quiet")


class Forward:
    """Drives to the goal."""

    name = "forward"

    def reset(self) -> None: ...

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        return np.array([0.4], np.float32), True


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with strange_module(tmp_path_factory.mktemp("strange")) as folder:
        yield record_demos(make_env(TASK), Forward(), 5, folder, seed=0)


def config(demos: Path, **changes: Any) -> TrainConfig:
    small = TrainConfig(task=TASK, agent=SACConfig(hidden=(8,)), demos=(demos,), batch_size=8, training_starts=10, steps_per_update=5)
    return dataclasses.replace(small, **{"max_steps": 10, "eval_period": 0, "final_episodes": 0, **changes})


def test_the_demonstrations_give_scales_and_range_and_each_is_said(demos: Path) -> None:
    said: list[str] = []
    spec, steps = decide_spec(spec_for(TASK), [demos], say=said.append)
    assert spec.observation["state"].scales()[0] > 75 and spec.observation["state"].scales()[2] == 1 and spec.return_range == (0.0, 1.0)
    assert len(steps) == len(load_demos(demos, spec_for(TASK)))
    assert [line.split(",")[0].split(":")[0] for line in said] == [
        "'state'",
        "never change in the demonstrations",
        "return_range [0",
    ]
    assert "state[2]" in said[1] and "state[0]" not in said[1]


def test_a_task_of_tandems_own_is_left_as_it_is() -> None:
    decided, own = decide_spec(spec_for("reach"), [])[0], spec_for("reach")
    assert decided.hash == own.hash and decided.scales() == own.scales() and not decided.difference(own)


def test_a_run_keeps_the_scales_it_began_with(demos: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(config(demos), run, QUIET)
    frozen = RunFolder.open(run).spec
    assert frozen.observation["state"].scales()[0] > 75 and frozen.return_range == (0.0, 1.0)
    train(config(demos, max_steps=15), run, QUIET, resume=True)
    assert RunFolder.open(run).spec == frozen and (RunFolder.open(run).summary() or {})["learner_step"] == 15
    policy, own = load_any_policy(run, "latest", spec_for(TASK))
    assert own.hash == frozen.hash and policy.hash, "it acts by its own scales, whatever the environment's are"


def test_an_environment_that_changed_is_not_gone_on_with(demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    train(config(demos), run, QUIET)
    monkeypatch.chdir(tmp_path)
    Path("environments").mkdir()
    Path("environments/Drive-v0.toml").write_text("control_hz = 25\n")
    with pytest.raises(SpecMismatch, match=r"spec: control_hz: 10.0 here, 25.0 there \(here: the run, there: the environment\)"):
        train(config(demos, max_steps=15), run, QUIET, resume=True)


def test_a_run_that_starts_from_a_clone_sees_through_the_clones_scales(demos: Path, tmp_path: Path) -> None:
    cloned, run = tmp_path / "bc", tmp_path / "run"
    args = CloneArgs(TASK, (demos,), BCConfig(max_steps=20, eval_period=10), hidden=(8,), final_episodes=0)
    clone_demos(args, cloned, QUIET)
    one_more = record_demos(make_env(TASK), Forward(), 1, tmp_path, seed=9)
    train(config(one_more), run, QUIET, init_from=cloned)
    assert RunFolder.open(run).spec.hash == RunFolder.open(cloned).spec.hash
