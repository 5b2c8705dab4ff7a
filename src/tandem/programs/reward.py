"""`tandem reward ACTION`: everything that is done with rewards: compute them anew, label frames, train and look at a classifier."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import tyro

from tandem.data.editing import Edit
from tandem.envs.registry import spec_for
from tandem.errors import ConfigError
from tandem.programs.edit_demos import opened_together, rewrite
from tandem.programs.terminal import console, say
from tandem.rewards.named import open_rule
from tandem.rewards.recompute import Recomputed, with_reward_of
from tandem.rewards.rule import Rule
from tandem.types import Spec, Transition

Files = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE...")]


def apply(files: Files, source: str, out: Path | None = None, task: str | None = None) -> int:
    """Compute the rewards of stored steps anew, to a new file with its history inside; the old files stay as they are.

    An episode ends with its success: steps after it are left out. One that never succeeds ends as cut off.

    Args:
        files: Files of demonstrations or journals, in any format that `tandem demos import` reads. Several become one.
        source: What gives the rewards: classifier:FILE or conditions:FILE.
        out: Folder of the new file. Default: that of the first file.
        task: The task of files that have no spec of their own.
    """
    if not files:
        raise ConfigError("which file? `tandem reward apply FILE... --source classifier:FILE`")
    rule = open_rule(source)
    if rule is None:
        raise ConfigError(
            f"the rewards of the source '{source}' are those that were stored: neither a simulation nor a person can judge stored steps "
            f"again. Give --source classifier:FILE or conditions:FILE."
        )
    with opened_together(files, None if task is None else spec_for(task)) as opened:
        path, done = rewrite(opened, lambda spec, overview: [_Reward(rule, spec)], out or files[0].absolute().parent)
    for line in done:
        say(line)
    say(f"wrote {path}")
    return 0


class _Reward(Edit):
    """The edit that computes rewards; what it did is known at the end."""

    def __init__(self, rule: Rule, spec: Spec) -> None:
        rule.require(spec)
        self._recomputed = Recomputed(rule, spec)
        super().__init__(self._episode, "", lambda old: with_reward_of(old, rule))

    def _episode(self, _: int, steps: list[Transition]) -> Iterator[list[Transition]]:
        yield self._recomputed.episode(steps)

    def said(self) -> str:
        return self._recomputed.words()


ACTIONS: dict[str, tuple[str, str]] = {
    "label": ("programs.label_frames:label", "Label frames: on a page, in the terminal, in a CSV file, or by the success that is known."),
    "train": ("programs.train_reward:train_classifier", "Train a reward classifier, and say how good it is on held-out episodes."),
    "set": ("programs.train_reward:change", "Write a classifier with another threshold, hold time or further conditions."),
    "show": ("programs.train_reward:show", "Print what a classifier looks at, its thresholds, and how good it is."),
    "apply": ("programs.reward:apply", "Compute the rewards of stored steps anew, to a new file with its history inside."),
}
"""Where the function of each action is, and the first line of its help."""


def action(name: str) -> Callable[..., Any]:
    module, function = ACTIONS[name][0].split(":")
    return getattr(importlib.import_module(f"tandem.{module}"), function)


def reward(args: list[str]) -> int:
    """Compute rewards anew, label frames, train a reward classifier."""
    if not args or args[0] in ("-h", "--help"):
        console.print("usage: tandem reward ACTION ... [-h]\n\nRewards from what is observed: conditions, and classifiers.\n")
        for name, (_, summary) in ACTIONS.items():
            console.print(f"  [bold]{name:10}[/] {summary}", highlight=False)
        console.print("\n`tandem reward ACTION --help` says more.")
        return 0
    if args[0] not in ACTIONS:
        raise ConfigError(f"no action '{args[0]}'; there are {', '.join(ACTIONS)}")
    return tyro.cli(action(args[0]), args=args[1:], prog=f"tandem reward {args[0]}") or 0
