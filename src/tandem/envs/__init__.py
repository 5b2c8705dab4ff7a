"""Observations come from here, actions go here."""

import os

from tandem.errors import RenderingUnavailable

HOW_TO_DRAW = "To draw without a screen on Debian or Ubuntu: apt install libegl1 libgl1-mesa-dri, then set MUJOCO_GL=egl."

# MuJoCo looks for the OpenGL that MUJOCO_GL names while it is imported, and fails there even where nothing is to be drawn.
try:
    import mujoco as _  # noqa: F401
except ModuleNotFoundError:
    pass  # foreign and served environments do without it; our own tasks say what is missing when one is made
except (AttributeError, OSError, RuntimeError) as problem:
    raise RenderingUnavailable(
        f"MuJoCo cannot be loaded with MUJOCO_GL={os.environ.get('MUJOCO_GL', '')!r} ({type(problem).__name__}: {problem}). "
        f"Likely cause: there is no such OpenGL on this machine. {HOW_TO_DRAW} To simulate without drawing: unset MUJOCO_GL."
    ) from problem
