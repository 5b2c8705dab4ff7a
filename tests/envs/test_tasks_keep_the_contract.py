from tandem.envs.gear_assembly import GearAssembly
from tandem.envs.reach import Reach
from tandem.envs.task import Task
from tandem.testing import TaskContract


class TestReach(TaskContract):
    def make_task(self) -> Task:
        return Reach()


class TestGearAssembly(TaskContract):
    def make_task(self) -> Task:
        return GearAssembly()
