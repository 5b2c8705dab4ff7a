"""Do the pick tasks need a careful hand, and touch? Measured with hand-written behaviours, without learning.

python -m benchmarks.pick_calibration [--task gear_pick_assembly_fine] [--episodes 100] [--quick] [--json]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import mujoco
import numpy as np
import tyro
from gymnasium.vector import AutoresetMode

from benchmarks.gear_calibration import insert_at
from benchmarks.gear_calibration import run as run_episodes
from benchmarks.report import Report
from tandem.acting.evaluate import wilson
from tandem.envs.arm import ControlLimits
from tandem.envs.batch import BatchEnv
from tandem.envs.gear_assembly.board import MM
from tandem.envs.gear_assembly.scene import Geometry
from tandem.envs.gear_pick import GearPick
from tandem.envs.gear_pick.expert import PickExpert, in_the_hand, pick_by_touch
from tandem.envs.gear_pick.fine import fine_pick_expert, gear_pick_assembly_fine
from tandem.envs.gear_pick.task import CONTROL, Goal
from tandem.envs.gripper import OPEN
from tandem.layouts import ActionLayout
from tandem.types import Observation

PEG_TIP = Geometry().peg_height
SEED = 200_000
"""Seeds of the episodes, used nowhere else."""

Controller = Callable[[Observation], np.ndarray]
"""From the observations of all rows to their actions, for a gripper commanded by its width."""
Making = Callable[[BatchEnv], Controller]


def run(task: GearPick, episodes: int, make: Making, seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
    """Success and length of every episode; each row is one episode with its own seed."""
    return run_episodes(task, episodes, make, seed)


def _control(env: BatchEnv) -> ControlLimits:
    task = env.task
    assert isinstance(task, GearPick)
    return task.control.limits


def carried(goal: Goal, aim: np.ndarray | None = None, then: Callable[[Observation, np.ndarray, np.ndarray], None] | None = None) -> Making:
    """The memoryless hand; `aim` (n, 3) is its error of where the gear is, `then` changes its actions and wishes in place."""

    def make(env: BatchEnv) -> Controller:
        control = _control(env)

        def act(observation: Observation) -> np.ndarray:
            arm, wish = pick_by_touch(goal, observation, aim, control)
            if then is not None:
                then(observation, arm, wish)
            return np.concatenate([arm, wish[:, None]], axis=1)

        return act

    return make


def _straight(env: BatchEnv, goal_xy: np.ndarray, yaw_error: np.ndarray) -> Controller:
    """Grasp carefully, carry, and straight down with the full force of the leash."""
    insert = insert_at(goal_xy, yaw_error, _control(env))

    def then(observation: Observation, arm: np.ndarray, wish: np.ndarray) -> None:
        over = over_the_peg(observation) & (wish != OPEN)
        arm[over] = insert(in_the_hand(observation))[over]

    return carried("assembly", then=then)(env)


def at_measured_pose(env: BatchEnv) -> Controller:
    return _straight(env, np.zeros((env.num_envs, 2)), np.zeros(env.num_envs))


def at_true_pose(env: BatchEnv) -> Controller:
    """The same with knowledge of the hidden errors of the episode."""
    task = env.task
    assert isinstance(task, GearPick)
    error, yaw = task.board.measured_error[:, :2], task.board.measured_error[:, 3]
    turn = np.stack([np.stack([np.cos(yaw), np.sin(yaw)], -1), np.stack([-np.sin(yaw), np.cos(yaw)], -1)], 1)
    seat = -np.einsum("nij,nj->ni", turn, error) + task.gear_error
    return _straight(env, seat, task.board.phase - yaw - task.board.measured_phase)


def letting_go(env: BatchEnv) -> Controller:
    """At the true pose, but the fingers open 2 mm over the tip of the peg, in the hope that the gear falls onto it."""
    straight = at_true_pose(env)

    def act(observation: Observation) -> np.ndarray:
        action = straight(observation)
        height = observation["tcp_pose"][:, 2] + observation["gear_offset"][:, 2]
        action[over_the_peg(observation) & (height < PEG_TIP + 2 * MM), 6] = 1.0
        return action

    return act


def over_the_peg(observation: Observation) -> np.ndarray:
    gear = observation["tcp_pose"][:, :3] + observation["gear_offset"]
    return (np.hypot(gear[:, 0], gear[:, 1]) < 10 * MM) & (gear[:, 2] > -2 * MM)


def grasp_off_by(distance: float, episodes: int, goal: Goal = "lift") -> np.ndarray:
    """One after another in all directions; which of them lift the gear."""
    angle = np.linspace(0, 2 * np.pi, episodes, endpoint=False)
    aim = distance * np.stack([np.cos(angle), np.sin(angle), 0 * angle], -1)
    return run(GearPick(goal), episodes, carried(goal, aim))[0]


def expert(person: Callable[[int], PickExpert], people: list[PickExpert]) -> Making:
    """The demonstrator; `people` are filled in, to be asked afterwards."""

    def make(env: BatchEnv) -> Controller:
        people[:] = [person(SEED + row) for row in range(env.num_envs)]

        def act(observation: Observation) -> np.ndarray:
            return np.stack([person.decide({name: v[row] for name, v in observation.items()})[0] for row, person in enumerate(people)])

        return act

    return make


def random(env: BatchEnv) -> Controller:
    streams, layout = [np.random.default_rng(SEED + row) for row in range(env.num_envs)], ActionLayout.of(env.task_spec)
    return lambda observation: np.concatenate([layout.random(stream, 1) for stream in streams])


def cost(task: GearPick) -> tuple[float, float]:
    """Actions per second of CPU of one simulation, of the task and of its bare physics, with the gear on the table."""
    env = BatchEnv(task, 1, num_threads=1, autoreset=AutoresetMode.DISABLED)
    env.reset(seed=SEED)
    model, data = env.model, env.batch.get_data(0)
    action = np.zeros((1, 7))
    action[0, 6] = 1.0
    count = 150
    began = time.process_time()
    for _ in range(count):
        env.step(action)
    whole = count / (time.process_time() - began)
    began = time.process_time()
    for _ in range(count):
        mujoco.mj_step(model, data, nstep=CONTROL.substeps)
    return whole, count / (time.process_time() - began)


TARGETS: dict[str, tuple[str, float]] = {
    "true_pose": (">=", 0.95),
    "measured_pose": ("<=", 0.35),
    "letting_go": ("==", 0.0),
    "memoryless": (">=", 0.90),
    "random": ("==", 0.0),
    "expert": (">=", 0.85),
    "expert_high": ("<=", 0.95),
    "grasp_0mm": (">=", 0.98),
    "grasp_8mm": ("<=", 0.10),
    "lift_expert": (">=", 0.85),
    "lift_random": ("==", 0.0),
}
LONG: dict[str, tuple[str, float]] = {"expert": (">=", 0.75), "demo_mean_actions": (">=", 450), "demo_mean_actions_high": ("<=", 600)}
"""What the task with small actions is measured by; grasping and lifting are those of the other."""
Row = tuple[str, str, str, GearPick, Making]


def rows_of(make: Callable[[], GearPick], person: Callable[[int], PickExpert], people: list[PickExpert], wanted: str) -> list[Row]:
    """Figure, behaviour, target, task and behaviour of each row."""
    return [
        ("true_pose", "careful grasp, straight insertion at the true pose", ">= 95 %", make(), at_true_pose),
        ("measured_pose", "the same at the measured pose", "<= 35 %", make(), at_measured_pose),
        ("letting_go", "the same at the true pose, let go 2 mm over the tip", "0 %", make(), letting_go),
        ("memoryless", "memoryless controller on the policy's observation", ">= 90 %", make(), carried("assembly")),
        ("random", "random actions", "0 %", make(), random),
        ("expert", "demonstrator", wanted, make(), expert(person, people)),
    ]


def lift_rows(people: list[PickExpert]) -> list[Row]:
    def person(seed: int) -> PickExpert:
        return PickExpert("lift", "absolute", seed)

    return [
        ("lift_expert", "lift: demonstrator", ">= 85 %", GearPick("lift"), expert(person, people)),
        ("lift_random", "lift: random actions", "0 %", GearPick("lift"), random),
    ]


def main(
    task: Literal["gear_pick_assembly", "gear_pick_assembly_fine"] = "gear_pick_assembly",
    episodes: int = 100,
    quick: bool = False,
    json: bool = False,
) -> None:
    """Calibration of the pick tasks.

    Args:
        task: Which of them; `gear_lift` is calibrated with `gear_pick_assembly`.
        episodes: Episodes per behaviour.
        quick: 12 episodes, to check that it works; prints what all of them would take.
        json: One JSON object instead of the table.
    """
    fine, people, count = task == "gear_pick_assembly_fine", list[PickExpert](), 12 if quick else episodes
    targets = {name: TARGETS[name] for name in LONG_FROM} | LONG if fine else TARGETS
    report = Report(f"{task}_calibration" if fine else "pick_calibration", COLUMNS, targets)
    if fine:
        rows = rows_of(gear_pick_assembly_fine, fine_pick_expert, people, "75-95 %, mean 450-600")
    else:
        rows = rows_of(GearPick, lambda seed: PickExpert("assembly", "absolute", seed), people, "85-95 %") + lift_rows(people)
    began = time.process_time()
    for row in rows:
        measure(report, row, count, people)
    if not fine:
        grasps(report, max(24, count // 3))
    if quick:
        minutes = (time.process_time() - began) / 60 * episodes / count
        report.row(f"the full calibration: {episodes} episodes of each of these {len(rows)} behaviours", "-", "-", f"{minutes:.0f} CPU min")
    report.figures["actions_per_second"], report.figures["raw_actions_per_second"] = cost(rows[0][3])
    report.show(json)


COLUMNS = ("behaviour", "target", "success [95 %]", "median actions of a success")
LONG_FROM = ("true_pose", "measured_pose", "letting_go", "memoryless", "random", "expert_high")


def measure(report: Report, row: Row, episodes: int, people: list[PickExpert]) -> None:
    """One row of the table."""
    figure, name, wanted, task, make = row
    success, length = run(task, episodes, make)
    median = float(np.median(length[success])) if success.any() else float("nan")
    report.figures[figure] = float(success.mean())
    report.row(name, wanted, wilson(int(success.sum()), episodes), f"{median:.0f}" if success.any() else "-")
    if figure == "expert":
        again = [person.grasps > 1 for person, done in zip(people, success, strict=True) if done]
        mean = float(length[success].mean()) if success.any() else float("nan")
        report.figures |= {"demo_median_actions": median, "demo_mean_actions": mean, "demo_mean_actions_high": mean}
        report.figures |= {"expert_high": report.figures["expert"], "demos_with_a_second_grasp": float(np.mean(again))}


def grasps(report: Report, episodes: int) -> None:
    """By how much a grasp may be off."""
    for mm in (0, 2, 4, 6, 8):
        success = grasp_off_by(mm * MM, episodes)
        report.figures[f"grasp_{mm}mm"] = float(success.mean())
        report.row(f"lift: grasp off by {mm} mm", {0: ">= 98 %", 8: "<= 10 %"}.get(mm, "-"), wilson(int(success.sum()), episodes), "-")


if __name__ == "__main__":
    tyro.cli(main)
