"""Where healthy ends: every threshold of the checks, and the reason for it. The texts quote them from here."""

# ---- link and processes
FRESH_S = 10.0
"""The hub writes its view every 2 seconds; an older one is of a hub that hangs or is gone."""
ASLEEP_S = 120.0
"""A run writes a row of metrics, or an event, far more often than this."""
NO_ACTOR_S = 15.0
"""Starting an actor takes a few seconds."""
SILENT_ACTOR_S = 5.0
"""An actor says how it is every second."""
SLOW_ROUND_TRIP_MS = 250.0
CLOCKS_DIFFER_S = 2.0
BACKLOG_S = 10.0
"""Seconds of steps that wait on the actor's side."""
BACKLOG_STEPS = 200
OFTEN_RESTARTED = 3
RECENTLY_S = 600.0

# ---- actor
LAG_VERSIONS = 5
"""Policies that were published since the one the actor acts with; a healthy actor is 0 or 1 behind."""
LAG_S = 10.0
CONTROL_RATE = 0.8
"""Of the wanted rate."""
SATURATED_SHARE = 0.6
"""Of all action components at their limit. A good policy may push hard, so it counts only while there is little success."""
CONSTANT_STD = 1e-3
LITTLE_SUCCESS = 0.5
STUCK_SHARE = 0.8
"""Of the newest steps with one observation component at the edge of all that was ever seen of it."""
ENOUGH_STEPS = 200
"""Before anything is said about how the actor moves."""

# ---- training
FILLING_S = 600.0
"""Longer than this until `training_starts` is not waiting any more."""
FROZEN_VERSIONS = 3
FROZEN_CHANGE = 1e-9
"""Relative to the size of the parameters."""
RATIO = 0.5
"""Learner steps per actor step, of those that were asked for."""
SLOW_FACTOR = 10.0
"""Times what the machine's own matrix products would take."""
SLOW_MS = 50.0

# ---- learning
DIVERGED_Q = 3.0
"""Mean Q in units of the largest possible return."""
RECENT_STEPS = 1000
"""Learner steps after which a roll-back is history."""
OVERESTIMATED = 0.1
"""Of the width of the return range, beyond it."""
EPISODES_WITHOUT_REWARD = 200
EPISODES_TO_WARN = 100
COLLAPSED = 1e-6
"""Relative difference of two critics' parameters."""
HOT_TEMPERATURE = 30.0
"""Times the initial temperature, and above 1."""
ENTROPY_BELOW = 3.0
"""Nats per action component below the target."""
ENTROPY_UNIFORM = 0.95
"""Of the entropy of uniform random actions."""
LOSS_RISE = 5.0
LOSS_FLOOR = 0.02
"""Of the square of the return range: a smaller critic loss may rise as it likes."""
INTERVENED_SHARE = 0.3
LATE_STEPS = 5000
"""Learner steps after which a policy should be near its demonstrations."""
EVALUATION_BELOW = 0.3
EVALUATION_ABOVE = 0.5

# ---- data
IDLE_DEMOS = 0.3
SATURATED_DEMOS = 0.5
DRIFT = 3.0
"""Standard deviations between the first observations of early and late episodes."""
FEW_EPISODES = 20
CLIPPED_SHARE = 0.2
ENDS = 10
"""Ends of episodes before anything is said about them."""
DISK_S = 3600.0
MEMORY_SHARE = 0.9

# ---- PPO
KL_FACTOR = 10.0
CLIP_FRACTION = 0.5
PPO_WARM_UP = 50
"""Iterations before the value function is judged."""
STD_LOW = 0.02
STD_HIGH = 5.0
