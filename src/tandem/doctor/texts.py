# ruff: noqa: E501  (a table of sentences: broken lines would be harder to read and to translate)
"""Every word that the doctor says of a finding, in English and in Chinese, in one table.

`{name}` is filled in from the finding's facts. A line of evidence is said only if all its facts are known; one that begins
with `[name]` only if that fact is there. `next` is what to type; in it also `{run}`, `{task}`, `{address}` and `{join}` (how an actor
finds the run) are known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tandem.doctor import limits
from tandem.doctor.findings import Bytes, Finding, Seconds, Share

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
Words = tuple[str, str]
"""English, Chinese."""


@dataclass(frozen=True)
class Text:
    what: Words
    evidence: tuple[Words, ...]
    cause: Words
    next: str
    told_by: Words
    """How it is told, with the thresholds: for `explain` and the pages."""


@dataclass(frozen=True)
class Told:
    """A finding in one language."""

    name: str
    severity: str
    what: str
    evidence: list[str]
    cause: str
    next: str
    explains: list[str]
    """Findings that follow from this one and are not told themselves."""


TEXTS: dict[str, Text] = {
    # ---- reaching the hub
    "address_unknown": Text(
        ("No machine is known by this name.", "这个主机名无法解析。"),
        (("{address}: {detail}", "{address}：{detail}"),),
        (
            "A typing mistake (of a run folder? there is none of this name here), or the name is not in this machine's DNS or hosts file.",
            "主机名写错（如果想写的是运行目录：这里没有这个目录），或者本机的 DNS / hosts 里没有它。",
        ),
        "getent hosts {host}",
        ("The name could not be resolved to an address.", "域名解析失败。"),
    ),
    "host_unreachable": Text(
        ("The machine cannot be reached.", "连不到那台机器。"),
        (("{address}: {detail}", "{address}：{detail}"),),
        ("It is off, in another network, or there is no route to it.", "机器未开机、不在同一网络，或没有路由。"),
        "ping -c 3 {host}",
        ("The network itself reports an error before any connection.", "还没建立连接，网络就报错。"),
    ),
    "connection_refused": Text(
        ("Nobody listens at this address: the machine is there, the port is closed.", "这个地址没有程序在监听：机器在，但端口是关着的。"),
        (("{address}: {detail}", "{address}：{detail}"),),
        (
            "The learner is not running, or it listens on another port (its first lines and RUN/hub.json say which), or only for its own machine "
            "(`--host 0.0.0.0` lets others in).",
            "Learner 没有运行；或者端口不对（Learner 启动日志和 RUN/hub.json 里有正确端口）；或者只监听本机（用 `--host 0.0.0.0` 允许其他机器连接）。",
        ),
        "tandem learner {task} --host 0.0.0.0",
        ("The connection is refused at once.", "连接立刻被拒绝。"),
    ),
    "no_answer": Text(
        ("Nobody answers at this address.", "这个地址没有回应。"),
        (
            (
                "[not_connected] {address}: no connection within 3 s, and no refusal either",
                "[not_connected] {address}：3 秒内连不上，也没有被拒绝",
            ),
            (
                "[connected] {address}: the connection opens, but nothing comes back for 3 s",
                "[connected] {address}：能建立连接，但 3 秒内没有任何数据返回",
            ),
        ),
        (
            "A firewall that drops packets, a cable or a VPN that is down; if the connection opens, the hub's process is stopped or overloaded.",
            "防火墙丢弃了数据包，网线或 VPN 断开；如果连接能建立，则是 hub 进程被暂停或过载。",
        ),
        "nc -vz -w 3 {host} {port}",
        ("A connection, or an answer to a request, does not come within 3 seconds.", "3 秒内没有连接或没有应答。"),
    ),
    "not_a_hub": Text(
        ("Something else than a Tandem hub listens there.", "那里监听的不是 Tandem 的 hub。"),
        (("{address}: {detail}", "{address}：{detail}"),),
        (
            "The wrong port, or TLS on one side only (give wss://HOST:PORT and --ca for a hub with a certificate).",
            "端口写错；或者只有一端用了 TLS（hub 有证书时用 wss://HOST:PORT 和 --ca）。",
        ),
        "tandem doctor {run}",
        ("The answer to /api/status is not a hub's.", "/api/status 的回答不是 hub 的格式。"),
    ),
    "untrusted_certificate": Text(
        ("The hub's certificate cannot be trusted.", "无法信任 hub 的证书。"),
        (("{address}: {detail}", "{address}：{detail}"),),
        (
            "The certificate is your own and was not given here, or it is for another name.",
            "证书是自签的但这里没有给出，或者证书属于别的主机名。",
        ),
        "tandem doctor wss://{address} --ca CERTIFICATE --token-file TOKEN",
        ("The TLS handshake fails on the certificate.", "TLS 握手时证书校验失败。"),
    ),
    "wrong_token": Text(
        ("The hub is there, but does not accept the token.", "hub 在运行，但不接受这个 token。"),
        (
            ("[given] {address} answers 401 to the token that was given", "[given] {address} 对给出的 token 回答 401"),
            ("[not_given] {address} answers 401; no token was given", "[not_given] {address} 回答 401；没有给出 token"),
        ),
        (
            "Every run has a token of its own, in the file RUN/token on the learner's machine; this one is missing, of another run, or cut off.",
            "每次运行都有自己的 token（在 Learner 机器上的 RUN/token）；这里没有给出、来自另一次运行，或者被截断。",
        ),
        "scp {host}:RUN/token token && tandem doctor {address} --token-file token",
        ("The hub answers 401 in its own words.", "hub 自己回答 401。"),
    ),
    "other_version": Text(
        ("The two ends speak different versions of the protocol.", "两端的协议版本不同。"),
        (
            ("the hub says: {detail}", "hub 的说明：{detail}"),
            ("the actor '{actor}' was refused {times} times", "actor“{actor}”被拒绝 {times} 次"),
        ),
        ("Tandem was updated on one machine and not on the other.", "只更新了其中一台机器上的 Tandem。"),
        "pip install --upgrade tandem   # on both machines",
        (
            "The greeting of an actor, or the hub's diagnosis, carries another protocol number.",
            "actor 的问候或 hub 的诊断带有另一个协议号。",
        ),
    ),
    # ---- processes
    "run_broke": Text(
        ("The run left the finite numbers and stopped.", "运行出现了非有限数（NaN/inf）并停止。"),
        (("kept: {file}", "已保存：{file}"), ("it said: {detail}", "它说：{detail}")),
        (
            "In a simulation: contacts too stiff for the time step, or a randomised value out of its range. In PPO: a learning rate or rewards that are too large.",
            "仿真中：接触刚度对时间步长来说太大，或随机化的参数超出物理范围。PPO 中：学习率或奖励太大。",
        ),
        "tandem doctor replay {file}",
        (
            "An event `broken`, or states in RUN/broken that are newer than the last start.",
            "有 `broken` 事件，或者 RUN/broken 里有比最近一次启动更新的状态文件。",
        ),
    ),
    "run_died": Text(
        ("The run is not running and did not end by itself.", "运行已经不在了，也没有正常结束。"),
        (
            (
                "no summary, and nothing written for {silent}; it was at learner step {learner_step}",
                "没有 summary，{silent} 内没有写入任何文件；停在 Learner 步数 {learner_step}",
            ),
        ),
        (
            "Killed (out of memory?), a machine that went down, or an error that was printed where it ran.",
            "被杀死（内存不足？）、机器断电，或在运行的终端里报错退出。",
        ),
        "tandem {command} --resume {run}",
        (
            f"No summary.json, no live hub, and no file written for {limits.ASLEEP_S:.0f} s.",
            f"没有 summary.json，没有存活的 hub，{limits.ASLEEP_S:.0f} 秒没有写入文件。",
        ),
    ),
    "disk_full": Text(
        ("The hub cannot store steps: there is no room to write.", "hub 无法保存数据：没有空间可写。"),
        (("it says: {detail}", "它说：{detail}"), ("free on that disk: {free}", "该磁盘剩余：{free}")),
        (
            "A full disk, a quota or a file-size limit. Nothing is lost: actors keep their steps until there is room.",
            "磁盘满、配额或文件大小限制。数据没有丢失：actor 会保留未存的数据直到有空间。",
        ),
        "df -h {run}",
        ("The hub's own word that its last write failed.", "hub 自己报告最近一次写入失败。"),
    ),
    "journal_unreadable": Text(
        ("The journal of the run cannot be read.", "运行的 journal 无法读取。"),
        (("{detail}", "{detail}"),),
        ("A copy that was interrupted, a damaged disk, or another program's file.", "复制中断、磁盘损坏，或不是本程序的文件。"),
        "tandem demos validate {run}/journal.db",
        ("RUN/journal.db is there and cannot be opened.", "RUN/journal.db 存在但打不开。"),
    ),
    "hub_silent": Text(
        ("The hub hangs: nothing passes between learner and actors.", "hub 没有反应：Learner 和 Actor 之间没有数据流动。"),
        (("the hub wrote its last view {silent} ago, while the run goes on", "hub 上次写状态是 {silent} 之前，而训练还在继续"),),
        ("Its process was stopped or killed, or its machine swaps.", "hub 进程被暂停或杀死，或机器在换页。"),
        "tandem train --resume {run}",
        (
            f"RUN/live.json is older than {limits.FRESH_S:.0f} s (it is written every 2 s) while other files of the run still change.",
            f"RUN/live.json 超过 {limits.FRESH_S:.0f} 秒没有更新（正常每 2 秒一次），而运行的其他文件还在变化。",
        ),
    ),
    "trainer_dead": Text(
        ("The trainer shows no sign of life: nothing is learned, no policy is published.", "训练进程没有心跳：没有训练，也不发布参数。"),
        (("its last phase was '{phase}', at learner step {learner_step}", "最后的阶段是“{phase}”，Learner 步数 {learner_step}"),),
        (
            "It was killed, is stopped, or hangs in one update; its last words are in the terminal that started it.",
            "被杀死、被暂停，或卡在一次更新里；最后的输出在启动它的终端里。",
        ),
        "tandem train --resume {run}",
        ("The trainer's heartbeat has not moved for 5 s outside of compiling and evaluating.", "心跳 5 秒没有变化，且不在编译或评估中。"),
    ),
    "often_restarted": Text(
        ("A part of the run dies again and again.", "运行的某个部分反复死掉。"),
        (
            (
                "{part} was ended by {signal}; {times} restarts in the last 10 minutes",
                "{part} 被 {signal} 结束；最近 10 分钟重启 {times} 次",
            ),
        ),
        (
            "SIGKILL usually means that memory ran out; SIGSEGV a driver or a library.",
            "SIGKILL 通常是内存不足；SIGSEGV 多为驱动或库的问题。",
        ),
        "dmesg | tail -20",
        (
            f"At least {limits.OFTEN_RESTARTED} `restarted` events in 10 minutes.",
            f"10 分钟内至少 {limits.OFTEN_RESTARTED} 个 `restarted` 事件。",
        ),
    ),
    "paused": Text(
        ("The run is paused: somebody asked it to wait.", "运行被暂停：有人让它等待。"),
        (("paused at learner step {learner_step}", "暂停在 Learner 步数 {learner_step}"),),
        ("A command `pause` over the page or the API that was not followed by `resume`.", "页面或 API 发过 `pause`，之后没有 `resume`。"),
        'curl -X POST -H "Authorization: Bearer $(cat {run}/token)" -d \'{{"command": "resume"}}\' http://{address}/api/command',
        ("The trainer says so.", "训练进程自己的状态。"),
    ),
    "interrupted": Text(
        ("The run was interrupted and can go on.", "运行被中断，可以继续。"),
        (("interrupted at learner step {learner_step}", "中断在 Learner 步数 {learner_step}"),),
        ("Ctrl-C, or its supervisor ended.", "按了 Ctrl-C，或主进程结束。"),
        "tandem {command} --resume {run}",
        ("summary.json says `interrupted`.", "summary.json 里写着 `interrupted`。"),
    ),
    # ---- refusals
    "other_task": Text(
        ("An actor with another task wants to join.", "有一个任务不同的 actor 想加入。"),
        (("the actor '{actor}' was refused {times} times: {detail}", "actor“{actor}”被拒绝 {times} 次：{detail}"),),
        ("Two runs, or two start scripts, were mixed up.", "混淆了两次运行或两个启动脚本。"),
        "tandem actor {task} {join}",
        (
            "The hub's event `refused`, code `task`, and no later greeting by an actor of that name.",
            "hub 的 `refused` 事件（task），之后没有同名 actor 成功加入。",
        ),
    ),
    "other_spec": Text(
        (
            "An actor sees or does something else than this run: other observations or actions.",
            "actor 的观察空间或动作空间与本次运行不一致。",
        ),
        (("the actor '{actor}' was refused {times} times: {detail}", "actor“{actor}”被拒绝 {times} 次：{detail}"),),
        ("Another version, or other options, of the task at one of the two ends.", "两端的任务版本或任务选项不同。"),
        "tandem actor {task} {join}   # same version and options as the learner",
        (
            "The hub's event `refused`, code `spec`: it names the entry and both shapes.",
            "hub 的 `refused` 事件（spec），其中写明不同的条目和两边的形状。",
        ),
    ),
    "actor_refused": Text(
        ("An actor was not taken.", "actor 没有被接受。"),
        (("the actor '{actor}' was refused {times} times: {detail}", "actor“{actor}”被拒绝 {times} 次：{detail}"),),
        ("It still belongs to another run, or the hub has as many actors as it takes.", "它还属于另一次运行，或 hub 的 actor 数量已满。"),
        "tandem actor {task} {join}",
        ("The hub's event `refused`, code `run` or `busy`.", "hub 的 `refused` 事件（run 或 busy）。"),
    ),
    # ---- actors
    "no_actor": Text(
        (
            "No actor has joined: nobody moves the robot, nothing arrives to learn from.",
            "还没有 actor 加入：没有人控制机器人，也没有数据。",
        ),
        (("the hub has been up for {up}; no actor has ever greeted it", "hub 已运行 {up}，从来没有 actor 连接过"),),
        (
            "The actor was not started, or it cannot reach this address, or it has the wrong token (ask from its machine).",
            "actor 没有启动，或连不到这个地址，或 token 不对（请在 actor 的机器上检查）。",
        ),
        "tandem doctor {address} --token-file TOKEN   # on the actor's machine",
        (
            f"A hub that has been up for more than {limits.NO_ACTOR_S:.0f} s without an actor.",
            f"hub 运行超过 {limits.NO_ACTOR_S:.0f} 秒仍没有 actor。",
        ),
    ),
    "actor_silent": Text(
        ("An actor is connected but says nothing.", "actor 连接着，但没有任何消息。"),
        (
            (
                "the actor '{actor}' was last heard {silent} ago; it speaks every second",
                "actor“{actor}”上次发消息是 {silent} 之前；正常每秒一次",
            ),
        ),
        (
            "Its process is stopped, its machine hangs, or the network went silent without closing the connection.",
            "它的进程被暂停、机器卡死，或网络中断但连接没有关闭。",
        ),
        "tandem actor {task} {join}   # on the actor's machine, after ending the old one",
        (
            f"Connected, and not heard for more than {limits.SILENT_ACTOR_S:.0f} s.",
            f"已连接但超过 {limits.SILENT_ACTOR_S:.0f} 秒没有消息。",
        ),
    ),
    "actor_gone": Text(
        ("An actor that was there is gone.", "原来的 actor 不见了。"),
        (
            (
                "the actor '{actor}' was last seen {silent} ago; {others} others are connected",
                "actor“{actor}”上次出现是 {silent} 之前；其他已连接的有 {others} 个",
            ),
        ),
        (
            "It was stopped or died, or the network between is down. What it has lived through is in its spool and will be sent.",
            "被停止或死掉，或网络断开。它经历的数据在自己的 spool 里，之后会补发。",
        ),
        "tandem actor {task} {join}   # on the actor's machine",
        ("The hub saw it leave, or lost it for longer than its time-out, and the run goes on.", "hub 看到它离开或超时，而训练还在继续。"),
    ),
    "steps_lost": Text(
        ("Steps were lost: the actor's spool had no room for them.", "有数据丢失：actor 的 spool 没有空间。"),
        (("the actor '{actor}' dropped {dropped} steps", "actor“{actor}”丢弃了 {dropped} 步"),),
        ("The hub was away for long, and the spool's limit or its disk was reached.", "hub 离线太久，spool 达到上限或磁盘满。"),
        "tandem actor {task} --learner {address} --spool DISK --spool-limit BYTES",
        ("The actor's own count.", "actor 自己的计数。"),
    ),
    "policies_not_applied": Text(
        ("The actor does not act with the policies that the learner publishes.", "Actor 没有使用 Learner 发布的参数。"),
        (
            (
                "[never] it still acts with version {version}, the initial network: its actions are random",
                "[never] 它仍在用版本 {version}（初始网络）：动作等于随机",
            ),
            ("[stopped] it still acts with version {version}", "[stopped] 它仍在用版本 {version}"),
            (
                "the newest is version {newest}: {missed} policies were published since (learner step {learner_step}, actor step {actor_step})",
                "最新是版本 {newest}：之后已发布 {missed} 次参数（Learner 步数 {learner_step}，Actor 步数 {actor_step}）",
            ),
            ("the actor '{actor}' has had something newer to take for {since}", "actor“{actor}”已有 {since} 没有换上更新的参数"),
            (
                "by the newest {steps} actor steps, each of which carries the version it was made with",
                "最近 {steps} 个 Actor 步都记有所用版本",
            ),
        ),
        (
            "Most likely the update never reaches the acting policy: a callback that was lost or failed, a link that only carries data one way, or an actor from before the learner's restart.",
            "最可能是参数更新没有到达执行策略的地方：回调没有注册或执行失败、连接只有单向数据，或者 actor 是 Learner 重启之前的旧进程。",
        ),
        "tandem actor {task} {join}   # end the old one first",
        (
            f"The version an actor acts with (its own word, the steps it sent, or those the learner received) stands still and is {limits.LAG_VERSIONS} or more behind the newest one; a healthy actor is 0 or 1 behind.",
            f"actor 所用的版本（它自己的报告、它发来的数据或 Learner 收到的数据）不再变化，并落后最新版本 {limits.LAG_VERSIONS} 个以上；正常落后 0 或 1。",
        ),
    ),
    "still_random": Text(
        (
            "The actor acts at random because it was told to: it is inside `random_steps`.",
            "Actor 还在随机探索阶段（`random_steps` 之内）。",
        ),
        (
            (
                "actor step {actor_step} of random_steps {random_steps}, while the learner is at step {learner_step}",
                "Actor 步数 {actor_step}，random_steps 为 {random_steps}，而 Learner 已到 {learner_step} 步",
            ),
            ("that is another {left} at this rate", "按目前速度还需 {left}"),
        ),
        (
            "`random_steps` is set high; with demonstrations 0 (the default) is right.",
            "`random_steps` 设得太大；有演示数据时默认值 0 就可以。",
        ),
        "tandem train {task} --random-steps 0",
        (
            "actor step < random_steps; a problem once the learner has published two policies.",
            "Actor 步数小于 random_steps；Learner 发布过两次参数后视为问题。",
        ),
    ),
    "no_steps": Text(
        ("An actor is connected, but no steps arrive.", "actor 已连接，但没有数据到达。"),
        (
            (
                "the actor '{actor}' has been connected for {connected}; phase '{phase}', 0 actor steps/s",
                "actor“{actor}”已连接 {connected}；阶段“{phase}”，每秒 0 个 Actor 步",
            ),
        ),
        ("It was told to pause, its environment hangs, or a person has to do something first.", "它被要求暂停、环境卡住，或需要人先操作。"),
        "tandem doctor {run} --watch",
        (
            f"Connected for {limits.NO_ACTOR_S:.0f} s, nothing stored in the last 5 s, though the learner could take it.",
            f"已连接 {limits.NO_ACTOR_S:.0f} 秒，最近 5 秒没有存入数据，而 Learner 可以接收。",
        ),
    ),
    "policy_lag": Text(
        ("An actor is late with its policies.", "actor 使用的参数偏旧。"),
        (("the actor '{actor}' is {versions} versions and {since} behind", "actor“{actor}”落后 {versions} 个版本、{since}"),),
        (
            "A slow link, a large policy published very often, or an actor that hardly steps.",
            "网络慢、策略大且发布太频繁，或 actor 几乎不走步。",
        ),
        "tandem train {task} --steps-per-update 200",
        (
            f"{limits.LAG_VERSIONS} versions and {limits.LAG_S / 2:.0f} s behind the newest.",
            f"落后 {limits.LAG_VERSIONS} 个版本且 {limits.LAG_S / 2:.0f} 秒。",
        ),
    ),
    "control_rate_low": Text(
        ("The control loop does not keep its rate.", "控制频率达不到要求。"),
        (("the actor '{actor}' makes {rate} actions/s, the task wants {wanted}", "actor“{actor}”每秒 {rate} 次动作，任务要求 {wanted}"),),
        (
            "The environment (cameras, a slow robot interface) or other work on its machine takes longer than a control period.",
            "环境（相机、机器人接口）或机器上的其他工作超过了一个控制周期。",
        ),
        "tandem actor {task} --num-envs 1 --threads 1",
        (
            f"A real-time actor below {limits.CONTROL_RATE:.0%} of the task's control rate.",
            f"实时 actor 低于任务控制频率的 {limits.CONTROL_RATE:.0%}。",
        ),
    ),
    "actions_constant": Text(
        ("The policy does the same whatever it sees.", "无论看到什么，策略都输出同样的动作。"),
        (("the newest {steps} actions are all {action}", "最近 {steps} 个动作都是 {action}"),),
        (
            "A policy that collapsed, an observation that never changes, or an action that is overwritten on its way.",
            "策略塌缩、观察值不变，或动作在传递中被覆盖。",
        ),
        "tandem play {run}",
        (
            f"No component of the action varies by more than {limits.CONSTANT_STD:g} (standard deviation).",
            f"动作的每个分量标准差都不超过 {limits.CONSTANT_STD:g}。",
        ),
    ),
    "actions_saturated": Text(
        ("The policy acts at its limits most of the time, and does not succeed.", "策略大部分时间输出极限动作，而且没有成功。"),
        (
            (
                "{share} of all components are at their limit in the newest {steps} actions; component [{component}] in {most}",
                "最近 {steps} 个动作中 {share} 的分量在极限；分量 [{component}] 达 {most}",
            ),
        ),
        ("Values that run away, or an action scale that is too small for the task.", "Q 值发散，或动作尺度对任务太小。"),
        "tandem doctor {run} --json",
        (
            f"More than {limits.SATURATED_SHARE:.0%} of the components beyond 0.99 while fewer than half of the episodes succeed.",
            f"超过 {limits.SATURATED_SHARE:.0%} 的分量大于 0.99，且成功率不到一半。",
        ),
    ),
    "stuck_at_limit": Text(
        ("The robot stays at the edge of where it has ever been.", "机器人停在工作空间的边缘。"),
        (
            (
                "{entry} is at the end of its range ({value}) in {share} of the newest {steps} steps, although it acts",
                "最近 {steps} 步中 {share} 的时间 {entry} 处在范围边缘（{value}），尽管它在动作",
            ),
        ),
        ("A workspace limit that the policy pushes against, or a goal outside of it.", "策略一直顶着工作空间限制，或目标在工作空间之外。"),
        "tandem play {run}",
        (
            f"One observation component within 2 % of its extreme in {limits.STUCK_SHARE:.0%} of the newest {limits.ENOUGH_STEPS} steps, without any success.",
            f"最近 {limits.ENOUGH_STEPS} 步中 {limits.STUCK_SHARE:.0%} 的时间某个观察分量在极值 2% 之内，且没有成功。",
        ),
    ),
    "link_slow": Text(
        ("The link is slow.", "网络往返时间长。"),
        (
            ("a round trip takes {round_trip} ms", "一次往返 {round_trip} 毫秒"),
            ("measured by the actor '{actor}'", "由 actor“{actor}”测得"),
        ),
        ("A wireless or remote connection, or a machine that is busy.", "无线或远程连接，或机器繁忙。"),
        "ping -c 5 {host}",
        (
            f"More than {limits.SLOW_ROUND_TRIP_MS:.0f} ms for a small message and its answer. Nothing waits for it, but policies come later.",
            f"小消息往返超过 {limits.SLOW_ROUND_TRIP_MS:.0f} 毫秒。没有人等待它，但参数会更晚到达。",
        ),
    ),
    "link_backlog": Text(
        ("Steps pile up on the actor's side.", "数据在 actor 一侧堆积。"),
        (
            (
                "the actor '{actor}' has {waiting} steps ({megabytes} MB) that the hub does not have",
                "actor“{actor}”有 {waiting} 步（{megabytes} MB）还没送到 hub",
            ),
            ("that is {behind} of its life", "相当于它 {behind} 的经历"),
        ),
        ("The link is slower than the steps are large, or the hub's disk is.", "网络或 hub 的磁盘跟不上数据量。"),
        "tandem doctor {address} --token-file TOKEN   # on the actor's machine",
        (
            f"More than {limits.BACKLOG_S:.0f} s of steps, and more than {limits.BACKLOG_STEPS}, are not acknowledged.",
            f"未确认的数据超过 {limits.BACKLOG_S:.0f} 秒且多于 {limits.BACKLOG_STEPS} 步。",
        ),
    ),
    "clocks_differ": Text(
        ("The clocks of the two machines differ.", "两台机器的时钟不一致。"),
        (("by {difference}", "相差 {difference}"), ("at the actor '{actor}'", "在 actor“{actor}”处")),
        ("No time synchronisation. Nothing depends on it but the times in the logs.", "没有时间同步。除了日志里的时间，没有别的影响。"),
        "timedatectl status",
        (f"More than {limits.CLOCKS_DIFFER_S:.0f} s.", f"超过 {limits.CLOCKS_DIFFER_S:.0f} 秒。"),
    ),
    # ---- demonstrations
    "demos_missing": Text(
        ("A file of demonstrations cannot be read.", "演示数据文件读不出来。"),
        (("{file}", "{file}"), ("{detail}", "{detail}")),
        (
            "A wrong path (relative to where the run was started), a file that was moved, or an interrupted copy.",
            "路径错误（相对路径以启动目录为准）、文件被移动，或复制中断。",
        ),
        "tandem demos inspect {file}",
        ("The file that the configuration names is opened again.", "重新打开配置里写的文件。"),
    ),
    "demos_foreign": Text(
        ("The demonstrations are of another task, or of another version of it.", "演示数据来自别的任务或别的版本。"),
        (
            (
                "{short} was recorded with '{there}', this run is of '{here}': {differences} differences",
                "{short} 录制于“{there}”，本次运行是“{here}”：{differences} 处不同",
            ),
            ("first of all: {detail} (here: the run, there: the file)", "首先是：{detail}（here：运行，there：文件）"),
        ),
        ("The wrong file, or the task changed since it was recorded.", "文件选错，或录制之后任务改过。"),
        "tandem record {task} --demos 25",
        ("The spec in the file and the spec of the run have different hashes.", "文件里的 spec 与运行的 spec 哈希不同。"),
    ),
    "demos_broken": Text(
        ("The demonstrations hold steps that cannot be learned from.", "演示数据里有不能用于训练的步。"),
        (("{short}: {count} steps, first {detail}", "{short}：{count} 步，首先是 {detail}"),),
        ("A sensor that failed while it was recorded, or a file that was changed afterwards.", "录制时传感器出错，或文件之后被改动。"),
        "tandem demos validate {file} --task {task}",
        ("Every step is checked for NaN, shapes, dtypes and the range of the action.", "检查每一步的 NaN、形状、类型和动作范围。"),
    ),
    "demos_empty": Text(
        ("The demonstrations are empty.", "演示数据是空的。"),
        (("{short} holds {steps} steps", "{short} 有 {steps} 步"), ("demo buffer size: {buffer}", "demo buffer size: {buffer}")),
        ("Recording was stopped before the first success.", "在第一次成功之前就停止了录制。"),
        "tandem record {task} --demos 25",
        ("The file that the configuration names holds no accepted step.", "配置里写的文件没有可用的步。"),
    ),
    "demos_without_reward": Text(
        ("The demonstrations contain no reward: nothing tells success from failure.", "演示数据里没有奖励：分不清成功和失败。"),
        (("{short}: {steps} steps, every reward is 0", "{short}：{steps} 步，奖励全为 0"),),
        ("Recorded without the task's success detection, or converted without the rewards.", "录制时没有成功检测，或转换时丢失了奖励。"),
        "tandem demos validate {file} --task {task}",
        ("All rewards of the file are 0.", "文件中所有奖励为 0。"),
    ),
    "demos_fail": Text(
        ("Most of the demonstrations do not succeed.", "多数演示没有成功。"),
        (("{short}: {share} of {episodes} episodes succeed", "{short}：{episodes} 个回合中 {share} 成功"),),
        ("Failed attempts were kept.", "失败的尝试也被保留了。"),
        "tandem record {task} --demos 25",
        ("Fewer than half of the episodes end in success.", "成功的回合不到一半。"),
    ),
    "demos_idle": Text(
        ("In the demonstrations the robot often stands still.", "演示数据中机器人经常不动。"),
        (("{short}: {share} of the steps do not move", "{short}：{share} 的步没有移动"),),
        (
            "The input device was not connected, or the person was waiting. A policy copies standing still.",
            "输入设备没接好，或操作者在等待。策略会学会不动。",
        ),
        "tandem demos inspect {file}",
        (
            f"All components within 0.01 of zero in more than {limits.IDLE_DEMOS:.0%} of the steps.",
            f"超过 {limits.IDLE_DEMOS:.0%} 的步所有动作分量都在 0.01 以内。",
        ),
    ),
    "demos_saturated": Text(
        ("In the demonstrations an action is mostly at its limit.", "演示数据的动作大多在极限。"),
        (
            (
                "{short}: component [{component}] is at its limit in {share} of the steps",
                "{short}：分量 [{component}] 在 {share} 的步中处于极限",
            ),
        ),
        (
            "The action scale is too small for the person's movements; a tanh policy can hardly express a limit.",
            "动作尺度小于人的动作；tanh 策略难以表达极限值。",
        ),
        "tandem demos inspect {file}",
        (f"Beyond 0.99 in more than {limits.SATURATED_DEMOS:.0%} of the steps.", f"超过 {limits.SATURATED_DEMOS:.0%} 的步大于 0.99。"),
    ),
    "no_demos": Text(
        ("The run has no demonstrations.", "本次运行没有演示数据。"),
        (("it learns '{task}' from its own steps alone", "只从自己的经历学习“{task}”"),),
        ("`--demos` was not given.", "没有给 `--demos`。"),
        "tandem train {task} --scripted-demos 25",
        ("The configuration names no file.", "配置里没有演示文件。"),
    ),
    # ---- training
    "still_filling": Text(
        ("Training has not begun: the replay buffer is still being filled.", "训练还没开始：仍在填充 replay buffer。"),
        (
            ("{have} of {wanted} actor steps (`training_starts`)", "{have} / {wanted} 个 Actor 步（`training_starts`）"),
            ("{rate} steps/s: another {left}", "每秒 {rate} 步：还需 {left}"),
        ),
        (
            "No steps arrive, or `training_starts` is far more than the actors make.",
            "没有数据到达，或 `training_starts` 远大于 actor 能产生的数据。",
        ),
        "tandem train {task} --training-starts 100",
        (
            f"No learner step yet. A problem if it will take more than {limits.FILLING_S / 60:.0f} minutes, or the run has ended.",
            f"Learner 步数为 0。预计超过 {limits.FILLING_S / 60:.0f} 分钟，或运行已结束，则视为问题。",
        ),
    ),
    "versions_went_back": Text(
        (
            "Policy versions went back: actors do not take what is older than what they have.",
            "策略版本倒退：actor 不会接受比已有版本更旧的参数。",
        ),
        (
            (
                "version {after} after version {before}, at learner step {learner_step}",
                "版本 {before} 之后出现版本 {after}，在 Learner 步数 {learner_step}",
            ),
            ("since start number {start} of the trainer", "自训练进程第 {start} 次启动起"),
        ),
        ("RUN/policy_version was lost or restored from a copy; it must only grow.", "RUN/policy_version 丢失或被旧备份覆盖；它只能增大。"),
        "echo {before} > {run}/policy_version && tandem train --resume {run}",
        (
            "Rows of metrics.jsonl in their order, and the hub's version against the trainer's.",
            "按顺序比较 metrics.jsonl 各行，以及 hub 与训练进程的版本。",
        ),
    ),
    "policies_not_published": Text(
        ("The learner trains but publishes too few policies.", "Learner 在训练，但发布的参数太少。"),
        (
            (
                "{seen} versions after {learner_step} learner steps; one every {every} steps makes {expected}",
                "{learner_step} 个 Learner 步后只有 {seen} 个版本；每 {every} 步一次应为 {expected}",
            ),
        ),
        (
            "Publishing fails (a full disk under RUN/policy.bin), or the run was changed by hand.",
            "发布失败（RUN/policy.bin 所在磁盘满），或运行被手工改动。",
        ),
        "grep LEARNER {run}/train.log | tail",
        ("Fewer than half of 1 + learner steps / steps_per_update.", "少于 1 + Learner 步数 / steps_per_update 的一半。"),
    ),
    "parameters_frozen": Text(
        ("The policy does not change from one version to the next.", "各版本之间参数没有变化。"),
        (
            (
                "the newest {versions} versions up to {newest} moved by nothing (size of the parameters {norm})",
                "截至版本 {newest} 的最近 {versions} 个版本参数移动为 0（参数范数 {norm}）",
            ),
            (
                "the newest {versions} versions up to {newest} all have the hash {hash}",
                "截至版本 {newest} 的最近 {versions} 个版本哈希都是 {hash}",
            ),
            ("the KL divergence was 0 in the newest {iterations} iterations", "最近 {iterations} 次迭代 KL 散度为 0"),
            ("learning_rate is {learning_rate}", "learning_rate 为 {learning_rate}"),
        ),
        ("A learning rate of 0, a frozen actor, or updates that are all dropped.", "学习率为 0、actor 被冻结，或所有更新都被丢弃。"),
        "tandem train {task} --learning-rate 3e-4",
        (
            f"The parameters of {limits.FROZEN_VERSIONS} versions in a row moved by less than {limits.FROZEN_CHANGE:g} of their size.",
            f"连续 {limits.FROZEN_VERSIONS} 个版本的参数移动小于其范数的 {limits.FROZEN_CHANGE:g}。",
        ),
    ),
    "learner_slow": Text(
        ("The learner is slow.", "Learner 太慢。"),
        (
            (
                "{seen} learner steps for each actor step, {wanted} were asked for",
                "每个 Actor 步只有 {seen} 个 Learner 步，要求是 {wanted}",
            ),
            ("a learner step takes {took} ms", "一个 Learner 步需要 {took} 毫秒"),
            ("this machine's matrix products would take about {possible} ms", "按本机矩阵乘法速度约需 {possible} 毫秒"),
        ),
        (
            "Networks, batches or `cta_ratio` too large for this machine, or other work on it.",
            "网络、批次或 `cta_ratio` 对本机太大，或有其他程序占用。",
        ),
        "python -m benchmarks.learner --quick",
        (
            f"Less than {limits.RATIO:.0%} of `updates_per_actor_step` over the newest rows, or a step of more than {limits.SLOW_FACTOR:.0f} times what the matrix products need.",
            f"最近各行低于 `updates_per_actor_step` 的 {limits.RATIO:.0%}，或单步时间超过矩阵乘法所需的 {limits.SLOW_FACTOR:.0f} 倍。",
        ),
    ),
    "updates_dropped": Text(
        ("Updates were not made because a number in them was not finite.", "有更新因出现非有限数而被丢弃。"),
        (("{count} so far, {recent} in the last 1,000 learner steps", "共 {count} 次，最近 1,000 个 Learner 步中 {recent} 次"),),
        ("Too large a learning rate, or data at the edge of what float32 holds.", "学习率太大，或数据接近 float32 的极限。"),
        "tandem train --resume {run} --learning-rate 1e-4",
        ("The learner's own count.", "Learner 自己的计数。"),
    ),
    # ---- learning
    "critic_diverged": Text(
        ("The critic diverges: its values cannot be.", "Critic 发散：Q 值不可能是这样。"),
        (
            (
                "rolled back to the last good state {times} times, last because {detail}",
                "已回退到上一个正常状态 {times} 次，最近一次因为 {detail}",
            ),
            ("mean Q is {q}; no return can be beyond {bound}", "平均 Q 为 {q}；回报不可能超过 {bound}"),
            ("learning_rate is {learning_rate}", "learning_rate 为 {learning_rate}"),
            ("the batch is kept in {file}", "当时的批次保存在 {file}"),
        ),
        (
            "Too large a learning rate, a critic without LayerNorm, or a reward that is not what the task declares.",
            "学习率太大、critic 没有 LayerNorm，或奖励与任务声明不符。",
        ),
        "tandem train {task} --learning-rate 3e-4",
        (
            f"A roll-back in the last {limits.RECENT_STEPS:,} learner steps, or a mean Q beyond {limits.DIVERGED_Q:g} times the largest return.",
            f"最近 {limits.RECENT_STEPS:,} 个 Learner 步内有回退，或平均 Q 超过最大回报的 {limits.DIVERGED_Q:g} 倍。",
        ),
    ),
    "q_overestimated": Text(
        ("The critic promises more than any episode can bring.", "Critic 高估：Q 超出回报可能的范围。"),
        (("mean Q is {q}; returns lie between {low} and {high}", "平均 Q 为 {q}；回报在 {low} 和 {high} 之间"),),
        (
            "Overestimation: too few critics, no LayerNorm, too many updates per step of data.",
            "高估：critic 太少、没有 LayerNorm，或每步数据更新太多次。",
        ),
        "tandem train {task} --critic-ensemble-size 10 --critic-subsample-size 2",
        (
            f"Mean Q more than {limits.OVERESTIMATED:.0%} of the range of returns outside of it, in half of the newest rows.",
            f"最近一半以上的行中平均 Q 超出回报范围 {limits.OVERESTIMATED:.0%} 以上。",
        ),
    ),
    "ensemble_collapsed": Text(
        ("The critics of the ensemble are one and the same.", "集成中的 critic 完全一样。"),
        (("{size} critics whose weights differ by {difference} of their size", "{size} 个 critic，权重相对差异 {difference}"),),
        ("They were started from the same numbers: their minimum is no safer than one of them.", "初始化相同：取最小值不再起保护作用。"),
        "tandem train {task}",
        (
            f"Weights in the newest checkpoint that differ by less than {limits.COLLAPSED:g}.",
            f"最新检查点中权重差异小于 {limits.COLLAPSED:g}。",
        ),
    ),
    "critic_loss_rising": Text(
        ("The critic's loss rises.", "critic_loss 在上升。"),
        (("median {now} lately, {before} before", "最近中位数 {now}，之前 {before}"), ("{factor} times as much", "是之前的 {factor} 倍")),
        (
            "Values that begin to run away, or data that changed its nature (another set-up, another reward).",
            "Q 值开始发散，或数据性质变了（换了装置或奖励）。",
        ),
        "tandem doctor {run} --json",
        (
            f"The median of the last fifth of the rows is more than {limits.LOSS_RISE:g} times that of the second quarter, and not tiny.",
            f"最近五分之一行的中位数超过前期的 {limits.LOSS_RISE:g} 倍，且不是极小值。",
        ),
    ),
    "temperature_runaway": Text(
        ("The temperature runs away: entropy counts for more than reward.", "温度失控：熵的权重超过了奖励。"),
        (("temperature {temperature}, it began at {initial}", "温度 {temperature}，初始为 {initial}"),),
        (
            "The policy cannot reach its target entropy (a saturated or collapsed policy), so its weight grows without end.",
            "策略达不到目标熵（饱和或塌缩），权重不断增大。",
        ),
        "tandem train {task} --target-entropy -10",
        (f"Above 1 and {limits.HOT_TEMPERATURE:.0f} times its start.", f"大于 1 且超过初始值的 {limits.HOT_TEMPERATURE:.0f} 倍。"),
    ),
    "entropy_collapsed": Text(
        ("The policy has no randomness left.", "策略几乎没有随机性了。"),
        (("entropy {entropy}, the target is {target}", "熵 {entropy}，目标 {target}"),),
        ("A temperature that is far too small, or values that are far too sure.", "温度太小，或 Q 值过于确定。"),
        "tandem train {task} --temperature-init 0.1",
        (
            f"More than {limits.ENTROPY_BELOW:g} nats per action component below the target, in all of the newest rows.",
            f"最近各行都比目标低 {limits.ENTROPY_BELOW:g} nats（每个动作分量）以上。",
        ),
    ),
    "entropy_high": Text(
        ("The policy is still as random as uniform actions.", "策略仍与均匀随机动作一样随机。"),
        (("entropy {entropy}; uniform random actions have {uniform}", "熵 {entropy}；均匀随机动作为 {uniform}"),),
        ("No reward to learn from, or a temperature that outweighs it.", "没有可学的奖励，或温度压过了奖励。"),
        "tandem train {task} --temperature-init 0.01",
        (
            f"Above {limits.ENTROPY_UNIFORM:.0%} of it after {2 * limits.RECENT_STEPS:,} learner steps.",
            f"{2 * limits.RECENT_STEPS:,} 个 Learner 步后仍高于其 {limits.ENTROPY_UNIFORM:.0%}。",
        ),
    ),
    "reward_never_seen": Text(
        ("No reward has ever been seen online.", "在线数据里从来没有奖励。"),
        (
            (
                "about {episodes} episodes ({actor_step} actor steps), every return is 0",
                "约 {episodes} 个回合（{actor_step} 个 Actor 步），回报全为 0",
            ),
            ("[no_demos] and there are no demonstrations", "[no_demos] 而且没有演示数据"),
            ("the demonstrations ({demos} steps) are there", "演示数据（{demos} 步）在"),
        ),
        (
            "A success detection that never fires, or a task that is never solved by chance: then demonstrations or corrections are needed.",
            "成功检测从不触发；或者任务靠偶然根本做不到，需要演示或人工干预。",
        ),
        "tandem play {task} --operator scripted",
        (
            f"All returns in metrics.jsonl and all sampled rewards are 0 after {limits.EPISODES_TO_WARN} episodes (a problem after {limits.EPISODES_WITHOUT_REWARD}).",
            f"{limits.EPISODES_TO_WARN} 个回合后所有回报和抽样奖励都是 0（{limits.EPISODES_WITHOUT_REWARD} 个回合后视为问题）。",
        ),
    ),
    "success_stuck": Text(
        ("A person helps as much as ever, and the robot alone does not get better.", "人工干预一直很多，而机器人自己没有进步。"),
        (
            (
                "{share} of the newest steps are a person's; without help {success} succeed, earlier {earlier}",
                "最近 {share} 的步由人完成；无干预成功率 {success}，之前 {earlier}",
            ),
        ),
        (
            "Corrections that come too early, so that the policy's own mistakes are never seen, or that disagree with the demonstrations.",
            "干预太早，策略自己的错误没有被看到；或干预与演示不一致。",
        ),
        "tandem doctor {run} --clocks",
        (
            f"More than {limits.INTERVENED_SHARE:.0%} interventions in the last third, and success without help not 10 points above the first third.",
            f"最近三分之一里干预超过 {limits.INTERVENED_SHARE:.0%}，且无干预成功率没有比最初三分之一高 10 个百分点。",
        ),
    ),
    "evaluation_differs": Text(
        ("Evaluation and training disagree about how good the policy is.", "评估结果与训练中的成功率相差很大。"),
        (("evaluated {evaluated}, in training {training}, twice in a row", "评估 {evaluated}，训练中 {training}，连续两次"),),
        (
            "Evaluated lower: the mean action gets stuck where noise slips through, or people help in training. Higher: the actor acts with another policy than the one that is evaluated.",
            "评估更低：确定性动作会卡住，或训练中有人帮忙。评估更高：actor 用的不是被评估的参数。",
        ),
        "tandem eval {run} --stochastic",
        (
            f"More than {limits.EVALUATION_BELOW:.0%} below or {limits.EVALUATION_ABOVE:.0%} above the training episodes, in the last two evaluations.",
            f"最近两次评估比训练低 {limits.EVALUATION_BELOW:.0%} 以上或高 {limits.EVALUATION_ABOVE:.0%} 以上。",
        ),
    ),
    "worse_than_demos": Text(
        ("The policy is still far worse than its demonstrations.", "策略仍远不如演示。"),
        (
            (
                "success {success} after {learner_step} learner steps; the demonstrations {demos}",
                "{learner_step} 个 Learner 步后成功率 {success}；演示 {demos}",
            ),
        ),
        (
            "The demonstrations cover too little, an observation that matters is missing, or the discount is too short for the task.",
            "演示覆盖太少、缺少关键观察，或折扣对任务来说太小。",
        ),
        "tandem bc {task} --demos FILE   # can it be cloned at all?",
        (
            f"Less than half of the demonstrations' success after {limits.LATE_STEPS:,} learner steps.",
            f"{limits.LATE_STEPS:,} 个 Learner 步后成功率不到演示的一半。",
        ),
    ),
    # ---- PPO
    "ppo_not_finite": Text(
        ("PPO's updates are dropped because their gradients are not finite.", "PPO 的更新因梯度非有限而被丢弃。"),
        (
            ("{dropped} dropped in the newest {iterations} iterations", "最近 {iterations} 次迭代丢弃 {dropped} 次"),
            ("{made} were made", "完成 {made} 次"),
        ),
        ("Too large a learning rate, rewards that are too large, or a simulation that breaks.", "学习率或奖励太大，或仿真出错。"),
        "tandem ppo {task} --learning-rate 3e-4",
        ("`Loss/dropped_updates` above 0 lately.", "最近 `Loss/dropped_updates` 大于 0。"),
    ),
    "ppo_kl_high": Text(
        ("The policy changes too much in one iteration.", "策略每次迭代变化太大。"),
        (("KL divergence {kl}, wanted {wanted}", "KL 散度 {kl}，期望 {wanted}"),),
        ("A learning rate that is too large, too many epochs, or mini-batches that are too small.", "学习率太大、轮数太多，或小批次太小。"),
        "tandem ppo {task} --schedule adaptive --desired-kl 0.01",
        (
            f"The median of the newest rows is more than {limits.KL_FACTOR:.0f} times `desired_kl`.",
            f"最近各行的中位数超过 `desired_kl` 的 {limits.KL_FACTOR:.0f} 倍。",
        ),
    ),
    "ppo_clip_fraction_high": Text(
        ("Most of PPO's ratios are clipped.", "PPO 的大部分比率被裁剪。"),
        (("{share} of the samples are clipped (clip_param {clip})", "{share} 的样本被裁剪（clip_param {clip}）"),),
        ("The same as for a high KL: steps that are too large.", "与 KL 过高相同：步子太大。"),
        "tandem ppo {task} --learning-rate 3e-4",
        (f"More than {limits.CLIP_FRACTION:.0%} in the median of the newest rows.", f"最近各行中位数超过 {limits.CLIP_FRACTION:.0%}。"),
    ),
    "ppo_explained_variance_low": Text(
        ("The value function explains nothing of the returns.", "价值函数完全没有解释回报。"),
        (
            (
                "explained variance {explained} in the newest {iterations} iterations; a constant would have 0",
                "最近 {iterations} 次迭代解释方差 {explained}；常数为 0",
            ),
        ),
        (
            "Returns of another size than the network's, too short a horizon, or the critic does not see what matters.",
            "回报尺度与网络不符、折扣太短，或 critic 看不到关键信息。",
        ),
        "tandem ppo {task} --normalize-values",
        (f"The median is below 0 after {limits.PPO_WARM_UP} iterations.", f"{limits.PPO_WARM_UP} 次迭代后中位数仍小于 0。"),
    ),
    "ppo_std_collapsed": Text(
        ("The policy's standard deviation has collapsed: nothing is explored.", "策略标准差塌缩：不再探索。"),
        (("mean std {std}", "平均标准差 {std}"),),
        ("No entropy bonus, or advantages that are dominated by a few samples.", "没有熵奖励，或优势被少数样本主导。"),
        "tandem ppo {task} --entropy-coef 0.01",
        (f"Below {limits.STD_LOW:g}.", f"小于 {limits.STD_LOW:g}。"),
    ),
    "ppo_std_runaway": Text(
        ("The policy's standard deviation runs away.", "策略标准差失控增大。"),
        (("mean std {std}, it began at {initial}", "平均标准差 {std}，初始 {initial}"),),
        ("An entropy bonus that outweighs the reward.", "熵奖励压过了任务奖励。"),
        "tandem ppo {task} --entropy-coef 0",
        (f"More than {limits.STD_HIGH:g} times its start.", f"超过初始值的 {limits.STD_HIGH:g} 倍。"),
    ),
    # ---- data
    "success_without_reward": Text(
        ("Successes are not rewarded.", "成功却没有奖励。"),
        (("{unpaid} of {successes} successes that were looked at have the reward 0", "抽查的 {successes} 次成功中有 {unpaid} 次奖励为 0"),),
        ("The reward and the success detection of the task disagree: a bug in the reward.", "任务的奖励与成功检测不一致：奖励有 bug。"),
        "tandem play {task} --operator scripted",
        ("At least 3, and half, of the sampled successes have no reward.", "抽样成功中至少 3 次且一半以上没有奖励。"),
    ),
    "steps_rejected": Text(
        ("Steps were rejected: they cannot be learned from.", "有数据被拒绝：不能用于训练。"),
        (
            ("{rejected} steps ({share} of all)", "{rejected} 步（占 {share}）"),
            ("{count} of them because {detail}", "其中 {count} 步因为 {detail}"),
        ),
        ("A sensor that fails, a simulation that breaks, or an action outside of [-1, 1].", "传感器出错、仿真发散，或动作超出 [-1, 1]。"),
        "tandem demos validate {run}/journal.db",
        (
            "Rows of the journal with the status `rejected`; a problem if more than half are.",
            "journal 中状态为 `rejected` 的行；超过一半视为问题。",
        ),
    ),
    "steps_missing": Text(
        ("Steps are missing in the data.", "数据中有缺失的步。"),
        (("source {source}: {missing} missing up to its step {last}", "来源 {source}：到第 {last} 步为止缺 {missing} 步"),),
        ("An actor whose spool was removed, or a journal that was edited.", "actor 的 spool 被删除，或 journal 被改动。"),
        "tandem demos validate {run}/journal.db",
        ("A source counts its steps from 0 without gaps.", "每个来源从 0 连续编号。"),
    ),
    "timeouts_as_terminal": Text(
        ("Time-outs are stored as the task's own end.", "超时被当成任务终止保存。"),
        (
            (
                "{count} of {ends} ends are 'terminated' at the limit of {limit} steps without success",
                "{ends} 个结尾中有 {count} 个在 {limit} 步上限处“terminated”且没有成功",
            ),
        ),
        (
            "The environment returns terminated where it should return truncated: the value beyond the limit is lost.",
            "环境在超时时返回了 terminated 而不是 truncated：之后的价值被丢掉。",
        ),
        "tandem demos validate {run}/journal.db",
        (
            "Ends at `max_episode_steps` that are terminated, without success and without reward.",
            "在 `max_episode_steps` 处 terminated、没有成功也没有奖励的结尾。",
        ),
    ),
    "terminal_without_reward": Text(
        ("Most episodes end early without success.", "多数回合提前结束且没有成功。"),
        (("{count} of {ends} ends, after {length} steps on average", "{ends} 个结尾中有 {count} 个，平均 {length} 步"),),
        ("A failure condition that is met at once, or a start outside of the workspace.", "失败条件立刻满足，或起点在工作空间之外。"),
        "tandem play {task}",
        (
            "Half of the sampled ends are terminated, without success and reward, before the time limit.",
            "抽样结尾中一半以上在时限前终止且没有成功和奖励。",
        ),
    ),
    "observations_drifted": Text(
        ("What the robot sees at the start of an episode has drifted.", "回合开始时的观察值发生漂移。"),
        (
            (
                "[than_early] {entry} begins at {now}, earlier in this run at {before}: {drift} standard deviations",
                "[than_early] {entry} 现在从 {now} 开始，之前是 {before}：相差 {drift} 个标准差",
            ),
            (
                "[than_demos] {entry} begins at {now}, in the demonstrations at {before}: {drift} standard deviations",
                "[than_demos] {entry} 现在从 {now} 开始，演示中是 {before}：相差 {drift} 个标准差",
            ),
        ),
        (
            "A sensor that lost its zero, a camera or a part that was moved, another start than was demonstrated.",
            "传感器零点漂移、相机或工件被移动，或起点与演示不同。",
        ),
        "tandem demos inspect {run}/journal.db",
        (
            f"Means of the first observations of {limits.FEW_EPISODES} or more episodes each, more than {limits.DRIFT:g} standard deviations apart.",
            f"各 {limits.FEW_EPISODES} 个以上回合的首个观察均值相差超过 {limits.DRIFT:g} 个标准差。",
        ),
    ),
    "observations_clipped": Text(
        ("An observation is often larger than the networks can see.", "观察值经常超出网络能看到的范围。"),
        (("{entry} is beyond 5 times its scale ({scale}) in {share} of the steps", "{entry} 在 {share} 的步中超过尺度（{scale}）的 5 倍"),),
        ("The scale in the task's spec is too small.", "任务 spec 里的尺度太小。"),
        "tandem demos inspect {run}/journal.db",
        (f"More than {limits.CLIPPED_SHARE:.0%} of the newest steps.", f"超过最近步数的 {limits.CLIPPED_SHARE:.0%}。"),
    ),
    "disk_will_fill": Text(
        ("The disk will be full before the run ends.", "运行结束之前磁盘就会写满。"),
        (
            (
                "{free} free, the journal grows by {growth} an hour: full in {left}",
                "剩余 {free}，journal 每小时增长 {growth}：{left} 后写满",
            ),
        ),
        ("Images in the observations, or an old disk full of runs.", "观察里有图像，或磁盘上旧的运行太多。"),
        "du -sh {run}/../* | sort -h | tail",
        (
            "Free space against the growth of the journal so far, for an hour or the rest of the run.",
            "按 journal 目前的增长速度估计一小时内或运行剩余时间。",
        ),
    ),
    "memory_will_fill": Text(
        ("The replay buffer will not fit into memory.", "内存放不下 replay buffer。"),
        (("{to_come} are still to come (capacity {capacity}), {free} are free", "还需要 {to_come}（容量 {capacity}），可用 {free}"),),
        ("Images in the observations with a large capacity.", "观察里有图像且容量很大。"),
        "tandem train --resume {run} --replay-buffer-capacity 50000",
        (
            f"What the buffer will still take is more than {limits.MEMORY_SHARE:.0%} of the free memory.",
            f"还要占用的内存超过可用内存的 {limits.MEMORY_SHARE:.0%}。",
        ),
    ),
    # ---- machine
    "no_gl": Text(
        ("There are cameras and nothing to draw with.", "有相机观察，但没有可用的渲染库。"),
        (("the observation has the image '{entry}'; neither EGL nor OSMesa was found", "观察中有图像“{entry}”；没有找到 EGL 或 OSMesa"),),
        ("The OpenGL libraries are not installed.", "没有安装 OpenGL 库。"),
        "apt install libegl1 libgl1-mesa-dri && export MUJOCO_GL=egl",
        ("Looked for in the system's library folders.", "在系统库目录中查找。"),
    ),
    "few_cores": Text(
        ("One core for everything: actor and learner take turns.", "只有一个核：actor 和 Learner 轮流运行。"),
        (("{cores} core", "{cores} 个核"),),
        ("A small machine, or a container's limit.", "机器小，或容器限制。"),
        "nproc",
        ("Cores that this process may use.", "本进程可用的核数。"),
    ),
    "gpu_present": Text(
        ("There is a GPU, and JAX was installed without support for it.", "有 GPU，但安装的 JAX 不支持它。"),
        (("jax {jax}", "jax {jax}"),),
        ("The CPU build is the default; for small networks it is the faster one.", "默认安装 CPU 版；小网络用 CPU 反而更快。"),
        "pip install -U 'jax[cuda12]'",
        ("A device file of a GPU, and no plugin for JAX.", "有 GPU 设备文件，但没有 JAX 插件。"),
    ),
    "other_tandem": Text(
        ("The run was made by another version of Tandem.", "这次运行由另一个版本的 Tandem 产生。"),
        (("made by {made}, looked at by {mine}", "由 {made} 产生，用 {mine} 查看"),),
        ("It was updated in between.", "中间更新过。"),
        "pip show tandem",
        ("The version in the event `started`.", "`started` 事件里的版本。"),
    ),
}


def tell(finding: Finding, lang: Language, common: Mapping[str, Any]) -> Told:
    """A finding in words; `common` are the names that commands use (run, task, address, host, port)."""
    text, which = TEXTS[finding.name], LANGUAGES.index(lang)
    known = {name: value for name, value in {**common, **finding.facts}.items() if value is not None}
    shown = {name: in_words(value, lang) for name, value in known.items()}
    raw = {name: value if isinstance(value, str) else str(value) for name, value in known.items()}
    lines = (_line(words[which], shown) for words in text.evidence)
    return Told(
        name=finding.name,
        severity=finding.severity,
        what=text.what[which],
        evidence=[line for line in lines if line is not None],
        cause=text.cause[which],
        next=_filled(text.next, raw),
        explains=list(finding.explains),
    )


def _line(template: str, shown: Mapping[str, str]) -> str | None:
    """Filled in; None where something that it speaks of is not known."""
    required = re.match(r"\[(\w+)\] ?", template)
    if required is not None:
        if required[1] not in shown:
            return None
        template = template[required.end() :]
    if any(name not in shown for name in re.findall(r"{(\w+)}", template)):
        return None
    return template.format(**shown)


def _filled(command: str, raw: Mapping[str, str]) -> str:
    """What is not known stays a word in capitals for the person to fill in."""
    names = {name: name.upper() for name in re.findall(r"(?<!{){(\w+)}", command)}
    return command.format(**(names | {name: value for name, value in raw.items() if name in names}))


def in_words(value: Any, lang: Language) -> str:
    """A fact as people write it."""
    if isinstance(value, bool):
        return ""
    if isinstance(value, Seconds):
        return _duration(value, lang)
    if isinstance(value, Share):
        return f"{100 * value:.0f} %"
    if isinstance(value, Bytes):
        return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.1f} MB"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 and float(value).is_integer() else f"{value:.3g}"
    return str(value)


def _duration(seconds: float, lang: Language) -> str:
    units = ("s", "min", "h", "days") if lang == "en" else ("秒", "分钟", "小时", "天")
    if seconds < 10:
        return f"{seconds:.1f} {units[0]}"
    if seconds < 120:
        return f"{seconds:.0f} {units[0]}"
    if seconds < 7200:
        return f"{seconds / 60:.0f} {units[1]}"
    return f"{seconds / 3600:.1f} {units[2]}" if seconds < 172_800 else f"{seconds / 86_400:.0f} {units[3]}"
