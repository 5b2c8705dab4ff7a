"""Makes an operator from `module:Class`; as a program in another Python it also asks it, over pipes, in JSON lines.

Imports nothing of Tandem and runs on Python >= 3.9 with NumPy: `own_operator` starts its text with `PYTHON -c`.

    started     -> {"name": "..."}                                    or {"problem": "..."} and the end
    {"reset": true}                                                   -> {}
    {"observation": {entry: [dtype, values]}, "proposed": values}     -> {"action": values, "by_human": false}
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from typing import Any

import numpy as np


class OperatorProblem(Exception):
    """A class that cannot be an operator, or something that is not a decision; the message says why."""


def make(name: str, offered: dict[str, Any]) -> Any:
    """The object of the class `module:Class`, made with those of the offered arguments that its constructor names."""
    cls = find_class(name)
    methods = dict(inspect.getmembers(cls, callable))
    missing = [method for method in ("reset", "decide") if method not in methods]
    if missing:
        raise OperatorProblem(
            f"the class '{name}' has no method {' and no '.join(missing)}; an operator has reset() and "
            f"decide(observation, proposed) -> (action, by_human)"
        )
    named = inspect.signature(cls).parameters
    unknown = [
        parameter.name
        for parameter in named.values()
        if parameter.name not in offered and parameter.default is parameter.empty and parameter.kind not in (2, 4)  # *args, **kwargs
    ]
    if unknown:
        why = "the environment is not a Gymnasium environment of this process" if unknown[0] == "env" else "nobody can give that"
        raise OperatorProblem(
            f"the constructor of '{name}' wants '{unknown[0]}', and {why}; here it may name {' and '.join(offered)}, or nothing. "
            f"A script that works from observations alone runs everywhere."
        )
    return cls(**{argument: value for argument, value in offered.items() if argument in named})


def find_class(name: str) -> Any:
    module_name, _, class_name = name.rpartition(":")
    if not module_name or not class_name:
        raise OperatorProblem(f"'{name}' does not name an operator; expected module:Class, such as my_scripts:Push")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as problem:
        if problem.name is not None and not f"{module_name}.".startswith(f"{problem.name}."):
            raise OperatorProblem(f"the module '{module_name}' needs '{problem.name}', which {sys.executable} does not have") from None
        raise OperatorProblem(
            f"{sys.executable} finds no module '{module_name}'. It must be installed or on PYTHONPATH; for a file in this folder start the "
            f"command with `PYTHONPATH=. tandem ...`"
        ) from None
    found = vars(module).get(class_name)
    if not isinstance(found, type):
        classes = [each for each, value in vars(module).items() if isinstance(value, type) and value.__module__ == module_name]
        raise OperatorProblem(f"the module '{module_name}' has no class '{class_name}'; it has {', '.join(classes) or 'none'}")
    return found


def decision(name: str, decided: Any) -> tuple[np.ndarray, bool]:
    """What `decide` gave, taken apart."""
    if not isinstance(decided, tuple) or len(decided) != 2:
        raise OperatorProblem(f"'{name}'.decide gave {_briefly(decided)}; expected two things: (action, by_human)")
    return np.asarray(decided[0], np.float32), bool(decided[1])


def _briefly(value: Any) -> str:
    return f"a {type(value).__name__}" + (f" of shape {value.shape}" if isinstance(value, np.ndarray) else "")


def answer(name: str, operator: Any, request: dict[str, Any]) -> dict[str, Any]:
    if "reset" in request:
        operator.reset()
        return {}
    observation = {entry: np.array(values, dtype) for entry, (dtype, values) in request["observation"].items()}
    proposed = request["proposed"]
    decided = operator.decide(observation, None if proposed is None else np.array(proposed, np.float32))
    action, by_human = decision(name, decided)
    return {"action": action.tolist(), "by_human": by_human}


def name_of(operator: Any) -> str:
    """The name that it gives itself, else that of its class."""
    return str(getattr(operator, "name", type(operator).__name__))


def serve(name: str, seed: int) -> None:
    """Until the pipe closes. What the operator prints goes to the terminal, not into the answers."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(line: dict[str, Any]) -> None:
        answers.write(json.dumps(line) + "\n")
        answers.flush()

    try:
        operator = make(name, {"seed": seed})
        say({"name": name_of(operator)})
        for line in sys.stdin:
            say(answer(name, operator, json.loads(line)))
    except OperatorProblem as problem:
        say({"problem": str(problem)})


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
