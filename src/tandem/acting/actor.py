"""The actor: observation, action, step, transition, link. It needs no JAX and never waits for the learner."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tandem.acting.policy import OwnPolicy
from tandem.acting.rewards import EnvironmentReward, Judged, RewardSource
from tandem.data.episode import EpisodeRecorder
from tandem.decisions import DECIDES, Held, held_for
from tandem.envs.task_env import TaskEnv
from tandem.errors import ActionError, EnvironmentFailed, SimulationDiverged
from tandem.layouts import ActionLayout, Layout
from tandem.link.messages import EpisodeEnd
from tandem.networks.numpy_policy import ActingPolicy, acting_policy, look
from tandem.runs.broken import STATES_KEPT, keep_simulation
from tandem.runs.episodes import WINDOW
from tandem.seeding import episode_seeds
from tandem.teleop.operator import ResumableOperator
from tandem.types import ForeignPolicy, Observation, PolicySnapshot, Spec, Step, Transition

if TYPE_CHECKING:
    from tandem.acting.demo_starts import DemoStarts


class ActorLink(Protocol):
    """The actor's end of any link."""

    def send(self, transitions: Sequence[Transition]) -> None: ...

    def newest_policy(self, newer_than: int = -1) -> PolicySnapshot | None: ...

    def acting_with(self, snapshot: PolicySnapshot | ForeignPolicy) -> None: ...

    def episode_end(self, end: EpisodeEnd) -> None: ...


@dataclass(frozen=True)
class _Made:
    """A step of the environments that is not judged yet."""

    asked: np.ndarray
    """(N, action_dim): the actions that the environments were given."""
    by_human: list[bool]
    tags: list[str]
    """Why a person took over, for each operator; empty where nobody did, or said."""
    step: Step


class Actor:
    """Acts in N environments at once, each with its own operator (who usually lets the policy's proposal stand), or without any.

    The action that is stored is the one that was executed, also where the environment (`limits.LimitedEnv`) changed it.

        begin ──► step ──► step ──► ... ──► reset_ended ──► step ...
                    └─ needs_label: settle, once a person has judged the episode (reward source `person`)
    """

    def __init__(
        self,
        env: TaskEnv,
        link: ActorLink,
        operators: Sequence[ResumableOperator],
        *,
        source: str,
        seed: int,
        random_steps: int = 0,
        deterministic_share: float = 0.0,
        deterministic_from: float = 0.9,
        starts: DemoStarts | None = None,
        say: Callable[[str], None] = lambda line: None,
        broken: Path | None = None,
        own_policy: OwnPolicy | None = None,
        rewards: RewardSource | None = None,
        spec: Spec | None = None,
    ) -> None:
        self.env, self._link, self.operators, self._say = env, link, operators, say
        self.rewards: RewardSource = rewards or EnvironmentReward()
        self.spec = spec or env.spec
        """The run's, whose scales may be fitted; the environment's where nobody gave another."""
        self._layout, self._actions = Layout(self.spec), ActionLayout.of(self.spec)
        self._random = np.random.default_rng([seed, 1])
        self._random_steps, self._starts = random_steps, starts
        self._deterministic_share, self._deterministic_from = deterministic_share, deterministic_from
        self._explores = np.ones(env.num_envs, bool)
        """Rows whose episode is acted with noise; the others take the most likely action."""
        self._successes: deque[bool] = deque(maxlen=WINDOW)
        """The last episodes that began where the task begins, and ended."""
        self.steps = 0
        """Steps of the environments so far, all rows together."""
        self.snapshot: PolicySnapshot | None = None
        """The policy that it acts with."""
        self._policy: ActingPolicy | None = None
        self._held: Held | None = None if own_policy is None else own_policy.act.held
        """Executes what the policy decided until its next decision; None: it decides at every step."""
        self.own_policy = own_policy
        if own_policy is not None:
            link.acting_with(own_policy.known_as)
        self._seed = seed
        self.recorders = [EpisodeRecorder(self.spec, f"{source}.{row}") for row in range(env.num_envs)]
        self._observation: Observation = {}
        self._made: _Made | None = None
        self.ended = np.zeros(env.num_envs, bool)
        """Rows whose episode is over and that were not reset yet."""
        self.transitions: list[Transition] = []
        """The last step of every row; none of a row whose episode was lost."""
        self.judged: Judged | None = None
        """How it was judged."""
        self.rewarded: int | None = None
        """The last episode of row 0 that was a success."""
        self.returns = np.zeros(env.num_envs)
        """Sum of rewards of the episode that each row is in."""
        self._broken = broken
        self._trace: deque[tuple[dict[str, Any], np.ndarray]] = deque(maxlen=STATES_KEPT)

    def begin(self) -> None:
        """First episodes in all rows."""
        self._reset(range(self.env.num_envs), episode_seeds(self._seed, "training", self.env.num_envs, self.steps))

    @property
    def needs_reset(self) -> bool:
        """An episode is over: `reset_ended` comes before the next step."""
        return bool(self.ended.any())

    def reset_ended(self) -> None:
        """New episodes in the rows whose last one is over."""
        if self.needs_reset:
            self._reset(np.flatnonzero(self.ended).tolist())

    def step(self) -> None:
        """One step in every row."""
        self._take_newest_policy()
        proposed = self._propose()
        actions, by_human = self._decide(proposed)
        step = self._step_env(actions)
        if self._held is not None:
            human = np.array(by_human) if step.intervened is None else np.array(by_human) | step.intervened
            self._held.cut(human, actions if step.executed is None else step.executed)
        self._observation = step.observation
        self._made = _Made(actions, by_human, [o.tag if human else "" for o, human in zip(self.operators, by_human, strict=False)], step)
        if not self.rewards.must_ask(step):
            self.settle()

    def _decide(self, proposed: np.ndarray) -> tuple[np.ndarray, list[bool]]:
        """The actions to execute, and in which rows a person chose them. Without operators the policy's proposals stand."""
        if not self.operators:
            return np.array(proposed), [False] * len(proposed)
        decided = [operator.decide(_row(self._observation, i), proposed[i]) for i, operator in enumerate(self.operators)]
        return np.stack([action for action, _ in decided]), [by_human for _, by_human in decided]

    @property
    def needs_label(self) -> bool:
        """The last step is neither stored nor sent before a person has judged the episode that it ended, or nobody does (`settle`)."""
        return self._made is not None

    def settle(self) -> None:
        """Judge the last step, store it and send it."""
        assert self._made is not None
        made, self._made = self._made, None
        self.judged = judged = self.rewards.judge(made.step)
        version = self.snapshot.version if self.snapshot else -1
        lost = made.step.lost
        known = [(i, recorder) for i, recorder in enumerate(self.recorders) if lost is None or not lost[i]]
        self.transitions = [
            recorder.record(made.asked[i], judged.step, i, intervened=made.by_human[i], policy_version=version, labelled=judged.labelled(i))
            for i, recorder in known
        ]
        if any(made.tags):
            tags = [made.tags[i] for i, _ in known]
            self.transitions = [dataclasses.replace(step, tag=tag) for step, tag in zip(self.transitions, tags, strict=True)]
        if lost is not None:
            self._say(f"[ACTOR] the episodes of the rows {np.flatnonzero(lost).tolist()} are gone: cut off after their last step")
        ended = [(step, recorder) for step, (_, recorder) in zip(self.transitions, known, strict=True) if step.last]
        self._successes.extend(bool(step.success) for step, recorder in ended if not recorder.began_at)
        if self.transitions:
            self._link.send(self.transitions)
        self.steps += len(self.transitions)
        self.returns += judged.step.reward
        self.ended |= judged.step.ended
        if judged.step.success[0]:
            self.rewarded = self.recorders[0].episode
        self._leave_episodes_without_numbers()
        if judged.label is not None:
            self.end_episode(kept=True, success=judged.label.success)

    def _leave_episodes_without_numbers(self) -> None:
        """From a NaN or infinite observation nobody can act: the journal rejects the step, and the row begins a new episode."""
        for row in np.flatnonzero(~self.ended).tolist():
            found = _not_finite(_row(self._observation, row))
            if found:
                self.ended[row] = True
                self._say(f"[ACTOR] environment '{self.spec.task}' handed out {found}: the episode is left, and another begins")

    def leave_episodes(self) -> None:
        """All rows begin new episodes: the last step was not made, and nobody knows what the robot did instead."""
        self.ended[:] = True

    def end_episode(self, kept: bool, success: bool | None, episode: int | None = None, row: int = 0) -> None:
        """Tell the learner what became of an episode (the one that runs, unless its number is given)."""
        recorder = self.recorders[row]
        self._link.episode_end(EpisodeEnd(recorder.source, recorder.episode if episode is None else episode, recorder.step, kept, success))

    def _step_env(self, actions: np.ndarray) -> Step:
        """A step; when the physics breaks in it, the states that led there are kept (30 microseconds a step)."""
        if self._broken is None or not self.env.capabilities.saves:
            return self.env.step(actions)
        self._trace.append((self.env.state(), actions))
        try:
            return self.env.step(actions)
        except (SimulationDiverged, ActionError) as problem:
            kept = keep_simulation(self._broken, self.spec.task, str(problem), self._trace[0][0], [acted for _, acted in self._trace])
            if kept is None:
                raise
            raise type(problem)(f"{problem} The last {len(self._trace)} steps are kept: `tandem doctor replay {kept}`.") from problem

    def _reset(self, rows: Sequence[int], seeds: Sequence[int] | None = None) -> None:
        """Start new episodes in these rows: environment, operators, recorders, policy memory, reward source."""
        self._observation, first = self.env.reset(rows, seeds), dict[int, int]()
        if self._starts is not None:
            moved, first = self._starts.begin(self.env, rows, self._random, self.steps)
            self._observation = self._observation if moved is None else moved
        for row in rows:
            found = _not_finite(_row(self._observation, row))
            if found:
                raise EnvironmentFailed(f"environment '{self.spec.task}' handed out {found} in reset(): there is nothing to act from")
            self.ended[row] = False
            self.returns[row] = 0.0
            if self._deterministic_share:
                skilled = sum(self._successes) >= self._deterministic_from * WINDOW
                self._explores[row] = not skilled or self._random.random() >= self._deterministic_share
            if self.own_policy is not None:
                self.own_policy.act.reset(np.arange(self.env.num_envs) == row)
            if self._held is not None:
                self._held.begin([row])
            if self.operators:
                self.operators[row].reset()
            self.recorders[row].begin(_row(self._observation, row), first.get(row, 0))
        self.rewards.begin(rows)

    def _take_newest_policy(self) -> None:
        """Between two steps, never within one."""
        if self.own_policy is not None:
            return
        snapshot = self._link.newest_policy(self.snapshot.version if self.snapshot else -1)
        if snapshot is not None:
            self._say(f"[ACTOR] Received network parameters update at step {self.steps}! (version {snapshot.version}, {snapshot.hash})")
            self.snapshot, self._policy = snapshot, acting_policy(snapshot)
            self._held = held_for(snapshot.parameters, self._actions, self._held) if DECIDES in snapshot.parameters else None
            self._link.acting_with(snapshot)
            self._say("[ACTOR] Network parameters updated successfully!")

    def _propose(self) -> np.ndarray:
        if self.own_policy is not None:
            return self.own_policy.act(self._observation)
        return self._draw() if self._held is None else self._held(self._draw, self.env.num_envs)

    def _draw(self) -> np.ndarray:
        if self._policy is None or self.steps < self._random_steps:
            return self._actions.random(self._random, self.env.num_envs)
        seen = look(self._policy, self._layout, self._observation)
        actions = self._policy.sample(seen, self._random)
        return actions if self._explores.all() else np.where(self._explores[:, None], actions, self._policy.mode(seen))

    @property
    def observation(self) -> Observation:
        """The observation of row 0 that the next action answers."""
        return _row(self._observation, 0)

    @property
    def values(self) -> Mapping[str, float]:
        """How sure the rule that gives the rewards is of each stage, after the last step of row 0."""
        return {} if self.judged is None else self.judged.values

    @property
    def place(self) -> tuple[int, int]:
        """Episode of row 0, and its next step."""
        return self.recorders[0].episode, self.recorders[0].step


def _row(observation: Observation, index: int) -> Observation:
    return {name: values[index] for name, values in observation.items()}


def _not_finite(observation: Observation) -> str:
    """The first number that is NaN or infinite, with its entry and index; empty if there is none."""
    for name, values in observation.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            index = tuple(np.argwhere(~np.isfinite(values))[0].tolist())
            return f"{values[index]} in the observation '{name}' at {list(index)}"
    return ""
