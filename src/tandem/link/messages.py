"""What crosses the wire: small records, each checked before anyone looks at it.

A frame is one binary WebSocket message:

    4 bytes         length of the header, little-endian
    header          msgpack: a map of `kind` and the fields of one of the classes below, nothing more and nothing less
    payload         raw bytes: the steps of a `Steps`, the parameters of a policy, the poses of a `View`; empty for most kinds

The header is small whatever is sent, so that a hostile one cannot grow in memory; large things are only ever sliced.

    actor -> hub    Hello, Steps, Statistics, Command, Scene, View, Camera      (an EpisodeEnd travels among the steps)
    hub -> actor    Welcome or Refused, Acknowledged, Credit, Policy, Heard, Command, Trouble, Control
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, get_args, get_type_hints

import numpy as np

from tandem.codec import CodecError, pack, unpack
from tandem.types import PolicySnapshot, policy_kind

PROTOCOL = 2
"""Both ends must agree on it; a change of any message is a new number."""

MAX_FRAME = 32 * 2**20
"""Bytes of the largest frame that an actor may send; less where the steps of the task are smaller."""
MAX_POLICY_FRAME = 256 * 2**20
"""Bytes of the largest frame that an actor takes."""
MAX_HEADER = 256 * 2**10
MAX_RECORDS = 256
"""Steps in one frame."""
GROUP_BYTES = 2**20
"""Bytes of records in one frame; a single record may be larger."""
MAX_AXES = 64
"""Of an action that a person steers."""
MAX_POSES = 28 * 10_000
"""Bytes of the poses in a `View`: seven float32 for each body."""
MAX_PICTURE = 2**19
"""Bytes of a `Camera`'s picture."""
MAX_NAME = 100
MAX_TEXT = 4000
COUNT_LIMIT = 2**53
"""Exact in any language that may read it."""

EPISODE_END = -1
"""In place of a `seq`: the record is an `EpisodeEnd`, not a step."""

Pace = Literal["realtime", "fast"]
COMMANDS = ("pause", "resume", "take_over", "release", "label", "record", "checkpoint", "evaluate", "stop", "watch")
TRAINER_COMMANDS = ("pause", "resume", "checkpoint", "evaluate", "stop")
ACTOR_COMMANDS = ("pause", "resume", "take_over", "release", "label", "record", "stop", "watch")
WHO = ("policy", "person", "script", "nobody")
"""Who chose the last action; nobody: the robot was told to stand still."""
STATES = ("running", "paused", "holding", "stopped", "resetting")
REFUSALS = ("protocol", "task", "spec", "run", "busy", "storage")

_LENGTH = struct.Struct("<I")


class BadFrame(ValueError):
    """Not one of our messages; says what is wrong with it."""


Check = Callable[[Any], str | None]
"""What is wrong with a value, None if nothing is."""


def _text(limit: int, empty: bool = False) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, str) or len(value) > limit or not (value or empty):
            return f"expected a text of {'0' if empty else '1'} to {limit} characters"
        return None

    return check


def _count(lowest: int = 0, highest: int = COUNT_LIMIT) -> Check:
    def check(value: Any) -> str | None:
        return None if type(value) is int and lowest <= value <= highest else f"expected a whole number from {lowest} to {highest}"

    return check


def _number(value: Any) -> str | None:
    return None if type(value) in (int, float) and math.isfinite(value) else "expected a finite number"


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "expected true or false"


def _maybe_flag(value: Any) -> str | None:
    return None if value is None or isinstance(value, bool) else "expected true, false or nothing"


def _numbers(limit: int) -> Check:
    def check(value: Any) -> str | None:
        sound = type(value) is list and len(value) <= limit and all(_number(item) is None for item in value)
        return None if sound else f"expected a list of at most {limit} finite numbers"

    return check


def _bytes(limit: int, multiple: int = 1) -> Check:
    def check(value: Any) -> str | None:
        sound = isinstance(value, bytes) and len(value) <= limit and len(value) % multiple == 0
        return None if sound else f"expected at most {limit} bytes, in groups of {multiple}"

    return check


def _one_of(*allowed: str) -> Check:
    def check(value: Any) -> str | None:
        return None if isinstance(value, str) and value in allowed else f"expected one of {', '.join(allowed)}"

    return check


def _plain(limit: int) -> Check:
    """A map that JSON can hold too, of bounded size."""

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return "expected a map"
        try:
            size = len(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            return "expected a map of plain values"
        return None if size <= limit else f"expected at most {limit} characters of JSON, got {size}"

    return check


Name = Annotated[str, _text(MAX_NAME)]
MaybeName = Annotated[str, _text(MAX_NAME, empty=True)]
Count = Annotated[int, _count()]
Version = Annotated[int, _count(-1)]
Number = Annotated[float, _number]
Plain = Annotated[dict[str, Any], _plain(MAX_HEADER // 2)]


class Message:
    """One kind of message: fields, each with its own check. Subclasses are frozen dataclasses."""

    kind: ClassVar[str]
    payload: ClassVar[str] = ""
    """The field that travels behind the header as raw bytes; empty if there is none."""

    def __init_subclass__(cls, kind: str, payload: str = "") -> None:
        cls.kind, cls.payload = kind, payload
        _KINDS[kind] = cls

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Build it, or raise `BadFrame`: exactly these fields, each with a value it can have."""
        checks = _checks_of(cls)
        if fields.keys() != checks.keys():
            missing, unknown = sorted(checks.keys() - fields.keys()), sorted(str(name) for name in fields.keys() - checks.keys())
            raise BadFrame(f"'{cls.kind}' lacks {missing} and has unknown fields {unknown[:5]}"[:MAX_TEXT])
        for name, check in checks.items():
            problem = check(fields[name])
            if problem:
                raise BadFrame(f"'{cls.kind}' has {name} = {fields[name]!r:.100}: {problem}")
        return cls(**fields)

    def fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _checks_of(type(self))}

    def pack(self) -> bytes:
        fields = self.fields()
        payload = fields.pop(self.payload) if self.payload else b""
        return _frame(self.kind, fields, payload)


_KINDS: dict[str, type[Message]] = {}


@functools.cache
def _checks_of(cls: type[Any]) -> dict[str, Check]:
    hints = get_type_hints(cls, include_extras=True)
    return {item.name: get_args(hints[item.name])[1] for item in dataclasses.fields(cls)}


# ---- greeting


@dataclass(frozen=True)
class Hello(Message, kind="hello"):
    """The first word of an actor."""

    protocol: Count
    task: Name
    spec_hash: Name
    spec: Plain
    name: Name
    """What a person calls it; two actors may share one."""
    source: Name
    """This process, in all the world."""
    pace: Annotated[Pace, _one_of("realtime", "fast")]
    rows: Annotated[int, _count(1, 100_000)]
    """Environments it steps at once."""
    run: MaybeName
    """The run it has joined before; empty for an actor that has joined none."""


@dataclass(frozen=True)
class Welcome(Message, kind="welcome"):
    run: Name
    """Names the run folder in all the world; a spool belongs to one."""
    task: Name
    version: Version
    """Newest policy, which follows at once; -1 if there is none yet."""
    window_bytes: Annotated[int, _count(1)]
    """Bytes of steps that may be under way without an acknowledgement; one group may always be."""
    record_bytes: Annotated[int, _count(1)]
    """The largest step the hub takes."""
    settings: Plain
    """What the run wants of its actors (random_steps, seed, ...)."""


@dataclass(frozen=True)
class Refused(Message, kind="refused"):
    code: Annotated[str, _one_of(*REFUSALS)]
    message: Annotated[str, _text(MAX_TEXT)]


# ---- steps


class Record(NamedTuple):
    """One step as it was packed, or one `EpisodeEnd` (its `seq` is then `EPISODE_END`)."""

    source: str
    seq: int
    data: bytes


@dataclass(frozen=True)
class Steps:
    """A group of records in the order in which they were lived."""

    group: int
    """Counts the groups of this connection from 1; an acknowledgement names the last one that is safe."""
    own: bool
    """False for what another process left behind: it uses up no credit."""
    records: Sequence[Record]

    kind: ClassVar[str] = "steps"

    def pack(self) -> bytes:
        sources = {source: index for index, source in enumerate(dict.fromkeys(record.source for record in self.records))}
        header = {
            "group": self.group,
            "own": self.own,
            "sources": list(sources),
            "which": [sources[record.source] for record in self.records],
            "seqs": [record.seq for record in self.records],
            "sizes": [len(record.data) for record in self.records],
        }
        return _frame("steps", header, *(record.data for record in self.records))

    @classmethod
    def parse(cls, fields: Mapping[str, Any], data: bytes, start: int) -> Steps:
        """Checks all that is not in the records themselves; those are checked by whoever stores them."""
        try:
            group, own, sources = fields["group"], fields["own"], fields["sources"]
            which, seqs, sizes = fields["which"], fields["seqs"], fields["sizes"]
            if type(group) is not int or not 1 <= group < COUNT_LIMIT or type(own) is not bool:
                raise BadFrame(f"'steps' of group {group!r:.50}, own {own!r:.50}")
            if not (type(which) is type(seqs) is type(sizes) is type(sources) is list and 1 <= len(which) <= MAX_RECORDS):
                raise BadFrame(f"'steps' without 1 to {MAX_RECORDS} records")
            if not all(type(source) is str and 1 <= len(source) <= MAX_NAME for source in sources):
                raise BadFrame(f"'steps' from {sources!r:.100}: a source is a text of 1 to {MAX_NAME} characters")
            records = []
            for index, seq, size in zip(which, seqs, sizes, strict=True):
                if type(index) is not int or type(seq) is not int or type(size) is not int:
                    raise BadFrame("'steps' whose table is not of whole numbers")
                if not (0 <= index < len(sources) and EPISODE_END <= seq < COUNT_LIMIT and 0 <= size <= len(data) - start):
                    raise BadFrame(f"'steps' with a record of source {index}, seq {seq}, {size} bytes, which cannot be")
                records.append(Record(sources[index], seq, data[start : start + size]))
                start += size
        except (KeyError, ValueError) as problem:
            raise problem if isinstance(problem, BadFrame) else BadFrame(f"'steps' with a bad table: {problem}") from None
        if start != len(data):
            raise BadFrame(f"'steps' with {len(data) - start} bytes that belong to no record")
        return cls(group, own, records)


@dataclass(frozen=True)
class Acknowledged(Message, kind="acknowledged"):
    """All groups up to this one are committed."""

    group: Count
    rejected: Count
    """Records among those that cannot be used; they are kept with their reasons."""
    credit: Count
    """See `Credit`."""


@dataclass(frozen=True)
class Credit(Message, kind="credit"):
    """Pace `fast`: this many steps of yours may exist beyond those acknowledged so far."""

    credit: Count


@dataclass(frozen=True)
class EpisodeEnd(Message, kind="episode_end"):
    """What became of an episode; travels among the steps, so it is not lost either."""

    source: Name
    episode: Count
    steps: Count
    kept: Annotated[bool, _flag]
    """False: a person threw it away."""
    success: Annotated[bool | None, _maybe_flag]
    """None: nobody said."""


# ---- the rest


@dataclass(frozen=True)
class Statistics(Message, kind="statistics"):
    """How an actor is; sent every second, and at once when it has or acts with another policy. Answered by `Heard`."""

    sent_at: Number
    """Its own monotonic clock; comes back in `Heard`."""
    wall_time: Number
    """Its wall clock, for show alone."""
    steps: Count
    version: Version
    """What it acts with; -1 before the first policy."""
    policy_hash: MaybeName
    received: Version
    """Newest policy it has; only then is a newer one sent, so that none waits behind others in the buffers of a slow network."""
    unacknowledged: Count
    spool_bytes: Count
    dropped: Count
    """Steps that found no room in the spool."""
    round_trip_s: Number
    clock_difference_s: Number
    """Hub's wall clock minus its own."""


@dataclass(frozen=True)
class Heard(Message, kind="heard"):
    sent_at: Number
    wall_time: Number


@dataclass(frozen=True)
class Command(Message, kind="command"):
    """Something a person wants: goes to the trainer, to actors, or to both."""

    command: Annotated[str, _one_of(*COMMANDS)]
    to: Name
    """`trainer`, `actors`, `all`, or the name or source of one actor."""
    detail: Annotated[dict[str, Any], _plain(MAX_TEXT)]
    """What belongs to it, e.g. {"success": true} for `label`."""


@dataclass(frozen=True)
class Trouble(Message, kind="trouble"):
    """The hub cannot do its part just now; nothing is lost, and an empty message says it is over."""

    code: Annotated[str, _one_of("storage", "none")]
    message: Annotated[str, _text(MAX_TEXT, empty=True)]


# ---- what people see and do


@dataclass(frozen=True)
class Scene(Message, kind="scene"):
    """What there is to draw; sent when somebody begins to watch. See `envs/scenery.py`."""

    description: Plain


@dataclass(frozen=True)
class View(Message, kind="view", payload="poses"):
    """One moment of row 0 of an actor; only while somebody watches."""

    episode: Count
    step: Count
    """Of the episode."""
    steps: Count
    """Of the actor, all rows together."""
    who: Annotated[str, _one_of(*WHO)]
    """Chose the last action."""
    holder: MaybeName
    """The page or device that holds control; empty if none does."""
    state: Annotated[str, _one_of(*STATES)]
    notice: Annotated[str, _text(MAX_TEXT, empty=True)]
    """What a person should know now; empty if there is nothing."""
    reward: Number
    """Sum of this episode so far."""
    success: Annotated[bool | None, _maybe_flag]
    """Of the last step; None before the first."""
    action: Annotated[list[float], _numbers(MAX_AXES)]
    """As it was executed."""
    observation: Plain
    """Small named lists."""
    poses: Annotated[bytes, _bytes(MAX_POSES, multiple=28)]
    """float32 (bodies, 7): position and quaternion (w, x, y, z) in the world, in the order of the scene's bodies."""


@dataclass(frozen=True)
class Camera(Message, kind="camera", payload="picture"):
    """What one camera sees; only while somebody watches through it."""

    name: Name
    picture: Annotated[bytes, _bytes(MAX_PICTURE)]
    """JPEG."""


@dataclass(frozen=True)
class Control(Message, kind="control"):
    """What the hand of a person does now. The newest counts; it is also the sign that the person is still there."""

    holder: Name
    axes: Annotated[list[float], _numbers(MAX_AXES)]
    """In [-1, 1], one for each axis of the action."""
    seq: Count
    fine: Annotated[bool, _flag]
    """Slowly, for the last millimetre."""


FROM_ACTOR = ("hello", "steps", "statistics", "command", "scene", "view", "camera")
FROM_HUB = ("welcome", "refused", "acknowledged", "credit", "policy", "heard", "command", "trouble", "control")


def parse(data: bytes, allowed: Sequence[str]) -> Message | Steps | PolicySnapshot:
    """The message in a frame, checked; `BadFrame` for anything else."""
    if not isinstance(data, bytes) or len(data) < _LENGTH.size:
        raise BadFrame(f"a frame of {len(data)} bytes or of text; expected a binary one")
    (size,) = _LENGTH.unpack_from(data)
    start = _LENGTH.size + size
    if size > MAX_HEADER or start > len(data):
        raise BadFrame(f"a header of {size} bytes in a frame of {len(data)}; at most {MAX_HEADER}")
    try:
        header = unpack(data[_LENGTH.size : start])
    except CodecError as problem:
        raise BadFrame(str(problem)[:MAX_TEXT]) from None
    kind = header.pop("kind", None) if isinstance(header, dict) else None
    if not isinstance(kind, str) or kind not in allowed:
        raise BadFrame(f"a message of kind {kind!r:.50}; expected {', '.join(allowed)}")
    if kind == "steps":
        return Steps.parse(header, data, start)
    if kind == "policy":
        return _parse_policy(header, data[start:])
    behind = _KINDS[kind].payload
    if behind:
        if behind in header:
            raise BadFrame(f"'{kind}' has {behind} in its header; it travels behind it")
        header[behind] = data[start:]
    elif start != len(data):
        raise BadFrame(f"'{kind}' with {len(data) - start} bytes too many")
    if kind == "hello" and header.get("protocol") != PROTOCOL:
        # Its other fields are those of its own version: they say nothing to this one.
        raise OtherProtocol(header.get("protocol"))
    return _KINDS[kind].from_fields(header)


class OtherProtocol(BadFrame):
    """A greeting in another version."""

    def __init__(self, theirs: Any) -> None:
        super().__init__(f"the actor speaks version {theirs!r:.20} of the protocol, this hub speaks {PROTOCOL}")


def pack_policy(snapshot: PolicySnapshot) -> bytes:
    """A policy as it lies in the run folder and as actors receive it."""
    header = {"version": snapshot.version, "learner_step": snapshot.learner_step, "hash": snapshot.hash, "network": snapshot.kind}
    return _frame("policy", header, pack({name: np.asarray(value) for name, value in snapshot.parameters.items()}))


def parse_policy(data: bytes) -> PolicySnapshot:
    """What `pack_policy` wrote; `BadFrame` if it is anything else, or if its hash is not that of its parameters."""
    snapshot = parse(data, ("policy",))
    assert isinstance(snapshot, PolicySnapshot)
    return snapshot


def _parse_policy(fields: Mapping[str, Any], payload: bytes) -> PolicySnapshot:
    version, learner_step, expected = fields.get("version"), fields.get("learner_step"), fields.get("hash")
    if type(version) is not int or type(learner_step) is not int or version < 0:
        raise BadFrame(f"a policy of version {version!r:.50} and learner step {learner_step!r:.50}")
    try:
        parameters = unpack(payload)
    except CodecError as problem:
        raise BadFrame(f"policy {version}: {problem}"[:MAX_TEXT]) from None
    if not isinstance(parameters, dict) or not all(isinstance(value, np.ndarray) for value in parameters.values()):
        raise BadFrame(f"policy {version} is not a map of arrays")
    try:
        snapshot = PolicySnapshot(version, learner_step, parameters, policy_kind(fields.get("network"), parameters))
    except ValueError as problem:
        raise BadFrame(f"policy {version}: {problem}"[:MAX_TEXT]) from None
    if snapshot.hash != expected:
        raise BadFrame(f"policy {version} has the hash {snapshot.hash}, it was sent as {expected!r:.50}: damaged on the way")
    return snapshot


def _frame(kind: str, fields: Mapping[str, Any], *payload: bytes) -> bytes:
    header = pack({"kind": kind, **fields})
    if len(header) > MAX_HEADER:
        raise BadFrame(f"'{kind}' has a header of {len(header)} bytes, at most {MAX_HEADER}")
    return b"".join((_LENGTH.pack(len(header)), header, *payload))
