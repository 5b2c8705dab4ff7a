"""PPO as a run: it learns, it can be stopped and resumed to the last bit, it values what was cut, and it says what is wrong."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from tandem.acting.evaluate import evaluate
from tandem.acting.policy import PolicyOperator, act_with, load_policy
from tandem.data.demos import load_demos
from tandem.envs.registry import make_batch, make_env
from tandem.errors import ConfigError, InvalidTransition, NotFinite
from tandem.layouts import Layout
from tandem.off_policy import transfer
from tandem.off_policy.recipes import RECIPES, config_of
from tandem.off_policy.sync import train
from tandem.off_policy.transfer import as_sac_policy, learned_by_ppo
from tandem.on_policy import run as ppo_run
from tandem.on_policy.collector import Collector
from tandem.on_policy.presets import PRESETS, ppo_config_of, ppo_starting_config
from tandem.on_policy.run import OnPolicyRun, orders, train_ppo
from tandem.programs.record import record_demos
from tandem.runs.checkpoint import newest_checkpoint, read_checkpoint
from tandem.runs.folder import RunFolder
from tandem.seeding import episode_seeds
from tests.on_policy.ppo_samples import NETWORK, SMALL, parts_of, quiet

EVERYTHING = replace(
    SMALL,
    agent=replace(NETWORK, normalize_values=True),
    obs_normalization=True,
    obs_clip=5.0,
    reward_normalization=True,
    reward_clip=10.0,
    init_at_random_ep_len=True,
)


def checkpoint_of(path: Path) -> Any:
    return read_checkpoint(newest_checkpoint(path / "checkpoints"))


def values_of(parts: OnPolicyRun, observations: np.ndarray) -> np.ndarray:
    return parts.estimator.values(parts.state.critic, observations)


# ---- environments that are difficult on purpose


class Counting(gymnasium.Env):
    """Shows the number of the step. Time is up after five; reusing one buffer for all observations, as some do."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self) -> None:
        self.seen = np.zeros(2, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.seen[:] = 0
        return self.seen, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert np.abs(action).max() <= 1, "an environment gets clipped actions"
        self.seen[0] += 1
        return self.seen, 1.0, False, bool(self.seen[0] >= 5), {}


class Broken(Counting):
    """The third environment returns, at its 12th step, a NaN observation or an infinite reward."""

    made = 0
    what = ""

    def __init__(self) -> None:
        super().__init__()
        self.number, self.steps = Broken.made, 0
        Broken.made += 1

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        seen, reward, terminated, truncated, info = super().step(action)
        self.steps += 1
        if self.number % 8 == 2 and self.steps == 12:
            if Broken.what == "observation":
                seen = np.array([seen[0], np.nan], np.float32)
            else:
                reward = {"reward": np.inf, "return": 3e38}[Broken.what]
        return seen, reward, terminated, truncated, info


class Constant(Counting):
    """Looks the same always."""

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        seen, reward, terminated, truncated, info = super().step(action)
        return np.zeros_like(seen), reward, terminated, truncated, info


for kind in (Constant, Counting, Broken):
    gymnasium.register(f"{kind.__name__}-v0", lambda kind=kind, **_: kind(), disable_env_checker=True)


# ---- it learns


def test_cartpole_is_solved_in_seconds(tmp_path: Path) -> None:
    summary = train_ppo(replace(PRESETS["cartpole"](), task="cartpole"), tmp_path / "run", quiet())
    assert summary["deterministic"]["return"] >= 495, summary
    rows = RunFolder.open(tmp_path / "run").metrics()
    for name in (
        "Loss/value", "Loss/surrogate", "Loss/entropy", "Loss/learning_rate", "Policy/mean_std", "Perf/total_fps", "Perf/collection_time",
        "Perf/learning_time", "Train/mean_reward", "Train/mean_episode_length", "Policy/kl", "Policy/clip_fraction",
        "Value/explained_variance", "Policy/grad_norm", "Value/grad_norm",
    ):  # fmt: skip
        assert sum(name in row for row in rows) >= 0.8 * summary["learner_step"], name
    assert all(row["Policy/first_ratio_error"] == 0.0 for row in rows if "Loss/value" in row)
    assert summary["actor_step"] == summary["learner_step"] * PRESETS["cartpole"]().samples
    # the policy that is written is the policy that was trained: another evaluation by it alone gives the same
    snapshot, spec = load_policy(tmp_path / "run")
    again = evaluate("cartpole", act_with(snapshot, spec), range(2_000_000, 2_000_010))
    assert again.returns.mean() >= 495


def test_time_outs_do_not_change_values(tmp_path: Path) -> None:
    """A reward of 1 for ever, γ = 0.8: worth 1 / (1 - 0.8) = 5. If time-outs were ends, five steps would be worth at most 3.4."""
    agent = replace(NETWORK, gamma=0.8, schedule="fixed", learning_rate=1e-2, num_learning_epochs=4, use_clipped_value_loss=False)
    parts = parts_of(replace(SMALL, task="Constant-v0", agent=agent, max_iterations=30), tmp_path / "run")
    parts.loop()
    assert values_of(parts, np.zeros((1, 2), np.float32))[0] == pytest.approx(5.0, abs=0.2)


# ---- what is collected


def test_a_time_out_is_valued_by_the_last_observation_before_the_reset(tmp_path: Path) -> None:
    """The environment counts its steps, so that V differs from step to step, and writes all observations into one buffer."""
    parts = parts_of(replace(SMALL, task="Counting-v0", num_steps_per_env=10), tmp_path / "run")
    rollout = parts.collector.collect(parts.act())
    # steps 0 1 2 3 4, then 0 again: time is up after the fifth and after the last step of the rollout
    assert rollout.observations[:, 3, 0].tolist() == [0, 1, 2, 3, 4] * 2
    assert rollout.truncated[:, 3].tolist() == [False] * 4 + [True] + [False] * 4 + [True] and not rollout.terminated.any()
    steps, rows, last = rollout.cuts()
    assert sorted(set(steps.tolist())) == [4, 9] and len(rows) == 16 and (last[:, 0] == 5).all()
    values = values_of(parts, rollout.observations.reshape(80, 2)).reshape(10, 8)
    next_values = rollout.next_values(values, values_of(parts, parts.collector.observations), values_of(parts, last))
    of = values_of(parts, np.array([[step, 0.0] for step in range(6)], np.float32))
    assert len(set(of.tolist())) == 6, "V must differ for the test to mean anything"
    np.testing.assert_allclose(next_values[:, 3], of[[1, 2, 3, 4, 5] * 2], rtol=1e-5, atol=1e-6)


def test_actions_are_stored_as_drawn_and_executed_clipped(tmp_path: Path) -> None:
    """`Counting` asserts that it gets no more than 1."""
    parts = parts_of(replace(SMALL, task="Counting-v0", agent=replace(NETWORK, init_std=3.0)), tmp_path / "run")
    assert np.abs(parts.collector.collect(parts.act()).actions).max() > 3


def test_the_normaliser_does_not_change_from_the_first_action_to_the_last_update(tmp_path: Path) -> None:
    parts = parts_of(EVERYTHING, tmp_path / "run")
    normaliser = parts.collector.normaliser
    for _ in range(2):
        before = normaliser.mean.copy(), normaliser.std.copy()
        rollout = parts.collector.collect(parts.act())
        estimate = parts.estimator.compute(parts.state, rollout, parts.collector.observations)
        parts.state = estimate.state
        assert np.array_equal(normaliser.mean, before[0]) and np.array_equal(normaliser.std, before[1])
        metrics = parts._update(estimate)
        assert metrics["Policy/first_ratio_error"] == 0.0
        assert not np.array_equal(normaliser.mean, before[0])
    assert normaliser.moments.count == 2 * SMALL.samples


def test_values_stay_the_same_when_their_units_change(tmp_path: Path) -> None:
    parts = parts_of(replace(EVERYTHING, agent=replace(EVERYTHING.agent, learning_rate=0.0, schedule="fixed")), tmp_path / "run")
    seen = parts.collector.observations
    for _ in range(2):
        before = values_of(parts, seen)
        rollout = parts.collector.collect(parts.act())
        estimate = parts.estimator.compute(parts.state, rollout, parts.collector.observations)
        parts.state, samples = estimate.state, estimate.samples
        np.testing.assert_allclose(values_of(parts, seen), before, rtol=1e-3, atol=1e-3)
        # and what the update compares with is what the critic says now
        now = parts.agent.values(parts.state.critic, samples.observations, np.zeros((len(samples.returns), 0), np.float32))
        np.testing.assert_allclose(now, samples.old.value, rtol=1e-3, atol=1e-3)


def test_every_epoch_has_an_order_of_its_own() -> None:
    made = orders(np.random.default_rng(0), epochs=3, samples=50)
    assert made.shape == (3, 50) and all(sorted(row) == list(range(50)) for row in made.tolist())
    assert not np.array_equal(made[0], made[1]) and not np.array_equal(made[1], made[2])


def test_episodes_that_began_in_the_middle_are_not_counted(tmp_path: Path) -> None:
    """At random ages all but a few of the first episodes are too short to say anything."""
    config = replace(SMALL, init_at_random_ep_len=True, num_steps_per_env=2)
    parts = parts_of(config, tmp_path / "run")
    ages = parts.collector.env._elapsed  # pyright: ignore[reportAttributeAccessIssue]
    assert len(set(ages.tolist())) > 4 and ages.max() > 100
    ages[:] = 499
    parts.collector.collect(parts.act())
    assert parts.collector.episodes.finished == 0
    with pytest.raises(ConfigError, match="counts its own steps"):
        parts_of(replace(config, task="Counting-v0"), tmp_path / "foreign")


def test_the_policy_may_see_less_than_the_critic(tmp_path: Path) -> None:
    config = replace(SMALL, actor_entries=("position",), max_iterations=1)
    train_ppo(config, tmp_path / "run", quiet())
    snapshot, spec = load_policy(tmp_path / "run")
    assert snapshot.parameters["columns"].tolist() == Layout(spec).columns(["position"]).tolist() == [0, 1]
    assert snapshot.parameters["trunk/layers/0/weight"].shape[0] == 2
    assert checkpoint_of(tmp_path / "run").agent["critic/trunk/layers/0/weight"].shape[0] == 4


# ---- stop and resume


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    return np.array_equal(one, other)


def test_twice_n_iterations_are_n_and_a_resume_and_n_to_the_last_bit(tmp_path: Path) -> None:
    config = replace(EVERYTHING, max_iterations=6, agent=replace(EVERYTHING.agent, schedule="adaptive"))
    train_ppo(config, tmp_path / "whole", quiet())
    train_ppo(replace(config, max_iterations=3), tmp_path / "parts", quiet())
    train_ppo(config, tmp_path / "parts", quiet(), resume=True)
    whole, parts = checkpoint_of(tmp_path / "whole"), checkpoint_of(tmp_path / "parts")
    assert whole.meta["learner_step"] == parts.meta["learner_step"] == 6
    for name in whole.agent:  # networks, moments of Adam, learning rate
        assert np.array_equal(whole.agent[name], parts.agent[name]), name
    for name in whole.loops:  # simulations, random streams, normalisers, units, open and finished episodes
        assert equal(whole.loops[name], parts.loops[name]), name
    assert whole.loops["collector"]["env"] is not None and whole.loops["collector"]["normaliser"]["count"] == 6 * 64
    assert float(whole.agent["learning_rate"]) != np.float32(config.agent.learning_rate), "the rate must have moved for this to be a test"
    rows = [row["Loss/surrogate"] for path in ("whole", "parts") for row in RunFolder.open(tmp_path / path).metrics()]
    assert rows[:6] == rows[6:]


def test_a_run_is_resumed_with_its_own_settings_and_command(tmp_path: Path) -> None:
    config = replace(EVERYTHING, max_iterations=1, actor_entries=("position", "velocity"))
    train_ppo(config, tmp_path / "run", quiet())
    assert ppo_config_of(RunFolder.open(tmp_path / "run")) == config
    assert ppo_starting_config(None, resume=tmp_path / "run") == config
    with pytest.raises(ConfigError, match="tandem ppo --resume"):
        config_of(RunFolder.open(tmp_path / "run"))
    with pytest.raises(ConfigError, match=r"has 8 simulations .* num_envs is 16"):
        train_ppo(replace(config, num_envs=16, max_iterations=2), tmp_path / "run", quiet(), resume=True)


def test_a_gymnasium_environment_is_trained_by_its_id_and_resumed_in_new_episodes(tmp_path: Path) -> None:
    config = replace(SMALL, task="Counting-v0", max_iterations=2)
    train_ppo(config, tmp_path / "run", quiet())
    summary = train_ppo(replace(config, max_iterations=3), tmp_path / "run", quiet(), resume=True)
    assert summary["learner_step"] == 3 and summary["actor_step"] == 3 * 64
    assert summary["Train/mean_reward"] == 5.0 == summary["Train/mean_episode_length"]


class Seeded(Counting):
    """Notes the seeds it is reset with."""

    seeds: ClassVar[list[int]] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        if seed is not None:
            Seeded.seeds.append(seed)
        return super().reset(seed=seed, options=options)


gymnasium.register("Seeded-v0", lambda **_: Seeded(), disable_env_checker=True)


def test_every_start_of_a_run_on_an_environment_that_cannot_be_saved_has_seeds_of_its_own(tmp_path: Path) -> None:
    Seeded.seeds.clear()
    config = replace(SMALL, task="Seeded-v0", max_iterations=1)
    train_ppo(config, tmp_path / "run", quiet())
    first = set(Seeded.seeds)
    assert first == set(episode_seeds(config.seed, "training", 8, 0))
    starts = [first]
    for iterations in (2, 3):
        Seeded.seeds.clear()
        train_ppo(replace(config, max_iterations=iterations), tmp_path / "run", quiet(), resume=True)
        starts.append(set(Seeded.seeds))
    assert all(len(seeds) == 8 for seeds in starts) and len(set.union(*starts)) == 24, starts


# ---- errors


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("observation", r"environment 2 .* at its step 11: the observation, entry 'state', has nan at \[1\]"),
        ("reward", r"environment 2 .* at its step 11: the reward is inf"),
        ("return", r"environment 2: a return of this rollout is beyond 1e\+18. The largest reward in it is 3e\+38, at step 3"),
    ],
)
def test_a_nan_or_infinite_value_is_named_and_the_last_good_state_kept(what: str, says: str, tmp_path: Path) -> None:
    Broken.what = what
    config = replace(SMALL, task="Broken-v0", max_iterations=5, agent=replace(NETWORK, gamma=1.0, lam=1.0))
    with pytest.raises(NotFinite, match=says) as raised:
        train_ppo(config, tmp_path / "run", quiet())
    assert "--resume" in str(raised.value)
    kept = checkpoint_of(tmp_path / "run")
    assert kept.meta["learner_step"] == 1, "the first rollout has 8 steps and was learned from; the second was not"
    assert all(np.isfinite(array).all() for array in kept.agent.values())
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert any(event["kind"] == "broken" for event in events)


def test_sizes_that_do_not_divide_are_refused_before_anything_is_made() -> None:
    with pytest.raises(ConfigError, match=r"8 x 8 = 64 samples .* num_mini_batches = 5 .* 4 would never be learned from"):
        replace(SMALL, agent=replace(NETWORK, num_mini_batches=5))
    with pytest.raises(ConfigError, match="num_envs must be at least 1"):
        replace(SMALL, num_envs=0)
    with pytest.raises(ConfigError, match="obs_clip must be above 0"):
        replace(SMALL, obs_clip=-1.0)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"actor_entries": ("positoin",)}, "no observation entry 'positoin'; there are position, velocity"),
        ({"critic_entries": ("camera",)}, "no observation entry 'camera'"),
        ({"task": "cartpoel"}, "Did you mean 'cartpole'"),
        ({"reward": "sparse"}, "has the reward dense, got reward='sparse'"),
    ],
)
def test_unknown_names_are_refused_before_anything_is_written(settings: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        train_ppo(replace(SMALL, **settings), tmp_path / "run", quiet())
    assert not (tmp_path / "run").exists()


class Misshapen:
    """A batch whose ends have one axis too many, as a wrapper may make them."""

    saves = False

    def __init__(self, env: Any) -> None:
        self.env, self.task_spec, self.num_envs, self.metadata = env, env.task_spec, env.num_envs, env.metadata

    def reset(self, **options: Any) -> Any:
        return self.env.reset(**options)

    def step(self, actions: np.ndarray) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(actions)
        return observation, reward, terminated[:, None], truncated, info


def test_ends_of_the_wrong_shape_are_refused_at_the_first_step() -> None:
    collector = Collector(SMALL, Misshapen(make_batch("cartpole", 8)))  # pyright: ignore[reportArgumentType]
    collector.begin()
    with pytest.raises(InvalidTransition, match=r"'terminated' has shape \(8, 1\), expected \(8,\)"):
        collector.collect(lambda x, noise, memory: (noise, memory))


def test_a_batch_that_resets_in_a_step_of_its_own_is_refused() -> None:
    env = make_batch("cartpole", 8)
    env.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
    with pytest.raises(ConfigError, match=r"NEXT_STEP.*needs SAME_STEP"):
        Collector(SMALL, env)


def test_an_observation_buffer_that_is_used_again_does_not_change_what_was_stored() -> None:
    env = make_batch("cartpole", 8)
    buffer, step = {name: np.zeros_like(values) for name, values in env.reset(seed=0)[0].items()}, env.step

    def reusing(actions: np.ndarray) -> Any:
        observation, *rest = step(actions)
        for name, values in observation.items():
            buffer[name][:] = values
        return buffer, *rest

    collectors = Collector(SMALL, env), Collector(SMALL, make_batch("cartpole", 8))
    env.step = reusing
    for collector in collectors:
        collector.begin()
        collector.collect(lambda x, noise, memory: (noise, memory))
    assert np.array_equal(collectors[0].rollout.observations, collectors[1].rollout.observations)
    assert len(np.unique(collectors[0].rollout.observations[:, 0, 0])) == 8


# ---- from one to the other


@pytest.fixture(scope="module")
def reach_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ppo") / "reach"
    summary = train_ppo(replace(PRESETS["reach"](), task="reach"), path, quiet())
    assert summary["deterministic"]["success"] >= 0.9, summary
    return path


def test_reach_is_trained_on_its_dense_reward_and_evaluated_by_success(reach_run: Path) -> None:
    rows = RunFolder.open(reach_run).metrics()
    assert any("Episode/approach" in row and "Episode/success" in row for row in rows)
    assert any(row.get("eval/success", 0) >= 0.9 for row in rows)


def test_a_ppo_policy_records_demonstrations(reach_run: Path, tmp_path: Path) -> None:
    env = make_env("reach")
    spec = env.spec
    operator = PolicyOperator(load_policy(reach_run, spec=spec)[0], spec)
    demos = load_demos(record_demos(env, operator, 3, tmp_path, seed=0), spec)
    assert sum(bool(step.success) for step in demos) == 3 and max(np.abs(step.action).max() for step in demos) <= 1


def test_a_ppo_policy_cloned_for_sac_acts_the_same(reach_run: Path) -> None:
    snapshot, spec = load_policy(reach_run)
    cloned, difference = as_sac_policy(snapshot, spec, RECIPES["reach"]().agent)
    assert learned_by_ppo(snapshot) and not learned_by_ppo(cloned) and difference < 0.15
    before, after = (evaluate("reach", act_with(policy, spec), range(50)).rate.value for policy in (snapshot, cloned))
    assert after >= before - 0.1


def test_a_ppo_policy_starts_rlpd(reach_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "STEPS", 1000)  # how well it is met is the other test's business
    config = replace(RECIPES["reach"](), task="reach", max_steps=5, eval_period=0, final_episodes=0)
    snapshot, spec = load_policy(reach_run)
    cloned, _ = as_sac_policy(snapshot, spec, config.agent, config.seed)
    train(config, tmp_path / "run", quiet(), init_from=reach_run)
    assert f"version 1, {cloned.hash}" in (tmp_path / "run" / "train.log").read_text(), "RLPD acts with it from the first step"


def test_numpy_and_jax_draw_the_same_actions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By NumPy and by JAX: the same actions from the same noise."""
    parts = parts_of(replace(EVERYTHING, actor_entries=("position",)), tmp_path / "run")
    random = np.random.default_rng(0)
    x, noise = random.standard_normal((8, 4), dtype=np.float32), random.standard_normal((8, 1), dtype=np.float32)
    nothing = np.zeros((8, 0), np.float32)
    few, _ = parts.act()(x, noise, nothing)
    monkeypatch.setattr(ppo_run, "NUMPY_ROWS", 0)
    np.testing.assert_allclose(few, parts.act()(x, noise, nothing)[0], rtol=1e-5, atol=1e-6)
