"""What is in a journal: counts, sources, episodes, rejected steps. For the hub, the doctor, the page and demonstrations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

from tandem.data.journal_file import JournalFile
from tandem.data.validation import COUNT_LIMIT
from tandem.types import Transition

_NOT_DISCARDED = """
AND NOT EXISTS (SELECT 1 FROM discarded WHERE discarded.source = steps.source AND discarded.episode = steps.episode)
"""


class Rejected(NamedTuple):
    """A step that was kept and is not trained on."""

    ord: int
    source: str
    seq: int
    episode: int
    step: int
    reason: str


class Source(NamedTuple):
    """A process, or one row of it, that sent steps."""

    name: str
    steps: int
    first_seq: int
    last_seq: int


class EpisodeRows(NamedTuple):
    """The rows of an episode's accepted steps."""

    source: str
    episode: int
    steps: int
    first_ord: int
    last_ord: int


class Counts(NamedTuple):
    accepted: int
    rejected: int


class JournalQuestions(JournalFile):
    """The questions to a journal; none of them changes it."""

    @abstractmethod
    def _decoded(self, number: int, source: str, seq: int, record: bytes) -> Transition: ...

    def start_of_last(self, count: int, *, up_to_ord: int | None = None) -> int:
        """The bookmark after which the last `count` accepted steps follow: `read(start_of_last(n))` yields n, or all there are."""
        last = COUNT_LIMIT if up_to_ord is None else up_to_ord
        rows = self._rows(
            f"SELECT ord FROM steps WHERE ord <= ? AND status = 'accepted' {self._kept()} ORDER BY ord DESC LIMIT 1 OFFSET ?",
            (last, count),
        )
        return rows[0][0] if rows else 0

    def discarded(self) -> set[tuple[str, int]]:
        """Discarded episodes, by source and number."""
        return set(self._rows("SELECT source, episode FROM discarded")) if self._kept() else set()

    def _kept(self) -> str:
        """The part of a query that leaves out discarded episodes; empty if the journal has no such table yet."""
        return _NOT_DISCARDED if self._rows("SELECT 1 FROM sqlite_master WHERE name = 'discarded'") else ""

    def rejected(self, after_ord: int = 0) -> list[Rejected]:
        rows = self._rows(
            "SELECT ord, source, seq, episode, step, reason FROM steps WHERE ord > ? AND status = 'rejected' ORDER BY ord", (after_ord,)
        )
        return [Rejected(*row) for row in rows]

    def counts(self, after_ord: int = 0) -> Counts:
        found = dict(self._rows("SELECT status, count(*) FROM steps WHERE ord > ? GROUP BY status", (after_ord,)))
        return Counts(found.get("accepted", 0), found.get("rejected", 0))

    def reasons(self, limit: int = 5) -> list[tuple[str, int]]:
        """Reasons for rejected steps with their counts, the most frequent first."""
        query = "SELECT reason, count(*) AS n FROM steps WHERE status = 'rejected' GROUP BY reason ORDER BY n DESC LIMIT ?"
        return [(str(reason), count) for reason, count in self._rows(query, (limit,))]

    def rejected_sources(self, limit: int = 5) -> list[tuple[str, int]]:
        """Sources of rejected steps with their counts, the most frequent first."""
        query = "SELECT source, count(*) AS n FROM steps WHERE status = 'rejected' GROUP BY source ORDER BY n DESC LIMIT ?"
        return [(str(source), count) for source, count in self._rows(query, (limit,))]

    def sources(self) -> list[Source]:
        """All sources with their counts. A source without gaps has last seq + 1 steps."""
        return [Source(*row) for row in self._rows("SELECT source, count(*), min(seq), max(seq) FROM steps GROUP BY source")]

    def episodes(self, count: int, *, before: int = 0) -> list[EpisodeRows]:
        """The `count` episodes that began last, newest first; with `before`, only those that began before that row."""
        query = (
            "SELECT source, episode, count(*), min(ord) AS first, max(ord) FROM steps WHERE status = 'accepted' "
            "GROUP BY source, episode HAVING first < ? ORDER BY first DESC LIMIT ?"
        )
        return [EpisodeRows(*row) for row in self._rows(query, (before or COUNT_LIMIT, count))]

    def episode(self, source: str, episode: int, *, between: tuple[int, int] = (0, COUNT_LIMIT)) -> list[Transition]:
        """Its accepted steps in order. `between`: the rows to search, if known, which is faster."""
        query = "SELECT ord, seq, record FROM steps WHERE source = ? AND episode = ? AND ord BETWEEN ? AND ? AND status = 'accepted'"
        rows = self._rows(f"{query} ORDER BY seq", (source, episode, *between))
        return [self._decoded(number, source, seq, record) for number, seq, record in rows]

    def step_of(self, source: str, episode: int, number: int) -> Transition | None:
        """One accepted step of an episode, counted from 0; None if it has no such step."""
        query = "SELECT ord, seq, record FROM steps WHERE source = ? AND episode = ? AND status = 'accepted' ORDER BY seq LIMIT 1 OFFSET ?"
        return next((self._decoded(row, source, seq, record) for row, seq, record in self._rows(query, (source, episode, number))), None)

    def episodes_in_order(self) -> Iterator[list[Transition]]:
        """The accepted steps of each episode, in the order of their first steps; without those that somebody discarded."""
        query = f"SELECT source, episode, min(ord) AS first, max(ord) FROM steps WHERE status = 'accepted' {self._kept()} "
        for source, episode, first, last in self._rows(f"{query} GROUP BY source, episode ORDER BY first"):
            yield self.episode(source, episode, between=(first, last))

    def last_ord(self) -> int:
        """The bookmark after everything stored so far."""
        [(last,)] = self._rows("SELECT max(ord) FROM steps")
        return last or 0
