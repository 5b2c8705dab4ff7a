"""What a person says about an episode: that it succeeded or failed, that it is thrown away, that its success was none."""

from __future__ import annotations

from tandem.acting.actor import Actor
from tandem.acting.rewards import Label


def give_label(actor: Actor, label: Label, episode: int | None = None) -> str:
    """A person judges the episode of row 0 (`episode`: the number of the one that was meant); returns why not, empty if it counts.

    A label that comes too late must not end the episode that follows the one it is about.
    """
    recorder = actor.recorders[0]
    if episode is not None and episode != recorder.episode:
        return f"it is about episode {episode}, which is over; episode {recorder.episode} goes on"
    if actor.ended[0] or (recorder.step == recorder.began_at and not actor.needs_label):
        return "the last episode had ended before it, and the next one has no step yet"
    actor.rewards.give_label(label)
    if actor.needs_label:
        actor.settle()
    return ""


def discard(actor: Actor, row: int = 0) -> int:
    """Throw away the episode of a row; if it has no step yet, the one before. Returns the number of the discarded one."""
    if actor.needs_label:
        actor.settle()
    recorder = actor.recorders[row]
    before = recorder.step == recorder.began_at and recorder.episode > 0
    episode = recorder.episode - 1 if before else recorder.episode
    actor.end_episode(kept=False, success=None, episode=episode, row=row)
    if not before:
        actor.ended[row] = True
    return episode


def contradict(actor: Actor, episode: int | None = None) -> int | None:
    """A person says that the success of an episode of row 0 (the last one, unless its number is given) was none.

    It is discarded, and `success` is False beside that: its last frame shows a failure. Returns its number; None: it is not over.
    """
    if actor.rewarded is None or (episode is not None and episode > actor.rewarded):
        return None
    chosen = actor.rewarded if episode is None else episode
    actor.end_episode(kept=False, success=False, episode=chosen)
    return chosen
