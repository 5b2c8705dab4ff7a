"""LeRobotDataset: read in the versions 2.1 and 3, written in version 3.

    meta/info.json      version, fps, features; in ours also `tandem`: the spec and the attributes of the file
    data/               one row for each frame: observation.state, observation.images.NAME, action, next.reward, next.done, ...
    videos/             MP4, where the pictures are not in the rows
    meta/tandem_last.npz   in ours: the observation after the last step of each episode, for which the format has no place

Of a dataset of somebody else, the observation after the last step is not known. If the task ended there, nothing depends on it, and the
last one stands for it; otherwise the last frame is left out.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tandem.data.demos import OpenDemos
from tandem.data.figures import action_names
from tandem.data.formats.columns import Columns, Foreign, columns_of, guessed_spec, ours, read_ours
from tandem.data.frames import PNG_CHANNELS, png
from tandem.errors import DataError, FileUnreadable
from tandem.files import whole_or_nothing
from tandem.types import Spec

VERSION = "v3.0"
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
OLD_DATA_PATH = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
LAST = "meta/tandem_last.npz"
FILE_BYTES = 100 * 10**6
_STATE, _PRIVILEGED, _IMAGES = "observation.state", "observation.environment_state", "observation.images."
_PLAIN = {"timestamp": "float32", "frame_index": "int64", "episode_index": "int64", "index": "int64", "task_index": "int64"}


# ---- reading


@contextlib.contextmanager
def open_lerobot(folder: Path) -> Iterator[Foreign]:
    info = _info(folder)
    version = str(info.get("codebase_version"))
    if version not in ("v2.1", "v2.0", VERSION):
        raise FileUnreadable(f"{folder} is a LeRobotDataset of version {version}; versions v2.0, v2.1 and {VERSION} are read.")
    tables = _tables_v3 if version == VERSION else _tables_v2
    if "tandem" in info:
        spec, attributes = read_ours(info["tandem"], folder)
        yield Foreign("LeRobot", spec, lambda: _ours(folder, info, spec), lambda: _actions(folder, info, tables), attributes, ours=True)
        return
    spec = _guessed(folder, info, tables)
    yield Foreign("LeRobot", spec, lambda: _theirs(folder, info, tables), lambda: _actions(folder, info, tables))


def _info(folder: Path) -> dict[str, Any]:
    try:
        info = dict(json.loads((folder / "meta" / "info.json").read_text()))
        info["fps"] = float(info["fps"])
        info["features"] = {str(name): dict(feature) for name, feature in dict(info["features"]).items()}
        return info
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise FileUnreadable(f"{folder} is no LeRobotDataset that can be read: meta/info.json: {problem!r}.") from None


def _parquet(path: Path, **options: Any) -> pa.Table:
    try:
        return pq.read_table(path, **options)
    except (OSError, pa.ArrowException) as problem:
        raise FileUnreadable(f"cannot read {path}: {problem}") from None


Tables = Callable[[Path, Mapping[str, Any], Sequence[str] | None], Iterator[tuple[pa.Table, Mapping[str, Any]]]]
"""The rows of each episode, and what else is said of it."""


def _tables_v2(folder: Path, info: Mapping[str, Any], names: Sequence[str] | None) -> Iterator[tuple[pa.Table, Mapping[str, Any]]]:
    for number in range(int(info["total_episodes"])):
        chunk = number // int(info.get("chunks_size", 1000))
        path = folder / OLD_DATA_PATH.format(episode_chunk=chunk, episode_index=number)
        yield _parquet(path, columns=names), {"film": f"videos/chunk-{chunk:03d}/{{}}/episode_{number:06d}.mp4"}


def _tables_v3(folder: Path, info: Mapping[str, Any], names: Sequence[str] | None) -> Iterator[tuple[pa.Table, Mapping[str, Any]]]:
    for file in sorted(folder.glob("meta/episodes/*/*.parquet")):
        table = _parquet(file)
        for row in table.select([name for name in table.column_names if not name.startswith("stats/")]).to_pylist():
            path = folder / DATA_PATH.format(chunk_index=int(row["data/chunk_index"]), file_index=int(row["data/file_index"]))
            yield _parquet(path, columns=names, filters=[("episode_index", "=", int(row["episode_index"]))]), row


def _actions(folder: Path, info: Mapping[str, Any], tables: Tables) -> np.ndarray:
    return np.concatenate([_values(table, "action") for table, _ in tables(folder, info, ["action", "episode_index"])])


def _values(table: pa.Table, name: str) -> np.ndarray:
    if name not in table.column_names:
        raise FileUnreadable(f"a LeRobotDataset without the column '{name}'")
    return np.array(table[name].to_pylist())


def _guessed(folder: Path, info: Mapping[str, Any], tables: Tables) -> Spec:
    shapes = {}
    for name, feature in info["features"].items():
        if not name.startswith("observation."):
            continue
        shape = tuple(int(n) for n in feature["shape"])
        picture = feature["dtype"] in ("image", "video")
        if picture and len(shape) == 3 and shape[0] in (1, 3) and shape[2] not in (1, 3):
            shape = (*shape[1:], shape[0])  # channels first
        shapes[_entry(name)] = shape, "uint8" if picture else str(feature["dtype"])
    feature = info["features"]["action"]
    lengths = [len(table) for table, _ in tables(folder, info, ["episode_index"])]
    names = feature.get("names")
    axes = [str(axis) for axis in names] if isinstance(names, list) else []
    return guessed_spec(folder.name, shapes, int(np.prod(feature["shape"])), info["fps"], max(lengths, default=1), axes)


def _entry(name: str) -> str:
    return name.removeprefix(_IMAGES).removeprefix("observation.")


def _theirs(folder: Path, info: Mapping[str, Any], tables: Tables) -> Iterator[Columns]:
    names = [name for name in info["features"] if name.startswith("observation.")]
    for table, about in tables(folder, info, None):
        looks = {_entry(name): _looks(folder, info, name, table, about) for name in names}
        steps = len(table)
        rewards = _values(table, "next.reward").reshape(-1) if "next.reward" in table.column_names else np.zeros(steps)
        success = _values(table, "next.success").reshape(-1).astype(bool) if "next.success" in table.column_names else None
        cut = _values(table, "next.truncated").reshape(-1).astype(bool) if "next.truncated" in table.column_names else np.zeros(steps, bool)
        done = _values(table, "next.done").reshape(-1).astype(bool) if "next.done" in table.column_names else np.zeros(steps, bool)
        # without rewards every frame is followed by the next one; an episode that is not said to have ended is cut off
        terminated = done & ~cut & ((rewards > 0) if rewards.any() else np.zeros(steps, bool) | bool(success is not None and success.any()))
        success = success if success is not None or not rewards.any() else terminated & (rewards > 0)
        keep = steps if terminated[-1] else steps - 1
        if keep < 1:
            continue
        truncated = np.zeros(steps, bool)
        truncated[keep - 1] = not terminated[keep - 1]
        yield Columns(
            {name: np.concatenate([values, values[-1:]])[: keep + 1] for name, values in looks.items()},
            _values(table, "action")[:keep].reshape(keep, -1),
            rewards[:keep],
            terminated[:keep],
            truncated[:keep],
            None if success is None else success[:keep],
        )


def _looks(folder: Path, info: Mapping[str, Any], name: str, table: pa.Table, about: Mapping[str, Any]) -> np.ndarray:
    feature = info["features"][name]
    if feature["dtype"] == "video":
        return _film(folder, info, name, len(table), about)
    if feature["dtype"] == "image":
        return np.stack([_picture(cell) for cell in table[name].to_pylist()])
    return _values(table, name)


def _picture(cell: Any) -> np.ndarray:
    try:
        with Image.open(io.BytesIO(cell["bytes"]), formats=("PNG", "JPEG")) as image:
            picture = np.asarray(image, np.uint8)
        return picture if picture.ndim == 3 else picture[..., None]
    except Exception as problem:  # Pillow raises almost anything
        raise FileUnreadable(f"a picture of the dataset cannot be decoded ({type(problem).__name__}: {problem})") from None


def _film(folder: Path, info: Mapping[str, Any], name: str, frames: int, about: Mapping[str, Any]) -> np.ndarray:
    """The pictures of one episode, out of its film or out of one with several episodes."""
    if "film" in about:
        path, start = folder / str(about["film"]).format(name), 0.0
    else:
        chunk, number = int(about[f"videos/{name}/chunk_index"]), int(about[f"videos/{name}/file_index"])
        path, start = folder / f"videos/{name}/chunk-{chunk:03d}/file-{number:03d}.mp4", float(about[f"videos/{name}/from_timestamp"])
    shape = [int(n) for n in info["features"][name]["shape"]]
    height, width = shape[1:] if shape[0] in (1, 3) and shape[2] not in (1, 3) else shape[:2]
    if not path.exists():
        raise FileUnreadable(f"the film {path} is missing.")
    seek = ["-ss", f"{max(0.0, start - 0.5 / info['fps']):.6f}"] if start else []
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", *seek, "-i", str(path), "-frames:v", str(frames)]
    made = subprocess.run([*command, "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-"], capture_output=True)
    if len(made.stdout) != frames * height * width * 3:
        said = made.stderr.decode(errors="replace").strip().splitlines()
        raise FileUnreadable(
            f"{path} has {len(made.stdout) // (height * width * 3)} of the {frames} frames that the dataset names"
            f"{': ' + said[-1] if said else ''}."
        )
    return np.frombuffer(made.stdout, np.uint8).reshape(frames, height, width, 3)


def _ours(folder: Path, info: Mapping[str, Any], spec: Spec) -> Iterator[Columns]:
    """A dataset that we wrote: as it was."""
    try:
        with np.load(folder / LAST, allow_pickle=False) as kept:
            last = {name: kept[name] for name in kept.files}
    except (OSError, ValueError, KeyError) as problem:
        raise FileUnreadable(f"cannot read {folder / LAST}: {problem}") from None
    for number, (table, _) in enumerate(_tables_v3(folder, info, None)):
        looks = {}
        for feature, names in _features(spec).items():
            if feature.startswith(_IMAGES):
                values = {names[0]: np.stack([_picture(cell) for cell in table[feature].to_pylist()])}
            else:
                values = _split(_values(table, feature).reshape(len(table), -1), names, spec)
            looks |= {name: np.concatenate([value, last[name][number][None]]) for name, value in values.items()}
        done, cut = (_values(table, name).reshape(-1).astype(bool) for name in ("next.done", "next.truncated"))
        success = _values(table, "next.success").reshape(-1).astype(bool) if "next.success" in table.column_names else None
        actions = _values(table, "action").reshape(len(table), -1).astype(np.float32)
        person = _values(table, "complementary_info.is_intervention").reshape(-1).astype(bool)
        yield Columns(looks, actions, _values(table, "next.reward").reshape(-1), done & ~cut, cut, success, person)


def _split(values: np.ndarray, names: Sequence[str], spec: Spec) -> dict[str, np.ndarray]:
    ends = np.cumsum([0, *(spec.observation[name].size for name in names)])
    return {
        name: values[:, first:last].astype(spec.observation[name].dtype).reshape(-1, *spec.observation[name].shape)
        for name, first, last in zip(names, ends, ends[1:], strict=False)
    }


# ---- writing


def _features(spec: Spec) -> dict[str, list[str]]:
    """The columns of the dataset and the entries in each: numbers side by side in `observation.state`, each picture by itself."""
    columns: dict[str, list[str]] = {}
    for name, entry in spec.observation.items():
        if entry.role == "image":
            columns[_IMAGES + name] = [name]
        elif entry.dtype == "float32":
            columns.setdefault(_PRIVILEGED if entry.role == "privileged" else _STATE, []).append(name)
        else:
            columns[f"observation.{name}"] = [name]
    return columns


def _described(spec: Spec, success: bool) -> dict[str, dict[str, Any]]:
    features: dict[str, dict[str, Any]] = {}
    for feature, names in _features(spec).items():
        entry = spec.observation[names[0]]
        if feature.startswith(_IMAGES):
            features[feature] = {"dtype": "image", "shape": list(entry.shape), "names": ["height", "width", "channels"]}
            continue
        labels = [f"{name}_{index}" for name in names for index in range(spec.observation[name].size)]
        dtype = entry.dtype if entry.dtype in ("float32", "float64", "bool") else "int64"
        features[feature] = {"dtype": dtype, "shape": [len(labels)], "names": labels}
    features["action"] = {"dtype": "float32", "shape": [spec.action_dim], "names": action_names(spec)}
    flags = ["next.done", "next.truncated", *(["next.success"] if success else []), "complementary_info.is_intervention"]
    features["next.reward"] = {"dtype": "float64", "shape": [1], "names": None}
    features |= {name: {"dtype": "bool", "shape": [1], "names": None} for name in flags}
    return features | {name: {"dtype": dtype, "shape": [1], "names": None} for name, dtype in _PLAIN.items()}


class _Writer:
    """Writes the rows of episodes, and a new file when one is full."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._writer, self.file = folder, None, -1

    def write(self, table: pa.Table) -> int:
        """The number of the file that it went to."""
        if self._writer is None or self._path.stat().st_size + table.nbytes > FILE_BYTES:
            self.close()
            self.file += 1
            self._path = self._folder / DATA_PATH.format(chunk_index=self.file // 1000, file_index=self.file % 1000)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, table.schema, compression="snappy", use_dictionary=True)
        self._writer.write_table(table)
        return self.file

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def write_lerobot(opened: OpenDemos, folder: Path) -> Path:
    spec, fps = opened.spec, opened.spec.control_hz
    writer, rows, last, statistics = _Writer(folder), [], [], _Statistics()
    features: dict[str, dict[str, Any]] = {}
    index = 0
    for number, steps in enumerate(opened.episodes()):
        columns = columns_of(steps, opened.path)
        features = features or _described(spec, columns.success is not None)
        if ("next.success" in features) != (columns.success is not None):
            raise DataError(f"{opened.path}: success is known in some episodes and not in others; LeRobot has one column for all.")
        cells = _cells(columns, spec, number, index, fps)
        file = writer.write(_table(cells, features))
        statistics.add(cells, features)
        last.append({name: values[-1] for name, values in columns.observations.items()})
        rows.append(_episode_row(number, spec.task, len(steps), index, file))
        index += len(steps)
    writer.close()
    info = {
        "codebase_version": VERSION,
        "robot_type": None,
        "total_episodes": len(rows),
        "total_frames": index,
        "total_tasks": 1,
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": int(fps) if float(fps).is_integer() else fps,
        "splits": {"train": f"0:{len(rows)}"},
        "data_path": DATA_PATH,
        "video_path": None,
        "features": features,
        "tandem": ours(spec, opened.attributes),
    }
    _write_meta(folder, info, rows, last, statistics, spec.task)
    return folder


def _cells(columns: Columns, spec: Spec, number: int, index: int, fps: float) -> dict[str, Any]:
    steps = len(columns.actions)
    cells: dict[str, Any] = {}
    for feature, names in _features(spec).items():
        values = [columns.observations[name][:-1] for name in names]
        cells[feature] = values[0] if feature.startswith(_IMAGES) else np.concatenate([v.reshape(steps, -1) for v in values], axis=1)
    frames = np.arange(steps)
    cells |= {"action": columns.actions, "next.reward": columns.rewards, "next.done": columns.terminated | columns.truncated}
    cells |= {"next.truncated": columns.truncated, "complementary_info.is_intervention": columns.intervened}
    if columns.success is not None:
        cells["next.success"] = columns.success
    cells |= {"timestamp": (frames / fps).astype(np.float32), "frame_index": frames, "episode_index": np.full(steps, number)}
    return cells | {"index": index + frames, "task_index": np.zeros(steps, np.int64)}


def _table(cells: Mapping[str, Any], features: Mapping[str, Mapping[str, Any]]) -> pa.Table:
    arrays = {}
    for name, feature in features.items():
        values = cells[name]
        if feature["dtype"] == "image":
            struct = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
            arrays[name] = pa.array([{"bytes": _png(picture, name), "path": None} for picture in values], struct)
        elif feature["shape"] == [1]:
            arrays[name] = pa.array(np.asarray(values).reshape(-1).astype(feature["dtype"]))
        else:
            flat = pa.array(np.ascontiguousarray(values).reshape(-1).astype(feature["dtype"]))
            arrays[name] = pa.FixedSizeListArray.from_arrays(flat, feature["shape"][0])
    return pa.table(arrays)


def _png(picture: np.ndarray, name: str) -> bytes:
    if picture.shape[2] not in PNG_CHANNELS:
        raise DataError(f"camera '{name}' has {picture.shape[2]} channels; LeRobot stores pictures with 1, 3 or 4.")
    return png(picture)


def _episode_row(number: int, task: str, length: int, index: int, file: int) -> dict[str, Any]:
    return {
        "episode_index": number,
        "tasks": [task],
        "length": length,
        "data/chunk_index": file // 1000,
        "data/file_index": file % 1000,
        "dataset_from_index": index,
        "dataset_to_index": index + length,
        "meta/episodes/chunk_index": 0,
        "meta/episodes/file_index": 0,
    }


class _Statistics:
    """Minimum, maximum, mean and standard deviation of every column; of pictures per channel, from 0 to 1."""

    def __init__(self) -> None:
        self._sums: dict[str, list[np.ndarray]] = {}

    def add(self, cells: Mapping[str, Any], features: Mapping[str, Mapping[str, Any]]) -> None:
        for name, feature in features.items():
            picture = feature["dtype"] == "image"
            values = np.asarray(cells[name], float) / (255 if picture else 1)
            values = values.reshape(-1, values.shape[-1]) if picture else values.reshape(len(values), -1)
            new = [values.min(0), values.max(0), values.sum(0), (values**2).sum(0), np.array(len(values))]
            old = self._sums.get(name)
            self._sums[name] = (
                new if old is None else [np.minimum(old[0], new[0]), np.maximum(old[1], new[1]), *map(np.add, old[2:], new[2:])]
            )

    def to_json(self, features: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        return {name: self._of(name, feature["dtype"] == "image") for name, feature in features.items()}

    def _of(self, name: str, picture: bool) -> dict[str, Any]:
        low, high, total, squares, count = self._sums[name]
        mean = total / count
        std = np.sqrt(np.maximum(squares / count - mean**2, 0))
        shape = (-1, 1, 1) if picture else (-1,)
        named = {"min": low, "max": high, "mean": mean, "std": std}
        return {key: value.reshape(shape).tolist() for key, value in named.items()} | {"count": [int(count)]}


def _write_meta(
    folder: Path, info: dict[str, Any], rows: list[dict[str, Any]], last: list[Any], statistics: _Statistics, task: str
) -> None:
    meta = folder / "meta"
    (meta / "episodes" / "chunk-000").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), meta / "episodes" / "chunk-000" / "file-000.parquet")
    described = [
        {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": kind, "metadata": None}
        for name, kind in (("task_index", "int64"), ("task", "object"))
    ]
    pandas = json.dumps({"index_columns": ["task"], "column_indexes": [], "columns": described, "pandas_version": "2.0.0"})
    tasks = pa.table({"task_index": pa.array([0], pa.int64()), "task": pa.array([task])}).replace_schema_metadata({"pandas": pandas})
    pq.write_table(tasks, meta / "tasks.parquet")
    (meta / "stats.json").write_text(json.dumps(statistics.to_json(info["features"])))
    with whole_or_nothing(folder / LAST) as partial, partial.open("wb") as file:
        arrays: dict[str, Any] = {name: np.stack([look[name] for look in last]) for name in last[0]}
        np.savez_compressed(file, **arrays)
    with whole_or_nothing(meta / "info.json") as partial:  # the last one: without it, the folder is no dataset
        partial.write_text(json.dumps(info, indent=2))
