"""Problems whose answers are known."""

import jax
import jax.numpy as jnp
import numpy as np

from tandem.agents.sac import SAC, SACState
from tandem.agents.sac_config import SACConfig
from tandem.networks.numpy_policy import NumpyPolicy
from tandem.types import Batch
from tests.agents.sac_samples import AGENT, update_critics

SHAPE = (2, 32)  # that of the other tests: compiled once


def train(batch_at, steps: int, seed: int = 0) -> SACState:
    random, state = np.random.default_rng(seed), AGENT.init(seed)
    for _ in range(steps):
        state, _ = AGENT.update(state, batch_at(random))
    return state


def test_a_bandit_is_solved_from_random_actions() -> None:
    """One step, no future: the policy must find where the reward peaks, which depends on what it sees."""
    side = np.array([1.0, -1.0])

    def best(observations: np.ndarray) -> np.ndarray:
        return 0.5 * observations[..., :1] * side  # seen +1: (0.5, -0.5); seen -1: (-0.5, 0.5)

    def batch(random: np.random.Generator) -> Batch:
        seen = np.zeros((*SHAPE, 5), np.float32)
        seen[..., 0] = random.choice([-1.0, 1.0], SHAPE)
        actions = random.uniform(-1, 1, (*SHAPE, 2)).astype(np.float32)
        rewards = np.exp(-4 * ((actions - best(seen)) ** 2).sum(-1)).astype(np.float32)
        return Batch(seen, actions, rewards, np.zeros(SHAPE, np.float32), seen)

    state = train(batch, 1500)
    seen = np.zeros((2, 5), np.float32)
    seen[:, 0] = 1.0, -1.0
    np.testing.assert_allclose(NumpyPolicy(AGENT.policy_parameters(state)).mode(seen), best(seen), atol=0.12)


def test_values_along_a_chain_are_powers_of_the_discount() -> None:
    """Four steps and success: Q is 1 on the last step and 0.97 to the k, k steps before it."""
    eye = np.eye(5, dtype=np.float32)

    def batch(random: np.random.Generator) -> Batch:
        at = random.integers(0, 4, SHAPE)
        last = (at == 3).astype(np.float32)
        actions = random.uniform(-1, 1, (*SHAPE, 2)).astype(np.float32)
        return Batch(eye[at], actions, last, 1 - last, eye[at + 1])

    random, state = np.random.default_rng(0), AGENT.init(0)
    for _ in range(1500):
        state = update_critics(state, batch(random))
    actions = np.random.default_rng(1).uniform(-1, 1, (4, 2)).astype(np.float32)
    qs = jax.jit(state.critic.__call__)(jnp.concatenate((eye[:4], actions), 1))
    # 0.9127, 0.9409, 0.97, 1
    np.testing.assert_allclose(qs, np.broadcast_to(0.97 ** np.array([3, 2, 1, 0]), (2, 4)), atol=0.05)


def test_what_a_person_showed_is_imitated_as_long_as_it_has_a_weight() -> None:
    """Nothing is ever rewarded, so only what was shown says what to do: (0.5, -0.5) where +1 is seen, and nothing where -1 is."""
    agent = SAC(SACConfig(hidden=(16, 16), learning_rate=3e-3), 5, 2, (0.0, 1.0))
    shown, seen_by = np.array([0.5, -0.5], np.float32), np.eye(5, dtype=np.float32)[:1]

    def batch(random: np.random.Generator, weight: float) -> Batch:
        side = random.choice(np.array([-1.0, 1.0], np.float32), SHAPE)
        seen, none = side[..., None] * seen_by[0], np.zeros(SHAPE, np.float32)
        return Batch(seen, np.broadcast_to(shown, (*SHAPE, 2)).copy(), none, none, seen, weight * (side > 0).astype(np.float32))

    random, state, distances = np.random.default_rng(0), agent.init(0), []
    for _ in range(1000):
        state, info = agent.update(state, batch(random, 3.0))
        distances.append(float(info["actor/imitation_loss"]))
    policy = NumpyPolicy(agent.policy_parameters(state))
    np.testing.assert_allclose(policy.mode(seen_by)[0], shown, atol=0.1)
    assert np.abs(policy.mode(-seen_by)[0] - shown).max() > 0.3, "where nobody showed anything, nothing is imitated"
    assert np.mean(distances[-50:]) < 0.1 * distances[0]
    for _ in range(1500):  # without a weight entropy alone is left to want
        state, _ = agent.update(state, batch(random, 0.0))
    later = NumpyPolicy(agent.policy_parameters(state))
    assert later.gaussian(seen_by)[1].mean() > 2 * policy.gaussian(seen_by)[1].mean()
