"""Does anything that a client with a valid token can send end a run, or harm the other actors?

    python -m benchmarks.fuzz [--minutes N] [--json]

A real hub process. Frames, the greeting, the records of steps and the headers of the WebSocket are mutated from valid ones, with fixed
seeds, and sent over sockets; a legitimate actor steps at its rate beside them. Then records go straight through the hub's writer.

* `frames`: frames sent to the hub, each read by it: on every connection sound ones, sound ones around bad records, and at the end a
  malformed one, which the hub answers by closing. `records`: records that passed a writer, in the hub and in process.
* `ended_runs`: how often the hub or a writer ended.
* `lost`: steps of the legitimate actor that are not in the journal, once and in order, at the end.
* `hub_mb_max`: the most memory that the hub ever used.
* `actor_rate_kept`: steps that the legitimate actor made in the time, as a share of those it was asked to make.

`--minutes` is how long frames are sent, at least; it goes on until there are 100,000 of each.
"""

from __future__ import annotations

import base64
import contextlib
import multiprocessing
import os
import random
import re
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.report import Report
from tandem.codec import pack, pack_transition, unpack
from tandem.data.journal import Journal
from tandem.link.client import ActorClient, ClientConfig
from tandem.link.messages import MAX_HEADER, PROTOCOL, Camera, Command, EpisodeEnd, Hello, Scene, Statistics, View
from tandem.link.steps import EPISODE_END, Record, Steps
from tandem.link.writer import Group, Stored, Writer
from tandem.runs.board import Board
from tandem.runs.folder import RunFolder
from tandem.types import Continuous, Entry, Spec, Transition

TARGETS = {
    "frames": (">=", 100_000.0),
    "records": (">=", 100_000.0),
    "ended_runs": ("==", 0.0),
    "lost": ("==", 0.0),
    "hub_mb_max": ("<=", 400.0),
    "actor_rate_kept": (">=", 0.99),
}
CONTEXT = multiprocessing.get_context("spawn")
SPEC = Spec("fuzz", {"q": Entry((2,)), "touch": Entry(()), "image": Entry((4, 4, 3), "uint8")}, (Continuous("force", 1),), 100, 100)
ACTOR_HZ = 100.0
PER_CONNECTION = 40
"""Frames on one connection before the one that is malformed, which ends it."""
AT_ONCE = 10
GROUP = 50
"""Records in one group for the writer."""


# ---- valid things to begin with


def transition(seq: int, source: str) -> Transition:
    seen = {"q": np.full(2, seq, np.float32), "touch": np.zeros((), np.float32), "image": np.zeros((4, 4, 3), np.uint8)}
    return Transition(seen, np.zeros(1, np.float32), 0.0, seen, False, False, episode=seq // 100, step=seq % 100, source=source, seq=seq)


def hello(source: str, pace: str = "realtime") -> Hello:
    return Hello(PROTOCOL, SPEC.task, SPEC.hash, SPEC.to_json(), "fuzz", source, pace, 1, "")  # pyright: ignore[reportArgumentType]


STEP = pack_transition(transition(0, "fuzz"))
END = EpisodeEnd("fuzz", 0, 1, True, None).pack()
STATISTICS = Statistics(0.0, 0.0, 0, -1, "", -1, 0, 0, 0, 0.0, 0.0, "", "").pack()
SOUND = (
    hello("fuzz").pack(),
    Steps(1, True, [Record("fuzz", 0, STEP), Record("fuzz", EPISODE_END, END)]).pack(),
    STATISTICS,
    Command("label", "nobody", {"success": True}).pack(),
    Scene({"bodies": [{"name": "arm", "geoms": []}]}).pack(),
    View(0, 0, 0, "policy", "", "running", "", 0.0, None, [0.0], {"q": [0.0]}, b"\0" * 28).pack(),
    Camera("front", b"\xff\xd8").pack(),
)
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 2**53, 2**63 - 1, -(2**63), float("nan"), float("inf"), 1e300, "", "x" * 5000, "\x1b[2J\n", "\0", b"", b"q",
    [], {}, [[]], {"a": []}, {b"q": 1}, {"q": {b"q": 1}}, np.zeros(3, np.float32), np.zeros((0, 4), np.int8), np.array(np.nan),
)  # fmt: skip


# ---- mutations


def mutated(r: random.Random, data: bytes) -> bytes:
    """Bytes changed, cut, doubled or put in; what it was can still be recognised."""
    changed = bytearray(data)
    for _ in range(r.choice((1, 1, 1, 2, 5))):
        at, kind = r.randrange(len(changed) + 1), r.randrange(6)
        if kind == 0 and changed:
            changed[min(at, len(changed) - 1)] = r.randrange(256)
        elif kind == 1:
            del changed[at : at + r.randrange(1, 20)]
        elif kind == 2:
            changed[at:at] = r.randbytes(r.randrange(1, 20))
        elif kind == 3:
            changed[at:at] = changed[at : at + r.randrange(1, 60)]
        elif kind == 4:
            changed[at:at] = nested(r)
        else:
            del changed[at:]
    return bytes(changed)


def nested(r: random.Random) -> bytes:
    """Lists or maps inside each other, in msgpack."""
    return r.choice((b"\x91", b"\x81\xa1a")) * r.choice((5, 100, 500, 1000, 1023, 5000)) + b"\xc0"


def odd_fields(r: random.Random, fields: dict[Any, Any]) -> dict[Any, Any]:
    """One field has an odd value or name, is missing, or is one too many."""
    changed, kind = dict(fields), r.randrange(5)
    name = r.choice(list(changed))
    if kind == 0:
        del changed[name]
    elif kind == 1:
        changed[r.choice((b"more", "more", b"", "x" * 3000))] = r.choice(ODD)
    elif kind == 2 and isinstance(changed[name], dict) and changed[name]:
        changed[name] = odd_fields(r, changed[name])
    else:
        changed[name] = r.choice(ODD)
    return changed


def bad_record(r: random.Random) -> bytes:
    """A step, or an episode's end, that is not quite one."""
    if r.random() < 0.5:
        return pack(odd_fields(r, unpack(STEP)))
    return mutated(r, r.choice((STEP, STEP, END)))


def framed(header: bytes, payload: bytes = b"") -> bytes:
    return struct.pack("<I", len(header)) + header + payload


def frame_of_bad_records(r: random.Random, group: int) -> bytes:
    records = [Record("fuzz-records", r.choice((r.randrange(10**9), EPISODE_END)), bad_record(r)) for _ in range(r.randrange(1, 8))]
    return Steps(group, r.random() < 0.5, records).pack()


def bad_frame(r: random.Random) -> bytes:
    """A frame of the link: mutated bytes, odd fields, or nonsense."""
    kind = r.randrange(8)
    if kind <= 2:
        return mutated(r, r.choice(SOUND))
    if kind <= 5:
        sound = r.choice(SOUND)
        size = int.from_bytes(sound[:4], "little")
        return framed(pack(odd_fields(r, unpack(sound[4 : 4 + size]))), sound[4 + size :])
    if kind == 6:
        return r.choice((framed(b"\xc0" * (MAX_HEADER + 1)), framed(b"\xdd\x7f\xff\xff\xff"), b"", r.randbytes(r.randrange(300))))
    return framed(r.choice((b"", b"\x85" + pack("kind") + pack("steps"))) + nested(r))


def websocket_frame(r: random.Random, data: bytes, odd: float = 0.0) -> bytes:
    """As it goes onto the wire; `odd`: how often the WebSocket's own header is wrong too."""
    first, claimed, masked = 0x82, len(data), True
    if r.random() < odd:
        first = r.choice((0x81, 0x80, 0x83, 0xC2, 0xFF, 0x02, 0x89))
        claimed = r.choice((claimed, claimed, 2**24, 2**62))
        masked = r.random() < 0.8
    bit = 0x80 if masked else 0
    if claimed < 126:
        head = struct.pack("!BB", first, bit | claimed)
    elif claimed < 2**16:
        head = struct.pack("!BBH", first, bit | 126, claimed)
    else:
        head = struct.pack("!BBQ", first, bit | 127, claimed)
    return head + (b"\0\0\0\0" if masked else b"") + data  # a mask of zeros leaves the data as it is


# ---- frames, to a hub


class Attack:
    """Connections that each say hello, most of them properly, and then send bad frames until the hub closes them."""

    def __init__(self, address: str, token: str, seed: int) -> None:
        host, _, port = address.rpartition(":")
        self._where, self._random = (host, int(port)), random.Random(seed)
        key = base64.b64encode(b"0" * 16).decode()
        self._upgrade = (
            f"GET /link HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            f"Sec-WebSocket-Version: 13\r\nAuthorization: Bearer {token}\r\n\r\n"
        ).encode()
        self.frames = self._connections = 0

    def some(self) -> None:
        """A few connections at once, from opening to end."""
        opened = [connection for _ in range(AT_ONCE) if (connection := self._open()) is not None]
        for connection in opened:
            with contextlib.suppress(OSError):  # the hub had seen enough
                self._talk(connection)
                connection.shutdown(socket.SHUT_WR)
        for connection in opened:  # until the hub has read all of it: a socket that is closed with unread answers takes its frames back
            with connection, contextlib.suppress(OSError):
                while connection.recv(2**16):
                    pass

    def _open(self) -> socket.socket | None:
        try:
            connection = socket.create_connection(self._where, 10)
        except OSError:
            return None
        with contextlib.suppress(OSError):
            connection.sendall(self._upgrade if self._random.random() < 0.99 else mutated(self._random, self._upgrade))
        return connection

    def _talk(self, connection: socket.socket) -> None:
        r = self._random
        connection.settimeout(1.0)
        if b"101" not in connection.recv(4096)[:20]:
            return
        self._connections += 1
        greeting = hello(f"fuzz-{self._connections % 50}", r.choice(("realtime", "fast"))).pack()
        if r.random() < 0.1:
            self._send(connection, mutated(r, greeting))
            return
        self._send(connection, greeting)
        group = 0
        for _ in range(PER_CONNECTION):
            if r.random() < 0.5:
                group += 1
                self._send(connection, frame_of_bad_records(r, group))
            else:
                self._send(connection, r.choice(SOUND[2:]))
        self._send(connection, bad_frame(r), odd=0.2)

    def _send(self, connection: socket.socket, data: bytes, odd: float = 0.0) -> None:
        connection.sendall(websocket_frame(self._random, data, odd))
        self.frames += 1


def serve(run: Path) -> None:
    from tandem.link.hub import Hub

    Hub(run).serve()


def step_at_rate(end: Connection, options: dict[str, Any], hz: float) -> None:
    """The legitimate actor: one step in each period until it is told to end; sends steps made, asked for, and not acknowledged."""
    client = ActorClient(SPEC, ClientConfig(**options))
    client.connect()
    end.send(client.source)
    began, made = time.perf_counter(), 0
    while not end.poll():
        client.send([transition(made, client.source)])
        client.newest_policy(10**9)
        client.commands()
        made += 1
        time.sleep(max(0.0, began + made / hz - time.perf_counter()))
    asked = (time.perf_counter() - began) * hz
    end.send((made, asked, client.close(30.0)))


@dataclass(frozen=True)
class Result:
    """What an attack on a hub came to."""

    frames: int
    records: int
    ended: int
    lost: int
    mb_max: float
    rate_kept: float


def attack_hub(folder: Path, minutes: float, frames: int, seed: int = 1, actor_hz: float = ACTOR_HZ) -> Result:
    """Frames for at least so long and so many, with a legitimate actor beside them."""
    run = RunFolder.create(folder / "run", "recording", {}, SPEC)
    hub = CONTEXT.Process(target=serve, args=(run.path,), daemon=True)
    hub.start()
    while (found := run.hub()) is None:
        time.sleep(0.01)
    options = {"address": found["address"], "token": run.token, "name": "good", "rows": 1, "pace": "realtime", "spool": folder / "spool"}
    mine, theirs = CONTEXT.Pipe()
    actor = CONTEXT.Process(target=step_at_rate, args=(theirs, options, actor_hz), daemon=True)
    actor.start()
    source = mine.recv()
    attack, until, peak = Attack(found["address"], run.token, seed), time.monotonic() + minutes * 60, 0.0
    while hub.is_alive() and (time.monotonic() < until or attack.frames < frames):
        attack.some()
        peak = max(peak, _peak_mb(hub.pid))
    ended = int(not hub.is_alive())
    mine.send(None)
    made, asked, _ = mine.recv() if mine.poll(60) else (0, 1, 0)
    for process in (actor, hub):
        process.kill()  # what is acknowledged is in the journal
        process.join()
    with Journal.open(run.journal) as journal:
        stored = [step.seq for _, step in journal.read() if step.source == source]
        records = sum(journal.counts())
    lost = 0 if stored == list(range(made)) else max(1, made - len(set(stored)))
    return Result(attack.frames, records, ended, lost, peak, made / asked)


def _peak_mb(pid: int | None) -> float:
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(found.group(1)) / 1e3 if found else 0.0
    return 0.0


# ---- records, through the writer


def groups(count: int, seed: int) -> Iterator[list[Record]]:
    """Records of a bad source among those of a good one."""
    r = random.Random(seed)
    for first in range(0, count, GROUP):
        bad = [Record("bad", r.choice((seq, seq, EPISODE_END)), bad_record(r)) for seq in range(first, first + GROUP)]
        good = [Record("good", number, pack_transition(transition(number, "good"))) for number in range(first // GROUP, first // GROUP + 1)]
        yield r.sample(bad + good, len(bad) + len(good))


def attack_writer(folder: Path, count: int, seed: int = 2) -> tuple[int, int, int]:
    """So many bad records through a real writer; returns records that passed, good ones that are missing, and writers that ended."""
    run = RunFolder.create(folder / "run", "recording", {}, SPEC)
    failures: list[BaseException] = []
    passed = [0]

    def stored(result: Stored) -> None:
        passed[0] += sum(len(group.records) for group in result.groups)

    with Journal.create(run.journal, SPEC) as journal:
        board = Board(run.path)
        writer = Writer(run.path, journal, board, durability="process", stored=stored, trouble=lambda text: None, failed=failures.append)
        writer.start()
        sent = 0
        for group in groups(count, seed):
            writer.put(Group(None, 1, True, len(group), 0, group))
            sent += len(group)
            while sent - passed[0] > 5000 and not failures:
                time.sleep(0.001)
            if failures:
                break
        writer.stop()
        board.close()
        found = [step.seq for _, step in journal.read() if step.source == "good"]
    wanted = list(range(-(-count // GROUP)))
    return passed[0], 0 if found == wanted else max(1, len(wanted) - len(set(found))), len(failures)


def main(minutes: float = 2.0, json: bool = False) -> None:
    """What a client with a valid token can do to a run by sending nonsense.

    Args:
        minutes: How long frames are sent, at least.
        json: One JSON object instead of the table.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    report = Report("fuzz", ("figure", "measured", "target"), TARGETS)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "hub").mkdir()
        (Path(folder) / "writer").mkdir()
        result = attack_hub(Path(folder) / "hub", minutes, int(TARGETS["frames"][1]))
        passed, missing, ended = attack_writer(Path(folder) / "writer", int(TARGETS["records"][1]))
    figures = {
        "frames": result.frames,
        "records": result.records + passed,
        "ended_runs": result.ended + ended,
        "lost": result.lost + missing,
        "hub_mb_max": result.mb_max,
        "actor_rate_kept": result.rate_kept,
    }
    for name, value in figures.items():
        report.figures[name] = float(value)
        report.row(name, f"{value:,.4g}" if isinstance(value, float) else f"{value:,}", "{} {:g}".format(*TARGETS[name]))
    report.show(json)


if __name__ == "__main__":
    tyro.cli(main)
