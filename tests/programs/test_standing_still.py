"""A robot that must stand still does, whatever process is killed, stopped or started again. With real processes."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tandem.acting.watchdog_process import MARGIN_S
from tandem.envs.registry import make_env, spec_for
from tandem.link.access import Asker, Who
from tandem.link.hub import Hub, HubConfig
from tandem.link.messages import Command
from tandem.link.trainer_end import TrainerEnd
from tests.teleop.remote_rig import steady_policy
from tests.waiting import wait_for

HERE = Path(__file__).parent
PERIOD_S = 0.05
STALL_S = 0.5
TESTER = Asker(Who("Ada", "admin"))


class Site:
    """A hub and a trainer's end in this process, and an actor in one of its own, for one robot."""

    def __init__(self, folder: Path, env: str) -> None:
        self.folder, self.env, self.run = folder, env, folder / "run"
        self.witness = folder / "witness"
        self.witness.touch()
        self.spec = spec_for(env)
        self.run.mkdir()
        described = {"task": env, "spec": self.spec.to_json(), "spec_hash": self.spec.hash, "config": {}}
        (self.run / "config.json").write_text(json.dumps(described))
        (folder / "limits.toml").write_text(f"stall_s = {STALL_S}\naxis.x.speed_share = 0.9\naxis.y.speed_share = 0.9\n")
        self.hub = Hub(self.run, HubConfig())
        self._hub_thread = threading.Thread(target=self.hub.serve, daemon=True)
        self._hub_thread.start()
        wait_for(lambda: (self.run / "hub.json").exists(), what="the hub to listen")
        self.trainer = TrainerEnd(self.run, self.spec)
        self.trainer.publish(steady_policy(self.spec))
        self.trainer.beat(learner_step=10**9, phase="training", steps_before=0, updates_per_actor_step=1.0)
        self.actor: subprocess.Popen[bytes] | None = None
        self.log = folder / "actor.log"

    def start_actor(self, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tandem.cli", "actor", self.env, "--run", str(self.run), "--pace", "realtime", "--name", "arm"]
        command += ["--limits", str(self.folder / "limits.toml"), "--spool", str(self.folder / "spool"), *options]
        with self.log.open("ab") as log:
            self.actor = subprocess.Popen(command, stdout=log, stderr=log)
        return self.actor

    def lines(self, what: str) -> list[float]:
        """When it happened, by the monotonic clock that all processes share."""
        return [float(line.split()[1]) for line in self.witness.read_text().splitlines() if line.startswith(f"{what} ")]

    def tell(self, command: str, **detail: object) -> None:
        assert self.hub.loop is not None
        self.hub.loop.call_soon_threadsafe(self.hub.send_command, Command(command, "arm", dict(detail)), TESTER)

    def moves(self) -> None:
        count = len(self.lines("action"))
        wait_for(lambda: len(self.lines("action")) > count + 3, 30, what=f"motion; the actor said {self.log.read_text()}")

    def stands(self, seconds: float) -> None:
        count = len(self.lines("action")) + len(self.lines("reset"))
        time.sleep(seconds)
        assert len(self.lines("action")) + len(self.lines("reset")) == count, "a moving action without permission"

    def standing(self) -> list[str]:
        """Why the robots of connected actors stand still, as the hub knows it."""
        live = json.loads((self.run / "live.json").read_text()) if (self.run / "live.json").exists() else {"actors": []}
        return [actor["standing"] for actor in live["actors"] if actor["connected"] and actor["standing"]]

    def close(self) -> None:
        if self.actor is not None and self.actor.poll() is None:
            self.actor.send_signal(signal.SIGCONT)
            self.actor.kill()
            self.actor.wait()
        self.trainer.close()
        self.hub.stop()
        self._hub_thread.join(10)


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Site]]:
    monkeypatch.setenv("WITNESS", str(tmp_path / "witness"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(str(HERE))
    made: list[Site] = []

    def make(env: str) -> Site:
        made.append(Site(tmp_path, env))
        return made[-1]

    yield make
    for site in made:
        site.close()


def test_a_stopped_robot_whose_actor_was_killed_moves_only_after_resume(sites: Callable[[str], Site]) -> None:
    site = sites("stamped_robot:StampedRobot-v0")
    site.start_actor()
    site.moves()
    assert "no watchdog process can halt" in site.log.read_text(), "what cannot be done is said at the start"
    site.tell("stop", stay=True, who="somebody else")  # the hub says who it was
    wait_for(lambda: len(site.lines("halt")) == 1, what="the halt")
    wait_for(site.standing, what="the hub to know why")
    assert site.lines("halt")[0] >= site.lines("action")[-1], "no action after it"
    assert site.actor is not None
    site.actor.kill()
    site.actor.wait()
    site.start_actor()
    wait_for(lambda: site.log.read_text().count("the robot stands still: stopped by a person (by Ada") == 1, 30, what="its reason")
    site.stands(1.0)
    wait_for(lambda: any("stopped by a person (by Ada" in why for why in site.standing()), what="the hub to know it of the new process")
    site.tell("resume")
    site.moves()
    site.tell("stop")
    assert site.actor.wait(20) == 0
    assert site.lines("halt")[-1] >= site.lines("action")[-1], "halted at its end too"


def test_a_measured_force_beyond_its_limit_holds_the_robot_also_after_a_restart_until_resume(sites: Callable[[str], Site]) -> None:
    site = sites("stamped_robot:StampedPushed-v0")
    with (site.folder / "limits.toml").open("r+") as file:
        text = file.read()
        file.seek(0)
        file.write(f'wrench = "wrench"\nstop_force_n = 30.0\n{text}')
    site.start_actor()
    site.moves()
    pushed = site.folder / "witness.force"
    pushed.touch()
    why = "a force of 90 N was measured; at most 30 N are allowed"
    wait_for(lambda: any(why in standing for standing in site.standing()), 30, what=f"the reason at the hub; {site.log.read_text()}")
    assert len(site.lines("halt")) == 1 and site.lines("halt")[0] >= site.lines("action")[-1], "halted, and no action after it"
    assert any(why in file.read_text() for file in site.folder.glob("latch/*.json")), "on the disk"
    site.stands(0.5)
    assert site.actor is not None
    site.actor.kill()
    site.actor.wait()
    pushed.unlink()  # that nothing pushes any more lets nobody move it
    site.start_actor()
    wait_for(lambda: f"the robot stands still: a limit of '{site.env}' was violated: {why}" in site.log.read_text(), 30, what="its reason")
    site.stands(0.5)
    resets = len(site.lines("reset"))
    site.tell("resume")
    site.moves()
    assert len(site.lines("reset")) == resets + 1, "from the start of an episode"


@pytest.mark.parametrize("env", ["stamped_robot:StampedWatched-v0", f"serve:{sys.executable}:stamped_robot:StampedRobot-v0"])
def test_a_robot_is_halted_when_its_environment_or_its_actor_hangs_or_is_gone(sites: Callable[[str], Site], env: str) -> None:
    site = sites(env)
    outside = "halt" if env.startswith("serve:") else "outside"
    actor = site.start_actor()
    site.moves()

    hang = site.folder / "witness.hang"
    hang.touch()
    began = time.monotonic()
    wait_for(lambda: site.lines("halt"), what="the halt of an environment that hangs")
    assert STALL_S - PERIOD_S <= site.lines("halt")[0] - began < STALL_S + 0.7
    hang.unlink()
    site.moves()
    assert min(b - a for a, b in itertools.pairwise(site.lines("action"))) >= PERIOD_S / 2, "the break test saw 3 ms"

    for halting, limit_s in ((signal.SIGSTOP, STALL_S + MARGIN_S), (signal.SIGKILL, 0.0)):
        before = len(site.lines(outside))
        actor.send_signal(halting)
        sent = time.monotonic()
        wait_for(lambda before=before: len(site.lines(outside)) > before, 10, what="the halt by the watchdog process")
        assert site.lines(outside)[before] - sent < limit_s + 1.0, "some air for a busy machine"
        if halting == signal.SIGSTOP:
            actor.send_signal(signal.SIGCONT)
            site.moves()


def test_a_server_halts_when_its_client_is_silent_in_the_middle_of_an_episode(sites: Callable[[str], Site], tmp_path: Path) -> None:
    sites("stamped_robot:StampedRobot-v0")  # the paths
    env = make_env(f"serve:{sys.executable}:stamped_robot:StampedSilent-v0")
    witness = tmp_path / "witness"
    env.reset(seeds=[0])
    for _ in range(4):
        env.step(np.full((1, 2), 0.1))
        time.sleep(0.1)
    assert "halt" not in witness.read_text()
    time.sleep(1.0)
    assert witness.read_text().count("halt ") == 1, "once for each silence"
    assert env.step(np.full((1, 2), 0.1)).lost is None, "the episode goes on"
    env.close()
