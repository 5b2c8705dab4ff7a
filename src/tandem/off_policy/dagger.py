"""HG-DAgger: a clone that a person corrects while it acts, trained on demonstrations and corrections alone.

    demonstrations ──► clone ──publish──► actor ──► a person takes over where it goes wrong ──journal──► the clone learns that too ──► ...

Rewards play no part. Hub, actors, page, limits and journal are those of `tandem train`; this process stands in the place of its trainer.
What it has learned follows from the demonstrations and the journal, so a trainer that was killed reads both and learns them again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tandem.acting.judge import Judge
from tandem.agents.bc import BCConfig, Imitator
from tandem.agents.sac_config import SACConfig
from tandem.data.demos import load_demos
from tandem.layouts import Layout
from tandem.learnable import require_continuous
from tandem.link.trainer_end import TrainerEnd
from tandem.off_policy.config import TrainConfig
from tandem.runs.campaign import Campaign, StopRules, Watch
from tandem.runs.clocks import Clocks
from tandem.runs.display import Display
from tandem.runs.episodes import EpisodeLog
from tandem.runs.folder import RunFolder, this_machine
from tandem.runs.stopping import interruptible
from tandem.types import PolicySnapshot, Spec, Transition

BLOCK = 50
"""Updates that are compiled as one program."""
STD = 0.05
"""Standard deviation of the actions while it acts, before tanh: a person corrects what it means to do."""
_IDLE_S = 0.005
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
    """The learner: `learn` makes some updates, `publish` sends the policy to the actors."""

    def __init__(self, config: TrainConfig, run: RunFolder, spec: Spec, demos: Sequence[Transition], display: Display, link: TrainerEnd):
        require_continuous(spec, "HG-DAgger")
        self.config, self.run, self.spec, self.display, self.link = config, run, spec, display, link
        self.data = Imitated(spec, demos)
        first = self.data.rows(np.arange(1))
        settings = BCConfig(batch_size=config.batch_size, learning_rate=config.agent.learning_rate, std=STD)
        self.imitator = Imitator(settings, SACConfig(hidden=config.agent.hidden), first[0], first[1], config.seed, first[2])
        self._carried = _carried(run)
        self.episodes = EpisodeLog(spec.control_hz)
        self.random = np.random.default_rng([config.seed, 5])
        self.steps = self.received = self.version = 0
        self.credit = 0.0
        """Updates that corrections have earned and that were not made yet."""
        self.snapshot: PolicySnapshot | None = None
        self.judge = Judge(
            config.task,
            spec,
            config.seed,
            eval_episodes=config.eval_episodes,
            final_episodes=config.final_episodes,
            share=config.eval_share,
            say=display.say,
            progress=display.waiting,
        )
        rules = StopRules(config.max_steps, config.max_minutes, config.stop_success, config.stop_evaluations)
        self.campaign = Campaign(run, spec, display, rules, evaluate=self.judge.score, judge=self.judge.final, say=self.log)

    def log(self, line: str) -> None:
        self.run.log_line(line)
        self.display.say(line)

    def stop(self, reason: str) -> None:
        self.campaign.stop(reason)

    @property
    def clocks(self) -> Clocks:
        return Clocks(self.steps, self.received, self.version)

    def begin(self) -> None:
        """The clone of the demonstrations, which the actors wait for."""
        if self.run.version_file.exists():
            self.run.next_incarnation()
        self.run.event("started", seed=self.config.seed, init_from=None, demo_transitions=self.data.demos, **this_machine())
        self.log(f"cloning {self.data.demos:,} demonstrated steps")
        while self.steps < self.config.clone_steps and self.campaign.stop_reason is None:
            self.learn()
            self.display.waiting("cloning the demonstrations", self.steps, self.config.clone_steps)
            self.beat("filling")
        self.publish()

    def receive(self) -> int:
        """New steps of the actors; each step that a person chose earns `updates_per_actor_step` updates."""
        steps = self.link.receive()
        gone = self.data.forget(self.link.discarded())
        if gone:
            self.log(f"{gone} corrections of discarded episodes are forgotten")
        corrections = [step for step in steps if step.intervened]
        self.data.add(corrections)
        self.episodes.add(steps)
        self.received += len(steps)
        self.credit += self.config.updates_per_actor_step * len(corrections)
        return len(steps)

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

    def beat(self, phase: str) -> None:
        self.link.beat(learner_step=self.steps, phase=phase, steps_before=self.received + _AHEAD, updates_per_actor_step=1e9)

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


class DaggerLoop:
    """Learn when somebody has corrected something; wait otherwise."""

    def __init__(self, dagger: Dagger) -> None:
        self._dagger, self._paused, self._evaluated = dagger, False, 0
        dagger.judge.each_step = lambda: dagger.beat("evaluating")

    def run(self) -> str:
        dagger = self._dagger
        dagger.campaign.check_limits(dagger.steps)
        while dagger.campaign.stop_reason is None:
            self._handle_commands()
            new = dagger.receive()
            dagger.beat("paused" if self._paused else "training")
            if not self._paused and dagger.credit >= BLOCK:
                self._learn()
            elif not new:
                time.sleep(_IDLE_S)
            dagger.campaign.check_limits(dagger.steps)
        return dagger.campaign.stop_reason

    def _learn(self) -> None:
        dagger, config = self._dagger, self._dagger.config
        dagger.credit -= BLOCK
        dagger.learn()
        with dagger.campaign.storing("publishing the policy"):
            dagger.publish()
        dagger.display.training(dagger.clocks, config.max_steps, dagger.episodes.in_words, {}, dagger.campaign.seconds_left)
        if config.eval_period and dagger.steps - self._evaluated >= config.eval_period and dagger.judge.affordable():
            self._evaluated = dagger.steps
            dagger.evaluate()

    def _handle_commands(self) -> None:
        dagger = self._dagger
        for command in dagger.link.commands():
            dagger.run.event("command", command=command.command, learner_step=dagger.steps)
            if command.command in ("pause", "resume"):
                self._paused = command.command == "pause"
            elif command.command == "evaluate":
                dagger.evaluate(scheduled=False)
            elif command.command == "stop":
                dagger.stop("stopped by a command")


def run_dagger(config: TrainConfig, path: Path, display: Display, watch: Watch | None = None) -> dict[str, Any]:
    """The process of the learner: until a limit, a command or a signal stops it; returns the summary."""
    run = RunFolder.open(path)
    spec = run.spec
    demos = [step for file in config.demos for step in load_demos(file, spec)]
    run.add_loggers(config.wandb)
    link = TrainerEnd(path, spec)
    with display:
        dagger = Dagger(config, run, spec, demos, display, link)
        dagger.campaign.watch = watch or dagger.campaign.watch
        with interruptible(dagger):
            dagger.begin()
            reason = DaggerLoop(dagger).run()
        dagger.beat("stopped")
        summary = dagger.finish(reason)
    link.close()
    run.close()
    return summary
