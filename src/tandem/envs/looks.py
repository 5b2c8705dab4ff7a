"""Other looks: cameras a little elsewhere, another light, other colours, drawn anew for every episode. For learning to see.

A policy that has learned from cameras that never move fails when somebody knocks one: moved by 1 mm and 1 degree the gear task fell from
96 % to 60 %, by 3 mm and 3 degrees to 16 %. One that has learned with moved cameras does not depend on where exactly they are. Each
simulation has a model of its own for this, so it costs no time.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco.batch
import numpy as np

from tandem.envs.rotations import quat_multiply, rotvec_to_quat
from tandem.errors import ConfigError


@dataclass(frozen=True)
class Looks:
    """Ranges are uniform, half-widths. All 0: nothing changes, and no random number is drawn."""

    camera_place: float = 0.0
    """Of each camera, along each axis (m)."""
    camera_turn: float = 0.0
    """Of each camera, about each axis (rad)."""
    light: float = 0.0
    """Relative change of the brightness of all lights together."""
    colour: float = 0.0
    """Change of each channel of each shape's colour, which is from 0 to 1."""
    noise: float = 0.0
    """Standard deviation of a camera's noise in each channel of each pixel, in grey levels of 255; not uniform."""

    def __post_init__(self) -> None:
        if min(self.camera_place, self.camera_turn, self.light, self.colour, self.noise) < 0 or self.light >= 1:
            raise ConfigError(f"looks change by ranges of 0 or more, and light by less than all of it; got {self}")


class OtherLooks:
    """Draws and keeps the looks of N simulations."""

    def __init__(self, batch: mujoco.batch.Batch, looks: Looks, cameras: Sequence[str]) -> None:
        self._looks = looks
        self.changes = dataclasses.replace(looks, noise=0.0) != Looks()
        if not self.changes:
            return
        model = batch.get_model(0)
        self._cameras = [model.camera(name).id for name in cameras]
        self._fields = {name: batch.expand(name) for name in ("cam_pos", "cam_quat", "light_diffuse", "geom_rgba")}
        self._usual = {name: np.array(values[0]) for name, values in self._fields.items()}

    def draw(self, row: int, stream: np.random.Generator) -> None:
        """The looks of an episode, from the row's own random stream."""
        if not self.changes:
            return
        looks, fields, usual = self._looks, self._fields, self._usual
        for camera in self._cameras:
            fields["cam_pos"][row, camera] = usual["cam_pos"][camera] + looks.camera_place * stream.uniform(-1, 1, 3)
            turn = rotvec_to_quat(looks.camera_turn * stream.uniform(-1, 1, 3))
            fields["cam_quat"][row, camera] = quat_multiply(usual["cam_quat"][camera], turn)
        fields["light_diffuse"][row] = usual["light_diffuse"] * (1 + looks.light * stream.uniform(-1, 1))
        change = looks.colour * stream.uniform(-1, 1, usual["geom_rgba"][:, :3].shape)
        fields["geom_rgba"][row, :, :3] = np.clip(usual["geom_rgba"][:, :3] + change, 0, 1)

    def taken(self, pictures: np.ndarray) -> np.ndarray:
        """Pictures (n, height, width, 3) with the noise of a camera.

        The noise is drawn from the picture itself: one that is asked for twice is the same, and a state that is restored needs no more.
        """
        if not self._looks.noise:
            return pictures
        return np.stack([_noisy(picture, self._looks.noise) for picture in pictures])

    def memory(self) -> dict[str, np.ndarray]:
        return dict(self._fields) if self.changes else {}


def _noisy(picture: np.ndarray, deviation: float) -> np.ndarray:
    noise = np.random.default_rng(zlib.crc32(picture.tobytes())).standard_normal(picture.shape, np.float32)
    return np.clip(np.rint(picture + np.float32(deviation) * noise), 0, 255).astype(np.uint8)
