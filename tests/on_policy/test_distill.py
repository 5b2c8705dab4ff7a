"""Teacher and student: the loss and its gradient, and students that see less than their teacher does."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem.acting.policy import load_policy
from tandem.agents.distillation import Distillation, LabelledRollout, behaviour_loss
from tandem.agents.parameters import Adam
from tandem.agents.ppo_config import PPOConfig
from tandem.agents.recurrent_ppo import RecurrentPPO
from tandem.envs.registry import spec_for
from tandem.errors import ConfigError
from tandem.layouts import Layout
from tandem.on_policy.distill import DistillArgs, DistillConfig, Teacher, distill
from tandem.programs.export import export
from tandem.runs.checkpoint import write_policy
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.types import PolicySnapshot
from tests.test_cli import assert_done, assert_refused, tandem

QUIET = Display("quiet")


def test_the_two_losses_by_hand() -> None:
    student, teacher = jnp.array([[0.5, 0.0], [3.0, -1.0]]), jnp.array([[0.0, 0.0], [1.0, -1.0]])
    # differences 0.5, 0, 2, 0: squares 0.25 + 4 over four; halves of squares below one 0.125, and 2 - 0.5 beyond
    assert float(behaviour_loss(student, teacher, "mse")) == pytest.approx(4.25 / 4)
    assert float(behaviour_loss(student, teacher, "huber")) == pytest.approx((0.125 + 1.5) / 4)


def labelled_rollout(steps: int, size: int) -> LabelledRollout:
    random = np.random.default_rng(0)
    x, wanted, memory = random.standard_normal((steps, 4, 3)), random.uniform(-1, 1, (steps, 4, 2)), random.standard_normal((4, size))
    x, wanted, memory = (jnp.asarray(part, jnp.float32) for part in (x, wanted, memory))
    return LabelledRollout(x, jnp.asarray(random.random((steps, 4)) < 0.2), wanted, memory)


def test_gradients_reach_back_gradient_length_steps_and_the_remainder_counts_too() -> None:
    """Seven steps in pieces of three, three and one, the network unrolled step by step."""
    config = PPOConfig(actor_hidden_dims=(5,), critic_hidden_dims=(3,), actor_rnn_type="gru", actor_rnn_hidden_dim=6)
    actor = RecurrentPPO(config, 3, 2).init(0).actor
    labelled = labelled_rollout(7, 6)
    learning = Distillation(num_learning_epochs=2, gradient_length=3, learning_rate=0.01, max_grad_norm=0.5)

    @jax.jit
    @partial(jax.value_and_grad, has_aux=True)
    def followed(actor: Any, memory: Any, observations: Any, ended: Any, actions: Any) -> Any:
        apart = []
        for x, end, wanted in zip(observations, ended, actions, strict=True):
            features, memory = actor.step(x, memory)
            apart.append(jnp.square(actor.network(features)[0] - wanted))
            memory = jnp.where(end[:, None], 0.0, memory)
        return jnp.mean(jnp.stack(apart)), memory

    reference, optimiser, losses = actor, Adam(0.01).init(actor), []
    for _ in range(2):
        memory = labelled.memory
        for piece, count in ((slice(0, 3), 3), (slice(3, 6), 3), (slice(6, 7), 1)):
            (value, memory), gradient = followed(reference, memory, *(part[piece] for part in labelled[:3]))
            norm = np.sqrt(sum(float(jnp.vdot(leaf, leaf)) for leaf in jax.tree.leaves(gradient)))
            gradient = jax.tree.map(lambda leaf, norm=norm: leaf * min(1.0, 0.5 / (norm + 1e-6)), gradient)
            reference, optimiser = Adam(0.01).step(reference, optimiser, gradient)
            losses += [float(value)] * count
    state, mean = learning.update(learning.init(jax.tree.map(jnp.copy, actor)), labelled)
    assert float(mean) == pytest.approx(np.mean(losses), rel=1e-5)
    for ours, theirs in zip(jax.tree.leaves(state.actor), jax.tree.leaves(reference), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_a_recurrent_teacher_follows_the_students_episodes() -> None:
    config = PPOConfig(actor_hidden_dims=(8,), critic_hidden_dims=(3,), actor_rnn_type="lstm", actor_rnn_hidden_dim=6)
    agent = RecurrentPPO(config, 3, 2)
    parameters = agent.policy_parameters(agent.init(0), np.zeros(3, np.float32), np.ones(3, np.float32), np.inf)
    labelled = labelled_rollout(9, 0)
    snapshot = PolicySnapshot(1, 1, parameters, "recurrent_gaussian")
    whole = Teacher(snapshot, 4).actions(np.asarray(labelled.observations), np.asarray(labelled.ended))
    halves = Teacher(snapshot, 4)
    observations, ended = np.asarray(labelled.observations), np.asarray(labelled.ended)
    parts = [halves.actions(observations[piece], ended[piece]) for piece in (slice(0, 5), slice(5, 9))]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    # after an end it acts as at a beginning
    step, row = np.argwhere(np.asarray(labelled.ended)[:-1])[0]
    alone = Teacher(snapshot, 1).actions(np.asarray(labelled.observations)[step + 1 :, row : row + 1], np.zeros((8 - step, 1), bool))
    np.testing.assert_allclose(whole[step + 1, row], alone[0, 0], atol=1e-6)


# ---- students


class Cue(gymnasium.Env):
    """Shows a number once, as `cue`, and asks for it in each of eight steps; `answer` shows it all the time, if the policy sees it."""

    observation_space = gymnasium.spaces.Dict({name: gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32) for name in ("answer", "cue")})
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        self.answer, self.steps = self.np_random.uniform(-0.8, 0.8, 1).astype(np.float32), 0
        return {"answer": self.answer, "cue": self.answer}, {}

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        self.steps += 1
        reward = -abs(float(action[0] - self.answer[0]))
        return {"answer": self.answer, "cue": np.zeros(1, np.float32)}, reward, False, self.steps >= 8, {}


gymnasium.register("Cue-v0", lambda **_: Cue(), disable_env_checker=True)


def knows(column: int, entries: int) -> dict[str, np.ndarray]:
    """A teacher made by hand: its action is one number of what it sees, max(x, 0) - max(-x, 0)."""
    weights = {"trunk/layers/0/weight": [[1, -1]], "trunk/layers/0/bias": [0, 0], "mean/weight": [[1], [-1]], "mean/bias": [0]}
    settings = {"std": [0.1], "std_range": [0.01, 10], "normaliser/mean": [0], "normaliser/std": [1], "normaliser/clip": np.inf}
    numbers = {name: np.array(values, np.float32) for name, values in (weights | settings).items()}
    whole = {"activation": 1, "observation_dim": entries, "columns": [column]}
    return numbers | {name: np.array(values, np.int32) for name, values in whole.items()}


def teacher_for(task: str, column: int, path: Path) -> Path:
    spec = spec_for(task)
    write_policy(path, PolicySnapshot(1, 1, knows(column, Layout(spec).size), "gaussian"), spec, learned_by="hand")
    return path


BLIND = DistillConfig(
    student_entries=("cue",), hidden_dims=(16,), num_envs=32, num_steps_per_env=16, gradient_length=8, learning_rate=5e-3,
    max_iterations=60, eval_period=30, eval_episodes=5, final_episodes=20,
)  # fmt: skip


def test_a_recurrent_student_makes_up_for_missing_entries(tmp_path: Path) -> None:
    teacher = teacher_for("Cue-v0", 0, tmp_path / "teacher.safetensors")
    remembering = dataclasses.replace(BLIND, rnn_type="gru", rnn_hidden_dim=16)
    summary = distill(DistillArgs("Cue-v0", teacher, remembering), tmp_path / "gru", QUIET)
    forgetting = distill(DistillArgs("Cue-v0", teacher, BLIND), tmp_path / "mlp", QUIET)
    # The teacher is never wrong. Who knows nothing after the first step is wrong by 0.4 on average, seven times of eight: -2.8.
    assert summary["teacher"]["return"] == pytest.approx(0, abs=1e-5)
    assert summary["deterministic"]["return"] > -1.2 and forgetting["deterministic"]["return"] < -2, (summary, forgetting)
    # it is a policy like any other
    assert export(tmp_path / "gru").inputs == ("cue",)
    snapshot, _ = load_policy(tmp_path / "gru")
    assert "rnn_type" in snapshot.parameters and float(snapshot.parameters["std"][0]) == pytest.approx(0.1, rel=1e-3), "its noise stays"
    rows = [row for row in RunFolder.open(tmp_path / "gru").metrics() if "Loss/behavior" in row]
    assert rows[-1]["Loss/behavior"] < 0.3 * rows[0]["Loss/behavior"]


def test_the_command_distils_and_refuses_invalid_settings(tmp_path: Path) -> None:
    teacher = teacher_for("cartpole", 1, tmp_path / "teacher.safetensors")
    few = ("--num-envs", 8, "--num-steps-per-env", 10, "--max-iterations", 2, "--eval-period", 2, "--eval-episodes", 2)
    few = (*few, "--final-episodes", 2, "--teacher", teacher)
    done = tandem("distill", "cartpole", "--student-entries", "position", *few, "--run", "run", cwd=tmp_path)
    assert_done(done, "evaluation at iteration 2", "behaviour loss", "the teacher")
    assert_done(tandem("eval", "run", "--episodes", 2, cwd=tmp_path), "cartpole, policy version")
    assert_refused(tandem("distill", "reach", *few, cwd=tmp_path), "trained for another spec")
    assert_refused(tandem("distill", "cartpole", "--student-entries", "lamp", *few, cwd=tmp_path), "no observation entry 'lamp'")
    with pytest.raises(ConfigError, match="gradient_length must be at least 1"):
        dataclasses.replace(BLIND, gradient_length=0)
