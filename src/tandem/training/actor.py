"""The actor: observation, action, step, transition, link. It needs no JAX and never waits for the learner."""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from gymnasium.vector import VectorEnv

from tandem.data.episode import EpisodeRecorder
from tandem.errors import ActionError, SimulationDiverged
from tandem.networks.numpy_policy import ActingPolicy, acting_policy
from tandem.observations import Layout
from tandem.teleop.operator import Operator
from tandem.training.broken import STATES_KEPT, keep_simulation
from tandem.types import ForeignPolicy, Observation, PolicySnapshot, Spec, Transition


class ActorLink(Protocol):
    """The actor's end of any link."""

    def send(self, transitions: Sequence[Transition]) -> None: ...

    def newest_policy(self, newer_than: int = -1) -> PolicySnapshot | None: ...

    def acting_with(self, snapshot: PolicySnapshot | ForeignPolicy) -> None: ...


class OwnActing(Protocol):
    """Observations of all rows to actions; `reset` tells it in which rows new episodes begin."""

    def __call__(self, observation: Observation) -> np.ndarray: ...

    def reset(self, rows: np.ndarray | None = None) -> None: ...


@dataclasses.dataclass(frozen=True)
class OwnPolicy:
    """A policy that the actor brought along and keeps, whatever the learner publishes."""

    act: OwnActing
    known_as: ForeignPolicy


class Actor:
    """Lives in N environments at once, each with its own operator (who usually lets the policy's proposal stand)."""

    def __init__(
        self,
        env: VectorEnv,
        link: ActorLink,
        operators: Sequence[Operator],
        *,
        source: str,
        seed: int,
        random_steps: int = 0,
        say: Callable[[str], None] = lambda line: None,
        broken: Path | None = None,
        own_policy: OwnPolicy | None = None,
    ) -> None:
        self.env, self._link, self._operators, self._say = env, link, operators, say
        self.spec: Spec = env.task_spec  # pyright: ignore[reportAttributeAccessIssue]
        self._layout = Layout(self.spec)
        self._random = np.random.default_rng([seed, 1])
        self._random_steps = random_steps
        self.steps = 0
        """Of the environment, all rows together."""
        self.snapshot: PolicySnapshot | None = None
        """What it acts with."""
        self._policy: ActingPolicy | None = None
        self.own_policy = own_policy
        if own_policy is not None:
            link.acting_with(own_policy.known_as)
        self._seed = seed
        self._recorders = [EpisodeRecorder(self.spec, f"{source}.{row}") for row in range(env.num_envs)]
        self._observation: Observation = {}
        self.last_actions: np.ndarray | None = None
        """Of all rows, as they were decided."""
        self._broken = broken
        self._trace: deque[tuple[dict[str, Any], np.ndarray]] = deque(maxlen=STATES_KEPT)

    def begin(self) -> None:
        """First episodes everywhere."""
        self._observation, _ = self.env.reset(seed=10_000 * self._seed)
        for row in range(self.env.num_envs):
            self._begin_episode(row)

    def step(self) -> None:
        """One step in every row."""
        self._take_newest_policy()
        proposed = self._propose()
        decided = [operator.decide(_row(self._observation, i), proposed[i]) for i, operator in enumerate(self._operators)]
        actions = np.stack([action for action, _ in decided])
        self.last_actions = actions
        observation, reward, terminated, truncated, info = self._step_env(actions)
        version = self.snapshot.version if self.snapshot else -1
        lived = [
            recorder.record(
                actions[i],
                _row(info["final_obs"], i),
                float(reward[i]),
                bool(terminated[i]),
                bool(truncated[i]),
                info_of_row(info, i),
                intervened=decided[i][1],
                policy_version=version,
            )
            for i, recorder in enumerate(self._recorders)
        ]
        self._link.send(lived)
        self.steps += len(lived)
        self._observation = observation
        if self.own_policy is not None:
            self.own_policy.act.reset(terminated | truncated)
        for i, transition in enumerate(lived):
            if transition.last:
                self._begin_episode(i)

    def _step_env(self, actions: np.ndarray) -> Any:
        """A step; when the physics breaks in it, the states that led there are kept (30 microseconds a step)."""
        if self._broken is None or not hasattr(self.env, "state"):
            return self.env.step(actions)
        self._trace.append((self.env.state(), actions))  # pyright: ignore[reportAttributeAccessIssue]
        try:
            return self.env.step(actions)
        except (SimulationDiverged, ActionError) as problem:
            kept = keep_simulation(self._broken, self.spec.task, str(problem), self._trace[0][0], [acted for _, acted in self._trace])
            if kept is None:
                raise
            raise type(problem)(f"{problem} The last {len(self._trace)} steps are kept: `tandem doctor replay {kept}`.") from problem

    def _begin_episode(self, row: int) -> None:
        self._operators[row].reset()
        self._recorders[row].begin(_row(self._observation, row))

    def _take_newest_policy(self) -> None:
        """Between two steps, never within one."""
        if self.own_policy is not None:
            return
        snapshot = self._link.newest_policy(self.snapshot.version if self.snapshot else -1)
        if snapshot is not None:
            self._say(f"[ACTOR] Received network parameters update at step {self.steps}! (version {snapshot.version}, {snapshot.hash})")
            self.snapshot, self._policy = snapshot, acting_policy(snapshot.parameters)
            self._link.acting_with(snapshot)
            self._say("[ACTOR] Network parameters updated successfully!")

    def _propose(self) -> np.ndarray:
        if self.own_policy is not None:
            return self.own_policy.act(self._observation)
        if self._policy is None or self.steps < self._random_steps:
            return self._random.uniform(-1, 1, (self.env.num_envs, self.spec.action_dim)).astype(np.float32)
        return self._policy.sample(self._layout.flatten(self._observation, self._policy.observation_clip), self._random)

    def state(self) -> dict[str, Any]:
        """All that decides what it does next; simulations that cannot be saved are left out and begin a new episode."""
        env_state = self.env.state() if hasattr(self.env, "state") else None  # pyright: ignore[reportAttributeAccessIssue]
        if env_state is not None:
            env_state["streams"] = json.dumps(env_state["streams"])  # 128-bit integers, which msgpack has none of
        return {
            "env": env_state,
            "steps": self.steps,
            "random": json.dumps(self._random.bit_generator.state),
            "recorders": [{k: v for k, v in dataclasses.asdict(r).items() if k != "spec"} for r in self._recorders],
            "version": self.snapshot.version if self.snapshot else -1,
            "learner_step": self.snapshot.learner_step if self.snapshot else -1,
            "parameters": dict(self.snapshot.parameters) if self.snapshot else {},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on as if nothing had happened."""
        self.steps = state["steps"]
        self._random.bit_generator.state = json.loads(state["random"])
        if state["parameters"]:
            self.snapshot = PolicySnapshot(state["version"], state["learner_step"], state["parameters"])
            self._policy = acting_policy(self.snapshot.parameters)
        if state["env"] is not None:
            for recorder, saved in zip(self._recorders, state["recorders"], strict=True):
                for name, value in saved.items():
                    setattr(recorder, name, value)
            streams = json.loads(state["env"]["streams"])
            self._observation = self.env.restore({**state["env"], "streams": streams})  # pyright: ignore[reportAttributeAccessIssue]
        else:
            self.begin()  # under its own source: what the old one sent after the checkpoint stays as it is


def info_of_row(info: dict[str, Any], row: int) -> dict[str, Any]:
    """What an environment says of one row: success, and the action a person gave in its place."""
    told: dict[str, Any] = {"success": bool(info["success"][row])}
    for name in ("intervene_action", "executed_action"):
        if name in info and info[f"_{name}"][row]:
            told[name] = info[name][row]
    return told


def _row(observation: Observation, index: int) -> Observation:
    return {name: values[index] for name, values in observation.items()}
