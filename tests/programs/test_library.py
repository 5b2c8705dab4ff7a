"""`import tandem`: what it gives, and that it stays light."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import tandem
from tandem.acting.policy import act_with, load_policy
from tandem.errors import ConfigError, PackageMissing, extras_named
from tandem.off_policy.recipes import RECIPES
from tandem.programs.library import with_settings

FEW = {"max_steps": 20, "eval_period": 0, "hidden": (16, 16), "batch_size": 16, "training_starts": 20, "steps_per_update": 5}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tandem.TrainingResult:
    return tandem.train("reach", run=tmp_path_factory.mktemp("library") / "run", quiet=True, final_episodes=4, **FEW)


def test_importing_it_brings_neither_jax_nor_mujoco_and_every_name_is_there() -> None:
    code = """
import sys, tandem
heavy = {"jax", "mujoco", "gymnasium", "numpy"} & set(sys.modules)
assert not heavy, heavy
for name in tandem.__all__:
    assert getattr(tandem, name) is not None
assert "jax" not in sys.modules, "only tandem.train needs it, when it is called"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with pytest.raises(AttributeError, match="module 'tandem' has no attribute 'tarin'; it has"):
        tandem.tarin  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_a_task_is_trained_and_the_result_says_how_well(trained: tandem.TrainingResult) -> None:
    assert trained.summary["learner_step"] == 20 and trained.success == trained.summary["deterministic"]["successes"] / 4
    assert (trained.run / "summary.json").exists()


def test_a_policy_acts_on_one_observation_or_on_a_batch(trained: tandem.TrainingResult) -> None:
    policy = trained.policy()
    env = tandem.make("reach")
    first, second = (env.reset(seed=seed)[0] for seed in (1, 2))
    batch = {name: np.stack([first[name], second[name]]) for name in first}
    both = policy.act(batch)
    assert both.shape == (2, policy.spec.action_dim) and policy.act(first).shape == (policy.spec.action_dim,)
    np.testing.assert_allclose(both, [policy.act(first), policy.act(second)], atol=1e-6)
    assert not np.allclose(both[0], both[1])
    snapshot, spec = load_policy(trained.run)
    np.testing.assert_allclose(both, act_with(snapshot, spec)(batch))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda seen: {}, r"needs the observation entry '\w+', got only \[\]"),
        (lambda seen: {**seen, "to_ball": np.zeros(2)}, r"'to_ball': got shape \(2,\), expected \(3,\) for one observation or \(N, 3\)"),
        (lambda seen: {**seen, "to_ball": np.zeros((4, 3))}, "different numbers of rows"),
        (lambda seen: {name: values[None, None] for name, values in seen.items()}, "got shape"),
    ],
)
def test_an_observation_that_does_not_fit_is_refused(change, says: str, trained: tandem.TrainingResult) -> None:
    seen: Mapping[str, np.ndarray] = tandem.make("reach").reset(seed=0)[0]
    with pytest.raises(ConfigError, match=says):
        trained.policy().act(change(seen))


def test_settings_are_those_of_the_run_or_of_its_agent() -> None:
    config = with_settings(RECIPES["reach"](), {"max_steps": 7, "discount": 0.5})
    assert (config.max_steps, config.agent.discount, config.num_envs) == (7, 0.5, RECIPES["reach"]().num_envs)
    with pytest.raises(ConfigError, match=r"no setting 'max_step'\. Did you mean 'max_steps'\?"):
        with_settings(RECIPES["reach"](), {"max_step": 7})
    with pytest.raises(ConfigError, match="no setting 'agent'"):
        with_settings(RECIPES["reach"](), {"agent": None})


def test_a_package_that_is_not_installed_is_named_with_its_extra(tmp_path: Path) -> None:
    with (
        pytest.raises(
            PackageMissing, match=r"tandem.train needs the package 'jax', which is not installed: pip install 'tandem-rl\[learn\]'"
        ),
        extras_named("tandem.train"),
    ):
        raise ModuleNotFoundError("No module named 'jax.numpy'", name="jax.numpy")
    with pytest.raises(ModuleNotFoundError, match="my_robot"), extras_named("tandem.train"):
        raise ModuleNotFoundError("No module named 'my_robot'", name="my_robot")
    # as on a robot's computer: no JAX can be imported
    (tmp_path / "jax.py").write_text("raise ModuleNotFoundError(\"No module named 'jax'\", name='jax')")
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from tandem.cli import main; main()"
    for words in (("train", "reach"), ("ppo", "reach"), ("train", "--help")):
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path), *words], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 2 and "pip install 'tandem-rl[learn]'" in done.stderr and "Traceback" not in done.stderr, done.stderr
