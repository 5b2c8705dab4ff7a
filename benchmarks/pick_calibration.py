"""Do the pick tasks need a careful hand, and touch? Measured with hand-written behaviours, without learning.

python -m benchmarks.pick_calibration [--episodes 100] [--quick] [--json]
"""

from __future__ import annotations

import time
from collections.abc import Callable

import mujoco
import numpy as np
import tyro
from gymnasium.vector import AutoresetMode

from benchmarks.gear_calibration import insert_at
from benchmarks.report import Report
from tandem.acting.evaluate import wilson
from tandem.envs.batch import BatchEnv
from tandem.envs.gear_assembly.board import MM
from tandem.envs.gear_assembly.scene import Geometry
from tandem.envs.gear_pick import GearPick
from tandem.envs.gear_pick.expert import PickExpert, in_the_hand, pick_by_touch
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
    env = BatchEnv(task, episodes, autoreset=AutoresetMode.DISABLED)
    observation, _ = env.reset(seed=seed)
    controller = make(env)
    success, length, running = np.zeros(episodes, bool), np.zeros(episodes, int), np.ones(episodes, bool)
    while running.any():
        observation, _, terminated, truncated, info = env.step(controller(observation))
        length += running
        success |= info["success"]
        running &= ~(terminated | truncated)
    return success, length


def carried(goal: Goal, aim: np.ndarray | None = None, then: Callable[[Observation, np.ndarray, np.ndarray], None] | None = None) -> Making:
    """The memoryless hand; `aim` (n, 3) is its error of where the gear is, `then` changes its actions and wishes in place."""

    def make(env: BatchEnv) -> Controller:
        del env

        def act(observation: Observation) -> np.ndarray:
            arm, wish = pick_by_touch(goal, observation, aim)
            if then is not None:
                then(observation, arm, wish)
            return np.concatenate([arm, wish[:, None]], axis=1)

        return act

    return make


def _straight(goal_xy: np.ndarray, yaw_error: np.ndarray) -> Making:
    """Grasp carefully, carry, and straight down with the full force of the leash."""
    insert = insert_at(goal_xy, yaw_error)

    def then(observation: Observation, arm: np.ndarray, wish: np.ndarray) -> None:
        over = over_the_peg(observation) & (wish != OPEN)
        arm[over] = insert(in_the_hand(observation))[over]

    return carried("assembly", then=then)


def at_measured_pose(env: BatchEnv) -> Controller:
    return _straight(np.zeros((env.num_envs, 2)), np.zeros(env.num_envs))(env)


def at_true_pose(env: BatchEnv) -> Controller:
    """The same with knowledge of the hidden errors of the episode."""
    task = env.task
    assert isinstance(task, GearPick)
    error, yaw = task.board.measured_error[:, :2], task.board.measured_error[:, 3]
    turn = np.stack([np.stack([np.cos(yaw), np.sin(yaw)], -1), np.stack([-np.sin(yaw), np.cos(yaw)], -1)], 1)
    seat = -np.einsum("nij,nj->ni", turn, error) + task.gear_error
    return _straight(seat, task.board.phase - yaw - task.board.measured_phase)(env)


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


def expert(goal: Goal, people: list[PickExpert]) -> Making:
    """The demonstrator; `people` are filled in, to be asked afterwards."""

    def make(env: BatchEnv) -> Controller:
        people[:] = [PickExpert(goal, "absolute", seed=SEED + row) for row in range(env.num_envs)]

        def act(observation: Observation) -> np.ndarray:
            return np.stack([person.decide({name: v[row] for name, v in observation.items()})[0] for row, person in enumerate(people)])

        return act

    return make


def random(env: BatchEnv) -> Controller:
    streams, layout = [np.random.default_rng(SEED + row) for row in range(env.num_envs)], ActionLayout.of(env.task_spec)
    return lambda observation: np.concatenate([layout.random(stream, 1) for stream in streams])


def cost() -> tuple[float, float]:
    """Actions per second of CPU of one simulation, of the task and of its bare physics, with the gear on the table."""
    task = GearPick()
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


TARGETS = {
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


def main(episodes: int = 100, quick: bool = False, json: bool = False) -> None:
    """Calibration of the pick tasks.

    Args:
        episodes: Episodes per behaviour.
        quick: 24 episodes, to check that it works.
        json: One JSON object instead of the table.
    """
    episodes = 24 if quick else episodes
    report = Report("pick_calibration", ("behaviour", "target", "success [95 %]", "median actions of a success"), TARGETS)
    people: list[PickExpert] = []
    rows: tuple[tuple[str, Goal, str, str, Making], ...] = (
        ("true_pose", "assembly", "careful grasp, straight insertion at the true pose", ">= 95 %", at_true_pose),
        ("measured_pose", "assembly", "the same at the measured pose", "<= 35 %", at_measured_pose),
        ("letting_go", "assembly", "the same at the true pose, let go 2 mm over the tip", "0 %", letting_go),
        ("memoryless", "assembly", "memoryless controller on the policy's observation", ">= 90 %", carried("assembly")),
        ("random", "assembly", "random actions", "0 %", random),
        ("expert", "assembly", "demonstrator", "85-95 %", expert("assembly", people)),
        ("lift_expert", "lift", "lift: demonstrator", ">= 85 %", expert("lift", people)),
        ("lift_random", "lift", "lift: random actions", "0 %", random),
    )
    for figure, goal, name, wanted, make in rows:
        success, length = run(GearPick(goal), episodes, make)
        median = float(np.median(length[success])) if success.any() else float("nan")
        report.figures[figure] = float(success.mean())
        report.row(name, wanted, wilson(int(success.sum()), episodes), f"{median:.0f}" if success.any() else "-")
        if figure == "expert":
            report.figures["demo_median_actions"], report.figures["expert_high"] = median, report.figures["expert"]
            again = np.mean([person.grasps > 1 for person, done in zip(people, success, strict=True) if done])
            report.figures["demos_with_a_second_grasp"] = float(again)
    for mm in (0, 2, 4, 6, 8):
        count = max(24, episodes // 3)
        success = grasp_off_by(mm * MM, count)
        report.figures[f"grasp_{mm}mm"] = float(success.mean())
        report.row(f"lift: grasp off by {mm} mm", {0: ">= 98 %", 8: "<= 10 %"}.get(mm, "-"), wilson(int(success.sum()), count), "-")
    report.figures["actions_per_second"], report.figures["raw_actions_per_second"] = cost()
    report.show(json)


if __name__ == "__main__":
    tyro.cli(main)
