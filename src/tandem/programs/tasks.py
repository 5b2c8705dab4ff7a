"""`tandem tasks`: the tasks that can be trained."""

from __future__ import annotations

from tandem.envs.registry import TASKS
from tandem.programs.terminal import console


def tasks() -> None:
    """List the tasks that come with Tandem."""
    width = max(map(len, TASKS))
    for name, entry in TASKS.items():
        console.print(f"[bold]{name:{width}}[/] {entry.summary}")
    console.print("Also any Gymnasium id with continuous actions, or module:Id for your own environment;")
    console.print("in another Python: serve:PYTHON:module:Id; on another machine: ws://HOST:PORT (`tandem serve`).")
