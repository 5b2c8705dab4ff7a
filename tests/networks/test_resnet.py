"""ResNet-10 with the user's weights: both files hold the same network, it computes what theirs does, and nothing in a file is run."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from tandem.data.resnet_file import read_resnet10
from tandem.errors import ConfigError, FileMissing, FileUnreadable, UnsafePickle
from tandem.networks.encoders import resnet
from tandem.networks.encoders.encoder import Encoder, Trunk, fit_encoder
from tandem.networks.encoders.trunks import Network, check_name
from tandem.off_policy.eyes import network_for

BLOCKS = (64, 128, 256, 512)
"""Both files have the block of stride 32 too."""
RNG = np.random.default_rng(0)


def flax_tree() -> dict[str, Any]:
    """As hil-serl's file: names and shapes of its network, random numbers."""

    def norm(width: int) -> dict[str, np.ndarray]:
        return {part: RNG.normal(1.0, 0.2, width).astype(np.float32) for part in ("scale", "bias")}

    def kernel(*shape: int) -> dict[str, np.ndarray]:
        return {"kernel": (RNG.standard_normal(shape) * np.sqrt(2 / np.prod(shape[:3]))).astype(np.float32)}

    tree: dict[str, Any] = {"conv_init": kernel(7, 7, 3, 64), "norm_init": norm(64)}
    before = 64
    for number, width in enumerate(BLOCKS):
        block: dict[str, Any] = {"Conv_0": kernel(3, 3, before, width), "MyGroupNorm_0": norm(width)}
        block |= {"Conv_1": kernel(3, 3, width, width), "MyGroupNorm_1": norm(width)}
        if width != before:
            block |= {"conv_proj": kernel(1, 1, before, width), "norm_proj": norm(width)}
        tree[f"ResNetBlock_{number}"] = block
        before = width
    return tree


def torch_arrays(tree: dict[str, Any]) -> dict[str, np.ndarray]:
    """The same numbers as LeRobot's file names them."""
    found: dict[str, np.ndarray] = {}

    def put(conv: str, norm: str, kernel: dict[str, np.ndarray], learned: dict[str, np.ndarray]) -> None:
        found[conv] = np.ascontiguousarray(kernel["kernel"].transpose(3, 2, 0, 1))
        found[f"{norm}.weight"], found[f"{norm}.bias"] = learned["scale"], learned["bias"]

    put("embedder.0.weight", "embedder.1", tree["conv_init"], tree["norm_init"])
    for number in range(len(BLOCKS)):
        stage, block = f"encoder.stages.{number}", tree[f"ResNetBlock_{number}"]
        for i in (0, 1):
            put(f"{stage}.conv{i + 1}.conv.weight", f"{stage}.norm{i + 1}", block[f"Conv_{i}"], block[f"MyGroupNorm_{i}"])
        if "conv_proj" in block:
            put(f"{stage}.shortcut.0.conv.weight", f"{stage}.shortcut.1", block["conv_proj"], block["norm_proj"])
    return found


@pytest.fixture(scope="module")
def tree() -> dict[str, Any]:
    return flax_tree()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(resnet.FOLDER_VARIABLE, str(tmp_path / "trunks"))
    yield tmp_path / "trunks"


@pytest.fixture
def file(tree: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "resnet10_params.pkl"
    path.write_bytes(pickle.dumps(tree))
    return path


def theirs(tree: dict[str, Any], picture: np.ndarray) -> jax.Array:
    """The first three blocks as their code computes them, with the padding SAME of XLA itself."""

    def conv(x: jax.Array, part: dict[str, np.ndarray], stride: int, padding: Any = "SAME") -> jax.Array:
        order = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, jnp.asarray(part["kernel"]), (stride, stride), padding, dimension_numbers=order)

    def norm(x: jax.Array, part: dict[str, np.ndarray]) -> jax.Array:
        groups = x.reshape(1, -1, 4, x.shape[-1] // 4)
        mean, var = groups.mean(axis=(1, 3), keepdims=True), groups.var(axis=(1, 3), keepdims=True)
        return ((groups - mean) / jnp.sqrt(var + 1e-5)).reshape(x.shape) * part["scale"] + part["bias"]

    x = (jnp.asarray(picture[None], jnp.float32) / 255 - jnp.array([0.485, 0.456, 0.406])) / jnp.array([0.229, 0.224, 0.225])
    x = jax.nn.relu(norm(conv(x, tree["conv_init"], 2, [(3, 3), (3, 3)]), tree["norm_init"]))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for number in range(3):
        block, stride = tree[f"ResNetBlock_{number}"], 2 if number else 1
        y = jax.nn.relu(norm(conv(x, block["Conv_0"], stride), block["MyGroupNorm_0"]))
        y = norm(conv(y, block["Conv_1"], 1), block["MyGroupNorm_1"])
        x = jax.nn.relu(y + (norm(conv(x, block["conv_proj"], stride), block["norm_proj"]) if number else x))
    return x[0]


def test_both_files_hold_the_same_network(tree: dict[str, Any], file: Path, tmp_path: Path) -> None:
    other = tmp_path / "model.safetensors"
    other.write_bytes(safetensors.numpy.save(torch_arrays(tree)))
    one, two = read_resnet10(file), read_resnet10(other)
    assert one.keys() == two.keys() == resnet.shapes().keys()
    assert all(np.array_equal(one[name], two[name]) for name in one)
    assert network_for(f"resnet10:{file}") == network_for(f"resnet10:{other}")


def test_it_computes_what_theirs_does(tree: dict[str, Any], file: Path) -> None:
    picture = np.random.default_rng(1).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    found, expected = Trunk(network_for(f"resnet10:{file}"))(picture[None])[0], np.asarray(jax.jit(theirs)(tree, picture))
    assert found.shape == expected.shape == (4, 6, 256)
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()


def test_a_tree_of_jax_arrays_is_read_without_jax(tree: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "params.pkl"
    path.write_bytes(pickle.dumps({"params": jax.tree.map(jnp.asarray, tree)}))
    assert np.array_equal(read_resnet10(path)["1/second/weight"], tree["ResNetBlock_1"]["Conv_1"]["kernel"].transpose(3, 2, 0, 1))


def test_an_encoder_with_it_survives_its_arrays_and_finds_its_weights_by_their_hash(file: Path, folder: Path) -> None:
    pictures = np.random.default_rng(2).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    encoder = fit_encoder([pictures], network_for(f"resnet10:{file}"))
    again = Encoder.from_arrays(encoder.arrays())
    assert again.hash == encoder.hash and again.weights == encoder.weights and encoder.components.shape == (256, 32)
    assert (
        np.array_equal(again.encode(pictures), encoder.encode(pictures))
        and sum(array.nbytes for array in encoder.arrays().values()) < 40_000
    )
    [kept] = folder.iterdir()
    kept.write_bytes(kept.read_bytes()[:-4] + b"abcd")
    with pytest.raises(FileUnreadable, match="are not those that its name says"):
        resnet.kept(encoder.weights)
    kept.unlink()
    with pytest.raises(FileMissing, match=r"ResNet-10 whose weights have the hash .*copy"):
        resnet.kept(encoder.weights)


class Evil:
    def __reduce__(self) -> Any:
        return print, ("this must not be printed",)


def test_what_is_no_resnet10_is_refused_by_name(tree: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.pkl"
    path.write_bytes(pickle.dumps({**tree, "conv_init": Evil()}))
    with pytest.raises(UnsafePickle, match=r"print"):
        read_resnet10(path)
    assert not capsys.readouterr().out
    path.write_bytes(pickle.dumps({name: part for name, part in tree.items() if name != "ResNetBlock_2"}))
    with pytest.raises(FileUnreadable, match="has no 'ResNetBlock_2/Conv_0/kernel'"):
        read_resnet10(path)
    path.write_bytes(pickle.dumps({**tree, "norm_init": {"scale": np.ones(3, np.float32), "bias": np.ones(64, np.float32)}}))
    with pytest.raises(FileUnreadable, match=r"'norm_init/scale' has the shape \(3,\) float32, expected finite floats of shape \(64,\)"):
        read_resnet10(path)
    other = tmp_path / "bad.safetensors"
    other.write_bytes(b"nothing")
    with pytest.raises(FileUnreadable, match="not a file of safetensors"):
        read_resnet10(other)
    with pytest.raises(FileMissing, match=r"no file .*weights of ResNet-10"):
        read_resnet10(tmp_path / "none.pkl")


def test_a_setting_that_names_no_network_is_refused() -> None:
    check_name("resnet10:weights.pkl")
    for asked in ("resnet10", "resnet10:", "vgg"):
        with pytest.raises(ConfigError, match=r"no encoder is called .*resnet10:FILE"):
            check_name(asked)
    with pytest.raises(ConfigError):
        Network("resnet10")
