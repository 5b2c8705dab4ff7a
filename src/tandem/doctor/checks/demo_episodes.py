"""The episodes of a file of demonstrations: do they end as they should, is each there once, do they show what is to be learned?"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable

import numpy as np

from tandem.data.figures import EpisodeFigures, Figures
from tandem.doctor import limits
from tandem.doctor.checks.demo_numbers import measured, named
from tandem.doctor.findings import NOTE, PROBLEM, WARNING, Finding, Severity, Share
from tandem.doctor.records import DemoFile, Records
from tandem.rewards.named import KINDS

NAMED_PLACES = 5


def places(numbers: list[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:NAMED_PLACES])
    return shown if len(numbers) <= NAMED_PLACES else f"{shown}, ..."


def _where(figures: Figures, applies: Callable[[EpisodeFigures], bool]) -> list[int]:
    return [number for number, episode in enumerate(figures.episodes) if applies(episode)]


def _found(name: str, severity: Severity, file: DemoFile, figures: Figures, numbers: list[int], **facts: object) -> Finding:
    common = {"count": len(numbers), "episodes": len(figures.episodes), "places": places(numbers)}
    return Finding(name, severity, {**named(file), **common, **facts})


# ---- ends


def demos_end_inside(records: Records) -> Finding | None:
    for file, figures in measured(records):
        numbers = _where(figures, lambda episode: bool((episode.terminated | episode.truncated)[:-1].any()))
        if numbers:
            return _found("demos_end_inside", PROBLEM, file, figures, numbers)
    return None


def demos_end_missing(records: Records) -> Finding | None:
    for file, figures in measured(records):
        numbers = _where(figures, lambda episode: not (episode.terminated | episode.truncated).any())
        if numbers:
            return _found("demos_end_missing", WARNING, file, figures, numbers)
    return None


def demos_steps_missing(records: Records) -> Finding | None:
    """A step does not lead to where the next one begins, or the numbers of the steps have gaps."""
    return _gaps(records, "demos_steps_missing", stood=False)


def demos_pauses_cut(records: Records) -> Finding | None:
    """The same, and the robot stood still meanwhile: a filter left out pauses."""
    return _gaps(records, "demos_pauses_cut", stood=True)


def _gaps(records: Records, name: str, *, stood: bool) -> Finding | None:
    for file, figures in measured(records):
        numbers = _where(figures, lambda episode: bool(_torn(episode).any()))
        if numbers and _stood_still(figures) == stood:
            episode = figures.episodes[numbers[0]]
            gaps = sum(int(_torn(each).sum()) for each in figures.episodes)
            first = int(episode.steps[np.flatnonzero(_torn(episode))[0]])
            return _found(name, WARNING, file, figures, numbers, episode=numbers[0], step=first, gaps=gaps)
    return None


def _torn(episode: EpisodeFigures) -> np.ndarray:
    """(T - 1,): after which steps others are missing."""
    return ~episode.joined[:-1] | (np.diff(episode.steps) != 1)


def _stood_still(figures: Figures) -> bool:
    """No number changes more over the gaps than over other steps."""
    torn = np.concatenate([_torn(episode) for episode in figures.episodes])
    changes = np.concatenate([np.abs(episode.changes[:-1]) for episode in figures.episodes])
    usual, over = (changes[chosen].mean(axis=0) if chosen.any() else np.zeros(changes.shape[1]) for chosen in (~torn, torn))
    return bool((over <= limits.GAP_STANDS * usual).all())


def demos_timeouts_terminal(records: Records) -> Finding | None:
    """Terminated without success where the time was over."""
    for file, figures in measured(records):
        limit = records.spec.max_episode_steps
        failed = _where(figures, lambda episode: bool(episode.terminated[-1]) and not episode.succeeded)
        lengths = [len(figures.episodes[number]) for number in failed]
        # a file without a spec of its own does not say the limit; two that end after the same number of steps, the longest, do
        longest = int(figures.lengths.max())
        numbers = [
            n for n, length in zip(failed, lengths, strict=True) if length >= limit or (length == longest and lengths.count(length) > 1)
        ]
        if numbers:
            return _found("demos_timeouts_terminal", WARNING, file, figures, numbers, length=len(figures.episodes[numbers[0]]))
    return None


# ---- steps that nobody made


def demos_copies(records: Records) -> Finding | None:
    """Steps after which everything is exactly as before, after a reward: written by a program, not made by a robot."""
    for file, figures in measured(records):
        counts = [int(_copies(episode).sum()) for episode in figures.episodes]
        numbers = [number for number, count in enumerate(counts) if count]
        if numbers:
            return _found("demos_copies", WARNING, file, figures, numbers, steps=sum(counts))
    return None


def _copies(episode: EpisodeFigures) -> np.ndarray:
    """After a reward; a step alone in its episode has no other before it."""
    before = np.concatenate([[len(episode) == 1 and episode.rewards[0] > 0], np.cumsum(episode.rewards)[:-1] > 0])
    return episode.copied & before


def demos_doubled(records: Records) -> Finding | None:
    """The same episode twice: a file that was merged with itself."""
    for file, figures in measured(records):
        seen: dict[bytes, int] = {}
        twice = []
        for number, episode in enumerate(figures.episodes):
            content = hashlib.sha256(episode.numbers.tobytes() + episode.actions.tobytes()).digest()
            if len(episode) > 1 and content in seen:
                twice.append(number)
            seen.setdefault(content, number)
        if twice:
            return _found("demos_doubled", WARNING, file, figures, twice)
    return None


def demos_one_step(records: Records) -> Finding | None:
    for file, figures in measured(records):
        numbers = _where(figures, lambda episode: len(episode) == 1)
        longer = figures.lengths[figures.lengths > 1]
        if numbers and len(longer) and np.median(longer) >= limits.FEW_DEMOS:
            return _found("demos_one_step", WARNING, file, figures, numbers)
    return None


# ---- what they show


def demos_success_unpaid(records: Records) -> Finding | None:
    for file, figures in measured(records):
        numbers = _where(figures, lambda episode: episode.succeeded and not episode.rewards.any())
        if numbers and figures.rewards.any():  # where there is no reward at all, another finding says so
            return _found("demos_success_unpaid", PROBLEM, file, figures, numbers, these=",".join(str(number) for number in numbers))
    return None


def demos_reward_always(records: Records) -> Finding | None:
    """A reward of one size in most steps: it tells nothing."""
    for file, figures in measured(records):
        paid = figures.rewards[figures.rewards != 0]
        share = len(paid) / figures.steps
        if figures.steps >= limits.DEMO_STEPS and share > limits.REWARD_ALWAYS and len(np.unique(paid)) == 1:
            return Finding("demos_reward_always", WARNING, {**named(file), "share": Share(share), "reward": float(paid[0])})
    return None


def demos_too_long(records: Records) -> Finding | None:
    """The discount makes the reward worth nothing where a demonstration begins."""
    given = records.setting("discount")
    known = isinstance(given, float)
    discount = given if isinstance(given, float) else limits.USUAL_DISCOUNT
    for file in records.demos or ():
        length = mean_length(file)
        value = discount**length
        if value < limits.VALUE_AT_START and discount < 1 and records.sparse and records.kind in (None, "rlpd"):
            fitting = round(0.2 ** (1 / length), 4)
            facts = {"length": round(length), "value": f"{value:.0e}".replace("e-0", "e-"), "discount": f"{discount:g}"}
            facts |= {"fitting": f"{fitting:g}", "reach": round(1 / (1 - discount)), **({"given": True} if known else {"usual": True})}
            severity = NOTE if not known else PROBLEM if value < limits.VALUE_NOTHING else WARNING
            return Finding("demos_too_long", severity, {**named(file), **facts})
    return None


def mean_length(file: DemoFile) -> float:
    """Steps of its episodes in the mean; 1 where nobody knows. Frames that a program appended are no episodes."""
    if file.figures is not None:
        longer = file.figures.lengths[file.figures.lengths > 1]
        return float(longer.mean()) if len(longer) else 1.0
    return file.report.transitions / max(1, file.report.episodes) if file.report is not None else 1.0


def demos_starts_alike(records: Records) -> Finding | None:
    for file, figures in measured(records):
        reach = np.ptp(figures.numbers, axis=0)
        moving = reach > 0
        if len(figures.episodes) < limits.GROUP_EPISODES or not moving.any():
            continue
        spread = float((np.ptp(figures.starts[:, moving], axis=0) / reach[moving]).max())
        if spread <= limits.STARTS_ALIKE:
            severity = WARNING if spread <= limits.STARTS_SAME else NOTE
            facts = {"spread": f"{100 * spread:.2g} %", "episodes": len(figures.episodes)}
            return Finding("demos_starts_alike", severity, {**named(file), **facts})
    return None


def demos_few(records: Records) -> Finding | None:
    for file, figures in measured(records):
        if len(figures.episodes) < limits.FEW_DEMOS:
            return Finding("demos_few", NOTE, {**named(file), "episodes": len(figures.episodes), "steps": figures.steps})
    return None


def demos_mixed_specs(records: Records) -> Finding | None:
    """Two files that do not describe the same robot."""
    files = [file for file in records.demos or () if file.spec is not None]
    for file in files[1:]:
        first = files[0]
        assert first.spec is not None and file.spec is not None
        theirs = file.spec
        if any(each.report is not None and each.report.kind != "journal" for each in (first, file)):
            # the spec is a guess: the task is the name of the file, and the time limit its longest episode
            theirs = dataclasses.replace(theirs, task=first.spec.task, max_episode_steps=first.spec.max_episode_steps)
        differences = first.spec.data_difference(theirs)
        if differences:
            facts = {
                "first": first.path.name,
                "other": file.path.name,
                "detail": "; ".join(differences[:3]),
                "differences": len(differences),
            }
            return Finding("demos_mixed_specs", PROBLEM, {**named(file), **facts})
    return None


def demos_mixed_rewards(records: Records) -> Finding | None:
    """Files whose rewards were given by different sources, or by another one than the rule of the run: a success means something else."""
    files = [file for file in records.demos or () if file.spec is not None]
    rule = records.spec.reward if records.kind == "rlpd" and records.spec.reward.partition(":")[0] in KINDS else ""
    first = files[0] if files and not rule else None
    for file in files[1:] if first is not None else files:
        one, another = (each.spec.reward or "simulation" if each is not None and each.spec else rule for each in (first, file))
        if one != another:
            name = first.path.name if first is not None else records.path.name if records.path is not None else "run"
            facts = {"first": name, "one": one, "other": file.path.name, "another": another}
            return Finding("demos_mixed_rewards", WARNING, {**named(file), **facts})
    return None
