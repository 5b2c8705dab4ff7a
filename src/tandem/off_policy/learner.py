"""The learner: link, replay, batch, update, publish.

    actors ──link──► receive ──► online and demonstration replay ──batch──► update ──► publish ──link──► actors

Before a policy is published, the state that it comes from is judged. A state that passes is kept as the last good one; a state
that does not is replaced by the last good one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from tandem.agents.sac import SAC, SACConfig
from tandem.agents.sac_start import shown_critics, with_policy
from tandem.data.blame import BlameRows
from tandem.data.mixing import Imitation, Mixture, store
from tandem.data.replay import Replay, Returns
from tandem.errors import StorageFull
from tandem.layouts import ActionLayout
from tandem.off_policy.config import TrainConfig
from tandem.runs.broken import keep_batch
from tandem.runs.episodes import EpisodeLog
from tandem.runs.folder import RunFolder
from tandem.runs.isolation import Apart
from tandem.types import Batch, Metrics, PolicySnapshot, Spec, Transition

DIVERGED = 10.0
"""Q values of rewards alone that exceed the largest return by this factor mean that the critics have diverged."""

FIRST_EPISODES = 10
"""With `critic_steps`: the critics have seen so many episodes before they move the actor. From one robot they come slowly."""


class LearnerLink(Protocol):
    """The learner's end of any link: steps of the actors in, policies out."""

    def receive(self) -> list[Transition]: ...

    def discarded(self) -> set[tuple[str, int]]: ...

    def publish(self, snapshot: PolicySnapshot) -> None: ...


class Learner:
    """Holds the agent's state and both replay buffers; `update` is one learner step."""

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
        self._storing = Apart(say, only=StorageFull)
        ahead, discount = int(agent.config.n_step), float(agent.config.discount)
        self.online = Replay(spec, config.replay_buffer_capacity, ahead, discount, config.decisions)
        self.demos = Replay(spec, max(config.replay_buffer_capacity, len(demos)), ahead, discount, config.decisions, sliding=True)
        if config.agent.blamed_steps:
            for replay in (self.online, self.demos):
                replay.blame = BlameRows(replay.capacity, config.agent.blamed_steps)
        self._returns = Returns(discount, ActionLayout.of(spec))
        for number, step in enumerate(demos, start=-len(demos)):  # steps of the run count from 0
            self.demos.insert(step, number, self._returns.switches(step))
            self._returns.add(step, self.demos)
        self._mixture = Mixture(self.demos, self.online, config.batch_size, config.agent.return_bound, recorded=bool(demos))
        self.episodes = EpisodeLog(spec.control_hz)
        self.state = agent.init(config.seed)
        self.good_state = agent.copy(self.state)
        self.good_temperature = config.agent.temperature_init
        """The highest temperature of all states that were judged good."""
        self.random = np.random.default_rng([config.seed, 2])
        self.steps = 0
        self.received = 0
        """Steps of the environments received so far: the actor's clock as the learner knows it."""
        self.discarded: set[tuple[str, int]] = set()
        """Episodes that a person threw away, by source and number."""
        self.received_digest = hashlib.sha256().hexdigest()
        """Hash chain over (source, seq) of every received step; equal means same data in the same order."""
        self.acted_with = 0
        """The newest policy version that proposed a received step."""
        self.version = 0
        self.snapshot: PolicySnapshot | None = None
        """The policy that was published last."""
        self.rolled_back = 0
        """How often the last good state had to be restored."""
        self.metrics: Mapping[str, Any] = {}
        """Metrics of the newest update, still on the device: reading them waits for the update to end."""
        self._batch: Batch | None = None
        """The batch of the newest update."""
        self.carried: Mapping[str, np.ndarray] = config.decisions.arrays()
        """What every policy carries beside its own parameters: how often it decides, and the encoder of a run with cameras."""
        self.policy_metrics: Metrics = {}
        """Norm of the published parameters, and of their change since the version before."""
        self._moved = False
        """Whether an update since the last publication moved the actor (`critic_steps`)."""

    def start_from(self, snapshot: PolicySnapshot) -> None:
        """Take over the parameters of a policy. The critics stay as they are and have to catch up."""
        self.state = with_policy(self.agent, self.state, snapshot.parameters)
        self.good_state = self.agent.copy(self.state)

    @property
    def ready(self) -> bool:
        """Enough online data, or still pretraining on demonstrations."""
        return self.steps < self.config.pretrain_steps or len(self.online) >= self.config.training_starts

    def receive(self) -> int:
        """Store what arrived from the actors since the last call; returns how many steps."""
        steps = self._link.receive()
        self.forget(self._link.discarded())
        for number, step in enumerate(steps, start=self.received):
            if (step.source, step.episode) not in self.discarded:
                self.store(step, number)
        self.received += len(steps)
        self.received_digest = extend_digest(self.received_digest, steps)
        self.acted_with = max(self.acted_with, *(step.policy_version for step in steps), -1)
        return len(steps)

    def store(self, step: Transition, number: int) -> None:
        """Keep a step to learn from. `number` counts all received steps from 0."""
        store(step, number, self.online, self.demos, self._returns)
        self.episodes.add([step])

    def store_correction(self, step: Transition, number: int) -> None:
        """The same for a step that the online replay has no room for any more: a person's action stays a demonstration."""
        switches = self._returns.switches(step)
        self.online.pass_by(step)
        if step.intervened:
            self.demos.insert(step, number, switches)
        self._returns.add(step, self.demos)

    def forget(self, episodes: set[tuple[str, int]]) -> None:
        """A person threw these episodes away: no later batch contains them. Updates that already used them are not undone."""
        if not episodes:
            return
        self.discarded |= episodes
        removed = max(self.online.forget(episodes), self.demos.forget(episodes))  # corrections are in both
        self.episodes.forget(episodes)
        self._returns.forget(episodes)
        if not removed:
            return  # no update can have used them
        self._say(f"[LEARNER] a person threw away {len(episodes)} episodes: {removed} steps removed from the replay buffer")
        self._run.event("discarded", learner_step=self.steps, episodes=len(episodes), steps_learned_from=removed)

    @property
    def pretraining(self) -> bool:
        """Whether the updates so far used demonstrations alone; the actors get their first policy after that."""
        return self.steps < self.config.pretrain_steps

    def update(self) -> None:
        """One learner step: `cta_ratio` critic updates, the last of them with the actor and the temperature."""
        before_actors = self.pretraining
        share = 1.0 if before_actors else self.demo_share
        batch = self._mixture.sample(self.random, self.agent.config.cta_ratio, share, self.imitation, self._failing**2)
        moves = self._moves_actor
        self._moved |= moves
        self.state, self.metrics = self.agent.update(self.state, batch, moves)
        self._batch = batch
        self.steps += 1
        if self.steps % self.config.steps_per_update == 0:
            self._judge_state()
            if not before_actors:
                with self._storing("publishing the policy"):  # on a full disk the actors keep the policy they have
                    self._publish()

    @property
    def demo_share(self) -> float:
        """The share of a batch that comes from demonstrations now, once the robot's own steps count."""
        config = self.config
        done = min(1.0, max(0, self.steps - config.pretrain_steps) / config.demo_ratio_anneal_steps)
        return (1 - done) * config.initial_demo_ratio + done * config.final_demo_ratio

    @property
    def _moves_actor(self) -> bool:
        """Whether the critics know enough: after `critic_steps`, and after some episodes of the policy that the run started with."""
        wait = self.config.critic_steps
        return not wait or (self.steps >= wait and self.episodes.finished >= FIRST_EPISODES)

    @property
    def _failing(self) -> float:
        """Share of the newest episodes in which the policy failed without help."""
        return 1.0 - self.episodes.alone_of_window

    @property
    def imitation(self) -> Imitation | None:
        """How much actions of people are imitated now; None if never.

        Demonstrations less and less the better the policy is: a clone is lost if nothing holds it before the critics know better, and
        a policy that is held by them stays as slow as they are.
        """
        agent = self.config.agent
        left = max(0.0, 1.0 - self.steps / agent.imitation_steps)
        weights = Imitation(demos=left * self._failing**2 * agent.demo_imitation, corrections=left * agent.imitation)
        return weights if agent.demo_imitation or agent.imitation else None

    def publish(self) -> None:
        """Judge the state, then send its policy to the actors under a new version."""
        self._judge_state()
        self._publish()

    def _publish(self) -> None:
        version = self._run.next_version()
        self._say(f"[LEARNER] Publishing network parameters at step {self.steps}")
        shown = shown_critics(self.state.critic) if self.config.notice else {}
        snapshot = PolicySnapshot(version, self.steps, {**self.agent.exploring_parameters(self.state), **shown, **self.carried})
        self._link.publish(snapshot)
        self.policy_metrics = _movement(self.snapshot, snapshot) | {"policy/waits": float(not self._moved)}
        self._moved = False
        self.version, self.snapshot = version, snapshot
        self._run.event("published", version=self.version, hash=self.snapshot.hash, learner_step=self.steps)
        self._say(f"[LEARNER] Network parameters published successfully (version {self.version}, {self.snapshot.hash})")

    def current_policy(self) -> PolicySnapshot:
        """The policy to evaluate and to keep: the moving average of the actor, or the newest actor where there is no average.

        A version names one set of parameters: what was not published gets a number of its own.
        """
        if not self.config.agent.actor_average and self.snapshot is not None and self.snapshot.learner_step == self.steps:
            return self.snapshot
        return PolicySnapshot(self._run.next_version(), self.steps, {**self.agent.policy_parameters(self.state), **self.carried})

    def _judge_state(self) -> None:
        """Keep a copy of the state if its own Q values are possible; otherwise go back to the last good state.

        The metrics of an update describe the state before it, so they cannot tell whether the update itself did harm. Therefore the
        critics of the new state are asked once more, on the newest batch.
        """
        if self._batch is None:
            return  # nothing learned since the start
        last = jax.tree.map(lambda array: array[-1], self._batch)
        values = self.agent.values(self.state, last)
        metrics = {name: float(value) for name, value in {**self.metrics, **values}.items()}
        problem = impossible(metrics, q_limit(self.spec, self.config.agent, self.good_temperature))
        if problem is None:
            self.good_state = self.agent.copy(self.state)
            self.good_temperature = max(self.good_temperature, metrics["actor/temperature"])
        else:
            self._roll_back(problem, metrics, self._batch)

    def _roll_back(self, problem: str, metrics: Metrics, batch: Batch) -> None:
        self.rolled_back += 1
        arrays = {name: array for name, array in batch._asdict().items() if isinstance(array, np.ndarray)}
        keep_batch(self._run.broken, self.spec, self.steps, problem, metrics, arrays)
        self.state = self.agent.copy(self.good_state)
        self._say(f"[LEARNER] {problem} at step {self.steps}: back to the last good state ({self.rolled_back} times so far)")
        self._run.event("rolled_back", learner_step=self.steps, problem=problem, count=self.rolled_back)


def extend_digest(digest: str, steps: Iterable[Transition]) -> str:
    """The hash chain after these steps."""
    for step in steps:
        digest = hashlib.sha256(f"{digest} {step.source} {step.seq}".encode()).hexdigest()
    return digest


def _movement(before: PolicySnapshot | None, now: PolicySnapshot) -> Metrics:
    """A policy that is published again and again without having moved is not learning."""

    def norm(arrays: Iterable[np.ndarray]) -> float:
        return float(np.sqrt(sum(np.square(array, dtype=np.float64).sum() for array in arrays)))

    parameters = now.parameters
    size = {"policy/norm": norm(parameters.values())}
    if before is None:
        return size
    return size | {"policy/change": norm(parameters[name] - before.parameters[name] for name in parameters)}


def q_limit(spec: Spec, agent: SACConfig, temperature: float) -> float:
    """The size beyond which a Q value means that the critics have diverged; infinite where no bound is known.

    Without entropy in the target, Q is a return: at most R = max |return_range|. It may exceed R while it is learned, not 10-fold.

    With `backup_entropy` the target of every step contains the discounted entropy of the next action too:

        y = r + γ (Q' - α log π')   so   |Q| <= R + (γ + γ² + ...) α |log π|  =  R + γ / (1 - γ) α |log π|

    For α the highest temperature of the states judged good so far is taken, because Q remembers it long after α has fallen. The
    temperature of a state not yet judged is left out, since one that runs away would make any Q look possible. In the mean over
    actions, -log π is an entropy: per action axis at most log 2 (uniform on [-1, 1]), and at least that of a Gaussian as narrow as
    `std_min` allows, log(std_min sqrt(2 π e)). Learned policies stay far from that, near the target entropy.
    """
    if spec.return_range is None:
        return math.inf
    limit = DIVERGED * max(abs(bound) for bound in spec.return_range)
    if not agent.backup_entropy:
        return limit
    discount = float(agent.discount)
    if discount == 1.0:
        return math.inf
    narrowest = math.log(max(agent.std_min, 1e-30) * math.sqrt(2 * math.pi * math.e))
    largest_entropy = spec.action_dim * max(math.log(2), abs(narrowest))
    return limit + discount / (1 - discount) * temperature * largest_entropy


def impossible(metrics: Metrics, limit: float) -> str | None:
    """What cannot be true of a healthy critic, in words; None if all is well."""
    for name, value in metrics.items():
        if not np.isfinite(value):
            return f"{name} is {value}"
    for name in ("critic/predicted_qs", "critic/target_qs", "critic/q_max"):
        if abs(metrics.get(name, 0.0)) > limit:
            return f"{name} is {metrics[name]:.3g}, beyond {limit:.4g} (the most that rewards and entropy can be worth)"
    return None
