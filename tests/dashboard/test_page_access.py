"""Pages of people with different roles, and pages that are open only by name: the hub with its page, over real sockets."""

import contextlib
import http.client
import http.server
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tandem.dashboard.socket import FIRST_WORD_S, MAX_PAGES
from tandem.link.access import AccessFile
from tandem.runs.folder import RunFolder
from tandem.types import Continuous, Entry, Spec
from tests.dashboard.page_samples import Visitor, logged_in
from tests.waiting import wait_for

SPEC = Spec("toy", {"q": Entry((2,))}, (Continuous("force", 1),), 10, 100)
SERVE = """
import sys
from pathlib import Path
from tandem.link.hub import Hub
from tandem.dashboard.mount import mount_on_hub
hub = Hub(Path(sys.argv[1]))
mount_on_hub(hub, print)
hub.serve()
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A hub with its page, and nothing else."""
    run = RunFolder.create(tmp_path_factory.mktemp("page") / "run", "recording", {}, SPEC).path
    process = subprocess.Popen([sys.executable, "-c", SERVE, str(run)])
    try:
        wait_for(lambda: (run / "hub.json").exists(), 30, "the hub listens")
        yield run
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def address(run: Path) -> str:
    return json.loads((run / "hub.json").read_text())["address"]


def page(address: str, session: dict[str, str]) -> ClientConnection:
    headers = session | {"Origin": f"http://{address}"}
    return connect(f"ws://{address}/page/socket", additional_headers=headers, proxy=None, open_timeout=20)


def told(socket: ClientConnection, kind: str) -> dict[str, Any]:
    while True:
        message = json.loads(socket.recv(timeout=15))
        if message["kind"] == kind:
            return message


def answer(socket: ClientConnection, **message: Any) -> str:
    socket.send(json.dumps({**message, "number": 1}))
    return told(socket, "answer")["problem"]


def test_a_viewers_page_may_stop_and_nothing_more(run: Path, address: str) -> None:
    session = logged_in(address, AccessFile(RunFolder(run)).add("looks on", "viewer"))
    with page(address, session) as socket:
        assert told(socket, "hello")["me"] == {"name": "looks on", "role": "viewer", "may": ["ask_how_it_is", "see", "watch", "stop_robot"]}
        socket.send(json.dumps({"do": "look", "source": "actor-x", "visible": True}))
        for command in ("resume", "pause", "label", "record"):
            assert "is a viewer and may not" in answer(socket, do="robot", command=command), command
        for command in ("pause", "resume", "checkpoint", "evaluate", "stop"):
            assert "is a viewer and may not" in answer(socket, do="run", command=command), command
        assert "may not take over" in answer(socket, do="take")
        assert "nobody received it" in answer(socket, do="robot", command="stop", detail={"stay": True})  # allowed; there is no robot


def test_no_path_leads_out_of_what_is_served(run: Path, address: str) -> None:
    session, secret = logged_in(address, (run / "token").read_text()), (run / "token").read_text().strip()
    ways = ("..", "%2e%2e", "%2E%2E%2f", "..%2f", "..%5c", "....//", "%252e%252e", "..;", ".%00.", "..%c0%af", "/")
    for root in ("/page/assets/", "/_nicegui/", "/"):
        for way in ways:
            for target in (f"{'/'.join([way] * 12)}/etc/passwd", f"{'/'.join([way] * 12)}{run}/token", f"{way}/mount.py"):
                connection = http.client.HTTPConnection(address, timeout=10)
                connection.request("GET", root + target, headers=session)
                got = connection.getresponse()
                said = got.read()
                assert b"root:" not in said and secret.encode() not in said and b"def mount_on_hub" not in said, root + target
                assert got.status in (400, 401, 404), f"{root}{target}: {got.status}"
                connection.close()


def test_a_page_is_closed_when_its_credential_is_revoked(run: Path, address: str) -> None:
    known = AccessFile(RunFolder(run))
    session = logged_in(address, known.add("for a while", "operator"))
    with page(address, session) as socket:
        told(socket, "hello")
        known.revoke("for a while")
        began = time.monotonic()
        with pytest.raises(ConnectionClosed, match="has ended"):
            while True:
                socket.recv(timeout=5)
        assert time.monotonic() - began < 2.5


def test_half_open_pages_make_room_and_are_closed(run: Path, address: str) -> None:
    """Defect 10: 50 pages that never said a word kept everyone else out for ever."""
    session = logged_in(address, (run / "token").read_text().strip())
    with contextlib.ExitStack() as opened:
        for _ in range(MAX_PAGES):
            opened.enter_context(page(address, session))
        with page(address, session) as socket:
            assert told(socket, "hello")["page"]
            socket.send(json.dumps({"do": "look", "source": "", "visible": True}))
            wait_for(lambda: told(socket, "state")["pages"] == 1, FIRST_WORD_S + 10, "those that said nothing are closed")


def test_a_browser_shows_who_you_are_and_offers_what_you_may(run: Path, address: str, browser: Any) -> None:
    token = AccessFile(RunFolder(run)).add("anna", "viewer")
    context = browser.new_context()
    visitor = Visitor(context, f"http://{address}/?token={token}")
    visitor.until("document.getElementById('me').textContent === 'anna · viewer'")
    assert "need an operator" in visitor.tab.inner_text("#role-note")
    visitor.until("document.getElementById('take').disabled && document.getElementById('stop-run').disabled")
    assert visitor.tab.is_enabled("#halt") and "needs an operator" in (visitor.tab.get_attribute("#take", "title") or "")
    [cookie] = context.cookies()
    key = visitor.tab.evaluate("localStorage.getItem('tandem-page')")
    session = {"Cookie": f"{cookie['name']}={cookie['value']}", "X-Tandem-Page": key}
    assert status(address, "/api/me", session) == 200
    visitor.tab.click("#logout")
    visitor.tab.wait_for_selector("#token")
    assert status(address, "/api/me", session) == 401
    assert not visitor.errors, visitor.errors
    context.close()


def test_another_server_on_this_host_gets_the_cookie_and_can_do_nothing_with_it(run: Path, address: str, browser: Any) -> None:
    """Defect 9: browsers send a cookie to every port of its host, and what was sent could be used again."""
    got: list[str] = []

    class Hostile(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.append(self.headers.get("Cookie") or "")
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<p id=there>welcome</p>")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    context = browser.new_context()
    visitor = Visitor(context, f"http://{address}/?token={AccessFile(RunFolder(run)).add('otto', 'operator')}")
    visitor.until("document.getElementById('me').textContent === 'otto · operator'")
    assert "#" not in visitor.tab.url
    with http.server.HTTPServer(("127.0.0.1", 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab = context.new_page()
        tab.goto(f"http://127.0.0.1:{server.server_port}/")
        tab.wait_for_selector("#there")
        assert "tandem-page" not in tab.evaluate("JSON.stringify(localStorage)")
        server.shutdown()
    stolen = {"Cookie": got[0], "Origin": f"http://{address}"}
    assert f"tandem_{address.rpartition(':')[2]}=" in stolen["Cookie"]
    for path in ("/api/me", "/api/status", "/api/actors", "/page/files"):
        assert status(address, path, stolen) == 401, path
    for path in ("/api/command", "/logout"):
        assert status(address, path, stolen, b'{"command": "resume"}') == 401, path
    with pytest.raises(InvalidStatus, match="401"), connect(f"ws://{address}/page/socket", additional_headers=stolen, proxy=None):
        pass

    visitor.tab.reload()  # no new login, and none in a second tab either
    visitor.until("document.getElementById('me').textContent === 'otto · operator'")
    second = Visitor(context, f"http://{address}/")
    second.until("document.getElementById('me').textContent === 'otto · operator'")
    second.tab.evaluate("localStorage.removeItem('tandem-page')")
    second.tab.reload()  # without the key the page asks for a login
    second.tab.wait_for_selector("#token")
    assert not visitor.errors, visitor.errors
    context.close()


def status(address: str, path: str, headers: dict[str, str], body: bytes | None = None) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://{address}{path}", body, headers), timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code
