"""A process of its own that halts a robot whose actor hangs or is gone.

    actor ──"I will be heard again within S seconds"──► pipe ──► watchdog process ──halt──► the robot
                                                                  S seconds are over, or the pipe is closed without a farewell

What another process can really do depends on the environment, and the environment says so (`Capabilities.halt_plan`):

    served (serve:, ws://, wss://)    `halt` over a connection of its own to the server, which executes it at once
    in the actor's own process        the program that the environment names (`halt_command`), for example one that talks to the
                                      robot's controller. Without one nobody outside of the actor can halt it, and that is said.

It replaces no emergency stop: it runs on the same computer as the actor.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tandem.errors import ServedError

if TYPE_CHECKING:
    from tandem.envs.task_env import HaltPlan  # the process that watches starts in a moment without them

IDLE_S = 1.0
"""A turn of the control loop that makes neither a step nor a reset."""
_READY = b"ready\n"
MARGIN_S = 0.5
"""Beyond the limit of a step or a reset, at which the thread in the actor halts."""
_COMMAND_S = 10.0
_START_S, _END_S, _LASTS_S = 30.0, 3.0, 5.0
"""The last: one that ends sooner after its start would end again."""


class WatchdogProcess:
    """The actor's end. Writing to it never waits."""

    def __init__(self, plan: HaltPlan, say: Callable[[str], None]) -> None:
        self._plan, self._say, self._well, self._ended = plan, say, True, False
        self._process, self._pipe = self._start()
        self._began = time.monotonic()

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        """A process that is ready, and the pipe to it."""
        command = [sys.executable, "-P", "-m", "tandem.acting.watchdog_process"]
        # a session of its own: Ctrl-C is for the actor
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdin is not None and process.stdout is not None
        pipe = process.stdin.fileno()
        os.write(pipe, json.dumps(dataclasses.asdict(self._plan)).encode() + b"\n")
        os.set_blocking(pipe, False)
        ready, _, _ = select.select([process.stdout], [], [], _START_S)
        if not ready or os.read(process.stdout.fileno(), 100) != _READY:
            _end(process)
            raise ServedError(
                "the watchdog process, which halts the robot if this actor hangs, did not start; what it printed is above. The robot was "
                "not moved."
            )
        return process, pipe

    def expect_next(self, limit_s: float = 0.0) -> None:
        """Halt the robot unless this is called again in time: within the limit of a call of the environment, or a turn of the loop."""
        self._write(b"%.3f\n" % (limit_s + MARGIN_S if limit_s > 0 else IDLE_S))

    def end(self) -> None:
        """The actor has halted the robot itself, and needs nobody any more."""
        self._ended = True
        self._write(b"end\n")
        _end(self._process)

    def _write(self, line: bytes) -> None:
        if not self._well:  # its pipe is closed, and the number of it may be another file's
            return
        try:
            os.write(self._pipe, line)
        except BlockingIOError:  # it does not read: stopped, or starved
            self._unwell("does not read")
        except OSError:
            self._unwell("has ended")

    def _unwell(self, how: str) -> None:
        """Say it once, and start another one. The control loop does not wait for that."""
        if self._well and not self._ended:
            self._well = False
            self._say(f"[ACTOR] the watchdog process {how}: another one is started. Until then nobody halts the robot if this actor hangs.")
            threading.Thread(target=self._start_again, name="watchdog", daemon=True).start()

    def _start_again(self) -> None:
        self._process.kill()
        _end(self._process)
        try:
            if time.monotonic() - self._began < _LASTS_S:
                raise ServedError("it had just been started")
            self._process, self._pipe = self._start()
        except (OSError, ServedError) as problem:
            self._say(f"[ACTOR] no watchdog process: nobody halts the robot if this actor hangs ({problem}). Start the actor again.")
            return
        self._began, self._well = time.monotonic(), True
        if self._ended:
            self.end()
        else:
            self._say("[ACTOR] there is a watchdog process again")


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        with contextlib.suppress(OSError):
            stream.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Robot:
    """The watchdog's hold on the robot: every way to halt it that there is, prepared before it is needed."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._command, self._sessions = plan["command"], []
        if plan["sessions"]:
            from tandem.envs.served.client import Halting
            from tandem.envs.task_env import HaltSession

            self._sessions = [Halting(HaltSession(**session)) for session in plan["sessions"]]

    def halt(self, reason: str) -> None:
        """All ways, whatever fails; said afterwards."""
        results = [_attempt(session.halt) for session in self._sessions]
        if self._command:
            results.append(_attempt(self._run_command))
        problems = [problem for problem in results if problem]
        done = "The robot was halted." if not problems else f"THE ROBOT COULD NOT BE HALTED: {'; '.join(problems)}"
        with contextlib.suppress(OSError):
            print(f"[WATCHDOG] {reason}. {done}", file=sys.stderr, flush=True)

    def _run_command(self) -> None:
        subprocess.run(self._command, check=True, timeout=_COMMAND_S, stdin=subprocess.DEVNULL)


def _attempt(halt: Callable[[], None]) -> str:
    try:
        halt()
        return ""
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"


def watch(robot: _Robot, pipe: int) -> None:
    """Until the actor says farewell, or is gone."""
    until, allowed, rest = None, 0.0, b""
    while True:
        ready, _, _ = select.select([pipe], [], [], None if until is None else max(0.0, until - time.monotonic()))
        if not ready:
            robot.halt(f"the actor was not heard for {allowed:g} s: it hangs")
            until = None  # once; its next word begins anew
            continue
        data = os.read(pipe, 65536)
        if not data:
            robot.halt("the actor is gone")
            return
        *lines, rest = (rest + data).split(b"\n")
        if b"end" in lines:
            return
        if lines:
            allowed = float(lines[-1])
            until = time.monotonic() + allowed


def main() -> None:
    pipe = sys.stdin.fileno()
    told = b""
    while not told.endswith(b"\n"):  # byte by byte: what follows belongs to `watch`
        letter = os.read(pipe, 1)
        if not letter:
            return
        told += letter
    robot = _Robot(json.loads(told))
    os.write(1, _READY)
    watch(robot, pipe)


if __name__ == "__main__":
    main()
