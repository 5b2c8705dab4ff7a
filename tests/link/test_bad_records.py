"""A record or message that nobody thought of costs itself alone: it is kept with its bytes and the reason, and everything goes on."""

import json
from pathlib import Path
from typing import Any

import pytest
from link_samples import SPEC, HubProcess, client, make_run, step

from tandem.codec import pack, pack_transition, unpack
from tandem.data import intake, quarantine
from tandem.data.journal import Journal
from tandem.link.fields import BadFrame
from tandem.link.messages import FROM_ACTOR, PROTOCOL, Command, EpisodeEnd, parse
from tandem.link.steps import EPISODE_END, Record
from tandem.link.writer import Group, Stored, Writer
from tandem.runs.board import Board
from tests.waiting import wait_for

STEP = pack_transition(step(0))
DEPTH = 1000


def nested(depth: int = DEPTH) -> bytes:
    """So many lists inside each other, in msgpack."""
    return b"\x91" * depth + b"\xc0"


def framed(fields: dict[str, Any], name: str, value: bytes) -> bytes:
    """A frame with one field more, which is already packed."""
    header = pack(fields)
    assert header[0] & 0xF0 == 0x80 and len(fields) < 15
    header = bytes([header[0] + 1]) + header[1:] + pack(name) + value
    return len(header).to_bytes(4, "little") + header


def with_key_of_bytes(which: str) -> bytes:
    """A step with texts and bytes as keys, which cannot be sorted together."""
    fields = unpack(STEP)
    if which:
        fields[which] = {**fields[which], b"q": fields[which]["q"]}
    else:
        fields[b"more"] = 1
    return pack(fields)


BAD_STEPS = {
    "keys of bytes": with_key_of_bytes(""),
    "entries named by bytes": with_key_of_bytes("observation"),
    "next entries named by bytes": with_key_of_bytes("next_observation"),
    "lists inside each other": b"\x8b" + pack("observation") + nested(),
    "lists inside each other as a whole": nested(),
    "nothing": b"",
}
BAD_ENDS = {
    "lists inside each other": framed(EpisodeEnd("a", 0, 1, True, None).fields() | {"kind": "episode_end"}, "more", nested()),
    "no frame": b"\0",
}


class InProcess:
    """A writer with its own journal, and what it reported."""

    def __init__(self, folder: Path) -> None:
        self.run = make_run(folder)
        self.journal = Journal.create(self.run / "journal.db", SPEC)
        self.stored: list[Stored] = []
        self.troubles: list[str] = []
        self.failures: list[BaseException] = []
        self.board = Board(self.run)
        self.writer = Writer(
            self.run,
            self.journal,
            self.board,
            durability="process",
            stored=self.stored.append,
            trouble=self.troubles.append,
            failed=self.failures.append,
        )

    def put(self, *records: Record) -> None:
        self.writer.put(Group(None, 1, True, len(records), 1, records))

    def close(self) -> None:
        self.writer.stop()
        self.journal.close()
        self.board.close()


@pytest.fixture
def writing(tmp_path: Path):
    writing = InProcess(tmp_path / "run")
    writing.writer.start()
    yield writing
    writing.close()


@pytest.mark.parametrize("name", BAD_STEPS)
def test_a_step_that_cannot_be_read_is_kept_with_its_bytes_and_its_reason(writing: InProcess, name: str) -> None:
    bad = BAD_STEPS[name]
    writing.put(Record("a", 0, STEP), Record("bad", 0, bad), Record("a", 1, pack_transition(step(1))))
    wait_for(lambda: writing.stored or writing.failures, what="the group to be stored")
    assert writing.failures == [] and writing.troubles == []
    [result] = writing.stored
    assert result.accepted == 2 and [(row.source, bool(row.reason)) for row in result.rejected] == [("bad", True)]
    [(kept,)] = writing.journal._rows("SELECT record FROM steps WHERE status = 'rejected'")
    assert kept == bad and writing.writer.unreadable == 1


@pytest.mark.parametrize("name", BAD_ENDS)
def test_an_episode_end_that_cannot_be_read_is_counted(writing: InProcess, name: str) -> None:
    good = EpisodeEnd("a", 0, 1, True, None).pack()
    writing.put(Record("a", EPISODE_END, BAD_ENDS[name]), Record("a", EPISODE_END, good))
    wait_for(lambda: writing.stored or writing.failures, what="the group to be stored")
    assert writing.failures == [] and writing.writer.unreadable == 1
    assert len((writing.run / "episodes.jsonl").read_text().splitlines()) == 1


def test_a_fault_of_our_own_in_one_record_costs_that_record_alone(writing: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the code does not foresee: in the check of one step, in the look at all steps together, in what SQLite takes."""

    def faulty(record: bytes, source: str, seq: int) -> Any:
        if source == "bad":
            raise ZeroDivisionError("never seen before")
        return decode(record, source, seq)

    decode = intake.unpack_transition
    monkeypatch.setattr(intake, "unpack_transition", faulty)
    monkeypatch.setattr(writing.writer._intake._screen, "places", lambda records: 1 // 0)
    # half of a surrogate pair cannot be stored as text: the whole transaction fails
    writing.put(Record("a", 0, STEP), Record("bad", 0, STEP), Record("half \ud800", 0, STEP), Record("a", 1, STEP))
    wait_for(lambda: writing.stored or writing.failures, what="the group to be stored")
    assert writing.failures == [] and writing.stored[0].accepted == 2
    assert [row.reason for row in writing.stored[0].rejected] == ["cannot be handled: ZeroDivisionError: never seen before"]
    assert writing.writer.unreadable == 3  # the one in two attempts, and the one that has no name to be stored under


def test_a_writer_that_is_asked_to_end_while_groups_wait_stores_them_and_ends(tmp_path: Path) -> None:
    writing = InProcess(tmp_path / "run")
    writing.put(Record("a", 0, STEP))
    writing.writer.stop()  # as good as at the same moment: both wait when the thread starts
    writing.writer.start()
    wait_for(lambda: not writing.writer._thread.is_alive(), what="the writer to end")
    assert [result.accepted for result in writing.stored] == [1]
    writing.close()


def test_what_is_kept_of_nonsense_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "RECORD_BYTES", 1000)
    monkeypatch.setattr(quarantine, "ALL_BYTES", 2500)
    with Journal.create(tmp_path / "journal.db", SPEC) as journal:
        packed = intake.Intake(journal)
        packed.append([("bad", seq, b"\xc1" * 2000) for seq in range(5)])
        assert [row[0] for row in journal._rows("SELECT length(record) FROM steps ORDER BY ord")] == [1000, 1000, 500, 0, 0]
        assert "1000 of its 2000 bytes are kept" in journal.rejected()[0].reason
        packed.append([("bad", 9, pack({"x" * 90_000: 1}))])
        assert len(journal.rejected()[-1].reason) < 600


@pytest.mark.parametrize(
    "frame",
    [
        framed({"kind": "command", "command": "label", "to": "all"}, "detail", b"\x81\xa1x" + nested()),
        framed({"kind": "command", "command": "label", "to": "all"}, "detail", b"\x81\xa1x" + nested(100)),
        framed({"kind": "command", "command": "label", "detail": {}}, "to", nested()),
        framed({"kind": "steps", "own": True, "sources": [], "which": [], "seqs": [], "sizes": []}, "group", nested()),
        framed({"kind": "steps", "group": 1, "own": True, "which": [0], "seqs": [0], "sizes": [0]}, "sources", nested()),
        framed({"kind": "hello"}, "protocol", nested()),
        framed({"kind": "hello"}, "protocol", b"\xc7\x14\x01" + b"\x0a" + pack(["<i8", [1]])[:10] + b"\0" * 9),
        framed({}, "kind", nested()),
        framed({"kind": "hello", "protocol": PROTOCOL}, "", b"\x81\xc4\x01a\xc0"),
    ],
)
def test_lists_inside_each_other_and_odd_keys_are_no_message(frame: bytes) -> None:
    with pytest.raises(BadFrame) as problem:
        parse(frame, FROM_ACTOR)
    assert len(str(problem.value)) < 500


@pytest.mark.parametrize("detail", [{"holder": "\ud800"}, {"\ud800": 1}, {"x": 10**30}, {"x": [[[[]]]] * 3, "y": -(2**70)}])
def test_what_json_can_say_and_a_frame_cannot_is_no_command(detail: dict[str, Any]) -> None:
    """Such a command was accepted, and then the hub's sender to each actor died of it: no later command reached the robots."""
    with pytest.raises(BadFrame):
        Command.from_fields({"command": "label", "to": "all", "detail": json.loads(json.dumps(detail))})
    with pytest.raises(BadFrame):
        Command.from_fields({"command": "label", "to": "\ud800", "detail": {}})


def test_frames_of_the_break_test_do_not_end_the_hub(tmp_path: Path) -> None:
    """One actor with a valid token sends them all; its good steps and another's are stored, and it stays connected."""
    run = make_run(tmp_path / "run")
    with HubProcess(run) as hub:
        bad, good = client(hub, tmp_path / "bad"), client(hub, tmp_path / "good", name="right")
        bad.connect(), good.connect()
        for seq, record in enumerate(BAD_STEPS.values()):
            bad._append([Record("bad", seq, record)], 1)
        for record in BAD_ENDS.values():
            bad._append([Record("bad", EPISODE_END, record)], 0)
        bad.send([step(0, "fine")])
        good.send([step(number) for number in range(50)])
        assert bad.close() == 0 and good.close() == 0
        assert hub.process.is_alive() and bad.status.reconnects == 0
        journal = hub.api("status")["journal"]
        assert (journal["accepted"], journal["rejected"], journal["unreadable"]) == (51, len(BAD_STEPS), len(BAD_STEPS) + len(BAD_ENDS))
        shown = {actor["name"]: actor for actor in hub.api("actors")}
        assert shown["left"]["rejected"] == len(BAD_STEPS) and shown["left"]["last_rejection"]
        assert shown["right"]["rejected"] == 0
