"""Simulations in several places are one batch: the same rows, the same numbers, wherever they are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tandem.envs.registry import make_batch
from tandem.envs.spread import Simulations, SpreadEnv, joined, rows_of
from tandem.errors import ConfigError

ROWS = 7


class Here:
    """A place in this process, which answers at once."""

    def __init__(self, rows: int) -> None:
        self._simulations = Simulations("reach", rows, "dense", None, threads=1)

    def ask(self, method: str, *arguments: Any, **named: Any) -> Callable[[], Any]:
        answer = self._simulations.call(method, *arguments, **named)
        return lambda: answer


def spread(places: int) -> SpreadEnv:
    rows = rows_of(ROWS, places)
    return SpreadEnv([Here(count) for count in rows], rows)


@pytest.mark.parametrize("places", [1, 3])
def test_rows_in_several_places_do_what_they_do_in_one(places: int) -> None:
    one, several = make_batch("reach", ROWS, reward="dense"), spread(places)
    assert several.task_spec == one.task_spec and several.num_envs == ROWS
    random, seeds = np.random.default_rng(0), list(range(10, 10 + ROWS))
    a, b = one.reset(seed=seeds)[0], several.reset(seed=seeds)[0]
    ages = np.arange(ROWS)
    for env in (one, several):
        env.set_elapsed(ages)
    ended = 0
    for _ in range(60):
        assert all(np.array_equal(a[name], b[name]) for name in a)
        actions = random.uniform(-1, 1, (ROWS, one.task_spec.action_dim)).astype(np.float32)
        (a, *told, info), (b, *same, other) = one.step(actions), several.step(actions)
        assert all(np.array_equal(mine, theirs) for mine, theirs in zip(told, same, strict=True))
        assert all(np.array_equal(info["final_obs"][name], other["final_obs"][name]) for name in info["final_obs"])
        ended += int((told[1] | told[2]).sum())
    assert ended, "episodes ended, and began anew with the same starts"
    several.close()


def test_rows_are_divided_and_joined_in_order() -> None:
    assert rows_of(7, 3) == [3, 2, 2] and rows_of(4, 1) == [4]
    assert joined([{"a": np.arange(3), "b": True}, {"a": np.arange(2), "b": True}])["a"].tolist() == [0, 1, 2, 0, 1]
    with pytest.raises(ConfigError, match="4 simulations cannot be spread over 5 places"):
        rows_of(4, 5)
