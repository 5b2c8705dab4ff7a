"""A person with a phone beside a robot that asks: told, helps with a finger, says why, and stops it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.data.journal import Journal
from tandem.types import Transition
from tests.dashboard.page_samples import ROOT, Visitor
from tests.waiting import wait_for

PHONE = {"width": 390, "height": 844}
LISTEN = """
window.tones = 0;
const make = AudioContext.prototype.createOscillator;
AudioContext.prototype.createOscillator = function () { tones++; return make.call(this); };
"""
"""Counts the tones that the page plays."""


@pytest.fixture
def link(tmp_path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.dashboard.asking_run", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate(timeout=20)


def stored(folder: Path) -> list[Transition]:
    with Journal.open(folder / "run" / "journal.db") as journal:
        return [step for _, step in journal.read()]


def test_a_robot_that_asks_is_helped_and_stopped_from_a_phone(browser: Any, link: str, tmp_path: Path) -> None:
    context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
    context.add_init_script(LISTEN)
    visitor = Visitor(context, link)
    tab = visitor.tab
    visitor.until("!document.getElementById('ask').hidden && document.title.includes('asks for help')", 20)
    assert tab.inner_text("#ask-reason").startswith("The robot asks for help: half of the time of this episode is over")
    visitor.until("tones >= 2")
    assert visitor.view()["state"] == "holding" and "asks for help" in tab.inner_text("#band")
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], "nothing to the side"
    for button in ("#ask-help", "#halt", "#take"):
        box = tab.locator(button).bounding_box()
        assert box is not None and box["height"] >= 40 and box["y"] + box["height"] <= PHONE["height"], f"{button} can be reached at once"

    tab.tap("#ask-help")
    visitor.until_who("YOU")
    visitor.until("document.getElementById('ask').hidden && !document.title.includes('asks')")
    tab.tap("[data-tag=danger]")
    finger = tab.locator("#touch [data-code=KeyW]")
    finger.dispatch_event("pointerdown", {"pointerId": 1})
    visitor.until("tandem.view.who === 'person' && Math.max(...tandem.view.action.map(Math.abs)) > 0.3")
    finger.dispatch_event("pointerup", {"pointerId": 1})
    tab.tap("#halt")
    visitor.until_who("STOPPED")
    wait_for(lambda: any(step.tag == "danger" for step in stored(tmp_path)), what="steps with the reason")
    steps = stored(tmp_path)
    assert all(step.intervened for step in steps if step.tag) and not visitor.errors
    context.close()
