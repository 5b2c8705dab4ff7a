"""Frames, proven against scipy; each mistake that others made here is a test that fails on it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tandem.envs.registry import make_env, spec_for
from tandem.envs.task_env import Capabilities, TaskEnv
from tandem.envs.wrappers import ToolFrame
from tandem.errors import ConfigError
from tandem.layouts import ActionLayout
from tandem.types import Continuous, Entry, Observation, Spec, Step, first_row

SPEC = Spec(
    task="free_body",
    observation={"tcp_pose": Entry((6,)), "tcp_velocity": Entry((6,)), "command_offset": Entry((6,)), "previous_action": Entry((6,))},
    action=(Continuous("arm", 6, scale=(0.1, 0.1, 0.2, 0.3, 0.3, 0.3)),),
    control_hz=10,
    max_episode_steps=100,
)
SCALES = ActionLayout.of(SPEC).scales


class FreeBody:
    """A user's own TaskEnv: a pose that every action moves exactly as it says, in the base's axes; observed without error."""

    spec, num_envs, capabilities = SPEC, 1, Capabilities(saves=True, cameras=("wrist",), clock="real")
    start = np.array([0.4, -0.1, 0.3, 0.5, -0.9, 1.4])
    intervene: np.ndarray | None = None
    share: float | None = None
    """Of the action that is executed; None: all of it, and not reported."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def reset(self, rows: Sequence[int] | None = None, seeds: Sequence[int | None] | None = None) -> Observation:
        self.position, self.rotation = self.start[:3].copy(), Rotation.from_rotvec(self.start[3:])
        self.velocity = np.zeros(6)
        self.sent = np.zeros(6)
        return self.observe()

    def step(self, action: np.ndarray) -> Step:
        executed = None if self.share is None else self.share * action
        if self.intervene is not None:
            executed = self.intervene[None]
        self.sent = np.asarray(action[0] if executed is None else executed[0], float)
        assert (np.abs(self.sent) <= 1 + 1e-9).all(), "the inner environment would have clipped this"
        step = self.sent * SCALES
        self.position = self.position + step[:3]
        self.rotation = Rotation.from_rotvec(step[3:]) * self.rotation
        self.velocity = step / 0.1
        by_person = None if self.intervene is None else np.array([True])
        return Step(self.observe(), np.zeros(1), *np.zeros((3, 1), bool), executed=executed, intervened=by_person, seconds=0.5)

    def observe(self) -> Observation:
        pose = np.concatenate([self.position, self.rotation.as_rotvec()])
        seen = {"tcp_pose": pose, "tcp_velocity": self.velocity, "command_offset": self.velocity / 7, "previous_action": self.sent}
        return {name: values[None].copy() for name, values in seen.items()}

    def halt(self, reason: str) -> None:
        self.calls.append(f"halt: {reason}")

    def state(self) -> dict[str, Any]:
        return {"position": self.position.copy(), "rotation": self.rotation.as_rotvec(), "sent": self.sent.copy()}

    def restore(self, state: dict[str, Any]) -> Observation:
        self.position, self.rotation, self.sent = state["position"], Rotation.from_rotvec(state["rotation"]), state["sent"]
        self.velocity = self.sent * SCALES / 0.1
        return self.observe()

    def render(self) -> np.ndarray:
        return np.full((2, 2, 3), 7, np.uint8)

    def physics(self) -> None:
        return None

    def close(self) -> None:
        self.calls.append("close")


class OneRow:
    """The wrapper, one robot at a time."""

    def __init__(self, env: TaskEnv) -> None:
        self.frame = ToolFrame(env)

    def reset(self) -> Observation:
        return first_row(self.frame.reset(seeds=[0]))

    def step(self, action: np.ndarray) -> tuple[Observation, Step]:
        step = self.frame.step(action[None])
        return first_row(step.observation), step


def body_and_wrapper() -> tuple[FreeBody, OneRow]:
    body = FreeBody()
    wrapper = OneRow(body)
    wrapper.reset()
    return body, wrapper


def test_a_step_in_the_tools_axes_moves_the_tool_along_its_own_axes() -> None:
    body, wrapper = body_and_wrapper()
    before_position, before_rotation = body.position, body.rotation
    action = np.array([0.2, -0.1, 0.3, 0.4, 0.1, -0.2])
    wrapper.step(action)
    step = action * SCALES
    assert np.allclose(body.position - before_position, before_rotation.apply(step[:3]))
    # a rotation about the tool's axes is multiplied from the right: R exp(w), which is exp(R w) R
    assert np.allclose(body.rotation.as_matrix(), (before_rotation * Rotation.from_rotvec(step[3:])).as_matrix())


def test_a_pure_translation_never_becomes_a_rotation() -> None:
    """The adjoint of a twist, or its blocks in the wrong order, would turn +y into a rotation about z."""
    body, wrapper = body_and_wrapper()
    before = body.rotation
    wrapper.step(np.array([0.0, 0.4, 0.0, 0, 0, 0]))
    assert np.allclose(body.sent[3:], 0) and np.allclose(body.rotation.as_matrix(), before.as_matrix())
    assert np.isclose(np.linalg.norm(body.sent[:3] * SCALES[:3]), 0.04)


def test_a_rotation_action_is_a_rotation_vector_not_euler_angles() -> None:
    body, wrapper = body_and_wrapper()
    before = body.rotation
    action = np.array([0, 0, 0, 0.9, -0.9, 0.9])
    wrapper.step(action)
    executed = wrapper.step(np.zeros(6))[0]["tcp_pose"][3:]
    turned = (before.inv() * body.rotation).as_rotvec()
    scale = np.linalg.norm(turned) / np.linalg.norm(action[3:] * 0.3)
    assert np.allclose(turned, scale * action[3:] * 0.3) and scale > 0.5, "the axis is the action's own"
    euler = Rotation.from_euler("xyz", scale * action[3:] * 0.3)
    assert not np.allclose(euler.as_rotvec(), turned, atol=1e-3), "at these angles the two conventions differ"
    assert np.allclose(executed, turned, atol=1e-6)


def test_pitch_keeps_its_sign() -> None:
    """A conversion with the sign of pitch wrong is off by twice the pitch, and exact where pitch is zero."""
    body, wrapper = body_and_wrapper()
    body.rotation = body.rotation * Rotation.from_euler("y", 0.1)
    observation, *_ = wrapper.step(np.zeros(6))
    assert np.allclose(observation["tcp_pose"][3:], [0, 0.1, 0], atol=1e-6)


def test_a_persons_action_comes_out_in_the_agents_frame() -> None:
    """The way back is the inverse: executing the stored action again must do what the person did."""
    body, wrapper = body_and_wrapper()
    body.intervene = np.array([0.3, 0.2, -0.4, 0.1, -0.2, 0.3])
    before_position, before_rotation = body.position, body.rotation
    _, step = wrapper.step(np.zeros(6))
    assert step.executed is not None and step.intervened is not None and step.intervened.all()
    after_position, after_rotation = body.position, body.rotation
    body.intervene, body.position, body.rotation = None, before_position, before_rotation
    wrapper.frame._pose = np.concatenate([before_position, before_rotation.as_rotvec()])[None]
    wrapper.step(step.executed[0])
    assert np.allclose(body.position, after_position, atol=1e-6)
    assert np.allclose(body.rotation.as_matrix(), after_rotation.as_matrix(), atol=1e-6)


def test_velocities_are_seen_in_the_tools_axes() -> None:
    body, wrapper = body_and_wrapper()
    observation, *_ = wrapper.step(np.array([0.2, -0.1, 0.3, 0.1, 0.1, 0]))
    for name, base in (("tcp_velocity", body.velocity), ("command_offset", body.velocity / 7)):
        back = body.rotation.inv()
        assert np.allclose(observation[name], np.concatenate([back.apply(base[:3]), back.apply(base[3:])]), atol=1e-6)


def test_the_pose_is_relative_to_where_the_episode_began() -> None:
    body, wrapper = body_and_wrapper()
    observation = wrapper.reset()
    assert np.allclose(observation["tcp_pose"], 0, atol=1e-7)
    for action in np.random.default_rng(0).uniform(-0.4, 0.4, (5, 6)):
        observation, *_ = wrapper.step(action)
    start = Rotation.from_rotvec(FreeBody.start[3:])
    assert np.allclose(observation["tcp_pose"][:3], start.inv().apply(body.position - FreeBody.start[:3]), atol=1e-6)
    assert np.allclose(observation["tcp_pose"][3:], (start.inv() * body.rotation).as_rotvec(), atol=1e-6)


def test_a_step_that_does_not_fit_is_shortened_and_reported() -> None:
    body, wrapper = body_and_wrapper()
    action = np.array([1.0, -1.0, 1.0, 0, 0, 0])
    before = body.rotation
    _, step = wrapper.step(action)
    assert step.executed is not None and step.intervened is None
    executed = step.executed[0]
    share = executed[0] / action[0]
    assert 0 < share < 1 and np.allclose(executed[:3], share * action[:3], atol=1e-6), "the direction is kept"
    assert np.allclose(body.sent[:3] * SCALES[:3], before.apply(executed[:3] * SCALES[:3]), atol=1e-6)


def test_executed_actions_come_back_in_the_tools_axes() -> None:
    """The environment executes half of what it was sent: so half of what was asked, whatever the orientation."""
    body, wrapper = body_and_wrapper()
    body.share = 0.5
    action = np.array([0.2, -0.1, 0.3, 0.1, 0.2, -0.2])
    _, step = wrapper.step(action)
    assert step.executed is not None
    np.testing.assert_allclose(step.executed[0], 0.5 * action, atol=1e-6)
    body.share = None
    assert wrapper.step(action)[1].executed is None, "executed as asked"


def test_everything_else_is_forwarded() -> None:
    body, wrapper = body_and_wrapper()
    frame = wrapper.frame
    assert frame.capabilities is body.capabilities and frame.num_envs == 1 and frame.physics() is None and frame.render()[0, 0, 0] == 7
    frame.halt("a test")
    frame.close()
    assert body.calls == ["halt: a test", "close"]
    assert wrapper.step(np.zeros(6))[1].seconds == 0.5


def test_a_saved_wrapper_goes_on_where_it_was() -> None:
    _, wrapper = body_and_wrapper()
    for action in np.random.default_rng(1).uniform(-0.4, 0.4, (4, 6)):
        seen, _ = wrapper.step(action)
    saved = wrapper.frame.state()
    expected, _ = wrapper.step(np.full(6, 0.2))
    _, other = body_and_wrapper()
    restored = first_row(other.frame.restore(saved))
    again, _ = other.step(np.full(6, 0.2))
    for name, values in seen.items():
        np.testing.assert_allclose(restored[name], values, atol=1e-12)
        np.testing.assert_allclose(again[name], expected[name], atol=1e-12)


def test_another_frame_is_another_spec_and_gear_assembly_takes_it() -> None:
    env = OneRow(make_env("gear_assembly", 1))
    assert env.frame.spec.hash != spec_for("gear_assembly").hash
    assert np.allclose(env.reset()["tcp_pose"], 0, atol=1e-6)
    later, _ = env.step(np.array([0, 0, 0.5, 0, 0, 0]))
    assert later["tcp_pose"][2] > 5e-4 and np.allclose(later["previous_action"], [0, 0, 0.5, 0, 0, 0], atol=1e-6)


def test_each_row_has_a_frame_of_its_own() -> None:
    frames = ToolFrame(make_env("gear_assembly", 3))
    together = frames.reset(seeds=[5, 6, 7])
    action = np.array([[0.3, 0.0, 0.2, 0.1, 0.0, 0.2], [0.0, -0.3, 0.1, 0.0, 0.2, 0.0], [0.1, 0.1, 0.1, 0.0, 0.0, -0.3]])
    after = frames.step(action).observation
    for row in range(3):
        alone = ToolFrame(make_env("gear_assembly", 1))
        first = alone.reset(seeds=[5 + row])
        one = alone.step(action[row : row + 1]).observation
        for name in first:
            np.testing.assert_array_equal(first[name][0], together[name][row])
            np.testing.assert_allclose(one[name][0], after[name][row], atol=1e-6)


def test_an_environment_without_the_entries_is_refused() -> None:
    with pytest.raises(ConfigError, match="tcp_pose"):
        ToolFrame(make_env("reach"))
