"""Whether a step may be learned from, with the reason if not; journal, demos and imports all use it."""

from __future__ import annotations

import math

import numpy as np

from tandem.data.plausibility import believed, believed_rewards
from tandem.data.rejection import action_reason, array_reason, observation_reason
from tandem.layouts import ActionLayout
from tandem.teleop.ask import TAGS
from tandem.types import Entry, Spec, Transition

COUNT_LIMIT = 2**53
"""Episode and step numbers stay below this: exact in any language that may read the file."""


_NOTHING = np.zeros(0, np.float32), np.zeros(0, np.float32)


class Validator:
    """Says of each step of one spec why it cannot be used, naming entry and index.

    A sound step pays for one comparison of all its numbers together with what is believed of them (`plausibility.py`); only a step that
    fails anything is checked entry by entry (`rejection.py`), to name the place.
    """

    def __init__(self, spec: Spec):
        self._entries = dict(spec.observation)
        self._layout, self._action = ActionLayout.of(spec), Entry((spec.action_dim,))
        self._expected = [(name, entry.shape, np.dtype(entry.dtype)) for name, entry in spec.observation.items()]
        self._float_names = [name for name, _, dtype in self._expected if dtype.kind == "f"]
        ranges = [believed(spec.observation[name]) for name in self._float_names]
        self._low, self._high = (np.concatenate([pair[side].reshape(-1) for pair in ranges or [_NOTHING]] * 2) for side in (0, 1))
        self._rewards = believed_rewards(spec)

    def reason(self, transition: Transition) -> str | None:
        if self._sound(transition):
            return None
        return (
            observation_reason(transition.observation, self._entries, "observation")
            or observation_reason(transition.next_observation, self._entries, "next_observation")
            or array_reason(transition.action, self._action, "action")
            or action_reason(transition.action, self._layout)
            or _number_reason(transition)
            or self._reward_reason(float(transition.reward))
        )

    def _reward_reason(self, reward: float) -> str | None:
        low, high = self._rewards
        return None if low <= reward <= high else f"reward is about {reward:.0e}, beyond the plausible {low:.4g} to {high:.4g}"

    def _sound(self, transition: Transition) -> bool:
        observation, following, action = transition.observation, transition.next_observation, transition.action
        if len(observation) != len(self._expected) or len(following) != len(self._expected):
            return False
        try:
            for name, shape, dtype in self._expected:
                now, then = observation[name], following[name]
                if type(now) is not np.ndarray or type(then) is not np.ndarray:
                    return False
                if now.shape != shape or then.shape != shape or now.dtype != dtype or then.dtype != dtype:
                    return False
            if type(action) is not np.ndarray or action.shape != self._action.shape or action.dtype != self._action.dtype:
                return False
            if _number_reason(transition) or self._reward_reason(float(transition.reward)):
                return False
            floats = [entries[name].reshape(-1) for entries in (observation, following) for name in self._float_names]
            numbers = np.concatenate(floats) if floats else _NOTHING[0]
            if not ((numbers >= self._low) & (numbers <= self._high)).all():  # NaN compares false, and no bound is infinite
                return False
            return bool(self._layout.valid(action[None])[0])  # NaN compares false
        except (KeyError, AttributeError, TypeError):
            return False


def _number_reason(transition: Transition) -> str | None:
    reward = transition.reward
    if isinstance(reward, bool) or not isinstance(reward, (float, int, np.floating, np.integer)):
        return f"reward is a {type(reward).__name__}, not a number"
    if not math.isfinite(reward):
        return f"reward is {float(reward)}"
    for name in ("terminated", "truncated", "intervened", "success"):
        flag = getattr(transition, name)
        unknown = flag is None and name == "success"
        if flag is not True and flag is not False and not unknown and not isinstance(flag, np.bool_):
            return f"{name} is a {type(flag).__name__}, neither True nor False"
    for name, lowest in (("episode", 0), ("step", 0), ("policy_version", -1)):
        count = getattr(transition, name)
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)):
            return f"{name} is a {type(count).__name__}, not a count"
        if not lowest <= count < COUNT_LIMIT:
            return f"{name} is {count}, expected a count from {lowest}"
    if transition.tag and transition.tag not in TAGS:
        return f"tag is {transition.tag!r:.40}, expected one of {', '.join(TAGS)}"
    return None
