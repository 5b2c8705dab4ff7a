"""Curves as SVG, and pages made of them: one file that any browser opens, without a server, a script or a network."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tandem.files import write_atomically

WIDTH, HEIGHT, MARGIN = 460, 92, 4
COLOURS = ("#1f6feb", "#d1570d", "#2a8a3e", "#8a4fc7")
STYLE = """
body{font:14px/1.4 system-ui,sans-serif;margin:24px auto;max-width:1010px;color:#1b1f24;background:#fff}
h1{font-size:20px}h2{font-size:16px;margin-top:28px;border-top:1px solid #d0d7de;padding-top:12px}
figure{display:inline-block;margin:4px 12px 4px 0;vertical-align:top}figcaption{font-size:12px;color:#57606a}
svg{background:#f6f8fa;border:1px solid #d0d7de;border-radius:4px}video{border-radius:4px;background:#000}
table{border-collapse:collapse}td,th{padding:2px 12px 2px 0;text-align:left;font-variant-numeric:tabular-nums}
a{color:#1f6feb}summary{cursor:pointer;font-weight:600}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}svg{background:#161b22;border-color:#30363d}h2{border-color:#30363d}}
"""


def curve(title: str, lines: Mapping[str, Sequence[float] | np.ndarray], mark: int | None = None) -> str:
    """Some lines over the steps, as one figure; `mark` is a step to point at."""
    values = {name: np.asarray(line, float) for name, line in lines.items()}
    known = np.concatenate([line[np.isfinite(line)] for line in values.values()] or [np.zeros(0)])
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    span, steps = (high - low) or 1.0, max((len(line) for line in values.values()), default=1)
    drawn = [
        f'<polyline fill="none" stroke="{colour}" stroke-width="1.4" points="{_points(line, low, span, steps)}"/>'
        for line, colour in zip(values.values(), COLOURS, strict=False)
    ]
    if mark is not None:
        x = _x(mark, steps)
        drawn.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT}" stroke="#cf222e" stroke-dasharray="3 3"/>')
    names = (
        " · ".join(f'<span style="color:{c}">{html.escape(n)}</span>' for n, c in zip(values, COLOURS, strict=False))
        if len(values) > 1
        else ""
    )
    caption = f"{html.escape(title)} {names} <small>{low:.4g} to {high:.4g}</small>"
    return f'<figure><svg width="{WIDTH}" height="{HEIGHT}">{"".join(drawn)}</svg><figcaption>{caption}</figcaption></figure>'


def _x(step: float, steps: int) -> float:
    return MARGIN + (WIDTH - 2 * MARGIN) * step / max(1, steps - 1)


def _points(line: np.ndarray, low: float, span: float, steps: int) -> str:
    places = range(0, len(line), max(1, len(line) // WIDTH))
    y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (np.nan_to_num(line) - low) / span
    return " ".join(f"{_x(place, steps):.1f},{y[place]:.1f}" for place in places)


def table(rows: Sequence[Sequence[object]], heads: Sequence[str]) -> str:
    top = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"


def write_page(path: Path, title: str, parts: Sequence[str]) -> Path:
    head = f'<!doctype html><meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style>'
    write_atomically(path, f"{head}<h1>{html.escape(title)}</h1>{''.join(parts)}".encode())
    return path
