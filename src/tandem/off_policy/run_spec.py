"""The spec of a run that learns from demonstrations: the environment's own, and for a foreign one what the demonstrations add.

It is decided once, before there is a run folder, and frozen there. A run that is resumed has it from its folder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from tandem.acting.policy import load_policy
from tandem.data.demos import load_demos
from tandem.data.fitting import constant_numbers, inferred_return_range, with_fitted_scales
from tandem.data.plausibility import with_ranges
from tandem.envs.declared import declaration_file
from tandem.envs.registry import registered
from tandem.errors import SpecMismatch
from tandem.runs.folder import RunFolder
from tandem.types import Spec, Transition

FEW = 12
"""Names that are listed in a line."""


def decide_spec(
    spec: Spec, demos: Sequence[Path], init_from: Path | None = None, say: Callable[[str], None] = lambda line: None
) -> tuple[Spec, list[Transition]]:
    """The spec to learn with, and the steps of all demonstrations, each fit for it. `spec` is the environment's."""
    steps = [step for file in demos for step in load_demos(file, spec)]
    if registered(spec.task) is not None:
        return with_ranges(spec, steps, all_known=True), steps
    file = declaration_file(spec.task)
    if file.is_file():
        say(f"{file} describes the environment")
    spec = _with_range(_with_scales(spec, steps, init_from, say), steps, say)
    return with_ranges(spec, steps, all_known=False), steps


def resumed_spec(run: Path, now: Spec, demos: Sequence[Path]) -> tuple[Spec, list[Transition]]:
    """The run's own spec, with the scales it was started with, and its demonstrations; an environment that has changed is refused."""
    spec = RunFolder.open(run).spec
    # where the environment does not give the rewards, its range of the return says nothing
    differences = spec.data_difference(dataclasses.replace(now, return_range=spec.return_range) if spec.reward else now)
    if differences:
        raise SpecMismatch(f"run {run} was trained on another spec: {'; '.join(differences)} (here: the run, there: the environment)")
    return spec, [step for file in demos for step in load_demos(file, spec)]


def _with_scales(spec: Spec, steps: Sequence[Transition], init_from: Path | None, say: Callable[[str], None]) -> Spec:
    """Those of the policy to start from, which would see other numbers under others; else fitted on the demonstrations."""
    if init_from is not None:
        say(f"scales of the observation: those of the policy in {init_from}")
        return spec.with_scales(load_policy(init_from)[1].scales())
    spec, fitted = with_fitted_scales(spec, steps)
    for line in fitted:
        say(line)
    constant = constant_numbers(spec, steps)
    if constant:
        more = f" and {len(constant) - FEW} more" if len(constant) > FEW else ""
        say(f"never change in the demonstrations, so nothing can be learned from them: {', '.join(constant[:FEW])}{more}")
    return spec


def _with_range(spec: Spec, steps: Sequence[Transition], say: Callable[[str], None]) -> Spec:
    found = inferred_return_range(steps) if spec.return_range is None else None
    if found is None:
        return spec
    say("return_range [0, 1], from the demonstrations: every reward is 0 or 1, and a 1 ends the episode")
    return dataclasses.replace(spec, return_range=found)
