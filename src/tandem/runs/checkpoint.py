"""Checkpoints to resume from and policy files to act with. Each is complete or not there.

checkpoints/00001000/     one per saved learner step
    agent.safetensors     parameters, targets, optimisers, by the path of the leaf
    loops.msgpack         random streams, open episodes, simulations: what the loops need to continue exactly
    meta.json             format, clocks, journal position, spec
    SHA256SUMS            of the three, as `sha256sum -c` reads them
checkpoints/best.safetensors, latest.safetensors    acting parameters, with spec and version inside
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError, safe_open

from tandem.codec import CodecError, pack, unpack
from tandem.errors import FileMissing, FileUnreadable, SpecMismatch, StorageFull
from tandem.files import sync, write_atomically
from tandem.runs.policy_kind import policy_kind
from tandem.types import PolicySnapshot, Spec

FORMAT = 2
AGENT_FILE, LOOPS_FILE, META_FILE, SUMS_FILE = "agent.safetensors", "loops.msgpack", "meta.json", "SHA256SUMS"
KEPT = 2
"""Checkpoints kept; older ones are removed once a newer one is complete."""


@dataclass(frozen=True)
class Checkpoint:
    meta: dict[str, Any]
    agent: Mapping[str, np.ndarray]
    loops: dict[str, Any]
    checked: bool = True
    """Whether it had checksums; those of earlier versions have none."""


def write_checkpoint(folder: Path, learner_step: int, agent: Mapping[str, np.ndarray], loops: Any, meta: Mapping[str, Any]) -> Path:
    """Save under a temporary name, then rename; older ones are removed only after that."""
    final = folder / f"{learner_step:08d}"
    partial = folder / f".{learner_step:08d}.partial"
    contents = {
        AGENT_FILE: safetensors.numpy.save({name: np.asarray(array, order="C") for name, array in agent.items()}),
        LOOPS_FILE: pack(loops),
        META_FILE: json.dumps({"format": FORMAT, "learner_step": learner_step, **meta}).encode(),
    }
    contents[SUMS_FILE] = "".join(f"{_sum(data)}  {name}\n" for name, data in contents.items()).encode()
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        for name, data in contents.items():
            (partial / name).write_bytes(data)
            sync(partial / name)
        sync(partial)
        if final.exists():  # the same step again, after a resume from an older one
            shutil.rmtree(final)
        os.rename(partial, final)
    except OSError as problem:
        shutil.rmtree(partial, ignore_errors=True)
        raise StorageFull(
            f"cannot write checkpoint {final}: {problem.strerror}. Earlier checkpoints are intact; free space and `--resume`."
        ) from problem
    sync(folder)
    for old in _complete(folder)[:-KEPT]:
        shutil.rmtree(old)
    return final


def newest_checkpoint(folder: Path) -> Path:
    found = _complete(folder)
    if not found:
        raise FileMissing(f"no checkpoint in {folder}: the run ended before its first one. Start it again under another name.")
    return found[-1]


def resume_from(folder: Path, say: Callable[[str], None]) -> Checkpoint:
    """The newest checkpoint that is whole. A damaged one is set aside and said, if there is an older one to go on from."""
    newest = newest_checkpoint(folder)
    for path in reversed(_complete(folder)):
        try:
            checkpoint = read_checkpoint(path)
        except FileUnreadable as problem:
            say(f"WARNING: {problem}")
            continue
        if path != newest:
            say(f"WARNING: going on from the checkpoint before it, {path}: the learner steps after that are made again")
            for damaged in (each for each in _complete(folder) if each > path):
                with contextlib.suppress(OSError):  # else the next ones would count as older than it
                    os.rename(damaged, damaged.with_name(f"{damaged.name}.damaged"))
        if not checkpoint.checked:
            say(f"checkpoint {path} is of an earlier version and has no checksums: whether it is damaged cannot be known")
        return checkpoint
    raise FileUnreadable(
        f"no checkpoint in {folder} can be read: all of them are damaged (the newest is {newest.name}). Restore the folder from a copy, or "
        f"start a new run with the policy of this one: `--init-from {folder.parent}`. Without an older one there is nothing to go on from."
    )


def read_checkpoint(path: Path) -> Checkpoint:
    """One checkpoint; a file whose bytes have changed since it was written is refused."""
    try:
        contents = {name: (path / name).read_bytes() for name in (META_FILE, AGENT_FILE, LOOPS_FILE)}
        checked = (path / SUMS_FILE).exists()
        if checked:
            _check_sums(contents, (path / SUMS_FILE).read_text())
        meta, loops = json.loads(contents[META_FILE]), unpack(contents[LOOPS_FILE])
        if not (isinstance(meta, dict) and isinstance(loops, dict)):
            raise ValueError(f"{META_FILE} or {LOOPS_FILE} is not a map")
        if meta["format"] != FORMAT:
            raise FileUnreadable(f"checkpoint {path} has format {meta['format']}, this version of Tandem reads {FORMAT}")
        return Checkpoint(meta, safetensors.numpy.load(contents[AGENT_FILE]), loops, checked)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError, SafetensorError, CodecError) as problem:
        raise FileUnreadable(
            f"checkpoint {path} is damaged and is not used ({type(problem).__name__}: {problem}). Restore it from a copy, or go on from an "
            f"older one."
        ) from problem


@contextlib.contextmanager
def restoring(folder: Path) -> Iterator[None]:
    """An entry that is missing or of another type, where a checkpoint is put to use, is an error in words."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as problem:
        raise FileUnreadable(
            f"the newest checkpoint in {folder} does not fit this version of Tandem, or is damaged ({type(problem).__name__}: {problem}). "
            f"Use the version that wrote it, or restore it from a copy."
        ) from problem


def _check_sums(contents: Mapping[str, bytes], sums: str) -> None:
    expected = {name: digest for digest, _, name in (line.partition("  ") for line in sums.splitlines())}
    for name, data in contents.items():
        if expected.get(name) != _sum(data):
            raise ValueError(f"the bytes of {name} have changed since it was written: its checksum is not the one in {SUMS_FILE}")


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _complete(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name.isdigit())


def write_policy(path: Path, snapshot: PolicySnapshot, spec: Spec, **notes: Any) -> None:
    """Acting parameters with the spec they are for, the version, a checksum, and notes on how they were learned."""
    metadata = {
        "format": "tandem-policy-1",
        "spec": json.dumps(spec.to_json()),
        "version": str(snapshot.version),
        "learner_step": str(snapshot.learner_step),
        "kind": snapshot.kind,
        "hash": snapshot.hash,
        "notes": json.dumps(notes),
    }
    metadata["checksum"] = _header_sum(metadata)
    arrays = {name: np.asarray(array, order="C") for name, array in snapshot.parameters.items()}
    write_atomically(path, safetensors.numpy.save(arrays, metadata=metadata))


def read_policy(path: Path, spec: Spec | None = None) -> tuple[PolicySnapshot, Spec]:
    """A policy and the spec it was trained for; with `spec`, a policy for another one is refused with the difference."""
    if not path.exists():
        raise FileMissing(f"there is no policy {path} (looked in {path.absolute().parent})")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            parameters = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
        if metadata.get("format") != "tandem-policy-1":
            raise FileUnreadable(f"{path} is not a policy file of Tandem (format {metadata.get('format')!r})")
        own = Spec.from_json(json.loads(metadata["spec"]))
        kind = policy_kind(metadata.get("kind"), parameters)
        snapshot = PolicySnapshot(int(metadata["version"]), int(metadata["learner_step"]), parameters, kind)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
        raise FileUnreadable(f"policy {path} cannot be read ({type(problem).__name__}: {problem})") from problem
    if metadata.get("checksum", _header_sum(metadata)) != _header_sum(metadata):  # earlier versions wrote none
        raise FileUnreadable(f"policy {path} is damaged: its header (spec, version, notes) has changed since it was written. Use a copy.")
    if snapshot.hash != metadata["hash"]:
        raise FileUnreadable(f"policy {path} has hash {snapshot.hash}, its header says {metadata['hash']}: the file is damaged")
    if spec is not None and own.hash != spec.hash:
        raise SpecMismatch(f"policy {path} was trained for another spec: {'; '.join(spec.difference(own))}")
    return snapshot, own


def _header_sum(metadata: Mapping[str, str]) -> str:
    return _sum(json.dumps({name: metadata[name] for name in sorted(metadata) if name != "checksum"}).encode())[:16]


def read_policy_notes(path: Path) -> dict[str, Any]:
    """The notes given to `write_policy`: how it was learned (`learned_by`), its `score`."""
    with safe_open(path, framework="numpy") as file:
        return json.loads((file.metadata() or {}).get("notes", "{}"))
