"""What the steps before a take-over lose in their targets: a person took over because they led somewhere bad.

    y   = y - c · w,  w = 1 on the policy's last step, summed like a reward      `penalty` (RLIF, Luo et al. 2023, beside the task's reward)
    y   = y - w · min(c, A),  A = max(0, Q'(s_i, π(s_i)) - Q'(s_i, a_h))        `critics` (after PACT, 2606.03949)

s_i is where the person took over and a_h what they did there. A is by how much the target critics still prefer what the policy would do
there: while they are wrong about that, the steps that led there are worth less. It fades by itself as the critics learn, or as the policy
does what the person did. The weights w fall with the distance from the take-over (`data/blame.py`). Q' is the mean over the target critics.

PACT takes the action that the policy had proposed then; this is what it would do now, so that no proposal has to be stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from jax import Array

from tandem.agents.sac_config import SACConfig
from tandem.networks.mlp import Ensemble
from tandem.types import Blamed

if TYPE_CHECKING:
    pass


def counterfactual(of_policy: Array, of_person: Array, most: float) -> Array:
    """By how much the critics, `(members, batch)` each, prefer the policy's action; at least 0 and at most `most`, `(batch,)`."""
    assert of_policy.shape == of_person.shape and of_policy.ndim == 2, (of_policy.shape, of_person.shape)
    return jnp.clip(of_policy.mean(axis=0) - of_person.mean(axis=0), 0.0, most)


def lost(config: SACConfig, blamed: Blamed, target: Ensemble, s: Array, own: Array, theirs: Array) -> Array:
    """What each row loses, `(batch,)`. `s` is what the critics see where a person took over, `own` what the policy would do there and
    `theirs` what the person did."""
    weights = jnp.asarray(blamed.weights)
    if config.blame == "penalty":
        return config.blame_size * weights
    of_policy, of_person = (target(jnp.concatenate((s, a), axis=1)) for a in (own, theirs))
    return weights * counterfactual(of_policy, of_person, config.blame_size)
