"""Only a call that exceeds its own limit is a hang, and it is halted once."""

import time

from tandem.acting.watchdog import Watchdog


def test_a_call_that_hangs_is_noticed_once_and_the_environment_halted() -> None:
    lines: list[str] = []
    reasons: list[str] = []
    watchdog = Watchdog(reasons.append, lines.append)
    for _ in range(4):
        with watchdog.limit("step", 0.1):
            time.sleep(0.02)
    time.sleep(0.2)
    assert not reasons, "between two calls nothing hangs"
    with watchdog.limit("step", 0.1):
        time.sleep(0.3)
    watchdog.close()
    assert reasons == ["the environment's step takes longer than 0.1 s: it hangs"] and watchdog.stalls == 1
    assert lines == [f"[ACTOR] {reasons[0]}. Motion is stopped."]


def test_each_call_has_a_limit_of_its_own_and_none_without() -> None:
    reasons: list[str] = []
    watchdog = Watchdog(reasons.append, lambda line: None)
    with watchdog.limit("reset", 5.0):
        time.sleep(0.2)
    with watchdog.limit("step", 0.0):
        time.sleep(0.2)
    with watchdog.limit("step", 0.05):
        time.sleep(0.2)
    watchdog.close()
    assert len(reasons) == 1 and "step" in reasons[0]
