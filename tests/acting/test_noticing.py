"""Noticing, against episodes worked out by hand."""

import numpy as np
import pytest

from tandem.acting.noticing import KNOWN, LASTS, MARGIN, Noticing, calibrate, signs_along, usual_of

HZ, LONGEST, WINDOW = 10.0, 100, 25


def rising(steps: int = 40, start: float = 0.0) -> list[float]:
    return [start + 0.02 * step for step in range(steps)]


def known(successes: int = KNOWN, steps: int = 40) -> Noticing:
    noticing = Noticing(LONGEST, HZ)
    for _ in range(successes):
        for value in rising(steps):
            noticing.add(value)
        noticing.end(alone=True)
    return noticing


def first_alarm(noticing: Noticing, values: list[float]) -> tuple[int, str] | None:
    noticing.begin()
    for step, value in enumerate(values):
        found = noticing.add(value)
        if found is not None:
            return step, found.sign
    return None


def test_the_signs_of_a_short_episode() -> None:
    stagnation, decline, drop, late = signs_along([0.0, 0.3, 0.6, 0.6, 0.6, 0.6, 0.0, 0.0], rise=0.05, window=4)
    # the mean of the last three: 0, 0.1, 0.3, 0.5, 0.6, 0.6, 0.4, 0.2
    assert stagnation.tolist() == [0, 0, 0, 0, 0, 1, 2, 3]
    np.testing.assert_allclose(decline, [0, 0, 0, 0, 0, 0, 0, 0.3], atol=1e-9)
    np.testing.assert_allclose(drop, [0, 0, 0, 0, 0, 0, 0.1, 0.4], atol=1e-9)
    assert late.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_what_is_usual_is_a_little_more_than_successes_show() -> None:
    assert usual_of([rising()] * (KNOWN - 1), WINDOW) is None
    usual = usual_of([rising()] * KNOWN, WINDOW)
    assert usual is not None and (usual.low, usual.high) == (0.0, pytest.approx(0.78))
    assert usual.rise == pytest.approx(0.02 * 0.78)
    assert usual.most[3] == pytest.approx(MARGIN * 40)
    assert usual.most[0] == pytest.approx(MARGIN * 1), "a success that rises at every step stands for a step at most"


def test_until_enough_episodes_have_succeeded_only_time_counts() -> None:
    noticing = known(KNOWN - 1)
    assert first_alarm(noticing, [0.5] * 100) == (50 + LASTS - 1, "late")
    assert noticing.progress is None
    noticing.end(alone=True)
    assert noticing.usual is not None, "that was the fifth"


@pytest.mark.parametrize(
    ("values", "sign", "earliest", "latest"),
    [
        (rising(15) + [0.28] * 60, "stagnation", 15, 25),
        (rising(30) + [0.58 - 0.01 * step for step in range(40)], "stagnation", 30, 40),
        (rising(20) + [0.4] + [0.05] * 20, "drop", 21, 26),
    ],
)
def test_a_robot_that_stands_falls_back_or_loses_its_part_is_noticed(values: list[float], sign: str, earliest: int, latest: int) -> None:
    found = first_alarm(known(), values)
    assert found is not None and found[1] == sign and earliest <= found[0] <= latest


def test_a_slow_decline_is_noticed_where_standing_is_usual() -> None:
    """Successes that wait for a long time at one value: only falling is unusual."""
    noticing = Noticing(LONGEST, HZ)
    for _ in range(KNOWN):
        for value in [*rising(20), *[0.4] * 50, *rising(10, 0.42)]:
            noticing.add(value)
        noticing.end(alone=True)
    assert first_alarm(noticing, [*rising(20), *[0.4] * 50]) is None
    found = first_alarm(noticing, [*rising(20), *[0.4 - 0.01 * step for step in range(40)]])
    assert found is not None and found[1] in ("decline", "drop")


def test_an_episode_like_the_others_is_left_alone_and_a_long_one_is_late() -> None:
    noticing = known()
    assert first_alarm(noticing, rising(45)) is None
    assert noticing.progress == pytest.approx(0.88 / 0.78)
    assert first_alarm(noticing, [0.008 * step for step in range(100)]) is not None


def test_where_no_value_is_known_time_still_counts() -> None:
    noticing = Noticing(LONGEST, HZ)
    for _ in range(KNOWN):
        for _ in range(20):
            noticing.add(None)
        noticing.end(alone=True)
    alarms = [noticing.add(None) for _ in range(40)]
    first = next(step for step, found in enumerate(alarms) if found)
    assert alarms[first].sign == "late" and first == 26 + LASTS - 1  # pyright: ignore[reportOptionalMemberAccess]


def test_after_help_it_starts_afresh() -> None:
    noticing = known()
    noticing.begin()
    stuck = [noticing.add(value) for value in [*rising(10), *[0.2] * 10]]
    assert stuck[-1] is not None and "not come nearer" in stuck[-1].reason
    assert stuck[-1].since == 12, "the mean of the last three is best there"
    noticing.forgive()
    assert [noticing.add(value) for value in rising(10, 0.1)] == [None] * 10


def test_its_memory_goes_on() -> None:
    one, other = known(), Noticing(LONGEST, HZ)
    for value in [*rising(10), *[0.2] * 3]:
        one.add(value)
    other.restore(one.memory())
    assert [one.add(0.2) for _ in range(4)] == [other.add(0.2) for _ in range(4)]


def test_calibration_counts_what_a_robot_would_have_said() -> None:
    good, bad = (rising(), True), ([*rising(10), *[0.2] * 90], False)
    quiet_failure = (rising(44), False)
    slow = ([*rising(10), *[0.2] * 10, *rising(20, 0.22)], True)
    found = calibrate([good] * 5 + [bad, quiet_failure, slow, bad, good], LONGEST, HZ)
    assert found.alarms == 3 and found.right == pytest.approx(2 / 3)
    assert found.missed == pytest.approx(1 / 3) and found.false_per_success == pytest.approx(1 / 7)
    assert found.late_s is not None and 0.1 < found.late_s < 1.0
    assert calibrate([], LONGEST, HZ).right is None
