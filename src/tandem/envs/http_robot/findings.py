"""The findings of the pre-flight in words, in English and Chinese: what was seen, the likely cause, what to do."""

from __future__ import annotations

from typing import Literal

from tandem.envs.http_robot.preflight import Finding, Report

Language = Literal["en", "zh"]

TEXTS: dict[str, tuple[str, str]] = {
    "no-object": (
        "The server does not report the object '{name}', from which the reward is computed. Likely cause: the prim has another "
        "name in the USD, or the profile names another object ([reward] gear, base).",
        "服务器没有报告物体“{name}”，而奖励由它的位姿计算。可能原因：USD 中该 prim 的名称不同，或配置文件 [reward] 的 gear、"
        "base 写了别的名称。",
    ),
    "slow-answers": (
        "/getstate takes {ms:.0f} ms, more than half of a control period. Likely cause: a slow network, or a busy machine.",
        "/getstate 耗时 {ms:.0f} 毫秒，超过控制周期的一半。可能原因：网络慢，或机器过载。",
    ),
    "no-frames": (
        "No picture arrives of {cameras} ({why}). Likely cause: Isaac's server was started with --headless=True, which draws "
        "nothing, or its --camera_prim_paths have other names: start it with a window. For cameras of your own: the kind and source of "
        "[cameras.NAME] in the profile, a cable, or another program that holds the camera.",
        "收不到相机 {cameras} 的图像（{why}）。可能原因：Isaac 服务器以 --headless=True 启动，此时不渲染，或 --camera_prim_paths 中的"
        "名称不同：请带窗口启动。自己的相机：检查配置文件 [cameras.NAME] 的 kind 与 source、线缆，或是否被其他程序占用。",
    ),
    "black-frames": (
        "The pictures of {camera} are black or all of one colour. Likely cause: nothing was rendered yet, the light is off, or "
        "the crop is outside of the picture.",
        "相机 {camera} 的图像全黑或只有一种颜色。可能原因：还没有渲染、没有光源，或裁剪区域在图像之外。",
    ),
    "async-reset": (
        "/reset_scene answers before the reset is done, and /getstate goes on with the old state. Nothing to do: this client "
        "waits until the arm has come back to its start. A client that only sleeps may begin an episode with the old state.",
        "/reset_scene 在复位完成之前就返回，此后 /getstate 仍给出旧状态。无需处理：本客户端会等到机械臂真正回到起始位姿。只靠 "
        "sleep 的客户端可能用旧状态开始一个回合。",
    ),
    "reset-not-seen": (
        "After /reset_scene the arm did not come to {start} within {seconds:.0f} s; it is at {at}. Likely cause: RESET_POSE in "
        "the server's config differs from [reset] pose of the profile, or the reset failed. No further motion was tried.",
        "/reset_scene 之后 {seconds:.0f} 秒内机械臂没有到达 {start}，现在位于 {at}。可能原因：服务器配置的 RESET_POSE 与配置文"
        "件 [reset] pose 不同，或复位失败。之后没有再做任何运动。",
    ),
    "start-not-reached": (
        "The arm was driven to {start} for {seconds:.0f} s and is at {at}. Likely cause: something is in its way, it stopped itself "
        "(look at "
        "its light), or the controller is not running. No further motion was tried.",
        "机械臂被驱动到 {start}，{seconds:.0f} 秒后位于 {at}。可能原因：被物体挡住、自行停止（看指示灯），或控制器没有运行。之后没有再做"
        "任何"
        "运动。",
    ),
    "strayed": (
        "The arm was told to stay where it is and moved by {moved} and {degrees:.0f} degrees: the server takes poses otherwise than it "
        "reports "
        "them. Its controller was stopped (/stopimp), and no further motion was tried.",
        "命令机械臂停在原处，它却移动了 {moved}、转动了 {degrees:.0f} 度：服务器理解位姿的方式与它报告的不同。控制器已停止（/stopimp），"
        "之后"
        "没有再做任何运动。",
    ),
    "slow-loop": (
        "The server made {hz:.1f} new states a second while the arm moved; the control rate is {wanted:g} Hz, so some steps "
        "see no new state. Likely cause: rendering is too slow, or the loop sleeps on top of its work. Draw fewer or smaller "
        "cameras, or lower the rate.",
        "机械臂运动时服务器每秒只产生 {hz:.1f} 个新状态，而控制频率为 {wanted:g} Hz，因此有些步看不到新状态。可能原因：渲染太慢"
        "，或主循环在计算之外还要 sleep。请减少或缩小相机，或降低控制频率。",
    ),
    "lag": (
        "The arm needed {seconds:.1f} s ({steps:.0f} control steps) for half of a small motion: it follows its commands late, and what an "
        "action does is seen only so many steps later. Likely cause: a soft controller, a slow simulation, or a loop that sleeps on top "
        "of its work. Make it faster, or lower the control rate.",
        "机械臂用了 {seconds:.1f} 秒（{steps:.0f} 个控制步）才完成一次小运动的一半：它跟随命令太晚，动作的效果要过这么多步才看得到。"
        "可能原因：控制器太软、仿真太慢，或主循环在计算之外还要 sleep。请加快它，或降低控制频率。",
    ),
    "quat-swap": (
        "The orientation is {degrees:.0f} degrees off, exactly as if the quaternion x, y, z, w of a command were read as w, x, "
        "y, z: rotations about x and z are exchanged. Repair it in the server, where the pose is handed to the controller.",
        "姿态相差 {degrees:.0f} 度，正好等于把命令中的四元数 x, y, z, w 当成 w, x, y, z 读取的结果：绕 x 与绕 z 的旋转被互换。"
        "请在服务器把位姿交给控制器的地方修正。",
    ),
    "orientation-off": (
        "The measured orientation is {degrees:.0f} degrees away from the commanded one. Likely cause: another tool frame than "
        "the profile's, or an arm that cannot reach it.",
        "测得的姿态与命令相差 {degrees:.0f} 度。可能原因：工具坐标系与配置文件不同，或机械臂到不了该姿态。",
    ),
    "axis-dead": (
        "A motion of {sent} along {axis} was commanded and {got} (x, y, z) was measured: the arm does not follow. Likely "
        "cause: it is held by a limit or a contact, or the command does not reach the controller.",
        "命令沿 {axis} 运动 {sent}，测得 (x, y, z) 为 {got}：机械臂没有跟随。可能原因：被限位或接触挡住，或命令没有到达控制器。",
    ),
    "axis-swapped": (
        "A motion of {sent} along {axis} was commanded and {got} (x, y, z) was measured: that is {other}. Likely cause: "
        "another frame than the profile's, or exchanged axes.",
        "命令沿 {axis} 运动 {sent}，测得 (x, y, z) 为 {got}：实际是 {other}。可能原因：坐标系与配置文件不同，或轴被互换。",
    ),
    "flipped-axis": (
        "A motion of {sent} along {axis} was commanded and {got} (x, y, z) was measured: the arm goes the other way. Do not "
        "train before this is repaired.",
        "命令沿 {axis} 运动 {sent}，测得 (x, y, z) 为 {got}：机械臂朝相反方向运动。修正之前不要训练。",
    ),
    "axis-size": (
        "A motion of {sent} along {axis} was commanded and {got} (x, y, z) was measured, {share:.0%} of it. Likely cause: "
        "another unit or scale.",
        "命令沿 {axis} 运动 {sent}，测得 (x, y, z) 为 {got}，是命令的 {share:.0%}。可能原因：单位或比例不同。",
    ),
    "gripper-echo": (
        "gripper_pos is the last value that was sent, not a measurement: it says nothing about whether the gear is held, and "
        "is wrong after a reset until a command is sent. This client sends one after every reset.",
        "gripper_pos 只是最近发送的数值，不是测量值：它不能说明齿轮是否被夹住，复位之后在发送新命令之前也是错的。本客户端在每次"
        "复位之后都会发送一次。",
    ),
    "gripper-dead": (
        "The gripper was sent to {sent:.2f} and is at {got:.2f} after 3 s: it does not follow.",
        "夹爪命令为 {sent:.2f}，3 秒之后仍为 {got:.2f}：夹爪没有跟随。",
    ),
    "dead-channels": (
        "Always zero, also while the arm moved: {channels}. Nothing can be learned from them, and no limit on force can hold. "
        "In the fork's server of 2026 their update stands inside of the `except` branch.",
        "机械臂运动时也始终为零的通道：{channels}。它们不含任何可学习的信息，力限制也不能生效。在 2026 年的服务器中，它们的更新"
        "写在 except 分支里。",
    ),
    "camera-still": (
        "The picture of {camera} did not move with the arm: its scale could not be judged. Likely cause: the camera is not on "
        "the hand, or it sees nothing but a plain surface.",
        "相机 {camera} 的图像没有随机械臂移动，无法判断其比例。可能原因：相机不在手上，或只看到单一颜色的表面。",
    ),
    "crops": (
        "The picture of {camera} is stretched: a motion of the arm moves it {ratio:.1f} times as far vertically as "
        "horizontally. Likely cause: the crop is not square; the fork's server loads the real robot's IMAGE_CROP (class "
        "EnvConfig) in place of the simulation's.",
        "相机 {camera} 的图像被拉伸：机械臂运动时，图像的垂直位移是水平位移的 {ratio:.1f} 倍。可能原因：裁剪区域不是正方形；服"
        "务器加载了真实机器人的 IMAGE_CROP（EnvConfig 类），而不是仿真的。",
    ),
}
"""By code, in English and Chinese."""

_HEADS = {
    "en": ("Pre-flight of {address} (profile {profile})", "measured", "nothing is wrong", "repair", "know", "nothing was moved"),
    "zh": ("{address} 的运行前检查（配置 {profile}）", "测量值", "没有发现问题", "需修复", "需了解", "没有做任何运动"),
}


def in_words(finding: Finding, language: Language) -> str:
    text = TEXTS[finding.code][language == "zh"].format(**finding.values)
    _, _, _, repair, know, _ = _HEADS[language]
    return f"{repair if finding.fault else know}: {text}"


def report_text(report: Report, language: Language) -> str:
    """The whole report in Markdown."""
    title, measured, fine, _, _, unmoved = _HEADS[language]
    lines = [f"# {title.format(address=report.address, profile=report.profile)}", ""]
    lines += [f"{number}. {in_words(finding, language)}" for number, finding in enumerate(report.findings, 1)] or [fine]
    lines += ["", f"## {measured}", ""] + [f"* {name}: {value}" for name, value in report.figures.items()]
    if not report.moved:
        lines += ["", unmoved]
    lines += ["", *(f"![{name}]({name}.png)" for name in report.pictures)]
    return "\n".join(lines).rstrip() + "\n"
