"""A person's labels of frames: a CSV file that a spreadsheet opens, one line for each frame.

    source,episode,frame,label,by
    demo-3f0c...,4,31,success,page

Frame 0 of an episode is what was observed before its first step, frame n what was observed after n steps. `label` is the name of a
stage, or `failure` where no stage is reached. Source and episode say of which steps it is, whatever file they are
in: sources are globally unique.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tandem.errors import FileUnreadable
from tandem.files import write_atomically
from tandem.runs.folder import RunFolder
from tandem.runs.lines import read_rows

FAILURE = "failure"
"""The label of a frame in which no stage is reached."""
SUCCESS = "success"
HEADER = ["source", "episode", "frame", "label", "by"]
MAX_BYTES = 2**26


class Frame(NamedTuple):
    """A moment of an episode."""

    source: str
    episode: int
    frame: int
    """Steps before it. -1: the last one of its episode."""


class Label(NamedTuple):
    label: str
    by: str
    """How it came: page, terminal, csv, the file's own success, or a person's word during a run."""


def read_labels(path: Path) -> dict[Frame, Label]:
    """Empty where there is no file yet; a line that cannot be read is named. A frame that is labelled twice has its last label."""
    if not path.exists():
        return {}
    if not path.is_file() or path.stat().st_size > MAX_BYTES:
        raise FileUnreadable(f"{path} is no file of labels: it is a folder, or larger than {MAX_BYTES:,} bytes")
    found: dict[Frame, Label] = {}
    try:
        rows = csv.DictReader(io.StringIO(path.read_text()))
        if rows.fieldnames is None or not {*HEADER[:4]} <= {*rows.fieldnames}:
            raise ValueError(f"its first line is {rows.fieldnames}, expected {', '.join(HEADER)}")
        for row in rows:
            label = (row["label"] or "").strip()
            if label:  # a frame that nobody has labelled yet
                found[Frame(row["source"], int(row["episode"]), int(row["frame"]))] = Label(label, (row.get("by") or "csv").strip())
    except (ValueError, TypeError, KeyError, csv.Error) as problem:
        raise FileUnreadable(f"{path} is no file of labels: {problem}") from None
    return found


def write_labels(path: Path, labels: Mapping[Frame, Label], *, unlabelled: Iterable[Frame] = ()) -> None:
    """The whole file anew; frames without a label leave the column empty, for a person to fill in."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(HEADER)
    for frame, label in labels.items():
        rows.writerow([*frame, *label])
    for frame in unlabelled:
        if frame not in labels:
            rows.writerow([*frame, "", ""])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.getvalue().encode())


def labels_of_run(run: RunFolder, stages: tuple[str, ...] = (SUCCESS,)) -> dict[Frame, Label]:
    """What people said during a run of its episodes: each is a label of the last frame.

    A person who ends an episode as a success or a failure has seen it. A person who says that a reward was wrong (`kept` is false and
    `success` too) contradicts the classifier, and this is the frame that it must learn.
    """
    found = {}
    for row in read_rows(run.episodes_file):
        source, episode, success = row.get("source"), row.get("episode"), row.get("success")
        if isinstance(source, str) and isinstance(episode, int) and isinstance(success, bool):
            by = "a person, during the run" if row.get("kept") else "a person, who says that the reward was wrong"
            found[Frame(source, episode, -1)] = Label(stages[-1] if success else FAILURE, by)
    return found
