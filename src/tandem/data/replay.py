"""The last `capacity` transitions in memory, laid out for drawing batches.

Every row is a whole transition with its own next observation. Buffers that store each frame once and take the next
row's for the next observation save memory, and hand out the wrong one wherever rows do not follow each other
in time: where a segment was cut out of an episode, at a time-out, and where the ring closes. Here two rows share what a camera saw
only where it is equal (`frames.FrameStore`).

Rows are counted by age: row 0 is the oldest. The same random numbers therefore draw the same transitions from the buffer of an
uninterrupted run and from one that was filled again from the journal. Filling it again needs to know how far back to go: each row
keeps the number that its step has in the run, and `oldest` is saved with a checkpoint. The capacity alone would not do. When an
episode is thrown away from a full ring, the ring has free rows, but the older steps that it has overwritten do not come back.

What comes after a step is known too, without copies: each row has the place of its successor (same source, same episode, next step),
so that the rewards of `n_step` steps are summed when a batch is drawn. The sum ends early at a termination (nothing follows), at a
time-out, and where the successor is not here: it has not arrived yet, or a person chose one of the two actions and only that one is
in the demonstrations. The value of the last observation is then discounted by the number of steps really summed.

Where the policy decides every h control steps (`decisions.py`), a drawn row stands for the decision that it is part of.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from tandem.data.switches import Switches
from tandem.decisions import Decisions
from tandem.errors import DataError
from tandem.layouts import ActionLayout, Layout
from tandem.types import Batch, Spec, Transition

if TYPE_CHECKING:
    from tandem.data.blame import BlameRows
    from tandem.data.decisions import DecisionRows
    from tandem.data.frames import FrameStore


class Replay:
    """A ring of transitions of one spec. Memory is taken up as rows arrive."""

    def __init__(
        self, spec: Spec, capacity: int, n_step: int = 1, discount: float = 1.0, decisions: Decisions | None = None, sliding: bool = False
    ):
        if capacity < 1:
            raise ValueError(f"a replay needs room for at least one transition, got a capacity of {capacity}")
        self.spec = spec
        self.capacity = capacity
        self.n_step, self.discount = n_step, discount
        """How many rewards are summed in a batch, and their discount per step; both may be changed at any time."""
        self.inserted = 0
        """All transitions inserted and not taken out again; those beyond the capacity have been written over."""
        self._layout = Layout(spec, privileged=True)
        # np.zeros maps pages and touches none: a large capacity costs nothing until it is used.
        self._observations, self._next_observations = (np.zeros((capacity, self._layout.size), np.float32) for _ in range(2))
        self._actions = np.zeros((capacity, spec.action_dim), np.float32)
        self._rewards, self._masks = np.zeros(capacity, np.float32), np.zeros(capacity, np.float32)
        self._corrected = np.zeros(capacity, np.float32)
        self._frames: FrameStore | None = None
        """Entries that are kept as they are, each frame once; None where there are none."""
        if self._layout.raw_names:
            from tandem.data.frames import FrameStore  # only tasks with pictures need it

            self._frames = FrameStore({name: spec.observation[name] for name in self._layout.raw_names}, capacity)
        self._episodes = np.zeros(capacity, np.int64)
        """Which episode each row is of, as a hash of its source and number."""
        self._numbers = np.zeros(capacity, np.int64)
        """Which step of the run each row is."""
        self._steps = np.zeros(capacity, np.int64)
        """Which step of its episode each row is."""
        self._next = np.zeros(capacity, np.int64)
        """Where the next step of the same episode is; -1: not here."""
        self._returns = np.zeros(capacity, np.float32)
        """The discounted return from each row to the end of its episode; -inf while it is not known (`set_returns`)."""
        self._running: dict[int, list[int]] = {}
        """Where the rows of each episode are that has not ended, the newest last."""
        self._decided: DecisionRows | None = None
        """Which rows belong to one decision; None where each is one. `sliding`: each of them may begin a decision."""
        if decisions is not None and decisions.steps > 1:
            from tandem.data.decisions import DecisionRows  # only policies that decide more rarely need it

            self._decided = DecisionRows(decisions, spec, capacity, sliding)
        self.blame: BlameRows | None = None
        """Which rows came just before a take-over; None where that plays no part."""
        self._switches = None if ActionLayout.of(spec).all_continuous else np.zeros((2, capacity), np.float32)
        """How often each row tells a discrete part something new, and the discounted sum of that to the end of its episode."""

    def __len__(self) -> int:
        return min(self.inserted, self.capacity)

    def insert(self, transition: Transition, number: int = 0, switches: float = 0.0) -> None:
        """Add a step, in place of the oldest if the ring is full. `number` counts the steps of a run; it never goes down. `switches`: how
        many discrete parts it tells something new."""
        row, episode = self.inserted % self.capacity, hash((transition.source, transition.episode))
        if self._frames is not None:
            self._frames.insert(transition, row, self._before(episode, transition.step), written_over=self.inserted >= self.capacity)
        # Shapes are made exact before they are stored: NumPy would stretch a row of one number over all columns.
        self._observations[row] = self._layout.flatten(transition.observation)
        self._next_observations[row] = self._layout.flatten(transition.next_observation)
        self._actions[row] = transition.action.reshape(self.spec.action_dim)
        self._rewards[row] = transition.reward
        self._episodes[row], self._steps[row], self._numbers[row] = episode, transition.step, number
        self._next[row], self._returns[row] = -1, -np.inf
        self._masks[row] = 0.0 if transition.terminated else 1.0
        self._corrected[row] = transition.corrected
        if self._switches is not None:
            self._switches[:, row] = switches, 0.0
        before = self._before(episode, transition.step)  # unless this row has taken its place
        if before is not None:
            self._next[before] = row
        if self._decided is not None:
            self._decided.insert(transition, row, before)
        if self.blame is not None:
            self.blame.insert(transition, row, self._running.get(episode, ()) if before is not None else (), self._corrected)
        self._running.setdefault(episode, []).append(row)
        self.inserted += 1

    def _before(self, episode: int, step: int) -> int | None:
        """The row of the step before this one; None if it is not here."""
        rows = self._running.get(episode)
        here = rows and self._episodes[rows[-1]] == episode and self._steps[rows[-1]] == step - 1
        return rows[-1] if rows and here else None

    def set_returns(self, source: str, episode: int, returns: np.ndarray | None, switches: np.ndarray | None = None) -> None:
        """An episode has ended. `returns`: the discounted return from each of its steps on; None where its future was cut off.
        `switches`: the same of what discrete parts were told."""
        name = hash((source, episode))
        rows = np.array(self._running.pop(name, ()), np.int64)
        if returns is not None and len(rows):
            rows = rows[self._episodes[rows] == name]  # others have been written over
            self._returns[rows] = returns[self._steps[rows]]
            if self._switches is not None and switches is not None:
                self._switches[1, rows] = switches[self._steps[rows]]

    def pass_by(self, transition: Transition) -> None:
        """A step that there is no room for: a decision that begins with it goes on in those that are kept."""
        if self._decided is not None:
            self._decided.pass_by(transition)

    def extend(self, transitions: Iterable[Transition]) -> None:
        for transition in transitions:
            self.insert(transition)

    def forget(self, episodes: Iterable[tuple[str, int]]) -> int:
        """Take out the steps of these episodes (source, number); the others keep their order. Returns how many there were."""
        if self._decided is not None:
            self._decided.forget(episodes)
        unwanted = np.array([hash(episode) for episode in episodes], np.int64)
        places = self._places(np.arange(len(self)))
        return self._keep(places[~np.isin(self._episodes[places], unwanted)])

    @property
    def oldest(self) -> int | None:
        """The number of the oldest step; None while there is none."""
        return int(self._numbers[self._places(np.zeros(1, int))[0]]) if self.inserted else None

    def drop_before(self, number: int) -> int:
        """Take out the steps with a lower number than this. Returns how many there were."""
        places = self._places(np.arange(len(self)))
        return self._keep(places[self._numbers[places] >= number])

    def _keep(self, kept: np.ndarray) -> int:
        """Only the rows at these places, in this order; returns how many are gone."""
        removed = len(self) - len(kept)
        if removed:
            if self._frames is not None:
                self._frames.release(np.setdiff1d(self._places(np.arange(len(self))), kept))
            for column in self._columns():
                column[: len(kept)] = column[kept]
            self.inserted = len(kept)
            self._move_links(kept)
        return removed

    def _move_links(self, kept: np.ndarray) -> None:
        """Places that rows remember, after the rows at `kept` have moved to the front."""
        moved = np.full(self.capacity + 1, -1, np.int64)  # the last one stands for -1, no successor
        moved[kept] = np.arange(len(kept))
        self._next[: len(kept)] = moved[self._next[: len(kept)]]
        running = {episode: moved[rows] for episode, rows in self._running.items()}
        self._running = {episode: rows[rows >= 0].tolist() for episode, rows in running.items() if (rows >= 0).any()}
        if self._decided is not None:
            self._decided.begins[: len(kept)] = moved[self._decided.begins[: len(kept)]]
        if self.blame is not None:
            self.blame.move(moved, len(kept))

    def _places(self, ages: np.ndarray) -> np.ndarray:
        """Where in the arrays the rows of these ages are."""
        return ages if self.inserted <= self.capacity else (ages + self.inserted) % self.capacity

    def _columns(self) -> list[np.ndarray]:
        transition = [self._observations, self._next_observations, self._actions, self._rewards, self._masks, self._corrected]
        links = [self._episodes, self._numbers, self._steps, self._next, self._returns]
        further = [*(() if self._switches is None else self._switches)]
        if self._frames is not None:
            further += [self._frames.seen, self._frames.next_seen]
        further += [] if self.blame is None else self.blame.columns()
        return [*transition, *links, *further, *(() if self._decided is None else self._decided.columns())]

    def sample(self, rng: np.random.Generator, shape: int | tuple[int, ...]) -> Batch:
        """So many transitions, each drawn from all rows alike, with replacement; `(*shape, ...)` arrays of their own."""
        if not self.inserted:
            raise DataError(
                f"nothing to sample: no transition of '{self.spec.task}' has arrived yet. Wait for the actor, or load demonstrations."
            )
        return self.rows(rng.integers(len(self), size=shape))

    def rows(self, ages: np.ndarray) -> Batch:
        """The transitions at these rows, 0 being the oldest, with the rewards of `n_step` steps. `imitation` is 1 for corrections.

        Where the policy decides every h steps, those of the decisions that they are part of, with the rewards of `n_step` decisions.
        """
        places, actions, ahead = self._places(ages), None, self.n_step
        if self._decided is not None:
            places = self._decided.starts(places, self._episodes, self._steps)
            actions, lasted = self._decided.gathered(places, self._next, self._actions)
            ahead = lasted + (self.n_step - 1) * self._decided.decisions.steps
        rewards, discounts, last = self._look_ahead(places, self._rewards, ahead)
        switches = None if self._switches is None else self._look_ahead(places, self._switches[0], ahead)[0]
        blame = None if self.blame is None else self._look_ahead(places, self.blame.weights, ahead)[0]
        return Batch(
            observations=self._observations.take(places, axis=0),
            actions=self._actions.take(places, axis=0) if actions is None else actions,
            rewards=rewards,
            masks=discounts * self._masks.take(last),
            next_observations=self._next_observations.take(last, axis=0),
            imitation=self._corrected.take(places),
            bounds=self._returns.take(places),
            switches=switches,
            switches_ahead=None if self._switches is None else self._switches[1].take(places),
            blamed=None
            if self.blame is None
            else self.blame.drawn(self._places(ages), blame, self._observations, self._actions, self._frames),
            raw={} if self._frames is None else self._frames.take(self._frames.seen.take(places)),
            next_raw={} if self._frames is None else self._frames.take(self._frames.next_seen.take(last)),
        )

    def _look_ahead(self, places: np.ndarray, of: np.ndarray, steps: int | np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """From these rows on, over so many steps: the discounted sum `of` rewards, the discount of the last, and where that is."""
        rewards, discounts, last = of.take(places), np.ones(places.shape, np.float32), places
        for summed in range(1, int(np.max(steps, initial=1))):
            following = self._next.take(last)
            goes_on = (following >= 0) & (summed < steps)
            last = np.where(goes_on, following, last)
            discounts = np.where(goes_on, discounts * np.float32(self.discount), discounts)
            rewards = rewards + np.where(goes_on, discounts * of.take(last), 0)
        return rewards, discounts, last


class Returns:
    """The return that really followed each step, known once its episode has ended.

        G_t = r_t + γ r_(t+1) + γ² r_(t+2) + ...    to the step that terminated

    Collects the rewards of running episodes, and hands the returns to the replay buffers when an episode ends. An episode that was cut
    off by time has none: what would have come is not known. Nor has one that a person threw away.

    Where an action has discrete parts, the same is done with the number of times that they were told something new (`switches.py`).
    """

    def __init__(self, discount: float, layout: ActionLayout | None = None) -> None:
        self._discount = discount
        self._switches = None if layout is None or layout.all_continuous else Switches(layout)
        self._running: dict[tuple[str, int], dict[int, float]] = {}
        """Reward of each step so far, by source and number of the episode."""

    def switches(self, step: Transition) -> float:
        """How many discrete parts this step tells something new; asked once for each step, before `add`."""
        return 0.0 if self._switches is None else self._switches.count(step)

    def add(self, step: Transition, *replays: Replay) -> None:
        """In the order in which the steps were made; `replays` hold the steps of the episode, or some of them."""
        rewards = self._running.setdefault((step.source, step.episode), {})
        rewards[step.step] = step.reward
        if step.last:
            del self._running[step.source, step.episode]
            first = next(iter(rewards))  # above 0 where the episode began in the middle of a demonstration
            whole = step.terminated and len(rewards) == step.step + 1 - first
            returns = discounted([0.0] * first + list(rewards.values()), self._discount) if whole else None
            switches = None if self._switches is None else self._switches.end(step.source, step.episode)
            switches = None if switches is None else discounted([0.0] * first + switches, self._discount)
            for replay in replays:
                replay.set_returns(step.source, step.episode, returns, switches)

    def forget(self, episodes: Iterable[tuple[str, int]]) -> None:
        for episode in episodes:
            self._running.pop(episode, None)
        if self._switches is not None:
            self._switches.forget(episodes)


def discounted(rewards: list[float], discount: float) -> np.ndarray:
    """The return from each step to the end, (steps,) float32."""
    returns, after = np.zeros(len(rewards), np.float32), 0.0
    for i in reversed(range(len(rewards))):
        after = rewards[i] + discount * after
        returns[i] = after
    return returns
