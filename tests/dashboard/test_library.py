"""Stored episodes come as plain numbers, and only files of the run are ever opened."""

from pathlib import Path

import numpy as np
import pytest

from tandem.dashboard.episodes import Library
from tandem.data.journal import Journal
from tandem.errors import FileMissing
from tandem.runs.folder import RunInfo
from tandem.types import Continuous, Entry, Spec, Transition

SPEC = Spec("toy", {"tcp_pose": Entry((6,), unit="m, rad"), "picture": Entry((4, 4, 3), "uint8")}, (Continuous("arm", 2),), 10.0, 50)


def step(source: str, seq: int, episode: int, number: int, last: bool = False, by_person: bool = False) -> Transition:
    def seen(offset: int) -> dict[str, np.ndarray]:
        place = np.full(6, 0.1 * (number + offset), np.float32)
        return {"tcp_pose": place, "picture": np.zeros((4, 4, 3), np.uint8)}

    action = np.full(2, 0.5, np.float32)
    return Transition(seen(0), action, float(last), seen(1), last, False, by_person, last, episode, number, 3, source, seq)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Two sources, steps interleaved: episodes of 3 and 2 steps of the one, of 2 of the other."""
    with Journal.create(tmp_path / "journal.db", SPEC) as journal:
        journal.append([step("a", 0, 0, 0), step("b", 0, 0, 0), step("a", 1, 0, 1, by_person=True), step("a", 2, 0, 2, last=True)])
        journal.append([step("a", 3, 1, 0), step("b", 1, 0, 1), step("a", 4, 1, 1)])
        journal.discard([("b", 0)])
    return Library(tmp_path, RunInfo("rlpd", SPEC.task, SPEC, {"demos": ["gone.db"]}))


def test_episodes_are_listed_newest_first_and_page_by_page(library: Library) -> None:
    first = library.episodes("journal", 0, 2)
    assert [(found["source"], found["episode"], found["steps"]) for found in first["episodes"]] == [("a", 1, 2), ("b", 0, 2)]
    rest = library.episodes("journal", first["next"], 2)
    [oldest] = rest["episodes"]
    assert (oldest["episode"], oldest["steps"], oldest["return"], oldest["success"], oldest["ended"]) == (0, 3, 1.0, True, "terminated")
    assert oldest["intervened"] == 1 and rest["next"] == 0
    assert [found["discarded"] for found in first["episodes"]] == [False, True]


def test_an_episode_has_who_acted_its_observations_and_the_path_of_the_tool(library: Library) -> None:
    episode = library.episode("journal", "a", 0)
    assert episode["by_person"] == [False, True, False] and episode["rewards"] == [0, 0, 1]
    assert episode["actions"] == [[0.5, 0.5]] * 3
    assert list(episode["observations"]) == ["tcp_pose"], "pictures are not drawn as lines"
    assert [place[0] for place in episode["path"]] == pytest.approx([0.0, 0.1, 0.2, 0.3]), "the last place is where it came to"


def test_only_the_files_of_the_run_are_opened(library: Library) -> None:
    assert [file["name"] for file in library.files()] == ["journal"], "a demo file that is gone is not offered"
    for name in ("../journal", "/etc/passwd", "demos7"):
        with pytest.raises(FileMissing):
            library.episodes(name, 0, 10)
    with pytest.raises(FileMissing):
        library.episode("journal", "a", 99)
