"""The list of mutations fits the source as it is; running them is left to `python -m tests.mutants`."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.harness import Mutant, Rotten, all_mutants, check_all, run


def test_every_mutation_fits_the_source() -> None:
    assert check_all(all_mutants()) == []


def test_a_piece_of_source_that_is_gone_is_refused_and_the_work_tree_stays_as_it_is(tmp_path: Path) -> None:
    gone = Mutant("gone", "seeding.py", "no such line", "", ("test_seeding.py",))
    [problem] = check_all([gone])
    assert "gone: found 0 times, expected once, in seeding.py" in problem
    with pytest.raises(Rotten, match="expected once"):
        run(gone)
    [moved] = check_all([replace(gone, file="nowhere.py")])
    assert "there is no file nowhere.py" in moved
    assert "there is no file tests/test_nothing.py" in check_all([replace(all_mutants()[0], tests=("test_nothing.py",))])[0]


def test_a_mutation_that_nothing_notices_survives_and_one_without_tests_is_refused() -> None:
    harmless = Mutant(
        "harmless", "seeding.py", "_PROCESS = 7", "_PROCESS = 7 + 0", ("test_seeding.py::test_a_seed_is_the_same_wherever_it_is_asked_for",)
    )
    assert run(harmless) == "survived"
    assert run(replace(harmless, new="_PROCESS = 8")) == "caught"
    with pytest.raises(Rotten, match="did not run its tests"):
        run(replace(harmless, tests=("test_seeding.py::test_no_such_test",)))
