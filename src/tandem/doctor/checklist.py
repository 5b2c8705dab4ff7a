"""The checklist: nine questions in a fixed order, each answered with a mark and the measured value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tandem.doctor.findings import NOTE, Finding
from tandem.doctor.records import Records
from tandem.doctor.texts import LANGUAGES, Language, Words

Mark = Literal["ok", "look", "bad", "unknown"]
DEFAULTS = {"random_steps": 0, "training_starts": 100, "steps_per_update": 50}

QUESTIONS: tuple[Words, ...] = (
    ("was the initial network sent to the actor?", "初始网络是否已发给 Actor（sent initial network to actor）"),
    ("does the actor use new policies?", "Actor 是否在使用新策略"),
    ("how large is the demo buffer?", "demo buffer 有多大（demo buffer size）"),
    ("is the replay buffer filled?", "replay buffer 是否已填充（Filling up replay buffer）"),
    ("are the demonstration files right?", "演示文件是否正确（demo_path）"),
    ("is the address right?", "地址是否正确（ip）"),
    ("random_steps", "random_steps（应该是 0）"),
    ("training_starts", "training_starts（应该是 100）"),
    ("steps_per_update", "steps_per_update（应该是 50）"),
)

_DEMO_FINDINGS = ("demos_missing", "demos_foreign", "demos_broken", "demos_empty", "demos_without_reward")
_LINK_FINDINGS = ("no_actor", "actor_gone", "actor_silent", "other_task", "other_spec", "other_version", "actor_refused", "hub_silent")


@dataclass(frozen=True)
class Line:
    mark: Mark
    question: str
    value: str


def checklist(records: Records, findings: list[Finding], lang: Language) -> list[Line]:
    """The nine lines; empty for a run without actor and learner (PPO, cloning)."""
    if records.kind != "rlpd":
        return []
    which = LANGUAGES.index(lang)
    wrong = {finding.name for finding in findings if finding.severity != NOTE}
    answers = (
        _initial_network(records),
        _updates(records, wrong),
        _demo_buffer(records),
        _filled(records, wrong),
        _demo_files(records, wrong),
        _address(records, wrong),
        _random_steps(records, wrong),
        _setting(records, "training_starts", "still_filling" in wrong),
        _setting(records, "steps_per_update", "policies_not_published" in wrong),
    )
    return [Line(mark, question[which], words[which]) for question, (mark, words) in zip(QUESTIONS, answers, strict=True)]


def _initial_network(records: Records) -> tuple[Mark, Words]:
    version = records.clocks.policy_version
    if version >= 1:
        return "ok", (f"yes; {version:,} versions were published", f"是；共发布 {version:,} 个版本")
    return "bad", ("no: no version was published yet", "否：还没有发布任何版本")


def _updates(records: Records, wrong: set[str]) -> tuple[Mark, Words]:
    acting, newest = acting_version(records), records.clocks.policy_version
    if acting is None:
        return "unknown", ("no step has arrived yet", "还没有数据")
    if acting < 0:
        return "look", (
            "uses its own policy (`--policy`), not the learner's",
            "使用自己的策略（`--policy`），不使用 Learner 的策略",
        )
    mark: Mark = "bad" if "policies_not_applied" in wrong else "look" if "policy_lag" in wrong else "ok"
    return mark, (f"it uses version {acting:,}; the newest is {newest:,}", f"正在使用版本 {acting:,}；最新版本 {newest:,}")


def acting_version(records: Records) -> int | None:
    """The policy version in use, as the actor reports it, or from the newest steps."""
    if records.live is not None and records.hub_fresh and records.live.connected:
        return min(actor.version for actor in records.live.connected)
    if records.journal is not None and records.journal.tail:
        return max(step.policy_version for step in records.journal.tail[-100:])
    return None


def _demo_buffer(records: Records) -> tuple[Mark, Words]:
    count = records.demo_transitions
    if count is None:
        count = sum(file.steps for file in records.demos or ())
    if not records.setting("demos"):
        return "look", (f"{count:,}: no demonstrations were given", f"{count:,}：没有给演示数据")
    return ("ok" if count else "bad"), (f"{count:,} transitions", f"{count:,} 个 transition")


def _filled(records: Records, wrong: set[str]) -> tuple[Mark, Words]:
    wanted, have = int(records.setting("training_starts", 0) or 0), records.clocks.actor_step
    if records.clocks.learner_step > 0 or have >= wanted:
        return "ok", (f"yes; learner step {records.clocks.learner_step:,}", f"是；Learner 步数 {records.clocks.learner_step:,}")
    mark: Mark = "bad" if "still_filling" in wrong else "look"
    return mark, (f"no: {have:,} of {wanted:,}", f"否：{have:,} / {wanted:,}")


def _demo_files(records: Records, wrong: set[str]) -> tuple[Mark, Words]:
    files = records.demos or ()
    if not files:
        return "look", ("none", "没有")
    names = ", ".join(str(file.path) for file in files)
    return ("bad" if wrong & set(_DEMO_FINDINGS) else "ok"), (names, names)


def _address(records: Records, wrong: set[str]) -> tuple[Mark, Words]:
    if records.live is None:
        return "ok", ("one process, no network", "单进程，没有网络")
    connected = len(records.live.connected) if records.hub_fresh else 0
    where = records.address or "-"
    if not records.running:
        return "unknown", ("the hub has ended", "hub 已结束")
    mark: Mark = "bad" if wrong & set(_LINK_FINDINGS) else "ok" if connected else "look"
    return mark, (f"{where}, {connected} actor{'' if connected == 1 else 's'} connected", f"{where}，已连接 {connected} 个 actor")


def _random_steps(records: Records, wrong: set[str]) -> tuple[Mark, Words]:
    value, steps = int(records.setting("random_steps", 0) or 0), records.clocks.actor_step
    if not value:
        return "ok", ("0", "0")
    mark: Mark = "bad" if "still_random" in wrong else "ok" if steps >= value else "look"
    return mark, (f"{value:,} (default 0); actor step {steps:,}", f"{value:,}（默认 0）；Actor 步数 {steps:,}")


def _setting(records: Records, name: str, bad: bool) -> tuple[Mark, Words]:
    value = records.setting(name)
    default = DEFAULTS[name]
    if value == default:
        return ("bad" if bad else "ok"), (f"{value:,}", f"{value:,}")
    return ("bad" if bad else "ok"), (f"{value:,} (default {default})", f"{value:,}（默认 {default}）")
