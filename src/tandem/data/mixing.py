"""Where a transition is stored, and where a batch comes from.

recorded demonstrations ───► demos  ─┐ half, or fewer rows (see below)
a person's corrections ───┬► demos   ├──────► batch
                          └► online ─┘ the rest
the policy's own steps ────► online

RLPD and hil-serl draw half of every batch from the demonstrations, however few they are, because they show what success looks
like long before the policy gets there. hil-serl adds corrections to the same buffer. It always starts from recorded
demonstrations, so that one correction is a small part of that half.

Without recorded demonstrations the buffer holds corrections alone, one step at first. Half of every batch would be copies of it,
and the critics would fit that step. So corrections alone get as many rows of a batch as there are corrected steps, up to half:
in the mean none is drawn from there more than once per batch. (In a batch of 256 a step of the online replay is drawn that often
while the replay holds 256.)

    recorded   corrected steps   rows of a batch of 256 from demos
    yes        any               128
    no         0                 0
    no         1                 1
    no         40                40
    no         128 or more       128
"""

from __future__ import annotations

import numpy as np

from tandem.data.replay import Replay
from tandem.types import Batch, Transition

DEMO_SHARE = 0.5
"""Share of a batch that comes from the demonstrations."""


def store(step: Transition, number: int, online: Replay, demos: Replay | None) -> None:
    """Every step goes into the online replay; a person's action also goes into the demonstrations, if there is a buffer for them.

    `number` counts the steps that a run has received, from 0.
    """
    online.insert(step, number)
    if step.intervened and demos is not None:
        demos.insert(step, number)


class Mixture:
    """Draws batches from the demonstrations and the online replay."""

    def __init__(self, demos: Replay | None, online: Replay, batch_size: int, recorded: bool = True):
        """`recorded`: the demonstrations were recorded beforehand. False: they are a person's corrections during this run alone."""
        if batch_size < 1:
            raise ValueError(f"a batch has at least one transition, got a batch_size of {batch_size}")
        self.demos = demos
        self.online = online
        self.batch_size = batch_size
        self.recorded = recorded

    def sample(self, rng: np.random.Generator, num_batches: int, demo_share: float = DEMO_SHARE) -> Batch:
        """`num_batches` at once, arrays `(num_batches, batch_size, ...)`; demonstrations are the first rows of each batch.

        While one side is empty everything comes from the other; `demo_share` 1 is training on demonstrations alone.
        The arrays are new each time, so an update that runs in the background may keep them.
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
        if not self.online:
            return self.batch_size
        rows = round(self.batch_size * demo_share)
        return rows if self.recorded else min(rows, len(self.demos))


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
