"""Which records an actor sends next, which are under way, and which are acknowledged.

The records stay in spool files and are read back for sending, so memory is bounded. After a reconnect everything that is not
acknowledged is sent again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path

from tandem.link.messages import Welcome
from tandem.link.spool import Gap, Leftover, Position, Spool
from tandem.link.steps import EPISODE_END, GROUP_BYTES, MAX_RECORDS, Steps

MAX_GROUPS_UNDER_WAY = 4
"""While so many are under way, new steps wait for the next group: at a high rate groups grow by themselves."""


class SpoolReader:
    """A spool that is being sent: this process's own, or one that another process left behind."""

    def __init__(self, spool: Spool | Leftover, own: bool) -> None:
        self.spool, self.own = spool, own
        self.acknowledged = self.sent = spool.start
        self.groups_under_way = 0

    @property
    def more(self) -> bool:
        return self.sent < self.spool.end

    @property
    def done(self) -> bool:
        return not self.more and not self.groups_under_way

    def rewind(self) -> None:
        """After a reconnect: send again from the first record that is not acknowledged."""
        self.sent, self.groups_under_way = self.acknowledged, 0


@dataclass(frozen=True)
class SentGroup:
    """A group that was sent and is not acknowledged."""

    number: int
    reader: SpoolReader
    end: Position
    steps: int
    size: int


class Outbox:
    """The spools of one actor, in the order in which they are sent. Used by the link's thread alone."""

    def __init__(self) -> None:
        self._readers: list[SpoolReader] = []
        self._under_way: deque[SentGroup] = deque()
        self._group = 0
        self.last_was_full = False
        """The last group was large: there may be more to send at once."""
        self.gaps: list[tuple[Path, Gap]] = []
        """What could not be read, and in which spool, since the caller last emptied this list."""

    @property
    def left_behind(self) -> int:
        """Bytes in spools of other processes."""
        return sum(reader.spool.size for reader in self._readers if isinstance(reader.spool, Leftover))

    @property
    def more(self) -> bool:
        return any(reader.more for reader in self._readers)

    def add(self, spool: Spool | Leftover, own: bool) -> None:
        self._readers.append(SpoolReader(spool, own))

    def rewind(self) -> None:
        """A new connection: its groups count from 1, and everything unacknowledged is sent again."""
        for reader in self._readers:
            reader.rewind()
        self._under_way.clear()
        self._group = 0

    def room(self, limits: Welcome) -> bool:
        """Whether another group may be under way."""
        size = sum(group.size for group in self._under_way)
        largest = max(GROUP_BYTES, limits.record_bytes)
        return not self._under_way or (len(self._under_way) < MAX_GROUPS_UNDER_WAY and size + largest <= limits.window_bytes)

    def next_group(self, limits: Welcome) -> Steps | None:
        """The next group to send; None if there is nothing, or no room."""
        while True:
            reader = next((reader for reader in self._readers if reader.more), None)
            if reader is None or not self.room(limits):
                return None
            self._readers.remove(reader)  # to the end: a busy actor does not hold up spools that others left behind
            self._readers.append(reader)
            known = len(reader.spool.gaps)
            records, reader.sent = reader.spool.read(reader.sent, MAX_RECORDS, GROUP_BYTES)
            self.gaps += [(reader.spool.folder, gap) for gap in reader.spool.gaps[known:]]
            if records:
                break
            self.release()
        self._group += 1
        reader.groups_under_way += 1
        steps = sum(record.seq != EPISODE_END for record in records)
        size = sum(len(record.data) for record in records)
        self._under_way.append(SentGroup(self._group, reader, reader.sent, steps, size))
        self.last_was_full = len(records) == MAX_RECORDS or size >= GROUP_BYTES // 2
        return Steps(self._group, reader.own, records)

    def acknowledge(self, number: int) -> int:
        """All groups up to this one are committed; returns how many of this process's own steps that were."""
        own = 0
        while self._under_way and self._under_way[0].number <= number:
            group = self._under_way.popleft()
            group.reader.acknowledged = group.end
            group.reader.groups_under_way -= 1
            if group.reader.own:
                own += group.steps
        self.release()
        return own

    def release(self) -> None:
        """Remove files in which every record is acknowledged."""
        for reader in list(self._readers):
            if isinstance(reader.spool, Spool):
                reader.spool.release(reader.acknowledged)
            elif reader.done:
                reader.spool.remove()
                self._readers.remove(reader)

    def close(self) -> None:
        for reader in self._readers:
            reader.spool.close()
        self._readers = []
