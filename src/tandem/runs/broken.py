"""What is kept of a numerical failure: the last physics states, or the batch whose update gave a NaN or infinite value.

    RUN/broken/simulation_<time>.msgpack     a state a few steps before the failure, and the actions from there
    RUN/broken/batch_<learner step>.msgpack  the batch and the metrics of the failed update

`tandem doctor replay FILE` opens them. A file that cannot be written is left out: it must not hide the failure itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tandem.codec import CodecError, pack, unpack
from tandem.errors import FileMissing, FileUnreadable, StorageFull
from tandem.files import write_atomically
from tandem.types import Metrics, Spec

FORMAT = "tandem-broken-1"
STATES_KEPT = 8
"""Steps before the failure; a simulation that diverges does so within a few."""
MAX_BATCHES = 3
"""At most this many per run: a critic may diverge again and again."""


def keep_simulation(
    folder: Path, task: str, problem: str, state: Mapping[str, Any], actions: Sequence[np.ndarray], reward: str | None = None
) -> Path | None:
    """A state a few steps before the failure, and the actions from there; None if they could not be written."""
    path = folder / f"simulation_{time.strftime('%Y-%m-%d_%H-%M-%S')}.msgpack"
    fields = {"task": task, "reward": reward, "problem": problem, "state": dict(state), "actions": list(actions)}
    return _write(path, {"kind": "simulation", **fields})


def keep_batch(folder: Path, spec: Spec, learner_step: int, problem: str, metrics: Metrics, batch: Mapping[str, np.ndarray]) -> Path | None:
    """The batch of a failed update: `observations`, `actions`, `rewards` and its other arrays."""
    if len(list(folder.glob("batch_*"))) >= MAX_BATCHES:
        return None
    arrays = {name: np.asarray(array) for name, array in batch.items()}
    fields = {"problem": problem, "learner_step": learner_step, "metrics": dict(metrics), "spec": json.dumps(spec.to_json())}
    return _write(folder / f"batch_{learner_step:08d}.msgpack", {"kind": "batch", **fields, "batch": arrays})


def read_broken(path: Path) -> Mapping[str, Any]:
    """What `keep_simulation` or `keep_batch` wrote."""
    if not path.is_file():
        raise FileMissing(f"there is no file {path} (looked in {path.absolute().parent}); after a numerical failure they are in RUN/broken")
    try:
        found = unpack(path.read_bytes())
    except CodecError as problem:
        raise FileUnreadable(f"{path} cannot be read: {problem}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise FileUnreadable(f"{path} is not a file of a numerical failure; those are in RUN/broken")
    return found


def _write(path: Path, contents: dict[str, Any]) -> Path | None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, pack({"format": FORMAT, **contents}), durable=False)
    except (OSError, StorageFull):  # the failure itself is reported in any case
        return None
    return path
