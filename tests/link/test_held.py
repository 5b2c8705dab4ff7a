"""What an attacker tried and did not get: it stays so."""

import base64
import re
import socket
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from link_samples import HubProcess, make_run
from test_access import ask, log_in
from test_hub_fuzz import memory

ASSETS = Path(__file__).parents[2] / "src" / "tandem" / "dashboard" / "assets"

_packing = zlib.compressobj(9, wbits=-15)
BOMB = b"".join(_packing.compress(bytes(2**20)) for _ in range(300)) + _packing.flush(zlib.Z_SYNC_FLUSH)[:-4]
"""As a WebSocket would send 300 MB of zeros."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    with HubProcess(make_run(tmp_path_factory.mktemp("held") / "run")) as hub:
        yield hub


def test_a_page_of_another_site_commands_nothing_with_a_persons_session(hub: HubProcess) -> None:
    session, asked = log_in(hub, hub.token), {"command": "pause", "to": "actors"}
    for origin in ("null", "http://elsewhere.example", f"http://elsewhere.example/{hub.address}", "http://127.0.0.1:1", hub.address, ""):
        status, _, headers = ask(hub, "/api/command", method="POST", body=asked, **session, Origin=origin)
        assert status == 401, origin
    assert ask(hub, "/api/command", method="POST", body=asked, **session, Origin=f"http://{hub.address}")[0] == 200
    status, _, headers = ask(hub, f"/?token={hub.token}")
    assert headers["referrer-policy"] == "no-referrer", "the address of the page has had the token in it"


def frame(first: int, claimed: int, data: bytes = b"") -> bytes:
    """A WebSocket frame of a client; a mask of zeros leaves the data as they are."""
    return struct.pack("!BBQ", first, 0x80 | 127, claimed) + bytes(4) + data


def _endless() -> Iterator[bytes]:
    yield frame(0x02, 2**20, bytes(2**20))
    for _ in range(200):
        yield frame(0x00, 2**20, bytes(2**20))


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param(lambda: iter([frame(0x82, 2**40, bytes(2**16))]), id="a frame of a terabyte"),
        pytest.param(lambda: iter([frame(0xC2, len(BOMB), BOMB)]), id="300 MB in 300 kB"),
        pytest.param(_endless, id="fragments without end"),
    ],
)
def test_frames_that_would_fill_the_memory_are_refused(hub: HubProcess, frames) -> None:
    before, key = memory(hub.pid, "VmHWM"), base64.b64encode(bytes(16)).decode()
    upgrade = f"GET /link HTTP/1.1\r\nHost: {hub.address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
    upgrade += f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate\r\nAuthorization: Bearer {hub.token}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", hub.port), 10) as connection:
        connection.sendall(upgrade.encode())
        assert b" 101 " in connection.recv(4096)
        try:
            for data in frames():
                connection.sendall(data)
            while connection.recv(4096):  # it says why, and closes
                pass
        except OSError:
            pass  # closed while this was still sending
    assert hub.api("status")["up_s"] >= 0 and memory(hub.pid, "VmHWM") - before < 80e6


def test_the_page_writes_texts_from_outside_as_texts() -> None:
    """The name of an actor, of a camera or of a body never becomes markup: what the scripts write as markup is written in them."""
    for script in ASSETS.glob("*.js"):
        for written in re.findall(r"(?:innerHTML|outerHTML|insertAdjacentHTML|document\.write)[^;]*;", script.read_text()):
            assert re.fullmatch(r"innerHTML = (\"[^\"]*\"|`[^`$]*`|'[^']*');", written), f"{script.name}: {written}"
