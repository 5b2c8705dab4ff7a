"""Every fault at many moments of one long run, with the proof after each kind. `make chaos`, or

python -m tests.faults.chaos [--moments 20] [--transitions 50000] [--json]
"""

from __future__ import annotations

import json as json_module
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from tests.faults.rig import FAULTS, Rig


def main(moments: int = 20, transitions: int = 50_000, seed: int = 0, json: bool = False) -> int:
    """Put a run through every fault and count what became of its steps.

    Args:
        moments: How often each fault strikes.
        transitions: Let the run go on until it has so many, faults included.
        seed: Of the moments.
        json: One JSON object instead of a table.
    """
    rows, began = [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        rig = Rig(Path(folder), seed=seed)
        try:
            rig.wait("all is well", rig.well)
            for fault in FAULTS:
                recoveries = [rig.strike(fault) for _ in range(moments)]
                rig.stand_still()
                proven = rig.check()
                rig.go_on()
                rows.append({"fault": fault, "moments": moments, "proven": proven, "recovery_s_max": round(max(recoveries), 2)})
                print(f"{fault}: {moments} times, {proven:,} steps proven, back within {max(recoveries):.1f} s", file=sys.stderr)
            rig.wait(f"{transitions:,} transitions", lambda: rig.steps() >= transitions, seconds=1800)
            summary = rig.finish()
            proven = rig.check()
        finally:
            rig.close()
    assert proven == summary["actor_step"]
    result = {
        "name": "chaos",
        "minutes": round((time.monotonic() - began) / 60, 1),
        "figures": {
            "faults": moments * len(FAULTS),
            "transitions": proven,
            "lost": 0,  # `check` raises at the first that is missing or there twice
            "policy_versions": summary["policy_version"],
            "recovery_s_max": max(row["recovery_s_max"] for row in rows),
        },
        "rows": rows,
    }
    if json:
        print(json_module.dumps(result))
    else:
        show(result)
    return 0


def show(result: dict[str, Any]) -> None:
    table = Table("fault", "moments", "steps proven so far", "slowest return")
    for row in result["rows"]:
        table.add_row(row["fault"], str(row["moments"]), f"{row['proven']:,}", f"{row['recovery_s_max']:.1f} s")
    console = Console()
    console.print(table)
    figures = result["figures"]
    console.print(
        f"{figures['faults']} faults, {figures['transitions']:,} transitions: each witnessed by its environment, in the journal once and "
        f"in order, given to the learner once and in order; {figures['policy_versions']} policy versions, none used twice; "
        f"{result['minutes']} minutes",
        soft_wrap=True,
    )


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
