"""Learner and actor on two hosts: two network namespaces with a cable between them, over TLS."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.data.journal import Journal

LEARNER_IP, ACTOR_IP = "10.97.13.1", "10.97.13.2"
SMALL = ("--hidden", "16", "16", "--batch-size", "16", "--training-starts", "20", "--steps-per-update", "10", "--eval-period", "0")


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def two_hosts(names: tuple[str, str]) -> None:
    there, here = names
    for name in names:
        ip("netns", "add", name)
    ip("link", "add", f"{there}-e", "netns", there, "type", "veth", "peer", "name", f"{here}-e", "netns", here)
    for name, address in ((there, LEARNER_IP), (here, ACTOR_IP)):
        ip("-n", name, "addr", "add", f"{address}/24", "dev", f"{name}-e")
        ip("-n", name, "link", "set", f"{name}-e", "up")
        ip("-n", name, "link", "set", "lo", "up")


@pytest.fixture
def hosts() -> Iterator[tuple[str, str]]:
    names = (f"tl{os.getpid() % 10000}", f"ta{os.getpid() % 10000}")
    try:
        two_hosts(names)
    except (OSError, subprocess.CalledProcessError) as problem:
        told = getattr(problem, "stderr", "") or str(problem)
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True) if not isinstance(problem, OSError) else None
        pytest.skip(f"this machine lets us make no network namespaces (`ip netns add`, needs root and iproute2): {told.strip()}")
    yield names
    for name in names:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


def certificate(folder: Path) -> tuple[Path, Path]:
    cert, key = folder / "cert.pem", folder / "key.pem"
    subject = ("-subj", "/CN=learner", "-addext", f"subjectAltName=IP:{LEARNER_IP}")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key), "-out", str(cert), *subject]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


def tandem(host: str, folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    with (folder / f"{arguments[0]}.log").open("ab") as log:
        command = ["ip", "netns", "exec", host, sys.executable, "-m", "tandem.cli", *arguments]
        return subprocess.Popen(command, stdout=log, stderr=log)


def wait_for(path: Path, folder: Path, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, "\n".join(log.read_text() for log in folder.glob("*.log"))
        time.sleep(0.05)


def test_an_actor_on_another_host_learns_over_tls_and_survives_a_pulled_cable(hosts: tuple[str, str], tmp_path: Path) -> None:
    there, here = hosts
    run = tmp_path / "run"
    cert, key = certificate(tmp_path)
    tls = ("--host", LEARNER_IP, "--certificate", str(cert), "--key", str(key), "--timeout", "2")
    learner = tandem(there, tmp_path, "learner", "reach", *SMALL, "--run", str(run), "--port", "5588", "--max-steps", "100000", *tls)
    try:
        wait_for(run / "hub.json", tmp_path)
        to_learner = ("--learner", f"wss://{LEARNER_IP}", "--ca", str(cert), "--token-file", str(run / "token"), "--timeout", "2")
        spool = tmp_path / "spool"
        alone = ("--pace", "realtime", "--when-alone", "go-on")
        actor = tandem(here, tmp_path, "actor", "reach", *to_learner, "--max-steps", "100", *alone, "--spool", str(spool))
        try:
            while "updated successfully" not in (tmp_path / "actor.log").read_text():
                time.sleep(0.05)
            time.sleep(2.0)
            ip("-n", here, "link", "set", f"{here}-e", "down")
            time.sleep(4.0)
            ip("-n", here, "link", "set", f"{here}-e", "up")
            assert actor.wait(60) == 0, (tmp_path / "actor.log").read_text()
        finally:
            actor.kill()
            actor.wait()
        told = (tmp_path / "actor.log").read_text()
        assert "lost the hub" in told and "stopped after 100 steps" in told and "wait in" not in told, told
    finally:
        learner.terminate()
        learner.wait(60)
    with Journal.open(run / "journal.db") as journal:
        assert [step.seq for _, step in journal.read()] == list(range(100)), "every step crossed the network once, in order"
