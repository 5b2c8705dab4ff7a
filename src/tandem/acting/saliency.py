"""What in a picture the policy's action depends on, drawn over the picture for people who watch.

The features of a part of the picture (16 x 16 pixels) are replaced by their mean over the demonstrations, and the action is computed
again: how far it moves is how much that part matters now. One batch of 65 forward passes for a map of 8 x 8, some milliseconds, and only
while somebody looks. It says what the action depends on, not why; a part can matter because of what is not there.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from tandem.acting.actor import Actor
from tandem.data.seen import cameras_of
from tandem.layouts import Layout
from tandem.networks.numpy_policy import ActingPolicy, acting_policy, look
from tandem.types import Observation

SUFFIX = " (what matters)"
"""After the name of a camera, in the page's list."""
FULL = 0.1
"""A change of the action, of its range of -1 to 1, that is drawn in full colour, unless another part matters more."""
_PARTS = 8
_COLOUR, _OPAQUE = np.array([255.0, 40.0, 0.0]), 0.65


def names(cameras: list[str]) -> list[str]:
    return [name + SUFFIX for name in cameras]


def saliency(policy: ActingPolicy, layout: Layout, observation: Observation, camera: str) -> np.ndarray:
    """(height, width), at most 8 x 8 parts: how far the action moves, the axis that moves most, without each part of the picture."""
    rows, columns, _ = observation[camera].shape
    height, width = min(rows, _PARTS), min(columns, _PARTS)
    part = (np.arange(rows) * height // rows)[:, None] * width + np.arange(columns) * width // columns
    seen = {name: np.repeat(values[None], height * width + 1, axis=0) for name, values in observation.items()}
    for number in range(height * width):  # row 0 is left as it is
        seen[camera][number + 1][part == number] = 0
    actions = policy.mode(look(policy, layout, seen))
    return np.abs(actions[1:] - actions[0]).max(axis=1).reshape(height, width)


def overlay(picture: np.ndarray, matters: np.ndarray) -> np.ndarray:
    """The picture with red where the action depends on it."""
    share = (255 * matters / max(FULL, float(matters.max()))).astype(np.uint8)
    height, width = picture.shape[:2]
    large = np.asarray(Image.fromarray(share).resize((width, height), Image.Resampling.BILINEAR), float)[..., None] / 255
    return (picture * (1 - _OPAQUE * large) + _COLOUR * _OPAQUE * large).astype(np.uint8)


class Saliency:
    """Pictures with an overlay of the policy that an actor acts with."""

    def __init__(self, actor: Actor) -> None:
        self._actor, self._layout = actor, Layout(actor.spec)
        self._version, self._policy = -1, None

    def picture(self, name: str, observation: Observation, pictures: Observation) -> Observation:
        """The picture that a name of `names` asks for, under that name; nothing for any other name, or before there is a policy."""
        camera, snapshot = name.removesuffix(SUFFIX), self._actor.snapshot
        if camera == name or camera not in pictures or snapshot is None or self._actor.own_policy is not None:
            return {}
        if snapshot.version != self._version:
            self._version, self._policy = snapshot.version, acting_policy(snapshot)
        seen = {entry: observation[entry] for entry in self._actor.spec.observation}
        assert self._policy is not None
        return {name: overlay(pictures[camera], saliency(self._policy, self._layout, seen, camera))}


def camera_names(actor: Actor) -> list[str]:
    """What a page can look through: the cameras of the policy, and each with its overlay."""
    cameras = list(cameras_of(actor.spec))
    return [*cameras, *names(cameras)]
