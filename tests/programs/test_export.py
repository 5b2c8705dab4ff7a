"""A policy as a file for any machine: it does what the live policy does, and only such a file is ever written or read."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest

from tandem.acting.evaluate import evaluate
from tandem.acting.policy import act_with, load_any_policy, load_policy, numpy_policy
from tandem.agents.bc import BCConfig
from tandem.agents.ppo import PPO
from tandem.agents.ppo_config import PPOConfig
from tandem.agents.recurrent_ppo import RecurrentPPO
from tandem.agents.sac import SAC
from tandem.agents.sac_config import SACConfig
from tandem.agents.sac_start import agent_for
from tandem.data.journal import Journal
from tandem.decisions import Decisions
from tandem.envs.reach import SPEC as REACH
from tandem.envs.registry import make_env, make_expert
from tandem.errors import ConfigError, FileMissing, FileUnreadable, SpecMismatch
from tandem.layouts import Layout
from tandem.networks import onnx_file
from tandem.networks.onnx_file import read_onnx
from tandem.networks.onnx_policy import OPERATORS, from_bytes, graph_hash
from tandem.off_policy.cloning import CloneArgs, clone_demos
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.sync import train
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.run import train_ppo
from tandem.programs.export import TOLERANCE, ExportMismatch, compare, export, onnx_bytes, probes
from tandem.programs.record import record_demos
from tandem.runs.display import Display
from tandem.types import ActionPart, Continuous, Discrete, Entry, PolicySnapshot, Spec
from tests.programs.test_processes import Command, api, started  # noqa: F401  started is a fixture
from tests.test_cli import assert_done, assert_refused, tandem
from tests.waiting import wait_for

SPEC = Spec(
    task="made up",
    observation={
        "image": Entry((4, 4, 3), dtype="uint8"),
        "pose": Entry((3,), unit="m", scale=(0.1, 0.2, 0.3)),
        "secret": Entry((2,), scale=3.0, meaning="only for the critic"),
        "touch": Entry((), unit="N", scale=20.0),
        "grid": Entry((2, 3), scale=0.5),
    },
    action=(Continuous("arm", 4, unit="m, rad", scale=(0.01, 0.01, 0.01, 0.1)),),
    control_hz=10.0,
    max_episode_steps=50,
)
SIZE = 12


def of_some_size(tree: Any) -> Any:
    """Every parameter as after training, none of them 0 or 1."""
    random = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf + 0.2 * random.standard_normal(leaf.shape), jnp.float32), tree)


def ppo_policy(config: PPOConfig, columns: tuple[int, ...] | None = None, clip: float = np.inf) -> tuple[PolicySnapshot, Callable]:
    """A policy of PPO's, and its mean and std by JAX, of observations `(N, 12)` as they are measured over their scales."""
    agent, random = PPO(config, SIZE, 4, actor_columns=columns), np.random.default_rng(1)
    state = agent.init(0)
    actor = of_some_size(state.actor)
    mean, std = random.standard_normal(SIZE).astype(np.float32), random.uniform(0.1, 2, SIZE).astype(np.float32)
    parameters = agent.policy_parameters(state._replace(actor=actor), mean, std, clip)
    seen = slice(None) if columns is None else list(columns)
    return PolicySnapshot(3, 7, parameters, "gaussian"), lambda x: actor(jnp.clip((x - mean) / std, -clip, clip)[:, seen])


def sac_policy(config: SACConfig) -> tuple[PolicySnapshot, Callable]:
    agent = SAC(config, SIZE, 4)
    state = agent.init(0)
    actor = of_some_size(state.actor)
    parameters = agent.policy_parameters(state._replace(actor=actor))

    def gaussian(x: Any) -> Any:
        mean, log_std = actor(jnp.clip(x, -5, 5))
        return mean, jnp.exp(log_std)

    return PolicySnapshot(3, 7, parameters), gaussian


POLICIES = {
    "ppo": lambda: ppo_policy(PPOConfig()),
    "ppo, clipped, spread by state": lambda: ppo_policy(PPOConfig(std_type="state", activation="swish"), clip=2.0),
    "ppo, log std, some entries": lambda: ppo_policy(
        PPOConfig(std_type="log", activation="tanh", actor_hidden_dims=(32,)), tuple(Layout(SPEC).columns(["pose", "touch"]).tolist())
    ),
    "ppo, numbers in any order": lambda: ppo_policy(PPOConfig(activation="relu"), (11, 0, 7)),
    "sac": lambda: sac_policy(SACConfig()),
    "sac without LayerNorm": lambda: sac_policy(SACConfig(actor_layer_norm=False, activation="relu", hidden=(32, 32, 32))),
}


@pytest.mark.parametrize("kind", list(POLICIES))
def test_a_file_does_what_the_policy_does_in_jax(kind: str) -> None:
    snapshot, gaussian = POLICIES[kind]()
    policy = from_bytes(onnx_bytes(snapshot, SPEC, kind), "made up")
    random, layout = np.random.default_rng(5), Layout(SPEC)
    observation = {name: random.normal(0, 2, (64, *SPEC.observation[name].shape)) for name in layout.names}
    observation = {name: (values * SPEC.observation[name].scales()).astype(np.float32) for name, values in observation.items()}
    x = np.concatenate([(observation[name] / SPEC.observation[name].scales()).reshape(64, -1) for name in sorted(layout.names)], axis=1)
    mean, std = jax.jit(gaussian)(x.astype(np.float32))
    told = policy.run(observation)
    np.testing.assert_allclose(told["mean"], mean, atol=5e-5, rtol=1e-5)
    np.testing.assert_allclose(told["std"], std, atol=5e-5, rtol=1e-5)
    action = np.tanh(mean) if kind.startswith("sac") else np.clip(mean, -1, 1)
    np.testing.assert_allclose(told["action"], action, atol=5e-5)
    # `command` is the same in the unit of the action: 0.01 m, 0.01 m, 0.01 m, 0.1 rad
    np.testing.assert_allclose(told["command"], action * np.array([0.01, 0.01, 0.01, 0.1]), atol=5e-6)
    assert np.abs(told["action"]).max() <= 1 and (told["std"] > 0).all()
    drawn = [policy.sample(observation, policy.begin(64), np.random.default_rng(seed))[0] for seed in (0, 0, 1)]
    assert np.array_equal(drawn[0], drawn[1]) and not np.array_equal(drawn[0], drawn[2]) and np.abs(drawn[0]).max() <= 1
    # and the check that every export passes sees it so, on likely observations and at the edges
    assert compare(policy, snapshot, SPEC, probes(snapshot, SPEC)) < 20 * TOLERANCE


def test_a_file_says_for_how_many_control_steps_to_execute_an_action() -> None:
    snapshot, _ = sac_policy(SACConfig(hidden=(8,)))
    plain = from_bytes(onnx_bytes(snapshot, SPEC, "sac"), "made up")
    assert plain.decisions == Decisions() and act_with(plain, SPEC).held is None
    slow = PolicySnapshot(3, 7, {**snapshot.parameters, **Decisions(3).arrays()})
    data = onnx_bytes(slow, SPEC, "sac")
    policy = from_bytes(data, "made up")
    assert policy.decisions == Decisions(3)
    random, act, live = np.random.default_rng(0), act_with(policy, SPEC), act_with(slow, SPEC)
    seen = [{name: random.normal(0, 1, (2, *entry.shape)).astype(np.float32) for name, entry in SPEC.observation.items()} for _ in range(7)]
    actions = np.stack([act(observation) for observation in seen])
    np.testing.assert_allclose(actions, np.stack([live(observation) for observation in seen]), atol=1e-5)
    assert [i for i in range(1, 7) if not np.array_equal(actions[i], actions[i - 1])] == [3, 6]
    model = onnx.load_model_from_string(data)
    for prop in model.metadata_props:
        if prop.key == "decisions":
            prop.value = "0 hold"
    with pytest.raises(FileUnreadable, match="decision_steps must be from 1 to 1000, got 0"):
        from_bytes(model.SerializeToString(), "made up")


@pytest.mark.parametrize(("columns", "sizes", "doubt"), [((4,), (3,), 0.5), ((1, 3), (3, 3), 0.0)])
def test_a_file_makes_the_choices_of_the_grasp_critic(columns: tuple[int, ...], sizes: tuple[int, ...], doubt: float) -> None:
    """One gripper behind the four axes, and two between them: each choice is in its own column."""
    config = SACConfig(hidden=(16, 16), grasp_ensemble_size=2, grasp_epsilon=0.5, grasp_doubt=doubt)
    parts: list[ActionPart] = [Continuous(f"axis{i}", 1, scale=0.01) for i in range(4 + len(columns))]
    for column, size in zip(columns, sizes, strict=True):
        parts[column] = Discrete(f"gripper{column}", tuple("abc"[:size]), rest=1)
    spec = dataclasses.replace(SPEC, action=tuple(parts))
    agent = agent_for(config, spec)
    state = of_some_size(agent.init(0))
    snapshot = PolicySnapshot(3, 7, agent.policy_parameters(state))
    policy, live = from_bytes(onnx_bytes(snapshot, spec, "rlpd"), "made up"), numpy_policy(snapshot)
    observations = probes(snapshot, spec)
    assert compare(policy, snapshot, spec, observations) < 20 * TOLERANCE
    told = policy.run(observations)
    chosen = told["action"][:, list(columns)]
    assert len(np.unique(chosen, axis=0)) > 1 and set(chosen.ravel().tolist()) <= {0.0, 1.0, 2.0}
    assert told["mean"].shape[1] == 4 and told["values"].shape[1] == np.prod(sizes)
    drawn = policy.sample(observations, policy.begin(len(chosen)), np.random.default_rng(0))[0]
    np.testing.assert_array_equal(drawn[:, list(columns)], chosen)  # an exported policy does not explore by choices
    # a file that chooses otherwise is found
    wrong = {name: -array if name.startswith("grasp/head") else array for name, array in snapshot.parameters.items()}
    with pytest.raises(ExportMismatch):
        compare(policy, PolicySnapshot(3, 7, wrong), spec, observations)
    assert live.action_dim == spec.action_dim


@pytest.mark.parametrize(("kind", "layers"), [("lstm", 2), ("gru", 2), ("lstm", 1)])
def test_a_policy_that_remembers_is_handed_its_memory_and_hands_it_back(kind: Any, layers: int) -> None:
    config = PPOConfig(
        actor_hidden_dims=(16,), critic_hidden_dims=(8,), actor_rnn_type=kind, actor_rnn_hidden_dim=24, actor_rnn_num_layers=layers
    )
    agent = RecurrentPPO(config, SIZE, 4, actor_columns=tuple(Layout(SPEC).columns(["pose", "touch", "grid"]).tolist()))
    state = agent.init(0)
    state = state._replace(actor=of_some_size(state.actor))
    random = np.random.default_rng(1)
    centre, spread = random.standard_normal(SIZE).astype(np.float32), random.uniform(0.1, 2, SIZE).astype(np.float32)
    snapshot = PolicySnapshot(3, 7, agent.policy_parameters(state, centre, spread, np.inf), "recurrent_gaussian")
    policy = from_bytes(onnx_bytes(snapshot, SPEC, "ppo"), "made up")
    assert policy.inputs == ("grid", "pose", "touch") and policy.memory_size == {"lstm": 48, "gru": 24}[kind] * layers
    assert compare(policy, snapshot, SPEC, probes(snapshot, SPEC)) < 20 * TOLERANCE
    # eight steps of three rows, the memory carried on by each side for itself; row 1 begins a new episode after the fourth
    acting, remembered = act_with(policy, SPEC), np.zeros((3, policy.memory_size), np.float32)
    for t in range(8):
        x = random.standard_normal((3, SIZE)).astype(np.float32)
        observation = {
            name: (x[:, Layout(SPEC).columns([name])].reshape(3, *SPEC.observation[name].shape) * SPEC.observation[name].scales()).astype(
                "f"
            )
            for name in Layout(SPEC).names
        }
        mean, after = agent.act(state.actor, (x - centre) / spread, np.zeros((3, 4), np.float32), remembered)
        remembered = np.array(after)
        np.testing.assert_allclose(acting(observation), np.clip(mean, -1, 1), atol=5e-5)
        if t == 3:
            remembered[1] = 0
            acting.reset(np.array([False, True, False]))
    first = acting(observation)
    acting.reset()
    assert np.abs(first - acting(observation)).max() > 1e-3, "what it remembers matters"


def test_only_what_the_policy_looks_at_is_asked_for() -> None:
    snapshot, _ = POLICIES["ppo, log std, some entries"]()
    assert from_bytes(onnx_bytes(snapshot, SPEC, "ppo"), "made up").inputs == ("pose", "touch")
    snapshot, _ = POLICIES["ppo, numbers in any order"]()  # grid has 0 to 5, pose 6 to 8, secret 9 and 10, touch 11
    assert from_bytes(onnx_bytes(snapshot, SPEC, "ppo"), "made up").inputs == ("grid", "pose", "touch")
    called = dataclasses.replace(SPEC, observation={"action": Entry((SIZE,))})
    with pytest.raises(ConfigError, match="observation entry 'action', which is a reserved name in the file"):
        onnx_bytes(POLICIES["ppo"]()[0], called, "ppo")


@pytest.mark.parametrize("kind", ["ppo, clipped, spread by state", "sac"])
def test_one_wrong_number_is_found_before_a_file_is_kept(kind: str, tmp_path: Path) -> None:
    snapshot, _ = POLICIES[kind]()
    observations = probes(snapshot, SPEC)
    for name, array in snapshot.parameters.items():
        if name in ("activation", "std_range", "observation_dim", "columns", "std") or array.ndim == 0:
            continue
        wrong = array.copy()
        wrong.flat[0] += 0.01 * max(1.0, abs(float(wrong.flat[0])))
        other = dataclasses.replace(snapshot, parameters={**snapshot.parameters, name: wrong})
        policy = from_bytes(onnx_bytes(other, SPEC, "x"), "made up")
        with pytest.raises(ExportMismatch, match=r"output '(action|mean|std|command)' differs, first at observation"):
            compare(policy, snapshot, SPEC, observations)


# ---- runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One of each kind of learning, all on reach."""
    folder, quiet = tmp_path_factory.mktemp("runs"), Display("quiet")
    demos = record_demos(make_env("reach"), make_expert("reach", 0), 10, folder, seed=0)
    network = PPOConfig(actor_hidden_dims=(32, 32), critic_hidden_dims=(16,), num_mini_batches=2, std_type="state")
    on_policy = OnPolicyConfig(
        task="reach",
        agent=network,
        num_envs=16,
        num_steps_per_env=16,
        max_iterations=3,
        eval_period=0,
        final_episodes=0,
        obs_normalization=True,
    )
    on_policy = dataclasses.replace(on_policy, actor_entries=("to_ball", "command_offset", "tcp_position"))
    train_ppo(on_policy, folder / "ppo", quiet)
    rlpd = TrainConfig(task="reach", agent=SACConfig(hidden=(16, 16)), demos=(demos,), batch_size=16, training_starts=20, max_steps=30)
    train(dataclasses.replace(rlpd, eval_period=0, final_episodes=0, num_envs=2), folder / "rlpd", quiet)
    clone_demos(CloneArgs("reach", (demos,), BCConfig(max_steps=300), hidden=(32, 32), final_episodes=0), folder / "bc", quiet)
    return {kind: folder / kind for kind in ("ppo", "rlpd", "bc")}


@pytest.mark.parametrize("kind", ["ppo", "rlpd", "bc"])
def test_a_run_is_exported_with_all_that_is_known_of_it_and_acts_as_in_training(runs: dict[str, Path], kind: str, tmp_path: Path) -> None:
    done = export(runs[kind], tmp_path / "new folder" / "policy.onnx")
    assert (done.kind, done.path, done.bytes) == (kind, tmp_path / "new folder" / "policy.onnx", done.path.stat().st_size)
    assert done.largest_difference < TOLERANCE * 20 and done.observations > 256
    assert [path.name for path in done.path.parent.iterdir()] == ["policy.onnx"], "nothing temporary is left"
    snapshot, spec = load_policy(runs[kind])
    model = onnx.load(done.path)
    onnx.checker.check_model(model, full_check=True)
    assert {node.op_type for node in model.graph.node} <= OPERATORS
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert metadata["task"] == "reach" and metadata["kind"] == kind and metadata["control_hz"] == "10"
    assert Spec.from_json(json.loads(metadata["spec"])) == Spec.from_json(json.loads(json.dumps(spec.to_json())))
    assert metadata["spec_hash"] == REACH.hash and metadata["policy_hash"] == snapshot.hash
    assert json.loads(metadata["units"]) == {
        "tcp_position": "m", "tcp_velocity": "m/s", "to_ball": "m", "command_offset": "m", "command": "m",
    }  # fmt: skip
    assert (int(metadata["policy_version"]), int(metadata["learner_step"])) == (snapshot.version, snapshot.learner_step)
    # whole episodes, acted by either: the same to the last step
    policy, policy_spec = load_any_policy(done.path)
    seeds = range(50, 58)
    live, filed = (evaluate("reach", act_with(chosen, policy_spec), seeds) for chosen in (snapshot, policy))
    assert np.array_equal(live.length, filed.length) and np.array_equal(live.success, filed.success)
    live, filed = (evaluate("reach", act_with(chosen, policy_spec, 3), seeds) for chosen in (snapshot, policy))
    assert np.array_equal(live.length, filed.length), "drawn with the same noise it is the same policy too"
    with pytest.raises(ConfigError, match="can act, but not be trained on"):
        load_policy(done.path)


def test_a_wrong_export_leaves_what_was_there(runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime computes something else (here: another epsilon in every LayerNorm): no file, and the old one as it was."""
    target = tmp_path / "policy.onnx"
    target.write_bytes(b"an older one")
    monkeypatch.setattr("tandem.networks.onnx_graph.LAYER_NORM_EPSILON", 0.5)
    with pytest.raises(ExportMismatch, match=r"output 'action' differs, first at observation 0, number 0: .* Nothing was written"):
        export(runs["rlpd"], target)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"an older one"]
    with pytest.raises(ConfigError, match=r"ends in \.onnx"):
        export(runs["rlpd"], tmp_path / "policy.safetensors")
    with pytest.raises(FileMissing, match="there is no policy"):
        export(tmp_path / "nowhere")


def test_the_page_s_example_runs_with_onnxruntime_alone(runs: dict[str, Path], tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    assert len(code.strip().splitlines()) <= 10 and "tandem" not in code
    export(runs["ppo"], tmp_path / "policy.onnx")
    alone = "import sys; sys.modules['tandem'] = sys.modules['jax'] = sys.modules['onnx'] = None\n"
    done = subprocess.run([sys.executable, "-c", alone + code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    numbers = np.array(json.loads(done.stdout.strip().splitlines()[-1]))
    assert numbers.shape == (3,) and np.abs(numbers).max() <= 1


# ---- files that are not as they should be


def edited(data: bytes, change: Callable[[Any], None], honest: bool = True) -> bytes:
    """The file after a change; `honest`: with the hash that the changed network has."""
    model = onnx.load_model_from_string(data)
    change(model)
    if honest:
        for entry in model.metadata_props:
            if entry.key == "graph_hash":
                entry.value = graph_hash(model)
    return model.SerializeToString()


def _outside(model: Any) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/hostname")


def _operator(name: str, domain: str = "") -> Callable[[Any], None]:
    def change(model: Any) -> None:
        model.graph.node[0].op_type, model.graph.node[0].domain = name, domain

    return change


def _metadata(key: str, value: str) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        next(entry for entry in model.metadata_props if entry.key == key).value = value

    return change


def _opset(model: Any) -> None:
    model.opset_import[0].version = 99


def _weight(model: Any) -> None:
    model.graph.initializer[0].raw_data = bytes(len(model.graph.initializer[0].raw_data))


def _many(model: Any) -> None:
    model.graph.node.extend([model.graph.node[0]] * 600)


def _wide(model: Any) -> None:
    model.graph.initializer[0].dims[:] = [1, 10**9]


def _expand(model: Any) -> None:
    model.graph.node[0].op_type = "Expand"


@pytest.mark.parametrize(
    ("change", "honest", "words"),
    [
        (_many, True, "an exported policy has at most 500"),
        (_wide, True, "two axes of at most 16384"),
        (_expand, True, "expands a value to a shape of its own"),
        (_outside, True, "keeps 'tandem/scales' in another file"),
        (_operator("If"), True, "operator 'If'"),
        (_operator("Flatten", "com.evil"), True, "operator 'Flatten'"),
        (_opset, True, "uses the operators of ai.onnx 99; only ai.onnx 13 to 17 are supported"),
        (_weight, False, "was changed after the export"),
        (_metadata("format", "tandem-onnx-9"), True, "format 'tandem-onnx-9', expected 'tandem-onnx-1'"),
        (_metadata("spec_hash", "0" * 16), True, "its metadata says 0000000000000000"),
        (_metadata("spec", "{}"), True, "metadata of .* cannot be read"),
    ],
)
def test_a_file_that_was_tampered_with_is_not_run(change: Callable[[Any], None], honest: bool, words: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.onnx"
    file.write_bytes(edited(onnx_bytes(POLICIES["sac"]()[0], SPEC, "rlpd"), change, honest))
    with pytest.raises(FileUnreadable, match=words):
        read_onnx(file)


def _much(what: str, times: int) -> Callable[[Any], None]:
    """Two small weights that together make a table, which is multiplied by itself, or set beside itself, again and again."""

    def change(model: Any) -> None:
        graph = model.graph
        make: Callable[..., Any] = onnx.helper.make_node
        for name, shape in (("high", (4096, 1)), ("wide", (1, 4096))):
            graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(shape, np.float32), name))
        nodes, axis = [make("Add", ["high", "wide"], ["much0"])], {"axis": 0} if what == "Concat" else {}
        nodes += [make(what, [f"much{number}"] * 2, [f"much{number + 1}"], **axis) for number in range(times)]
        nodes[-1].output[0] = "unused"
        graph.output.append(onnx.helper.make_tensor_value_info("unused", onnx.TensorProto.FLOAT, None))
        graph.node.extend(nodes)

    return change


def _alone(model: Any) -> None:
    """Not for any number of rows."""
    for end in model.graph.input:
        end.type.tensor_type.shape.dim[0].dim_value = 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_much("MatMul", 400), r"tried in a process of its own and ended it \((SIGXCPU|SIGKILL): .*It was not run here"),
        (_much("Concat", 20), r"policy.onnx cannot .*alloc"),
        (_alone, "policy.onnx cannot act: ONNX Runtime says"),
    ],
)
def test_a_small_file_that_asks_for_hours_or_gigabytes_is_refused(
    change: Callable[[Any], None], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "CPU_S", 2)
    file = tmp_path / "policy.onnx"
    file.write_bytes(edited(onnx_bytes(POLICIES["sac"]()[0], SPEC, "rlpd"), change))
    with pytest.raises(FileUnreadable, match=words):
        read_onnx(file)


def test_what_is_no_policy_or_too_large_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "policy.onnx"
    with pytest.raises(FileMissing, match="there is no policy"):
        read_onnx(file)
    data = onnx_bytes(POLICIES["sac"]()[0], SPEC, "rlpd")
    file.write_bytes(data[: len(data) // 2])
    with pytest.raises(FileUnreadable, match="not an ONNX file, or it is damaged"):
        read_onnx(file)
    file.write_bytes(data)
    assert read_onnx(file).kind == "rlpd"
    monkeypatch.setattr(onnx_file, "MAX_BYTES", len(data) - 1)
    with pytest.raises(FileUnreadable, match=r"an exported policy has at most .* It was not read"):
        read_onnx(file)


def test_a_file_for_another_robot_is_refused_by_the_entry_that_differs(tmp_path: Path) -> None:
    file = tmp_path / "policy.onnx"
    file.write_bytes(onnx_bytes(POLICIES["sac"]()[0], SPEC, "rlpd"))
    other = dataclasses.replace(SPEC, observation={**SPEC.observation, "pose": Entry((7,), unit="m")})
    with pytest.raises(SpecMismatch, match=r"observation entry 'pose': shape \(7,\) .* here, shape \(3,\) .* there"):
        load_any_policy(file, spec=other)


def test_the_file_is_read_by_a_runtime_of_2022() -> None:
    model = onnx.load_model_from_string(onnx_bytes(POLICIES["ppo"]()[0], SPEC, "ppo"))
    # opset 17 and file format 8 came with ONNX 1.12 (June 2022)
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 17)] and model.ir_version == 8
    assert onnxruntime.InferenceSession(model.SerializeToString()).get_inputs()[0].shape == ["batch", 2, 3]


# ---- commands


def test_commands_export_judge_and_play_a_file(runs: dict[str, Path], tmp_path: Path) -> None:
    assert_done(
        tandem("export", runs["bc"], "--to", "clone.onnx", cwd=tmp_path), "wrote clone.onnx", "learned by bc", "checked: the same as"
    )
    told = json.loads(tandem("eval", "reach", "--policy", "clone.onnx", "--episodes", 10, "--json", cwd=tmp_path).stdout)
    same = json.loads(tandem("eval", runs["bc"], "--episodes", 10, "--json", cwd=tmp_path).stdout)
    assert told == same, "the file is judged as the run is"
    wrong = tandem("eval", "cartpole", "--policy", "clone.onnx", cwd=tmp_path)
    assert_refused(
        wrong, "trained for another spec", "observation entry 'to_ball' (3,): only there", "observation entry 'position' (2,): only here"
    )
    code = "import sys; sys.modules['jax'] = None; from tandem.cli import main; main()"
    without_jax = tandem("eval", "clone.onnx", "--episodes", 2, cwd=tmp_path, start=(sys.executable, "-c", code))
    assert_done(without_jax, "reach, policy version")
    code = "import sys; sys.modules['onnxruntime'] = None; from tandem.cli import main; main()"
    missing = tandem("eval", "clone.onnx", cwd=tmp_path, start=(sys.executable, "-c", code))
    assert_refused(missing, "need the packages onnx and onnxruntime", "pip install 'tandem-rl[export]'")


def test_an_actor_acts_with_a_file_whatever_the_learner_publishes(
    runs: dict[str, Path],
    tmp_path: Path,
    started: Callable[..., Command],  # noqa: F811
) -> None:
    file, run = tmp_path / "clone.onnx", tmp_path / "run"
    export(runs["bc"], file)
    small = ("--hidden", "16", "16", "--batch-size", "16", "--training-starts", "20", "--eval-period", "0", "--final-episodes", "0")
    learner = started("learner", "reach", *small, "--run", str(run), "--port", "0", "--steps-per-update", "1")
    wait_for(lambda: (run / "hub.json").exists() and api(run, "/api/status"), 60, what="the hub listens")
    wait_for(lambda: api(run, "/api/status")["policy"]["version"] >= 0, 60, what="a policy is published")
    spool = ("--spool", str(tmp_path / "spool"))
    said = started("actor", "reach", "--run", str(run), "--policy", str(file), "--max-steps", "60", *spool).ends()
    snapshot = load_policy(runs["bc"])[0]
    assert f"acting with {file} ({snapshot.hash}) and not with the learner's policies; its steps carry version -1" in said
    assert "Received network parameters" not in said and "stopped after 60 steps" in said
    [seen] = [actor for actor in api(run, "/api/actors") if actor["steps"]]
    assert (seen["version"], seen["policy_hash"], seen["lag_versions"]) == (-1, snapshot.hash, None)
    wait_for(lambda: api(run, "/api/clocks")["learner_step"] > 0, 60, what="it learns from them")
    learner.interrupt()
    with Journal.open(run / "journal.db") as journal:
        steps = [step for _, step in journal.read()]
    assert len(steps) == 60 and {step.policy_version for step in steps} == {-1} and not any(step.intervened for step in steps)
