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

from typing import Any, Literal, NamedTuple

import numpy as np

from tandem.data.replay import Replay, Returns
from tandem.types import Batch, Blamed, Transition

ReturnBound = Literal["off", "demos", "all", "while-failing"]
DEMO_SHARE = 0.5
"""Share of a batch that comes from the demonstrations."""


def store(step: Transition, number: int, online: Replay, demos: Replay | None, returns: Returns) -> None:
    """Every step goes into the online replay; a person's action also goes into the demonstrations, if there is a buffer for them.

    `number` counts the steps that a run has received, from 0. With the last step of an episode the returns of all its steps are known.
    """
    switches = returns.switches(step)
    online.insert(step, number, switches)
    if step.intervened and demos is not None:
        demos.insert(step, number, switches)
    returns.add(step, *(replay for replay in (online, demos) if replay is not None))


class Imitation(NamedTuple):
    """How much the policy should imitate what a person did."""

    demos: float
    """Actions of demonstrations that were recorded beforehand."""
    corrections: float
    """Actions that a person put in the place of the policy's."""


class Mixture:
    """Draws batches from the demonstrations and the online replay."""

    def __init__(self, demos: Replay | None, online: Replay, batch_size: int, bound: ReturnBound = "off", recorded: bool = True):
        """`bound`: for which rows the return that followed is given. `recorded`: the demonstrations were recorded beforehand; False:
        they are a person's corrections during this run alone."""
        if batch_size < 1:
            raise ValueError(f"a batch has at least one transition, got a batch_size of {batch_size}")
        self.demos = demos
        self.online = online
        self.batch_size = batch_size
        self.bound: ReturnBound = bound
        self.recorded = recorded

    def sample(
        self,
        rng: np.random.Generator,
        num_batches: int,
        demo_share: float = DEMO_SHARE,
        imitation: Imitation | None = None,
        bound_share: float = 1.0,
    ) -> Batch:
        """`num_batches` at once, arrays `(num_batches, batch_size, ...)`; demonstrations are the first rows of each batch.

        While one side is empty everything comes from the other; `demo_share` 1 is training on demonstrations alone. With the bound
        "while-failing", `bound_share` is the share of the rows whose return that followed is given; the others have none (-inf).
        The arrays are new each time, so an update that runs in the background may keep them.
        """
        from_demos = self._demo_rows(demo_share)
        parts = []
        if self.demos is not None and from_demos:
            parts.append(self._demos(rng, (num_batches, from_demos), imitation))
        if from_demos < self.batch_size:
            parts.append(self._online(rng, (num_batches, self.batch_size - from_demos), imitation))
        batch = parts[0] if len(parts) == 1 else _side_by_side(*parts)
        if self.bound != "while-failing" or bound_share >= 1.0:
            return batch
        kept = rng.random(batch.bounds.shape) < bound_share
        return batch._replace(bounds=np.where(kept, batch.bounds, np.float32(-np.inf)))

    def _demos(self, rng: np.random.Generator, shape: tuple[int, int], imitation: Imitation | None) -> Batch:
        assert self.demos is not None
        batch = self.demos.sample(rng, shape)
        weights = None if imitation is None else np.where(batch.imitation > 0, imitation.corrections, imitation.demos).astype(np.float32)
        return batch._replace(imitation=weights, bounds=None if self.bound == "off" else batch.bounds)

    def _online(self, rng: np.random.Generator, shape: tuple[int, int], imitation: Imitation | None) -> Batch:
        batch = self.online.sample(rng, shape)
        bounds = {"off": None, "demos": np.full(shape, -np.inf, np.float32)}.get(self.bound, batch.bounds)
        return batch._replace(imitation=None if imitation is None else np.float32(imitation.corrections) * batch.imitation, bounds=bounds)

    def _demo_rows(self, demo_share: float) -> int:
        if not 0.0 <= demo_share <= 1.0:
            raise ValueError(f"demo_share is a share from 0 to 1, got {demo_share}")
        if not self.demos:  # none, or empty
            return 0
        if not self.online:
            return self.batch_size
        rows = round(self.batch_size * demo_share)
        return rows if self.recorded else min(rows, len(self.demos))


def _side_by_side(left: Any, right: Any) -> Any:
    """Two batches as one: every array of the one before that of the other."""
    if isinstance(left, dict):
        return {name: _side_by_side(array, right[name]) for name, array in left.items()}
    if isinstance(left, Batch | Blamed):
        return type(left)(*map(_side_by_side, left, right))
    return None if left is None else np.concatenate((left, right), axis=1)
