"""A MuJoCo simulation to look at: a copy of one row's model and data, made when asked and free to be drawn by another thread.

MuJoCo is imported where there is a simulation: environments without one do without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import mujoco
    import mujoco.batch


class Physics(Protocol):
    """`model` and `data` are the viewer's own; `update` copies the present state into them (microseconds)."""

    model: mujoco.MjModel
    data: mujoco.MjData

    def update(self) -> None: ...


class BatchPhysics:
    """One row of a batch. Each row has places of its own for its bodies, so the model is copied too."""

    def __init__(self, batch: mujoco.batch.Batch, row: int = 0) -> None:
        self._batch, self._row = batch, row
        import mujoco

        self.model = batch.get_model(row)
        self.data = mujoco.MjData(self.model)

    def update(self) -> None:
        self._batch.get_model(self._row, self.model)
        self._batch.get_data(self._row, self.data)
        _place(self)


class GymnasiumPhysics:
    """The simulation of one of Gymnasium's MuJoCo environments."""

    def __init__(self, model: mujoco.MjModel, live: mujoco.MjData) -> None:
        import mujoco

        self.model, self._live = model, live
        self.data = mujoco.MjData(model)

    def update(self) -> None:
        import mujoco

        mujoco.mj_copyData(self.data, self.model, self._live)
        _place(self)


def _place(physics: Physics) -> None:
    """Bodies, cameras and lights where the joints say."""
    import mujoco

    mujoco.mj_kinematics(physics.model, physics.data)
    mujoco.mj_camlight(physics.model, physics.data)


def camera_names(model: mujoco.MjModel) -> tuple[str, ...]:
    return tuple(model.camera(i).name for i in range(model.ncam) if model.camera(i).name)
