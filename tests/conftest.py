"""Which tests are slow and which are long (`make test-fast`, `make test`, `make test-long`), and how their networks are compiled."""

import gc
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
# Half of the processor time of the tests was XLA compiling the same small networks again and again. Read when jax is imported.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(HERE.parent / ".pytest_cache" / "xla"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
# What XLA optimises in programs as small as these is not worth its time: neither here (see `_compiled_fast`) nor in the processes that
# tests start.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")  # for the few that are optimised: a quarter less time to compile
OPTIMISED = ("agents/test_ppo.py", "agents/test_ppo_choices.py", "agents/test_recurrent_ppo.py", "on_policy")
"""Tests that compare results to the last bit, where XLA's optimisations decide it, and tests that compute for longer than they compile."""
LONG = (
    # packages of others, installed into virtual environments
    "data/test_formats.py::test_the_peers_own_reader_opens_what_was_exported",
    "data/test_formats.py::test_a_filmed_dataset_that_lerobot_itself_wrote_is_imported",
    "agents/test_sharded_sac.py::test_two_processes_compute_what_one_computes",
    # whole runs that learn something
    "agents/test_learning.py",
    "off_policy/test_learner.py::test_rlpd_as_published_learns_a_task_with_a_return_range",
    "on_policy/test_curiosity.py::test_rnd_opens_a_lock_that_chance_never_opens",
    "on_policy/test_ppo_run.py::test_reach_is_trained_on_its_dense_reward_and_evaluated_by_success",
    "on_policy/test_symmetry.py::test_a_policy_trained_on_the_left_acts_on_the_right",
    "programs/test_processes.py::test_reach_is_learned_by_processes_of_their_own",
    # whole runs of processes, one after another
    "doctor/test_doctor_command.py::test_a_healthy_run_in_both_languages_and_as_json",
    "doctor/test_live_faults.py::test_a_run_of_processes_is_healthy_early_and_at_its_end",
    "faults/test_two_hosts.py",
    "on_policy/test_distill.py::test_the_command_distils_and_refuses_invalid_settings",
    "programs/test_cluster.py",
    "programs/test_export.py::test_an_actor_acts_with_a_file_whatever_the_learner_publishes",
    "programs/test_foreign_runs.py::test_an_actor_that_crashes_again_and_again_ends_the_run",
    "programs/test_foreign_runs.py::test_scales_fitted_on_demonstrations_reach_actor_and_policy",
    "programs/test_person_processes.py",
    "programs/test_processes.py::test_a_real_time_actor_keeps_its_rate_while_the_learner_is_away",
    "programs/test_processes.py::test_interrupted_resumed_and_interrupted_with_another_ratio",
    "programs/test_serve.py::test_a_robot_that_serves_one_client_is_trained_without_evaluations",
    "programs/test_serve.py::test_an_environment_in_another_python_is_trained_and_evaluated",
    "test_cli_ppo.py",
    "test_examples.py",
    "test_mutants.py",
)
"""Tests that `make test` leaves to `make test-long`: whole runs whose parts the other tests hold one by one."""
SLOW = (
    *LONG,
    # processes
    "test_cli.py",
    "test_wheel.py",
    "test_architecture.py::test_programs_of_a_robots_computer_do_not_import_jax",
    "acting/test_camera_stream.py",
    "envs/test_served.py",
    "envs/test_isaac.py",
    "envs/test_franka.py",
    "programs/test_lerobot.py::test_a_client_moves_and_halts_it_through_tandem_serve",
    "envs/test_gear_pick_pixels.py",
    "envs/test_gear_pixels.py",
    "off_policy/test_eyes.py",
    "envs/test_registry.py::test_foreign_and_served_environments_need_no_mujoco",
    "off_policy/test_hybrid.py",
    "data/test_demos.py::test_a_killed_recording_keeps_every_episode_that_was_added",
    "data/test_journal.py::test_a_killed_writer_loses_nothing_that_was_committed",
    "doctor/test_doctor_command.py",
    "doctor/test_robots.py::test_the_quirks_of_a_server_are_found_in_the_steps_of_a_run",
    "doctor/test_gripper_faults.py",
    "doctor/test_live_faults.py",
    "doctor/test_recorded_faults.py",
    "faults",
    "link/test_trainer_end.py",
    "link/test_floods.py",
    "link/test_frames_link.py",
    "link/test_full_disk.py",
    "link/test_greeting.py",
    "link/test_held.py",
    "link/test_hub_api.py",
    "link/test_hub_fuzz.py",
    "link/test_hub_security.py",
    "link/test_link_contract.py",
    "link/test_link_faults.py",
    "link/test_many_actors.py",
    "link/test_policies_and_pace.py",
    "link/test_power_cut.py",
    "link/test_websocket_link.py",
    "networks/test_numpy_policy.py::test_acting_does_not_import_jax",
    "programs/test_actor_signals.py",
    "programs/test_export.py",
    "programs/test_foreign_runs.py",
    "programs/test_launcher.py",
    "programs/test_library.py",
    "programs/test_processes.py",
    "programs/test_serve.py",
    "programs/test_standing_still.py",
    "programs/test_sweep.py::test_a_killed_sweep_goes_on_and_ends_with_one_table",
    "programs/test_teaching.py",
    "teleop/test_devices.py::test_a_missing_package_is_named_with_what_to_install",
    "teleop/test_own_operator.py",
    "teleop/test_person_in_the_loop.py",
    "acting/test_latch.py",
    "dashboard/test_page_access.py",
    "link/test_access.py",
    "link/test_bad_records.py",
    "link/test_control_characters.py",
    "programs/test_access_command.py",
    "programs/test_allowed.py",
    "rewards/test_runs.py",
    "programs/test_limits.py",
    # a browser, or drawing
    "dashboard/test_page_asking.py",
    "dashboard/test_page_live.py",
    "dashboard/test_page_recording.py",
    "dashboard/test_page_rewards.py",
    "envs/test_rendering.py",
    # training, or compiling networks
    "agents/test_bc.py",
    "agents/test_grasp.py",
    "agents/test_helping.py",
    "agents/test_ppo.py",
    "agents/test_ppo_choices.py",
    "agents/test_recurrent_ppo.py",
    "agents/test_sac.py",
    "agents/test_seeing.py",
    "agents/test_sharded_sac.py",
    "envs/test_framing.py::test_such_an_environment_is_trained_like_any_other",
    "networks/test_resnet.py::test_it_computes_what_theirs_does",
    "programs/test_no_success.py",
    "off_policy",
    "on_policy",
    # thousands of files, or of runs
    "data/test_file_fuzz.py",
    "test_seeding.py::test_no_start_of_a_thousand_runs_is_used_twice",
)
"""Folders, files and single tests. Chosen by the processor time that they take, and by what they start."""


def pytest_configure(config: pytest.Config) -> None:
    del config
    missing = [name for name in SLOW if not _exists(*name.split("::"))]
    if missing:
        raise pytest.UsageError(f"tests/conftest.py names slow tests that do not exist: {', '.join(missing)}")


def _exists(path: str, test: str = "") -> bool:
    return (HERE / path).exists() and (not test or f"def {test}(" in (HERE / path).read_text())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name = item.nodeid.removeprefix("tests/").split("[")[0]
        for marker, named in ((pytest.mark.slow, SLOW), (pytest.mark.long, LONG)):
            if any(name == each or name.startswith((f"{each}/", f"{each}::")) for each in named):
                item.add_marker(marker)
    # The slow files first: the many fast ones then fill the time until both workers are done. (Needs --no-loadscope-reorder.)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="module", autouse=True)
def _compiled_fast(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a file compiled stays on the disk, not in memory: the processes that run all files would hold gigabytes of it."""
    optimised = request.path.relative_to(HERE).as_posix().startswith(OPTIMISED)
    if optimised:
        jax().config.update("jax_disable_most_optimizations", False)
    yield
    if "jax" in sys.modules:
        jax().clear_caches()
        gc.collect()
    if optimised:
        jax().config.update("jax_disable_most_optimizations", True)


def jax() -> Any:
    """Imported where it is used: most tests need none of it."""
    return importlib.import_module("jax")
