"""The paper's recipes with injected noise: Fisher scoring (R5-R7) and Langevin dynamics (R8)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ornstein.theory import (
    Recipe,
    constant_sgd,
    diagonal_sgd,
    full_sgd,
    ou_covariance,
    posterior_kl,
    sgfs_bounded,
    sgfs_diagonal,
    sgfs_full,
    sgfs_scalar,
    sgld,
)
from support.strategies import (
    EPS,
    Matrix,
    Problem,
    close,
    dense,
    mismatch,
    problems,
    theory_settings,
)

step_sizes = st.floats(0.1, 10.0)


def ou(p: Problem, recipe: Recipe, C_S: Matrix | None = None) -> Matrix:
    """The covariance of a recipe in the Ornstein-Uhlenbeck limit (T1)."""
    K, Q = dense(recipe.gain, p.dim), dense(recipe.injected_cov, p.dim)
    return ou_covariance(K, p.hessian, p.batch_noise_cov if C_S is None else C_S, Q)


@theory_settings
@given(problems(max_log_cond=3.0), step_sizes)
def test_R5_makes_T1_the_posterior(p: Problem, eps: float) -> None:
    """For every semi-definite ``E E'``: of full rank, singular, zero."""
    for extra in (p.hessian, p.singular_cov, 0 * p.hessian):
        cov = ou(p, sgfs_full(p.batch_noise_cov, p.num_data, eps, extra))
        assert mismatch(cov, p.posterior_cov) < 1e3 * EPS * p.condition**2


@theory_settings
@given(problems(min_dim=2, max_log_cond=2.0), step_sizes)
def test_R5_extra_noise_makes_up_for_missing_gradient_noise(p: Problem, eps: float) -> None:
    recipe = sgfs_full(p.singular_cov, p.num_data, eps, p.hessian)
    cov = ou(p, recipe, p.singular_cov)
    assert mismatch(cov, p.posterior_cov) < 1e-6


@theory_settings
@given(problems(max_log_cond=4.0), step_sizes)
def test_R5_formulas(p: Problem, eps: float) -> None:
    """``H (eps C/S + E E') = 2/N I``, ``K = eps H``, ``Q = eps H E E' H``."""
    extra = p.singular_cov
    K, Q, friction = sgfs_full(p.batch_noise_cov, p.num_data, eps, extra)
    H = K / eps
    product = p.num_data / 2 * H @ (eps * p.noise_cov / p.batch_size + extra)
    plain = product * p.units[:, None] / p.units
    assert np.max(np.abs(plain - np.eye(p.dim))) < 1e3 * EPS * p.condition * (1 + 1 / eps)
    expected = eps * H @ extra @ H
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.all(np.abs(dense(Q, p.dim) - expected) <= 1e-9 * scale)
    assert friction == 1


@theory_settings
@given(problems(max_log_cond=3.0), step_sizes)
def test_R5_R6_without_extra_noise_are_R2_R3_R1(p: Problem, eps: float) -> None:
    """With ``E = 0`` the step size cancels."""
    C_S, N, none = p.batch_noise_cov, p.num_data, np.zeros((p.dim, p.dim))
    full = sgfs_full(C_S, N, eps, none)
    assert mismatch(full.gain, full_sgd(C_S, N).gain) < 1e3 * EPS * p.condition
    diagonal, scalar = sgfs_diagonal(C_S, N, eps, none), sgfs_scalar(C_S, N, eps, none)
    np.testing.assert_allclose(diagonal.gain, diagonal_sgd(C_S, N).gain, rtol=20 * EPS)
    np.testing.assert_allclose(scalar.gain, constant_sgd(C_S, N).gain, rtol=20 * EPS)
    for recipe in (full, diagonal, scalar):
        np.testing.assert_array_equal(dense(recipe.injected_cov, p.dim), none)


@theory_settings
@given(problems(), step_sizes)
def test_R6_formulas(p: Problem, eps: float) -> None:
    C, S, N, D = p.noise_cov, p.batch_size, p.num_data, p.dim
    extra = p.hessian
    H = 2 / N / (eps * np.diag(C) / S + np.diag(extra))
    diagonal = sgfs_diagonal(C / S, N, eps, extra)
    np.testing.assert_allclose(diagonal.gain, eps * H, rtol=20 * EPS)
    expected = eps * np.diag(H) @ extra @ np.diag(H)
    assert mismatch(dense(diagonal.injected_cov, D), expected) < 20 * EPS
    h = 2 * D / N / np.sum(eps * np.diag(C) / S + np.diag(extra))
    scalar = sgfs_scalar(C / S, N, eps, extra)
    assert close(scalar.gain, eps * h, rtol=20 * EPS)
    assert mismatch(dense(scalar.injected_cov, D), eps * h**2 * extra) < 20 * EPS


@theory_settings
@given(problems(), step_sizes)
def test_R6_vectors_stand_for_diagonals(p: Problem, eps: float) -> None:
    c, e = np.diag(p.batch_noise_cov), np.diag(p.hessian)
    for recipe in (sgfs_diagonal, sgfs_scalar):
        vectors = recipe(c, p.num_data, eps, e)
        matrices = recipe(np.diag(c), p.num_data, eps, np.diag(e))
        np.testing.assert_allclose(vectors.gain, matrices.gain, rtol=20 * EPS)
        np.testing.assert_allclose(
            dense(vectors.injected_cov, p.dim), dense(matrices.injected_cov, p.dim), rtol=20 * EPS
        )


@theory_settings
@given(problems(max_log_cond=2.0, max_log_units=1.0), step_sizes)
def test_R6_scalar_minimises_the_divergence(p: Problem, eps: float) -> None:
    """The derivative of KL in ``log H`` is ``(N Tr(A Sigma) - D) / 2``; it must vanish."""
    K, Q, _ = sgfs_scalar(p.batch_noise_cov, p.num_data, eps, p.singular_cov)

    def divergence(factor: float) -> float:
        assert Q is not None
        cov = ou(p, Recipe(factor * K, factor**2 * Q))
        return posterior_kl(cov, p.hessian, p.num_data)

    slope = p.num_data * np.trace(p.hessian @ ou(p, Recipe(K, Q))) - p.dim
    assert abs(slope) < 1e4 * EPS * p.condition
    assert divergence(1.0) < divergence(1.01)
    assert divergence(1.0) < divergence(0.99)


@theory_settings
@given(problems(), step_sizes)
def test_R6_diagonal_minimises_the_paper_objective(p: Problem, eps: float) -> None:
    """``(N/2) Tr((eps C_S + E E') H) - log|H|`` over diagonal H, along every axis."""
    best = sgfs_diagonal(p.batch_noise_cov, p.num_data, eps, p.hessian).gain / eps
    total = np.diag(eps * p.batch_noise_cov + p.hessian)
    for axis in range(p.dim):
        for factor in (0.99, 1.01):
            moved = best.copy()
            moved[axis] *= factor
            rise = p.num_data / 2 * total @ (moved - best) - np.sum(np.log(moved / best))
            assert close(rise, factor - 1 - np.log(factor), rtol=1e-6)


@theory_settings
@given(problems(min_dim=2), step_sizes, st.floats(0.0, 1.0))
def test_R7_bound_holds_and_noise_only_where_it_binds(p: Problem, eps: float, q: float) -> None:
    C_S, N, none = p.batch_noise_cov, p.num_data, np.zeros(p.dim)
    unbounded = sgfs_diagonal(C_S, N, eps, none).gain / eps
    h_max = float(np.quantile(unbounded, q)) * 1.001
    K, Q, _ = sgfs_bounded(C_S, N, eps, h_max)
    assert Q is not None
    binds = unbounded > h_max
    np.testing.assert_allclose(K / eps, np.minimum(unbounded, h_max), rtol=20 * EPS)
    assert np.all(K / eps <= h_max * (1 + 4 * EPS))
    np.testing.assert_array_equal(Q > 0, binds)
    extra = np.where(binds, 2 / (h_max * N) - eps * np.diag(C_S), 0.0)
    reference = sgfs_diagonal(C_S, N, eps, extra)
    np.testing.assert_allclose(K, reference.gain, rtol=100 * EPS)
    assert reference.injected_cov is not None
    np.testing.assert_allclose(Q, reference.injected_cov, rtol=100 * EPS)


@theory_settings
@given(problems(), step_sizes, st.floats(-6.0, 6.0))
def test_R7_is_exact_for_a_diagonal_problem(p: Problem, eps: float, log_bound: float) -> None:
    a, c = np.diag(p.hessian), np.diag(p.batch_noise_cov)
    h_max = 10.0**log_bound / (p.num_data * float(np.mean(c)))
    K, Q, _ = sgfs_bounded(c, p.num_data, eps, h_max)
    cov = ou_covariance(np.diag(K), np.diag(a), np.diag(c), dense(Q, p.dim))
    assert mismatch(cov, np.diag(1 / (p.num_data * a))) < 100 * EPS


def test_R7_bounds_a_direction_without_noise() -> None:
    K, Q, _ = sgfs_bounded(np.array([1.0, 0.0]), 10, step_size=0.5, h_max=0.3)
    np.testing.assert_allclose(K, [0.5 * 0.3, 0.5 * 0.3])
    assert Q is not None
    # E E' = 2 / (h_max N) - eps C_S, Q = eps H^2 E E'.
    np.testing.assert_allclose(Q, 0.5 * 0.09 * np.array([2 / 3 - 0.5, 2 / 3]))


def test_R8_formulas() -> None:
    """``K = (eps N / 2) I``, ``Q = eps I``."""
    K, Q, friction = sgld(num_data=200, step_size=1e-3)
    assert Q is not None
    assert K.ndim == Q.ndim == 0
    assert (float(K), float(Q), friction) == (0.1, 1e-3, 1.0)


@theory_settings
@given(problems(max_log_cond=2.0, max_log_units=0.0))
def test_R8_tends_to_the_posterior_at_first_order(p: Problem) -> None:
    """T1's gap to ``(N A)^-1`` is the gradient noise's share, linear in eps."""
    N = p.num_data
    gaps = [
        mismatch(ou(p, sgld(N, 0.5**halvings / N**2)), p.posterior_cov) for halvings in range(4)
    ]
    assert np.max(np.abs(-np.diff(np.log2(gaps)) - 1)) < 1e-6
    assert mismatch(ou(p, sgld(N, 1e-12 / N**2)), p.posterior_cov) < 1e-9


@pytest.mark.parametrize("eps", [1e-4, 1e-2])
def test_R8_number(eps: float) -> None:
    """``1 / (N a) + eps N c / (4 a)``."""
    N, a, c = 50, 3.0, 0.2
    K, Q, _ = sgld(N, eps)
    cov = ou_covariance(dense(K, 1), np.array([[a]]), np.array([[c]]), dense(Q, 1))
    assert close(cov.item(), 1 / (N * a) + eps * N * c / (4 * a), rtol=1e-14)
