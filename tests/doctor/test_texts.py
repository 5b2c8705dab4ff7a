"""Every finding has a text in both languages, a page, and a command that can be typed."""

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tyro

from tandem.cli import COMMANDS
from tandem.doctor.checks import CHECKS
from tandem.doctor.command import DoctorArgs
from tandem.doctor.findings import Finding, Seconds, Share
from tandem.doctor.pages import explain, index, page
from tandem.doctor.texts import TEXTS, describe
from tandem.errors import ConfigError
from tandem.off_policy.cloning import CloneArgs
from tandem.programs import demos, reward
from tandem.programs.actor import ActorArgs
from tandem.programs.arguments import LearnerArgs, PPOArgs, TrainArgs

PAGES = Path(__file__).parent.parent.parent / "docs" / "doctor"
FACTS = r"(?<!{){(\w+)}"


def test_every_check_has_a_text_and_every_text_a_check() -> None:
    assert set(TEXTS) == {check.__name__ for check in CHECKS}


@pytest.mark.parametrize("name", TEXTS)
def test_both_languages_say_the_same(name: str) -> None:
    text = TEXTS[name]
    for english, chinese in (text.what, text.cause, text.criterion, *text.evidence):
        assert english and chinese
        assert sorted(re.findall(FACTS, english)) == sorted(re.findall(FACTS, chinese)), "the same facts"
        assert re.findall(r"^\[\w+\]", english) == re.findall(r"^\[\w+\]", chinese), "on the same condition"
        assert "{" in english or re.search(r"[\u4e00-\u9fff]", chinese), f"not Chinese: {chinese}"
        assert not re.search(r"[\u4e00-\u9fff]", english)


@pytest.mark.parametrize("name", TEXTS)
def test_the_page_agrees_with_the_table(name: str) -> None:
    """`python -m tandem.doctor.pages docs/doctor` regenerates them."""
    assert (PAGES / f"{name}.md").read_text() == page(name)
    assert TEXTS[name].cause[0] in explain(name, "en") and TEXTS[name].cause[1] in explain(name, "zh")


def test_the_list_of_pages_agrees_with_the_table() -> None:
    assert (PAGES / "README.md").read_text() == index()
    assert {path.stem for path in PAGES.glob("*.md")} == {*TEXTS, "README"}


def test_an_unknown_name_is_answered_with_all_names() -> None:
    with pytest.raises(ConfigError, match="still_random"):
        explain("still_ramdom", "en")


def help_of(command: str) -> str:
    """The output of `tandem COMMAND --help`."""
    own = {"train": TrainArgs, "learner": LearnerArgs, "actor": ActorArgs, "ppo": PPOArgs, "bc": CloneArgs, "doctor": DoctorArgs}
    if command in ("demos", "reward"):
        of = demos if command == "demos" else reward
        return "".join(_help(of.action(name)) for name in of.ACTIONS)
    return _help(own.get(command, COMMANDS[command].function()))


def _help(function: Callable[..., Any]) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), pytest.raises(SystemExit):
        tyro.cli(function, args=["--help"])
    return shown.getvalue()


def test_suggested_commands_exist_and_take_their_options() -> None:
    lines = [(name, line) for name, text in TEXTS.items() for line in (text.next, text.next_unscripted)]
    suggested = [(name, match[1], match[2]) for name, line in lines for match in re.finditer(r"tandem (\w+)([^#&;]*)", line)]
    assert {command for _, command, _ in suggested} <= set(COMMANDS)
    known = {command: help_of(command) for command in {command for _, command, _ in suggested}}
    for name, command, arguments in suggested:
        for option in re.findall(r"--[a-z-]+", arguments):
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", known[command]), f"{name} suggests `tandem {command} {option}`"


def test_facts_are_filled_in_with_separators_and_units() -> None:
    facts = {"actor_step": 1234, "random_steps": 1_000_000, "learner_step": 500, "left": Seconds(5000)}
    english = describe(Finding("still_random", "problem", facts), "en", {"task": "reach"})
    assert english.evidence == [
        "actor step 1,234 of random_steps 1,000,000, while the learner is at step 500",
        "83 min left at this rate",
    ]
    assert english.next == "tandem train reach --random-steps 0"
    chinese = describe(Finding("still_random", "problem", facts | {"left": None}), "zh", {})
    assert len(chinese.evidence) == 1 and "1,234" in chinese.evidence[0], "a line with an unknown fact is left out"
    assert chinese.next == "tandem train TASK --random-steps 0", "an unknown name stays in capitals"
    assert describe(Finding("demos_idle", "warning", {"short": "a.db", "share": Share(0.456)}), "en", {}).evidence == [
        "a.db: 46 % of the steps do not move"
    ]


def test_a_line_with_a_condition_is_printed_only_if_it_holds() -> None:
    described = describe(Finding("no_answer", "problem", {"address": "a:1", "connected": True}), "en", {})
    assert described.evidence == ["a:1: the connection opens, but no reply comes within 3 s"]


def test_braces_of_json_survive_in_a_command() -> None:
    described = describe(Finding("paused", "warning", {"learner_step": 5}), "en", {"run": "runs/a", "address": "h:1"})
    assert """-d '{"command": "resume"}' http://h:1/api/command""" in described.next


def test_an_environment_without_a_script_is_not_told_to_use_one() -> None:
    for name, text in TEXTS.items():
        needs_script = "--scripted-demos" in text.next or "--operator scripted" in text.next
        needs_script |= "tandem record" in text.next and "--operator" not in text.next
        assert not needs_script or text.next_unscripted, f"{name}: what does somebody type whose environment has no script?"
        assert "script" not in text.next_unscripted
    finding = Finding("no_demos", "note", {})
    assert describe(finding, "en", {"task": "mw:peg-v3", "scripted": False}).next == "tandem record mw:peg-v3 --operator browser --demos 25"
    assert describe(finding, "en", {"task": "reach", "scripted": True}).next == "tandem train reach --scripted-demos 25"
