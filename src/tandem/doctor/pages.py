"""One page per finding, generated from `texts.py`: `tandem doctor explain NAME`, and `python -m tandem.doctor.pages docs/doctor`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tandem.doctor.checks import CHECKS
from tandem.doctor.texts import LANGUAGES, TEXTS, Language, Text, Words
from tandem.errors import ConfigError

_HEADS: tuple[Words, ...] = (
    ("What is wrong", "问题"),
    ("Evidence", "依据"),
    ("Detection rule", "判断标准"),
    ("Likely cause", "可能原因"),
    ("What to type next", "下一步"),
)

_INDEX_HEAD = (
    "# All findings",
    "",
    "The most important first. Generated from `src/tandem/doctor/texts.py` by `python -m tandem.doctor.pages docs/doctor`.",
    "",
    "| finding | what is wrong | 问题 |",
    "| --- | --- | --- |",
)


def explain(name: str, lang: Language) -> str:
    """The page of one finding as plain text."""
    if name not in TEXTS:
        raise ConfigError(f"no finding '{name}'; the findings are {', '.join(check.__name__ for check in CHECKS)}")
    sections = (f"{head}:\n" + "\n".join(f"  {line}" for line in lines) for head, lines in _sections(TEXTS[name], lang))
    return f"{name}\n\n" + "\n\n".join(sections) + "\n"


def page(name: str) -> str:
    """The page of one finding as Markdown, in both languages."""
    english, chinese = ("\n".join(_paragraph(head, lines) for head, lines in _sections(TEXTS[name], lang)) for lang in LANGUAGES)
    return f"# {name}\n\n{english}\n## 中文\n\n{chinese}"


def _paragraph(head: str, lines: list[str]) -> str:
    if len(lines) > 1:
        return f"**{head}**\n\n" + "".join(f"* {line}\n" for line in lines)
    return f"**{head}**{': ' if head.isascii() else '：'}{lines[0]}\n"


def _sections(text: Text, lang: Language) -> list[tuple[str, list[str]]]:
    """The headings and the lines under each. Of several lines of evidence, those are printed whose facts are known."""
    which = LANGUAGES.index(lang)
    evidence = [_readable(words[which]) for words in text.evidence]
    parts = ([text.what[which]], evidence, [text.criterion[which]], [text.cause[which]], _commands(text, which))
    return [(head[which], lines) for head, lines in zip(_HEADS, parts, strict=True)]


def _commands(text: Text, which: int) -> list[str]:
    without = ("without a scripted operator", "没有脚本操作者的环境")[which]
    other = [f"{without}: `{_readable(text.next_unscripted)}`"] if text.next_unscripted else []
    return [f"`{_readable(text.next)}`", *other]


def _readable(template: str) -> str:
    """A template for people: names in capitals where values will be, without conditions and doubled braces."""
    template = re.sub(r"^\[\w+\] ?", "", template)
    return re.sub(r"(?<!{){(\w+)}", lambda match: match[1].upper(), template).replace("{{", "{").replace("}}", "}")


def index() -> str:
    """The table of all findings, the most important first."""
    names = [check.__name__ for check in CHECKS]
    rows = [f"| [{name}]({name}.md) | {TEXTS[name].what[0]} | {TEXTS[name].what[1]} |" for name in names]
    return "\n".join([*_INDEX_HEAD, *rows]) + "\n"


def write_pages(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.md"):
        old.unlink()
    (folder / "README.md").write_text(index())
    for name in TEXTS:
        (folder / f"{name}.md").write_text(page(name))


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
