"""How a reward classifier is trained: on labelled frames, both classes with equal weight, measured on episodes that it has not seen.

The frames of one episode are alike, so whole episodes are held out: in five rounds each episode is held out once. From these predictions
come the figures, the calibration and the thresholds; the classifier itself is then trained on everything. For the figures each round
uses the threshold that the other rounds would have chosen: what is reported was not chosen on the frames that it is reported for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tandem.errors import DataError
from tandem.rewards.classifier import Alike, Weights, sigmoid

ROUNDS = 5
BINS = 10
ALIKE_SHARE, SLACK = 0.98, 1.05
"""This share of the held-out successes, and what is farther from the other successes by no more than this factor, looks like one."""
_LEAST_STD = 0.05
"""Of an input, in units of its scale: what hardly varies in training is not blown up."""


@dataclass(frozen=True)
class TrainingConfig:
    """Settings of a training; the defaults are meant for some hundred to some thousand frames."""

    units: int = 64
    """Hidden units."""
    updates: int = 400
    """Updates of the network, in each of the trainings."""
    batch_size: int = 128
    learning_rate: float = 2e-3
    weight_decay: float = 1e-3
    noise: float = 0.2
    """Standard deviation of the noise on standardised inputs, for few frames would be learned by heart."""
    false_positives: float = 0.001
    """Share of the failure frames that may be taken for a success: 0.001 is one of a thousand, and none where there are fewer."""
    seed: int = 0


@dataclass(frozen=True)
class Frames:
    """Labelled frames as arrays."""

    inputs: np.ndarray
    """(N, D) float32"""
    stage: np.ndarray
    """(N,) int: 0 is a failure, k the k-th stage"""
    episode: np.ndarray
    """(N,) int"""
    scale: np.ndarray
    """(D,): about how much each input varies, by the spec"""


@dataclass(frozen=True)
class Trained:
    weights: Weights
    thresholds: tuple[float, ...]
    usual: tuple[float, float]
    alike: Alike
    figures: dict[str, Any]
    held_out: np.ndarray
    """(N, stages): what classifiers that had not seen the episode said of each frame, calibrated"""


def train(frames: Frames, stages: Sequence[str], config: TrainingConfig, say: Callable[[str], None] = lambda line: None) -> Trained:
    """The classifier of these frames, with its thresholds and the figures of held-out episodes."""
    targets = frames.stage[:, None] >= np.arange(1, len(stages) + 1)
    _require_enough(targets, frames.episode, stages)
    rounds = split_episodes(targets[:, -1], frames.episode, config.seed)
    logits, far, unlike = np.zeros(targets.shape), np.zeros(len(targets)), np.zeros(targets.shape)
    for number in range(rounds.max() + 1):
        say(f"round {number + 1} of {rounds.max() + 1}: {len(np.unique(frames.episode[rounds == number]))} episodes are held out")
        others = rounds != number
        weights = _fit(_rows(frames, others), targets[others], dataclasses.replace(config, seed=config.seed + number))
        logits[~others], far[~others] = weights.logits(frames.inputs[~others]), weights.distance(frames.inputs[~others])
        unlike[~others] = _successes(_rows(frames, others), targets[others]).distance(frames.inputs[~others])
    calibration = np.stack([_calibrated(logits[:, k], targets[:, k]) for k in range(len(stages))])
    held_out = sigmoid(logits * calibration[:, 0] + calibration[:, 1])
    limit = np.array([SLACK * np.quantile(unlike[targets[:, k], k], ALIKE_SHARE) for k in range(len(stages))], np.float32)
    held_out[unlike > limit] = 0.0
    say("training on all frames")
    weights = dataclasses.replace(_fit(frames, targets, config), calibration=calibration.astype(np.float32))
    thresholds = tuple(choose_threshold(held_out[:, k], targets[:, k], config.false_positives) for k in range(len(stages)))
    figures = {name: _figures(held_out[:, k], targets[:, k], rounds, config) for k, name in enumerate(stages)}
    about = {"frames": len(frames.stage), "episodes": len(np.unique(frames.episode)), "stages": figures}
    alike = dataclasses.replace(_successes(frames, targets), limit=limit)
    return Trained(weights, thresholds, (float(np.median(far)), float(np.quantile(far, 0.99))), alike, about, held_out)


def _successes(frames: Frames, targets: np.ndarray) -> Alike:
    """What the frames of each stage look like; its limits come from held-out ones."""
    reached = [frames.inputs[targets[:, k]] for k in range(targets.shape[1])]
    scale = np.stack([np.maximum(inputs.std(axis=0), _LEAST_STD * frames.scale) for inputs in reached])
    return Alike(np.stack([inputs.mean(axis=0) for inputs in reached]), scale.astype(np.float32), np.full(len(reached), np.inf, np.float32))


def _rows(frames: Frames, chosen: np.ndarray) -> Frames:
    return dataclasses.replace(frames, inputs=frames.inputs[chosen], stage=frames.stage[chosen], episode=frames.episode[chosen])


def _require_enough(targets: np.ndarray, episode: np.ndarray, stages: Sequence[str]) -> None:
    for k, name in enumerate(stages):
        with_it, without = (len(np.unique(episode[chosen])) for chosen in (targets[:, k], ~targets[:, k]))
        if min(with_it, without) < 2:
            raise DataError(
                f"the frames that have reached '{name}' are of {with_it} episodes, those that have not of {without}: at least two of each "
                f"are needed, one to learn from and one to check with. Label more: `tandem reward label FILE...`"
            )


def split_episodes(positive: np.ndarray, episode: np.ndarray, seed: int = 0) -> np.ndarray:
    """(N,) int: the round in which each frame is held out. Episodes with and without a success are spread over all rounds."""
    names = np.unique(episode)
    share = np.array([positive[episode == name].any() for name in names])
    shuffled = np.random.default_rng(seed).permutation(len(names))
    order = shuffled[np.argsort(~share[shuffled], kind="stable")]
    rounds = min(ROUNDS, max(2, min(int(share.sum()), len(names) // 2)))
    number = np.empty(len(names), int)
    number[order] = np.arange(len(names)) % rounds
    return number[np.searchsorted(names, episode)]


# ---- the network


def _fit(frames: Frames, targets: np.ndarray, config: TrainingConfig) -> Weights:
    """Adam on the binary cross-entropy of every stage, each with its two classes in balance."""
    rng = np.random.default_rng([config.seed, 7])
    offset = frames.inputs.mean(axis=0)
    scale = np.maximum(frames.inputs.std(axis=0), _LEAST_STD * frames.scale).astype(np.float32)
    size, stages = frames.inputs.shape[1], targets.shape[1]
    values = {
        "hidden_weight": rng.normal(0, np.sqrt(2 / size), (size, config.units)).astype(np.float32),
        "hidden_bias": np.zeros(config.units, np.float32),
        "out_weight": rng.normal(0, np.sqrt(1 / config.units), (config.units, stages)).astype(np.float32),
        "out_bias": np.zeros(stages, np.float32),
    }
    plain = np.tile(np.array([1.0, 0.0], np.float32), (stages, 1))
    weights = Weights(offset, scale, **values, calibration=plain)
    x, y = weights.standardised(frames.inputs), targets.astype(np.float32)
    balance = _balance(y)
    moments = {name: (np.zeros_like(value), np.zeros_like(value)) for name, value in values.items()}
    for update in range(1, config.updates + 1):
        rows = rng.integers(0, len(x), config.batch_size)
        noisy = x[rows] + config.noise * rng.standard_normal((len(rows), size), np.float32)
        gradients = _gradients(values, noisy, y[rows], balance[rows])
        rate = config.learning_rate * min(1.0, 2 * (1 - update / (config.updates + 1)))
        for name, gradient in gradients.items():
            _adam(values[name], gradient, moments[name], update, rate, config.weight_decay if name.endswith("weight") else 0.0)
    return dataclasses.replace(weights, **values)


def _balance(targets: np.ndarray) -> np.ndarray:
    """(N, stages): weights with which both classes count the same, 1 in the mean."""
    share = targets.mean(axis=0)
    return np.where(targets > 0, 0.5 / share, 0.5 / (1 - share)).astype(np.float32)


def _gradients(values: Mapping[str, np.ndarray], x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> dict[str, np.ndarray]:
    before = x @ values["hidden_weight"] + values["hidden_bias"]
    hidden = np.maximum(before, 0)
    error = (sigmoid(hidden @ values["out_weight"] + values["out_bias"]) - y) * weight / len(x)
    back = (error @ values["out_weight"].T) * (before > 0)
    return {"hidden_weight": x.T @ back, "hidden_bias": back.sum(0), "out_weight": hidden.T @ error, "out_bias": error.sum(0)}


def _adam(value: np.ndarray, gradient: np.ndarray, moments: tuple[np.ndarray, np.ndarray], update: int, rate: float, decay: float) -> None:
    """One update, in place."""
    first, second = moments
    first += 0.1 * (gradient - first)
    second += 0.001 * (np.square(gradient) - second)
    corrected = first / (1 - 0.9**update)
    value -= rate * (corrected / (np.sqrt(second / (1 - 0.999**update)) + 1e-8) + decay * value)


# ---- calibration, thresholds and figures


def _calibrated(logits: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Slope and shift that make the predictions of held-out frames true in the mean (Platt's way), by Newton's method."""
    # Platt's targets keep the slope finite where the classes are separated without an error.
    positives, negatives = int(targets.sum()), int((~targets).sum())
    wanted = np.where(targets, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    spread = float(np.std(logits)) or 1.0
    inputs = np.stack([logits / spread, np.ones(len(logits))], axis=1)
    found = np.array([1.0, 0.0])
    for _ in range(50):
        p = sigmoid(inputs @ found)
        gradient = inputs.T @ (p - wanted) + 1e-3 * found
        curvature = (inputs * (p * (1 - p))[:, None]).T @ inputs + 1e-3 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        found = found - np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-6:
            break
    return np.array([max(found[0], 1e-3) / spread, found[1]])


def choose_threshold(values: np.ndarray, targets: np.ndarray, share: float) -> float:
    """The lowest value, at least 0.5, above which no more failure frames are than this share of them.

    It lies halfway between the last failure that must stay below and the next success above it.
    """
    failures, successes = np.sort(values[~targets])[::-1], np.sort(values[targets])
    allowed = int(share * len(failures))
    below = float(failures[allowed]) if allowed < len(failures) else 0.0
    above = successes[successes > below]
    upper = float(above[0]) if len(above) else 1.0
    return float(min(max(0.5, (below + upper) / 2), 1.0))


def _figures(values: np.ndarray, targets: np.ndarray, rounds: np.ndarray, config: TrainingConfig) -> dict[str, Any]:
    """Each round with the threshold that the other rounds choose."""
    said = np.zeros(len(values), bool)
    for number in np.unique(rounds):
        mine = rounds == number
        said[mine] = values[mine] >= choose_threshold(values[~mine], targets[~mine], config.false_positives)
    hits, false = int((said & targets).sum()), int((said & ~targets).sum())
    bins = np.clip((values * BINS).astype(int), 0, BINS - 1)
    filled = [bins == b for b in range(BINS) if (bins == b).any()]
    curve = [[float(values[chosen].mean()), float(targets[chosen].mean()), int(chosen.sum())] for chosen in filled]
    return {
        "successes": int(targets.sum()),
        "failures": int((~targets).sum()),
        "precision": hits / (hits + false) if hits + false else None,
        "recall": hits / int(targets.sum()),
        "false_positives": false,
        "false_positives_per_1000": 1000 * false / int((~targets).sum()),
        "calibration": curve,
        "calibration_error": float(sum(abs(said - true) * count for said, true, count in curve) / len(values)),
    }
