"""What a clone has learned against guesses that know nothing; and policies that decide several actions at once."""

from pathlib import Path

import numpy as np
import pytest

from tandem.acting.policy import act_with, load_policy, policy_to_start_from
from tandem.agents.bc import BCConfig
from tandem.envs.registry import make_env, make_expert
from tandem.errors import ConfigError
from tandem.layouts import ActionLayout
from tandem.networks.numpy_chunks import NumpyChunks
from tandem.off_policy.clone_report import report_clone
from tandem.off_policy.cloning import CloneArgs, chunked, clone_demos
from tandem.programs.record import record_demos
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.types import Continuous, Discrete, Entry, Spec

SPEC = Spec("t", {"pose": Entry((2,))}, (Continuous("arm", 2), Discrete("gripper", ("close", "hold", "open"), rest=1)), 10.0, 100)
EPISODES = np.repeat(np.arange(10), 20)


def shown() -> np.ndarray:
    """One axis is noise, the other holds its value for a whole episode, the gripper is mostly open."""
    rng = np.random.default_rng(0)
    gripper = np.where(rng.random(200) < 0.7, 2, 0)
    return np.column_stack([rng.normal(0, 0.5, 200), np.repeat(rng.choice([-0.4, 0.4], 10), 20), gripper]).astype(np.float32)


def test_every_guess_is_what_it_says() -> None:
    actions = shown()
    report = report_clone(SPEC, actions, actions, EPISODES, np.array([8, 9]))
    held = actions[160:]
    np.testing.assert_allclose(report.guesses["zero"], [*np.square(held[:, :2]).mean(axis=0), 1.0], rtol=1e-5)
    # the second axis changes at the first step of an episode only, where the guess is no motion: 0.4^2 in one of 20 steps
    assert report.guesses["previous"][1] == pytest.approx(0.16 / 20, rel=1e-4)
    assert report.guesses["mean"][2] == pytest.approx((held[:, 2] != 2).mean()), "the choice that is made most often"
    assert not report.clone.any() and report.steps == 40 and report.motion == pytest.approx(1.0)
    assert len(report.axes) == 3


def test_a_clone_that_stands_still_is_told_so() -> None:
    actions = shown()
    still = actions * np.array([0.05, 0.05, 1], np.float32)
    report = report_clone(SPEC, still, actions, EPISODES, np.array([8, 9]))
    assert report.stands_still and len(report.no_better_than("zero")) == 2
    text = "\n".join(report.lines())
    assert "it has learned to stand still: its actions are 5% of the demonstrated ones" in text and "no better than not moving in" in text
    moving = report_clone(SPEC, 0.9 * actions, actions, EPISODES, np.array([8, 9]))
    assert not moving.stands_still and moving.no_better_than("zero") == [] and "it moves" in "\n".join(moving.lines())


# ---- chunks


def test_actions_of_a_chunk_end_with_their_episode() -> None:
    layout = ActionLayout((Continuous("arm", 1), Continuous("gripper", 1, stands_at=1.0)))
    actions = np.array([[1, 10], [2, 20], [3, 30], [4, 40], [5, 50]], np.float32)
    made = chunked(actions, np.array([0, 0, 0, 1, 1]), 3, layout).reshape(5, 3, 2)
    assert made[0].tolist() == [[1, 10], [2, 20], [3, 30]]
    assert made[2].tolist() == [[3, 30], [0, 30], [0, 30]], "the arm stands still, the gripper keeps its command"
    assert made[3].tolist() == [[4, 40], [5, 50], [0, 50]]
    with pytest.raises(ConfigError, match="has a discrete part"):
        chunked(shown(), EPISODES, 2, ActionLayout.of(SPEC))


def test_a_row_looks_again_when_its_actions_are_used_up_or_its_episode_begins() -> None:
    parameters = {
        "activation": np.array(0),
        "std_range": np.array([1e-6, 1e-5], np.float32),
        "trunk/layers/0/weight": np.eye(2, dtype=np.float32),
        "trunk/layers/0/bias": np.zeros(2, np.float32),
        "mean/weight": np.ones((2, 2), np.float32) * np.array([1, 2], np.float32),
        "mean/bias": np.zeros(2, np.float32),
        "log_std/weight": np.zeros((2, 2), np.float32),
        "log_std/bias": np.full(2, -12.0, np.float32),
        "chunk": np.array(2, np.int32),
    }
    policy = NumpyChunks(parameters)
    assert (policy.action_dim, policy.observation_dim) == (1, 2)
    one, other = np.full((1, 2), 0.1, np.float32), np.full((1, 2), -0.3, np.float32)
    expected = [float(policy.policy.mode(one)[0, 0]), float(policy.policy.mode(one)[0, 1]), float(policy.policy.mode(other)[0, 0])]
    memory, done = policy.begin(1), []
    for seen in (one, other, other):  # the second is decided from what was seen first
        action, memory = policy.mode(seen, memory)
        done.append(float(action[0, 0]))
    assert done == pytest.approx(expected)
    _, memory = policy.mode(one, np.zeros_like(memory))
    assert memory[0, 0] == 1, "after a reset it looks"


def test_a_run_reports_and_its_chunks_act(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demos = record_demos(make_env("reach"), make_expert("reach", 0), 12, tmp_path, seed=0)
    args = CloneArgs("reach", (demos,), BCConfig(learning_rate=2e-3, max_steps=150), chunk=3, hidden=(32, 32), final_episodes=10)
    summary = clone_demos(args, tmp_path / "run", Display("lines"))
    text = capsys.readouterr().out
    assert "held-out steps" in text and "previous" in text and "10 episodes of its own: success" in text
    assert summary["deterministic_held_out"]["axes"] and 0 <= summary["deterministic"]["success_low"] <= summary["deterministic"]["success"]
    snapshot, spec = load_policy(RunFolder(tmp_path / "run").best_policy)
    env = make_env("reach", 2)
    act = act_with(snapshot, spec)
    assert act(env.reset(seeds=[0, 1])).shape == (2, 3)
    with pytest.raises(ConfigError, match="it decides 3 actions at once"):
        policy_to_start_from(tmp_path / "run", spec)
