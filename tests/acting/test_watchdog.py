"""Only a call that exceeds its own limit is a hang, and it is halted once."""

import time

from tandem.acting.watchdog import Halt, Watchdog


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
