"""A part of a run on a node of a Ray cluster: Ray places this object, and it starts the same process as on one machine.

Ray starts the object again, here or on another node, when its node or its worker is gone; the process is then started anew, and goes on
as any actor that was killed. Imports nothing of Tandem's that is heavy: every node imports it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

AT = "@"
"""Before the name of a file in a command line: where the node has it."""


class Seen(NamedTuple):
    """A look at a placed part."""

    code: int | None
    """None while it is alive."""
    pid: int
    host: str
    start: str
    """Another one after Ray has started it again."""


class PlacedPart:
    """Starts a process and watches it. It ends together with this object: its standard input closes."""

    def __init__(self, arguments: Sequence[str], files: Mapping[str, bytes], output: str | None, folder: str) -> None:
        """`files` are written here, readable by their owner alone; `@name` in the arguments becomes their path. `folder`: where the
        command was typed; machines that share it understand relative paths."""
        self._folder = tempfile.TemporaryDirectory(prefix="tandem_")
        self._names = tuple(files)
        for name, data in files.items():
            with open(self._path(name), "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(data)
        places = {f"{AT}{name}": self._path(name) for name in files}
        command = [sys.executable, "-P", "-m", "tandem.programs.parts", *(places.get(each, each) for each in arguments)]
        environment, cwd = {**os.environ, "PYTHONSAFEPATH": "1"}, folder if Path(folder).is_dir() else None
        with open(output, "ab") if output is not None else contextlib.nullcontext() as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, cwd=cwd, start_new_session=True
            )
        self._start = os.urandom(8).hex()

    def _path(self, name: str) -> str:
        return str(Path(self._folder.name) / name)

    def files(self) -> list[str]:
        """Where this node has them."""
        return [self._path(name) for name in self._names]

    def look(self, wait_s: float = 0.0) -> Seen:
        """Waits at most so long for its end."""
        try:
            code = self._process.wait(wait_s) if wait_s else self._process.poll()
        except subprocess.TimeoutExpired:
            code = None
        return Seen(code, self._process.pid, socket.gethostname(), self._start)

    def ask_to_stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def end(self, seconds: float) -> Seen:
        """Wait for its end; kill it if it has not ended after this time."""
        if self.look(seconds).code is None:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._folder.cleanup()
        return self.look()
