"""Seeds of episodes: by the run's seed, the purpose and an index, so that no two episodes share a start by accident.

    episode_seed(run_seed, purpose, *index)

NumPy's `SeedSequence` mixes all of these into 63 bits. Arithmetic such as `seed + i` does not do: demonstrations of run 0 and run 1
would share all starts but one, and training of run 100 might begin with the starts that run 0 is evaluated on. Seeds of 32 bits do
not do either: among 100,000 of them two are equal with a probability of about 70 %; of 63 bits, 5e-10.

    purpose          index
    demonstrations   attempt
    training         steps that the actor has made when it begins, row: a resume in new episodes does not repeat the first ones
    selection        episode: by these, policies are compared and training is stopped
    final            episode: not used for any choice; the figure to report
    play             episode: for people to watch
    transfer         row: states in which one policy is cloned from another
    correction       row: the noise of scripted people, not a start

Actors in processes of their own each have a seed derived from the run's (`process_seed`), and count as runs here.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np

Purpose = Literal["demonstrations", "training", "selection", "final", "play", "transfer", "correction"]
_KEYS: dict[Purpose, int] = {
    "demonstrations": 0,
    "training": 1,
    "selection": 2,
    "final": 3,
    "play": 4,
    "transfer": 5,
    "correction": 6,
}
_PROCESS = 7


def episode_seed(run_seed: int, purpose: Purpose, *index: int) -> int:
    """The seed of one episode."""
    return _mixed(run_seed, _KEYS[purpose], *index)


def episode_seeds(run_seed: int, purpose: Purpose, count: int, *index: int) -> list[int]:
    """The seeds of `count` episodes, with the indices `(*index, 0)` to `(*index, count - 1)`."""
    return [episode_seed(run_seed, purpose, *index, number) for number in range(count)]


def process_seed(run_seed: int, source: str) -> int:
    """The seed of an actor process, which is known by its globally unique source."""
    digest = hashlib.sha256(source.encode()).digest()
    return _mixed(run_seed, _PROCESS, int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little"))


def _mixed(run_seed: int, *key: int) -> int:
    if run_seed < 0:
        raise ValueError(f"a seed is 0 or more, got {run_seed}")
    [word] = np.random.SeedSequence(run_seed, spawn_key=key).generate_state(1, np.uint64)
    return int(word) >> 1
