"""A small agent and random batches that the tests of SAC share: one agent, so that it is compiled once."""

import jax
import numpy as np

from tandem.agents.sac import SAC, SACState
from tandem.agents.sac_config import SACConfig
from tandem.types import Batch

CONFIG = SACConfig(hidden=(16, 16), learning_rate=1e-3)
AGENT = SAC(CONFIG, observation_dim=5, action_dim=2, return_range=(0.0, 1.0))


def batch_of(agent: SAC = AGENT, rows: int = 32, seed: int = 0) -> Batch:
    """Random transitions for one learner step."""
    random, shape = np.random.default_rng(seed), (agent.config.cta_ratio, rows)
    return Batch(
        observations=random.standard_normal((*shape, agent.observation_dim), dtype=np.float32),
        actions=random.uniform(-1, 1, (*shape, agent.action_dim)).astype(np.float32),
        rewards=(random.random(shape) < 0.2).astype(np.float32),
        masks=(random.random(shape) < 0.8).astype(np.float32),
        next_observations=random.standard_normal((*shape, agent.observation_dim), dtype=np.float32),
    )


@jax.jit
def update_critics(state: SACState, batch: Batch) -> SACState:
    """The critic updates of a learner step alone."""
    return jax.lax.scan(AGENT.update_critic, state, batch)[0]
