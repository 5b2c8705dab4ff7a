"""Which modules may be imported because a file names them: only those that a person allowed.

A run folder and a policy file say which environment they are of. One that is called `module:Id` is made by importing `module`, which
runs its code. What a person types is that person's word; what a file says is not, for the file may come from somebody else. So a command
that takes such a name out of a file asks here first. The list is in the environment of the process, so the processes of a run inherit it.
"""

from __future__ import annotations

import os

from tandem.errors import ConfigError
from tandem.spec import ROBOT_SERVERS

VARIABLE = "TANDEM_ALLOW_MODULES"
OPTION = "--allow-module"


def code_of(name: str) -> str:
    """The code that an environment or operator of this name would run: a module, or `serve:PYTHON:module`; empty for none of its own."""
    served_elsewhere = name.startswith(("ws://", "wss://", *(f"{kind}{mark}" for kind in ROBOT_SERVERS for mark in ("+http://", ":"))))
    not_a_class = name.split(":")[0] in ("person", "policy")  # operators that come with Tandem
    return "" if served_elsewhere or not_a_class else name.rpartition(":")[0]


def allow(code: str) -> None:
    """A person named this module, in this process."""
    if code:
        os.environ[VARIABLE] = ",".join(dict.fromkeys([*_allowed(), code]))


def require_allowed(name: str, said_by: object) -> None:
    """Refuse a name that comes from a file and would run code that nobody allowed."""
    code = code_of(name)
    if code and code not in _allowed():
        raise ConfigError(
            f"{said_by} names '{name}', which would run the code of '{code}'. A file does not decide what code runs here: it may come from "
            f"somebody else. Nothing was imported. If you know that code, add `{OPTION} {code}` to the command, or type the task yourself."
        )


def take_option(args: list[str]) -> list[str]:
    """The command line without `--allow-module NAME`, which every command knows; the names are allowed from here on."""
    rest, left = [], iter(args)
    for arg in left:
        option, given, value = arg.partition("=")
        if option != OPTION:
            rest.append(arg)
            continue
        code = value if given else next(left, "")
        if not code or code.startswith("-"):
            raise ConfigError(f"{OPTION} needs the name of a module, such as `{OPTION} my_envs`")
        allow(code)
    return rest


def _allowed() -> list[str]:
    return [code for code in os.environ.get(VARIABLE, "").split(",") if code]
