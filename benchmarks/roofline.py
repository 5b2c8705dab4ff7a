"""The lower bound of a learner's time: its matrix products alone, each by the fastest of XLA, NumPy and PyTorch."""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

Product = tuple[str, int, int, int]
"""Kind, rows, inputs, outputs. `nn`: (rows, inputs) @ (inputs, outputs); `nt`: the second factor is transposed, `tn`: the first."""
SMALL = 1e8
"""Products with fewer operations are computed several per call, so that the call overhead does not count."""


def timed(call: Callable[[], object], seconds: float) -> float:
    """Mean seconds of one call, measured for about `seconds`."""
    call()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        call()
        count += 1
    return (time.perf_counter() - start) / count


def product_with_numpy(product: Product, seconds: float) -> float:
    x, y = _operands(product)
    out = np.empty((x.shape[0], y.shape[1]), np.float32)
    return timed(lambda: np.matmul(x, y, out=out), seconds)


class XlaProduct:
    """A product in XLA; small ones ten per call, so that the call overhead does not count."""

    def __init__(self, product: Product) -> None:
        x, y = _operands(product)
        self.count = 10 if 2 * np.prod(product[1:], dtype=float) < SMALL else 1
        self.arguments = [jnp.asarray(x + 0.01 * i) for i in range(self.count)], jnp.asarray(y)
        self.call = jax.jit(lambda xs, y: [x @ y for x in xs])
        jax.block_until_ready(self.call(*self.arguments))

    def seconds(self, seconds: float) -> float:
        return timed(lambda: jax.block_until_ready(self.call(*self.arguments)), seconds) / self.count


def _operands(product: Product) -> tuple[np.ndarray, np.ndarray]:
    kind, rows, inputs, outputs = product
    random = np.random.default_rng(0)
    if kind == "tn":
        return random.standard_normal((rows, inputs), dtype=np.float32).T, random.standard_normal((rows, outputs), dtype=np.float32)
    x, y = random.standard_normal((rows, inputs), dtype=np.float32), random.standard_normal((outputs, inputs), dtype=np.float32)
    return x, y.T if kind == "nt" else np.ascontiguousarray(y.T)
