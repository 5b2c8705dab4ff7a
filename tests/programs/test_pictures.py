"""Films and strips hold the frames they were given, and are complete or not there."""

import subprocess
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from tandem.errors import DataError
from tandem.programs.pictures import Film, write_strip


def grey(level: int, height: int = 32, width: int = 48) -> np.ndarray:
    return np.full((height, width, 3), level, np.uint8)


def decoded(path: Path, height: int, width: int) -> tuple[str, np.ndarray]:
    """What ffmpeg says of the film, and its frames (n, height, width, 3)."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-hide_banner", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(command, capture_output=True)
    [stream, *_] = [line for line in done.stderr.decode().splitlines() if "Video:" in line]
    return stream, np.frombuffer(done.stdout, np.uint8).reshape(-1, height, width, 3)


def test_a_film_holds_every_frame_in_order_at_its_rate(tmp_path: Path) -> None:
    with Film(tmp_path / "film.mp4", fps=10) as film:
        for level in range(20, 220, 10):
            film.add(grey(level))
    stream, frames = decoded(tmp_path / "film.mp4", 32, 48)
    assert all(text in stream for text in ("h264", "yuv420p", "48x32", " 10 fps")), stream
    np.testing.assert_allclose(frames.mean(axis=(1, 2, 3)), range(20, 220, 10), atol=4)  # compression is not exact
    assert [path.name for path in tmp_path.iterdir()] == ["film.mp4"]


def test_odd_sides_get_one_more_row_and_column(tmp_path: Path) -> None:
    with Film(tmp_path / "film.mp4", fps=5) as film:
        film.add(grey(100, height=33, width=49))
    stream, frames = decoded(tmp_path / "film.mp4", 34, 50)
    assert "50x34" in stream and len(frames) == 1


def test_a_film_that_was_broken_off_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the robot fell over"), Film(tmp_path / "film.mp4", fps=10) as film:
        film.add(grey(100))
        raise RuntimeError("the robot fell over")
    assert not list(tmp_path.iterdir())


def test_a_film_that_was_broken_off_leaves_an_older_one_alone(tmp_path: Path) -> None:
    (tmp_path / "film.mp4").write_bytes(b"older")
    with pytest.raises(KeyboardInterrupt), Film(tmp_path / "film.mp4", fps=10) as film:
        film.add(grey(100))
        raise KeyboardInterrupt
    assert (tmp_path / "film.mp4").read_bytes() == b"older"


def test_a_film_without_frames_or_without_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no frames"), Film(tmp_path / "film.mp4", fps=10):
        pass
    with pytest.raises(DataError, match="cannot write the film"), Film(tmp_path / "missing" / "film.mp4", fps=10) as film:
        for _ in range(200):
            film.add(grey(0))


def test_a_strip_shows_moments_evenly_spread_from_the_first_to_the_last(tmp_path: Path) -> None:
    frames = [grey(level) for level in range(15)]
    strip = np.asarray(Image.open(write_strip(frames, tmp_path / "strip.png", columns=4, count=8)))
    assert strip.shape == (2 * 32, 4 * 48, 3)
    # 8 of 15 frames: every second one, row by row
    assert strip[16::32, 24::48, 0].ravel().tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert [path.name for path in tmp_path.iterdir()] == ["strip.png"]


def test_a_short_episode_leaves_the_rest_of_the_strip_white(tmp_path: Path) -> None:
    strip = np.asarray(Image.open(write_strip([grey(level) for level in range(5)], tmp_path / "strip.png")))
    assert strip[16::32, 24::48, 0].ravel().tolist() == [0, 1, 2, 3, 4, 255, 255, 255]


def test_a_strip_that_cannot_be_written_is_an_error_with_a_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot write the pictures .*strip\.png"):
        write_strip([grey(0)], tmp_path / "missing" / "strip.png")
