"""A hub as `tandem learner` starts one, in a process of its own: python hub_process.py RUN OPTIONS."""

import json
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

from tandem.link.hub import Hub, HubConfig


def main(run: Path, options: dict[str, Any]) -> None:
    """Serve until killed. `file_limit`: no file may grow beyond it; `open_files`: so many the system allows unless asked for more;
    `jumping_clock`: a wall clock that nobody should trust; `broken_log`: no line can be written."""
    file_limit = options.pop("file_limit", None)
    wall = (lambda: time.time() + random.uniform(-1e6, 1e6)) if options.pop("jumping_clock", False) else time.time
    for name in ("certificate", "key"):
        if name in options:
            options[name] = Path(options[name])
    say = _no_room if options.pop("broken_log", False) else lambda line: None
    if (open_files := options.pop("open_files", None)) is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    hub = Hub(run, HubConfig(**options), wall=wall, say=say)
    if file_limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, resource.RLIM_INFINITY))
    hub.serve()


def _no_room(line: str) -> None:
    raise OSError(28, f"No space left on device: {line}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
