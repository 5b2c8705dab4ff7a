"""`tandem doctor`: what is looked at, how it is shown, and with which exit status it ends."""

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
from tandem.doctor.diagnosis import Diagnosis, diagnose_run, told
from tandem.doctor.findings import EXIT_STATUS, SEVERITIES
from tandem.doctor.probe import Probe, parse_address, probe
from tandem.doctor.records import Records
from tandem.doctor.show import clock_lines, lines
from tandem.errors import ConfigError, FileMissing
from tandem.types import Spec

Say = Callable[[str], None]
WATCH_S = 5.0
TOKEN_VARIABLE = "TANDEM_TOKEN"
DEFAULT_PORT = 5588


@dataclass(frozen=True)
class DoctorArgs:
    """Say what is wrong with a run, how that is known, why, and what to type next.

    Also: `tandem doctor explain NAME` (all about one finding), `tandem doctor replay FILE` (what a run left when it broke numerically).
    Ends with 0 if nothing is wrong, 1 if there is a warning, 2 if there is a problem or nothing to look at.
    """

    what: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="RUN|HOST:PORT")] = None
    """A run folder, or the address of a hub. Default: the newest folder in runs/."""
    clocks: bool = False
    """The three clocks instead: counts, rates, what 100 learner steps are here, the phase and what to do in it."""
    json: bool = False
    """One JSON object instead of text."""
    watch: bool = False
    """Look again every few seconds, until Ctrl-C."""
    lang: Literal["en", "zh"] = "en"
    """Language of the answer."""
    token_file: Path | None = None
    """File with the run's token, for an address. Default: the variable TANDEM_TOKEN."""
    ca: Path | None = None
    """Certificate to trust, for a hub that has its own (TLS)."""


def doctor(args: list[str], say: Say) -> int:
    """The command line of `tandem doctor`; returns the exit status."""
    if args[:1] == ["explain"]:
        asked = tyro.cli(_explain, args=args[1:], prog="tandem doctor explain")
        say(asked)
        return 0
    if args[:1] == ["replay"]:
        from tandem.doctor.replay import replay

        for line in replay(tyro.cli(_replayed, args=args[1:], prog="tandem doctor replay")):
            say(line)
        return 0
    asked = tyro.cli(DoctorArgs, args=args, prog="tandem doctor")
    look = _looker(asked)
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
    """All about one finding.

    Args:
        name: Of the finding, as the doctor printed it.
        lang: Language of the answer.
    """
    from tandem.doctor.pages import explain

    return explain(name, lang)


def _replayed(file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]) -> Path:
    """Open what a run left when it broke numerically.

    Args:
        file: In RUN/broken: the last states of a simulation, or a batch.
    """
    return file


def _show(diagnosis: Diagnosis, asked: DoctorArgs, say: Say) -> None:
    if asked.json:
        print(json.dumps(diagnosis, ensure_ascii=False), flush=True)
        return
    for line in clock_lines(diagnosis, asked.lang) if asked.clocks else lines(diagnosis, asked.lang):
        say(line)
    sys.stdout.flush()


def _looker(asked: DoctorArgs) -> Callable[[], Diagnosis]:
    what = asked.what or _newest_run()
    path = Path(what)
    if path.is_dir():
        return lambda: diagnose_run(path, asked.lang)
    if "/" in what.partition("://")[2] or ("://" not in what and "/" in what) or path.exists():
        raise FileMissing(f"{what} is not a run folder (looked in {path.absolute().parent}); give RUN, or HOST:PORT of a hub")
    host, port, tls = parse_address(what, DEFAULT_PORT)
    token = _token(asked.token_file)
    return lambda: from_afar(probe(host, port, token=token, tls=tls, ca=asked.ca, lang=asked.lang), asked.lang)


def from_afar(found: Probe, lang: Literal["en", "zh"]) -> Diagnosis:
    """What can be said from here, and what the hub says of its own run."""
    unknown = Spec("", {}, (), 1.0, 1)
    records = Records(time.time(), "", unknown, probe=found)
    findings = run_checks(records)
    own = told(findings, records, lang)
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
        raise ConfigError("which run? There is none in runs/: give a run folder, or HOST:PORT of a hub")
    return str(max(runs, key=lambda run: run.stat().st_mtime))


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        return file.read_text().strip()
    except OSError as problem:
        raise FileMissing(f"cannot read the token file {file}: {problem.strerror}") from None
