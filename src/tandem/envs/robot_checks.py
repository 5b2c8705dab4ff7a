"""The pre-flight of a robot behind HTTP, by its address."""

from __future__ import annotations

from collections.abc import Callable

from tandem.envs.franka import profile as franka_profile
from tandem.envs.franka.checks import FrankaChecks
from tandem.envs.franka.env import FrankaDriver
from tandem.envs.http_robot.env import Driver
from tandem.envs.http_robot.names import server_kind
from tandem.envs.http_robot.preflight import Preflight
from tandem.envs.http_robot.profile import Profile
from tandem.envs.http_robot.wire import Address
from tandem.envs.isaac import profile as isaac_profile
from tandem.envs.isaac.checks import IsaacChecks
from tandem.envs.isaac.env import IsaacDriver


def open_preflight(address: str, say: Callable[[str], None] = lambda line: None) -> tuple[Profile, Driver, Preflight]:
    """The profile, the driver and the check of this robot; nothing is asked or moved yet."""
    if server_kind(address) == "franka":
        place = Address.of(address, franka_profile.DEFAULT, "franka")
        franka = franka_profile.read_profile(place.profile)
        driver = FrankaDriver(franka, place)
        return franka, driver, Preflight(franka, driver, FrankaChecks(franka, driver), say)
    place = Address.of(address, isaac_profile.DEFAULT, "isaac")
    isaac = isaac_profile.read_profile(place.profile)
    driver = IsaacDriver(isaac, place)
    return isaac, driver, Preflight(isaac, driver, IsaacChecks(isaac, driver), say)
