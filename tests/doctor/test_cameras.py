"""What the doctor finds in the features of cameras: frozen, blind, swapped, of another encoder; and nothing in a healthy run."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tandem.doctor.checks import cameras, run_checks
from tandem.doctor.findings import Finding
from tandem.doctor.records import DemoFile, JournalFigures, Records
from tandem.doctor.texts import LANGUAGES, describe
from tandem.types import Continuous, Entry, Spec, Transition

EYE = Entry((2, 2, 4), "int8", scale=25.4, role="features", encoder="lite0:abc", picture=(32, 32, 3))
SPEC = Spec("t", {"left": EYE, "right": EYE, "pose": Entry((2,))}, (Continuous("arm", 2),), 10.0, 100, (0.0, 1.0))
PLACES = {"left": 40, "right": -40}
"""The two cameras look at different places: their features have different means."""


def observation(rng: np.random.Generator) -> dict[str, np.ndarray]:
    shown = {name: np.clip(rng.normal(place, 25, (2, 2, 4)), -127, 127).astype(np.int8) for name, place in PLACES.items()}
    return {**shown, "pose": rng.standard_normal(2).astype(np.float32)}


def steps(change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] = lambda o: o, count: int = 300) -> list[Transition]:
    rng = np.random.default_rng(0)
    seen = [change(observation(rng)) for _ in range(count + 1)]
    return [
        Transition(seen[i], np.zeros(2, np.float32), 0.0, seen[i + 1], False, i % 20 == 19, episode=i // 20, step=i % 20, source="a", seq=i)
        for i in range(count)
    ]


def records(made: list[Transition], encoder: str = "lite0:abc") -> Records:
    journal = JournalFigures(len(made), 0, [], [], 1000, made, [made])
    shown = DemoFile(Path("demos.db"), spec=SPEC, steps=300, rewarded=True, starts=[step for step in steps() if step.step == 0])
    return Records(now=0.0, task="t", spec=SPEC, journal=journal, demos=[shown], encoder=encoder)


def frozen(observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return observation | {"left": np.full((2, 2, 4), 40, np.int8)}


def dim(observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A little noise is left of the picture."""
    return observation | {"left": (observation["left"] // 40).astype(np.int8)}


def crossed(observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return observation | {"left": observation["right"], "right": observation["left"]}


def late(lag: int) -> list[Transition]:
    """A robot that moves now and then, and a camera on its hand whose pictures come `lag` steps after that."""
    rng = np.random.default_rng(0)
    place = np.cumsum(rng.standard_normal((320, 2)) * (rng.random((320, 1)) < 0.3), axis=0).astype(np.float32)
    turn = rng.standard_normal((2, 16))

    def seen(now: int) -> dict[str, np.ndarray]:
        shown = np.clip(20 * np.tanh(place[max(0, now - lag)] @ turn) + rng.normal(0, 1, 16), -127, 127).astype(np.int8)
        return {"left": (40 + shown).reshape(2, 2, 4), "right": (-40 + shown).reshape(2, 2, 4), "pose": place[now]}

    made = [seen(number) for number in range(301)]
    shape = steps(count=300)
    return [dataclasses.replace(step, observation=made[i], next_observation=made[i + 1]) for i, step in enumerate(shape)]


def exposed(share: float) -> Records:
    picture = np.full((20, 20, 3), 90, np.uint8)
    picture[: round(20 * share)] = 255
    known = records(steps())
    assert known.journal is not None
    return dataclasses.replace(known, journal=dataclasses.replace(known.journal, pictures={"right": [picture] * 3}))


CHECKS = (
    cameras.encoder_differs,
    cameras.camera_frozen,
    cameras.camera_blind,
    cameras.cameras_swapped,
    cameras.camera_late,
    cameras.camera_exposed,
)


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("camera_frozen", records(steps(frozen))),
        ("camera_blind", records(steps(dim))),
        ("cameras_swapped", records(steps(crossed))),
        ("encoder_differs", records(steps(), encoder="lite0:xyz")),
        ("camera_exposed", exposed(0.5)),
    ],
)
def test_a_camera_that_does_not_show_what_it_should(name: str, seen: Records) -> None:
    found = [finding.name for finding in run_checks(seen) if finding.name.startswith(("camera", "encoder"))]
    assert found == [name]
    finding: Finding = next(finding for finding in run_checks(seen) if finding.name == name)
    for language in LANGUAGES:
        written = describe(finding, language, {"run": "RUN", "task": "t"})
        assert written.evidence and "{" not in "".join(written.evidence)


def test_a_healthy_camera_and_a_run_without_any() -> None:
    assert not [check(records(steps())) for check in CHECKS if check(records(steps()))]
    blind = dataclasses.replace(SPEC, observation={"pose": SPEC.observation["pose"]})
    assert not [check for check in CHECKS if check(dataclasses.replace(records(steps()), spec=blind, encoder=""))]


def test_a_robot_that_stands_still_has_no_frozen_camera() -> None:
    rng = np.random.default_rng(0)
    same = observation(rng)
    still = [dataclasses.replace(step, observation=same, next_observation=same) for step in steps()]
    assert cameras.camera_frozen(records(still)) is None


def test_a_camera_whose_pictures_come_late_is_named_and_one_in_time_is_not() -> None:
    finding = cameras.camera_late(records(late(3)))
    assert finding is not None and (finding.facts["steps"], finding.facts["ms"]) == (3, 300.0)
    assert cameras.camera_late(records(late(0))) is None and cameras.camera_late(records(late(1))) is None
    assert cameras.camera_exposed(exposed(0.2)) is None
