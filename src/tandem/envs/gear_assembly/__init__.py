"""Gear assembly: slide a gear onto a peg so that it meshes with its two neighbours."""

from tandem.envs.gear_assembly.task import GearAssembly

__all__ = ["GearAssembly"]
