"""A task's declared symmetry in PPO's form: signed permutations of the observation vector and of the action."""

from __future__ import annotations

import numpy as np

from tandem.agents.symmetry import Mirror
from tandem.envs.task_env import RolloutEnv
from tandem.errors import ConfigError
from tandem.layouts import ActionLayout, Layout
from tandem.learnable import require_continuous
from tandem.on_policy.config import OnPolicyConfig
from tandem.types import Spec, Symmetry


def mirror_for(config: OnPolicyConfig, env: RolloutEnv) -> Mirror | None:
    """The task's mirror, or None if the configuration uses no symmetry."""
    agent = config.agent
    if not (agent.use_data_augmentation or agent.use_mirror_loss):
        return None
    spec, symmetry = env.task_spec, env.symmetry
    if symmetry is None:
        raise ConfigError(
            f"task '{spec.task}' declares no symmetry, and use_data_augmentation and use_mirror_loss need one. A task whose physics is "
            f"the same in a mirror has a `symmetry` (`tandem.types.Symmetry`); a Gymnasium environment may have one too."
        )
    require_continuous(spec, "PPO with a symmetry")
    if agent.recurrent:
        raise ConfigError(
            "use_data_augmentation and use_mirror_loss work on single steps, recurrent networks on sequences: use one or the other, or set "
            "actor_rnn_type and critic_rnn_type to none"
        )
    return mirror_of(spec, symmetry)


def mirror_of(spec: Spec, symmetry: Symmetry) -> Mirror:
    """The mirror of the whole vector. An error names the entry of an invalid declaration."""
    layout = Layout(spec)
    unknown = sorted(set(symmetry.observation) - set(layout.names))
    if unknown:
        raise ConfigError(f"the symmetry of '{spec.task}' names the entry '{unknown[0]}'; there are {', '.join(layout.names)}")
    observation: list[int] = []
    for name in layout.names:
        entry = spec.observation[name]
        places = symmetry.observation.get(name, tuple(range(1, entry.size + 1)))
        _check(spec, f"entry '{name}'", places, entry.scales().ravel())
        start = len(observation)
        observation += [int(np.sign(place)) * (abs(place) + start) for place in places]
    _check(spec, "the action", symmetry.action, ActionLayout.of(spec).scales)
    return Mirror(tuple(observation), tuple(symmetry.action))


def _check(spec: Spec, what: str, places: tuple[int, ...], scales: np.ndarray) -> None:
    place = np.abs(places) - 1
    if sorted(place.tolist()) != list(range(len(scales))):
        raise ConfigError(f"the symmetry of '{spec.task}' gives {what} the places {places}, expected each of 1 to {len(scales)} once")
    twice = np.sign(places) * np.sign(np.array(places)[place])
    if not np.array_equal(place[place], np.arange(len(place))) or (twice < 0).any():
        raise ConfigError(f"the symmetry of '{spec.task}': {what} with the places {places} is not itself again when mirrored twice")
    if not np.array_equal(scales[place], scales):
        raise ConfigError(f"the symmetry of '{spec.task}' swaps numbers of {what} whose scales differ: {scales.tolist()}")
