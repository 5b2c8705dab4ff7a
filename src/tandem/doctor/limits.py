"""Every threshold of the checks, with its reason. The texts quote the values from here."""

# ---- link and processes
FRESH_S = 10.0
"""The hub writes its status every 2 seconds; if it is older, the hub hangs or has ended."""
ASLEEP_S = 120.0
"""A running run writes metrics or events much more often than this."""
NO_ACTOR_S = 15.0
"""Starting an actor takes a few seconds."""
SILENT_ACTOR_S = 5.0
"""An actor sends a status message every second."""
SLOW_ROUND_TRIP_MS = 250.0
CLOCKS_DIFFER_S = 2.0
BACKLOG_S = 10.0
"""Seconds of unacknowledged steps on the actor's machine."""
BACKLOG_STEPS = 200
FAILED_LOGINS = 20
"""Wrong tokens within ten minutes. A person mistypes one a few times; an actor with a revoked one tries about every three seconds."""
OFTEN_RESTARTED = 3
RECENTLY_S = 600.0

# ---- actor
LAG_VERSIONS = 5
"""Policies published since the one the actor uses; a healthy actor is 0 or 1 behind."""
LAG_S = 10.0
CONTROL_RATE = 0.8
"""Share of the task's control rate."""
SATURATED_SHARE = 0.6
"""Share of action components at their limit. A good policy may push hard, so this counts only at low success."""
CONSTANT_STD = 1e-3
LITTLE_SUCCESS = 0.5
STUCK_SHARE = 0.8
"""Share of the newest steps with one observation component at the edge of its observed range."""
ENOUGH_STEPS = 200
"""Steps needed before the actions are judged."""

# ---- training
FILLING_S = 600.0
"""If filling up to `training_starts` takes longer than this, it is a problem."""
FROZEN_VERSIONS = 3
FROZEN_CHANGE = 1e-9
"""Relative to the norm of the parameters."""
RATIO = 0.5
"""Measured learner steps per actor step, as a share of what was asked for."""
SLOW_FACTOR = 10.0
"""Times the estimate from the machine's matrix products."""
SLOW_MS = 50.0

# ---- learning
DIVERGED_Q = 3.0
"""Mean Q in units of the largest possible return."""
RECENT_STEPS = 1000
"""Learner steps after which a roll-back no longer counts."""
OVERESTIMATED = 0.1
"""Distance outside the return range, as a share of its width."""
EPISODES_WITHOUT_REWARD = 200
EPISODES_TO_WARN = 100
COLLAPSED = 1e-6
"""Relative difference of two critics' parameters."""
HOT_TEMPERATURE = 30.0
"""Times the initial temperature, and above 1."""
ENTROPY_BELOW = 3.0
"""Nats per action component below the target."""
ENTROPY_UNIFORM = 0.95
"""Share of the entropy of uniform random actions."""
LOSS_RISE = 5.0
LOSS_FLOOR = 0.02
"""Share of the squared return range: below it, a rising critic loss does not matter."""
INTERVENED_SHARE = 0.3
LATE_STEPS = 5000
"""Learner steps after which a policy should be near its demonstrations."""
EVALUATION_BELOW = 0.3
EVALUATION_ABOVE = 0.5

# ---- a gripper
CHATTER = 10.0
"""Changes of what a gripper is told, in 100 steps. A grasp is one; with a second try it is three, in a demonstration of 100 steps."""
COMMANDS_AXIS = 1 / 3
"""Part of the range of an absolute axis beyond which it says open or closed."""
FLAT = 0.01
"""Difference between the best and the worst choice, in units of the range of returns: the usual penalty of opening and closing alone is
twice as much."""
LOST_SHARE = 0.3
"""Share of the episodes that lose what they hold."""
LAST_STEPS = 10
"""Steps of an episode that say where it ended."""

# ---- data
IDLE_DEMOS = 0.3
SATURATED_DEMOS = 0.5
CAMERA_MOVED = 0.05
"""Change of any scaled number of the observation in a step, from which on the robot has moved and its cameras should show it."""
CAMERA_FROZEN = 0.9
"""Share of such steps with the same picture."""
CAMERA_BLIND = 0.1
"""Standard deviation of the features, relative to the demonstrations."""
CAMERA_EPISODES = 5
CAMERA_SWAPPED = 2.0
"""How many times nearer two cameras are to each other's pictures of the demonstrations than to their own."""
CAMERA_LATE = 2
"""Steps by which a picture is behind the robot."""
CAMERA_LATE_MOST = 6
CAMERA_LATE_CLEAR = 0.2
"""How much better its changes agree with the motion of so many steps before (correlation) than with that of the same step."""
CAMERA_LATE_AGREES = 0.5
CAMERA_EXPOSED = 0.4
"""Share of the pixels that are white to the limit."""
DRIFT = 3.0
"""Standard deviations between the first observations of early and late episodes."""
FEW_EPISODES = 20
CLIPPED_SHARE = 0.2
ALWAYS_CLIPPED = 0.99
"""Nothing of such a number reaches the networks."""
ENDS = 10
"""Episode ends needed before they are judged."""
DISK_S = 3600.0
MEMORY_SHARE = 0.9

# ---- PPO
KL_FACTOR = 10.0
CLIP_FRACTION = 0.5
PPO_WARM_UP = 50
"""Iterations before the value function is judged."""
STD_LOW = 0.02
STD_HIGH = 5.0

# ---- robots behind HTTP: commanded against measured motion
ROBOT_STALE = 0.1
"""Share of the steps that command a motion after which no number of the state has changed."""
ROBOT_WINDOW, ROBOT_WINDOWS = 4, 20
"""Steps over which a commanded motion is compared with the measured one, and how many such stretches an axis needs to be judged."""
ROBOT_MAINLY = 0.8
"""Share of a commanded motion along one axis: the others hardly count."""
ROBOT_SWAPPED, ROBOT_FLIPPED, ROBOT_DEAD = 0.5, 0.3, 0.05
"""Measured for commanded motion: along another axis, against it, along none. An arm that follows late, or is pushed, gives 0.2 to 1."""
ROBOT_LAG, ROBOT_LAG_MOST, ROBOT_LAG_FITS = 4, 10, 0.5
"""Steps after which the arm follows: that is late, so far it is looked for, and the correlation with what was commanded then."""
ROBOT_GRIPPER_CHANGES = 5

# ---- demonstrations, by `tandem demos check`
DEMO_STEPS = 50
"""Steps of a file before its numbers are judged."""
CHANGES_USUALLY = 0.9
"""Share of the steps in which a number changes; below that, one that stays the same is nothing special."""
FROZEN_RUN = 20
"""Steps in which such a number stays the same to the last bit while others change."""
CLIPPED_SIDE, CLIPPED_SUM, CLIPPED_MOST = 0.03, 0.1, 0.6
"""Share of the steps in which a number is exactly at its lowest and at its highest value: on each side, and together. One that is hardly
ever in between, such as the width of a gripper, has no other places to be."""
STALE_SHARE = 0.05
"""Share of the steps that command a motion after which no number has changed."""
COMMANDED = 0.05
"""Part of an axis' range that counts as a commanded motion."""
SMALL_ACTIONS = 0.35
"""99 % of all actions are below this."""
GRIPPER_JUMP = 0.25
"""Change of a gripper's command from one step to the next that a gripper would follow."""
GRIPPER_MOVES = 0.05
"""Part of its range that a measured gripper moves when it follows."""
GRIPPER_STEPS = 10
"""Steps in which it may do so."""
GRIPPER_JUMPS = 5
GAP_STANDS = 2.0
"""Where no number changes more than this many times as much over missing steps as over others, the robot stood still."""
RESPONSE_RATIO = 1.4
"""Between two parts of a file: how far the robot moves for the same action."""
RESPONSE_FITS = 0.5
"""Part of the variance of a number's change that its action explains, before the two are compared."""
SCALE_RATIO = 2.5
"""Between two parts of a file: how large the actions are."""
GROUP_SPREAD = 0.2
"""Within each of the parts, relative to its median."""
GROUP_APART = 0.8
"""Nearly all of one part are below nearly all of the other: their quantiles do not meet."""
GROUP_EPISODES, GROUP_STEPS = 3, 100
VALUE_AT_START = 0.01
"""What a reward of 1 at the end may be worth at the start of a demonstration, at least."""
VALUE_NOTHING = 1e-4
"""Below this nothing can be learned from the reward, whatever else is done."""
GAP_OF_VALUE, GAP_OF_SPREAD = 0.02, 0.5
"""The demonstrated action is worth so much more than random ones: as a share of its value, and of how much those differ."""
USUAL_DISCOUNT = 0.97
"""hil-serl's; for the number in the report where no other discount is known."""
REWARD_ALWAYS = 0.5
STARTS_SAME, STARTS_ALIKE = 1e-6, 5e-3
"""Spread of the starts in every number, relative to its range in the file."""
FEW_DEMOS = 5
BLACK_BRIGHTNESS, BLACK_CONTRAST = 4.0, 1.0
"""Of 255: a picture below both shows nothing."""
BLACK_SHARE = 0.01
PICTURE_STILL = 0.1
"""Share of the steps in which the robot moves and the picture is the same to the last bit."""
CONTRADICTIONS = 3
"""Episodes of which a person says something else than the classifier."""
REWARD_FAR = 0.2
"""Share of the newest steps that are farther from the training of the classifier than 99 % of its own frames."""
PICTURES_SWAPPED = 2.0
"""How many times nearer the pictures of an episode are to the other camera's than to their own camera's in the rest of the file."""
