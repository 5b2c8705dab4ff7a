"""What a person does at a page: steering by keys and gamepad, and commands."""

from __future__ import annotations

import math
from collections.abc import Mapping as Map
from collections.abc import Sequence
from typing import Any

from tandem.dashboard.open_page import OpenPage
from tandem.link.commands import PAGE_ROBOT_COMMANDS, PAGE_RUN_COMMANDS
from tandem.link.remote_control import RemoteControl
from tandem.teleop.mapping import Mapping


class PageInput:
    """Handles the messages of pages that watch a running hub."""

    def __init__(self, remote: RemoteControl, mapping: Mapping) -> None:
        self._remote, self._mapping = remote, mapping

    def handle_command(self, page: OpenPage, message: Map[str, Any]) -> str | None:
        """Returns the problem, the empty text if there is none, or None if the page needs no answer."""
        do = message["do"]
        if do == "steer":
            self._remote.steer(page.id, self._axes(message))
            return None
        if do == "take":
            return self._remote.take_control(page.id, page.source, page.asker)
        if do == "let_go":
            self._remote.release_control(page.id, page.asker)
            return ""
        if do == "robot" and message["command"] in PAGE_ROBOT_COMMANDS:
            return self._remote.command(message["command"], page.source, dict(message.get("detail") or {}), page.asker)
        if do == "run" and message["command"] in PAGE_RUN_COMMANDS:
            return self._remote.command(message["command"], str(message.get("to", "all")), {}, page.asker)
        raise ValueError(f"unknown command {do!r:.50}")

    def _axes(self, message: Map[str, Any]) -> Sequence[float]:
        """The sum of keys and gamepad, for each axis in [-1, 1]."""
        turned = None if message.get("turn") is None else _numbers([message["turn"]])[0]
        axes = self._mapping.axes_from_keys({str(code) for code in message.get("keys", ())}, turned)
        pad = message.get("pad")
        if pad is not None:
            axes = axes + self._mapping.axes_from_pad(_numbers(pad["axes"]), _numbers(pad["buttons"]), turned)
        return [max(-1.0, min(1.0, float(value))) for value in axes]


def mapping_for_page(mapping: Mapping) -> dict[str, Any]:
    """What the browser needs: which keys move, which give commands, and the table for people."""
    tables = mapping.tables
    return {
        "table": mapping.table(),
        "keys": [code for code, does in tables["keys"].items() if does in ("fine",) or does[1:] in mapping.axes],
        "key_commands": dict(tables["key_commands"]),
        "pad_commands": dict(tables["pad_commands"]),
        "hold": [button for button, does in tables["pad_buttons"].items() if does == "hold"],
    }


def _numbers(values: Any) -> list[float]:
    numbers = [float(value) for value in values[:32]]
    if not all(math.isfinite(value) for value in numbers):
        raise ValueError("a NaN or infinite value")
    return numbers
