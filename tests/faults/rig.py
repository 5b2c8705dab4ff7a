"""A learner and actors as real processes, faults to put them through, and the proof that nothing was lost.

Every step that an environment made is witnessed by the environment itself (`counted_reach`). After any fault the journal must hold
each of them once, in order, and the learner must have been given each row once, in order. The one step that may be missing is the last
of a process that was killed between its environment's return and the spool's write.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tandem.data.journal import Journal
from tandem.off_policy.learner import extend_digest
from tandem.runs.folder import RunFolder
from tests.faults.counted_reach import NOTE, WITNESS, note
from tests.link.proxy import Proxy

TASK = "counted_reach:CountedReach-v0"
HERE = Path(__file__).parent
JUMP = "TANDEM_CLOCK_JUMP"
"""Variable that names a file with seconds to add to the wall clock (`sitecustomize.py`)."""
TIMEOUT_S = 2.0
PATIENCE_S = 60.0


class Rig:
    """`tandem learner` and some `tandem actor`s, the latter through a proxy."""

    def __init__(self, folder: Path, actors: int = 2, seed: int = 0) -> None:
        self.folder, self.run = folder, folder / "run"
        self.random = random.Random(seed)
        self.witness, self.jump = folder / "witness", folder / "clock_jump"
        folder.mkdir(parents=True, exist_ok=True)
        self.jump.write_text("0")
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            WITNESS: str(self.witness),
            JUMP: str(self.jump),
            "OMP_NUM_THREADS": "1",
        }
        self.killed_actors: set[int] = set()
        self.actors: list[subprocess.Popen[bytes]] = []
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.port: int = listening.getsockname()[1]
        self.proxy = Proxy(self.port)
        self.learner = self._start_learner("--run", str(self.run), TASK)
        try:
            self.wait("the hub listens", lambda: (self.run / "hub.json").exists(), 30)
        except AssertionError:
            self.close()
            raise
        self.actors = [self.start_actor(i) for i in range(actors)]

    def _start_learner(self, *arguments: str) -> subprocess.Popen[bytes]:
        settings = {
            "training-starts": 50,
            "steps-per-update": 20,
            "checkpoint-period": 200,
            "eval-period": 0,
            "final-episodes": 0,
            "batch-size": 16,
            "updates-per-actor-step": 0.125,
            "timeout": TIMEOUT_S,
            "port": self.port,
        }
        options = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
        options += ["--hidden", "16", "16"]
        command = [sys.executable, "-m", "tandem.cli", "learner", *arguments, *options, "--verbose"]
        return self._start(command, "learner")

    def start_actor(self, number: int) -> subprocess.Popen[bytes]:
        command = [
            *(sys.executable, "-m", "tandem.cli", "actor", TASK, "--learner", f"127.0.0.1:{self.proxy.port}"),
            *("--token-file", str(self.run / "token"), "--name", f"actor {number}", "--spool", str(self.folder / f"spool{number}")),
            *("--num-envs", "4", "--threads", "1", "--timeout", str(TIMEOUT_S)),
        ]
        return self._start(command, f"actor{number}")

    def _start(self, command: list[str], name: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=self.environment)

    # ---- what is going on

    def api(self, path: str, post: dict[str, Any] | None = None) -> Any:
        token = (self.run / "token").read_text()
        data = None if post is None else json.dumps(post).encode()
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, {"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=5) as answer:
            return json.loads(answer.read())

    def steps(self) -> int:
        return self.api("/api/clocks")["actor_step"]

    @property
    def hub_pid(self) -> int:
        return json.loads((self.run / "hub.json").read_text())["pid"]

    @property
    def trainer_pid(self) -> int:
        children = Path(f"/proc/{self.learner.pid}/task/{self.learner.pid}/children").read_text().split()
        return next(int(child) for child in children if b"trainer" in Path(f"/proc/{child}/cmdline").read_bytes())

    def wait(self, what: str, done: Callable[[], bool], seconds: float = PATIENCE_S) -> float:
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            try:
                if done():
                    return time.monotonic() - began
            except (OSError, ValueError, KeyError, StopIteration):
                pass  # a part of it is down just now
            time.sleep(0.05)
        raise AssertionError(f"after {seconds:.0f} s still not: {what}\n{self.last_words()}")

    def last_words(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-12:]) for log in logs)

    def strike(self, fault: str) -> float:
        """One fault at a random moment; returns the seconds until everyone acted with a policy that was made after it."""
        start, more = self.steps(), self.random.randrange(1, 200)
        self.wait("steps arrive", lambda: self.steps() > start + more)
        before = self.api("/api/status")["policy"]["version"]
        self.fault(fault)
        return self.wait(f"all is well after {fault}", lambda: self.well(before))

    def well(self, newer_than: int = 0) -> bool:
        """Trainer alive, every actor there and acting with a policy newer than this."""
        if self.learner.poll() is not None or any(actor.poll() is not None for actor in self.actors):
            raise AssertionError(f"a process has ended by itself\n{self.last_words()}")
        status, actors = self.api("/api/status"), [actor for actor in self.api("/api/actors") if actor["connected"]]
        return status["trainer"]["alive"] and len(actors) == len(self.actors) and all(actor["version"] > newer_than for actor in actors)

    # ---- faults

    def fault(self, name: str) -> None:
        {
            "kill_actor": self.kill_actor,
            "kill_trainer": lambda: os.kill(self.trainer_pid, signal.SIGKILL),
            "kill_hub": lambda: os.kill(self.hub_pid, signal.SIGKILL),
            "kill_all": self.kill_all,
            "stop_hub": lambda: self.stopped(self.hub_pid),
            "stop_actor": lambda: self.stopped(self.random.choice(self.actors).pid),
            "cut_mid_frame": self.cut_mid_frame,
            "silence": self.silence,
            "slow_and_lossy": self.slow_and_lossy,
            "disk_full": self.disk_full,
            "clock_jumps": self.clock_jumps,
        }[name]()

    def kill_actor(self) -> None:
        number = self.random.randrange(len(self.actors))
        self._kill(self.actors[number])
        self.actors[number] = self.start_actor(number)

    def _kill(self, actor: subprocess.Popen[bytes]) -> None:
        self.killed_actors.add(actor.pid)
        actor.kill()
        actor.wait()

    def kill_all(self) -> None:
        """As if the power of a machine had gone, but for its disk."""
        victims = [self.learner.pid, self.trainer_pid, self.hub_pid, *(actor.pid for actor in self.actors)]
        self.killed_actors.update(actor.pid for actor in self.actors)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        for process in (self.learner, *self.actors):
            process.wait()
        (self.run / "hub.json").unlink(missing_ok=True)
        time.sleep(0.2)
        self.learner = self._start_learner("--resume", str(self.run), TASK)
        self.actors = [self.start_actor(i) for i in range(len(self.actors))]

    def stopped(self, pid: int) -> None:
        """Longer than the time-out: the other end must give it up, and take it back."""
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.5 * TIMEOUT_S)
        os.kill(pid, signal.SIGCONT)

    def cut_mid_frame(self) -> None:
        for _ in range(3):
            self.proxy.cut_after(self.random.randrange(1, 3000))
            time.sleep(0.2)

    def slow_and_lossy(self) -> None:
        self.proxy.bytes_per_s, self.proxy.delay_s = 60_000, 0.05
        for _ in range(3):
            time.sleep(0.7)
            self.proxy.drop()
        self.proxy.bytes_per_s, self.proxy.delay_s = None, 0.0

    def silence(self) -> None:
        """A cable pulled out: the connections stay open, nothing gets through, and what was under way is lost."""
        self.proxy.silent = True
        time.sleep(1.5 * TIMEOUT_S)
        self.proxy.silent = False

    def disk_full(self) -> None:
        """No file of the hub may grow any more; a while later there is room again."""
        pid = self.hub_pid
        sizes = [path.stat().st_size for path in self.run.glob("journal.db*")]
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (min(sizes), hard))
        self.wait("the hub says that its disk is full", lambda: bool(self.api("/api/status")["journal"]["trouble"]), 20)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))

    def clock_jumps(self) -> None:
        for jump in (86_400.0, -86_400.0, 3.0, 0.0):
            self.jump.write_text(str(jump))
            time.sleep(0.3)

    # ---- the proof

    def stand_still(self) -> None:
        """Actors pause and hand over what they have; the learner takes it in."""

        def quiet() -> bool:
            actors = [actor for actor in self.api("/api/actors") if actor["connected"]]
            return len(actors) == len(self.actors) and all(actor["unacknowledged"] == 0 for actor in actors)

        before = -1
        for _ in range(50):
            self.api("/api/command", {"command": "pause", "to": "actors"})  # again: one that has just come back did not hear it
            time.sleep(0.3)
            self.wait("everything is handed over", quiet)
            count = self.steps()
            if count == before:
                return
            before = count
        raise AssertionError(f"actors do not stand still\n{self.last_words()}")

    def go_on(self) -> None:
        self.api("/api/command", {"command": "resume", "to": "actors"})

    def check(self) -> int:
        """Every witnessed step is in the journal once and in order; returns how many there are."""
        stored: dict[str, list[bytes]] = {}
        versions: dict[str, list[int]] = {}
        with Journal.open(self.run / "journal.db") as journal:
            assert journal.counts().rejected == 0, journal.rejected()[:3]
            for _, step in journal.read():
                stored.setdefault(step.source, []).append(note(step.next_observation))
                versions.setdefault(step.source, []).append(step.policy_version)
                assert step.seq == len(stored[step.source]) - 1, f"{step.source}: step {step.seq} is not the next one"
        for source, acted in versions.items():
            assert acted == sorted(acted), f"{source} acted with an older policy after a newer one"
        by_first = {notes[0]: source for source, notes in stored.items()}
        assert len(by_first) == len(stored)
        witnessed = 0
        for file in self.witness.iterdir():
            data = file.read_bytes()
            notes = [data[i : i + NOTE] for i in range(0, len(data), NOTE)]
            killed = int(file.name.split(".")[0]) in self.killed_actors
            if not notes or (killed and len(notes) == 1 and notes[0] not in by_first):
                continue
            source = by_first.pop(notes[0], None)
            assert source is not None, f"an environment made {len(notes)} steps that the journal knows nothing of"
            missing = len(notes) - len(stored[source])
            assert notes[: len(stored[source])] == stored[source], f"{source}: other steps, or in another order, than were made"
            assert 0 <= missing <= (1 if killed else 0), f"{source}: {missing} steps are missing at the end"
            witnessed += len(stored[source])
        assert not by_first, f"the journal holds sources that no environment made: {list(by_first.values())}"
        return witnessed

    def finish(self) -> dict[str, Any]:
        """Stop everything; the learner must have been given every row once, in order, over all of its lives."""
        for actor in self.actors:
            actor.terminate()
        for actor in self.actors:
            assert actor.wait(30) == 0, self.last_words()
        with Journal.open(self.run / "journal.db") as journal:
            rows = journal.counts().accepted
        self.wait("the learner has read everything", lambda: self._read_by_trainer() >= rows)
        self.learner.terminate()
        assert self.learner.wait(60) == 0, self.last_words()
        summary = json.loads((self.run / "summary.json").read_text())
        with Journal.open(self.run / "journal.db") as journal:
            digest = extend_digest("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", (step for _, step in journal.read()))
        assert summary["actor_step"] == rows and summary["received_digest"] == digest, (
            "the learner was given other rows, or in another order"
        )
        published = [event["version"] for event in RunFolder(self.run).events() if event["kind"] == "published"]
        assert published == sorted(set(published)), "a version was used twice, or went back"
        self.proxy.close()
        return summary

    def _read_by_trainer(self) -> int:
        return self.api("/api/status")["trainer"]["ord"]

    def close(self) -> None:
        """Whatever is left of it."""
        for process in (self.learner, *self.actors):
            if process.poll() is None:
                process.terminate()
        for process in (self.learner, *self.actors):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
        self.proxy.close()


FAULTS = (
    "kill_actor",
    "kill_trainer",
    "kill_hub",
    "kill_all",
    "stop_hub",
    "stop_actor",
    "cut_mid_frame",
    "silence",
    "slow_and_lossy",
    "disk_full",
    "clock_jumps",
)
