"""Apply a mutation to a copy of the source, and run the tests that claim it."""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tests.mutants

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 600.0


class Rotten(Exception):
    """A mutation that does not fit the source or the tests any more."""


@dataclass(frozen=True)
class Mutant:
    """One change of the source."""

    name: str
    file: str
    """Relative to `src/tandem`."""
    old: str
    """An exact piece of the file, there once."""
    new: str
    tests: tuple[str, ...]
    """Arguments of pytest, relative to `tests`: files or tests in them."""

    def apply(self, package: Path) -> None:
        """Change the file in a copy of the package."""
        path = package / self.file
        if not path.exists():
            raise Rotten(f"{self.name}: there is no file {self.file}. Was it moved? Update tests/mutants.")
        source = path.read_text()
        if source.count(self.old) != 1:
            raise Rotten(f"{self.name}: found {source.count(self.old)} times, expected once, in {self.file}:\n{self.old}")
        path.write_text(source.replace(self.old, self.new))


Outcome = Literal["caught", "survived", "timed out"]


def all_mutants() -> list[Mutant]:
    """The mutants of all modules of this folder; two of one name are an error."""
    found: list[Mutant] = []
    for module in sorted(module.name for module in pkgutil.iter_modules(tests.mutants.__path__)):
        if not module.startswith("_") and module != "harness":
            found += importlib.import_module(f"tests.mutants.{module}").MUTANTS
    names = [mutant.name for mutant in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise Rotten(f"names used twice: {', '.join(sorted(twice))}")
    return found


def check_all(mutants: Iterable[Mutant]) -> list[str]:
    """What does not fit the source or the tests any more, in words; nothing is run."""
    problems = []
    with source_copy() as source:
        for mutant in mutants:
            original = (source / "tandem" / mutant.file).read_text() if (source / "tandem" / mutant.file).exists() else None
            try:
                mutant.apply(source / "tandem")
                compile((source / "tandem" / mutant.file).read_text(), mutant.file, "exec")
            except Rotten as problem:
                problems.append(str(problem))
            except SyntaxError as problem:
                problems.append(f"{mutant.name}: the changed source is not Python: {problem}")
            if original is not None:
                (source / "tandem" / mutant.file).write_text(original)
            problems += [
                f"{mutant.name}: there is no file tests/{test}"
                for test in mutant.tests
                if not (ROOT / "tests" / test.split("::")[0]).exists()
            ]
    return problems


def run(mutant: Mutant) -> Outcome:
    """Whether its tests notice."""
    with source_copy() as source:
        mutant.apply(source / "tandem")
        return _outcome(source, mutant.tests, mutant.name)


def pass_unchanged(tests_: Iterable[str]) -> bool:
    """Whether these tests pass on the source as it is."""
    with source_copy() as source:
        return _outcome(source, sorted(set(tests_)), "the unchanged source") == "survived"


def run_many(mutants: list[Mutant], jobs: int) -> Iterator[tuple[Mutant, Outcome]]:
    """In the order given, `jobs` at a time."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from zip(mutants, pool.map(run, mutants), strict=True)


@contextmanager
def source_copy() -> Iterator[Path]:
    """A copy of `src` that disappears; the work tree is never touched."""
    with tempfile.TemporaryDirectory(prefix="tandem-mutant-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        yield source


def _outcome(source: Path, tests_: Iterable[str], what: str) -> Outcome:
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    where = subprocess.run(
        [sys.executable, "-c", "import tandem; print(tandem.__file__)"], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    if not where.stdout.startswith(str(source)):
        raise Rotten(f"{what}: tests would import {where.stdout.strip() or where.stderr[-500:]} and not the copy in {source}")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *(f"tests/{test}" for test in tests_)]
    try:
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return "timed out"
    if done.returncode not in (0, 1):  # 2 to 5: the tests did not run, so they say nothing
        raise Rotten(f"{what}: pytest did not run its tests (exit code {done.returncode}):\n{done.stdout[-2000:]}{done.stderr[-500:]}")
    return "caught" if done.returncode else "survived"
