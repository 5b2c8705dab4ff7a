"""The command lines of `tandem train`, `tandem learner` and `tandem ppo`: what decides the defaults."""

from dataclasses import replace
from pathlib import Path

import pytest
import tyro

from tandem.acting.asking import AskingConfig
from tandem.agents.sac_config import SACConfig
from tandem.envs.reach import SPEC as REACH
from tandem.errors import ConfigError
from tandem.off_policy.recipes import RECIPES, chosen_for, for_one_robot
from tandem.on_policy.presets import PRESETS
from tandem.programs.actor import ActorArgs
from tandem.programs.arguments import LearnerArgs, TrainArgs, read_ppo_args, read_run_args
from tandem.programs.launch import actor_arguments
from tandem.programs.training import train
from tandem.runs.folder import RunFolder
from tests.seeing_task import SEEING


@pytest.mark.parametrize(
    ("line", "recipe"),
    [
        ("reach", "reach"),
        ("--quiet reach", "reach"),
        ("--scripted-demos 3 reach", "reach"),
        ("my_robot:Arm-v0", "default"),
        ("", "default"),
        ("reach --recipe rlpd", "rlpd"),
        ("reach --recipe=rlpd", "rlpd"),
        ("--recipe=rlpd reach", "rlpd"),
        ("HalfCheetah-v4 --run reach", "default"),
        ("HalfCheetah-v4 --run=reach", "default"),
        ("--run reach gear_assembly", "gear_assembly"),
        ("--init-from reach gear_assembly", "gear_assembly"),
        ("--init_from reach gear_assembly", "gear_assembly"),
        ("gear_assembly --wandb reach", "gear_assembly"),
        ("HalfCheetah-v4 --scripted-demos 3", "fitted"),
        ("--demos a.db b.db --seed 0 HalfCheetah-v4", "fitted"),
        ("HalfCheetah-v4 --demos a.db --recipe default", "default"),
        ("reach --demos a.db", "reach"),
    ],
)
def test_the_task_or_the_named_recipe_decides_and_no_other_word(line: str, recipe: str) -> None:
    for kind in (TrainArgs, LearnerArgs):
        read = read_run_args(kind, line.split(), "tandem train").config
        expected = RECIPES[recipe]()
        if recipe == "fitted" and kind is LearnerArgs:  # actors join from elsewhere: a robot, not eight simulations
            expected = for_one_robot(expected)
        assert read == replace(expected, wandb=read.wandb, demos=read.demos)


@pytest.mark.parametrize("spelling", ["--resume {}", "--resume={}", "--resume={} --seed=7", "--seed 7 --resume {}"])
def test_a_resumed_run_gives_its_own_settings_in_every_spelling(spelling: str, tmp_path: Path) -> None:
    config = replace(RECIPES["reach"](), task="reach", batch_size=48, seed=7)
    RunFolder.create(tmp_path / "run", "rlpd", config, REACH)
    read = read_run_args(TrainArgs, spelling.format(tmp_path / "run").split(), "tandem train")
    assert read.config == config and read.resume == tmp_path / "run"


def test_typed_values_are_checked_with_the_defaults_of_the_recipe_and_not_with_others() -> None:
    # 5 of 2 critics, as the default recipe has, would be refused; rlpd has 10
    read = read_run_args(TrainArgs, ["reach", "--recipe=rlpd", "--critic_subsample_size", "5"], "tandem train")
    assert read.config.agent.critic_subsample_size == 5
    with pytest.raises(ConfigError, match="training_starts"):
        read_run_args(TrainArgs, ["reach", "--recipe=rlpd", "--replay-buffer-capacity=3000"], "tandem train")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--webhook", "http://127.0.0.1:9/"], "--webhook: this run does not notice that a robot is stuck: add --notice"),
        (["--no-get-out", "--asks", "3"], "--get-out, --asks: this run"),
        (["--notice", "--sync", "--while-asking", "go-on"], "--while-asking: no person can be asked with --sync"),
        (["--notice", "--webhook", "ftp://elsewhere"], "must begin with http"),
    ],
)
def test_options_of_asking_that_would_do_nothing_are_refused(given: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        train(["reach", "--run", str(tmp_path / "run"), *given])
    assert not (tmp_path / "run").exists()


def test_what_a_run_is_told_about_asking_reaches_its_actors() -> None:
    asked = read_run_args(
        TrainArgs, ["reach", "--notice", "--no-get-out", "--while-asking", "go-on", "--asks", "3", "--webhook", "http://x/"], "tandem train"
    )
    told = actor_arguments(asked, replace(asked.config, task="reach"), Path("run"), 0)
    read = tyro.cli(ActorArgs, args=told)
    assert read.asking == asked.asking == AskingConfig(False, "go-on", 60.0, 3, "http://x/")


def test_a_recipe_that_does_not_exist_or_contradicts_a_resumed_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no recipe 'rlpg'; there are default, fitted, fitted_pixels, rlpd"):
        read_run_args(TrainArgs, ["reach", "--recipe=rlpg"], "tandem train")
    with pytest.raises(ConfigError, match="both say which settings to start from"):
        read_run_args(TrainArgs, [f"--resume={tmp_path}", "--recipe=rlpd"], "tandem train")


@pytest.mark.parametrize(
    ("line", "preset"),
    [
        ("cartpole", "cartpole"),
        ("--verbose gear_assembly", "gear_assembly"),
        ("--verbose my_robot", "gym_mujoco"),
        ("HalfCheetah-v4 --seed 0", "gym_mujoco"),
        ("my_robot:Arm-v0", "gym_mujoco"),
        ("mw:reach-dense-v3", "gym_mujoco"),
        ("HalfCheetah-v4 --preset rsl_rl", "rsl_rl"),
        ("HalfCheetah-v4 --preset=rsl_rl", "rsl_rl"),
        ("HalfCheetah-v4 --run reach", "gym_mujoco"),
        ("--run HalfCheetah-v4 cartpole", "cartpole"),
        ("--run reach my_robot", "gym_mujoco"),
    ],
)
def test_the_task_or_the_named_preset_decides_for_ppo(line: str, preset: str) -> None:
    assert read_ppo_args(line.split(), "tandem ppo").config == PRESETS[preset]()


def test_what_ppo_cannot_start_from_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no preset 'rsl-rl'; there are rsl_rl, gym_mujoco"):
        read_ppo_args(["reach", "--preset=rsl-rl"], "tandem ppo")
    with pytest.raises(ConfigError, match=r"--resume and --preset all say"):
        read_ppo_args(["--preset", "reach", f"--resume={tmp_path}"], "tandem ppo")


def test_a_mistake_is_explained_with_the_options_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_run_args(TrainArgs, ["reach", "--seed=three"], "tandem train")
    said = capsys.readouterr().err
    assert "--seed INT" in said and "three" in said, said


@pytest.mark.parametrize(
    "line",
    [
        "ws://robot:1 --demos a.db",
        "HalfCheetah-v4 --demos a.db --pace realtime",
        "wss://robot:1 --demos=a.db",
        "isaac+http://robot:5001/ --demos a.db",
        "franka:insertion --demos a.db",
    ],
)
def test_a_robot_that_is_there_once_is_not_asked_for_eight_times(line: str) -> None:
    config = read_run_args(TrainArgs, line.split(), "tandem train").config
    assert (config.num_envs, config.updates_per_actor_step, config.clone_steps) == (1, 2.2, 600)
    assert read_run_args(TrainArgs, [*line.split(), "--updates-per-actor-step", "1"], "tandem train").config.updates_per_actor_step == 1


def test_the_horizon_is_left_to_the_demonstrations_and_what_is_typed_wins() -> None:
    plain = read_run_args(TrainArgs, ["reach", "--recipe", "default"], "tandem train").config
    assert (plain.decision_steps, plain.agent.discount, plain.agent.n_step) == (1, 0.97, 1)
    args = ["reach", "--recipe", "default", "--horizon", "auto", "--n-step", "2"]
    config = read_run_args(TrainArgs, args, "tandem train").config
    assert (config.decision_steps, config.agent.discount, config.agent.n_step) == ("auto", "auto", 2)
    with_demos = read_run_args(TrainArgs, ["gear_assembly_fine", "--decision-steps", "12"], "tandem train").config
    assert with_demos.decision_steps == 12 and with_demos.agent.discount == "auto"


def test_a_run_that_is_resumed_keeps_its_horizon(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", "rlpd", RECIPES["reach"](), REACH)
    with pytest.raises(ConfigError, match="a run keeps the horizon that it was started with"):
        read_run_args(TrainArgs, ["--resume", str(tmp_path / "run"), "--horizon", "auto"], "tandem train")


FOR_CAMERAS = [name for name in RECIPES if "pixels" in name]


@pytest.mark.parametrize("recipe", [name for name in FOR_CAMERAS if RECIPES[name]().agent.critic_sees == "policy"])
def test_recipes_for_cameras_hold_nothing_up_for_demonstrations_alone(recipe: str) -> None:
    """With bounds and imitation the critics learned by heart which picture is a demonstration's, and nothing else."""
    config = RECIPES[recipe]()
    agent, plain = config.agent, SACConfig()
    assert (agent.return_bound, agent.demo_imitation, config.clone_steps) == ("off", 0.0, 0)
    assert (agent.n_step, agent.critic_ensemble_size, agent.hidden) == (plain.n_step, plain.critic_ensemble_size, plain.hidden)
    assert agent.discount == "auto" and agent.learning_rate == RECIPES["fitted"]().agent.learning_rate
    assert config.updates_per_actor_step == 0.5


def test_where_every_camera_moves_the_critics_see_the_state_and_all_of_fitted_holds() -> None:
    config, fitted = RECIPES["gear_assembly_pixels_moved"](), RECIPES["fitted"]()
    assert config.agent == replace(fitted.agent, critic_sees="state") and config.clone_steps == fitted.clone_steps


def test_where_there_are_cameras_the_same_line_means_the_recipe_for_cameras() -> None:
    line = ["my_robot:Arm-v0", "--demos", "a.db", "--batch-size", "64", "--demo-imitation", "0.5", "--clone-steps", "7"]
    for kind, made_for in ((TrainArgs, lambda config: config), (LearnerArgs, for_one_robot)):
        read, expected = read_run_args(kind, line, "tandem train").for_cameras, made_for(RECIPES["fitted_pixels"]())
        typed = replace(expected, demos=(Path("a.db"),), batch_size=64, clone_steps=7)
        assert read == replace(typed, agent=replace(expected.agent, demo_imitation=0.5)), "what is typed holds for both"
    for line in ("my_robot:Arm-v0", "my_robot:Arm-v0 --demos a.db --recipe fitted", "my_robot:Arm-v0 --demos a.db --recipe default"):
        assert read_run_args(TrainArgs, line.split(), "tandem train").for_cameras is None


def test_a_recipe_for_cameras_that_is_typed_is_one_robots_too() -> None:
    config = read_run_args(LearnerArgs, ["my_robot:Arm-v0", "--recipe", "fitted_pixels"], "tandem learner").config
    assert config == for_one_robot(RECIPES["fitted_pixels"]()) and (config.num_envs, config.agent.critic_ensemble_size) == (1, 2)


def test_it_is_chosen_by_what_the_environment_shows_and_by_what_the_critics_see() -> None:
    said: list[str] = []
    fitted, eyes = (replace(RECIPES[name](), task="here") for name in ("fitted", "fitted_pixels"))
    assert chosen_for(REACH, fitted, eyes, said.append) is fitted and chosen_for(SEEING, fitted, None, said.append) is fitted
    state = replace(fitted, agent=replace(fitted.agent, critic_sees="state"))
    assert chosen_for(SEEING, state, eyes, said.append) is state and not said
    recorded = replace(fitted, demos=(Path("recorded.db"),))
    assert chosen_for(SEEING, recorded, replace(eyes, task=""), said.append) == replace(eyes, demos=recorded.demos)
    assert "recipe fitted_pixels, since 'seeing_reach' has cameras" in said[0]
