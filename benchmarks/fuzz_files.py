"""Does a damaged or hostile file do anything but be read, or be refused in words?

    python -m benchmarks.fuzz_files [--files N] [--seed S] [--only KIND] [--json]

Valid files of every kind that Tandem reads are mutated with fixed seeds: bytes changed, cut off, doubled and put in; in texts also
texts in place of numbers, numbers that are too large, and lists a thousand deep; in ONNX files also the network (`fuzz_onnx`). Each is
read as the programs read it; with a policy in an ONNX file it is also acted. Wrong are an error that is not one of ours, more than
`SLOW_S` of processor time (`TRIED_S` for a policy that is tried in a process of its own), and more memory than `MORE_MB` beyond what the
process had before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import random
import re
import resource
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.fuzz import mutated
from benchmarks.report import Report
from tandem.acting.latch import Latch, read_latch
from tandem.acting.limits_file import read_limits
from tandem.acting.policy import act_with, load_any_policy
from tandem.codec import pack_transition
from tandem.data.demos import read_demos
from tandem.data.hil_serl import read_hil_serl
from tandem.data.journal import Journal
from tandem.envs.limits import LimitSettings
from tandem.errors import TandemError
from tandem.link.access import Access, AccessFile
from tandem.link.spool import Spool, leftovers, nobodys
from tandem.link.steps import Record
from tandem.networks.numpy_policy import acting_policy
from tandem.networks.onnx_file import CPU_S
from tandem.rewards.classifier import Classifier, Weights, read_classifier
from tandem.rewards.conditions import read_conditions
from tandem.rewards.labels import Frame, Label, read_labels, write_labels
from tandem.rewards.rule import Rule
from tandem.runs.checkpoint import read_checkpoint, read_policy, read_policy_notes, write_checkpoint, write_policy
from tandem.runs.folder import RunFolder
from tandem.runs.lines import read_rows
from tandem.runs.live import read_live
from tandem.teleop.mapping import Mapping
from tandem.types import Continuous, Entry, PolicySnapshot, Spec, Transition

CONDITIONS = """
name = "fuzz"
hold_s = 0.5
quaternions = "xyzw"
[[stage]]
name = "near"
conditions = ["pose[2] < 0.4", "distance(pose, wrench) < 0.1"]
[[stage]]
conditions = ["pose[0] = 0.02 +- 0.002"]
"""
CLASSIFIER = {
    "offset": (3,),
    "scale": (3,),
    "hidden_weight": (3, 4),
    "hidden_bias": (4,),
    "out_weight": (4, 1),
    "out_bias": (1,),
    "calibration": (1, 2),
}
SLOW_S, TRIED_S, MORE_MB = 3.0, CPU_S + 3.0, 1024
SPEC = Spec(
    "fuzz",
    {"pose": Entry((3,), unit="m"), "wrench": Entry((3,), unit="N"), "image": Entry((4, 4, 3), "uint8")},
    (Continuous("arm", 3, "m", 0.01),),
    10,
    100,
)
LIMITS = """
position = "pose"
wrench = "wrench"
force_n = 15
stop_force_n = 40
stop_outside_share = 0.1
stall_s = 1.5
[axis.x]
speed_m_per_s = 0.05
low_m = -0.05
high_m = 0.05
[axis.y]
speed_share = 0.5
unlimited = ["workspace"]
[axis.z]
unlimited = ["speed", "workspace"]
"""
RUNNER = """
seed: 42
num_steps_per_env: 24
max_iterations: 300
obs_groups: {actor: [policy], critic: [policy]}
algorithm: {class_name: PPO, num_learning_epochs: 5, num_mini_batches: 4, clip_param: 0.2, gamma: 0.98, lam: 0.95, learning_rate: 1e-3}
actor:
  class_name: MLPModel
  hidden_dims: !!python/tuple [128, 128]
  activation: elu
  distribution_cfg: {class_name: GaussianDistribution, init_std: 0.5, std_type: log}
critic: {class_name: MLPModel, hidden_dims: [256, 128], activation: elu}
"""
ODD = (
    b"1e999",
    b"-1",
    b"nan",
    b"NaN",
    b"Infinity",
    b"null",
    b'"x"',
    b"[]",
    b"{}",
    b"true",
    b"9" * 5000,
    b"99999999999",
    b"1e9",
    b"0x1p9",
    b"\0",
)
DEEP = ((b"[", b"]"), (b'{"a":', b"}"), (b"a = [", b"]"), (b"- ", b""), (b"(", b""), (b"&a [*a,", b"]"))


@dataclass(frozen=True)
class Kind:
    """One kind of file: a valid one, and how a program reads it."""

    name: str
    file: Path
    read: Callable[[], object]
    change: Callable[[random.Random, bytes], bytes] = mutated
    slow_s: float = SLOW_S


@dataclass
class Found:
    """What was read, what was refused, and what went wrong."""

    read: int = 0
    refused: int = 0
    wrong: tuple[str, ...] = ()


def step(number: int) -> Transition:
    seen = {"pose": np.full(3, number, np.float32), "wrench": np.zeros(3, np.float32), "image": np.zeros((4, 4, 3), np.uint8)}
    return Transition(
        seen, np.zeros(3, np.float32), 1.0, seen, number % 5 == 4, False, episode=number // 5, step=number % 5, seq=number, source="a"
    )


def policy() -> PolicySnapshot:
    sizes = {"trunk/layers/0": (6, 8), "mean": (8, 3), "log_std": (8, 3)}
    weights = {f"{name}/weight": np.zeros(size, np.float32) for name, size in sizes.items()}
    biases = {f"{name}/bias": np.zeros(size[1], np.float32) for name, size in sizes.items()}
    return PolicySnapshot(
        1, 10, {**weights, **biases, "activation": np.array(1), "std_range": np.array([0.01, 1], np.float32)}, "tanh_gaussian"
    )


# ---- the kinds


def kinds(folder: Path) -> list[Kind]:
    """Valid files of all kinds, in this folder."""
    return [*_texts(folder), *_rewards(folder), *_data(folder), *_run(folder / "run")]


def _texts(folder: Path) -> Iterator[Kind]:
    limits, runner, keys = folder / "limits.toml", folder / "runner.yaml", folder / "mapping.toml"
    limits.write_text(LIMITS)
    yield Kind("limits", limits, lambda: read_limits(limits, SPEC, LimitSettings()), mutated_text)
    shutil.copy(Path(read_limits.__code__.co_filename).parents[1] / "teleop" / "mapping.toml", keys)
    yield Kind("mapping", keys, lambda: Mapping.load(("x", "y", "z"), keys), mutated_text)
    with contextlib.suppress(ImportError):  # the extra `learn`
        from tandem.on_policy.rsl_rl_config import read_rsl_rl_config

        runner.write_text(RUNNER)
        yield Kind("YAML", runner, lambda: read_rsl_rl_config(runner, 8), mutated_text)


def _rewards(folder: Path) -> Iterator[Kind]:
    conditions, labels, made = folder / "rule.toml", folder / "labels.csv", folder / "reward.safetensors"
    conditions.write_text(CONDITIONS)
    yield Kind("conditions", conditions, lambda: _judge(read_conditions(conditions)), mutated_text)
    write_labels(labels, {Frame("demo-1", number, 3): Label("success", "me") for number in range(5)})
    yield Kind("labels", labels, lambda: read_labels(labels), mutated_text)
    numbers = dataclasses.replace(SPEC, observation={"pose": SPEC.observation["pose"]})
    zeros = {name: np.zeros(shape, np.float32) for name, shape in CLASSIFIER.items()}
    weights = Weights(**{**zeros, "scale": np.ones(3, np.float32)})
    Classifier("fuzz", numbers, ("success",), (0.9,), weights, conditions=read_conditions(conditions)).write(made)
    yield Kind("classifier", made, lambda: _judge(read_classifier(made)))


def _judge(rule: Rule) -> None:
    rule.require(SPEC)
    rule.met(rule.values({name: np.zeros((2, *entry.shape), entry.dtype) for name, entry in SPEC.observation.items()}))


def _data(folder: Path) -> Iterator[Kind]:
    journal, demos, chosen = folder / "journal.db", folder / "demos.pkl", folder / "policy.safetensors"
    with Journal.create(journal, SPEC, live=False) as made:
        made.append(step(number) for number in range(20))
        made.finish()
    yield Kind("journal", journal, lambda: _read_journal(journal))
    steps = [step(number) for number in range(5)]
    rows = [
        {"observations": dict(s.observation), "actions": s.action, "next_observations": dict(s.next_observation), "rewards": s.reward}
        | {"masks": 1.0 - s.terminated, "dones": s.terminated, "infos": {"succeed": s.terminated}}
        for s in steps
    ]
    demos.write_bytes(pickle.dumps(rows))
    yield Kind("pickle", demos, lambda: (read_hil_serl(demos, SPEC), read_hil_serl(demos, None)))
    with contextlib.suppress(ImportError):  # the extra `export`
        yield from _exported(folder)
    write_policy(chosen, policy(), SPEC, learned_by="hand")
    yield Kind("policy", chosen, lambda: _read_policy(chosen))
    for name in ("agent.safetensors", "loops.msgpack", "meta.json", "SHA256SUMS"):
        for checked in (True, False) if name != "SHA256SUMS" else (True,):
            saved = folder / f"checkpoints_{name}_{checked}"
            saved.mkdir()
            point = write_checkpoint(saved, 10, {"w": np.zeros((2, 3), np.float32)}, {"random": [1, 2]}, {"spec": SPEC.to_json()})
            if not checked:
                (point / "SHA256SUMS").unlink()
            yield Kind(
                f"checkpoint's {name}",
                point / name,
                lambda point=point: read_checkpoint(point),
                mutated_text if name.endswith("json") else mutated,
            )


def _exported(folder: Path) -> Iterator[Kind]:
    from benchmarks.fuzz_onnx import mutated_policy
    from tandem.programs.export import onnx_bytes

    file, vectors = (
        folder / "policy.onnx",
        dataclasses.replace(SPEC, observation={k: e for k, e in SPEC.observation.items() if k != "image"}),
    )
    file.write_bytes(onnx_bytes(policy(), vectors, "rlpd"))
    yield Kind("ONNX", file, lambda: _act_with(file, vectors), mutated_policy, TRIED_S)


def _run(run: Path) -> Iterator[Kind]:
    folder = RunFolder.create(run, "rlpd", {}, SPEC)
    yield Kind("config", folder.config_file, lambda: RunFolder.open(run).info, mutated_text)
    AccessFile(folder).add("anna", "viewer")
    access = Access(folder)
    found = access.by_token(folder.token)
    assert found is not None
    access.open_session(found)
    yield Kind("access", folder.access_file, lambda: (Access(folder), AccessFile(folder).list()), mutated_text)
    yield Kind("sessions", folder.sessions_file, lambda: Access(folder).by_cookie("x"), mutated_text)
    folder.live_file.write_text("{}")
    yield Kind("live", folder.live_file, lambda: read_live(folder.live_file), mutated_text)
    folder.event("started", seed=1)
    yield Kind("events", folder.events_file, lambda: list(read_rows(folder.events_file)), mutated_text)
    latch = Latch.open(run / "latch", "fuzz", "arm", takes_over=False)
    latch.hold("stop", "Ada", "stopped by a person")
    yield Kind("latch", latch.path, lambda: read_latch(latch.path), mutated_text)
    for name in ("00000001.rec", "about.json"):
        root = run / f"spool_{name}"
        spool = Spool.create(root, "a", {"run": "r", "name": "arm"})
        spool.append([Record("a", number, pack_transition(step(number))) for number in range(20)])
        spool._file, file = -1, spool._file  # as if its process had been killed
        spool._reader.close()
        yield Kind(
            f"spool's {name}", root / "a" / name, lambda root=root: _read_spool(root), mutated_text if name.endswith("json") else mutated
        )
        del file


def _read_journal(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.check()
        list(journal.read())
    read_demos(path).episodes()


def _read_policy(path: Path) -> None:
    snapshot, spec = read_policy(path)
    assert spec.hash
    acting_policy(snapshot)
    read_policy_notes(path)


def _act_with(path: Path, spec: Spec) -> None:
    """As `tandem eval`, `play` and `actor`: the policy must be one for this robot."""
    chosen, own = load_any_policy(path, spec=spec)
    act_with(chosen, own)({name: np.zeros((1, *entry.shape), np.float32) for name, entry in spec.observation.items()})


def _read_spool(root: Path) -> None:
    nobodys(root)
    for leftover in leftovers(root, "r"):
        at = leftover.start
        while at != leftover.end:
            records, at = leftover.read(at, 10, 10_000)
            if not records:
                break
        leftover.close()


# ---- the attack


def mutated_text(r: random.Random, data: bytes) -> bytes:
    """As `mutated`, or with an odd value in place of a number or a text, or something deep in it."""
    kind = r.randrange(4)
    places = [place.span() for place in re.finditer(rb'"[^"\n]*"|-?[0-9][0-9.e+-]*', data)]
    if kind < 2 and places:
        start, end = r.choice(places)
        return data[:start] + r.choice(ODD) + data[end:]
    if kind == 2:
        opening, closing = r.choice(DEEP)
        at, depth = r.randrange(len(data) + 1), r.choice((20, 1000, 100_000))
        return data[:at] + opening * depth + closing * r.choice((0, depth)) + data[at:]
    return mutated(r, data)


def attack_files(files: int, seed: int = 3, only: str = "") -> Found:
    """So many mutated files, of all kinds in turn (those whose names have `only` in them)."""
    found, r, wrong = Found(), random.Random(seed), {}
    with tempfile.TemporaryDirectory() as folder:
        every = [kind for kind in kinds(Path(folder)) if only in kind.name]
        sound = {kind.file: kind.file.read_bytes() for kind in every}
        for kind in every:
            kind.read()  # the valid ones are read
        with _bounded_memory():
            for number in range(files):
                kind = every[number % len(every)]
                data = r.randbytes(r.randrange(300)) if r.random() < 0.05 else kind.change(r, sound[kind.file])
                kind.file.write_bytes(data)
                problem = _attempt(kind, found)
                kind.file.write_bytes(sound[kind.file])
                if problem:
                    wrong.setdefault(f"{kind.name}: {problem}", f"file {number} of seed {seed}, {data[:60]!r}")
    found.wrong = tuple(f"{what} ({which})" for what, which in wrong.items())
    return found


def _attempt(kind: Kind, found: Found) -> str:
    """What went wrong; empty if it was read or refused in words."""
    began = _processor_s()
    try:
        kind.read()
        found.read += 1
    except TandemError:
        found.refused += 1
    except Exception as problem:
        where = traceback.extract_tb(problem.__traceback__)[-1]
        return f"{type(problem).__name__} at {Path(where.filename).name}:{where.lineno}: {str(problem)[:100]}"
    seconds = _processor_s() - began
    return f"it took {seconds:.0f} s" if seconds > kind.slow_s else ""


def _processor_s() -> float:
    """Of this process and of those that it started and that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


@contextlib.contextmanager
def _bounded_memory() -> Iterator[None]:
    """What would need far more is a MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MORE_MB * 2**20, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def main(files: int = 20_000, seed: int = 3, only: str = "", json: bool = False) -> None:
    """Whether damaged and hostile files are read or refused in words.

    Args:
        files: How many.
        seed: Of the mutations.
        only: Kinds of files whose names have this in them, such as ONNX.
        json: One JSON object instead of the table.
    """
    found = attack_files(files, seed, only)
    report = Report("fuzz_files", ("figure", "measured", "target"), {"wrong": ("==", 0.0)})
    figures: dict[str, Any] = {"read": found.read, "refused": found.refused, "wrong": len(found.wrong)}
    for name, value in figures.items():
        report.figures[name] = float(value)
        report.row(name, f"{value:,}", "== 0" if name == "wrong" else "")
    for line in found.wrong if not json else ():
        print(line)
    report.show(json)


if __name__ == "__main__":
    tyro.cli(main)
