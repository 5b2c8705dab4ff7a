"""Prints a diagnosis as lines for a terminal, in English or Chinese."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from tandem.doctor.texts import LANGUAGES, Language, Words

MARKS = {"ok": "✓", "look": "!", "bad": "✗", "unknown": "?"}
WIDTH = 100

WORDS: dict[str, Words] = {
    "problem": ("problem", "问题"),
    "warning": ("warning", "警告"),
    "note": ("note", "提示"),
    "evidence": ("evidence", "依据"),
    "cause": ("likely cause", "可能原因"),
    "explains": ("also explains", "由此引起"),
    "next": ("type next", "下一步"),
    "healthy": ("No problem found.", "没有发现问题。"),
    "healthy_but": ("No problem found. Notes:", "没有发现问题。提示："),
    "checklist": ("checklist", "快速检查清单"),
    "running": ("running", "运行中"),
    "finished": ("finished", "已结束"),
    "dead": ("not running", "已停止"),
    "unreachable": ("not reachable", "无法连接"),
    "learner_step": ("learner step", "Learner 步数"),
    "actor_step": ("actor step", "Actor 步数"),
    "policy_version": ("policy version", "策略版本"),
    "iteration": ("iteration", "迭代"),
    "clocks": ("clocks", "步数关系"),
    "per_s": ("/s", "/秒"),
    "every": ("a new policy every {} s", "每 {} 秒发布一个新策略"),
    "ratio": ("learner steps per actor step: {} (asked for {})", "每个 Actor 步对应的 Learner 步：{}（要求 {}）"),
    "stage": ("phase", "阶段"),
    "now": ("what to do now", "现在该做什么"),
    "ended": ("where the newest {} episodes ended ({} succeeded)", "最近 {} 个回合在哪里结束（{} 个成功）"),
    "stage_of": ("stage", "阶段"),
    "by_task": ("lost", "丢失"),
    "by_time": ("out of time", "超时"),
}
TASK_STAGES: dict[str, str] = {"approach": "接近", "grasp": "抓取", "lift": "抬起", "carry": "搬运", "insert": "插入"}
"""Stages of tasks, in Chinese."""
TABLE_HEAD: tuple[Words, ...] = (
    ("learner steps", "Learner 步数"),
    ("policies", "策略发布次数"),
    ("seconds", "时间（秒）"),
    ("actor steps", "Actor 步数"),
    ("success here", "本次成功率"),
)
RETURN_HEAD: Words = ("return here", "本次回报")
"""Instead of the success, where the environment reports none."""
STAGES: dict[str, tuple[Words, Words]] = {
    "filling": (
        ("filling the replay buffer", "填充 replay buffer"),
        (
            "Wait. Training has not started; the policy is the initial network. A correction now counts like a demonstration.",
            "等待。还没有训练，策略是初始网络。此时的纠正等同于演示。",
        ),
    ),
    "random": (
        ("random actions", "随机探索"),
        ("Wait until `random_steps` is over; the actor does not use the policy yet.", "等待 `random_steps` 结束；actor 还没有使用策略。"),
    ),
    "critics": (
        ("critics catch up; the policy stays as it started", "critic 先学习，策略保持初始状态"),
        (
            "Watch. The policy does what the demonstrations showed and is not changed yet; corrections are stored and count from now on.",
            "观察。策略按演示行动，暂不更新；此时的纠正会被保存，之后同样有效。",
        ),
    ),
    "early": (
        ("early (0 to 200 learner steps)", "训练初期（0-200 Learner 步）"),
        (
            "Correct only clear mistakes, such as moving to the edge of the workspace. Let the policy learn from the demonstrations.",
            "只纠正明显的错误（例如移动到工作空间边缘），让策略有时间从演示数据中学习。",
        ),
    ),
    "middle": (
        ("middle (200 to 1,000 learner steps)", "训练中期（200-1000 Learner 步）"),
        (
            "Correct actively: corrections help most now. Fix repeated mistakes, and help with the last steps to the reward.",
            "积极纠正：这是最有效的阶段。纠正重复的错误，帮助完成获得奖励的最后几步。",
        ),
    ),
    "late": (
        ("late (from 1,000 learner steps)", "训练后期（1000+ Learner 步）"),
        ("Correct rarely, and only where the policy still fails.", "少纠正：只处理仍然失败的情况。"),
    ),
}


def lines(diagnosis: Mapping[str, Any], lang: Language = "en") -> Iterator[str]:
    """The whole diagnosis, the worst finding first."""
    which = LANGUAGES.index(lang)

    def word(name: str) -> str:
        return WORDS[name][which]

    yield _header(diagnosis, lang)
    yield ""
    yield from finding_lines(diagnosis, lang)
    if diagnosis["checklist"]:
        yield word("checklist")
        width = max(_columns(line["question"]) for line in diagnosis["checklist"])
        for line in diagnosis["checklist"]:
            yield f"  {MARKS[line['mark']]} {line['question']}{' ' * (width - _columns(line['question']))}  {line['value']}"
        yield ""
    yield from stage_lines(diagnosis, lang)
    if "in_words" in diagnosis["clocks"]:
        yield sentence(diagnosis["clocks"], lang)


def stage_lines(diagnosis: Mapping[str, Any], lang: Language) -> Iterator[str]:
    """A table of the stages at which episodes failed, where the task names its stages."""
    which, stages = LANGUAGES.index(lang), diagnosis.get("stages")  # a hub of an older version says none
    if not stages:
        return
    yield WORDS["ended"][which].format(stages["episodes"], stages["succeeded"])
    heads = [WORDS[name][which] for name in ("stage_of", "by_task", "by_time")]
    yield "  " + "  ".join(_filled_up(head, 12) for head in heads).rstrip()
    for row in stages["rows"]:
        name = row["stage"] if lang == "en" else TASK_STAGES.get(row["stage"], row["stage"])
        yield "  " + "  ".join(_filled_up(str(cell), 12) for cell in (name, row["lost"], row["time"])).rstrip()
    yield ""


def finding_lines(diagnosis: Mapping[str, Any], lang: Language) -> Iterator[str]:
    """The findings with evidence, cause and command, or that there is none."""

    def word(name: str) -> str:
        return WORDS[name][LANGUAGES.index(lang)]

    findings = diagnosis["findings"]
    if diagnosis["severity"] not in ("problem", "warning"):
        yield word("healthy_but" if findings else "healthy")
        yield ""
    for finding in findings:
        yield f"{word(finding['severity']).upper()}  {finding['name']}"
        yield from _wrapped(finding["what"], "  ")
        for line in finding["evidence"]:
            yield from _wrapped(line, f"  {word('evidence')}: ")
        yield from _wrapped(finding["cause"], f"  {word('cause')}: ")
        if finding["explains"]:
            yield f"  {word('explains')}: {', '.join(finding['explains'])}"
        yield f"  {word('next')}: {finding['next']}"
        yield ""


def brief_line(finding: Mapping[str, Any]) -> str:
    """A finding in one line."""
    evidence = f" ({'; '.join(finding['evidence'])})" if finding["evidence"] else ""
    name = finding["name"]
    return f"{finding['severity'].upper()} {name}: {finding['what']}{evidence} More: `tandem doctor explain {name}`"


def clock_lines(diagnosis: Mapping[str, Any], lang: Language = "en") -> Iterator[str]:
    """`--clocks`: counts, rates, the clocks side by side with the success this run measured, and what the operator should do now."""
    which, clocks = LANGUAGES.index(lang), diagnosis["clocks"]
    yield _header(diagnosis, lang)
    if "table" not in clocks:
        return
    yield ""
    rates = ("learner_steps_per_s", "actor_steps_per_s", "versions_per_s")
    for name, rate in zip(("learner_step", "actor_step", "policy_version"), rates, strict=True):
        pace = f"{clocks[rate]:.3g}" if clocks[rate] else "-"
        yield f"  {_filled_up(WORDS[name][which], 16)} {clocks[name]:>12,}   {pace:>8} {WORDS['per_s'][which]}"
    if clocks["seconds_between_versions"]:
        yield f"  {WORDS['every'][which].format(_short(clocks['seconds_between_versions']))}"
    if clocks["updates_per_actor_step_seen"]:
        yield "  " + WORDS["ratio"][which].format(_short(clocks["updates_per_actor_step_seen"]), clocks["updates_per_actor_step"])
    yield ""
    yield f"  {sentence(clocks, lang)}"
    yield ""
    by_return = any("return" in row for row in clocks["table"])
    heads = [head[which] for head in ((*TABLE_HEAD[:-1], RETURN_HEAD) if by_return else TABLE_HEAD)]
    yield "  " + "  ".join(_filled_up(head, 14) for head in heads)
    for row in clocks["table"]:
        numbers = [row["learner_steps"], row["versions"], row["seconds"], row["actor_steps"]]
        success, returns = row.get("success"), row.get("return")  # a hub of an older version says neither
        result = f"{success:.0%}" if success is not None else f"{returns:.4g}" if returns is not None else "-"
        cells = [*("-" if number is None else _short(number) for number in numbers), result]
        yield "  " + "  ".join(_filled_up(cell, 14) for cell in cells).rstrip()
    yield ""
    name, advice = STAGES[clocks["stage"]]
    yield f"  {WORDS['stage'][which]}: {name[which]}"
    yield from _wrapped(advice[which], f"  {WORDS['now'][which]}: ")


def sentence(clocks: Mapping[str, Any], lang: Language) -> str:
    """`100 learner steps = 2 policies = about 4.5 s here = about 46 actor steps`; the numbers come from `runs.clocks`."""
    if lang == "en":
        return clocks["in_words"]
    row = next(row for row in clocks["table"] if row["learner_steps"] == 100)
    parts = ["100 个 Learner 步", f"{row['versions']:,} 个新策略"]
    if row["seconds"] is not None:
        parts.append(f"约 {_short(row['seconds'])} 秒")
    if row["actor_steps"] is not None:
        parts.append(f"约 {_short(row['actor_steps'])} 个 Actor 步")
    return " = ".join(parts)


def _header(diagnosis: Mapping[str, Any], lang: Language) -> str:
    which, clocks = LANGUAGES.index(lang), diagnosis["clocks"]
    state = WORDS[diagnosis["state"]][which]
    parts = [diagnosis["run"], diagnosis["task"], f"{state}, {diagnosis['phase']}" if diagnosis.get("phase") else state]
    if "learner_step" in clocks:
        learner = "iteration" if diagnosis["kind"] == "ppo" else "learner_step"
        parts += [f"{WORDS[learner][which]} {clocks['learner_step']:,}", f"{WORDS['actor_step'][which]} {clocks['actor_step']:,}"]
        parts.append(f"{WORDS['policy_version'][which]} {clocks['policy_version']:,}")
    return " · ".join(part for part in parts if part)


def _wrapped(text: str, start: str) -> Iterator[str]:
    if text.isascii():
        yield from textwrap.wrap(start + text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    else:
        yield start + text  # Chinese has no spaces to break at; the terminal wraps it


def _short(number: float) -> str:
    return f"{float(f'{number:.2g}'):,.0f}" if abs(number) >= 10 else f"{number:.2g}"


def _columns(text: str) -> int:
    """Width on a terminal, where a Chinese character takes two columns."""
    return sum(2 if ord(character) > 0x2E7F else 1 for character in text)


def _filled_up(text: str, width: int) -> str:
    return text + " " * max(0, width - _columns(text))
