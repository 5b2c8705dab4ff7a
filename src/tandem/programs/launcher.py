"""Starting the parts of a run: a `Launcher` starts a part (hub, trainer, actor, film) and gives a handle to it.

`LocalLauncher` starts processes on this machine. Another launcher needs the same two methods; nothing else in Tandem starts anything.

A part is started with `python -P`, so the working directory is not on its path: a file `types.py` there would otherwise replace the
standard library's. A person's own environment (`module:Id`) is found where Python finds any module: installed, or on PYTHONPATH.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

DISK_FULL = 75
"""Exit code of a part that ended because the disk is full: the same start works when there is room (EX_TEMPFAIL of sysexits.h)."""


@dataclass(frozen=True)
class Part:
    """One part of a run: the name that people read, and the arguments of `python -m tandem.programs.parts`."""

    name: str
    arguments: tuple[str, ...]


class Handle(Protocol):
    """A part that was started."""

    @property
    def pid(self) -> int:
        """Its process id, on the machine where it runs."""
        ...

    @property
    def code(self) -> int | None:
        """None while it is alive, then its exit code; the negative number of the signal that ended it, if one did."""
        ...

    @property
    def log(self) -> str:
        """Where to read its output, for an error message."""
        ...

    def ask_to_stop(self) -> None:
        """Ask it to finish what it does and end; returns at once."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait until it has ended; kill it if it has not after this time."""
        ...

    def stop(self, seconds: float) -> None:
        """Ask it to stop, wait, and kill it if it has not ended after this time."""
        ...


class Launcher(Protocol):
    """Starts parts somewhere."""

    def start(self, part: Part) -> Handle: ...


class LocalProcess:
    """A part as a process on this machine."""

    def __init__(self, process: subprocess.Popen[bytes], log: str) -> None:
        self._process, self._log = process, log

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        return self._process.poll()

    @property
    def log(self) -> str:
        return self._log

    def ask_to_stop(self) -> None:
        if self.code is None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self, seconds: float) -> None:
        self.ask_to_stop()
        self.wait(seconds)

    def wait(self, seconds: float) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()


class LocalLauncher:
    """Processes on this machine. They print to this terminal, or to the file `output`."""

    def __init__(self, output: Path | None = None) -> None:
        self._output = output

    def start(self, part: Part) -> LocalProcess:
        command = [sys.executable, "-P", "-m", "tandem.programs.parts", *part.arguments]
        if self._output is None:
            return LocalProcess(self._popen(command), "the lines above")
        with self._output.open("ab") as output:
            return LocalProcess(self._popen(command, stdout=output, stderr=output), str(self._output))

    def _popen(self, command: list[str], **streams: int | object) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C reaches the supervisor alone, which stops the parts in their order. The pipe tells the part
        # that the supervisor is gone, even if it was killed.
        environment = {**os.environ, "PYTHONSAFEPATH": "1"}
        return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, env=environment, **streams)  # pyright: ignore
