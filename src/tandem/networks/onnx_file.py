"""Reading a policy that was exported as an ONNX file. It is tried in a process of its own before it is loaded in this one.

ONNX Runtime is not made for files of strangers: a few operators on small weights can ask for all memory or hours of work, and an odd graph
can end the process. The trial has bounded memory and time. It loads the file, acts on two observations of zeros and checks what comes out.

    python -P -m tandem.networks.onnx_file NAME SECONDS < FILE          the trial; started by `read_onnx`, not for typing
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from tandem.errors import FileMissing, FileUnreadable, TandemError
from tandem.networks.onnx_graph import MEMORY_OUT, packages
from tandem.networks.onnx_policy import OnnxPolicy, check, from_bytes

MAX_BYTES = 256 * 2**20
"""A policy for vector observations has a few megabytes at most; a larger file is not read into memory."""
MORE_MB, CPU_S, WAIT_S = 512, 10, 120
"""What the trial may need: memory beyond four times the file, processor time, and time by the clock, on a busy machine."""
_REFUSED = 3
"""Exit code of a trial that says why on its standard output."""
_ROWS = 2


def read_onnx(path: Path) -> OnnxPolicy:
    """A file that `tandem export` wrote."""
    if not path.is_file():  # a pipe or a device could go on for ever
        raise FileMissing(f"there is no policy {path} (looked in {path.absolute().parent})")
    if path.stat().st_size > MAX_BYTES:
        raise FileUnreadable(f"{path} has {path.stat().st_size:,} bytes; an exported policy has at most {MAX_BYTES:,}. It was not read.")
    data = path.read_bytes()
    check(data, str(path))
    _try_elsewhere(data, str(path))
    return from_bytes(data, str(path))


def _try_elsewhere(data: bytes, what: str) -> None:
    """An error in words if the trial failed, in whatever way."""
    why = (
        f"An exported policy needs at most {MORE_MB} MB and {CPU_S} s to be loaded and to act once: this one is damaged, or made to do "
        f"harm. It was not run here. Export it again, and take policies only from people you trust."
    )
    command = [sys.executable, "-P", "-m", "tandem.networks.onnx_file", what, str(CPU_S)]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=WAIT_S)
    except subprocess.TimeoutExpired:
        raise FileUnreadable(f"{what} was tried in a process of its own for {WAIT_S} s, and that had not ended. {why}") from None
    if done.returncode == _REFUSED:
        raise FileUnreadable(done.stdout.decode(errors="replace").strip())
    if done.returncode:
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"code {done.returncode}"
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"])[-1]
        raise FileUnreadable(f"{what} was tried in a process of its own and ended it ({how}: {last[:300]}). {why}")


def _act_once(policy: OnnxPolicy, what: str) -> None:
    """On observations of zeros; what comes out must have the sizes that the spec says."""
    entries = {name: policy.spec.observation[name] for name in policy.inputs}
    seen = {name: np.zeros((_ROWS, *(entry.picture or entry.shape)), np.float32) for name, entry in entries.items()}
    whole, axes = policy.spec.action_dim, policy.axes
    sizes = {"action": whole, "command": whole, "mean": axes, "std": axes, MEMORY_OUT: policy.memory_size}
    for name, values in policy.run(seen, policy.begin(_ROWS)).items():
        expected = (_ROWS, sizes[name]) if name in sizes else (_ROWS, *values.shape[1:])
        if values.shape != expected or values.dtype != np.float32:
            raise FileUnreadable(
                f"{what} gives '{name}' as {values.dtype} of shape {values.shape} for {_ROWS} observations, expected float32 {expected}"
            )


def _bound(seconds: int, more: int) -> None:
    """Time and memory of this process, from here on."""
    import resource  # not on every system; there the time by the clock is bounded alone

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main() -> None:
    data, what, seconds = sys.stdin.buffer.read(), sys.argv[1], int(sys.argv[2])
    packages()
    _bound(seconds, MORE_MB * 2**20 + 4 * len(data))
    try:
        _act_once(from_bytes(data, what), what)
    except TandemError as problem:
        print(problem)
        sys.exit(_REFUSED)


if __name__ == "__main__":
    main()
