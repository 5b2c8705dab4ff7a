"""Hub, trainer and actors as processes of this machine: started together, watched, stopped together.

A process that is killed is started again and takes up where it was: the journal, the spools, the checkpoints and the counters
are on the disk. One that ends by itself with an error stops the run, because it would do so again.

    python -m tandem.programs.processes hub|trainer RUN JSON      what the supervisor starts; not for typing
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from tandem.errors import TandemError
from tandem.runs.folder import RunFolder

_LOOK_S = 0.1
_QUICK_DEATH_S = 5.0
_MAX_QUICK_DEATHS = 25
"""In a row: what dies that often does not die by chance."""
_STOP_S = 15.0
_SAVE_S = 120.0
"""For the trainer, which finishes its step or its evaluation and then saves."""
_START_S = 60.0


class ProcessFailed(TandemError):
    """A part of the run ended with an error, which it has printed itself."""


@dataclass
class Part:
    """One process of a run."""

    name: str
    command: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    quick_deaths: int = 0

    def start(self) -> None:
        self.began = time.monotonic()
        # A session of its own: Ctrl-C reaches the supervisor alone, which stops the parts in their order. The pipe tells the part
        # that the supervisor is gone, however it went.
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, start_new_session=True, env={**os.environ, **self.environment})

    @property
    def code(self) -> int | None:
        """None while it runs; negative if a signal ended it."""
        return self.process.poll() if self.process else None

    def tell(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def stop(self, seconds: float) -> None:
        """Ask, wait, and end it if it does not listen."""
        if self.process is None:
            return
        self.tell(signal.SIGTERM)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()


def supervise(
    run: Path,
    hub: Part,
    trainer: Part,
    actors: Sequence[Part],
    say: Callable[[str], None],
    event: Callable[..., None],
    listening: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Run them all until the trainer is done; returns its summary. `listening` is called once the hub does."""
    parts = [hub, trainer, *actors]
    folder = RunFolder(run)
    folder.summary_file.unlink(missing_ok=True)  # of an earlier stop
    try:
        with _asked_to_stop() as asked:
            hub.start()
            _wait_for_hub(folder, hub, asked)
            listening()
            for part in (trainer, *actors):
                part.start()
            _watch(trainer, parts, asked, say, event)
    finally:
        for actor in actors:
            actor.tell(signal.SIGTERM)
        trainer.stop(_SAVE_S)
        for actor in actors:
            actor.stop(_STOP_S)  # while the hub is there to take what they have
        hub.stop(_STOP_S)
    summary = folder.summary()
    if summary is None and trainer.code == -signal.SIGTERM:
        raise KeyboardInterrupt(f"The trainer had not begun; `--resume {run}` begins it.")
    if summary is None:
        raise ProcessFailed(f"the trainer of {run} ended without a summary; its last words are above. Go on with `--resume {run}`.")
    return summary


def _watch(trainer: Part, parts: Sequence[Part], asked: Callable[[], bool], say: Callable[[str], None], event: Callable[..., None]) -> None:
    """Until the trainer has ended by itself, or everyone was asked to stop. An actor may end before it, if a person told it to."""
    while not asked():
        for part in parts:
            if part.code == 0 and part is trainer:
                return
            if part.code:
                _start_again(part, part.code, say, event)
        time.sleep(_LOOK_S)


def _start_again(part: Part, code: int, say: Callable[[str], None], event: Callable[..., None]) -> None:
    if code > 0:
        raise ProcessFailed(f"the {part.name} ended with code {code}; its last words are above")
    part.quick_deaths = part.quick_deaths + 1 if time.monotonic() - part.began < _QUICK_DEATH_S else 0
    how = signal.Signals(-code).name
    if part.quick_deaths >= _MAX_QUICK_DEATHS:
        raise ProcessFailed(f"the {part.name} was ended by {how} {part.quick_deaths} times in a row within {_QUICK_DEATH_S:.0f} s")
    hint = " (out of memory?)" if how == "SIGKILL" else ""
    say(f"the {part.name} was ended by {how}{hint}; it is started again")
    event("restarted", part=part.name, signal=how)
    part.start()


def _wait_for_hub(run: RunFolder, hub: Part, asked: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _START_S
    assert hub.process is not None
    while not asked():
        if (run.hub() or {}).get("pid") == hub.process.pid:
            return
        if hub.code is not None:
            raise ProcessFailed(f"the hub ended with code {hub.code} before it listened; its last words are above")
        if time.monotonic() > deadline:
            raise ProcessFailed(f"the hub does not listen after {_START_S:.0f} s; see {run.events_file}")
        time.sleep(0.02)


@contextlib.contextmanager
def _asked_to_stop() -> Any:
    """Ctrl-C or SIGTERM ask once; a second Ctrl-C ends the program at once."""
    asked = threading.Event()

    def handler(*_: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread
        before = {}
    try:
        yield asked.is_set
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def hub_part(run: Path, **settings: Any) -> Part:
    return Part("hub", [sys.executable, "-m", "tandem.programs.processes", "hub", str(run), json.dumps(settings)])


def trainer_part(run: Path, **settings: Any) -> Part:
    return Part("trainer", [sys.executable, "-m", "tandem.programs.processes", "trainer", str(run), json.dumps(settings)])


def actor_part(number: int, arguments: Sequence[str]) -> Part:
    return Part(f"actor {number}", [sys.executable, "-m", "tandem.programs.processes", "actor", *arguments])


def end_with_supervisor() -> None:
    """A part whose supervisor is gone stops as if it had been asked to."""

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="supervisor", daemon=True).start()


def _hub(run: Path, settings: dict[str, Any]) -> None:
    from tandem.dashboard.mount import mount_on_hub
    from tandem.doctor.diagnosis import for_hub
    from tandem.link.hub import Hub

    steps_per_update = settings.pop("steps_per_update")
    certificate, key = (None if settings[name] is None else Path(settings[name]) for name in ("certificate", "key"))
    hub = Hub(
        run,
        host=settings["host"],
        port=settings["port"],
        certificate=certificate,
        key=key,
        timeout_s=settings["timeout_s"],
        ping_s=settings["timeout_s"] / 2,
        actor_settings=settings["actor_settings"],
        say=lambda line: _log(run, line),
        clocks=lambda counts: counts.related(steps_per_update),
        findings=for_hub(run),
    )
    mount_on_hub(hub, lambda line: _log(run, line))
    hub.serve()


def _log(run: Path, line: str) -> None:
    RunFolder(run).log_line(line)


def _trainer(run: Path, settings: dict[str, Any]) -> None:
    from tandem.doctor.watch import watch_trainer
    from tandem.off_policy.recipes import config_from
    from tandem.off_policy.trainer_process import train_beside
    from tandem.runs.display import Display

    os.nice(5)  # an actor on the same machine has its control period to keep
    init_from = settings["init_from"]
    train_beside(
        config_from(settings["config"]),
        run,
        Display(settings["mode"], verbose=settings["verbose"]),
        init_from=None if init_from is None else Path(init_from),
        watch=watch_trainer(run),
    )


def _actor(arguments: list[str]) -> None:
    import tyro

    from tandem.doctor.watch import watch_actor
    from tandem.programs.actor import ActorArgs, act_here

    args = tyro.cli(ActorArgs, args=arguments)
    run = args.run
    assert run is not None, "a supervisor's actor is given its run"
    act_here(args, lambda line: _log(run, line), watch_actor())


def main() -> NoReturn:
    part, *rest = sys.argv[1:]
    end_with_supervisor()
    try:
        if part == "actor":
            _actor(rest)
        else:
            {"hub": _hub, "trainer": _trainer}[part](Path(rest[0]), json.loads(rest[1]))
    except TandemError as problem:
        print(f"{part}: {problem}", file=sys.stderr)
        sys.exit(2)
    sys.exit(0)


if __name__ == "__main__":
    main()
