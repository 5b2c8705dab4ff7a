"""Does the gear assembly really need contact? Measured with hand-written behaviours, without learning.

python -m benchmarks.gear_calibration [--episodes 500] [--quick] [--json]
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tyro
from gymnasium.vector import AutoresetMode

from benchmarks.report import Report
from tandem.acting.evaluate import wilson
from tandem.envs.batch import BatchEnv
from tandem.envs.gear_assembly import GearAssembly
from tandem.envs.gear_assembly.expert import GearExpert, by_touch, phase_error
from tandem.envs.gear_assembly.scene import PITCH, Geometry
from tandem.envs.gear_assembly.task import CONTROL, DEGREE, MM, GearOptions
from tandem.types import Observation

SCALE = np.array(CONTROL.action_scale)
PEG_TIP = Geometry().peg_height
SEED = 100_000
"""Seeds of the episodes, used nowhere else."""

Controller = Callable[[Observation], np.ndarray]
"""From the observations of all rows to their actions."""


def run(task: GearAssembly, episodes: int, make: Callable[[BatchEnv], Controller], seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
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


def insert_at(goal_xy: np.ndarray, yaw_error: np.ndarray) -> Controller:
    """Straight insertion: move above the goal, level and in phase; then down with the full force of the leash."""

    def act(observation: Observation) -> np.ndarray:
        pose, offset = observation["tcp_pose"].astype(float), observation["command_offset"].astype(float)
        goal = np.zeros_like(pose)
        goal[:, :2] = goal_xy
        goal[:, 5] = pose[:, 5] + phase_error(observation) + yaw_error
        goal[:, 5] = pose[:, 5] + _wrap(goal[:, 5] - pose[:, 5])
        aimed = (np.hypot(*(pose[:, :2] - goal_xy).T) < 0.15 * MM) & (np.abs(goal[:, 5] - pose[:, 5]) < 0.3 * DEGREE)
        down = aimed | (pose[:, 2] < PEG_TIP + 2 * MM)
        goal[:, 2] = np.where(down, pose[:, 2] - 6 * MM, PEG_TIP + 4 * MM)
        return np.clip((goal - pose - offset) / SCALE, -1, 1)

    return act


def at_measured_pose(env: BatchEnv) -> Controller:
    return insert_at(np.zeros((env.num_envs, 2)), np.zeros(env.num_envs))


def at_true_pose(env: BatchEnv) -> Controller:
    """Straight insertion with knowledge of the hidden errors of the episode."""
    task = env.task
    assert isinstance(task, GearAssembly)
    error, yaw = task.board.measured_error[:, :2], task.board.measured_error[:, 3]
    turn = np.stack([np.stack([np.cos(yaw), np.sin(yaw)], -1), np.stack([-np.sin(yaw), np.cos(yaw)], -1)], 1)
    return insert_at(-np.einsum("nij,nj->ni", turn, error), task.board.phase - yaw - task.memory()["measured_phase"])


def memoryless(env: BatchEnv) -> Controller:
    """Acts on the observation alone: the torque shows on which side of the bore the tip of the peg presses."""
    del env
    return by_touch


def expert(env: BatchEnv) -> Controller:
    people = [GearExpert(seed=SEED + row) for row in range(env.num_envs)]

    def act(observation: Observation) -> np.ndarray:
        return np.stack([person.decide({name: v[row] for name, v in observation.items()})[0] for row, person in enumerate(people)])

    return act


def random(env: BatchEnv) -> Controller:
    streams = [np.random.default_rng(SEED + row) for row in range(env.num_envs)]
    return lambda observation: np.stack([stream.uniform(-1, 1, 6) for stream in streams])


FITS = {"offset 1.0 mm": (1.0 * MM, 0.0), "phase 1/8 pitch": (0.0, PITCH / 8)}
"""Errors within the tolerance of chamfer, clearance and backlash."""
MUST_NOT_FIT = {f"offset {mm} mm": (mm * MM, 0.0) for mm in (1.8, 2.2, 3.0)} | {
    f"phase {name} pitch": (0.0, share * PITCH) for name, share in (("1/4", 0.25), ("3/8", 0.375), ("1/2", 0.5))
}


def press(offset: float, phase: float, episodes: int) -> np.ndarray:
    """Press with full force, offset in all directions or turned to both sides; returns which episodes seated."""
    known = GearOptions(measured_xy_error=0, measured_z_error=0, measured_yaw_error=0, measured_phase_error=0)
    angle = np.linspace(0, 2 * np.pi, episodes, endpoint=False)
    goal_xy = offset * np.stack([np.cos(angle), np.sin(angle)], -1)
    side = np.where(np.arange(episodes) % 2, 1.0, -1.0)
    return run(GearAssembly(known), episodes, lambda _: insert_at(goal_xy, side * phase))[0]


def _wrap(angle: np.ndarray) -> np.ndarray:
    return (angle + PITCH / 2) % PITCH - PITCH / 2


TARGETS = {
    "true_pose": (">=", 0.99),
    "measured_pose": (">=", 0.20),
    "measured_pose_high": ("<=", 0.35),
    "memoryless": (">=", 0.95),
    "press": ("==", 0.0),
    "random": ("==", 0.0),
    "expert": (">=", 0.80),
    "expert_high": ("<=", 0.95),
    "demo_median_actions": ("<=", 70),
}


def main(episodes: int = 500, quick: bool = False, json: bool = False) -> None:
    """Calibration of the gear task.

    Args:
        episodes: Episodes per behaviour.
        quick: 60 episodes, to check that it works.
        json: One JSON object instead of the table.
    """
    episodes = 60 if quick else episodes
    report = Report("gear_calibration", ("behaviour", "target", "success [95 %]", "median actions of a success"), TARGETS)
    rows = (
        ("true_pose", "straight insertion at the true pose", ">= 99 %", at_true_pose),
        ("measured_pose", "straight insertion at the measured pose", "20-35 %", at_measured_pose),
        ("memoryless", "memoryless controller on the policy's observation", ">= 95 %", memoryless),
        ("random", "random actions", "0 %", random),
        ("expert", "demonstrator", "80-95 %, median <= 70", expert),
    )
    for figure, name, wanted, make in rows:
        success, length = run(GearAssembly(), episodes, make)
        median = float(np.median(length[success])) if success.any() else float("nan")
        report.figures[figure] = float(success.mean())
        report.row(name, wanted, wilson(int(success.sum()), episodes), f"{median:.0f}" if success.any() else "-")
        if figure == "expert":
            report.figures["demo_median_actions"] = median
    for figure in ("measured_pose", "expert"):
        report.figures[f"{figure}_high"] = report.figures[figure]
    count = max(32, episodes // 5)
    seated = 0
    for name, (offset, phase) in (FITS | MUST_NOT_FIT).items():
        success = press(offset, phase, count)
        seated += int(success.sum()) if name in MUST_NOT_FIT else 0
        wanted = "never seats" if name in MUST_NOT_FIT else "inside tolerance"
        report.row(f"full force, {name}", wanted, wilson(int(success.sum()), count), "-")
    report.figures["press"] = seated / (count * len(MUST_NOT_FIT))
    report.show(json)


if __name__ == "__main__":
    tyro.cli(main)
