"""A picture that came as a JPEG is stored as the bytes that came."""

import dataclasses
import io
import sqlite3
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tandem.data.frames import DIGEST
from tandem.data.intake import Intake
from tandem.data.journal import Journal
from tandem.data.seen import FrameSender
from tandem.envs.camera_bytes import RECEIVED, CameraBytes
from tandem.envs.http_robot.pictures import Frame, pixels
from tandem.errors import FileUnreadable
from tandem.types import Continuous, Entry, Spec, Transition

SIZE = (48, 64, 3)
RAW = Spec("t", {"eye": Entry(SIZE, "uint8")}, (Continuous("arm", 1),), 10.0, 100, (0.0, 1.0))
SEEN = dataclasses.replace(RAW, observation={"eye": Entry((2, 2, 8), "int8", role="features", encoder="e:1", picture=SIZE)})
RANDOM = np.random.default_rng(0)


def sent(number: int) -> tuple[np.ndarray, bytes]:
    """A picture as a robot's camera sends it, and the JPEG."""
    smooth = Image.fromarray(RANDOM.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize((64, 48))
    data = io.BytesIO()
    smooth.save(data, "JPEG", quality=80)
    return pixels("eye", Frame(number, 0.0, data.getvalue()), SIZE), data.getvalue()


def steps(pictures: list[np.ndarray], features: bool) -> list[Transition]:
    looks = [{"eye": np.full((2, 2, 8), n, np.int8), "eye:picture": each} if features else {"eye": each} for n, each in enumerate(pictures)]
    made = [Transition(now, np.zeros(1, np.float32), 0.0, then, False, False, source="a") for now, then in pairwise(looks)]
    return [dataclasses.replace(step, seq=n, step=n, truncated=n == len(made) - 1) for n, step in enumerate(made)]


def stored(path: Path) -> list[tuple[str, bytes]]:
    with sqlite3.connect(path) as file:
        return file.execute("SELECT codec, record FROM frames ORDER BY rowid").fetchall()


@pytest.mark.parametrize("features", [False, True])
def test_the_bytes_that_came_are_stored_and_give_the_same_pixels(tmp_path: Path, features: bool) -> None:
    """Recorded with pictures, and sent over a link by an actor with an encoder."""
    came = [sent(number) for number in range(4)]
    made = steps([picture for picture, _ in came], features)
    with Journal.create(tmp_path / "journal.db", SEEN if features else RAW) as journal:
        if features:
            sender = FrameSender(SEEN)
            assert Intake(journal).append([(step.source, step.seq, sender.pack(step)) for step in made]) == 3
        else:
            journal.append(made)
        journal.pictured = True
        read = [step for _, step in journal.read()]
    found = stored(tmp_path / "journal.db")
    assert [codec for codec, _ in found] == ["jpeg"] * 4 and {record[DIGEST:] for _, record in found} == {jpeg for _, jpeg in came}
    for step, (now, _), (then, _) in zip(read, came, came[1:], strict=False):
        assert np.array_equal(step.observation["eye"], now) and np.array_equal(step.next_observation["eye"], then)

    with sqlite3.connect(tmp_path / "journal.db") as file:
        broken = bytearray(found[0][1])
        broken[-9] ^= 1
        file.execute("UPDATE frames SET record = ? WHERE record = ?", (bytes(broken), found[0][1]))
    with Journal.open(tmp_path / "journal.db") as journal, pytest.raises(FileUnreadable, match="its bytes have changed"):
        journal.pictured = True
        list(journal.read())


def test_a_picture_that_was_cut_or_never_was_a_jpeg_is_stored_without_loss(tmp_path: Path) -> None:
    _, jpeg = sent(0)
    cut = pixels("eye", Frame(0, 0.0, jpeg), SIZE, (0.0, 0.5, 0.0, 1.0))
    drawn = np.zeros(SIZE, np.uint8)
    assert RECEIVED.of(cut) is None and RECEIVED.of(drawn) is None
    with Journal.create(tmp_path / "journal.db", RAW) as journal:
        journal.append(steps([cut, drawn], features=False))
        [read] = [step for _, step in journal.read()]
    assert np.array_equal(read.observation["eye"], cut) and np.array_equal(read.next_observation["eye"], drawn)
    assert "jpeg" not in {codec for codec, _ in stored(tmp_path / "journal.db")}


def test_only_so_many_bytes_are_kept_and_the_oldest_go() -> None:
    kept = CameraBytes(most=100)
    pictures = [np.full(SIZE, number, np.uint8) for number in range(3)]
    for picture in [*pictures, pictures[2]]:
        kept.came_as(picture, bytes(40))
    assert [kept.of(picture) is None for picture in pictures] == [True, False, False], "120 bytes are too many"
