"""Texts stay in the words of an ordinary robotics engineer: phrases that newcomers stumble over do not come back."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHECKED = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks", "docs", "examples", "src")
"""Files and folders that are checked."""
PHRASES = {
    r"\bobey": "handle",
    r"\blived (through|again|with|it)\b|\bnot lived\b": "made, recorded, repeated",
    r"\btold[ _]by\b|\bHow it is told\b": "detected by, criterion",
    r"(?-i:\bthat (is|are) none\b)": "a NaN or infinite value",
    r"\bin all the world\b": "globally unique",
    r"\bbeside it\b": "next to it, with it, in addition",
    r"\bwhoever\b": "name the person or the program",
    r"\bof before\b": "earlier",
    r"(?<!\")\bhindsight\b": "the name of the computation",
    r"\bopinion": "the name of the value",
    r"\(ours\)": "(not in hil-serl)",
    r'"""Of (the|all|one|a|its)\b': "a sentence that says what the value is",
    r"\bhang together\b": "are related",
    r"\bsign of life\b|\bsigns of life\b": "heartbeat, message",
}
"""Patterns, and the words to use instead."""


def files(name: str) -> list[Path]:
    path = ROOT / name
    found = [path] if path.is_file() else sorted(file for kind in ("*.py", "*.md", "*.js", "*.html", "*.toml") for file in path.rglob(kind))
    return found


def violations(text: str) -> list[str]:
    return [
        f"line {number}: '{match[0]}'; say: {instead}"
        for number, line in enumerate(text.splitlines(), 1)
        for pattern, instead in PHRASES.items()
        if (match := re.search(pattern, line, re.IGNORECASE))
    ]


@pytest.mark.parametrize("name", CHECKED)
def test_texts_are_in_plain_words(name: str) -> None:
    found = [f"{file.relative_to(ROOT)}, {line}" for file in files(name) for line in violations(file.read_text())]
    assert files(name) and not found, "\n".join(found)


def test_a_phrase_is_found_in_any_case() -> None:
    assert violations("It must Obey.") and violations("Names this step in all the world") and violations('    """Of the networks."""')
    assert not violations("the observation of the robot; an order of magnitude")
