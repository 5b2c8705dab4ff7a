"""The learner judges the very state it keeps and publishes, and draws batches from where it should."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tandem.agents.sac_config import RLPD_PUBLISHED, SACConfig
from tandem.decisions import Decisions
from tandem.errors import ConfigError
from tandem.off_policy.sync import train
from tandem.runs.checkpoint import newest_checkpoint, read_checkpoint
from tandem.runs.display import Display
from tests.off_policy.learner_samples import CONFIG, ScriptedAgent, learn, learner_with, transition

WITH_ENTROPY = SACConfig(backup_entropy=True, temperature_init=1.0, discount=0.99, std_min=RLPD_PUBLISHED.std_min)


def events(run: Path, kind: str) -> list[dict]:
    lines = (run / "events.jsonl").read_text().splitlines() if (run / "events.jsonl").exists() else []
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


@pytest.mark.parametrize(("log_period", "bad"), [(10, 45), (100, 105), (1, 105), (7, 110)])
def test_a_diverged_state_is_replaced_by_the_last_good_one(tmp_path: Path, log_period: int, bad: int) -> None:
    """However seldom metrics are logged, and also when the very update before a publication did it."""
    agent = ScriptedAgent(q_after={bad: 1e6})
    learner, link = learner_with(agent, tmp_path / "run", replace(CONFIG, log_period=log_period))
    learn(learner, 200)
    assert learner.rolled_back == 1
    assert learner.state.q == 0.5, "the diverged critics are gone"
    good = (bad - 1) // 10 * 10  # the last publication before it
    due = -(-bad // 10) * 10  # the first publication after it
    assert learner.state.updates == good + 200 - due, "and learning went on from the last good state"
    assert [int(snapshot.parameters["updates"][0]) for snapshot in link.published[due // 10 - 2 : due // 10]] == [good, good]
    [event] = events(tmp_path / "run", "rolled_back")
    assert event["learner_step"] == due and "beyond 10" in event["problem"]


def test_values_with_entropy_in_them_are_not_called_diverged(tmp_path: Path) -> None:
    """reach returns 0 to 1. With temperature 1 and discount 0.99 the entropy of 3 action axes alone is worth up to 99 * 3 log 2 = 206."""
    agent = ScriptedAgent(WITH_ENTROPY, q_after={5: 206.0, 15: -400.0})
    learner, _ = learner_with(agent, tmp_path / "run")
    learn(learner, 40)
    assert learner.rolled_back == 0 and learner.state.updates == 40


@pytest.mark.parametrize("q", [1e5, -1e5, float("inf"), float("nan")])
def test_values_beyond_what_entropy_can_be_worth_are(tmp_path: Path, q: float) -> None:
    agent = ScriptedAgent(WITH_ENTROPY, q_after={15: q})
    learner, _ = learner_with(agent, tmp_path / "run")
    learn(learner, 20)
    assert learner.rolled_back == 1 and learner.state.updates == 10


def test_a_temperature_that_runs_away_does_not_excuse_the_critics(tmp_path: Path) -> None:
    agent = ScriptedAgent(WITH_ENTROPY, q_after={15: 1e5})
    learner, _ = learner_with(agent, tmp_path / "run")
    learn(learner, 10)
    agent.temperature = 1e4
    learn(learner, 10)
    assert learner.rolled_back == 1


def test_rlpd_as_published_learns_a_task_with_a_return_range(tmp_path: Path) -> None:
    agent = replace(RLPD_PUBLISHED, hidden=(32, 32), learning_rate=3e-3)
    config = replace(CONFIG, agent=agent, batch_size=32, training_starts=20, steps_per_update=1, eval_period=0, final_episodes=0)
    summary = train(replace(config, max_steps=60), tmp_path / "run", Display("quiet"))
    arrays = read_checkpoint(newest_checkpoint(tmp_path / "run" / "checkpoints")).agent
    steps = next(int(array) for name, array in arrays.items() if name.startswith("actor_optimiser") and name.endswith("steps"))
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert max(row.get("critic/predicted_qs", 0.0) for row in rows) > 10, "entropy lifts the values far above the largest return of 1"
    assert summary["rolled_back"] == 0 and steps == 60, "every actor update is in the state"


def test_no_policy_is_published_during_pretraining(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    learner, link = learner_with(agent, tmp_path / "run", replace(CONFIG, demos=(Path("demos"),), pretrain_steps=35), demos=5, online=0)
    learn(learner, 35)
    assert link.published == []
    learner.publish()
    learner.online.extend([transition(0)])
    learn(learner, 15)
    assert [snapshot.learner_step for snapshot in link.published] == [35, 40, 50]
    assert [snapshot.version for snapshot in link.published] == [1, 2, 3]


def test_a_state_that_diverges_in_pretraining_is_replaced_too(tmp_path: Path) -> None:
    agent = ScriptedAgent(q_after={15: 1e6})
    config = replace(CONFIG, demos=(Path("demos"),), pretrain_steps=30)
    learner, _ = learner_with(agent, tmp_path / "run", config, demos=5, online=0)
    learn(learner, 30)
    assert learner.rolled_back == 1 and learner.state.q == 0.5


def test_pretraining_draws_from_the_demonstrations_alone_and_training_half_from_them(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    learner, _ = learner_with(agent, tmp_path / "run", replace(CONFIG, demos=(Path("demos"),), pretrain_steps=3), demos=5, online=0)
    learner.online.extend([transition(100)])
    learn(learner, 4)
    assert all((batch.rewards < 5).all() for batch in agent.batches[:3])
    assert (agent.batches[3].rewards == 100).sum(axis=1).tolist() == [4, 4]


def test_the_share_of_demonstrations_changes_linearly_after_pretraining(tmp_path: Path) -> None:
    """0.75 of 8 rows are 6, a quarter 2; half way between them 4."""
    agent, demos = ScriptedAgent(), (Path("demos"),)
    config = replace(CONFIG, demos=demos, pretrain_steps=2, initial_demo_ratio=0.75, final_demo_ratio=0.25, demo_ratio_anneal_steps=4)
    learner, _ = learner_with(agent, tmp_path / "run", config, demos=5, online=0)
    learner.online.extend([transition(100)])
    learn(learner, 8)
    rows = [int((batch.rewards < 5).sum(axis=1)[0]) for batch in agent.batches]
    assert rows == [8, 8, 6, 5, 4, 3, 2, 2]
    assert learner.demo_share == 0.25


@pytest.mark.parametrize("name", ["initial_demo_ratio", "final_demo_ratio"])
def test_a_share_of_demonstrations_is_a_share(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be from 0 to 1, got 1.5"):
        replace(CONFIG, **{name: 1.5})
    with pytest.raises(ConfigError, match="demo_ratio_anneal_steps must be at least 1"):
        replace(CONFIG, demo_ratio_anneal_steps=0)


def test_a_policy_says_to_the_actors_how_often_it_decides(tmp_path: Path) -> None:
    learner, link = learner_with(ScriptedAgent(), tmp_path / "run", replace(CONFIG, decision_steps=4))
    learner.publish()
    assert Decisions.of(link.published[-1].parameters) == Decisions(4) == Decisions.of(learner.current_policy().parameters)
    with pytest.raises(ConfigError, match="decision_steps must be from 1 to 1000, got 0"):
        replace(CONFIG, decision_steps=0)


@pytest.mark.parametrize(("corrections", "rows"), [(1, 1), (3, 3), (4, 4), (50, 4)])
def test_without_demonstrations_corrections_fill_no_more_rows_than_there_are(tmp_path: Path, corrections: int, rows: int) -> None:
    agent = ScriptedAgent()
    learner, link = learner_with(agent, tmp_path / "run", online=1000)
    link.waiting = [transition(5000 + number, intervened=True, policy_version=1) for number in range(corrections)]
    learner.receive()
    learn(learner, 200)
    shown = np.stack([batch.rewards for batch in agent.batches])[..., :rows]
    rest = np.stack([batch.rewards for batch in agent.batches])[..., rows:]
    assert (shown >= 5000).all()
    share = corrections / (1000 + corrections)  # corrections are online data too
    assert (rest >= 5000).mean() == pytest.approx(share, abs=0.03)


def test_the_version_that_steps_were_made_with_does_not_go_back(tmp_path: Path) -> None:
    """A slow actor's steps arrive after those of a fast one."""
    learner, link = learner_with(ScriptedAgent(), tmp_path / "run", online=0)
    for versions in ((3, 5, 4), (2,), ()):
        link.waiting = [transition(number, policy_version=version) for number, version in enumerate(versions)]
        learner.receive()
        assert learner.acted_with == 5


def test_the_digest_tells_the_same_data_in_the_same_order_from_any_other(tmp_path: Path) -> None:
    def digest(name: str, *groups: list) -> str:
        learner, link = learner_with(ScriptedAgent(), tmp_path / name, online=0)
        for group in groups:
            link.waiting = group
            learner.receive()
        return learner.received_digest

    one, two, other = transition(1), transition(2), transition(1, source="another")
    assert digest("at once", [one, two]) == digest("in turns", [one], [two])
    assert len({digest("a", [one, two]), digest("b", [two, one]), digest("c", [other, two]), digest("d", [one])}) == 4


def test_steps_of_an_episode_that_was_thrown_away_before_they_arrive_are_not_stored(tmp_path: Path) -> None:
    learner, link = learner_with(ScriptedAgent(), tmp_path / "run", online=3)
    link.thrown_away = {("robot", 4)}
    link.waiting = [transition(10, episode=4, intervened=True), transition(11, episode=5)]
    learner.receive()
    assert (len(learner.online), len(learner.demos), learner.received) == (4, 0, 5)
    assert learner.online.oldest == 0
