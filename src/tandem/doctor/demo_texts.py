# ruff: noqa: E501  (a table of sentences: broken lines would be harder to read and to translate)
"""The texts of the findings about files of demonstrations (`tandem demos check`). `texts.py` says how they are written."""

from __future__ import annotations

from tandem.doctor import limits
from tandem.doctor.text import Text

DEMO_TEXTS: dict[str, Text] = {
    # ---- episodes
    "demos_mixed_specs": Text(
        ("These files do not fit together: their observations or actions differ.", "这些文件不能一起使用：观测或动作不同。"),
        (
            ("{first} and {other}: {differences} differences", "{first} 与 {other}：{differences} 处不同"),
            ("first differences: {detail} (here: the first file)", "前几处不同：{detail}（here：第一个文件）"),
        ),
        ("They were recorded with different tasks, or with different versions of one task.", "录制时任务不同，或同一任务的版本不同。"),
        "tandem demos inspect {file}",
        ("The specs of two files differ in more than the scales of their observations.", "两个文件的 spec 不同（观测的缩放除外）。"),
    ),
    "demos_mixed_rewards": Text(
        (
            "The rewards of these files, or of a file and the run, were given by different sources.",
            "这些文件的奖励，或文件与训练的奖励，来自不同的来源。",
        ),
        (("{first}: {one}; {other}: {another}", "{first}：{one}；{other}：{another}"),),
        (
            "They were recorded with different reward sources, the rewards of one file were computed anew, or the run has a classifier or conditions that did not judge the file.",
            "录制时的奖励来源不同，其中一个文件的奖励被重新计算过，或训练所用的分类器、条件没有判断过这个文件。",
        ),
        "tandem reward apply {file} --source classifier:FILE",
        (
            "The specs of two files name different reward sources, or that of a file another one than the classifier or the conditions of the run. What counts as a success may differ between them.",
            "两个文件的 spec 写着不同的奖励来源，或文件的来源不是训练所用的分类器或条件。成功的含义可能不同。",
        ),
    ),
    "demos_end_inside": Text(
        ("Some episodes go on after their end.", "有的回合在结束之后还有后续的步。"),
        (("{short}: {count} of {episodes} episodes: {places}", "{short}：{episodes} 个回合中的 {count} 个：{places}"),),
        (
            "The environment was not reset after the end, or two episodes got the same number.",
            "结束之后环境没有 reset，或两个回合用了同一个编号。",
        ),
        "tandem demos edit {file}",
        (
            "A step that is marked as the last one is followed by others of the same episode. `tandem demos edit` makes them episodes of their own.",
            "标记为最后一步的步之后，同一回合还有别的步。`tandem demos edit` 会把它们拆成单独的回合。",
        ),
    ),
    "demos_success_unpaid": Text(
        ("Episodes are marked as successful but contain no reward.", "有的回合标记为成功，却没有奖励。"),
        (("{short}: {count} of {episodes} episodes: {places}", "{short}：{episodes} 个回合中的 {count} 个：{places}"),),
        ("The success was added later, or the reward was lost in a conversion.", "成功标记是后来加的，或转换时丢失了奖励。"),
        "tandem demos edit {file} --success {these}",
        ("An episode has a success and no reward, while other episodes have one.", "某个回合有成功标记而没有奖励，其他回合却有。"),
    ),
    "demos_doubled": Text(
        ("The same episode is in the file more than once.", "文件里有重复的回合。"),
        (("{short}: {count} of {episodes} episodes are copies: {places}", "{short}：{episodes} 个回合中有 {count} 个是重复的：{places}"),),
        (
            "A file was merged with itself or with an older version of itself. Held-out errors look too good, and the copies count twice.",
            "文件与自身或旧版本合并过。验证误差会显得过好，重复的回合被计算两次。",
        ),
        "tandem demos edit {file} --drop-doubles",
        ("Two episodes have the same observations and the same actions to the last bit.", "两个回合的观测和动作逐位相同。"),
    ),
    "demos_copies": Text(
        (
            "The file has steps that no robot made: everything after the step is exactly as before it.",
            "文件里有并非机器人产生的步：步之后的一切与之前完全相同。",
        ),
        (
            (
                "{short}: {steps} such steps after a reward, in {count} of {episodes} episodes: {places}",
                "{short}：{steps} 个这样的步（在奖励之后），分布在 {episodes} 个回合中的 {count} 个：{places}",
            ),
        ),
        (
            "The recorder appended frames after the success (`post_success_steps`). Each repeats the reward, and its action was never executed.",
            "录制程序在成功之后追加了帧（`post_success_steps`）。每一帧都重复奖励，其动作从未执行。",
        ),
        "tandem demos edit {file} --drop-copies",
        (
            "A step after a reward, or one alone in its episode, leads to exactly the observation that it started from, pictures included.",
            "奖励之后的某一步，或单独成为一个回合的步，其结果与出发时的观测（包括图像）逐位相同。",
        ),
    ),
    "demos_one_step": Text(
        ("Some episodes have only one step.", "有的回合只有一步。"),
        (("{short}: {count} of {episodes} episodes: {places}", "{short}：{episodes} 个回合中的 {count} 个：{places}"),),
        (
            "Every frame was marked as the end of an episode, or a filter removed the end of an episode and left the rest.",
            "每一帧都被标记为回合结束，或过滤程序删掉了回合的大部分。",
        ),
        "tandem demos edit {file} --shortest 2",
        ("An episode has one step, while others have five or more.", "某个回合只有一步，而其他回合有五步以上。"),
    ),
    "demos_steps_missing": Text(
        ("Steps are missing inside of episodes.", "回合中间缺少步。"),
        (
            ("{short}: {count} of {episodes} episodes: {places}", "{short}：{episodes} 个回合中的 {count} 个：{places}"),
            ("first: episode {episode}, after step {step}", "第一处：回合 {episode}，第 {step} 步之后"),
        ),
        (
            "A filter removed steps without joining the ones that were left, two episodes were merged, or steps were lost on the way.",
            "过滤时删掉了步而没有把剩下的连接起来，两个回合被合并，或传输时丢失了步。",
        ),
        "tandem demos edit {file}",
        (
            "The next observation of a step is not the observation of the step that follows, or the numbers of the steps have a gap. `tandem demos edit` splits the episode there. Where the robot stood still meanwhile it is demos_pauses_cut.",
            "某一步的下一观测不是后一步的观测，或步的编号有间断。`tandem demos edit` 会在那里拆分回合。若机器人在此期间静止，则为 demos_pauses_cut。",
        ),
    ),
    "demos_pauses_cut": Text(
        ("Pauses were cut out of episodes, and the steps around them were not joined.", "回合中的停顿被删掉了，而前后的步没有连接起来。"),
        (
            (
                "{short}: {count} of {episodes} episodes: {places}; {gaps} gaps",
                "{short}：{episodes} 个回合中的 {count} 个：{places}；{gaps} 处间断",
            ),
            ("first: episode {episode}, after step {step}", "第一处：回合 {episode}，第 {step} 步之后"),
        ),
        (
            "A filter left out steps in which the robot stood still. The step before them says that it led to the first of them, which is not there.",
            "过滤程序删掉了机器人静止的步。停顿之前的那一步说它通向停顿的第一步，而那一步已不在文件里。",
        ),
        "tandem demos edit {file} --join",
        (
            "As demos_steps_missing; and over the gaps no number changes more than twice as much as over other steps. `--join` lets the step before a gap lead to where the next one begins.",
            "同 demos_steps_missing；并且跨过间断时，没有任何一个数的变化超过其他步的两倍。`--join` 使间断之前的一步通向后一步的开始。",
        ),
    ),
    "demos_end_missing": Text(
        ("Some episodes have no end.", "有的回合没有结束标记。"),
        (("{short}: {count} of {episodes} episodes: {places}", "{short}：{episodes} 个回合中的 {count} 个：{places}"),),
        ("The recording was interrupted, or a filter removed the last step.", "录制被中断，或过滤程序删掉了最后一步。"),
        "tandem demos edit {file}",
        (
            "No step of the episode is marked as terminated or truncated. `tandem demos edit` marks the last one as truncated.",
            "回合里没有任何一步标记为 terminated 或 truncated。`tandem demos edit` 会把最后一步标记为 truncated。",
        ),
    ),
    "demos_timeouts_terminal": Text(
        ("Time-outs are stored as if the task had ended.", "超时被存成了任务结束。"),
        (
            (
                "{short}: {count} of {episodes} episodes end without success after {length} steps, marked as terminated: {places}",
                "{short}：{episodes} 个回合中有 {count} 个在 {length} 步后未成功就结束，却标记为 terminated：{places}",
            ),
        ),
        (
            "`done` was used for both (mask 0). The value of everything near the time limit is then pulled to 0.",
            "两种情况都用了 `done`（mask 为 0）。时间上限附近的价值会被拉向 0。",
        ),
        "tandem demos edit {file} --truncate-timeouts",
        (
            "Episodes without success end as terminated at the time limit, or several after the same number of steps, the most in the file.",
            "没有成功的回合在时间上限处以 terminated 结束，或有几个在相同的步数（文件中最长）之后这样结束。",
        ),
    ),
    "demos_reward_always": Text(
        ("Most steps have the same reward, so it does not tell success from anything else.", "多数步的奖励相同：奖励无法区分成功与否。"),
        (("{short}: the reward is {reward} in {share} of the steps", "{short}：{share} 的步奖励为 {reward}"),),
        (
            "A reward classifier that is always sure, a success condition that holds from the start, or frames that were appended after the success.",
            "奖励分类器总是给出成功，成功条件一开始就成立，或成功之后追加了帧。",
        ),
        "tandem demos edit {file} --trim-after-success",
        (
            f"More than {limits.REWARD_ALWAYS:.0%} of the steps have a reward, and it has one value only.",
            f"超过 {limits.REWARD_ALWAYS:.0%} 的步有奖励，而且只有一个取值。",
        ),
    ),
    "demos_too_long": Text(
        (
            "The demonstrations are so long that the reward at their end is worth nothing at their start.",
            "演示太长：结尾的奖励在开头几乎没有价值。",
        ),
        (
            (
                "[given] {short}: {length} steps in the mean, and {discount}^{length} = {value}; a discount of {discount} reaches about {reach} steps",
                "[given] {short}：平均 {length} 步，{discount}^{length} = {value}；折扣 {discount} 只能看到约 {reach} 步",
            ),
            (
                "[usual] {short}: {length} steps in the mean. With hil-serl's discount: {discount}^{length} = {value}, it reaches about {reach} steps",
                "[usual] {short}：平均 {length} 步。用 hil-serl 的折扣：{discount}^{length} = {value}，只能看到约 {reach} 步",
            ),
            ("{fitting} would fit: {fitting}^{length} = 0.2", "合适的折扣是 {fitting}：{fitting}^{length} = 0.2"),
        ),
        (
            "Many small steps: a high control rate, slow motion or pauses. `--horizon auto` chooses the discount, the n-step sums and how often the policy decides from the demonstrations; dropping pauses or a lower rate makes them shorter.",
            "步多而小：控制频率高、动作慢或有停顿。`--horizon auto` 会根据演示选择折扣、n 步回报和决策间隔；去掉停顿或降低频率可以缩短演示。",
        ),
        "tandem train {task} --demos {file} --horizon auto",
        (
            f"discount^length is below {limits.VALUE_AT_START:g} for the mean length: a warning for a discount that was given (below {limits.VALUE_NOTHING:g} a problem), else a note with hil-serl's {limits.USUAL_DISCOUNT}.",
            f"按平均长度计算的 discount^length 低于 {limits.VALUE_AT_START:g}：给定折扣时是警告（低于 {limits.VALUE_NOTHING:g} 时是问题），否则按 hil-serl 的 {limits.USUAL_DISCOUNT} 给出提示。",
        ),
    ),
    "demos_starts_alike": Text(
        ("All demonstrations begin in the same state.", "所有演示都从同一状态开始。"),
        (
            (
                "{short}: over {episodes} episodes no number of the first observation varies by more than {spread} of its range",
                "{short}：{episodes} 个回合的初始观测，没有一个数的变化超过其范围的 {spread}",
            ),
        ),
        (
            "The reset is not randomised, or it returns the same observation again. A policy learned from them knows one start only.",
            "reset 没有随机化，或返回了同一个观测。由此学到的策略只认识一个起点。",
        ),
        "tandem record {task} --demos 25 --seed 1",
        (
            f"The spread of the starts is below {limits.STARTS_ALIKE:.1%} of each number's range in the file (a note), or exactly 0 (a warning).",
            f"起点的差异低于每个数在文件中范围的 {limits.STARTS_ALIKE:.1%}（提示），或完全为 0（警告）。",
        ),
        next_unscripted="tandem record {task} --operator browser --demos 25 --seed 1",
    ),
    "demos_few": Text(
        ("There are few demonstrations.", "演示数量很少。"),
        (("{short}: {episodes} episodes, {steps} steps", "{short}：{episodes} 个回合，{steps} 步"),),
        (
            "20 to 25 are usual. With a few, starts and paths that they do not show are learned by chance only.",
            "通常有 20 到 25 个。太少时，没有演示过的起点和路径只能靠偶然学到。",
        ),
        "tandem record {task} --demos 25",
        (f"The file has fewer than {limits.FEW_DEMOS} episodes.", f"文件少于 {limits.FEW_DEMOS} 个回合。"),
        next_unscripted="tandem record {task} --operator browser --demos 25",
    ),
    # ---- parts that do not belong together
    "demos_response_mixed": Text(
        ("Within the file the same action moves the robot by different distances.", "文件中同样的动作使机器人移动的距离不同。"),
        (
            (
                "{short}: an action of 1 on {axis} changes {channel} by {before} before episode {first}, and by {after} from it on ({ratio} times)",
                "{short}：{axis} 上大小为 1 的动作，在回合 {first} 之前使 {channel} 变化 {before}，之后变化 {after}（{ratio} 倍）",
            ),
        ),
        (
            "The action scale, the controller or the physics changed between two recordings that were merged. A policy cannot be right for both.",
            "合并的两次录制之间，动作尺度、控制器或物理参数改变过。一个策略不可能对两者都正确。",
        ),
        "tandem demos edit {file} --delete {earlier}",
        (
            f"For the axis and the number that follow each other best, the ratio of change to action differs by more than {limits.RESPONSE_RATIO} times between the earlier and the later episodes, and is even within both.",
            f"取最相关的轴和观测，变化与动作之比在前后两部分回合之间相差 {limits.RESPONSE_RATIO} 倍以上，而各部分内部一致。",
        ),
    ),
    "demos_scales_mixed": Text(
        ("Actions in one part of the file are several times as large as in the other.", "文件一部分的动作比另一部分大几倍。"),
        (
            (
                "{short}: usually up to {before} before episode {first}, up to {after} from it on ({ratio} times)",
                "{short}：回合 {first} 之前通常不超过 {before}，之后不超过 {after}（{ratio} 倍）",
            ),
        ),
        (
            "The sensitivity of the device or the action scale changed between two recordings that were merged.",
            "合并的两次录制之间，设备灵敏度或动作尺度改变过。",
        ),
        "tandem demos edit {file} --delete {earlier}",
        (
            f"The 90th percentile of the largest axis differs by more than {limits.SCALE_RATIO} times between the earlier and the later episodes, and is even within both.",
            f"最大轴的 90 百分位在前后两部分回合之间相差 {limits.SCALE_RATIO} 倍以上，而各部分内部一致。",
        ),
    ),
    # ---- pictures
    "demos_pictures_black": Text(
        ("A camera shows black pictures.", "相机的图像是黑的。"),
        (
            ("{short}: camera '{camera}', {share} of the pictures", "{short}：相机“{camera}”，{share} 的图像"),
            ("the first picture of {first} of {episodes} episodes is black", "{episodes} 个回合中有 {first} 个的第一张图像是黑的"),
        ),
        (
            "The camera was not connected yet when the episode began, a frame was missing and replaced by zeros, or the lens is covered.",
            "回合开始时相机还没有连接，缺少的帧被零代替，或镜头被遮住。",
        ),
        "tandem demos edit {file} --trim-start 1",
        (
            f"More than {limits.BLACK_SHARE:.0%} of a camera's pictures, or the first one of an episode, have a mean below {limits.BLACK_BRIGHTNESS:.0f} of 255 and a standard deviation below {limits.BLACK_CONTRAST:.0f}.",
            f"某个相机超过 {limits.BLACK_SHARE:.0%} 的图像，或某个回合的第一张，均值低于 {limits.BLACK_BRIGHTNESS:.0f}（共 255）且标准差低于 {limits.BLACK_CONTRAST:.0f}。",
        ),
    ),
    "demos_pictures_frozen": Text(
        ("A camera shows the same picture while the robot moves.", "机器人在动，而相机的图像不变。"),
        (
            (
                "{short}: camera '{camera}', the same picture in {still} of {moved} steps with motion ({share}); episodes {places}",
                "{short}：相机“{camera}”，{moved} 个有移动的步中有 {still} 个图像相同（{share}）；回合 {places}",
            ),
        ),
        (
            "The camera delivers fewer pictures than the control loop takes, or its stream stopped and the last picture was used again.",
            "相机的帧率低于控制频率，或图像流中断后一直使用最后一张。",
        ),
        "tandem demos show {file}",
        (
            f"In more than {limits.PICTURE_STILL:.0%} of the steps in which a number changes by more than 1 % of its range, the picture stays the same to the last bit.",
            f"在某个数变化超过其范围 1 % 的步中，有超过 {limits.PICTURE_STILL:.0%} 的步图像逐位相同。",
        ),
    ),
    "demos_pictures_swapped": Text(
        ("In some episodes two cameras are swapped.", "有的回合里两个相机互换了。"),
        (
            (
                "{short}: in {count} of {episodes} episodes '{one}' shows what '{other}' shows in the others: {places}",
                "{short}：{episodes} 个回合中有 {count} 个，“{one}”显示的是其他回合里“{other}”的画面：{places}",
            ),
        ),
        ("The cameras were found in another order when the program was started.", "程序启动时相机的顺序变了。"),
        "tandem demos edit {file} --swap-pictures {one}:{other}={these}",
        (
            f"The mean pictures of an episode are {limits.PICTURES_SWAPPED:g} times nearer to those of the other camera than to those of their own.",
            f"某个回合的平均图像离另一个相机比离自己的相机近 {limits.PICTURES_SWAPPED:g} 倍以上。",
        ),
    ),
    # ---- observations
    "demos_state_stale": Text(
        ("In many steps the robot gets commands and not one number changes.", "很多步里机器人收到移动指令，却没有一个数发生变化。"),
        (("{short}: {stale} steps ({share} of those with a motion)", "{short}：{stale} 步（占有移动指令的步的 {share}）"),),
        (
            "The state was not read anew: the connection failed and the old values were used, or the loop is faster than the sensor.",
            "状态没有更新：连接失败后沿用旧值，或循环比传感器快。",
        ),
        "tandem demos edit {file} --drop-stale",
        (
            f"After more than {limits.STALE_SHARE:.0%} of the steps with an action beyond {limits.COMMANDED:g}, all numbers of the observation are the same to the last bit.",
            f"动作大于 {limits.COMMANDED:g} 的步中，超过 {limits.STALE_SHARE:.0%} 的步之后所有观测数值逐位不变。",
        ),
    ),
    "demos_channels_dead": Text(
        ("Some numbers of the observation are 0 in every step.", "观测中有些数在每一步都是 0。"),
        (("{short}: {count} of {total} numbers in {steps} steps: {names}", "{short}：{steps} 步中，{total} 个数里有 {count} 个：{names}"),),
        (
            "A sensor is not connected, or the program that should fill these numbers in never does. A policy learned without them is lost on a robot that has them.",
            "传感器没有连接，或负责填写这些数的程序没有执行。没有这些数学到的策略，在有这些数的机器人上会失效。",
        ),
        "tandem demos edit {file} --drop {drop}",
        (
            "A number is exactly 0 in every observation of the file, and others are not.",
            "某个数在文件的每个观测中都正好是 0，而其他数不是。",
        ),
    ),
    "demos_channels_constant": Text(
        ("Some numbers of the observation never change.", "观测中有些数从不变化。"),
        (("{short}: {count}: {names}", "{short}：{count} 个：{names}"),),
        (
            "A setting, an axis that is not used, or a sensor that stands still. They do no harm.",
            "某个设置、没有使用的轴，或不变的传感器。没有害处。",
        ),
        "tandem demos inspect {file}",
        ("A number has the same value in every observation of the file, and it is not 0.", "某个数在文件的每个观测中都是同一个非零值。"),
    ),
    "demos_channels_frozen": Text(
        ("A number of the observation stops changing while the others go on.", "观测中某个数停止变化，而其他数还在变化。"),
        (
            (
                "{short}: {channel} has the same value in {run} steps in a row, from step {step} of episode {episode}",
                "{short}：{channel} 从回合 {episode} 的第 {step} 步起连续 {run} 步不变",
            ),
        ),
        ("The sensor or its connection failed during the recording.", "录制时传感器或其连接出错。"),
        "tandem demos edit {file} --delete {episode}",
        (
            f"A number that changes in at least {limits.CHANGES_USUALLY:.0%} of the steps of most episodes stays the same for {limits.FROZEN_RUN} steps or more, in which others change.",
            f"在多数回合中至少 {limits.CHANGES_USUALLY:.0%} 的步都变化的数，连续 {limits.FROZEN_RUN} 步以上不变，而其他数在变化。",
        ),
    ),
    "demos_channels_clipped": Text(
        ("A sensor is at the ends of its range in many steps.", "很多步里传感器处于量程的两端。"),
        (
            (
                "{short}: {channel} is exactly {low} or exactly {high} in {share} of the steps",
                "{short}：{channel} 在 {share} 的步中正好是 {low} 或 {high}",
            ),
        ),
        (
            "The values are cut off at the sensor's range: how large the force really was is not in the file.",
            "数值被量程截断：文件里没有真实的大小。",
        ),
        "tandem demos show {file} --channels {channel}",
        (
            f"A number is at its lowest value in more than {limits.CLIPPED_SIDE:.0%} and at its highest in more than {limits.CLIPPED_SIDE:.0%} of the steps, together in more than {limits.CLIPPED_SUM:.0%}, and nearly all values between occur once.",
            f"某个数在超过 {limits.CLIPPED_SIDE:.0%} 的步中处于最小值、在超过 {limits.CLIPPED_SIDE:.0%} 的步中处于最大值（合计超过 {limits.CLIPPED_SUM:.0%}），而中间的值几乎都只出现一次。",
        ),
    ),
    "demos_quaternions_flip": Text(
        ("A quaternion changes its sign from one step to the next.", "四元数在相邻两步之间变号。"),
        (("{short}: {channel}, {count} times", "{short}：{channel}，{count} 次"),),
        (
            "q and -q are the same rotation, but for a network they are far apart. Keep the sign of the step before in the environment, or use a rotation vector.",
            "q 和 -q 是同一旋转，但对网络来说相距很远。请在环境里保持上一步的符号，或改用旋转向量。",
        ),
        "tandem demos show {file} --channels {channel}",
        ("Four neighbouring numbers of length 1 turn into their negatives within a step.", "相邻的四个数（模为 1）在一步之内变为相反数。"),
    ),
    "demos_angles_wrap": Text(
        ("An angle jumps by a whole turn.", "角度跳变了一整圈。"),
        (("{short}: {channel}, {count} times", "{short}：{channel}，{count} 次"),),
        (
            "An Euler angle passes pi. For a network both ends are far apart. Measure it from the pose at the start, or use a rotation vector.",
            "欧拉角越过了 pi。对网络来说两端相距很远。请相对起始姿态测量，或改用旋转向量。",
        ),
        "tandem demos show {file} --channels {channel}",
        ("A number that stays between -pi and pi changes by about 2 pi within a step.", "始终在 -pi 和 pi 之间的数在一步之内变化约 2 pi。"),
    ),
    # ---- actions
    "demos_gripper_label": Text(
        ("The gripper's commands in the file are not those that were executed.", "文件里的夹爪指令不是实际执行的指令。"),
        (
            (
                "{short}: {axis} jumps {jumps} times, and {ignored} times the measured gripper ({channel}) does not move",
                "{short}：{axis} 跳变 {jumps} 次，其中 {ignored} 次测得的夹爪（{channel}）没有动",
            ),
        ),
        (
            "Idle steps were stored with a gripper command of 0 (half open) while the last command was executed. A policy learns to open the gripper when it pauses.",
            "空闲的步存的夹爪指令是 0（半开），而实际执行的是上一个指令。策略会学会一停就松开夹爪。",
        ),
        "tandem demos edit {file} --gripper '{column}={channel}'",
        (
            f"More than half of the jumps of an absolute command by more than {limits.GRIPPER_JUMP:g} move the number that follows it elsewhere by less than {limits.GRIPPER_MOVES:.0%} of its range within {limits.GRIPPER_STEPS} steps.",
            f"绝对指令的跳变（超过 {limits.GRIPPER_JUMP:g}）中，有一半以上在 {limits.GRIPPER_STEPS} 步之内没有使对应的测量值移动其范围的 {limits.GRIPPER_MOVES:.0%}。",
        ),
    ),
    "demos_actions_small": Text(
        ("The demonstrations use a small part of the action range.", "演示只用了动作范围的一小部分。"),
        (
            (
                "{short}: 99 % of the actions are below {usual}, the largest is {largest}; a policy explores the whole range from -1 to 1",
                "{short}：99 % 的动作小于 {usual}，最大 {largest}；而策略会探索 -1 到 1 的整个范围",
            ),
            ("{factor} times as large they fit", "放大 {factor} 倍正好合适"),
        ),
        (
            "The sensitivity of the device is low, or the action scale is large. Divide the action scale of the environment by this factor and multiply the actions by it: the motions stay the same, and the noise of exploration becomes as small as they are.",
            "设备灵敏度低，或动作尺度大。请把环境的动作尺度除以这个倍数，并把动作乘以它：运动不变，而探索噪声会相应变小。",
        ),
        "tandem demos edit {file} --scale-actions {columns}={factor}",
        (
            f"The largest axis is below {limits.SMALL_ACTIONS:g} in 99 % of the steps. Axes that hold a command, such as an absolute gripper, are left out.",
            f"99 % 的步中最大的轴低于 {limits.SMALL_ACTIONS:g}。保持指令的轴（例如绝对位置的夹爪）不计入。",
        ),
    ),
    "demos_axis_unused": Text(
        ("An axis of the action is never used.", "动作的某个轴从未使用。"),
        (("{short}: {names} is 0 in all {steps} steps", "{short}：{names} 在全部 {steps} 步中都是 0"),),
        (
            "The device does not map it, or the task does not need it. A policy still explores it. Leave the axis out of the environment, or map it.",
            "设备没有映射这个轴，或任务不需要。策略仍会探索它。请从环境里去掉这个轴，或加以映射。",
        ),
        "tandem demos inspect {file}",
        ("An axis is exactly 0 in every step, and others are not.", "某个轴在每一步都正好是 0，而其他轴不是。"),
    ),
}
