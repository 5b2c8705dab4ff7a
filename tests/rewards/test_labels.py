"""Labels: chosen, given on the page, in the terminal and in a CSV file, and what is learned from them."""

import io
import json
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tandem.dashboard.labelling import LabelPage
from tandem.data.demos import DemoWriter, read_demos
from tandem.data.journal import Journal
from tandem.errors import ConfigError, DataError, FileUnreadable
from tandem.off_policy.config import TrainConfig
from tandem.programs.label_frames import label
from tandem.programs.reward import apply
from tandem.programs.train_reward import change, show, train_classifier
from tandem.rewards.choosing import candidates
from tandem.rewards.classifier import read_classifier
from tandem.rewards.labels import Frame, Label, read_labels, write_labels
from tandem.rewards.stored import open_stored
from tandem.runs.folder import RunFolder
from tandem.types import Continuous, Entry, Spec, Transition
from tests.data.test_seen import NOISE
from tests.data.test_seen import SPEC as SEEN
from tests.data.test_seen import episode as seen_episode
from tests.waiting import wait_for

SPEC = Spec("lift", {"height": Entry((1,), unit="m"), "noise": Entry((3,))}, (Continuous("arm", 1),), 10.0, 50, (0.0, 1.0))


def lifting(length: int, reaches: float, number: int) -> list[Transition]:
    """The height grows evenly to `reaches`; above 0.8 it is a success."""
    rng = np.random.default_rng(number)

    def look(step: int) -> dict[str, np.ndarray]:
        height = reaches * step / length
        return {"height": np.array([height], np.float32), "noise": rng.normal(size=3).astype(np.float32)}

    looks = [look(step) for step in range(length + 1)]
    success = reaches > 0.8
    return [
        Transition(
            looks[step],
            np.zeros(1, np.float32),
            float(success and step == length - 1),
            looks[step + 1],
            success and step == length - 1,
            not success and step == length - 1,
            success=success and step == length - 1,
            step=step,
        )
        for step in range(length)
    ]


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with DemoWriter(tmp_path_factory.mktemp("lift"), SPEC) as writer:
        for number in range(16):
            writer.add(lifting(24, 1.0 if number % 2 else 0.6, number))
        return writer.finish()


@pytest.fixture(scope="module")
def trained(demos: Path) -> Path:
    out = demos.parent / "lifted.safetensors"
    label((demos,), how="success", last=5, every=1)
    train_classifier((demos,), out=out, entries=("height",))
    return out


def test_the_success_of_a_file_labels_its_frames_and_a_classifier_learns_it(demos: Path, trained: Path) -> None:
    made = read_classifier(trained)
    figures = made.figures["stages"]["success"]
    assert figures["precision"] == 1.0 and figures["recall"] > 0.9 and trained.with_suffix(".png").stat().st_size > 1000
    values = made.values({"height": np.array([[0.3], [0.6], [0.97]], np.float32)})
    assert made.met(values)[:, 0].tolist() == [False, False, True]
    assert made.title == "lifted" and list(made.entries) == ["height"] and show(trained) == 0


def test_with_a_classifier_the_frames_that_it_is_unsure_of_come_first(demos: Path, trained: Path) -> None:
    made, stored = read_classifier(trained), open_stored([demos])
    offered = candidates(stored, {}, made, 40)
    unsure = [abs(float(each.observation["height"][0]) - 0.75) for each in offered]
    assert np.mean(unsure[:8]) < 0.15 < np.mean(unsure[-8:]), "between 0.6, a failure, and 0.8 nobody has labelled anything"
    first = offered[0].frame
    assert first not in [each.frame for each in candidates(stored, {first: Label("success", "page")}, made, 40)]


def test_without_one_the_ends_of_all_episodes_come_first(demos: Path) -> None:
    offered = candidates(open_stored([demos]), {}, None, 30)
    assert [each.frame.frame for each in offered[:16]] == [24] * 16 and len({each.number for each in offered[:16]}) == 16


def asked(link: str, path: str, body: Any = None, token: str = "") -> Any:
    base, given = link.split("/?token=")
    headers = {"X-Token": token or given}
    request = urllib.request.Request(f"{base}{path}", None if body is None else json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read()


def test_on_the_page_every_label_is_in_the_file_at_once(demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links: list[str] = []
    monkeypatch.setattr("tandem.programs.label_frames.webbrowser.open", links.append)
    path = tmp_path / "labels.csv"
    person = threading.Thread(target=lambda: label((demos,), labels=path, most=12), daemon=True)
    person.start()
    wait_for(lambda: bool(links), what="the page")
    [link] = links
    token = link.split("token=")[1]
    assert b"Label frames" in asked(link, f"/?token={token}")
    about = json.loads(asked(link, f"/frames?token={token}"))
    assert about["labels"] == ["failure", "success"] and len(about["frames"]) == 12 and "height" in about["frames"][0]["numbers"]
    asked(link, "/label", {"frame": 0, "label": "success"})
    assert [given.label for given in read_labels(path).values()] == ["success"]
    for wrong in ({"frame": 12, "label": "success"}, {"frame": 0, "label": "perhaps"}, {"frame": True, "label": "success"}, []):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            asked(link, "/label", wrong)
    with pytest.raises(urllib.error.HTTPError, match="403"):
        asked(link, "/label", {"frame": 1, "label": "success"}, token="guessed")
    asked(link, "/finish", {})
    person.join(10)
    assert not person.is_alive() and len(read_labels(path)) == 1


@pytest.mark.parametrize("keep", [True, False])
def test_frames_of_a_run_with_cameras_are_shown_as_pictures_where_it_keeps_them(tmp_path: Path, keep: bool) -> None:
    """Its steps hold features; the pictures are read from the journal when somebody looks."""
    run = RunFolder.create(tmp_path / "run", "rlpd", TrainConfig(task="t"), SEEN)
    with Journal.create(run.journal, SEEN) as journal:
        journal.append(seen_episode(6, keep=keep))
    chosen = candidates(open_stored((run.path,)), {}, None, 20)
    assert {candidate.cameras for candidate in chosen} == {("left", "right") if keep else ()}
    page = LabelPage(chosen, ("failure", "success"), lambda candidate, label: None)
    for number, candidate in enumerate(chosen):
        if keep:
            picture = Image.open(io.BytesIO(page._found("GET", "/picture", {"frame": str(number), "camera": "left"}, b"")[1]))
            assert np.array_equal(np.asarray(picture), NOISE[candidate.frame.frame].reshape(32, 32, 3))
        else:
            assert candidate.pictures() == {}
    assert {candidate.frame.frame for candidate in chosen} >= {0, 6}, "also the last frame, which no step begins with"
    page._server.server_close()


def test_in_the_terminal(demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("1\n\n0\nq\n"))
    path = tmp_path / "labels.csv"
    label((demos,), labels=path, how="terminal")
    assert [given.label for given in read_labels(path).values()] == ["success", "failure"]


def test_a_sheet_is_filled_in_by_hand(demos: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    label((demos,), labels=path, how="sheet", most=6)
    assert read_labels(path) == {} and len(path.read_text().splitlines()) == 7
    filled = path.read_text().replace(",24,,", ",24,success,me", 1)
    path.write_text(filled)
    [(frame, given)] = read_labels(path).items()
    assert frame.frame == 24 and given == ("success", "me")
    label((demos,), labels=path, frames=("0:0:2=failure", "1:24=success"))
    assert sum(given.label == "failure" for given in read_labels(path).values()) == 3
    assert sum(line.endswith(",,") for line in path.read_text().splitlines()) == 4, "two of the six were labelled since"


def test_what_cannot_be_a_label_is_refused(demos: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a label of failure, success; got '0:1=perhaps'"):
        label((demos,), labels=tmp_path / "l.csv", frames=("0:1=perhaps",))
    with pytest.raises(DataError, match="there is no episode 99; the files have 16"):
        label((demos,), labels=tmp_path / "l.csv", frames=("99:1=success",))
    with pytest.raises(ConfigError, match="'failure' is none of them"):
        label((demos,), labels=tmp_path / "l.csv", stages=("failure",))
    (tmp_path / "l.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FileUnreadable, match=r"l.csv is no file of labels: its first line is \['a', 'b'\]"):
        read_labels(tmp_path / "l.csv")
    with pytest.raises(DataError, match="none of the labels is about an episode of these files"):
        write_labels(tmp_path / "other.csv", {Frame("elsewhere", 0, 0): Label("success", "me")})
        train_classifier((demos,), labels=(tmp_path / "other.csv",), out=tmp_path / "x.safetensors")
    with pytest.raises(DataError, match=r"there is no file of labels .*nothing.csv"):
        train_classifier((demos,), labels=(tmp_path / "nothing.csv",))


def test_several_stages_are_paid_in_their_order(demos: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "labels.csv", tmp_path / "two.safetensors"
    # heights of the successful episodes: frame / 24; a lift of 0.4 is the first stage
    places = [f"{n}:{first}:{last}={name}" for n in range(16) for first, last, name in ((0, 7, "failure"), (12, 18, "lifted"))]
    places += [f"{n}:22:24={'high' if n % 2 else 'lifted'}" for n in range(16)]
    label((demos,), labels=path, frames=tuple(places), stages=("lifted", "high"))
    train_classifier((demos,), labels=(path,), out=out, stages=("lifted,high",), entries=("height",), updates=600)
    apply((demos,), f"classifier:{out}", tmp_path)
    [file] = tmp_path.glob("*.db")
    rewards = [[step.reward for step in steps if step.reward] for steps in read_demos(file).episodes()]
    assert rewards == [[0.5], [0.5, 0.5]] * 8


def test_a_threshold_and_a_hold_time_are_set_in_a_new_file(trained: Path, tmp_path: Path) -> None:
    change(trained, tmp_path / "strict.safetensors", threshold=(0.97,), hold_s=0.4)
    made = read_classifier(tmp_path / "strict.safetensors")
    assert (made.thresholds, made.hold_s) == ((0.97,), 0.4) and read_classifier(trained).hold_s == 0.0
    with pytest.raises(ConfigError, match="a number above 0, at most 1, for each of success"):
        change(trained, tmp_path / "x.safetensors", threshold=(0.5, 0.5))
