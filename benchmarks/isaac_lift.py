"""The user's lift, learned from cameras against the stand-in for Isaac's server, with the two commands of hil-serl's fork.

    stand-in at `speed` times the clock  ◄──  25 scripted demonstrations, then learner and actor, then the evaluation

Everything is in one folder and every stage is skipped that was done before: demonstrations in `demos/`, the run in `run/` (continued), the
minutes that it has trained in `minutes.json`. The profile is the user's, with a control rate that is `speed` times higher: an action of 1
moves as far, and an episode has as many steps. `strip.png` shows what the cameras saw at the start, in the middle and at the end.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from tandem.envs.http_robot.pictures import pixels
from tandem.envs.isaac.pictures import PushedPictures
from tandem.envs.isaac.profile import FOLDER
from tandem.files import write_atomically

ROOT = Path(__file__).parents[1]
EXPERIMENT = "gear_assembly_pretrain"
RECORD_S, EVALUATE_S, END_S = 3600.0, 1800.0, 60.0
COLUMNS, SAVE_S = 10, 30.0
"""Pictures in a row of the strip, and how often the minutes are written down."""


@dataclass(frozen=True)
class Lift:
    """What is learned, where, and for how long at most."""

    folder: Path
    minutes: float
    demos: int = 25
    episodes: int = 20
    speed: float = 3.0
    profile: str = "gear_lift_10mm"
    pretrain_steps: int = 5000
    turn_rad: float = 0.0
    """How far the tool may turn from its start about each axis; 0: as far as it likes, as the user's client lets it."""


@contextmanager
def running(say: Callable[[str], None], log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended with the block; its output goes to a file."""
    say(f"$ {' '.join(part.replace(sys.executable, 'python') for part in command)}  > {log.name}")
    with log.open("ab") as out:
        process = subprocess.Popen([*command], stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def stand_in(speed: float, *quirks: str) -> Iterator[str]:
    """The address of a stand-in in a process of its own."""
    command = [sys.executable, "-u", "-m", "tandem.cli", "serve-like", "isaac", "--port", "0", "--seed", "0", "--speed", str(speed)]
    process = subprocess.Popen([*command, "--quirks", ",".join(quirks)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield next(word for word in process.stdout.readline().replace(",", " ").split() if word.startswith("http://"))
    finally:
        process.terminate()
        process.wait(10)


def fast_profile(lift: Lift) -> Path:
    """The user's profile at the speed of the stand-in."""
    text = (FOLDER / f"{lift.profile}.toml").read_text()
    if lift.turn_rad:
        text = text.replace("[box]", f"[box]\nturn_rad = [{lift.turn_rad}, {lift.turn_rad}, {lift.turn_rad}]")
    path = lift.folder / f"{lift.profile}_fast.toml"
    write_atomically(path, text.replace("control_hz = 10.0", f"control_hz = {10 * lift.speed:g}").encode())
    return path


def lift_success(lift: Lift, say: Callable[[str], None]) -> dict[str, float]:
    """Success of the final policy over `episodes`, and the minutes of training."""
    lift.folder.mkdir(parents=True, exist_ok=True)
    profile, times = fast_profile(lift), lift.folder / "minutes.json"
    with stand_in(lift.speed) as url:
        address = f"isaac+{url}?profile={profile}"
        demos = _record(lift, address, say)
        done = json.loads(times.read_text())["minutes"] if times.exists() else 0.0
        if done < lift.minutes:
            done = _train(lift, url, profile, demos, done, times, say)
        success = _evaluate(lift, address, say)
    return {"isaac_lift_success": success, "lift_minutes": done, "lift_demos": lift.demos, "lift_speed": lift.speed}


def _record(lift: Lift, address: str, say: Callable[[str], None]) -> Path:
    folder = lift.folder / "demos"
    found = sorted(folder.glob("isaac_*.db"))
    if found:
        say(f"demonstrations: {found[-1]}")
        return found[-1]
    began = time.monotonic()
    command = (sys.executable, "-m", "tandem.cli", "record", address, "--demos", str(lift.demos), "--operator", "scripted")
    say(f"recording {lift.demos} demonstrations")
    subprocess.run([*command, "--out", str(folder), "--quiet"], check=True, timeout=RECORD_S, cwd=ROOT)
    say(f"recorded in {(time.monotonic() - began) / 60:.1f} min")
    return sorted(folder.glob("isaac_*.db"))[-1]


def _train(lift: Lift, url: str, profile: Path, demos: Path, done: float, times: Path, say: Callable[[str], None]) -> float:
    """The seed's two commands, until the minutes are over."""
    script, run = str(ROOT / "examples" / "train_rlpd_pretrain.py"), lift.folder / "run"
    common = (f"--exp_name={EXPERIMENT}", f"--checkpoint_path={run}", "--seed=42", f"--profile={profile}")
    learn = (sys.executable, script, *common, "--learner", f"--demo_path={demos}", f"--pretrain_steps={lift.pretrain_steps}")
    act = (sys.executable, script, *common, "--actor", "--use_sim", "--ip=localhost", f"--isaac_server_url={url}")
    began, saved, film = time.monotonic(), 0.0, Strip(lift.folder / "strip.png", url)
    before = done
    with running(say, lift.folder / "learner.log", *learn) as learner, running(say, lift.folder / "actor.log", *act) as actor:
        while done < lift.minutes:
            time.sleep(1.0)
            done = before + (time.monotonic() - began) / 60
            for process, name in ((learner, "learner"), (actor, "actor")):
                if process.poll() is not None:
                    raise RuntimeError(f"the {name} ended with {process.returncode}: {_last_line(lift.folder / f'{name}.log')}")
            if time.monotonic() - saved > SAVE_S or done >= lift.minutes:
                saved = time.monotonic()
                write_atomically(times, json.dumps({"minutes": done}).encode())
                say(f"{done:.1f} of {lift.minutes:g} min: {_last_line(lift.folder / 'actor.log')}")
            film.look(done, lift.minutes)
    film.close()
    return done


def _evaluate(lift: Lift, address: str, say: Callable[[str], None]) -> float:
    say(f"evaluating {lift.episodes} episodes")
    command = (sys.executable, "-m", "tandem.cli", "eval", address, "--policy", str(lift.folder / "run"), "--which", "latest", "--json")
    done = subprocess.run([*command, "--episodes", str(lift.episodes)], check=True, timeout=EVALUATE_S, cwd=ROOT, stdout=subprocess.PIPE)
    return float(json.loads(done.stdout)["success"])


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1][-120:] if lines else "(no output yet)"


class Strip:
    """Rows of pictures of one camera: at the beginning, in the middle and at the end of the training."""

    def __init__(self, path: Path, url: str, camera: str = "wrist_1") -> None:
        self._path, self._camera = path, camera
        self._pictures = PushedPictures(url)
        self._rows: list[list[np.ndarray]] = []
        self._at = (0.1, 0.5, 0.85)

    def look(self, minutes: float, of: float) -> None:
        """Called about every second: a row takes a picture of each call until it is full."""
        share = minutes / max(of, 1e-9)
        due = sum(share >= moment for moment in self._at)
        filling = bool(self._rows) and len(self._rows[-1]) < COLUMNS
        if due > len(self._rows) and not filling:
            self._rows.append([])
        frame = self._pictures.shelf.newest(self._camera)
        if self._rows and len(self._rows[-1]) < COLUMNS and frame is not None:
            self._rows[-1].append(pixels(self._camera, frame))

    def close(self) -> None:
        self._pictures.close()
        full = [np.concatenate([*row, *[np.zeros_like(row[0])] * (COLUMNS - len(row))], axis=1) for row in self._rows if row]
        if full:
            Image.fromarray(np.concatenate(full)).save(self._path)
