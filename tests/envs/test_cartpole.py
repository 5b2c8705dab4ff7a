"""A pole that falls by itself, and that a simple law keeps up."""

import numpy as np

from tandem.envs.batch import BatchEnv
from tandem.envs.cartpole import RAIL, TILT, CartPole
from tandem.envs.task import Task
from tandem.testing import TaskContract


class TestCartPole(TaskContract):
    idle = 15

    def make_task(self) -> Task:
        return CartPole()


def test_left_alone_the_pole_falls_as_its_equation_says() -> None:
    """Nearly upright, a = g angle / (l (4/3 - m / (m + M))) with half length l = 0.5 m, pole m = 0.1 kg, cart M = 1 kg.

    From angle 0.02 at rest it is 0.02 cosh(w t), w^2 = 9.81 / (0.5 (4/3 - 0.1 / 1.1)) = 15.8: after 0.4 s 0.02 cosh(1.59) = 0.0510.
    The capsule's round ends add less than a hundredth to its inertia.
    """
    env = BatchEnv(CartPole(), 1)
    env.reset(seed=0)
    env.batch.bind("qpos")[:], env.batch.bind("qvel")[:] = [[0.0, 0.02]], 0.0
    for _ in range(20):
        seen, *_ = env.step(np.zeros((1, 1)))
    assert np.isclose(seen["position"][0, 1], 0.0510, rtol=0.05)


def test_the_force_is_ten_newtons() -> None:
    """Nearly upright and at rest, the cart starts with a = F / (M + m - 3 m / 4) = 10 / 1.025 = 9.76 m/s^2: in 0.02 s 0.195 m/s."""
    env = BatchEnv(CartPole(), 1)
    env.reset(seed=0)
    env.batch.bind("qpos")[:], env.batch.bind("qvel")[:] = 0.0, 0.0
    seen, *_ = env.step(np.ones((1, 1)))
    assert np.isclose(seen["velocity"][0, 0], 0.195, rtol=0.03) and seen["velocity"][0, 1] < 0, "the pole stays behind"


def test_a_linear_law_keeps_it_up_and_noise_does_not() -> None:
    env, random = BatchEnv(CartPole(), 16), np.random.default_rng(0)
    seen, _ = env.reset(seed=0)
    ended = np.zeros(16, int)
    for step in range(1, 501):
        state = np.concatenate([seen["position"], seen["velocity"]], 1)
        seen, reward, terminated, truncated, _ = env.step(np.clip(state @ np.array([0.1, 3.0, 0.2, 0.6]), -1, 1)[:, None])
        assert not terminated.any() and truncated.all() == (step == 500) and (reward == 1.0).all()
    for _ in range(500):
        *_, terminated, _, info = env.step(random.uniform(-1, 1, (16, 1)))
        ended += terminated
        gone = np.abs(info["final_obs"]["position"]) > [RAIL, TILT]
        assert np.array_equal(terminated, gone.any(axis=1))
    assert (ended > 3).all()
