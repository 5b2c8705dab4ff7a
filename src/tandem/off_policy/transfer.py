"""Start RLPD from a policy that PPO learned.

The two policies are different functions. PPO's takes unclipped observations through a running normaliser and clips a Gaussian to
[-1, 1]; SAC's takes scaled, clipped observations and squashes by tanh. The networks differ in depth, units, activation and
LayerNorm. Weights cannot be copied, so SAC's actor is cloned from PPO's actions in states that PPO's policy visits:

    kept          the most likely action, in states that the policy visits with its own noise, up to an error that is reported
    approximated  actions at the bounds: tanh comes close to ±1 and never reaches it
    set           the std: PPO's mean std (at most 0.5), the same everywhere; SAC's temperature changes it from there
    not kept      the values: PPO's critic values states under its own reward, SAC's critics value actions under the task's

Cloning takes seconds and works for any pair of settings, so it is done even where the shapes happen to agree.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tandem.acting.policy import policy_to_start_from
from tandem.agents.bc import BCConfig, clone
from tandem.agents.sac_config import SACConfig
from tandem.envs.registry import make_batch
from tandem.errors import ConfigError
from tandem.layouts import ActionLayout, Layout
from tandem.networks.numpy_gaussian import NumpyGaussian
from tandem.networks.numpy_policy import NumpyPolicy
from tandem.seeding import episode_seeds
from tandem.types import PolicySnapshot, Spec

ROWS = 16
STEPS = 10_000
"""States in which the two policies should agree."""
LARGEST_STD = 0.5


def starting_policy(path: Path, spec: Spec, network: SACConfig, seed: int, say: Callable[[str], None]) -> PolicySnapshot:
    """The policy of another run for RLPD to start from; a policy of PPO is cloned."""
    snapshot = policy_to_start_from(path, spec)
    if not learned_by_ppo(snapshot):
        return snapshot
    if not ActionLayout.of(spec).all_continuous:
        raise ConfigError(
            f"RLPD cannot start from the PPO policy of {path}: it chooses the discrete parts of an action by their probability, the grasp "
            f"critic by what they are worth, which PPO does not know. Record what it does (`tandem record {spec.task} --operator "
            f"policy:{path}`) and learn from the demonstrations."
        )
    say(f"cloning the PPO policy of {path} (iteration {snapshot.learner_step:,})")
    snapshot, difference = as_sac_policy(snapshot, spec, network, seed)
    say(f"the clone's actions differ by {difference:.3f} (root mean square)")
    return snapshot


def learned_by_ppo(snapshot: PolicySnapshot) -> bool:
    return snapshot.kind != "tanh_gaussian"


def as_sac_policy(snapshot: PolicySnapshot, spec: Spec, network: SACConfig, seed: int = 0) -> tuple[PolicySnapshot, float]:
    """A clone of this policy as SAC's actor, and the root mean squared difference between their actions."""
    teacher = NumpyGaussian(snapshot.parameters)
    observations, actions, episodes, std = _visited(teacher, spec, seed)
    config = BCConfig(std=min(std, LARGEST_STD), learning_rate=1e-3, eval_period=200, patience=3, max_steps=4000)
    parameters = clone(config, network, observations, actions, episodes, seed).best
    difference = NumpyPolicy(parameters).mode(observations) - actions
    return PolicySnapshot(snapshot.version, snapshot.learner_step, parameters), float(np.sqrt(np.square(difference).mean()))


def _visited(teacher: NumpyGaussian, spec: Spec, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Observations as SAC gets them, the teacher's actions there, episode numbers, and the teacher's mean std.

    The teacher acts with its noise: a clone that has only seen the ideal path does not know what to do off it.
    """
    env, layout, random = make_batch(spec.task, ROWS), Layout(spec), np.random.default_rng([seed, 5])
    observation, _ = env.reset(seed=episode_seeds(seed, "transfer", ROWS))
    episode = np.arange(ROWS)
    seen, wanted, episodes, stds = [], [], [], []
    while len(seen) * ROWS < STEPS:
        x = layout.flatten(observation, np.inf)
        mean, std = teacher.gaussian(x)
        seen.append(layout.flatten(observation))
        wanted.append(np.clip(mean, -1, 1))
        episodes.append(episode.copy())
        stds.append(std.mean())
        noise = random.standard_normal(mean.shape, dtype=np.float32)
        observation, _, terminated, truncated, _ = env.step(np.clip(mean + std * noise, -1, 1))
        episode[terminated | truncated] += ROWS
    env.close()
    return np.concatenate(seen), np.concatenate(wanted), np.concatenate(episodes), float(np.mean(stds))
