"""An episode of a policy beside a demonstration: from the same start where that is possible."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tandem.acting.demo_starts import begin_as_recorded
from tandem.acting.policy import Policy, act_with
from tandem.data.demos import OpenDemos
from tandem.data.episode import EpisodeRecorder
from tandem.data.figures import EpisodeFigures
from tandem.data.journal import Journal
from tandem.envs.http_robot.names import is_http_robot
from tandem.envs.registry import make_env
from tandem.envs.served.names import is_served
from tandem.envs.task_env import TaskEnv, ending
from tandem.errors import ConfigError, SpecMismatch
from tandem.programs.evaluate import policy_for
from tandem.runs.folder import RunFolder
from tandem.seeding import episode_seed
from tandem.types import Spec, Transition, first_row

APART = 0.1
"""From this difference on two episodes go different ways, as a share of a number's range in the demonstration."""


@dataclass(frozen=True)
class OwnEpisode:
    """What a policy did."""

    steps: list[Transition]
    start: str
    """Where it began, in words."""


def own_episodes(policy: Path, opened: OpenDemos, demos: dict[int, list[Transition]]) -> dict[int, OwnEpisode]:
    """One for each of these demonstrations. A simulation begins where the demonstration began; nothing else is moved: there it is the
    newest episode of the run's journal in which nobody helped."""
    chosen, spec = policy_for(str(policy), None)
    differences = spec.without_encoder().data_difference(opened.spec.without_encoder())
    if differences:
        raise SpecMismatch(
            f"{opened.path} is not of the task of {policy}: {'; '.join(differences[:3])} (here: the policy, there: the file)"
        )
    found = {} if is_served(spec.task) or is_http_robot(spec.task) else _simulated(chosen, spec, opened, demos)
    if len(found) < len(demos):
        recorded = _newest_alone(policy, spec)
        if recorded is None:
            raise ConfigError(
                f"no episode of the policy {policy} to compare with: '{spec.task}' cannot begin where {opened.path} was recorded (a robot, "
                f"or a file without the seed of its recording), and no episode without help has ended in a journal of {policy}"
            )
        found = {number: recorded for number in demos} | found
    return found


def _simulated(chosen: Policy, spec: Spec, opened: OpenDemos, demos: dict[int, list[Transition]]) -> dict[int, OwnEpisode]:
    env = make_env(spec.task)
    with ending(env):
        names = [name for name, entry in opened.spec.observation.items() if entry.role != "image" and name in env.spec.observation]
        found = {}
        for number, steps in demos.items():
            attempt = begin_as_recorded(env, steps[0].observation, opened, names)
            if attempt >= 0:
                seed = episode_seed(opened.attributes["seed"], "demonstrations", attempt)
                found[number] = OwnEpisode(_acted(env, seed, chosen, spec), "from the same start")
    return found


def _acted(env: TaskEnv, seed: int, chosen: Policy, spec: Spec) -> list[Transition]:
    act, recorder, steps = act_with(chosen, spec), EpisodeRecorder(env.spec, "policy"), list[Transition]()
    observation = env.reset([0], [seed])
    recorder.begin(first_row(observation))
    while not (steps and steps[-1].last):
        action = act(observation)
        made = env.step(action)
        steps.append(recorder.record(action[0], made))
        observation = made.observation
    return steps


def _newest_alone(policy: Path, spec: Spec) -> OwnEpisode | None:
    """The newest whole episode of the run's journal in which the policy acted alone."""
    journal = RunFolder(policy).journal
    if not journal.exists():
        return None
    running: dict[tuple[str, int], list[Transition]] = {}
    newest: list[Transition] | None = None
    with Journal.open(journal, spec, read_only=True) as opened:
        for _, step in opened.read():
            name = (step.source, step.episode)
            running.setdefault(name, []).append(step)
            if step.last:
                whole = running.pop(name)
                newest = newest if any(each.intervened for each in whole) else whole
    return None if newest is None else OwnEpisode(newest, "from another start: the newest episode of the run without help")


def parts_at(demo: EpisodeFigures, own: EpisodeFigures) -> int | None:
    """The first step at which a number is off by more than `APART` of its range in the demonstration; None: in no step of both."""
    steps, reach = min(len(demo.numbers), len(own.numbers)), np.ptp(demo.numbers, axis=0)
    off = np.abs(own.numbers[:steps] - demo.numbers[:steps]) > APART * np.where(reach > 0, reach, np.inf)
    apart = np.flatnonzero(off.any(axis=1))
    return int(apart[0]) if len(apart) else None
