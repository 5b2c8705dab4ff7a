from tandem.envs.gear_assembly import GearAssembly
from tandem.envs.gear_assembly.fine import gear_assembly_fine
from tandem.envs.gear_pick import GearPick
from tandem.envs.reach import Reach
from tandem.envs.task import Task
from tandem.testing import TaskContract


class TestReach(TaskContract):
    def make_task(self) -> Task:
        return Reach()


class TestGearAssembly(TaskContract):
    def make_task(self) -> Task:
        return GearAssembly()


class TestGearAssemblyFine(TaskContract):
    """Small actions: an episode may take 600 of them."""

    steps, idle = 20, 5

    def make_task(self) -> Task:
        return gear_assembly_fine()


class TestGearPickAssembly(TaskContract):
    steps, idle = 20, 5

    def make_task(self) -> Task:
        return GearPick("assembly", "absolute")


class TestGearLiftByChoices(TaskContract):
    """A gripper with choices: close, hold, open."""

    steps, idle = 14, 5

    def make_task(self) -> Task:
        return GearPick("lift", "three-way")


class TestGearLiftBySteps(TaskContract):
    steps, idle = 14, 5

    def make_task(self) -> Task:
        return GearPick("lift", "delta", reward="dense")
