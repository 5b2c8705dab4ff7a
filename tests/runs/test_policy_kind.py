"""A policy says its kind, in a file and on the link; only files that were written before that are told by their parameters."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from safetensors import safe_open

from tandem.errors import FileUnreadable
from tandem.link.messages import BadFrame, pack_policy, parse_policy
from tandem.runs.checkpoint import read_policy, write_policy
from tandem.types import Continuous, Entry, PolicyKind, PolicySnapshot, Spec

SPEC = Spec("toy", {"q": Entry((2,))}, (Continuous("arm", 1),), 10, 100)
NAMES: dict[PolicyKind, tuple[str, ...]] = {
    "tanh_gaussian": ("mean/weight", "log_std/weight"),
    "gaussian": ("mean/weight", "normaliser/mean"),
    "recurrent_gaussian": ("mean/weight", "normaliser/mean", "rnn_type"),
}


def policy(kind: PolicyKind, says: PolicyKind) -> PolicySnapshot:
    return PolicySnapshot(1, 2, {name: np.zeros(1, np.float32) for name in NAMES[kind]}, says)


def rewritten(path: Path, **changes: str | None) -> None:
    """The same file with other metadata, and without the checksum of them, as earlier versions wrote it."""
    with safe_open(path, framework="numpy") as file:
        metadata, arrays = file.metadata() | {"checksum": None} | changes, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    path.write_bytes(safetensors.numpy.save(arrays, metadata={key: value for key, value in metadata.items() if value is not None}))


@pytest.mark.parametrize("says", NAMES)
def test_the_kind_is_what_the_file_says_whatever_its_parameters_are_called(says: PolicyKind, tmp_path: Path) -> None:
    for kind in NAMES:
        write_policy(tmp_path / "policy.safetensors", policy(kind, says), SPEC)
        assert read_policy(tmp_path / "policy.safetensors", SPEC)[0].kind == says
        assert parse_policy(pack_policy(policy(kind, says))).kind == says


@pytest.mark.parametrize("kind", NAMES)
def test_a_file_from_before_says_none_and_is_told_by_its_parameters(kind: PolicyKind, tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    write_policy(path, policy(kind, "tanh_gaussian"), SPEC)
    rewritten(path, kind=None)
    assert read_policy(path)[0].kind == kind


def test_a_spec_from_before_actions_had_parts_is_read_too(tmp_path: Path) -> None:
    path, spec = tmp_path / "policy.safetensors", SPEC.to_json()
    write_policy(path, policy("gaussian", "gaussian"), SPEC)
    spec["action"] = {"shape": [1], "dtype": "float32", "unit": "", "scale": 1.0, "meaning": ""}
    del spec["observation"]["q"]["role"]
    rewritten(path, kind=None, spec=json.dumps(spec))
    assert read_policy(path, SPEC)[1].hash == SPEC.hash


def test_a_kind_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    write_policy(path, policy("gaussian", "gaussian"), SPEC)
    rewritten(path, kind="diffusion")
    with pytest.raises(FileUnreadable, match="kind 'diffusion'; this version knows tanh_gaussian, gaussian, recurrent_gaussian"):
        read_policy(path)
    frame = pack_policy(policy("gaussian", "gaussian")).replace(b"gaussian", b"newfound", 1)
    with pytest.raises(BadFrame, match="kind 'newfound'"):
        parse_policy(frame)
