"""How a run gets its eyes: an encoder fitted on the demonstrations, and the demonstrations with features in the place of pictures.

    demonstrations with pictures ─► fit the encoder ─► features_KEY.db and features_KEY.safetensors beside them ─► the run

From there on a run with cameras is like any other: its spec has entries of features, its demonstrations are a file of such steps, its
actors send features. KEY is a hash of the files and of the encoder's settings, so the same demonstrations are encoded once, whatever the
number of runs. The run keeps its encoder in `encoder.safetensors`; each policy that it publishes carries it too.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tandem.acting.policy import load_policy
from tandem.data.demos import load_demos
from tandem.data.frames import pictures_of
from tandem.data.journal import Journal
from tandem.data.resnet_file import read_resnet10
from tandem.data.seen import cameras_of
from tandem.errors import ConfigError, FileMissing, SpecMismatch
from tandem.networks.encoders.encoder import COMPONENTS, Encoder, fit_encoder, require_picture
from tandem.networks.encoders.resnet import keep
from tandem.networks.encoders.trunks import FROM_FILE, Network
from tandem.off_policy.config import TrainConfig
from tandem.rewards.classifier import parse_classifier
from tandem.runs.folder import RunFolder
from tandem.types import Observation, Spec, Transition

Say = Callable[[str], None]


def open_eyes(
    spec: Spec,
    config: TrainConfig,
    run: Path,
    *,
    resume: bool = False,
    init_from: Path | None = None,
    rule: bytes = b"",
    clones: bool = False,
    say: Say = lambda line: None,
) -> tuple[Encoder, TrainConfig]:
    """The encoder of a run, and its settings with encoded demonstrations. `spec` is the environment's.

    A run whose rewards a classifier gives sees through the classifier's encoder: a picture is then encoded once, and what the journal
    holds can be judged again. `clones`: the heads of the cameras are trained by cloning, so the policy may begin as a clone.
    """
    if resume:  # its demonstrations are encoded already
        encoder = Encoder.read(RunFolder(run).encoder_file)
        require_memory(encoder.spec(spec), config, say, demos=sum(_count(file) for file in config.demos))
        return encoder, config
    _require_pictures(spec)
    encoder = None if init_from is None else Encoder.from_arrays(load_policy(init_from)[0].parameters)
    encoder = _that_of_rewards(config.reward_source, rule, encoder)
    if not config.demos and encoder is None:
        raise ConfigError(
            f"'{spec.task}' has cameras ({', '.join(pictures_of(spec))}), and their encoder is fitted on demonstrations: give --demos FILE "
            f"or --scripted-demos 25"
        )
    encoder, encoded = encoded_demos(spec, config.demos, encoder, config.encoder, say, config.agent.critics_know_more)
    seen = encoder.spec(spec, privileged=config.agent.critics_know_more)
    require_memory(seen, config, say, demos=sum(_count(file) for file in encoded))
    if config.clone_steps and not clones and config.agent.critic_sees == "policy":
        say(
            "the policy does not start as a clone: with cameras the critics' loss trains what it sees through, and would move it away. "
            "The recipe for cameras is --recipe fitted_pixels (docs/pixels.md)"
        )
        config = dataclasses.replace(config, clone_steps=0, critic_steps=0)
    return encoder, dataclasses.replace(config, demos=encoded)


def _that_of_rewards(source: str, rule: bytes, encoder: Encoder | None) -> Encoder | None:
    """The encoder of the classifier that gives the rewards, where it has one; else the one that is given."""
    own = parse_classifier(rule, source).encoder if source.startswith("classifier:") else None
    if own is not None and encoder is not None and own.hash != encoder.hash:
        raise ConfigError(
            f"the policy to start from and {source} see pictures through different encoders, and a run has one. Train the classifier on "
            f"steps of that run (`tandem reward train RUN`), or begin without --init-from."
        )
    return own or encoder


def encoded_demos(
    spec: Spec, files: Sequence[Path], encoder: Encoder | None, trunk: str, say: Say, privileged: bool = False
) -> tuple[Encoder, tuple[Path, ...]]:
    """The encoder, and a file of the same steps seen through it; made once."""
    _require_pictures(spec)
    if not files:
        assert encoder is not None
        return encoder, ()
    for file in files:
        _require_framing(file, spec)
    network = network_for(trunk) if encoder is None else encoder.network
    key = _key(files, (network.known_by if encoder is None else encoder.hash) + (" privileged" if privileged else ""))
    steps_file, encoder_file = (files[0].parent / f"features_{key}{suffix}" for suffix in (".db", ".safetensors"))
    if steps_file.exists() and encoder_file.exists():
        say(f"the demonstrations were encoded before: {steps_file}")
        return Encoder.read(encoder_file), (steps_file,)
    steps = [step for file in files for step in _with_pictures(file, spec)]
    if encoder is None:
        say(f"fitting the encoder ({network.name}) on the pictures of {len(steps):,} steps")
        encoder = fit_encoder(_pictures(steps, pictures_of(spec)), network)
    encoder.write(encoder_file)
    _write(
        steps_file,
        dataclasses.replace(encoder.spec(spec, privileged=privileged), reward=""),
        encoded_steps(steps, encoder, spec, privileged),
    )
    say(f"encoded the demonstrations with {encoder.trunk}:{encoder.hash}: {steps_file}")
    return encoder, (steps_file,)


def network_for(asked: str) -> Network:
    """The image network that `--encoder` names. Weights from a file are kept on this machine, where actors find them by their hash."""
    if asked.startswith(FROM_FILE):
        return Network("resnet10", keep(read_resnet10(Path(asked.removeprefix(FROM_FILE)).expanduser())))
    return Network(asked)


def _with_pictures(file: Path, spec: Spec) -> list[Transition]:
    """Steps with pictures: demonstrations, or the journal of a run, which has kept its own beside the features of its encoder."""
    if file.suffix == ".db" and file.is_file():
        with Journal.open(file) as journal:
            if cameras_of(journal.spec):
                differences = spec.without_encoder().data_difference(journal.spec.without_encoder())
                if differences:
                    raise SpecMismatch(f"{file} is of another task than '{spec.task}': {'; '.join(differences)} (here: the task)")
                journal.pictured = True
                return [step for _, step in journal.read()]
    return load_demos(file, spec)


def _require_framing(file: Path, spec: Spec) -> None:
    """The shape alone does not tell one crop from another (`envs.framing` says in the meaning what it did)."""
    if file.suffix != ".db" or not file.is_file():
        return
    with Journal.open(file) as journal:
        of_file = journal.spec
    for name in pictures_of(spec):
        there, here = (each.observation[name].meaning if name in each.observation else "" for each in (of_file, spec))
        if there != here and "(from (" in there + here:
            raise SpecMismatch(
                f"the pictures '{name}' of {file} were framed in another way: '{there}' there, '{here}' in the environment now. Record it "
                f"again, or declare the same crop and size as then."
            )


def _count(file: Path) -> int:
    with Journal.open(file) as journal:
        return journal.counts()[0]


def _require_pictures(spec: Spec) -> None:
    for name, entry in pictures_of(spec).items():
        require_picture(name, entry)


def _key(files: Sequence[Path], how: str) -> str:
    digest = hashlib.sha256(f"{how} {COMPONENTS}".encode())
    for file in files:
        if not file.exists():
            raise FileMissing(f"there is no file of demonstrations {file} (looked in {file.absolute().parent})")
        for part in sorted(part for part in file.rglob("*") if part.is_file()) if file.is_dir() else [file]:
            digest.update(part.read_bytes())
    return digest.hexdigest()[:12]


def _episodes(steps: Sequence[Transition]) -> Iterator[list[Transition]]:
    episodes: dict[tuple[str, int], list[Transition]] = {}
    for step in steps:
        episodes.setdefault((step.source, step.episode), []).append(step)
    yield from episodes.values()


def _pictures(steps: Sequence[Transition], cameras: Mapping[str, Any]) -> Iterator[np.ndarray]:
    """The pictures of each episode and camera, each once."""
    for episode in _episodes(steps):
        for camera in cameras:
            yield np.stack([*(step.observation[camera] for step in episode), episode[-1].next_observation[camera]])


def encoded_steps(steps: Sequence[Transition], encoder: Encoder, spec: Spec, privileged: bool = False) -> Iterator[Transition]:
    """The same steps with features; a picture that two steps show is encoded once."""
    kept, cameras = encoder.spec(spec, privileged=privileged).observation, tuple(pictures_of(spec))
    for episode in _episodes(steps):
        known: dict[bytes, np.ndarray] = {}

        def seen(observation: Observation, known: dict[bytes, np.ndarray] = known) -> Observation:
            return {name: _features(observation[name], encoder, known) if name in cameras else observation[name] for name in kept}

        for step in episode:
            yield dataclasses.replace(step, observation=seen(step.observation), next_observation=seen(step.next_observation))


def _features(picture: np.ndarray, encoder: Encoder, known: dict[bytes, np.ndarray]) -> np.ndarray:
    name = hashlib.blake2b(picture.tobytes(), digest_size=16).digest()
    if name not in known:
        known[name] = encoder.encode(picture[None])[0]
    return known[name]


def _write(path: Path, spec: Spec, steps: Iterator[Transition]) -> None:
    """Under its final name the file is whole."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.unlink(missing_ok=True)
    with Journal.create(partial, spec, live=False, operator="encoded") as journal:
        journal.append(steps)
        journal.finish()
    os.replace(partial, path)


# ---- memory


def bytes_per_step(spec: Spec, frames: int = 1) -> int:
    """In the replay buffer: features once, numbers twice. `frames`: 2 for a step that shares its frames with no other."""
    features = sum(entry.size for entry in spec.observation.values() if entry.role == "features")
    numbers = sum(entry.size for entry in spec.observation.values() if entry.dtype == "float32")
    return frames * features + 2 * 4 * numbers + 4 * spec.action_dim + 100


def require_memory(spec: Spec, config: TrainConfig, say: Say, available: int | None = None, demos: int = 0) -> None:
    """Say how much memory the replay buffers take, and refuse what this machine does not have, before anything is allocated.

    The most that they can ever take is `capacity` steps in each of the two, none of which shares a frame with another.
    """
    steps = min(config.replay_buffer_capacity, max(1, round(config.max_steps / config.updates_per_actor_step))) + demos
    needed, there = steps * bytes_per_step(spec), free_memory() if available is None else available
    most = (config.replay_buffer_capacity + max(config.replay_buffer_capacity, demos)) * bytes_per_step(spec, frames=2)
    say(
        f"replay buffers: {bytes_per_step(spec):,} bytes a step, {needed / 2**30:.2f} GiB for {steps:,} steps, never more than "
        f"{most / 2**30:.2f} GiB (--replay-buffer-capacity); {there / 2**30:.1f} GiB of memory are free"
    )
    if needed > there:
        fits = max(0, there // bytes_per_step(spec) - demos)
        raise ConfigError(
            f"the replay buffers of '{spec.task}' may grow to {needed / 2**30:.1f} GiB ({steps:,} steps of {bytes_per_step(spec):,} bytes) "
            f"and {there / 2**30:.1f} GiB of memory are free: lower --replay-buffer-capacity below {fits:,}, use fewer cameras, or smaller "
            f"pictures"
        )


def free_memory() -> int:
    """Bytes that this machine could give now."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
