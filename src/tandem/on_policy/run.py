"""PPO as a run: collect, judge, update, log, evaluate, save; the same folder, evaluation and policies as RLPD.

Reproducible to the last bit on the same machine, and resumable the same way.
"""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from tandem.acting.evaluate import FINAL_SEEDS, SELECTION_SEEDS, evaluate, has_success
from tandem.acting.policy import act_with, describe
from tandem.actions import require_continuous
from tandem.agents.ppo import PPO, PPOConfig, Samples
from tandem.agents.recurrent_ppo import RecurrentPPO
from tandem.agents.symmetry import Mirror
from tandem.data.rollout import Rollout
from tandem.envs.registry import Reward, make_batch, registered
from tandem.envs.task_env import RolloutEnv
from tandem.errors import ConfigError, NotFinite, SimulationDiverged, SpecMismatch, TandemError
from tandem.observations import Layout, require_roles
from tandem.off_policy.trainer import Progress, Watch
from tandem.on_policy.advantages import Hindsight
from tandem.on_policy.collector import Act, Collector
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.curiosity import Curiosity
from tandem.on_policy.display import Times, iteration_block
from tandem.on_policy.mirror import mirror_for
from tandem.on_policy.rollout_model import reading_of
from tandem.runs.broken import FOLDER, keep_batch, keep_simulation
from tandem.runs.checkpoint import newest_checkpoint, read_checkpoint, read_policy, write_checkpoint, write_policy
from tandem.runs.clocks import Clocks
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder, this_machine
from tandem.runs.loggers import TensorBoard, WandB
from tandem.runs.stopping import INTERRUPTED, interruptible
from tandem.types import Metrics, PolicyKind, PolicySnapshot, Spec

FEW = 64
"""Simulations up to which actions are computed with NumPy; it saves 0.1 ms a step, a tenth of the time of a run with 16 of them."""


class OnPolicyRun:
    """All parts of one PPO run."""

    def __init__(self, config: OnPolicyConfig, run: RunFolder, env: RolloutEnv, display: Display) -> None:
        self.config, self.run, self.display = config, run, display
        self.spec = env.task_spec
        mirror = mirror_for(config, env)
        self.agent = agent_for(config, self.spec, mirror)
        self.reading = reading_of(self.agent, config.num_envs)
        self.collector = Collector(config, env, self.reading.actor_memory_dim, mirror)
        self.state = self.agent.init(config.seed)
        self.hindsight = Hindsight(config, self.reading, self.spec)
        self.curiosity = Curiosity(config, self.spec) if config.rnd.wanted else None
        self._random = np.random.default_rng([config.seed, 2])
        self.iterations = 0
        self.progress = Progress()
        self.best: PolicySnapshot | None = None
        self._version = 0
        self._stop_reason: str | None = None
        self.watch: Watch = lambda row: ()

    def loop(self) -> str:
        """Until something says stop; returns the reason."""
        while self._stop_reason is None:
            self.iterate()
        return self._stop_reason

    def iterate(self) -> Times:
        """Collect, judge, update, log; evaluate and save where it is time."""
        began = time.perf_counter()
        rollout = self.collector.collect(self.acting())
        collected = time.perf_counter()
        rewarded = self._reward_novelty(rollout)
        self.state, samples, judged = self.hindsight.judge(self.state, rollout, self.collector.observations)
        learned = self._update(samples) | rewarded
        times = Times(collected - began, time.perf_counter() - collected)
        self.iterations += 1
        self._after_iteration(judged | learned | self.collector.episodes.metrics() | self.collector.terms, times)
        return times

    def acting(self) -> Act:
        """The policy as it is now, for the collector. A few rows are sooner computed here than by threads that have to be woken."""
        return self.reading.acting(self.state, by_numpy=self.config.num_envs <= FEW)

    def _reward_novelty(self, rollout: Rollout) -> Metrics:
        """With random network distillation: rewards for what is new, which is then learned to be less so."""
        reached = self.collector.reached
        if self.curiosity is None or reached is None:
            return {}
        before = self.collector.steps // self.config.num_envs - self.config.num_steps_per_env
        return self.curiosity.reward(rollout, reached, before) | self.curiosity.learn(reached)

    def _update(self, samples: Samples) -> Metrics:
        """All gradient steps of an iteration; then the normaliser may move."""
        config = self.config
        order = orders(self._random, config.agent.num_learning_epochs, config.num_envs if config.agent.recurrent else config.samples)
        self.state, info = self.reading.update(self.state, samples, order, self.iterations / config.max_iterations)
        metrics = {name: float(value) for name, value in info.items()}
        if metrics["Loss/dropped_updates"]:
            self._report_dropped(metrics)
        if self.config.obs_normalization:
            self.collector.normaliser.advance()
        return metrics

    def _report_dropped(self, metrics: Metrics) -> None:
        """Updates with a number that is none were not made. A few of them are an event; when there were no others, it is the end."""
        dropped = int(metrics["Loss/dropped_updates"])
        self.run.event("dropped_updates", learner_step=self.iterations, count=dropped)
        self.display.say(f"{dropped} updates of iteration {self.iterations} were not made: their gradients were not finite")
        if not metrics["Loss/updates"]:
            raise NotFinite(
                f"task '{self.spec.task}', iteration {self.iterations}: none of the {dropped} updates was made, because none had a finite "
                f"gradient; the parameters are those from before. Likely cause: a learning rate (now {metrics['Loss/learning_rate']:g}) "
                f"or rewards that are too large."
            )

    @property
    def clocks(self) -> Clocks:
        return Clocks(self.iterations, self.collector.steps, self._version)

    def stop(self, reason: str) -> None:
        self._stop_reason = reason

    def _after_iteration(self, metrics: Metrics, times: Times) -> None:
        config = self.config
        metrics |= {
            "Perf/total_fps": config.samples / times.total,
            "Perf/collection_time": times.collection,
            "Perf/learning_time": times.learning,
        }
        row = self.run.log_metrics(self.clocks, metrics)
        self.display.metrics_row(self.clocks, metrics)
        for warning in self.watch(row):
            self.run.event("warned", learner_step=self.iterations, warning=warning)
            self.display.say(warning)
        self.display.block(iteration_block(self.clocks, config.max_iterations, self.run, metrics, times))
        if config.eval_period and self.iterations % config.eval_period == 0:
            self._evaluate()
        if self.iterations % config.save_interval == 0:
            self.save()
        if self.iterations >= config.max_iterations:
            self.stop(f"max_iterations ({config.max_iterations:,}) reached")
        if config.max_minutes is not None and self.run.wall_s >= config.max_minutes * 60:
            self.stop(f"max_minutes ({config.max_minutes:g}) reached")

    def _evaluate(self) -> None:
        """On seeds of its own, without noise; keeps the best policy, and stops when it is good enough often enough in a row."""
        config, snapshot = self.config, self.snapshot()
        result = evaluate(config.task, act_with(snapshot, self.spec), range(SELECTION_SEEDS, SELECTION_SEEDS + config.eval_episodes))
        rate, mean = float(result.rate.value), float(result.returns.mean())
        self.run.log_metrics(self.clocks, {"eval/success": rate, "eval/return": mean, "eval/length": float(result.length.mean())})
        outcome = f"success {result.rate}" if has_success(self.spec) else f"return {mean:.1f}"
        self.display.say(f"evaluation at iteration {self.iterations:,}: {outcome}, {result.length.mean():.1f} actions")
        score = rate if has_success(self.spec) else mean
        if score >= self.progress.best:
            self.progress.best, self.progress.best_step, self.best = score, self.iterations, snapshot
            write_policy(self.run.checkpoints / "best.safetensors", snapshot, self.spec, score=score, learned_by="ppo")
        if config.stop_success is not None:
            self.progress.reached = self.progress.reached + 1 if rate >= config.stop_success else 0
            if self.progress.reached >= config.stop_evaluations:
                self.stop(f"stop_success ({config.stop_success:g}) reached in {self.progress.reached} evaluations in a row")

    def snapshot(self) -> PolicySnapshot:
        """The policy as it is now, with the normaliser it sees through."""
        self._version = self.run.next_version()
        normaliser = self.collector.normaliser
        parameters = self.agent.policy_parameters(self.state, normaliser.mean, normaliser.std, normaliser.clip)
        return PolicySnapshot(self._version, self.iterations, parameters, policy_kind_of(self.config.agent))

    def save(self, simulations: bool = True) -> Path:
        """A checkpoint, and the policy; without the simulations where they are what broke."""
        loops = {
            "collector": self.collector.state() if simulations else self.collector.without_simulations(),
            "critic_memory": self.reading.critic_memory,
            "random": json.dumps(self._random.bit_generator.state),
            "hindsight": self.hindsight.state(),
            "curiosity": None if self.curiosity is None else self.curiosity.state(),
            "progress": dataclasses.asdict(self.progress),
        }
        write_policy(self.run.checkpoints / "latest.safetensors", self.snapshot(), self.spec, learned_by="ppo")
        meta = {"version": self._version, "wall_s": self.run.wall_s, "spec_hash": self.spec.hash, "num_envs": self.config.num_envs}
        return write_checkpoint(self.run.checkpoints, self.iterations, self.agent.arrays(self.state), loops, meta)

    def restore(self) -> None:
        """Where the newest checkpoint was; in our simulations bit for bit, elsewhere in new episodes."""
        checkpoint = read_checkpoint(newest_checkpoint(self.run.checkpoints))
        meta, loops = checkpoint.meta, checkpoint.loops
        if meta["spec_hash"] != self.spec.hash:
            raise SpecMismatch(f"run {self.run.path} was trained on another spec: {'; '.join(self.spec.difference(self.run.spec))}")
        if meta["num_envs"] != self.config.num_envs:
            raise ConfigError(
                f"run {self.run.path} has {meta['num_envs']} simulations in the middle of their episodes, and num_envs is "
                f"{self.config.num_envs}: go on with as many, or start anew"
            )
        self.run.wall_before = meta["wall_s"]
        self.run.next_incarnation()
        self.iterations, self._version = meta["learner_step"], meta["version"]
        self.state = self.agent.from_arrays(self.state, checkpoint.agent)
        self.collector.restore(loops["collector"])
        self._random.bit_generator.state = json.loads(loops["random"])
        self.hindsight.restore(loops["hindsight"])
        if self.curiosity is not None and loops.get("curiosity") is not None:
            self.curiosity.restore(loops["curiosity"])
        exact = loops["collector"].get("env") is not None
        if exact:
            self.reading.critic_memory = np.array(loops["critic_memory"])
        self.progress = Progress(**loops["progress"])
        best = self.run.checkpoints / "best.safetensors"
        if self.progress.best_step >= 0 and best.exists():
            self.best = read_policy(best, self.spec)[0]
        self.run.event("resumed", learner_step=self.iterations, exact=exact)
        self.display.say(f"resumed {self.run.path} at iteration {self.iterations:,}, {self.collector.steps:,} steps")

    def finish(self, reason: str, evaluate_finally: bool) -> dict[str, Any]:
        """Save, judge the best policy on seeds that nothing was chosen by, and sum up."""
        self.save()
        summary: dict[str, Any] = {
            "command": "ppo",
            "task": self.config.task,
            "stopped": reason,
            **dataclasses.asdict(self.clocks),
            "minutes": self.run.wall_s / 60,
            "best_learner_step": self.best.learner_step if self.best else self.iterations,
            **self.collector.episodes.metrics(),
        }
        if evaluate_finally and self.config.final_episodes:
            seeds = range(FINAL_SEEDS, FINAL_SEEDS + self.config.final_episodes)
            chosen = self.best or self.snapshot()
            for name, stochastic_seed in (("deterministic", None), ("stochastic", self.config.seed)):
                summary[name] = describe(evaluate(self.config.task, act_with(chosen, self.spec, stochastic_seed), seeds), self.spec)
        self.run.summarise(summary)
        self.run.event("stopped", reason=reason, **dataclasses.asdict(self.clocks))
        return summary


def policy_kind_of(agent: PPOConfig) -> PolicyKind:
    return "gaussian" if agent.actor_rnn_type == "none" else "recurrent_gaussian"


def orders(random: np.random.Generator, epochs: int, samples: int) -> np.ndarray:
    """In which order each epoch takes the samples (or environments): all of them, shuffled anew, `(epochs, samples)`."""
    return np.stack([random.permutation(samples) for _ in range(epochs)]).astype(np.int32)


def agent_for(config: OnPolicyConfig, spec: Spec, mirror: Mirror | None = None) -> PPO | RecurrentPPO:
    """The agent of a task; entries that it may not see are left out. A task that PPO cannot learn is refused."""
    require_continuous(spec, "PPO")
    require_roles(spec, "PPO")
    layout = Layout(spec)
    actor, critic = (tuple(layout.columns(names).tolist()) if names else None for names in (config.actor_entries, config.critic_entries))
    agent = PPO(config.agent, layout.size, spec.action_dim, actor, critic, mirror)
    return RecurrentPPO(agent) if config.agent.recurrent else agent


def train_ppo(config: OnPolicyConfig, path: Path, display: Display, *, resume: bool = False, watch: Watch | None = None) -> dict[str, Any]:
    """Train until a limit is reached or the person presses Ctrl-C; returns the summary that is also in the run folder."""
    env = make_batch(config.task, config.num_envs, reward=_reward(config), practice=config.practice)
    spec = env.task_spec
    agent_for(config, spec, mirror_for(config, env))
    if config.wandb:
        WandB.require()
    # nothing above has written anything: what cannot be used leaves no folder behind
    run = RunFolder.open(path) if resume else RunFolder.create(path, config, spec)
    run.loggers.add(TensorBoard(path / "tensorboard"))
    if config.wandb:
        run.loggers.add(WandB(config.wandb, path, run.config))
    with display:
        parts = OnPolicyRun(config, run, env, display)
        parts.watch = watch or parts.watch
        if resume:
            parts.restore()
        else:
            run.event("started", seed=config.seed, **this_machine())
            parts.collector.begin()
        try:
            with interruptible(parts):
                reason = parts.loop()
        except (NotFinite, SimulationDiverged) as problem:
            raise _with_state_kept(parts, problem) from problem
        summary = parts.finish(reason, evaluate_finally=reason != INTERRUPTED)
    run.close()
    env.close()
    return summary


def _reward(config: OnPolicyConfig) -> Reward | None:
    entry = registered(config.task)
    return config.reward or ("dense" if entry is not None and "dense" in entry.rewards else None)


def _with_state_kept(parts: OnPolicyRun, problem: TandemError) -> TandemError:
    """The parameters from before it went wrong are saved; the simulations begin anew."""
    kept = parts.save(simulations=False)
    _keep_for_replay(parts, problem)
    parts.run.event("broken", learner_step=parts.iterations, problem=str(problem))
    parts.run.close()
    return type(problem)(f"{problem} The state of iteration {parts.iterations} is kept in {kept}; `--resume` goes on from it.")


def _keep_for_replay(parts: OnPolicyRun, problem: TandemError) -> None:
    """For `tandem doctor replay`: the rollout so far as a batch, and the simulations when it began with what was done in them."""
    collector, folder = parts.collector, parts.run.path / FOLDER
    rollout, count = collector.rollout, max(1, len(collector.acted) - 1)
    seen = {name: getattr(rollout, name)[:count] for name in ("observations", "actions", "rewards")}
    keep_batch(folder, parts.spec, parts.iterations, str(problem), {}, seen)
    if collector.before is not None:
        keep_simulation(folder, parts.config.task, str(problem), collector.before, collector.acted, _reward(parts.config))
