"""Small specs, steps, run folders and hub processes that the tests of the link share."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import hub_process
import numpy as np

import tandem
from tandem.data.journal import Journal
from tandem.link.client import ActorClient, ClientConfig
from tandem.runs.folder import RunFolder
from tandem.types import Continuous, Entry, PolicySnapshot, Spec, Transition
from tests.waiting import wait_for

HERE = Path(__file__).parent
_HUBS = get_context("forkserver")  # imports the hub once, and starts one in a few hundredths of a second
_HUBS.set_forkserver_preload(["tandem.link.hub"])
SPEC = Spec("toy", {"q": Entry((2,)), "touch": Entry(())}, (Continuous("force", 1),), 10, 100)


def observation(number: float) -> dict[str, np.ndarray]:
    return {"q": np.array([number, -number], np.float32), "touch": np.array(number, np.float32)}


def step(seq: int, source: str = "a", **changes: Any) -> Transition:
    """Step `seq` of a long life: from moment `seq` to the next."""
    fields = {"terminated": False, "truncated": False, "step": seq, "source": source, "seq": seq} | changes
    now = fields.pop("observation", observation(seq))
    return Transition(now, np.zeros(1, np.float32), 0.0, observation(seq + 1), **fields)


def snapshot(version: int, size: int = 3) -> PolicySnapshot:
    return PolicySnapshot(version, 50 * version, {"w": np.full(size, version, np.float32)})


def make_run(path: Path, spec: Spec = SPEC) -> Path:
    return RunFolder.create(path, "recording", {}, spec).path


class HubProcess:
    """A hub in a process of its own, that can be killed, frozen and started again on the same port."""

    def __init__(self, run: Path, **options: Any) -> None:
        self.run, self.options = run, options
        self.port = options.pop("port", 0)
        self.start()

    def start(self) -> "HubProcess":
        (self.run / "hub.json").unlink(missing_ok=True)
        options = {**self.options, "port": self.port}
        self.process = _HUBS.Process(target=hub_process.main, args=(self.run, options))
        self.process.start()
        wait_for(lambda: (self.run / "hub.json").exists() or not self.process.is_alive(), 20, "the hub to listen")
        assert self.process.is_alive(), f"the hub ended with {self.process.exitcode}"
        self.port = int(json.loads((self.run / "hub.json").read_text())["address"].rsplit(":", 1)[1])
        return self

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return (self.run / "token").read_text().strip()

    def api(self, path: str, body: Any = None, token: str | None = None) -> Any:
        request = urllib.request.Request(
            f"http://{self.address}/api/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def stop(self) -> int | None:
        """Gently; returns the exit code."""
        if self.process.is_alive():
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        self.process.join(20)
        return self.process.exitcode

    def __enter__(self) -> "HubProcess":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.is_alive():
            self.signal(signal.SIGCONT)
            self.kill()


def python(script: Path, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    paths = os.pathsep.join(str(folder) for folder in (Path(tandem.__file__).parent.parent, HERE, HERE.parent.parent))
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, str(script), *arguments], env=environment, text=True, **options)


def client(hub: HubProcess, spool: Path, **changes: Any) -> ActorClient:
    """An actor's end for a hub, not connected yet."""
    options: dict[str, Any] = {"address": hub.address, "token": hub.token, "name": "left", "rows": 1, "pace": "realtime", "spool": spool}
    options |= {"timeout_s": 5.0} | changes
    spec = options.pop("spec", SPEC)
    functions = {name: options.pop(name) for name in ("say", "wall") if name in options}
    return ActorClient(spec, ClientConfig(**options), **functions)


def stored(run: Path) -> list[tuple[str, int]]:
    """Every accepted step of a run, in order."""
    with Journal.open(run / "journal.db") as journal:
        return [(transition.source, transition.seq) for _, transition in journal.read()]


def assert_each_once_in_order(run: Path, expected: dict[str, int]) -> None:
    """From each source the steps 0, 1, 2, ... up to its number, each once, in order."""
    found: dict[str, list[int]] = {}
    for source, seq in stored(run):
        found.setdefault(source, []).append(seq)
    assert {source: len(seqs) for source, seqs in found.items()} == expected
    for source, seqs in found.items():
        assert seqs == list(range(len(seqs))), f"steps of {source} are not in order"
