"""Who may do what, as one table.

    actor       a robot's computer: sends the steps of its own sources, gets policies and the commands to it. It gives no commands.
    viewer      a person who looks on: sees everything, and may STOP a robot
    operator    a person at a robot: takes over, labels, discards, pauses, and lets a robot move again
    admin       the person who started the run: ends it, and does everything else. The file `token` of the run folder is this role's

A person who may see a robot may stop it. Only an operator, or the admin, lets it move again.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args

Role = Literal["actor", "viewer", "operator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)

_PEOPLE: tuple[Role, ...] = ("viewer", "operator", "admin")
_OPERATORS: tuple[Role, ...] = ("operator", "admin")

ALLOWED: Mapping[str, tuple[Role, ...]] = MappingProxyType(
    {
        "join": ("actor", "admin"),
        "ask_how_it_is": ROLES,
        "see": _PEOPLE,
        "watch": _PEOPLE,
        "stop_robot": _PEOPLE,
        "pause": _OPERATORS,
        "resume": _OPERATORS,
        "take_over": _OPERATORS,
        "release": _OPERATORS,
        "tag": _OPERATORS,
        "label": _OPERATORS,
        "record": _OPERATORS,
        "checkpoint": _OPERATORS,
        "evaluate": _OPERATORS,
        "end_run": ("admin",),
    }
)
"""Everything that needs a right, and the roles that have it.

join            the link of actors: send steps, get policies and commands
ask_how_it_is   status, clocks and findings: `tandem doctor HOST:PORT` on a robot's computer asks for them
see             the page, the other numbers of the API, the stored episodes
stop_robot      `stop` with `stay`: a robot stands still until `resume`
end_run         `stop` without it: the run ends
The others are the commands of the same name (`commands.COMMANDS`).
"""

IN_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "join": "send steps as an actor",
        "ask_how_it_is": "ask how the run is",
        "see": "see the run",
        "watch": "watch a robot",
        "stop_robot": "stop a robot",
        "pause": "pause",
        "resume": "let a robot move again",
        "take_over": "take over",
        "release": "give control back",
        "tag": "say why somebody took over",
        "label": "label an episode",
        "record": "record or discard an episode",
        "checkpoint": "save a checkpoint",
        "evaluate": "start an evaluation",
        "end_run": "end the run",
    }
)


def right_for(command: str, detail: Mapping[str, Any]) -> str:
    """The right that a command needs."""
    if command == "stop":
        return "stop_robot" if detail.get("stay") is True else "end_run"
    return command


def may(role: Role, right: str) -> bool:
    return role in ALLOWED[right]


def rights_of(role: Role) -> list[str]:
    """All rights of a role, for a page that offers only what is possible."""
    return [right for right, roles in ALLOWED.items() if role in roles]


def why_not(name: str, role: Role, right: str) -> str:
    """A sentence for the person who may not."""
    roles = " or ".join(dict.fromkeys(ALLOWED[right]))
    article = "an" if role[0] in "ao" else "a"
    return f"'{name}' is {article} {role} and may not {IN_WORDS[right]}; that takes the role {roles} (`tandem access RUN add`)"
