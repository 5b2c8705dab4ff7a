"""`tandem env describe ENV`: look at an environment and write down what is seen, as a first file of declarations.

It makes a few episodes with random actions, or reads demonstrations, and reports: spaces, which numbers are constant, how large they
become, what `info` says about success, which rewards are paid and how long episodes are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from tandem.acting.limits import Asked, opened_for
from tandem.data.demos import load_demos
from tandem.data.episode import EpisodeRecorder
from tandem.data.fitting import constant_numbers, inferred_return_range, with_fitted_scales
from tandem.envs.declared import declaration_file, read_file
from tandem.envs.foreign import SUCCESS_KEYS, GymnasiumEnv
from tandem.envs.registry import make_env, registered
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError
from tandem.files import write_atomically
from tandem.layouts import ActionLayout
from tandem.programs.terminal import console, say
from tandem.seeding import episode_seed
from tandem.types import Continuous, Spec, Transition, first_row

RANDOM = "random actions"
MANY_REWARDS = 5
"""Different rewards from which on a reward counts as dense."""


@dataclass
class Seen:
    """What was seen of an environment."""

    steps: list[Transition] = field(default_factory=list)
    success_keys: Counter[str] = field(default_factory=Counter)
    """Keys of `info` that look like success, and in how many steps they were there."""

    @property
    def lengths(self) -> list[int]:
        return [step.step + 1 for step in self.steps if step.last]

    @property
    def rewards(self) -> list[float]:
        return sorted({step.reward for step in self.steps})


def env(
    action: Annotated[Literal["describe"], tyro.conf.Positional],
    environment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")],
    demos: tuple[Path, ...] = (),
    episodes: int = 3,
    max_steps: int = 3000,
    seed: int = 0,
    out: Path | None = None,
    limits: Path | None = None,
    no_limits: bool = False,
) -> None:
    """Look at an environment and write a first file of what it may declare.

    Args:
        action: `describe`: look at it and write the file.
        environment: A Gymnasium id, or module:Id.
        demos: Look at these demonstrations instead of random actions; they show far more of what a policy will see.
        episodes: Episodes with random actions.
        max_steps: At most this many steps in all.
        seed: Random seed of actions and starts.
        out: File to write. Default: environments/NAME.toml, where every command finds it.
        limits: File of speed, force and workspace limits (docs/limits.md); a robot that is to make random actions needs one.
        no_limits: Let a robot make random actions without any limits.
    """
    if episodes < 1 or max_steps < 1:
        raise ConfigError(f"--episodes and --max-steps must be at least 1, got {episodes} and {max_steps}")
    path = out or declaration_file(environment)
    made = make_env(environment)
    infos, under_limits = _watch_infos(made), opened_for(environment, Asked(limits, no_limits))(made)
    try:
        with console.status(f"looking at {environment}"):
            seen = look(under_limits, episodes, max_steps, seed, infos)
        steps = [step for file in demos for step in load_demos(file, made.spec)] if demos else seen.steps
    finally:
        made.close()
    seen = Seen(steps, seen.success_keys)
    text = describe(made.spec, seen, "demonstrations" if demos else RANDOM)
    say(text)
    if registered(environment) is not None:
        say(f"nothing was written: '{environment}' is a task of Tandem's kind, whose spec says all this itself")
        return
    if path.exists():
        say(f"{path} exists and was not written over")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    read_file(path).applied(made.spec)  # what is written can be read
    say(f"wrote {path}; correct it, then record and train as usual")


def look(env: TaskEnv, episodes: int, max_steps: int, seed: int, infos: list[dict[str, Any]] | None = None) -> Seen:
    """Episodes with random actions. Of the environment's `infos`, which are filled meanwhile, only the names are kept."""
    random, layout, recorder, seen = np.random.default_rng(seed), ActionLayout.of(env.spec), EpisodeRecorder(env.spec, "look"), Seen()
    watched = _watch_infos(env) if infos is None else infos
    for number in range(episodes):
        recorder.begin(first_row(env.reset([0], [episode_seed(seed, "play", number)])))
        ended = False
        while not ended and len(seen.steps) < max_steps:
            asked = layout.random(random, 1)
            step = env.step(asked)
            seen.steps.append(recorder.record(asked[0], step))
            ended = bool(step.ended[0])
    for info in watched:
        seen.success_keys.update(key for key in info if _names_success(key))
    return seen


def _watch_infos(env: TaskEnv) -> list[dict[str, Any]]:
    """Every `info` that the environment hands out from now on; empty for one that runs elsewhere."""
    infos: list[dict[str, Any]] = []
    if isinstance(env, GymnasiumEnv):
        env.watch_infos(infos.append)
    return infos


def _names_success(key: str) -> bool:
    return key in SUCCESS_KEYS or any(part in key.lower() for part in ("succe", "solved", "goal_reached", "task_complete"))


def describe(spec: Spec, seen: Seen, source: str) -> str:
    """The TOML with what was seen; a line that nobody can be sure of is a comment."""
    scales = _scales(spec, seen, sure=source != RANDOM)
    parts = (_head(spec, seen, source), _success(seen), _return_range(seen), _timing(spec, seen), _action(spec), scales)
    return "\n".join(line for part in parts for line in (*part, "")).rstrip() + "\n"


def _head(spec: Spec, seen: Seen, source: str) -> list[str]:
    lines = [
        f"# What '{spec.task}' declares, seen in {len(seen.steps):,} steps of {source}. Lines without # hold in every command that is",
        "# started in the folder above this one. Correct what you know better, and delete the rest.",
    ]
    for name, entry in spec.observation.items():
        lines.append(f"# observation '{name}': shape {tuple(entry.shape)} {entry.dtype}, {entry.role}")
    return lines


def _success(seen: Seen) -> list[str]:
    if not seen.success_keys:
        return [
            "# `info` never had a key for success, so only the return can be judged. Name the key if there is one:",
            '# success_key = "..."',
        ]
    found = [f"{key} ({count:,} steps)" for key, count in seen.success_keys.most_common()]
    named = next((key for key in SUCCESS_KEYS if key in seen.success_keys), seen.success_keys.most_common(1)[0][0])
    return [f"# keys of `info` that look like success: {', '.join(found)}", f'success_key = "{named}"']


def _return_range(seen: Seen) -> list[str]:
    rewards = seen.rewards
    if not rewards:
        return ["# no step was seen"]
    kind = "dense" if len(rewards) >= MANY_REWARDS else "sparse"
    lines = [f"# rewards seen: {', '.join(f'{reward:g}' for reward in rewards[:MANY_REWARDS])}"]
    if kind == "dense":
        lines = [f"# rewards seen: {len(rewards):,} different ones from {rewards[0]:g} to {rewards[-1]:g}, so the reward is dense"]
    found = inferred_return_range(seen.steps)
    if found is not None:
        return [*lines, "# every reward is 0 or 1, and a 1 ends the episode", "return_range = [0.0, 1.0]"]
    why = "No return can be outside of it; the critic's values are clipped to it, and the doctor knows which are impossible."
    return [*lines, f"# Lowest and highest sum of rewards of an episode, if you know it. {why}", "# return_range = [0.0, 1.0]"]


def _timing(spec: Spec, seen: Seen) -> list[str]:
    lengths = seen.lengths
    measured = f"{min(lengths)} to {max(lengths)} actions in {len(lengths)} episodes" if lengths else "no episode came to its end"
    return [
        "# Actions per second. From `metadata['render_fps']`, or a guess of 10.",
        f"control_hz = {spec.control_hz:g}",
        f"# Actions after which an episode is cut off. Seen: {measured}.",
        f"max_episode_steps = {spec.max_episode_steps}",
    ]


def _action(spec: Spec) -> list[str]:
    scales = [scale for part in spec.action if isinstance(part, Continuous) for scale in part.scales().tolist()]
    names = ", ".join(f'"axis {number}"' for number in range(spec.action_dim))
    units = ", ".join(['""'] * spec.action_dim)
    return [
        f"# {spec.action_dim} axes, half width of their ranges {', '.join(f'{scale:g}' for scale in scales)}. What do they move?",
        "# [action]",
        f"# axes = [{names}]",
        f"# units = [{units}]",
    ]


def _scales(spec: Spec, seen: Seen, sure: bool) -> list[str]:
    """The ranges that were seen, and the scales that would be fitted on them; as a comment where random actions may not have gone far."""
    lines = [
        "# value / scale should be of order one, and is clipped to plus and minus 5. Without this table the scales are fitted on the",
        "# demonstrations when a run begins.",
    ]
    constant = set(constant_numbers(spec, seen.steps))
    fitted, _ = with_fitted_scales(spec, seen.steps)
    table = []
    for name, entry in spec.observation.items():
        if entry.dtype != "float32" or not seen.steps:
            continue
        values = np.stack([step.observation[name].reshape(-1) for step in seen.steps])
        lines += _ranges(name, values, constant)
        scale = fitted.observation[name].scale
        if scale != entry.scale:
            table.append(f"{'' if sure else '# '}{_key(name)} = {list(scale) if isinstance(scale, tuple) else scale}")
    return [*lines, "[scales]" if sure and table else "# [scales]", *table]


def _ranges(name: str, values: np.ndarray, constant: set[str]) -> list[str]:
    lines, low, high = [], values.min(axis=0), values.max(axis=0)
    for index in range(min(values.shape[1], 64)):
        still = "  constant" if f"{name}[{index}]" in constant else ""
        lines.append(f"#   {name}[{index}]  {low[index]:.4g} to {high[index]:.4g}{still}")
    more = values.shape[1] - 64
    return [*lines, f"#   and {more} more"] if more > 0 else lines


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else f'"{name}"'
