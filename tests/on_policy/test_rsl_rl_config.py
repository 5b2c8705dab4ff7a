"""Configurations as rsl_rl's users have them: taken over to the letter, or refused with everything that is wrong."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tandem.agents.rnd import RNDConfig
from tandem.errors import ConfigError, FileMissing, FileUnreadable
from tandem.on_policy.rsl_rl_config import imported, read_rsl_rl_config
from tandem.programs.arguments import read_ppo_args
from tests.test_cli import assert_done, assert_refused, tandem

ANYMAL_5 = """
seed: 42
device: cuda:0
num_steps_per_env: 24
max_iterations: 300
save_interval: 50
clip_actions: null
check_for_nan: true
torch_compile_mode: null
experiment_name: anymal_d_flat
run_name: ''
logger: tensorboard
wandb_project: isaaclab
neptune_project: isaaclab
resume: false
load_run: .*
load_checkpoint: model_.*.pt
obs_groups: {actor: [policy], critic: [policy]}
algorithm:
  class_name: PPO
  num_learning_epochs: 5
  num_mini_batches: 4
  clip_param: 0.2
  gamma: 0.98
  lam: 0.95
  value_loss_coef: 0.5
  entropy_coef: 0.005
  learning_rate: 1e-3
  max_grad_norm: 1.0
  use_clipped_value_loss: true
  schedule: adaptive
  desired_kl: 0.016
  normalize_advantage_per_mini_batch: false
  use_mixed_precision: false
  grad_reduce_bucket_mb: 25
  share_cnn_encoders: false
  optimizer: adam
  rnd_cfg: null
  symmetry_cfg: null
actor:
  class_name: MLPModel
  hidden_dims: !!python/tuple [128, 128, 128]
  activation: elu
  obs_normalization: true
  distribution_cfg:
    class_name: GaussianDistribution
    init_std: 0.5
    std_type: log
    std_range: [0.001, 100.0]
    learn_std: true
critic:
  class_name: rsl_rl.models:MLPModel
  hidden_dims: [256, 128]
  activation: elu
  obs_normalization: true
"""
GEAR_4: dict[str, Any] = {
    "num_steps_per_env": 512,
    "max_iterations": 1500,
    "save_interval": 50,
    "clip_actions": 1.0,
    "obs_groups": {"actor": ["wrench", "tcp_pose"], "critic": ["wrench", "tcp_pose", "gear_phase"]},
    "logger": "wandb",
    "wandb_project": "gears",
    "algorithm": {"class_name": "PPO", "num_learning_epochs": 8, "num_mini_batches": 16, "learning_rate": 5e-4, "entropy_coef": 0.0},
    "actor": {
        "class_name": "RNNModel",
        "hidden_dims": [256, 128, 64],
        "activation": "elu",
        "rnn_type": "lstm",
        "rnn_hidden_dim": 256,
        "rnn_num_layers": 2,
        "stochastic": True,
        "init_noise_std": 1.0,
        "noise_std_type": "log",
        "state_dependent_std": True,
    },
    "critic": {"class_name": "MLPModel", "hidden_dims": [256, 128, 64], "activation": "elu", "stochastic": False},
}


def changed(**changes: Any) -> dict[str, Any]:
    """`ANYMAL_5` with these values; `algorithm__gamma` is that of the algorithm."""
    runner = copy.deepcopy(yaml.safe_load(ANYMAL_5.replace("!!python/tuple ", "")))
    for place, value in changes.items():
        table = runner
        *parts, name = place.split("__")
        for part in parts:
            table = table[part]
        table[name] = value
    return runner


def test_a_5_x_configuration_as_isaac_lab_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(ANYMAL_5)
    found = read_rsl_rl_config(file)
    config, agent = found.config, found.config.agent
    assert (config.seed, config.num_steps_per_env, config.max_iterations, config.save_interval) == (42, 24, 300, 50)
    assert config.obs_normalization and config.actor_entries == config.critic_entries == () and config.wandb is None
    assert (agent.gamma, agent.value_loss_coef, agent.entropy_coef, agent.desired_kl) == (0.98, 0.5, 0.005, 0.016)
    assert agent.learning_rate == 1e-3, "YAML takes 1e-3 for a word"
    assert (agent.actor_hidden_dims, agent.critic_hidden_dims) == ((128, 128, 128), (256, 128))
    assert (agent.init_std, agent.std_type, agent.std_range, agent.activation) == (0.5, "log", (0.001, 100.0), "elu")
    assert agent.init == "torch" and agent.adam_epsilon == 1e-8, "what rsl_rl has no key for is as it has it"
    raised = {line.split(":")[0] for line in found.ignored}
    assert raised == {
        "device", "check_for_nan", "experiment_name", "run_name", "neptune_project", "wandb_project", "load_run", "load_checkpoint",
        "algorithm.use_mixed_precision", "algorithm.grad_reduce_bucket_mb",
    }  # fmt: skip


def test_a_4_x_configuration_with_recurrent_layers_and_fewer_entries_for_the_policy(tmp_path: Path) -> None:
    file = tmp_path / "agent.json"
    file.write_text(json.dumps(GEAR_4))
    config = read_rsl_rl_config(file).config
    agent = config.agent
    assert (agent.actor_rnn_type, agent.actor_rnn_hidden_dim, agent.actor_rnn_num_layers) == ("lstm", 256, 2)
    assert agent.critic_rnn_type == "none" and agent.std_type == "state" and agent.init_std == 1.0
    assert config.actor_entries == ("wrench", "tcp_pose") and config.critic_entries == ("wrench", "tcp_pose", "gear_phase")
    assert config.wandb == "gears" and agent.learning_rate == 5e-4 and agent.num_mini_batches == 16


def test_rnd_and_symmetry_settings_are_read() -> None:
    rnd = {"num_outputs": 2, "predictor_hidden_dims": [32], "target_hidden_dims": [16, 16], "activation": "relu", "weight": 10.0}
    rnd |= {"state_normalization": True, "reward_normalization": True, "learning_rate": "1e-4"}
    rnd["weight_schedule"] = {"mode": "linear", "initial_step": 100, "final_step": 500, "final_value": 1.0}
    symmetry = {"use_data_augmentation": True, "use_mirror_loss": True, "mirror_loss_coeff": 0.2, "data_augmentation_func": "mod:f"}
    runner = changed(algorithm__rnd_cfg=rnd, algorithm__symmetry_cfg=symmetry, obs_groups__rnd_state=["position"])
    found = imported(runner)
    config = found.config
    assert config.rnd == RNDConfig(
        10.0, "linear", 100, 500, 1.0, 2, (32,), (16, 16), "relu", 1e-4, True, True, rnd_entries=("position",)
    )  # fmt: skip
    assert (config.agent.use_data_augmentation, config.agent.use_mirror_loss, config.agent.mirror_loss_coeff) == (True, True, 0.2)
    raised = {line.split(":")[0] for line in found.ignored}
    assert {"algorithm.symmetry_cfg.data_augmentation_func", "algorithm.rnd_cfg.weight"} <= raised
    assert not imported(changed()).config.rnd.wanted
    with pytest.raises(ConfigError) as wrong:
        imported(changed(algorithm__rnd_cfg={**rnd, "predictor_hidden_dims": [-1], "wieght": 1}))
    assert "algorithm.rnd_cfg.wieght: unknown key; did you mean algorithm.rnd_cfg.weight?" in str(wrong.value)
    assert "algorithm.rnd_cfg.predictor_hidden_dims = [-1]" in str(wrong.value)


def test_all_problems_are_reported_at_once_and_nothing_is_guessed() -> None:
    wrong = changed(
        num_step_per_env=24, algorithm__gama=0.9, algorithm__optimizer="sgd", actor__hidden_dims=[-1, 64], critic__activation="mish"
    )
    wrong |= {"resume": True, "obs_groups": {"actor": ["policy"], "critic": ["policy", "privileged"], "student": []}}
    with pytest.raises(ConfigError) as raised:
        imported(wrong, "agent.yaml")
    lines = str(raised.value).splitlines()
    assert lines[0] == "agent.yaml cannot be used as it is:"
    for part in (
        "num_step_per_env: unknown key; did you mean num_steps_per_env?",
        "algorithm.gama: unknown key; did you mean algorithm.gamma?",
        "algorithm.optimizer = sgd: only adam is supported",
        "actor.hidden_dims = [-1, 64]: -1 stands for the number of inputs; write that number",
        "activation = mish: there are tanh, relu, swish, elu",
        "resume = True: use `tandem ppo --resume RUN`",
        "obs_groups.critic = ['policy', 'privileged']: 'policy' cannot be combined with other groups",
        "obs_groups.student: unknown key",
    ):
        assert sum(part in line for line in lines) == 1, f"{part}\n{raised.value}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"policy": {"class_name": "ActorCritic"}}, "policy: a key of rsl_rl before 4.0"),
        ({"clip_actions": 100.0}, "clip_actions = 100.0"),
        ({"seed": -1}, "seed = -1"),
        ({"class_name": "DistillationRunner"}, "class_name = DistillationRunner"),
        ({"algorithm__class_name": "Distillation"}, "`tandem distill`"),
        ({"algorithm__schedule": "linear"}, "rsl_rl has adaptive and fixed"),
        ({"algorithm__learning_rate": "fast"}, "algorithm.learning_rate = fast: expected a number"),
        ({"algorithm__num_learning_epochs": 2.5}, "expected an integer"),
        ({"algorithm__use_clipped_value_loss": "yes"}, "expected true or false"),
        ({"algorithm__gamma": 1.5}, "gamma must be from 0 to 1"),
        ({"actor__class_name": "CNNModel"}, "convolutional models are not supported yet"),
        ({"actor__rnn_type": "gru"}, "only an RNNModel has it"),
        ({"actor__obs_normalization": False}, "set it for both or none"),
        ({"actor__activation": "relu"}, "both networks share one"),
        ({"actor__init_noise_std": 1.0}, "beside the distribution_cfg of 5.x"),
        ({"actor__distribution_cfg__class_name": "BetaDistribution"}, "policies are Gaussian"),
        ({"actor__distribution_cfg__learn_std": False}, "the std is always learned"),
        ({"actor__distribution_cfg": {"class_name": "HeteroscedasticGaussianDistribution"}}, "learned as its logarithm here; use `log`"),
        ({"critic__distribution_cfg": {}}, "critic.distribution_cfg: unknown key"),
        ({"logger": "neptune"}, "logger = neptune: there are tensorboard and wandb"),
        ({"algorithm": "PPO"}, "algorithm = PPO: expected a table"),
        ({"algorithm__num_mini_batches": 5}, "98304 samples do not divide"),
    ],
)
def test_unsupported_values_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        imported(changed(**changes))
    assert words in str(raised.value)


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]\n" for i in range(9))
"""Nine lines that stand for 9^10 values; read, it took 2.3 GB."""


def test_files_that_are_not_a_configuration_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match="there is no configuration"):
        read_rsl_rl_config(tmp_path / "nowhere.yaml")
    for name, text, words in (
        ("code.yaml", "algorithm: !!python/object/apply:os.system ['touch gone']", "Python code is not run"),
        ("list.yaml", "- 1\n- 2", "holds a list"),
        ("torn.json", '{"seed": ', "cannot be read"),
        ("bomb.yaml", BOMB, "the alias '\\*a0', which is not read"),
        ("deep.yaml", "seed: " + "[" * 5000 + "]" * 5000, "nested more than 32 deep"),
        ("deep.json", '{"seed": ' + "[" * 100_000 + "]" * 100_000 + "}", "cannot be read"),
        ("wide.yaml", "seed: [" + "1," * 40_000 + "]", "more than 20,000 entries"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(FileUnreadable, match=words):
            read_rsl_rl_config(tmp_path / name)
    assert not (tmp_path / "gone").exists()
    (tmp_path / "long.yaml").write_text("#" * 2**20 + "\nseed: 1")
    with pytest.raises(FileUnreadable, match="at most 1,048,576"):
        read_rsl_rl_config(tmp_path / "long.yaml")


def test_command_line_options_override_the_file(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text(ANYMAL_5.replace("num_steps_per_env: 24", "num_steps_per_env: 8"))
    few = ("--num-envs", 8, "--max-iterations", 1, "--eval-period", 0, "--final-episodes", 0)
    done = tandem("ppo", "cartpole", "--rsl-rl-config", "agent.yaml", *few, "--gamma", 0.9, "--run", "run", cwd=tmp_path)
    assert_done(done, "agent.yaml, not used: device: JAX chooses the device")
    config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert (config["num_envs"], config["num_steps_per_env"], config["max_iterations"]) == (8, 8, 1)
    assert (
        config["agent"]["gamma"] == 0.9 and config["agent"]["entropy_coef"] == 0.005 and config["agent"]["critic_hidden_dims"] == [256, 128]
    )
    assert read_ppo_args(["--rsl_rl_config=" + str(tmp_path / "agent.yaml")], "tandem ppo").config.agent.gamma == 0.98
    both = tandem("ppo", "cartpole", "--rsl-rl-config", "agent.yaml", "--preset", "rsl_rl", cwd=tmp_path)
    assert_refused(both, "all say which settings to start from")
