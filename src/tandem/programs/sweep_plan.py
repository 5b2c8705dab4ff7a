"""The file of a sweep: which runs it asks for, and the command line of each one.

command = "train"                      train, ppo or bc
task = "reach"
seeds = 5                              0 to 4; or a list: [3, 7, 11]
metrics = ["success", "minutes"]       the columns of the table
best = "highest success"               which run is the best one
baseline = "plain"                     the setting that the others are compared with; the first one unless named
keep = "all"                           or "best": of the other finished runs only their figures

[every]                                options of all runs, named as `tandem train --help` does, with _ or -
scripted_demos = 10

[settings.plain]                       options of one setting
[settings.faster]
updates_per_actor_step = 2

[grid]                                 every combination of these, with each of the settings above
learning_rate = [1e-4, 3e-4]
"""

from __future__ import annotations

import contextlib
import difflib
import io
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import tyro

from tandem.allowed import require_allowed
from tandem.envs.registry import spec_for
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError
from tandem.files import name_for_files, read_toml
from tandem.off_policy.cloning import CloneArgs
from tandem.programs.arguments import TrainArgs, read_ppo_args, read_run_args

SweptCommand = Literal["train", "ppo", "bc"]
SWEPT: Mapping[str, SweptCommand] = {name: name for name in get_args(SweptCommand)}
Options = Mapping[str, Any]
DEFAULT_METRICS = ("success", "return", "minutes")
OF_THE_SWEEP = ("seed", "run", "resume", "quiet", "json", "verbose", "port", "film")
"""Options that the sweep sets itself."""
OF_A_START = ("demos", "scripted-demos", "init-from", "recipe", "horizon", "preset", "rsl-rl-config")
"""Options that a run which is continued does not take: they are in its folder."""
_KEYS = ("command", "task", "seeds", "metrics", "best", "baseline", "keep", "every", "settings", "grid")
_MAX_RUNS = 10_000
_OPTION = re.compile(r"[a-z][a-z0-9._-]*")
_BOX = re.compile(r"[│╭╮╰╯─\s]+|-{5,}")
"""What a refusal of tyro's is drawn with."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep."""

    setting: str
    seed: int

    @property
    def place(self) -> Path:
        """Its folder, inside of the sweep's."""
        return Path("runs") / name_for_files(self.setting) / f"seed_{self.seed}"

    def __str__(self) -> str:
        return f"{self.setting}, seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """What the file of a sweep asks for."""

    file: Path
    command: SweptCommand
    task: str
    seeds: tuple[int, ...]
    metrics: tuple[str, ...]
    best_is: Literal["highest", "lowest"]
    best_by: str
    """The metric that the best run is chosen by."""
    baseline: str
    keep_only_best: bool
    settings: Mapping[str, Options]
    """The options of each setting, those of all runs among them."""

    @property
    def runs(self) -> list[PlannedRun]:
        """All settings of a seed before the next seed, so that an unfinished sweep can already be compared."""
        return [PlannedRun(setting, seed) for seed in self.seeds for setting in self.settings]

    def arguments(self, run: PlannedRun, folder: Path, *, resume: bool = False) -> list[str]:
        """The command line of a run in this folder."""
        options = dict(self.settings[run.setting])
        where = ("--resume" if resume else "--run", str(folder))
        if resume:
            options = {name: value for name, value in options.items() if name not in OF_A_START}
        return [self.task, *where, "--seed", str(run.seed), "--quiet", *itertools.chain.from_iterable(map(_typed, options.items()))]


def read_plan(file: Path) -> Plan:
    """The plan in a file. Every setting is checked as the command itself would, before anything is started."""
    given = read_toml(file, "file of a sweep")
    for key in given:
        if key not in _KEYS:
            raise ConfigError(f"{file}: unknown key '{key}'.{_nearest(key, _KEYS)} There are {', '.join(_KEYS)}")
    task, baseline, asked = (_text(file, given, key) for key in ("task", "baseline", "command"))
    command = SWEPT.get(asked)
    if command is None:
        raise ConfigError(f"{file}: `command` must be one of {', '.join(SWEPT)}, got '{asked}'")
    if not task:
        raise ConfigError(f"{file}: no `task`; `tandem tasks` lists those that come with Tandem")
    settings = _settings(file, given)
    if baseline and baseline not in settings:
        raise ConfigError(f"{file}: `baseline` is '{baseline}', which is no setting; there are {', '.join(settings)}")
    metrics = _metrics(file, given)
    best_is, best_by = _best(file, given, metrics)
    keep = given.get("keep", "all")
    if keep not in ("all", "best"):
        raise ConfigError(f'{file}: `keep` must be "all" or "best", got {keep!r}')
    seeds = _seeds(file, given)
    baseline = baseline or next(iter(settings))
    plan = Plan(file, command, task, seeds, metrics, best_is, best_by, baseline, keep == "best", settings)
    if len(plan.runs) > _MAX_RUNS:
        raise ConfigError(f"{file} asks for {len(plan.runs):,} runs, at most {_MAX_RUNS:,} make a sweep: split the grid over several files")
    _check(plan)
    return plan


def _text(file: Path, given: Mapping[str, Any], key: str) -> str:
    value = given.get(key, "")
    if not isinstance(value, str):
        raise ConfigError(f"{file}: `{key}` must be a text in quotes, got {value!r}")
    return value


def _seeds(file: Path, given: Mapping[str, Any]) -> tuple[int, ...]:
    asked = given.get("seeds", 1)
    seeds = list(range(asked)) if type(asked) is int and asked <= _MAX_RUNS else asked
    if not isinstance(seeds, list) or not seeds or any(type(seed) is not int or seed < 0 for seed in seeds):
        raise ConfigError(f"{file}: `seeds` must be their number (`seeds = 5` are 0 to 4) or a list such as [3, 7, 11], got {asked!r}")
    return tuple(dict.fromkeys(seeds))


def _metrics(file: Path, given: Mapping[str, Any]) -> tuple[str, ...]:
    metrics = given.get("metrics", list(DEFAULT_METRICS))
    if not isinstance(metrics, list) or not metrics or not all(isinstance(name, str) for name in metrics):
        raise ConfigError(f'{file}: `metrics` must be a list of names such as ["success", "minutes"], got {metrics!r}')
    return tuple(metrics)


def _best(file: Path, given: Mapping[str, Any], metrics: tuple[str, ...]) -> tuple[Any, str]:
    asked = given.get("best", f"highest {metrics[0]}")
    manner, _, metric = asked.partition(" ") if isinstance(asked, str) else ("", "", "")
    if manner not in ("highest", "lowest") or metric not in metrics:
        raise ConfigError(f'{file}: `best` must be "highest METRIC" or "lowest METRIC" with one of {", ".join(metrics)}; got {asked!r}')
    return manner, metric


def _settings(file: Path, given: Mapping[str, Any]) -> dict[str, Options]:
    """Every combination of the grid, within each of the named settings."""
    every = _options(file, "every", given.get("every", {}))
    named = given.get("settings", {})
    if not isinstance(named, dict):
        raise ConfigError(f"{file}: `settings` must be tables such as [settings.plain], got {named!r}")
    grid = _options(file, "grid", given.get("grid", {}))
    for option, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ConfigError(f"{file}: the grid needs a list of values for '{option}', got {values!r}; one value belongs under [every]")
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    settings: dict[str, Options] = {}
    for name, options in (named or {"": {}}).items():
        for point in combinations:
            called = ", ".join(filter(None, [name, *(f"{option}={_shown(value)}" for option, value in point.items())])) or "plain"
            settings[called] = {**every, **_options(file, f"settings.{name}", options), **point}
    folders = {name_for_files(name) for name in settings}
    if len(folders) < len(settings) or "" in folders:
        raise ConfigError(f"{file}: two settings would have the same folder; give them names that differ in letters or digits")
    return settings


def _options(file: Path, where: str, options: Any) -> dict[str, Any]:
    if not isinstance(options, dict):
        raise ConfigError(f"{file}: [{where}] must be a table of options, got {options!r}")
    named = {}
    for key, value in options.items():
        name = key.replace("_", "-")
        if not _OPTION.fullmatch(name):
            raise ConfigError(f"{file}, [{where}]: '{key}' is no name of an option")
        if name.removeprefix("no-") in OF_THE_SWEEP:
            raise ConfigError(f"{file}, [{where}]: the sweep sets '{key}' of its runs itself; leave it out")
        if isinstance(value, dict):
            raise ConfigError(f"{file}, [{where}]: '{key}' has a table as its value; expected a number, a text, true, false or a list")
        named[name] = value
    return named


def _typed(option: tuple[str, Any]) -> list[str]:
    """An option as it is typed."""
    name, value = option
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name}", *map(str, value if isinstance(value, list) else [value])]


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _check(plan: Plan) -> None:
    """What a run would refuse is refused now; so is a robot, and code that nobody allowed."""
    require_allowed(plan.task, plan.file)
    for name, options in plan.settings.items():
        require_allowed(str(options.get("operator", "none")), plan.file)
        _check_setting(plan, name)
    spec_for(plan.task, lambda env: _require_simulation(plan, env))


def _require_simulation(plan: Plan, env: TaskEnv) -> None:
    if env.capabilities.clock == "real":
        raise ConfigError(
            f"{plan.file}: environment '{plan.task}' is a robot (its clock is real). A sweep starts one run after another with nobody "
            f"there; start each of them yourself: tandem {plan.command} {plan.task}"
        )


def _check_setting(plan: Plan, name: str) -> None:
    arguments = plan.arguments(PlannedRun(name, plan.seeds[0]), Path("run"))
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            if plan.command == "train":
                read_run_args(TrainArgs, arguments, "tandem train")
            elif plan.command == "ppo":
                read_ppo_args(arguments, "tandem ppo")
            else:
                tyro.cli(CloneArgs, args=arguments, prog="tandem bc")
    except (SystemExit, ConfigError) as problem:
        words = _BOX.sub(" ", said.getvalue()) if isinstance(problem, SystemExit) else str(problem)
        raise ConfigError(f"{plan.file}, setting '{name}': `tandem {plan.command}` refuses it: {' '.join(words.split())}") from None


def _nearest(name: str, known: tuple[str, ...]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean '{nearest[0]}'?" if nearest else ""
