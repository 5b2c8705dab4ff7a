"""A learner on several devices computes what it computes on one."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import safetensors.numpy

from tandem.agents import devices, together
from tandem.agents.devices import memory_in_words, on_all_devices
from tandem.agents.sac import SAC
from tandem.envs.reach import SPEC
from tandem.errors import ConfigError
from tandem.types import Batch, Blamed
from tests.agents.sac_samples import AGENT, CONFIG

ROOT = Path(__file__).parents[2]


def start(forced: int, *arguments: object) -> subprocess.Popen[str]:
    """A process with so many devices: parts of the processor."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={forced}"
    command = [sys.executable, "-m", "tests.agents.sharded_process", *map(str, arguments)]
    environment = {**os.environ, "XLA_FLAGS": flags}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, problems = process.communicate(timeout=240)
    assert process.returncode == 0, problems
    assert "donated" not in problems, problems  # a state that cannot be updated in place takes twice the memory
    return json.loads(said.splitlines()[-1])


def assert_the_same(found: dict[str, Any]) -> None:
    """To rounding: float32 has 7 digits, and Adam's first steps divide small numbers by small numbers."""
    assert found["moved"] > 1e-2, "something was learned"
    assert found["difference"] < 1e-4 and found["resumed_difference"] < 1e-4 and found["values_difference"] < 1e-4, found
    assert found["same_key"], "the random numbers to come are the same"


def test_four_devices_compute_what_one_computes_and_checkpoints_know_no_devices() -> None:
    found = told(start(4))
    assert (found["devices"], found["rows_each"]) == (4, 4), "16 rows"
    assert_the_same(found)


def test_two_processes_compute_what_one_computes() -> None:
    port = free_port()
    processes = [start(2, 2, number, port) for number in (0, 1)]
    for process in processes:
        found = told(process)
        assert (found["devices"], found["rows_each"]) == (4, 4), "two devices in each of the two processes"
        assert_the_same(found)


def test_a_process_that_only_hears_of_batches_computes_its_part() -> None:
    port = free_port()
    leader, part = start(1, 2, 0, port, "lead"), start(1, 2, 1, port, "lead")
    found = told(leader)
    said, problems = part.communicate(timeout=60)
    assert part.returncode == 0, problems
    assert "a part of each update of 'reach' on 1 of 2 devices" in said and "after 6 updates" in said
    assert found["devices"] == 2 and found["moved"] > 1e-2
    assert max(found["difference"], found["difference_after_step_back"], found["values_difference"]) < 1e-4, found


def test_a_batch_is_told_whole() -> None:
    """With everything that a batch may have."""
    random = np.random.default_rng(0)

    def some(*shape: int) -> np.ndarray:
        return random.standard_normal((2, 4, *shape)).astype(np.float32)

    eye = {"left": random.integers(-9, 9, (2, 4, 3), dtype=np.int8)}
    blamed = Blamed(some(), some(5), some(2), eye)
    batch = Batch(some(5), some(2), some(), some(), some(5), some(), some(), some(), some(), blamed, eye, {"left": eye["left"] + 1})
    names = together._named(batch._asdict())
    again = together._batch(safetensors.numpy.load(safetensors.numpy.save(names)))
    assert jax.tree.structure(again) == jax.tree.structure(batch)
    assert all(np.array_equal(one, other) for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(batch), strict=True))
    least = Batch(some(5), some(2), some(), some(), some(5))
    assert jax.tree.structure(together._batch(together._named(least._asdict()))) == jax.tree.structure(least)


def test_a_process_that_is_none_of_the_learners_is_refused() -> None:
    with pytest.raises(ConfigError, match="has the numbers 0 to 1, and at least 2 processes; got number 2"):
        together.join("127.0.0.1:1", 2, 2)


def test_nothing_changes_on_a_machine_with_one_device() -> None:
    assert len(jax.local_devices()) == 1 and on_all_devices(AGENT, 16) is AGENT


def test_the_start_says_what_a_device_holds_and_refuses_what_cannot_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = SAC(CONFIG, observation_dim=4, action_dim=SPEC.action_dim)
    state = agent.arrays(agent.init(0))
    size = sum(array.nbytes for array in state.values()) / 2**20
    assert f"memory on 1 cpu device: networks and optimisers {size:.1f} MiB" in memory_in_words(agent, SPEC, 256)
    monkeypatch.setattr(devices, "device_memory", lambda device: 2**16)
    with pytest.raises(ConfigError, match=r"the learner does not fit on a device: .* a smaller --batch-size"):
        memory_in_words(agent, SPEC, 256)
