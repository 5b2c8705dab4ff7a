"""Which tests are slow: `make test-fast` leaves them out, `make test` runs all. And what XLA compiles is compiled once for all tests."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Half of the processor time of the tests was XLA compiling the same small networks again and again. Read when jax is imported.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(HERE.parent / ".pytest_cache" / "xla"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
# A lower level of LLVM's optimisation: a quarter less time to compile, and programs as small as these run as fast.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")
SLOW = (
    # processes
    "test_cli.py",
    "test_cli_ppo.py",
    "test_examples.py",
    "test_wheel.py",
    "test_architecture.py::test_programs_of_a_robots_computer_do_not_import_jax",
    "acting/test_camera_stream.py",
    "envs/test_served.py",
    "envs/test_registry.py::test_foreign_and_served_environments_need_no_mujoco",
    "off_policy/test_hybrid.py",
    "data/test_demos.py::test_a_killed_recording_keeps_every_episode_that_was_added",
    "data/test_journal.py::test_a_killed_writer_loses_nothing_that_was_committed",
    "doctor/test_doctor_command.py",
    "doctor/test_live_faults.py",
    "doctor/test_recorded_faults.py",
    "faults",
    "link/test_trainer_end.py",
    "link/test_floods.py",
    "link/test_full_disk.py",
    "link/test_greeting.py",
    "link/test_hub_api.py",
    "link/test_hub_fuzz.py",
    "link/test_hub_security.py",
    "link/test_link_contract.py",
    "link/test_link_faults.py",
    "link/test_policies_and_pace.py",
    "link/test_power_cut.py",
    "link/test_websocket_link.py",
    "networks/test_numpy_policy.py::test_acting_does_not_import_jax",
    "programs/test_export.py",
    "programs/test_foreign_runs.py",
    "programs/test_launcher.py",
    "programs/test_library.py",
    "programs/test_person_processes.py",
    "programs/test_processes.py",
    "programs/test_serve.py",
    "programs/test_standing_still.py",
    "programs/test_teaching.py",
    "teleop/test_devices.py::test_a_missing_package_is_named_with_what_to_install",
    "teleop/test_own_operator.py",
    "teleop/test_person_in_the_loop.py",
    # a browser, or drawing
    "dashboard/test_page_live.py",
    "dashboard/test_page_recording.py",
    "envs/test_rendering.py",
    # training, or compiling networks
    "agents/test_bc.py",
    "agents/test_learning.py",
    "agents/test_ppo.py",
    "agents/test_recurrent_ppo.py",
    "agents/test_sac.py",
    "off_policy",
    "on_policy",
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
        if any(name == slow or name.startswith((f"{slow}/", f"{slow}::")) for slow in SLOW):
            item.add_marker(pytest.mark.slow)
    # The slow files first: the many fast ones then fill the time until both workers are done. (Needs --no-loadscope-reorder.)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="module", autouse=True)
def _programs_are_let_go() -> Iterator[None]:
    """What a file compiled stays on the disk, not in memory: two processes that run all files would hold gigabytes of it."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
        gc.collect()
