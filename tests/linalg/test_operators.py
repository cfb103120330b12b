"""Gains and covariances as operators, against their explicit matrices."""

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ornstein.linalg.operators import Dense, Diagonal, Operator, as_operator
from support.strategies import (
    EPS,
    Matrix,
    Problem,
    close,
    mismatch,
    problems,
    random_spd,
    theory_settings,
)


@st.composite
def operators(draw: st.DrawFn) -> tuple[Operator, Matrix]:
    """An operator of each structure beside its matrix, in ordinary and in bad units."""
    p = draw(problems())
    structure = draw(st.sampled_from(["scalar", "diagonal", "dense"]))
    if structure == "scalar":
        value = float(p.gain[0, 0])
        return Diagonal(np.asarray(value)), value * np.eye(p.dim)
    if structure == "diagonal":
        values = np.diag(p.gain).copy()
        return Diagonal(values), np.diag(values)
    return Dense(p.gain), p.gain


def rows(dim: int, count: int = 3) -> Matrix:
    return np.asarray(np.random.default_rng(dim).normal(size=(count, dim)))


@theory_settings
@given(operators())
def test_operator_products_agree_with_the_matrix(pair: tuple[Operator, Matrix]) -> None:
    operator, matrix = pair
    vectors = rows(len(matrix))
    expected = vectors @ matrix
    scale = np.abs(vectors) @ np.abs(matrix)
    assert np.all(np.abs(operator.matvec(vectors) - expected) <= 20 * EPS * scale)
    np.testing.assert_array_equal(operator.matvec(vectors[0]).shape, vectors[0].shape)
    assert np.all(np.abs(operator.matvec(vectors[0]) - expected[0]) <= 20 * EPS * scale[0])


@theory_settings
@given(st.integers(1, 6))
def test_operator_transpose_of_an_asymmetric_matrix(dim: int) -> None:
    matrix = np.random.default_rng(dim).normal(size=(dim, dim))
    vectors = rows(dim)
    for n, vector in enumerate(vectors):
        np.testing.assert_allclose(Dense(matrix).matvec(vectors)[n], matrix @ vector, rtol=1e-12)
        np.testing.assert_allclose(Dense(matrix).matvec(vector), matrix @ vector, rtol=1e-12)
        np.testing.assert_allclose(Dense(matrix).rmatvec(vector), matrix.T @ vector, rtol=1e-12)
        np.testing.assert_allclose(Dense(matrix).rmatvec(vectors)[n], matrix.T @ vector, rtol=1e-12)
        np.testing.assert_allclose(matrix @ Dense(matrix).solve(vectors)[n], vector, rtol=1e-9)


@theory_settings
@given(operators())
def test_operator_solve_undoes_the_product(pair: tuple[Operator, Matrix]) -> None:
    operator, matrix = pair
    vectors = rows(len(matrix))
    for v in (vectors, vectors[0]):
        assert isinstance(operator, Dense | Diagonal)
        solution = operator.solve(v)
        assert solution.shape == v.shape
        scale = np.abs(solution) @ np.abs(matrix)
        assert np.all(np.abs(solution @ matrix - v) <= 1e3 * EPS * scale)


@theory_settings
@given(operators())
def test_operator_sqrt_squares_to_the_matrix(pair: tuple[Operator, Matrix]) -> None:
    operator, matrix = pair
    root = operator.sqrt().dense(len(matrix))
    assert mismatch(root @ root.T, matrix) < 100 * EPS


@theory_settings
@given(problems())
def test_operator_sqrt_of_a_singular_matrix(p: Problem) -> None:
    """Semi-definite of any rank, in any units, with and without empty rows."""
    low_rank = p.factor @ p.factor.T
    empty_row = low_rank.copy()
    empty_row[0, :] = empty_row[:, 0] = 0.0
    sd = np.sqrt(np.diag(p.hessian))
    for matrix in (low_rank, empty_row):
        root = Dense(matrix).sqrt().dense(p.dim)
        assert np.all(np.isfinite(root))
        gap = np.abs(root @ root.T - matrix) / np.outer(sd, sd)
        assert np.max(gap) < 1e4 * EPS * p.condition


@pytest.mark.parametrize("matrix", [np.zeros((3, 3)), np.ones((3, 3)), np.diag([4.0, 0.0, 1.0])])
def test_operator_sqrt_of_plain_singular_matrices(matrix: Matrix) -> None:
    root = Dense(matrix).sqrt().dense(3)
    np.testing.assert_allclose(root @ root.T, matrix, atol=1e-14)
    values = np.diag(matrix)
    np.testing.assert_allclose(Diagonal(values).sqrt().dense(3) ** 2, np.diag(values), atol=1e-15)


@theory_settings
@given(operators())
def test_operator_trace_and_logdet(pair: tuple[Operator, Matrix]) -> None:
    operator, matrix = pair
    dim = len(matrix)
    assert close(operator.trace(dim), np.trace(matrix), rtol=20 * EPS)
    sd = np.sqrt(np.diag(matrix))
    expected = 2 * np.sum(np.log(sd)) + np.linalg.slogdet(matrix / np.outer(sd, sd))[1]
    assert close(operator.logdet(dim), expected, rtol=1e-9, atol=1e-9)


def test_operator_logdet_of_a_singular_matrix() -> None:
    assert Dense(np.diag([1.0, 0.0])).logdet(2) == -np.inf


@theory_settings
@given(operators())
def test_operator_dense_is_the_matrix(pair: tuple[Operator, Matrix]) -> None:
    operator, matrix = pair
    np.testing.assert_array_equal(operator.dense(len(matrix)), matrix)
    single = operator.astype(np.float32)
    assert isinstance(single, type(operator))
    assert jax.tree.leaves(single)[0].dtype == np.float32
    np.testing.assert_allclose(single.dense(len(matrix)), matrix, rtol=1e-6)


@pytest.mark.parametrize(
    ("array", "structure"),
    [(0.5, "scalar"), ([0.5, 2.0], "diagonal"), ([[0.5, 0.1], [0.1, 2.0]], "dense")],
)
def test_operator_structure_follows_the_array(array: Any, structure: str) -> None:
    operator = as_operator(array)
    assert operator.structure == structure
    expected = {"scalar": 0.5 * np.eye(2), "diagonal": np.diag([0.5, 2.0])}
    np.testing.assert_array_equal(operator.dense(2), expected.get(structure, np.asarray(array)))


@pytest.mark.parametrize("array", [0.5, [0.5, 2.0], [[0.5, 0.1], [0.1, 2.0]]])
def test_operator_passes_through_compiled_functions(array: Any) -> None:
    operator = as_operator(array)
    vectors = rows(2)

    @jax.jit
    def apply(operator: Operator, vectors: jax.Array) -> Any:
        return jax.vmap(operator.matvec)(vectors)

    expected = vectors @ operator.dense(2)
    np.testing.assert_allclose(apply(operator, jax.numpy.asarray(vectors)), expected, rtol=1e-5)


def test_operator_sqrt_is_continuous_into_singularity() -> None:
    """A matrix a rounding error away from singular has nearly the same square."""
    matrix = random_spd(np.random.default_rng(3), 5, 12.0)
    for shift in (0.0, 1e-13, -1e-13):
        shifted = matrix + shift * np.eye(5)
        root = Dense(shifted).sqrt().dense(5)
        np.testing.assert_allclose(root @ root.T, matrix, atol=1e-12)
