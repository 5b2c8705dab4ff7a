"""Files that people give: a pipe, a device or another file by mistake is refused in words, and never read without end."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tandem.acting.policy import load_any_policy
from tandem.data.hil_serl import read_hil_serl
from tandem.errors import TandemError
from tandem.files import read_toml, write_atomically

READERS: dict[str, Callable[[Path], object]] = {
    "x.toml": lambda path: read_toml(path, "file of limits"),
    "x.onnx": load_any_policy,
    "x.safetensors": load_any_policy,
    "x.pkl": lambda path: read_hil_serl(path, None),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_a_device_and_a_folder_are_no_files(name: str, tmp_path: Path) -> None:
    """Reading a pipe would wait for ever, and /dev/zero would fill the memory."""
    file = tmp_path / name
    for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path), os.mkdir):
        make(file)
        with pytest.raises(TandemError, match=name):
            READERS[name](file)
        file.rmdir() if file.is_dir() else file.unlink()


def test_a_large_file_of_settings_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "limits.toml").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(TandemError, match=r"limits.toml has 1,000,000,000,000 bytes, at most 1,048,576 are read"):
        read_toml(tmp_path / "limits.toml", "file of limits")


def test_what_cannot_be_written_is_not_called_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TandemError, match=r"Not a directory.*look at the folder and its permissions"):
        write_atomically(tmp_path / "file" / "x", b"")
