"""The arm is the published one, and the controller does what it says."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tandem.envs.arm import FINGERTIP, FLANGE, LINKS, CartesianControl, ControlLimits, InverseKinematics, add_arm
from tandem.envs.batch import BatchEnv
from tandem.envs.gear_assembly import GearAssembly
from tandem.envs.reach import CENTRE, Reach

# The manufacturer's table of modified Denavit-Hartenberg parameters: a, d, alpha of joints 1..7 and the flange.
DENAVIT_HARTENBERG = (
    (0, 0.333, 0), (0, 0, -np.pi / 2), (0, 0.316, np.pi / 2), (0.0825, 0, np.pi / 2),
    (-0.0825, 0.384, -np.pi / 2), (0, 0, np.pi / 2), (0.088, 0, np.pi / 2),
)  # fmt: skip


def denavit_hartenberg(angles: np.ndarray) -> np.ndarray:
    """Pose of the flange (4, 4): Rot_x(alpha) Trans_x(a) Rot_z(theta) Trans_z(d) per joint."""
    pose = np.eye(4)
    for theta, (a, d, alpha) in zip(angles, DENAVIT_HARTENBERG, strict=True):
        ca, sa, ct, st = np.cos(alpha), np.sin(alpha), np.cos(theta), np.sin(theta)
        pose = pose @ np.array([[ct, -st, 0, a], [st * ca, ct * ca, -sa, -d * sa], [st * sa, ct * sa, ca, d * ca], [0, 0, 0, 1]])
    return pose @ np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, FLANGE], [0, 0, 0, 1]])


@pytest.fixture(scope="module")
def arm() -> mujoco.MjModel:
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    add_arm(spec).add_site(name="tcp")
    return spec.compile()


def test_forward_kinematics_are_the_published_ones(arm: mujoco.MjModel) -> None:
    data = mujoco.MjData(arm)
    random = np.random.default_rng(0)
    for _ in range(20):
        data.qpos[:] = [random.uniform(*link.joint_range) for link in LINKS]
        mujoco.mj_kinematics(arm, data)
        flange = denavit_hartenberg(data.qpos)
        fingertips = flange[:3, 3] + flange[:3, 2] * FINGERTIP
        assert np.allclose(data.body("fingertips").xpos, fingertips, atol=1e-9)
        assert np.allclose(data.body("link7").xmat.reshape(3, 3), flange[:3, :3], atol=1e-9)


def test_limits_masses_and_inertias_reach_the_compiled_model(arm: mujoco.MjModel) -> None:
    for index, link in enumerate(LINKS, start=1):
        body, joint = arm.body(f"link{index}"), arm.joint(f"joint{index}")
        assert np.allclose(joint.range, link.joint_range) and np.allclose(arm.jnt_actfrcrange[joint.id], (-link.torque, link.torque))
        assert np.isclose(body.mass[0], link.mass)
        xx, yy, zz, xy, xz, yz = link.inertia
        published = np.linalg.eigvalsh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
        assert np.allclose(np.sort(body.inertia), published, rtol=1e-6), f"link {index}"


def test_inverse_kinematics_reaches_what_it_is_asked_for(arm: mujoco.MjModel) -> None:
    inverse, data = InverseKinematics(arm, "tcp"), mujoco.MjData(arm)
    random = np.random.default_rng(1)
    for _ in range(20):
        position = np.array([0.5, 0, 0.1]) + random.uniform(-0.06, 0.06, 3)
        turn = Rotation.from_rotvec(random.uniform(-0.2, 0.2, 3)) * Rotation.from_rotvec([np.pi, 0, 0])
        data.qpos[:] = inverse.solve(position, turn.as_quat(scalar_first=True))
        mujoco.mj_kinematics(arm, data)
        assert np.allclose(data.site("tcp").xpos, position, atol=1e-5)
        assert np.allclose(data.site("tcp").xmat.reshape(3, 3), turn.as_matrix(), atol=1e-5)


def test_the_tool_settles_on_the_command_in_free_space() -> None:
    env = BatchEnv(Reach(), 1)
    env.reset(seed=0)
    env.step(np.array([[0.5, -0.5, 0.3]]))
    for _ in range(15):
        observation, *_ = env.step(np.zeros((1, 3)))
    assert np.abs(observation["command_offset"]).max() < 1e-5


def test_the_pose_is_that_of_the_tool_in_the_reference_frame() -> None:
    task = Reach()
    env = BatchEnv(task, 1)
    observation, _ = env.reset(seed=4)
    data = env.batch.get_data(0)
    mujoco.mj_kinematics(env.model, data)
    assert np.allclose(observation["tcp_position"][0], data.site("tcp").xpos - CENTRE, atol=1e-6)


LIMITS = ControlLimits(
    action_scale=(0.01,) * 3 + (0.1,) * 3, leash=(0.02,) * 3 + (0.2,) * 3, workspace_low=(-0.1,) * 6, workspace_high=(0.1,) * 3 + (3.0,) * 3
)


def target(last: list[float], measured: list[float], action: list[float]) -> np.ndarray:
    return CartesianControl(LIMITS).target(np.array([last]), np.array([measured]), np.array([action]))[0]


def test_a_target_is_the_last_command_plus_the_scaled_action() -> None:
    # 0.05 + 0.5 * 0.01 = 0.055: from the command, not from where the tool happens to be (0.04)
    moved = target([0.05, 0, 0, 0, 0, 0], [0.04, 0, 0, 0, 0, 0], [0.5, 0, -1, 0, 0, 0])
    assert np.allclose(moved, [0.055, 0, -0.01, 0, 0, 0])


def test_a_target_stays_on_the_leash_and_in_the_workspace() -> None:
    # the tool is blocked at 0.04: 0.04 + 0.02 is as far as the command goes, however long one pushes
    assert np.isclose(target([0.06, 0, 0, 0, 0, 0], [0.04, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0])[0], 0.06)
    assert np.isclose(target([0.095, 0, 0, 0, 0, 0], [0.095, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0])[0], 0.1)


def test_rotation_steps_compose_as_rotations() -> None:
    last, step = np.array([0.0, 0.0, 1.2]), np.array([0.1, 0.0, 0.0])
    turned = target([0, 0, 0, *last], [0, 0, 0, 0.1, 0.1, 1.2], [0, 0, 0, 1, 0, 0])[3:]
    wanted = (Rotation.from_rotvec(step) * Rotation.from_rotvec(last)).as_rotvec()
    assert np.allclose(turned, wanted) and not np.allclose(turned, last + step, atol=1e-3)


def test_a_blocked_tool_pushes_with_a_bounded_force() -> None:
    """Pressed on the board for five seconds, the gear is pushed with the leash's 22 N, not with all that was commanded."""
    task = GearAssembly()
    env = BatchEnv(task, 1)
    env.reset(seed=0)
    down = np.array([[0, 0, -1.0, 0, 0, 0]])
    for _ in range(50):
        observation, _, terminated, *_ = env.step(down)
        assert not terminated.any()
    leash_force = task.impedance.stiffness * task.control.limits.leash[2]
    assert 0.8 * leash_force < observation["wrench"][0, 2] < task.impedance.force_limit + 1.5
