"""`tandem demos check`: files of demonstrations looked at step by step, before anything is learned from them.

The checks are the doctor's (`checks/demo_*.py`); here files become the records that they look at, and their findings lines.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tandem.data.demos import OpenDemos
from tandem.data.figures import Figures, measure
from tandem.data.formats.kinds import open_any
from tandem.data.report import report_of
from tandem.data.validation import Validator
from tandem.doctor import limits
from tandem.doctor.checks import run_checks
from tandem.doctor.checks.demo_episodes import demos_mixed_rewards, mean_length
from tandem.doctor.checks.learning import actions_look_alike
from tandem.doctor.diagnosis import Diagnosis, descriptions
from tandem.doctor.findings import NOTE, Finding, worst
from tandem.doctor.records import DemoFile, Records
from tandem.doctor.show import brief_line, finding_lines
from tandem.doctor.texts import LANGUAGES, Language
from tandem.errors import FileMissing, InvalidTransition, SpecMismatch, TandemError
from tandem.rewards.named import open_rule
from tandem.types import Spec, Transition

TOGETHER = ("demos_mixed_specs", "demos_mixed_rewards", "demos_doubled", "demos_response_mixed", "demos_scales_mixed")
"""Findings that several files can have together, though each alone has none."""
AT_START = 20_000
AT_START_WITH_PICTURES = 2_000
"""Steps that are looked at when a run begins, which should not take long; `tandem demos check` looks at all."""


def look_at(path: Path, spec: Spec | None = None, *, at_start: bool = False) -> DemoFile:
    """All that is known of a file; with `spec`, also whether it fits that task. `at_start`: not more than some thousand steps."""
    try:
        try:
            with open_any(path, spec) as opened:
                return _looked_at(opened, at_start)
        except SpecMismatch as problem:
            with open_any(path) as opened:
                return dataclasses.replace(_looked_at(opened, at_start), foreign=str(problem))
    except FileMissing as problem:
        return DemoFile(path, str(problem), missing=True)
    except InvalidTransition as problem:
        return DemoFile(path, unusable=[str(problem)], steps=1)
    except (TandemError, OSError) as problem:
        return DemoFile(path, str(problem))


def _looked_at(opened: OpenDemos, at_start: bool) -> DemoFile:
    unusable = [f"episode {row.episode}, step {row.step}: {row.reason}" for row in opened.rejected]
    episodes = _sound(opened.episodes(), opened.spec, unusable)
    figures = measure(opened.spec, _beginning(episodes, opened.spec) if at_start else episodes)
    return DemoFile(
        opened.path,
        spec=opened.spec,
        steps=figures.steps,
        unusable=unusable,
        report=report_of(opened, figures) if figures.steps else None,
        rewarded=figures.steps > 0 and bool(figures.rewards.any()),
        figures=figures,
    )


def _sound(episodes: Iterable[Sequence[Transition]], spec: Spec, unusable: list[str]) -> Iterator[list[Transition]]:
    """The steps that can be used; the places of the others are put into the list."""
    validator = Validator(spec)
    for steps in episodes:
        reasons = [validator.reason(step) for step in steps]
        unusable += [f"episode {step.episode}, step {step.step}: {why}" for step, why in zip(steps, reasons, strict=True) if why]
        yield [step for step, why in zip(steps, reasons, strict=True) if not why]


def _beginning(episodes: Iterator[list[Transition]], spec: Spec) -> Iterator[list[Transition]]:
    seen, enough = 0, AT_START_WITH_PICTURES if any(entry.role == "image" for entry in spec.observation.values()) else AT_START
    for steps in episodes:
        yield steps
        seen += len(steps)
        if seen >= enough:
            return


def check(
    files: Sequence[DemoFile], spec: Spec | None, lang: Language, discount: float | None = None, learned: Records | None = None
) -> list[Diagnosis]:
    """A diagnosis of each file, and one of all together if they have findings that none of them has alone.

    `learned`: a run that learned from them; what its critics say along them belongs to the diagnosis.
    """
    said = None if learned is None else actions_look_alike(learned)
    found = [[*run_checks(_records([file], spec, discount)), *([] if said is None else [said])] for file in files]
    diagnoses = [_diagnosis(each, [file], spec, discount, lang) for file, each in zip(files, found, strict=True)]
    if len(files) > 1:
        known = {finding["name"] for diagnosis in diagnoses for finding in diagnosis["findings"]}
        together = _together(files)
        new = [
            finding for finding in run_checks(_records(together, spec, discount)) if finding.name in TOGETHER and finding.name not in known
        ]
        if new:
            diagnoses.append(_diagnosis(new, together, spec, discount, lang) | {"file": "together", "summary": []})
    return diagnoses


def _records(files: Sequence[DemoFile], spec: Spec | None, discount: float | None) -> Records:
    known = spec or next((file.spec for file in files if file.spec is not None), Spec("", {}, (), 1.0, 1))
    config: dict[str, Any] = {} if discount is None else {"agent": {"discount": discount}}
    return Records(time.time(), known.task if spec is not None else "", _sparse(known, files), config, demos=tuple(files))


def _sparse(spec: Spec, files: Sequence[DemoFile]) -> Spec:
    """Where a file does not say it: a reward of 0 or 1 and nothing else is one for success."""
    values = [np.unique(file.figures.rewards) for file in files if file.figures is not None and file.figures.steps]
    sparse = spec.return_range is None and values and set(np.concatenate(values)) <= {0.0, 1.0}
    return dataclasses.replace(spec, return_range=(0.0, 1.0)) if sparse else spec


def _together(files: Sequence[DemoFile]) -> list[DemoFile]:
    """The files, and before them all as one, if they are of one kind."""
    measured = [file.figures for file in files if file.figures is not None and file.figures.steps]
    alike = {(figures.channels, figures.spec.action_dim) for figures in measured}
    if len(alike) != 1 or len(measured) < 2:
        return list(files)
    one = Figures(measured[0].spec, measured[0].channels, [episode for figures in measured for episode in figures.episodes])
    return [DemoFile(Path(" ".join(str(file.path) for file in files)), figures=one, steps=one.steps), *files]


def _diagnosis(findings: list[Finding], files: Sequence[DemoFile], spec: Spec | None, discount: float | None, lang: Language) -> Diagnosis:
    file, records = files[0], _records(files, spec, discount)
    described = descriptions(findings, records, lang)
    return {
        "file": str(file.path),
        "severity": worst(findings),
        "findings": described,
        "repair": _repair(described, file),
        "summary": [] if file.report is None else [*_summary(file, lang), _horizon(file, discount, lang)],
    }


def _repair(described: Sequence[Mapping[str, Any]], file: DemoFile) -> str:
    """One command for all that `tandem demos edit` can repair; empty if that is less than two findings."""
    start = f"tandem demos edit {file.path} "
    options = dict.fromkeys(finding["next"].removeprefix(start) for finding in described if finding["next"].startswith(f"{start}--"))
    return start + " ".join(options) if len(options) > 1 else ""


def _summary(file: DemoFile, lang: Language) -> list[str]:
    """What the file holds, in a few lines."""
    report, figures = file.report, file.figures
    assert report is not None and figures is not None
    largest = np.abs(figures.actions[:, figures.moving]).max(initial=0.0)
    cameras = [name for name, entry in figures.spec.observation.items() if entry.role == "image"]
    shown = f"{len(cameras)} ({', '.join(cameras)})" if cameras else "0"
    low, middle, high = report.lengths
    english = [
        f"{report.episodes} episodes, {report.transitions:,} steps, {report.success_share:.0%} successful; "
        f"{low:.0f} to {high:.0f} steps each, median {middle:g}",
        f"{len(figures.channels)} numbers, cameras: {shown}, {figures.spec.action_dim} action columns; "
        f"actions up to {largest:.2f}, {report.idle_share:.0%} of the steps stand still",
    ]
    chinese = [
        f"{report.episodes} 个回合，{report.transitions:,} 步，{report.success_share:.0%} 成功；"
        f"每个 {low:.0f} 到 {high:.0f} 步，中位数 {middle:g}",
        f"{len(figures.channels)} 个数，相机：{shown}，{figures.spec.action_dim} 列动作；"
        f"动作最大 {largest:.2f}，{report.idle_share:.0%} 的步静止",
    ]
    return (english, chinese)[LANGUAGES.index(lang)]


def _horizon(file: DemoFile, discount: float | None, lang: Language) -> str:
    """What the reward at the end is worth at the start."""
    length, given = mean_length(file), limits.USUAL_DISCOUNT if discount is None else discount
    whose = ("hil-serl's discount", "hil-serl 的折扣") if discount is None else ("the discount", "折扣")
    fitting = round(0.2 ** (1 / length), 4)
    english = f"{length:.0f} steps in the mean; {whose[0]} {given:g}^{length:.0f} = {given**length:.1g}, {fitting:g}^{length:.0f} = 0.2"
    chinese = f"平均 {length:.0f} 步；{whose[1]} {given:g}^{length:.0f} = {given**length:.1g}，{fitting:g}^{length:.0f} = 0.2"
    return (english, chinese)[LANGUAGES.index(lang)]


def lines(diagnosis: Diagnosis, lang: Language) -> Iterator[str]:
    """A diagnosis for the terminal."""
    together = ("The files together:", "这些文件放在一起：")[LANGUAGES.index(lang)]
    yield together if diagnosis["file"] == "together" else diagnosis["file"]
    yield from (f"  {line}" for line in diagnosis["summary"])
    yield ""
    yield from finding_lines(diagnosis, lang)
    if diagnosis["repair"]:
        yield f"{('all repairs at once', '一次全部修复')[LANGUAGES.index(lang)]}: {diagnosis['repair']}"
        yield ""


def start_lines(paths: Sequence[Path], discount: float | None, reward_source: str = "simulation") -> list[str]:
    """For a run that begins: one line for each problem or warning of its demonstrations. `reward_source` is what gives its rewards.

    Nothing here ends the run, also not a bug of ours. Whether they fit the task is asked elsewhere: here no environment is opened.
    """
    try:
        files = [look_at(path, at_start=True) for path in paths]
        found = [finding for diagnosis in check(files, None, "en", discount) for finding in diagnosis["findings"]]
        found += _judged_otherwise(files, reward_source)
    except Exception as problem:
        return [f"the demonstrations could not be looked at ({type(problem).__name__}: {problem}); `tandem demos check` says more"]
    return [brief_line(finding) for finding in found if finding["severity"] != NOTE]


def _judged_otherwise(files: Sequence[DemoFile], reward_source: str) -> list[dict[str, Any]]:
    rule = open_rule(reward_source)
    if rule is None:
        return []
    records = _records(files, None, None)
    records = dataclasses.replace(records, kind="rlpd", spec=dataclasses.replace(records.spec, reward=rule.name))
    found = demos_mixed_rewards(records)
    return [] if found is None else descriptions([found], records, "en")
