"""HG-DAgger imitates demonstrations and corrections, and nothing else."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tandem.agents.sac_config import SACConfig
from tandem.data.demos import load_demos
from tandem.data.journal import Journal
from tandem.envs.registry import make_env, make_expert
from tandem.errors import ConfigError
from tandem.layouts import Layout
from tandem.link.trainer_end import TrainerEnd, open_journal
from tandem.networks.numpy_policy import NumpyPolicy
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.dagger import BLOCK, Dagger, DaggerLoop
from tandem.programs.dagger import DaggerArgs, dagger, run_config
from tandem.programs.record import record_demos
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.types import Transition

CONFIG = TrainConfig(
    task="reach",
    agent=SACConfig(hidden=(32, 32), learning_rate=2e-3),
    batch_size=64,
    clone_steps=400,
    updates_per_actor_step=10.0,
    max_steps=1000,
    eval_period=0,
    final_episodes=0,
)


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> list[Transition]:
    env = make_env("reach")
    return load_demos(record_demos(env, make_expert("reach", 0), 12, tmp_path_factory.mktemp("demos"), seed=0), env.spec)


def corrected(demos: list[Transition], action: float, intervened: bool, source: str) -> list[Transition]:
    """The same places, but everywhere this action."""
    acted = np.full(3, action, np.float32)
    return [
        dataclasses.replace(step, action=acted, intervened=intervened, source=source, seq=n, policy_version=1)
        for n, step in enumerate(demos[:60])
    ]


def learner(folder: Path, demos: list[Transition]) -> tuple[Dagger, Journal]:
    spec = make_env("reach").spec
    run = RunFolder.create(folder / "run", "dagger", CONFIG, spec)
    journal = open_journal(run.path, spec, read_only=False)
    return Dagger(CONFIG, run, spec, demos, Display("quiet"), TrainerEnd(run.path, spec)), journal


def mean_action(made: Dagger, demos: list[Transition]) -> float:
    assert made.snapshot is not None
    layout = Layout(made.spec)
    seen = layout.flatten({name: np.stack([step.observation[name] for step in demos[:60]]) for name in made.spec.observation})
    return float(NumpyPolicy(made.snapshot.parameters).mode(seen).mean())


def test_it_learns_corrections_and_not_what_the_policy_did_itself(tmp_path: Path, demos: list[Transition]) -> None:
    made, journal = learner(tmp_path, demos)
    made.begin()
    assert made.version == 1 and made.steps == 400 and (tmp_path / "run" / "policy.bin").exists(), "the actors have a clone to act with"
    before = mean_action(made, demos)
    journal.append(corrected(demos, -0.9, intervened=False, source="policy"))
    assert made.receive() == 60 and made.credit == 0 and len(made.data) == len(demos), "its own steps earn and teach nothing"
    journal.append(corrected(demos, 0.9, intervened=True, source="person"))
    made.link._looked_at = -1  # the hub writes the board; here nobody does
    made.receive()
    assert made.credit == 600 and made.data.corrections == 60
    reason = DaggerLoop(made).run()
    assert "max_steps" in reason and made.version > 1
    assert mean_action(made, demos) > before + 0.2, "it does what the person did there"
    summary = made.finish(reason)
    assert summary["corrections"] == 60 and summary["demo_transitions"] == len(demos)
    assert made.data.forget({("person", step.episode) for step in demos}) == 60 and len(made.data) == len(demos), "discarded episodes"
    assert made.steps == BLOCK * 12 + 400


def test_what_it_cannot_begin_with_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing to begin with"):
        dagger(["reach"])
    with pytest.raises(ConfigError, match="nobody could correct the clone"):
        dagger(["reach", "--operator", "none"])
    config = run_config(DaggerArgs("reach", first_updates=7, updates_per_correction=3.0), (Path("demos.db"),))
    assert (config.clone_steps, config.updates_per_actor_step, config.operator) == (7, 3.0, "browser")
