"""Every message comes back as it was sent, and anything else is refused with a reason, never with a crash."""

import dataclasses
import json
import random
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from link_samples import SPEC, snapshot

from tandem.codec import pack
from tandem.link import messages
from tandem.link.fields import COUNT_LIMIT
from tandem.link.messages import (
    COMMANDS,
    FROM_ACTOR,
    FROM_HUB,
    MAX_HEADER,
    PROTOCOL,
    Acknowledged,
    BadFrame,
    Camera,
    Command,
    Control,
    Credit,
    EpisodeEnd,
    Heard,
    Hello,
    OtherProtocol,
    Refused,
    Scene,
    Statistics,
    Trouble,
    View,
    Welcome,
    pack_policy,
    parse,
    parse_policy,
)
from tandem.link.steps import EPISODE_END, MAX_RECORDS, Record, Steps
from tandem.runs.printable import printable

ALL_KINDS = (*FROM_ACTOR, *FROM_HUB, "episode_end")
HELLO = Hello(PROTOCOL, "toy", SPEC.hash, json.loads(json.dumps(SPEC.to_json())), "left", "actor-1", "fast", 8, "")
EXAMPLES = [
    HELLO,
    Welcome("run", "toy", -1, 2**20, 70_000, {"seed": 1, "names": ["a", None]}),
    Refused("spec", "observation entry 'q' differs"),
    Acknowledged(3, 0, 16),
    Credit(9),
    EpisodeEnd("actor-1.0", 4, 100, kept=True, success=None),
    Statistics(1.5, 1.7e9, 10, -1, "", 5, 3, 4096, 0, 0.001, -3600.0, "paused by a person", "asks for help: it is stuck"),
    Heard(1.5, 1.7e9),
    Command("label", "left", {"success": True}),
    Trouble("none", ""),
    Scene({"bodies": ["world"], "geoms": [{"body": 0, "type": "box", "size": [1.0, 1.0, 0.1]}], "control_hz": 10.0}),
    View(3, 14, 1200, "person", "page-1", "running", "", 0.0, None, [0.5, -1.0], {"q": [0.1, 0.2]}, bytes(56)),
    Camera("close", b"a picture"),
    Control("page-1", [0.0, 0.25, -1.0], 7),
]
STEPS = Steps(7, True, [Record("a.0", 0, b"one"), Record("a.1", 0, b""), Record("a.0", 1, b"three"), Record("a.0", EPISODE_END, b"end")])


def frame(header: Any, payload: bytes = b"") -> bytes:
    data = header if isinstance(header, bytes) else pack(header)
    return struct.pack("<I", len(data)) + data + payload


def behind(fields: dict[str, Any], payload: str) -> bytes:
    """A frame of these fields, one of which travels behind the header."""
    rest = {key: value for key, value in fields.items() if key != payload}
    return frame(rest, fields[payload] if payload else b"")


def test_every_kind_has_an_example_here() -> None:
    assert {example.kind for example in EXAMPLES} == set(messages.KINDS)
    assert {example.kind for example in EXAMPLES} | {"steps", "policy"} == set(ALL_KINDS)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: message.kind)
def test_a_message_comes_back_as_it_was_sent(message: messages.Message) -> None:
    assert parse(message.pack(), (message.kind,)) == message


def test_steps_come_back_in_order_with_their_sources() -> None:
    back = parse(STEPS.pack(), FROM_ACTOR)
    assert isinstance(back, Steps) and (back.group, back.own, list(back.records)) == (7, True, STEPS.records)


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).map(printable)  # what is not is replaced on arrival


@given(st.lists(st.builds(Record, names, st.integers(-1, COUNT_LIMIT - 1), st.binary(max_size=50)), min_size=1, max_size=MAX_RECORDS))
@settings(max_examples=100, deadline=None)
def test_any_steps_come_back(records: list[Record]) -> None:
    back = parse(Steps(1, False, records).pack(), FROM_ACTOR)
    assert isinstance(back, Steps) and list(back.records) == records


@given(
    st.sampled_from(list(COMMANDS)), names, st.dictionaries(names, st.none() | st.booleans() | st.integers(-1000, 1000) | names, max_size=5)
)
def test_any_command_comes_back(command: str, to: str, detail: dict[str, Any]) -> None:
    message = Command(command, to, detail)
    assert parse(message.pack(), FROM_HUB) == message


@given(st.dictionaries(names, st.lists(st.floats(width=32, allow_nan=False), max_size=8), max_size=4), st.integers(0, 2**40))
@settings(max_examples=50, deadline=None)
def test_any_policy_comes_back_with_its_hash(parameters: dict[str, list[float]], version: int) -> None:
    sent = messages.PolicySnapshot(version, 3, {name: np.array(values, np.float32) for name, values in parameters.items()})
    back = parse_policy(pack_policy(sent))
    assert (back.version, back.learner_step, back.hash) == (version, 3, sent.hash)


def test_a_policy_that_was_changed_on_the_way_is_refused() -> None:
    data = bytearray(pack_policy(snapshot(5)))
    data[-1] ^= 1
    with pytest.raises(BadFrame, match="policy 5 has the hash"):
        parse_policy(bytes(data))


def test_a_greeting_in_another_version_is_named_before_its_fields_are_checked() -> None:
    with pytest.raises(OtherProtocol, match=f"version 99 of the protocol, this hub speaks {PROTOCOL}"):
        parse(frame({"kind": "hello", "protocol": 99, "something": "new"}), ("hello",))


WRONG = [None, True, -2, 2**60, 1.5, float("nan"), "", "x" * 5000, b"bytes", [], [1], {"a": 1}, np.zeros(2)]


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: message.kind)
def test_no_field_accepts_an_invalid_value(message: messages.Message) -> None:
    for name in message.fields().keys() - {"protocol", message.payload}:
        refused = 0
        for wrong in WRONG:
            try:
                back = parse(behind({"kind": message.kind, **message.fields(), name: wrong}, message.payload), (message.kind,))
            except BadFrame as problem:
                assert name in str(problem)
                refused += 1
            else:
                assert getattr(back, name) == wrong  # one that this field may have
        assert refused >= 10, name  # a number takes three of the thirteen, every other field fewer


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: message.kind)
def test_a_field_too_few_or_too_many_is_refused(message: messages.Message) -> None:
    fields = {"kind": message.kind, **message.fields()}
    for name in message.fields().keys() - {message.payload}:
        with pytest.raises(BadFrame):
            parse(behind({key: value for key, value in fields.items() if key != name}, message.payload), (message.kind,))
    with pytest.raises(BadFrame, match="unknown"):
        parse(behind({**fields, "more": 1}, message.payload), (message.kind,))
    if not message.payload:
        with pytest.raises(BadFrame, match="too many"):
            parse(frame(fields, b"?"), (message.kind,))


def test_a_payload_is_bounded_and_never_in_the_header() -> None:
    view = next(example for example in EXAMPLES if isinstance(example, View))
    fields = {"kind": "view", **view.fields()}
    for poses in (bytes(55), bytes(messages.MAX_POSES + 28)):  # not seven float32 for each body; more bodies than there may be
        with pytest.raises(BadFrame, match="poses"):
            parse(behind({**fields, "poses": poses}, "poses"), FROM_ACTOR)
    with pytest.raises(BadFrame, match="header"):
        parse(frame(fields, bytes(28)), FROM_ACTOR)


@pytest.mark.parametrize(
    "change",
    [
        {"group": 0},
        {"group": True},
        {"own": 1},
        {"sources": "a"},
        {"sources": []},
        {"sources": ["a.0", ""]},
        {"sources": ["a.0", "x" * 101]},
        {"sources": ["a.0", 7]},
        {"which": [0, 1, 0, 2]},
        {"which": [0, 1, 0, -1]},
        {"which": [0, 1, 0]},
        {"which": [0] * (MAX_RECORDS + 1)},
        {"which": None},
        {"seqs": [0, 0, 1, -2]},
        {"seqs": [0, 0, 1, COUNT_LIMIT]},
        {"seqs": [0, 0, 1, True]},
        {"sizes": [3, 0, 5, 4]},
        {"sizes": [3, 0, 5, -1]},
        {"sizes": [3, 0, 5, 2**40]},
        {"sizes": [3, 0, 5, 2]},
        {"sizes": [3, 0, 5, 3.0]},
    ],
    ids=str,
)
def test_a_table_of_steps_that_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    table = {"group": 7, "own": True, "sources": ["a.0", "a.1"], "which": [0, 1, 0, 0], "seqs": [0, 0, 1, -1], "sizes": [3, 0, 5, 3]}
    assert parse(frame({"kind": "steps", **table}, b"onethreeend"), FROM_ACTOR) == STEPS
    with pytest.raises(BadFrame, match="'steps'"):
        parse(frame({"kind": "steps", **table, **change}, b"onethreeend"), FROM_ACTOR)


def test_a_message_of_the_other_direction_is_refused() -> None:
    with pytest.raises(BadFrame, match="kind 'welcome'"):
        parse(EXAMPLES[1].pack(), FROM_ACTOR)
    with pytest.raises(BadFrame, match="kind 'steps'"):
        parse(STEPS.pack(), FROM_HUB)


def test_a_large_header_is_refused_unread() -> None:
    with pytest.raises(BadFrame, match="header of 262145 bytes"):
        parse(frame(b"\xc0" * (MAX_HEADER + 1)), ALL_KINDS)
    with pytest.raises(BadFrame, match="header of"):
        Command("stop", "all", {"x": "y" * MAX_HEADER}).pack()


def test_any_input_raises_bad_frame_and_nothing_else() -> None:
    """Random bytes, sound frames cut off anywhere, and sound frames with some bytes changed."""
    random.seed(1)
    sound = [example.pack() for example in EXAMPLES] + [STEPS.pack(), pack_policy(snapshot(1))]
    tried = [data[:size] for data in sound for size in range(len(data))]
    for _ in range(20_000):
        changed = bytearray(random.choice(sound))
        for _ in range(random.randint(1, 4)):
            changed[random.randrange(len(changed))] = random.randrange(256)
        tried.append(bytes(changed))
    tried += [random.randbytes(random.randrange(200)) for _ in range(5000)]
    refused = 0
    for data in tried:
        try:
            parse(data, ALL_KINDS)
        except BadFrame as problem:
            assert str(problem)
            refused += 1
    assert refused > len(tried) * 0.8  # the others differ in a number or a letter only


def test_nested_containers_are_refused() -> None:
    header = b"\x81\xa4kind" + b"\x91" * 2000 + b"\x90"
    for data in (frame(header), frame({"kind": "command", "command": "stop", "to": "all", "detail": {"a": [[1] * 5000]}})):
        with pytest.raises(BadFrame):
            parse(data, ALL_KINDS)


def test_messages_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        HELLO.rows = 2  # pyright: ignore[reportAttributeAccessIssue]


def test_a_policy_whose_header_changed_on_the_disk_is_refused() -> None:
    """The hash covers the parameters; a changed version would make actors ignore every policy after it."""
    data = pack_policy(snapshot(7))
    at = data.index(b"version") + len(b"version")
    assert data[at] == 7
    with pytest.raises(BadFrame, match="checksum of its header"):
        parse_policy(data[:at] + bytes([8]) + data[at + 1 :])
