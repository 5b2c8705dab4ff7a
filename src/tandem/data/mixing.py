"""Where a transition goes, and where a batch comes from.

demonstrations ──────────► demos  ─┐ half
a person's corrections ─┬► demos   ├──────► batch
                        └► online ─┘ half
the policy's own steps ──► online
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tandem.data.replay import Replay
from tandem.types import Batch, Transition

DEMO_SHARE = 0.5


def route(transitions: Iterable[Transition], online: Replay, demos: Replay | None) -> None:
    """Every step into the online replay; what a person did also into the demonstrations, if there are any."""
    for transition in transitions:
        online.insert(transition)
        if transition.intervened and demos is not None:
            demos.insert(transition)


class Mixture:
    """Batches of which one half is demonstrations and the other what the robot lived through."""

    def __init__(self, demos: Replay | None, online: Replay, batch_size: int):
        if batch_size < 1:
            raise ValueError(f"a batch has at least one transition, got a batch_size of {batch_size}")
        self.demos = demos
        self.online = online
        self.batch_size = batch_size

    def sample(self, rng: np.random.Generator, num_batches: int, demo_share: float = DEMO_SHARE) -> Batch:
        """`num_batches` at once, arrays `(num_batches, batch_size, ...)`; demonstrations are the first rows of each batch.

        While one side is empty everything comes from the other; `demo_share` 1 is training on demonstrations alone.
        The arrays are new each time: whoever computes with them in the background may keep them.
        """
        from_demos = self._demo_rows(demo_share)
        if self.demos is None or from_demos == 0:
            return self.online.sample(rng, (num_batches, self.batch_size))
        if from_demos == self.batch_size:
            return self.demos.sample(rng, (num_batches, self.batch_size))
        demos = self.demos.sample(rng, (num_batches, from_demos))
        online = self.online.sample(rng, (num_batches, self.batch_size - from_demos))
        return _side_by_side(demos, online)

    def _demo_rows(self, demo_share: float) -> int:
        if not 0.0 <= demo_share <= 1.0:
            raise ValueError(f"demo_share is a share from 0 to 1, got {demo_share}")
        if not self.demos:  # none, or empty
            return 0
        return self.batch_size if not self.online else round(self.batch_size * demo_share)


def _side_by_side(left: Batch, right: Batch) -> Batch:
    def joined(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.concatenate((one, other), axis=1)

    return Batch(
        observations=joined(left.observations, right.observations),
        actions=joined(left.actions, right.actions),
        rewards=joined(left.rewards, right.rewards),
        masks=joined(left.masks, right.masks),
        next_observations=joined(left.next_observations, right.next_observations),
        corrected=joined(left.corrected, right.corrected),
        raw={name: joined(array, right.raw[name]) for name, array in left.raw.items()},
        next_raw={name: joined(array, right.next_raw[name]) for name, array in left.next_raw.items()},
    )
