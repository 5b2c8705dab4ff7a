"""No two episodes share a start by accident: not those of two runs, and not those of two purposes in one run."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.acting.actor import Actor
from tandem.agents.sac import SACConfig
from tandem.envs.batch import BatchEnv, SimulatedEnv
from tandem.envs.reach import Reach
from tandem.envs.registry import make_batch, make_env, make_expert
from tandem.off_policy.cloning import CloneArgs, clone_demos
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.sync import train
from tandem.on_policy.collector import Collector
from tandem.on_policy.config import OnPolicyConfig
from tandem.programs.evaluate import evaluate as eval_command
from tandem.programs.record import record_demos
from tandem.runs.display import Display
from tandem.seeding import episode_seed, episode_seeds, process_seed
from tandem.teleop.operator import HandsOff

RUNS = range(1000)
FOREIGN = "Pendulum-v1"


def seeds_of_run(run: int, episodes: int) -> Iterator[int]:
    """Seeds of all purposes: actors in the trainer's thread, begun twice, and in processes of their own."""
    for purpose in ("demonstrations", "selection", "final", "play"):
        yield from episode_seeds(run, purpose, episodes)
    actors = [run, process_seed(run, "actor-0"), process_seed(run, "actor-1")]
    for actor in actors:
        for begun_at in (0, 640):
            yield from episode_seeds(actor, "training", 8, begun_at)


def test_no_seed_of_a_thousand_runs_is_used_twice() -> None:
    seeds = [seed for run in RUNS for seed in seeds_of_run(run, episodes=20)]
    assert len(set(seeds)) == len(seeds) == 1000 * (4 * 20 + 3 * 2 * 8)
    assert max(seeds).bit_length() == 63 and min(seeds) >= 0


def test_no_start_of_a_thousand_runs_is_used_twice() -> None:
    env = BatchEnv(Reach(), 1000)
    starts = set()
    seeds = [seed for run in RUNS for seed in seeds_of_run(run, episodes=2)]
    for group in np.array(seeds, object).reshape(-1, 1000):
        observation, _ = env.reset(seed=group.tolist())
        starts |= {row.tobytes() for row in observation["to_ball"]}
    assert len(starts) == len(seeds)


def test_a_seed_is_the_same_wherever_it_is_asked_for() -> None:
    """Written down once: a change of it changes every figure of every run."""
    assert episode_seeds(3, "final", 2) == [episode_seed(3, "final", 0), episode_seed(3, "final", 1)]
    assert [episode_seed(0, "demonstrations", 0), episode_seed(0, "final", 7), process_seed(0, "actor-0")] == EXPECTED
    with pytest.raises(ValueError, match="got -1"):
        episode_seed(-1, "final", 0)


EXPECTED = [1317536309490288386, 8335110288455085642, 6304292985755045638]


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds that simulations really are reset with, in order."""
    found: list[int] = []
    reset, reset_rows = BatchEnv.reset, SimulatedEnv.reset

    def noted(self: BatchEnv, *, seed: Any = None, options: Any = None) -> Any:
        found.extend([seed] if isinstance(seed, int) else seed or ())
        return reset(self, seed=seed, options=options)

    def noted_rows(self: SimulatedEnv, rows: Any = None, seeds: Any = None) -> Any:
        found.extend(seed for seed in seeds or () if seed is not None)
        return reset_rows(self, rows, seeds)

    monkeypatch.setattr(BatchEnv, "reset", noted)
    monkeypatch.setattr(SimulatedEnv, "reset", noted_rows)
    return found


def taken(used: list[int]) -> list[int]:
    seeds = used.copy()
    used.clear()
    return seeds


@pytest.mark.parametrize("run", [0, 1, 100])
def test_programs_use_the_seeds_of_their_purpose(run: int, tmp_path: Path, used: list[int], capsys: pytest.CaptureFixture) -> None:
    demos = record_demos(make_env("reach"), make_expert("reach", run), 3, tmp_path / "demos", run)
    attempts = taken(used)
    assert attempts == episode_seeds(run, "demonstrations", len(attempts)) and len(attempts) >= 3
    config = TrainConfig("reach", SACConfig(hidden=(16, 16)), run, (demos,), max_steps=20, batch_size=16, training_starts=4, num_envs=2)
    config = replace(config, eval_period=10, eval_episodes=3, final_episodes=4, stop_success=None)
    summary = train(config, tmp_path / "run", Display("quiet"))
    training, selection = episode_seeds(run, "training", 2, 0), episode_seeds(run, "selection", 3)
    final = episode_seeds(run, "final", 4)
    assert taken(used) == [*training, *selection, *selection, *final, *final], "the final one without and with the policy's noise"
    eval_command(str(tmp_path / "run"), episodes=4, json=True)
    told = json.loads(capsys.readouterr().out)
    assert taken(used) == final and told["return"] == summary["deterministic"]["return"]
    eval_command(str(tmp_path / "run" / "checkpoints" / "best.safetensors"), episodes=2, json=True)
    assert taken(used) == final[:2]
    eval_command(str(tmp_path / "run"), episodes=2, seed=7, json=True)
    assert taken(used) == episode_seeds(7, "final", 2)
    clone_demos(CloneArgs("reach", (demos,), seed=run, final_episodes=2, hidden=(8,)), tmp_path / "bc", Display("quiet"))
    assert set(taken(used)) == set(final[:2])


class Silent:
    """A link to nobody."""

    def acting_with(self, snapshot: Any) -> None: ...


@pytest.mark.parametrize("task", ["reach", FOREIGN])
def test_an_actor_that_begins_again_after_a_resume_does_not_repeat_its_first_starts(task: str) -> None:
    def start(steps: int, seed: int = 3) -> list[bytes]:
        env = make_env(task, 2)
        actor = Actor(env, Silent(), [HandsOff()] * 2, source="x", seed=seed)  # pyright: ignore[reportArgumentType]
        actor.steps = steps
        actor.begin()
        env.close()
        [name, *_] = actor.spec.observation
        return [
            actor._observation[name][row].tobytes() + actor._observation[[*actor.spec.observation][-1]][row].tobytes() for row in range(2)
        ]

    assert start(0) == start(0)
    assert len({*start(0), *start(10), *start(0, seed=4)}) == 6


@pytest.mark.parametrize("task", ["reach", FOREIGN])
def test_ppo_that_begins_again_after_a_resume_does_not_repeat_its_first_starts(task: str) -> None:
    def start(incarnation: int) -> list[bytes]:
        env = make_batch(task, 2)
        collector = Collector(OnPolicyConfig(task=task, num_envs=2, seed=3), env)
        collector.begin(incarnation)
        env.close()
        return [row.tobytes() for row in collector.observations]

    assert start(0) == start(0) and len({*start(0), *start(10)}) == 4
