"""Fast actors never make more steps than the trainer allows, and never stand still for ever."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.link.credits import Account, Pacing, burst, divide, left


def test_the_arithmetic() -> None:
    # 100 to start with, 10 learner steps at one update for two steps are 20 more, and a burst of 4 + max(4, 2) + 2 = 10
    assert burst(4, 0.5) == 10
    assert left(Pacing(100, 0.5, 10), 4, stored=0) == 130
    assert left(Pacing(100, 0.5, 10), 4, stored=129) == 1
    assert left(Pacing(100, 0.5, 10), 4, stored=500) == 0
    # 8 learner steps for each step of an actor: one more is allowed only after 8 of them
    assert [left(Pacing(0, 8.0, steps), 1, stored=3) for steps in (0, 7, 8, 16)] == [0, 0, 1, 2]


def divided(pacing: Pacing, rows: list[int], outstanding: list[int], stored: int = 0) -> list[int]:
    accounts = [Account(row, held) for row, held in zip(rows, outstanding, strict=True)]
    divide(pacing, accounts, stored)
    return [account.outstanding for account in accounts]


def test_an_actor_never_holds_more_than_its_part_of_the_burst() -> None:
    # 10,000 steps are wanted to start with; R = 3, n = 1, 3 + max(3, 1) = 6: twice the rows for each
    assert divided(Pacing(10_000, 1.0, 0), [1, 2], [0, 0]) == [2, 4]
    # at an eighth of an update per step R + max(R, 8) = 10 for R = 2: each actor's part is 1 + 4
    assert divided(Pacing(0, 0.125, 0), [1, 1], [0, 0]) == [5, 5]


def test_credit_is_never_granted_twice_and_never_taken_back() -> None:
    # burst 5, four stored: one is left
    assert divided(Pacing(0, 1.0, 0), [1, 1], [0, 0], stored=4) == [1, 0]
    assert divided(Pacing(0, 1.0, 0), [1, 1], [1, 0], stored=4) == [1, 0]
    assert divided(Pacing(0, 1.0, 0), [1, 1], [2, 2], stored=4) == [2, 2]


def test_scarce_credit_is_shared_in_turn() -> None:
    accounts = [Account(1), Account(1), Account(2)]
    got = [0, 0, 0]
    for learner_step in range(400):  # one step is allowed with each, and is made and stored at once
        before = [account.outstanding for account in accounts]
        divide(Pacing(0, 1.0, learner_step), accounts, stored=learner_step + burst(4, 1.0) - 1)
        for i, account in enumerate(accounts):
            got[i] += account.outstanding - before[i]
            account.acknowledge(account.outstanding)
    assert got == [100, 100, 200]  # by their rows


def test_an_idle_actor_saves_up_no_claim() -> None:
    busy, idle = Account(1), Account(1)
    for learner_step in range(1000):
        divide(Pacing(0, 1.0, learner_step), [busy, idle], stored=learner_step + 2)
        busy.acknowledge(busy.outstanding)
    assert idle.outstanding == 2
    assert busy.served - idle.served <= 2


def test_without_fast_actors_no_credit_is_granted() -> None:
    divide(Pacing(0, 1.0, 0), [], 0)


class World:
    """Actors, a trainer and a hub that divides, with messages of any delay: as the real ones do, in one thread."""

    def __init__(self, rows: list[int], u: float, training_starts: int, seed: int) -> None:
        self.rows, self.u, self.starts = rows, u, training_starts
        self.random = random.Random(seed)
        self.learner_step = self.stored = 0
        self.stepped = [0] * len(rows)
        self.acknowledged = [0] * len(rows)
        self.accounts = [Account(row) for row in rows]
        self.limit = [0] * len(rows)
        self.paused: set[int] = set()

    def divide(self) -> None:
        before = [account.outstanding for account in self.accounts]
        divide(Pacing(self.starts, self.u, self.learner_step), self.accounts, self.stored)
        for i, account in enumerate(self.accounts):
            assert account.outstanding >= before[i]
            self.limit[i] = max(self.limit[i], self.acknowledged[i] + account.outstanding)

    def can_learn(self) -> bool:
        """As `trainer.py` counts: a learner step costs a credit of 1, and each stored step earns `u`."""
        return self.stored >= self.starts and self.learner_step + 1 <= (self.stored - self.starts) * self.u

    def can_step(self, i: int) -> bool:
        return i not in self.paused and self.stepped[i] + self.rows[i] <= self.limit[i]

    def allowed(self) -> float:
        return self.starts + self.learner_step / self.u + burst(sum(self.rows), self.u)

    def one_thing(self) -> bool:
        """Something that can happen, happens; False if nothing can any more."""
        possible = [("step", i) for i in range(len(self.rows)) if self.can_step(i)]
        possible += [("store", i) for i in range(len(self.rows)) if self.stepped[i] > self.acknowledged[i]]
        if self.can_learn():
            possible.append(("learn", 0))
        if not possible:
            return False
        what, i = self.random.choice(possible)
        if what == "step":
            self.stepped[i] += self.rows[i]
        elif what == "store":
            count = self.random.randint(1, self.stepped[i] - self.acknowledged[i])
            self.acknowledged[i] += count
            self.accounts[i].acknowledge(count)
            self.stored += count
        else:
            self.learner_step += 1
        self.divide()
        assert sum(self.stepped) <= self.allowed(), "more was stepped than is allowed"
        given = sum(account.outstanding for account in self.accounts)
        assert given <= max(0, math.floor(self.allowed()) - self.stored), "more was given than is left"
        return True


@pytest.mark.parametrize("u", [0.125, 1.0, 4.0])
@pytest.mark.parametrize("rows", [[1], [8], [1, 1], [8, 8], [1, 8], [1, 1, 1], [8, 8, 8], [1, 8, 3]])
def test_credit_never_exceeds_the_limit_and_never_deadlocks(u: float, rows: list[int]) -> None:
    world = World(rows, u, training_starts=20, seed=1)
    world.divide()
    for _ in range(3000):
        assert world.one_thing(), f"stuck at {world.learner_step} learner steps, {world.stored} stored"
    assert world.learner_step > 100
    per_row = [stepped / row for stepped, row in zip(world.stepped, rows, strict=True)]
    assert min(per_row) > 0.5 * max(per_row)  # and fair


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.integers(1, 12), min_size=2, max_size=4),
    u=st.sampled_from([0.001, 0.01, 0.1, 0.125, 0.3, 0.5, 1.0, 2.0, 4.0, 20.0]),
    starts=st.integers(0, 200),
    seed=st.integers(0, 10**6),
)
def test_an_actor_that_stands_still_does_not_stop_the_others(rows: list[int], u: float, starts: int, seed: int) -> None:
    world = World(rows, u, starts, seed)
    world.divide()
    for _ in range(200):
        assert world.one_thing()
    world.paused = {0}  # a person has taken that one's robot, with whatever was granted to it
    before = sum(world.stepped[1:])
    for _ in range(2000):
        assert world.one_thing(), "the others are stuck"
    assert sum(world.stepped[1:]) > before


@pytest.mark.parametrize("u", [0.001, 0.01, 0.3, 1.5])
@pytest.mark.parametrize("paused", [1, 2])
def test_actors_that_stand_still_from_the_start_stop_nobody(u: float, paused: int) -> None:
    world = World([1, 3, 1], u, training_starts=0, seed=2)
    world.divide()  # all that can be granted is granted, and these never use it
    world.paused = set(range(paused))
    for _ in range(20_000):
        assert world.one_thing(), f"the others are stuck at {world.learner_step} learner steps, {world.stored} stored"
    assert world.learner_step >= 3
