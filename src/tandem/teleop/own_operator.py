"""Operators of your own: `--operator module:Class`, or `--operator serve:PYTHON:module:Class` for one that needs another Python
(an interpreter, or the folder of a virtual environment).

The class has what `Operator` has: `reset()`, called where an episode begins, and `decide(observation, proposed)`, called for every step,
which gives the action and whether a person chose it. `observation` has the entries of the spec, unbatched, in the environment's units;
the action has one number in [-1, 1] for each axis, whatever the range of the environment's own action space is. `proposed` is what the
policy would do; None while demonstrations are recorded. The class is made with those of these arguments that its constructor names:

    env     the bare Gymnasium environment (`unwrapped`), for a script that looks into the simulation. Only where the environment runs in
            this process; one in another process is seen through its observations alone.
    seed    an integer, another one for each robot

What it remembers is no part of a checkpoint: a resumed run calls `reset`.
"""

from __future__ import annotations

import json
import select
import subprocess
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from tandem.envs.foreign import GymnasiumEnv
from tandem.envs.task_env import TaskEnv
from tandem.errors import ActionError, ConfigError
from tandem.layouts import ActionLayout
from tandem.seeding import episode_seed
from tandem.teleop import operator_process
from tandem.teleop.axes import axes_of
from tandem.teleop.operator import Operator
from tandem.types import Observation, Spec

ANSWER_S = 60.0
"""An operator in another Python that has not answered after so long hangs."""
_SERVED = "serve:"
_START = "import sys; sys.path[:1] = [] if sys.path[:1] == [''] else sys.path[:1]; exec({!r})"
"""`python -c` looks for modules in the working directory first, where a file could replace any of them; -P is new in Python 3.11."""


def is_own(name: str) -> bool:
    """Whether `--operator` names a class and not one of the operators that come with Tandem."""
    return ":" in name and name.split(":")[0] not in ("person", "policy")


def own_operator(name: str, env: TaskEnv, seed: int = 0, row: int = 0) -> OwnOperator:
    """The operator of one row of an environment."""
    seed = episode_seed(seed, "correction", row)
    if name.startswith(_SERVED):
        python, _, place = name.removeprefix(_SERVED).partition(":")
        return OwnOperator(name, env.spec, OperatorElsewhere(name, python, place, seed))
    offered = {"env": env.bare(row), "seed": seed} if isinstance(env, GymnasiumEnv) else {"seed": seed}
    try:
        return OwnOperator(name, env.spec, operator_process.make(name, offered))
    except operator_process.OperatorProblem as problem:
        raise ConfigError(f"--operator {name}: {problem}") from None


def checked(operator: Operator, env: TaskEnv) -> OwnOperator:
    """An operator that a program made itself, with the same checks."""
    return OwnOperator(type(operator).__name__, env.spec, operator)


class OwnOperator:
    """An operator of a user's, whose actions are checked before a robot gets them."""

    tag = ""

    def __init__(self, place: str, spec: Spec, operator: Operator) -> None:
        self._place, self._operator, self._layout = place, operator, ActionLayout.of(spec)
        self.name = operator_process.name_of(operator)

    def reset(self) -> None:
        self._operator.reset()

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        try:
            action, by_human = operator_process.decision(self._place, self._operator.decide(observation, proposed))
        except operator_process.OperatorProblem as problem:
            raise ActionError(f"operator {problem}") from None
        if action.shape != self._layout.shape or not np.isfinite(action).all():
            got = f"shape {action.shape}" if action.shape != self._layout.shape else f"values that are not finite: {action.tolist()}"
            raise ActionError(
                f"operator '{self._place}' gave an action with {got}; expected shape {self._layout.shape}, numbers in [-1, 1] "
                f"({', '.join(axes_of(self._layout))}). The robot was not moved."
            )
        return self._layout.clip(action), by_human

    def memory(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        del state
        self._operator.reset()


class OperatorElsewhere:
    """An operator in a process of another Python, asked over pipes."""

    def __init__(self, name: str, python: str, place: str, seed: int) -> None:
        self._place = name
        found = Path(python).expanduser()
        interpreter = found / "bin" / "python" if found.is_dir() else found if "/" in python else python
        command = [str(interpreter), "-c", _START.format(Path(operator_process.__file__).read_text()), place, str(seed)]
        try:
            # a session of its own: Ctrl-C is for the program that asks, and ends this one by closing its pipe
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        except OSError as problem:
            raise ConfigError(
                f"--operator {name}: cannot start {interpreter} ({problem.strerror}); expected serve:PYTHON:module:Class, where "
                f"PYTHON is an interpreter or the folder of a virtual environment"
            ) from None
        self._end = weakref.finalize(self, _end, self._process)
        started = self._answer()
        if "problem" in started:
            raise ConfigError(f"--operator {name}: {started['problem']}")
        self.name: str = started["name"]

    def reset(self) -> None:
        self._ask({"reset": True})

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        entries = {name: [values.dtype.name, values.tolist()] for name, values in observation.items()}
        answer = self._ask({"observation": entries, "proposed": None if proposed is None else np.asarray(proposed).tolist()})
        return np.array(answer["action"], np.float32), bool(answer["by_human"])

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None
        answer = self._answer()
        if "problem" in answer:
            raise ActionError(f"operator {answer['problem']}")
        return answer

    def _answer(self) -> dict[str, Any]:
        pipe = self._process.stdout
        assert pipe is not None
        if not select.select([pipe], [], [], ANSWER_S)[0]:
            raise ConfigError(f"operator '{self._place}' has not answered for {ANSWER_S:g} s. Likely cause: its script hangs.")
        line = pipe.readline()
        if not line:
            raise self._gone()
        return json.loads(line)

    def _gone(self) -> ConfigError:
        code = self._process.wait()
        return ConfigError(f"operator '{self._place}': its process ended with code {code}; what it said last is above")

    def close(self) -> None:
        self._end()


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(2.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
