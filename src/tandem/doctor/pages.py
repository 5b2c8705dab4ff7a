"""A page per finding, made of the table of texts: `tandem doctor explain NAME`, and `python -m tandem.doctor.pages docs/doctor`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tandem.doctor.checks import CHECKS
from tandem.doctor.texts import LANGUAGES, TEXTS, Language, Text, Words
from tandem.errors import ConfigError

_HEADS: tuple[Words, ...] = (
    ("What it says", "含义"),
    ("What is shown as evidence", "依据"),
    ("How it is told", "如何判断"),
    ("Likely cause", "可能原因"),
    ("What to type next", "下一步"),
)


def explain(name: str, lang: Language) -> str:
    """Everything about one finding, as plain text."""
    if name not in TEXTS:
        raise ConfigError(f"no finding '{name}'; there are {', '.join(check.__name__ for check in CHECKS)}")
    return f"{name}\n\n" + _body(TEXTS[name], lang, "{}:\n  {}\n")


def page(name: str) -> str:
    english, chinese = (_body(TEXTS[name], lang, "**{}.** {}\n") for lang in LANGUAGES)
    return f"# {name}\n\n{english}\n## 中文\n\n{chinese}"


def _body(text: Text, lang: Language, form: str) -> str:
    which = LANGUAGES.index(lang)
    evidence = "; ".join(_spoken(words[which]) for words in text.evidence)
    command = f"`{_spoken(text.next)}`"
    parts = (text.what[which], evidence, text.told_by[which], text.cause[which], command)
    return "\n".join(form.format(head[which], part) for head, part in zip(_HEADS, parts, strict=True))


def _spoken(template: str) -> str:
    """A template without its machinery: names where values will be."""
    template = re.sub(r"^\[\w+\] ?", "", template)
    return re.sub(r"(?<!{){(\w+)}", lambda match: match[1].upper(), template).replace("{{", "{").replace("}}", "}")


def index() -> str:
    """The table of all findings, in the order of importance."""
    rows = [
        f"| [{check.__name__}]({check.__name__}.md) | {TEXTS[check.__name__].what[0]} | {TEXTS[check.__name__].what[1]} |"
        for check in CHECKS
    ]
    return "\n".join(["# All findings", "", "In the order of importance.", "", "| finding | | |", "| --- | --- | --- |", *rows]) + "\n"


def write_pages(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.md"):
        old.unlink()
    (folder / "README.md").write_text(index())
    for name in TEXTS:
        (folder / f"{name}.md").write_text(page(name))


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
