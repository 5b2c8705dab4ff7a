"""A point that is pushed about, with a witness: every action it is given is noted in a file of its process before anyone else knows of it.

Used as `counted_point:CountedPoint-v0`. It costs some 20 us a step, so that a million steps fit into a test. A note is a hash of the
observation that the step led to, by which a row of the journal is told from any other, the time, and whether the action moved the point.
The notes lie outside of what the faults destroy: processes die and the disk of the run loses its power, this machine does not.
"""

import hashlib
import os
import struct
import time
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

WITNESS = "TANDEM_WITNESS"
"""Variable that names the folder of the notes."""
NOTE = struct.Struct("<16sq?")


class Note(NamedTuple):
    """One action, as the environment saw it."""

    step: bytes
    at_ns: int
    """By the monotonic clock, which all processes of a machine share."""
    moved: bool


def digest(observation: dict[str, np.ndarray]) -> bytes:
    found = hashlib.sha256()
    for name in sorted(observation):
        found.update(np.asarray(observation[name], np.float32).tobytes())
    return found.digest()[:16]


def read_notes(file: Path) -> list[Note]:
    data = file.read_bytes()
    return [Note(*each) for each in NOTE.iter_unpack(data[: len(data) // NOTE.size * NOTE.size])]


class CountedPoint(gymnasium.Env):
    """Reward 1 and the end of the episode within 0.1 of the origin; the entry `name` makes each environment's steps its own."""

    metadata = {"render_fps": 20, "render_modes": []}  # noqa: RUF012 (gymnasium's convention)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    observation_space = gymnasium.spaces.Dict(
        {"position": gymnasium.spaces.Box(-10, 10, (3,), np.float32), "name": gymnasium.spaces.Box(0, 1, (4,), np.float32)}
    )

    def __init__(self, **_: Any) -> None:
        folder = Path(os.environ[WITNESS])
        folder.mkdir(exist_ok=True)
        number = len(list(folder.glob(f"{os.getpid()}.*")))
        self._notes = os.open(folder / f"{os.getpid()}.{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._name = (np.frombuffer(os.urandom(8), np.uint16) / 65536).astype(np.float32)
        self._position = np.zeros(3, np.float32)
        self._steps = 0

    def _observed(self) -> dict[str, np.ndarray]:
        return {"position": self._position.copy(), "name": self._name.copy()}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._position = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        self._steps = 0
        return self._observed(), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        noise = self.np_random.normal(0, 1e-3, 3)
        self._position = np.clip(self._position + 0.05 * np.asarray(action) + noise, -9, 9).astype(np.float32)
        self._steps += 1
        seen, reached = self._observed(), bool(np.linalg.norm(self._position) < 0.1)
        os.write(self._notes, NOTE.pack(digest(seen), time.monotonic_ns(), bool(np.any(np.abs(action) > 1e-6))))
        return seen, float(reached), reached, self._steps >= 100 and not reached, {"success": reached}


gymnasium.register("CountedPoint-v0", entry_point=CountedPoint, max_episode_steps=100)
