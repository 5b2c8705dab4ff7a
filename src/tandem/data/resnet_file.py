"""The weights of ResNet-10 from a file of the user's, as hil-serl and LeRobot hand them out. Neither format can run code here.

    resnet10_params.pkl      hil-serl: a pickle of a tree of flax (`pickled.py` reads it as data), kernels (k, k, in, out)
    model.safetensors        LeRobot: arrays by name, kernels (out, in, k, k)

Both hold the same numbers under other names. What is missing, or has another shape, is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from tandem.data.pickled import Array, PickleFile
from tandem.errors import FileMissing, FileUnreadable
from tandem.networks.encoders.resnet import shapes

MAX_BYTES = 2**28


def read_resnet10(path: Path) -> dict[str, np.ndarray]:
    """The weights by our names, float32."""
    if not path.is_file():
        raise FileMissing(f"there is no file {path} with the weights of ResNet-10 (looked in {path.absolute().parent})")
    if path.stat().st_size > MAX_BYTES:
        raise FileUnreadable(f"{path} has {path.stat().st_size:,} bytes; the weights of ResNet-10 have some 20,000,000")
    flax = path.suffix != ".safetensors"
    given = _flax(path) if flax else _safetensors(path)
    return {name: _found(path, given, _flax_name(name) if flax else _torch_name(name), shape) for name, shape in shapes().items()}


def _found(path: Path, given: Mapping[str, np.ndarray], names: tuple[str, ...], shape: tuple[int, ...]) -> np.ndarray:
    for name in names:
        if name in given:
            array = given[name]
            if name.endswith("kernel") and array.ndim == 4:
                array = array.transpose(3, 2, 0, 1)
            if array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
                raise FileUnreadable(f"{path}: '{name}' has the shape {array.shape} {array.dtype}, expected finite floats of shape {shape}")
            return np.ascontiguousarray(array, np.float32)
    some = ", ".join(sorted(given)[:5]) or "nothing"
    raise FileUnreadable(
        f"{path} has no '{names[0]}': it does not hold a ResNet-10 of hil-serl (a pickle) or of LeRobot (.safetensors). It holds {some} ..."
    )


def _safetensors(path: Path) -> dict[str, np.ndarray]:
    try:
        return safetensors.numpy.load(path.read_bytes())
    except (SafetensorError, OSError, ValueError, KeyError) as problem:
        raise FileUnreadable(f"{path} is not a file of safetensors, or it is damaged ({problem})") from None


def _flax(path: Path) -> dict[str, np.ndarray]:
    with PickleFile(path) as file:
        found = dict[str, np.ndarray]()
        _flatten(file.content, "", found, 0)
    return {name.removeprefix("params/"): array for name, array in found.items()}


def _flatten(tree: Any, name: str, into: dict[str, np.ndarray], depth: int) -> None:
    if isinstance(tree, Array):
        into[name] = tree.read()
    elif isinstance(tree, dict) and depth < 8:
        for key, part in tree.items():
            _flatten(part, f"{name}/{key}" if name else str(key), into, depth + 1)


def _flax_name(name: str) -> tuple[str, ...]:
    *where, part = name.split("/")
    part = "kernel" if part == "weight" else part
    if where == ["init"]:
        return (f"{'conv' if part == 'kernel' else 'norm'}_init/{part}",)
    block, layer = f"ResNetBlock_{where[0]}", where[1]
    if layer == "shortcut":
        return (f"{block}/{'conv' if part == 'kernel' else 'norm'}_proj/{part}",)
    number = ("first", "second").index(layer)
    if part == "kernel":
        return (f"{block}/Conv_{number}/kernel",)
    return f"{block}/MyGroupNorm_{number}/{part}", f"{block}/GroupNorm_{number}/{part}"


def _torch_name(name: str) -> tuple[str, ...]:
    *where, part = name.split("/")
    conv, norm = part == "weight", "bias" if part == "bias" else "weight"
    if where == ["init"]:
        return ("embedder.0.weight" if conv else f"embedder.1.{norm}",)
    stage = f"encoder.stages.{where[0]}"
    if where[1] == "shortcut":
        return (f"{stage}.shortcut.0.conv.weight" if conv else f"{stage}.shortcut.1.{norm}",)
    number = ("first", "second").index(where[1]) + 1
    return (f"{stage}.conv{number}.conv.weight" if conv else f"{stage}.norm{number}.{norm}",)
