"""Symmetry: what tasks declare is true of their physics, and what was learned on one side holds on the other."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem.agents.packing import MiniBatch, PolicyOutputs, Samples, Sequences, pack_samples
from tandem.agents.ppo import PPO
from tandem.agents.ppo_config import PPOConfig
from tandem.agents.symmetry import Mirror, mirrored
from tandem.envs.batch import BatchEnv
from tandem.envs.registry import TASKS, _task, make_batch
from tandem.errors import ConfigError
from tandem.layouts import Layout
from tandem.on_policy.mirror import mirror_for, mirror_of
from tandem.on_policy.run import OnPolicyRun, train_ppo
from tandem.runs.display import Display
from tandem.types import Continuous, Entry, Spec, Symmetry
from tests.on_policy.ppo_samples import SMALL, parts_of


def swapped(x: np.ndarray, at: int) -> np.ndarray:
    """Two legs of three joints each."""
    return np.concatenate([x[:at], x[at + 3 : at + 6], x[at : at + 3], x[at + 6 :]])


def ant_joints(x: np.ndarray) -> np.ndarray:
    """Legs 1 and 4 are left and right in front, 2 and 3 behind; a hip turns the other way on the other side, an ankle does not."""
    return np.array([-x[6], x[7], -x[4], x[5], -x[2], x[3], -x[0], x[1]])


State = Callable[[np.ndarray], np.ndarray]
PHYSICS: dict[str, tuple[State, State]] = {
    "cartpole": (np.negative, np.negative),
    "Walker2d-v5": (lambda q: swapped(q, 3), lambda v: swapped(v, 3)),
    "Ant-v4": (
        lambda q: np.concatenate([q[:7] * [1, -1, 1, 1, -1, 1, -1], ant_joints(q[7:])]),
        lambda v: np.concatenate([v[:6] * [1, -1, 1, -1, 1, -1], ant_joints(v[6:])]),
    ),
}
"""Positions and velocities in the mirror, by what they are in MuJoCo; the task's own word is of observations and actions."""


def test_every_declared_symmetry_is_tested_against_the_physics() -> None:
    declared = {name for name, entry in TASKS.items() if _task(entry, name, None).symmetry is not None}
    assert declared == set(PHYSICS)


@pytest.mark.parametrize("name", list(PHYSICS))
def test_mirrored_actions_lead_to_mirrored_observations(name: str) -> None:
    env = make_batch(name, 2, num_threads=1)
    assert isinstance(env, BatchEnv) and env.symmetry is not None
    spec, layout = env.task_spec, Layout(env.task_spec)
    mirror, (of_q, of_v), random = mirror_of(spec, env.symmetry), PHYSICS[name], np.random.default_rng(0)
    env.reset(seed=3)
    start = env.state()
    q, v = env.batch.bind("qpos"), env.batch.bind("qvel")
    q[1], v[1] = of_q(q[0]), of_v(v[0])
    env.batch.forward()
    for memory in env.task.memory().values():  # where it was: the mirror is that of left and right, not of forward
        memory[1] = memory[0]
    assert not np.array_equal(env.state()["physics"][0], env.state()["physics"][1]) and start is not None
    for step in range(25):
        action = random.uniform(-1, 1, spec.action_dim).astype(np.float32)
        _, reward, terminated, _, info = env.step(np.stack([action, mirror.actions(action)]))
        one, other = layout.flatten(info["final_obs"], np.inf)
        np.testing.assert_allclose(mirror.observations(one), other, atol=2e-4 * max(1.0, np.abs(one).max()), err_msg=f"step {step}")
        assert reward[0] == pytest.approx(reward[1], abs=1e-4) and terminated[0] == terminated[1]
        if terminated[0]:
            assert step > 3
            break


def test_a_walker_with_one_slippery_foot_is_not_symmetric() -> None:
    """Walker2d-v4, taken for v5: the test above can fail."""
    env = make_batch("Walker2d-v4", 2, num_threads=1)
    assert isinstance(env, BatchEnv) and env.symmetry is None
    symmetry = _task(TASKS["Walker2d-v5"], "Walker2d-v5", None).symmetry
    assert symmetry is not None
    mirror, (of_q, of_v) = mirror_of(env.task_spec, symmetry), PHYSICS["Walker2d-v5"]
    env.reset(seed=3)
    q, v = env.batch.bind("qpos"), env.batch.bind("qvel")
    q[1], v[1] = of_q(q[0]), of_v(v[0])
    env.batch.forward()
    random, apart = np.random.default_rng(0), 0.0
    for _ in range(25):
        action = random.uniform(-1, 1, 6)
        env.step(np.stack([action, mirror.actions(action)]))
        apart = max(apart, float(np.abs(of_v(v[0]) - v[1]).max()))
    assert apart > 0.1


SPEC = Spec("made up", {"b": Entry((2,), scale=(1.0, 2.0)), "a": Entry((3,))}, (Continuous("arm", 2),), 10.0, 10)


@pytest.mark.parametrize(
    ("symmetry", "words"),
    [
        (Symmetry({"c": (1,)}, (1, 2)), "names the entry 'c'; there are a, b"),
        (Symmetry({"a": (1, 2)}, (1, 2)), r"places \(1, 2\), expected each of 1 to 3 once"),
        (Symmetry({"a": (2, 3, 1)}, (1, 2)), "not itself again when mirrored twice"),
        (Symmetry({"a": (-2, 1, 3)}, (1, 2)), "not itself again when mirrored twice"),
        (Symmetry({"b": (2, 1)}, (1, 2)), "whose scales differ"),
        (Symmetry({}, (1,)), "the action the places"),
    ],
)
def test_an_invalid_declaration_is_refused(symmetry: Symmetry, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        mirror_of(SPEC, symmetry)


MIRROR = Mirror((-1, 3, 2), (2, 1, -3))


def test_signed_places_over_the_whole_vector() -> None:
    mirror = mirror_of(SPEC, Symmetry({"a": (3, -2, 1), "b": (1, -2)}, (-1, 2)))
    assert mirror == Mirror((3, -2, 1, 4, -5), (-1, 2))  # a comes first: entries are in the order of their names
    assert mirror.observations(np.array([1.0, 2.0, 3.0, 4.0, 5.0])).tolist() == [3.0, -2.0, 1.0, 4.0, -5.0]
    assert MIRROR.actions(np.array([1.0, 2.0, 3.0])).tolist() == [2.0, 1.0, -3.0]
    assert MIRROR.stds(np.array([1.0, 2.0, 3.0])).tolist() == [2.0, 1.0, 3.0]


def none(rows: int) -> Sequences:
    """No hidden states: a rollout of one step in `rows` environments."""
    return Sequences(np.zeros((1, rows), bool), np.zeros((rows, 0), np.float32), np.zeros((rows, 0), np.float32))


def some_samples(agent: PPO, state: Any, rows: int = 16) -> Samples:
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, 3)).astype(np.float32)
    outputs, _ = agent.evaluate(state, x[None], none(rows))
    actions = np.asarray(outputs.mean) + np.asarray(outputs.std) * random.standard_normal((rows, 3)).astype(np.float32)
    return Samples(x, actions, outputs, *random.standard_normal((2, rows)).astype(np.float32))


@pytest.mark.parametrize(("augment", "coeff"), [(True, 0.0), (False, 0.7), (True, 0.7)])
def test_the_loss_is_the_mean_over_both_sides_and_the_distance_between_them(augment: bool, coeff: float) -> None:
    network = PPOConfig(actor_hidden_dims=(8,), critic_hidden_dims=(8,), num_mini_batches=1, std_type="log")
    config = dataclasses.replace(network, use_data_augmentation=augment, use_mirror_loss=coeff > 0, mirror_loss_coeff=coeff)
    plain, symmetric = PPO(network, 3, 3), PPO(config, 3, 3, mirror=MIRROR)
    state = plain.init(0)
    old = plain.init(1)  # the policy has moved since: ratios are not 1
    samples = jax.tree.map(jnp.asarray, some_samples(plain, old))
    networks = state.actor, state.critic

    def loss(agent: PPO, samples: Samples) -> tuple[float, Any]:
        value, info = agent._loss(networks, MiniBatch(pack_samples(samples), samples.advantages))
        return float(value), info

    value, info = loss(symmetric, samples)
    # by hand: swap the second and third number seen and turn the first; swap the first two actions and turn the third
    x, a, m, s = (np.asarray(part) for part in (samples.observations, samples.actions, samples.old.mean, samples.old.std))
    other = Samples(
        np.stack([-x[:, 0], x[:, 2], x[:, 1]], 1),
        np.stack([a[:, 1], a[:, 0], -a[:, 2]], 1),
        PolicyOutputs(np.stack([m[:, 1], m[:, 0], -m[:, 2]], 1), np.stack([s[:, 1], s[:, 0], s[:, 2]], 1), samples.old.value),
        samples.advantages,
        samples.returns,
    )
    (original, original_info), (in_mirror, _) = loss(plain, samples), loss(plain, other)
    now, there = (np.asarray(state.actor(jnp.asarray(part))[0]) for part in (x, other.observations))
    apart = np.square(there - np.stack([now[:, 1], now[:, 0], -now[:, 2]], 1)).mean()
    expected = (0.5 * (original + in_mirror) if augment else original) + coeff * apart
    assert value == pytest.approx(expected, rel=1e-5) and float(info["Loss/symmetry"]) == pytest.approx(apart, rel=1e-5)
    for name, expected in original_info.items():
        assert float(info[name]) == pytest.approx(float(expected), rel=1e-5), "metrics are those of the original samples"
    # an action in the mirror was as likely as the action itself
    again = mirrored(MIRROR, samples)
    density = [(-0.5 * ((b.actions - b.old.mean) / b.old.std) ** 2 - jnp.log(b.old.std)).sum(1) for b in (samples, again)]
    np.testing.assert_allclose(density[0], density[1], rtol=1e-5)


def throw(ball: np.ndarray) -> np.ndarray:
    """Where to throw, for a ball at x and y. From y = 0.4 to 0.8 sin 4y falls from 1 to -0.06: a straight line beyond 0 is wrong."""
    return np.stack([ball[:, 0], np.sin(4 * ball[:, 1])], axis=1)


def errors_after_the_left_alone(**symmetry: Any) -> tuple[float, float]:
    """Of a policy that only ever saw balls on the left (y from 0.4 to 0.8): there, and on the right."""
    config = PPOConfig(actor_hidden_dims=(32,), critic_hidden_dims=(4,), entropy_coef=0.0, init_std=0.5, num_mini_batches=2)
    config = dataclasses.replace(config, **symmetry)
    agent = PPO(config, 2, 2, mirror=Mirror((1, -2), (1, -2)) if symmetry else None)
    state, random = agent.init(0), np.random.default_rng(0)
    for _ in range(80):
        balls = random.uniform([-0.8, 0.4], [0.8, 0.8], (512, 2)).astype(np.float32)
        old, _ = agent.evaluate(state, balls[None], none(512))
        actions = np.asarray(old.mean) + np.asarray(old.std) * random.standard_normal((512, 2)).astype(np.float32)
        reward = -np.abs(actions - throw(balls)).sum(1)
        advantage = ((reward - reward.mean()) / reward.std()).astype(np.float32)
        order = np.stack([random.permutation(512) for _ in range(config.num_learning_epochs)])
        state, _ = agent.update(state, Samples(balls, actions, old, advantage, np.asarray(old.value)), none(512), order, 0.0)
    apart = []
    for side in (1, -1):
        balls = (random.uniform([-0.8, 0.4], [0.8, 0.8], (500, 2)) * [1, side]).astype(np.float32)
        apart.append(float(np.abs(np.asarray(agent.evaluate(state, balls[None], none(500))[0].mean) - throw(balls)).mean()))
    return apart[0], apart[1]


def test_a_policy_trained_on_the_left_acts_on_the_right() -> None:
    left, right = errors_after_the_left_alone()
    assert left < 0.15 and right > 0.4, (left, right)
    left, right = errors_after_the_left_alone(use_data_augmentation=True)
    assert left < 0.3 and right < left + 0.05, (left, right)
    left, right = errors_after_the_left_alone(use_mirror_loss=True, mirror_loss_coeff=1.0)
    assert left < 0.3 and right < left + 0.3, (left, right)  # it is drawn there, and not as hard as samples would


class Declares(gymnasium.Env):
    """Somebody else's environment, with a symmetry of its own."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    symmetry = Symmetry({"state": (2, 1)}, (-1,))


def test_a_gymnasium_environment_may_declare_a_symmetry() -> None:
    gymnasium.register("Declares-v0", lambda **_: Declares(), disable_env_checker=True)
    env = make_batch("Declares-v0", 2)
    config = dataclasses.replace(SMALL, agent=dataclasses.replace(SMALL.agent, use_mirror_loss=True))
    assert mirror_for(config, env) == Mirror((2, 1), (-1,)) and mirror_for(SMALL, env) is None


def test_the_first_ratio_is_still_one_and_the_statistics_are_the_same_on_both_sides(tmp_path: Path) -> None:
    agent = dataclasses.replace(SMALL.agent, use_data_augmentation=True, use_mirror_loss=True, mirror_loss_coeff=0.1)
    parts: OnPolicyRun = parts_of(dataclasses.replace(SMALL, agent=agent, obs_normalization=True), tmp_path / "run")
    for _ in range(3):
        parts.iterate()
    row = parts.run.metrics()[-1]
    assert row["Policy/first_ratio_error"] == 0.0 and row["Loss/symmetry"] > 0
    np.testing.assert_allclose(parts.collector.normaliser.mean, 0, atol=1e-7)  # left as often as right


def test_tasks_without_symmetry_and_recurrent_networks_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    agent = dataclasses.replace(SMALL.agent, use_data_augmentation=True)
    with pytest.raises(ConfigError, match="task 'reach' declares no symmetry"):
        train_ppo(dataclasses.replace(SMALL, task="reach", agent=agent), tmp_path / "run", Display("quiet"))
    with pytest.raises(ConfigError, match="recurrent networks on sequences"):
        train_ppo(dataclasses.replace(SMALL, agent=dataclasses.replace(agent, actor_rnn_type="gru")), tmp_path / "run", Display("quiet"))
    assert not (tmp_path / "run").exists()
