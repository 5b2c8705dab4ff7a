"""A group of packed steps, as it is sent: a table in the header, and the steps behind it as raw bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from tandem.link.fields import COUNT_LIMIT, MAX_NAME, BadFrame, make_frame, shown

MAX_RECORDS = 256
"""Records in one frame."""
GROUP_BYTES = 2**20
"""Bytes of records in one frame; a single record may be larger."""
EPISODE_END = -1
"""In place of a `seq`: the record is an `EpisodeEnd`, not a step."""


class Record(NamedTuple):
    """One step as it was packed, or one `EpisodeEnd` (its `seq` is then `EPISODE_END`)."""

    source: str
    seq: int
    data: bytes


@dataclass(frozen=True)
class Steps:
    """A group of records, in the order in which the steps were made."""

    group: int
    """Number of the group on this connection, from 1. An acknowledgement names the last committed group."""
    own: bool
    """False for steps that another process left behind: they use no credit."""
    records: Sequence[Record]

    kind: ClassVar[str] = "steps"

    def pack(self) -> bytes:
        sources = {source: index for index, source in enumerate(dict.fromkeys(record.source for record in self.records))}
        header = {
            "group": self.group,
            "own": self.own,
            "sources": list(sources),
            "which": [sources[record.source] for record in self.records],
            "seqs": [record.seq for record in self.records],
            "sizes": [len(record.data) for record in self.records],
        }
        return make_frame("steps", header, *(record.data for record in self.records))

    @classmethod
    def parse(cls, fields: Mapping[str, Any], data: bytes, start: int) -> Steps:
        """Checks the table. The records themselves are checked when they are stored."""
        try:
            group, own, sources = fields["group"], fields["own"], fields["sources"]
            which, seqs, sizes = fields["which"], fields["seqs"], fields["sizes"]
            if type(group) is not int or not 1 <= group < COUNT_LIMIT or type(own) is not bool:
                raise BadFrame(f"'steps' of group {shown(group)}, own {shown(own)}")
            if not (type(which) is type(seqs) is type(sizes) is type(sources) is list and 1 <= len(which) <= MAX_RECORDS):
                raise BadFrame(f"'steps' without 1 to {MAX_RECORDS} records")
            if not all(type(source) is str and 1 <= len(source) <= MAX_NAME for source in sources):
                raise BadFrame(f"'steps' from {shown(sources)}: a source is a text of 1 to {MAX_NAME} characters")
            records = []
            for index, seq, size in zip(which, seqs, sizes, strict=True):
                if type(index) is not int or type(seq) is not int or type(size) is not int:
                    raise BadFrame("'steps' whose table is not of whole numbers")
                if not (0 <= index < len(sources) and EPISODE_END <= seq < COUNT_LIMIT and 0 <= size <= len(data) - start):
                    raise BadFrame(f"'steps' with a record of source {index}, seq {seq}, {size} bytes, which is impossible")
                records.append(Record(sources[index], seq, data[start : start + size]))
                start += size
        except (KeyError, ValueError) as problem:
            raise problem if isinstance(problem, BadFrame) else BadFrame(f"'steps' with a bad table: {problem}") from None
        if start != len(data):
            raise BadFrame(f"'steps' with {len(data) - start} bytes that belong to no record")
        return cls(group, own, records)
