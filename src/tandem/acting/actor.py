"""The actor: observation, action, step, transition, link. It needs no JAX and never waits for the learner."""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from gymnasium.vector import VectorEnv

from tandem.acting.limits import Limits
from tandem.data.episode import EpisodeRecorder
from tandem.errors import ActionError, ConfigError, SimulationDiverged
from tandem.link.messages import EpisodeEnd
from tandem.networks.numpy_policy import ActingPolicy, acting_policy
from tandem.observations import Layout
from tandem.runs.broken import STATES_KEPT, keep_simulation
from tandem.runs.checkpoint import storable_simulation, stored_simulation
from tandem.teleop.operator import Operator
from tandem.types import ForeignPolicy, Observation, PolicySnapshot, Spec, Transition


class ActorLink(Protocol):
    """The actor's end of any link."""

    def send(self, transitions: Sequence[Transition]) -> None: ...

    def newest_policy(self, newer_than: int = -1) -> PolicySnapshot | None: ...

    def acting_with(self, snapshot: PolicySnapshot | ForeignPolicy) -> None: ...

    def episode_end(self, end: EpisodeEnd) -> None: ...


class OwnActing(Protocol):
    """Observations of all rows to actions; `reset` tells it in which rows new episodes begin."""

    def __call__(self, observation: Observation) -> np.ndarray: ...

    def reset(self, rows: np.ndarray | None = None) -> None: ...


@dataclass(frozen=True)
class OwnPolicy:
    """A policy that the actor brought along and keeps, whatever the learner publishes."""

    act: OwnActing
    known_as: ForeignPolicy


RewardSource = Literal["simulation", "person"]


@dataclass(frozen=True)
class Verdict:
    """What a person says of the episode of row 0, which ends it."""

    success: bool | None
    """True: reward 1, terminated. False: reward 0, terminated (nothing more can come of it). None: cut short, truncated."""


class Actor:
    """Lives in N environments at once, each with its own operator (who usually lets the policy's proposal stand).

    Whoever decided, `limits` have the last word on row 0, and what was executed is what is stored.
    """

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
        limits: Limits | None = None,
        reward_source: RewardSource = "simulation",
    ) -> None:
        if reward_source == "person" and env.num_envs != 1:
            raise ConfigError(f"a person judges one robot: reward_source 'person' goes with num_envs 1, got {env.num_envs}")
        self.env, self._link, self._operators, self._say = env, link, operators, say
        self._limits = None if limits is None or limits.idle else limits
        self._reward_source = reward_source
        self.verdict: Verdict | None = None
        """A person's word on row 0; it ends the episode with the next step."""
        self.ask_verdict: Callable[[], Verdict | None] = lambda: None
        """Asked when the environment ends an episode that a person has to judge; may wait."""
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
        """Of all rows, as they were executed."""
        self.lived: list[Transition] = []
        """The last step of every row."""
        self.returns = np.zeros(env.num_envs)
        """Sum of rewards of the episode that each row is in."""
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
        if self._limits is not None:
            actions[0] = self._limits(_row(self._observation, 0), actions[0])
        self.last_actions = actions
        observation, reward, terminated, truncated, info = self._step_env(actions)
        ended = terminated | truncated
        judged = self._judge(reward, terminated, truncated, info["success"])
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
        self.lived = lived
        self.returns += reward
        self._observation = observation
        if judged is not None:
            self._tell_end(kept=True, success=judged.success)
            if not ended[0]:
                self._reset_env()
        for i, transition in enumerate(lived):
            if transition.last:
                self._begin_episode(i)

    def _judge(self, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, success: np.ndarray) -> Verdict | None:
        """What a person says of row 0 in place of the environment, written over its own word; None if nobody said anything."""
        ended = bool(terminated[0] or truncated[0])
        if self._reward_source == "person":
            # That it ended is the environment's word; what it was worth is not.
            reward[0], success[0], terminated[0], truncated[0] = 0.0, False, False, ended
            if ended and self.verdict is None:
                self.verdict = self.ask_verdict()
        verdict, self.verdict = self.verdict, None
        if verdict is None:
            return None
        terminated[0], truncated[0] = verdict.success is not None, verdict.success is None
        success[0] = verdict.success is True
        if verdict.success is not None:
            reward[0] = float(verdict.success)
        return verdict

    def discard(self) -> int:
        """Throw away the episode of row 0 and begin another; if it has just begun, throw away the one before. Returns its number."""
        recorder = self._recorders[0]
        if recorder.step == 0 and recorder.episode > 0:
            self._tell_end(kept=False, success=None, episode=recorder.episode - 1)
            return recorder.episode - 1
        self._tell_end(kept=False, success=None)
        self._reset_env()
        self._begin_episode(0)
        return recorder.episode - 1

    def _tell_end(self, kept: bool, success: bool | None, episode: int | None = None) -> None:
        recorder = self._recorders[0]
        self._link.episode_end(EpisodeEnd(recorder.source, recorder.episode if episode is None else episode, recorder.step, kept, success))

    def _reset_env(self) -> None:
        """Row 0 alone, in the middle of its episode."""
        mask = np.zeros(self.env.num_envs, bool)
        mask[0] = True
        self._observation, _ = self.env.reset(options={"reset_mask": mask} if self.env.num_envs > 1 else None)

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
        self.returns[row] = 0.0
        if self.own_policy is not None:
            self.own_policy.act.reset(np.arange(self.env.num_envs) == row)
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

    @property
    def observation(self) -> Observation:
        """Of row 0, as the next action will answer it."""
        return _row(self._observation, 0)

    @property
    def place(self) -> tuple[int, int]:
        """Episode of row 0, and its next step."""
        return self._recorders[0].episode, self._recorders[0].step

    def state(self) -> dict[str, Any]:
        """All that decides what it does next; simulations that cannot be saved are left out and begin a new episode."""
        env_state = self.env.state() if hasattr(self.env, "state") else None  # pyright: ignore[reportAttributeAccessIssue]
        if env_state is not None:
            env_state = storable_simulation(env_state)
        return {
            "env": env_state,
            "steps": self.steps,
            "random": json.dumps(self._random.bit_generator.state),
            "recorders": [{k: v for k, v in dataclasses.asdict(r).items() if k != "spec"} for r in self._recorders],
            "operators": [_saved(operator) for operator in self._operators],
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
            self._observation = self.env.restore(stored_simulation(state["env"]))  # pyright: ignore[reportAttributeAccessIssue]
            for operator, saved in zip(self._operators, state.get("operators", ()), strict=False):
                if saved is not None and hasattr(operator, "restore"):
                    operator.restore(saved)  # pyright: ignore[reportAttributeAccessIssue]
        else:
            self.begin()  # under its own source: what the old one sent after the checkpoint stays as it is


def _saved(operator: Operator) -> dict[str, Any] | None:
    """What an operator remembers, if it does."""
    return operator.memory() if hasattr(operator, "restore") else None  # pyright: ignore[reportAttributeAccessIssue]


def info_of_row(info: dict[str, Any], row: int) -> dict[str, Any]:
    """What an environment says of one row: success, and the action a person gave in its place."""
    told: dict[str, Any] = {"success": bool(info["success"][row])}
    for name in ("intervene_action", "executed_action"):
        if name in info and info[f"_{name}"][row]:
            told[name] = info[name][row]
    return told


def _row(observation: Observation, index: int) -> Observation:
    return {name: values[index] for name, values in observation.items()}
