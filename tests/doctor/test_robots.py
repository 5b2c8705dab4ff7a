"""What the doctor finds in the steps of a robot behind HTTP: the pre-flight's findings, from the run's own data."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from tandem.doctor.checks import robots, run_checks
from tandem.doctor.records import JournalFigures, Records
from tandem.doctor.texts import LANGUAGES, describe
from tandem.envs.http_robot.profile import TimeProfile
from tandem.envs.http_robot.quaternions import from_euler, to_euler
from tandem.envs.http_robot.wire import Address
from tandem.envs.isaac.env import isaac_env
from tandem.envs.isaac.profile import CameraProfile, read_profile
from tandem.envs.isaac.stand_in import isaac_server
from tandem.envs.rotations import quat_multiply, rotate, rotvec_to_quat
from tandem.types import Spec, Transition
from tests.envs.plain_scene import PlainScene

PROFILE = dataclasses.replace(
    read_profile("gear_lift_10mm"),
    cameras=CameraProfile(names=()),
    time=TimeProfile(control_hz=50.0, max_episode_steps=10_000, grace_s=1.0),
)
NUMBERS = dataclasses.replace(PROFILE, time=TimeProfile()).spec
CHECKS = (
    robots.robot_state_stale, robots.robot_axes_wrong, robots.robot_turns_wrong, robots.robot_channels_dead, robots.robot_lags,
    robots.robot_gripper_echo,
)  # fmt: skip
Change = Callable[[np.ndarray], np.ndarray]


def actions(count: int, seed: int = 0) -> np.ndarray:
    """One axis after the other, there and back, with a little of the others."""
    rng, made = np.random.default_rng(seed), np.zeros((count, 7), np.float32)
    made[:, :6] = rng.normal(0, 0.05, (count, 6))
    for start in range(0, count, 5):
        made[start : start + 5, (start // 5) % 6] += rng.choice([-0.8, 0.8])
    made[:, 6] = np.where(np.arange(count) // 15 % 2, 1.0, -1.0)
    return np.clip(made, -1, 1)


def driven(
    count: int = 400, move: Change = lambda m: m, turn: Change = lambda r: r, late: int = 0, seen: Change = lambda s: s
) -> list[Transition]:
    """Steps of an arm that follows at once, unless `move`, `turn` or `late` say otherwise; `seen` changes what is reported."""
    rng, asked = np.random.default_rng(1), actions(count)
    place, orientation, states = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]), []
    for step in range(count + 1):
        states.append(np.concatenate([[0.5], rng.normal(0, 1, 3), place, to_euler(orientation), rng.normal(0, 1, 9)]).astype(np.float32))
        done = asked[step - late] if 0 <= step - late < count else np.zeros(7)
        place = place + move(0.7 * rotate(orientation, done[:3] * 0.01))
        orientation = quat_multiply(rotvec_to_quat(turn(0.7 * rotate(orientation, done[3:6] * 0.06))), orientation)
    shown = [seen(state) for state in states]
    return [transition(shown[i], asked[i], shown[i + 1], i) for i in range(count)]


def transition(before: np.ndarray, action: np.ndarray, after: np.ndarray, number: int) -> Transition:
    return Transition({"state": before}, action, 0.0, {"state": after}, False, False, episode=0, step=number, source="a", seq=number)


def records(steps: list[Transition], task: str = "isaac:gear_lift_10mm", spec: Spec = NUMBERS) -> Records:
    return Records(now=0.0, task=task, spec=spec, journal=JournalFigures(len(steps), 0, [], [], 1000, steps, [steps]))


def without(*places: slice) -> Change:
    def change(state: np.ndarray) -> np.ndarray:
        state = state.copy()
        for place in places:
            state[place] = 0.0
        return state

    return change


def held(every: int) -> Callable[[np.ndarray], np.ndarray]:
    """A server that renews its state in every so-manieth step only."""
    count, last = 0, np.zeros(0)

    def change(state: np.ndarray) -> np.ndarray:
        nonlocal count, last
        if count % every == 0:
            last = state
        count += 1
        return last.copy()

    return change


def found(seen: Records) -> dict[str, dict[str, object]]:
    return {finding.name: dict(finding.facts) for check in CHECKS if (finding := check(seen)) is not None}


def test_an_arm_that_follows_has_no_findings_also_when_a_table_stops_it() -> None:
    assert found(records(driven())) == {}
    assert found(records(driven(move=lambda way: way * [1, 1, way[2] > 0]))) == {}, "it can only go up"
    assert found(records(driven(late=2))) == {}, "0.2 s late is usual"


@pytest.mark.parametrize(
    ("name", "steps", "facts"),
    [
        ("robot_axes_wrong", driven(move=lambda way: way * [-1, 1, 1]), {"axis": "x", "flipped": "x"}),
        ("robot_axes_wrong", driven(move=lambda way: way[[1, 0, 2]]), {"axis": "x", "swapped": "y"}),
        ("robot_axes_wrong", driven(move=lambda way: way * [1, 1, 0]), {"axis": "z"}),
        ("robot_turns_wrong", driven(turn=lambda way: way[[2, 1, 0]]), {"axis": "x", "swapped": "z"}),
        ("robot_channels_dead", driven(seen=without(slice(1, 4), slice(10, 13), slice(13, 19))), {"channels": "force, torque, velocity"}),
        ("robot_lags", driven(late=6), {"later": 6}),
        ("robot_state_stale", driven(seen=held(2)), {"stale": 200}),
    ],
)
def test_what_is_wrong_is_found_alone_and_said_in_both_languages(name: str, steps: list[Transition], facts: dict[str, object]) -> None:
    seen = records(steps)
    known = found(seen)
    assert list(known) == [name] and facts.items() <= known[name].items()
    finding = next(finding for finding in run_checks(seen) if finding.name == name)
    for language in LANGUAGES:
        written = describe(finding, language, {"run": "RUN", "task": "t"})
        assert len(written.evidence) == 1 and "{" not in "".join(written.evidence)


def test_other_environments_and_actions_in_the_worlds_axes_are_left_alone() -> None:
    wrong = driven(move=lambda way: -way, seen=without(slice(1, 4)))
    assert found(records(wrong, task="reach")) == {}
    world = dataclasses.replace(PROFILE, action=dataclasses.replace(PROFILE.action, frame="world")).spec
    assert set(found(records(wrong, spec=world))) == {"robot_channels_dead"}
    assert found(records(wrong[:50])) == {}, "too few steps"
    assert np.allclose(to_euler(from_euler(np.array([0.1, 0.2, 0.3]))), [0.1, 0.2, 0.3])


def test_the_quirks_of_a_server_are_found_in_the_steps_of_a_run() -> None:
    quirks = ("no-frames", "dead-channels", "gripper-echo", "quat-swap", "flipped-axis")
    with isaac_server(PlainScene(), quirks, sim_hz=200.0, reset_s=0.05) as server:
        env = isaac_env(PROFILE, Address.of(f"isaac+{server.address}", "gear_lift_10mm", "isaac"))
        before, steps = env.reset(), []
        for number, action in enumerate(0.3 * actions(260)):
            action[6] = np.sign(action[6])
            step = env.step(action[None])
            assert step.executed is not None
            steps.append(transition(before["state"][0], step.executed[0], step.observation["state"][0], number))
            before = step.observation
        env.close()
    assert set(found(records(steps))) == {"robot_axes_wrong", "robot_turns_wrong", "robot_channels_dead", "robot_gripper_echo"}
