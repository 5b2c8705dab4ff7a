"""Products of NumPy run in one thread, unless somebody says otherwise."""

import os
import subprocess
import sys

import pytest

COUNT = "import tandem, numpy, os; a = numpy.ones((800, 800)); a @ a; print(len(os.listdir('/proc/self/task')))"


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
@pytest.mark.parametrize("said", [None, "3"])
def test_numpy_multiplies_in_one_thread_where_nobody_says_otherwise(said: str | None) -> None:
    others = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    env = others if said is None else others | {"OPENBLAS_NUM_THREADS": said}
    done = subprocess.run([sys.executable, "-c", COUNT], env=env, capture_output=True, text=True, check=True)
    assert int(done.stdout) == (1 if said is None else min(int(said), len(os.sched_getaffinity(0))))
