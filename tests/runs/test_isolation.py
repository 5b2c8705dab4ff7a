"""Lines, rows and files beside the work: they fail, are counted, and end nothing."""

import io
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tensorboardX.proto import event_pb2

from tandem.errors import ConfigError, StorageFull
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.runs.isolation import Apart, Bucket, Lines
from tandem.types import Continuous, Entry, Spec
from tests.small_disk import small_disk
from tests.waiting import wait_for

SPEC = Spec("toy", {"q": Entry((2,))}, (Continuous("force", 1),), 10, 100)
EVENTS: Any = event_pb2
TALKS = """
import sys
from tandem.runs.display import Display
display = Display(sys.argv[1])
for number in range(int(sys.argv[2])):
    display.say(f"line {number} " + "x" * 100)
print("went on", file=sys.stderr)
import os
from tandem.programs.parts import _let_go_of_output
_let_go_of_output()
"""


def test_a_line_that_cannot_be_written_is_counted_and_the_next_one_says_so() -> None:
    written, broken = [], [True]

    def say(line: str) -> None:
        if broken[0]:
            raise OSError(28, "No space left on device")
        written.append(line)

    lines = Lines(say)
    lines("one")
    lines("two")
    broken[0] = False
    lines("three")
    assert lines.missing == 2
    assert written == ["(2 lines before this one are missing: OSError: [Errno 28] No space left on device)", "three"]


def test_somebody_who_makes_us_talk_gets_a_bounded_number_of_lines() -> None:
    now, written = [0.0], []
    lines = Lines(written.append, Bucket(2.0, 3, clock=lambda: now[0]))
    for number in range(1000):
        lines(f"line {number}")
    now[0] = 1.0
    lines("later")
    assert written == ["line 0", "line 1", "line 2", "(997 lines before this one are missing: too many lines)", "later"]


def test_a_bucket_lets_a_burst_pass_and_then_its_rate() -> None:
    now = [0.0]
    bucket = Bucket(10.0, 5, clock=lambda: now[0])
    assert [bucket.take() for _ in range(6)] == [True] * 5 + [False]
    now[0] = 0.2  # 2 more
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    assert bucket.take_later(10) == pytest.approx(1.0)  # 10 at 10 per second
    assert bucket.take_later(10) == pytest.approx(2.0)
    now[0] = 100.0
    assert bucket.take_later(5) == 0.0
    assert bucket.take(50) is False


def test_a_failure_beside_the_work_is_said_once_and_again_when_it_is_over() -> None:
    said: list[str] = []
    apart = Apart(said.append)
    for number in range(5):
        with apart("the view"):
            if number < 3:
                raise RuntimeError("no OpenGL.")
    assert apart.failures["the view"] == 3
    assert said == [
        "the view failed: RuntimeError: no OpenGL. It is left out until it works again.",
        "the view works again (3 failures so far)",
    ]
    with pytest.raises(ConfigError), Apart(said.append, only=StorageFull)("the checkpoint"):
        raise ConfigError("another failure is not ours")


@pytest.mark.parametrize("mode", ["lines", "json"])
def test_a_closed_terminal_does_not_end_a_run(mode: str) -> None:
    """`tandem train | head -1`: rich ends the program when its pipe is closed, and Python says code 120 when it cannot flush."""
    process = subprocess.Popen([sys.executable, "-c", TALKS, mode, "1000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None and process.stderr is not None
        assert "line 0" in process.stdout.readline()
        process.stdout.close()
        assert "went on" in process.stderr.read()
    assert process.returncode == 0


def test_a_full_disk_under_the_terminals_log_does_not_end_a_run() -> None:
    """/dev/full answers every write with ENOSPC."""
    with open("/dev/full", "w") as full:
        process = subprocess.run([sys.executable, "-c", TALKS, "lines", "20"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert process.returncode == 0 and "went on" in process.stderr


def test_rows_for_tensorboard_on_a_full_disk_are_left_out_and_training_goes_on(tmp_path: Path) -> None:
    """The package's own thread died of the first failed write, and the trainer then waited forever for room in its queue."""
    with small_disk(tmp_path / "disk", 2) as disk:
        run = RunFolder.create(disk.folder / "run", "rlpd", {}, SPEC)
        run.add_loggers()
        run.loggers.log(0, {"loss": 1.0})
        disk.fill()
        began, reported = time.monotonic(), []
        run.loggers._report = lambda name, problem: reported.append((name, problem))

        def log() -> bool:
            for number in range(100):
                run.loggers.log(number, {f"metric {i}": 1.0 for i in range(50)})
            return bool(reported)

        wait_for(log, 30, "the logger to be left out")
        run.close()
        assert time.monotonic() - began < 30
        [(name, problem)] = reported
        assert name == "tensorboard" and "No space left" in problem
        disk.clear()
        run.add_loggers()  # a new one works
        run.loggers.log(1, {"loss": 2.0})
        run.close()


def tensorboard_values(run: RunFolder) -> list[tuple[int, Any]]:
    """The step and the value of each entry."""
    [file] = run.tensorboard.iterdir()
    data, found, at = file.read_bytes(), [], 0
    while at < len(data):  # length, its checksum, the event, its checksum
        size = int.from_bytes(data[at : at + 8], "little")
        event = EVENTS.Event.FromString(data[at + 12 : at + 12 + size])
        found += [(event.step, value) for value in event.summary.value]
        at += 12 + size + 4
    return found


def test_tensorboard_can_read_what_is_written(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", "rlpd", {}, SPEC)
    run.add_loggers()
    for number in range(3):
        run.loggers.log(number, {"loss": float(number)})
    run.close()
    found = [(step, value.tag, value.simple_value) for step, value in tensorboard_values(run)]
    assert found == [(0, "loss", 0.0), (1, "loss", 1.0), (2, "loss", 2.0)]


def test_tensorboard_shows_what_cameras_saw(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", "rlpd", {}, SPEC)
    run.add_loggers()
    seen = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    run.loggers.show(500, {"wrist_left": seen})
    run.close()
    [(step, value)] = tensorboard_values(run)
    assert (step, value.tag, value.image.height, value.image.width) == (500, "cameras/wrist_left", 4, 6)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(value.image.encoded_image_string))), seen)


def test_a_folder_for_tensorboard_that_cannot_be_made_is_an_event(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", "rlpd", {}, SPEC)
    run.tensorboard.write_text("in the way")
    run.add_loggers()
    assert [event["kind"] for event in run.events()] == ["logger_failed"]
    run.log_line("half of a character: \ud800")  # nor does that raise
    Display("quiet").say("nothing")
