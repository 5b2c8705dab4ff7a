"""Malformed frames and records from someone who knows the token: the hub stays up, its memory bounded, the good actor unharmed.

`python -m benchmarks.fuzz` sends a hundred thousand of each.
"""

import base64
import json
import random
import re
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from link_samples import HERE, SPEC, HubProcess, assert_each_once_in_order, client, make_run, python, step

from benchmarks.fuzz import GROUP, attack_hub, attack_writer
from tandem.codec import pack, pack_transition
from tandem.link.client import ActorClient
from tandem.link.messages import (
    MAX_HEADER,
    PROTOCOL,
    Command,
    EpisodeEnd,
    Hello,
    Statistics,
)
from tandem.link.steps import EPISODE_END, Record, Steps
from tests.waiting import wait_for

CONNECTIONS = 2000
"""Each sends one thing that ends it."""
RECORDS = 8000
"""Sound frames around a step that is not: kept as rejected."""
AT_ONCE = 20
HELLO = Hello(PROTOCOL, SPEC.task, SPEC.hash, SPEC.to_json(), "fuzz", "fuzz-1", "fast", 1, "").pack()
STEP = pack_transition(step(0))
SOUND = [
    HELLO,
    Steps(1, True, [Record("fuzz", 0, STEP), Record("fuzz", EPISODE_END, EpisodeEnd("fuzz", 0, 1, True, None).pack())]).pack(),
    Statistics(0.0, 0.0, 0, -1, "", -1, 0, 0, 0, 0.0, 0.0, "", "").pack(),
    Command("label", "nobody", {"success": True}).pack(),
]


def framed(header: object, payload: bytes = b"") -> bytes:
    data = header if isinstance(header, bytes) else pack(header)
    return struct.pack("<I", len(data)) + data + payload


def websocket_frame(data: bytes, first: int = 0x82, claimed: int | None = None, masked: bool = True) -> bytes:
    """`first`: final bit and opcode (binary); `claimed`: a length that is not true."""
    size = len(data) if claimed is None else claimed
    bit = 0x80 if masked else 0
    if size < 126:
        head = struct.pack("!BB", first, bit | size)
    elif size < 2**16:
        head = struct.pack("!BBH", first, bit | 126, size)
    else:
        head = struct.pack("!BBQ", first, bit | 127, size)
    return head + (b"\0\0\0\0" if masked else b"") + data  # a mask of zeros leaves the data as it is


def malformed(r: random.Random) -> bytes:
    """One bad frame, as it goes onto the wire."""
    kind = r.randrange(12)
    sound = r.choice(SOUND)
    if kind == 0:
        return websocket_frame(r.randbytes(r.randrange(300)))
    if kind == 1:
        return websocket_frame(sound[: r.randrange(len(sound))])
    if kind <= 3:
        changed = bytearray(sound)
        for _ in range(r.randint(1, 5)):
            changed[r.randrange(min(len(changed), 80))] = r.randrange(256)
        return websocket_frame(bytes(changed) + b"\0")  # a byte too many: bad even if the change hit nothing that matters
    if kind == 4:
        fields = json.loads(json.dumps({"kind": "statistics", "steps": r.choice([None, -1, 1.5, "x", [1], 2**70 % 2**63])}))
        return websocket_frame(framed(fields))
    if kind == 5:
        table = {
            "kind": "steps",
            "group": r.choice([0, 2, -1, 10**9]),
            "own": True,
            "sources": ["x"],
            "which": [0],
            "seqs": [0],
            "sizes": [3],
        }
        return websocket_frame(framed(table, b"abc"))
    if kind == 6:  # small on the wire, large in memory if it were believed
        return websocket_frame(framed(b"\xdd" + struct.pack("!I", 2**31) + b"\x90" * 1000))
    if kind == 7:
        return websocket_frame(framed(b"\xdc\xff\xff" + b"\x90" * 65_535))
    if kind == 8:
        return websocket_frame(b"", claimed=r.choice([2**24, 2**31, 2**62]))
    if kind == 9:
        return (
            websocket_frame(b"hello" * r.randrange(10), first=r.choice([0x81, 0x80, 0x83, 0xC2, 0xFF, 0x02, 0x89]), masked=r.random() < 0.8)
            + b"\x82"
        )
    if kind == 10:
        return websocket_frame(framed(b"\xc0" * (MAX_HEADER + r.randrange(1000))))
    return websocket_frame(
        r.choice([HELLO, framed({"kind": "welcome"}), framed({"kind": "steps"}), framed([1, 2]), struct.pack("<I", 2**32 - 1)])
    )


def batches(hub: HubProcess, count: int) -> Iterator[int]:
    """Connections, some at a time; each says hello (or not) and then one malformed thing."""
    r = random.Random(11)
    key = base64.b64encode(b"0" * 16).decode()
    upgrade = (
        f"GET /link HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
        f"Sec-WebSocket-Version: 13\r\nAuthorization: Bearer {hub.token}\r\n\r\n"
    ).encode()
    for first in range(0, count, AT_ONCE):
        connections = []
        for _ in range(min(AT_ONCE, count - first)):
            connection = socket.create_connection(("127.0.0.1", hub.port), 10)
            connection.sendall(upgrade)
            connections.append(connection)
        for connection in connections:
            assert b"101" in connection.recv(4096)[:20]
            greeting = b"" if r.random() < 0.2 else websocket_frame(HELLO)
            try:
                connection.sendall(greeting + malformed(r))
                if r.random() < 0.5:
                    connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it had seen enough
        for connection in connections:
            connection.close()
        yield len(connections)


def bad_step(r: random.Random) -> bytes:
    """The bytes of a step that is none."""
    kind = r.randrange(6)
    if kind == 0:
        return r.randbytes(r.randrange(200))
    if kind == 1:
        return STEP[: r.randrange(len(STEP))]
    if kind == 2:
        return STEP.replace(b"observation", r.randbytes(11), 1)
    if kind == 3:
        return b"\x8b" + b"\xa1x\x80" * 20_000  # an empty map for three bytes
    if kind == 4:
        return pack({"observation": [[[]] * 900] * 20, "action": 1})
    return STEP[:40] + b"\xff" * 40 + STEP[80:]


def send_bad_steps(actor: ActorClient, count: int) -> None:
    """Straight into the spool: a client with its own idea of what a step is."""
    r = random.Random(12)
    assert actor._state.spool is not None
    for seq in range(count):
        wait_for(lambda: actor.status.unacknowledged < 500, what="room")
        actor._append([Record("bad", seq, bad_step(r))], 1)


def memory(pid: int, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found.group(1)) * 1024


def test_ten_thousand_malformed_frames_harm_nobody(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with HubProcess(run) as hub:
        options = {
            "address": hub.address,
            "token": hub.token,
            "name": "good",
            "rows": 1,
            "pace": "realtime",
            "every_s": 0.005,
            "quiet": True,
        }
        good = python(HERE / "actor_process.py", json.dumps(options | {"spool": str(tmp_path / "spool")}), stdout=subprocess.PIPE)
        with good:
            assert good.stdout is not None
            _, source = good.stdout.readline().split()
            sent = sum(batches(hub, 300))
            bad = client(hub, tmp_path / "bad")
            bad.connect()
            before = memory(hub.pid, "VmRSS")
            sent += sum(batches(hub, CONNECTIONS - 300))
            send_bad_steps(bad, RECORDS)
            assert bad.close() == 0
            after, peak = memory(hub.pid, "VmRSS"), memory(hub.pid, "VmHWM")
            good.terminate()
            told = json.loads(good.stdout.read())
        assert sent == CONNECTIONS and hub.process.is_alive()
        assert after - before < 30e6 and peak - before < 80e6, f"{before / 1e6:.0f} MB, then {after / 1e6:.0f}, at most {peak / 1e6:.0f}"
        assert (told["left"], told["reconnects"]) == (0, 0)
        journal = hub.api("status")["journal"]
        assert (journal["accepted"], journal["rejected"], journal["trouble"]) == (told["made"], RECORDS, "")
        events = [row["kind"] for row in hub.api("events")["rows"]]
        assert "bad_frame" in events and len(events) < 500  # noted, but no flood
    assert_each_once_in_order(run, {f"{source}.0": told["made"]})


def test_mutated_frames_and_records_over_sockets_harm_nobody(tmp_path: Path) -> None:
    """Mutated from valid ones: with bytes as keys and a thousand lists inside each other among them, each of which ended a run."""
    found = attack_hub(tmp_path, minutes=0.3, frames=1000, seed=5, actor_hz=50.0)
    assert (found.ended, found.lost) == (0, 0) and found.frames >= 1000 and found.records > 500
    assert found.mb_max < 400 and found.rate_kept > 0.9, found  # a busy machine may be late; the benchmark asks for 0.99


def test_mutated_records_pass_the_writer_and_the_good_ones_among_them_are_stored(tmp_path: Path) -> None:
    passed, missing, ended = attack_writer(tmp_path, 10_000, seed=6)
    assert (missing, ended) == (0, 0) and passed == 10_000 + 10_000 // GROUP
