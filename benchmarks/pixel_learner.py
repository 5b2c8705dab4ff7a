"""What does a learner step cost with two cameras, and what would it cost without keeping features?

    python -m benchmarks.pixel_learner [--quick] [--json]

Sizes of `gear_assembly_pixels`: 30 numbers and two cameras of 128 x 128, batch 256, two critic updates and one of the actor. Compared
with the learner of the same sizes without cameras, and with one that encodes every sampled picture again with our own trunk, as
learners do that keep pictures in their replay buffer: 2 cameras x 2 observations x 256 rows x 2 updates = 2,048 pictures a step.
And with LeRobot's SAC at the same sizes, in an environment of its own (`.venv-peers/lerobot`, installed here), which learns to see.
All are measured in turns in one run; a figure is the median over the turns of the ratio within a turn.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from json import dumps
from pathlib import Path

import jax
import numpy as np
import tyro

from benchmarks.peers import PEERS as VENVS
from benchmarks.peers import Peers, python_of
from benchmarks.report import Report
from tandem.acting.eyes import Eyes
from tandem.agents.sac import SAC
from tandem.agents.sac_config import SACConfig
from tandem.data.journal import Journal
from tandem.data.mixing import Mixture
from tandem.data.replay import Replay
from tandem.data.seen import PICTURE, cameras_of
from tandem.envs.registry import make_env, make_expert
from tandem.layouts import Layout
from tandem.networks.encoders.encoder import Encoder, fit_encoder
from tandem.networks.numpy_policy import NumpyPolicy, look
from tandem.off_policy.eyes import encoded_steps
from tandem.off_policy.recipes import RECIPES
from tandem.programs.record import play_episode
from tandem.types import Observation, Spec, Transition

TASK, BATCH_SIZE, UPDATES = "gear_assembly_pixels", 256, 2
LEROBOT = (
    "torch==2.13.0", "accelerate", "av", "datasets", "deepdiff", "diffusers", "draccus", "einops", "huggingface-hub", "imageio", "pillow",
    "pyserial", "safetensors",
)  # fmt: skip
"""What its SAC imports. LeRobot itself is installed without its dependencies, which ask for an older PyTorch and its CUDA libraries."""
TARGETS = {
    "over_lerobot": (">=", 30),
    "over_reencoding": (">=", 20),
    "of_state_speed": (">=", 0.4),
    "frames_per_s_core": (">=", 500),
    "drawn_per_s_core": (">=", 800),
    "bytes_per_step_disk": ("<=", 16_000),
    "bytes_per_step_replay": ("<=", 10_000),
    "act_ms_p99": ("<=", 10),
}


class Learner:
    """Replay, mixture and agent, as in training."""

    def __init__(self, config: SACConfig, spec: Spec, steps: list[Transition]) -> None:
        cameras = tuple((name, entry.size) for name, entry in sorted(spec.observation.items()) if entry.role == "features")
        self.agent = SAC(config, Layout(spec).size, spec.action_dim, spec.return_range, cameras=cameras)
        replays = Replay(spec, len(steps)), Replay(spec, len(steps))
        for replay in replays:
            replay.extend(steps)
        self.mixture, self.random, self.state = Mixture(*replays, BATCH_SIZE), np.random.default_rng(0), self.agent.init(0)
        self.seconds(2)  # compiles

    def seconds(self, steps: int) -> float:
        """Seconds of a learner step, sampling included."""
        start = time.perf_counter()
        for _ in range(steps):
            self.state, _ = self.agent.update(self.state, self.mixture.sample(self.random, UPDATES))
        jax.block_until_ready(self.state)
        return (time.perf_counter() - start) / steps


def encoding_seconds(encoder: Encoder, pictures: np.ndarray, count: int) -> float:
    """Seconds for one picture on one core, two at a time as an actor sees them."""
    start = time.perf_counter()
    for first in range(0, count, 2):
        place = first % (len(pictures) - 1)
        encoder.encode(pictures[place : place + 2])
    return (time.perf_counter() - start) / count


def act_milliseconds(encoder: Encoder, learner: Learner, spec: Spec, steps: list[Transition], count: int) -> float:
    """99th percentile, from the pictures of one robot to its action."""
    policy, eyes, taken = NumpyPolicy(learner.agent.exploring_parameters(learner.state)), Eyes(encoder), []
    for number in range(count):
        observation = {name: values[None] for name, values in steps[number % len(steps)].observation.items()}
        start = time.perf_counter()
        policy.mode(look(policy, Layout(spec), eyes(observation)))
        taken.append(1e3 * (time.perf_counter() - start))
    return float(np.percentile(taken[10:], 99))


def drawing_seconds(count: int) -> float:
    """Seconds to draw one picture, with 8 simulations."""
    env = make_env(TASK, 8, num_threads=1)
    env.reset(seeds=list(range(8)))
    cameras = env.batch.task._cameras  # pyright: ignore[reportAttributeAccessIssue]
    start = time.perf_counter()
    for _ in range(count):
        cameras.pictures(slice(None))
    seconds = (time.perf_counter() - start) / (count * 16)
    env.close()
    return seconds


def disk_bytes(path: Path, steps: list[Transition], seen: list[Transition], spec: Spec) -> float:
    """Bytes of a step in the journal of a run that keeps its pictures: numbers, features and pictures."""

    def kept(features: Observation, pictures: Observation) -> Observation:
        return {**features, **{name + PICTURE: pictures[name] for name in cameras_of(spec)}}

    with Journal.create(path, spec, live=False) as journal:
        for number, (shown, step) in enumerate(zip(steps, seen, strict=True)):
            now, then = kept(step.observation, shown.observation), kept(step.next_observation, shown.next_observation)
            journal.append([dataclasses.replace(step, observation=now, next_observation=then, seq=number)])
    return path.stat().st_size / len(steps)


def main(quick: bool = False, json: bool = False) -> None:
    """Measure the learner with cameras.

    Args:
        quick: Few and short turns, to check that it works.
        json: One JSON object instead of a table.
    """
    turns, updates, episodes = (2, 3, 2) if quick else (7, 30, 12)
    config = RECIPES[TASK]().agent
    config = dataclasses.replace(config, discount=0.96, n_step=1, return_bound="off", demo_imitation=0.0, imitation=0.0)
    env, expert = make_env(TASK), make_expert(TASK, 0)
    steps = [dataclasses.replace(s, source="a", episode=n) for n in range(episodes) for s in play_episode(env, expert, n)]
    spec = env.spec
    pictures = np.stack([step.observation["wrist_left"] for step in steps])
    encoder = fit_encoder([pictures, np.stack([step.observation["wrist_right"] for step in steps])])
    seen = list(encoded_steps(steps, encoder, spec))
    with tempfile.TemporaryDirectory() as folder:
        on_disk = disk_bytes(Path(folder) / "journal.db", steps, seen, encoder.spec(spec))
    env.close()
    ours = Learner(config, encoder.spec(spec), seen)
    felt = dataclasses.replace(spec, observation={name: e for name, e in spec.observation.items() if e.role == "vector"})
    state = Learner(config, felt, [_without(step, felt) for step in steps])
    lerobot = _lerobot(config, spec, felt)
    seconds: dict[str, list[float]] = {}
    for _ in range(turns):
        turn = {"lerobot": lerobot.ask(updates=1), "ours": ours.seconds(updates), "state": state.seconds(updates)}
        turn["encoding"] = encoding_seconds(encoder, pictures, 20 if quick else 400)
        turn["drawing"] = drawing_seconds(2 if quick else 20)
        turn["reencoding"] = turn["ours"] + 2 * 2 * BATCH_SIZE * UPDATES * turn["encoding"]
        for name, value in turn.items():
            seconds.setdefault(name, []).append(value)
    lerobot.close()
    features = sum(step.observation[name].nbytes for step in seen[:1] for name in ("wrist_left", "wrist_right"))
    frames = ours.mixture.online._frames
    assert frames is not None
    held = frames.held * features / len(seen) + 2 * 4 * Layout(felt).size + 4 * spec.action_dim

    def ratio(above: str, below: str) -> float:
        return float(np.median(np.array(seconds[above]) / np.array(seconds[below])))

    report = Report("pixel_learner", ("what", "per second", "ms"), TARGETS)
    for name, values in seconds.items():
        report.row(name, f"{1 / np.median(values):.1f}", f"{1e3 * np.median(values):.2f}")
    report.figures = {
        "over_lerobot": ratio("lerobot", "ours"),
        "over_reencoding": ratio("reencoding", "ours"),
        "of_state_speed": ratio("state", "ours"),
        "frames_per_s_core": 1 / float(np.median(seconds["encoding"])),
        "drawn_per_s_core": 1 / float(np.median(seconds["drawing"])),
        "bytes_per_step_disk": on_disk,
        "bytes_per_step_replay": held,
        "act_ms_p99": act_milliseconds(encoder, ours, encoder.spec(spec), steps, 30 if quick else 300),
    }
    report.show(json)


def _lerobot(config: SACConfig, spec: Spec, felt: Spec) -> Peers:
    """Its learner with these sizes, compiled and warm."""
    height, cameras = spec.observation["wrist_left"].shape[0], len(spec.observation) - len(felt.observation)
    sizes = {"numbers": Layout(felt).size, "actions": spec.action_dim, "size": height, "cameras": cameras}
    sizes |= {"batch": BATCH_SIZE, "hidden": config.hidden}
    peers = Peers("pixel_peers.py", dumps(sizes), python=python_of(VENVS / "lerobot", LEROBOT, ("lerobot==0.4.4",)))
    peers.ask(updates=1)
    return peers


def _without(step: Transition, spec: Spec) -> Transition:
    now, then = ({name: entries[name] for name in spec.observation} for entries in (step.observation, step.next_observation))
    return dataclasses.replace(step, observation=now, next_observation=then)


if __name__ == "__main__":
    tyro.cli(main)
