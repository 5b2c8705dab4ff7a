"""A run whose robot soon asks for help, with its page: `python -m tests.dashboard.asking_run FOLDER [TASK]`, until its input ends."""

import sys
from pathlib import Path

from tandem.acting.asking import AskingConfig
from tandem.dashboard.mount import mount_on_hub
from tests.teleop.remote_rig import Rig


def main() -> None:
    folder, task = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "reach"
    settings, asking = {"notice": True}, AskingConfig(ask_timeout=600.0)
    config = {"notice": True, "steps_per_update": 50}
    with Rig(folder, task, settings, config=config, prepare=lambda hub: mount_on_hub(hub, print), asking=asking) as rig:
        print(f"http://{rig.hub.address}/?token={(rig.run / 'token').read_text().strip()}", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
