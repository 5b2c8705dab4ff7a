"""`tandem eval`: the success rate of a learned policy."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tandem.acting.evaluate import evaluate as run_evaluation
from tandem.acting.limits import Asked, opened_for
from tandem.acting.policy import Policy, act_with, describe, load_any_policy
from tandem.allowed import require_allowed
from tandem.envs.registry import spec_for
from tandem.programs.terminal import console, say
from tandem.runs.folder import seed_of
from tandem.seeding import episode_seeds
from tandem.types import Spec


def evaluate(
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN|TASK")],
    policy: Path | None = None,
    episodes: int = 100,
    stochastic: bool = False,
    seed: int | None = None,
    which: Literal["best", "latest"] = "best",
    json: bool = False,
    limits: Path | None = None,
    no_limits: bool = False,
) -> None:
    """Evaluate a learned policy alone, on seeds that were never used to choose it.

    Args:
        run: A run folder, a policy file or an exported ONNX file; with --policy, the task to evaluate it on.
        policy: Evaluate this policy (a run folder, a policy file or an ONNX file) on the task RUN|TASK, whose spec it must fit.
        episodes: Number of episodes.
        stochastic: Draw actions as in training; otherwise take the most likely action.
        seed: Evaluate on the final episodes of this run seed. Default: the seed of the run that the policy is from, else 0.
        which: The best policy by evaluation, or the latest policy.
        json: One JSON object instead of text.
        limits: File of speed, force and workspace limits (docs/limits.md); a robot needs one.
        no_limits: Move a robot without any limits.
    """
    snapshot, spec = policy_for(run, policy, which)
    task = spec.task if policy is None else run  # a robot's spec does not say its address
    seeds = episode_seeds(seed_of(policy or Path(run)) if seed is None else seed, "final", episodes)
    with console.status(f"{episodes} episodes of {spec.task}"):
        accept = opened_for(task, Asked(limits, no_limits))
        result = run_evaluation(task, act_with(snapshot, spec, 0 if stochastic else None), seeds, accept=accept)
    figures = describe(result, spec) | {"policy_version": snapshot.version, "learner_step": snapshot.learner_step, "hash": snapshot.hash}
    if json:
        print(json_module.dumps(figures))
        return
    manner = "stochastic" if stochastic else "deterministic"
    say(f"{spec.task}, policy version {snapshot.version} (learner step {snapshot.learner_step:,}, {snapshot.hash}), {manner}")
    success = f"success {result.rate} of {episodes}, " if result.success_known else ""
    console.print(f"{success}return {figures['return']:.2f}, {figures['length']:.1f} actions", highlight=False)


def policy_for(what: str, policy: Path | None, which: str = "best") -> tuple[Policy, Spec]:
    """A policy and its spec: of the run or file `what`, or `policy` for the task `what`, whose spec it must fit."""
    if policy is None:
        chosen, spec = load_any_policy(Path(what), which)
        require_allowed(spec.task, what)
        return chosen, spec
    return load_any_policy(policy, which, spec_for(what))
