"""Damaged and hostile files of every kind that is read: read, or refused in words. Each seed here once found an error of another kind.

`python -m benchmarks.fuzz_files` makes as many as you like.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = 2500


def test_mutated_files_are_read_or_refused_in_words() -> None:
    """In a process of its own: its memory is bounded there, and a file that hangs it is noticed."""
    code = f"import json; from benchmarks.fuzz_files import attack_files; print(json.dumps(attack_files({FILES}, seed=4).__dict__))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"] == [], "\n".join(found["wrong"])
    assert found["read"] > FILES / 20 and found["refused"] > FILES / 4, found
