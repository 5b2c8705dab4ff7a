"""Packed steps, as they come over a link: stored in a journal byte for byte as they were sent, but for the frames that they bring along.

A step that is not sound costs itself alone: it is kept as rejected with the reason, and with its bytes if it cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable

from tandem.codec import CodecError, unpack_transition
from tandem.data.journal import Journal, Row, require_name, row_of
from tandem.data.quarantine import Quarantine
from tandem.data.screening import Place, Screen
from tandem.data.validation import Validator


class Intake:
    """The way of packed steps into one journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._screen, self._validator = Screen(journal.spec), Validator(journal.spec)
        self.quarantined = Quarantine()
        """Steps that could not be read; they are kept as rejected."""

    def append(self, records: Iterable[tuple[str, int, bytes]]) -> int:
        """`Journal.append` for packed steps: (source, seq, `pack_transition` bytes)."""
        known = list(records)
        try:
            places = self._screen.places([record for _, _, record in known])
        except Exception:  # one record must not decide about the others: each is looked at alone
            places = [None] * len(known)
        return self._journal.insert([self._row(*record, place) for record, place in zip(known, places, strict=True)])

    def quarantine(self, source: str, seq: int, problem: Exception, record: bytes) -> int:
        """Keep a step that could not be stored in any other way, as rejected."""
        return self._journal.insert([self.quarantined.row(source, seq, f"cannot be stored: {type(problem).__name__}: {problem}", record)])

    def _row(self, source: str, seq: int, record: bytes, place: Place | None) -> Row:
        require_name(source, seq)
        if place is not None:
            return source, seq, place.episode, place.step, "accepted", None, record
        try:
            transition = unpack_transition(record, source, seq)
            if self._journal.frames is not None:
                return self._journal.row(transition)
            return row_of(transition, self._validator.reason(transition), record)
        except CodecError as problem:
            return self.quarantined.row(source, seq, str(problem), record)
        except Exception as problem:  # nobody thought of such a record; it costs itself alone
            return self.quarantined.row(source, seq, f"cannot be handled: {type(problem).__name__}: {problem}", record)
