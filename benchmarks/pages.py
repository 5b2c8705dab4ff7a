"""What do open pages cost, and how fast is a key in a real browser?

    python -m benchmarks.pages [--quick] [--json]

* `trainer_slowdown_10_pages`: how much slower the trainer is while ten pages are open: nine that watch and one that steers. In turns,
  ten pages are open (each with its socket, reading every message), or none. Without pages the process that simulates the browsers uses
  the same CPU time as before, in as many pieces, because a real browser runs on another machine. In both cases the actor makes ten steps
  per second and shows each of them to viewers, and the trainer logs its metrics as in a run.
* `hub_cpu_share_10_pages`: additional CPU time of the hub with ten pages, as a share of one core.
* `key_to_action_browser_ms_p50`, `_p95`: from a key press in Chromium to the view in the same browser that shows the executed action:
  page, hub, an actor process that simulates the gear assembly at 10 Hz, and back, while other processes use all cores. This is an upper
  bound, since the view comes after the action.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json as json_module
import math
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.intervention import processes, steady, work
from benchmarks.link import CONTEXT, STATE_SPEC, HubProcess, Processes, Steps, Trainer, burn, connected
from benchmarks.report import Report
from tandem.envs.registry import spec_for
from tandem.link.messages import Scene, View
from tandem.link.trainer_end import TrainerEnd
from tandem.off_policy.recipes import RECIPES
from tandem.programs.actor import ActorArgs, act
from tandem.runs.folder import RunFolder
from tandem.types import Spec

TARGETS = {"trainer_slowdown_10_pages": ("<=", 0.05), "key_to_action_browser_ms_p95": ("<=", 150.0)}
PAGES = 10
BODIES = 20
CONTROL_HZ, STEER_HZ = 10.0, 20.0
KEYS = ("KeyQ", "KeyE", "ArrowUp", "ArrowDown")
"""Rotation keys, which no limit of the task changes."""
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")


def serve_with_page(run: Path, port: int) -> None:
    """A hub as `tandem train` starts one."""
    from tandem.dashboard.mount import mount_on_hub
    from tandem.doctor.diagnosis import for_hub
    from tandem.link.hub import Hub, HubConfig

    hub = Hub(run, HubConfig(port=port), clocks=lambda counts: counts.related(50), findings=for_hub(run))
    mount_on_hub(hub, print)
    hub.serve()


# ---- ten browsers


class Viewer:
    """A page without a browser: logs in, loads the page, opens its socket and reads every message."""

    def __init__(self, address: str, token: str, steers: bool) -> None:
        self._address, self._steers = address, steers
        connection = http.client.HTTPConnection(address, timeout=10)
        connection.request("GET", f"/?token={token}")
        answer = connection.getresponse()
        answer.read()
        cookie, _, _ = (answer.getheader("set-cookie") or "").partition(";")
        key = (answer.getheader("location") or "").partition("#page=")[2]
        self._headers = {"Cookie": cookie, "X-Tandem-Page": key, "Origin": f"http://{address}"}
        connection.request("GET", "/", headers=self._headers)
        assert b"page.js" in connection.getresponse().read()
        connection.close()
        self.views = self.messages = 0

    async def watch(self, until: float) -> None:
        from websockets.asyncio.client import connect

        async with connect(f"ws://{self._address}/page/socket", additional_headers=self._headers, compression=None, proxy=None) as socket:
            looking, beats = False, None
            with contextlib.suppress(TimeoutError):
                while True:
                    message = await asyncio.wait_for(socket.recv(), until - time.monotonic())
                    self.messages += 1
                    self.views += isinstance(message, bytes)
                    if not looking and isinstance(message, str) and '"kind": "state"' in message[:40]:
                        source = json_module.loads(message)["actors"][0]["source"]
                        await socket.send(json_module.dumps({"do": "look", "source": source, "visible": True}))
                        looking = True
                        if self._steers:
                            await socket.send(json_module.dumps({"do": "take", "number": 1}))
                            beats = asyncio.create_task(self._steer(socket))
            if beats is not None:
                beats.cancel()

    async def _steer(self, socket: Any) -> None:
        for number in range(10**9):
            await socket.send(json_module.dumps({"do": "steer", "number": number, "keys": ["KeyW"], "turn": None}))
            await asyncio.sleep(1 / STEER_HZ)


def browsers(end: Connection, address: str, token: str) -> None:
    """Open pages for the commanded seconds, or none but with the same CPU time; sends the number of views received."""
    end.recv()
    end.send(None)
    to_burn, pieces = 0.0, 1
    while True:
        seconds, pages = end.recv()
        used, until, views = time.process_time(), time.monotonic() + seconds, 0
        if pages:
            viewers = [Viewer(address, token, steers=number == 0) for number in range(pages)]
            asyncio.run(_all_watch(viewers, until))
            views, pieces = sum(viewer.views for viewer in viewers), sum(viewer.messages for viewer in viewers)
            to_burn = time.process_time() - used
        else:
            for piece in range(pieces):
                burn(to_burn / pieces)
                time.sleep(max(0.0, until - seconds * (1 - (piece + 1) / pieces) - time.monotonic()))
        end.send(views)


async def _all_watch(viewers: list[Viewer], until: float) -> None:
    await asyncio.gather(*(viewer.watch(until) for viewer in viewers))


def shown_actor(end: Connection, options: dict[str, Any]) -> None:
    """An actor that makes ten steps per second and sends views to viewers."""
    client = connected(end, options)
    steps, watched, number = Steps(options["spec"], client.source), 0.0, 0
    poses = np.random.default_rng(0).random((BODIES, 7), np.float32).tobytes()
    seen = {name: [0.1] * entry.size for name, entry in options["spec"].observation.items()}
    scene: dict[str, Any] = {"bodies": [f"body {i}" for i in range(BODIES)], "geoms": [], "axes": [], "control_hz": CONTROL_HZ}
    while True:
        number += 1
        for order in client.commands():
            if order.command == "watch":
                watched = time.monotonic() + 3.0 if order.detail.get("hz") else 0.0
                client.show(Scene(scene))
        client.control()
        client.send([steps.next()])
        if time.monotonic() < watched:
            client.show(View(0, number % 100, number, "policy", "", "running", "", 0.0, False, [0.1] * 6, seen, poses))
        time.sleep(1 / CONTROL_HZ)


class LoggingTrainer(Trainer):
    """Writes metrics as a run does, for the pages to read."""

    def log_to(self, path: Path) -> None:
        self._path = path

    def learn(self, count: int) -> None:
        super().learn(count)
        if self.steps % 10 == 0 and hasattr(self, "_path"):
            names = ("critic/critic_loss", "critic/predicted_qs", "critic/target_qs", "actor/entropy", "actor/temperature")
            episodes = (f"environment/episode/{name}" for name in ("r", "l", "t", "success", "intervention_steps", "success_alone"))
            row = {"learner_step": self.steps, "actor_step": self.steps, "policy_version": self.version, "wall_s": time.monotonic()}
            with self._path.open("a") as file:
                file.write(json_module.dumps(row | dict.fromkeys((*names, *episodes), math.sin(self.steps))) + "\n")


def trainer_slowdown(pages: int, quick: bool) -> float:
    """For `benchmarks.intervention`."""
    return slowdown(pages, quick)["trainer_slowdown_10_pages"]


def slowdown(pages: int = PAGES, quick: bool = False) -> dict[str, float]:
    """Measure in turns with and without pages, with the trainer niced as in a run; medians of the ratios of neighbouring turns."""
    seconds, turns = (4.0, 2) if quick else (12.0, 8)
    with tempfile.TemporaryDirectory() as folder:
        hub = HubProcess(Path(folder) / "run", STATE_SPEC, serve_with_page)
        trainer_end = TrainerEnd(hub.run, STATE_SPEC)
        options = hub.client(STATE_SPEC, hub.run / "spool", pace="realtime")
        actor = CONTEXT.Pipe()
        acting = CONTEXT.Process(target=shown_actor, args=(actor[1], options), daemon=True)
        acting.start()
        actor[0].send("ready?")
        actor[0].recv()
        players = Processes(browsers, [(hub.address, hub.token)])
        trainer = LoggingTrainer()
        trainer.log_to(RunFolder(hub.run).metrics_file)
        os.nice(5)
        rates: dict[bool, list[float]] = {True: [], False: []}
        hub_cpu: dict[bool, list[float]] = {True: [], False: []}
        seen = 0
        for turn in range(2 * turns):
            open_pages = turn % 2 == 0
            used = hub.cpu_s()
            players.send((seconds, pages if open_pages else 0))
            time.sleep(1.0)  # opening ten pages at once is not part of the measurement
            rate, _ = trainer.learn_for(seconds - 1.5, trainer_end)
            [views] = players.results()
            seen += views
            rates[open_pages].append(rate)
            hub_cpu[open_pages].append((hub.cpu_s() - used) / seconds)
        assert seen > 0.5 * turns * pages * CONTROL_HZ * (seconds - 1), f"the pages saw only {seen} views"
        players.close()
        acting.kill()
        acting.join()
        trainer_end.close()
        hub.close()
    ratios = np.array(rates[False]) / np.array(rates[True])
    return {
        "trainer_slowdown_10_pages": float(np.median(ratios) - 1),
        "hub_cpu_share_10_pages": float(np.median(np.array(hub_cpu[True]) - np.array(hub_cpu[False]))),
        "views_per_s_and_page": seen / (turns * pages * seconds),
    }


# ---- a key in a real browser

MEASURE = """async ([keys, samples]) => {
  const took = [];
  const rest = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));
  for (let i = 0; i < samples; i++) {
    const code = keys[i % keys.length];
    await rest(0.25 + 0.2 * Math.random()); // at times independent of the control period
    while (tandem.view.action.some((axis) => Math.abs(axis) > 1e-3)) await rest(0.005);
    const began = performance.now();
    dispatchEvent(new KeyboardEvent("keydown", { code, bubbles: true }));
    while (!(tandem.view.who === "person" && tandem.view.action.some((axis) => Math.abs(axis) > 0.05))) {
      if (performance.now() - began > 3000) throw new Error("no answer to " + code);
      await new Promise((done) => { tandem.seen = done; });
    }
    took.push(performance.now() - began);
    dispatchEvent(new KeyboardEvent("keyup", { code, bubbles: true }));
  }
  return took;
}"""


def gear_actor(run: Path, spool: Path) -> None:
    """The actor process."""
    act(ActorArgs("gear_assembly", run=run, spool=spool, pace="realtime", name="measured", threads=1), lambda line: None)


@contextlib.contextmanager
def steered_run() -> Iterator[str]:
    """The gear assembly at 10 Hz, its page, and a busy process per core; yields the link to the page."""
    spec: Spec = spec_for("gear_assembly")
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        folder = RunFolder.create(run, "rlpd", replace(RECIPES["gear_assembly"](), task="gear_assembly"), spec)
        hub = CONTEXT.Process(target=serve_with_page, args=(run, 0), daemon=True)
        hub.start()
        while not folder.hub_file.exists():
            time.sleep(0.02)
        trainer = TrainerEnd(run, spec)
        trainer.publish(steady(spec))
        trainer.beat(learner_step=1, phase="training", steps_before=0, updates_per_actor_step=1.0)
        try:
            with processes((gear_actor, (run, Path(name) / "spool")), *[(work, ())] * (os.cpu_count() or 1)):
                yield f"http://{(folder.hub() or {})['address']}/?token={folder.token}"
        finally:
            trainer.close()
            assert hub.pid is not None
            os.kill(hub.pid, signal.SIGTERM)
            hub.join()


def key_to_action_in_browser(samples: int) -> np.ndarray:
    """Milliseconds from a key press to the view that shows its action, in the same browser."""
    from playwright.sync_api import sync_playwright

    chromium = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    assert chromium, "needs a browser: apt-get install chromium"
    with steered_run() as link, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, headless=True, args=list(FLAGS))
        tab = browser.new_page(viewport={"width": 900, "height": 600})
        tab.goto(link)
        tab.wait_for_function("window.tandem && tandem.view", timeout=60_000)
        tab.evaluate("() => { const frame = tandem.frame.bind(tandem); tandem.frame = (data) => { frame(data); tandem.seen?.(); }; }")
        tab.keyboard.press("Space")
        tab.wait_for_function("document.getElementById('who-name').textContent === 'YOU'")
        took = tab.evaluate(MEASURE, [list(KEYS), samples])
        browser.close()
    return np.array(took)


def main(quick: bool = False, json: bool = False) -> None:
    """The cost of open pages, and the delay of a key in a real browser.

    Args:
        quick: Short runs, to check that it works.
        json: One JSON object instead of the table.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    report = Report("pages", ("figure", "measured", "target"), TARGETS)
    took = key_to_action_in_browser(10 if quick else 150)
    report.figures = {
        "key_to_action_browser_ms_p50": float(np.percentile(took, 50)),
        "key_to_action_browser_ms_p95": float(np.percentile(took, 95)),
        **slowdown(PAGES, quick),
    }
    for name, value in report.figures.items():
        target = TARGETS.get(name)
        report.row(name, f"{value:.3g}", f"{target[0]} {target[1]:g}" if target else "")
    report.show(json)


if __name__ == "__main__":
    tyro.cli(main)
