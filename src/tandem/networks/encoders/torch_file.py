"""Reads the tensors of a PyTorch file of the format before 2020, without PyTorch.

Such a file is a row of pickles: a magic number, a version, facts about the machine, a dict of tensors that refer to storages, the names of
the storages; then the storages themselves, each a count and its numbers. A pickle can call any function, so this reader knows exactly
four names and calls functions of its own in their place. Anything else is refused before it runs.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from tandem.errors import FileUnreadable, UnsafePickle

_MAGIC, _VERSION = 0x1950A86A20F9469CFC6C, 1001
_KINDS = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


class _Tensor:
    """A view of a storage that is read later."""

    def __init__(self, storage: tuple[np.dtype, str, int], offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> None:
        self.dtype, self.key, self.count = storage
        self.offset, self.size, self.stride = int(offset), tuple(map(int, size)), tuple(map(int, stride))

    def array(self, storages: Mapping[str, np.ndarray]) -> np.ndarray:
        """A copy in row order. Places outside of the storage are refused: they would be somebody else's memory."""
        numbers = storages[self.key]
        last = self.offset + sum((n - 1) * stride for n, stride in zip(self.size, self.stride, strict=True))
        if min((self.offset, *self.stride, *self.size)) < 0 or 0 in self.size or last >= len(numbers):
            raise FileUnreadable(f"a tensor of shape {self.size} lies outside of its storage of {len(numbers)} numbers")
        steps = tuple(stride * self.dtype.itemsize for stride in self.stride)
        return np.lib.stride_tricks.as_strided(numbers[self.offset :], self.size, steps, writeable=False).copy()


class _Tensors(dict):
    """By name. What the file says about the modules that they are of is not needed."""

    def __setstate__(self, state: Any) -> None:
        del state


class _Reader(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) == ("collections", "OrderedDict"):
            return _Tensors
        if (module_name, global_name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _Tensor
        if module_name == "torch" and global_name in _KINDS:
            return _KINDS[global_name]
        raise UnsafePickle(f"{module_name}.{global_name}")

    def persistent_load(self, pid: Any) -> tuple[np.dtype, str, int]:
        what, dtype, key, _, count, view = pid
        if what != "storage" or view is not None or not isinstance(dtype, np.dtype):
            raise pickle.UnpicklingError(f"a storage of a kind that is not known here: {pid!r:.100}")
        return dtype, str(key), int(count)


def read_tensors(data: bytes, what: str) -> dict[str, np.ndarray]:
    """Every tensor of the file by its name; `what` names the file in errors."""
    try:
        return _read(io.BytesIO(data))
    except UnsafePickle as asked:
        raise UnsafePickle(f"{what} asks for {asked}, which is no tensor. It was refused, and nothing of it was run.") from None
    except FileUnreadable as problem:
        raise FileUnreadable(f"{what}: {problem}") from None
    except Exception as problem:  # a damaged pickle raises almost anything
        raise FileUnreadable(f"{what} is not a PyTorch file of tensors ({type(problem).__name__}: {problem}). Cut off?") from None


def _read(file: io.BytesIO) -> dict[str, np.ndarray]:
    if _Reader(file).load() != _MAGIC or _Reader(file).load() != _VERSION:
        raise FileUnreadable("it does not begin like a PyTorch file of the format before 2020")
    _Reader(file).load()  # about the machine that wrote it
    tensors, keys = _Reader(file).load(), _Reader(file).load()
    kinds = {tensor.key: tensor.dtype for tensor in tensors.values()}
    storages = {}
    for key in keys:
        (count,) = struct.unpack("<q", file.read(8))
        dtype = kinds[key]
        numbers = file.read(count * dtype.itemsize)
        storages[key] = np.frombuffer(numbers, dtype, count)
    return {str(name): tensor.array(storages) for name, tensor in tensors.items()}
