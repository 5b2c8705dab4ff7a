"""Does the gear assembly really need contact? Measured with hand-written behaviours, without learning.

python -m benchmarks.gear_calibration [--task gear_assembly_fine] [--episodes 500] [--quick] [--json]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import tyro
from gymnasium.vector import AutoresetMode

from benchmarks.report import Report
from tandem.acting.evaluate import wilson
from tandem.envs.arm import ControlLimits
from tandem.envs.batch import BatchEnv
from tandem.envs.gear_assembly import GearAssembly
from tandem.envs.gear_assembly.expert import GearExpert, by_touch, phase_error
from tandem.envs.gear_assembly.fine import FINE, fine_expert, gear_assembly_fine
from tandem.envs.gear_assembly.scene import PITCH, Geometry
from tandem.envs.gear_assembly.task import CONTROL, DEGREE, MM, GearOptions
from tandem.envs.task import Task
from tandem.types import Observation

PEG_TIP = Geometry().peg_height
SEED = 100_000
"""Seeds of the episodes, used nowhere else."""

Controller = Callable[[Observation], np.ndarray]
"""From the observations of all rows to their actions."""


@dataclass(frozen=True)
class Variant:
    """One of the tasks: how it is made, what its actions do, who demonstrates it, and what has to come out."""

    make: Callable[[GearOptions | None], GearAssembly]
    control: ControlLimits
    expert: Callable[[int], GearExpert]
    targets: dict[str, tuple[str, float]]
    aiming: str
    demo_actions: str


def run(task: Task, episodes: int, make: Callable[[BatchEnv], Controller], seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
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


def insert_at(goal_xy: np.ndarray, yaw_error: np.ndarray, control: ControlLimits = CONTROL) -> Controller:
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
        return np.clip((goal - pose - offset) / np.array(control.action_scale), -1, 1)

    return act


def at_measured_pose(env: BatchEnv) -> Controller:
    return insert_at(np.zeros((env.num_envs, 2)), np.zeros(env.num_envs), _control(env))


def at_true_pose(env: BatchEnv) -> Controller:
    """Straight insertion with knowledge of the hidden errors of the episode."""
    task = env.task
    assert isinstance(task, GearAssembly)
    error, yaw = task.board.measured_error[:, :2], task.board.measured_error[:, 3]
    turn = np.stack([np.stack([np.cos(yaw), np.sin(yaw)], -1), np.stack([-np.sin(yaw), np.cos(yaw)], -1)], 1)
    return insert_at(-np.einsum("nij,nj->ni", turn, error), task.board.phase - yaw - task.memory()["measured_phase"], _control(env))


def memoryless(env: BatchEnv) -> Controller:
    """Acts on the observation alone: the torque shows on which side of the bore the tip of the peg presses."""
    control = _control(env)
    return lambda observation: by_touch(observation, control)


def expert(make: Callable[[int], GearExpert]) -> Callable[[BatchEnv], Controller]:
    def people(env: BatchEnv) -> Controller:
        experts = [make(SEED + row) for row in range(env.num_envs)]

        def act(observation: Observation) -> np.ndarray:
            return np.stack([person.decide({name: v[row] for name, v in observation.items()})[0] for row, person in enumerate(experts)])

        return act

    return people


def random(env: BatchEnv) -> Controller:
    streams = [np.random.default_rng(SEED + row) for row in range(env.num_envs)]
    return lambda observation: np.stack([stream.uniform(-1, 1, 6) for stream in streams])


FITS = {"offset 1.0 mm": (1.0 * MM, 0.0), "phase 1/8 pitch": (0.0, PITCH / 8)}
"""Errors within the tolerance of chamfer, clearance and backlash."""
MUST_NOT_FIT = {f"offset {mm} mm": (mm * MM, 0.0) for mm in (1.8, 2.2, 3.0)} | {
    f"phase {name} pitch": (0.0, share * PITCH) for name, share in (("1/4", 0.25), ("3/8", 0.375), ("1/2", 0.5))
}


def press(offset: float, phase: float, episodes: int, variant: Variant | None = None) -> np.ndarray:
    """Press with full force, offset in all directions or turned to both sides; returns which episodes seated."""
    known = GearOptions(measured_xy_error=0, measured_z_error=0, measured_yaw_error=0, measured_phase_error=0)
    angle = np.linspace(0, 2 * np.pi, episodes, endpoint=False)
    goal_xy = offset * np.stack([np.cos(angle), np.sin(angle)], -1)
    side = np.where(np.arange(episodes) % 2, 1.0, -1.0)
    variant = variant or VARIANTS["gear_assembly"]
    return run(variant.make(known), episodes, lambda _: insert_at(goal_xy, side * phase, variant.control))[0]


def _control(env: BatchEnv) -> ControlLimits:
    task = env.task
    assert isinstance(task, GearAssembly)
    return task.control.limits


def _wrap(angle: np.ndarray) -> np.ndarray:
    return (angle + PITCH / 2) % PITCH - PITCH / 2


TARGETS: dict[str, tuple[str, float]] = {
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
LONG: dict[str, tuple[str, float]] = {"expert": (">=", 0.75), "demo_mean_actions": (">=", 250), "demo_mean_actions_high": ("<=", 350)}
VARIANTS = {
    "gear_assembly": Variant(GearAssembly, CONTROL, GearExpert, TARGETS, "20-35 %", "80-95 %, median <= 70"),
    "gear_assembly_fine": Variant(
        gear_assembly_fine,
        FINE,
        fine_expert,
        {name: target for name, target in TARGETS.items() if name not in ("demo_median_actions", "measured_pose")} | LONG,
        "<= 35 %",
        "75-95 %, mean 250-350",
    ),
}


def main(
    task: Literal["gear_assembly", "gear_assembly_fine"] = "gear_assembly", episodes: int = 500, quick: bool = False, json: bool = False
) -> None:
    """Calibration of the gear task.

    Args:
        task: Which of the gear tasks.
        episodes: Episodes per behaviour.
        quick: 60 episodes, to check that it works.
        json: One JSON object instead of the table.
    """
    episodes, variant = 60 if quick else episodes, VARIANTS[task]
    name = "gear_calibration" if task == "gear_assembly" else f"{task}_calibration"
    report = Report(name, ("behaviour", "target", "success [95 %]", "median actions of a success"), variant.targets)
    rows = (
        ("true_pose", "straight insertion at the true pose", ">= 99 %", at_true_pose),
        ("measured_pose", "straight insertion at the measured pose", variant.aiming, at_measured_pose),
        ("memoryless", "memoryless controller on the policy's observation", ">= 95 %", memoryless),
        ("random", "random actions", "0 %", random),
        ("expert", "demonstrator", variant.demo_actions, expert(variant.expert)),
    )
    for figure, name, wanted, make in rows:
        success, length = run(variant.make(None), episodes, make)
        median = float(np.median(length[success])) if success.any() else float("nan")
        report.figures[figure] = float(success.mean())
        report.row(name, wanted, wilson(int(success.sum()), episodes), f"{median:.0f}" if success.any() else "-")
        if figure == "expert":
            report.figures["demo_median_actions"] = median
            report.figures["demo_mean_actions"] = float(length[success].mean())
    for figure in ("measured_pose", "expert", "demo_mean_actions"):
        report.figures[f"{figure}_high"] = report.figures[figure]
    report.figures["press"] = _press_all(report, variant, max(32, episodes // 5))
    report.show(json)


def _press_all(report: Report, variant: Variant, count: int) -> float:
    """Rows of full force; returns which share of those seated that must not."""
    seated = 0
    for name, (offset, phase) in (FITS | MUST_NOT_FIT).items():
        success = press(offset, phase, count, variant)
        seated += int(success.sum()) if name in MUST_NOT_FIT else 0
        wanted = "never seats" if name in MUST_NOT_FIT else "inside tolerance"
        report.row(f"full force, {name}", wanted, wilson(int(success.sum()), count), "-")
    return seated / (count * len(MUST_NOT_FIT))


if __name__ == "__main__":
    tyro.cli(main)
