"""The Chinese README says what the English one says: the same sections, commands, code, figures, links and pictures."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENGLISH, CHINESE = ((ROOT / name).read_text() for name in ("README.md", "README.zh.md"))

BLOCKS = r"^```.*?^```"
PARTS = {
    "sections, by their level": lambda text: re.findall(r"^#+", without_code(text), re.M),
    "blocks of code": lambda text: re.findall(BLOCKS, text, re.M | re.S),
    "names in code": lambda text: sorted(" ".join(name.split()) for name in re.findall(r"`([^`]+)`", without_code(text))),
    "links": lambda text: sorted(set(re.findall(r"\]\(([^)]+)\)", text)) - {"README.md", "README.zh.md"}),
    "figures": lambda text: sorted(re.findall(r"\d[\d.,]*\d|\d", without_code(text))),
    "rows of tables": lambda text: [line.count(" |") for line in text.splitlines() if line.startswith("|")],
}


def without_code(text: str) -> str:
    return re.sub(BLOCKS, "", text, flags=re.M | re.S)


@pytest.mark.parametrize("part", PARTS)
def test_both_readmes_have_the_same(part: str) -> None:
    english, chinese = Counter(PARTS[part](ENGLISH)), Counter(PARTS[part](CHINESE))
    assert english == chinese, f"only in English: {english - chinese}; only in Chinese: {chinese - english}"


def test_every_paragraph_was_translated() -> None:
    for line in without_code(CHINESE).splitlines():
        words = re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)
        assert len(re.findall(r"[A-Za-z]{3,}", words)) < 12 or re.search(r"[\u4e00-\u9fff]", words), f"not Chinese: {line}"
