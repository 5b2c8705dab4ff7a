"""Runs that many tests use; each is made once per session."""

from pathlib import Path

import pytest

from tandem.envs.registry import make_env, make_expert
from tandem.programs.record import record_demos
from tests.doctor.doctor_samples import short_run


@pytest.fixture(scope="session")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_demos(make_env("reach"), make_expert("reach", 0), 25, tmp_path_factory.mktemp("demos"), seed=0)


@pytest.fixture(scope="session")
def healthy(demos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 learner steps, 4,800 actor steps, evaluated twice."""
    return short_run(tmp_path_factory.mktemp("healthy") / "run", demos=(demos,), max_steps=600, eval_period=300, eval_episodes=20)
