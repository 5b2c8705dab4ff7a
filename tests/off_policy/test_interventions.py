"""What a person did becomes part of the demonstrations, and stays so after a resume; what was thrown away does not come back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tandem.acting.policy import load_policy
from tandem.agents.sac_config import SACConfig
from tandem.dashboard.episodes import Library
from tandem.data.demos import load_demos
from tandem.data.journal import Journal
from tandem.data.mixing import Imitation, Mixture
from tandem.envs.registry import make_env, make_expert, spec_for
from tandem.errors import ConfigError
from tandem.link.inproc import InprocLink
from tandem.link.messages import EpisodeEnd
from tandem.networks.numpy_critic import CRITICS
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.saving import restore, save
from tandem.off_policy.sync import train
from tandem.off_policy.trainer import Trainer
from tandem.programs.record import record_demos
from tandem.runs.checkpoint import newest_checkpoint, read_checkpoint
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.types import Transition

SMALL = TrainConfig(
    task="reach",
    agent=SACConfig(hidden=(16, 16)),
    batch_size=16,
    training_starts=20,
    steps_per_update=20,
    eval_period=0,
    final_episodes=0,
    checkpoint_period=10_000,
    num_envs=2,
    updates_per_actor_step=0.5,
    operator="person:scripted",
)


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_demos(make_env("reach"), make_expert("reach", 0), 3, tmp_path_factory.mktemp("demos"), seed=0)


def stored(run: Path) -> list[Transition]:
    with Journal.open(run / "journal.db") as journal:
        return [step for _, step in journal.read()]


def trainer_of(config: TrainConfig, path: Path, journal: Journal) -> Trainer:
    run = RunFolder.open(path)
    return Trainer(config, run, run.spec, [], Display("quiet"), InprocLink(journal))


def test_corrections_are_flagged_stored_and_demonstrations_from_then_on(demos: Path, tmp_path: Path) -> None:
    summary = train(replace(SMALL, demos=(demos,), max_steps=150), tmp_path / "run", Display("quiet"))
    steps = stored(tmp_path / "run")
    corrections = [step for step in steps if step.intervened]
    assert 0 < len(corrections) < len(steps)
    with Journal.open(demos) as recorded:
        own = len(list(recorded.read()))
    assert summary["demo_transitions"] == own + len(corrections)
    row = next(row for row in reversed(RunFolder.open(tmp_path / "run").metrics()) if "environment/episode/r" in row)
    told = {name.rsplit("/", 1)[1]: value for name, value in row.items() if name.startswith("environment/episode/")}
    assert told["success_alone"] + told["success_helped"] == pytest.approx(told["success"])
    assert 0 < told["intervention_share"] < 1 and told["intervention_count"] > 0


def test_a_stand_in_who_comes_when_asked_helps_a_run_that_notices_and_a_resume_goes_on_exactly(tmp_path: Path) -> None:
    asked = replace(SMALL, operator="person:scripted:asked", max_steps=120)
    noticing = replace(asked, notice=True)
    for name, config in (("deaf", asked), ("whole", noticing)):
        train(config, tmp_path / name, Display("quiet"))
    train(replace(noticing, max_steps=70), tmp_path / "parts", Display("quiet"))
    train(noticing, tmp_path / "parts", Display("quiet"), resume=True)
    deaf, whole, parts = (
        [(step.action.tobytes(), step.intervened, step.tag) for step in stored(tmp_path / name)] for name in ("deaf", "whole", "parts")
    )
    assert not any(intervened for _, intervened, _ in deaf), "a robot that never asks is never helped"
    assert any(intervened for _, intervened, _ in whole) and whole == parts
    library = Library(tmp_path / "deaf", RunFolder.open(tmp_path / "deaf").info)
    assert library.noticing()["episodes"] > 0, "the page says how well it would have done"
    [episode] = library.episodes("journal", 0, 1)["episodes"]
    assert len(library.episode("journal", episode["source"], episode["episode"])["values"]) == episode["steps"]
    carried = [load_policy(tmp_path / name, "last")[0].parameters for name in ("deaf", "whole")]
    assert CRITICS not in carried[0] and carried[1][CRITICS].shape == (2, 1)


def test_batches_say_which_actions_were_put_in_the_place_of_a_policys(demos: Path, tmp_path: Path) -> None:
    """A demonstration was a person's too, but there was no policy to correct."""
    run = RunFolder.create(tmp_path / "run", "rlpd", SMALL, spec_for("reach"))
    shown = load_demos(demos, run.spec)
    assert all(step.intervened and not step.corrected for step in shown)
    own, corrected = replace(shown[0], intervened=False, policy_version=3), replace(shown[1], policy_version=3)
    assert not own.corrected and corrected.corrected
    with Journal.create(tmp_path / "journal.db", run.spec) as journal:
        learner = Trainer(SMALL, run, run.spec, shown[2:], Display("quiet"), InprocLink(journal)).learner
        learner.store(own, 0)
        learner.store(corrected, 1)
    by_age = np.arange(len(shown[2:]) + 1)
    assert learner.demos.rows(by_age).imitation.tolist() == [0.0] * len(shown[2:]) + [1.0]
    assert learner.online.rows(np.arange(2)).imitation.tolist() == [0.0, 1.0]
    mixed = Mixture(learner.demos, learner.online, 64).sample(np.random.default_rng(0), 2, imitation=Imitation(demos=0.0, corrections=1.0))
    actions = mixed.actions[mixed.imitation == 1.0]
    assert len(actions) and (actions == corrected.action).all()
    run.close()


def test_a_run_with_a_person_is_resumed_bit_for_bit(demos: Path, tmp_path: Path) -> None:
    config = replace(SMALL, demos=(demos,))
    train(replace(config, max_steps=120), tmp_path / "whole", Display("quiet"))
    train(replace(config, max_steps=60), tmp_path / "parts", Display("quiet"))
    train(replace(config, max_steps=120), tmp_path / "parts", Display("quiet"), resume=True)
    for one, other in zip(stored(tmp_path / "whole"), stored(tmp_path / "parts"), strict=True):
        assert one.intervened == other.intervened and np.array_equal(one.action, other.action), one.seq
    whole, parts = (read_checkpoint(newest_checkpoint(tmp_path / name / "checkpoints")).agent for name in ("whole", "parts"))
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)


def test_corrections_from_before_the_replays_window_are_demonstrations_after_a_resume_too(tmp_path: Path) -> None:
    config = replace(SMALL, replay_buffer_capacity=60, max_steps=150)
    train(config, tmp_path / "run", Display("quiet"))
    corrections = [step for step in stored(tmp_path / "run") if step.intervened]
    assert corrections[0].seq < 60, "the first ones have left the replay of 60 steps"
    with Journal.open(tmp_path / "run" / "journal.db", read_only=False) as journal:
        trainer = trainer_of(config, tmp_path / "run", journal)
        restore(trainer, trainer.campaign.newest_checkpoint(), journal)
        demos = trainer.learner.demos
        assert demos.inserted == len(corrections)
        newest = demos.rows(np.arange(len(demos)))
        np.testing.assert_array_equal(newest.actions, np.stack([step.action for step in corrections[-len(demos) :]]))


def test_what_was_thrown_away_is_taken_out_of_both_buffers_and_does_not_come_back(tmp_path: Path) -> None:
    train(replace(SMALL, max_steps=100), tmp_path / "run", Display("quiet"))
    steps = stored(tmp_path / "run")
    source, episode = next((step.source, step.episode) for step in steps if step.intervened)
    unwanted = [step for step in steps if (step.source, step.episode) == (source, episode)]
    with Journal.open(tmp_path / "run" / "journal.db", read_only=False) as journal:
        trainer = trainer_of(SMALL, tmp_path / "run", journal)
        learner, link = trainer.learner, trainer.link
        assert isinstance(link, InprocLink)
        learner.receive()
        online, corrections, received, digest = len(learner.online), len(learner.demos), learner.received, learner.received_digest
        assert received == len(steps)
        link.episode_end(EpisodeEnd(source, episode, len(unwanted), kept=False, success=None))
        learner.receive()
        assert len(learner.online) == online - len(unwanted)
        assert len(learner.demos) == corrections - sum(step.intervened for step in unwanted)
        assert (learner.received, learner.received_digest) == (received, digest), "it was lived and received all the same"
        late = replace(unwanted[-1], seq=10_000)  # still under way when it was thrown away
        link.send([late])
        learner.receive()
        assert len(learner.online) == online - len(unwanted) and learner.received == received + 1
        again = trainer_of(SMALL, tmp_path / "run", journal)
        again.learner.receive()
        assert len(again.learner.online) == online - len(unwanted) and again.learner.received == received + 1
    assert '"discarded"' in (tmp_path / "run" / "events.jsonl").read_text()


def test_in_turns_no_person_can_take_part(tmp_path: Path) -> None:
    for config in (replace(SMALL, operator="gamepad"), replace(SMALL, operator="browser", reward_source="person")):
        with pytest.raises(ConfigError, match="does not run in real time"):
            train(config, tmp_path / "run", Display("quiet"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("when", ["before the checkpoint", "after it"])
def test_a_resumed_replay_holds_what_the_live_one_held_when_an_episode_was_thrown_away_from_a_full_ring(tmp_path: Path, when: str) -> None:
    """The live ring has overwritten the steps from before its window; a journal still has them."""
    config = replace(SMALL, replay_buffer_capacity=60, max_steps=150)
    train(config, tmp_path / "run", Display("quiet"))
    with Journal.open(tmp_path / "run" / "journal.db", read_only=False) as journal:
        live = trainer_of(config, tmp_path / "run", journal)
        live.receive()
        unwanted = next(step for step in stored(tmp_path / "run")[-60:] if step.episode)
        end = EpisodeEnd(unwanted.source, unwanted.episode, 1, kept=False, success=None)
        assert isinstance(live.link, InprocLink)
        if when == "before the checkpoint":
            live.link.episode_end(end)
        live.receive()
        live.learner.steps = 151  # so that it is the newest checkpoint
        save(live)
        live.link.episode_end(end)
        live.receive()
        again = trainer_of(config, tmp_path / "run", journal)
        restore(again, again.campaign.newest_checkpoint(), journal)
        assert len(live.learner.online) < 60, "an episode is gone"
        for name in ("online", "demos"):
            one, other = (getattr(trainer.learner, name) for trainer in (live, again))
            assert len(one) == len(other), name
            for mine, theirs in zip(one.rows(np.arange(len(one)))[:5], other.rows(np.arange(len(other)))[:5], strict=True):
                np.testing.assert_array_equal(mine, theirs)


def test_steps_after_a_power_cut_are_received_although_the_journal_lost_its_newest_rows(tmp_path: Path) -> None:
    """A journal that did not wait for the disk gives the numbers of the lost rows to the next steps."""
    train(replace(SMALL, max_steps=100), tmp_path / "run", Display("quiet"))
    steps = stored(tmp_path / "run")
    with Journal.open(tmp_path / "run" / "journal.db", read_only=False) as journal:
        journal.forget_after(len(steps) - 10)
        trainer = trainer_of(SMALL, tmp_path / "run", journal)
        restore(trainer, trainer.campaign.newest_checkpoint(), journal)
        assert trainer.link.ord == len(steps) - 10
        journal.append([replace(steps[-1], source="next", seq=seq) for seq in range(3)])
        assert len(trainer.link.receive()) == 3
