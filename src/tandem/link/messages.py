"""The messages between actors and hub. Every field is checked before a message is used.

A frame is one binary WebSocket message:

    4 bytes         length of the header, little-endian
    header          msgpack: a map of `kind` and exactly the fields of one of the classes below
    payload         raw bytes: the steps of a `Steps`, the parameters of a policy, the poses of a `View`; empty for most kinds

The header is small, so that a hostile one cannot fill the memory; the payload is only sliced.

    actor -> hub    Hello, Steps, Statistics, Command, Scene, View, Camera      (an EpisodeEnd is sent among the steps)
    hub -> actor    Welcome or Refused, Acknowledged, Credit, Policy, Heard, Command, Trouble, Control
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from tandem.codec import CodecError, pack, unpack
from tandem.link.commands import COMMANDS
from tandem.link.fields import (
    KINDS,
    LENGTH,
    MAX_HEADER,
    MAX_TEXT,
    BadFrame,
    Count,
    MaybeName,
    Message,
    Name,
    Number,
    Plain,
    Version,
    are_numbers,
    is_bytes,
    is_count,
    is_flag,
    is_maybe_flag,
    is_one_of,
    is_plain,
    is_text,
    make_frame,
    shown,
)
from tandem.link.steps import Steps
from tandem.runs.policy_kind import policy_kind
from tandem.types import PolicySnapshot

PROTOCOL = 6
"""Both ends must have the same one. Any change of a message is a new number."""

MAX_FRAME = 32 * 2**20
"""Bytes of the largest frame that an actor may send; less where the steps of the task are smaller."""
MAX_POLICY_FRAME = 256 * 2**20
"""Bytes of the largest frame that an actor accepts."""
MAX_AXES = 64
"""Axes of an action that a person can steer."""
MAX_POSES = 28 * 10_000
"""Bytes of the poses in a `View`: seven float32 per body."""
MAX_PICTURE = 2**19
"""Bytes of a `Camera`'s picture."""
MAX_RULE = 2**25
"""Bytes of the file of a reward rule."""

Pace = Literal["realtime", "fast"]
WHO = ("policy", "person", "script", "nobody")
"""Who chose the last action; nobody: the robot stands still."""
STATES = ("running", "paused", "holding", "stopped", "resetting")
REFUSALS = ("protocol", "task", "spec", "run", "busy", "storage", "source")


# ---- greeting


@dataclass(frozen=True)
class Hello(Message, kind="hello"):
    """The first message of an actor."""

    protocol: Count
    task: Name
    spec_hash: Name
    spec: Plain
    name: Name
    """Chosen by a person; two actors may share one."""
    source: Name
    """Globally unique name of this process."""
    pace: Annotated[Pace, is_one_of("realtime", "fast")]
    rows: Annotated[int, is_count(1, 100_000)]
    """Environments it steps at once."""
    run: MaybeName
    """The run it has joined before; empty for a new actor."""


@dataclass(frozen=True)
class Welcome(Message, kind="welcome", payload="rule"):
    """The actor may join."""

    run: Name
    """Globally unique id of the run; a spool belongs to one run."""
    task: Name
    version: Version
    """Newest policy, which is sent next; -1 if there is none yet."""
    window_bytes: Annotated[int, is_count(1)]
    """Bytes of steps that may be sent without an acknowledgement; one group is always allowed."""
    record_bytes: Annotated[int, is_count(1)]
    """The largest packed step that the hub accepts."""
    settings: Plain
    """The run's settings for actors (random_steps, seed, ...)."""
    rule: Annotated[bytes, is_bytes(MAX_RULE)] = b""
    """The file of the classifier or of the conditions that give the rewards; empty where the environment or a person does."""


@dataclass(frozen=True)
class Refused(Message, kind="refused"):
    """The actor may not join; the hub then closes the connection."""

    code: Annotated[str, is_one_of(*REFUSALS)]
    message: Annotated[str, is_text(MAX_TEXT)]


# ---- steps


@dataclass(frozen=True)
class Acknowledged(Message, kind="acknowledged"):
    """All groups up to this one are committed."""

    group: Count
    rejected: Count
    """Records among them that are invalid; they are stored with their reasons."""
    credit: Count
    """See `Credit`."""


@dataclass(frozen=True)
class Credit(Message, kind="credit"):
    """Pace `fast`: the actor may make this many steps beyond those acknowledged so far."""

    credit: Count


@dataclass(frozen=True)
class EpisodeEnd(Message, kind="episode_end"):
    """The result of an episode. Sent among the steps, so it is not lost either."""

    source: Name
    episode: Count
    steps: Count
    kept: Annotated[bool, is_flag]
    """False: a person discarded it."""
    success: Annotated[bool | None, is_maybe_flag]
    """None: unknown."""


# ---- state and commands


@dataclass(frozen=True)
class Statistics(Message, kind="statistics"):
    """An actor's state. Sent every second, and at once when it receives or uses another policy. Answered by `Heard`."""

    sent_at: Number
    """The actor's monotonic clock; returned in `Heard`."""
    wall_time: Number
    """The actor's wall clock, only for display."""
    steps: Count
    version: Version
    """The policy it acts with; -1 before the first."""
    policy_hash: MaybeName
    received: Version
    """Newest policy it has received. The hub sends the next one only then, so that policies do not queue up in a slow network."""
    unacknowledged: Count
    spool_bytes: Count
    dropped: Count
    """Steps that did not fit into the spool."""
    round_trip_s: Number
    clock_difference_s: Number
    """Hub's wall clock minus the actor's."""
    standing: Annotated[str, is_text(MAX_TEXT, empty=True)]
    """Why the robot stands still until somebody says resume; empty if it may move."""
    asks: Annotated[str, is_text(MAX_TEXT, empty=True)]
    """Why it asks a person for help; empty if it does not."""


@dataclass(frozen=True)
class Heard(Message, kind="heard"):
    """The answer to `Statistics`: gives round trip and clock difference, and shows that the hub is alive."""

    sent_at: Number
    wall_time: Number


@dataclass(frozen=True)
class Command(Message, kind="command"):
    """A command of a person or a program to the trainer, to actors, or to both. See `commands.COMMANDS`."""

    command: Annotated[str, is_one_of(*COMMANDS)]
    to: Name
    """`trainer`, `actors`, `all`, or the name or source of one actor."""
    detail: Annotated[dict[str, Any], is_plain(MAX_TEXT)]
    """Arguments, e.g. {"success": true} for `label`."""


@dataclass(frozen=True)
class Trouble(Message, kind="trouble"):
    """The hub cannot store steps at the moment. Nothing is lost. An empty message says that it can again."""

    code: Annotated[str, is_one_of("storage", "none")]
    message: Annotated[str, is_text(MAX_TEXT, empty=True)]


# ---- watching and steering


@dataclass(frozen=True)
class Scene(Message, kind="scene"):
    """The shapes to draw; sent when somebody begins to watch. See `envs/scenery.py`."""

    description: Plain


@dataclass(frozen=True)
class View(Message, kind="view", payload="poses"):
    """The state of row 0 of an actor; sent only while somebody watches."""

    episode: Count
    step: Count
    """Counted within the episode."""
    steps: Count
    """Steps of the actor so far, all rows together."""
    who: Annotated[str, is_one_of(*WHO)]
    """Who chose the last action."""
    holder: MaybeName
    """The page or device that holds control; empty if none does."""
    state: Annotated[str, is_one_of(*STATES)]
    notice: Annotated[str, is_text(MAX_TEXT, empty=True)]
    """A text for the person; empty if there is none."""
    reward: Number
    """Sum of the rewards of this episode so far."""
    success: Annotated[bool | None, is_maybe_flag]
    """Success of the last step; None before the first."""
    action: Annotated[list[float], are_numbers(MAX_AXES)]
    """The executed action."""
    observation: Plain
    """Small named lists."""
    poses: Annotated[bytes, is_bytes(MAX_POSES, multiple=28)]
    """float32 (bodies, 7): position and quaternion (w, x, y, z) in the world, in the order of the scene's bodies."""


@dataclass(frozen=True)
class Camera(Message, kind="camera", payload="picture"):
    """A picture of one camera; sent only while somebody watches it."""

    name: Name
    picture: Annotated[bytes, is_bytes(MAX_PICTURE)]
    """JPEG."""


@dataclass(frozen=True)
class Control(Message, kind="control"):
    """A steering command. Only the newest counts; it is also the heartbeat of the person who steers."""

    holder: Name
    axes: Annotated[list[float], are_numbers(MAX_AXES)]
    """In [-1, 1], one for each axis of the action."""
    seq: Count


FROM_ACTOR = ("hello", "steps", "statistics", "command", "scene", "view", "camera")
FROM_HUB = ("welcome", "refused", "acknowledged", "credit", "policy", "heard", "command", "trouble", "control")


def parse(data: bytes, allowed: Sequence[str]) -> Message | Steps | PolicySnapshot:
    """The message in a frame, checked; `BadFrame` for anything else."""
    if not isinstance(data, bytes) or len(data) < LENGTH.size:
        raise BadFrame(f"a frame of {len(data)} bytes, or a text frame; expected a binary one")
    (size,) = LENGTH.unpack_from(data)
    start = LENGTH.size + size
    if size > MAX_HEADER or start > len(data):
        raise BadFrame(f"a header of {size} bytes in a frame of {len(data)}; at most {MAX_HEADER}")
    try:
        header = unpack(data[LENGTH.size : start])
    except CodecError as problem:
        raise BadFrame(str(problem)[:MAX_TEXT]) from None
    kind = header.pop("kind", None) if isinstance(header, dict) else None
    if not isinstance(kind, str) or kind not in allowed:
        raise BadFrame(f"a message of kind {shown(kind)}; expected {', '.join(allowed)}")
    if kind == "steps":
        return Steps.parse(header, data, start)
    if kind == "policy":
        return _parse_policy(header, data[start:])
    behind = KINDS[kind].payload
    if behind:
        if behind in header:
            raise BadFrame(f"'{kind}' has {behind} in its header; it belongs behind the header")
        header[behind] = data[start:]
    elif start != len(data):
        raise BadFrame(f"'{kind}' with {len(data) - start} bytes too many")
    protocol = header.get("protocol")
    if kind == "hello" and (type(protocol) is not int or protocol != PROTOCOL):
        raise OtherProtocol(protocol)  # the other fields belong to that version, so they are not checked
    return KINDS[kind].from_fields(header)


class OtherProtocol(BadFrame):
    """A greeting in another version of the protocol."""

    def __init__(self, theirs: Any) -> None:
        super().__init__(f"the actor speaks version {shown(theirs)} of the protocol, this hub speaks {PROTOCOL}")


def pack_policy(snapshot: PolicySnapshot) -> bytes:
    """A policy as it is stored in the run folder and sent to actors."""
    header = {"version": snapshot.version, "learner_step": snapshot.learner_step, "hash": snapshot.hash, "network": snapshot.kind}
    header["checksum"] = _policy_sum(snapshot)
    return make_frame("policy", header, pack({name: np.asarray(value) for name, value in snapshot.parameters.items()}))


def _policy_sum(snapshot: PolicySnapshot) -> int:
    """Covers what the hash of the parameters does not."""
    return zlib.crc32(f"{snapshot.version} {snapshot.learner_step} {snapshot.kind} {snapshot.hash}".encode())


def parse_policy(data: bytes) -> PolicySnapshot:
    """The inverse of `pack_policy`; `BadFrame` for anything else, or if the hash does not match the parameters."""
    snapshot = parse(data, ("policy",))
    assert isinstance(snapshot, PolicySnapshot)
    return snapshot


def _parse_policy(fields: Mapping[str, Any], payload: bytes) -> PolicySnapshot:
    version, learner_step, expected = fields.get("version"), fields.get("learner_step"), fields.get("hash")
    if type(version) is not int or type(learner_step) is not int or version < 0:
        raise BadFrame(f"a policy of version {shown(version)} and learner step {shown(learner_step)}")
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
    if not isinstance(expected, str) or snapshot.hash != expected:
        raise BadFrame(f"policy {version} has the hash {snapshot.hash}, the sender said {shown(expected)}: damaged on the way")
    if fields.get("checksum", _policy_sum(snapshot)) != _policy_sum(snapshot):  # earlier versions send none
        raise BadFrame(f"policy {version}: the checksum of its header does not match: damaged on the way")
    return snapshot
