# ruff: noqa: E501  (a table of sentences: broken lines would be harder to read and to translate)
"""The text of every finding, in English and in Chinese, in one table.

`{name}` is replaced by a fact of the finding. A line of evidence is printed only if all its facts are known; a line that starts
with `[name]` only if that fact is present. `next` is the command to type. It may also use `{run}`, `{task}`, `{address}` and
`{join}` (the options with which an actor joins the run).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tandem.doctor import limits
from tandem.doctor.demo_texts import DEMO_TEXTS
from tandem.doctor.findings import Bytes, Finding, Seconds, Share
from tandem.doctor.robot_texts import ROBOT_TEXTS
from tandem.doctor.text import LANGUAGES as LANGUAGES
from tandem.doctor.text import Description, Text
from tandem.doctor.text import Language as Language
from tandem.doctor.text import Words as Words

TEXTS: dict[str, Text] = {
    # ---- reaching the hub
    "address_unknown": Text(
        ("This host name cannot be resolved.", "这个主机名无法解析。"),
        (("{address}: {detail}", "{address}：{detail}"),),
        (
            "A typing mistake, or the name is not in this machine's DNS or hosts file. If you meant a run folder: there is no folder of this name here.",
            "主机名写错，或者本机的 DNS / hosts 里没有它。如果想写的是运行目录：这里没有这个目录。",
        ),
        "getent hosts {host}",
        ("The system cannot resolve the name to an address.", "系统无法把这个名字解析成地址。"),
    ),
    "host_unreachable": Text(
        ("The machine cannot be reached.", "连不到那台机器。"),
        (("{address}: {detail}", "{address}：{detail}"),),
        ("The machine is off, it is in another network, or there is no route to it.", "机器未开机、不在同一网络，或没有路由。"),
        "ping -c 3 {host}",
        ("The operating system reports a network error before a connection is made.", "建立连接之前，操作系统就报告网络错误。"),
    ),
    "connection_refused": Text(
        (
            "The connection was refused: the machine is up, but no program listens on this port.",
            "连接被拒绝：机器在线，但没有程序监听这个端口。",
        ),
        (("{address}: {detail}", "{address}：{detail}"),),
        (
            "The learner is not running, it listens on another port (see the first lines of its output, or RUN/hub.json), or it only accepts "
            "connections from its own machine (`--host 0.0.0.0` accepts others).",
            "Learner 没有运行；或者端口不对（Learner 启动日志和 RUN/hub.json 里有正确端口）；或者只监听本机（用 `--host 0.0.0.0` 允许其他机器连接）。",
        ),
        "tandem learner {task} --host 0.0.0.0",
        ("The TCP connection is refused immediately.", "TCP 连接立刻被拒绝。"),
    ),
    "no_answer": Text(
        ("There is no answer from this address.", "这个地址没有回应。"),
        (
            (
                "[not_connected] {address}: the connection was neither made nor refused within 3 s",
                "[not_connected] {address}：3 秒内连不上，也没有被拒绝",
            ),
            (
                "[connected] {address}: the connection opens, but no reply comes within 3 s",
                "[connected] {address}：能建立连接，但 3 秒内没有任何数据返回",
            ),
        ),
        (
            "A firewall drops the packets, or a cable or VPN is down. If the connection opens, the hub process is stopped or overloaded.",
            "防火墙丢弃了数据包，或者网线、VPN 断开。如果连接能建立，则是 hub 进程被暂停或过载。",
        ),
        "nc -vz -w 3 {host} {port}",
        ("No connection, or no reply to a request, within 3 seconds.", "3 秒内连不上，或者请求没有应答。"),
    ),
    "not_a_hub": Text(
        ("The program at this address is not a Tandem hub.", "这个地址上运行的不是 Tandem 的 hub。"),
        (("{address}: {detail}", "{address}：{detail}"),),
        (
            "The port is wrong, or only one side uses TLS. For a hub with a certificate give wss://HOST:PORT and --ca.",
            "端口写错，或者只有一端用了 TLS。hub 有证书时，请用 wss://HOST:PORT 和 --ca。",
        ),
        "tandem doctor {run}",
        ("The reply to /api/status does not have the format of a hub.", "/api/status 的回答不是 hub 的格式。"),
    ),
    "untrusted_certificate": Text(
        ("The certificate of the hub is not trusted.", "hub 的证书不受信任。"),
        (("{address}: {detail}", "{address}：{detail}"),),
        (
            "The certificate is self-signed and was not given with --ca, or it was issued for another host name.",
            "证书是自签的，但没有用 --ca 给出；或者证书是为别的主机名签发的。",
        ),
        "tandem doctor wss://{address} --ca CERTIFICATE --token-file TOKEN",
        ("Certificate verification fails in the TLS handshake.", "TLS 握手时证书校验失败。"),
    ),
    "wrong_token": Text(
        ("The hub is running but does not accept the token.", "hub 在运行，但不接受这个 token。"),
        (
            ("[given] {address} replies 401 to the token that was given", "[given] {address} 对给出的 token 返回 401"),
            ("[not_given] {address} replies 401; no token was given", "[not_given] {address} 返回 401；没有给出 token"),
        ),
        (
            "Each run has its own token, in the file RUN/token on the learner's machine. The token was not given, belongs to another run, or is incomplete.",
            "每次运行都有自己的 token，保存在 Learner 机器的 RUN/token 里。这里没有给出 token，或者它属于另一次运行，或者不完整。",
        ),
        "scp {host}:RUN/token token && tandem doctor {address} --token-file token",
        ("The hub replies HTTP 401 with its error code `wrong_token`.", "hub 返回 HTTP 401，错误码为 `wrong_token`。"),
    ),
    "other_version": Text(
        ("The two sides use different versions of the protocol.", "两端的协议版本不同。"),
        (
            ("reported by the hub: {detail}", "hub 报告：{detail}"),
            ("the actor '{actor}' was refused {times} times", "actor“{actor}”被拒绝 {times} 次"),
        ),
        ("Tandem was updated on one machine and not on the other.", "只更新了其中一台机器上的 Tandem。"),
        "pip install --upgrade tandem-rl   # on both machines",
        (
            "The first message of an actor, or the diagnosis from the hub, has another protocol number.",
            "actor 的第一条消息或 hub 的诊断带有另一个协议号。",
        ),
    ),
    # ---- processes
    "run_broke": Text(
        ("The run produced a NaN or infinite value and stopped.", "运行出现了 NaN 或无穷大并停止。"),
        (("saved in {file}", "已保存到 {file}"), ("error: {detail}", "错误：{detail}")),
        (
            "In a simulation: contacts are too stiff for the time step, or a randomised value is out of range. In an environment of your own: a division by zero in its code, or a sensor without a value. In PPO, if the environment is not named in the error: the learning rate or the rewards are too large.",
            "仿真中：接触刚度对时间步长来说太大，或随机化的参数超出范围。自己的环境中：代码里除以零，或传感器没有读数。PPO 中，如果错误里没有指明环境：学习率或奖励太大。",
        ),
        "tandem doctor replay {file}",
        (
            "There is an event `broken`, or a file in RUN/broken is newer than the last start.",
            "有 `broken` 事件，或者 RUN/broken 里有比最近一次启动更新的文件。",
        ),
    ),
    "part_failed": Text(
        ("A part of the run failed, and the run ended with it.", "运行的某个部分出错，运行随之结束。"),
        (
            ("the {part} {how}", "{part}：{how}"),
            ("its error: {error}", "它的错误：{error}"),
            ("[silent] it left no error of its own", "[silent] 它没有留下错误信息"),
        ),
        (
            "An actor or the environment: it raised an error in `step` or `reset`, or its code or a library ended the process. The hub or the trainer: see the error.",
            "Actor 或环境：环境在 `step` 或 `reset` 里报错，或者它的代码、它用的库结束了进程。hub 或训练进程：见错误信息。",
        ),
        "tandem {command} --resume {run}",
        (
            "The run wrote an event `part_failed` after its parts were last started.",
            "最近一次启动各部分之后，运行写了 `part_failed` 事件。",
        ),
        next_unscripted="tandem env describe {task}   # steps it alone; once it is mended: tandem {command} --resume {run}",
    ),
    "run_died": Text(
        ("The run is not running and did not finish.", "运行已经停止，但没有正常结束。"),
        (
            (
                "there is no summary, and no file was written for {silent}; the last learner step is {learner_step}",
                "没有 summary，{silent} 内没有写入任何文件；最后的 Learner 步数是 {learner_step}",
            ),
        ),
        (
            "The process was killed (often: out of memory), the machine went down, or an error was printed in its terminal.",
            "进程被杀死（常见原因是内存不足）、机器断电，或者报错退出（错误打印在它的终端里）。",
        ),
        "tandem {command} --resume {run}",
        (
            f"There is no summary.json, no running hub, and no file was written for {limits.ASLEEP_S:.0f} s.",
            f"没有 summary.json，没有运行中的 hub，且 {limits.ASLEEP_S:.0f} 秒没有写入文件。",
        ),
    ),
    "disk_full": Text(
        ("The hub cannot store steps: the disk is full.", "hub 无法保存数据：磁盘已满。"),
        (("reported by the hub: {detail}", "hub 报告：{detail}"), ("free on that disk: {free}", "该磁盘剩余：{free}")),
        (
            "The disk is full or has less room than the reserve that is kept for checkpoints (--disk-reserve-mb), or a quota is reached. No "
            "step is lost: actors keep their steps until the hub can write again.",
            "磁盘满，或剩余空间少于为 checkpoint 保留的空间（--disk-reserve-mb），或达到配额。数据没有丢失：actor 会保留数据，直到 hub 能再次写入。",
        ),
        "df -h {run}",
        ("The hub reports that its last write failed.", "hub 报告最近一次写入失败。"),
    ),
    "journal_unreadable": Text(
        ("The journal of the run cannot be read.", "运行的 journal 无法读取。"),
        (("{detail}", "{detail}"),),
        (
            "The file was copied incompletely, the disk is damaged, or it is a file of another program.",
            "文件没有复制完整、磁盘损坏，或者是其他程序的文件。",
        ),
        "tandem demos validate {run}/journal.db",
        ("RUN/journal.db exists but cannot be opened.", "RUN/journal.db 存在但打不开。"),
    ),
    "hub_silent": Text(
        ("The hub hangs: no data passes between the learner and the actors.", "hub 没有反应：Learner 和 actor 之间没有数据流动。"),
        (("the hub last wrote its status {silent} ago, while the run continues", "hub 上次写状态是 {silent} 之前，而运行还在继续"),),
        (
            "The hub process was stopped or killed, or the machine is out of memory and swaps.",
            "hub 进程被暂停或杀死，或机器内存不足、正在换页。",
        ),
        "tandem train --resume {run}",
        (
            f"RUN/live.json is older than {limits.FRESH_S:.0f} s (it is written every 2 s) while other files of the run still change.",
            f"RUN/live.json 超过 {limits.FRESH_S:.0f} 秒没有更新（正常每 2 秒一次），而运行的其他文件还在变化。",
        ),
    ),
    "trainer_dead": Text(
        ("The trainer does not respond: it does not train and publishes no policy.", "训练进程没有响应：没有训练，也不发布策略。"),
        (("its last phase was '{phase}', at learner step {learner_step}", "最后的阶段是“{phase}”，Learner 步数 {learner_step}"),),
        (
            "The trainer was killed, is stopped, or hangs in an update. Its last output is in the terminal that started it.",
            "训练进程被杀死、被暂停，或卡在一次更新里。它最后的输出在启动它的终端里。",
        ),
        "tandem train --resume {run}",
        (
            "The trainer's heartbeat has not changed for 5 s, and the trainer is neither compiling nor evaluating.",
            "训练进程的心跳 5 秒没有变化，且不在编译或评估中。",
        ),
    ),
    "often_restarted": Text(
        ("A process of the run keeps crashing.", "运行的某个进程反复崩溃。"),
        (
            (
                "{part} was ended by {signal}; {times} restarts in the last 10 minutes",
                "{part} 被 {signal} 结束；最近 10 分钟重启 {times} 次",
            ),
        ),
        (
            "SIGKILL usually means that the machine ran out of memory; SIGSEGV is usually a fault in a driver or a library.",
            "SIGKILL 通常表示内存不足；SIGSEGV 多为驱动或库的问题。",
        ),
        "dmesg | tail -20",
        (
            f"At least {limits.OFTEN_RESTARTED} `restarted` events in 10 minutes.",
            f"10 分钟内至少 {limits.OFTEN_RESTARTED} 个 `restarted` 事件。",
        ),
    ),
    "paused": Text(
        ("The run is paused by a command.", "运行被命令暂停。"),
        (("paused at learner step {learner_step}", "暂停在 Learner 步数 {learner_step}"),),
        ("`pause` was sent from the page or the API, and no `resume` since.", "页面或 API 发过 `pause`，之后没有 `resume`。"),
        'curl -X POST -H "Authorization: Bearer $(cat {run}/token)" -d \'{{"command": "resume"}}\' http://{address}/api/command',
        ("The trainer reports the phase `paused`.", "训练进程报告的阶段是 `paused`。"),
    ),
    "interrupted": Text(
        ("The run was interrupted and can be resumed.", "运行被中断，可以继续。"),
        (("interrupted at learner step {learner_step}", "中断在 Learner 步数 {learner_step}"),),
        ("Ctrl-C was pressed, or the parent process ended.", "按了 Ctrl-C，或主进程结束。"),
        "tandem {command} --resume {run}",
        ("summary.json has `stopped: interrupted`.", "summary.json 里有 `stopped: interrupted`。"),
    ),
    # ---- refusals
    "other_task": Text(
        ("An actor of another task tried to join.", "有一个任务不同的 actor 想加入。"),
        (("the actor '{actor}' was refused {times} times: {detail}", "actor“{actor}”被拒绝 {times} 次：{detail}"),),
        ("Two runs or two start scripts were confused.", "混淆了两次运行或两个启动脚本。"),
        "tandem actor {task} {join}",
        (
            "The hub logged an event `refused` with the code `task`, and no actor of that name has joined since.",
            "hub 记录了 `refused` 事件（代码 `task`），之后没有同名 actor 加入。",
        ),
    ),
    "other_spec": Text(
        (
            "An actor has other observations or actions than this run.",
            "actor 的观测或动作与本次运行不一致。",
        ),
        (("the actor '{actor}' was refused {times} times: {detail}", "actor“{actor}”被拒绝 {times} 次：{detail}"),),
        ("The two sides use different versions or options of the task.", "两端的任务版本或任务选项不同。"),
        "tandem actor {task} {join}   # same version and options as the learner",
        (
            "The hub logged an event `refused` with the code `spec`. It names the entry and both shapes.",
            "hub 记录了 `refused` 事件（代码 `spec`），其中写明不同的条目和两边的形状。",
        ),
    ),
    "foreign_steps": Text(
        ("Somebody sends steps in the name of another robot.", "有人以另一台机器人的名义发送数据。"),
        (
            ("{steps} steps were refused; nothing of them is in the journal", "拒绝了 {steps} 步，没有写入 journal"),
            ("the last ones: {detail}", "最近一次：{detail}"),
        ),
        (
            "An actor was started with another token than the one whose steps it found in its spool folder, or somebody forges steps with a token that is not theirs.",
            "actor 启动时用的令牌，不是 spool 目录中那些数据原来的令牌；或者有人用别人的令牌伪造数据。",
        ),
        "tandem access {run} list",
        (
            "The hub refused steps because their source was brought by another credential (`foreign_steps` in its status).",
            "hub 因来源属于另一个凭证而拒绝了数据（状态中的 `foreign_steps`）。",
        ),
    ),
    "failed_logins": Text(
        ("Wrong tokens are shown to the hub again and again.", "不断有人向 hub 出示错误的令牌。"),
        (("{times} wrong tokens within ten minutes, most of them from {host}", "十分钟内 {times} 次错误令牌，多数来自 {host}"),),
        (
            "An actor or a program still uses a token that was revoked or replaced, or somebody tries to get in. `RUN/audit.jsonl` says when and from where.",
            "某个 actor 或程序仍在用已撤销或已更换的令牌，或者有人试图闯入。时间和来源见 `RUN/audit.jsonl`。",
        ),
        "tail {run}/audit.jsonl",
        (
            f"At least {limits.FAILED_LOGINS} wrong tokens within ten minutes, by the hub's count.",
            f"hub 统计十分钟内至少 {limits.FAILED_LOGINS} 次错误令牌。",
        ),
    ),
    "actor_refused": Text(
        ("The hub refused an actor.", "hub 拒绝了一个 actor。"),
        (("the actor '{actor}' was refused {times} times: {detail}", "actor“{actor}”被拒绝 {times} 次：{detail}"),),
        (
            "The actor still belongs to another run, or the hub has its maximum number of actors.",
            "actor 还属于另一次运行，或 hub 的 actor 数量已满。",
        ),
        "tandem actor {task} {join}",
        ("The hub logged an event `refused` with the code `run` or `busy`.", "hub 记录了 `refused` 事件（代码 `run` 或 `busy`）。"),
    ),
    # ---- actors
    "no_actor": Text(
        (
            "No actor has joined: the robot does not move and no data arrives.",
            "还没有 actor 加入：机器人不动，也没有数据。",
        ),
        (("the hub has been running for {up}, and no actor has ever connected", "hub 已运行 {up}，从来没有 actor 连接过"),),
        (
            "The actor was not started, it cannot reach this address, or it has the wrong token. Check from the actor's machine.",
            "actor 没有启动，连不到这个地址，或者 token 不对。请在 actor 的机器上检查。",
        ),
        "tandem doctor {address} --token-file TOKEN   # on the actor's machine",
        (
            f"The hub has been running for more than {limits.NO_ACTOR_S:.0f} s without an actor.",
            f"hub 运行超过 {limits.NO_ACTOR_S:.0f} 秒仍没有 actor。",
        ),
    ),
    "actor_silent": Text(
        ("An actor is connected but sends no messages.", "actor 连接着，但没有任何消息。"),
        (
            (
                "the last message of the actor '{actor}' came {silent} ago; it sends one every second",
                "actor“{actor}”上次发消息是 {silent} 之前；正常每秒一次",
            ),
        ),
        (
            "The actor process is stopped, its machine hangs, or the network failed without closing the connection.",
            "actor 进程被暂停、机器卡死，或网络中断但连接没有关闭。",
        ),
        "tandem actor {task} {join}   # on the actor's machine, after ending the old one",
        (
            f"The actor is connected, and sent no message for more than {limits.SILENT_ACTOR_S:.0f} s.",
            f"actor 已连接，但超过 {limits.SILENT_ACTOR_S:.0f} 秒没有消息。",
        ),
    ),
    "actor_gone": Text(
        ("An actor has disconnected.", "有一个 actor 断开了连接。"),
        (
            (
                "the last message of the actor '{actor}' came {silent} ago; other actors connected: {others}",
                "actor“{actor}”上次发消息是 {silent} 之前；其他已连接的 actor 有 {others} 个",
            ),
        ),
        (
            "The actor was stopped or crashed, or the network is down. Its unsent steps are in its spool and will be sent later.",
            "actor 被停止或崩溃，或网络断开。还没发出的数据在它的 spool 里，之后会补发。",
        ),
        "tandem actor {task} {join}   # on the actor's machine",
        ("The actor left, or its time-out has passed, while the run continues.", "actor 离开或超时，而运行还在继续。"),
    ),
    "steps_lost": Text(
        ("Steps were lost because the actor could not keep them.", "actor 无法保存一些步，数据丢失。"),
        (("the actor '{actor}' dropped {dropped} steps", "actor“{actor}”丢弃了 {dropped} 步"),),
        (
            "A step was larger than any of this task, or the actor ended while its spool or its disk was full.",
            "某一步比该任务的任何步都大，或 actor 结束时 spool 或磁盘已满。",
        ),
        "tandem actor {task} --learner {address} --spool DISK --spool-limit BYTES",
        ("The actor reports dropped steps.", "actor 报告有丢弃的步。"),
    ),
    "policies_not_applied": Text(
        ("The actor does not use the policies that the learner publishes.", "Actor 没有使用 Learner 发布的策略。"),
        (
            (
                "[never] it still acts with version {version}, the initial network: its actions are random",
                "[never] 它仍在用版本 {version}（初始网络）：动作是随机的",
            ),
            ("[stopped] it still acts with version {version}", "[stopped] 它仍在用版本 {version}"),
            (
                "the newest is version {newest}: {missed} policies were published since then (learner step {learner_step}, actor step {actor_step})",
                "最新是版本 {newest}：之后又发布了 {missed} 个策略（Learner 步数 {learner_step}，Actor 步数 {actor_step}）",
            ),
            ("a newer policy has been available to the actor '{actor}' for {since}", "actor“{actor}”有更新的策略可用已经 {since}"),
            (
                "measured on the newest {steps} actor steps; each step records its policy version",
                "依据最近 {steps} 个 Actor 步：每一步都记录了所用的策略版本",
            ),
        ),
        (
            "The update does not reach the acting policy: a callback was not registered or failed, the link carries data in one direction only, or the actor process is older than the learner's restart.",
            "更新没有到达正在执行的策略：回调没有注册或执行失败、连接只有单向数据，或者 actor 是 Learner 重启之前的旧进程。",
        ),
        "tandem actor {task} {join}   # stop the old actor first",
        (
            f"The policy version of an actor (from its reports, the steps it sent, or the steps the learner received) does not change and is {limits.LAG_VERSIONS} or more versions behind the newest. A healthy actor is 0 or 1 behind.",
            f"actor 的策略版本（来自它的报告、它发来的数据或 Learner 收到的数据）不再变化，并落后最新版本 {limits.LAG_VERSIONS} 个或更多。正常的 actor 落后 0 或 1 个。",
        ),
    ),
    "still_random": Text(
        (
            "The actor still takes random actions because `random_steps` is not over.",
            "Actor 仍在输出随机动作：`random_steps` 还没有结束。",
        ),
        (
            (
                "actor step {actor_step} of random_steps {random_steps}, while the learner is at step {learner_step}",
                "Actor 步数 {actor_step}，random_steps 为 {random_steps}，而 Learner 已到 {learner_step} 步",
            ),
            ("{left} left at this rate", "按目前速度还需 {left}"),
        ),
        (
            "`random_steps` is set too high. With demonstrations, 0 (the default) is right.",
            "`random_steps` 设得太大。有演示数据时，默认值 0 就可以。",
        ),
        "tandem train {task} --random-steps 0",
        (
            "The actor step is below `random_steps`. It is a problem once the learner has published two policies.",
            "Actor 步数小于 `random_steps`。Learner 发布过两个策略后视为问题。",
        ),
    ),
    "robot_held": Text(
        ("A robot stands still until somebody says resume.", "机器人保持静止，直到有人发出 resume。"),
        (
            ("the actor '{actor}': {why}", "actor“{actor}”：{why}"),
            ("robots that are held: {count}", "被保持静止的机器人数：{count}"),
        ),
        (
            "A person pressed STOP or pause, the hand that steered it was lost, a limit was violated, or the file that remembers this is damaged. It is remembered on the actor's disk, so a restart does not change it.",
            "有人按了停止或暂停、操纵连接丢失、超出限制，或记录它的文件已损坏。它保存在 actor 的磁盘上，重启不会改变它。",
        ),
        "tandem dashboard {run}   # look at the robot, then Continue; at the robot, with its actor stopped: tandem latch --release NAME",
        (
            "A connected actor reports what holds its robot (`standing` in live.json).",
            "已连接的 actor 报告了使机器人静止的原因（live.json 中的 `standing`）。",
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
        ("The actor is paused, its environment hangs, or it waits for a person.", "actor 被暂停、环境卡住，或在等待人的操作。"),
        "tandem doctor {run} --watch",
        (
            f"An actor has been connected for {limits.NO_ACTOR_S:.0f} s, and no step was stored in the last 5 s although the learner accepts steps.",
            f"actor 已连接 {limits.NO_ACTOR_S:.0f} 秒，最近 5 秒没有存入数据，而 Learner 可以接收。",
        ),
    ),
    "policy_lag": Text(
        ("An actor uses an old policy.", "actor 使用的策略偏旧。"),
        (("the actor '{actor}' is {versions} versions and {since} behind", "actor“{actor}”落后 {versions} 个版本、{since}"),),
        (
            "The link is slow, a large policy is published very often, or the actor makes few steps.",
            "网络慢、策略大且发布太频繁，或 actor 步数很少。",
        ),
        "tandem train {task} --steps-per-update 200",
        (
            f"The actor is {limits.LAG_VERSIONS} versions and {limits.LAG_S / 2:.0f} s behind the newest policy.",
            f"actor 比最新策略落后 {limits.LAG_VERSIONS} 个版本且 {limits.LAG_S / 2:.0f} 秒。",
        ),
    ),
    "control_rate_low": Text(
        ("The control loop is slower than its control rate.", "控制频率达不到要求。"),
        (
            (
                "the actor '{actor}' makes {rate} actions/s; the task asks for {wanted}",
                "actor“{actor}”每秒 {rate} 次动作，任务要求 {wanted}",
            ),
        ),
        (
            "The environment (cameras, a slow robot interface) or other programs on its machine take longer than a control period.",
            "环境（相机、慢的机器人接口）或机器上的其他程序超过了一个控制周期。",
        ),
        "tandem actor {task} --num-envs 1 --threads 1",
        (
            f"A real-time actor runs below {limits.CONTROL_RATE:.0%} of the task's control rate.",
            f"实时 actor 低于任务控制频率的 {limits.CONTROL_RATE:.0%}。",
        ),
    ),
    "actions_constant": Text(
        ("The policy outputs the same action for every observation.", "无论观测是什么，策略都输出同样的动作。"),
        (("the newest {steps} actions are all {action}", "最近 {steps} 个动作都是 {action}"),),
        (
            "The policy has collapsed, the observation does not change, or the action is overwritten before it is executed.",
            "策略塌缩、观测不变，或动作在执行之前被覆盖。",
        ),
        "tandem play {run}",
        (
            f"The standard deviation of every action component is at most {limits.CONSTANT_STD:g}.",
            f"动作的每个分量标准差都不超过 {limits.CONSTANT_STD:g}。",
        ),
    ),
    "actions_saturated": Text(
        ("Most actions are at their limits, and the policy rarely succeeds.", "大部分动作处于极限，而且策略很少成功。"),
        (
            (
                "{share} of all components are at their limit in the newest {steps} actions; component [{component}] in {most}",
                "最近 {steps} 个动作中 {share} 的分量在极限；分量 [{component}] 达 {most}",
            ),
        ),
        ("The Q values diverge, or the action scale is too small for the task.", "Q 值发散，或动作尺度对任务来说太小。"),
        "tandem doctor {run} --json",
        (
            f"More than {limits.SATURATED_SHARE:.0%} of the action components are beyond ±0.99, and fewer than half of the episodes succeed.",
            f"超过 {limits.SATURATED_SHARE:.0%} 的动作分量超出 ±0.99，且成功率不到一半。",
        ),
    ),
    "stuck_at_limit": Text(
        ("The robot stays at the edge of its workspace.", "机器人停在工作空间的边缘。"),
        (
            (
                "{entry} is at the end of its observed range ({value}) in {share} of the newest {steps} steps, although actions are not zero",
                "最近 {steps} 步中有 {share} 的步 {entry} 处在观测范围的边缘（{value}），尽管动作不为零",
            ),
        ),
        (
            "The policy pushes against a workspace limit, or the goal is outside the workspace.",
            "策略一直顶着工作空间限制，或目标在工作空间之外。",
        ),
        "tandem play {run}",
        (
            f"One position is within 2 % of its extreme in {limits.STUCK_SHARE:.0%} of the newest {limits.ENOUGH_STEPS} steps, and no episode succeeded. Positions are observation entries in m or rad, or named `..._pos`, `..._position` or `..._pose`; nothing is said of other entries, because their meaning is not known.",
            f"最近 {limits.ENOUGH_STEPS} 步中有 {limits.STUCK_SHARE:.0%} 的步某个位置在极值 2% 之内，且没有回合成功。位置指单位为 m 或 rad，或名为 `..._pos`、`..._position`、`..._pose` 的观测项；其他观测项的含义未知，不作判断。",
        ),
    ),
    "link_slow": Text(
        ("The network link is slow.", "网络往返时间长。"),
        (
            ("a round trip takes {round_trip} ms", "一次往返 {round_trip} 毫秒"),
            ("measured by the actor '{actor}'", "由 actor“{actor}”测得"),
        ),
        ("The connection is wireless or remote, or a machine is busy.", "无线或远程连接，或机器繁忙。"),
        "ping -c 5 {host}",
        (
            f"A small message and its reply take more than {limits.SLOW_ROUND_TRIP_MS:.0f} ms. No process waits for it, but policies arrive later.",
            f"小消息往返超过 {limits.SLOW_ROUND_TRIP_MS:.0f} 毫秒。没有进程等待它，但策略会更晚到达。",
        ),
    ),
    "link_backlog": Text(
        ("Unsent steps accumulate on the actor's machine.", "未发出的数据在 actor 的机器上堆积。"),
        (
            (
                "the actor '{actor}' has {waiting} steps ({megabytes} MB) that the hub has not stored",
                "actor“{actor}”有 {waiting} 步（{megabytes} MB）hub 还没有保存",
            ),
            ("that is {behind} of data", "相当于 {behind} 的数据"),
        ),
        ("The network or the hub's disk is too slow for the amount of data.", "网络或 hub 的磁盘跟不上数据量。"),
        "tandem doctor {address} --token-file TOKEN   # on the actor's machine",
        (
            f"More than {limits.BACKLOG_S:.0f} s of steps, and more than {limits.BACKLOG_STEPS} steps, are not acknowledged.",
            f"未确认的数据超过 {limits.BACKLOG_S:.0f} 秒且多于 {limits.BACKLOG_STEPS} 步。",
        ),
    ),
    "clocks_differ": Text(
        ("The clocks of the two machines differ.", "两台机器的时钟不一致。"),
        (("the difference is {difference}", "相差 {difference}"), ("measured by the actor '{actor}'", "由 actor“{actor}”测得")),
        ("The machines have no time synchronisation. It only affects the times in the logs.", "机器没有时间同步。这只影响日志里的时间。"),
        "timedatectl status",
        (f"The clocks differ by more than {limits.CLOCKS_DIFFER_S:.0f} s.", f"时钟相差超过 {limits.CLOCKS_DIFFER_S:.0f} 秒。"),
    ),
    # ---- demonstrations
    "demos_missing": Text(
        ("A demonstration file cannot be read.", "演示数据文件无法读取。"),
        (("{file}", "{file}"), ("{detail}", "{detail}")),
        (
            "The path is wrong (it is relative to the folder in which the run was started), the file was moved, or it was copied incompletely.",
            "路径错误（相对路径以启动运行时的目录为准）、文件被移动，或没有复制完整。",
        ),
        "tandem demos inspect {file}",
        ("The file named in the configuration cannot be opened.", "配置里写的文件打不开。"),
    ),
    "demos_foreign": Text(
        ("The demonstrations are of another task, or of another version of this task.", "演示数据来自别的任务，或这个任务的别的版本。"),
        (
            (
                "{short} was recorded with '{there}', this run uses '{here}': {differences} differences",
                "{short} 录制于“{there}”，本次运行是“{here}”：{differences} 处不同",
            ),
            ("first differences: {detail} (here: the run, there: the file)", "前几处不同：{detail}（here：运行，there：文件）"),
            ("{import}", "{import}"),
        ),
        ("The wrong file was given, or the task changed after the recording.", "文件选错，或录制之后任务改过。"),
        "tandem record {task} --demos 25",
        ("The spec in the file and the spec of the run have different hashes.", "文件里的 spec 与运行的 spec 哈希值不同。"),
        next_unscripted="tandem record {task} --operator browser --demos 25",
    ),
    "demos_broken": Text(
        ("The demonstrations contain invalid steps.", "演示数据里有无效的步。"),
        (("{short}: {count} invalid steps; the first: {detail}", "{short}：{count} 个无效的步；第一个：{detail}"),),
        ("A sensor failed during the recording, or the file was changed afterwards.", "录制时传感器出错，或文件之后被改动。"),
        "tandem demos validate {file} --task {task}",
        (
            "A step has a NaN, a wrong shape or dtype, or an action out of range. Every step is checked.",
            "某一步有 NaN、形状或类型不对，或动作超出范围。每一步都会检查。",
        ),
    ),
    "demos_empty": Text(
        ("The demonstrations are empty.", "演示数据是空的。"),
        (("{short} contains {steps} steps", "{short} 有 {steps} 步"), ("demo buffer size: {buffer}", "demo buffer size: {buffer}")),
        ("The recording was stopped before the first success.", "在第一次成功之前就停止了录制。"),
        "tandem record {task} --demos 25",
        ("The file named in the configuration contains no valid step.", "配置里写的文件没有有效的步。"),
        next_unscripted="tandem record {task} --operator browser --demos 25",
    ),
    "demos_without_reward": Text(
        ("The demonstrations contain no reward, so success and failure look the same.", "演示数据里没有奖励：成功和失败无法区分。"),
        (("{short}: {steps} steps, every reward is 0", "{short}：{steps} 步，奖励全为 0"),),
        ("They were recorded without success detection, or converted without the rewards.", "录制时没有成功检测，或转换时丢失了奖励。"),
        "tandem demos validate {file} --task {task}",
        ("All rewards in the file are 0.", "文件中所有奖励为 0。"),
    ),
    "demos_fail": Text(
        ("Most demonstrations do not succeed.", "多数演示没有成功。"),
        (("{short}: {share} of {episodes} episodes succeed", "{short}：{episodes} 个回合中 {share} 成功"),),
        ("Failed attempts were kept in the file.", "失败的尝试也被保留在文件里。"),
        "tandem demos edit {file} --only-success",
        ("Fewer than half of the episodes end in success.", "成功的回合不到一半。"),
    ),
    "demos_idle": Text(
        ("The robot often stands still in the demonstrations.", "演示数据中机器人经常不动。"),
        (
            ("{short}: {share} of the steps do not move", "{short}：{share} 的步没有移动"),
            ("the longest pause has {longest} steps ({pause})", "最长的停顿有 {longest} 步（{pause}）"),
        ),
        (
            "The input device was not connected, or the person was waiting. The policy learns to stand still.",
            "输入设备没接好，或操作者在等待。策略会学会不动。",
        ),
        "tandem demos edit {file} --drop-static",
        (
            f"All axes are within 0.01 of zero in more than {limits.IDLE_DEMOS:.0%} of the steps. An axis that holds a command, such as an absolute gripper, is left out.",
            f"超过 {limits.IDLE_DEMOS:.0%} 的步所有轴都在 0.01 以内。保持指令的轴（例如绝对位置的夹爪）不计入。",
        ),
    ),
    "demos_saturated": Text(
        ("Actions in the demonstrations are mostly at their limits.", "演示数据的动作大多处于极限。"),
        (
            (
                "{short}: component [{component}] is at its limit in {share} of the steps",
                "{short}：分量 [{component}] 在 {share} 的步中处于极限",
            ),
        ),
        (
            "The action scale is too small for the person's movements. A tanh policy reaches its limits poorly.",
            "动作尺度对人的动作来说太小。tanh 策略很难输出极限值。",
        ),
        "tandem demos inspect {file}",
        (
            f"A component is beyond ±0.99 in more than {limits.SATURATED_DEMOS:.0%} of the steps. One that only ever has two or three values is a switch (a gripper, open or closed) and is left out.",
            f"某个分量在超过 {limits.SATURATED_DEMOS:.0%} 的步中超出 ±0.99。始终只有两三个取值的分量是开关（例如夹爪的开与合），不计入。",
        ),
    ),
    "no_demos": Text(
        ("The run has no demonstrations.", "本次运行没有演示数据。"),
        (("it learns '{task}' only from its own steps", "只从自己的数据学习“{task}”"),),
        ("`--demos` was not given.", "没有给 `--demos`。"),
        "tandem train {task} --scripted-demos 25",
        ("The configuration contains no demonstration file.", "配置里没有演示文件。"),
        next_unscripted="tandem record {task} --operator browser --demos 25",
    ),
    # ---- training
    "still_filling": Text(
        ("Training has not started: the replay buffer is still filling.", "训练还没开始：仍在填充 replay buffer。"),
        (
            ("{have} of {wanted} actor steps (`training_starts`)", "{have} / {wanted} 个 Actor 步（`training_starts`）"),
            ("{rate} steps/s: {left} left", "每秒 {rate} 步：还需 {left}"),
        ),
        (
            "No steps arrive, or `training_starts` is too high for the number of steps the actors make.",
            "没有数据到达，或 `training_starts` 远大于 actor 能产生的步数。",
        ),
        "tandem train {task} --training-starts 100",
        (
            f"No learner step was made yet. It is a problem if filling takes more than {limits.FILLING_S / 60:.0f} minutes, or if the run has ended.",
            f"Learner 步数为 0。预计填充超过 {limits.FILLING_S / 60:.0f} 分钟，或运行已结束，则视为问题。",
        ),
    ),
    "versions_went_back": Text(
        (
            "Policy versions decreased. Actors ignore a policy older than the one they have.",
            "策略版本倒退。actor 不会接受比已有版本更旧的策略。",
        ),
        (
            (
                "version {after} after version {before}, at learner step {learner_step}",
                "版本 {before} 之后出现版本 {after}，在 Learner 步数 {learner_step}",
            ),
            ("since the trainer's start number {start}", "自训练进程第 {start} 次启动起"),
        ),
        (
            "RUN/policy_version was deleted or restored from a copy. It must only increase.",
            "RUN/policy_version 丢失或被旧备份覆盖。它只能增大。",
        ),
        "echo {before} > {run}/policy_version && tandem train --resume {run}",
        (
            "The version decreases from one row of metrics.jsonl to the next, or the hub has a higher version than the trainer.",
            "metrics.jsonl 中版本从一行到下一行变小，或者 hub 的版本高于训练进程的版本。",
        ),
    ),
    "policies_not_published": Text(
        ("The learner trains but publishes too few policies.", "Learner 在训练，但发布的策略太少。"),
        (
            (
                "{seen} versions after {learner_step} learner steps; with one every {every} steps it should be {expected}",
                "{learner_step} 个 Learner 步后只有 {seen} 个版本；每 {every} 步一次应为 {expected}",
            ),
        ),
        (
            "Publishing fails (the disk of RUN/policy.bin is full), or files of the run were changed by hand.",
            "发布失败（RUN/policy.bin 所在磁盘满），或运行目录被手工改动。",
        ),
        "grep LEARNER {run}/train.log | tail",
        (
            "Fewer than half of 1 + learner steps / `steps_per_update` versions were published.",
            "发布的版本少于 1 + Learner 步数 / `steps_per_update` 的一半。",
        ),
    ),
    "parameters_frozen": Text(
        ("The policy parameters do not change between versions.", "各版本之间策略参数没有变化。"),
        (
            (
                "the parameters did not change in the newest {versions} versions up to {newest} (norm of the parameters: {norm})",
                "截至版本 {newest} 的最近 {versions} 个版本参数没有变化（参数范数 {norm}）",
            ),
            (
                "the newest {versions} versions up to {newest} all have the hash {hash}",
                "截至版本 {newest} 的最近 {versions} 个版本哈希都是 {hash}",
            ),
            ("the KL divergence was 0 in the newest {iterations} iterations", "最近 {iterations} 次迭代 KL 散度为 0"),
            ("learning_rate is {learning_rate}", "learning_rate 为 {learning_rate}"),
        ),
        (
            "The learning rate is 0, the actor network is frozen, or all updates are dropped.",
            "学习率为 0、actor 网络被冻结，或所有更新都被丢弃。",
        ),
        "tandem train {task} --learning-rate 3e-4",
        (
            f"In {limits.FROZEN_VERSIONS} versions in a row the parameters change by less than {limits.FROZEN_CHANGE:g} of their norm; or the hashes are equal; or (PPO) the KL divergence is 0. Not while the policy waits for its critics (`critic_steps`).",
            f"连续 {limits.FROZEN_VERSIONS} 个版本的参数变化小于其范数的 {limits.FROZEN_CHANGE:g}；或者哈希值相同；或者（PPO）KL 散度为 0。策略等待 critic 时（`critic_steps`）不算。",
        ),
    ),
    "learner_slow": Text(
        ("The learner is slow.", "Learner 太慢。"),
        (
            (
                "{seen} learner steps per actor step; {wanted} were asked for",
                "每个 Actor 步只有 {seen} 个 Learner 步，要求是 {wanted}",
            ),
            ("a learner step takes {took} ms", "一个 Learner 步需要 {took} 毫秒"),
            ("estimate from this machine's matrix products: {possible} ms", "按本机矩阵乘法速度估计约需 {possible} 毫秒"),
        ),
        (
            "The networks, the batch size or `cta_ratio` are too large for this machine, or other programs use it.",
            "网络、批次大小或 `cta_ratio` 对本机太大，或有其他程序占用。",
        ),
        "python -m benchmarks.learner --quick",
        (
            f"The newest rows show less than {limits.RATIO:.0%} of `updates_per_actor_step`, or a learner step takes more than {limits.SLOW_FACTOR:.0f} times the estimate from the matrix products.",
            f"最近各行低于 `updates_per_actor_step` 的 {limits.RATIO:.0%}，或一个 Learner 步的时间超过按矩阵乘法估计的 {limits.SLOW_FACTOR:.0f} 倍。",
        ),
    ),
    "updates_dropped": Text(
        ("Updates were dropped because they contained a NaN or infinite value.", "有更新因出现 NaN 或无穷大而被丢弃。"),
        (("{count} so far, {recent} in the last 1,000 learner steps", "共 {count} 次，最近 1,000 个 Learner 步中 {recent} 次"),),
        ("The learning rate is too large, or the data is near the limits of float32.", "学习率太大，或数据接近 float32 的极限。"),
        "tandem train --resume {run} --learning-rate 1e-4",
        ("`learner/dropped_updates` is above 0.", "`learner/dropped_updates` 大于 0。"),
    ),
    # ---- learning
    "critic_diverged": Text(
        ("The critic diverges: its Q values are impossible.", "Critic 发散：Q 值不可能这么大。"),
        (
            (
                "rolled back to the last good state {times} times; the last reason: {detail}",
                "已回退到上一个正常状态 {times} 次，最近一次的原因：{detail}",
            ),
            ("mean Q is {q}; the largest possible return is {bound}", "平均 Q 为 {q}；回报最大只能是 {bound}"),
            ("learning_rate is {learning_rate}", "learning_rate 为 {learning_rate}"),
            ("the batch is saved in {file}", "当时的批次保存在 {file}"),
        ),
        (
            "The learning rate is too large, the critic has no LayerNorm, or the rewards exceed the range that the task declares.",
            "学习率太大、critic 没有 LayerNorm，或奖励超出任务声明的范围。",
        ),
        "tandem train {task} --learning-rate 3e-4",
        (
            f"There was a roll-back in the last {limits.RECENT_STEPS:,} learner steps, or mean Q is beyond {limits.DIVERGED_Q:g} times the largest return.",
            f"最近 {limits.RECENT_STEPS:,} 个 Learner 步内有回退，或平均 Q 超过最大回报的 {limits.DIVERGED_Q:g} 倍。",
        ),
    ),
    "actions_look_alike": Text(
        (
            "To the critics all actions look alike: a demonstrated one is worth hardly more than a random one.",
            "在 critic 看来所有动作都差不多：演示的动作几乎不比随机动作更有价值。",
        ),
        (
            (
                "in the middle of the demonstrations: Q {q}, the demonstrated action {gap} above random ones, which differ by {spread}",
                "演示中段：Q 为 {q}，演示动作比随机动作高 {gap}，随机动作之间相差 {spread}",
            ),
            (
                "where a demonstration begins the critics say {q_at_start}; the return that followed was {return_at_start}",
                "演示开始处 critic 给出 {q_at_start}，实际回报为 {return_at_start}",
            ),
            ("the policy decides every {decisions} control steps", "策略每 {decisions} 个控制步决策一次"),
        ),
        (
            "Small actions at a high rate: one action changes the return by almost nothing, so the actor has nothing to follow. Decisions that last longer and n-step sums make its effect larger (docs/long-tasks.md).",
            "动作小而频率高：单个动作几乎不改变回报，actor 无从改进。更长的决策和 n 步回报会放大动作的作用（docs/long-tasks.md）。",
        ),
        "tandem train {task} --demos {file} --horizon auto",
        (
            f"In the newest checkpoint the gap between the demonstrated and random actions is below {limits.GAP_OF_VALUE:.0%} of Q or {limits.GAP_OF_SPREAD:.0%} of the spread over random actions, in the middle half of the first demonstrations, while at most half of the episodes succeed. `tandem demos show FILE --run RUN` draws it.",
            f"在最新检查点中，取前几个演示的中段：演示动作与随机动作的差距低于 Q 的 {limits.GAP_OF_VALUE:.0%} 或随机动作离散程度的 {limits.GAP_OF_SPREAD:.0%}，并且成功的回合不超过一半。`tandem demos show FILE --run RUN` 会画出曲线。",
        ),
    ),
    "q_overestimated": Text(
        ("The critic overestimates: Q is outside the range of possible returns.", "Critic 高估：Q 超出回报可能的范围。"),
        (("mean Q is {q}; returns lie between {low} and {high}", "平均 Q 为 {q}；回报在 {low} 和 {high} 之间"),),
        (
            "There are too few critics, no LayerNorm, or too many updates per actor step.",
            "critic 太少、没有 LayerNorm，或每个 Actor 步的更新太多。",
        ),
        "tandem train {task} --critic-ensemble-size 10 --critic-subsample-size 2",
        (
            f"In half of the newest rows, mean Q is outside the range of returns by more than {limits.OVERESTIMATED:.0%} of its width.",
            f"最近各行中有一半，平均 Q 超出回报范围，超出量大于范围宽度的 {limits.OVERESTIMATED:.0%}。",
        ),
    ),
    "ensemble_collapsed": Text(
        ("All critics of the ensemble are identical.", "集成中的 critic 完全一样。"),
        (("{size} critics; relative difference of their weights: {difference}", "{size} 个 critic，权重相对差异 {difference}"),),
        (
            "They were initialised with the same weights, so the minimum over them gives no protection.",
            "它们的初始权重相同，取最小值不再起保护作用。",
        ),
        "tandem train {task}",
        (
            f"The weights in the newest checkpoint differ by less than {limits.COLLAPSED:g} (relative).",
            f"最新检查点中权重的相对差异小于 {limits.COLLAPSED:g}。",
        ),
    ),
    "critic_loss_rising": Text(
        ("The critic loss rises.", "critic_loss 在上升。"),
        (
            ("recent median {now}, earlier {before}", "最近中位数 {now}，之前 {before}"),
            ("{factor} times the earlier value", "是之前的 {factor} 倍"),
        ),
        (
            "The Q values begin to diverge, or the data has changed (another set-up, another reward).",
            "Q 值开始发散，或数据变了（换了装置或奖励）。",
        ),
        "tandem doctor {run} --json",
        (
            f"The median of the last fifth of the rows is more than {limits.LOSS_RISE:g} times the earlier median (rows from 20 % to 50 %), and above {limits.LOSS_FLOOR:g} of the squared return range.",
            f"最后五分之一行的中位数超过之前（20% 到 50% 的行）的 {limits.LOSS_RISE:g} 倍，且大于回报范围平方的 {limits.LOSS_FLOOR:g}。",
        ),
    ),
    "temperature_runaway": Text(
        ("The temperature grows without limit: entropy outweighs the reward.", "温度失控：熵的权重超过了奖励。"),
        (("temperature {temperature}; initial value {initial}", "温度 {temperature}，初始为 {initial}"),),
        (
            "The policy cannot reach its target entropy (it is saturated or collapsed), so the weight of the entropy keeps growing.",
            "策略达不到目标熵（饱和或塌缩），熵的权重不断增大。",
        ),
        "tandem train {task} --target-entropy -10",
        (
            f"The temperature is above 1 and above {limits.HOT_TEMPERATURE:.0f} times its initial value.",
            f"温度大于 1，且超过初始值的 {limits.HOT_TEMPERATURE:.0f} 倍。",
        ),
    ),
    "entropy_collapsed": Text(
        ("The entropy of the policy has collapsed: its actions are almost deterministic.", "策略的熵塌缩：动作几乎没有随机性。"),
        (("entropy {entropy}; target {target}", "熵 {entropy}，目标 {target}"),),
        ("The temperature is far too small, or the Q values differ too strongly between actions.", "温度太小，或不同动作的 Q 值差别太大。"),
        "tandem train {task} --temperature-init 0.1",
        (
            f"In all of the newest rows the entropy is more than {limits.ENTROPY_BELOW:g} nats per action component below the target.",
            f"最近各行都比目标低 {limits.ENTROPY_BELOW:g} nats（每个动作分量）以上。",
        ),
    ),
    "entropy_high": Text(
        ("The policy is still as random as uniform actions.", "策略仍与均匀随机动作一样随机。"),
        (("entropy {entropy}; uniform random actions have {uniform}", "熵 {entropy}；均匀随机动作为 {uniform}"),),
        ("There is no reward to learn from, or the temperature outweighs it.", "没有可学的奖励，或温度压过了奖励。"),
        "tandem train {task} --temperature-init 0.01",
        (
            f"The entropy is above {limits.ENTROPY_UNIFORM:.0%} of that of uniform actions after {2 * limits.RECENT_STEPS:,} learner steps.",
            f"{2 * limits.RECENT_STEPS:,} 个 Learner 步后，熵仍高于均匀随机动作的 {limits.ENTROPY_UNIFORM:.0%}。",
        ),
    ),
    "reward_never_seen": Text(
        ("The online data contains no reward.", "在线数据里从来没有奖励。"),
        (
            (
                "about {episodes} episodes ({actor_step} actor steps); every return is 0",
                "约 {episodes} 个回合（{actor_step} 个 Actor 步），回报全为 0",
            ),
            ("[no_demos] there are no demonstrations either", "[no_demos] 而且没有演示数据"),
            ("the demonstrations have {demos} steps", "演示数据有 {demos} 步"),
        ),
        (
            "The success detection never fires, or the task is never solved by chance: then it needs demonstrations or corrections.",
            "成功检测从不触发；或者任务靠偶然不可能成功，需要演示或人的纠正。",
        ),
        "tandem play {task} --operator scripted",
        (
            f"After {limits.EPISODES_TO_WARN} episodes all returns in metrics.jsonl and all sampled rewards are 0. It is a problem after {limits.EPISODES_WITHOUT_REWARD} episodes.",
            f"{limits.EPISODES_TO_WARN} 个回合后，metrics.jsonl 中的所有回报和抽样的奖励都是 0。{limits.EPISODES_WITHOUT_REWARD} 个回合后视为问题。",
        ),
        next_unscripted="tandem env describe {task}",
    ),
    "success_stuck": Text(
        ("The person still helps a lot, and the policy alone does not improve.", "人仍然纠正很多，而策略自己没有进步。"),
        (
            (
                "a person made {share} of the newest steps; success without help is {success}, earlier {earlier}",
                "最近 {share} 的步由人完成；没有帮助的成功率 {success}，之前 {earlier}",
            ),
        ),
        (
            "The corrections come too early, so the policy never sees its own mistakes; or they contradict the demonstrations.",
            "纠正太早，策略看不到自己的错误；或纠正与演示不一致。",
        ),
        "tandem doctor {run} --clocks",
        (
            f"In the last third of the run a person made more than {limits.INTERVENED_SHARE:.0%} of the steps, and success without help is not 10 points above that of the first third.",
            f"最后三分之一里由人完成的步超过 {limits.INTERVENED_SHARE:.0%}，且没有帮助的成功率没有比最初三分之一高 10 个百分点。",
        ),
    ),
    "evaluation_differs": Text(
        ("The success in evaluation differs strongly from that in training.", "评估的成功率与训练中的成功率相差很大。"),
        (
            (
                "evaluation {evaluated}, training {training}; also in the evaluation before",
                "评估 {evaluated}，训练 {training}；上一次评估也是如此",
            ),
        ),
        (
            "Evaluation lower: the deterministic action gets stuck where noise would help, or a person helps in training. Evaluation higher: the actor does not use the policy that is evaluated.",
            "评估更低：确定性动作会卡住，而噪声能帮它脱开；或训练中有人帮忙。评估更高：actor 用的不是被评估的策略。",
        ),
        "tandem eval {run} --stochastic",
        (
            f"In the last two evaluations success is more than {limits.EVALUATION_BELOW:.0%} below or {limits.EVALUATION_ABOVE:.0%} above that of the training episodes.",
            f"最近两次评估的成功率比训练回合低 {limits.EVALUATION_BELOW:.0%} 以上或高 {limits.EVALUATION_ABOVE:.0%} 以上。",
        ),
    ),
    "worse_than_demos": Text(
        ("The policy is still much worse than the demonstrations.", "策略仍远不如演示。"),
        (
            (
                "success {success} after {learner_step} learner steps; demonstrations {demos}",
                "{learner_step} 个 Learner 步后成功率 {success}；演示 {demos}",
            ),
        ),
        (
            "The demonstrations cover too little, an important observation is missing, or the discount is too small for the length of the task.",
            "演示覆盖太少、缺少关键观测，或折扣对任务长度来说太小。",
        ),
        "tandem bc {task} --demos FILE   # can it be cloned at all?",
        (
            f"After {limits.LATE_STEPS:,} learner steps success is less than half of that of the demonstrations.",
            f"{limits.LATE_STEPS:,} 个 Learner 步后成功率不到演示的一半。",
        ),
    ),
    # ---- PPO
    "ppo_not_finite": Text(
        ("PPO updates are dropped because their gradients contain NaN or infinite values.", "PPO 的更新因梯度出现 NaN 或无穷大而被丢弃。"),
        (
            ("{dropped} dropped in the newest {iterations} iterations", "最近 {iterations} 次迭代丢弃 {dropped} 次"),
            ("{made} were applied", "完成 {made} 次"),
        ),
        ("The learning rate or the rewards are too large, or the simulation diverges.", "学习率或奖励太大，或仿真发散。"),
        "tandem ppo {task} --learning-rate 3e-4",
        ("`Loss/dropped_updates` is above 0 in the newest rows.", "最近各行的 `Loss/dropped_updates` 大于 0。"),
    ),
    "ppo_kl_high": Text(
        ("The policy changes too much in one iteration.", "策略每次迭代变化太大。"),
        (("KL divergence {kl}; target {wanted}", "KL 散度 {kl}，目标 {wanted}"),),
        (
            "The learning rate is too large, there are too many epochs, or the mini-batches are too small.",
            "学习率太大、轮数太多，或小批次太小。",
        ),
        "tandem ppo {task} --schedule adaptive --desired-kl 0.01",
        (
            f"The median of the newest rows is above {limits.KL_FACTOR:.0f} times `desired_kl`.",
            f"最近各行的中位数超过 `desired_kl` 的 {limits.KL_FACTOR:.0f} 倍。",
        ),
    ),
    "ppo_clip_fraction_high": Text(
        ("Most of PPO's probability ratios are clipped.", "PPO 的大部分概率比被裁剪。"),
        (("{share} of the samples are clipped (clip_param {clip})", "{share} 的样本被裁剪（clip_param {clip}）"),),
        ("As for a high KL divergence: the update steps are too large.", "与 KL 散度过高相同：更新步子太大。"),
        "tandem ppo {task} --learning-rate 3e-4",
        (
            f"The median clip fraction of the newest rows is above {limits.CLIP_FRACTION:.0%}.",
            f"最近各行裁剪比例的中位数超过 {limits.CLIP_FRACTION:.0%}。",
        ),
    ),
    "ppo_explained_variance_low": Text(
        ("The value function does not predict the returns.", "价值函数不能预测回报。"),
        (
            (
                "explained variance {explained} in the newest {iterations} iterations; a constant prediction has 0",
                "最近 {iterations} 次迭代解释方差 {explained}；常数预测为 0",
            ),
        ),
        (
            "The returns have a different scale than the network output, the horizon is too short, or the critic lacks an important observation.",
            "回报的尺度与网络输出不符、视野太短，或 critic 缺少关键观测。",
        ),
        "tandem ppo {task} --normalize-values",
        (
            f"The median explained variance is below 0 after {limits.PPO_WARM_UP} iterations.",
            f"{limits.PPO_WARM_UP} 次迭代后，解释方差的中位数小于 0。",
        ),
    ),
    "ppo_std_collapsed": Text(
        ("The standard deviation of the policy has collapsed: it does not explore.", "策略标准差塌缩：不再探索。"),
        (("mean std {std}", "平均标准差 {std}"),),
        ("There is no entropy bonus, or a few samples dominate the advantages.", "没有熵奖励，或优势被少数样本主导。"),
        "tandem ppo {task} --entropy-coef 0.01",
        (f"`Policy/mean_std` is below {limits.STD_LOW:g}.", f"`Policy/mean_std` 小于 {limits.STD_LOW:g}。"),
    ),
    "ppo_std_runaway": Text(
        ("The standard deviation of the policy grows without limit.", "策略标准差失控增大。"),
        (("mean std {std}; initial value {initial}", "平均标准差 {std}，初始 {initial}"),),
        ("The entropy bonus outweighs the reward.", "熵奖励压过了任务奖励。"),
        "tandem ppo {task} --entropy-coef 0",
        (
            f"`Policy/mean_std` is above {limits.STD_HIGH:g} times its initial value.",
            f"`Policy/mean_std` 超过初始值的 {limits.STD_HIGH:g} 倍。",
        ),
    ),
    # ---- a gripper
    "gripper_never_closes": Text(
        ("The gripper is never closed, and no episode succeeds.", "夹爪从不闭合，也没有一个回合成功。"),
        (
            (
                "{part}: not once told to close in the newest {steps} steps of the policy; {ends} episodes ended without success",
                "{part}：策略最近的 {steps} 步里一次也没有要求闭合；{ends} 个回合没有成功就结束",
            ),
        ),
        (
            "Closing looks no better than waiting, so the hand hovers over the object. Demonstrations close once in a hundred steps, which is little to learn from.",
            "闭合看起来并不比等待好，所以手停在物体上方。演示大约一百步才闭合一次，可学的数据很少。",
        ),
        "tandem train {task} --grasp-epsilon 0.02",
        (
            f"In at least {limits.ENOUGH_STEPS} of the newest steps the policy never told the gripper to close, and at least {limits.ENDS // 2} episodes ended there, all without success.",
            f"最近至少 {limits.ENOUGH_STEPS} 步里，策略从未要求夹爪闭合；期间至少 {limits.ENDS // 2} 个回合结束，且都没有成功。",
        ),
    ),
    "grasp_slips": Text(
        ("Many episodes lose what they hold.", "很多回合丢掉了已经抓住的物体。"),
        (
            (
                "{lost} of {ends} episodes ({share}); most often at the stage {stage}",
                "{ends} 个回合中有 {lost} 个（{share}）；最常见的阶段：{stage}",
            ),
            (
                "in {opened} of them the gripper was told something new in the last steps, in {closed} it was not",
                "其中 {opened} 个在最后几步里收到新的夹爪指令，{closed} 个没有",
            ),
        ),
        (
            "Told something new: the policy opens the hand on the way. Not told: the grasp is careless, or the arm pushes harder than the grip holds.",
            "收到新指令：策略在途中松开了夹爪。没有收到：抓取不稳，或者手臂用力超过了夹持力。",
        ),
        "tandem doctor explain grasp_critic_flat",
        (
            f"At least {limits.ENDS} episodes ended in the newest part of the journal, and {limits.LOST_SHARE:.0%} of them were ended by the task, without success, after the object was held.",
            f"日志最新部分至少有 {limits.ENDS} 个回合结束，其中 {limits.LOST_SHARE:.0%} 在抓住物体之后由任务判为失败而结束。",
        ),
    ),
    "gripper_chatters": Text(
        ("The gripper is told to open and to close again and again.", "夹爪被反复要求张开和闭合。"),
        (
            (
                "{part}: {changes} changes in the newest {steps} steps of the policy, {rate} in 100 steps",
                "{part}：策略最近 {steps} 步里改变 {changes} 次，每 100 步 {rate} 次",
            ),
        ),
        (
            "The choices are worth nearly the same to the grasp critics, so that rounding and noise decide; or opening and closing costs nothing.",
            "对抓取 critic 来说各个选择价值几乎相同，由误差和噪声决定；或者开合没有代价。",
        ),
        "tandem train {task} --grasp-doubt 2",
        (
            f"More than {limits.CHATTER:g} changes in 100 of the newest steps, of at least {limits.ENOUGH_STEPS}. An absolute axis counts as open or closed beyond a third of its range.",
            f"最近至少 {limits.ENOUGH_STEPS} 步里，每 100 步改变超过 {limits.CHATTER:g} 次。绝对轴超过其范围的三分之一时才算张开或闭合。",
        ),
    ),
    "grasp_critic_flat": Text(
        ("The grasp critic values all choices alike.", "抓取 critic 认为所有选择价值相同。"),
        (
            (
                "best minus worst choice: {spread}; returns span {range}, the penalty of opening and closing is {penalty}",
                "最好与最差选择之差：{spread}；回报范围 {range}，开合的代价 {penalty}",
            ),
        ),
        (
            "No choice has led to a reward yet, or every state is worth nothing to the critic: it has not seen a success.",
            "还没有哪个选择带来过奖励，或者 critic 认为所有状态都没有价值：它没有见过成功。",
        ),
        "tandem demos inspect {run}/journal.db",
        (
            f"`grasp_critic/spread` stays below {limits.FLAT:g} of the range of returns after {limits.RECENT_STEPS:,} learner steps.",
            f"{limits.RECENT_STEPS:,} 个 Learner 步之后，`grasp_critic/spread` 仍低于回报范围的 {limits.FLAT:g}。",
        ),
    ),
    # ---- data
    "success_without_reward": Text(
        ("Successful episodes get no reward.", "成功的回合没有奖励。"),
        (("{unpaid} of {successes} sampled successes have the reward 0", "抽查的 {successes} 次成功中有 {unpaid} 次奖励为 0"),),
        (
            "The reward and the success detection of the task disagree. This is a bug in the reward.",
            "任务的奖励与成功检测不一致，奖励有 bug。",
        ),
        "tandem play {task} --operator scripted",
        ("At least 3 of the sampled successes, and at least half of them, have no reward.", "抽样的成功中至少 3 次、且至少一半没有奖励。"),
        next_unscripted="tandem env describe {task}",
    ),
    "steps_rejected": Text(
        ("Invalid steps were rejected.", "有无效数据被拒绝。"),
        (
            ("{rejected} steps rejected ({share} of all)", "拒绝了 {rejected} 步（占 {share}）"),
            ("{count} of them because {detail}", "其中 {count} 步因为 {detail}"),
            ("{sent} of them from the source {source}", "其中 {sent} 步来自来源 {source}"),
        ),
        (
            "A sensor fails or has another unit, the simulation diverges, or an action is outside [-1, 1].",
            "传感器出错或单位不对、仿真发散，或动作超出 [-1, 1]。",
        ),
        "tandem demos validate {run}/journal.db",
        (
            "The journal has rows with the status `rejected`. It is a problem if they are more than half.",
            "journal 中有状态为 `rejected` 的行。超过一半视为问题。",
        ),
    ),
    "steps_missing": Text(
        ("Steps are missing in the data.", "数据中有缺失的步。"),
        (("source {source}: {missing} steps missing up to its step {last}", "来源 {source}：到第 {last} 步为止缺 {missing} 步"),),
        ("The spool of an actor was deleted, or the journal was edited.", "actor 的 spool 被删除，或 journal 被改动。"),
        "tandem demos validate {run}/journal.db",
        ("The step numbers of a source, which count from 0, have gaps.", "来源的步从 0 连续编号，这里的编号有缺口。"),
    ),
    "timeouts_as_terminal": Text(
        ("Time-outs are stored as terminated instead of truncated.", "超时被保存为 terminated，而不是 truncated。"),
        (
            (
                "{count} of {ends} episode ends are 'terminated' at the limit of {limit} steps without success",
                "{ends} 个回合结尾中有 {count} 个在 {limit} 步上限处为“terminated”且没有成功",
            ),
        ),
        (
            "The environment returns terminated at a time-out where it should return truncated. The learner then ignores all value after the limit.",
            "环境在超时时返回了 terminated 而不是 truncated。Learner 因此忽略了上限之后的价值。",
        ),
        "tandem demos validate {run}/journal.db",
        (
            "Episodes end at `max_episode_steps` as terminated, without success and without reward.",
            "有回合在 `max_episode_steps` 处以 terminated 结束，没有成功也没有奖励。",
        ),
    ),
    "terminal_without_reward": Text(
        ("Most episodes end early without success.", "多数回合提前结束且没有成功。"),
        (("{count} of {ends} episode ends, after {length} steps on average", "{ends} 个回合结尾中有 {count} 个，平均 {length} 步"),),
        ("A failure condition is met at the start, or the start is outside the workspace.", "失败条件一开始就满足，或起点在工作空间之外。"),
        "tandem play {task}",
        (
            "At least half of the sampled episodes are terminated before the time limit, without success and without reward.",
            "抽样的回合中至少一半在时限前 terminated，没有成功也没有奖励。",
        ),
    ),
    "observations_drifted": Text(
        ("The first observations of the episodes have drifted.", "回合开始时的观测值发生漂移。"),
        (
            (
                "[than_early] {entry} starts at {now}, earlier in this run at {before}: {drift} standard deviations apart",
                "[than_early] {entry} 现在从 {now} 开始，之前是 {before}：相差 {drift} 个标准差",
            ),
            (
                "[than_demos] {entry} starts at {now}, in the demonstrations at {before}: {drift} standard deviations apart",
                "[than_demos] {entry} 现在从 {now} 开始，演示中是 {before}：相差 {drift} 个标准差",
            ),
        ),
        (
            "A sensor lost its zero, a camera or a part was moved, or the episodes start differently from the demonstrations.",
            "传感器零点漂移、相机或工件被移动，或起点与演示不同。",
        ),
        "tandem demos inspect {run}/journal.db",
        (
            f"The means of the first observations, over {limits.FEW_EPISODES} or more episodes each, are more than {limits.DRIFT:g} standard deviations apart.",
            f"首个观测的均值（各取 {limits.FEW_EPISODES} 个或更多回合）相差超过 {limits.DRIFT:g} 个标准差。",
        ),
    ),
    "observations_clipped": Text(
        ("An observation is often clipped.", "观测值经常被截断。"),
        (
            (
                "{entry} is further from its offset than 5 times its scale ({scale}) in {share} of the steps",
                "{entry} 在 {share} 的步中偏离其偏移量超过尺度（{scale}）的 5 倍",
            ),
            ("[always] so the networks see nothing of it: {count} such numbers", "[always] 网络完全看不到它：共 {count} 个这样的数"),
        ),
        (
            "The scale in the task's spec is too small. For an environment of somebody else's: declare `scales` in environments/NAME.toml; scales are frozen when a run begins, so start a new one.",
            "任务 spec 里的尺度太小。外部环境：在 environments/NAME.toml 里声明 `scales`；尺度在运行开始时固定，所以要重新开始一次运行。",
        ),
        "tandem demos inspect {run}/journal.db",
        (
            f"In more than {limits.CLIPPED_SHARE:.0%} of the newest steps the value is further from its offset than 5 times its scale. It is a problem from {limits.ALWAYS_CLIPPED:.0%} on.",
            f"最近的步中超过 {limits.CLIPPED_SHARE:.0%} 的值超过其尺度的 5 倍。从 {limits.ALWAYS_CLIPPED:.0%} 起视为问题。",
        ),
        next_unscripted="tandem env describe {task} --demos FILE",
    ),
    "environment_stalled": Text(
        ("The environment hung for a while.", "环境曾经卡住一段时间。"),
        (
            (
                "{times} times; the longest {phase} took {longest} (actor '{actor}')",
                "{times} 次；最长的 {phase} 用了 {longest}（actor“{actor}”）",
            ),
        ),
        (
            "A simulation, a driver or a network call inside of the environment blocks. No step is lost, but the run stands still meanwhile.",
            "环境内部的仿真、驱动或网络调用阻塞。数据没有丢失，但这段时间运行停住了。",
        ),
        "grep took {run}/train.log",
        (
            "An actor wrote an event `stalled`: a step took more than 2 s and 20 control periods, or a reset more than 60 s.",
            "actor 写了 `stalled` 事件：一步超过 2 秒且超过 20 个控制周期，或一次 reset 超过 60 秒。",
        ),
    ),
    "encoder_differs": Text(
        (
            "The run folder holds another encoder than the one that made the run's features.",
            "运行目录里的编码器不是生成这次运行特征的那一个。",
        ),
        (
            (
                "camera '{camera}': features of {expected}, encoder.safetensors is {found}",
                "相机“{camera}”：特征来自 {expected}，encoder.safetensors 是 {found}",
            ),
        ),
        (
            "encoder.safetensors was replaced, damaged, or copied from another run. Policies would see other numbers than they were trained with.",
            "encoder.safetensors 被替换、损坏，或是从别的运行复制来的。策略看到的数将与训练时不同。",
        ),
        "tandem train {task} --scripted-demos 25",
        (
            "The name and hash in the spec differ from those of RUN/encoder.safetensors.",
            "规格中的名称和哈希与 RUN/encoder.safetensors 的不同。",
        ),
        "tandem train {task} --demos FILE",
    ),
    "camera_frozen": Text(
        ("A camera shows the same picture while the robot moves.", "机器人在动，相机的画面却不变。"),
        (
            (
                "camera '{camera}': the same picture before and after {still} of {moved} steps in which the robot moved",
                "相机“{camera}”：机器人移动的 {moved} 步中，有 {still} 步前后画面相同",
            ),
        ),
        (
            "The camera or its driver hangs and hands out its last picture again and again; or it looks at nothing that moves.",
            "相机或其驱动卡住，一直给出最后一帧；或者它看到的地方没有任何东西在动。",
        ),
        "tandem play {run}",
        (
            f"In more than {limits.CAMERA_FROZEN:.0%} of the newest steps in which a scaled number changed by more than {limits.CAMERA_MOVED}, the features are equal before and after.",
            f"在最新的、有某个缩放后的数变化超过 {limits.CAMERA_MOVED} 的步中，超过 {limits.CAMERA_FROZEN:.0%} 的步前后特征相同。",
        ),
    ),
    "camera_blind": Text(
        ("A camera shows nothing that varies.", "相机的画面没有变化。"),
        (
            (
                "camera '{camera}': its features vary by {spread} of what they did in the demonstrations, in {steps} steps",
                "相机“{camera}”：{steps} 步中，其特征的变化只有演示时的 {spread}",
            ),
        ),
        (
            "It is black, covered, over-exposed, or points elsewhere.",
            "画面全黑、被遮挡、过曝，或者朝向了别处。",
        ),
        "tandem play {run}",
        (
            f"The mean standard deviation of the features over the newest steps is below {limits.CAMERA_BLIND} of the demonstrations'.",
            f"最新各步特征标准差的平均值低于演示时的 {limits.CAMERA_BLIND}。",
        ),
    ),
    "reward_contradicted": Text(
        ("People contradict the rewards of the classifier.", "操作员多次否定分类器给出的奖励。"),
        (
            (
                "{name}: {taken_back} successes were taken back, {missed} that it missed were given by a person",
                "{name}：{taken_back} 次成功被撤回，另有 {missed} 次它漏判的成功由操作员给出",
            ),
        ),
        (
            "Its frames did not show such cases, or its threshold is too low or too high. What people said is in the run folder, and is learned from.",
            "训练帧里没有这类情况，或者阈值过低、过高。操作员的判断保存在运行目录中，可直接用于训练。",
        ),
        "tandem reward train {run} FILE... --labels labels.csv --out better.safetensors",
        (
            f"At least {limits.CONTRADICTIONS} episodes of a run whose rewards a classifier gives were judged otherwise by a person.",
            f"奖励由分类器给出的运行中，至少有 {limits.CONTRADICTIONS} 个回合被操作员改判。",
        ),
    ),
    "reward_drifted": Text(
        ("The classifier that gives the rewards sees what it was not trained on.", "给出奖励的分类器看到的画面或数值，与训练时不同。"),
        (
            (
                "{name}: {far} of the newest {steps} steps are farther from its training frames than 99 % of those are; median distance {now} now, {then} then",
                "{name}：最新 {steps} 步中有 {far} 比 99 % 的训练帧离得更远；距离中位数现在为 {now}，训练时为 {then}",
            ),
        ),
        (
            "A camera, the light or the workspace has changed since the frames were labelled, or the policy goes where nobody has labelled anything.",
            "标注之后相机、光照或工作区发生了变化，或者策略到达了没有标注过的地方。",
        ),
        "tandem reward label {run} --classifier {run}/reward.rule",
        (
            f"More than {limits.REWARD_FAR:.0%} of the newest steps are farther from the mean of the training frames than 99 % of these were.",
            f"最新各步中，超过 {limits.REWARD_FAR:.0%} 的步比 99 % 的训练帧离训练均值更远。",
        ),
    ),
    "camera_exposed": Text(
        ("A camera is over-exposed.", "相机过曝。"),
        (
            (
                "camera '{camera}': {white} of its picture is as white as it can be, in {pictures} of the newest pictures",
                "相机“{camera}”：最新的 {pictures} 幅画面里，{white} 的面积白到极限",
            ),
        ),
        (
            "The exposure is too long, the light too bright, or it looks into a lamp. Nothing can be told apart in white parts.",
            "曝光太长、光线太亮，或者正对着灯。白色的地方什么也分辨不出。",
        ),
        "tandem play {run}",
        (
            f"More than {limits.CAMERA_EXPOSED:.0%} of the pixels of the newest pictures have all channels at 254 or 255.",
            f"最新画面中超过 {limits.CAMERA_EXPOSED:.0%} 的像素所有通道都是 254 或 255。",
        ),
    ),
    "camera_late": Text(
        ("The pictures of a camera are late.", "相机的画面滞后。"),
        (
            (
                "camera '{camera}': its picture changes {steps} steps ({ms} ms) after the robot moved (correlation {agrees})",
                "相机“{camera}”：机器人移动 {steps} 步（{ms} 毫秒）之后画面才变化（相关系数 {agrees}）",
            ),
        ),
        (
            "Its driver keeps a queue of old pictures, or the pictures take long on the network. The policy acts on what was there before.",
            "驱动里排着旧的画面，或者画面在网络上走得很慢。策略根据过去的画面动作。",
        ),
        "tandem play {run}",
        (
            f"The changes of the features agree better with the motion {limits.CAMERA_LATE} to {limits.CAMERA_LATE_MOST} steps before than with that of the same step, by a correlation of {limits.CAMERA_LATE_CLEAR}.",
            f"特征的变化与 {limits.CAMERA_LATE} 到 {limits.CAMERA_LATE_MOST} 步之前的运动更一致，相关系数比同一步高 {limits.CAMERA_LATE_CLEAR}。",
        ),
    ),
    "cameras_swapped": Text(
        ("Two cameras look as if they had been swapped since the demonstrations.", "两台相机看起来在录制演示之后被对调了。"),
        (
            (
                "at the start of episodes '{one}' and '{other}' differ by {own} from their own pictures of the demonstrations, and by {crossed} from each other's",
                "回合开始时，“{one}”和“{other}”与演示中各自画面的差为 {own}，与对方画面的差为 {crossed}",
            ),
        ),
        ("Their cables, device names or serial numbers were exchanged.", "线缆、设备名或序列号被互换了。"),
        "tandem play {run}",
        (
            f"The mean features at the starts of episodes are {limits.CAMERA_SWAPPED:g} times nearer to the other camera's in the demonstrations than to their own.",
            f"回合开始时的平均特征与演示中另一台相机的距离，只有与自己的距离的 1/{limits.CAMERA_SWAPPED:g}。",
        ),
    ),
    "entries_constant": Text(
        ("Some numbers of the observation never change.", "观测中有些数从不变化。"),
        (("{names}; {count} of {total} numbers, in {steps} steps", "{names}；{total} 个数中的 {count} 个，共 {steps} 步"),),
        (
            "They are always the same in this environment (an empty slot, a fixed goal), which does no harm; or a sensor is not connected. They are left out of `stuck_at_limit`.",
            "它们在这个环境里本来就不变（空位、固定目标），没有害处；或者某个传感器没有接好。`stuck_at_limit` 不检查它们。",
        ),
        "tandem demos inspect {run}/journal.db",
        (
            "In all sampled steps the number moves by less than 0.02 of its scale.",
            "抽样的所有步里，这个数的变化小于其尺度的 0.02。",
        ),
    ),
    "return_range_unknown": Text(
        (
            "Nobody said which returns are possible, so impossible values of the critic are neither clipped nor found.",
            "没有声明回报的范围：critic 的不可能的值既不会被截断，也不会被发现。",
        ),
        (
            (
                "'{task}' declares no `return_range`, and its demonstrations do not show one",
                "“{task}”没有声明 `return_range`，演示数据也看不出来",
            ),
        ),
        (
            "The environment is not Tandem's own. If its reward is bounded, declare the lowest and highest return of an episode: `return_range = [0.0, 1.0]` in environments/NAME.toml.",
            "这不是 Tandem 自带的环境。如果奖励有界，请声明一个回合的最低和最高回报：在 environments/NAME.toml 里写 `return_range = [0.0, 1.0]`。",
        ),
        "tandem env describe {task}",
        (
            "The spec of an RLPD run of another's environment has no `return_range`.",
            "RLPD 运行所用的外部环境，其 spec 没有 `return_range`。",
        ),
    ),
    "disk_will_fill": Text(
        ("The disk will be full before the run ends.", "运行结束之前磁盘就会写满。"),
        (
            (
                "{free} free; the journal grows by {growth} per hour; full in {left}",
                "剩余 {free}；journal 每小时增长 {growth}；{left} 后写满",
            ),
        ),
        ("The observations contain images, or the disk holds many old runs.", "观测里有图像，或磁盘上旧的运行太多。"),
        "du -sh {run}/../* | sort -h | tail",
        (
            "At the present growth of the journal the disk is full within an hour, and before the run ends.",
            "按 journal 目前的增长速度，磁盘会在一小时之内、运行结束之前写满。",
        ),
    ),
    "memory_will_fill": Text(
        ("The replay buffer will not fit in memory.", "内存放不下 replay buffer。"),
        (("{to_come} more needed (capacity {capacity}), {free} free", "还需要 {to_come}（容量 {capacity}），可用 {free}"),),
        ("The observations contain images and the capacity is large.", "观测里有图像且容量很大。"),
        "tandem train --resume {run} --replay-buffer-capacity 50000",
        (
            f"The buffer still needs more than {limits.MEMORY_SHARE:.0%} of the free memory.",
            f"replay buffer 还需要的内存超过可用内存的 {limits.MEMORY_SHARE:.0%}。",
        ),
    ),
    # ---- machine
    "no_gl": Text(
        ("The task has camera images, but there is no OpenGL library to render them.", "任务有相机图像，但没有可用的 OpenGL 渲染库。"),
        (
            (
                "the observation contains the image '{entry}'; neither EGL nor OSMesa was found",
                "观测中有图像“{entry}”；没有找到 EGL 或 OSMesa",
            ),
        ),
        ("The OpenGL libraries are not installed.", "没有安装 OpenGL 库。"),
        "apt install libegl1 libgl1-mesa-dri && export MUJOCO_GL=egl",
        ("Neither library is in the system's library folders.", "系统库目录中没有这两个库。"),
    ),
    "few_cores": Text(
        ("There is only one CPU core: actor and learner take turns.", "只有一个 CPU 核：actor 和 Learner 轮流运行。"),
        (("{cores} core", "{cores} 个核"),),
        ("The machine is small, or a container limits the cores.", "机器小，或容器限制了核数。"),
        "nproc",
        ("This process may use one core only.", "本进程只能使用一个核。"),
    ),
    "gpu_present": Text(
        ("There is a GPU, but JAX is installed without GPU support.", "有 GPU，但安装的 JAX 不支持它。"),
        (("jax {jax}", "jax {jax}"),),
        ("The CPU build of JAX is the default. For small networks the CPU is faster.", "默认安装 CPU 版的 JAX。小网络用 CPU 更快。"),
        "pip install -U 'jax[cuda12]'",
        ("There is a GPU device file but no JAX plugin for it.", "有 GPU 设备文件，但没有 JAX 插件。"),
    ),
    "other_tandem": Text(
        ("The run was made with another version of Tandem.", "这次运行由另一个版本的 Tandem 产生。"),
        (("made with {made}, read with {mine}", "由 {made} 产生，用 {mine} 读取"),),
        ("Tandem was updated after the run.", "运行之后更新过 Tandem。"),
        "pip show tandem-rl",
        ("The event `started` has another version than the installed one.", "`started` 事件里的版本与已安装的版本不同。"),
    ),
    **DEMO_TEXTS,
    **ROBOT_TEXTS,
}


def describe(finding: Finding, lang: Language, common: Mapping[str, Any]) -> Description:
    """Write a finding out in one language; `common` holds the names that commands use (run, task, address, host, port, join).

    Its `scripted` is False for an environment without a scripted operator: it refuses some of the commands.
    """
    text, which = TEXTS[finding.name], LANGUAGES.index(lang)
    known = {name: value for name, value in {**common, **finding.facts}.items() if value is not None}
    shown = {name: in_words(value, lang) for name, value in known.items()}
    raw = {name: value if isinstance(value, str) else str(value) for name, value in known.items()}
    lines = (_line(words[which], shown) for words in text.evidence)
    return Description(
        name=finding.name,
        severity=finding.severity,
        what=text.what[which],
        evidence=[line for line in lines if line is not None],
        cause=text.cause[which],
        next=_filled(text.next_unscripted if text.next_unscripted and common.get("scripted") is False else text.next, raw),
        explains=list(finding.explains),
    )


def _line(template: str, shown: Mapping[str, str]) -> str | None:
    """The line with its facts filled in; None if one of them is unknown."""
    required = re.match(r"\[(\w+)\] ?", template)
    if required is not None:
        if required[1] not in shown:
            return None
        template = template[required.end() :]
    if any(name not in shown for name in re.findall(r"{(\w+)}", template)):
        return None
    return template.format(**shown)


def _filled(command: str, raw: Mapping[str, str]) -> str:
    """The command with its names filled in. An unknown name stays in capitals for the person to replace."""
    names = {name: name.upper() for name in re.findall(r"(?<!{){(\w+)}", command)}
    return command.format(**(names | {name: value for name, value in raw.items() if name in names}))


def in_words(value: Any, lang: Language) -> str:
    """A fact in the notation people use: 1,234; 45 %; 83 min; 1.2 GB."""
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
