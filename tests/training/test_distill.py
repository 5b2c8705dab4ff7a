"""Teacher and student: the loss and its gradient, and students that see less than their teacher does."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem.agents.adam import Adam
from tandem.agents.distillation import Distillation, Lesson, behaviour_loss
from tandem.agents.ppo import PPO, PPOConfig
from tandem.agents.recurrent_ppo import RecurrentPPO
from tandem.errors import ConfigError
from tandem.networks.recurrent import Recurrent
from tandem.training.display import Display
from tandem.training.distill import DistillArgs, DistillConfig, Teacher, distill
from tandem.training.export import export
from tandem.training.on_policy import train_ppo
from tandem.training.policy import load_policy
from tandem.training.ppo_recipes import PRESETS
from tandem.training.run import RunFolder
from tandem.types import PolicySnapshot
from tests.test_cli import assert_done, assert_refused, tandem

QUIET = Display("quiet")


def test_the_two_losses_by_hand() -> None:
    student, teacher = jnp.array([[0.5, 0.0], [3.0, -1.0]]), jnp.array([[0.0, 0.0], [1.0, -1.0]])
    # differences 0.5, 0, 2, 0: squares 0.25 + 4 over four; halves of squares below one 0.125, and 2 - 0.5 beyond
    assert float(behaviour_loss(student, teacher, "mse")) == pytest.approx(4.25 / 4)
    assert float(behaviour_loss(student, teacher, "huber")) == pytest.approx((0.125 + 1.5) / 4)


def lesson(steps: int, size: int) -> Lesson:
    random = np.random.default_rng(0)
    x, wanted, memory = random.standard_normal((steps, 4, 3)), random.uniform(-1, 1, (steps, 4, 2)), random.standard_normal((4, size))
    x, wanted, memory = (jnp.asarray(part, jnp.float32) for part in (x, wanted, memory))
    return Lesson(x, jnp.asarray(random.random((steps, 4)) < 0.2), wanted, memory)


@pytest.mark.parametrize("kind", ["none", "gru"])
def test_a_gradient_reaches_back_so_many_steps_and_the_last_ones_count_too(kind: Any) -> None:
    """Seven steps in pieces of three, three and one, each of another network's own unrolling, written out step by step."""
    config = PPOConfig(actor_hidden_dims=(5,), critic_hidden_dims=(3,), actor_rnn_type=kind, actor_rnn_hidden_dim=6)
    agent = RecurrentPPO(PPO(config, 3, 2)) if kind != "none" else PPO(config, 3, 2)
    actor = agent.init(0).actor
    told = lesson(7, 6 if kind != "none" else 0)
    learning = Distillation(num_learning_epochs=2, gradient_length=3, learning_rate=0.01, max_grad_norm=0.5)

    def loss(actor: Any, memory: Any, piece: slice) -> Any:
        network = actor if isinstance(actor, Recurrent) else Recurrent((), actor)
        apart = []
        for x, end, wanted in zip(told.observations[piece], told.ended[piece], told.actions[piece], strict=True):
            heard, memory = network.step(x, memory)
            apart.append(jnp.square(network.network(heard)[0] - wanted))
            memory = jnp.where(end[:, None], 0.0, memory)
        return jnp.mean(jnp.stack(apart)), memory

    reference, optimiser, losses = actor, Adam(0.01).init(actor), []
    for _ in range(2):
        memory = told.memory
        for piece, count in ((slice(0, 3), 3), (slice(3, 6), 3), (slice(6, 7), 1)):
            (value, memory), gradient = jax.value_and_grad(lambda a, m=memory, p=piece: loss(a, m, p), has_aux=True)(reference)
            norm = np.sqrt(sum(float(jnp.vdot(leaf, leaf)) for leaf in jax.tree.leaves(gradient)))
            gradient = jax.tree.map(lambda leaf, norm=norm: leaf * min(1.0, 0.5 / (norm + 1e-6)), gradient)
            reference, optimiser = Adam(0.01).step(reference, optimiser, gradient)
            losses += [float(value)] * count
    state, mean = learning.update(learning.init(jax.tree.map(jnp.copy, actor)), told)
    assert float(mean) == pytest.approx(np.mean(losses), rel=1e-5)
    for ours, theirs in zip(jax.tree.leaves(state.actor), jax.tree.leaves(reference), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_a_teacher_that_remembers_follows_the_students_episodes() -> None:
    config = PPOConfig(actor_hidden_dims=(8,), critic_hidden_dims=(3,), actor_rnn_type="lstm", actor_rnn_hidden_dim=6)
    agent = RecurrentPPO(PPO(config, 3, 2))
    parameters = agent.policy_parameters(agent.init(0), np.zeros(3, np.float32), np.ones(3, np.float32), np.inf)
    told = lesson(9, 0)
    whole = Teacher(PolicySnapshot(1, 1, parameters), 4).actions(np.asarray(told.observations), np.asarray(told.ended))
    halves = Teacher(PolicySnapshot(1, 1, parameters), 4)
    parts = [halves.actions(np.asarray(told.observations)[piece], np.asarray(told.ended)[piece]) for piece in (slice(0, 5), slice(5, 9))]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    # after an end it acts as at a beginning
    step, row = np.argwhere(np.asarray(told.ended)[:-1])[0]
    alone = Teacher(PolicySnapshot(1, 1, parameters), 1).actions(
        np.asarray(told.observations)[step + 1 :, row : row + 1], np.zeros((8 - step, 1), bool)
    )
    np.testing.assert_allclose(whole[step + 1, row], alone[0, 0], atol=1e-6)


# ---- students


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Balances the pole, and sees how fast everything moves."""
    path = tmp_path_factory.mktemp("teacher") / "run"
    config = dataclasses.replace(PRESETS["cartpole"](), task="cartpole", max_iterations=30, eval_period=0, final_episodes=0)
    train_ppo(config, path, QUIET)
    return path


BLIND = DistillConfig(
    student_entries=("position",), hidden_dims=(32,), num_envs=32, num_steps_per_env=32, max_iterations=60, eval_period=0, final_episodes=20
)


def test_a_student_that_sees_no_velocity_makes_up_for_it_by_memory(teacher: Path, tmp_path: Path) -> None:
    remembering = dataclasses.replace(BLIND, rnn_type="gru", rnn_hidden_dim=32, gradient_length=16, learning_rate=3e-3)
    summary = distill(DistillArgs("cartpole", teacher, remembering), tmp_path / "gru", QUIET)
    assert summary["teacher"]["return"] >= 490 and summary["deterministic"]["return"] >= 400, summary
    forgetting = distill(DistillArgs("cartpole", teacher, BLIND), tmp_path / "mlp", QUIET)
    # it is a policy like any other
    assert export(tmp_path / "gru").inputs == ("position",)
    snapshot, _ = load_policy(tmp_path / "gru")
    assert "rnn_type" in snapshot.parameters and float(snapshot.parameters["std"][0]) == pytest.approx(0.1, rel=1e-3), "its noise stays"
    # how fast everything moves is not to be known from where it is: without memory the teacher's actions cannot be met
    apart = [RunFolder.open(tmp_path / name).metrics()[-1]["Loss/behavior"] for name in ("gru", "mlp")]
    assert apart[0] < 0.3 * apart[1] and forgetting["deterministic"]["return"] < summary["deterministic"]["return"], apart


def test_the_command_teaches_and_refuses_what_cannot_be(teacher: Path, tmp_path: Path) -> None:
    few = ("--num-envs", 8, "--num-steps-per-env", 10, "--max-iterations", 2, "--eval-period", 2, "--eval-episodes", 2)
    few = (*few, "--final-episodes", 2, "--teacher", teacher)
    done = tandem("distill", "cartpole", "--student-entries", "position", "velocity", *few, "--run", "run", cwd=tmp_path)
    assert_done(done, "evaluation at iteration 2", "behaviour loss")
    assert_done(tandem("eval", "run", "--episodes", 2, cwd=tmp_path), "cartpole, policy version")
    wrong = tandem("distill", "reach", *few, cwd=tmp_path)
    assert_refused(wrong, "trained for another spec")
    wrong = tandem("distill", "cartpole", "--student-entries", "lamp", *few, cwd=tmp_path)
    assert_refused(wrong, "no observation entry 'lamp'")
    with pytest.raises(ConfigError, match="gradient_length must be at least 1"):
        dataclasses.replace(BLIND, gradient_length=0)
