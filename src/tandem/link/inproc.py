"""Both ends of the link in one process: the actor's steps go through the journal to the learner, policies come back.

The same rules as over the network: the learner reads committed, accepted rows of the journal in their order. The latest policy wins.
"""

from __future__ import annotations

from collections.abc import Sequence

from tandem.data.journal import Journal
from tandem.link.messages import EpisodeEnd
from tandem.types import ForeignPolicy, PolicySnapshot, Transition


class InprocLink:
    """`send` and `newest_policy` are the actor's end, `receive` and `publish` the learner's."""

    def __init__(self, journal: Journal, after_ord: int = 0) -> None:
        self._journal = journal
        self.ord = after_ord
        """The last row that the learner has received."""
        self._policy: PolicySnapshot | None = None
        self._discarded = journal.discarded()

    def episode_end(self, end: EpisodeEnd) -> None:
        """The result of an episode. A discarded one is no longer learned from."""
        if not end.kept:
            self._journal.discard([(end.source, end.episode)])
            self._discarded.add((end.source, end.episode))

    def discarded(self) -> set[tuple[str, int]]:
        """Episodes discarded since the last call; the first time, all of them."""
        found, self._discarded = self._discarded, set()
        return found

    def send(self, transitions: Sequence[Transition]) -> None:
        """Commit steps. Steps that are stored already are skipped, invalid ones are kept as rejected."""
        self._journal.append(transitions)

    def newest_policy(self, newer_than: int = -1) -> PolicySnapshot | None:
        """The current policy if it is newer than the one the actor has."""
        return self._policy if self._policy is not None and self._policy.version > newer_than else None

    def acting_with(self, snapshot: PolicySnapshot | ForeignPolicy) -> None:
        """A hub would show it; here every stored step carries the version."""

    def receive(self) -> list[Transition]:
        """Accepted steps since the last call, in the order in which they were committed."""
        received = list(self._journal.read(self.ord, with_discarded=True))
        if received:
            self.ord = received[-1][0]
        return [transition for _, transition in received]

    def publish(self, snapshot: PolicySnapshot) -> None:
        self._policy = snapshot
