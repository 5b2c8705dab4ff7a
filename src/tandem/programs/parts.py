"""The parts of a run, and what the process of each one runs.

python -P -m tandem.programs.parts hub|trainer RUN JSON       started by a launcher; not for typing
python -P -m tandem.programs.parts actor|film|command ARGUMENTS
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import itertools
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tandem.errors import EnvironmentFailed, StorageFull, TandemError, extras_named
from tandem.files import write_atomically
from tandem.programs.launcher import DISK_FULL, Part
from tandem.runs.folder import RunFolder
from tandem.runs.printable import printable


def hub_part(run: Path, **settings: Any) -> Part:
    return Part("hub", ("hub", str(run), json.dumps(settings)))


def trainer_part(run: Path, **settings: Any) -> Part:
    return Part("trainer", ("trainer", str(run), json.dumps(settings)))


def dagger_part(run: Path, **settings: Any) -> Part:
    return Part("trainer", ("dagger", str(run), json.dumps(settings)))


def actor_part(number: int, arguments: Sequence[str]) -> Part:
    return Part(f"actor {number}", ("actor", *arguments))


def film_part(run: Path, folder: Path, seconds: float) -> Part:
    """Films the policy of a run, for at most this long."""
    return Part("film", ("film", str(run), str(folder), str(seconds)))


def command_part(name: str, command: str, arguments: Sequence[str]) -> Part:
    """A whole run of a sweep, by the command that makes it."""
    return Part(name, ("command", command, *arguments))


def end_with_supervisor() -> None:
    """Stop this process, as if it had been asked to, once the process that started it is gone."""

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="supervisor", daemon=True).start()


def _hub(path: str, settings: str) -> None:
    from tandem.doctor.diagnosis import for_hub
    from tandem.link.hub import Hub, HubConfig
    from tandem.programs.page import mount_page

    run, asked = RunFolder(Path(path)), json.loads(settings)
    certificate, key = (None if asked[name] is None else Path(asked[name]) for name in ("certificate", "key"))
    config = HubConfig(
        host=asked["host"],
        port=asked["port"],
        certificate=certificate,
        key=key,
        insecure=asked["insecure"],
        host_names=tuple(asked["host_names"]),
        session_hours=asked["session_hours"],
        timeout_s=asked["timeout_s"],
        max_actors=asked["max_actors"],
        disk_reserve_mb=asked["disk_reserve_mb"],
        durability=asked["durability"],
        ping_s=asked["timeout_s"] / 2,
        actor_settings=asked["actor_settings"],
        rule=run.rule(),
    )
    hub = Hub(
        run.path,
        config,
        say=run.log_line,
        warn=lambda line: _warn(run, line),
        clocks=lambda counts: counts.related(asked["steps_per_update"]),
        findings=for_hub(run.path),
    )
    mount_page(hub, run.log_line)
    hub.serve()


def _warn(run: RunFolder, line: str) -> None:
    run.log_line(line)
    print(line, file=sys.stderr, flush=True)


def _print(line: str) -> None:
    print(printable(line, lines=True), flush=True)


def _trainer(path: str, settings: str) -> None:
    from tandem.doctor.watch import watch_trainer
    from tandem.off_policy.recipes import config_from
    from tandem.off_policy.trainer_process import run_trainer
    from tandem.runs.display import Display

    run, asked = Path(path), json.loads(settings)
    os.nice(5)  # an actor on the same machine has its control period to keep
    with _together(run, asked["learners"], asked["learners_address"]):
        run_trainer(
            config_from(asked["config"]),
            run,
            Display(asked["mode"], verbose=asked["verbose"]),
            init_from=None if asked["init_from"] is None else Path(asked["init_from"]),
            watch=watch_trainer(run),
        )


@contextlib.contextmanager
def _together(run: Path, learners: int, address: str) -> Iterator[None]:
    """Lead the other processes of this learner, if it has any. Without one of them nothing can be computed: this process ends as if it had
    been killed, is started again, and waits for them."""
    if learners == 1:
        yield
        return
    import jax

    from tandem.agents.together import WAIT_S, join

    join(address, 0, learners)
    try:
        yield
    except jax.errors.JaxRuntimeError as problem:
        lost = f"a process of this learner is gone ({str(problem).splitlines()[0]}): the run goes on from its newest checkpoint when"
        _warn(RunFolder(run), f"{lost} `tandem learner-part {address}` is started again, within {WAIT_S} s")
        os.kill(os.getpid(), signal.SIGKILL)  # JAX would wait for it before this process may end


def _dagger(path: str, settings: str) -> None:
    from tandem.doctor.watch import watch_trainer
    from tandem.off_policy.dagger import run_dagger
    from tandem.off_policy.recipes import config_from
    from tandem.runs.display import Display

    run, asked = Path(path), json.loads(settings)
    os.nice(5)  # an actor on the same machine has its control period to keep
    run_dagger(config_from(asked["config"]), run, Display(asked["mode"], verbose=asked["verbose"]), watch_trainer(run))


def _actor(*arguments: str) -> None:
    import tyro

    from tandem.doctor.watch import watch_actor
    from tandem.programs.actor import ActorArgs, act_here

    args = tyro.cli(ActorArgs, args=arguments)
    # on another machine of a cluster there is no run folder: what it says goes to the terminal of the run
    act_here(args, _print if args.run is None else RunFolder(args.run).log_line, watch_actor())


def _film(run: str, folder: str, seconds: str) -> None:
    from tandem.programs.viewing import play

    play(run, out=Path(folder), film=True, seconds=float(seconds))


def _command(name: str, *arguments: str) -> None:
    from tandem.programs.training import bc, ppo, train

    try:
        with extras_named(f"`tandem {name}`"):
            {"train": train, "ppo": ppo, "bc": bc}[name](list(arguments))
    except KeyboardInterrupt as stop:
        print(f"stopped. {stop}", file=sys.stderr)


def _leave_last_words(name: str, arguments: Sequence[str], problem: BaseException) -> None:
    """Write down what ended this part: its terminal may be gone when somebody asks. A failure to write must not hide the error."""
    named = dict(itertools.pairwise(arguments))
    run, part = (named.get("--run"), named.get("--name", name)) if name == "actor" else (next(iter(arguments), None), name)
    if run is None or name in ("film", "command"):
        return
    said = str(problem) if isinstance(problem, TandemError) else f"{type(problem).__name__}: {problem}"
    words = {"error": said[:2000], "environment": isinstance(problem, EnvironmentFailed)}
    with contextlib.suppress(OSError, StorageFull):
        file = RunFolder(Path(run)).last_words(part)
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, json.dumps(words).encode(), durable=False)


def _disk_is_full(problem: BaseException | None) -> bool:
    """Not where a file could not be written for another reason: that would fail again."""
    full = False
    while problem is not None:
        if isinstance(problem, OSError):
            return problem.errno in (errno.ENOSPC, errno.EDQUOT)
        full, problem = full or isinstance(problem, StorageFull), problem.__cause__
    return full


def _let_go_of_output() -> None:
    """Where the terminal is gone or its log file is on a full disk, Python would end with code 120, as if this part had failed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def main() -> NoReturn:
    name, *arguments = sys.argv[1:]
    end_with_supervisor()
    faulthandler.enable()  # a fault in compiled code of an environment ends the process without a word; this prints the line of Python
    try:
        {"hub": _hub, "trainer": _trainer, "dagger": _dagger, "actor": _actor, "film": _film, "command": _command}[name](*arguments)
    except TandemError as problem:
        _leave_last_words(name, arguments, problem)
        if isinstance(problem, EnvironmentFailed):
            traceback.print_exception(problem.__cause__)
        print(printable(f"{name}: {problem}", lines=True), file=sys.stderr)
        sys.exit(DISK_FULL if _disk_is_full(problem) else 2)
    except Exception as problem:
        _leave_last_words(name, arguments, problem)
        if _disk_is_full(problem):
            traceback.print_exc()
            sys.exit(DISK_FULL)
        raise
    finally:
        _let_go_of_output()
    sys.exit(0)


if __name__ == "__main__":
    main()
