"""Rewards by their names on the command line: `simulation`, `person`, `classifier:FILE`, `conditions:FILE`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tandem.errors import ConfigError
from tandem.rewards.classifier import parse_classifier, read_classifier
from tandem.rewards.conditions import parse_conditions, read_conditions
from tandem.rewards.recompute import with_reward_of
from tandem.rewards.rule import Rule
from tandem.types import Spec

KINDS = ("classifier", "conditions")
"""Those that are a rule, with a file."""
SOURCES = "simulation, person, classifier:FILE or conditions:FILE"


def check_source(name: str) -> None:
    """Refuse an unknown name, before anything is done."""
    kind, _, file = name.partition(":")
    if name in ("simulation", "person") or (kind in KINDS and file):
        return
    raise ConfigError(f"no reward source '{name}'; there are {SOURCES}")


def open_rule(name: str) -> Rule | None:
    """The rule that a name stands for; None for the simulation's reward and a person's, which no file can give again."""
    check_source(name)
    kind, _, file = name.partition(":")
    if not file:
        return None
    return read_classifier(Path(file)) if kind == "classifier" else read_conditions(Path(file))


def judged_by(name: str, spec: Spec) -> tuple[bytes, Spec]:
    """The file of the rule that a name stands for, empty without one; and the spec of data that this source judges."""
    rule = open_rule(name)
    if rule is None:
        return b"", spec if name == "simulation" else dataclasses.replace(spec, reward=name)
    rule.require(spec)
    return rule.to_bytes(), with_reward_of(spec, rule)


def rule_from_bytes(kind: str, data: bytes) -> Rule:
    """As a run hands it to its actors."""
    if kind == "classifier":
        return parse_classifier(data, "the classifier of the run")
    if kind == "conditions":
        return parse_conditions(data, "the conditions of the run")
    raise ConfigError(f"the run gives rewards by '{kind}', which this version does not know: {', '.join(KINDS)}")
