"""robomimic's and Minari's files, both HDF5.

    robomimic   data.attrs: total, env_args; data/demo_N.attrs: num_samples; actions, rewards, dones, obs/KEY, next_obs/KEY
    Minari      data/metadata.json and data/main_data.hdf5: episode_N with observations (T + 1), actions, rewards, terminations,
                truncations, infos

Only plain datasets are read: a link to another file, or data kept outside of the file, is refused.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from PIL import Image

from tandem.data.demos import OpenDemos
from tandem.data.formats.columns import Columns, Foreign, columns_of, guessed_spec, ours, read_ours
from tandem.errors import DataError, FileUnreadable
from tandem.files import whole_or_nothing
from tandem.layouts import ActionLayout
from tandem.types import Spec

CONTROL_HZ = 20.0
"""robosuite's own rate, where a file does not say it."""
MINARI_FILE = "main_data.hdf5"


# ---- reading


@contextlib.contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError) as problem:
        raise FileUnreadable(f"{path} is not an HDF5 file that can be read ({problem}). Cut off, or another format?") from None


def _read(group: Any, name: str, path: Path) -> np.ndarray:
    found = _plain(group, name, path)
    if not isinstance(found, h5py.Dataset):
        raise FileUnreadable(f"{path}: '{group.name}' has no '{name}'. Is it a file of another program?")
    return np.asarray(found[()])


def _plain(group: Any, name: str, path: Path) -> h5py.Dataset | h5py.Group | None:
    if name not in group:
        return None
    found = group[name] if isinstance(group.get(name, getlink=True), h5py.HardLink) else None
    if found is None or (isinstance(found, h5py.Dataset) and (found.external is not None or found.is_virtual)):
        raise FileUnreadable(f"{path}: '{name}' points outside of the file. It was not read.")
    return found if isinstance(found, h5py.Dataset | h5py.Group) else None


def _numbered(group: h5py.Group, prefix: str) -> list[str]:
    names = [name for name in map(str, group) if re.fullmatch(rf"{prefix}_\d+", name)]
    return sorted(names, key=lambda name: int(name.rpartition("_")[2]))


@contextlib.contextmanager
def open_robomimic(path: Path) -> Iterator[Foreign]:
    with open_hdf5(path) as file:
        data = _plain(file, "data", path)
        if not isinstance(data, h5py.Group) or not (names := _numbered(data, "demo")):
            raise FileUnreadable(f"{path} has no data/demo_0: it is no file of robomimic.")

        def columns() -> Iterator[Columns]:
            for name in names:
                yield _robomimic_episode(data[name], path)

        def actions() -> np.ndarray:
            return np.concatenate([_read(data[name], "actions", path) for name in names])

        if "tandem" in data.attrs:
            spec, attributes = read_ours(data.attrs["tandem"], path)
            yield Foreign("robomimic", spec, columns, actions, attributes, ours=True)
            return
        first = next(columns())
        longest = max(len(_read(data[name], "rewards", path)) for name in names)
        yield Foreign("robomimic", _spec_of(first, _task(data, path), CONTROL_HZ, longest), columns, actions)


def _task(data: h5py.Group, path: Path) -> str:
    try:
        return str(json.loads(str(data.attrs["env_args"]))["env_name"])
    except (KeyError, ValueError, TypeError):
        return path.stem


def _spec_of(columns: Columns, task: str, hz: float, longest: int) -> Spec:
    shapes = {name: (values.shape[1:], str(values.dtype)) for name, values in columns.observations.items()}
    return guessed_spec(task, shapes, int(np.prod(columns.actions.shape[1:])), hz, longest)


def _robomimic_episode(demo: Any, path: Path) -> Columns:
    obs, following = _plain(demo, "obs", path), _plain(demo, "next_obs", path)
    if not isinstance(obs, h5py.Group):
        raise FileUnreadable(
            f"{path}: {demo.name} has no observations, only states. Make them first: robomimic's scripts/dataset_states_to_obs.py."
        )
    names = list(obs)
    before = {name: _read(obs, name, path) for name in names}
    actions, rewards, dones = (_read(demo, name, path) for name in ("actions", "rewards", "dones"))
    flags = {name: _read(demo, name, path).astype(bool) for name in ("terminated", "truncated", "success", "intervened") if name in demo}
    terminated = flags.get("terminated", dones.astype(bool))
    if "terminated" not in flags and len(terminated):  # robomimic marks success with done, or the last step; both end the task there
        terminated = np.arange(len(terminated)) == np.argmax(terminated) if terminated.any() else terminated
        last = int(np.argmax(terminated)) + 1 if terminated.any() else len(terminated)
        actions, rewards, terminated = actions[:last], rewards[:last], terminated[:last]
        before = {name: values[: last + 1] for name, values in before.items()}
    steps = len(actions)
    truncated = flags.get("truncated", np.arange(steps) == (steps - 1 if not terminated.any() else -1))
    if isinstance(following, h5py.Group):
        looks = {name: np.concatenate([before[name][:steps], _read(following, name, path)[steps - 1 : steps]]) for name in names}
    else:  # the last observation was not stored
        looks = {name: np.concatenate([values, values[-1:]])[: steps + 1] for name, values in before.items()}
    success = None if demo.attrs.get("success_unknown") else flags.get("success", rewards > 0)
    return Columns(looks, actions, rewards, np.asarray(terminated), np.asarray(truncated), success, flags.get("intervened"))


@contextlib.contextmanager
def open_minari(folder: Path) -> Iterator[Foreign]:
    """The folder of a dataset, or the `data` folder in it."""
    data = folder / "data" if (folder / "data" / "metadata.json").exists() else folder
    metadata = _metadata(data / "metadata.json")
    if not (data / MINARI_FILE).exists():
        raise FileUnreadable(
            f"{folder} is a Minari dataset of the format '{metadata.get('data_format')}'; only hdf5 is read. Minari converts it: create it "
            "again with data_format='hdf5'."
        )
    with open_hdf5(data / MINARI_FILE) as file:
        names = _numbered(file, "episode")

        def columns() -> Iterator[Columns]:
            for name in names:
                yield _minari_episode(file[name], data)

        def actions() -> np.ndarray:
            found = [_read(file[name], "actions", data) for name in names]
            return np.concatenate([each.reshape(len(each), -1) for each in found])

        if "tandem" in metadata:
            spec, attributes = read_ours(metadata["tandem"], folder)
            yield Foreign("Minari", spec, columns, actions, attributes, ours=True)
            return
        if not names:
            raise DataError(f"{folder} has no episodes.")
        longest = max(len(_read(file[name], "rewards", data)) for name in names)
        task = str(metadata.get("dataset_id", folder.name))
        yield Foreign("Minari", _spec_of(next(columns()), task, CONTROL_HZ, longest), columns, actions)


def _metadata(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as problem:
        raise FileUnreadable(f"cannot read {path}: {problem}") from None


def _minari_episode(group: Any, path: Path) -> Columns:
    flags = {name: _read(group, name, path) for name in ("rewards", "terminations", "truncations")}
    infos = _plain(group, "infos", path)
    known = [name for name in ("success", "intervened") if isinstance(infos, h5py.Group) and name in infos]
    extra = {name: _read(infos, name, path)[-len(flags["rewards"]) :].astype(bool) for name in known}
    success = extra.get("success")
    rewards = flags["rewards"].astype(float)
    actions = _read(group, "actions", path)
    return Columns(
        dict(_leaves(group, "observations", path)),
        actions.reshape(len(rewards), -1),
        rewards,
        flags["terminations"].astype(bool),
        flags["truncations"].astype(bool),
        success,
        extra.get("intervened"),
    )


def _leaves(group: Any, name: str, path: Path, prefix: str = "") -> Iterator[tuple[str, np.ndarray]]:
    found = _plain(group, name, path)
    if isinstance(found, h5py.Group):
        for key in map(str, found):
            yield from _leaves(found, key, path, f"{prefix}{key}." if isinstance(_plain(found, key, path), h5py.Group) else prefix)
        return
    values = _read(group, name, path)
    key = "state" if name == "observations" else f"{prefix}{name}"
    yield key, _decoded(values)


def _decoded(values: np.ndarray) -> np.ndarray:
    """Pictures that Minari stored as JPEG become pictures again."""
    bytes_of_rows = values.dtype == object or (values.ndim == 2 and values.dtype == np.uint8 and len(values) > 0)
    jpeg = bytes_of_rows and np.asarray(values[0], np.uint8)[:2].tobytes() == b"\xff\xd8"
    if not jpeg:
        return values
    pictures = []
    for row in values:
        with Image.open(io.BytesIO(np.asarray(row, np.uint8).tobytes()), formats=("JPEG",)) as image:
            pictures.append(np.asarray(image, np.uint8))
    return np.stack(pictures)


# ---- writing


def write_robomimic(opened: OpenDemos, path: Path) -> Path:
    spec = opened.spec
    env = {"env_name": spec.task, "env_type": 2, "env_kwargs": {}}
    with whole_or_nothing(path) as partial, h5py.File(partial, "w") as file:
        data, total = file.create_group("data", track_order=True), 0
        for number, steps in enumerate(opened.episodes()):
            columns = columns_of(steps, opened.path)
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = len(steps)
            _write_robomimic_episode(demo, columns)
            total += len(steps)
        data.attrs["total"], data.attrs["env_args"] = total, json.dumps(env)
        data.attrs["tandem"] = ours(spec, opened.attributes)
    return path


def _write_robomimic_episode(demo: h5py.Group, columns: Columns) -> None:
    for name, values in columns.observations.items():
        options = {"compression": "gzip"} if values.dtype == np.uint8 else {}
        demo.create_dataset(f"obs/{name}", data=values[:-1], **options)
        demo.create_dataset(f"next_obs/{name}", data=values[1:], **options)
    demo["actions"], demo["rewards"] = columns.actions, columns.rewards
    demo["dones"] = (columns.terminated | columns.truncated).astype(np.int64)
    demo["states"] = np.zeros((len(columns.actions), 0), np.float32)  # nothing to put a simulation into
    demo["terminated"], demo["truncated"] = columns.terminated, columns.truncated
    demo["intervened"] = columns.intervened
    if columns.success is not None:
        demo["success"] = columns.success
    else:
        demo.attrs["success_unknown"] = True


def write_minari(opened: OpenDemos, folder: Path) -> Path:
    data = folder / "data"
    data.mkdir(parents=True)
    episodes = steps_written = 0
    with whole_or_nothing(data / MINARI_FILE) as partial, h5py.File(partial, "w", track_order=True) as file:
        for number, steps in enumerate(opened.episodes()):
            columns = columns_of(steps, opened.path)
            group = file.create_group(f"episode_{number}")
            group.attrs["id"], group.attrs["total_steps"] = number, len(steps)
            for name, values in columns.observations.items():
                group.create_dataset(f"observations/{name}", data=values, **({"compression": "gzip"} if values.dtype == np.uint8 else {}))
            group["actions"], group["rewards"] = columns.actions, columns.rewards
            group["terminations"], group["truncations"] = columns.terminated, columns.truncated
            if columns.success is not None:
                group["infos/success"] = np.concatenate([[False], columns.success])  # Minari has one for the reset too
            group["infos/intervened"] = np.concatenate([[False], np.asarray(columns.intervened)])
            episodes, steps_written = number + 1, steps_written + len(steps)
    metadata = {
        "dataset_id": f"{re.sub(r'[^A-Za-z0-9_-]', '_', opened.spec.task)}/{re.sub(r'[^A-Za-z0-9_-]', '_', folder.name)}-v0",
        "data_format": "hdf5",
        "total_episodes": episodes,
        "total_steps": steps_written,
        "observation_space": json.dumps(_space(opened.spec)),
        "action_space": json.dumps(_action_space(opened.spec)),
        "jpeg_encoding": False,
        "minari_version": "0.5.0",
        "dataset_size": round((data / MINARI_FILE).stat().st_size / 1e6, 1),
        "tandem": ours(opened.spec, opened.attributes),
    }
    with whole_or_nothing(data / "metadata.json") as partial:
        partial.write_text(json.dumps(metadata))
    return folder


def _space(spec: Spec) -> dict[str, Any]:
    return {"type": "Dict", "subspaces": {name: _box(entry.shape, entry.dtype) for name, entry in spec.observation.items()}}


def _box(shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
    kind = np.dtype(dtype)
    low, high = (-np.inf, np.inf) if kind.kind == "f" else (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
    low, high = (np.full(shape, side).tolist() for side in (low, high))
    return {"type": "Box", "dtype": dtype if kind.kind != "b" else "int8", "shape": list(shape), "low": low, "high": high}


def _action_space(spec: Spec) -> Mapping[str, Any]:
    layout = ActionLayout.of(spec)
    return {"type": "Box", "dtype": "float32", "shape": [layout.size], "low": layout.low.tolist(), "high": layout.high.tolist()}
