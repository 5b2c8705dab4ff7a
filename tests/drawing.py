"""Can this machine draw without a screen? Asked in a process of its own, for MuJoCo chooses its OpenGL when it is imported."""

import functools
import os
import subprocess
import sys

import pytest

DRAWING = {"MUJOCO_GL": "egl", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
_PROBE = "import mujoco; mujoco.Renderer(mujoco.MjModel.from_xml_string('<mujoco/>'), 8, 8)"


@functools.cache
def _problem() -> str:
    done = subprocess.run([sys.executable, "-c", _PROBE], env={**os.environ, **DRAWING}, capture_output=True, text=True)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no reason given"])[-1]


@pytest.fixture(scope="session")
def drawing() -> dict[str, str]:
    """The environment variables with which pictures can be drawn here; without EGL the test is skipped."""
    if _problem():
        pytest.skip(f"no EGL to draw with: {_problem()}")
    return DRAWING
