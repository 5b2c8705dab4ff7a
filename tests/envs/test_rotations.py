"""Against scipy, which someone else wrote."""

import numpy as np
from scipy.spatial.transform import Rotation

from tandem.envs.rotations import compose, quat_conjugate, quat_multiply, quat_to_rotvec, rotate, rotvec_to_quat

RANDOM = np.random.default_rng(0)
A = Rotation.random(200, rng=RANDOM)
B = Rotation.random(200, rng=RANDOM)


def wxyz(rotation: Rotation) -> np.ndarray:
    return rotation.as_quat(scalar_first=True)


def test_rotation_vectors_become_the_same_rotations() -> None:
    assert np.allclose(Rotation.from_quat(rotvec_to_quat(A.as_rotvec()), scalar_first=True).as_matrix(), A.as_matrix())


def test_quaternions_become_the_same_rotation_vectors_whatever_their_sign() -> None:
    assert np.allclose(quat_to_rotvec(wxyz(A)), A.as_rotvec())
    assert np.allclose(quat_to_rotvec(-wxyz(A)), A.as_rotvec())


def test_tiny_and_zero_angles_survive_the_round_trip() -> None:
    for angle in (0.0, 1e-14, 1e-9, 1e-4):
        vector = np.array([angle, -2 * angle, 0.5 * angle])
        assert np.allclose(quat_to_rotvec(rotvec_to_quat(vector)), vector, rtol=1e-6, atol=1e-20)


def test_products_inverses_and_turned_vectors_agree() -> None:
    vectors = RANDOM.standard_normal((200, 3))
    product = Rotation.from_quat(quat_multiply(wxyz(A), wxyz(B)), scalar_first=True)
    assert np.allclose(product.as_matrix(), (A * B).as_matrix())
    assert np.allclose(rotate(wxyz(A), vectors), A.apply(vectors))
    assert np.allclose(rotate(quat_conjugate(wxyz(A)), vectors), A.inv().apply(vectors))
    assert np.allclose(Rotation.from_rotvec(compose(A.as_rotvec(), B.as_rotvec())).as_matrix(), (A * B).as_matrix())
