"""`tandem latch`: which robots of this machine must stand still, and why; and a word at the robot that one may move again."""

from __future__ import annotations

from pathlib import Path

from tandem.acting.latch import FOLDER, Entry, all_latches, release_file, short
from tandem.errors import ConfigError
from tandem.programs.terminal import say


def latch(folder: Path = FOLDER, release: str | None = None) -> None:
    """Which robots of this machine stand still until somebody says resume, and why.

    Args:
        folder: Where actors keep it: `--latch` of `tandem actor`; of a run's own actors RUN/latch.
        release: Name of an actor that does not run: its robot may move again when the actor is started. Look at the robot first.
    """
    found = [entry for entry in all_latches(folder) if entry.holds]
    chosen = [entry for entry in found if release is not None and release in (entry.name, entry.path.stem)]
    if release is not None and not chosen:
        held = ", ".join(f"'{_name(entry)}'" for entry in found) or "none"
        raise ConfigError(f"no robot of an actor '{release}' is held in {folder}; held are: {held}")
    if not found:
        say(f"no robot is held in {folder}")
    for entry in found:
        say(f"'{_name(entry)}' ({short(entry.task) or 'task unknown'}) stands still: {'; '.join(map(str, entry.holds.values()))}")
    for entry in chosen:
        if not release_file(entry.path):
            raise ConfigError(f"the actor '{_name(entry)}' is running: say resume in the page, or stop the actor and type this again")
        say(f"'{_name(entry)}' may move again when its actor is started")


def _name(entry: Entry) -> str:
    """A damaged file does not say whose it is; its own name does."""
    return short(entry.name) or entry.path.stem
