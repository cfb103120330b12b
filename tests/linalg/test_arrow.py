"""Arrow operators against dense matrices (X14)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ornstein._base.types import Vector
from ornstein.linalg import small
from ornstein.linalg.arrow import Arrow
from ornstein.linalg.operators import Factor, Operator
from support.arrows import assembled, random_arrow


@pytest.fixture(params=[(1, 1, 7), (3, 2, 5), (4, 3, 4), (12, 1, 6)])
def arrow(request: pytest.FixtureRequest) -> Arrow:
    return random_arrow(*request.param)


def dense_of(arrow: Arrow) -> Vector:
    """In the operator's own order: coordinates of the groups first."""
    m, q, G = np.shape(arrow.cross)
    dense = assembled(
        np.asarray(arrow.head),
        np.asarray(arrow.cross).transpose(2, 0, 1),
        np.asarray(arrow.blocks).transpose(2, 0, 1),
    )
    order = np.concatenate([np.arange(m), m + np.arange(q * G).reshape(G, q).T.ravel()])
    return dense[np.ix_(order, order)]


def test_products_solves_and_diagonals_are_those_of_the_matrix(arrow: Arrow) -> None:
    dense, n = dense_of(arrow), arrow.size
    inverse = np.linalg.inv(dense)
    v = np.random.default_rng(1).normal(size=(2, 3, n))
    np.testing.assert_allclose(arrow.dense(n), dense, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(arrow.matvec(v), v @ dense, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(arrow.inverse().matvec(v), v @ inverse, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(arrow.inverse().dense(n), inverse, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(arrow.inverse().inverse().dense(n), dense, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(arrow.variances(n), np.diag(dense), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(
        arrow.inverse().variances(n), np.diag(inverse), rtol=1e-9, atol=1e-10
    )
    assert arrow.logdet(n) == pytest.approx(np.linalg.slogdet(dense)[1], rel=1e-10)
    assert arrow.trace(n) == pytest.approx(np.trace(dense))
    assert arrow.inverse().trace(n) == pytest.approx(np.trace(inverse))
    np.testing.assert_allclose(arrow.scaled(2.0).dense(n), 2 * dense, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("which", ["of the inverse", "of the arrow"])
def test_roots_multiply_to_their_matrix(arrow: Arrow, which: str) -> None:
    n = arrow.size
    held: Operator = arrow.inverse() if which == "of the inverse" else arrow
    root: Factor = held.sqrt()
    R = root.dense(n)
    np.testing.assert_allclose(R @ R.T, held.dense(n), rtol=1e-9, atol=1e-10)
    v = np.random.default_rng(2).normal(size=(4, n))
    np.testing.assert_allclose(root.matvec(v), v @ R.T, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(root.rmatvec(v), v @ R, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(root.matvec(root.solve(v)), v, rtol=1e-9, atol=1e-10)
    assert root.coordinates(n) == n


def test_compiled_roots_are_those_of_the_host(arrow: Arrow) -> None:
    compiled = jax.jit(lambda held: held.root())(jax.tree.map(jnp.asarray, arrow))
    for found, expected in zip(
        jax.tree.leaves(compiled), jax.tree.leaves(arrow.root()), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    v = np.random.default_rng(3).normal(size=arrow.size)
    solved = jax.jit(lambda root, v: root.solve(v))(compiled, jnp.asarray(v))
    np.testing.assert_allclose(solved, arrow.root().solve(v), rtol=1e-9, atol=1e-12)
    assert isinstance(arrow.astype("float32").head, np.ndarray)
    assert arrow.root().astype("float32").dense(arrow.size).dtype == float


def test_a_priors_precision_is_added_to_head_and_blocks(arrow: Arrow) -> None:
    m, q, G = np.shape(arrow.cross)
    head, block = 2 * np.eye(m), 3 * np.eye(q)
    added = np.diag(np.concatenate([np.full(m, 2.0), np.full(q * G, 3.0)]))
    np.testing.assert_allclose(
        arrow.plus(head, block).dense(arrow.size), dense_of(arrow) + added, atol=1e-12
    )


def test_covariances_of_groups_are_the_inverse_blocks(arrow: Arrow) -> None:
    m, q, G = np.shape(arrow.cross)
    inverse = np.linalg.inv(dense_of(arrow))[m:, m:].reshape(q, G, q, G)
    expected = np.stack([inverse[:, g, :, g] for g in range(G)], axis=-1)
    np.testing.assert_allclose(arrow.root().block_cov(), expected, rtol=1e-9, atol=1e-12)


def test_an_indefinite_arrow_is_refused_on_the_host_and_nan_in_compiled_code() -> None:
    arrow = random_arrow(2, 2, 3)
    wrong = Arrow(arrow.head, arrow.cross, -np.asarray(arrow.blocks))
    with np.errstate(invalid="ignore"), pytest.raises(np.linalg.LinAlgError):
        wrong.root()
    assert np.isnan(np.asarray(jax.jit(small.cholesky)(jnp.asarray(wrong.blocks)))).any()


def test_X14_roots_have_derivatives_and_are_the_same_side_by_side() -> None:
    """Of ``log |L|`` and of a product with L, against differences, one by one and batched."""
    rng = np.random.default_rng(0)
    m, G = 3, 4
    cross = jnp.asarray(0.3 * rng.normal(size=(m, 1, G)))
    blocks = jnp.asarray(rng.uniform(1, 2, size=(1, 1, G)))
    heads = np.stack([np.eye(m) * (3 + i) + 0.1 * np.ones((m, m)) for i in range(2)])
    along = rng.normal(size=(m, m))
    along = along + along.T

    def value(step: Any, head: Any) -> Any:
        root = Arrow(head + step * along, cross, blocks).root()
        solved, _ = root.solved(jnp.ones(m), jnp.ones((1, G)))
        return jnp.log(jnp.diagonal(root.head)).sum() + (solved * jnp.arange(1.0, m + 1)).sum()

    slope = jax.grad(value)
    for head in heads:
        ahead, behind = (value(step, jnp.asarray(head)) for step in (1e-5, -1e-5))
        assert float(slope(0.0, jnp.asarray(head))) == pytest.approx(
            float(ahead - behind) / 2e-5, rel=1e-6
        )
    batched = jax.vmap(slope, in_axes=(None, 0))(0.0, jnp.asarray(heads))
    np.testing.assert_allclose(batched, [slope(0.0, jnp.asarray(head)) for head in heads])
