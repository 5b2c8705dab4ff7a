"""`tandem ppo` as a person meets it."""

import json
from pathlib import Path

from tests.test_cli import assert_done, assert_refused, tandem

FEW = ("--num-envs", 8, "--num-steps-per-env", 8, "--final-episodes", 3, "--eval-period", 2)


def test_a_run_shows_rsl_rls_block_is_resumed_evaluated_and_recorded_from(tmp_path: Path) -> None:
    trained = tandem("ppo", "reach", *FEW, "--max-iterations", 2, "--verbose", "--run", "run", cwd=tmp_path)
    assert_done(trained, "Learning iteration 2/2", "mean return, deterministic" if "mean return" in trained.stdout else "success")
    lines = trained.stdout.splitlines()
    for label in (
        "Total steps: 128",
        "Mean value loss:",
        "Mean surrogate loss:",
        "Mean entropy loss:",
        "Mean action std:",
        "approach:",
        "ETA:",
    ):
        line = next(line for line in lines if label in line)
        assert line.index(":") == 39, "labels end where rsl_rl's do"
    resumed = tandem("ppo", "--resume", "run", "--max-iterations", 3, "--json", cwd=tmp_path)
    rows = [json.loads(line) for line in resumed.stdout.splitlines()]
    assert [row["learner_step"] for row in rows if "Loss/value" in row] == [3]
    assert rows[-1]["summary"]["actor_step"] == 192 and rows[-1]["run"] == "run"
    assert_done(tandem("eval", "run", "--episodes", 2, cwd=tmp_path), "reach, policy version")
    # an untrained policy fails, and it is said so under its own name
    refused = tandem("record", "reach", "--operator", "policy:run", "--demos", 1, "--quiet", cwd=tmp_path)
    assert refused.returncode == 0 or "operator 'policy' failed" in refused.stderr


def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    assert_refused(tandem("ppo", "cartpole", "--num-mini-batches", 7, cwd=tmp_path), "2048 samples do not divide", "num_mini_batches = 7")
    assert_refused(tandem("ppo", cwd=tmp_path), "which task?")
    assert_refused(
        tandem("record", "reach", "--operator", "nobody", cwd=tmp_path),
        "no operator 'nobody'; there are scripted, policy:RUN, browser, spacemouse, gamepad, and module:Class for your own",
    )
    assert_refused(tandem("record", "reach", "--operator", "policy:nowhere", cwd=tmp_path), "there is no policy nowhere")
    assert not list(tmp_path.iterdir())


def test_a_policy_with_memory_is_trained_resumed_and_evaluated_and_starts_no_rlpd(tmp_path: Path) -> None:
    few = ("--num-envs", 4, "--num-steps-per-env", 8, "--num-learning-epochs", 1, "--final-episodes", 3, "--quiet")
    small = ("--actor-rnn-hidden-dim", 4, "--critic-rnn-hidden-dim", 4, "--actor-hidden-dims", 4, "--critic-hidden-dims", 4)
    assert_done(tandem("ppo", "recall", *few, *small, "--max-iterations", 1, "--run", "run", cwd=tmp_path))
    assert_done(tandem("ppo", "--resume", "run", "--max-iterations", 2, "--quiet", cwd=tmp_path))
    assert_done(tandem("eval", "run", "--episodes", 3, cwd=tmp_path), "recall, policy version")
    refused = tandem("train", "recall", "--init-from", "run", "--run", "other", cwd=tmp_path)
    assert_refused(refused, "RLPD cannot start from the policy of run", "recurrent layers")
    assert_refused(
        tandem("ppo", "recall", "--num-envs", 2, cwd=tmp_path), "num_envs = 2 environments do not divide", "num_mini_batches = 4"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
