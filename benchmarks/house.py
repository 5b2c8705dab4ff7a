"""How far is it from an environment step to the gradient and back, and is the code in order? Seconds to run.

Static figures come from the syntax trees of `src/tandem`. The paths are measured: a short run is traced, and every file of the package
in which a function was called while the loop ran counts, with all its lines. Two kinds of files run but do not carry the step, and are
counted apart (`*_executed_*`): the simulated task behind the `Task` interface, where a user's own task would stand, and `runs/`,
`files.py` and the displays, which write down and show what happened.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import FrameType

import tandem
from benchmarks.report import Report

PACKAGE = Path(tandem.__file__).parent
TARGETS: dict[str, tuple[str, float]] = {
    "sync_path_files": ("<=", 20),
    "sync_path_lines": ("<=", 3500),
    "ppo_path_files": ("<=", 12),
    "cycles": ("==", 0),
    "longest_function": ("<=", 60),
    "type_ignores": ("<=", 8),
    "sniffs": ("==", 0),
}
SNIFFS_ALLOWED_IN = ("envs/foreign.py", "envs/served/server.py", "teleop/operator_process.py")
"""Environments and operators of others declare their extras in no typed way. They are translated here: in our Python, and in theirs."""
ON_THE_WAY_IN_ENVS = ("batch", "task", "task_env", "single", "foreign")
"""What stands between a learner and any task; the other files of `envs/` are the tasks."""
DUPLICATE_LINES = 6
_TRACER = """
import atexit, json, os, sys, threading
seen = set()
def profile(frame, event, arg):
    if event == "call" and frame.f_code.co_name != "<module>": seen.add(frame.f_code.co_filename)
def save():
    sys.setprofile(None)
    with open(os.path.join(os.environ["HOUSE_TRACE"], str(os.getpid())), "w") as file: json.dump(sorted(seen), file)
if "tandem.programs" in " ".join(sys.orig_argv):
    threading.setprofile(profile); sys.setprofile(profile); atexit.register(save)
"""
"""Loaded by every Python process of the traced run, from a folder on PYTHONPATH."""


def modules() -> Iterator[tuple[str, ast.Module, str]]:
    """Name relative to the package, syntax tree and text of every file."""
    for file in sorted(PACKAGE.rglob("*.py")):
        text = file.read_text()
        yield file.relative_to(PACKAGE).as_posix(), ast.parse(text), text


def folder_of(name: str) -> str:
    return name.split("/")[0].removesuffix(".py")


def imported_folders(tree: ast.Module) -> set[str]:
    """Folders of the package that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tandem":
            found |= {node.module.split(".")[1]} if "." in node.module else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("tandem.")}
    return found


def cycles() -> int:
    """Pairs of folders that import each other, directly or through others."""
    edges: dict[str, set[str]] = defaultdict(set)
    for name, tree, _ in modules():
        if name != "__init__.py":  # the public face: it exports from above and nothing below imports those names from it
            edges[folder_of(name)] |= imported_folders(tree) - {folder_of(name)}
    reach = {folder: _reachable(folder, edges) for folder in edges}
    return sum(a < b and b in reach[a] and a in reach[b] for a in reach for b in reach)


def _reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    found, left = set(), [start]
    while left:
        new = edges.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


def function_lengths() -> dict[str, int]:
    """Lines of every function, by file and name."""
    return {
        f"{name}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for name, tree, _ in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def sniffs() -> list[str]:
    """Places that ask an object what it can do: `hasattr`, and `getattr` with a default. A question to a module is about the platform."""
    found = []
    for name, tree, _ in modules():
        if name in SNIFFS_ALLOWED_IN:
            continue
        imported = {alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                asks = node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3)
                if asks and ast.unparse(node.args[0]) not in imported:
                    found.append(f"{name}:{node.lineno}")
    return found


def duplicated_blocks() -> list[str]:
    """Blocks of six or more equal lines that stand in two places; imports, comments and docstrings do not count."""
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, tree, text in modules():
        code = _code_lines(tree, text)
        for start in range(len(code) - DUPLICATE_LINES + 1):
            block = code[start : start + DUPLICATE_LINES]
            places[tuple(line for _, line in block)].append((name, block[0][0]))
    starts = sorted(place for found in places.values() if len(found) > 1 for place in found)
    joined = [b for a, b in pairwise([("", 0), *starts]) if a[0] != b[0] or b[1] - a[1] > DUPLICATE_LINES]
    return [f"{name}:{line}" for name, line in joined]


def _code_lines(tree: ast.Module, text: str) -> list[tuple[int, str]]:
    skipped = set()
    for node in ast.walk(tree):
        is_import = isinstance(node, ast.Import | ast.ImportFrom)
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if isinstance(node, ast.stmt) and (is_text or is_import):
            skipped |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if number not in skipped)
    return [(number, line) for number, line in lines if len(line) > 3 and not line.startswith("#")]


@contextlib.contextmanager
def traced() -> Iterator[set[str]]:
    """Collects the files of the package in which a function was called, in this thread."""
    found: set[str] = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            found.add(frame.f_code.co_filename)

    sys.setprofile(profile)
    try:
        yield found
    finally:
        sys.setprofile(None)


def of_package(files: set[str]) -> dict[str, int]:
    """Lines of each of these files that belongs to the package."""
    names = sorted(Path(file) for file in files if file.startswith(f"{PACKAGE}{os.sep}"))
    return {path.relative_to(PACKAGE).as_posix(): len(path.read_text().splitlines()) for path in names}


def carries_the_step(name: str) -> bool:
    folder, _, file = name.partition("/")
    if folder == "envs":
        return file.removesuffix(".py") in ON_THE_WAY_IN_ENVS
    return folder not in ("runs", "files.py") and file != "display.py"


def sync_path(folder: Path) -> dict[str, int]:
    """RLPD in one thread: steps of the environment, updates (with their compilation), a publication that the actor then acts with."""
    from tandem.agents.sac_config import SACConfig
    from tandem.off_policy import sync
    from tandem.off_policy.config import TrainConfig
    from tandem.runs.display import Display

    loop, files = sync.take_turns, set()

    def traced_loop(*parts: object) -> str:
        with traced() as found:
            reason = loop(*parts)  # pyright: ignore[reportArgumentType]
        files.update(found)
        return reason

    config = TrainConfig(
        task="gear_assembly",
        agent=SACConfig(hidden=(8, 8)),
        training_starts=4,
        batch_size=8,
        steps_per_update=4,
        log_period=2,
        max_steps=10,
        eval_period=0,
        final_episodes=0,
    )
    sync.take_turns = traced_loop
    try:
        sync.train(config, folder / "sync", Display("quiet"))
    finally:
        sync.take_turns = loop
    return of_package(files)


def ppo_path(folder: Path) -> dict[str, int]:
    """PPO: two iterations, the first with its compilation."""
    from tandem.agents.ppo_config import PPOConfig
    from tandem.envs.registry import make_batch
    from tandem.on_policy.config import OnPolicyConfig
    from tandem.on_policy.run import OnPolicyRun
    from tandem.runs.display import Display
    from tandem.runs.folder import RunFolder

    agent = PPOConfig(actor_hidden_dims=(8,), critic_hidden_dims=(8,))
    config = OnPolicyConfig(task="reach", agent=agent, num_envs=128, num_steps_per_env=4, eval_period=0)
    env = make_batch(config.task, config.num_envs, reward="dense")
    run = OnPolicyRun(config, RunFolder.create(folder / "ppo", "ppo", config, env.task_spec), env, Display("quiet"))  # pyright: ignore
    run.collector.begin()
    with traced() as found:
        run.iterate()
        run.iterate()
    return of_package(found)


def processes_path(folder: Path) -> dict[str, int]:
    """Hub, trainer and actor as processes, from their start to their end."""
    hook, trace = folder / "hook", folder / "trace"
    hook.mkdir()
    trace.mkdir()
    (hook / "sitecustomize.py").write_text(_TRACER)
    path = os.pathsep.join([str(hook), str(PACKAGE.parent)])
    run = "import sys; from tandem.cli import main; sys.exit(main())"
    small = ["--max-steps", "200", "--eval-period", "0", "--final-episodes", "0", "--quiet", "--run", str(folder / "processes")]
    process = subprocess.Popen(
        [sys.executable, "-c", run, "train", "reach", *small],
        env={**os.environ, "PYTHONPATH": path, "HOUSE_TRACE": str(trace)},
        stdout=subprocess.DEVNULL,
    )
    try:
        process.wait(180)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    return of_package({file for part in trace.iterdir() for file in json.loads(part.read_text())})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--quick", action="store_true", help="without the run in processes")
    parser.add_argument("--files", action="store_true", help="list the files on each path")
    args = parser.parse_args()
    began = time.perf_counter()
    report = Report("house", ("path", "files", "lines"), TARGETS)
    with tempfile.TemporaryDirectory() as folder:
        paths = {"sync": sync_path(Path(folder)), "ppo": ppo_path(Path(folder))}
        if not args.quick:
            paths["processes"] = processes_path(Path(folder))
    for name, executed in paths.items():
        files = {file: lines for file, lines in executed.items() if carries_the_step(file)}
        report.figures |= {f"{name}_path_files": len(files), f"{name}_path_lines": sum(files.values())}
        report.figures |= {f"{name}_executed_files": len(executed), f"{name}_executed_lines": sum(executed.values())}
        report.row(name, len(files), f"{sum(files.values()):,}")
        if args.files:
            for file, lines in files.items():
                report.row(f"  {file}", "", lines)
    lengths, texts = function_lengths(), [text for _, _, text in modules()]
    report.figures |= {
        "cycles": cycles(),
        "longest_function": max(lengths.values()),
        "median_function": statistics.median(lengths.values()),
        "duplicated_blocks": len(duplicated_blocks()),
        "type_ignores": sum(len(re.findall(r"#\s*(?:pyright|type): ignore", text)) for text in texts),
        "sniffs": len(sniffs()),
        "files": len(texts),
        "lines": sum(len(text.splitlines()) for text in texts),
    }
    for name, length in sorted(lengths.items(), key=lambda item: -item[1])[:5]:
        report.row(name, "", length)
    for place in (*sniffs(), *duplicated_blocks()):
        report.row(f"{'sniff' if place in sniffs() else 'duplicate'} {place}", "", "")
    report.row("seconds", "", f"{time.perf_counter() - began:.0f}")
    report.show(args.json)
    sys.exit(bool(report.unmet()))


if __name__ == "__main__":
    main()
