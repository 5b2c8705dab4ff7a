"""The commands as a person meets them: real processes, real files, and everything that can be typed or found wrong."""

import ctypes.util
import dataclasses
import os
import pickle
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from tandem.cli import COMMANDS
from tandem.data.demos import load_demos, read_demos
from tandem.data.journal import Journal
from tandem.envs.reach import SPEC as REACH
from tests.drawing import drawing  # noqa: F401  a fixture

TANDEM = (sys.executable, "-m", "tandem.cli")
AT_MOST_100_KB = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); from tandem.cli import main; main()"
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from tandem.cli import main; main()"
"""A process that was started in the background may have been told to ignore interrupts."""

Result = subprocess.CompletedProcess[str]


def tandem(*arguments: object, cwd: Path, start: tuple[str, ...] = TANDEM, env: dict[str, str] | None = None) -> Result:
    command = [*start, *(str(argument) for argument in arguments)]
    environment = {**os.environ, "COLUMNS": "80", **(env or {})}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60)


def assert_done(result: Result, *says: str) -> None:
    assert result.returncode == 0, result.stderr
    assert not [text for text in says if text not in result.stdout], result.stdout


def assert_refused(result: Result, *says: str) -> None:
    """Non-zero, and an error written for a person, on stderr."""
    assert result.returncode in (1, 2), result
    assert result.stderr.startswith("error: ") and "Traceback" not in result.stderr, result.stderr
    assert not [text for text in says if text not in result.stderr], result.stderr


def only(folder: Path, pattern: str) -> Path:
    [path] = folder.glob(pattern)
    return path


@pytest.fixture(scope="module")
def reach_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    assert_done(tandem("record", "reach", "--demos", 3, "--out", "demos", "--quiet", cwd=folder), "wrote demos/reach_3_demos_")
    return only(folder / "demos", "reach_3_demos_*.db")


# ---- what is meant to work


def test_recorded_gears_are_reported_within_80_columns_and_validate(tmp_path: Path) -> None:
    recorded = tandem("record", "gear_assembly", "--operator", "scripted", "--demos", 2, cwd=tmp_path)
    path = only(tmp_path / "demos", "gear_assembly_2_demos_*.db")
    assert_done(recorded, "2, 100% successful", "previous_action", f"wrote demos/{path.name}")
    inspected = tandem("demos", "inspect", path, "--task", "gear_assembly", cwd=tmp_path)
    assert_done(inspected, path.name, "operator scripted, seed 0", "2, 100% successful")
    assert max(len(line) for line in inspected.stdout.splitlines()) <= 80
    # the columns stand in line: every entry's shape begins where its heading does
    lines = inspected.stdout.splitlines()
    heading = next(line for line in lines if line.startswith("observation"))
    for name in ("tcp_pose", "previous_action", "gear_phase"):
        line = next(line for line in lines if line.startswith(f"  {name} "))
        assert line.index("(") == heading.index("shape")
    assert_done(tandem("demos", "validate", path, "--task", "gear_assembly", cwd=tmp_path), "ok: ")


def test_the_same_seed_records_the_same_steps(reach_file: Path, tmp_path: Path) -> None:
    assert_done(tandem("record", "reach", "--demos", 3, "--out", ".", "--quiet", cwd=tmp_path))
    again = load_demos(only(tmp_path, "reach_3_demos_*.db"), REACH)
    assert all(np.array_equal(a.action, b.action) for a, b in zip(load_demos(reach_file, REACH), again, strict=True))


def test_play_makes_a_film_and_a_strip_of_pictures(tmp_path: Path, drawing: dict[str, str]) -> None:  # noqa: F811
    played = tandem("play", "reach", "--episodes", 2, "--size", 161, 120, cwd=tmp_path, env=drawing)
    assert_done(played, "episode 0: success after ", "film videos/reach_scripted.mp4", "pictures videos/reach_scripted.png")
    actions = sum(int(count) for count in re.findall(r"after (\d+) actions", played.stdout))
    # per episode: the start, one frame for each action, and the last one held for half a second at 10 Hz
    frames, _ = imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "videos/reach_scripted.mp4"))
    assert frames == actions + 2 * (1 + 5)
    pixels = np.asarray(Image.open(tmp_path / "videos/reach_scripted.png"))
    assert pixels.shape == (2 * 120, 4 * 161, 3)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 100, "a picture of one colour shows nothing"
    assert sorted(path.name for path in (tmp_path / "videos").iterdir()) == ["reach_scripted.mp4", "reach_scripted.png"]


def test_tasks_are_listed(tmp_path: Path) -> None:
    assert_done(tandem("tasks", cwd=tmp_path), "gear_assembly", "reach", "module:Id")


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("demos", "reward")])  # their actions: test_show_demos.py
def test_help_says_something_about_every_option(command: str, tmp_path: Path) -> None:
    shown = tandem(command, "--help", cwd=tmp_path, env={"COLUMNS": "110"})  # wide enough for the longest pair of flags
    assert_done(shown, f"usage: tandem {command}")
    lines = [line[1:-1].rstrip() for line in shown.stdout.splitlines() if line.startswith("│") and "──" not in line]
    options = re.split(r"\n(?= \S)", "\n".join(lines))  # an option begins a line, what is said about it is indented
    assert options
    for option in options:
        said = re.sub(r"\((default|required|fixed|repeatable)[^)]*\)|\{[^}]*\}\S*|-{1,2}[a-z][\w.-]*,?|\b[A-Z]+\b", "", option)
        assert len(re.findall(r"[a-z]{2,}", said)) >= 2, f"nothing is said about: {option}"


# ---- what is typed wrong


@pytest.mark.parametrize(
    "arguments", [("record", "gear_asembly"), ("play", "gear_asembly"), ("demos", "inspect", "a.db", "--task", "gear_asembly")]
)
def test_an_unknown_task_suggests_the_nearest(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert_refused(tandem(*arguments, cwd=tmp_path), "no task 'gear_asembly'", "Did you mean 'gear_assembly'")
    assert not list(tmp_path.iterdir()), "nothing is left behind"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("record", "reach", "--demos", "0"), "--demos must be at least 1, got 0"),
        (("record", "Pendulum-v1"), "'Pendulum-v1' has no scripted operator"),
        (("record", "reach", "--operator", "nobody"), "no operator 'nobody'; there are scripted, policy:RUN, browser"),
        (("teleop", "test", "--device", "gamepad", "--mapping", "none.toml"), "there is no mapping file none.toml"),
        (("train", "reach", "--operator", "nobody"), "no operator 'nobody'; there are browser, none, person:scripted"),
        (("record", "reach", "--out", "taken"), "cannot create the folder taken"),
        (("play", "reach", "--film", "--episodes", "0"), "at least one episode, got 0"),
        (("play", "reach", "--film", "--out", "taken"), "cannot create the folder taken"),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    assert_refused(tandem(*arguments, cwd=tmp_path), says)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("record",), "TASK"), (("record", "reach", "--demos", "many"), "'many'"), (("recrod", "reach"), "record")],
)
def test_a_command_that_cannot_be_parsed_is_explained(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    result = tandem(*arguments, cwd=tmp_path)
    assert result.returncode == 2 and says in result.stderr and "Traceback" not in result.stderr


# ---- files that cannot be used


def cut_off(good: Path, path: Path) -> str:
    path.write_bytes(good.read_bytes()[: good.stat().st_size // 2])
    return "is cut off"


def of_no_bytes(good: Path, path: Path) -> str:
    del good
    path.touch()
    return "it is empty"


def without_steps(good: Path, path: Path) -> str:
    del good
    Journal.create(path, REACH, live=False).finish()
    return "holds no steps"


def not_there(good: Path, path: Path) -> str:
    del good
    return f"there is no file {path.name}"


def that_runs_code(good: Path, path: Path) -> str:
    del good

    class Hostile:
        def __reduce__(self) -> tuple[Callable, tuple]:
            return os.system, ("touch owned",)

    path.write_bytes(pickle.dumps([{"observations": Hostile()}]))
    return f"asks for {os.system.__module__}.system, which is neither an array nor a plain container"


@pytest.mark.parametrize("action", ["inspect", "validate"])
@pytest.mark.parametrize("damage", [not_there, of_no_bytes, without_steps, cut_off, that_runs_code])
def test_a_file_that_cannot_be_used_is_named_with_the_reason(action: str, damage: Callable, reach_file: Path, tmp_path: Path) -> None:
    says = damage(reach_file, tmp_path / "bad.db")
    assert_refused(tandem("demos", action, "bad.db", cwd=tmp_path), says)
    assert not (tmp_path / "owned").exists(), "code in the file was run"


def test_a_file_of_another_task_is_refused_with_each_difference(reach_file: Path, tmp_path: Path) -> None:
    for action in ("inspect", "validate"):
        refused = tandem("demos", action, reach_file, "--task", "gear_assembly", cwd=tmp_path)
        assert_refused(refused, "observation entry 'wrench' (6,): only here", "observation entry 'to_ball' (3,): only there")


def test_a_step_with_nan_is_named_with_its_entry_and_index(reach_file: Path, tmp_path: Path) -> None:
    steps = read_demos(reach_file).transitions
    bad = np.array([0.1, np.nan, 0.0], np.float32)
    steps[2] = dataclasses.replace(steps[2], observation=steps[2].observation | {"to_ball": bad})
    with Journal.create(tmp_path / "nan.db", REACH) as journal:
        journal.append(steps)
    refused = tandem("demos", "validate", "nan.db", cwd=tmp_path)
    assert_refused(refused, "episode 0, step 2: observation entry 'to_ball' has nan at [1]")


def test_brackets_and_colons_in_a_name_are_shown_as_they_are(tmp_path: Path) -> None:
    """Rich takes [red] for a colour, [/] for the end of one (and fails where there is none) and :car: for a picture."""
    for name in ("[red]lost[1, 0].db", "a[/].db", ":car:.db"):
        assert_refused(tandem("demos", "validate", name, cwd=tmp_path), f"there is no file {name} (")
    assert_refused(tandem("demos", "inspect", "a[/].db", cwd=tmp_path), "there is no file a[/].db (")
    recorded = tandem("record", "reach", "--demos", 1, "--out", "[red]", "--quiet", cwd=tmp_path)
    assert_done(recorded, "wrote [red]/reach_1_demos_")


# ---- a machine that does not play along


def test_a_full_disk_leaves_no_half_written_file_and_says_what_was_kept(tmp_path: Path) -> None:
    """100 kB have room for a handful of the 200 demonstrations."""
    start = (sys.executable, "-c", AT_MOST_100_KB)
    result = tandem("record", "reach", "--demos", 200, "--out", ".", "--quiet", cwd=tmp_path, start=start)
    partial = only(tmp_path, "*")
    assert partial.name.endswith(".db.partial"), "nothing half-written bears the final name"
    kept = read_demos(partial).episodes()
    assert 1 <= len(kept) < 200 and all(episode[-1].success for episode in kept)
    assert_refused(result, "no more room", f"{len(kept)} complete episodes are kept in {partial.name}")
    assert len(load_demos(partial, REACH)) == sum(len(episode) for episode in kept)


def test_a_full_disk_leaves_no_half_written_film(tmp_path: Path, drawing: dict[str, str]) -> None:  # noqa: F811
    start = (sys.executable, "-c", AT_MOST_100_KB.replace("100_000", "5_000"))
    result = tandem("play", "reach", "--episodes", 1, "--size", 160, 120, cwd=tmp_path, start=start, env=drawing)
    assert_refused(result, "cannot write the film videos/reach_scripted.mp4")
    assert not list((tmp_path / "videos").iterdir())


def test_an_interrupt_keeps_the_complete_episodes_and_says_where(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTIBLE, "record", "gear_assembly", "--demos", "1000", "--out", "."]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not _stored_steps(tmp_path):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    partial = only(tmp_path, "*")
    kept = len(read_demos(partial).episodes())
    assert process.returncode == 130 and "Traceback" not in stderr
    assert stderr.startswith("stopped. ") and f"{kept} of 1000 episodes are kept in {partial.name}" in stderr
    assert kept >= 1 and partial.name.endswith(".partial")


def _stored_steps(folder: Path) -> int:
    for path in folder.glob("*.partial"):
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return connection.execute("SELECT count(*) FROM steps").fetchone()[0]
        except sqlite3.OperationalError:  # not made yet
            return 0
        finally:
            connection.close()
    return 0


@pytest.mark.parametrize("backend", ["nonsense", "disable", "osmesa"])
def test_without_opengl_it_says_what_to_install(backend: str, tmp_path: Path) -> None:
    if backend == "osmesa" and ctypes.util.find_library("OSMesa"):
        pytest.skip("OSMesa is installed here, so drawing with it works")
    result = tandem("play", "reach", "--episodes", 1, "--film", cwd=tmp_path, env={"MUJOCO_GL": backend})
    assert_refused(result, f"MUJOCO_GL={backend!r}", "apt install libegl1 libgl1-mesa-dri", "MUJOCO_GL=egl")


# ---- the table


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_summary_is_the_first_line_of_its_docstring(name: str) -> None:
    command = COMMANDS[name]
    assert (command.function().__doc__ or "").splitlines()[0] == command.summary
