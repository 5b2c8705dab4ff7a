"""A benchmark's settings and seeds become a sweep, whose finished runs are not made again."""

from pathlib import Path

from benchmarks.swept import make_runs, plan_text, run_of
from benchmarks.warmup import LONG, SHORT, every_run, shortened
from tandem.programs.arguments import TrainArgs, read_run_args
from tandem.programs.sweep_plan import PlannedRun, read_plan

SMALL = {"sync": True, "hidden": [8, 8], "batch_size": 8, "training_starts": 5, "max_steps": 10, "final_episodes": 2, "eval_period": 0}


def test_the_starts_of_the_warm_up_benchmark_are_settings_of_a_sweep(tmp_path: Path) -> None:
    file = tmp_path / "asked.toml"
    file.write_text(plan_text("gear_assembly", (3, 5), SHORT, every_run("gear_assembly", False), ("minutes",), "lowest minutes"))
    plan = read_plan(file)  # which asks `tandem train` whether it takes each of them
    assert plan.seeds == (3, 5) and list(plan.settings) == list(SHORT)
    typed = plan.arguments(PlannedRun("500 steps", 5), tmp_path / "run")
    config = read_run_args(TrainArgs, typed, "tandem train").config
    assert (config.seed, config.pretrain_steps, config.clone_steps, config.critic_steps) == (5, 500, 0, 0)
    assert config.agent.demo_imitation == 0.0 and config.stop_success == 0.9 and config.max_steps == 8000
    held = read_run_args(TrainArgs, plan.arguments(PlannedRun("clone, held", 5), tmp_path / "run"), "tandem train").config
    assert held.clone_steps > 0 and held.agent.demo_imitation > 0, "the recipe as it is"


def test_a_quick_warm_up_is_short_also_where_the_recipe_has_more() -> None:
    assert shortened("gear_assembly", {})["clone_steps"] == 50
    assert shortened("gear_pick_assembly_fine", LONG["no warm-up"])["clone_steps"] == 0


def test_runs_of_a_benchmark_that_are_finished_are_not_made_again(tmp_path: Path) -> None:
    settings = {"plain": {}, "two, by two": {"hidden": [2, 2]}}

    def made() -> dict[str, int]:
        make_runs(tmp_path, "reach", (7,), settings, SMALL, metrics=("success",), best="highest success", at_once=2, quiet=True)
        return {name: (run_of(tmp_path, name, 7) / "summary.json").stat().st_mtime_ns for name in settings}

    assert made() == made()
    assert (tmp_path / "report.html").exists()
