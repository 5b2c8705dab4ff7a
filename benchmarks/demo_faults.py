"""Files of demonstrations with one fault each, and files as a hil-serl fork recorded them: for `benchmarks/demos.py` and the tests.

A fault is a function from sound episodes to faulty ones. The sound ones are those of a scripted operator, or made here (`episodes`): a
tool that goes to a place, with a gripper that follows its command, a quaternion, a force and two cameras.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tandem.data.journal import Journal
from tandem.types import Continuous, Entry, Spec, Transition

SPEC = Spec(
    "bench",
    {
        "pose": Entry((7,)),
        "force": Entry((3,)),
        "gripper": Entry(()),
        "goal": Entry((3,)),
        "left": Entry((16, 16, 3), "uint8"),
        "right": Entry((16, 16, 3), "uint8"),
    },
    (Continuous("arm", 6, "m, rad"), Continuous("gripper", 1, stands_at=1.0)),
    10.0,
    100,
    (0.0, 1.0),
)
Episodes = list[list[Transition]]
STEP = 0.01
"""Metres that an action of 1 moves the tool."""


def episodes(count: int = 12, seed: int = 0, length: int = 30) -> Episodes:
    rng = np.random.default_rng(seed)
    return [_episode(rng, number, length + int(rng.integers(-6, 7))) for number in range(count)]


def _episode(rng: np.random.Generator, number: int, length: int) -> list[Transition]:
    place, goal, turn = rng.uniform(-0.2, 0.2, 3), rng.uniform(-0.2, 0.2, 3), rng.uniform(-0.3, 0.3)
    width, looks, actions = 1.0, [], []
    looks.append(_look(rng, place, goal, turn, width))
    for step in range(length):
        towards = np.clip((goal - place) / STEP / 4, -0.9, 0.9) + rng.normal(0, 0.05, 3)
        rotation = np.clip(rng.normal(0, 0.3, 3), -1, 1)
        command = 1.0 if step < length // 2 else -0.6 - 0.01 * (step % 3)  # three values, so that it is no switch
        action = np.clip(np.concatenate([towards, rotation, [command]]), -1, 1)
        place, turn = place + STEP * action[:3], turn + 0.05 * action[5]
        width += float(np.clip((command + 1) / 2 - width, -0.25, 0.25))
        actions.append(action.astype(np.float32))
        looks.append(_look(rng, place, goal, turn, width))
    return [
        Transition(
            looks[t], actions[t], float(last), looks[t + 1], last, False, success=last, episode=number, step=t, source="bench", seq=t
        )
        for t in range(length)
        for last in (t == length - 1,)
    ]


def _look(rng: np.random.Generator, place: np.ndarray, goal: np.ndarray, turn: float, width: float) -> dict[str, np.ndarray]:
    pose = np.concatenate([place, [np.sin(turn / 2), 0.1 * place[0], 0.1 * place[1], np.cos(turn / 2)]])
    pose[3:] /= np.linalg.norm(pose[3:])
    picture = np.full((2, 16, 16, 3), 60, np.uint8)
    picture[0, ..., 0], picture[1, ..., 2] = 140, 170  # two cameras that see different walls
    row, column = (np.clip((place[:2] + 0.5) * 14, 0, 14)).astype(int)
    picture[:, row : row + 2, column : column + 2] = 250
    picture[:, 0, 0] = rng.integers(0, 255, 3)  # the noise of a sensor: no two pictures are equal
    return {
        "pose": pose.astype(np.float32),
        "force": rng.normal(0, 1, 3).astype(np.float32),
        "gripper": np.array(width, np.float32),
        "goal": (goal - place).astype(np.float32),
        "left": picture[0],
        "right": picture[1],
    }


def write(path: Path, made: Episodes, spec: Spec = SPEC) -> Path:
    """A journal with these steps, whatever they are: the writer of demonstrations would refuse some."""
    with Journal.create(path, spec, live=False) as journal:
        seq = 0
        for number, steps in enumerate(made):
            journal.append([dataclasses.replace(step, episode=number, seq=seq + place, source="bench") for place, step in enumerate(steps)])
            seq += len(steps)
    return path


# ---- faults


def changed(made: Episodes, change: Callable[[int, int, dict[str, np.ndarray]], dict[str, np.ndarray]]) -> Episodes:
    """The episodes with other observations: `change` gets episode, moment and observation."""

    def moments(number: int, steps: list[Transition]) -> list[Transition]:
        looks = [change(number, t, dict(step.observation)) for t, step in enumerate(steps)]
        looks.append(change(number, len(steps), dict(steps[-1].next_observation)))
        return [dataclasses.replace(step, observation=looks[t], next_observation=looks[t + 1]) for t, step in enumerate(steps)]

    return [moments(number, steps) for number, steps in enumerate(made)]


def acted(made: Episodes, change: Callable[[int, int, np.ndarray], np.ndarray]) -> Episodes:
    return [
        [dataclasses.replace(step, action=change(number, t, step.action.copy()).astype(np.float32)) for t, step in enumerate(steps)]
        for number, steps in enumerate(made)
    ]


def ended(made: Episodes, **last: Any) -> Episodes:
    return [[*steps[:-1], dataclasses.replace(steps[-1], **last)] for steps in made]


def _set(name: str, value: Callable[[int, int, np.ndarray], Any]) -> Callable[[Episodes], Episodes]:
    def change(number: int, moment: int, look: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        old = look[name]
        return look | {name: np.asarray(value(number, moment, old.copy()), old.dtype)}

    return lambda made: changed(made, change)


def _frozen(made: Episodes) -> Episodes:
    stuck = made[3][1].observation["force"]
    return _set("force", lambda n, t, old: stuck if n == 3 and t >= 1 else old)(made)


def _swapped(made: Episodes) -> Episodes:
    return changed(made, lambda n, t, look: look | {"left": look["right"], "right": look["left"]} if n in (2, 7) else look)


def _held_pictures(made: Episodes) -> Episodes:
    return changed(made, lambda n, t, look: look | {"left": made[n][min(t - t % 3, len(made[n]) - 1)].observation["left"]})


def _stale(made: Episodes) -> Episodes:
    """Every fourth observation is the one before."""
    return changed(made, lambda n, t, look: dict(made[n][t - 1].observation) if t % 4 == 3 else look)


def _copies(made: Episodes) -> Episodes:
    """Ten frames appended after the success, all in the same episode, the last one marked as its end."""
    result = []
    for steps in made:
        last = steps[-1]
        copy = dataclasses.replace(
            last, observation=last.next_observation, action=np.zeros_like(last.action), terminated=False, success=True
        )
        added = [dataclasses.replace(copy, step=last.step + 1 + number, terminated=number == 9) for number in range(10)]
        result.append([*steps[:-1], dataclasses.replace(last, terminated=False), *added])
    return result


def _idle(made: Episodes) -> Episodes:
    return acted(made, lambda n, t, action: np.concatenate([np.zeros(6), action[6:]]) if t % 5 in (1, 2) else action)


def _label(made: Episodes) -> Episodes:
    """Idle frames with a gripper command of 0, while the last one was executed."""
    return acted(made, lambda n, t, action: np.concatenate([action[:6], [0.0 if t % 5 == 2 else action[6]]]))


def _moved(made: Episodes, factor: float) -> Episodes:
    """In the second half the tool moves this many times as far."""

    def far(number: int, moment: int, look: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        moved = look["pose"][:3] - made[number][0].observation["pose"][:3]
        more = moved * (factor - 1 if number >= len(made) // 2 else 0)
        return look | {"pose": look["pose"] + np.concatenate([more, np.zeros(4)]).astype(np.float32), "goal": look["goal"] - more}

    return changed(made, far)


def _less_sensitive(made: Episodes) -> Episodes:
    """The second half was recorded with a less sensitive device: actions and motions of 0.3 times the size."""
    upright = _set("pose", lambda n, t, old: np.concatenate([old[:3], made[n][0].observation["pose"][3:]]))
    return acted(
        upright(_moved(made, 0.3)), lambda n, t, action: np.concatenate([action[:6] * (0.3 if n >= len(made) // 2 else 1), action[6:]])
    )


def _quaternions(made: Episodes) -> Episodes:
    return _set("pose", lambda n, t, old: np.concatenate([old[:3], old[3:] * (-1 if t % 7 > 3 else 1)]))(made)


def _wrapped(made: Episodes) -> Episodes:
    angle = lambda n, t: (3.0 + 0.02 * t + np.pi) % (2 * np.pi) - np.pi  # noqa: E731
    return _set("goal", lambda n, t, old: np.array([old[0], old[1], angle(n, t)]))(made)


def _inside(made: Episodes) -> Episodes:
    return [[dataclasses.replace(step, truncated=place == 9) if place == 9 else step for place, step in enumerate(steps)] for steps in made]


def _torn(made: Episodes) -> Episodes:
    return [[*steps[:10], *steps[14:]] for steps in made]


def _pauses_cut(made: Episodes) -> Episodes:
    """A filter left out two pauses of each episode: the steps before them lead to pictures and forces that no step begins with."""

    def seen(look: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return look | {"left": np.roll(look["left"], 1), "force": look["force"][::-1].copy()}

    return [
        [
            dataclasses.replace(step, next_observation=seen(dict(step.next_observation))) if place in (8, 16) else step
            for place, step in each
        ]
        for each in (list(enumerate(steps)) for steps in made)
    ]


def _timeouts(made: Episodes) -> Episodes:
    """Half of them fail after the same number of steps, marked as terminated."""
    short = [[dataclasses.replace(step, step=place) for place, step in enumerate(steps[-20:])] for steps in made]
    return [*short[:6], *ended(short[6:], reward=0.0, success=False)]


def _cut_off(made: Episodes) -> Episodes:
    return ended(made, reward=0.0, success=False, terminated=False, truncated=True)


def _always(made: Episodes) -> Episodes:
    return [[dataclasses.replace(step, reward=1.0) for step in steps] for steps in made]


def _same_start(made: Episodes) -> Episodes:
    first = made[0][0].observation
    return changed(made, lambda n, t, look: dict(first) if t == 0 else look)


def _unpaid(made: Episodes) -> Episodes:
    return [*ended(made[:2], reward=0.0), *made[2:]]


def _one_step(made: Episodes) -> Episodes:
    return [*made, *[[dataclasses.replace(steps[-1], step=0)] for steps in made[:3]]]


def _nan(made: Episodes) -> Episodes:
    return _set("force", lambda n, t, old: np.full(3, np.nan) if (n, t) == (4, 7) else old)(made)


@dataclass(frozen=True)
class Fault:
    finding: str
    """The finding that must be first."""
    inject: Callable[[Episodes], Episodes]
    discount: float | None = None


FAULTS: dict[str, Fault] = {
    "three dead channels": Fault("demos_channels_dead", _set("force", lambda n, t, old: np.zeros(3))),
    "a sensor that froze in one episode": Fault("demos_channels_frozen", _frozen),
    "a force cut off at the sensor's range": Fault("demos_channels_clipped", _set("force", lambda n, t, old: np.clip(old, -1.2, 1.2))),
    "a quaternion that changes its sign": Fault("demos_quaternions_flip", _quaternions),
    "an Euler angle that passes pi": Fault("demos_angles_wrap", _wrapped),
    "a state that is not read anew": Fault("demos_state_stale", _stale),
    "NaN in one step": Fault("demos_broken", _nan),
    "an axis that is never used": Fault("demos_axis_unused", lambda made: acted(made, lambda n, t, a: a * [1, 1, 1, 0, 1, 1, 1])),
    "actions of at most 0.2": Fault("demos_actions_small", lambda made: acted(made, lambda n, t, a: np.concatenate([a[:6] * 0.2, a[6:]]))),
    "actions at their limit": Fault("demos_saturated", lambda made: acted(made, lambda n, t, a: np.concatenate([[0.995], a[1:]]))),
    "pauses in 40 % of the steps": Fault("demos_idle", _idle),
    "a gripper label of 0 in idle frames": Fault("demos_gripper_label", _label),
    "another sensitivity in half of the file": Fault("demos_scales_mixed", _less_sensitive),
    "another action scale or physics in half of the file": Fault("demos_response_mixed", lambda made: _moved(made, 1.7)),
    "episodes without an end": Fault("demos_end_missing", lambda made: [*ended(made[:2], terminated=False), *made[2:]]),
    "an end inside of the episodes": Fault("demos_end_inside", _inside),
    "pauses cut out": Fault("demos_pauses_cut", _pauses_cut),
    "steps cut out": Fault("demos_steps_missing", _torn),
    "frames appended after the success": Fault("demos_copies", _copies),
    "the same episodes twice": Fault("demos_doubled", lambda made: [*made, *made[:3]]),
    "episodes of one step": Fault("demos_one_step", _one_step),
    "time-outs as terminals": Fault("demos_timeouts_terminal", _timeouts),
    "demonstrations too long for the discount": Fault("demos_too_long", lambda made: made, discount=0.8),
    "success never": Fault("demos_without_reward", lambda made: ended(made, reward=0.0, success=False)),
    "most episodes fail": Fault("demos_fail", lambda made: [*made[:3], *_cut_off(made[3:])]),
    "a reward in every step": Fault("demos_reward_always", _always),
    "a success without a reward": Fault("demos_success_unpaid", _unpaid),
    "the same start every time": Fault("demos_starts_alike", _same_start),
    "three episodes only": Fault("demos_few", lambda made: made[:3]),
    "black first pictures": Fault("demos_pictures_black", _set("left", lambda n, t, old: old * (t > 0))),
    "a camera at a third of the rate": Fault("demos_pictures_frozen", _held_pictures),
    "swapped cameras in two episodes": Fault("demos_pictures_swapped", _swapped),
}


# ---- files of a hil-serl fork


def fork_pickle(
    path: Path, count: int, length: int, *, version: str = "january", pictures: int = 0, seed: int = 0, metres: float = 0.01
) -> Path:
    """A pickle as the fork's recorder writes it: a state of 19 numbers of which 12 are dead, arm actions within 0.2, a gripper echo.

    `january`: from the first time on that the gripper was moved, idle frames store a command of 0, in later episodes too.
    `february_4`: right labels, and one frame after the success, with an action of 0 beside the one that was executed. `february`: ten
    frames that nobody made, each marked as an end. `march`: of the ten only the last is marked, and the real terminal frame no longer.
    `filtered`: of these the fork's filter left out pauses. `scaled`: then the arm actions were multiplied by 5.

    `metres`: what an action of 1 moves, which the file does not say. The first gripper of an episode is that of the end of the one before:
    a reset opens it and does not say so.
    """
    rng = np.random.default_rng(seed)
    records: list[dict[str, Any]] = []
    for _ in range(count):
        before = records[-1]["next_observations"] if records else None
        made = _fork_episode(rng, length + int(rng.integers(-length // 4, length // 4)), version, pictures, metres, before)
        records += _fork_filtered(made) if version in ("filtered", "scaled") else made
    if version == "scaled":
        for record in records:
            record["actions"][:6] = np.clip(5 * record["actions"][:6], -1, 1)  # it is the array of `intervene_action` too
    with path.open("wb") as file:
        pickle.dump(records, file)
    return path


def _fork_episode(
    rng: np.random.Generator, length: int, version: str, pictures: int, metres: float, before: dict[str, np.ndarray] | None
) -> list[dict[str, Any]]:
    place, goal, width = rng.uniform(-0.1, 0.1, 6), rng.uniform(-0.1, 0.1, 6), 1.0
    looks, records = [_fork_look(rng, place, width if before is None else float(before["state"][0, 0]), pictures)], []
    for step in range(length):
        idle, pressed = step % 6 in (2, 3), step > length // 2
        arm = np.zeros(6) if idle else np.clip((goal - place) * 4 + rng.normal(0, 0.05, 6), -0.2, 0.2)
        if pressed:
            width = max(0.45, width - 0.05)
        label = 0.0 if idle and (pressed or before is not None) and version == "january" else 2 * width - 1
        place = place + metres * arm
        action = np.array([*arm, label], np.float32)
        looks.append(_fork_look(rng, place, width, pictures))
        last = step == length - 1
        infos = {"succeed": last, "intervene_action": action}
        done = last and version not in ("march", "filtered", "scaled")
        own = {name: value.copy() for name, value in looks[-2].items()}  # the recorder copies every transition whole
        records.append(_fork_record(own, action, looks[-1], last, done, infos))
    if version == "january":
        return records
    end = looks[-1]
    if version == "february_4":
        after = _fork_look(rng, place + 0.001, width, pictures)
        executed = np.array([*np.full(6, 0.1), 2 * width - 1], np.float32)
        infos = {"succeed": True, "intervene_action": executed}
        return [*records, _fork_record(end, np.zeros(7, np.float32), after, True, True, infos)]
    ends = [version == "february" or number == 9 for number in range(10)]
    return [*records, *[_fork_record(end, np.zeros(7, np.float32), end, True, done, {"succeed": True}) for done in ends]]


def _fork_filtered(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`filter_demo_static_frames`: a frame that moves nothing stays where it is the first of a pause, or an end."""
    kept, before = [], False
    for number, record in enumerate(records):
        action, last = record["actions"], records[max(0, number - 1)]["actions"]
        still = bool((np.abs(action[:6]) < 1e-6).all() and number and abs(action[6] - last[6]) < 1e-6)
        if not still or not before or record["dones"]:
            kept.append(record)
        before = still
    return kept


def _fork_look(rng: np.random.Generator, place: np.ndarray, width: float, pictures: int) -> dict[str, np.ndarray]:
    state = np.zeros((1, 19), np.float32)
    state[0, 0], state[0, 4:10] = width, place
    look: dict[str, np.ndarray] = {"state": state}
    for name in ("wrist_1", "wrist_2") if pictures else ():
        base = np.arange(pictures, dtype=np.uint8)
        picture = np.broadcast_to(base[:, None, None], (1, pictures, pictures, 3)).copy()
        picture[0, : pictures // 8] = rng.integers(0, 255, (pictures // 8, pictures, 3), np.uint8)
        look[name] = picture
    return look


def _fork_record(before: Any, action: np.ndarray, after: Any, reward: bool, done: bool, infos: dict[str, Any]) -> dict[str, Any]:
    return {
        "observations": before,
        "actions": action,
        "next_observations": after,
        "rewards": float(reward),
        "masks": 0.0 if reward else 1.0,
        "dones": done,
        "infos": infos,
    }
