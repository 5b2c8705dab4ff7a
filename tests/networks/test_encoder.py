"""Pictures become features once, by weights that were read without trust."""

import dataclasses
import io
import pickle
import struct
from typing import Any

import numpy as np
import pytest

from tandem.errors import ConfigError, DataError, FileUnreadable, UnsafePickle
from tandem.networks.encoders import efficientnet
from tandem.networks.encoders.encoder import SPAN, Encoder, Trunk, fit_encoder
from tandem.networks.encoders.torch_file import read_tensors
from tandem.networks.encoders.trunks import Network
from tandem.types import Continuous, Entry, Spec


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    """Forty noisy pictures of a bright square at different places."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 60, (40, 64, 64, 3), dtype=np.uint8)
    for number, (x, y) in enumerate(rng.integers(0, 44, (40, 2))):
        drawn[number, x : x + 20, y : y + 20] += np.uint8(180)
    return drawn


@pytest.fixture(scope="module")
def encoder(pictures: np.ndarray) -> Encoder:
    return fit_encoder([pictures[:25], pictures[25:]])


# ---- the file of weights


class Evil:
    def __reduce__(self) -> Any:
        return print, ("this must not be printed",)


def torch_file(tensors: dict[str, Any], storage: np.ndarray) -> bytes:
    """A file as PyTorch wrote it before 2020; tensors are given as they are pickled."""

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return obj if isinstance(obj, tuple) and obj[:1] == ("storage",) else None

    file = io.BytesIO()
    for part in (0x1950A86A20F9469CFC6C, 1001, {}):
        pickle.dump(part, file, protocol=2)
    Pickler(file, protocol=2).dump(tensors)
    pickle.dump(["0"], file, protocol=2)
    return file.getvalue() + struct.pack("<q", len(storage)) + storage.astype("<f4").tobytes()


def test_a_file_that_would_call_something_is_refused_and_nothing_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnsafePickle, match=r"weights asks for .*print"):
        read_tensors(torch_file({"weight": Evil()}, np.zeros(1)), "weights")
    assert not capsys.readouterr().out


def test_a_file_that_is_cut_off_or_is_none_is_refused_in_words() -> None:
    for data in (b"", b"hello", torch_file({}, np.zeros(4))[:40]):
        with pytest.raises(FileUnreadable, match="weights"):
            read_tensors(data, "weights")


def test_weights_with_other_bytes_than_those_tested_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet, "SHA256", "0" * 64)
    efficientnet.pretrained.cache_clear()
    with pytest.raises(FileUnreadable, match="SHA-256 differs"):
        efficientnet.pretrained()


# ---- the trunk


def conv(x: np.ndarray, weight: np.ndarray, stride: int, depthwise: bool) -> np.ndarray:
    """(h, w, in) to (h / stride, w / stride, out), written out, with TensorFlow's SAME padding of an even size."""
    kernel = weight.shape[-1]
    padding = kernel - stride if stride > 1 else kernel - 1
    padded = np.pad(x, ((padding // 2, padding - padding // 2),) * 2 + ((0, 0),))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(0, 1))[::stride, ::stride]  # h, w, in, k, k
    return np.einsum("hwckl,ckl->hwc", windows, weight[:, 0]) if depthwise else np.einsum("hwckl,ockl->hwo", windows, weight)


def test_the_trunk_is_the_network_that_it_is_said_to_be() -> None:
    """Against the network written out in NumPy, with batch normalisation as a layer of its own."""
    path = efficientnet.importlib.util.find_spec(efficientnet.PACKAGE).submodule_search_locations[0]  # pyright: ignore
    weights = read_tensors((efficientnet.Path(path) / efficientnet.FILE).read_bytes(), "weights")
    picture = np.random.default_rng(1).integers(0, 256, (32, 48, 3), dtype=np.uint8)

    def layer(x: np.ndarray, name: str, norm: str, stride: int = 1, depthwise: bool = False) -> np.ndarray:
        x = conv(x, weights[f"{name}.weight"], stride, depthwise)
        mean, var = weights[f"{norm}.running_mean"], weights[f"{norm}.running_var"]
        return (x - mean) / np.sqrt(var + 1e-3) * weights[f"{norm}.weight"] + weights[f"{norm}.bias"]

    x = np.clip(layer((picture.astype(float) - 127) / 128, "_conv_stem", "_bn0", 2), 0, 6)
    for number, (_, stride, out) in enumerate(efficientnet.BLOCKS):
        block, before = f"_blocks.{number}.", x
        if number:
            x = np.clip(layer(x, f"{block}_expand_conv", f"{block}_bn0"), 0, 6)
        x = np.clip(layer(x, f"{block}_depthwise_conv", f"{block}_bn1", stride, depthwise=True), 0, 6)
        x = layer(x, f"{block}_project_conv", f"{block}_bn2")
        x = x + before if before.shape == x.shape and stride == 1 else x
        assert x.shape[2] == out
    found = Trunk(Network("efficientnet-lite0"))(picture[None])[0]
    assert found.shape == (2, 3, 80) and np.abs(found - x).max() < 1e-3 * np.abs(x).max()


# ---- the encoder


def test_features_are_centred_of_unit_size_and_rounded_by_a_hundredth(encoder: Encoder, pictures: np.ndarray) -> None:
    features = encoder.encode(pictures)
    assert features.shape == (40, 4, 4, 32) and features.dtype == np.int8
    exact = (Trunk(encoder.network)(pictures) - encoder.mean) @ encoder.components / encoder.std
    in_range = np.abs(exact) < SPAN
    assert in_range.mean() > 0.999
    assert np.abs(features * SPAN / 127 - exact)[in_range].max() < 0.5 * SPAN / 127 + 1e-3
    assert np.abs(exact.mean(axis=(0, 1, 2))).max() < 1e-3 and np.allclose(exact[..., :16].std(axis=(0, 1, 2)), 1, atol=1e-2)


def test_a_picture_has_the_same_features_alone_as_among_others(encoder: Encoder, pictures: np.ndarray) -> None:
    assert np.array_equal(encoder.encode(pictures[7:8])[0], encoder.encode(pictures)[7])


def test_an_encoder_survives_its_arrays_and_another_one_has_another_hash(encoder: Encoder, pictures: np.ndarray) -> None:
    again = Encoder.from_arrays(encoder.arrays())
    assert again.hash == encoder.hash and np.array_equal(again.encode(pictures[:2]), encoder.encode(pictures[:2]))
    assert fit_encoder([pictures[:25], pictures[25:]]).hash == encoder.hash, "fitted again on the same pictures"
    others = [fit_encoder([pictures[:20]]), dataclasses.replace(encoder, trunk="random-lite0")]
    assert len({encoder.hash, *(other.hash for other in others)}) == 3
    with pytest.raises(FileUnreadable, match="no encoder"):
        Encoder.from_arrays({})
    with pytest.raises(FileUnreadable, match="damaged"):
        Encoder.from_arrays(encoder.arrays() | {"encoder/std": np.zeros(32)})


def test_pictures_that_do_not_differ_or_are_missing_are_refused(pictures: np.ndarray) -> None:
    with pytest.raises(DataError, match="black, covered or frozen"):
        fit_encoder([np.zeros((30, 64, 64, 3), np.uint8)] * 2)
    with pytest.raises(DataError, match="no pictures"):
        fit_encoder([])


# ---- the spec


def spec_of(picture: Entry) -> Spec:
    entries = {"eye": picture, "pose": Entry((2,)), "secret": Entry((1,), role="privileged")}
    return Spec("t", entries, (Continuous("arm", 2),), 10.0, 100, (0.0, 1.0))


def test_a_run_observes_features_and_nothing_that_is_for_teachers(encoder: Encoder) -> None:
    spec = spec_of(Entry((64, 64, 3), "uint8"))
    seen = encoder.spec(spec)
    assert list(seen.observation) == ["eye", "pose"]
    eye = seen.observation["eye"]
    assert (eye.role, eye.shape, eye.dtype, eye.picture) == ("features", (4, 4, 32), "int8", (64, 64, 3))
    assert eye.encoder == f"efficientnet-lite0:{encoder.hash}"
    assert Spec.from_json(seen.to_json()) == seen
    other = dataclasses.replace(encoder, std=encoder.std * 2).spec(spec)
    assert other.hash != seen.hash and "encoder" in seen.difference(other)[0], "the features of two encoders are not the same numbers"


@pytest.mark.parametrize("shape", [(84, 84, 3), (64, 64, 1), (16, 16, 3)])
def test_a_picture_of_a_size_that_cannot_be_encoded_is_refused_by_name(encoder: Encoder, shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"the image 'eye' has the shape .* multiples of 16"):
        encoder.spec(spec_of(Entry(shape, "uint8")))
