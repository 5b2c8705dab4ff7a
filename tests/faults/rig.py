"""A learner and actors as real processes, faults to put them through, and the proof that nothing was lost.

Every step that an environment made is witnessed by the environment itself (`counted_point`). After any fault the journal must hold
each of them once, in order, and the learner must have been given each row once, in order. The one step that may be missing is the last
of a process that was killed between its environment's return and the spool's write. After a power cut the newest steps of an actor may
be missing too, but none that the hub had stored.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem.data.journal import Journal
from tandem.off_policy.learner import extend_digest
from tandem.runs.folder import RunFolder
from tests.faults.counted_point import WITNESS, Note, digest, read_notes
from tests.faults.volatile_disk import VolatileDisk
from tests.link.proxy import Proxy

TASK = "counted_point:CountedPoint-v0"
HERE = Path(__file__).parent
JUMP = "TANDEM_CLOCK_JUMP"
"""Variable that names a file with seconds to add to the wall clock (`sitecustomize.py`)."""
TIMEOUT_S = 2.0
PATIENCE_S = 180.0
LATCHED = importlib.util.find_spec("tandem.acting.latch") is not None
"""Does a robot that was told to stand still do so after a restart of its actor?"""
UNFLUSHED = 200
"""Steps of one row that its actor makes in 0.05 s and a flush, at most: a power cut may take them, if the hub did not have them."""


@dataclass(frozen=True)
class Proof:
    """What became of the steps that environments made."""

    steps: int
    """In the journal, each witnessed."""
    lost: int
    doubled: int
    reordered: int
    unknown: int
    """In the journal, but made by no environment."""
    unflushed: int
    """Gone in a power cut before anyone was told that they are kept."""
    moved_while_stopped: int

    @property
    def holds(self) -> bool:
        return not (self.lost or self.doubled or self.reordered or self.unknown or self.moved_while_stopped)


class Rig:
    """`tandem learner` and some `tandem actor`s, the latter through a proxy. With a `disk`, run and spools are on it."""

    def __init__(
        self, folder: Path, actors: int = 2, seed: int = 0, *, num_envs: int = 4, ratio: float = 0.125, disk: VolatileDisk | None = None
    ):
        self.folder, self.disk, self.num_envs, self.ratio = folder, disk, num_envs, ratio
        self.place = folder if disk is None else disk.path
        self.run = self.place / "run"
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
        self.cut_actors: set[int] = set()
        """Killed by a power cut."""
        self.stops: list[tuple[int, int]] = []
        """When all robots had to stand still, by the monotonic clock in ns."""
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
            "steps-per-update": max(1, round(160 * self.ratio)),  # a policy for every 160 steps of the actors
            "checkpoint-period": 200,
            "eval-period": 0,
            "final-episodes": 0,
            "batch-size": 16,
            "updates-per-actor-step": self.ratio,
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
            *("--token-file", str(self.run / "token"), "--name", f"actor {number}", "--spool", str(self.place / f"spool{number}")),
            *("--num-envs", str(self.num_envs), "--threads", "1", "--timeout", str(TIMEOUT_S)),
            *(("--latch", str(self.place / "latch")) if LATCHED else ()),
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
        self.wait("the hub says where it is", (self.run / "hub.json").exists)  # one that started on a full disk writes it later
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
        self.some_steps()
        before = self.api("/api/status")["policy"]["version"]
        self.fault(fault)
        return self.wait(f"all is well after {fault}", lambda: self.well(before))

    def strike_while_stopped(self, fault: str) -> None:
        """STOP, a fault, and resume: between them no robot may be moved, whoever was started again meanwhile."""
        self.some_steps()
        self.tell_until("stop", {"stay": True}, "all robots stand still", lambda: not any(self._moving()))
        began = time.monotonic_ns()
        self.fault(fault)
        self.wait(f"everyone is back after {fault}", self._all_connected)
        time.sleep(self.random.uniform(0.2, 1.0))
        self.stops.append((began, time.monotonic_ns()))
        self.go_on()

    def some_steps(self) -> None:
        start, more = self.steps(), self.random.randrange(1, 200)
        self.wait("steps arrive", lambda: self.steps() > start + more)

    def tell_until(self, command: str, detail: dict[str, Any], what: str, done: Callable[[], bool]) -> None:
        """Again and again: an actor that has just come back did not hear it."""

        def told() -> bool:
            self.api("/api/command", {"command": command, "to": "actors", "detail": detail})
            return self._all_connected() and done()

        self.wait(what, told)

    def _all_connected(self) -> bool:
        return sum(actor["connected"] for actor in self.api("/api/actors")) == len(self.actors)

    def _noted(self) -> list[int]:
        """Bytes that the witnesses of each living actor have written."""
        return [sum(file.stat().st_size for file in self.witness.glob(f"{actor.pid}.*")) for actor in self.actors]

    def _moving(self) -> list[bool]:
        """Which actors give their environments actions."""
        before = self._noted()
        time.sleep(0.3)
        return [now > then for now, then in zip(self._noted(), before, strict=True)]

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
            "power_cut": self.power_cut,
            "disk_fills_up": self.disk_fills_up,
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
        self._kill_everything(self._everything())
        (self.run / "hub.json").unlink(missing_ok=True)
        time.sleep(0.2)
        self._start_everything()

    def power_cut(self) -> None:
        """The disk first, while everyone writes to it. What the hub had counted as stored must be there afterwards."""
        assert self.disk is not None, "a power cut needs a disk that forgets"
        victims = self._everything()
        for actor in self.actors:  # or they would make steps after the end of the world, and note them
            os.kill(actor.pid, signal.SIGSTOP)
        stored = self.steps()
        self.disk.cut(self.random)
        self.cut_actors.update(actor.pid for actor in self.actors)
        self._kill_everything(victims)
        self.disk.power_on()
        with Journal.open(self.run / "journal.db") as journal:
            kept = journal.counts().accepted
        assert kept >= stored, f"a power cut took {stored - kept} steps that the hub had stored"
        (self.run / "hub.json").unlink(missing_ok=True)
        self._start_everything()

    def _everything(self) -> list[int]:
        found = [self.learner.pid, self.hub_pid, *(actor.pid for actor in self.actors)]
        with contextlib.suppress(StopIteration, OSError):
            found.append(self.trainer_pid)
        return found

    def _kill_everything(self, victims: list[int]) -> None:
        self.killed_actors.update(actor.pid for actor in self.actors)
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in (self.learner, *self.actors):
            process.wait()
        self.wait("everything has ended", lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in victims))

    def _start_everything(self) -> None:
        self.learner = self._start_learner("--resume", str(self.run), TASK)
        self.wait("the hub listens", lambda: (self.run / "hub.json").exists())  # on a busy machine an actor would give up before
        self.actors = [self.start_actor(i) for i in range(len(self.actors))]

    def stopped(self, pid: int) -> None:
        """Longer than the time-out: the other end must give it up, and take it back."""
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.5 * TIMEOUT_S)
        with contextlib.suppress(ProcessLookupError):
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
        if any(self._moving()):
            self.wait("the hub says that its disk is full", lambda: bool(self.api("/api/status")["journal"]["trouble"]), 20)
        else:  # robots that stand still send no steps, and a hub that writes nothing does not notice
            time.sleep(2)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))

    def disk_fills_up(self) -> None:
        """Not one byte is left on the disk of run and spools, and one part may be killed meanwhile. Then there is room again."""
        assert self.disk is not None, "it fills up a disk of its own"
        ballast, moving = self.disk.path / "ballast", any(self._moving())
        with ballast.open("wb", buffering=0) as file:
            for size in (2**20, 2**12, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))
        assert shutil.disk_usage(self.disk.path).free < 2**20, "the disk is not full"
        if moving:  # where the spools are full first, the robots stand still, and the hub has nothing to write that it could notice by
            self.wait("the hub says that its disk is full, or the robots stand still", self._full_or_standing, 20)
        victim, number = self.random.choice(("nobody", "hub", "trainer", "actor")), self.random.randrange(len(self.actors))
        if victim == "actor":
            self._kill(self.actors[number])
        elif victim != "nobody":
            self.fault(f"kill_{victim}")
        time.sleep(self.random.uniform(0.5, 2.0))
        ballast.unlink()
        if victim == "actor":  # on a full disk it would say that there is no place for its spool, and end
            self.actors[number] = self.start_actor(number)

    def _full_or_standing(self) -> bool:
        return self.api("/api/status")["journal"]["state"] == "storage_full" or not any(self._moving())

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
            self.tell_until("pause", {}, "all actors pause", lambda: True)
            time.sleep(0.3)
            self.wait("everything is handed over", quiet)
            count = self.steps()
            if count == before:
                return
            before = count
        raise AssertionError(f"actors do not stand still\n{self.last_words()}")

    def go_on(self) -> None:
        self.tell_until("resume", {}, "all robots move again", lambda: all(self._moving()))

    def check(self) -> int:
        """Every witnessed step is in the journal once and in order, and no robot moved while stopped; returns how many steps there are."""
        proof = self.proof()
        assert proof.holds, proof
        return proof.steps

    def proof(self) -> Proof:
        """Compare the journal with what the environments have noted."""
        return proof_of(self.run, self.witness, self.killed_actors, self.cut_actors, self.stops)

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
"""Those that need nothing but a machine; `power_cut` needs a disk that forgets."""


def proof_of(
    run: Path, witness: Path, killed: Collection[int] = (), cut: Collection[int] = (), stops: Sequence[tuple[int, int]] = ()
) -> Proof:
    """Compare the journal of a run with what its environments have noted. Of processes that were `killed`, or `cut` off from their power,
    the newest steps may be missing."""
    stored, counts = _stored(run), Counter[str]()
    source_of = {step: source for source, steps in stored.items() for step in steps}
    for file in witness.iterdir():
        notes, pid = read_notes(file), int(file.name.split(".")[0])
        counts["moved_while_stopped"] += sum(_against_a_stop(each, stops) for each in notes)
        source = next((source_of[each.step] for each in notes if each.step in source_of), "")
        kept = stored.pop(source, [])
        made, known = [each.step for each in notes], set(kept)
        missing = len(set(made) - known)
        forgiven = min(missing, UNFLUSHED if pid in cut else 1 if pid in killed else 0)
        if known.intersection(made[len(made) - forgiven :]):
            forgiven = 0  # only the newest may be missing
        counts["unflushed"] += max(0, forgiven - 1)
        counts["lost"] += missing - forgiven
        counts["doubled"] += len(kept) - len(known)
        in_order = [step for step in made if step in known]
        counts["reordered"] += sum(one != other for one, other in zip(in_order, kept, strict=False))
        counts["steps"] += len(kept)
        counts["unknown"] += len(known.difference(made))
    counts["unknown"] += sum(map(len, stored.values()))
    return Proof(**{field.name: counts[field.name] for field in dataclasses.fields(Proof)})


def _stored(run: Path) -> dict[str, list[bytes]]:
    """The steps in the journal by source, in its order."""
    stored: dict[str, list[bytes]] = {}
    versions: dict[str, int] = {}
    with Journal.open(run / "journal.db") as journal:
        assert journal.counts().rejected == 0, journal.rejected()[:3]
        for _, step in journal.read():
            stored.setdefault(step.source, []).append(digest(step.next_observation))
            assert step.policy_version >= versions.get(step.source, -1), f"{step.source} acted with an older policy after a newer one"
            versions[step.source] = step.policy_version
            assert step.seq == len(stored[step.source]) - 1, f"{step.source}: step {step.seq} is not the next one"
    return stored


def _against_a_stop(each: Note, stops: Sequence[tuple[int, int]]) -> bool:
    return each.moved and any(began < each.at_ns < ended for began, ended in stops)
