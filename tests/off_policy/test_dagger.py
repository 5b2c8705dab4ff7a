"""HG-DAgger imitates demonstrations and corrections, and nothing else."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tandem.acting.policy import act_with
from tandem.agents.sac_config import SACConfig
from tandem.agents.sac_start import agent_for, with_policy
from tandem.data.demos import load_demos
from tandem.data.journal import Journal
from tandem.envs.registry import make_env, make_expert
from tandem.errors import ConfigError
from tandem.layouts import Layout
from tandem.link.trainer_end import TrainerEnd, open_journal
from tandem.networks.numpy_policy import NumpyPolicy
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.dagger import BLOCK, Dagger
from tandem.off_policy.recipes import fitted
from tandem.off_policy.trainer_process import TrainerLoop
from tandem.programs.dagger import DaggerArgs, dagger, read_args, run_config
from tandem.programs.record import record_demos
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.types import Transition
from tests.grasp_task import Presses, odd_tasks  # noqa: F401  a fixture

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


def learner(folder: Path, demos: list[Transition], config: TrainConfig = CONFIG) -> tuple[Dagger, Journal]:
    spec = make_env(config.task).spec
    run = RunFolder.create(folder / "run", "dagger", config, spec)
    journal = open_journal(run.path, spec, read_only=False)
    return again(run, demos, config), journal


def again(run: RunFolder, demos: list[Transition], config: TrainConfig = CONFIG) -> Dagger:
    """The learner of a process that was started again."""
    return Dagger(config, run, run.spec, demos, Display("quiet"), TrainerEnd(run.path, run.spec))


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
    assert made.receive() == 60 and made.campaign.progress.credit == 0 and len(made.data) == len(demos), (
        "its own steps earn and teach nothing"
    )
    journal.append(corrected(demos, 0.9, intervened=True, source="person"))
    made.link._looked_at = -1  # the hub writes the board; here nobody does
    made.receive()
    assert made.campaign.progress.credit == 600 and made.data.corrections == 60
    reason = TrainerLoop(made, made.link).run()
    assert "max_steps" in reason and made.version > 1
    assert mean_action(made, demos) > before + 0.2, "it does what the person did there"
    summary = made.finish(reason)
    assert summary["corrections"] == 60 and summary["demo_transitions"] == len(demos)
    assert made.data.forget({("person", step.episode) for step in demos}) == 60 and len(made.data) == len(demos), "discarded episodes"
    assert made.steps == BLOCK * 12 + 400


def test_a_learner_that_is_started_again_goes_on_as_if_it_had_not_ended(tmp_path: Path, demos: list[Transition]) -> None:
    config = dataclasses.replace(CONFIG, clone_steps=100, checkpoint_period=100)
    made, journal = learner(tmp_path, demos, config)
    made.begin()
    journal.append(corrected(demos, 0.9, intervened=True, source="person"))
    journal.append(corrected(demos, -0.9, intervened=False, source="policy"))
    made.receive()
    made.step()
    assert not made.checkpoint_due, "150 updates"
    made.step()
    assert made.checkpoint_due, "200"
    made.save()
    made.step()
    other = again(made.run, demos, config)
    other.restore()
    assert other.clocks == dataclasses.replace(made.clocks, learner_step=200, policy_version=other.version)
    assert other.version > made.version and other.data.corrections == 60 and other.campaign.progress.credit == 500  # 600 earned, 100 made
    assert other.receive() == 0, "what it had received is not received again"
    other.step()
    assert made.snapshot is not None and other.snapshot is not None
    assert made.snapshot.parameters.keys() == other.snapshot.parameters.keys()
    for name, array in made.snapshot.parameters.items():
        assert np.array_equal(array, other.snapshot.parameters[name]), name


def test_a_discarded_episode_that_arrives_late_is_not_imitated(tmp_path: Path, demos: list[Transition]) -> None:
    made, journal = learner(tmp_path, demos)
    steps = corrected(demos, 0.9, intervened=True, source="person")
    journal.append(steps)
    thrown = sum(step.episode == steps[0].episode for step in steps)
    journal.discard([("person", steps[0].episode)])
    made.receive()
    assert made.data.corrections == 60 - thrown < 60
    journal.append([dataclasses.replace(steps[0], seq=60)])  # one that was still on its way
    made.link._looked_at = -1  # the hub writes the board; here nobody does
    made.receive()
    assert made.data.corrections == 60 - thrown


def test_choices_are_imitated_as_they_were_shown(odd_tasks: None, tmp_path: Path) -> None:  # noqa: F811
    file = record_demos(make_env("grasp"), Presses(0), 6, tmp_path / "demos", seed=0)
    config = dataclasses.replace(
        CONFIG, task="grasp", clone_steps=800, agent=SACConfig(hidden=(32,), learning_rate=3e-3, grasp_ensemble_size=2)
    )
    demos = load_demos(file, make_env("grasp").spec)
    made, _ = learner(tmp_path, demos, config)
    made.begin()
    assert made.snapshot is not None
    chosen = act_with(made.snapshot, made.spec)(
        {name: np.stack([step.observation[name] for step in demos]) for name in made.spec.observation}
    )
    shown = np.stack([step.action for step in demos])
    assert 0 < (shown[:, 3] == 0).sum() < len(shown), "it was shown to close near the ball, and to hold elsewhere"
    assert (chosen[:, 3] == shown[:, 3]).mean() > 0.95
    assert np.abs(chosen[:, :3] - shown[:, :3]).mean() < 0.1
    agent = agent_for(config.agent, made.spec)
    started = agent.policy_parameters(with_policy(agent, agent.init(0), made.snapshot.parameters))
    assert np.array_equal(started["grasp/head/weight"], made.snapshot.parameters["grasp/head/weight"]), "RLPD starts from it"


def test_what_it_cannot_begin_with_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing to begin with"):
        dagger(["reach"])
    with pytest.raises(ConfigError, match="nobody could correct the clone"):
        dagger(["reach", "--operator", "none"])
    with pytest.raises(ConfigError, match="which task"):
        dagger([])
    config = run_config(DaggerArgs("reach", first_updates=7, updates_per_correction=3.0), "reach", (Path("demos.db"),))
    assert (config.clone_steps, config.updates_per_actor_step, config.operator) == (7, 3.0, "browser")
    assert config.agent.grasp_ensemble_size == fitted().agent.grasp_ensemble_size


def test_a_run_is_continued_with_its_settings_except_what_is_typed(tmp_path: Path) -> None:
    config = run_config(DaggerArgs("reach", first_updates=7, hidden=(8, 8), eval_period=0), "reach", (Path("demos.db"),))
    RunFolder.create(tmp_path / "run", "dagger", config, make_env("reach").spec)
    asked = read_args(["--resume", str(tmp_path / "run"), "--max-updates", "9"])
    assert run_config(asked, "reach", asked.demos) == dataclasses.replace(config, max_steps=9)
    RunFolder.create(tmp_path / "other", "rlpd", config, make_env("reach").spec)
    with pytest.raises(ConfigError, match="tandem train --resume"):
        dagger(["--resume", str(tmp_path / "other")])
