"""What an RLPD run keeps, publishes and writes down around its learner steps."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tandem.agents.sac import SACConfig
from tandem.doctor.records import load_run
from tandem.envs.registry import make
from tandem.link.messages import Command
from tandem.link.trainer_end import TrainerEnd
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.sync import train
from tandem.off_policy.trainer import Trainer
from tandem.off_policy.trainer_process import RlpdTraining, TrainerLoop
from tandem.runs.checkpoint import read_policy
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder

SMALL = TrainConfig(
    task="reach",
    agent=SACConfig(hidden=(16, 16)),
    batch_size=16,
    training_starts=20,
    steps_per_update=10,
    eval_period=0,
    eval_episodes=2,
    final_episodes=0,
    num_envs=2,
    updates_per_actor_step=0.5,
)


def published(run: RunFolder) -> dict[int, str]:
    return {event["version"]: event["hash"] for event in run.events() if event["kind"] == "published"}


@pytest.mark.parametrize(("eval_period", "max_steps"), [(15, 25), (20, 20)])
def test_a_version_names_one_set_of_parameters_published_or_kept(eval_period: int, max_steps: int, tmp_path: Path) -> None:
    """Evaluated at step 15 and stopped at step 25, between the publications at 10, 20 and 30; or exactly at one."""
    train(replace(SMALL, eval_period=eval_period, max_steps=max_steps), tmp_path / "run", Display("quiet"))
    run = RunFolder.open(tmp_path / "run")
    by_version = published(run)
    assert len(by_version) == 3
    kept = [read_policy(file)[0] for file in (run.best_policy, run.latest_policy)]
    assert [snapshot.learner_step for snapshot in kept] == [eval_period, max_steps]
    for snapshot in kept:
        assert by_version.setdefault(snapshot.version, snapshot.hash) == snapshot.hash, "another policy has this version"
    assert len(by_version) == (5 if eval_period == 15 else 3), "a policy that was published keeps its number"


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[TrainerLoop]:
    config = replace(SMALL, stop_success=0.0, stop_evaluations=2)  # every evaluation is good enough
    spec = make("reach").get_wrapper_attr("task_spec")
    run = RunFolder.create(tmp_path / "run", "rlpd", config, spec)
    link = TrainerEnd(run.path, spec)
    loop = TrainerLoop(RlpdTraining(Trainer(config, run, spec, [], Display("quiet"), link)), link)
    loop.training.begin()
    yield loop
    link.close()
    run.close()


def test_a_person_may_ask_for_evaluations_without_ending_the_run(loop: TrainerLoop) -> None:
    training = loop.training
    for _ in range(3):
        loop.handle_command(Command("evaluate", "trainer", {}))
    assert training.campaign.stop_reason is None
    assert len([row for row in training.run.metrics() if "eval/success" in row]) == 3 and training.run.best_policy.exists()
    training.evaluate()
    training.evaluate()
    assert training.campaign.stop_reason == "stop_success (0) reached in 2 evaluations in a row"


def test_how_many_transitions_the_two_buffers_hold_is_logged(tmp_path: Path) -> None:
    """Without demonstration files; the person:scripted operator corrects, and what it corrects is a demonstration too."""
    summary = train(replace(SMALL, max_steps=30, operator="person:scripted"), tmp_path / "run", Display("quiet"))
    row = RunFolder.open(tmp_path / "run").metrics()[-1]
    assert row["clock/online_transitions"] > 0
    assert row["clock/demo_transitions"] == summary["demo_transitions"] > 0


def test_what_the_doctor_reads_is_in_events_not_in_sentences(tmp_path: Path) -> None:
    train(replace(SMALL, max_steps=30), tmp_path / "run", Display("quiet"))
    run = RunFolder.open(tmp_path / "run")
    run.log_file.unlink()  # for people alone
    records = load_run(run.path)
    assert [event["version"] for event in records.published] == [1, 2, 3, 4] and records.demo_transitions == 0
    assert [event["learner_step"] for event in records.published] == [0, 10, 20, 30]
    run.events_file.write_text("".join(line + "\n" for line in run.events_file.read_text().splitlines() if "published" not in line))
    old = load_run(run.path)
    assert old.published == [] and old.clocks.policy_version == 4, "a run from before these events: known by its metrics alone"


def test_of_very_many_publications_the_doctor_reads_the_newest(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", "rlpd", SMALL, make("reach").get_wrapper_attr("task_spec"))
    for version in range(1, 251):
        run.event("published", version=version, hash="same", learner_step=version)
    run.event("stopped", reason="enough")
    records = load_run(run.path)
    assert [event["version"] for event in records.published] == list(range(151, 251)) and records.clocks.policy_version == 250
    assert len(records.events_of("stopped")) == 1
