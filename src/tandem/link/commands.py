"""Every command that a person or a program can give, once, as data.

The hub, the page and the loops read this table: who receives a command, whether a page offers it, and what its `detail` may hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class CommandInfo:
    """One command."""

    does: str
    """One sentence for people."""
    trainer: bool = False
    """The trainer handles it."""
    actors: bool = False
    """Actors handle it."""
    from_page: bool = True
    """A page may give it by name. The others are sent by the hub itself when a page watches, takes over or lets go."""
    detail: Mapping[str, str] = field(default_factory=dict)
    """What may stand in `detail`, and what it means."""


COMMANDS: Mapping[str, CommandInfo] = MappingProxyType(
    {
        "pause": CommandInfo("Stand still, or stop updating, until `resume`.", trainer=True, actors=True),
        "resume": CommandInfo(
            "Continue after `pause`, `stop` with `stay`, or a lost connection.",
            trainer=True,
            actors=True,
            detail={"ask": "true: only tell a robot that asks for help to go on; what holds it stays"},
        ),
        "take_over": CommandInfo("A person takes control.", actors=True, from_page=False, detail={"holder": "the page that steers"}),
        "release": CommandInfo(
            "A person gives control back to the policy.",
            actors=True,
            from_page=False,
            detail={"holder": "the page that steered", "lost": "true: the page disconnected, so stand still instead"},
        ),
        "tag": CommandInfo("Say why a person took over.", actors=True, detail={"why": "stuck, danger, wrong way or just because"}),
        "label": CommandInfo(
            "End the episode with a person's verdict.", actors=True, detail={"success": "true, false, or null: cut short without a verdict"}
        ),
        "record": CommandInfo(
            "Control the recording, discard an episode, or say that its success was none.",
            actors=True,
            detail={"what": "start, keep, discard, redo or wrong", "episode": "with wrong: the number of the episode"},
        ),
        "checkpoint": CommandInfo("Save a checkpoint now.", trainer=True),
        "evaluate": CommandInfo("Evaluate the policy now.", trainer=True),
        "stop": CommandInfo(
            "End the run.", trainer=True, actors=True, detail={"stay": "true: the robot only stands still, until `resume`"}
        ),
        "watch": CommandInfo(
            "Send views of row 0, for the next 3 seconds.",
            actors=True,
            from_page=False,
            detail={"hz": "views per second, 0 to end", "scene": "true: send the scene too", "camera": "name of a camera to send"},
        ),
    }
)
TRAINER_COMMANDS = tuple(name for name, info in COMMANDS.items() if info.trainer)
ACTOR_COMMANDS = tuple(name for name, info in COMMANDS.items() if info.actors)
PAGE_RUN_COMMANDS = tuple(name for name in TRAINER_COMMANDS if COMMANDS[name].from_page)
"""The buttons for the whole run."""
PAGE_ROBOT_COMMANDS = tuple(name for name in ACTOR_COMMANDS if COMMANDS[name].from_page)
"""The buttons for one robot."""

RECORD_PHASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"start": ("ready",), "keep": ("judging",), "discard": ("recording", "judging"), "redo": ("recording", "judging")}
)
"""For each `what` of `record`, the phases of a recording in which it is possible."""
