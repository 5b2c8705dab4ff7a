"""HG-DAgger: a clone that a person corrects while it acts, trained on demonstrations and corrections alone.

    demonstrations ──► clone ──publish──► actor ──► a person takes over where it goes wrong ──journal──► the clone learns that too ──► ...

Rewards play no part. Hub, actors, page, limits, journal and the loop of the process are those of `tandem train`; `Dagger` is what the
loop drives. The data are not in a checkpoint: they follow from the demonstrations and the journal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tandem.agents.bc import BCConfig, Imitator
from tandem.agents.sac_config import SACConfig
from tandem.agents.sac_start import agent_for
from tandem.layouts import Layout
from tandem.link.trainer_end import TrainerEnd, open_journal
from tandem.off_policy.campaigns import campaign_for
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.saving import bookmark
from tandem.off_policy.trainer_process import run_training
from tandem.runs.campaign import Watch
from tandem.runs.checkpoint import write_checkpoint
from tandem.runs.clocks import Clocks
from tandem.runs.display import Display
from tandem.runs.episodes import EpisodeLog
from tandem.runs.folder import RunFolder, plain, this_machine
from tandem.runs.stopping import interruptible
from tandem.types import PolicySnapshot, Spec, Transition

BLOCK = 50
"""Updates that are compiled as one program."""
STD = 0.05
"""Standard deviation of the actions while it acts, before tanh: a person corrects what it means to do."""
_AHEAD = 1000
"""Steps that actors may be ahead of what was received: nobody waits for this learner."""


class Imitated:
    """What is imitated: steps that somebody demonstrated or corrected. It grows, and discarded episodes leave it."""

    def __init__(self, spec: Spec, demos: Sequence[Transition]) -> None:
        self._spec, self._layout = spec, Layout(spec)
        self._steps: list[Transition] = []
        self._arrays: dict[str, np.ndarray] = {}
        self.demos = len(demos)
        self.add(demos)

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def corrections(self) -> int:
        return len(self._steps) - self.demos

    def add(self, steps: Sequence[Transition]) -> None:
        if not steps:
            return
        self._steps += steps
        new = self._of(steps)
        self._arrays = {name: np.concatenate([self._arrays[name], rows]) if self._arrays else rows for name, rows in new.items()}

    def forget(self, episodes: set[tuple[str, int]]) -> int:
        """Returns how many corrections are gone."""
        kept = [n for n, step in enumerate(self._steps) if n < self.demos or (step.source, step.episode) not in episodes]
        gone = len(self._steps) - len(kept)
        if gone:
            self._steps = [self._steps[n] for n in kept]
            self._arrays = {name: rows[kept] for name, rows in self._arrays.items()}
        return gone

    def _of(self, steps: Sequence[Transition]) -> dict[str, np.ndarray]:
        seen = {name: np.stack([step.observation[name] for step in steps]) for name in self._spec.observation}
        raw = {name: seen[name] for name in self._layout.raw_names}
        return {"/flat": self._layout.flatten(seen), "/action": np.stack([step.action for step in steps]), **raw}

    def rows(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Observations, actions and features, with the axes of `chosen` in front."""
        arrays = {name: rows[chosen] for name, rows in self._arrays.items()}
        return arrays.pop("/flat"), arrays.pop("/action"), arrays


class Dagger:
    """The learner: `step` makes some updates and sends the policy to the actors."""

    phase = "training"

    def __init__(self, config: TrainConfig, run: RunFolder, spec: Spec, demos: Sequence[Transition], display: Display, link: TrainerEnd):
        self.config, self.run, self.spec, self.display, self.link = config, run, spec, display, link
        self.data = Imitated(spec, demos)
        settings = BCConfig(batch_size=config.batch_size, learning_rate=config.agent.learning_rate, std=STD)
        network = SACConfig(hidden=config.agent.hidden, grasp_ensemble_size=config.agent.grasp_ensemble_size)
        flat, actions, features = self.data.rows(np.arange(1))
        self.imitator = Imitator(settings, network, flat, actions, config.seed, features, agent_for(network, spec).grasp)
        self._carried = _carried(run)
        self.episodes = EpisodeLog(spec.control_hz)
        self.random = np.random.default_rng([config.seed, 5])
        self.steps = self.received = self.version = 0
        self.discarded: set[tuple[str, int]] = set()
        """Episodes that a person threw away, by source and number."""
        self.snapshot: PolicySnapshot | None = None
        self.judge, self.campaign = campaign_for(config, run, spec, display, self.log)

    def log(self, line: str) -> None:
        self.run.log_line(line)
        self.display.say(line)

    @property
    def clocks(self) -> Clocks:
        return Clocks(self.steps, self.received, self.version)

    @property
    def pace(self) -> tuple[int, float]:
        return self.received + _AHEAD, 1e9

    def begin(self) -> None:
        """The clone of the demonstrations, which the actors wait for."""
        self.run.event("started", seed=self.config.seed, init_from=None, demo_transitions=self.data.demos, **this_machine())
        self.log(f"cloning {self.data.demos:,} demonstrated steps")
        before, ratio = self.pace
        with interruptible(self.campaign):
            while self.steps < self.config.clone_steps and self.campaign.stop_reason is None:
                self.learn()
                self.display.waiting("cloning the demonstrations", self.steps, self.config.clone_steps)
                self.link.beat(learner_step=self.steps, phase="filling", steps_before=before, updates_per_actor_step=ratio)
        self.publish()
        with self.campaign.storing("the checkpoint"):
            self.save()

    def receive(self) -> int:
        """New steps of the actors; each step that a person chose earns `updates_per_actor_step` updates."""
        steps = self.link.receive()
        self._forget(self.link.discarded())
        corrections = self._corrections(steps)
        self.data.add(corrections)
        self.episodes.add(steps)
        self.received += len(steps)
        self.campaign.progress.credit += self.config.updates_per_actor_step * len(corrections)
        return len(steps)

    def _forget(self, episodes: set[tuple[str, int]]) -> None:
        self.discarded |= episodes
        gone = self.data.forget(episodes)
        if gone:
            self.log(f"{gone} corrections of discarded episodes are forgotten")

    def _corrections(self, steps: Iterable[Transition]) -> list[Transition]:
        return [step for step in steps if step.intervened and (step.source, step.episode) not in self.discarded]

    @property
    def may_step(self) -> bool:
        return self.campaign.progress.credit >= BLOCK

    def step(self) -> None:
        """Updates that corrections have earned, and a policy that has learned them."""
        self.campaign.progress.credit -= BLOCK
        self.learn()
        with self.campaign.storing("publishing the policy"):
            self.publish()
        self.display.training(self.clocks, self.config.max_steps, self.episodes.in_words, {}, self.campaign.seconds_left)
        if self._passed(self.config.eval_period) and self.judge.affordable():
            self.evaluate()
        self.campaign.check_limits(self.steps)

    def _passed(self, period: int) -> bool:
        """Whether a multiple of this many updates was passed by the newest block; never, where it is 0."""
        return bool(period) and self.steps // period > (self.steps - BLOCK) // period

    def learn(self) -> None:
        chosen = self.random.integers(0, len(self.data), (BLOCK, self.config.batch_size))
        loss = self.imitator.learn(*self.data.rows(chosen))
        self.steps += BLOCK
        counts = {"dagger/corrections": float(self.data.corrections), "dagger/demo_transitions": float(self.data.demos)}
        self.campaign.report(self.clocks, {"bc/train_loss": loss, **counts, **self.episodes.metrics()})

    def publish(self) -> None:
        self.version = self.run.next_version()
        self.snapshot = PolicySnapshot(self.version, self.steps, {**self.imitator.parameters, **self._carried})
        self.link.publish(self.snapshot)
        self.run.event("published", version=self.version, hash=self.snapshot.hash, learner_step=self.steps)

    def evaluate(self, *, scheduled: bool = True) -> None:
        assert self.snapshot is not None
        at = f"{self.run.wall_s / 60:.1f} min, {self.data.corrections:,} corrections"
        with self.campaign.storing("the evaluation"):
            self.campaign.evaluate(self.snapshot, self.clocks, at, scheduled=scheduled)

    @property
    def checkpoint_due(self) -> bool:
        return self._passed(self.config.checkpoint_period)

    def save(self) -> Path:
        meta = {"actor_step": self.received, "ord": self.link.ord, "policy_version": self.version}
        meta |= {"wall_s": self.run.wall_s, "spec_hash": self.spec.hash}
        learner = {"steps": self.steps, "received": self.received, "random": json.dumps(self.random.bit_generator.state)}
        loops = {"learner": learner, "progress": self.campaign.state()}
        return write_checkpoint(self.run.checkpoints, self.steps, self.imitator.arrays(), loops, meta)

    def restore(self) -> None:
        """With the networks of the checkpoint, and the corrections that had been received until then."""
        checkpoint = self.campaign.newest_checkpoint()
        read_to, saved = checkpoint.meta["ord"], checkpoint.loops["learner"]
        with open_journal(self.run.path, self.spec, read_only=True) as journal:
            self.discarded = journal.discarded()
            self.data.add(self._corrections(step for _, step in journal.read(up_to_ord=read_to)))
            self.link.ord = bookmark(read_to, journal.last_ord(), self.display.say)
        self.imitator.restore(checkpoint.agent)
        self.random.bit_generator.state = json.loads(saved["random"])
        self.steps, self.received = saved["steps"], saved["received"]
        self.campaign.restore(checkpoint)
        facts = {"learner_step": self.steps, "exact": False, "demo_transitions": self.data.demos}
        self.run.event("resumed", **facts, config=plain(self.config), **this_machine())
        self.log(f"resumed at update {self.steps:,} with {self.data.corrections:,} corrections")
        self.publish()

    def flush(self) -> None:
        """Nothing waits here."""

    def finish(self, reason: str) -> dict[str, Any]:
        assert self.snapshot is not None
        self.campaign.keep_latest(self.snapshot)
        facts = {"demo_transitions": self.data.demos, "corrections": self.data.corrections}
        return self.campaign.finish(reason, self.clocks, self.snapshot, **facts)


def _carried(run: RunFolder) -> Mapping[str, np.ndarray]:
    """The encoder of a run with cameras travels with every policy."""
    if not run.encoder_file.exists():
        return {}
    from tandem.networks.encoders.encoder import Encoder  # only runs with cameras need it

    return Encoder.read(run.encoder_file).arrays()


def run_dagger(config: TrainConfig, path: Path, display: Display, watch: Watch | None = None) -> dict[str, Any]:
    """The process of the learner: until a limit, a command or a signal stops it; returns the summary."""
    return run_training(config, path, display, lambda run, demos, link: Dagger(config, run, run.spec, demos, display, link), watch)
