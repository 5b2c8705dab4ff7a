"""A Chinese text says what the English one says: the same sections, commands, code, figures, links and pictures."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TRANSLATED = (
    "README.md",
    "docs/your-environment.md",
    "docs/gear_pick.md",
    "docs/hybrid.md",
    "docs/your-robot.md",
    "docs/franka.md",
    "docs/rewards.md",
    "docs/demonstrations.md",
    "docs/sweeps.md",
    "docs/when-to-help.md",
)


def texts(name: str) -> tuple[str, str]:
    """The English and the Chinese text."""
    return (ROOT / name).read_text(), (ROOT / name).with_suffix(".zh.md").read_text()


IN_BOTH = {name for page in [*ROOT.glob("*.zh.md"), *ROOT.glob("docs/*.zh.md")] for name in (page.name, page.name.replace(".zh", ""))}
"""A Chinese text may link to the Chinese page where the English one links to the English page."""
BLOCKS = r"^```.*?^```"
PARTS = {
    "sections, by their level": lambda text: re.findall(r"^#+", without_code(text), re.M),
    "blocks of code": lambda text: re.findall(BLOCKS, text, re.M | re.S),
    "names in code": lambda text: sorted(" ".join(name.split()) for name in re.findall(r"`([^`]+)`", without_code(text))),
    "links": lambda text: sorted(set(re.findall(r"\]\(([^)]+)\)", text)) - IN_BOTH),
    "figures": lambda text: sorted(re.findall(r"\d[\d.,]*\d|\d", without_code(text))),
    "rows of tables": lambda text: [line.count(" |") for line in text.splitlines() if line.startswith("|")],
}


def without_code(text: str) -> str:
    return re.sub(BLOCKS, "", text, flags=re.M | re.S)


@pytest.mark.parametrize("name", TRANSLATED)
@pytest.mark.parametrize("part", PARTS)
def test_both_languages_have_the_same(part: str, name: str) -> None:
    english, chinese = (Counter(PARTS[part](text)) for text in texts(name))
    assert english == chinese, f"only in English: {english - chinese}; only in Chinese: {chinese - english}"


@pytest.mark.parametrize("name", TRANSLATED)
def test_every_paragraph_was_translated(name: str) -> None:
    for line in without_code(texts(name)[1]).splitlines():
        words = re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)
        assert len(re.findall(r"[A-Za-z]{3,}", words)) < 12 or re.search(r"[\u4e00-\u9fff]", words), f"not Chinese: {line}"
