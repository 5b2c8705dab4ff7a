"""`tandem robot check ADDRESS`: look at a robot's server, move each axis a little, and say what is wrong; `limits` finds its box."""

from __future__ import annotations

import contextlib
import io
import time
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro
from PIL import Image

from tandem.envs.http_robot.findings import Language, in_words, report_text
from tandem.envs.http_robot.names import WITH_ADDRESS
from tandem.envs.http_robot.pose_arm import Arm
from tandem.envs.http_robot.preflight import MOVE_M, TURN_RAD, Report
from tandem.envs.http_robot.profile import Profile
from tandem.envs.robot_checks import open_preflight
from tandem.errors import ConfigError
from tandem.files import write_atomically
from tandem.programs.terminal import say

QUESTIONS = {
    "en": "A simulated scene is reset. Then the arm goes to {start} and moves up to {move:.0f} mm and {turn:.0f} degrees about it along "
    "each "
    "axis; the gripper closes and opens. Is the way free? Type yes: ",
    "zh": "仿真场景会先复位。然后机械臂移动到 {start}，并沿每个轴最多运动 {move:.0f} 毫米、旋转 {turn:.0f} 度；"
    "夹爪合上再张开。周围是否安全？输入 yes 继续：",
}


def robot(
    action: Annotated[Literal["check", "limits"], tyro.conf.Positional],
    address: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ADDRESS")],
    yes: bool = False,
    look_only: bool = False,
    language: Language = "en",
    out: Path = Path("robot_check"),
    seconds: float = 60.0,
    margin_mm: float = 10.0,
) -> int:
    """Check a robot's server before anything is learned: what it reports, what its cameras show, and how it moves.

    `check` ends with code 1 if something has to be repaired. The report is written in English (report.md) and Chinese (report.zh.md).

    Args:
        action: `check`: the pre-flight. `limits`: watch where the arm is steered, and write the box around it to box.toml.
        address: isaac+http://HOST:5001/ or franka+http://HOST:5000/, with ?profile=NAME where the profile is not the default one.
        yes: Move without asking. Otherwise the arm moves after a typed yes.
        look_only: Move nothing.
        language: Language of what is printed: en or zh.
        out: Folder for the report and the pictures of the cameras, or for the box; written over.
        seconds: How long `limits` watches; Ctrl-C ends it earlier.
        margin_mm: Added to the box of `limits` on each side.
    """
    if not address.startswith(WITH_ADDRESS):
        raise ConfigError(f"`tandem robot {action}` takes {' or '.join(f'{start}HOST:PORT/' for start in WITH_ADDRESS)}, got '{address}'")
    profile, driver, preflight = open_preflight(address, lambda what: say(f"  {what}"))
    try:
        if action == "limits":
            return _watch_box(driver.arm, seconds, margin_mm / 1e3, out / "box.toml")
        preflight.look()
        if not look_only and (yes or _allowed(profile, language)):
            preflight.move()
    finally:
        preflight.close()
    _show(preflight.report, language, out)
    return int(any(finding.fault for finding in preflight.report.findings))


def _watch_box(arm: Arm, seconds: float, margin: float, file: Path) -> int:
    """The box around all positions of the tool that were measured; nothing is commanded."""
    say(f"steer the arm to the corners of what it needs; watching for {seconds:g} s, Ctrl-C ends it")
    low, high, until = np.full(3, np.inf), np.full(3, -np.inf), time.monotonic() + seconds
    with contextlib.suppress(KeyboardInterrupt):
        while time.monotonic() < until:
            position = arm.ask(within=2.0).position
            low, high = np.minimum(low, position), np.maximum(high, position)
            time.sleep(0.05)
    wide = 1e3 * (high - low)
    say(f"the tool moved by {wide[0]:.0f}, {wide[1]:.0f} and {wide[2]:.0f} mm along x, y and z; with {1e3 * margin:g} mm on each side:")
    corners = (("low_m", low - margin), ("high_m", high + margin))
    box = "\n".join(["[box]", *(f"{name} = [{', '.join(f'{number:.3f}' for number in corner)}]" for name, corner in corners)])
    say(box)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, f"{box}\n".encode())
    say(f"{file}: put it into the profile")
    return 0


def _allowed(profile: Profile, language: Language) -> bool:
    start = "(" + ", ".join(f"{1e3 * number:.0f}" for number in profile.reset.pose[:3]) + ") mm"
    try:
        return input(QUESTIONS[language].format(start=start, move=1e3 * MOVE_M, turn=TURN_RAD * 57.3)).strip().lower() == "yes"
    except EOFError:
        return False


def _show(report: Report, language: Language, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, picture in report.pictures.items():
        data = io.BytesIO()
        Image.fromarray(picture).save(data, "PNG")
        write_atomically(out / f"{name}.png", data.getvalue())
    for file, spoken in (("report.md", "en"), ("report.zh.md", "zh")):
        write_atomically(out / file, report_text(report, "zh" if spoken == "zh" else "en").encode())
    for name, value in report.figures.items():
        say(f"  {name}: {value}")
    for finding in report.findings:
        word, _, text = in_words(finding, language).partition(":")
        say(f":{text}", word, "bold red" if finding.fault else "bold yellow")
    if not report.findings:
        say("", "没有发现问题" if language == "zh" else "nothing is wrong", "bold green")
    say(f"{out / 'report.md'}, {out / 'report.zh.md'}")
