"""`tandem reward label`: a person says of frames which stage they have reached: on a page, in the terminal, or in a CSV file."""

from __future__ import annotations

import re
import sys
import webbrowser
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro
from PIL import Image

from tandem.acting.view_stream import small
from tandem.errors import ConfigError
from tandem.programs.terminal import console, say
from tandem.rewards.choosing import Candidate, candidates, labels_by_place, labels_by_success
from tandem.rewards.classifier import read_classifier
from tandem.rewards.labels import FAILURE, SUCCESS, Frame, Label, read_labels, write_labels
from tandem.rewards.stored import Stored, open_stored, usual_labels

Files = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE...")]
MOST_STAGES = 9


def label(
    files: Files,
    labels: Path | None = None,
    how: Literal["page", "terminal", "sheet", "success"] = "page",
    stages: tuple[str, ...] = (SUCCESS,),
    frames: tuple[str, ...] = (),
    classifier: Path | None = None,
    most: int = 300,
    last: int = 1,
    every: int = 2,
    port: int = 0,
    open_page: bool = True,
) -> int:
    """Label frames of stored steps as failure or as a stage of the task, for a reward classifier.

    Frames that a classifier is least sure of come first; without one, the ends of episodes. Labels that are there already stay.

    Args:
        files: Files of demonstrations, journals or run folders, in any format that `tandem demos import` reads.
        labels: The CSV file of the labels. Default: labels.csv beside the first file, or in the run folder.
        how: On a page with keys and mouse; one after the other in the terminal; as a sheet (the chosen frames without labels, and their
            pictures next to it) to be filled in by hand; or by the success that the steps have already.
        stages: Names of the stages in their order, the last is the success. One stage: success or failure.
        frames: Label these and nothing else: EPISODE:FIRST:LAST=LABEL, such as 3:40:45=success. Episodes count through all files from 0.
        classifier: Ask first about the frames that this classifier is least sure of.
        most: Frames that are offered.
        last: With `success`: frames at the end of an episode that show the success.
        every: With `success`: every so many of the other frames is a failure.
        port: Port of the page; 0: any free port.
        open_page: Open the page in a browser (`--no-open-page`: only print the link).
    """
    names = _checked(stages)
    stored, path = open_stored(files), labels or usual_labels(files)
    known = read_labels(path)
    before = dict(known)
    if frames:
        known |= labels_by_place(stored, [_place(text, names) for text in frames])
    elif how == "success":
        known |= labels_by_success(stored, names[-1], max(1, last), max(1, every))
    else:
        chosen = candidates(stored, known, None if classifier is None else read_classifier(classifier), most)
        _ask(how, chosen, names, known, path, port, open_page)
    write_labels(path, known, unlabelled=_open_frames(path, known))
    return _report(path, stored, known, before)


def _open_frames(path: Path, known: dict[Frame, Label]) -> list[Frame]:
    """Frames of a sheet that nobody has filled in yet stay in it."""
    if not path.exists():
        return []
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    empty = [Frame(row[0], int(row[1]), int(row[2])) for row in rows if len(row) >= 4 and not row[3].strip()]
    return [frame for frame in empty if frame not in known]


def _checked(stages: Sequence[str]) -> tuple[str, ...]:
    names = tuple(name.strip() for given in stages for name in given.split(","))
    if not names or len(set(names)) < len(names) or FAILURE in names or not all(names) or len(names) > MOST_STAGES:
        raise ConfigError(f"--stages are 1 to {MOST_STAGES} different names, and '{FAILURE}' is none of them; got {', '.join(names)}")
    return names


def _place(text: str, stages: tuple[str, ...]) -> tuple[int, int, int, str]:
    match = re.fullmatch(r"(\d+):(\d+)(?::(\d+))?=(.+)", text.strip())
    if match is None or match[4].strip() not in (FAILURE, *stages):
        raise ConfigError(f"--frames takes EPISODE:FIRST:LAST=LABEL with a label of {', '.join((FAILURE, *stages))}; got '{text}'")
    return int(match[1]), int(match[2]), int(match[3] or match[2]), match[4].strip()


def _ask(
    how: str, chosen: list[Candidate], stages: tuple[str, ...], known: dict[Frame, Label], path: Path, port: int, open_page: bool
) -> None:
    if not chosen:
        say("every frame that would be offered has a label already")
    elif how == "page":
        _by_page(chosen, stages, known, path, port, open_page)
    elif how == "terminal":
        _by_terminal(chosen, stages, known, path)
    else:
        _as_sheet(chosen, known, path)


def _by_page(chosen: list[Candidate], stages: tuple[str, ...], known: dict[Frame, Label], path: Path, port: int, open_page: bool) -> None:
    from tandem.dashboard.labelling import LabelPage  # brings the page along

    def save(candidate: Candidate, given: str) -> None:
        known[candidate.frame] = Label(given, "page")
        write_labels(path, known)

    page = LabelPage(chosen, (FAILURE, *stages), save, port)
    say(f"label {len(chosen)} frames here: {page.link}")
    if open_page:
        webbrowser.open(page.link)
    page.serve()


def _by_terminal(chosen: list[Candidate], stages: tuple[str, ...], known: dict[Frame, Label], path: Path) -> None:
    """A number, Enter to leave a frame out, q to end. Pictures are written beside the labels, for another window."""
    choices = (FAILURE, *stages)
    say(f"{', '.join(f'{number} {name}' for number, name in enumerate(choices))}, Enter leaves the frame out, q ends")
    shown = path.with_name("frame.png")
    for candidate in chosen:
        pictures = _pictures(candidate, shown)
        said = "  ".join(f"{name} {value:.2f}" for name, value in candidate.values.items())
        say(
            f"episode {candidate.number}, frame {candidate.frame.frame} of {candidate.of - 1}  {said}{f'  see {shown}' if pictures else ''}"
        )
        for name, values in small(candidate.observation).items():
            say(f"  {name:<16} {'  '.join(f'{value:.4g}' for value in values)}")
        console.print("> ", end="")
        given = sys.stdin.readline()
        if not given or given.strip() == "q":
            break
        if given.strip().isdigit() and int(given) < len(choices):
            known[candidate.frame] = Label(choices[int(given)], "terminal")
            write_labels(path, known)
    shown.unlink(missing_ok=True)


def _as_sheet(chosen: list[Candidate], known: dict[Frame, Label], path: Path) -> None:
    folder = path.with_name(f"{path.stem}_frames")
    for candidate in chosen:
        _pictures(candidate, folder / f"episode_{candidate.number}_frame_{candidate.frame.frame}.png")
    write_labels(path, known, unlabelled=[candidate.frame for candidate in chosen])
    say(f"fill in the column `label` of {path}" + (f"; the pictures are in {folder}" if folder.exists() else ""))


def _pictures(candidate: Candidate, path: Path) -> bool:
    """The cameras of a frame side by side; False without any."""
    cameras = list(candidate.pictures().values())
    if not cameras:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    side = Image.new("RGB", (sum(picture.shape[1] for picture in cameras), max(picture.shape[0] for picture in cameras)))
    left = 0
    for picture in cameras:
        side.paste(Image.fromarray(picture if picture.shape[2] == 3 else picture[..., 0]), (left, 0))
        left += picture.shape[1]
    side.save(path)
    return True


def _report(path: Path, stored: Stored, known: dict[Frame, Label], before: dict[Frame, Label]) -> int:
    counts = Counter(given.label for given in known.values())
    new = sum(known[frame] != before.get(frame) for frame in known)
    said = ", ".join(f"{count:,} {name}" for name, count in counts.most_common()) or "none"
    say(f"{path}: {new:,} new labels, {len(known):,} in all ({said})")
    if known:
        say(f"next: tandem reward train {' '.join(map(str, stored.paths))} --labels {path}")
    return 0
