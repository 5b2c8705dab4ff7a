"""Frames, proven against scipy; each mistake that others made here is a test that fails on it."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tandem.envs.registry import make
from tandem.envs.wrappers import ToolFrame
from tandem.errors import ConfigError
from tandem.types import Entry, Spec

SPEC = Spec(
    task="free_body",
    observation={"tcp_pose": Entry((6,)), "tcp_velocity": Entry((6,)), "command_offset": Entry((6,)), "previous_action": Entry((6,))},
    action=Entry((6,), scale=(0.1, 0.1, 0.2, 0.3, 0.3, 0.3)),
    control_hz=10,
    max_episode_steps=100,
)


class FreeBody(gymnasium.Env):
    """A pose that every action moves exactly as it says, in the base's axes; observed without error."""

    task_spec = SPEC
    start = np.array([0.4, -0.1, 0.3, 0.5, -0.9, 1.4])
    intervene: np.ndarray | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        self.position, self.rotation = self.start[:3].copy(), Rotation.from_rotvec(self.start[3:])
        self.velocity = np.zeros(6)
        self.sent = np.zeros(6)
        return self.observe(), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        info = {} if self.intervene is None else {"intervene_action": self.intervene}
        self.sent = np.asarray(action if self.intervene is None else self.intervene, float)
        assert (np.abs(self.sent) <= 1 + 1e-9).all(), "the inner environment would have clipped this"
        step = self.sent * SPEC.action.scales()
        self.position = self.position + step[:3]
        self.rotation = Rotation.from_rotvec(step[3:]) * self.rotation
        self.velocity = step / 0.1
        return self.observe(), 0.0, False, False, info

    def observe(self) -> dict[str, np.ndarray]:
        pose = np.concatenate([self.position, self.rotation.as_rotvec()])
        return {"tcp_pose": pose, "tcp_velocity": self.velocity, "command_offset": self.velocity / 7, "previous_action": self.sent}


def body_and_wrapper() -> tuple[FreeBody, ToolFrame]:
    body = FreeBody()
    wrapper = ToolFrame(body)
    wrapper.reset(seed=0)
    return body, wrapper


def test_a_step_in_the_tools_axes_moves_the_tool_along_its_own_axes() -> None:
    body, wrapper = body_and_wrapper()
    before_position, before_rotation = body.position, body.rotation
    action = np.array([0.2, -0.1, 0.3, 0.4, 0.1, -0.2])
    wrapper.step(action)
    step = action * SPEC.action.scales()
    assert np.allclose(body.position - before_position, before_rotation.apply(step[:3]))
    # a rotation about the tool's axes is multiplied from the right: R exp(w), which is exp(R w) R
    assert np.allclose(body.rotation.as_matrix(), (before_rotation * Rotation.from_rotvec(step[3:])).as_matrix())


def test_a_pure_translation_never_becomes_a_rotation() -> None:
    """The adjoint of a twist, or its blocks in the wrong order, would turn +y into a rotation about z."""
    body, wrapper = body_and_wrapper()
    before = body.rotation
    wrapper.step(np.array([0.0, 0.4, 0.0, 0, 0, 0]))
    assert np.allclose(body.sent[3:], 0) and np.allclose(body.rotation.as_matrix(), before.as_matrix())
    assert np.isclose(np.linalg.norm(body.sent[:3] * SPEC.action.scales()[:3]), 0.04)


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
    *_, info = wrapper.step(np.zeros(6))
    after_position, after_rotation = body.position, body.rotation
    body.intervene, body.position, body.rotation = None, before_position, before_rotation
    wrapper._pose = np.concatenate([before_position, before_rotation.as_rotvec()])
    wrapper.step(info["intervene_action"])
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
    observation, _ = wrapper.reset(seed=0)
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
    *_, info = wrapper.step(action)
    executed = info["executed_action"]
    share = executed[0] / action[0]
    assert 0 < share < 1 and np.allclose(executed[:3], share * action[:3], atol=1e-6), "the direction is kept"
    assert np.allclose(body.sent[:3] * SPEC.action.scales()[:3], before.apply(executed[:3] * SPEC.action.scales()[:3]), atol=1e-6)


def test_another_frame_is_another_spec_and_gear_assembly_takes_it() -> None:
    env = ToolFrame(make("gear_assembly"))
    assert env.task_spec.hash != make("gear_assembly").get_wrapper_attr("task_spec").hash
    observation, _ = env.reset(seed=0)
    assert np.allclose(observation["tcp_pose"], 0, atol=1e-6)
    later, *_ = env.step(np.array([0, 0, 0.5, 0, 0, 0]))
    assert later["tcp_pose"][2] > 5e-4 and np.allclose(later["previous_action"], [0, 0, 0.5, 0, 0, 0], atol=1e-6)


def test_an_environment_without_the_entries_is_refused() -> None:
    with pytest.raises(ConfigError, match="tcp_pose"):
        ToolFrame(make("reach"))
