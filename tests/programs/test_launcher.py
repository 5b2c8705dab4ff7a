"""Parts are started by a launcher, and the files of the working directory cannot replace their modules."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tandem.envs.reach import SPEC
from tandem.programs import supervisor
from tandem.programs.launcher import DISK_FULL, LocalLauncher, Part
from tandem.programs.parts import hub_part
from tandem.programs.supervisor import PartFailed, Supervisor
from tandem.runs.folder import RunFolder
from tests.small_disk import small_disk
from tests.waiting import wait_for

FEW = ("--hidden", "16", "16", "--batch-size", "16", "--training-starts", "10", "--eval-period", "0", "--final-episodes", "0")
FEW = (*FEW, "--max-steps", "20")
OWN = """
    import gymnasium, numpy as np

    class Still(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

        def reset(self, *, seed=None, options=None):
            return np.zeros(2, np.float32), {}

        def step(self, action):
            return np.zeros(2, np.float32), 0.0, False, False, {}

    gymnasium.register("Still-v0", entry_point=Still, max_episode_steps=10)
"""


def train(folder: Path, task: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As the installed command starts it: the working directory is not on the path."""
    command = [sys.executable, "-P", "-c", "from tandem.cli import main; main()", "train", task, *FEW, "--run", "run", "--quiet"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, env={**os.environ, **environment})


def test_a_file_in_the_working_directory_does_not_replace_a_module_of_the_parts(tmp_path: Path) -> None:
    for name in ("msgpack", "websockets", "safetensors", "rich", "nicegui", "fastapi", "uvicorn"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('the working directory is on the path: {name}')")
    done = train(tmp_path, "reach", {})
    assert done.returncode == 0, done.stderr


def test_an_environment_in_the_working_directory_is_found_by_who_puts_it_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "own_envs.py").write_text(textwrap.dedent(OWN))
    refused = train(tmp_path, "own_envs:Still-v0", {})
    assert refused.returncode == 2 and "no environment 'own_envs:Still-v0'" in refused.stderr and "PYTHONPATH=." in refused.stderr
    assert not (tmp_path / "run").exists()
    done = train(tmp_path, "own_envs:Still-v0", {"PYTHONPATH": os.pathsep.join([".", os.environ.get("PYTHONPATH", "")])})
    assert done.returncode == 0, done.stderr


@dataclass
class Played:
    """A handle whose exit codes are a script: None while it runs."""

    codes: list[int | None]
    pid: int = 1
    log: str = "the script"
    stopped: bool = False

    @property
    def code(self) -> int | None:
        return self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]

    def ask_to_stop(self) -> None:
        self.stopped = True

    def wait(self, seconds: float) -> None:
        del seconds

    def stop(self, seconds: float) -> None:
        self.stopped = True


@dataclass
class ScriptedLauncher:
    """Starts nothing; keeps what was started, in order."""

    run: Path
    plays: dict[str, list[Played]]
    started: list[str] = field(default_factory=list)

    def start(self, part: Part) -> Played:
        self.started.append(part.name)
        if part.name == "hub":
            (self.run / "hub.json").write_text('{"pid": 1}')
        if part.name == "trainer":
            (self.run / "summary.json").write_text('{"stopped": "max_steps"}')
        return self.plays[part.name].pop(0)


def supervise(run: Path, launcher: ScriptedLauncher, actors: Sequence[str] = ("actor 0",)) -> tuple[dict, list[str], list[dict]]:
    said: list[str] = []
    events: list[dict] = []
    watching = Supervisor(run, launcher, said.append, lambda kind, **details: events.append({"kind": kind, **details}))
    summary = watching.supervise(Part("hub", ()), Part("trainer", ()), [Part(name, ()) for name in actors])
    return summary, said, events


def test_a_supervisor_holds_any_launcher_and_starts_again_what_was_killed(tmp_path: Path) -> None:
    hub, trainer, killed, again = Played([None]), Played([None, None, None, None, 0]), Played([-signal.SIGKILL]), Played([None])
    launcher = ScriptedLauncher(tmp_path, {"hub": [hub], "trainer": [trainer], "actor 0": [killed, again]})
    summary, said, events = supervise(tmp_path, launcher)
    assert summary == {"stopped": "max_steps"}
    assert launcher.started == ["hub", "trainer", "actor 0", "actor 0"], "the hub first, the killed actor once more"
    assert said == ["the actor 0 was ended by SIGKILL (out of memory?); it is started again"]
    assert events[0] == {"kind": "launched", "parts": ["hub", "trainer", "actor 0"]}
    assert events[1:] == [{"kind": "restarted", "part": "actor 0", "signal": "SIGKILL"}]
    assert hub.stopped and trainer.stopped and again.stopped and not killed.stopped


def test_a_fault_that_returns_ends_the_run_and_a_kill_from_outside_does_not(tmp_path: Path) -> None:
    def deaths(code: int) -> list[Played]:
        return [Played([code]) for _ in range(6)]

    faulty = {"hub": [Played([None])], "trainer": [Played([None])], "actor 0": deaths(-signal.SIGSEGV)}
    with pytest.raises(PartFailed, match="was ended by SIGSEGV 5 times in a row, each time within 60 s of its start"):
        supervise(tmp_path, ScriptedLauncher(tmp_path, faulty))
    assert len(faulty["actor 0"]) == 1, "five of six were used"
    killed = {"hub": [Played([None])], "trainer": [Played([None] * 20 + [0])], "actor 0": [*deaths(-signal.SIGKILL), Played([None])]}
    assert supervise(tmp_path, ScriptedLauncher(tmp_path, killed))[0] == {"stopped": "max_steps"} and not killed["actor 0"]


def test_a_part_that_a_full_disk_ended_is_started_again_until_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_FULL_S", 0.05)
    full = [Played([DISK_FULL]) for _ in range(30)]  # more often than a part may die
    plays = {"hub": [Played([None])], "trainer": [*full, Played([None, None, 0])], "actor 0": [Played([None])]}
    monkeypatch.setattr(supervisor, "_LOOK_S", 0.01)
    summary, said, events = supervise(tmp_path, ScriptedLauncher(tmp_path, plays))
    assert summary == {"stopped": "max_steps"} and not plays["trainer"]
    assert said == [f"the trainer ended: the disk of {tmp_path} is full. Make room; it is started again every 0 s"], "said once"
    assert events[1:] == [{"kind": "restarted", "part": "trainer", "signal": "disk full"}] * 30


def test_a_part_says_by_its_exit_code_that_the_disk_is_full_and_nothing_else(tmp_path: Path) -> None:
    """A hub that has to make its journal, where there is no room for it; and where it may not be made at all."""
    log, settings = tmp_path / "log", {"host": "127.0.0.1", "port": 0, "certificate": None, "key": None, "insecure": False}
    settings |= {"host_names": [], "session_hours": 8, "timeout_s": 10, "disk_reserve_mb": 500, "durability": "power"}
    settings |= {"actor_settings": {}, "steps_per_update": 1, "max_actors": 64}
    with small_disk(tmp_path / "disk", 1) as disk:
        run = RunFolder.create(disk.folder / "run", "rlpd", {}, SPEC)
        for refused, code in ((disk.fill, DISK_FULL), (lambda: (disk.clear(), (run.path / "journal.db").mkdir()), 2)):
            refused()
            hub = LocalLauncher(output=log).start(hub_part(run.path, **settings))
            hub.wait(60)
            assert hub.code == code, log.read_text()


def test_a_part_that_ends_with_an_error_ends_the_run_and_its_log_is_named(tmp_path: Path) -> None:
    hub, trainer, actor = Played([None]), Played([None]), Played([3])
    launcher = ScriptedLauncher(tmp_path, {"hub": [hub], "trainer": [trainer], "actor 0": [actor]})
    old = RunFolder(tmp_path).last_words("actor 0")
    old.parent.mkdir()
    old.write_text('{"error": "of an earlier start"}')
    with pytest.raises(PartFailed, match=r"the actor 0 ended with code 3 and left no error of its own \(the script may say more\)"):
        supervise(tmp_path, launcher)
    assert hub.stopped and trainer.stopped, "the others are stopped"


def test_the_error_that_a_part_left_is_said_and_becomes_an_event(tmp_path: Path) -> None:
    hub, trainer, actor = Played([None]), Played([None]), Played([None, 2])
    launcher = ScriptedLauncher(tmp_path, {"hub": [hub], "trainer": [trainer], "actor 0": [actor]})
    file = RunFolder(tmp_path).last_words("actor 0")
    file.parent.mkdir()
    events: list[dict] = []

    def said(kind: str, **details: object) -> None:
        events.append({"kind": kind, **details})

    watching = Supervisor(tmp_path, launcher, print, said, listening=lambda: None)
    start = launcher.start

    def start_and_fail(part: Part) -> object:
        if part.name == "actor 0":
            file.write_text('{"error": "environment \'arm\' failed in step()", "environment": true}')
        return start(part)

    launcher.start = start_and_fail  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(PartFailed, match=r"the actor 0 ended with code 2: environment 'arm' failed in step\(\)"):
        watching.supervise(Part("hub", ()), Part("trainer", ()), [Part("actor 0", ())])
    error = "environment 'arm' failed in step()"
    assert events[1:] == [{"kind": "part_failed", "part": "actor 0", "how": "ended with code 2", "error": error, "environment": True}]


def test_a_local_process_is_alive_until_it_is_stopped_and_writes_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    handle = LocalLauncher(output=log).start(Part("film", ("film", str(tmp_path / "nowhere"), str(tmp_path), "60")))
    handle.wait(120)
    assert handle.code == 2 and "nowhere" in log.read_text() and handle.log == str(log)
    began = time.monotonic()
    hub = LocalLauncher(output=log).start(Part("hub", ("hub", str(tmp_path), "{")))  # not JSON: it fails by itself
    wait_for(lambda: hub.code is not None, 120, what="it ends")
    hub.stop(1.0)
    assert hub.code == 1 and time.monotonic() - began < 120
