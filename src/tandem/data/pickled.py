"""A pickle read as data: numbers, texts, arrays and plain containers, by a machine of our own. Nothing in it can run code.

A pickle is a program for a machine with a stack. This machine knows its operations, but only a handful of functions, all of which make
an array or a container, and answers them with its own few lines. A file that names anything else is refused with that name.

Python's own reader keeps everything it has read until the end. This one leaves large arrays in the file and remembers where they are:
each is read when somebody asks for it, so that a file of 4 GB takes some 100 MB of memory.
"""

from __future__ import annotations

import codecs
import hashlib
import math
import os
import pickle
import pickletools
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tandem.errors import FileMissing, FileUnreadable, UnsafePickle

MAX_OPERATIONS = 6_000_000
"""The most operations that a pickle may have; a step has 100 to 200. Looking at so many takes some seconds."""
MAX_TUPLE_DEPTH = 16
IN_MEMORY = 1024
"""Bytes of an array; a larger one stays in the file."""
_BUFFER = 2**18


class PickleFile:
    """A pickle whose arrays are read when they are asked for; open until `close`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():  # a pipe or a device could go on for ever
            raise FileMissing(f"there is no file {path} (looked in {path.absolute().parent}).")
        try:
            self._file = path.open("rb", buffering=_BUFFER)
        except OSError as problem:
            raise FileUnreadable(f"cannot read {path}: {problem.strerror}.") from None
        try:
            self.content = _Machine(self._file, path.stat().st_size).run()
        except BaseException as problem:
            self._file.close()
            raise _in_words(problem, path) from None

    def hash(self) -> str:
        """SHA-256 of the file, which is read once more for it."""
        self._file.seek(0)
        digest = hashlib.sha256()
        while block := self._file.read(2**20):
            digest.update(block)
        return digest.hexdigest()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> PickleFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _in_words(problem: BaseException, path: Path) -> BaseException:
    if isinstance(problem, UnsafePickle):
        return UnsafePickle(
            f"{path} asks for {problem}, which is neither an array nor a plain container. It was refused, and nothing of it was run. "
            "A demonstration needs no such thing: the file is damaged, hostile, or holds other objects. Save it again as NumPy arrays."
        )
    if isinstance(problem, Exception):  # a damaged pickle raises almost anything
        return FileUnreadable(f"{path} is not a pickle of arrays: {type(problem).__name__}: {problem}. Cut off, or another format?")
    return problem


# ---- what the few known functions make


class Array:
    """An array of a pickle: its numbers are in memory, or still in the file."""

    __slots__ = ("_dtype", "_order", "_raw", "_shape")

    def __init__(self) -> None:
        self._raw: bytes | _Place | None = None

    def set(self, raw: Any, dtype: Any, shape: Any, order: str) -> Array:
        if not (isinstance(raw, (bytes, bytearray, _Place)) and isinstance(dtype, _Dtype) and isinstance(shape, tuple)):
            raise pickle.UnpicklingError("an array without plain bytes")
        if not all(type(length) is int and length >= 0 for length in shape):
            raise pickle.UnpicklingError(f"an array of shape {shape!r:.60}")
        if math.prod(shape) * dtype.dtype.itemsize != len(raw):
            raise pickle.UnpicklingError(f"an array of shape {shape!r:.60} with {len(raw)} bytes")
        self._raw, self._dtype, self._shape, self._order = raw if isinstance(raw, _Place) else bytes(raw), dtype.dtype, shape, order
        return self

    def read(self) -> np.ndarray:
        """Its numbers, read-only."""
        if self._raw is None:
            raise ValueError("expected an array of numbers, got one without content")
        raw = self._raw.read() if isinstance(self._raw, _Place) else self._raw
        flat = np.frombuffer(raw, self._dtype) if raw else np.zeros(0, self._dtype)
        return flat.reshape(self._shape, order="F" if self._order == "F" else "C")


class _Place:
    """Bytes that stay in the file."""

    __slots__ = ("_file", "_offset", "_size")

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        self._file, self._offset, self._size = file, offset, size

    def __len__(self) -> int:
        return self._size

    def read(self) -> bytes:
        raw = os.pread(self._file.fileno(), self._size, self._offset)
        if len(raw) != self._size:
            raise ValueError(f"the file ends in an array of {self._size} bytes: it was changed while it was read")
        return raw


class _Dtype:
    """Stands for a dtype of numbers, booleans or text; objects and records have no business in a demonstration."""

    __slots__ = ("dtype",)

    def __init__(self, code: object, *_: object):
        if not (isinstance(code, str) and re.fullmatch(r"[biufSU]\d{1,6}", code)):
            raise pickle.UnpicklingError(f"an array of dtype {code!r:.40}")
        self.dtype = np.dtype(code)

    def set(self, state: Any) -> None:
        _, order, subdtype, names, *_rest = state
        if subdtype is not None or names is not None or order not in ("<", ">", "|", "="):
            raise pickle.UnpicklingError("an array of records")
        self.dtype = self.dtype.newbyteorder(order)


class _Function:
    """Stands for a function that a pickle may name."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]):
        self.call = call


def _scalar(dtype: Any, raw: Any) -> Any:
    return Array().set(raw, dtype, (), "C").read().item()


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text in the encoding {encoding!r:.40}")
    return text.encode("latin1")


def _of_jax(function: Any, arguments: Any, state: Any, *_: Any) -> Array:
    """How JAX pickles an array of its own: as the call that makes NumPy's, and its state."""
    made = function.call(*arguments) if isinstance(function, _Function) and isinstance(arguments, tuple) else None
    if not isinstance(made, Array):
        raise pickle.UnpicklingError("an array of JAX without NumPy's numbers")
    if state is not None:
        _, shape, dtype, fortran, raw = state
        made.set(raw, dtype, shape, "F" if fortran else "C")
    return made


_FUNCTIONS = {
    ("numpy", "dtype"): _Function(_Dtype),
    ("numpy", "ndarray"): _Function(lambda *_: Array()),
    ("collections", "OrderedDict"): _Function(dict),
    ("flax.core.frozen_dict", "FrozenDict"): _Function(dict),
    ("jax._src.array", "_reconstruct_array"): _Function(_of_jax),
    # How protocols before 3 spell bytes.
    ("_codecs", "encode"): _Function(_latin1),
    ("__builtin__", "bytes"): _Function(lambda: b""),
}
for _core in ("numpy.core", "numpy._core"):  # NumPy 1 and 2
    _FUNCTIONS[f"{_core}.multiarray", "_reconstruct"] = _Function(lambda *_: Array())
    _FUNCTIONS[f"{_core}.multiarray", "scalar"] = _Function(_scalar)
    _FUNCTIONS[f"{_core}.numeric", "_frombuffer"] = _Function(lambda *of: Array().set(*of))


class _Tuple(tuple):
    """A tuple that knows how deep tuples are nested in it: Python's own hash of very deep ones overflows its stack."""

    depth: int

    @classmethod
    def of(cls, items: Any) -> _Tuple:
        made = cls(items)
        made.depth = 1 + max((item.depth for item in made if isinstance(item, _Tuple)), default=0)
        if made.depth > MAX_TUPLE_DEPTH:
            raise pickle.UnpicklingError(f"tuples in tuples, more than {MAX_TUPLE_DEPTH} deep")
        return made


# ---- the machine


class _Machine:
    """Carries out the operations of one pickle."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._count = 0

    def run(self) -> Any:
        read, operations = self._file.read, _OPERATIONS
        while True:
            code = read(1)
            operation = operations.get(code)
            if operation is None:
                raise pickle.UnpicklingError(_refused(code))
            if operation is _stop:
                return self._pop()
            if self._count >= MAX_OPERATIONS:
                raise pickle.UnpicklingError(
                    f"more than {MAX_OPERATIONS:,} operations; demonstrations of 40,000 steps have as many: split it"
                )
            operation(self)
            self._count += 1

    # -- the stack

    def _pop(self) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise pickle.UnpicklingError("an operation on an empty stack")
        return self._stack.pop()

    def _top(self) -> Any:
        if not self._stack:
            raise pickle.UnpicklingError("an operation on an empty stack")
        return self._stack[-1]

    def from_mark(self) -> list[Any]:
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def popped(self, count: int) -> list[Any]:
        """The last few, in the order in which they came."""
        return [self._pop() for _ in range(count)][::-1]

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def mark(self) -> None:
        self._marks.append(len(self._stack))

    def pop(self) -> None:
        self._pop()

    def pop_mark(self) -> None:
        self.from_mark()

    def duplicate(self) -> None:
        self.push(self._top())

    # -- bytes of the file

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise pickle.UnpicklingError(f"expected {size} bytes, but only {len(data)} remain")
        return data

    def skip(self, size: int) -> None:
        self.read(size)

    def sized(self, form: str) -> int:
        """The length of what follows."""
        [size] = struct.unpack(form, self.read(struct.calcsize(form)))
        left = self._size - self._file.tell()
        if not 0 <= size <= left:
            raise pickle.UnpicklingError(f"expected {size} bytes, but only {left} remain")
        return size

    def push_bytes(self, form: str) -> None:
        size = self.sized(form)
        if size <= IN_MEMORY:
            self.push(self.read(size))
            return
        self.push(_Place(self._file, self._file.tell(), size))
        self._file.seek(size, os.SEEK_CUR)

    def push_text(self, form: str) -> None:
        self.push(str(self.read(self.sized(form)), "utf-8", "surrogatepass"))

    def line(self) -> bytes:
        line = self._file.readline(2**20)
        if not line.endswith(b"\n"):
            raise pickle.UnpicklingError("a line without an end")
        return line[:-1]

    # -- containers

    def push_tuple(self, size: int | None) -> None:
        items = self.from_mark() if size is None else self.popped(size)
        self.push(_Tuple.of(items))

    def container(self, kind: type) -> None:
        """A list, dict or frozenset of everything from the mark on."""
        items = self.from_mark()
        self.push(dict(zip(items[::2], items[1::2], strict=True)) if kind is dict else kind(items))

    def append(self, items: list[Any]) -> None:
        target = self._top()
        if type(target) is not list:
            raise pickle.UnpicklingError(f"an item for a {type(target).__name__}")
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self._top()
        if type(target) is not dict:
            raise pickle.UnpicklingError(f"an entry for a {type(target).__name__}")
        target.update(zip(items[::2], items[1::2], strict=True))

    def add_items(self) -> None:
        items, target = self.from_mark(), self._top()
        if type(target) is not set:
            raise pickle.UnpicklingError(f"a member for a {type(target).__name__}")
        target.update(items)

    # -- what was there before

    def put(self, number: int) -> None:
        if number > self._count:  # a table of any size; an honest pickle numbers what it remembers one by one
            raise pickle.UnpicklingError(f"memo entry {number} after {self._count} operations")
        self._memo[number] = self._top()

    def get(self, number: int) -> None:
        self.push(self._memo[number])

    def memoize(self) -> None:
        self.put(len(self._memo))

    # -- functions

    def named(self, module: str, name: str) -> None:
        try:
            self.push(_FUNCTIONS[module, name])
        except KeyError:
            raise UnsafePickle(f"{module}.{name}") from None

    def named_on_stack(self) -> None:
        name, module = self._pop(), self._pop()
        self.named(str(module), str(name))

    def call(self) -> None:
        arguments, function = self._pop(), self._pop()
        if not isinstance(function, _Function) or not isinstance(arguments, tuple):
            raise pickle.UnpicklingError(f"a call of a {type(function).__name__.lstrip('_')}")
        self.push(function.call(*arguments))

    def build(self) -> None:
        """Give an object its state: an array its numbers, a dtype its byte order."""
        state, target = self._pop(), self._top()
        if isinstance(target, Array):
            _, shape, dtype, fortran, raw = state
            target.set(raw, dtype, shape, "F" if fortran else "C")
        elif isinstance(target, _Dtype):
            target.set(state)
        else:
            raise pickle.UnpicklingError(f"a {type(target).__name__.lstrip('_').lower()} is given a state")


def _refused(code: bytes) -> str:
    known = {operation.code.encode("latin1"): operation.name for operation in pickletools.opcodes}
    if not code:
        return "the file ends in the middle"
    name = known.get(code, "")
    reasons = {"PERSID": "a persistent id", "BINPERSID": "a persistent id", "EXT1": "an extension code", "EXT2": "an extension code"}
    return reasons.get(name, f"the operation {name}" if name else f"the byte {code!r}, which is no operation")


def _number(form: str) -> Callable[[_Machine], None]:
    size = struct.calcsize(form)
    return lambda machine: machine.push(struct.unpack(form, machine.read(size))[0])


def _memo(act: Callable[[_Machine, int], None], form: str) -> Callable[[_Machine], None]:
    size = struct.calcsize(form)
    return lambda machine: act(machine, struct.unpack(form, machine.read(size))[0])


def _integer(line: bytes) -> int | bool:
    """How protocol 0 writes a number; 00 and 01 are its booleans."""
    return line == b"01" if line in (b"00", b"01") else int(line.removesuffix(b"L"))


def _quoted(line: bytes) -> str:
    """A text of Python 2, in quotes."""
    if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
        raise pickle.UnpicklingError("a text without quotes")
    return codecs.escape_decode(line[1:-1])[0].decode("ascii")


def _stop(machine: _Machine) -> None:
    """The end; known by its identity."""


def _long(form: str) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(int.from_bytes(machine.read(machine.sized(form)), "little", signed=True))


def _global(machine: _Machine) -> None:
    machine.named(machine.line().decode(), machine.line().decode())


_OPERATIONS: dict[bytes, Callable[[_Machine], None]] = {
    b".": _stop,
    b"\x80": lambda machine: machine.skip(1),  # the protocol
    b"\x95": lambda machine: machine.skip(8),  # a frame
    b"(": _Machine.mark,
    b"0": _Machine.pop,
    b"1": _Machine.pop_mark,
    b"2": _Machine.duplicate,
    # numbers
    b"I": lambda machine: machine.push(_integer(machine.line())),
    b"L": lambda machine: machine.push(_integer(machine.line())),
    b"J": _number("<i"),
    b"K": _number("<B"),
    b"M": _number("<H"),
    b"\x8a": _long("<B"),
    b"\x8b": _long("<i"),
    b"F": lambda machine: machine.push(float(machine.line())),
    b"G": _number(">d"),
    b"N": lambda machine: machine.push(None),
    b"\x88": lambda machine: machine.push(True),
    b"\x89": lambda machine: machine.push(False),
    # texts and bytes
    b"S": lambda machine: machine.push(_quoted(machine.line())),
    b"T": lambda machine: machine.push(machine.read(machine.sized("<i")).decode("ascii")),
    b"U": lambda machine: machine.push(machine.read(machine.sized("<B")).decode("ascii")),
    b"V": lambda machine: machine.push(str(machine.line(), "raw-unicode-escape")),
    b"\x8c": lambda machine: machine.push_text("<B"),
    b"X": lambda machine: machine.push_text("<I"),
    b"\x8d": lambda machine: machine.push_text("<Q"),
    b"C": lambda machine: machine.push_bytes("<B"),
    b"B": lambda machine: machine.push_bytes("<I"),
    b"\x8e": lambda machine: machine.push_bytes("<Q"),
    b"\x96": lambda machine: machine.push_bytes("<Q"),
    # containers
    b"]": lambda machine: machine.push([]),
    b"}": lambda machine: machine.push({}),
    b")": lambda machine: machine.push(_Tuple.of(())),
    b"\x8f": lambda machine: machine.push(set()),
    b"l": lambda machine: machine.container(list),
    b"d": lambda machine: machine.container(dict),
    b"\x91": lambda machine: machine.container(frozenset),
    b"t": lambda machine: machine.push_tuple(None),
    b"\x85": lambda machine: machine.push_tuple(1),
    b"\x86": lambda machine: machine.push_tuple(2),
    b"\x87": lambda machine: machine.push_tuple(3),
    b"a": lambda machine: machine.append(machine.popped(1)),
    b"e": lambda machine: machine.append(machine.from_mark()),
    b"s": lambda machine: machine.set_items(machine.popped(2)),
    b"u": lambda machine: machine.set_items(machine.from_mark()),
    b"\x90": _Machine.add_items,
    # what was there before
    b"p": lambda machine: machine.put(int(machine.line())),
    b"q": _memo(_Machine.put, "<B"),
    b"r": _memo(_Machine.put, "<I"),
    b"\x94": _Machine.memoize,
    b"g": lambda machine: machine.get(int(machine.line())),
    b"h": _memo(_Machine.get, "<B"),
    b"j": _memo(_Machine.get, "<I"),
    # functions
    b"c": _global,
    b"i": _global,
    b"\x93": _Machine.named_on_stack,
    b"R": _Machine.call,
    b"b": _Machine.build,
}
"""All that a pickle of arrays and plain containers needs; any other operation is refused."""
