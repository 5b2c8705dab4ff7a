"""Text from outside on its way to a terminal or a log: no character of it does anything but be shown."""

from __future__ import annotations

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def printable(text: str, *, lines: bool = False) -> str:
    """The same number of characters; those that control a terminal, start a line or turn the writing direction are replaced.

    With `lines` a line may end: for text that is ours and only quotes something from outside.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or (lines and each in "\n\t") else REPLACEMENT for each in text)
