"""A reward classifier: from what is observed to how sure it is that each stage is reached. NumPy; cameras by their frozen features.

    entries ──► (value - offset) / scale ──► 64 units ──► a logit for "at least stage k" ──► calibrated ──► threshold of stage k

One stage is the usual case: success or not. The file is safetensors: arrays, and settings as JSON. Nothing in it is run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from tandem.errors import FileMissing, FileUnreadable, SpecMismatch
from tandem.files import write_atomically
from tandem.rewards.conditions import Conditions, parse_conditions
from tandem.types import Entry, Observation, Spec

if TYPE_CHECKING:
    from tandem.networks.encoders.encoder import Encoder

INPUT_CLIP = 8.0
"""Standardised numbers are clipped to plus and minus this: what was never seen in training does not decide by its size."""
FEATURE_UNIT = 127 / 5
"""About one standard deviation of a feature, in steps of int8."""
SETTINGS, VERSION = "classifier/settings", 2
MAX_BYTES = 2**25
_CHUNK = 64
"""Pictures at once: little memory."""
ALIKE, _OF_ALIKE = "alike/", ("offset", "scale", "limit")
_ARRAYS = ("offset", "scale", "hidden_weight", "hidden_bias", "out_weight", "out_bias", "calibration")


@dataclass(frozen=True)
class Weights:
    """The network. Arrays are float32."""

    offset: np.ndarray
    scale: np.ndarray
    """(inputs,) each"""
    hidden_weight: np.ndarray
    """(inputs, units)"""
    hidden_bias: np.ndarray
    out_weight: np.ndarray
    """(units, stages)"""
    out_bias: np.ndarray
    calibration: np.ndarray
    """(stages, 2): the calibrated logit is slope * logit + shift."""

    def standardised(self, inputs: np.ndarray) -> np.ndarray:
        return np.clip((inputs - self.offset) / self.scale, -INPUT_CLIP, INPUT_CLIP)

    def distance(self, inputs: np.ndarray) -> np.ndarray:
        """(N,): from the mean of the training, root mean square in its standard deviations."""
        return np.sqrt(np.square(self.standardised(inputs)).mean(axis=1))

    def logits(self, inputs: np.ndarray) -> np.ndarray:
        """(N, stages), not calibrated."""
        hidden = np.maximum(self.standardised(inputs) @ self.hidden_weight + self.hidden_bias, 0)
        return hidden @ self.out_weight + self.out_bias

    def probabilities(self, inputs: np.ndarray) -> np.ndarray:
        return sigmoid(self.logits(inputs) * self.calibration[:, 0] + self.calibration[:, 1])


@dataclass(frozen=True)
class Alike:
    """What frames that have reached a stage look like. Arrays are float32, a row for each stage."""

    offset: np.ndarray
    """(stages, inputs): their mean"""
    scale: np.ndarray
    """(stages, inputs): their standard deviation"""
    limit: np.ndarray
    """(stages,): a frame that is farther than this from their mean looks like none of them"""

    def distance(self, inputs: np.ndarray) -> np.ndarray:
        """(N, stages): from the mean of each stage, root mean square in its standard deviations."""
        far = [np.clip((inputs - offset) / scale, -INPUT_CLIP, INPUT_CLIP) for offset, scale in zip(self.offset, self.scale, strict=True)]
        return np.sqrt(np.square(np.stack(far, axis=1)).mean(axis=2))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(0.5 * x)  # does not overflow


def flat_inputs(observation: Observation, entries: Mapping[str, Entry]) -> np.ndarray:
    """(N, inputs) float32: the entries in the order of their names; features in their standard deviations."""
    parts = []
    for name in sorted(entries):
        values = observation[name]
        flat = values.reshape(len(values), -1).astype(np.float32)
        parts.append(flat / FEATURE_UNIT if entries[name].role == "features" else flat)
    return np.concatenate(parts, axis=1)


def encoded(encoder: Encoder, pictures: np.ndarray) -> np.ndarray:
    """Features of N pictures, some at a time."""
    return np.concatenate([encoder.encode(pictures[start : start + _CHUNK]) for start in range(0, len(pictures), _CHUNK)])


@dataclass(frozen=True)
class Classifier:
    """A rule that was learned. `training.train` makes one, `read` reads one again."""

    title: str
    spec: Spec
    """The entries that it looks at, and nothing else."""
    stages: tuple[str, ...]
    thresholds: tuple[float, ...]
    weights: Weights
    hold_s: float = 0.0
    conditions: Conditions | None = None
    """What must hold as well before its last stage counts."""
    encoder: Encoder | None = None
    """Makes features of its cameras' pictures."""
    usual: tuple[float, float] = (0.0, 0.0)
    """How far frames of held-out episodes are from the mean of the others: median and 99th percentile, in standard deviations."""
    alike: Alike | None = None
    """It gives no value to what looks like none of its successes: a network may say anything there, and a robot would find it."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """What was measured on held-out episodes."""

    @property
    def name(self) -> str:
        return f"classifier:{self.title}:{self._hash}"

    @cached_property
    def _hash(self) -> str:
        return hashlib.sha256(self.to_bytes()).hexdigest()[:8]

    @property
    def entries(self) -> Mapping[str, Entry]:
        return self.spec.observation

    @property
    def looks_at(self) -> tuple[str, ...]:
        """Names of the entries that it and its conditions look at."""
        further = {part.entry for stage in self.conditions.conditions for c in stage for part in c.parts} if self.conditions else set()
        return tuple(sorted({*self.entries, *further}))

    def require(self, spec: Spec) -> None:
        for name, entry in self.entries.items():
            given = spec.observation.get(name)
            if given is None:
                raise SpecMismatch(
                    f"the classifier '{self.title}' looks at '{name}', which '{spec.task}' does not observe "
                    f"({', '.join(spec.observation)}): it was trained for '{self.spec.task}'"
                )
            if given.role == "features" and entry.role == "features" and given.encoder != entry.encoder:
                raise SpecMismatch(
                    f"the classifier '{self.title}' knows pictures of '{name}' by the encoder {entry.encoder}, and here they are encoded "
                    f"by {given.encoder}. Features of another encoder mean something else: train the classifier on steps of this run."
                )
            expected = entry.picture if entry.role == "features" and given.role == "image" else entry.shape
            if given.shape != expected:
                raise SpecMismatch(f"the classifier '{self.title}' takes '{name}' of shape {expected}, here it is {given.shape}")
        if self.conditions is not None:
            self.conditions.require(spec)

    def values(self, observation: Observation) -> np.ndarray:
        inputs = self.inputs(observation)
        certain = self.weights.probabilities(inputs)
        if self.alike is not None:
            certain[self.alike.distance(inputs) > self.alike.limit] = 0.0
        if self.conditions is not None:  # a stage that the conditions do not allow is not reached, however sure it is
            certain[:, -1] *= self.conditions.met(self.conditions.values(observation))[:, -1]
        return certain

    def met(self, values: np.ndarray) -> np.ndarray:
        return values >= np.array(self.thresholds)

    def inputs(self, observation: Observation) -> np.ndarray:
        """(N, inputs); pictures are encoded first."""
        seen = {name: observation[name] for name in self.entries}
        for name, entry in self.entries.items():
            if entry.role == "features" and seen[name].dtype == np.uint8:
                assert self.encoder is not None
                seen[name] = encoded(self.encoder, seen[name])
        return flat_inputs(seen, self.entries)

    def distance(self, observation: Observation) -> np.ndarray:
        """(N,): how far each observation is from the frames of the training, root mean square in their standard deviations."""
        return self.weights.distance(self.inputs(observation))

    # ---- the file

    def to_bytes(self) -> bytes:
        settings = {
            "version": VERSION,
            "title": self.title,
            "spec": self.spec.to_json(),
            "stages": list(self.stages),
            "thresholds": list(self.thresholds),
            "hold_s": self.hold_s,
            "conditions": None if self.conditions is None else self.conditions.source.decode(),
            "usual": list(self.usual),
            "figures": dict(self.figures),
        }
        arrays: dict[str, np.ndarray] = {name: np.ascontiguousarray(getattr(self.weights, name), np.float32) for name in _ARRAYS}
        arrays[SETTINGS] = np.frombuffer(json.dumps(settings, sort_keys=True).encode(), np.uint8)
        if self.alike is not None:
            arrays |= {f"{ALIKE}{name}": np.ascontiguousarray(getattr(self.alike, name), np.float32) for name in _OF_ALIKE}
        if self.encoder is not None:
            arrays |= self.encoder.arrays()
        return safetensors.numpy.save(arrays)

    def write(self, path: Path) -> None:
        write_atomically(path, self.to_bytes())

    def changed(self, **settings: Any) -> Classifier:
        """The same network with another threshold, hold time or conditions."""
        return dataclasses.replace(self, **settings)


def read_classifier(path: Path) -> Classifier:
    if not path.is_file():
        raise FileMissing(f"there is no classifier {path} (looked in {path.absolute().parent}): `tandem reward train` makes one")
    if path.stat().st_size > MAX_BYTES:
        raise FileUnreadable(f"{path} has {path.stat().st_size:,} bytes; a classifier has at most {MAX_BYTES:,}: is it another file?")
    return parse_classifier(path.read_bytes(), str(path))


def parse_classifier(data: bytes, what: str) -> Classifier:
    try:
        arrays = safetensors.numpy.load(data)
        settings = json.loads(arrays[SETTINGS].tobytes())
        if settings["version"] != VERSION:
            raise ValueError(f"version {settings['version']}, this Tandem reads {VERSION}")
        classifier = _from_settings(settings, arrays)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
        raise FileUnreadable(f"{what} is no reward classifier, or it is damaged ({type(problem).__name__}: {problem})") from None
    return classifier


def _from_settings(settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Classifier:
    weights = Weights(**{name: np.asarray(arrays[name], np.float32) for name in _ARRAYS})
    spec, stages = Spec.from_json(settings["spec"]), tuple(str(stage) for stage in settings["stages"])
    thresholds = tuple(float(threshold) for threshold in settings["thresholds"])
    inputs, units = sum(entry.size for entry in spec.observation.values()), len(weights.hidden_bias)
    shapes = [array.shape for array in dataclasses.astuple(weights)]
    count = len(stages)
    if not count or len(thresholds) != count or not all(np.isfinite(array).all() for array in dataclasses.astuple(weights)):
        raise ValueError(f"{count} stages, {len(thresholds)} thresholds, or numbers that are not finite")
    if shapes != [(inputs,), (inputs,), (inputs, units), (units,), (units, count), (count,), (count, 2)] or not (weights.scale > 0).all():
        raise ValueError(f"arrays of shapes {shapes} do not fit {inputs} inputs and {count} stages")
    encoder = None
    if any(entry.role == "features" for entry in spec.observation.values()):
        from tandem.networks.encoders.encoder import Encoder  # only those with cameras need it

        encoder = Encoder.from_arrays(arrays)
    conditions, usual = settings["conditions"], settings["usual"]
    return Classifier(
        title=str(settings["title"])[:60],
        spec=spec,
        stages=stages,
        thresholds=thresholds,
        weights=weights,
        hold_s=float(settings["hold_s"]),
        conditions=None if conditions is None else parse_conditions(str(conditions).encode(), "the conditions of the classifier"),
        encoder=encoder,
        usual=(float(usual[0]), float(usual[1])),
        alike=_alike_from(arrays, count, inputs),
        figures=dict(settings["figures"]),
    )


def _alike_from(arrays: Mapping[str, np.ndarray], stages: int, inputs: int) -> Alike | None:
    if f"{ALIKE}limit" not in arrays:
        return None
    alike = Alike(**{name: np.asarray(arrays[f"{ALIKE}{name}"], np.float32) for name in _OF_ALIKE})
    shapes = [alike.offset.shape, alike.scale.shape, alike.limit.shape]
    if shapes != [(stages, inputs), (stages, inputs), (stages,)] or not (alike.scale > 0).all():
        raise ValueError(f"what successes look like has arrays of shapes {shapes}, for {inputs} inputs and {stages} stages")
    return alike
