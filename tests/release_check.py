"""Build the sdist and the wheel, install each into an empty environment, and use them as a stranger would.

    python -m tests.release_check           a few minutes; needs a package index

For each of the two files: a plain install has no JAX, yet lists its commands, records, and diagnoses a run; a command that needs more
says what to install; with [learn] it trains.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
TRAIN = ("train", "reach", "--sync", "--max-steps", "30", "--eval-period", "0", "--final-episodes", "0", "--quiet")
SOURCES = ("src", "docs", "pyproject.toml", "LICENSE")
BUILD = """
import sys
from setuptools import build_meta
folder = sys.argv[1]  # the builder changes sys.argv
build_meta.build_sdist(folder)
build_meta.build_wheel(folder)
"""


class CheckFailed(Exception):
    pass


def run(command: Sequence[object], cwd: Path, *, code: int = 0, says: str = "", environment: dict[str, str] | None = None) -> str:
    """The output of a command that must end with `code` and say `says`."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    shown = " ".join(str(word) for word in command[1:]).replace(BUILD, "BUILD")
    if done.returncode != code or says not in done.stdout:
        expected = f"code {code}" + (f" and '{says}'" if says else "")
        raise CheckFailed(f"{shown}\nended with code {done.returncode}, expected {expected}:\n{done.stdout}")
    print(f"    ok: {shown[:120]}", flush=True)
    return done.stdout


def build(folder: Path) -> list[Path]:
    """The sdist and the wheel, from a copy: nothing is left in the repository."""
    copy, dist = folder / "copy", folder / "dist"
    copy.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(ROOT / name, copy)
    run([sys.executable, "-c", BUILD, dist], cwd=copy)
    files = sorted(dist.iterdir())
    if [file.suffix for file in files] != [".whl", ".gz"]:
        raise CheckFailed(f"expected a wheel and an sdist, got {[file.name for file in files]}")
    return files


class Environment:
    """An empty virtual environment, which PYTHONPATH does not reach."""

    VARIABLES: ClassVar = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "venv", with_pip=True)
        self.folder, self.bin = folder, folder / "venv" / "bin"

    def install(self, what: str) -> None:
        quiet = ("--quiet", "--disable-pip-version-check")
        run([self.bin / "python", "-m", "pip", "install", *quiet, "-c", CONSTRAINTS, what], cwd=self.folder, environment=self.VARIABLES)
        where = "import tandem; print(tandem.__file__)"
        run([self.bin / "python", "-P", "-c", where], cwd=self.folder, says=str(self.bin.parent), environment=self.VARIABLES)

    def tandem(self, *arguments: str, code: int = 0, says: str = "") -> str:
        return run([self.bin / "tandem", *arguments], cwd=self.folder, code=code, says=says, environment=self.VARIABLES)

    def has(self, package: str) -> bool:
        find = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{package}') is None)"
        return subprocess.run([self.bin / "python", "-I", "-c", find]).returncode == 0


def check(file: Path, folder: Path, trained: Path) -> None:
    """`trained`: a run from another machine, to diagnose."""
    folder.mkdir()
    environment = Environment(folder)
    environment.install(str(file))
    for package in ("jax", "jaxlib", "equinox", "nicegui"):
        if environment.has(package):
            raise CheckFailed(f"a plain install of {file.name} brings {package}")
    environment.tandem("--help", says="Teach robots")
    environment.tandem("record", "reach", "--operator", "scripted", "--demos", "2", says="wrote demos/reach_2_demos_")
    environment.tandem(*TRAIN, code=2, says="pip install 'tandem-rl[learn]'")
    environment.tandem("doctor", str(trained))
    environment.tandem("eval", str(trained), "--episodes", "2", says="reach, policy version")
    environment.install(f"{file}[learn]")
    environment.tandem(*TRAIN, "--run", "runs/reach", says="learner steps")


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tandem-release-") as name:
        folder = Path(name)
        trained = folder / "trained"
        try:
            run([sys.executable, "-m", "tandem.cli", *TRAIN, "--run", trained], cwd=ROOT)
            for file in build(folder):
                print(f"{file.name} ({file.stat().st_size:,} bytes)", flush=True)
                check(file, folder / file.name.replace(".", "_"), trained)
        except CheckFailed as problem:
            print(f"release check failed: {problem}", file=sys.stderr)
            return 1
    print(f"release check passed in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
