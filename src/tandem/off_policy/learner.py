"""The learner: link, replay, batch, update, publish."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from tandem.agents.sac import SAC
from tandem.data.mixing import Mixture, route
from tandem.data.replay import Replay
from tandem.off_policy.config import TrainConfig
from tandem.runs.broken import keep_batch
from tandem.runs.episodes import EpisodeLog
from tandem.runs.folder import RunFolder
from tandem.types import Batch, Metrics, PolicySnapshot, Spec, Transition

DIVERGED = 10.0
"""Q values beyond this many return ranges cannot be: the update went wrong."""


class LearnerLink(Protocol):
    """The learner's end of any link."""

    def receive(self) -> list[Transition]: ...

    def discarded(self) -> set[tuple[str, int]]: ...

    def publish(self, snapshot: PolicySnapshot) -> None: ...


class Learner:
    """Holds the agent's state and both buffers; `step` is one learner step."""

    def __init__(
        self,
        config: TrainConfig,
        spec: Spec,
        agent: SAC,
        link: LearnerLink,
        run: RunFolder,
        demos: Sequence[Transition],
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.config, self.spec, self.agent, self._link, self._run, self._say = config, spec, agent, link, run, say
        self.online = Replay(spec, config.replay_buffer_capacity)
        self.demos = Replay(spec, max(config.replay_buffer_capacity, len(demos)))
        self.demos.extend(demos)
        self._mixture = Mixture(self.demos, self.online, config.batch_size)
        self.episodes = EpisodeLog(spec.control_hz)
        self.state = agent.init(config.seed)
        self._good_state = agent.copy(self.state)
        self._random = np.random.default_rng([config.seed, 2])
        self.steps = 0
        self.received = 0
        """Steps of the environments taken in: the actor's clock as the learner knows it."""
        self.discarded: set[tuple[str, int]] = set()
        """Episodes that a person threw away, by source and number."""
        self.trail = hashlib.sha256().hexdigest()
        """Of every step received, in order: two learners that were given the same data in the same order have the same one."""
        self.acted_with = 0
        """The newest version that a received step was proposed by."""
        self.version = 0
        self.snapshot: PolicySnapshot | None = None
        self.rolled_back = 0
        """Times the last good state had to be restored."""
        self._metrics: Any = None
        self._metrics_batch: Batch | None = None
        self.latest: Metrics = {}
        self.policy_metrics: Metrics = {}
        """How large the published parameters are, and how far they moved since the version before."""

    def start_from(self, snapshot: PolicySnapshot) -> None:
        """Take over the parameters of a policy; critics stay as they are, so they have to catch up first."""
        self.state = self.agent.with_policy(self.state, snapshot.parameters)
        self._good_state = self.agent.copy(self.state)

    @property
    def ready(self) -> bool:
        """Enough online data, or still pretraining on demonstrations."""
        return self.steps < self.config.pretrain_steps or len(self.online) >= self.config.training_starts

    def take_in(self) -> int:
        """What the actors have lived through since the last call: all of it online, corrections to the demonstrations too."""
        steps = self._link.receive()
        self.forget(self._link.discarded())
        self.remember([step for step in steps if (step.source, step.episode) not in self.discarded] if self.discarded else steps)
        self.received += len(steps)
        self.trail = follow(self.trail, steps)
        self.acted_with = max((step.policy_version for step in steps), default=self.acted_with)
        return len(steps)

    def forget(self, episodes: set[tuple[str, int]]) -> None:
        """A person threw these away: no batch has them from here on. What was learned from them until now is not unlearned, only said."""
        if not episodes:
            return
        self.discarded |= episodes
        removed = self.online.forget(episodes)
        self.demos.forget(episodes)
        self.episodes.forget(episodes)
        if not removed:
            return  # known before anything was learned from them
        self._say(f"[LEARNER] {len(episodes)} episodes were thrown away by a person: {removed} steps taken out of the replay")
        self._run.event("discarded", learner_step=self.steps, episodes=len(episodes), steps_learned_from=removed)

    def remember(self, steps: Sequence[Transition]) -> None:
        route(steps, self.online, self.demos)
        self.episodes.add(steps)

    def step(self) -> None:
        """`cta_ratio` critic updates, the last of them with the actor and the temperature."""
        demo_share = 1.0 if self.steps < self.config.pretrain_steps else 0.5
        batch = self._mixture.sample(self._random, self.agent.config.cta_ratio, demo_share)
        self.state, metrics = self.agent.update(self.state, batch)
        self.steps += 1
        if self.steps % self.config.log_period == 0:
            # read the row before last: its numbers are there, those of this update are still being computed
            self._read_metrics()
            self._metrics, self._metrics_batch = metrics, batch
        if self.steps % self.config.steps_per_update == 0:
            self.publish()

    def publish(self) -> None:
        """A new version for the actors, after a last look at whether it can be trusted."""
        if self.steps:
            self._check_sanity()
        self.version = self._run.next_version()
        self._say(f"[LEARNER] Publishing network parameters at step {self.steps}")
        before, self.snapshot = self.snapshot, PolicySnapshot(self.version, self.steps, self.agent.policy_parameters(self.state))
        self.policy_metrics = _movement(before, self.snapshot)
        self._link.publish(self.snapshot)
        self._run.event("published", version=self.version, hash=self.snapshot.hash, learner_step=self.steps)
        self._say(f"[LEARNER] Network parameters published successfully (version {self.version}, {self.snapshot.hash})")

    def current_policy(self) -> PolicySnapshot:
        """What it has learned so far. A version names one set of parameters: what was not published gets a number of its own."""
        if self.snapshot is not None and self.snapshot.learner_step == self.steps:
            return self.snapshot
        return PolicySnapshot(self._run.next_version(), self.steps, self.agent.policy_parameters(self.state))

    def _read_metrics(self) -> None:
        if self._metrics is not None:
            self.latest = {name: float(value) for name, value in self._metrics.items()}

    def _check_sanity(self) -> None:
        """Keep a copy of a good state, or go back to the last one."""
        if self._metrics is None:
            return
        self._read_metrics()
        problem = _impossible(self.latest, self.spec)
        if problem is None:
            self._good_state = self.agent.copy(self.state)
            return
        self.rolled_back += 1
        if self._metrics_batch is not None:
            arrays = {name: array for name, array in self._metrics_batch._asdict().items() if name not in ("raw", "next_raw")}
            keep_batch(self._run.broken, self.spec, self.steps, problem, self.latest, arrays)
        self._metrics = self._metrics_batch = None
        self.state = self.agent.copy(self._good_state)
        self._say(f"[LEARNER] {problem} at step {self.steps}: back to the last good state ({self.rolled_back} times so far)")
        self._run.event("rolled_back", learner_step=self.steps, problem=problem, count=self.rolled_back)

    def checkpoint(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays of the agent, and the rest that decides what comes next."""
        arrays = self.agent.arrays(self.state) | {f"good/{name}": array for name, array in self.agent.arrays(self._good_state).items()}
        return arrays, {
            "steps": self.steps,
            "received": self.received,
            "trail": self.trail,
            "version": self.version,
            "rolled_back": self.rolled_back,
            "random": json.dumps(self._random.bit_generator.state),
            "latest": self.latest,
            "policy_metrics": self.policy_metrics,
            "published_at": self.snapshot.learner_step if self.snapshot else -1,
            "published": dict(self.snapshot.parameters) if self.snapshot else {},
        }

    def restore(self, arrays: dict[str, np.ndarray], saved: dict[str, Any]) -> None:
        good = {name.removeprefix("good/"): array for name, array in arrays.items() if name.startswith("good/")}
        self.state = self.agent.from_arrays(self.state, {name: array for name, array in arrays.items() if not name.startswith("good/")})
        self._good_state = self.agent.from_arrays(self._good_state, good)
        self.steps, self.received, self.trail = saved["steps"], saved["received"], saved["trail"]
        self.version, self.rolled_back = saved["version"], saved["rolled_back"]
        self._random.bit_generator.state = json.loads(saved["random"])
        self.latest = saved["latest"]
        self.policy_metrics = saved.get("policy_metrics", {})
        if saved["published"]:
            self.snapshot = PolicySnapshot(self.version, saved["published_at"], saved["published"])


def follow(trail: str, steps: Iterable[Transition]) -> str:
    """The trail after these steps."""
    for step in steps:
        trail = hashlib.sha256(f"{trail} {step.source} {step.seq}".encode()).hexdigest()
    return trail


def _movement(before: PolicySnapshot | None, now: PolicySnapshot) -> Metrics:
    """A policy that is published again and again without having moved is not learning."""

    def norm(arrays: Iterable[np.ndarray]) -> float:
        return float(np.sqrt(sum(np.square(array, dtype=np.float64).sum() for array in arrays)))

    parameters = now.parameters
    size = {"policy/norm": norm(parameters.values())}
    if before is None:
        return size
    return size | {"policy/change": norm(parameters[name] - before.parameters[name] for name in parameters)}


def _impossible(metrics: Metrics, spec: Spec) -> str | None:
    """What cannot be true of a healthy critic, in words."""
    for name, value in metrics.items():
        if not np.isfinite(value):
            return f"{name} is {value}"
    if spec.return_range is not None:
        limit = DIVERGED * max(abs(bound) for bound in spec.return_range)
        for name in ("critic/predicted_qs", "critic/target_qs", "critic/q_max"):
            if abs(metrics.get(name, 0.0)) > limit:
                return f"{name} is {metrics[name]:.3g}, beyond {limit:g} ({DIVERGED:g} times the largest return)"
    return None
