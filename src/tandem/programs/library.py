"""Tandem from Python: `tandem.record`, `tandem.train` and `tandem.load_policy`. Only `train` imports JAX, when it is called."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tandem.acting.limits import Asked
from tandem.acting.policy import act_with, load_any_policy
from tandem.errors import ConfigError, extras_named
from tandem.programs.record import BY_HAND, record_with
from tandem.programs.record import scripted_demos as record_scripted_demos
from tandem.programs.terminal import new_run
from tandem.runs.display import Display
from tandem.teleop.operator import Operator
from tandem.types import Spec

if TYPE_CHECKING:
    from tandem.off_policy.config import TrainConfig


@dataclass(frozen=True)
class TrainingResult:
    """A training run that has ended."""

    run: Path
    """The run folder; `tandem play`, `eval`, `export` and `doctor` take it."""
    success: float | None
    """Share of successes in the last evaluation, with deterministic actions; None without one (`final_episodes=0`)."""
    summary: Mapping[str, Any]
    """Everything that summary.json in the run folder says."""

    def policy(self) -> Policy:
        """The best policy of the run."""
        return load_policy(self.run)


def record(
    task: str,
    operator: str | Operator = "scripted",
    *,
    demos: int = 25,
    out: Path | str = "demos",
    seed: int = 0,
    quiet: bool = False,
    limits: Path | str | None = None,
    no_limits: bool = False,
) -> Path:
    """Record demonstrations by a script or a policy: successful episodes only, to one file, which is returned.

    Args:
        task: A task (see `tandem tasks`), a Gymnasium id (also one that you registered with `gymnasium.register`), or module:Id.
        operator: `scripted` (the task's own script), `policy:RUN`, `module:Class`, or an object with `reset()` and
            `decide(observation, proposed) -> (action, by_human)` (docs/demonstrations.md).
        demos: Number of successful episodes to keep.
        out: Folder of the new file.
        seed: Random seed for the starts of the attempts.
        quiet: No progress bar.
        limits: File of speed, force and workspace limits (docs/limits.md); a robot needs one.
        no_limits: Move a robot without any limits.
    """
    if demos < 1:
        raise ConfigError(f"demos must be at least 1, got {demos}")
    if isinstance(operator, str) and operator in BY_HAND:
        raise ConfigError(f"operator '{operator}' is a person: use the command `tandem record {task} --operator {operator}`")
    asked = Asked(None if limits is None else Path(limits), no_limits)
    return record_with(task, operator, demos, Path(out), seed, quiet, asked)


def train(
    task: str,
    *,
    demos: Sequence[Path | str] = (),
    scripted_demos: int = 0,
    recipe: str | None = None,
    run: Path | str | None = None,
    quiet: bool = False,
    **settings: Any,
) -> TrainingResult:
    """Learn a task with RLPD in this process, until `max_steps`, `max_minutes` or `stop_success` ends it.

    Actor and learner take turns in one thread, as with `tandem train --sync`: the same seed gives the same result to the last bit.

    Args:
        task: A task (see `tandem tasks`), a Gymnasium id (also one that you registered with `gymnasium.register`), or module:Id.
        demos: Files of demonstrations.
        scripted_demos: First record this many demonstrations with the task's scripted expert.
        recipe: Settings to start from. Default: the recipe named after the task, else `fitted` with demonstrations (`fitted_pixels` where
            the environment has cameras), `default` without.
        run: Folder of the run, which must not exist. Default: runs/TASK_TIME.
        quiet: Print nothing.
        settings: Any setting of `tandem train --help` by its name: `max_steps=2000, num_envs=8, learning_rate=1e-3`.
    """
    with extras_named("tandem.train"):
        from tandem.off_policy.recipes import starting_config
        from tandem.off_policy.sync import train as train_in_turns

    folder = Path(run) if run is not None else new_run(task)
    typed = {**settings, "task": task, "demos": tuple(Path(demo) for demo in demos)}
    config, for_cameras = (
        with_settings(starting_config(task, recipe, with_demos=bool(demos or scripted_demos), cameras=cameras), typed)
        for cameras in (False, True)
    )
    if scripted_demos:
        recorded = record_scripted_demos(task, scripted_demos, folder, config.seed, quiet)
        config = dataclasses.replace(config, demos=(*config.demos, recorded))
    summary = train_in_turns(config, folder, Display("quiet" if quiet else "lines"), for_cameras=for_cameras)
    final = summary.get("deterministic")
    return TrainingResult(folder, None if final is None else float(final["success"]), summary)


def with_settings(config: TrainConfig, settings: Mapping[str, Any]) -> TrainConfig:
    """The configuration with these settings of the run or of its agent."""
    of_agent = {field.name for field in dataclasses.fields(config.agent)}
    of_run = {field.name for field in dataclasses.fields(config)} - {"agent"}
    for name in settings:
        if name not in of_agent | of_run:
            nearest = difflib.get_close_matches(name, of_agent | of_run, n=1)
            hint = f" Did you mean '{nearest[0]}'?" if nearest else ""
            raise ConfigError(f"no setting '{name}'.{hint} `tandem train --help` lists them all.")
    agent = dataclasses.replace(config.agent, **{name: value for name, value in settings.items() if name in of_agent})
    return dataclasses.replace(config, agent=agent, **{name: value for name, value in settings.items() if name in of_run})


class Policy:
    """A learned policy that acts. It needs NumPy, and ONNX Runtime for an ONNX file."""

    def __init__(self, path: Path, which: str, stochastic_seed: int | None) -> None:
        chosen, self.spec = load_any_policy(path, which)
        self.version, self.hash = chosen.version, chosen.hash
        self._act = act_with(chosen, self.spec, stochastic_seed)

    def act(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        """The action for one observation, (action_dim,), or for a batch of N, (N, action_dim); in [-1, 1].

        `observation` has the entries of `spec.observation`, unscaled, in their units; a batch has a leading axis N in every entry.
        A policy with memory remembers from call to call: call `reset` where an episode begins.
        """
        single = _is_single(self.spec, observation)
        rows = {name: np.asarray(observation[name], entry.dtype) for name, entry in self.spec.observation.items()}
        actions = self._act({name: values[None] for name, values in rows.items()} if single else rows)
        return actions[0] if single else actions

    def reset(self) -> None:
        """A new episode begins: forget the last one. Does nothing for a policy without memory."""
        self._act.reset()


def load_policy(path: Path | str, which: Literal["best", "latest"] = "best", *, stochastic_seed: int | None = None) -> Policy:
    """The policy of a run folder, a policy file or an exported ONNX file; most likely actions, or drawn ones with `stochastic_seed`."""
    return Policy(Path(path), which, stochastic_seed)


def _is_single(spec: Spec, observation: Mapping[str, np.ndarray]) -> bool:
    """Whether this is one observation; False for a batch. Anything else is refused with the entry that does not fit."""
    counts = set()
    for name, entry in spec.observation.items():
        if name not in observation:
            raise ConfigError(f"the policy for '{spec.task}' needs the observation entry '{name}', got only {sorted(observation)}")
        shape = np.shape(observation[name])
        lead, rest = shape[: len(shape) - len(entry.shape)], shape[len(shape) - len(entry.shape) :]
        if rest != entry.shape or len(lead) > 1:
            raise ConfigError(
                f"the policy for '{spec.task}', observation entry '{name}': got shape {shape}, expected {entry.shape} for one observation "
                f"or (N, {', '.join(map(str, entry.shape))}) for a batch"
            )
        counts.add(lead)
    if len(counts) != 1:
        raise ConfigError(f"the policy for '{spec.task}': the observation entries have different numbers of rows: {sorted(counts)}")
    return counts == {()}
