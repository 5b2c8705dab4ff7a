"""Steps in, finished episodes out: what `environment/episode/*` reports."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tandem.types import Metrics, Transition

WINDOW = 20
"""Episodes over which success and the other figures are averaged."""


@dataclass
class Episode:
    """`interventions` counts segments, `intervention_steps` their steps."""

    returns: float = 0.0
    length: int = 0
    interventions: int = 0
    intervention_steps: int = 0
    began_at: int = 0
    """Its first step: above 0 if it began in the middle of a demonstration (`acting/demo_starts.py`)."""
    success: bool | None = None
    """None: the environment has not reported it in any step."""
    last_intervened: bool = False

    def add(self, step: Transition) -> None:
        self.returns += step.reward
        self.length += 1
        self.interventions += step.intervened and not self.last_intervened
        self.intervention_steps += step.intervened
        if step.success is not None:
            self.success = bool(self.success) or step.success
        self.last_intervened = step.intervened


class EpisodeLog:
    """Puts together the episodes of every source and keeps the last ones."""

    def __init__(self, control_hz: float) -> None:
        self._control_hz = control_hz
        self._open: dict[tuple[str, int], Episode] = {}
        self.finished = 0
        self._recent: deque[Episode] = deque(maxlen=WINDOW)
        self._names: deque[tuple[str, int]] = deque(maxlen=WINDOW)
        """Source and number of the same episodes."""
        self._succeeded = False
        """Whether any episode so far was reported as a success."""
        self._from_demos: deque[bool] = deque(maxlen=WINDOW)
        """Success of the last episodes that began in the middle of a demonstration: they are easier, and count apart."""

    def add(self, steps: Iterable[Transition]) -> None:
        for step in steps:
            episode = self._open.setdefault((step.source, step.episode), Episode(began_at=step.step))
            episode.add(step)
            if step.last and episode.began_at:
                self._from_demos.append(bool(self._open.pop((step.source, step.episode)).success))
                self.finished += 1
            elif step.last:
                self._recent.append(self._open.pop((step.source, step.episode)))
                self._succeeded |= bool(self._recent[-1].success)
                self._names.append((step.source, step.episode))
                self.finished += 1

    def forget(self, episodes: set[tuple[str, int]]) -> None:
        """Leave out episodes that a person discarded."""
        kept = [(name, episode) for name, episode in zip(self._names, self._recent, strict=True) if name not in episodes]
        self._names, self._recent = deque((name for name, _ in kept), WINDOW), deque((episode for _, episode in kept), WINDOW)
        for name in episodes:
            self._open.pop(name, None)

    @property
    def success_known(self) -> bool:
        """Whether the environment reports success; before the first episode has ended, nobody knows that it does not.

        One that names it only when it happens says nothing of the other episodes: a single success is enough to know.
        """
        return self._succeeded or not self._recent or any(episode.success is not None for episode in self._recent)

    @property
    def success_rate(self) -> float | None:
        """Share of the last episodes; None before the first has ended, and where success is not known."""
        return self._share([episode.success for episode in self._recent])

    @property
    def alone(self) -> float | None:
        """Share of the last episodes that succeeded without any help.

        Of all of them, not of those in which nobody helped: a person helps where it goes wrong, so those would look far too good.
        """
        return self._share([episode.success and not episode.intervention_steps for episode in self._recent])

    @property
    def alone_of_window(self) -> float:
        """The same, but of as many episodes as are looked at: a few lucky ones at the start do not count as a skill."""
        return sum(bool(episode.success) and not episode.intervention_steps for episode in self._recent) / WINDOW

    @property
    def helped(self) -> float | None:
        """Share of the last episodes that succeeded with a person's help; with `alone` it makes up the success."""
        return self._share([episode.success and episode.intervention_steps > 0 for episode in self._recent])

    @property
    def without_help(self) -> float | None:
        """Success among the last episodes without help; None if there was help in all of them. See `alone` for what this hides."""
        return self._share([episode.success for episode in self._recent if not episode.intervention_steps])

    def _share(self, successes: list[bool | None]) -> float | None:
        return sum(map(bool, successes)) / len(successes) if successes and self.success_known else None

    @property
    def in_words(self) -> tuple[str, str]:
        """For people, name and value: the success rate, with and without help separately; the return where success is not known."""
        if not self._recent:
            return "success", "-"
        if not self.success_known:
            return "return", f"{self._mean('returns'):.2f}, mean of the last {WINDOW}"
        if not any(episode.intervention_steps for episode in self._recent):
            return "success", f"{self.success_rate:.0%} of the last {WINDOW}"
        return "success", f"{self.alone:.0%} alone and {self.helped:.0%} with a person's help, of the last {WINDOW}"

    def _mean(self, name: str) -> float:
        return sum(float(getattr(episode, name) or 0) for episode in self._recent) / len(self._recent)

    def metrics(self) -> Metrics:
        """Means over the last episodes, by the names that hil-serl's users know; no success where none is reported."""
        apart = {"environment/from_demos/success": sum(self._from_demos) / len(self._from_demos)} if self._from_demos else {}
        if not self._recent:
            return apart
        steps = sum(episode.length for episode in self._recent)
        found = {
            "environment/episode/r": self._mean("returns"),
            "environment/episode/l": self._mean("length"),
            "environment/episode/t": self._mean("length") / self._control_hz,
            "environment/episode/success": self.success_rate,
            "environment/episode/intervention_count": self._mean("interventions"),
            "environment/episode/intervention_steps": self._mean("intervention_steps"),
            "environment/episode/intervention_share": sum(episode.intervention_steps for episode in self._recent) / steps,
            "environment/episode/help_share": sum(episode.intervention_steps > 0 for episode in self._recent) / len(self._recent),
            "environment/episode/success_alone": self.alone,
            "environment/episode/success_helped": self.helped,
        }
        return {name: value for name, value in found.items() if value is not None} | apart


BATCH_WINDOW = 100
"""Episodes over which rsl_rl averages."""


class BatchEpisodes:
    """The same for many environments at a time, without transitions: `Train/*`, as rsl_rl names it."""

    def __init__(self, num_envs: int) -> None:
        self.finished = 0
        self._returns, self._lengths, self._success = np.zeros(num_envs), np.zeros(num_envs, int), np.zeros(num_envs, bool)
        self._partial = np.zeros(num_envs, bool)
        self._recent: deque[tuple[float, int, bool]] = deque(maxlen=BATCH_WINDOW)
        self._success_known = False
        """Whether the environments report success."""

    def skip_open(self) -> None:
        """Leave out the episodes now running: they were not seen from their start."""
        self._partial[:] = True

    def add(self, reward: np.ndarray, ended: np.ndarray, success: np.ndarray, success_known: bool = True) -> None:
        """One step of all environments, with the rewards as the task gave them."""
        self._success_known |= success_known or bool(success.any())
        self._returns += reward
        self._lengths += 1
        self._success |= success
        if not ended.any():
            return
        for row in np.flatnonzero(ended):
            if not self._partial[row]:
                self._recent.append((float(self._returns[row]), int(self._lengths[row]), bool(self._success[row])))
                self.finished += 1
        self._returns[ended], self._lengths[ended], self._success[ended], self._partial[ended] = 0.0, 0, False, False

    def metrics(self) -> Metrics:
        """Means over the last episodes; empty before the first has ended."""
        if not self._recent:
            return {}
        returns, lengths, success = np.array(self._recent, float).T
        figures = {"Train/mean_reward": float(returns.mean()), "Train/mean_episode_length": float(lengths.mean())}
        return figures | ({"Train/mean_success": float(success.mean())} if self._success_known else {})

    def state(self) -> dict[str, Any]:
        open_ = {"returns": self._returns, "lengths": self._lengths, "success": self._success, "partial": self._partial}
        recent = [list(episode) for episode in self._recent]
        return {"finished": self.finished, "open": open_, "recent": recent, "success_known": self._success_known}

    def restore(self, state: Mapping[str, Any], open_too: bool = True) -> None:
        self.finished, self._success_known = state["finished"], state.get("success_known", False)  # older checkpoints do not say it
        self._recent.extend((r, n, s) for r, n, s in state["recent"])
        if open_too:
            self._returns, self._lengths, self._success, self._partial = (
                np.array(state["open"][name]) for name in ("returns", "lengths", "success", "partial")
            )
