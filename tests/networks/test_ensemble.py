"""Members that share nothing."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tandem.networks.mlp import Ensemble, Hidden, Regressor

KEY = jax.random.PRNGKey(0)
X = jnp.asarray(np.random.default_rng(0).standard_normal((5, 3), dtype=np.float32))


answers_of = jax.jit(Ensemble.__call__)


@functools.cache
def ensemble_of(size: int, dropout: float = 0.0) -> Ensemble:
    return jax.jit(lambda: Ensemble(KEY, size, 3, Hidden((8, 8), dropout=dropout)))()


def member(ensemble: Ensemble, index: int) -> Regressor:
    return jax.tree.map(lambda array: np.asarray(array)[index], ensemble.members)


def test_each_row_is_the_output_of_one_member() -> None:
    ensemble = ensemble_of(3)
    answers = answers_of(ensemble, X)
    assert answers.shape == (3, 5)
    one = jax.jit(Regressor.__call__)
    for i in range(3):
        np.testing.assert_allclose(answers[i], one(member(ensemble, i), X), rtol=1e-5, atol=1e-6)


def test_members_start_differently_and_each_has_its_own_head() -> None:
    ensemble = ensemble_of(3)
    assert ensemble.members.head.weight.shape == (3, 8, 1)
    for weight in map(np.asarray, (ensemble.members.head.weight, *(layer.weight for layer in ensemble.members.trunk.layers))):
        assert not np.allclose(weight[0], weight[1]) and not np.allclose(weight[1], weight[2])


def test_the_gradient_of_one_member_does_not_touch_the_others() -> None:
    ensemble = ensemble_of(3)
    gradient = jax.jit(jax.grad(lambda e: e(X)[1].sum()))(ensemble)
    for leaf in map(np.asarray, jax.tree.leaves(gradient.members)):
        assert not leaf[0].any() and not leaf[2].any()
    assert gradient.members.head.weight[1].any() and gradient.members.trunk.layers[0].weight[1].any()


def test_a_subset_has_the_outputs_of_its_members() -> None:
    ensemble = ensemble_of(3)
    subset = jax.jit(Ensemble.subset)(ensemble, np.array([2, 0]))
    assert subset.size == 2
    np.testing.assert_allclose(answers_of(subset, X), answers_of(ensemble, X)[np.array([2, 0])], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_what_is_chosen_for_a_gpu_computes_the_same(dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The choices alone: they are computed on a CPU here."""
    ensemble = ensemble_of(3, dropout)

    def computed() -> tuple[jax.stages.Lowered, list[np.ndarray]]:
        loss = jax.jit(jax.value_and_grad(lambda e: (e(X, KEY if dropout else None) ** 2).sum()))
        return loss.lower(ensemble), [np.asarray(leaf) for leaf in jax.tree.leaves(loss(ensemble))]

    for_cpu, here = computed()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for_gpu, there = computed()
    for one, other in zip(here, there, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert "optimization_barrier" in for_cpu.as_text() and "optimization_barrier" not in for_gpu.as_text()
    assert for_gpu.as_text().count("dot_general") < for_cpu.as_text().count("dot_general"), "the members are computed together"


def test_dropout_differs_between_members() -> None:
    ensemble = ensemble_of(2, dropout=0.5)
    twins = jax.jit(Ensemble.subset)(ensemble, np.array([0, 0]))
    answers = answers_of(twins, X, KEY)
    same = answers_of(twins, X)
    assert (answers[0] != answers[1]).any()
    assert (same[0] == same[1]).all()
