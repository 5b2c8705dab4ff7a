"""What is learned of a camera: a small head on the features of a frozen encoder, or a convolutional one on the picture itself.

    features (8, 8, 32) int8 ─► Dense 64 ─► LayerNorm ─► tanh ─► beside the vector of the other entries
    features (8, 8, 32) int8 ─► 8 learned sums over all places of each channel ─► Dense 64 ─► ... as above      (`camera_head` "spatial")
    picture (64, 64, 3) int8 ─► 4 convolutions of 3 x 3, 32 channels, strides 2 2 2 1 ─► Dense 64 ─► ... as above

Where a head learns to see (`--encoder end-to-end`), the pictures of a batch are shifted at random by a few pixels: without that it
learns them by heart (Kostrikov et al. 2020).

The critic's loss trains the heads, and nothing else does: the actor sees through the same heads, but its loss stops there (Yarats et
al. 2021). There is no target copy of them. Dense layers are what a CPU is fast at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tandem.networks.encoders import COLOURS, FEATURE_SCALE
from tandem.networks.mlp import Dense, LayerNorm
from tandem.types import Batch

UNITS = 64
"""Numbers that a head makes of a picture."""
Cameras = tuple[tuple[str, int | tuple[int, int, int]], ...]
"""Name and number of features of each camera; their shape where their places count (`ConvHead`, `SpatialHead`)."""
SUMS = 8
"""Learned sums for each channel of a spatial head, as in hil-serl."""
STRIDES, CHANNELS = (2, 2, 2, 1), 32
SHIFT = 3
"""Pixels, of a picture at half its size, by which those of a batch are shifted at most."""


class Head(eqx.Module):
    """Features `(batch, height, width, channels)` to `(batch, UNITS)`."""

    dense: Dense
    norm: LayerNorm

    def __init__(self, key: Array, features: int):
        self.dense = Dense(key, features, UNITS)
        self.norm = LayerNorm(UNITS)

    def __call__(self, features: Array) -> Array:
        x = jnp.reshape(jnp.asarray(features), (features.shape[0], -1)).astype(jnp.float32) / FEATURE_SCALE
        return jnp.tanh(self.norm(self.dense(x)))


class SpatialHead(eqx.Module):
    """hil-serl's spatial learned embeddings: features `(batch, height, width, channels)` to `(batch, UNITS)`."""

    kernel: Array  # (height, width, channels, SUMS)
    dense: Dense
    norm: LayerNorm

    def __init__(self, key: Array, shape: tuple[int, int, int]):
        kernel_key, dense_key = jax.random.split(key)
        height, width, channels = shape
        self.kernel = jax.random.normal(kernel_key, (*shape, SUMS)) / math.sqrt(height * width)
        self.dense = Dense(dense_key, channels * SUMS, UNITS)
        self.norm = LayerNorm(UNITS)

    def __call__(self, features: Array) -> Array:
        x = jnp.asarray(features).astype(jnp.float32) / FEATURE_SCALE
        sums = jnp.einsum("bhwc,hwck->bck", x, self.kernel)
        return jnp.tanh(self.norm(self.dense(jnp.reshape(sums, (x.shape[0], -1)))))


class Conv(eqx.Module):
    """3 x 3, with the padding SAME."""

    weight: Array  # (3, 3, inputs, outputs)
    bias: Array  # (outputs,)

    def __init__(self, key: Array, inputs: int, outputs: int):
        self.weight = jax.nn.initializers.he_normal()(key, (3, 3, inputs, outputs))
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Array, stride: int) -> Array:
        order = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, self.weight, (stride, stride), "SAME", dimension_numbers=order) + self.bias


class ConvHead(eqx.Module):
    """Pictures `(batch, height, width, 3)` to `(batch, UNITS)`."""

    convs: tuple[Conv, ...]
    dense: Dense
    norm: LayerNorm

    def __init__(self, key: Array, picture: tuple[int, int, int]):
        height, width, colours = picture
        *keys, last = jax.random.split(key, len(STRIDES) + 1)
        self.convs = tuple(Conv(each, CHANNELS if number else colours, CHANNELS) for number, each in enumerate(keys))
        smaller = math.prod(STRIDES)
        self.dense = Dense(last, math.ceil(height / smaller) * math.ceil(width / smaller) * CHANNELS, UNITS)
        self.norm = LayerNorm(UNITS)

    def __call__(self, features: Array) -> Array:
        x = jnp.asarray(features).astype(jnp.float32) / FEATURE_SCALE
        for conv, stride in zip(self.convs, STRIDES, strict=True):
            x = jax.nn.relu(conv(x, stride))
        return jnp.tanh(self.norm(self.dense(jnp.reshape(x, (x.shape[0], -1)))))


def shifted(batch: Batch, key: Array) -> Batch:
    """The batch `(updates, size, ...)` with every picture shifted on its own; the edge is repeated where nothing was seen."""

    def shift(pictures: Any, key: Array) -> Array:
        flat = jnp.reshape(jnp.asarray(pictures), (-1, *pictures.shape[-3:]))
        padded = jnp.pad(flat, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)), mode="edge")
        starts = jax.random.randint(key, (flat.shape[0], 2), 0, 2 * SHIFT + 1)
        cut = jax.vmap(lambda picture, start: jax.lax.dynamic_slice(picture, (start[0], start[1], 0), flat.shape[1:]))
        return jnp.reshape(cut(padded, starts), pictures.shape)

    keys = iter(jax.random.split(key, 2 * len(batch.raw)))
    now = {name: shift(batch.raw[name], next(keys)) for name in sorted(batch.raw)}
    return batch._replace(raw=now, next_raw={name: shift(batch.next_raw[name], next(keys)) for name in sorted(batch.next_raw)})


AnyHead = Head | SpatialHead | ConvHead


class Seeing(eqx.Module):
    """A network with eyes: `see` makes its input, `values` is the network."""

    heads: dict[str, AnyHead]
    values: Any
    read_out: Dense | None
    """What a simulation knows of the state, read linearly from what is seen; while learning only, and no part of a policy."""

    def __init__(self, heads: dict[str, AnyHead], values: Any, read_out: Dense | None = None):
        self.heads, self.values, self.read_out = heads, values, read_out

    def with_values(self, values: Any) -> Seeing:
        """Another network with the same eyes."""
        return Seeing(self.heads, values)

    def see(self, vector: Array, features: Mapping[str, Array]) -> Array:
        """The vector with what the heads say, cameras in the order of their names: `(batch, D + UNITS * cameras)`."""
        return jnp.concatenate([vector, *(self.heads[name](features[name]) for name in sorted(self.heads))], axis=1)

    def misread(self, seen: Array, state: Array) -> Array:
        """Mean squared error of the read-out; its gradient teaches the heads to see what decides."""
        return jnp.zeros(()) if self.read_out is None else jnp.mean((self.read_out(seen) - state) ** 2)

    def __call__(self, x: Array, key: Array | None = None) -> Array:
        return self.values(x, key)


def new_read_out(key: Array, seen: int, state: int) -> Dense:
    """All zero: it learns to read the heads before it moves them, be they random or a clone's."""
    return jax.tree.map(jnp.zeros_like, Dense(key, seen, state))


def head_input(shape: tuple[int, ...], kind: Literal["dense", "spatial"] = "dense") -> int | tuple[int, int, int]:
    """What a head of this kind is made for, by the shape of a camera's features; a picture is always for a convolutional one."""
    return (shape[0], shape[1], shape[2]) if shape[2] == COLOURS or kind == "spatial" else math.prod(shape)


def learns_to_see(cameras: Cameras) -> bool:
    """Whether heads get pictures, not features."""
    return any(isinstance(of, tuple) and of[2] == COLOURS for _, of in cameras)


def new_heads(key: Array, cameras: Cameras) -> dict[str, AnyHead]:
    keys = jax.random.split(key, len(cameras))
    return {name: _new_head(each, of) for each, (name, of) in zip(keys, cameras, strict=True)}


def _new_head(key: Array, of: int | tuple[int, int, int]) -> AnyHead:
    if isinstance(of, int):
        return Head(key, of)
    return ConvHead(key, of) if of[2] == COLOURS else SpatialHead(key, of)
