"""The table of commands is the one that the hub, the page and the documentation use."""

import re
from pathlib import Path

import pytest

from tandem.link.commands import ACTOR_COMMANDS, COMMANDS, PAGE_ROBOT_COMMANDS, PAGE_RUN_COMMANDS, RECORD_PHASES, TRAINER_COMMANDS
from tandem.link.messages import BadFrame, Command

DOCS = Path(__file__).parent.parent.parent / "docs" / "link.md"


def test_who_receives_which_command() -> None:
    assert set(TRAINER_COMMANDS) == {"pause", "resume", "checkpoint", "evaluate", "stop"}
    assert set(ACTOR_COMMANDS) == {"pause", "resume", "take_over", "release", "tag", "label", "record", "stop", "watch"}
    assert set(TRAINER_COMMANDS) | set(ACTOR_COMMANDS) == set(COMMANDS), "a command that nobody receives"


def test_a_page_gives_no_command_that_the_hub_must_send_itself() -> None:
    """Taking over and watching go through `RemoteControl`, which knows who has control."""
    assert set(PAGE_ROBOT_COMMANDS) == {"pause", "resume", "tag", "label", "record", "stop"}
    assert set(PAGE_RUN_COMMANDS) == set(TRAINER_COMMANDS)


def test_a_message_takes_the_commands_of_the_table_and_no_others() -> None:
    for name in COMMANDS:
        Command.from_fields({"command": name, "to": "all", "detail": {}})
    with pytest.raises(BadFrame, match="expected one of pause, resume"):
        Command.from_fields({"command": "dance", "to": "all", "detail": {}})


def test_the_documentation_lists_every_command_with_its_receivers() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (trainer|actors|trainer, actors) \|", DOCS.read_text(), re.MULTILINE)
    expected = {name: ", ".join(who for who in ("trainer", "actors") if getattr(info, who)) for name, info in COMMANDS.items()}
    assert dict(rows) == expected


def test_every_recording_command_is_possible_in_some_phase() -> None:
    of_training = {"wrong"}  # takes back the reward of an episode of a run, in any phase
    named = set(re.findall(r"\w+", COMMANDS["record"].detail["what"])) - {"or"} - of_training
    assert named == set(RECORD_PHASES) and all(RECORD_PHASES.values())
