"""Real runs for the page's tests, and what a person does in a browser, in a few words."""

import http.client
import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tandem.data.journal import Journal
from tandem.types import Transition
from tests.waiting import wait_for

SMALL = ("--hidden", "16", "16", "--batch-size", "16", "--training-starts", "20", "--steps-per-update", "10", "--eval-period", "0")
SMALL = (*SMALL, "--final-episodes", "0", "--num-envs", "1", "--pace", "realtime", "--updates-per-actor-step", "0.5")


ROOT = Path(__file__).parent.parent.parent
ALSO = {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}{os.pathsep}{ROOT}"}


class Started:
    """`tandem ...` as a person would start it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / f"{arguments[0]}.log"
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "tandem.cli", *arguments]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **ALSO})

    def link(self) -> str:
        """The address that it printed."""
        said = wait_for(lambda: "token=" in self.log.read_text() and self.log.read_text(), 40, what="it prints its address")
        return next(word.strip('"}') for word in said.split() if "token=" in word)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def asked(run: Path, path: str, headers: dict[str, str] | None = None) -> Any:
    told = json.loads((run / "hub.json").read_text())
    known = {"Authorization": f"Bearer {(run / 'token').read_text().strip()}"} if headers is None else headers
    with urllib.request.urlopen(urllib.request.Request(f"http://{told['address']}{path}", headers=known), timeout=5) as answer:
        return json.loads(answer.read())


def logged_in(address: str, token: str) -> dict[str, str]:
    """The headers by which a page shows its session: the cookie, and the key that it keeps."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    connection.request("GET", f"/?token={token}")
    answer = connection.getresponse()
    connection.close()
    assert answer.status == 303, answer.status
    cookie, _, _ = (answer.getheader("set-cookie") or "").partition(";")
    return {"Cookie": cookie, "X-Tandem-Page": (answer.getheader("location") or "").partition("#page=")[2]}


def stored(run: Path) -> dict[int, Transition]:
    """Steps of the journal by their number in their source."""
    with Journal.open(run / "journal.db") as journal:
        return {step.seq: step for _, step in journal.read()}


class Visitor:
    """A page in a browser, as a person uses it."""

    def __init__(self, context: Any, link: str) -> None:
        self.tab = context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.tab.on("pageerror", lambda problem: self.errors.append(str(problem)))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.goto(link)
        self.until("window.tandem && tandem.id")

    def until(self, condition: str, seconds: float = 10.0) -> None:
        self.tab.wait_for_function(condition, timeout=1000 * seconds)

    def view_when(self, condition: str, seconds: float = 10.0) -> dict[str, Any]:
        """The first view of which this is true. A view that is asked for after the condition was met may be a later one."""
        return self.tab.wait_for_function(f"({condition}) && tandem.view", timeout=1000 * seconds).json_value()

    def who(self) -> str:
        return self.tab.inner_text("#who-name")

    def until_who(self, name: str, seconds: float = 8.0) -> None:
        self.until(f"document.getElementById('who-name').textContent === '{name}'", seconds)

    def view(self) -> dict[str, Any]:
        return self.tab.evaluate("tandem.view")

    def number(self, id: str) -> int:
        return int(self.tab.inner_text(f"#{id}").replace(",", "").replace("–", "-1"))

    def take(self) -> None:
        self.tab.keyboard.press("Space")
        self.until_who("YOU")

    def let_go(self) -> None:
        self.tab.keyboard.press("Space")
        self.until("document.getElementById('who-name').textContent !== 'YOU'")

    def hold(self, key: str, seconds: float) -> None:
        self.tab.keyboard.down(key)
        self.tab.wait_for_timeout(1000 * seconds)
        self.tab.keyboard.up(key)
