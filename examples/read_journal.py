"""Read a file of demonstrations, or the journal of a run, into NumPy arrays.

    tandem record reach --demos 5
    python examples/read_journal.py demos/reach_5_demos_*.db --save reach.npz

A journal (RUN/journal.db) can be read while its run is still writing it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import tandem


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a file of demonstrations, a journal, or a hil-serl pickle")
    parser.add_argument("--save", type=Path, help="write the arrays to this .npz file")
    flags = parser.parse_args()
    recording = tandem.read_demos(flags.file)
    steps = recording.transitions
    arrays = {name: np.stack([step.observation[name] for step in steps]) for name in recording.spec.observation}
    arrays["action"] = np.stack([step.action for step in steps])  # the action that was executed, in [-1, 1]
    arrays["reward"] = np.array([step.reward for step in steps])
    arrays["terminated"] = np.array([step.terminated for step in steps])
    arrays["truncated"] = np.array([step.truncated for step in steps])
    arrays["intervened"] = np.array([step.intervened for step in steps])  # a person chose this action
    arrays["episode"] = np.array([step.episode for step in steps])
    print(f"task {recording.spec.task}: {len(recording.episodes())} episodes, {len(steps)} steps")
    for name, values in arrays.items():
        print(f"  {name:12} {values.dtype!s:8} {values.shape}")
    if flags.save:
        np.savez(flags.save, **arrays)
    with tandem.Journal.open(flags.file) as journal:  # the same file step by step, for one that does not fit into memory
        order, first = next(iter(journal.read()))
        print(f"row {order}: episode {first.episode}, step {first.step}, action {first.action.round(2)}")


if __name__ == "__main__":
    main()
