"""Episodes that begin in the middle of a demonstration: exactly there, counted apart, fewer and fewer, and refused where it cannot be."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tandem.acting.demo_starts import DemoStarts, demo_starts
from tandem.agents.sac_config import SACConfig
from tandem.data.demos import DemoWriter, read_demos
from tandem.data.journal import Journal
from tandem.data.replay import Replay, Returns
from tandem.envs.registry import make_env, make_expert
from tandem.errors import ConfigError
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.sync import train
from tandem.programs.record import record_demos
from tandem.runs.display import Display
from tandem.runs.episodes import EpisodeLog
from tandem.runs.folder import RunFolder

TASK = "gear_assembly"


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_demos(make_env(TASK), make_expert(TASK, 0), 2, tmp_path_factory.mktemp("demos"), seed=0)


@pytest.fixture(scope="module")
def starts(demos: Path) -> DemoStarts:
    return demo_starts(TASK, [demos], share=1.0, steps=1000)


def test_a_row_begins_where_the_demonstration_was_and_the_others_go_on_as_before(starts: DemoStarts, demos: Path) -> None:
    shown = list(read_demos(demos).episodes())
    alone, moved = make_env(TASK, 3), make_env(TASK, 3)
    for env in (alone, moved):
        env.reset(seeds=[1, 2, 3])
        env.step(np.full((3, env.spec.action_dim), 0.3, np.float32))
    before = alone.reset([1], [7])
    moved.reset([1], [7])
    observation, first = starts.begin(moved, [1], np.random.default_rng(0), made=0)
    assert observation is not None and set(first) == {1}
    found = [
        step
        for episode in shown
        for number, step in enumerate(episode)
        if number == first[1] and all(np.array_equal(observation[name][1], step.observation[name]) for name in observation)
    ]
    assert len(found) == 1, "it sees exactly what the demonstration saw at that step"
    for name, values in observation.items():
        assert np.array_equal(values[[0, 2]], before[name][[0, 2]])
    action = np.stack([np.full(alone.spec.action_dim, 0.1, np.float32), found[0].action, np.full(alone.spec.action_dim, 0.1, np.float32)])
    after, expected = moved.step(action), alone.step(action)
    for name, values in after.observation.items():
        assert np.array_equal(values[[0, 2]], expected.observation[name][[0, 2]])
    close = np.abs(after.observation["tcp_pose"][1] - found[0].next_observation["tcp_pose"]).max()
    assert close < 1e-6, "the same action moves it to the same place"


def test_fewer_and_fewer_episodes_begin_there(starts: DemoStarts) -> None:
    assert [starts.share(made) for made in (0, 250, 1000, 5000)] == [1.0, 0.75, 0.0, 0.0]
    env = make_env(TASK)
    env.reset(seeds=[0])
    assert starts.begin(env, [0], np.random.default_rng(0), made=1000) == (None, {})


def test_a_run_learns_from_them_and_counts_them_apart(demos: Path, tmp_path: Path) -> None:
    config = TrainConfig(
        task=TASK,
        demos=(demos,),
        agent=SACConfig(hidden=(16, 16), return_bound="all"),
        batch_size=16,
        eval_period=0,
        final_episodes=0,
        num_envs=4,
        updates_per_actor_step=0.05,
        max_steps=60,
        demo_starts=0.8,
        demo_starts_steps=10_000,
    )
    train(config, tmp_path / "run", Display("quiet"))
    folder = RunFolder.open(tmp_path / "run")
    with Journal.open(folder.journal) as journal:
        steps = [step for _, step in journal.read()]
    firsts = {}
    for step in steps:
        firsts.setdefault((step.source, step.episode), step.step)
    from_demos = [first for first in firsts.values() if first]
    assert 0 < len(from_demos) < len(firsts), list(firsts.values())
    assert any("environment/from_demos/success" in row for row in folder.metrics())
    limit = folder.spec.max_episode_steps
    assert max(step.step for step in steps) < limit, "the time limit is that of the task"


def test_their_returns_are_known_and_their_success_is_not_the_tasks(demos: Path) -> None:
    episode = next(iter(read_demos(demos).episodes()))[-5:]
    spec = make_env(TASK).spec
    replay, returns, log = Replay(spec, 10, discount=0.5), Returns(0.5), EpisodeLog(10)
    for number, step in enumerate(episode):
        assert step.step > 0
        replay.insert(step, number)
        returns.add(step, replay)
    assert replay.rows(np.arange(5)).bounds.tolist() == pytest.approx([0.5**4, 0.5**3, 0.5**2, 0.5, 1.0])
    log.add(episode)
    assert log.success_rate is None and log.alone_of_window == 0.0 and log.finished == 1
    assert log.metrics() == {"environment/from_demos/success": 1.0}
    log.add([replace(step, episode=9, step=number) for number, step in enumerate(episode)])
    assert log.success_rate == 1.0 and log.finished == 2


def test_what_cannot_be_restored_is_refused(demos: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="episodes of 'Pendulum-v1' cannot begin in the middle"):
        demo_starts("Pendulum-v1", [demos], 0.5, 100)
    with pytest.raises(ConfigError, match="no demonstrations to begin in"):
        demo_starts(TASK, [], 0.5, 100)
    with DemoWriter(tmp_path, make_env(TASK).spec) as writer:  # recorded by somebody who did not keep the seed
        writer.add(next(iter(read_demos(demos).episodes())))
        unknown = writer.finish()
    with pytest.raises(ConfigError, match="does not begin at any start that its file has the seed of"):
        demo_starts(TASK, [unknown], 0.5, 100)
    with pytest.raises(ConfigError, match="demo_starts must be from 0 to 1, got 2"):
        TrainConfig(demo_starts=2.0)
