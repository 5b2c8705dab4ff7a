"""Only a call that exceeds its own limit is a hang, and it is halted once."""

import os
import signal
import time
from pathlib import Path

import pytest

from tandem.acting import watchdog_process
from tandem.acting.watchdog import Halt, Watchdog
from tandem.envs.task_env import HaltPlan
from tests.waiting import wait_for


def test_a_call_that_hangs_is_noticed_once_and_the_environment_halted() -> None:
    lines: list[str] = []
    reasons: list[str] = []
    halting = Halt(lambda reason: (reasons.append(reason), lines.append("halted")), lines.append)
    watchdog = Watchdog(halting, lines.append)
    for _ in range(4):
        with watchdog.limit("step", 0.1):
            time.sleep(0.02)
    time.sleep(0.2)
    assert not reasons, "between two calls nothing hangs"
    with watchdog.limit("step", 0.1):
        time.sleep(0.3)
    watchdog.close()
    assert reasons == ["the environment's step takes longer than 0.1 s: it hangs"] and watchdog.stalls == 1
    assert lines == ["halted", f"[ACTOR] {reasons[0]}. Motion is stopped."], "the robot first, the line after it"


def test_a_halt_that_fails_is_said_and_keeps_nothing_else_from_being_done() -> None:
    lines: list[str] = []

    def refuse(reason: str) -> None:
        raise OSError("the controller does not answer")

    watchdog = Watchdog(Halt(refuse, lines.append), lines.append)
    for _ in range(2):
        with watchdog.limit("step", 0.05):
            time.sleep(0.15)
    watchdog.close()
    assert watchdog.stalls == 2, "the thread lives on"
    assert "COULD NOT BE HALTED" in lines[0] and "the controller does not answer" in lines[0] and "emergency stop" in lines[0]
    assert lines[1].endswith("Motion is not stopped.")


def test_each_call_has_a_limit_of_its_own_and_none_without() -> None:
    reasons: list[str] = []
    watchdog = Watchdog(Halt(reasons.append, lambda line: None), lambda line: None)
    with watchdog.limit("reset", 5.0):
        time.sleep(0.2)
    with watchdog.limit("step", 0.0):
        time.sleep(0.2)
    with watchdog.limit("step", 0.05):
        time.sleep(0.2)
    watchdog.close()
    assert len(reasons) == 1 and "step" in reasons[0]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_watchdog_process_that_was_killed_or_stopped_is_replaced(
    how: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control loop does not wait for the new one, and that one halts the robot when the actor is not heard again."""
    monkeypatch.setattr(watchdog_process, "_LASTS_S", 0.0)
    halted, said = tmp_path / "halted", list[str]()
    dog = watchdog_process.WatchdogProcess(HaltPlan(("touch", str(halted))), said.append)
    first, waits = dog._process.pid, []
    try:
        os.kill(first, how)

        def replaced() -> bool:
            began = time.monotonic()
            for _ in range(1 if how == signal.SIGKILL else 2000):  # a pipe that nobody reads is full after some thousand lines
                dog.expect_next(30)
            waits.append(time.monotonic() - began)
            return len(said) > 1

        wait_for(replaced, 20, what="another process")
        assert "another one is started" in said[0] and "there is a watchdog process again" in said[1]
        assert dog._process.pid != first and max(waits) < 1 and not halted.exists()
        dog.expect_next(0.01)  # and is not heard again
        wait_for(halted.exists, 10, what="the halt")
    finally:
        dog.end()


def test_a_watchdog_process_that_ends_at_once_is_not_started_for_ever(tmp_path: Path) -> None:
    said = list[str]()
    dog = watchdog_process.WatchdogProcess(HaltPlan(("touch", str(tmp_path / "halted"))), said.append)
    os.kill(dog._process.pid, signal.SIGKILL)
    wait_for(lambda: (dog.expect_next(1), len(said) > 1)[1], 20, what="its word")
    assert "nobody halts the robot if this actor hangs (it had just been started). Start the actor again" in said[1]
    dog.end()
