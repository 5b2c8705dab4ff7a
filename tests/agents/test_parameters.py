"""Adam against numbers worked out by hand, and against Optax over many steps."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tandem.agents.parameters import Adam


def test_two_steps_by_hand() -> None:
    adam = Adam(0.1)
    p, state = adam.step(jnp.array([1.0]), adam.init(jnp.array([1.0])), jnp.array([2.0]))
    # m = 0.2, v = 0.004; corrected 0.2 / 0.1 = 2 and 0.004 / 0.001 = 4; step 0.1 * 2 / 2
    assert float(p[0]) == pytest.approx(0.9)
    p, state = adam.step(p, state, jnp.array([-1.0]))
    # m = 0.18 - 0.1 = 0.08, v = 0.003996 + 0.001 = 0.004996; corrected 0.08 / 0.19 and 0.004996 / 0.001999
    assert float(p[0]) == pytest.approx(0.9 - 0.1 * (0.08 / 0.19) / np.sqrt(0.004996 / 0.001999), rel=1e-5)
    assert int(state.steps) == 2


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_fifty_steps_equal_those_of_optax(weight_decay: float) -> None:
    theirs, ours = optax.adamw(3e-3, weight_decay=weight_decay), Adam(3e-3, weight_decay)
    gradients = np.random.default_rng(0).standard_normal((50, 7), dtype=np.float32)
    start = jnp.linspace(-1, 1, 7)

    @jax.jit
    def both(gradients):
        p, q, state, other = start, start, ours.init(start), theirs.init(start)
        for g in gradients:
            p, state = ours.step(p, state, g)
            steps, other = theirs.update(g, other, q)
            q = optax.apply_updates(q, steps)
        return p, q

    np.testing.assert_allclose(*both(gradients), rtol=1e-5, atol=1e-6)


def test_a_rejected_step_changes_nothing() -> None:
    adam, p = Adam(0.1, weight_decay=0.1), jnp.array([1.0, -0.0])
    step = jax.jit(adam.step)
    for start in (adam.init(p), step(p, adam.init(p), p)[1]):
        same, state = step(p, start, jnp.array([jnp.nan, jnp.inf]), False)
        assert same.tobytes() == p.tobytes()
        assert all(a.tobytes() == b.tobytes() for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(start), strict=True))
