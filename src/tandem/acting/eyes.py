"""What acts from pictures sees features: each picture is encoded once, before anything else looks at it. No JAX."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tandem.acting.camera_watch import CameraWatch
from tandem.data.seen import PICTURE, cameras_of
from tandem.envs.task_env import TaskEnv
from tandem.envs.wrapped import WrappedEnv
from tandem.networks.encoders.encoder import Encoder
from tandem.types import Observation, Step


class Eyes:
    """An encoder that remembers: a row whose picture has not changed, for its episode is over, is not encoded again.

    `flat`: features as rows of float32, as PPO takes them.
    """

    def __init__(self, encoder: Encoder, flat: bool = False) -> None:
        self.encoder, self._flat = encoder, flat
        self._last: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        """Pictures of each camera, and their features."""

    def __call__(self, observation: Observation) -> Observation:
        """The observation of n rows with features in the place of its pictures. Features stay as they are."""
        pictures = [name for name, values in observation.items() if values.dtype == np.uint8 and values.ndim == 4]
        seen = {name: self._features(name, observation[name]) for name in pictures}
        if self._flat:
            seen = {name: features.reshape(len(features), -1).astype(np.float32) for name, features in seen.items()}
        return {**observation, **seen}

    @property
    def shown(self) -> Observation:
        """The last pictures of each camera, (n, height, width, 3)."""
        return {name: pictures for name, (pictures, _) in self._last.items()}

    def _features(self, name: str, pictures: np.ndarray) -> np.ndarray:
        before = self._last.get(name)
        if before is None or before[0].shape != pictures.shape:
            features = self.encoder.encode(pictures)
        else:
            changed = [row for row, picture in enumerate(pictures) if not np.array_equal(picture, before[0][row])]
            features = before[1].copy()
            if changed:
                features[changed] = self.encoder.encode(pictures[changed])
        self._last[name] = pictures, features
        return features


class EncodedEnv(WrappedEnv):
    """An environment whose observations hold features in the place of pictures, and nothing that is for teachers alone.

    `keep`: the pictures come along, for the disk (`data.seen`). Nobody acts or learns from them.
    """

    def __init__(self, env: TaskEnv, encoder: Encoder, keep: bool = False, privileged: bool = False) -> None:
        super().__init__(env, encoder.spec(env.spec, privileged=privileged))
        self._eyes, self._keep = Eyes(encoder), keep
        self._watch = CameraWatch(env.spec, env.num_envs, real=env.capabilities.clock == "real")

    def reset(self, rows: Sequence[int] | None = None, seeds: Sequence[int | None] | None = None) -> Observation:
        observation = self._env.reset(rows, seeds)
        self._watch.begin(range(self.num_envs) if rows is None else rows, observation)
        return self._seen(observation)

    def step(self, action: np.ndarray) -> Step:
        step = self._env.step(action)
        self._watch.look(step.observation)
        return dataclasses.replace(step, observation=self._seen(step.observation))

    def _seen(self, observation: Observation) -> Observation:
        seen = self._eyes({name: observation[name] for name in self.spec.observation})
        kept = {f"{name}{PICTURE}": observation[name] for name in cameras_of(self.spec)} if self._keep else {}
        return {**seen, **kept}

    def pictures(self) -> Observation:
        """What the cameras of row 0 showed last, for people who watch."""
        return {name: pictures[0] for name, pictures in self._eyes.shown.items()}

    def restore(self, state: dict[str, Any]) -> Observation:
        observation = self._env.restore(state)
        self._watch.begin(range(self.num_envs), observation)
        return self._seen(observation)
