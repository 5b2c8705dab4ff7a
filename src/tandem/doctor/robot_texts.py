# ruff: noqa: E501  (a table of sentences: broken lines would be harder to read and to translate)
"""The texts of the findings about robots behind HTTP while a run lives. `texts.py` says how they are written."""

from __future__ import annotations

from tandem.doctor import limits
from tandem.doctor.text import Text, Words

_CHECK = "tandem robot check ADDRESS"
_WINDOW = f"over {limits.ROBOT_WINDOW} steps in which {limits.ROBOT_MAINLY:.0%} of the commanded motion is along one axis"
_WINDOW_ZH = f"取 {limits.ROBOT_WINDOW} 步，其中 {limits.ROBOT_MAINLY:.0%} 的命令运动沿同一轴"


def _evidence(about: str, about_zh: str) -> tuple[Words, ...]:
    return (
        (
            f"[swapped] {about} {{axis}} commanded: measured {about} x, y, z: {{got}} of it, so mainly {about} {{swapped}} ({{windows}} stretches)",
            f"[swapped] 命令{about_zh} {{axis}}：测得{about_zh} x, y, z 分别为其 {{got}}，即主要{about_zh} {{swapped}}（{{windows}} 段）",
        ),
        (
            f"[flipped] {about} {{axis}} commanded: measured {about} x, y, z: {{got}} of it, so the other way; mainly {about} {{flipped}} ({{windows}} stretches)",
            f"[flipped] 命令{about_zh} {{axis}}：测得{about_zh} x, y, z 分别为其 {{got}}，即方向相反；主要{about_zh} {{flipped}}（{{windows}} 段）",
        ),
        (
            f"[dead] {about} {{axis}} commanded: measured {about} x, y, z: {{got}} of it, so no motion; most {about} {{dead}} ({{windows}} stretches)",
            f"[dead] 命令{about_zh} {{axis}}：测得{about_zh} x, y, z 分别为其 {{got}}，即没有运动；最多{about_zh} {{dead}}（{{windows}} 段）",
        ),
    )


ROBOT_TEXTS: dict[str, Text] = {
    "robot_state_stale": Text(
        ("The robot's server repeats old states.", "机器人的服务器在重复旧状态。"),
        (
            (
                "after {stale} of {steps} steps that command a motion, not one number of the state has changed",
                "{steps} 个命令运动的步中，有 {stale} 步之后状态没有任何数变化",
            ),
        ),
        (
            "The loop of the server is slower than the control rate, or it has lost its connection to the arm and answers from memory.",
            "服务器的循环比控制频率慢，或者它与机械臂的连接已断，只用旧值回答。",
        ),
        _CHECK,
        (
            f"In more than {limits.ROBOT_STALE:.0%} of the newest steps that command a motion the state is the same to the last bit before and after.",
            f"最新的、命令运动的步中，超过 {limits.ROBOT_STALE:.0%} 的步前后状态逐位相同。",
        ),
    ),
    "robot_axes_wrong": Text(
        (
            "The robot moves along another axis than commanded, the other way, or not at all.",
            "机器人沿着别的轴运动、方向相反，或者不动。",
        ),
        _evidence("along", "沿"),
        (
            "The server uses another frame than the profile says, axes are exchanged, or the command does not reach the controller. Stop training until it is repaired.",
            "服务器的坐标系与配置不同、轴被互换，或命令没有到达控制器。修复之前请停止训练。",
        ),
        _CHECK,
        (
            f"The measured motion, {_WINDOW}: more than {limits.ROBOT_SWAPPED:.0%} of it along another axis, {limits.ROBOT_FLIPPED:.0%} against it, or less than {limits.ROBOT_DEAD:.0%} in both directions.",
            f"测得的运动，{_WINDOW_ZH}：超过 {limits.ROBOT_SWAPPED:.0%} 沿着别的轴，{limits.ROBOT_FLIPPED:.0%} 反向，或两个方向都不到 {limits.ROBOT_DEAD:.0%}。",
        ),
    ),
    "robot_turns_wrong": Text(
        (
            "The robot turns about another axis than commanded, the other way, or not at all.",
            "机器人绕着别的轴转动、方向相反，或者不转。",
        ),
        _evidence("about", "绕"),
        (
            "If x and z are exchanged, the server reads the quaternion x, y, z, w as w, x, y, z; otherwise its frame differs from the profile's. Stop training until it is repaired.",
            "如果 x 与 z 互换，说明服务器把四元数 x, y, z, w 当成 w, x, y, z；否则是坐标系与配置不同。修复之前请停止训练。",
        ),
        _CHECK,
        (
            f"The measured rotation, {_WINDOW}: more than {limits.ROBOT_SWAPPED:.0%} of it about another axis, {limits.ROBOT_FLIPPED:.0%} against it, or less than {limits.ROBOT_DEAD:.0%} in both directions.",
            f"测得的转动，{_WINDOW_ZH}：超过 {limits.ROBOT_SWAPPED:.0%} 绕着别的轴，{limits.ROBOT_FLIPPED:.0%} 反向，或两个方向都不到 {limits.ROBOT_DEAD:.0%}。",
        ),
    ),
    "robot_channels_dead": Text(
        ("Measured numbers of the robot are always zero.", "机器人的某些测量值一直为零。"),
        (("{channels}: zero in {steps} steps, in which the tool moved", "{channels}：在工具有运动的 {steps} 步中始终为零"),),
        (
            "The server does not fill them in. Nothing can be learned from them, and no limit on force can hold.",
            "服务器没有填写这些数。它们不含任何可学习的信息，力限制也不能生效。",
        ),
        _CHECK,
        (
            "All numbers of force, torque or velocity are zero in all of the newest steps, while the position changes by more than 1 mm.",
            "最新的所有步中，力、力矩或速度的数全部为零，而位置变化超过 1 mm。",
        ),
    ),
    "robot_lags": Text(
        ("The robot follows its commands late.", "机器人跟随命令太晚。"),
        (
            (
                "the measured motion fits the one that was commanded {later} steps ({late}) earlier: correlation {fit}, with the newest command {at_once}",
                "测得的运动与 {later} 步（{late}）之前的命令最吻合：相关系数 {fit}，与最新命令为 {at_once}",
            ),
        ),
        (
            "A slow controller, a queue of commands in the server, or a slow simulation. The policy cannot see what its newest actions will do.",
            "控制器慢、服务器中命令排队，或仿真太慢。策略看不到最新动作的结果。",
        ),
        _CHECK,
        (
            f"The correlation of commanded and measured motion is largest at {limits.ROBOT_LAG} to {limits.ROBOT_LAG_MOST} steps, and at least {limits.ROBOT_LAG_FITS}.",
            f"命令与测得运动的相关系数在延迟 {limits.ROBOT_LAG} 到 {limits.ROBOT_LAG_MOST} 步时最大，且至少为 {limits.ROBOT_LAG_FITS}。",
        ),
    ),
    "robot_gripper_echo": Text(
        ("The gripper's position is the command, not a measurement.", "夹爪位置是命令值，不是测量值。"),
        (("equal to the new command at once after {echoed} of {changes} changes", "{changes} 次变化中有 {echoed} 次立刻等于新命令"),),
        (
            "The server repeats what was sent. It says nothing about whether something is held.",
            "服务器只重复收到的数值，不能说明是否夹住了东西。",
        ),
        _CHECK,
        (
            f"In 95 % of at least {limits.ROBOT_GRIPPER_CHANGES} changes of the commanded opening the next observation equals the command.",
            f"命令的开度至少变化 {limits.ROBOT_GRIPPER_CHANGES} 次，其中 95 % 的情况下一次观测就等于命令。",
        ),
    ),
}
