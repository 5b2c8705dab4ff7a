"""Checkpoints to resume from and policy files to act with. Each is complete or not there.

checkpoints/00001000/     one per saved learner step
    agent.safetensors     parameters, targets, optimisers, by the path of the leaf
    loops.msgpack         random streams, open episodes, simulations: what the loops need to continue exactly
    meta.json             format, clocks, journal position, spec
checkpoints/best.safetensors, latest.safetensors    acting parameters, with spec and version inside
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
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
AGENT_FILE, LOOPS_FILE, META_FILE = "agent.safetensors", "loops.msgpack", "meta.json"
KEPT = 2
"""Checkpoints kept; older ones are removed once a newer one is complete."""


@dataclass(frozen=True)
class Checkpoint:
    meta: dict[str, Any]
    agent: Mapping[str, np.ndarray]
    loops: dict[str, Any]


def write_checkpoint(folder: Path, learner_step: int, agent: Mapping[str, np.ndarray], loops: Any, meta: Mapping[str, Any]) -> Path:
    """Save under a temporary name, then rename; older ones are removed only after that."""
    final = folder / f"{learner_step:08d}"
    partial = folder / f".{learner_step:08d}.partial"
    contents = {
        AGENT_FILE: safetensors.numpy.save({name: np.asarray(array, order="C") for name, array in agent.items()}),
        LOOPS_FILE: pack(loops),
        META_FILE: json.dumps({"format": FORMAT, "learner_step": learner_step, **meta}).encode(),
    }
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


def read_checkpoint(path: Path) -> Checkpoint:
    try:
        meta = json.loads((path / META_FILE).read_text())
        if meta["format"] != FORMAT:
            raise FileUnreadable(f"checkpoint {path} has format {meta['format']}, this version of Tandem reads {FORMAT}")
        return Checkpoint(meta, safetensors.numpy.load_file(path / AGENT_FILE), unpack((path / LOOPS_FILE).read_bytes()))
    except (OSError, ValueError, KeyError, SafetensorError, CodecError) as problem:
        raise FileUnreadable(
            f"checkpoint {path} cannot be read ({type(problem).__name__}: {problem}). Resume from an older one by removing this folder."
        ) from problem


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
    except (SafetensorError, ValueError, KeyError) as problem:
        raise FileUnreadable(f"policy {path} cannot be read ({type(problem).__name__}: {problem})") from problem
    if snapshot.hash != metadata["hash"]:
        raise FileUnreadable(f"policy {path} has hash {snapshot.hash}, its header says {metadata['hash']}: the file is damaged")
    if spec is not None and own.hash != spec.hash:
        raise SpecMismatch(f"policy {path} was trained for another spec: {'; '.join(spec.difference(own))}")
    return snapshot, own


def read_policy_notes(path: Path) -> dict[str, Any]:
    """The notes given to `write_policy`: how it was learned (`learned_by`), its `score`."""
    with safe_open(path, framework="numpy") as file:
        return json.loads((file.metadata() or {}).get("notes", "{}"))
