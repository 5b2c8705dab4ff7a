"""The computer: cores, memory, disk, versions, GPU, OpenGL. Only what is cheap to find out."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tandem import __version__

PACKAGES = ("jax", "mujoco", "numpy", "gymnasium")


@dataclass(frozen=True)
class Machine:
    host: str
    cores: int
    memory: int
    """Bytes."""
    memory_free: int
    disk_free: int
    """Bytes on the disk of the run."""
    python: str
    versions: Mapping[str, str]
    gpu: bool
    gl: str | None
    """The library that can render without a screen; None if there is none."""

    @functools.cached_property
    def gflops(self) -> float:
        """Speed of a float32 matrix product, best of five; takes 20 ms."""
        size = 384
        left = right = np.ones((size, size), np.float32)
        best = float("inf")
        for _ in range(5):
            began = time.perf_counter()
            left @ right
            best = min(best, time.perf_counter() - began)
        return 2 * size**3 / best / 1e9


def look_at_machine(path: Path) -> Machine:
    memory = _memory()
    return Machine(
        host=socket.gethostname(),
        cores=len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1,
        memory=memory.get("MemTotal", 0),
        memory_free=memory.get("MemAvailable", 0),
        disk_free=shutil.disk_usage(path).free,
        python=platform.python_version(),
        versions={"tandem": __version__} | {name: version for name in PACKAGES if (version := _version(name))},
        gpu=Path("/dev/nvidiactl").exists() or Path("/dev/kfd").exists(),
        gl=_gl(),
    )


def _memory() -> dict[str, int]:
    """Sizes in bytes on Linux; empty on other systems."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return {}
    return {name: int(value.split()[0]) * 1024 for name, _, value in (line.partition(":") for line in lines)}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _gl() -> str | None:
    for folder in (Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib/aarch64-linux-gnu"), Path("/usr/lib64"), Path("/usr/lib")):
        for name in ("EGL", "OSMesa"):
            if any(folder.glob(f"lib{name}.so*")):
                return name
    return None
