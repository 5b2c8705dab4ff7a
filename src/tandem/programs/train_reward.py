"""`tandem reward train`, `set` and `show`: a reward classifier from labelled frames, its settings, and what is known of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro
from PIL import Image, ImageDraw

from tandem.data.frames import pictures_of
from tandem.errors import ConfigError, DataError, FileMissing
from tandem.files import whole_or_nothing
from tandem.programs.terminal import say
from tandem.rewards.classifier import Classifier, encoded, flat_inputs, read_classifier
from tandem.rewards.conditions import read_conditions
from tandem.rewards.labels import FAILURE, Frame, Label, read_labels
from tandem.rewards.recompute import stacked
from tandem.rewards.stored import Stored, open_stored, usual_labels
from tandem.rewards.training import Frames, Trained, TrainingConfig, train
from tandem.types import Observation, Spec

if TYPE_CHECKING:
    from tandem.networks.encoders.encoder import Encoder

Positional = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE...")]


def train_classifier(
    files: Positional,
    labels: tuple[Path, ...] = (),
    out: Path = Path("reward.safetensors"),
    name: str | None = None,
    stages: tuple[str, ...] = ("success",),
    entries: tuple[str, ...] = (),
    encoder: Path | None = None,
    hold_s: float = 0.0,
    conditions: Path | None = None,
    false_positives: float = TrainingConfig.false_positives,
    updates: int = TrainingConfig.updates,
    seed: int = 0,
) -> int:
    """Train a reward classifier on labelled frames, and say how good it is on episodes that it has not seen.

    Cameras are seen through a frozen network. What people said during the runs among the files counts as labels too.

    Args:
        files: The files, journals and run folders that the labels are about.
        labels: CSV files of labels (`tandem reward label`). Default: labels.csv beside the first file, or in the run folder.
        out: The new file; a plot of its calibration is written next to it.
        name: What the reward is called in data and on the page. Default: the name of the file.
        stages: Names of the stages in their order, as they were labelled.
        entries: Entries of the observation that it looks at. Default: the cameras; all numbers where there is none.
        encoder: Encoder of a run (RUN/encoder.safetensors) for its cameras. Default: one that is fitted on these files.
        hold_s: Seconds for which a stage must be met before it counts.
        conditions: File of conditions that must hold as well before the last stage counts.
        false_positives: Share of the held-out failure frames that may be taken for a success; the threshold follows from it.
        updates: Updates of the network, in each of the six trainings.
        seed: Random seed for the network, the batches and the choice of held-out episodes.
    """
    stored, config = open_stored(files), TrainingConfig(false_positives=false_positives, updates=updates, seed=seed)
    names = tuple(part.strip() for given in stages for part in given.split(","))
    known = _labels(labels, files) | stored.said(names)
    frames, observations = _gathered(stored, known, names)
    spec, eyes = _looked_at(stored, entries, encoder, observations)
    say(f"{len(frames):,} labelled frames of {len({frame[:2] for frame, _ in frames})} episodes; looking at {', '.join(spec.observation)}")
    trained = train(_as_arrays(frames, _inputs(observations, spec, eyes), spec, names), names, config, say)
    made = Classifier(
        title=(name or out.stem)[:60],
        spec=spec,
        stages=names,
        thresholds=trained.thresholds,
        weights=trained.weights,
        hold_s=hold_s,
        conditions=None if conditions is None else read_conditions(conditions),
        encoder=eyes,
        usual=trained.usual,
        alike=trained.alike,
        figures=trained.figures,
    )
    made.require(stored.spec)
    out.parent.mkdir(parents=True, exist_ok=True)
    made.write(out)
    _report(made, trained, out)
    return 0


def change(
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    out: Path,
    threshold: tuple[float, ...] = (),
    hold_s: float | None = None,
    conditions: Path | None = None,
) -> int:
    """Write a classifier with another threshold, hold time or further conditions to a new file; its network stays the same.

    Args:
        file: A reward classifier.
        out: The new file.
        threshold: From which value on a stage counts as reached, 0 to 1: one for each stage.
        hold_s: Seconds for which a stage must be met before it counts.
        conditions: File of conditions that must hold as well before the last stage counts.
    """
    old = read_classifier(file)
    changes: dict[str, Any] = {} if hold_s is None else {"hold_s": hold_s}
    if threshold:
        if len(threshold) != len(old.stages) or not all(0 < value <= 1 for value in threshold):
            raise ConfigError(f"--threshold takes a number above 0, at most 1, for each of {', '.join(old.stages)}; got {threshold}")
        changes["thresholds"] = tuple(threshold)
    if conditions is not None:
        changes["conditions"] = read_conditions(conditions)
    new = old.changed(**changes)
    new.write(out)
    say(f"wrote {out}: {new.name}")
    return 0


def show(file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]) -> int:
    """Print what a reward classifier looks at, its thresholds, and how good it was on held-out episodes.

    Args:
        file: A reward classifier.
    """
    for line in _described(read_classifier(file)):
        say(line)
    return 0


# ---- frames to arrays


def _labels(paths: Sequence[Path], files: Sequence[Path]) -> dict[Frame, Label]:
    for path in paths:
        if not path.exists():
            raise FileMissing(f"there is no file of labels {path} (looked in {path.absolute().parent}): `tandem reward label` makes one")
    return {frame: given for path in paths or (usual_labels(files),) for frame, given in read_labels(path).items()}


def _gathered(stored: Stored, known: dict[Frame, Label], stages: tuple[str, ...]) -> tuple[list[tuple[Frame, str]], list[Observation]]:
    """The labelled frames that the files have; a label of no stage is an error, one of an episode elsewhere is counted."""
    wrong = sorted({given.label for given in known.values()} - {FAILURE, *stages})
    if wrong:
        raise ConfigError(f"frames are labelled '{wrong[0]}', which is none of the stages {', '.join(stages)}: give --stages")
    wanted: dict[tuple[str, int], dict[int, str]] = {}
    for frame, given in known.items():
        wanted.setdefault(frame[:2], {})[frame.frame] = given.label
    frames, observations = [], []
    for episode in stored.episodes():
        for number, given in wanted.pop(episode.name, {}).items():
            frames.append((Frame(*episode.name, number), given))
            observations.append(episode.frame(number))
    if not frames:
        raise DataError("none of the labels is about an episode of these files: label frames of them with `tandem reward label FILE...`")
    if wanted:
        say(f"the labels of {len(wanted)} episodes are about other files, and are not used")
    return frames, observations


def _looked_at(stored: Stored, entries: Sequence[str], encoder: Path | None, seen: list[Observation]) -> tuple[Spec, Encoder | None]:
    """The entries of the classifier, and the encoder of its cameras."""
    spec = stored.spec
    cameras = [name for name, entry in spec.observation.items() if entry.role in ("image", "features")]
    numbers = [name for name, entry in spec.observation.items() if entry.role == "vector" and entry.dtype == "float32"]
    chosen = list(entries) or cameras or numbers
    for name in chosen:
        if name not in (*cameras, *numbers):
            raise ConfigError(f"--entries '{name}' is nothing that a classifier can look at; there are {', '.join((*cameras, *numbers))}")
    small = dataclasses.replace(spec, observation={name: spec.observation[name] for name in chosen})
    if not any(name in cameras for name in chosen):
        return small, None
    if not pictures_of(small):
        return small, stored.encoder()
    from tandem.networks.encoders.encoder import Encoder, fit_encoder  # only cameras need it

    if encoder is not None:
        eyes = Encoder.read(encoder)
    else:
        say(f"fitting the encoder of the cameras on {len(seen):,} frames")
        eyes = fit_encoder(np.stack([look[name] for look in seen]) for name in pictures_of(small))
    return eyes.spec(small), eyes


def _as_arrays(frames: list[tuple[Frame, str]], inputs: np.ndarray, spec: Spec, stages: tuple[str, ...]) -> Frames:
    episode = {place: number for number, place in enumerate(dict.fromkeys(frame[:2] for frame, _ in frames))}
    stage = np.array([0 if given == FAILURE else stages.index(given) + 1 for _, given in frames])
    return Frames(inputs, stage, np.array([episode[frame[:2]] for frame, _ in frames]), _scales(spec))


def _inputs(observations: list[Observation], spec: Spec, eyes: Encoder | None) -> np.ndarray:
    seen = stacked(observations, list(spec.observation))
    for name, values in seen.items():
        if eyes is not None and values.dtype == np.uint8:
            seen[name] = encoded(eyes, values)
    return flat_inputs(seen, spec.observation)


def _scales(spec: Spec) -> np.ndarray:
    parts = [np.ones(e.size) if e.role == "features" else e.scales().reshape(-1) for _, e in sorted(spec.observation.items())]
    return np.concatenate(parts).astype(np.float32)


# ---- what is said of it


def _report(made: Classifier, trained: Trained, out: Path) -> None:
    for line in _described(made):
        say(line)
    plot = out.with_suffix(".png")
    write_calibration(plot, trained.figures["stages"])
    say(f"wrote {out} and {plot}")
    weak = [name for name, figures in trained.figures["stages"].items() if (figures["precision"] or 0) < 0.99]
    if weak:
        say(f"precision below 99 % at {', '.join(weak)}: label more frames, first those that it is unsure of (--classifier {out})")
    say(f"next: tandem train TASK --reward-source classifier:{out}")


def _described(made: Classifier) -> list[str]:
    lines = [
        f"{made.name}, for '{made.spec.task}'",
        f"looks at {', '.join(made.entries)}; holds for {made.hold_s:g} s"
        + ("" if made.conditions is None else f"; and {made.conditions.name}"),
        f"trained on {made.figures.get('frames', 0):,} frames of {made.figures.get('episodes', 0)} episodes; on held-out episodes:",
    ]
    for (name, figures), threshold in zip(made.figures.get("stages", {}).items(), made.thresholds, strict=False):
        precision = "none found" if figures["precision"] is None else f"{figures['precision']:.1%}"
        lines.append(
            f"  {name}: threshold {threshold:.3f}, precision {precision}, recall {figures['recall']:.1%}, "
            f"{figures['false_positives']} false positives in {figures['failures']:,} failure frames "
            f"({figures['false_positives_per_1000']:.1f} of 1,000), calibration error {figures['calibration_error']:.3f}"
        )
    return lines


def write_calibration(path: Path, stages: dict[str, Any]) -> None:
    """What it said against what was true, for held-out frames: a good one is on the diagonal."""
    size, edge = 320, 40
    picture = Image.new("RGB", (size + 2 * edge, size + 2 * edge + 16 * len(stages)), "white")
    draw = ImageDraw.Draw(picture)

    def place(said: float, true: float) -> tuple[float, float]:
        return edge + said * size, edge + (1 - true) * size

    draw.rectangle([place(0, 1), place(1, 0)], outline="#8a95a3")
    draw.line([place(0, 0), place(1, 1)], fill="#b8c0ca")
    draw.text((edge, 8), "share that was true, by what the classifier said", fill="black")
    for tick in (0.0, 0.5, 1.0):
        draw.text((place(tick, 0)[0] - 8, edge + size + 4), f"{tick:g}", fill="black")
        draw.text((8, place(0, tick)[1] - 6), f"{tick:g}", fill="black")
    for number, (name, figures) in enumerate(stages.items()):
        colour = ("#1f6feb", "#d1570d", "#2a8a3e", "#8a4fc7")[number % 4]
        points = [place(said, true) for said, true, _ in figures["calibration"]]
        if len(points) > 1:
            draw.line(points, fill=colour, width=2)
        for (x, y), (_, _, count) in zip(points, figures["calibration"], strict=True):
            radius = 2 + min(6.0, np.log10(count))
            draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colour)
        draw.text((edge, edge + size + 22 + 16 * number), f"{name} (size of a point: number of frames)", fill=colour)
    with whole_or_nothing(path) as partial:
        picture.save(partial)
