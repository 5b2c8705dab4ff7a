"""The force-torque sensor of N simulated robots: tared at the start of an episode, averaged over a control period, noisy."""

from __future__ import annotations

import mujoco.batch
import numpy as np

from tandem.envs.rows import Rows


class WrenchSensor:
    """Reads the sensors `force` and `torque` of the model, which follow one another."""

    def __init__(self, batch: mujoco.batch.Batch, force_noise: float, torque_noise: float) -> None:
        """The noise is the standard deviation of one control period (N, N m)."""
        force = int(batch.get_model(0).sensor("force").adr[0])
        self._columns = slice(force, force + 6)
        self._sensors = batch.bind("sensordata")
        self._noise = np.array([force_noise] * 3 + [torque_noise] * 3)
        self.value, self._tare = np.zeros((batch.nsim, 6)), np.zeros((batch.nsim, 6))

    def start(self, rows: Rows, streams: list[np.random.Generator]) -> None:
        """What hangs from the sensor now is not felt; the physics are computed (`batch.forward`)."""
        self._tare[rows] = self._sensors[rows][:, self._columns]
        self.value[rows] = self._noise * np.stack([stream.standard_normal(6) for stream in streams])

    def read(self, rows: Rows, readings: np.ndarray, streams: list[np.random.Generator]) -> None:
        """The mean of a control period, from all sensors after each substep (n, substeps, nsensordata)."""
        # MuJoCo reads what the hand does to the tool; what the world does to it is the opposite
        contact = self._tare[rows] - readings[:, :, self._columns].mean(1)
        self.value[rows] = contact + self._noise * np.stack([stream.standard_normal(6) for stream in streams])

    def memory(self) -> dict[str, np.ndarray]:
        return {"wrench": self.value, "tare": self._tare}
