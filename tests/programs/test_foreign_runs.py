"""`tandem train` on somebody's environment, with real processes: what is said when it fails, and that fitted scales reach the actor."""

import dataclasses
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.acting.actor import Actor
from tandem.agents.ppo_config import PPOConfig
from tandem.doctor.diagnosis import diagnose_run
from tandem.envs.registry import make_env
from tandem.errors import TandemError
from tandem.link.hub import Hub, HubConfig
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.run import train_ppo
from tandem.programs.actor import ActorArgs, act
from tandem.programs.record import record_demos
from tandem.runs.checkpoint import write_policy
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tests.acting.test_judge import policy
from tests.envs.strange_envs import strange_module
from tests.off_policy.test_run_spec import Forward
from tests.programs.test_processes import SMALL
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with strange_module(tmp_path_factory.mktemp("strange")) as folder:
        yield folder


def tandem(folder: Path, *arguments: str) -> tuple[int, str]:
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "tandem.cli", *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "says", "error"),
    [
        ("Fails", "the actor 0 ended with code 2: environment 'strange:Fails-v0' failed in step()", "motor 3 does not answer"),
        ("Exits", "the actor 0 ended with code 3 and left no error of its own", ""),
    ],
)
def test_an_actor_that_dies_of_its_environment_is_told_truly(folder: Path, tmp_path: Path, name: str, says: str, error: str) -> None:
    run = tmp_path / "run"
    code, said = tandem(folder, "train", f"strange:{name}-v0", *SMALL, "--max-steps", "100000", "--run", str(run))
    assert code == 2 and says in said, said
    found = diagnose_run(run)["findings"][0]
    assert found["name"] == "part_failed" and error in " ".join(found["evidence"]), found
    assert found["next"].startswith(f"tandem env describe strange:{name}-v0"), "which this environment accepts"
    if error:
        assert "Traceback" in said and "strange.py" in said, "the environment's own traceback is shown"


def test_an_actor_that_crashes_again_and_again_ends_the_run(folder: Path, tmp_path: Path) -> None:
    """Started again as after any death by a signal; but the same fault five times in a row is not chance."""
    run = tmp_path / "run"
    code, said = tandem(folder, "train", "strange:Crashes-v0", *SMALL, "--max-steps", "100000", "--run", str(run))
    assert code == 2 and said.count("the actor 0 was ended by SIGSEGV (a fault in compiled code); it is started again") == 4, said
    assert "the actor 0 was ended by SIGSEGV 5 times in a row, each time within 60 s of its start and left no error of its own" in said
    assert "Segmentation fault" in said and "strange.py" in said, "the line of the environment where it crashed is shown"
    found = diagnose_run(run)["findings"][0]
    assert found["name"] == "part_failed" and "was ended by SIGSEGV 5 times in a row" in found["evidence"][0], found
    assert "often_restarted" not in [finding["name"] for finding in diagnose_run(run)["findings"]], "said once"


def test_a_served_environment_that_crashes_is_named_with_its_signal(folder: Path, tmp_path: Path) -> None:
    """Its process is not ours: the actor lives, says what happened and ends the run, which can be continued."""
    run, name = tmp_path / "run", f"serve:{sys.executable}:strange:Crashes-v0"
    code, said = tandem(folder, "train", name, *SMALL, "--max-steps", "100000", "--run", str(run))
    assert code == 2 and f"the process of environment '{name}'" in said, said
    assert "was ended by SIGSEGV: a fault in compiled code of the environment or of its simulator" in said and "Traceback" not in said
    found = diagnose_run(run)["findings"][0]
    assert found["name"] == "part_failed" and "was ended by SIGSEGV" in " ".join(found["evidence"]), found


@pytest.mark.parametrize(
    ("name", "says", "finding", "then"),
    [
        (
            "NotANumber",
            "environment 0 (of 2, from 0) at its step 3: the observation, entry 'state', has nan at [1]",
            "run_broke",
            "doctor replay",
        ),
        ("NoReward", "environment 0 (of 2, from 0) at its step 3: the reward is nan", "run_broke", "doctor replay"),
        ("NotANumberAtFirst", "the first observation, entry 'state', has nan at [0]", "part_failed", "env describe"),
        ("Fails", "failed in step(): RuntimeError: motor 3 does not answer", "part_failed", "env describe"),
        ("FailsToReset", "failed in reset(): RuntimeError: the gripper is not calibrated", "part_failed", "env describe"),
    ],
)
def test_ppo_says_what_the_environment_did_and_so_does_the_doctor(
    folder: Path, tmp_path: Path, name: str, says: str, finding: str, then: str
) -> None:
    run, task = tmp_path / "run", f"strange:{name}-v0"
    agent = PPOConfig(actor_hidden_dims=(8,), critic_hidden_dims=(8,), num_mini_batches=1)
    config = OnPolicyConfig(task=task, agent=agent, num_envs=2, num_steps_per_env=16, max_iterations=5, eval_period=0, final_episodes=0)
    with pytest.raises(TandemError, match=re.escape(says)) as raised:
        train_ppo(config, run, Display("quiet"))
    diagnosis = diagnose_run(run)
    found = diagnosis["findings"][0]
    assert found["name"] == finding and says in " ".join(found["evidence"]) and found["next"].startswith(f"tandem {then} "), found
    assert diagnosis["state"] == "dead", "a run that has said why it ended is not running"
    if name in ("Fails", "NoReward"):
        assert "is kept in" in str(raised.value) and "--resume" in str(raised.value)
        kept = 1 if name == "Fails" else 0  # a rollout has 16 steps; it fails in the 30th, or in the 4th
        assert RunFolder.open(run).checkpoints.joinpath(f"{kept:08d}").is_dir()


def test_a_ppo_run_that_goes_on_after_a_failure_is_not_called_failed(folder: Path, tmp_path: Path) -> None:
    agent = PPOConfig(actor_hidden_dims=(8,), critic_hidden_dims=(8,), num_mini_batches=1)
    config = OnPolicyConfig(task="strange:Fails-v0", agent=agent, num_envs=2, num_steps_per_env=16, eval_period=0, final_episodes=0)
    with pytest.raises(TandemError):
        train_ppo(dataclasses.replace(config, max_iterations=5), tmp_path / "run", Display("quiet"))
    train_ppo(dataclasses.replace(config, max_iterations=2), tmp_path / "run", Display("quiet"), resume=True)  # 16 steps do not fail
    assert "part_failed" not in [finding["name"] for finding in diagnose_run(tmp_path / "run")["findings"]]


def test_an_actor_takes_the_scales_of_the_run_and_a_policy_of_its_own_keeps_its_own(folder: Path, tmp_path: Path) -> None:
    """The environment says 1 for all of them, so the actor of another machine knows them only from the hub."""
    env_spec = make_env("strange:Drive-v0").spec
    run_spec, policy_spec = env_spec.with_scales({"state": [500.0, 1.0, 1.0]}), env_spec.with_scales({"state": [900.0, 1.0, 1.0]})
    run = RunFolder.create(tmp_path / "run", "rlpd", {}, run_spec)
    write_policy(tmp_path / "own.safetensors", policy(0.4), policy_spec)
    hub = Hub(run.path, HubConfig(actor_settings={"scales": run_spec.scales()}))
    serving = threading.Thread(target=hub.serve, daemon=True)
    serving.start()
    wait_for(lambda: run.hub() is not None, what="the hub")
    actors: list[Actor] = []

    def watch(actor: Actor, client: object) -> list[str]:
        actors.append(actor)
        return []

    args = ActorArgs("strange:Drive-v0", run=run.path, policy=tmp_path / "own.safetensors", spool=tmp_path / "spool", pace="realtime")
    act(args, print, stopped=lambda: bool(actors), watch=watch)
    hub.stop()
    serving.join(10)
    own: Any = actors[0].own_policy
    assert actors[0].spec.hash == run_spec.hash and own.act._layout.scales[0] == 900


def test_scales_fitted_on_demonstrations_reach_actor_and_policy(folder: Path, tmp_path: Path) -> None:
    demos = record_demos(make_env("strange:Drive-v0"), Forward(), 3, tmp_path, seed=0)
    run = tmp_path / "run"
    arguments = (*SMALL, "--max-steps", "20", "--demos", str(demos), "--run", str(run), "--final-episodes", "1", "--no-film")
    code, said = tandem(folder, "train", "strange:Drive-v0", *arguments)
    assert code == 0, said
    assert "'state', fitted on the demonstrations: offset" in said and "return_range [0, 1], from the demonstrations" in said
    spec = RunFolder.open(run).spec
    assert spec.observation["state"].scales()[0] > 75 and spec.observation["state"].offsets()[0] > 75
    assert np.isfinite(spec.observation["state"].scales()).all() and "of 1" in said and "filming" not in said
