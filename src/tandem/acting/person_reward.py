"""A person's labels as the only reward; and the reward sources by the names that a run gives them."""

from __future__ import annotations

import dataclasses

from tandem.acting.rewards import EnvironmentReward, Judged, RewardSource, TakesLabels, with_label
from tandem.errors import ConfigError
from tandem.rewards.named import rule_from_bytes
from tandem.types import Spec, Step


class PersonReward(TakesLabels):
    """A person's labels: no reward before one, and an episode that the environment ended waits for one. One robot only."""

    name = "person"

    def must_ask(self, step: Step) -> bool:
        return bool(step.terminated[0] or step.truncated[0]) and self._label is None  # of a lost episode there is nothing to judge

    def judge(self, step: Step) -> Judged:
        nothing = step.success & False
        unjudged = dataclasses.replace(step, reward=0.0 * step.reward, terminated=nothing, truncated=step.ended, success=nothing)
        label = self.take_label()
        if label is not None:
            return with_label(unjudged, label)
        return Judged(unjudged, "nobody judged the last episode: it counts as cut short" if step.ended[0] else "no label yet")


def reward_source(name: str, spec: Spec, num_envs: int = 1, rule: bytes = b"") -> RewardSource:
    """The source that a run names, such as `classifier:FILE`; the content of the file is `rule`."""
    kind = name.partition(":")[0]
    if kind == "simulation":
        return EnvironmentReward()
    if kind != "person":
        from tandem.acting.rule_reward import RuleReward  # only runs with a rule need it

        return RuleReward(rule_from_bytes(kind, rule), num_envs, spec)
    if num_envs != 1:
        raise ConfigError(f"a person judges one robot: reward_source 'person' goes with num_envs 1, got {num_envs}")
    return PersonReward()
