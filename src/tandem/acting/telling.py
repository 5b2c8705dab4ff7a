"""Who hears that a robot asks for help, beside the page: the events of the run, and a web address of the user's.

The web address gets a POST with JSON: `reason`, `task`, `actor`, `step`, `state` (`asks`, then `over`), and a `picture` (JPEG, base64)
where the robot has a camera. It is called in a thread with a time-out. Control never waits for it, and while a call is under way others are
left out.
"""

from __future__ import annotations

import base64
import json
import threading
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from tandem.acting.asking import AskEnded
from tandem.acting.camera_stream import jpeg
from tandem.runs.isolation import Apart
from tandem.teleop.ask import Ask
from tandem.types import Observation

TIMEOUT_S = 5.0


class Event(Protocol):
    def __call__(self, kind: str, **details: Any) -> None: ...


class AskEvents:
    """Writes what was asked, and what became of it, to the events of the run."""

    def __init__(self, event: Event, actor: str, episode: Callable[[], int], say: Callable[[str], None]) -> None:
        self._event, self._actor, self._episode = event, actor, episode
        self._apart = Apart(say)
        """A full disk must not end control."""

    def __call__(self, said: Ask | AskEnded) -> None:
        with self._apart("the note of an ask"):
            about = {"actor": self._actor, "episode": self._episode()}
            if isinstance(said, Ask):
                self._event("asked", **about, step=said.since, reason=said.reason)
            else:
                self._event("ask_ended", **about, step=said.ask.since, ending=said.ending, seconds=round(said.seconds, 1))


class Webhook:
    """Tells a web address. `pictures`: what the robot sees now; the first image is sent."""

    def __init__(
        self,
        address: str,
        about: Mapping[str, str],
        pictures: Callable[[], Observation],
        say: Callable[[str], None],
    ) -> None:
        self._address, self._about, self._pictures, self._say = address, dict(about), pictures, say
        self._busy = threading.Lock()
        self._failed = False

    @property
    def busy(self) -> bool:
        """A call is under way."""
        return self._busy.locked()

    def __call__(self, said: Ask | AskEnded) -> None:
        image = None
        if isinstance(said, Ask):
            message, image = {**self._about, "reason": said.reason, "step": said.since, "state": "asks"}, _first_image(self._pictures())
        else:
            message = {**self._about, "reason": said.ask.reason, "step": said.ask.since, "state": "over", "ending": said.ending}
        if self._busy.acquire(blocking=False):
            threading.Thread(target=self._post, args=(message, image), name="webhook", daemon=True).start()

    def _post(self, message: dict[str, Any], image: np.ndarray | None) -> None:
        try:
            if image is not None:
                message["picture"] = base64.b64encode(jpeg(image)).decode()
            body = json.dumps(message).encode()
            request = urllib.request.Request(self._address, body, {"Content-Type": "application/json"}, method="POST")
            with urllib.request.urlopen(request, timeout=TIMEOUT_S):  # the answer does not matter
                pass
            self._failed = False
        except Exception as problem:  # whatever it is: it must not end control
            if not self._failed:
                self._say(f"[ACTOR] the webhook {self._address} did not take the message: {type(problem).__name__}: {problem}")
            self._failed = True
        finally:
            self._busy.release()


def _first_image(seen: Observation) -> np.ndarray | None:
    images = [array for _, array in sorted(seen.items()) if array.dtype == np.uint8 and array.ndim == 3]
    return images[0].copy() if images else None
