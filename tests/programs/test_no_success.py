"""An environment that reports no success (Pendulum is one): every part of a run shows the return, and nothing speaks of success."""

import dataclasses
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tandem.agents.ppo_config import PPOConfig
from tandem.agents.sac_config import SACConfig
from tandem.dashboard.advice import advise, figures
from tandem.dashboard.series import Series
from tandem.data.journal import Journal
from tandem.doctor.checks import run_checks
from tandem.doctor.diagnosis import diagnose_run
from tandem.doctor.records import load_run
from tandem.doctor.show import clock_lines
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.sync import train
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.run import train_ppo
from tandem.runs.clocks import Clocks
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tests.envs.strange_envs import strange_module
from tests.programs.test_foreign_runs import tandem
from tests.programs.test_processes import SMALL

TASK = "strange:NoSuccess-v0"
RLPD = TrainConfig(
    task=TASK,
    agent=SACConfig(hidden=(8,)),
    batch_size=8,
    training_starts=10,
    steps_per_update=5,
    max_steps=200,
    eval_period=150,
    eval_episodes=1,
    final_episodes=0,
    checkpoint_period=100,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with strange_module(tmp_path_factory.mktemp("strange")) as folder:
        yield folder


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Display:
    """A terminal that prints every line."""
    monkeypatch.setattr("tandem.runs.display.LINE_EVERY_S", 0.0)
    return Display("lines", Console(file=io.StringIO(), width=400))


def printed(display: Display) -> list[str]:
    return display.console.file.getvalue().splitlines()  # pyright: ignore[reportAttributeAccessIssue]


def success_metrics(run: Path) -> list[str]:
    return sorted({name for row in RunFolder.open(run).metrics() for name in row if "success" in name})


def test_terminal_metrics_page_and_doctor_show_the_return(folder: Path, lines: Display, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(RLPD, run, lines)
    learning = [line for line in printed(lines) if line.startswith("learner ")]
    assert re.search(r"\| return -?\d+\.\d\d, mean of the last 20 \|", learning[-1]), learning[-1]
    assert not [line for line in printed(lines) if re.search(r"success \d", line)]
    assert success_metrics(run) == [], "so the page has no curve of it"
    assert any("eval/return" in row for row in RunFolder.open(run).metrics())
    series = Series(run / "metrics.jsonl")
    while series.read():
        pass
    advice = advise(figures(series, Clocks(600, 600, 10), {"training_starts": 10}, None))
    assert advice.phase == "learning by the return" and advice.because[0].startswith("return ")
    records = load_run(run)
    assert not records.reports_success and records.success is None
    pushing = dataclasses.replace(records, own_actions=np.ones((500, 1), np.float32) * np.linspace(0.98, 1, 500)[:, None])
    assert "actions_saturated" not in [finding.name for finding in run_checks(pushing)], "a good policy may push hard"
    table = list(clock_lines(diagnose_run(run)))
    head = next(line for line in table if re.match("  learner steps +policies", line))
    assert "return here" in head and "success" not in head
    row = next(line for line in table if line.startswith("  200 "))
    assert re.fullmatch(r"-?[\d.e+-]+", row.split()[-1]), row


def test_a_resumed_run_knows_it_from_its_journal(folder: Path, lines: Display, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(dataclasses.replace(RLPD, max_steps=150), run, Display("quiet"))
    train(dataclasses.replace(RLPD, max_steps=160), run, lines, resume=True)
    learning = [line for line in printed(lines) if line.startswith("learner ")]
    assert "| return " in learning[0] and success_metrics(run) == []


def test_a_limit_by_success_is_said_to_be_out_of_reach_instead_of_never_evaluating(folder: Path, lines: Display, tmp_path: Path) -> None:
    train(dataclasses.replace(RLPD, stop_success=0.9), tmp_path / "run", lines)
    assert any("stop_success (0.9) cannot be reached" in line for line in printed(lines))


def test_it_crosses_the_link(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments: tuple[Any, ...] = (*SMALL, "--max-steps", "150", "--run", str(run), "--no-film")
    code, said = tandem(folder, "train", TASK, *arguments)
    assert code == 0, said
    with Journal.open(run / "journal.db") as journal:
        stored = [step.success for _, step in journal.read()]
    assert stored and set(stored) == {None}
    assert success_metrics(run) == [] and not re.search(r"success \d", said), said


def test_ppo_logs_no_success(folder: Path, tmp_path: Path) -> None:
    config = OnPolicyConfig(
        task=TASK,
        agent=PPOConfig(actor_hidden_dims=(8,), critic_hidden_dims=(8,), num_learning_epochs=1, num_mini_batches=1),
        num_envs=2,
        num_steps_per_env=45,  # an episode has 40 steps at most
        max_iterations=2,
        eval_period=1,
        eval_episodes=1,
        final_episodes=0,
    )
    for task, known in ((TASK, []), ("strange:Drive-v0", ["Train/mean_success", "eval/success"])):
        run = tmp_path / task.replace(":", "_")
        train_ppo(dataclasses.replace(config, task=task), run, Display("quiet"))
        assert success_metrics(run) == known
        assert any("Train/mean_reward" in row for row in RunFolder.open(run).metrics())
