"""python actor_process.py OPTIONS: an actor without a robot. Says READY, then the number of each step it has made, until it is killed."""

import json
import sys
import time
from pathlib import Path

from link_samples import SPEC, step

from tandem.link.client import ActorClient

options = json.loads(sys.argv[1])
every, count = options.pop("every_s"), options.pop("count", 10**9)
options["spool"] = Path(options["spool"])
client = ActorClient(options.pop("address"), SPEC, timeout_s=2.0, **options)
client.connect()
print("READY", client.source, flush=True)
for number in range(count):
    client.send([step(number, f"{client.source}.0")])
    print(number, flush=True)
    time.sleep(every)
print("LEFT", client.close(), flush=True)
