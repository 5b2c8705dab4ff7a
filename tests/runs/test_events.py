"""Every kind of event is listed with what it says, and every listed kind is written somewhere."""

import ast
from pathlib import Path

import tandem
from tandem.runs.events import EVENTS, FREQUENT


def kinds_written() -> dict[str, str]:
    """The constants that are given to `event(...)`, `_event(...)` or `events.add(...)` anywhere, and a place for each."""
    found = {}
    for file in Path(tandem.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
            to_events = isinstance(called, ast.Attribute) and called.attr == "add" and ast.unparse(called.value).endswith("events")
            if isinstance(node, ast.Call) and (name in ("event", "_event") or to_events) and node.args:
                constants = [part.value for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
                found |= {str(kind): f"{file.name}:{node.lineno}" for kind in constants}
    return found


def test_each_kind_is_listed_and_each_listed_kind_is_written() -> None:
    written = kinds_written()
    assert {kind: place for kind, place in written.items() if kind not in EVENTS} == {}, "write a sentence in runs/events.py"
    assert set(EVENTS) - set(written) == set(), "nobody writes these any more"
    assert set(FREQUENT) <= set(EVENTS)
