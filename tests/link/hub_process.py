"""python hub_process.py RUN OPTIONS: a hub as `tandem learner` starts one."""

import json
import random
import resource
import sys
import time
from pathlib import Path

from tandem.link.hub import Hub

run, options = Path(sys.argv[1]), json.loads(sys.argv[2])
file_limit = options.pop("file_limit", None)
for name in ("certificate", "key"):
    if name in options:
        options[name] = Path(options[name])
if options.pop("jumping_clock", False):
    options["wall"] = lambda: time.time() + random.uniform(-1e6, 1e6)
hub = Hub(run, **options)
if file_limit is not None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, resource.RLIM_INFINITY))
hub.serve()
