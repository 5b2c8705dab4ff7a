"""Continuing a run from its folder, which may come from somebody else."""

from __future__ import annotations

from pathlib import Path

from tandem.allowed import require_allowed
from tandem.runs.folder import RunFolder

WHICH_TASK = "which task? `tandem tasks` lists them; `--resume RUN` continues a run"


def require_allowed_code(run: Path, typed: str | None, task: str, operator: str = "none") -> None:
    """A run that is continued may name code of somebody's own. A task or operator that was typed is the person's word."""
    folder = RunFolder.open(run)
    if typed != task:
        require_allowed(task, folder.config_file)
    if operator == folder.info.settings.get("operator"):
        require_allowed(operator, folder.config_file)
