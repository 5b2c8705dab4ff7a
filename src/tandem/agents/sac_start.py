"""What SAC starts from: a task, and a policy that is there already."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from tandem.agents.parameters import to_arrays
from tandem.agents.sac import SAC, SACState, network_of, policy_parameters, with_eyes
from tandem.agents.sac_config import SACConfig
from tandem.agents.sac_networks import seen_numbers
from tandem.agents.saved import from_arrays
from tandem.decisions import DECIDES
from tandem.errors import ConfigError
from tandem.layouts import ActionLayout, Layout
from tandem.networks.mlp import Ensemble, TanhGaussian
from tandem.types import Spec

if TYPE_CHECKING:
    from tandem.agents.anchoring import Anchor
    from tandem.networks.heads import Cameras, Seeing

SHOWN = 2
"""Critics that a policy carries where actors look at them: more would say the same, and cost more to send."""


def agent_for(config: SACConfig, spec: Spec) -> SAC:
    """The agent for a task; discrete parts of its action are learned by a grasp critic, features of cameras by heads."""
    layout, numbers = ActionLayout.of(spec), Layout(spec).size
    privileged = Layout(spec, privileged=True).size - numbers
    cameras: Cameras = ()
    seen = {name: entry.shape for name, entry in sorted(spec.observation.items()) if entry.role == "features"}
    if seen:
        from tandem.networks.heads import head_input  # only those with cameras need it

        cameras = tuple((name, head_input(shape, config.camera_head)) for name, shape in seen.items())
    seen_by_all, axes = seen_numbers(numbers, cameras), spec.action_dim - int(layout.is_discrete.sum())
    anchor = _anchor(config, seen_by_all, axes) if config.anchor else None
    worse = [name for entry in spec.observation.values() for name in entry.in_place_of]
    replaced = tuple(Layout(spec, privileged=True).columns(worse).tolist())
    agent = SAC(config, numbers, axes, _range(config, spec), None, cameras, privileged, replaced, anchor)
    if layout.all_continuous:
        return agent
    from tandem.agents.grasp import GraspCritic

    columns = tuple(np.flatnonzero(layout.is_discrete).tolist())
    sizes = tuple(int(layout.high[column]) + 1 for column in columns)
    rest = int(np.ravel_multi_index(tuple(layout.rest[list(columns)].astype(int)), sizes))
    critics_see, pupil_sees = (numbers + privileged - len(replaced), seen_by_all) if privileged else (seen_by_all, 0)
    grasp = GraspCritic(config, critics_see, columns, sizes, rest, spec.return_range, pupil_sees)
    return dataclasses.replace(agent, grasp=grasp)


def _anchor(config: SACConfig, observation_dim: int, axes: int) -> Anchor:
    from tandem.agents.anchoring import Anchor  # only those that are anchored need it

    return Anchor(config, observation_dim, axes)


def _range(config: SACConfig, spec: Spec) -> tuple[float, float] | None:
    """Returns that are possible. Blame may make them lower than the task's by its size, and not by more than that."""
    if spec.return_range is None or config.blame == "none":
        return spec.return_range
    return spec.return_range[0] - config.blame_size, spec.return_range[1]


def with_policy(agent: SAC, state: SACState, parameters: Mapping[str, np.ndarray]) -> SACState:
    """The same state with this policy, as `SAC.policy_parameters` returns it. With cameras its heads become the critic's."""
    own = {name: array for name, array in parameters.items() if not name.startswith(("grasp/", "critic/"))}
    acting = _actor_from(with_eyes(state.actor, state.critic), own)
    shared = isinstance(state.actor, TanhGaussian)
    actor = network_of(acting) if shared else acting
    if shared and not (agent.privileged or isinstance(acting, TanhGaussian)):
        state = state._replace(critic=acting.with_values(state.critic.values))
    if agent.grasp is not None and state.grasp is not None:
        state = state._replace(grasp=agent.grasp.from_parameters(state.grasp, parameters))
    return state._replace(actor=actor, average=None if state.average is None else jax.tree.map(jnp.copy, acting))


def shown_critics(critics: Ensemble | Seeing) -> dict[str, np.ndarray]:
    """Two of the critics by name, for a policy to carry: actors look at what they say (`acting/expected.py`)."""
    return {f"critic/{name}": array[:SHOWN] for name, array in to_arrays(critics.values).items()}


def _actor_from(template: TanhGaussian | Seeing, parameters: Mapping[str, np.ndarray]) -> TanhGaussian | Seeing:
    """An actor like the template with these parameters; what else a policy carries (its encoder, how often it decides) is not
    the agent's."""
    mine = policy_parameters(template)
    for name in ("activation", "std_range"):
        if name in parameters and not np.array_equal(parameters[name], mine[name]):
            raise ConfigError(
                f"the policy has {name} {parameters[name]}, the configuration {mine[name]}: train both with the same settings"
            )
    carried = ("activation", "std_range", DECIDES)
    arrays = {name: a for name, a in parameters.items() if name not in carried and not name.startswith("encoder/")}
    if isinstance(template, TanhGaussian):
        return from_arrays(template, arrays, "the policy")
    heads = {name.removeprefix("heads/"): array for name, array in arrays.items() if name.startswith("heads/")}
    others = {name: array for name, array in arrays.items() if not name.startswith("heads/")}
    values = from_arrays(template.values, others, "the policy")
    return dataclasses.replace(template, heads=from_arrays(template.heads, heads, "the policy"), values=values)
