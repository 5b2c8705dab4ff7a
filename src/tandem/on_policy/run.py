"""PPO as a run: collect, compute advantages, update, log, evaluate, save. Folder, evaluation and policies are those of RLPD.

Reproducible to the last bit on the same machine, and so is a resumed run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tandem.acting.judge import Judge
from tandem.agents.ppo import PPO, Act
from tandem.agents.ppo_config import PPOConfig
from tandem.agents.recurrent_ppo import RecurrentPPO
from tandem.agents.symmetry import Mirror
from tandem.envs.registry import Reward, make_batch, registered
from tandem.envs.task_env import RolloutEnv, ending
from tandem.errors import ConfigError, EnvironmentFailed, NotFinite, ServedError, SimulationDiverged, TandemError
from tandem.files import private_files
from tandem.layouts import ActionLayout, Layout
from tandem.learnable import require_roles, sees
from tandem.networks.choices import Choices
from tandem.on_policy.advantages import AdvantageEstimator, Estimate
from tandem.on_policy.collector import Collector, Rollout
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.curiosity import Curiosity
from tandem.on_policy.display import Times, iteration_block
from tandem.on_policy.mirror import mirror_for
from tandem.runs.broken import keep_batch, keep_simulation
from tandem.runs.campaign import Campaign, StopRules, Watch
from tandem.runs.checkpoint import restoring, write_checkpoint
from tandem.runs.clocks import Clocks
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder, this_machine
from tandem.runs.loggers import WandB
from tandem.runs.stopping import interruptible
from tandem.types import Metrics, PolicyKind, PolicySnapshot, Spec

NUMPY_ROWS = 64
"""Up to this many simulations actions are computed with NumPy: no threads have to be woken, which saves 0.1 ms a step (a tenth of the time
of a run with 16 simulations)."""


class OnPolicyRun:
    """All parts of one PPO run."""

    def __init__(self, config: OnPolicyConfig, run: RunFolder, env: RolloutEnv, display: Display) -> None:
        self.config, self.run, self.display = config, run, display
        self.spec = env.task_spec
        mirror = mirror_for(config, env)
        self.agent = agent_for(config, self.spec, mirror)
        self.collector = Collector(config, env, self.agent.memory_sizes[0], mirror)
        self.state = self.agent.init(config.seed)
        self.estimator = AdvantageEstimator(config, self.agent, self.spec)
        self.curiosity = Curiosity(config, self.spec) if config.rnd.wanted else None
        self._random = np.random.default_rng([config.seed, 2])
        self.iterations = 0
        self._version = 0
        self.carried: dict[str, np.ndarray] = {}
        """What every policy carries beside its own parameters: the encoder of a run with cameras."""
        self._judge = judge = Judge(
            config.task,
            self.spec,
            config.seed,
            eval_episodes=config.eval_episodes,
            final_episodes=config.final_episodes,
            share=config.eval_share,
            say=display.say,
            progress=display.waiting,
        )
        rules = StopRules(config.max_iterations, config.max_minutes, config.stop_success, config.stop_evaluations, "max_iterations")
        self.campaign = Campaign(run, self.spec, display, rules, evaluate=judge.score, judge=judge.final)

    def loop(self) -> str:
        """Until something says stop; returns the reason."""
        while self.campaign.stop_reason is None:
            self.iterate()
        return self.campaign.stop_reason

    def iterate(self) -> Times:
        """Collect, compute advantages, update, log; evaluate and save when due."""
        began = time.perf_counter()
        rollout = self.collector.collect(self.act())
        collected = time.perf_counter()
        novelty = self._reward_novelty(rollout)
        estimate = self.estimator.compute(self.state, rollout, self.collector.observations)
        self.state = estimate.state
        updated = self._update(estimate)
        times = Times(collected - began, time.perf_counter() - collected)
        self.iterations += 1
        self._after_iteration(estimate.metrics | updated | novelty | self.collector.episodes.metrics() | self.collector.terms, times)
        return times

    def act(self) -> Act:
        """The current policy, for the collector."""
        return self.agent.make_act(self.state, with_numpy=self.config.num_envs <= NUMPY_ROWS)

    def _reward_novelty(self, rollout: Rollout) -> Metrics:
        """With random network distillation: add the intrinsic reward, then train the predictor."""
        reached = self.collector.reached
        if self.curiosity is None or reached is None:
            return {}
        before = self.collector.steps // self.config.num_envs - self.config.num_steps_per_env
        return self.curiosity.reward(rollout, reached, before) | self.curiosity.learn(reached)

    def _update(self, estimate: Estimate) -> Metrics:
        """All gradient steps of an iteration; then the normaliser may change."""
        config = self.config
        order = orders(self._random, config.agent.num_learning_epochs, self.agent.shuffled_rows(*estimate.sequences.ended.shape))
        progress = self.iterations / config.max_iterations
        self.state, info = self.agent.update(self.state, estimate.samples, estimate.sequences, order, progress)
        metrics = {name: float(value) for name, value in info.items()}
        if metrics["Loss/dropped_updates"]:
            self._report_dropped(metrics)
        if self.config.obs_normalization:
            self.collector.normaliser.advance()
        return metrics

    def _report_dropped(self, metrics: Metrics) -> None:
        """Updates with a NaN or infinite gradient are skipped. A few of them are an event; if all were skipped, the run ends."""
        dropped = int(metrics["Loss/dropped_updates"])
        self.run.event("dropped_updates", learner_step=self.iterations, count=dropped)
        self.display.say(f"{dropped} updates of iteration {self.iterations} were skipped: their gradients were not finite")
        if not metrics["Loss/updates"]:
            raise NotFinite(
                f"task '{self.spec.task}', iteration {self.iterations}: all {dropped} updates were skipped, because none had a finite "
                f"gradient; the parameters are unchanged. Likely cause: a learning rate (now {metrics['Loss/learning_rate']:g}) "
                f"or rewards that are too large."
            )

    @property
    def clocks(self) -> Clocks:
        return Clocks(self.iterations, self.collector.steps, self._version)

    def stop(self, reason: str) -> None:
        self.campaign.stop(reason)

    def _after_iteration(self, metrics: Metrics, times: Times) -> None:
        config = self.config
        metrics |= {
            "Perf/total_fps": self.collector.rollout.rewards.size / (times.collection + times.learning),
            "Perf/collection_time": times.collection,
            "Perf/learning_time": times.learning,
        }
        self.campaign.report(self.clocks, metrics)
        self.display.block(lambda: iteration_block(self.clocks, config.max_iterations, self.run, metrics, times))
        if config.eval_period and self.iterations % config.eval_period == 0 and self._judge.affordable():
            with self.campaign.storing("the evaluation"):
                self.campaign.evaluate(self.snapshot(), self.clocks, f"iteration {self.iterations:,}")
        if self.iterations % config.save_interval == 0:
            with self.campaign.storing("the checkpoint"):
                self.save()
        self.campaign.check_limits(self.iterations)

    def snapshot(self) -> PolicySnapshot:
        """The policy as it is now, with the normaliser it sees through."""
        self._version = self.run.next_version()
        normaliser = self.collector.normaliser
        parameters = self.agent.policy_parameters(self.state, normaliser.mean, normaliser.std, normaliser.clip)
        return PolicySnapshot(self._version, self.iterations, parameters | self.carried, policy_kind_of(self.config.agent))

    def save(self, simulations: bool = True) -> Path:
        """A checkpoint, and the policy; without the simulations where they are what broke."""
        loops = {
            "collector": self.collector.state() if simulations else self.collector.without_simulations(),
            "critic_memory": self.estimator.critic_memory,
            "random": json.dumps(self._random.bit_generator.state),
            "advantages": self.estimator.state(),
            "curiosity": None if self.curiosity is None else self.curiosity.state(),
            "progress": self.campaign.state(),
        }
        self.latest = self.snapshot()
        self.campaign.keep_latest(self.latest)
        meta = {"version": self._version, "wall_s": self.run.wall_s, "spec_hash": self.spec.hash, "num_envs": self.config.num_envs}
        return write_checkpoint(self.run.checkpoints, self.iterations, self.agent.arrays(self.state), loops, meta)

    def restore(self) -> None:
        """Where the newest checkpoint was; in our simulations bit for bit, elsewhere in new episodes."""
        checkpoint = self.campaign.newest_checkpoint()
        meta, loops = checkpoint.meta, checkpoint.loops
        if meta["num_envs"] != self.config.num_envs:
            raise ConfigError(
                f"run {self.run.path} has {meta['num_envs']} simulations in the middle of their episodes, and num_envs is "
                f"{self.config.num_envs}: go on with as many, or start anew"
            )
        self.campaign.restore(checkpoint)
        self.iterations, self._version = meta["learner_step"], meta["version"]
        self.state = self.agent.from_arrays(self.state, checkpoint.agent)
        self.collector.restore(loops["collector"], self.run.incarnation)
        self._random.bit_generator.state = json.loads(loops["random"])
        self.estimator.restore(loops["advantages"] if "advantages" in loops else loops["hindsight"])  # the name in older checkpoints
        if self.curiosity is not None and loops.get("curiosity") is not None:
            self.curiosity.restore(loops["curiosity"])
        exact = loops["collector"].get("env") is not None
        if exact:
            self.estimator.critic_memory = np.array(loops["critic_memory"])
        self.run.event("resumed", learner_step=self.iterations, exact=exact)
        self.display.say(f"resumed {self.run.path} at iteration {self.iterations:,}, {self.collector.steps:,} steps")

    def finish(self, reason: str) -> dict[str, Any]:
        """Save, judge the best policy, and sum up."""
        self.save()
        return self.campaign.finish(reason, self.clocks, self.latest, command="ppo", **self.collector.episodes.metrics())


def policy_kind_of(agent: PPOConfig) -> PolicyKind:
    return "gaussian" if agent.actor_rnn_type == "none" else "recurrent_gaussian"


def orders(random: np.random.Generator, epochs: int, samples: int) -> np.ndarray:
    """The order of the samples (or environments) in each epoch: a new permutation each, `(epochs, samples)`."""
    return np.stack([random.permutation(samples) for _ in range(epochs)]).astype(np.int32)


def agent_for(config: OnPolicyConfig, spec: Spec, mirror: Mirror | None = None) -> PPO:
    """The agent for a task. Policy and value network get only the entries that the configuration names."""
    require_roles(spec, "PPO")
    layout = Layout(spec)
    actor, critic = (tuple(layout.columns(names).tolist()) if names else None for names in (config.actor_entries, config.critic_entries))
    kind = RecurrentPPO if config.agent.recurrent else PPO
    return kind(config.agent, layout.size, spec.action_dim, actor, critic, mirror, Choices.of(ActionLayout.of(spec)))


@private_files()
def train_ppo(
    config: OnPolicyConfig,
    path: Path,
    display: Display,
    *,
    resume: bool = False,
    watch: Watch | None = None,
    make: Callable[..., RolloutEnv] = make_batch,
) -> dict[str, Any]:
    """Train until a limit is reached or the person presses Ctrl-C; returns the summary that is also in the run folder.

    `make` makes the environments, here or elsewhere.
    """
    env, encoder = make(config.task, config.num_envs, reward=_reward(config), practice=config.practice), None
    if sees(env.task_spec):
        from tandem.on_policy.eyes import with_eyes  # only tasks with cameras need it

        env = with_eyes(env, config, RunFolder(path).encoder_file if resume else None, display.say)
        encoder = env.encoder
    spec = env.task_spec
    agent_for(config, spec, mirror_for(config, env))
    if config.wandb:
        WandB.require()
    # nothing above has written anything: what cannot be used leaves no folder behind
    run = RunFolder.resume(path) if resume else RunFolder.create(path, "ppo", config, spec)
    run.add_loggers(config.wandb)
    with ending(env), display:
        parts = OnPolicyRun(config, run, env, display)
        if encoder is not None:
            encoder.write(run.encoder_file)
            parts.carried = encoder.arrays()
        parts.campaign.watch = watch or parts.campaign.watch
        try:
            if resume:
                with restoring(parts.run.checkpoints):
                    parts.restore()
            else:
                run.event("started", seed=config.seed, **this_machine())
                parts.collector.begin()
        except _ENDS_THE_RUN as problem:  # nothing was learned yet that could be kept, and nothing to replay
            _tell_failure(run, problem)
            raise
        try:
            with interruptible(parts):
                reason = parts.loop()
        except _ENDS_THE_RUN as problem:
            raise _with_state_kept(parts, problem) from problem
        summary = parts.finish(reason)
    run.close()
    return summary


def _reward(config: OnPolicyConfig) -> Reward | None:
    entry = registered(config.task)
    return config.reward or ("dense" if entry is not None and "dense" in entry.rewards else None)


_BROKEN = (NotFinite, SimulationDiverged)
_ENDS_THE_RUN = (*_BROKEN, EnvironmentFailed, ServedError)
"""A NaN or infinite value, or an environment that raised an error, crashed or is gone."""


def _with_state_kept(parts: OnPolicyRun, problem: TandemError) -> TandemError:
    """The parameters from before it went wrong are saved; the simulations begin anew."""
    kept = parts.save(simulations=False)
    if isinstance(problem, _BROKEN):
        _keep_for_replay(parts, problem)
        parts.run.event("broken", learner_step=parts.iterations, problem=str(problem))
        parts.run.close()
    else:
        _tell_failure(parts.run, problem)
    return type(problem)(f"{problem} The state of iteration {parts.iterations} is kept in {kept}; `--resume` goes on from it.")


def _tell_failure(run: RunFolder, problem: TandemError) -> None:
    """The environment ends the run: the doctor would otherwise see only that nothing is written any more."""
    run.event("part_failed", part="environment", how="failed", error=str(problem), environment=True)
    run.close()


def _keep_for_replay(parts: OnPolicyRun, problem: TandemError) -> None:
    """For `tandem doctor replay`: the rollout so far as a batch, and the simulations when it began with what was done in them."""
    collector, folder = parts.collector, parts.run.broken
    rollout, count = collector.rollout, max(1, len(collector.acted) - 1)
    seen = {name: getattr(rollout, name)[:count] for name in ("observations", "actions", "rewards")}
    keep_batch(folder, parts.spec, parts.iterations, str(problem), {}, seen)
    if collector.before is not None:
        keep_simulation(folder, parts.config.task, str(problem), collector.before, collector.acted, _reward(parts.config))
