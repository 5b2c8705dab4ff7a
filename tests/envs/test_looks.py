"""Looks that differ: the noise of a camera."""

from typing import Any

import numpy as np
import pytest

from tandem.envs.looks import Looks, OtherLooks
from tandem.errors import ConfigError

PICTURES = np.full((2, 16, 32, 3), 100, np.uint8)
PICTURES[1, 0, 0] = 101
NO_SIMULATION: Any = None  # noise changes no model


def test_noise_has_its_size_and_differs_from_picture_to_picture() -> None:
    noisy = OtherLooks(NO_SIMULATION, Looks(noise=4.0), ()).taken(PICTURES)
    assert noisy.dtype == np.uint8 and noisy.shape == PICTURES.shape
    change = noisy.astype(float) - PICTURES
    assert abs(change.mean()) < 0.3 and abs(change.std() - 4.0) < 0.3
    assert (change[0] != change[1]).mean() > 0.5


def test_a_picture_that_is_asked_for_twice_is_the_same() -> None:
    looks = OtherLooks(NO_SIMULATION, Looks(noise=4.0), ())
    assert np.array_equal(looks.taken(PICTURES), looks.taken(PICTURES)) and looks.memory() == {}


def test_noise_stays_within_what_a_pixel_can_hold() -> None:
    dark, bright = np.zeros((1, 8, 8, 3), np.uint8), np.full((1, 8, 8, 3), 255, np.uint8)
    looks = OtherLooks(NO_SIMULATION, Looks(noise=20.0), ())
    assert looks.taken(dark).max() < 120 and looks.taken(bright).min() > 135, "it would wrap around"


def test_without_noise_the_pictures_are_handed_on() -> None:
    assert OtherLooks(NO_SIMULATION, Looks(), ()).taken(PICTURES) is PICTURES
    with pytest.raises(ConfigError, match="ranges of 0 or more"):
        Looks(noise=-1.0)
