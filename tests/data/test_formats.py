"""Formats of others go in and out: what was exported comes back bit for bit, and files of others become sound episodes."""

import dataclasses
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from benchmarks.demo_faults import SPEC, episodes, fork_pickle, write
from benchmarks.demos import PEERS, imports_what_lerobot_writes, peer_reads, reader
from tandem.cli import run
from tandem.data.demos import Recording, load_demos, read_demos
from tandem.data.formats.kinds import open_any
from tandem.data.hil_serl import HilSerlFile
from tandem.errors import ConfigError, DataError, FileUnreadable, InvalidTransition, SpecMismatch
from tandem.programs.pictures import Film
from tandem.types import Transition

SHORT = episodes(3, length=20)


def imported(tmp_path: Path, path: Path, *options: str) -> Recording:
    out = tmp_path / f"in{len(list(tmp_path.iterdir()))}"
    assert run("demos", ["import", str(path), "--out", str(out), *options]) == 0
    [made] = out.iterdir()
    return read_demos(made)


def assert_same_steps(one: list[Transition], other: list[Transition]) -> None:
    assert len(one) == len(other)
    for step, found in zip(one, other, strict=True):
        for field in dataclasses.fields(step):
            if field.name not in ("source", "seq"):
                np.testing.assert_equal(getattr(step, field.name), getattr(found, field.name), err_msg=field.name)


@pytest.mark.parametrize("name", ["lerobot", "robomimic", "minari"])
def test_what_was_exported_comes_back_bit_for_bit(tmp_path: Path, name: str) -> None:
    """Also an episode that was cut off, and one of which nobody knows whether it succeeded is refused by LeRobot alone."""
    cut = dataclasses.replace(SHORT[1][-1], terminated=False, truncated=True, success=False, reward=0.25, intervened=True)
    path = write(tmp_path / "mine.db", [SHORT[0], [*SHORT[1][:-1], cut], SHORT[2]])
    out = tmp_path / ("out.hdf5" if name == "robomimic" else "out")
    assert run("demos", ["export", str(path), "--format", name, "--out", str(out)]) == 0
    mine, back = read_demos(path), imported(tmp_path, out)
    assert not mine.spec.difference(back.spec)
    assert_same_steps(mine.transitions, back.transitions)
    assert_same_steps(mine.transitions, load_demos(out, mine.spec))  # as `tandem train --demos` reads it
    with pytest.raises(ConfigError, match="exists already"):
        run("demos", ["export", str(path), "--format", name, "--out", str(out)])


def test_an_episode_with_a_gap_is_not_exported(tmp_path: Path) -> None:
    path = write(tmp_path / "torn.db", [[*SHORT[0][:5], *SHORT[0][8:]]])
    with pytest.raises(DataError, match="has a gap after step 4"):
        run("demos", ["export", str(path), "--format", "minari", "--out", str(tmp_path / "out")])


def lerobot_v21(folder: Path) -> Path:
    """Two episodes of four frames, the second without an end."""
    features = {
        "observation.state": {"dtype": "float32", "shape": [2], "names": ["x", "y"]},
        "action": {"dtype": "float32", "shape": [1], "names": ["a"]},
        "next.reward": {"dtype": "float32", "shape": [1], "names": None},
        "next.done": {"dtype": "bool", "shape": [1], "names": None},
    }
    info = {"codebase_version": "v2.1", "fps": 30, "total_episodes": 2, "chunks_size": 1000, "features": features}
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    (folder / "data" / "chunk-000").mkdir(parents=True)
    for number in range(2):
        ends = [number == 0 and frame == 3 for frame in range(4)]
        table = {
            "observation.state": pa.array([[number, frame] for frame in range(4)], pa.list_(pa.float32())),
            "action": pa.array([frame / 4 for frame in range(4)], pa.float32()),
            "next.reward": pa.array([float(end) for end in ends], pa.float32()),
            "next.done": pa.array(ends),
            "episode_index": pa.array([number] * 4),
        }
        pq.write_table(pa.table(table), folder / "data" / "chunk-000" / f"episode_{number:06d}.parquet")
    return folder


def test_a_lerobot_dataset_of_version_2_1(tmp_path: Path) -> None:
    """The observation after the last step is not in it: kept where the task ended, left out where it goes on."""
    back = imported(tmp_path, lerobot_v21(tmp_path / "theirs"))
    first, second = back.episodes()
    assert [len(first), len(second)] == [4, 3] and back.spec.control_hz == 30
    assert first[-1].terminated and first[-1].success and second[-1].truncated and not second[-1].success
    np.testing.assert_array_equal(second[-1].next_observation["state"], [1, 3])
    with pytest.raises(SpecMismatch, match=r"'state' \(2,\): only there"):
        run("demos", ["import", str(tmp_path / "theirs"), "--task", "reach", "--out", str(tmp_path / "no")])


LEVELS = {0: [30, 60, 90, 120, 150], 1: [200, 170, 140, 110, 80, 50, 20]}
"""How bright each frame of a filmed episode is."""
WRIST = "observation.images.wrist"


def filmed_lerobot(folder: Path, version: str) -> Path:
    """As LeRobot lays out two filmed episodes: one film for each in version 2.1, one for all in version 3. Brightness 250: not ours."""
    shapes = {"observation.state": ("float32", [1]), WRIST: ("video", [32, 48, 3]), "action": ("float32", [1]), "next.done": ("bool", [1])}
    features = {name: {"dtype": dtype, "shape": shape, "names": None} for name, (dtype, shape) in shapes.items()}
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(
        json.dumps({"codebase_version": version, "fps": 10, "total_episodes": 2, "chunks_size": 1000, "features": features})
    )
    tables, rows, begins = [], [], 0
    for number, levels in LEVELS.items():
        table = {"observation.state": pa.array([[level] for level in levels], pa.list_(pa.float32()))}
        table |= {"action": pa.array([[0.5]] * len(levels), pa.list_(pa.float32()))}
        table |= {"next.done": [False] * (len(levels) - 1) + [True], "episode_index": [number] * len(levels)}
        tables.append(pa.table(table))
        film = {f"videos/{WRIST}/chunk_index": 0, f"videos/{WRIST}/file_index": 0, f"videos/{WRIST}/from_timestamp": begins / 10}
        rows.append({"episode_index": number, "length": len(levels), "data/chunk_index": 0, "data/file_index": 0, **film})
        begins += len(levels)
    if version == "v3.0":
        files = {"data/chunk-000/file-000.parquet": pa.concat_tables(tables), "meta/episodes/chunk-000/file-000.parquet": rows}
        films = {f"videos/{WRIST}/chunk-000/file-000.mp4": [*LEVELS[0], *LEVELS[1], 250]}
    else:
        files = {f"data/chunk-000/episode_{number:06d}.parquet": table for number, table in enumerate(tables)}
        films = {f"videos/chunk-000/{WRIST}/episode_{number:06d}.mp4": [*levels, 250] for number, levels in LEVELS.items()}
    for name, table in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(table) if isinstance(table, list) else table, folder / name)
    for name, levels in films.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with Film(folder / name, 10) as film:
            for level in levels:
                film.add(np.full((32, 48, 3), level, np.uint8))
    return folder


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_every_step_of_a_filmed_lerobot_dataset_gets_its_own_frame(tmp_path: Path, version: str) -> None:
    """The state is the brightness that belongs to it. Nobody knows whether these episodes succeeded."""
    back = imported(tmp_path, filmed_lerobot(tmp_path / "theirs", version))
    assert [len(steps) for steps in back.episodes()] == [4, 6] and back.spec.observation["wrist"].shape == (32, 48, 3)
    for steps in back.episodes():
        for look in [*(step.observation for step in steps), steps[-1].next_observation]:
            assert float(look["wrist"].mean()) == pytest.approx(float(look["state"][0]), abs=4), "compression is not exact"
        assert steps[-1].truncated and steps[-1].success is None


def test_a_film_that_is_too_short_is_named(tmp_path: Path) -> None:
    folder = filmed_lerobot(tmp_path / "theirs", "v2.1")
    path = folder / f"videos/chunk-000/{WRIST}/episode_000000.mp4"
    with Film(path, 10) as film:
        film.add(np.zeros((32, 48, 3), np.uint8))
    with pytest.raises(FileUnreadable, match=r"episode_000000.mp4 has 1 of the 5 frames"):
        imported(tmp_path, folder)
    path.unlink()
    with pytest.raises(FileUnreadable, match=r"the film .*episode_000000.mp4 is missing"):
        imported(tmp_path, folder)


def minari_folder(folder: Path) -> Path:
    """A dataset of Minari's, of an environment with a Dict of observations, one picture stored as JPEG; nothing is said of success."""
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "metadata.json").write_text(json.dumps({"dataset_id": "push/expert-v0", "data_format": "hdf5"}))
    with h5py.File(folder / "data" / "main_data.hdf5", "w") as file:
        for number, steps in ((0, 4), (10, 3), (2, 5)):  # in the order of their numbers, not of their names
            group: Any = file.create_group(f"episode_{number}")
            group["observations/robot/place"] = np.linspace(0, number, steps + 1)[:, None]
            group["observations/goal"] = np.full((steps + 1, 2), number, np.float32)
            pictures = group.create_dataset("observations/eye", steps + 1, h5py.vlen_dtype(np.uint8))
            for frame in range(steps + 1):
                pictures[frame] = np.frombuffer(jpeg(20 * frame), np.uint8)
            group["actions"], group["rewards"] = np.full((steps, 2), 0.25), np.eye(steps)[-1]
            group["terminations"], group["truncations"] = np.arange(steps) == (steps - 1 if number else -1), np.arange(steps) == steps - 1
    return folder


def jpeg(level: int) -> bytes:
    data = io.BytesIO()
    Image.fromarray(np.full((16, 16, 3), level, np.uint8)).save(data, "JPEG")
    return data.getvalue()


def test_a_dataset_of_minari(tmp_path: Path) -> None:
    back = imported(tmp_path, minari_folder(tmp_path / "theirs"))
    assert back.spec.task == "push/expert-v0" and [len(steps) for steps in back.episodes()] == [4, 5, 3]
    assert set(back.spec.observation) == {"robot.place", "goal", "eye"} and back.spec.observation["eye"].shape == (16, 16, 3)
    first, second, _ = back.episodes()
    assert (first[-1].terminated, first[-1].truncated, second[-1].terminated) == (False, True, True)
    np.testing.assert_allclose([step.observation["eye"].mean() for step in second], [0, 20, 40, 60, 80], atol=2)
    np.testing.assert_allclose(second[-1].next_observation["robot.place"], [2.0])


def robomimic_file(path: Path, scale: float = 1.0) -> Path:
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps({"env_name": "Lift", "env_type": 1})
        for number in range(2):
            demo: Any = data.create_group(f"demo_{number}")
            looks = np.arange(6.0)[:, None] + [number, 0]
            demo["obs/eef"], demo["next_obs/eef"] = looks[:5], looks[1:]
            demo["actions"] = scale * np.linspace(-1, 1, 10).reshape(5, 2)
            demo["rewards"], demo["dones"] = [0, 0, 0, 1, 1], [0, 0, 0, 1, 1]
    return path


def test_a_robomimic_file_ends_at_its_first_done_and_needs_actions_in_range(tmp_path: Path) -> None:
    back = imported(tmp_path, robomimic_file(tmp_path / "lift.hdf5"))
    assert back.spec.task == "Lift" and [len(steps) for steps in back.episodes()] == [4, 4]
    assert [steps[-1].terminated and steps[-1].success for steps in back.episodes()] == [True, True]
    large = robomimic_file(tmp_path / "large.hdf5", scale=4.0)
    with pytest.raises(InvalidTransition, match=r"action at \[0\] is -4.*--fit-actions"):
        imported(tmp_path, large)
    fitted = imported(tmp_path, large, "--fit-actions")
    assert fitted.transitions[0].action[0] == -1 and fitted.spec.action[0].meaning.startswith("(action - offset) / scale")


def test_training_names_the_import_of_a_file_that_does_not_fit(tmp_path: Path) -> None:
    path, out = write(tmp_path / "mine.db", SHORT), tmp_path / "out.hdf5"
    run("demos", ["export", str(path), "--format", "robomimic", "--out", str(out)])
    other = dataclasses.replace(SPEC, task="reach", observation=dict(list(SPEC.observation.items())[1:]))
    with pytest.raises(SpecMismatch, match=r"does not fit the task 'reach'.*tandem demos import .*out.hdf5 --task reach \[--fit-actions\]"):
        load_demos(out, other)


def test_a_link_out_of_the_file_is_not_followed(tmp_path: Path) -> None:
    path = robomimic_file(tmp_path / "lift.hdf5")
    with h5py.File(path, "a") as file:
        del file["data/demo_0/actions"]
        file["data/demo_0/actions"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "/secret")
    with pytest.raises(FileUnreadable, match="points outside of the file"):
        imported(tmp_path, path)


@pytest.mark.parametrize("damage", [b"", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n" + b"\0" * 500])
def test_damaged_files_are_refused_in_words(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "bad.hdf5"
    path.write_bytes(damage)
    with pytest.raises(FileUnreadable):
        imported(tmp_path, path)


def test_a_large_pickle_is_not_held_in_memory(tmp_path: Path) -> None:
    path = fork_pickle(tmp_path / "large.pkl", 6, 60, pictures=64)
    size = path.stat().st_size
    assert size > 15e6
    tracemalloc.start()
    with HilSerlFile(path, None) as file:
        lengths = [len(steps) for steps in file.episodes()]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(lengths) == 6 and peak < size / 2, f"{peak / 1e6:.1f} MB of {size / 1e6:.1f}"


def test_a_file_of_others_is_checked_without_an_import(tmp_path: Path) -> None:
    assert run("demos", ["check", str(robomimic_file(tmp_path / "lift.hdf5"))]) == 0
    with open_any(tmp_path / "lift.hdf5") as opened:
        assert opened.kind == "robomimic" and SPEC.task != opened.spec.task


@pytest.mark.parametrize("name", PEERS)
def test_the_peers_own_reader_opens_what_was_exported(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "mine.db", SHORT)
    reader(name)
    assert peer_reads(name, path, tmp_path)


def test_a_filmed_dataset_that_lerobot_itself_wrote_is_imported(tmp_path: Path) -> None:
    assert imports_what_lerobot_writes(tmp_path)
