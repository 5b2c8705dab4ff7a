"""Other libraries, in their own virtual environment (installed here) and in a process that measures on request."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PEERS = Path(__file__).parents[1] / ".venv-peers"
REQUIREMENTS = (
    "sbx-rl==0.28.0",
    "stable-baselines3==2.9.2",
    "rsl-rl-lib==5.5.1",
    "torch==2.13.0",
    "gymnasium==1.4.0",
    "mujoco==4.0.0",
    "imageio",  # Gymnasium's MuJoCo environments do not start without it
)


class Peers:
    """A script of this folder, running in a peer's environment: reads one JSON object per line, writes one JSON value."""

    def __init__(self, script: str, *arguments: str, python: Path | None = None) -> None:
        command = [str(python or python_of(PEERS, REQUIREMENTS)), str(Path(__file__).with_name(script)), *arguments]
        # they print and write log files into their working directory; shown only if they fail
        self._folder = tempfile.TemporaryDirectory()
        self._errors = Path(self._folder.name) / "stderr"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=self._folder.name
            )

    def ask(self, **request: object) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            code, errors = self._process.wait(), self._errors.read_text()
            raise RuntimeError(f"the process of the other libraries ended with code {code} at the request {request}:\n{errors[-3000:]}")
        return json.loads(answer)

    def close(self) -> None:
        self._process.communicate()
        self._folder.cleanup()


def python_of(folder: Path, requirements: tuple[str, ...], without_dependencies: tuple[str, ...] = ()) -> Path:
    """The interpreter of a virtual environment with these packages, which is made if it is not there."""
    python, stamp, wanted = folder / "bin" / "python", folder / ".installed", "\n".join((*requirements, *without_dependencies))
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing {', '.join((*requirements, *without_dependencies))} into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *requirements], check=True)
        if without_dependencies:
            subprocess.run([*install, "--no-deps", *without_dependencies], check=True)
        stamp.write_text(wanted)
    return python
