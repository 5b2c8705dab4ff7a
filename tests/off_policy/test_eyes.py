"""A run with a camera: encoded once, learned from features, resumed to the bit, refused in words."""

import dataclasses
import sqlite3
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tandem
from tandem.acting.evaluate import evaluate
from tandem.acting.eyes import EncodedEnv, Eyes
from tandem.acting.limits import Asked, limits_for
from tandem.acting.policy import act_with, load_any_policy, load_policy
from tandem.agents.bc import BCConfig
from tandem.agents.sac_config import SACConfig
from tandem.data.demos import load_demos
from tandem.data.journal import Journal
from tandem.envs.reach import ReachExpert
from tandem.envs.registry import make_env
from tandem.errors import ConfigError, SpecMismatch
from tandem.networks.encoders import resnet
from tandem.networks.encoders.encoder import Encoder, fit_encoder
from tandem.networks.encoders.trunks import Network
from tandem.networks.onnx_policy import from_bytes
from tandem.off_policy import trainer as trainer_module
from tandem.off_policy.cloning import CloneArgs, clone_demos
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.eyes import bytes_per_step, open_eyes, require_memory
from tandem.off_policy.recipes import RECIPES, config_of
from tandem.off_policy.sync import train
from tandem.programs.actor import Robot, _with_eyes
from tandem.programs.export import compare, export, onnx_bytes, probes
from tandem.programs.launch import _encoder_setting
from tandem.programs.record import record_demos
from tandem.runs.checkpoint import newest_checkpoint, read_checkpoint
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.runs.loggers import TensorBoard
from tandem.types import Entry
from tests.seeing_task import GRASPING, SEEING, GraspExpert, SeeingReach

TASK, GRASP_TASK = "tests.seeing_task:seeing_reach", "tests.seeing_task:seeing_grasp"
SMALL = TrainConfig(
    task=TASK,
    agent=SACConfig(hidden=(16, 16), n_step=3),
    batch_size=16,
    training_starts=20,
    num_envs=2,
    updates_per_actor_step=0.5,
    steps_per_update=10,
    replay_buffer_capacity=60,
    checkpoint_period=1000,
    eval_period=0,
    final_episodes=0,
)


def quiet() -> Display:
    return Display("quiet")


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    env = make_env(TASK)
    path = record_demos(env, ReachExpert(0), 3, tmp_path_factory.mktemp("demos"), seed=0)
    env.close()
    return path


def arrays_of(run: Path) -> dict[str, np.ndarray]:
    return dict(read_checkpoint(newest_checkpoint(run / "checkpoints")).agent)


@pytest.fixture(scope="module")
def run(demos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty learner steps in one go: 140 actor steps, so the replay buffer of 60 has been written over."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    train(dataclasses.replace(SMALL, demos=(demos,), max_steps=60), path, quiet())
    return path


def test_a_file_of_demonstrations_holds_each_picture_once_and_gives_it_back(demos: Path) -> None:
    steps = load_demos(demos, SEEING)
    ends = sum(step.last for step in steps)
    pictures = {step.observation["eye"].tobytes() for step in steps} | {step.next_observation["eye"].tobytes() for step in steps}
    with sqlite3.connect(demos) as file:
        [(count, size)] = file.execute("SELECT count(*), sum(length(record)) FROM frames").fetchall()
    assert count == len(pictures) <= len(steps) + ends
    assert size < 0.2 * count * 32 * 32 * 3, "compressed"
    env = make_env(TASK)
    expected = env.reset(seeds=None)
    assert steps[0].observation["eye"].shape == expected["eye"].shape[1:] and steps[0].observation["eye"].max() == 220
    env.close()
    for step, following in pairwise(steps):
        if not step.last:
            assert step.next_observation["eye"] is following.observation["eye"], "one array, not two"


def test_a_picture_that_was_changed_in_the_file_is_noticed(demos: Path, tmp_path: Path) -> None:
    copy = tmp_path / "demos.db"
    copy.write_bytes(demos.read_bytes())
    with sqlite3.connect(copy) as file:
        [(record,)] = file.execute("SELECT record FROM frames ORDER BY digest LIMIT 1").fetchall()
        file.execute("UPDATE frames SET record = ?", (record,))
    with pytest.raises(Exception, match="other bytes than were stored"):
        load_demos(copy, SEEING)


def test_demonstrations_are_encoded_once_and_found_again(demos: Path, run: Path) -> None:
    said: list[str] = []
    encoder, config = open_eyes(SEEING, dataclasses.replace(SMALL, demos=(demos,)), run, say=said.append)
    assert "the demonstrations were encoded before" in said[0]
    assert encoder.hash == Encoder.read(RunFolder(run).encoder_file).hash
    steps, pictured = load_demos(config.demos[0], encoder.spec(SEEING)), load_demos(demos, SEEING)
    assert [(step.reward, step.step) for step in steps] == [(step.reward, step.step) for step in pictured]
    assert "to_ball" not in steps[0].observation
    for number in (0, 5):
        assert np.array_equal(steps[number].observation["eye"], encoder.encode(pictured[number].observation["eye"][None])[0])


def test_the_run_stores_features_of_its_own_encoder_and_no_secrets(run: Path) -> None:
    folder = RunFolder.open(run)
    entry = folder.spec.observation["eye"]
    assert (entry.role, entry.shape) == ("features", (2, 2, 32)) and "to_ball" not in folder.spec.observation
    with Journal.open(folder.journal) as journal:
        steps = [step for _, step in journal.read()]
    assert len(steps) >= 120 and steps[0].observation["eye"].dtype == np.int8
    assert len({step.observation["eye"].tobytes() for step in steps}) > 20, "it looked"


def test_two_n_steps_equal_n_and_resume_and_n_bit_for_bit(demos: Path, run: Path, tmp_path: Path) -> None:
    train(dataclasses.replace(SMALL, demos=(demos,), max_steps=30), tmp_path / "parts", quiet())
    features = tuple(file for file in demos.parent.glob("features_*.db") if _shape(file) == (2, 2, 32))
    config = dataclasses.replace(SMALL, demos=features, max_steps=60)
    train(config, tmp_path / "parts", quiet(), resume=True)
    whole, parts = arrays_of(run), arrays_of(tmp_path / "parts")
    assert frames_of(run) == frames_of(tmp_path / "parts"), "each frame once, and the same"
    assert whole.keys() == parts.keys() and any("heads" in name for name in whole)
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)


def frames_of(run: Path) -> list[list[tuple]]:
    with sqlite3.connect(run / "journal.db") as file:
        tables = "frames ORDER BY digest", "features ORDER BY digest"
        return [file.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


def test_the_journal_of_a_run_keeps_its_pictures_and_another_encoder_learns_from_them(run: Path, tmp_path: Path) -> None:
    folder, encoder = RunFolder.open(run), Encoder.read(RunFolder(run).encoder_file)
    with Journal.open(folder.journal) as journal:
        steps = [step for _, step in journal.read()]
        journal.pictured = True
        pictured = [step for _, step in journal.read()]
    frames, features = frames_of(run)
    ends = sum(step.last for step in steps)
    assert len(frames) == len(features) <= len(steps) + ends + 2, "each once; two rows are in the middle of an episode"
    for number in (0, 50):
        assert np.array_equal(encoder.encode(pictured[number].next_observation["eye"][None])[0], steps[number].next_observation["eye"])
    copy = tmp_path / "journal.db"
    copy.write_bytes(folder.journal.read_bytes())
    config = dataclasses.replace(SMALL, demos=(copy,), encoder="random-lite0")
    other, config = open_eyes(SEEING, config, tmp_path / "other")
    assert other.hash != encoder.hash and len(load_demos(config.demos[0], other.spec(SEEING))) == len(steps)


@pytest.mark.parametrize("keep", [True, False])
def test_what_the_cameras_saw_last_is_shown_beside_the_metrics(
    demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    shown: list[tuple[int, dict[str, np.ndarray]]] = []
    monkeypatch.setattr(trainer_module, "PICTURES_PERIOD", 5)
    monkeypatch.setattr(TensorBoard, "show", lambda self, step, pictures: shown.append((step, dict(pictures))))
    train(dataclasses.replace(SMALL, demos=(demos,), max_steps=5, keep_pictures=keep), tmp_path / "run", quiet())
    if not keep:
        assert not shown
        return
    [(step, pictures)] = shown
    encoder = Encoder.read(RunFolder(tmp_path / "run").encoder_file)
    with Journal.open(tmp_path / "run" / "journal.db") as journal:
        features = [taken.observation["eye"] for _, taken in journal.read(journal.last_ord() - 3)]
    seen = encoder.encode(pictures["eye"][None])[0]
    assert step == 5 and any(np.array_equal(seen, each) for each in features), "a picture of the newest steps, not its features"


def test_a_run_that_keeps_no_pictures_learns_the_same(demos: Path, run: Path, tmp_path: Path) -> None:
    train(dataclasses.replace(SMALL, demos=(demos,), max_steps=60, keep_pictures=False), tmp_path / "run", quiet())
    whole, without = arrays_of(run), arrays_of(tmp_path / "run")
    assert all(np.array_equal(whole[name], without[name]) for name in whole)
    with sqlite3.connect(tmp_path / "run" / "journal.db") as file:
        assert not file.execute("SELECT 1 FROM sqlite_master WHERE name = 'frames'").fetchall()


def test_a_policy_carries_its_heads_and_its_encoder_and_acts_from_pictures(run: Path) -> None:
    snapshot, spec = load_policy(run, "latest")
    assert {"encoder/components", "heads/eye/dense/weight"} <= snapshot.parameters.keys()
    assert not any(name.startswith("critic") for name in snapshot.parameters)
    result = evaluate(TASK, act_with(snapshot, spec), seeds=[1, 2, 3])
    assert result.length.min() >= 1
    chosen, own = load_any_policy(run, "latest", SEEING)
    assert own.hash == spec.hash and chosen.hash == snapshot.hash
    other = dataclasses.replace(SEEING, observation={name: e for name, e in SEEING.observation.items() if name != "eye"})
    with pytest.raises(SpecMismatch, match="eye"):
        load_any_policy(run, "latest", other)


def test_a_policy_starts_another_run_with_its_own_encoder(demos: Path, run: Path, tmp_path: Path) -> None:
    config = dataclasses.replace(SMALL, demos=(demos,), max_steps=1)
    train(config, tmp_path / "next", quiet(), init_from=run)
    assert Encoder.read(RunFolder(tmp_path / "next").encoder_file).hash == Encoder.read(RunFolder(run).encoder_file).hash


def test_an_exported_policy_takes_pictures_and_does_the_same(run: Path, tmp_path: Path) -> None:
    done = export(run, tmp_path / "policy.onnx", "latest")
    assert "eye" in done.inputs and done.largest_difference < 1e-4
    chosen, own = load_any_policy(tmp_path / "policy.onnx", spec=SEEING)
    snapshot, spec = load_policy(run, "latest")
    env = make_env(TASK, 2)
    observation = env.reset(seeds=[0, 1])
    assert np.abs(act_with(chosen, own)(observation) - act_with(snapshot, spec)(observation)).max() < 1e-4
    env.close()


def test_a_policy_that_sees_through_a_resnet_is_exported_too(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same heads on features of another network, with random weights."""
    monkeypatch.setenv(resnet.FOLDER_VARIABLE, str(tmp_path))
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in resnet.shapes().items()}
    pictures = rng.integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    encoder = fit_encoder([pictures], Network("resnet10", resnet.keep(weights)))
    snapshot, spec = load_policy(run, "latest")
    own = {name: array for name, array in snapshot.parameters.items() if not name.startswith("encoder/")}
    other, seen = dataclasses.replace(snapshot, parameters=own | encoder.arrays()), encoder.spec(spec.without_encoder())
    exported = from_bytes(onnx_bytes(other, seen, "rlpd"), "the export")
    assert compare(exported, other, seen, probes(other, seen)) < 1e-4


def test_an_actor_elsewhere_gets_the_encoder_with_its_welcome(run: Path) -> None:
    """It greets with the pictures that its environment hands out, and sends features once it knows the run's encoder."""
    folder, env = RunFolder.open(run), make_env(TASK, 2)
    assert not folder.spec.without_encoder().data_difference(env.spec.without_encoder())
    larger = dataclasses.replace(env.spec, observation={**env.spec.observation, "eye": Entry((64, 64, 3), "uint8")})
    assert "eye" in folder.spec.without_encoder().data_difference(larger.without_encoder())[0]
    robot = Robot(env, env.spec, limits_for(TASK, env, Asked(), realtime=False), None, None, None)
    seeing = _with_eyes(robot, _encoder_setting(folder, SMALL))
    assert seeing.spec.with_scales(folder.spec.scales()).hash == folder.spec.hash
    observation = seeing.env.reset(seeds=[3, 4])
    assert observation["eye"].dtype == np.int8 and "to_ball" not in observation
    assert seeing.pictures()["eye"].shape == (32, 32, 3), "what people who watch get"
    assert _with_eyes(robot, {}) is robot
    env.close()


def test_a_network_that_learns_to_see_is_trained_resumed_and_exported_like_any_other(demos: Path, tmp_path: Path) -> None:
    config = dataclasses.replace(SMALL, demos=(demos,), max_steps=6, encoder="end-to-end")
    train(dataclasses.replace(config, max_steps=3), tmp_path / "run", quiet())
    encoder = Encoder.read(RunFolder(tmp_path / "run").encoder_file)
    picture = np.arange(32 * 32 * 3).astype(np.uint8).reshape(1, 32, 32, 3)
    halved = picture.reshape(1, 16, 2, 16, 2, 3).mean(axis=(2, 4))
    assert np.array_equal(encoder.encode(picture), np.clip(np.rint(halved) - 128, -127, 127).astype(np.int8)), "the picture, half its size"
    features = tuple(file for file in demos.parent.glob("features_*.db") if _shape(file) == (16, 16, 3))
    train(dataclasses.replace(config, demos=features), tmp_path / "run", quiet(), resume=True)
    assert export(tmp_path / "run", tmp_path / "policy.onnx", "latest").largest_difference < 1e-4


def test_spatial_heads_are_exported_like_any_other(demos: Path, tmp_path: Path) -> None:
    agent = dataclasses.replace(SMALL.agent, camera_head="spatial")
    train(dataclasses.replace(SMALL, demos=(demos,), max_steps=3, agent=agent), tmp_path / "run", quiet())
    assert export(tmp_path / "run", tmp_path / "policy.onnx", "latest").largest_difference < 1e-4
    assert "heads/eye/kernel" in load_policy(tmp_path / "run", "latest")[0].parameters


def _shape(file: Path) -> tuple[int, ...]:
    with Journal.open(file) as journal:
        return journal.spec.observation["eye"].shape


# ---- looking


def test_a_row_that_stands_still_is_not_encoded_again(run: Path) -> None:
    class Counting(Encoder):
        pictures = 0

        def encode(self, pictures: np.ndarray) -> np.ndarray:
            Counting.pictures += len(pictures)
            return super().encode(pictures)

    known = Encoder.read(RunFolder(run).encoder_file)
    eyes = Eyes(Counting(known.trunk, known.mean, known.components, known.std))
    pictures = np.random.default_rng(0).integers(0, 255, (4, 32, 32, 3), dtype=np.uint8)
    first = eyes({"eye": pictures})["eye"]
    moved = pictures.copy()
    moved[2] = 255 - moved[2]
    second = eyes({"eye": moved})["eye"]
    assert Counting.pictures == 5 and np.array_equal(second[[0, 1, 3]], first[[0, 1, 3]]) and not np.array_equal(second[2], first[2])
    assert np.array_equal(second, known.encode(moved))


def test_an_encoded_environment_goes_on_from_its_state(run: Path) -> None:
    env = EncodedEnv(make_env(TASK, 2), Encoder.read(RunFolder(run).encoder_file))
    env.reset(seeds=[0, 1])
    kept = env.state()
    one = env.step(np.full((2, 3), 0.5)).observation
    env.restore(kept)
    other = env.step(np.full((2, 3), 0.5)).observation
    assert all(np.array_equal(one[name], other[name]) for name in env.spec.observation)
    env.close()


def test_critics_that_see_the_state_learn_beside_a_policy_that_does_not(demos: Path, tmp_path: Path) -> None:
    agent = dataclasses.replace(SMALL.agent, critic_sees="state")
    config = dataclasses.replace(SMALL, agent=agent, demos=(demos,), clone_steps=50, max_steps=30)
    train(config, tmp_path / "whole", quiet())
    folder = RunFolder.open(tmp_path / "whole")
    assert folder.spec.observation["to_ball"].role == "privileged" and folder.spec.observation["eye"].role == "features"
    with Journal.open(folder.journal) as journal:
        assert {step.observation["to_ball"].shape for _, step in journal.read()} == {(3,)}
    arrays = arrays_of(tmp_path / "whole")
    assert any(name.startswith("actor/heads") for name in arrays) and not any(name.startswith("critic/heads") for name in arrays)

    [features] = [file for file in demos.parent.glob("features_*.db") if _knows_all(file)]
    train(dataclasses.replace(config, max_steps=15), tmp_path / "parts", quiet())
    train(dataclasses.replace(config, demos=(features,)), tmp_path / "parts", quiet(), resume=True)
    parts = arrays_of(tmp_path / "parts")
    assert arrays.keys() == parts.keys() and all(np.array_equal(arrays[name], parts[name]) for name in arrays), "resumed to the bit"

    # what it learned acts from pictures alone, here and where it is exported to
    done = export(tmp_path / "whole", tmp_path / "policy.onnx", "latest")
    assert "to_ball" not in done.inputs and done.largest_difference < 1e-4
    snapshot, spec = load_policy(tmp_path / "whole", "latest")
    assert evaluate(TASK, act_with(snapshot, spec), seeds=[1]).length.min() >= 1
    assert load_any_policy(tmp_path / "whole", "latest", SEEING)[0].hash == snapshot.hash

    # an actor elsewhere sends what the critics see
    env = make_env(TASK, 2)
    robot = Robot(env, env.spec, limits_for(TASK, env, Asked(), realtime=False), None, None, None)
    assert "to_ball" in _with_eyes(robot, _encoder_setting(folder, config)).env.reset(seeds=[3, 4])
    env.close()
    with pytest.raises(ConfigError, match="'reach' tells nothing that its policy does not see"):
        train(dataclasses.replace(config, task="reach", demos=(), clone_steps=0), tmp_path / "none", quiet())
    with pytest.raises(ConfigError, match="--notice with --critic-sees state"):
        dataclasses.replace(config, notice=True)


def _knows_all(file: Path) -> bool:
    with Journal.open(file) as journal:
        return "to_ball" in journal.spec.observation


def test_a_clone_sees_too_and_starts_a_run(demos: Path, tmp_path: Path) -> None:
    """Demonstrations of three episodes are enough for its loss to fall, not for skill."""
    args = CloneArgs(TASK, (demos,), BCConfig(eval_period=20, max_steps=60, min_steps=60, learning_rate=1e-3), (16, 16), final_episodes=1)
    clone_demos(args, tmp_path / "clone", quiet())
    losses = [row["bc/train_loss"] for row in RunFolder.open(tmp_path / "clone").metrics()]
    assert losses[-1] < 0.7 * losses[0]
    config = dataclasses.replace(SMALL, demos=(demos,), max_steps=1)
    train(config, tmp_path / "next", quiet(), init_from=tmp_path / "clone")


def test_a_gripper_is_learned_from_pictures_too(tmp_path: Path) -> None:
    """A clone and a run of a task with a camera and a discrete part; their policies act from pictures, and so does the exported one."""
    env, task = make_env(GRASP_TASK), dataclasses.replace(SMALL, task=GRASP_TASK)
    demos = record_demos(env, GraspExpert(0), 3, tmp_path / "demos", seed=0)
    bc = BCConfig(eval_period=20, max_steps=60, min_steps=60, learning_rate=1e-3)
    clone_demos(CloneArgs(GRASP_TASK, (demos,), bc, (16, 16), final_episodes=1), tmp_path / "clone", quiet())
    train(dataclasses.replace(task, demos=(demos,), max_steps=20), tmp_path / "run", quiet(), init_from=tmp_path / "clone")
    export(tmp_path / "run", tmp_path / "policy.onnx", "latest")
    policies = [load_policy(tmp_path / "run", "latest"), load_any_policy(tmp_path / "policy.onnx", spec=GRASPING)]
    observation = env.reset(seeds=[1])
    one, other = (act_with(*policy)(observation) for policy in policies)
    assert one.shape == (1, 4) and one[0, 3] in (0.0, 1.0) and np.abs(one - other).max() < 1e-4
    env.close()


@pytest.mark.parametrize("critic_sees", ["apart", "state"])
def test_a_run_with_cameras_and_a_gripper_starts_from_a_clone(critic_sees: Any, tmp_path: Path) -> None:
    """The clone's choices come from the pictures, through the heads that the clone's arm has learned."""
    env = make_env(GRASP_TASK)
    demos = record_demos(env, GraspExpert(0), 3, tmp_path / "demos", seed=0)
    env.close()
    agent = dataclasses.replace(SMALL.agent, critic_sees=critic_sees, return_bound="all")
    config = dataclasses.replace(SMALL, task=GRASP_TASK, agent=agent, demos=(demos,), clone_steps=400, max_steps=1)
    train(config, tmp_path / "run", quiet())  # one learner step moves it hardly at all
    with Journal.open(demos) as journal:
        steps = [step for _, step in journal.read()]
    shown = {name: np.stack([step.observation[name] for step in steps]) for name in GRASPING.observation}
    chosen, wanted = act_with(*load_policy(tmp_path / "run", "latest"))(shown)[:, 3], np.stack([step.action for step in steps])[:, 3]
    assert {0.0, 1.0} == set(wanted.tolist()) and np.mean(chosen == wanted) > 0.8


# ---- what is refused


@pytest.mark.parametrize(
    ("typed", "recipe"), [({}, "fitted_pixels"), ({"critic_sees": "state"}, "fitted"), ({"recipe": "fitted"}, "fitted")]
)
def test_a_task_of_your_own_with_cameras_gets_the_recipe_for_them(demos: Path, tmp_path: Path, typed: dict[str, Any], recipe: str) -> None:
    small: dict[str, Any] = {
        "max_steps": 20,
        "eval_period": 0,
        "final_episodes": 0,
        "hidden": (16, 16),
        "batch_size": 16,
        "training_starts": 20,
    }
    tandem.train(TASK, demos=[demos], run=tmp_path / "run", quiet=True, **small, **typed)
    agent, expected = config_of(RunFolder(tmp_path / "run")).agent, RECIPES[recipe]().agent
    assert (agent.return_bound, agent.demo_imitation) == (expected.return_bound, expected.demo_imitation)
    assert agent.critic_ensemble_size == expected.critic_ensemble_size and agent.hidden == (16, 16)


def test_without_demonstrations_there_is_nothing_to_fit_the_encoder_on(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has cameras \(eye\).*--scripted-demos"):
        train(SMALL, tmp_path / "run", quiet())
    assert not (tmp_path / "run").exists()


def test_a_replay_buffer_that_does_not_fit_is_refused_before_anything_is_allocated(run: Path) -> None:
    spec, said = RunFolder.open(run).spec, []
    size = bytes_per_step(spec)
    assert size == 128 + 2 * 4 * 9 + 4 * 3 + 100, "features once, nine numbers twice, the action"
    config = dataclasses.replace(SMALL, replay_buffer_capacity=1000, max_steps=10_000)
    require_memory(spec, config, said.append, available=1000 * size)
    assert "1,000 steps" in said[0]
    assert bytes_per_step(spec, frames=2) == size + 128 and f"never more than {2000 * (size + 128) / 2**30:.2f} GiB" in said[0]
    with pytest.raises(ConfigError, match=r"1,001 steps.*below 999"):
        require_memory(spec, config, said.append, available=1000 * size, demos=1)
    with pytest.raises(ConfigError, match="lower --replay-buffer-capacity below 999"):
        require_memory(spec, config, said.append, available=1000 * size - 1)


def test_a_camera_of_a_size_that_cannot_be_encoded_is_refused(demos: Path, tmp_path: Path) -> None:
    entries = {**SEEING.observation, "eye": dataclasses.replace(SEEING.observation["eye"], shape=(84, 84, 3))}
    with pytest.raises(ConfigError, match="image 'eye'"):
        open_eyes(dataclasses.replace(SEEING, observation=entries), dataclasses.replace(SMALL, demos=(demos,)), tmp_path)


def test_the_task_of_these_tests_shows_the_ball() -> None:
    assert SeeingReach().spec.observation["to_ball"].role == "privileged"
