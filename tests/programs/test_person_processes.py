"""A whole run with a person beside it, as `tandem train` starts it: hub, trainer and actor are processes of their own."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tandem.data.journal import Journal
from tests.waiting import wait_for

SMALL = ("--hidden", "16", "16", "--batch-size", "16", "--training-starts", "20", "--steps-per-update", "10", "--eval-period", "0")
SMALL = (*SMALL, "--final-episodes", "0", "--max-steps", "100000", "--updates-per-actor-step", "0.5")


def api(run: Path, path: str, body: Any = None) -> Any:
    address = json.loads((run / "hub.json").read_text())["address"]
    headers = {"Authorization": f"Bearer {(run / 'token').read_text().strip()}"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"http://{address}{path}", data=data, headers=headers), timeout=10) as answer:
        return json.load(answer)


def test_a_stand_in_corrects_in_an_actor_of_its_own_and_the_live_status_tells_help_apart(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "tandem.cli", "train", "reach", *SMALL, "--operator", "person:scripted", "--run", str(run), "--quiet"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "xla")})
    try:
        told = wait_for(lambda: api(run, "/api/status")["episodes"], 60, what="episodes with help are told")
        assert {"success", "success_alone", "success_helped", "intervention_share"} <= told.keys()
        [actor] = api(run, "/api/actors")
        assert api(run, "/api/command", {"command": "record", "to": actor["source"], "detail": {"what": "discard"}})["told"]
        wait_for(lambda: '"discarded"' in (run / "events.jsonl").read_text(), 60, what="the trainer forgot an episode")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert process.returncode == 0, (tmp_path / "log").read_text()
    with Journal.open(run / "journal.db") as journal:
        steps = [step.intervened for _, step in journal.read()]
        assert any(steps) and not all(steps) and len(journal.discarded()) == 1
