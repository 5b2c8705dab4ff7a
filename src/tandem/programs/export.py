"""`tandem export`: a learned policy as one ONNX file for any machine.

Every file is run by ONNX Runtime, on random observations and at their bounds, and compared with the policy that acts in training;
only a file that gives the same actions is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from tandem import __version__
from tandem.acting.policy import numpy_policy, policy_file
from tandem.decisions import Decisions
from tandem.errors import ConfigError, DataError
from tandem.files import write_atomically
from tandem.layouts import ActionLayout, Layout
from tandem.networks.choices import Choices
from tandem.networks.numpy_gaussian import NumpyGaussian
from tandem.networks.numpy_grasp import NumpyHybrid
from tandem.networks.numpy_policy import NumpyPolicy, look
from tandem.networks.numpy_recurrent import NumpyRecurrent
from tandem.networks.onnx_graph import MEMORY_OUT, VALUES, camera_names, input_names, policy_graph, squash_of
from tandem.networks.onnx_policy import FORMAT, OnnxPolicy, from_bytes, graph_hash
from tandem.programs.terminal import say
from tandem.runs.checkpoint import read_policy, read_policy_notes
from tandem.runs.folder import plain
from tandem.types import OBSERVATION_CLIP, Observation, PolicySnapshot, Spec

TOLERANCE = 1e-5
"""By how much an output may differ, for every unit of the largest number that the network sees (and at least one unit)."""
ROWS = 256


class ExportMismatch(DataError):
    """The file does not do what the policy does."""


@dataclass(frozen=True)
class Exported:
    """What was written, and how it was found to be right."""

    path: Path
    bytes: int
    kind: str
    inputs: tuple[str, ...]
    observations: int
    """On how many the two were compared."""
    largest_difference: float
    """Between their actions, on the likely ones."""


def export_command(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    to: Path | None = None,
    which: Literal["best", "latest"] = "best",
    json: bool = False,
) -> None:
    """Write a learned policy as one ONNX file, compared with the policy before it is kept.

    Args:
        run: A run folder, or a policy file.
        to: The file to write. Default: RUN/policy.onnx.
        which: The best policy by evaluation, or the latest policy.
        json: One JSON object instead of text.
    """
    done = export(run, to, which)
    if json:
        print(dumps(plain(done)))
        return
    say(f"wrote {done.path} ({done.bytes:,} bytes, learned by {done.kind}); inputs {', '.join(done.inputs)}; output action")
    found = f"{done.observations} observations in ONNX Runtime, largest difference between actions {done.largest_difference:.1g}"
    say(f": the same as the live policy on {found}", "checked", "green")


def export(source: Path, target: Path | None = None, which: str = "best") -> Exported:
    """The policy of a run folder (or a policy file) as an ONNX file; `target` defaults to RUN/policy.onnx."""
    target = target or (source.with_suffix(".onnx") if source.is_file() else source / "policy.onnx")
    if target.suffix != ".onnx":
        raise ConfigError(f"an export is an ONNX file and its name ends in .onnx; got {target}")
    file = policy_file(source, which)
    snapshot, spec = read_policy(file)
    kind = str(read_policy_notes(file).get("learned_by", "rlpd"))
    data = onnx_bytes(snapshot, spec, kind)
    policy = from_bytes(data, str(target))
    observations = probes(snapshot, spec)
    largest = compare(policy, snapshot, spec, observations)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, data)
    count = len(next(iter(observations.values())))
    return Exported(target, len(data), kind, policy.inputs, count, largest)


def onnx_bytes(snapshot: PolicySnapshot, spec: Spec, kind: str) -> bytes:
    """The file's content; not compared with anything yet."""
    parameters, decisions = snapshot.parameters, Decisions.of(snapshot.parameters)
    metadata = {
        "format": FORMAT,
        "task": spec.task,
        "spec": dumps(spec.to_json()),
        "spec_hash": spec.hash,
        "inputs": dumps([*input_names(parameters, spec), *camera_names(parameters)]),
        "units": dumps({name: entry.unit for name, entry in spec.observation.items()} | {"command": ActionLayout.of(spec).unit}),
        "control_hz": f"{spec.control_hz:g}",
        "decisions": f"{decisions.steps} {decisions.between}",
        "kind": kind,
        "squash": squash_of(snapshot.kind),
        "policy_version": str(snapshot.version),
        "learner_step": str(snapshot.learner_step),
        "policy_hash": snapshot.hash,
        "tandem": __version__,
    }
    model = policy_graph(snapshot, spec, metadata)
    model.metadata_props.add(key="graph_hash", value=graph_hash(model))
    return model.SerializeToString()


def probes(snapshot: PolicySnapshot, spec: Spec) -> Observation:
    """Observations to compare on, in their own units: likely ones, unlikely ones, and the edges."""
    layout, random = Layout(spec), np.random.default_rng(0)
    centre, spread = np.zeros(layout.size, np.float32), np.ones(layout.size, np.float32)
    if snapshot.kind != "tanh_gaussian":  # PPO's sees through a normaliser
        columns = snapshot.parameters["columns"]
        centre[columns], spread[columns] = snapshot.parameters["normaliser/mean"], snapshot.parameters["normaliser/std"]
    noise = random.standard_normal((ROWS, layout.size), dtype=np.float32)
    noise[ROWS // 2 :] *= 4
    alone = np.eye(layout.size, dtype=np.float32)  # one number at its bound, all others at 0
    edges = [np.zeros((1, layout.size)), np.ones((1, layout.size)), alone, 1000 * alone, 200 * np.ones((1, layout.size))]
    bounds = OBSERVATION_CLIP * np.concatenate([*edges, *(-edge for edge in edges)])
    rows = np.concatenate([centre + spread * noise, bounds]).astype(np.float32) * layout.scales + layout.offsets
    entries: Observation = {}
    for name in layout.names:
        entries[name] = rows[:, layout.columns([name])].reshape(len(rows), *spec.observation[name].shape)
    for name in [name for name, entry in spec.observation.items() if entry.picture]:  # from grey to noise
        contrast = np.linspace(0, 1, len(rows))[:, None, None, None]
        entries[name] = (128 + contrast * random.integers(-128, 128, (len(rows), *spec.observation[name].picture))).astype(np.uint8)
    return entries


def compare(policy: OnnxPolicy, snapshot: PolicySnapshot, spec: Spec, observations: Observation) -> float:
    """The largest difference between the actions on the likely observations; any output beyond the tolerance is refused with its place."""
    live = numpy_policy(snapshot)
    x = look(live, Layout(spec), _features(snapshot, spec, observations))
    memory = policy.begin(len(x))
    if policy.memory_size:  # as it may be in the middle of an episode; what a unit remembers is between -1 and 1 or a little more
        memory[ROWS // 4 :] = np.random.default_rng(1).uniform(-1.5, 1.5, memory[ROWS // 4 :].shape)
    expected = _expected(live, spec, x, memory)
    # a float32 has seven digits: what is computed of larger numbers is known to fewer decimals
    allowed = TOLERANCE * np.maximum(1.0, np.abs(live.seen(x)).max(axis=1, keepdims=True))
    tied = _tied(expected, snapshot, spec, allowed)
    for rows in (slice(0, len(x)), slice(0, 1), slice(1, 3)):  # the batch is free
        found = policy.run({name: values[rows] for name, values in observations.items()}, memory[rows])
        for name, wanted in expected.items():
            either = tied[rows] if name in ("action", "command") else False
            _refuse_difference(name, found[name], np.where(either, found[name], wanted[rows]), allowed[rows], rows.start)
    difference = np.where(tied, 0.0, policy.mode(observations, memory)[0] - expected["action"])
    return float(np.abs(difference)[:ROWS].max())


def _tied(expected: dict[str, np.ndarray], snapshot: PolicySnapshot, spec: Spec, allowed: np.ndarray) -> np.ndarray:
    """`(rows, action_dim)`: choices between which rounding decides, because the two best are worth the same to seven digits."""
    tied = np.zeros((len(allowed), spec.action_dim), bool)
    if VALUES not in expected:
        return tied
    choices, values = Choices.of(ActionLayout.of(spec)), expected[VALUES]
    one_table = snapshot.kind == "tanh_gaussian"  # the grasp critic's, for all parts together
    for column, part in zip(choices.columns, [slice(None)] * len(choices.columns) if one_table else choices.parts, strict=True):
        best = np.sort(values[:, part], axis=1)
        tied[:, column] = best[:, -1] - best[:, -2] <= 2 * allowed[:, 0] if best.shape[1] > 1 else False
    return tied


def _features(snapshot: PolicySnapshot, spec: Spec, observations: Observation) -> Observation:
    """What the live policy gets: features in the place of pictures."""
    if not any(entry.picture for entry in spec.observation.values()):
        return observations
    from tandem.acting.eyes import Eyes  # only policies with cameras need it
    from tandem.networks.encoders.encoder import Encoder

    return Eyes(Encoder.from_arrays(snapshot.parameters), flat=not camera_names(snapshot.parameters))(observations)


def _expected(live: NumpyPolicy | NumpyGaussian | NumpyRecurrent, spec: Spec, x: np.ndarray, memory: np.ndarray) -> dict[str, np.ndarray]:
    """What the outputs should be."""
    after: dict[str, np.ndarray] = {}
    if isinstance(live, NumpyRecurrent):
        (mean, std, logits), after[MEMORY_OUT] = live.outputs(x, memory)
        action = live.mode(x, memory)[0]
        after |= {VALUES: logits} if live.choices.columns else {}
    elif isinstance(live, NumpyGaussian):
        mean, std, logits = live.outputs(x)
        action = live.mode(x)
        after = {VALUES: logits} if live.choices.columns else {}
    else:
        mean, std = live.gaussian(x)
        action = live.mode(x)
        after = {VALUES: live.values(x)} if isinstance(live, NumpyHybrid) else {}
    return {"action": action, "command": action * ActionLayout.of(spec).scales, "mean": mean, "std": std, **after}


def _refuse_difference(name: str, found: np.ndarray, wanted: np.ndarray, allowed: np.ndarray, first: int) -> None:
    if found.shape != wanted.shape:
        raise ExportMismatch(
            f"output '{name}' has shape {found.shape} in the file, {wanted.shape} in the live policy. Nothing was written."
        )
    wrong = ~(np.abs(found - wanted) <= allowed * np.maximum(1.0, np.abs(wanted)))  # NaN is wrong too
    if wrong.any():
        row, place = (int(i) for i in np.argwhere(wrong)[0])
        raise ExportMismatch(
            f"output '{name}' differs, first at observation {first + row}, number {place}: {found[row, place]:.8g} in the file, "
            f"{wanted[row, place]:.8g} in the live policy, allowed {allowed[row, 0]:.1g}. Nothing was written. This is a fault of the "
            f"export or of the installed onnxruntime, not of the policy."
        )
