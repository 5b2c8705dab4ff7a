"""A learner around an agent whose every update is known beforehand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tandem.agents.sac import SACConfig
from tandem.envs.registry import make
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.learner import Learner
from tandem.runs.folder import RunFolder
from tandem.types import Batch, PolicySnapshot, Transition

SPEC = make("reach").get_wrapper_attr("task_spec")
CONFIG = TrainConfig(task="reach", batch_size=8, training_starts=1, steps_per_update=10, log_period=10)


class State(NamedTuple):
    updates: int = 0
    q: float = 0.5
    """What its critics answer to everything."""


@dataclass
class ScriptedAgent:
    """Counts updates in its state. Update number n leaves critics that answer `q_after[n]`, if that is given.

    As in SAC, an update reports the Q values of the state that it started from.
    """

    config: SACConfig = field(default_factory=SACConfig)
    q_after: dict[int, float] = field(default_factory=dict)
    temperature: float = 1.0
    made: int = 0
    batches: list[Batch] = field(default_factory=list)
    moved_actor: list[bool] = field(default_factory=list)

    def init(self, seed: int) -> State:
        return State()

    def update(self, state: State, batch: Batch, moves_actor: bool = True) -> tuple[State, dict[str, float]]:
        self.made += 1
        self.moved_actor.append(moves_actor)
        self.batches.append(batch)
        metrics = {"critic/critic_loss": float(self.made), **self.values(state, batch)}
        return State(state.updates + 1, self.q_after.get(self.made, state.q)), metrics

    def values(self, state: State, batch: Batch) -> dict[str, float]:
        return {
            "critic/predicted_qs": state.q,
            "critic/target_qs": state.q,
            "critic/q_max": abs(state.q),
            "actor/temperature": self.temperature,
        }

    def copy(self, state: State) -> State:
        return state

    def policy_parameters(self, state: State) -> dict[str, np.ndarray]:
        return {"updates": np.array([state.updates], np.float32)}

    exploring_parameters = policy_parameters

    def arrays(self, state: State) -> dict[str, np.ndarray]:
        return {"updates": np.array(state.updates), "q": np.array(state.q)}

    def from_arrays(self, template: State, arrays: dict[str, np.ndarray]) -> State:
        return State(int(arrays["updates"]), float(arrays["q"]))


@dataclass
class ListLink:
    """A link whose other end is the test."""

    waiting: list[Transition] = field(default_factory=list)
    published: list[PolicySnapshot] = field(default_factory=list)
    thrown_away: set[tuple[str, int]] = field(default_factory=set)
    ord: int = 0

    def receive(self) -> list[Transition]:
        steps, self.waiting = self.waiting, []
        self.ord += len(steps)
        return steps

    def discarded(self) -> set[tuple[str, int]]:
        found, self.thrown_away = self.thrown_away, set()
        return found

    def publish(self, snapshot: PolicySnapshot) -> None:
        self.published.append(snapshot)


def transition(number: int, **changes: Any) -> Transition:
    """Step `number` of reach; its reward tells it apart."""
    observation = {name: np.zeros(entry.shape, np.float32) for name, entry in SPEC.observation.items()}
    action = np.zeros(SPEC.action_dim, np.float32)
    step = Transition(observation, action, float(number), observation, False, False, step=number, source="robot", seq=number)
    return replace(step, **changes)


def learner_with(agent: ScriptedAgent, path: Path, config: TrainConfig = CONFIG, demos: int = 0, online: int = 20) -> tuple[Any, ListLink]:
    """A learner that has received `online` steps; `config.agent` is taken from the agent."""
    config = replace(config, agent=agent.config)
    link = ListLink([transition(number) for number in range(online)])
    run = RunFolder.create(path, "rlpd", config, SPEC)
    learner: Any = Learner(config, SPEC, agent, link, run, [transition(number, intervened=True) for number in range(demos)])  # pyright: ignore[reportArgumentType]
    learner.receive()
    return learner, link


def learn(learner: Any, steps: int) -> None:
    for _ in range(steps):
        learner.update()
