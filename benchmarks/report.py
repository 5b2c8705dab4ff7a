"""The report of a benchmark: a table for people, or one JSON object for programs.

{"name": .., "machine": {..}, "figures": {..}, "targets": {figure: [">=", value]}, "met": bool}
"""

from __future__ import annotations

import json
import operator
import os
import platform
import sys
import time
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.table import Table

_COMPARE = {">=": operator.ge, "<=": operator.le, "==": operator.eq}


def machine_gflops(seconds: float = 0.5) -> float:
    """This machine's speed in float32 matrix products, for comparing times between machines."""
    a = np.random.default_rng(0).standard_normal((1024, 1024)).astype(np.float32)
    a @ a
    start, products = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        a @ a
        products += 1
    return products * 2 * 1024**3 / (time.perf_counter() - start) / 1e9


@dataclass
class Report:
    """Rows of a table, and figures that are compared with their targets."""

    name: str
    columns: tuple[str, ...]
    targets: dict[str, tuple[str, float]]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    def row(self, *cells: object) -> None:
        self.rows.append(tuple(str(cell) for cell in cells))

    def figure(self, name: str, value: float, unit: str) -> None:
        """A figure with a row of its own, for tables of the columns figure, measured, target; said as soon as it is known."""
        self.figures[name] = float(value)
        target = self.targets.get(name)
        self.row(name, f"{value:.3g} {unit}", f"{target[0]} {target[1]:g}" if target else "")
        print(f"{name}: {value:.4g} {unit}", file=sys.stderr)

    def unmet(self) -> list[str]:
        return [
            f"{name} = {self.figures[name]:.4g}, target {relation} {value:g}"
            for name, (relation, value) in self.targets.items()
            if name in self.figures and not _COMPARE[relation](self.figures[name], value)
        ]

    def show(self, as_json: bool) -> None:
        missing = [name for name in self.targets if name not in self.figures]
        met = not self.unmet() and not missing
        if as_json:
            machine = {"cores": os.cpu_count(), "python": platform.python_version(), "gflops": round(machine_gflops(), 1)}
            targets = {name: list(target) for name, target in self.targets.items()}
            print(json.dumps({"name": self.name, "machine": machine, "figures": self.figures, "targets": targets, "met": met}))
            return
        table = Table(*self.columns, title=self.name)
        for row in self.rows:
            table.add_row(*row)
        console = Console()
        console.print(table)
        printed = {row[0] for row in self.rows}
        for name, value in self.figures.items():
            if name not in printed:
                console.print(f"{name} = {value:.4g}" + (" (target {} {:g})".format(*self.targets[name]) if name in self.targets else ""))
        for name in missing:
            console.print(f"[yellow]not measured[/]: {name}")
        for line in self.unmet():
            console.print(f"[red]not met[/]: {line}")
        if self.targets:
            console.print("[green]all targets met[/]" if met else "[red]targets not met[/]")
