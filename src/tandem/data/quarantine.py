"""Steps that cannot be read: kept with their bytes and the reason, but never so much that a client that sends nonsense fills the disk."""

from __future__ import annotations

from typing import Any

RECORD_BYTES, ALL_BYTES = 2**18, 2**24
"""What is kept of one step that cannot be read, and of all of them since the journal was opened."""
MAX_REASON = 500
"""Characters."""


class Quarantine:
    """Counts them, and what is kept of them."""

    def __init__(self) -> None:
        self.count = 0
        self._kept_bytes = 0

    def row(self, source: str, seq: int, reason: str, record: bytes) -> tuple[Any, ...]:
        """The columns of a journal's row for one more of them."""
        self.count += 1
        kept = record[: min(RECORD_BYTES, ALL_BYTES - self._kept_bytes)]
        self._kept_bytes += len(kept)
        cut = "" if len(kept) == len(record) else f" ({len(kept)} of its {len(record)} bytes are kept)"
        return source, seq, -1, -1, "rejected", storable(reason) + cut, kept


def storable(reason: str) -> str:
    """A reason that names things from outside: of bounded length, and of characters that can be stored."""
    return reason[:MAX_REASON].encode(errors="replace").decode()
