"""A lamp that must be remembered: seen once, asked for later, and not to be guessed."""

import numpy as np

from tandem.envs.batch import BatchEnv
from tandem.envs.recall import WAIT, Recall
from tandem.envs.task import Task
from tandem.testing import TaskContract


class TestRecall(TaskContract):
    idle = 8

    def make_task(self) -> Task:
        return Recall()


def lived(env: BatchEnv, seen: dict[str, np.ndarray], answer: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One episode in each row, `answer` given at the signal and its opposite before: length, success, and what was seen of the lamp."""
    length, success, lamp = np.zeros(env.num_envs, int), np.zeros(env.num_envs, bool), []
    running = np.ones(env.num_envs, bool)
    for _ in range(WAIT[1] + 1):
        lamp.append(np.abs(seen["lamp"]).max(axis=1) * running)
        seen, reward, terminated, truncated, info = env.step(np.where(seen["signal"] > 0, answer, -answer))
        assert not truncated.any() and np.array_equal(reward, info["success"]) and not (info["success"] & ~terminated).any()
        seen = info["final_obs"]
        length += running
        success |= info["success"] & running
        running &= ~terminated
    assert not running.any()
    return length, success, np.array(lamp)


def test_the_lamp_is_seen_once_and_the_answer_counts_at_the_signal_alone() -> None:
    env = BatchEnv(Recall(), 256)
    seen, _ = env.reset(seed=0)
    length, success, lamp = lived(env, seen, 0.7 * seen["lamp"])
    assert success.all(), "who remembers is right, whatever he did before"
    assert lamp[0].all() and not lamp[1:].any(), "seen in the first observation only"
    assert set(length.tolist()) == set(range(WAIT[0] + 1, WAIT[1] + 2)), "the wait is not known beforehand, and then comes the answer"


def test_who_does_not_remember_is_right_in_a_quarter_of_the_episodes() -> None:
    """1000 episodes: 250 ± 4 · 13.7."""
    env = BatchEnv(Recall(), 1000)
    seen, _ = env.reset(seed=7)
    _, success, _ = lived(env, seen, np.ones((1000, 2)))
    assert 195 <= success.sum() <= 305
