"""python actor_process.py OPTIONS: an actor without a robot.

Says READY and its source, then the number of each step it has made (unless `quiet`) and how many are acknowledged (if `acknowledged`),
until it is killed, has made `count` of them, or is asked to end by SIGTERM.
"""

import json
import signal
import sys
import time
from pathlib import Path

from link_samples import SPEC, step

from tandem.link.client import ActorClient, ClientConfig

options = json.loads(sys.argv[1])
every, count, quiet = options.pop("every_s"), options.pop("count", 10**9), options.pop("quiet", False)
acknowledged = options.pop("acknowledged", False)
options["spool"] = Path(options["spool"])
stop: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: stop.append(number))
client = ActorClient(SPEC, ClientConfig(timeout_s=2.0, **options))
client.connect()
print("READY", client.source, flush=True)
number = 0
while number < count and not stop:
    client.send([step(number, f"{client.source}.0")])
    if not quiet:
        print(*((number, number + 1 - client.status.unacknowledged) if acknowledged else (number,)), flush=True)
    number += 1
    time.sleep(every)
print(json.dumps({"made": number, "left": client.close(), "reconnects": client.status.reconnects}), flush=True)
