"""Cloning as a run, and what one can do with a run afterwards: start another, judge it, watch it."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tandem.acting.policy import PolicyOperator, act_with, load_policy
from tandem.agents.bc import BCConfig
from tandem.agents.sac_config import SACConfig
from tandem.envs.registry import make_env, make_expert
from tandem.errors import ConfigError, FileMissing
from tandem.off_policy.cloning import CloneArgs, clone_demos
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.sync import train
from tandem.programs.record import play_episode, record_demos
from tandem.runs.checkpoint import read_policy
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder

HIDDEN = (32, 32)


@pytest.fixture(scope="module")
def cloned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Demonstrations, and a run that cloned them."""
    folder = tmp_path_factory.mktemp("cloning")
    demos = record_demos(make_env("reach"), make_expert("reach", 0), 30, folder, seed=0)
    args = CloneArgs("reach", (demos,), BCConfig(learning_rate=2e-3, min_steps=1000, patience=5), hidden=HIDDEN, final_episodes=50)
    clone_demos(args, folder / "run", Display("quiet"))
    return demos, folder / "run"


def tandem(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tandem.cli", *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_clones_of_a_simple_skill_do_it_and_both_policies_are_kept(cloned: tuple[Path, Path]) -> None:
    _, run = cloned
    summary = json.loads((run / "summary.json").read_text())
    assert summary["deterministic"]["success"] >= 0.7, summary
    best, _ = read_policy(run / "checkpoints" / "best.safetensors")
    last, _ = read_policy(run / "checkpoints" / "latest.safetensors")
    assert best.learner_step < last.learner_step == summary["learner_step"] and best.hash != last.hash
    losses = [row["bc/validation_loss"] for row in RunFolder.open(run).metrics()]
    assert best.learner_step == BCConfig.eval_period * (1 + int(np.argmin(losses))), "the best is that of the lowest validation loss"


def test_a_clone_starts_rlpd_with_its_very_parameters(cloned: tuple[Path, Path], tmp_path: Path) -> None:
    demos, run = cloned
    config = TrainConfig(task="reach", agent=SACConfig(hidden=HIDDEN), demos=(demos,), max_steps=1, eval_period=0, final_episodes=0)
    train(replace(config, training_starts=10, batch_size=16), tmp_path / "rlpd", Display("quiet"), init_from=run)
    snapshot, _ = load_policy(run)
    assert f"version 1, {snapshot.hash}" in (tmp_path / "rlpd" / "train.log").read_text()


def test_a_policy_acts_the_same_from_a_file_and_as_an_operator(cloned: tuple[Path, Path]) -> None:
    snapshot, spec = load_policy(cloned[1])
    episode = play_episode(make_env("reach"), PolicyOperator(snapshot, spec), seed=7)
    first = {name: values[None] for name, values in episode[0].observation.items()}
    assert np.array_equal(episode[0].action, act_with(snapshot, spec)(first)[0]) and not episode[0].intervened
    drawn = [act_with(snapshot, spec, stochastic_seed=s)(first) for s in (0, 0, 1)]
    assert np.array_equal(drawn[0], drawn[1]) and not np.array_equal(drawn[0], drawn[2])


def test_eval_judges_a_run_deterministically_and_says_which_policy_it_was(cloned: tuple[Path, Path]) -> None:
    one, other = (json.loads(tandem("eval", cloned[1], "--episodes", 20, "--json").stdout) for _ in range(2))
    assert one == other and one["episodes"] == 20
    assert one["hash"] == load_policy(cloned[1])[0].hash
    shown = tandem("eval", cloned[1] / "checkpoints" / "best.safetensors", "--episodes", 5, "--stochastic").stdout
    assert "stochastic" in shown and re.search(r"success .* %", shown)


def test_nothing_to_clone_and_nothing_to_judge_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--demos"):
        clone_demos(CloneArgs("reach", ()), tmp_path / "run", Display("quiet"))
    with pytest.raises(FileMissing, match="latest"):
        load_policy(tmp_path)
