"""Films and strips of what a robot does."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import imageio_ffmpeg
import numpy as np
from PIL import Image

from tandem.errors import DataError
from tandem.files import partial_path, whole_or_nothing


class Film:
    """An MP4 that browsers play, written frame by frame; complete or not there.

    with Film(path, fps=10) as film:
        film.add(frame)
    """

    def __init__(self, path: Path, fps: float) -> None:
        self.path = path
        self.fps = fps
        self._partial = partial_path(path)
        self._encoder: subprocess.Popen[bytes] | None = None
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  closed in __exit__

    def add(self, frame: np.ndarray) -> None:
        """`(height, width, 3)` uint8, all of one size."""
        if self._encoder is None:
            self._encoder = self._start(*frame.shape[:2])
        assert self._encoder.stdin is not None
        try:
            self._encoder.stdin.write(np.ascontiguousarray(frame).data)
        except OSError:  # it died; what it said is worth more than "broken pipe"
            self._finish()

    def _start(self, height: int, width: int) -> subprocess.Popen[bytes]:
        frames = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{self.fps:g}", "-i", "-"]
        # the pixel format that every browser plays wants even sides
        film = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-v", "error", *frames, *film, str(self._partial)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._complaints)

    def _finish(self) -> None:
        if self._encoder is None:
            raise DataError(f"cannot write the film {self.path}: it has no frames.")
        if self._end(self._encoder):
            self._complaints.seek(0)
            said = self._complaints.read().decode(errors="replace").strip().splitlines()
            raise DataError(f"cannot write the film {self.path}: {said[-1] if said else 'ffmpeg failed'}. Is the disk full?")
        os.replace(self._partial, self.path)

    @staticmethod
    def _end(encoder: subprocess.Popen[bytes]) -> int:
        assert encoder.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            encoder.stdin.close()
        return encoder.wait()

    def __enter__(self) -> Film:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            if self._encoder is not None and self._encoder.poll() is None:
                self._encoder.kill()
                self._end(self._encoder)
            self._partial.unlink(missing_ok=True)
            self._complaints.close()


def write_strip(frames: Sequence[np.ndarray], path: Path, columns: int = 4, count: int = 8) -> Path:
    """A few moments of an episode, evenly spread, on one PNG; complete or not there."""
    chosen = [frames[i] for i in np.linspace(0, len(frames) - 1, min(count, len(frames))).round().astype(int)]
    chosen += [np.full_like(frames[0], 255)] * (-len(chosen) % columns)
    rows = [np.concatenate(chosen[i : i + columns], axis=1) for i in range(0, len(chosen), columns)]
    try:
        with whole_or_nothing(path) as partial:
            Image.fromarray(np.concatenate(rows, axis=0)).save(partial, optimize=True)
    except OSError as problem:
        raise DataError(f"cannot write the pictures {path}: {problem.strerror or problem}. Is the disk full?") from None
    return path
