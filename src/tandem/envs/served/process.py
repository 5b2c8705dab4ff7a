"""A process that serves an environment in another Python: started, watched and ended by us.

    serve:PYTHON:module:Id      PYTHON: an interpreter, or the folder of a virtual environment

The process runs `server.py` on a port of the loopback interface, with a token of its own. It ends when we close it, and when we are
gone: it holds the other end of a pipe.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import time
import weakref
from pathlib import Path
from typing import Any, BinaryIO

from tandem.envs.served import server
from tandem.envs.served.client import Address, Deadlines
from tandem.errors import ConfigError, EnvironmentFailed, ServedError, UnknownTaskError

PREFIX = "serve:"
_ENDING_S = 5.0
_REAPED_S = 0.05
"""A process that dies closes its connections a moment before its exit code is known."""


def split_name(name: str) -> tuple[str, str]:
    """`serve:PYTHON:module:Id` -> interpreter and environment."""
    python, _, env = name.removeprefix(PREFIX).partition(":")
    if not python or not env:
        raise ConfigError(f"'{name}' must be serve:PYTHON:module:Id, with PYTHON an interpreter or the folder of a virtual environment")
    return python, env


def find_interpreter(python: str) -> Path:
    """The interpreter that a person names: its path, a virtual environment, or a command."""
    path = Path(python).expanduser()
    if path.is_dir():
        path = path / "bin" / "python"
    elif os.sep not in python and shutil.which(python):
        path = Path(shutil.which(python) or python)
    if not path.is_file() or not os.access(path, os.X_OK):
        raise ConfigError(
            f"there is no Python interpreter at {path}. In serve:PYTHON:module:Id, PYTHON is the path of an interpreter or of a virtual "
            f"environment's folder (made with `python3 -m venv FOLDER`)."
        )
    return path.absolute()  # not resolved: a virtual environment's interpreter is a link


class ServedProcess:
    """One process with one environment. Made at once; `address` waits until it serves."""

    def __init__(self, name: str, render: bool = False, watched: bool = False) -> None:
        interpreter, self._env = split_name(name)
        self._name, self._python = name, find_interpreter(interpreter)
        self._token = secrets.token_urlsafe(24)
        reading, writing = os.pipe()
        command = [str(self._python), server.__file__, self._env, "--port", "0", "--ready-fd", str(writing)]
        try:
            self._process = subprocess.Popen(
                [*command, *(["--render"] if render else ["--watched"] if watched else [])],
                stdin=subprocess.PIPE,
                stdout=2,  # what the environment prints must not get between the lines of a command's own output
                pass_fds=(writing,),
                env={**_inherited(), "TANDEM_TOKEN": self._token},
                start_new_session=True,  # Ctrl-C is for us, and we end it when we have finished
            )
        except OSError as problem:
            os.close(reading)
            raise ConfigError(f"{self._python} could not be started: {problem.strerror}. Is it a Python interpreter?") from None
        finally:
            os.close(writing)
        self._reading = os.fdopen(reading, "rb")
        self._end = weakref.finalize(self, _end, self._process, self._reading)

    @property
    def pid(self) -> int:
        return self._process.pid

    def address(self, deadlines: Deadlines) -> Address:
        """Where it serves, once the environment is made; every way in which that can fail has its own words."""
        until, data = time.monotonic() + deadlines.start, b""
        while not data.endswith(b"\n"):
            ready, _, _ = select.select([self._reading], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                self.stop()
                raise ServedError(
                    f"environment '{self._name}' was not made within {deadlines.start:g} s in {self._python}. Likely cause: it waits for "
                    f"something, or is slower than that; TANDEM_ENV_START_S sets the deadline."
                )
            got = os.read(self._reading.fileno(), 65536)
            if not got:
                raise self._ended()
            data += got
        report = json.loads(data)
        if "port" not in report:
            self.stop()
            raise self._not_made(report)
        return Address(f"ws://127.0.0.1:{report['port']}", self._token)

    def _not_made(self, report: dict[str, Any]) -> Exception:
        if "missing" in report:
            return ConfigError(
                f"{self._python} lacks {' and '.join(report['missing'])}, which serving an environment needs: "
                f"{self._python} -m pip install {' '.join(report['missing'])}"
            )
        error, module = report["error"], self._env.rpartition(":")[0]
        last = f"{error['type']}: {error['message']}"
        missing = error.get("module")
        if missing and (module == missing or module.startswith(f"{missing}.")):
            return UnknownTaskError(
                f"no environment '{self._name}': {self._python} cannot import '{module}' ({last}). It must be installed there, or its "
                f"folder be on PYTHONPATH: `PYTHONPATH=FOLDER tandem ...`."
            )
        if missing:
            return ConfigError(
                f"environment '{self._name}' needs the package '{missing}', which {self._python} does not have ({last}): "
                f"{self._python} -m pip install {missing.partition('.')[0]}"
            )
        return EnvironmentFailed(f"environment '{self._name}' could not be made: {last}. Its traceback ends with:\n{error['traceback']}")

    def check(self) -> None:
        """Its connection is broken: most likely it is ending just now."""
        try:
            self._process.wait(_REAPED_S)
        except subprocess.TimeoutExpired:
            return
        raise self._ended()

    def _ended(self) -> ServedError:
        try:
            code = self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self.stop()
        return ServedError(f"the process of environment '{self._name}' ({self._python}) {how_it_ended(code)}")

    def stop(self) -> None:
        """End it: asked first, killed if it does not."""
        self._end()


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended by itself with code {code}; what it printed is above"
    name = signal.Signals(-code).name if -code in signal.valid_signals() and -code < signal.SIGRTMIN else f"signal {-code}"
    likely = {
        "SIGKILL": "somebody killed it, or the system was out of memory",
        "SIGSEGV": "a fault in compiled code of the environment or of its simulator",
        "SIGABRT": "compiled code of the environment or of its simulator gave up; what it printed is above",
    }.get(name, "somebody ended it")
    return f"was ended by {name}: {likely}"


def _inherited() -> dict[str, str]:
    """Our environment, without what makes one Python look for the packages of another."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "__PYVENV_LAUNCHER__")}


def _end(process: subprocess.Popen[bytes], reading: BinaryIO) -> None:
    reading.close()
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
