"""What the critics of a run say along demonstrations: on a page, and as a picture."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from tandem.data.demos import OpenDemos
from tandem.doctor.values import DemoValues, decisions_of, discount_of, read_critics, summed_up, values_along, values_in
from tandem.errors import ConfigError, DataError, SpecMismatch
from tandem.files import whole_or_nothing
from tandem.networks.numpy_critic import NumpyCritics
from tandem.programs.curves import curve
from tandem.programs.terminal import say
from tandem.runs.folder import RunFolder
from tandem.types import Spec, Transition

WIDTH, HEIGHT, MARGIN, TITLE = 640, 200, 12, 18
COLOURS = {"Q of the demonstrated action": "#1f6feb", "Q of random actions": "#8b949e", "the return that followed": "#d1570d"}


def values_part(run: Path, opened: OpenDemos, episodes: Collection[int], folder: Path) -> str:
    """A part of the page; `values.png` is written next to the page."""
    critics, spec, settings = _critics_of(run, opened)
    values = values_in(opened, critics, spec, settings, sorted(episodes))
    if not values:
        raise ConfigError(f"{opened.path} has none of the episodes {sorted(episodes)[:5]}")
    picture = write_values(values, folder / "values.png")
    lines = list(words(values))
    for line in lines:
        say(line)
    say(f"wrote {picture}")
    drawn = "".join(curve(f"episode {number}", lines_of(one)) for number, one in zip(sorted(episodes), values, strict=False))
    said = "".join(f"<p>{html.escape(line)}</p>" for line in lines)
    return f"<h2>Values along the demonstrations, {html.escape(str(run))}</h2>{said}<div>{drawn}</div>"


def _critics_of(run: Path, opened: OpenDemos) -> tuple[NumpyCritics, Spec, dict[str, Any]]:
    """The critics of a run for these demonstrations, with its spec and settings."""
    known = RunFolder.open(run)
    settings, spec = known.settings_of("rlpd"), known.spec
    differences = spec.data_difference(opened.spec)
    if differences:
        raise SpecMismatch(f"{opened.path} is not of the task of {run}: {'; '.join(differences[:3])} (here: the run, there: the file)")
    critics = read_critics(known, settings)
    if critics is None:
        raise ConfigError(
            f"{run} has no critics to look at: no checkpoint yet (one is written every checkpoint_period learner steps), or it has cameras"
        )
    return critics, spec, settings


def q_side_by_side(run: Path, opened: OpenDemos, episodes: Mapping[str, Sequence[Transition]]) -> str:
    """What the critics say of the executed actions of several episodes, each from its start to its end."""
    critics, spec, settings = _critics_of(run, opened)
    discount, decisions = discount_of(settings), decisions_of(settings)
    lines = {name: values_along(critics, spec, steps, discount, decisions).q for name, steps in episodes.items()}
    return curve("Q of what was done, from start to end", lines)


def lines_of(values: DemoValues) -> dict[str, np.ndarray]:
    return dict(zip(COLOURS, (values.q, values.random_q, values.returns), strict=True))


def words(values: Sequence[DemoValues]) -> list[str]:
    """The figures of `tandem doctor`, for these demonstrations."""
    seen = summed_up(values)
    assert seen is not None
    followed = "not known (cut off)" if seen.return_at_start is None else f"{seen.return_at_start:.3g}"
    return [
        f"where a demonstration begins: Q {seen.q_at_start:.3g}, the return that followed {followed}",
        f"in the middle: the demonstrated action is worth {seen.gap:.2g} more than random ones, which differ by {seen.spread:.2g}; "
        f"Q there is {seen.q:.3g}",
    ]


def write_values(values: Sequence[DemoValues], path: Path) -> Path:
    """One panel for each demonstration; complete or not there."""
    picture = Image.new("RGB", (WIDTH, TITLE + len(values) * HEIGHT), "white")
    pen, left = ImageDraw.Draw(picture), MARGIN
    for name, colour in COLOURS.items():
        pen.text((left, 3), name, fill=colour)
        left += 9 + int(pen.textlength(name))
    for number, one in enumerate(values):
        _panel(pen, one, TITLE + number * HEIGHT)
    try:
        with whole_or_nothing(path) as partial:
            picture.save(partial, format="PNG", optimize=True)
    except OSError as problem:
        raise DataError(f"cannot write the picture {path}: {problem.strerror or problem}. Is the disk full?") from None
    return path


def _panel(pen: ImageDraw.ImageDraw, values: DemoValues, top: int) -> None:
    lines = lines_of(values)
    known = np.concatenate([line[np.isfinite(line)] for line in lines.values()])
    low, high = min(0.0, float(known.min())), float(known.max())
    right, bottom, span = WIDTH - MARGIN, top + HEIGHT - MARGIN, (high - low) or 1.0
    pen.rectangle((MARGIN, top, right, bottom), outline="#d0d7de")
    pen.text((MARGIN + 4, top + 3), f"{low:.2g} to {high:.2g}, {values.length} steps", fill="#57606a")
    x = MARGIN + (right - MARGIN) * values.steps / max(1, values.length - 1)
    for name, line in lines.items():
        y = bottom - (bottom - top) * (line - low) / span
        points = [(float(a), float(b)) for a, b in zip(x, y, strict=True) if np.isfinite(b)]
        if len(points) > 1:
            pen.line(points, fill=COLOURS[name], width=2)
