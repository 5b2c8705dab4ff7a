"""A person's hand on the robot: who holds control, what happens when the hand is lost, and how control goes back.

    free ──take──► held ──let go──► free             (the policy goes on, smoothly)
                    │ ▲
        0.3 s silent│ │heard again
                    ▼ │
                   lost ──3 s──► stranded            (both stand still)
                    │               │
                    └─take / resume─┘──► held / free

Taking over is relative, as with a clutch: an action is a small step of the command, so a hand that rests commands no motion, and nothing
jumps to where the hand is. Lost means that the page, the network or the device is gone while it held the robot: no motion is
commanded from then on, and it is said. The policy never begins again by itself after that: a person takes control again, or says resume.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tandem.errors import DeviceLost
from tandem.layouts import ActionLayout
from tandem.teleop.hand_action import blend, hand_action, still
from tandem.teleop.operator import HandsOff, ResumableOperator
from tandem.types import Observation

LOST_S = 0.3
"""Without a word from who holds control: the hand is lost."""
STRANDED_S = 3.0
"""After that, nobody holds it any more."""
SMOOTH_STEPS = 3
"""Steps in which a released robot goes over from the hand's motion to the policy's."""


@dataclass(frozen=True)
class Reading:
    """What a device on this machine says at this moment."""

    axes: np.ndarray
    """In [-1, 1], one for each axis of the action."""
    holds: bool
    """Whether the person wants control."""
    commands: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Commands by button, as the page would give them: ("label", {"success": True}), ..."""


class Hand(Protocol):
    """A device on this machine; `read` never waits, and raises `DeviceLost` when it is gone."""

    name: str

    def read(self) -> Reading: ...

    def close(self) -> None: ...


@dataclass
class Steering:
    """An operator that a person can take over from another one (`inner`), which otherwise decides.

    Fed from the control loop's own thread alone. `axes` of the wrong number are filled up with zeros or cut.
    """

    layout: ActionLayout
    inner: ResumableOperator = field(default_factory=HandsOff)
    hand: Hand | None = None
    clock: Callable[[], float] = time.monotonic
    name: str = "person"
    state: str = "free"
    """free, held, lost or stranded."""
    holder: str = ""
    notice: str = ""
    """What a person should know; empty if there is nothing."""
    who: str = "policy"
    """Chose the last action: policy, person, script or nobody."""
    tag: str = ""
    """Why the person who holds it took over, as the page says (`ask.TAGS`); else what `inner` says."""
    commands: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """What the buttons of the device on this machine ask for; the loop takes them."""
    _axes: np.ndarray = field(init=False)
    _heard_at: float = 0.0
    _last: np.ndarray = field(init=False)
    """What the hand did last."""
    _standing: np.ndarray = field(init=False)
    """The last action, of the policy or of a person: a hand that rests leaves a gripper as it is."""
    _since_release: int = SMOOTH_STEPS

    def __post_init__(self) -> None:
        self._axes = np.zeros(self.layout.size, np.float32)
        self._last = self._standing = self.layout.rest.copy()

    @property
    def held(self) -> bool:
        """A person's hand moves the robot, or did a moment ago: the pace is that of the real world."""
        return self.state in ("held", "lost")

    @property
    def stands(self) -> bool:
        """Nobody moves the robot, and nobody may until a person says so."""
        return self.state == "stranded"

    @property
    def hand_name(self) -> str:
        """The device on this machine; empty if there is none."""
        return self.hand.name if self.hand is not None else ""

    # ---- who holds it

    def take(self, holder: str) -> str:
        """Empty if it now holds the robot, else who does. A hand that was lost can be followed by any other."""
        if self.state == "held" and self.holder not in ("", holder):
            return self.holder
        if self.state != "held":
            self._axes[:] = 0.0  # whatever the last hand did: this one has not moved yet
            self.tag = ""
        self.state, self.holder, self.notice, self._heard_at = "held", holder, "", self.clock()
        return ""

    def steer(self, holder: str, axes: Any, at: float) -> None:
        """What the hand does; a lost one that is heard again goes on."""
        if holder != self.holder or self.state not in ("held", "lost") or at < self._heard_at:
            return
        if self.state == "lost":
            self.state, self.notice = "held", ""
        given = np.asarray(axes, np.float32).reshape(-1)[: self.layout.size]
        self._axes[:] = 0.0
        self._axes[: len(given)] = np.clip(np.nan_to_num(given), -1.0, 1.0)
        self._heard_at = at

    def let_go(self, holder: str) -> None:
        """On purpose: the policy goes on."""
        if holder == self.holder and self.state in ("held", "lost"):
            self._free()

    def lose(self, holder: str, why: str) -> None:
        """Not on purpose: stand still."""
        if holder == self.holder and self.state == "held":
            self.state, self._heard_at = "lost", self.clock()
            self._axes[:] = 0.0
            self.notice = f"{why} while holding: standing still"

    def strand(self) -> None:
        """A hand was lost before this process began, and nobody has said since then that the robot may move."""
        self.state, self.notice = "stranded", "a hand was lost while holding: standing still; take control or resume to go on"

    def resume(self) -> None:
        """A person says that the policy may go on."""
        if self.state in ("lost", "stranded"):
            self._free()

    def _free(self) -> None:
        self.state, self.holder, self.notice, self._since_release = "free", "", "", 0
        self._axes[:] = 0.0

    def watch_hand(self) -> None:
        """Notice what was lost, and ask the device on this machine; once for each turn of the loop, also while standing still."""
        if self.hand is not None:
            self._ask(self.hand)
        silent = self.clock() - self._heard_at
        if self.state == "held" and silent > LOST_S:
            self.lose(self.holder, f"'{self.holder}' was lost (nothing heard for {silent:.1f} s)")
        if self.state == "lost" and self.clock() - self._heard_at > STRANDED_S:
            self.state = "stranded"
            self.notice += "; take control or resume to go on"

    def _ask(self, hand: Hand) -> None:
        try:
            reading = hand.read()
        except DeviceLost as problem:
            if self.holder == hand.name:
                self.lose(hand.name, str(problem))
            return
        self.commands.extend(reading.commands)
        if reading.holds and not self.take(hand.name):
            self.steer(hand.name, reading.axes, self.clock())
        elif not reading.holds and self.state == "held":  # one that was lost and is back does not let the policy go on by itself
            self.let_go(hand.name)

    # ---- as an operator

    def reset(self) -> None:
        self._since_release = SMOOTH_STEPS
        self._standing = self.layout.rest.copy()
        self.inner.reset()

    def decide(self, observation: Observation, proposed: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
        """The hand's action while it holds, none while it is lost, else what `inner` decides."""
        action, by_human = self._decided(observation, proposed)
        self._standing = action
        return action, by_human

    def _decided(self, observation: Observation, proposed: np.ndarray | None) -> tuple[np.ndarray, bool]:
        self.watch_hand()
        if self.state == "held":
            self.who, self._last = "person", hand_action(self.layout, self._axes, self._standing)
            return self._last, True
        if self.state in ("lost", "stranded"):
            self.who, self._last = "nobody", still(self.layout, self._standing)
            return self._last, False
        action, by_script = self.inner.decide(observation, proposed)
        self.tag = self.inner.tag
        self.who = "script" if by_script else "policy"
        if self._since_release < SMOOTH_STEPS:
            self._since_release += 1
            share = self._since_release / (SMOOTH_STEPS + 1)
            action = blend(self.layout, share, action, self._last)
        return action, by_script

    def memory(self) -> dict[str, Any]:
        """The memory of `inner`. A hand is not saved: after a restart nobody holds the robot."""
        return {"inner": self.inner.memory()}

    def restore(self, state: dict[str, Any]) -> None:
        self.inner.restore(state.get("inner") or {})
