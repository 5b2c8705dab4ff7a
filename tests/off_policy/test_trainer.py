"""What the trainer does around the learner's steps: rows of metrics, pretraining, evaluations, the end, and going on."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.agents.bc import start_as_clone
from tandem.agents.sac import SAC, SACConfig
from tandem.data.demos import load_demos
from tandem.data.journal import Journal
from tandem.data.mixing import Imitation
from tandem.envs.registry import make_env, make_expert, spec_for
from tandem.layouts import Layout
from tandem.link.inproc import InprocLink
from tandem.networks.numpy_policy import NumpyPolicy
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.saving import save
from tandem.off_policy.sync import train
from tandem.off_policy.trainer import Trainer
from tandem.programs.record import record_demos
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder

SMALL = TrainConfig(
    task="reach",
    agent=SACConfig(hidden=(16, 16)),
    batch_size=16,
    training_starts=20,
    steps_per_update=50,
    eval_period=0,
    final_episodes=0,
    num_envs=2,
    updates_per_actor_step=0.5,
)


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_demos(make_env("reach"), make_expert("reach", 0), 3, tmp_path_factory.mktemp("demos"), seed=0)


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The critic loss of every learner step of this process, in order."""
    found: list[float] = []
    update = SAC.update

    def counted(self: SAC, state: Any, batch: Any, moves_actor: bool) -> Any:
        state, metrics = update(self, state, batch, moves_actor)
        found.append(float(metrics["critic/critic_loss"]))
        return state, metrics

    monkeypatch.setattr(SAC, "update", counted)
    return found


def rows(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def recorded_rows(run: Path) -> list[dict[str, Any]]:
    """Rows without what depends on the speed of the machine."""
    unlike = ("wall_s", "incarnation", "clock/learner_step_ms")
    return [{name: value for name, value in row.items() if name not in unlike} for row in rows(run)]


def run(config: TrainConfig, path: Path, **options: Any) -> dict[str, Any]:
    return train(config, path, Display("quiet"), **options)


def test_every_row_has_the_metrics_of_its_own_learner_step(tmp_path: Path, losses: list[float]) -> None:
    run(replace(SMALL, max_steps=125), tmp_path / "run")
    found = rows(tmp_path / "run")
    assert [row["learner_step"] for row in found] == list(range(10, 121, 10)), "every period once, the last one too"
    for row in found:
        assert row["critic/critic_loss"] == losses[row["learner_step"] - 1], row["learner_step"]
        assert row["policy_version"] == 1 + row["learner_step"] // 50
        assert row["actor_step"] == 18 + 2 * row["learner_step"], "20 before the first learner step, and two for each"
    assert [row["wall_s"] for row in found] == sorted(row["wall_s"] for row in found)


def test_rows_are_in_order_also_around_evaluations_and_checkpoints(tmp_path: Path, losses: list[float]) -> None:
    run(replace(SMALL, max_steps=60, eval_period=20, eval_episodes=2, checkpoint_period=30), tmp_path / "run")
    found = [(row["learner_step"], "eval/success" in row) for row in rows(tmp_path / "run")]
    assert found == [(10, False), (20, False), (20, True), (30, False), (40, False), (40, True), (50, False), (60, False), (60, True)]


def test_a_run_in_two_parts_logs_the_same_rows(tmp_path: Path) -> None:
    run(replace(SMALL, max_steps=125), tmp_path / "whole")
    run(replace(SMALL, max_steps=65), tmp_path / "parts")
    run(replace(SMALL, max_steps=125), tmp_path / "parts", resume=True)
    # the stop keeps its latest policy under a number of its own, so the versions after it are one higher
    versions = {"policy_version": None, "clock/policy_lag": None}
    parts, whole = ([row | versions for row in recorded_rows(tmp_path / name)] for name in ("parts", "whole"))
    assert parts == whole


def test_a_run_that_breaks_has_logged_all_of_its_rows(tmp_path: Path, losses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    from tandem.acting.actor import Actor

    step = Actor.step

    def breaking(self: Actor) -> None:
        if len(losses) >= 35:
            raise RuntimeError("the robot is gone")
        step(self)

    monkeypatch.setattr(Actor, "step", breaking)
    with pytest.raises(RuntimeError, match="gone"):
        run(replace(SMALL, max_steps=100), tmp_path / "run")
    assert [row["critic/critic_loss"] for row in rows(tmp_path / "run")] == [losses[9], losses[19], losses[29]]


def test_pretraining_is_logged_publishes_nothing_and_comes_before_the_first_step(
    demos: Path, tmp_path: Path, losses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tandem.acting.actor import Actor

    before: list[int] = []
    begin = Actor.begin
    monkeypatch.setattr(Actor, "begin", lambda actor: (before.append(len(losses)), begin(actor))[1])
    summary = run(replace(SMALL, demos=(demos,), pretrain_steps=120, max_steps=130), tmp_path / "run")
    assert before == [120], "all updates of pretraining were made before the robot moved"
    assert summary["learner_step"] == 130 == len(losses)
    assert summary["policy_version"] == 1, "one publication, after pretraining"
    found = rows(tmp_path / "run")
    assert [row["learner_step"] for row in found] == list(range(10, 131, 10))
    assert [row["critic/critic_loss"] for row in found] == [losses[step - 1] for step in range(10, 131, 10)]
    assert {row["actor_step"] for row in found[:12]} == {0} and {row["policy_version"] for row in found[:11]} == {0}
    log = (tmp_path / "run" / "train.log").read_text()
    assert log.count("Publishing network parameters") == 1 and "Publishing network parameters at step 120" in log


def test_a_run_makes_as_many_learner_steps_per_actor_step_as_asked(tmp_path: Path, losses: list[float]) -> None:
    for ratio, steps in ((0.25, 20), (1.0, 80)):
        losses.clear()
        config = replace(SMALL, updates_per_actor_step=ratio, max_steps=steps)
        summary = run(config, tmp_path / f"run_{ratio}")
        earned = summary["actor_step"] - 18  # the step that fills the buffer earns its own
        assert len(losses) == steps and steps <= earned * ratio < steps + 2 * ratio, (ratio, summary["actor_step"])


def test_rollback_restores_the_networks(demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Critics that jump once to a million: what is checkpointed afterwards values actions as before."""
    update, made = SAC.update, []

    def jumping(self: SAC, state: Any, batch: Any, moves_actor: bool) -> Any:
        made.append(1)
        state, metrics = update(self, state, batch, moves_actor)
        if len(made) == 55:
            head = state.critic.members.head
            state = state._replace(critic=_replace_bias(state.critic, head.bias + 1e6))
        return state, metrics

    monkeypatch.setattr(SAC, "update", jumping)
    config = replace(SMALL, demos=(demos,), steps_per_update=20, max_steps=100)
    summary = run(config, tmp_path / "run")
    assert summary["rolled_back"] == 1
    by_step = {row["learner_step"]: row["critic/q_max"] for row in rows(tmp_path / "run")}
    assert by_step[60] > 1e5 and by_step[70] < 10 and by_step[100] < 10


def _replace_bias(critic: Any, bias: Any) -> Any:
    import equinox as eqx

    return eqx.tree_at(lambda c: c.members.head.bias, critic, bias)


def test_an_old_checkpoint_is_still_read(tmp_path: Path) -> None:
    """Before, the digest had another name, the oldest step was not saved, and there were no checksums."""
    from tandem.codec import pack, unpack
    from tandem.runs.checkpoint import newest_checkpoint

    run(replace(SMALL, max_steps=30), tmp_path / "run")
    file = newest_checkpoint(tmp_path / "run" / "checkpoints") / "loops.msgpack"
    loops = unpack(file.read_bytes())
    digest = loops["learner"].pop("received_digest")
    for name in ("oldest", "acted_with", "good_temperature"):
        del loops["learner"][name]
    (file.parent / "SHA256SUMS").unlink()
    file.write_bytes(pack({**loops, "learner": {**loops["learner"], "trail": digest, "latest": {}}}))
    summary = run(replace(SMALL, max_steps=60), tmp_path / "run", resume=True)
    whole = run(replace(SMALL, max_steps=60), tmp_path / "whole")
    assert summary["actor_step"] == whole["actor_step"] and len(summary["received_digest"]) == 64
    assert np.isfinite(rows(tmp_path / "run")[-1]["critic/critic_loss"])


def test_a_checkpoint_comes_after_the_rows_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed goes on from its checkpoint: rows up to there are not made again."""
    logged: list[tuple[int, int]] = []

    def noted(trainer: Trainer, *args: Any) -> Path:
        path = save(trainer, *args)
        logged.append((trainer.learner.steps, rows(tmp_path / "run")[-1]["learner_step"]))
        return path

    monkeypatch.setattr("tandem.off_policy.saving.save", noted)
    run(replace(SMALL, max_steps=65, checkpoint_period=30), tmp_path / "run")
    assert logged == [(30, 30), (60, 60), (65, 60)]


def test_a_run_stops_after_as_many_good_evaluations_as_asked(tmp_path: Path) -> None:
    """Every evaluation reaches a success of 0."""
    config = replace(SMALL, eval_period=10, eval_episodes=1, stop_success=0.0, max_steps=100)
    assert run(replace(config, stop_evaluations=3), tmp_path / "three")["learner_step"] == 30
    assert run(replace(config, stop_evaluations=1), tmp_path / "one")["learner_step"] == 10


def test_the_first_steps_are_random_and_the_policy_acts_after_them(tmp_path: Path) -> None:
    """A policy without spread does the same in the same place, so that its actions are known again."""
    from tandem.data.journal import Journal
    from tandem.networks.numpy_policy import NumpyPolicy

    agent = replace(SMALL.agent, std_min=1e-6, std_max=1e-6)
    config = replace(SMALL, agent=agent, random_steps=40, training_starts=60, max_steps=5)
    run(config, tmp_path / "run")
    spec = spec_for("reach")
    first = SAC(agent, sum(entry.size for entry in spec.observation.values()), spec.action_dim, spec.return_range)
    policy = NumpyPolicy(first.policy_parameters(first.init(config.seed)))
    with Journal.open(tmp_path / "run" / "journal.db") as journal:
        steps = [step for _, step in journal.read()]
    by_policy = [np.allclose(policy.mode(Layout(spec).flatten(step.observation)[None])[0], step.action, atol=1e-3) for step in steps]
    assert len(steps) > 60 and by_policy == [False] * 40 + [True] * (len(steps) - 40)


def test_a_run_starts_as_a_clone_whose_critics_learn_first(demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first policy imitates the demonstrations, and stays as it is while only the critics learn."""
    update, moved = SAC.update, []

    def watched(self: SAC, state: Any, batch: Any, moves_actor: bool) -> Any:
        moved.append(moves_actor)
        return update(self, state, batch, moves_actor)

    monkeypatch.setattr(SAC, "update", watched)
    monkeypatch.setattr("tandem.off_policy.learner.FIRST_EPISODES", 0)
    config = replace(SMALL, demos=(demos,), clone_steps=400, critic_steps=60, max_steps=100, steps_per_update=20)
    run(config, tmp_path / "run")
    assert moved == [False] * 60 + [True] * 40
    published = [event for event in RunFolder.open(tmp_path / "run").events() if event["kind"] == "published"]
    assert len({event["hash"] for event in published[:4]}) == 1, "the start and the policies of steps 20, 40 and 60"
    assert len({event["hash"] for event in published[3:]}) == 3
    started = next(event for event in RunFolder.open(tmp_path / "run").events() if event["kind"] == "started")
    assert started["init_from"] == published[0]["hash"], "the clone is what the run began with"


def test_a_clone_to_start_from_does_what_was_demonstrated(demos: Path) -> None:
    spec = spec_for("reach")
    steps = load_demos(demos, spec)
    seen, actions = np.stack([Layout(spec).flatten(step.observation) for step in steps]), np.stack([step.action for step in steps])
    policy = NumpyPolicy(start_as_clone(SMALL.agent, seen, actions, 1000, seed=0))
    before = NumpyPolicy(start_as_clone(SMALL.agent, seen, actions, 0, seed=0))
    error, at_first = (np.square(each.mode(seen) - actions).mean() for each in (policy, before))
    assert error < 0.2 * at_first


def test_demonstrations_are_imitated_less_the_better_the_policy_is(demos: Path, tmp_path: Path) -> None:
    agent = replace(SMALL.agent, demo_imitation=0.4, imitation=3.0, imitation_steps=1000)
    folder = RunFolder.create(tmp_path / "run", "rlpd", SMALL, spec_for("reach"))
    with Journal.create(tmp_path / "journal.db", folder.spec) as journal:
        trainer = Trainer(replace(SMALL, agent=agent), folder, folder.spec, [], Display("quiet"), InprocLink(journal))
    learner, step = trainer.learner, load_demos(demos, folder.spec)[0]
    assert learner.imitation == Imitation(demos=0.4, corrections=3.0)
    learner.steps = 500
    assert learner.imitation == Imitation(demos=0.2, corrections=1.5)
    for number in range(4):
        learner.store(replace(step, episode=number, terminated=True, success=True, intervened=False), number)
    assert learner.imitation == pytest.approx((0.128, 1.5)), "4 of the last 20 episodes; there were no others"
    for number in range(4, 30):
        learner.store(replace(step, episode=number, terminated=True, success=number % 4 > 0, intervened=False), number)
    assert learner.imitation == pytest.approx((0.0125, 1.5)), "15 of the last 20 succeeded without help"
    folder.close()


def test_bounds_go_as_the_policy_succeeds(demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = replace(SMALL.agent, return_bound="while-failing")
    folder = RunFolder.create(tmp_path / "run", "rlpd", SMALL, spec_for("reach"))
    with Journal.create(tmp_path / "journal.db", folder.spec) as journal:
        learner = Trainer(replace(SMALL, agent=agent), folder, folder.spec, [], Display("quiet"), InprocLink(journal)).learner
    seen: list[Any] = []
    monkeypatch.setattr(SAC, "update", lambda self, state, batch, moves: (seen.append(batch.bounds), (state, {}))[1])
    step = replace(load_demos(demos, folder.spec)[0], terminated=True, intervened=False)
    for first, success in ((0, False), (20, True)):
        for number in range(first, first + 20):
            learner.store(replace(step, episode=number, success=success), number)
        learner.update()
    assert np.isfinite(seen[0]).all(), "none of the last 20 episodes succeeded"
    assert np.isneginf(seen[1]).all(), "all of them did"
    folder.close()


def test_critics_wait_for_episodes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with one slow robot makes many learner steps before its first episodes have ended."""
    update, moved = SAC.update, []

    def watched(self: SAC, state: Any, batch: Any, moves_actor: bool) -> Any:
        moved.append(moves_actor)
        return update(self, state, batch, moves_actor)

    monkeypatch.setattr(SAC, "update", watched)
    run(replace(SMALL, critic_steps=1, max_steps=400, num_envs=1, updates_per_actor_step=0.5), tmp_path / "run")
    with Journal.open(tmp_path / "run" / "journal.db") as journal:
        ends = [number for number, (_, step) in enumerate(journal.read(), start=1) if step.last]
    assert moved.index(True) == pytest.approx(ends[9] / 2, abs=12), (
        "when the tenth episode has ended; 20 steps come before the first update"
    )
