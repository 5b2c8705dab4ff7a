"""python hub_process.py RUN OPTIONS: a hub as `tandem learner` starts one."""

import json
import resource
import sys
from pathlib import Path

from tandem.link.hub import Hub

run, options = Path(sys.argv[1]), json.loads(sys.argv[2])
file_limit = options.pop("file_limit", None)
for name in ("certificate", "key"):
    if name in options:
        options[name] = Path(options[name])
hub = Hub(run, **options)
if file_limit is not None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, resource.RLIM_INFINITY))
hub.serve()
