"""SAC with cameras: who trains the heads, who sees through them, and that NumPy acts the same."""

import dataclasses
import json

import equinox as eqx
import jax
import numpy as np
import pytest

from tandem.agents.sac import SAC, SACState
from tandem.agents.sac_config import SACConfig
from tandem.agents.sac_start import agent_for, with_policy
from tandem.errors import ConfigError, FileUnreadable, SpecMismatch
from tandem.layouts import Layout
from tandem.networks.encoders import FEATURE_SCALE
from tandem.networks.heads import SUMS, UNITS, Seeing, SpatialHead, shifted
from tandem.networks.numpy_grasp import NumpyHybrid
from tandem.networks.numpy_policy import NumpyPolicy, look
from tandem.types import Batch, Continuous, Discrete, Entry, Spec

CAMERAS = (("left", 2 * 2 * 4), ("right", 2 * 2 * 4))
EYE = Entry((2, 2, 4), "int8", role="features", encoder="e:1", picture=(32, 32, 3))
SPEC = Spec("t", {"left": EYE, "right": EYE, "pose": Entry((3,))}, (Continuous("arm", 2),), 10.0, 100, (0.0, 1.0))
AGENT = SAC(SACConfig(hidden=(8, 8), actor_average=0.5), 3, 2, (0.0, 1.0), cameras=CAMERAS)


def batch(seed: int, size: int = 16) -> Batch:
    rng = np.random.default_rng(seed)

    def vector(*shape: int) -> np.ndarray:
        return rng.standard_normal((2, size, *shape)).astype(np.float32)

    def features() -> dict[str, np.ndarray]:
        return {name: rng.integers(-127, 128, (2, size, 2, 2, 4), dtype=np.int8) for name, _ in CAMERAS}

    rewards = (rng.random((2, size)) < 0.2).astype(np.float32)
    return Batch(vector(3), np.tanh(vector(2)), rewards, 1 - rewards, vector(3), raw=features(), next_raw=features())


def differ(one: object, other: object) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return any(not np.array_equal(a, b) for a, b in pairs)


def heads_of(state: SACState) -> object:
    assert isinstance(state.critic, Seeing)
    return state.critic.heads


@pytest.fixture(scope="module")
def state() -> SACState:
    return AGENT.init(0)


def test_the_critics_loss_trains_the_heads_and_the_actors_does_not(state: SACState) -> None:
    last = jax.tree.map(lambda array: array[-1], batch(0))
    after_critic, _ = jax.jit(AGENT.update_critic)(AGENT.copy(state), last)
    assert differ(heads_of(after_critic), heads_of(state))
    after_actor, _ = jax.jit(AGENT.update_actor)(AGENT.copy(state), last)
    assert differ(after_actor.actor, state.actor) and not differ(after_actor.critic, state.critic)


def test_the_target_has_critics_and_no_heads_of_its_own(state: SACState) -> None:
    assert jax.tree.structure(state.target_critic) == jax.tree.structure(state.critic.values)


def test_what_is_seen_changes_values_and_actions(state: SACState) -> None:
    seen = batch(0)
    other = seen._replace(raw={name: -array for name, array in seen.raw.items()})
    one, two = (AGENT.values(state, jax.tree.map(lambda array: array[-1], each))["critic/predicted_qs"] for each in (seen, other))
    assert float(one) != float(two)


def test_numpy_acts_as_jax_does(state: SACState) -> None:
    trained, _ = AGENT.update(AGENT.copy(state), batch(1))
    policy, drawn = NumpyPolicy(AGENT.exploring_parameters(trained)), batch(2)
    observation = {"pose": drawn.observations[0], **{name: array[0] for name, array in drawn.raw.items()}}
    found = policy.mode(look(policy, Layout(SPEC), observation))
    wanted = trained.actor.mode(trained.critic.see(drawn.observations[0], {name: array[0] for name, array in drawn.raw.items()}))
    assert np.abs(found - np.asarray(wanted)).max() < 1e-5


def test_a_policy_that_gets_no_features_says_so(state: SACState) -> None:
    policy = NumpyPolicy(AGENT.exploring_parameters(state))
    with pytest.raises(SpecMismatch, match="16 int8 features of the camera 'left', got uint8"):
        look(policy, Layout(SPEC), {"pose": np.zeros((1, 3), np.float32), "left": np.zeros((1, 32, 32, 3), np.uint8)})


def test_the_average_is_of_actor_and_heads_together(state: SACState) -> None:
    trained, _ = AGENT.update(AGENT.copy(state), batch(1))
    mean, newest = AGENT.policy_parameters(trained), AGENT.exploring_parameters(trained)
    start = AGENT.exploring_parameters(state)
    name = "heads/left/dense/weight"
    assert np.allclose(mean[name], 0.5 * start[name] + 0.5 * newest[name], atol=1e-6)


def test_a_policy_with_its_heads_and_encoder_starts_another_run(state: SACState) -> None:
    trained, _ = AGENT.update(AGENT.copy(state), batch(1))
    parameters = AGENT.exploring_parameters(trained) | {"encoder/mean": np.zeros(80, np.float32)}
    begun = with_policy(AGENT, AGENT.init(1), parameters)
    assert not differ((begun.actor, heads_of(begun)), (trained.actor, heads_of(trained)))
    blind = SAC(AGENT.config, 3, 2, (0.0, 1.0))
    with pytest.raises(FileUnreadable, match="the policy does not fit"):
        with_policy(blind, blind.init(0), parameters)


def test_the_state_survives_its_arrays(state: SACState) -> None:
    again = AGENT.from_arrays(AGENT.init(1), AGENT.arrays(state))
    assert not differ(again, state)


# ---- with a gripper

GRIPPER = dataclasses.replace(SPEC, action=(*SPEC.action, Discrete("gripper", ("close", "hold", "open"), rest=1)))


def with_choices(of: Batch) -> Batch:
    shape = of.rewards.shape
    choices = np.random.default_rng(3).integers(3, size=shape).astype(np.float32)
    actions = np.concatenate([of.actions, choices[..., None]], axis=-1)
    return of._replace(actions=actions, switches=np.zeros(shape, np.float32), switches_ahead=np.zeros(shape, np.float32))


def test_the_grasp_critic_sees_through_the_arms_heads_and_does_not_train_them() -> None:
    hybrid = agent_for(SACConfig(hidden=(8, 8)), GRIPPER)
    before, drawn = hybrid.init(0), with_choices(batch(0))
    last = jax.tree.map(lambda array: array[-1], drawn)
    after, _ = jax.jit(hybrid._update_grasp)(hybrid.copy(before), last)
    assert differ(after.grasp, before.grasp) and not differ(after.critic, before.critic)
    blind = last._replace(raw={name: 0 * array for name, array in last.raw.items()})
    assert differ(jax.jit(hybrid._update_grasp)(hybrid.copy(before), blind)[0].grasp, after.grasp)
    # what acts without JAX values choices by the same numbers
    trained, _ = hybrid.update(hybrid.copy(before), drawn)
    policy = NumpyHybrid(hybrid.exploring_parameters(trained))
    features = {name: array[0] for name, array in drawn.raw.items()}
    found = policy.values(look(policy, Layout(GRIPPER), {"pose": drawn.observations[0], **features}))
    seen = trained.critic.see(drawn.observations[0], features)
    assert trained.grasp is not None
    wanted = jax.vmap(lambda member: member(seen))(trained.grasp.members).mean(axis=0)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


# ---- eyes apart

APART = agent_for(SACConfig(hidden=(8, 8), critic_sees="apart", actor_average=0.5), SPEC)


def test_with_eyes_apart_each_loss_trains_its_own() -> None:
    before, last = APART.init(0), jax.tree.map(lambda array: array[-1], batch(0))
    assert isinstance(before.actor, Seeing) and isinstance(before.critic, Seeing) and differ(before.actor.heads, before.critic.heads)
    after_critic, _ = jax.jit(APART.update_critic)(APART.copy(before), last)
    assert differ(after_critic.critic.heads, before.critic.heads) and not differ(after_critic.actor, before.actor)
    after_actor, _ = jax.jit(APART.update_actor)(APART.copy(before), last)
    assert isinstance(after_actor.actor, Seeing) and differ(after_actor.actor.heads, before.actor.heads)
    assert not differ(after_actor.critic, before.critic)


def test_a_policy_with_eyes_of_its_own_acts_through_them_and_starts_another_run() -> None:
    trained, _ = APART.update(APART.init(0), batch(1))
    policy, drawn = NumpyPolicy(APART.exploring_parameters(trained)), batch(2)
    features = {name: array[0] for name, array in drawn.raw.items()}
    found = policy.mode(look(policy, Layout(SPEC), {"pose": drawn.observations[0], **features}))
    assert isinstance(trained.actor, Seeing)
    wanted = trained.actor.values.mode(trained.actor.see(drawn.observations[0], features))
    assert np.abs(found - np.asarray(wanted)).max() < 1e-5
    other = APART.init(1)
    begun = with_policy(APART, other, APART.exploring_parameters(trained))
    assert not differ(begun.actor, trained.actor) and not differ(begun.critic, other.critic)


# ---- critics that see the state

KNOWN = dataclasses.replace(SPEC, observation={**SPEC.observation, "ball": Entry((2,), role="privileged")})


def informed(seed: int) -> Batch:
    drawn, rng = batch(seed), np.random.default_rng(seed + 100)
    now, later = (
        np.concatenate([vector, rng.standard_normal((2, 16, 2))], axis=-1, dtype=np.float32)
        for vector in (drawn.observations, drawn.next_observations)
    )
    return drawn._replace(observations=now, next_observations=later)


def test_critics_that_see_the_state_have_no_eyes_and_the_policys_loss_trains_its_own() -> None:
    agent = agent_for(SACConfig(hidden=(8, 8), critic_sees="state"), KNOWN)
    before, drawn = agent.init(0), informed(0)
    last = jax.tree.map(lambda array: array[-1], drawn)
    after_critic, _ = jax.jit(agent.update_critic)(agent.copy(before), last)
    assert differ(after_critic.critic, before.critic) and not differ(after_critic.actor, before.actor)
    after_actor, _ = jax.jit(agent.update_actor)(agent.copy(before), last)
    assert isinstance(before.actor, Seeing) and isinstance(after_actor.actor, Seeing)
    assert differ(after_actor.actor.heads, before.actor.heads) and differ(after_actor.actor.values, before.actor.values)
    assert not differ(after_actor.critic, before.critic)

    def predicted(of: Batch) -> float:
        return float(agent.values(before, jax.tree.map(lambda array: array[-1], of))["critic/predicted_qs"])

    other_state = drawn._replace(observations=drawn.observations + np.array([0, 0, 0, 1, 1], np.float32))
    other_pictures = drawn._replace(raw={name: -array for name, array in drawn.raw.items()})
    assert predicted(other_state) != predicted(drawn) == predicted(other_pictures)


def test_a_policy_beside_critics_that_see_the_state_acts_without_it_and_starts_another_run() -> None:
    agent = agent_for(SACConfig(hidden=(8, 8), critic_sees="state", actor_average=0.5), KNOWN)
    trained, _ = agent.update(agent.init(0), informed(1))
    policy, drawn = NumpyPolicy(agent.exploring_parameters(trained)), informed(2)
    features = {name: array[0] for name, array in drawn.raw.items()}
    found = policy.mode(look(policy, Layout(KNOWN), {"pose": drawn.observations[0, :, :3], **features}))
    assert isinstance(trained.actor, Seeing)
    wanted = trained.actor.values.mode(trained.actor.see(drawn.observations[0, :, :3], features))
    assert np.abs(found - np.asarray(wanted)).max() < 1e-5
    begun = with_policy(agent, agent.init(1), agent.exploring_parameters(trained))
    assert not differ(begun.actor, trained.actor)
    assert not differ(agent.from_arrays(agent.init(1), agent.arrays(trained)), trained)


def test_the_targets_of_critics_that_see_the_state_are_of_what_the_policy_would_do_with_what_it_sees() -> None:
    """By hand: r + 0.9 mask min Q'(next state, the policy's action for the next pictures)."""
    agent = SAC(SACConfig(hidden=(8, 8), discount=0.9), 3, 2, None, cameras=CAMERAS, privileged=2)
    state, last = agent.init(0), jax.tree.map(lambda array: array[-1], informed(0))
    key = jax.random.split(state.key, 5)[1]
    assert isinstance(state.actor, Seeing)
    action, _ = state.actor.values.sample(state.actor.see(last.next_observations[:, :3], last.next_raw), key)
    following = np.asarray(state.target_critic(np.concatenate([last.next_observations, action], axis=1))).min(axis=0)
    wanted = last.rewards + 0.9 * last.masks * following
    _, info = jax.jit(agent.update_critic)(agent.copy(state), last)
    assert float(info["critic/target_qs"]) == pytest.approx(float(wanted.mean()), rel=1e-4)


# ---- spatial embeddings


def test_a_spatial_head_sums_each_channel_over_its_places() -> None:
    """One picture of 1 x 2 places and 1 channel, 127 and -127: with the weights 1 and 0.5 the first sum is 127 (1 - 0.5)."""
    head = SpatialHead(jax.random.PRNGKey(0), (1, 2, 1))
    kernel = np.zeros((1, 2, 1, SUMS), np.float32)
    kernel[0, :, 0, 0] = 1.0, 0.5
    dense = np.zeros((SUMS, UNITS), np.float32)
    dense[0, 0] = 1.0
    head = eqx.tree_at(lambda h: (h.kernel, h.dense.weight), head, (jax.numpy.asarray(kernel), jax.numpy.asarray(dense)))
    before_norm = np.zeros(UNITS)
    before_norm[0] = 127 / FEATURE_SCALE * (1.0 - 0.5)
    centred = before_norm - before_norm.mean()
    wanted = np.tanh(centred / np.sqrt((centred**2).mean() + 1e-6))
    found = head(np.array([[[[127], [-127]]]], np.int8))
    assert np.allclose(np.asarray(found)[0], wanted, atol=1e-5)


def test_spatial_heads_are_trained_by_the_critics_and_act_the_same_in_numpy() -> None:
    agent = agent_for(SACConfig(hidden=(8, 8), discount=0.9, n_step=1, camera_head="spatial"), SPEC)
    assert agent.cameras == (("left", (2, 2, 4)), ("right", (2, 2, 4)))
    before = agent.init(0)
    state, _ = agent.update(agent.copy(before), batch(0))
    assert differ(heads_of(state), heads_of(before))
    parameters, drawn = agent.exploring_parameters(state), batch(2)
    assert parameters["heads/left/kernel"].shape == (2, 2, 4, SUMS) and parameters["heads/left/dense/weight"].shape == (4 * SUMS, UNITS)
    policy, raw = NumpyPolicy(parameters), {name: array[0] for name, array in drawn.raw.items()}
    ours = look(policy, Layout(SPEC), {"pose": drawn.observations[0], **raw})
    assert np.abs(ours - np.asarray(state.critic.see(drawn.observations[0], raw))).max() < 1e-5
    with pytest.raises(SpecMismatch, match="of another encoder"):
        look(policy, Layout(SPEC), {"pose": drawn.observations[0], **raw, "left": raw["left"].reshape(16, 4, 1, 4)})


# ---- heads that learn to see

PIXELS = Entry((16, 24, 3), "int8", role="features", encoder="end-to-end:1", picture=(32, 48, 3))
SEES = dataclasses.replace(SPEC, observation={"eye": PIXELS, "pose": Entry((3,))})


def pictures(seed: int, size: int = 8) -> Batch:
    rng = np.random.default_rng(seed)
    shown = [{"eye": rng.integers(-127, 128, (2, size, 16, 24, 3), dtype=np.int8)} for _ in range(2)]
    return jax.tree.map(lambda array: array[:, :size], batch(seed))._replace(raw=shown[0], next_raw=shown[1])


def test_a_head_that_learns_to_see_is_trained_by_the_critics_and_acts_the_same_in_numpy() -> None:
    agent = agent_for(SACConfig(hidden=(8, 8), discount=0.9, n_step=1), SEES)
    assert agent.cameras == (("eye", (16, 24, 3)),)
    before = agent.init(0)
    state, _ = agent.update(agent.copy(before), pictures(0))
    assert differ(heads_of(state), heads_of(before))
    parameters = agent.exploring_parameters(state)
    assert parameters["heads/eye/convs/0/weight"].shape == (3, 3, 3, 32) and parameters["heads/eye/dense/weight"].shape == (2 * 3 * 32, 64)
    seen = {"eye": pictures(1).raw["eye"][0], "pose": np.asarray(pictures(1).observations[0])}
    policy = NumpyPolicy(parameters)
    ours = look(policy, Layout(SEES), seen)
    theirs = state.critic.see(jax.numpy.asarray(Layout(SEES).flatten(seen)), {"eye": seen["eye"]})
    assert np.abs(ours - np.asarray(theirs)).max() < 1e-4
    with pytest.raises(SpecMismatch, match="of another encoder"):
        look(policy, Layout(SEES), {**seen, "eye": seen["eye"][:, :8]})


def test_pictures_are_shifted_each_on_its_own_and_never_invented() -> None:
    plain = np.zeros((2, 50, 16, 24, 3), np.int8)
    plain[..., 8, 12, :] = 100
    made = shifted(pictures(0, 50)._replace(raw={"eye": plain}, next_raw={"eye": plain}), jax.random.PRNGKey(0))
    places = [tuple(np.argwhere(picture[..., 0] == 100)[0]) for picture in np.asarray(made.raw["eye"]).reshape(-1, 16, 24, 3)]
    assert {row for row, _ in places} == set(range(5, 12)) and {column for _, column in places} == set(range(9, 16)), "3 pixels each way"
    assert len(set(places)) > 30 and differ(made.raw, made.next_raw), "also the next observation, on its own"
    grey = np.full((2, 4, 16, 24, 3), 7, np.int8)
    same = shifted(pictures(0, 4)._replace(raw={"eye": grey}, next_raw={"eye": grey}), jax.random.PRNGKey(1))
    assert (np.asarray(same.raw["eye"]) == 7).all(), "the edge is repeated"


def test_critics_do_not_get_what_the_state_stands_in_the_place_of_and_the_policy_does() -> None:
    """Two ways to say where the tool is, told apart, say which demonstration it is: critics would learn by heart how each one ended."""
    same = Entry((2,), role="privileged", in_place_of=("pose",))
    spec = dataclasses.replace(
        KNOWN,
        observation={**KNOWN.observation, "pose": Entry((2,)), "ball": same, "other": Entry((1,))},
        action=(Continuous("arm", 2), Discrete("gripper", ("close", "hold", "open"))),
    )
    agent, drawn = agent_for(SACConfig(hidden=(8, 8), critic_sees="state"), spec), informed(0)
    assert agent.replaced == (1, 2)  # entries are in the order of their names: other, pose
    before, last = agent.init(0), jax.tree.map(lambda array: array[-1], with_choices(drawn))
    elsewhere = last._replace(observations=last.observations + np.array([0, 1, 1, 0, 0], np.float32))
    knowing = last._replace(observations=last.observations + np.array([0, 0, 0, 1, 1], np.float32))
    q, q_elsewhere, q_knowing = (float(agent.values(before, of)["critic/predicted_qs"]) for of in (last, elsewhere, knowing))
    assert q == q_elsewhere != q_knowing
    grasp, elsewhere_grasp = (jax.jit(agent._update_grasp)(agent.copy(before), of)[1] for of in (last, elsewhere))
    assert float(grasp["grasp_critic/predicted_grasp_qs"]) == float(elsewhere_grasp["grasp_critic/predicted_grasp_qs"])
    assert float(grasp["grasp_critic/pupil_loss"]) != float(elsewhere_grasp["grasp_critic/pupil_loss"])
    trained, _ = agent.update(agent.copy(before), with_choices(drawn))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(trained))


# ---- eyes that learn to say the state


def test_the_state_loss_teaches_the_eyes_and_no_policy_carries_the_read_out() -> None:
    plain = agent_for(SACConfig(hidden=(8, 8), critic_sees="state"), KNOWN)
    telling = agent_for(SACConfig(hidden=(8, 8), critic_sees="state", state_loss=0.5), KNOWN)
    before, drawn = telling.init(0), informed(0)
    assert isinstance(before.actor, Seeing) and before.actor.read_out is not None and not np.asarray(before.actor.read_out.weight).any()
    last = jax.tree.map(lambda array: array[-1], drawn)
    state_of = last.observations[:, 3:]
    _, info = jax.jit(telling.update_actor)(telling.copy(before), last)
    assert float(info["actor/state_loss"]) == pytest.approx(float((state_of**2).mean()), rel=1e-5)  # it says 0 at first
    _, without = jax.jit(plain.update_actor)(plain.init(0), last)
    more = 0.5 * float((state_of**2).mean())
    assert float(info["actor/actor_loss"]) == pytest.approx(float(without["actor/actor_loss"]) + more, rel=1e-4)
    update, learned = jax.jit(telling.update_actor), before
    for _ in range(300):
        learned, info = update(learned, last)
    assert float(info["actor/state_loss"]) < 0.2 * float((state_of**2).mean())
    assert telling.exploring_parameters(learned).keys() == plain.exploring_parameters(plain.init(0)).keys()


def test_the_state_loss_is_refused_where_nobody_knows_the_state() -> None:
    with pytest.raises(ConfigError, match=r"state_loss 1 takes --critic-sees state"):
        SACConfig(state_loss=1.0)


def test_only_the_state_stands_in_the_place_of_an_entry_and_a_file_says_so() -> None:
    with pytest.raises(ConfigError, match="only a privileged entry stands in the place of another"):
        Entry((3,), in_place_of=("pose",))
    known = dataclasses.replace(KNOWN, observation={**KNOWN.observation, "ball": Entry((2,), role="privileged", in_place_of=("pose",))})
    assert Spec.from_json(json.loads(json.dumps(known.to_json()))) == known and known.hash != KNOWN.hash
