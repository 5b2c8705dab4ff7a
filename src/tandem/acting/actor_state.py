"""All that decides what an actor does next, for a checkpoint."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tandem.acting.actor import Actor
from tandem.decisions import held_for
from tandem.networks.numpy_policy import acting_policy
from tandem.types import PolicySnapshot


def actor_state(actor: Actor) -> dict[str, Any]:
    """All that decides what it does next; environments that cannot be saved are left out and begin new episodes."""
    return {
        "env": actor.env.state() if actor.env.capabilities.saves else None,
        "steps": actor.steps,
        "random": json.dumps(actor._random.bit_generator.state),
        "recorders": [{k: v for k, v in dataclasses.asdict(r).items() if k != "spec"} for r in actor.recorders],
        "explores": actor._explores.tolist(),
        "successes": list(actor._successes),
        "operators": [operator.memory() for operator in actor.operators],
        "held": None if actor._held is None else actor._held.memory(),
        "version": actor.snapshot.version if actor.snapshot else -1,
        "learner_step": actor.snapshot.learner_step if actor.snapshot else -1,
        "parameters": dict(actor.snapshot.parameters) if actor.snapshot else {},
    }


def restore_actor(actor: Actor, state: dict[str, Any]) -> None:
    """Continue exactly where `state` was taken."""
    actor.steps = state["steps"]
    actor._random.bit_generator.state = json.loads(state["random"])
    actor._explores[:] = state.get("explores", True)
    actor._successes.extend(state.get("successes", ()))
    if state["parameters"]:
        actor.snapshot = PolicySnapshot(state["version"], state["learner_step"], state["parameters"])
        actor._policy = acting_policy(actor.snapshot)
        actor._held = held_for(actor.snapshot.parameters, actor._actions)
    if state["env"] is None:
        actor.begin()  # under its own source: what the old one sent after the checkpoint stays as it is
        return
    for recorder, saved in zip(actor.recorders, state["recorders"], strict=True):
        for name, value in saved.items():
            setattr(recorder, name, value)
    actor.ended[:] = [recorder.observation is None for recorder in actor.recorders]
    actor._observation = actor.env.restore(state["env"])
    if actor._held is not None and state.get("held") is not None:
        actor._held.restore(state["held"])
    for operator, saved in zip(actor.operators, state.get("operators", ()), strict=False):
        operator.restore(saved or {})
