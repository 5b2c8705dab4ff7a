"""The command `tandem doctor`: its arguments, its output and its exit status."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from tandem.doctor.checks import run_checks
from tandem.doctor.diagnosis import Diagnosis, descriptions, diagnose_run
from tandem.doctor.findings import EXIT_STATUS, SEVERITIES
from tandem.doctor.probe import Probe, parse_address, probe
from tandem.doctor.records import Records
from tandem.doctor.show import clock_lines, lines
from tandem.errors import ConfigError, FileMissing
from tandem.runs.folder import RunFolder
from tandem.runs.printable import printable
from tandem.types import Spec

Say = Callable[[str], None]
WATCH_S = 5.0
TOKEN_VARIABLE = "TANDEM_TOKEN"
DEFAULT_PORT = 5588


@dataclass(frozen=True)
class DoctorArgs:
    """Find out what is wrong with a run: the evidence, the likely cause, and what to type next.

    Also: `tandem doctor explain NAME` explains one finding; `tandem doctor replay FILE` opens the file that a run saved when it
    met a NaN.
    Exit status: 0 no problem, 1 a warning, 2 a problem, or no run found.
    """

    what: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="RUN|HOST:PORT")] = None
    """A run folder, or the address of a running hub. Default: the newest folder in runs/."""
    clocks: bool = False
    """Print the three clocks instead: counts, rates, how long 100 learner steps take, the phase of training and what to do now."""
    json: bool = False
    """Print one JSON object instead of text."""
    watch: bool = False
    """Repeat every few seconds until Ctrl-C or the end of the run."""
    lang: Literal["en", "zh"] = "en"
    """Language of the output: English or Chinese."""
    token_file: Path | None = None
    """File with the token of the run (RUN/token), for an address. Default: the environment variable TANDEM_TOKEN."""
    ca: Path | None = None
    """Certificate file to trust, for a hub with a self-signed certificate (TLS)."""


def doctor(args: list[str], say: Say) -> int:
    """Run `tandem doctor` with these arguments; returns the exit status."""
    if args[:1] == ["explain"]:
        say(tyro.cli(_explain, args=args[1:], prog="tandem doctor explain"))
        return 0
    if args[:1] == ["replay"]:
        from tandem.doctor.replay import replay

        for line in replay(tyro.cli(_replay_file, args=args[1:], prog="tandem doctor replay")):
            say(line)
        return 0
    asked = tyro.cli(DoctorArgs, args=args, prog="tandem doctor")
    look = _diagnosis_source(asked)
    shown: Any = None
    while True:
        diagnosis = look()
        state = [finding["name"] for finding in diagnosis["findings"]]
        if not asked.watch or state != shown or asked.clocks:
            _show(diagnosis, asked, say)
        shown = state
        if not asked.watch or diagnosis["state"] in ("finished", "dead"):
            return EXIT_STATUS.get(diagnosis["severity"] or "note", 0)
        time.sleep(WATCH_S)


def _explain(name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")], lang: Literal["en", "zh"] = "en") -> str:
    """Explain one finding: what it means, how it is detected, the likely cause and what to type.

    Args:
        name: Name of the finding, as the doctor printed it.
        lang: Language of the output: English or Chinese.
    """
    from tandem.doctor.pages import explain

    return explain(name, lang)


def _replay_file(file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]) -> Path:
    """Open the file that a run saved when it met a NaN or infinite value.

    Args:
        file: A file in RUN/broken: the last states of a simulation, or a batch.
    """
    return file


def _show(diagnosis: Diagnosis, asked: DoctorArgs, say: Say) -> None:
    if asked.json:
        print(json.dumps(diagnosis, ensure_ascii=False), flush=True)
        return
    for line in clock_lines(diagnosis, asked.lang) if asked.clocks else lines(diagnosis, asked.lang):
        say(printable(line))  # names of actors and errors of environments are other people's text
    sys.stdout.flush()


def _diagnosis_source(asked: DoctorArgs) -> Callable[[], Diagnosis]:
    """The function that makes a diagnosis: of a folder, or over the network."""
    what = asked.what or _newest_run()
    path = Path(what)
    if path.exists() or "/" in what.partition("://")[2] or ("://" not in what and "/" in what):
        RunFolder.open(path)
        return lambda: diagnose_run(path, asked.lang)
    host, port, tls = parse_address(what, DEFAULT_PORT)
    token = _token(asked.token_file)
    return lambda: remote_diagnosis(probe(host, port, token=token, tls=tls, ca=asked.ca, lang=asked.lang), asked.lang)


def remote_diagnosis(found: Probe, lang: Literal["en", "zh"]) -> Diagnosis:
    """What the probe found from this machine, merged with the diagnosis that the hub made of its own run."""
    unknown = Spec("", {}, (), 1.0, 1)
    records = Records(time.time(), "", unknown, probe=found)
    findings = run_checks(records)
    own = descriptions(findings, records, lang)
    if found.outcome != "ok" or "findings" not in found.diagnosis:
        severity = next((name for name in SEVERITIES if any(finding["severity"] == name for finding in own)), None)
        state = "unreachable" if found.outcome != "ok" else "running"
        return {
            "run": found.address,
            "task": "",
            "kind": "",
            "state": state,
            "severity": severity,
            "findings": own,
            "checklist": [],
            "clocks": {},
            "probe": _plain(found),
        }
    theirs = found.diagnosis["findings"]
    merged = [*theirs, *(finding for finding in own if finding["name"] not in {other["name"] for other in theirs})]
    merged.sort(key=lambda finding: SEVERITIES.index(finding["severity"]))
    severity = next((name for name in SEVERITIES if any(finding["severity"] == name for finding in merged)), None)
    return {**found.diagnosis, "run": found.address, "findings": merged, "severity": severity, "probe": _plain(found)}


def _plain(found: Probe) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(found).items() if name != "diagnosis"}


def _newest_run() -> str:
    runs = [path.parent for path in Path("runs").glob("*/config.json")]
    if not runs:
        raise ConfigError("which run? There is no run in runs/. Give a run folder, or HOST:PORT of a hub")
    return str(max(runs, key=lambda run: run.stat().st_mtime))


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        return file.read_text().strip()
    except OSError as problem:
        raise FileMissing(f"cannot read the token file {file}: {problem.strerror}") from None
