"""Recipes exact at any step: X1, the robust family X2, the sandwich X3; whitening X8."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ornstein import theory
from ornstein.theory import (
    batch_noise_factor,
    clustered_sandwich,
    exact,
    exact_diagonal,
    finite_step_covariance,
    finite_step_sgd,
    full_sgd,
    is_stable,
    joint_diagonalisation,
    modes,
    posterior_kl,
    relative_eigenvalues,
    relaxation_steps,
    sandwich,
)
from support.strategies import (
    EPS,
    Matrix,
    Problem,
    dense,
    inverse,
    mismatch,
    problems,
    theory_settings,
)

RHOS = (0.0, 0.5, 1.0, 3.0)


def rates(p: Problem, gain: Matrix) -> Matrix:
    """Eigenvalues of ``K A``, ascending, by a route of their own."""
    outer = np.outer(p.units, p.units)
    return np.sort(np.linalg.eigvals((gain * outer) @ (p.hessian / outer)).real)


@theory_settings
@given(problems())
def test_X1_makes_T2_the_posterior(p: Problem) -> None:
    for S in (1, p.batch_size, p.num_data // 2):
        C_S = p.noise_cov / S
        K, Q, _ = finite_step_sgd(p.hessian, C_S, p.num_data)
        assert Q is None
        cov = finite_step_covariance(K, p.hessian, C_S)
        assert mismatch(cov, p.posterior_cov) < 1e3 * EPS * p.condition**1.5
        assert posterior_kl(cov, p.hessian, p.num_data) < 1e-9


@theory_settings
@given(problems(max_log_cond=3.0))
def test_X1_rates_lie_between_0_and_2(p: Problem) -> None:
    """They are ``2 / (1 + N c / S)``, c the eigenvalues of C relative to A."""
    K = finite_step_sgd(p.hessian, p.batch_noise_cov, p.num_data).gain
    outer = np.outer(p.units, p.units)
    c = np.linalg.eigvals(np.linalg.solve(p.hessian / outer, p.noise_cov / outer)).real
    expected = np.sort(2 / (1 + p.num_data * c / p.batch_size))
    found = rates(p, K)
    assert np.all((found > 0) & (found <= 2))
    assert np.max(np.abs(found - expected)) < 1e3 * EPS * p.condition**2 * expected[-1]


@theory_settings
@given(problems(max_log_cond=2.0))
def test_X1_tends_to_R2_at_first_order_in_S_over_N(p: Problem) -> None:
    gaps = []
    for doublings in range(30, 33):
        N = 2**doublings
        K = finite_step_sgd(p.hessian, p.batch_noise_cov, N).gain
        gaps.append(mismatch(K, full_sgd(p.batch_noise_cov, N).gain))
    assert gaps[-1] < 1e-5
    assert np.max(np.abs(-np.diff(np.log2(gaps)) - 1)) < 0.01


def test_X1_well_specified_model() -> None:
    """``A = C`` gives ``K = 2 / (1 + N/S) C^-1``."""
    C = np.array([[2.0, 0.5], [0.5, 1.0]])
    K = finite_step_sgd(C, C / 10, 200).gain
    np.testing.assert_allclose(K, 2 / 21 * np.linalg.inv(C), rtol=1e-14)


def test_X1_without_noise_does_not_mix() -> None:
    K = finite_step_sgd(np.diag([1.0, 4.0]), np.diag([1.0, 0.0]), 10).gain
    assert not is_stable(K, np.diag([1.0, 4.0]))
    assert np.all(np.isnan(finite_step_covariance(K, np.diag([1.0, 4.0]), np.diag([1.0, 0.0]))))


@theory_settings
@given(problems(min_dim=2, max_log_cond=2.0))
def test_X1_singular_noise_is_unstable_never_wrong(p: Problem) -> None:
    """Where C_S vanishes an eigenvalue of KA is 2, in exact arithmetic."""
    K = finite_step_sgd(p.hessian, p.singular_cov, p.num_data).gain
    assert not is_stable(K, p.hessian)
    assert np.all(np.isnan(finite_step_covariance(K, p.hessian, p.singular_cov)))


@pytest.mark.parametrize("rho", RHOS)
@theory_settings
@given(p=problems())
def test_X2_makes_T2_the_posterior(rho: float, p: Problem) -> None:
    K, Q, friction = exact(p.hessian, p.batch_noise_cov, p.num_data, rho)
    cov = finite_step_covariance(K, p.hessian, p.batch_noise_cov, Q)
    assert mismatch(cov, p.posterior_cov) < 1e3 * EPS * p.condition**1.5
    assert friction == 1


@pytest.mark.parametrize("rho", RHOS[1:])
@theory_settings
@given(p=problems(max_log_cond=4.0))
def test_X2_singular_noise(rho: float, p: Problem) -> None:
    K, Q, _ = exact(p.hessian, p.singular_cov, p.num_data, rho)
    cov = finite_step_covariance(K, p.hessian, p.singular_cov, Q)
    # Inverting A + N C_S costs the digits of A where C_S vanishes; how many depends on the LAPACK.
    assert mismatch(cov, p.posterior_cov) < 4 * (1e4 + p.num_data) * EPS * p.condition**1.5


@theory_settings
@given(problems(max_log_cond=4.0))
def test_X2_default_never_oscillates(p: Problem) -> None:
    for C_S in (p.batch_noise_cov, p.singular_cov):
        K, Q, _ = exact(p.hessian, C_S, p.num_data)
        chosen = exact(p.hessian, C_S, p.num_data, rho=1.0)
        np.testing.assert_array_equal(K, chosen.gain)
        np.testing.assert_array_equal(dense(Q, p.dim), dense(chosen.injected_cov, p.dim))
        assert is_stable(K, p.hessian)
        assert rates(p, K)[-1] <= 1 + 100 * EPS * p.num_data * p.condition


@theory_settings
@given(problems())
def test_X2_without_noise_draws_independently(p: Problem) -> None:
    """A Newton step plus the posterior's own noise."""
    K, Q, _ = exact(p.hessian, 0 * p.hessian, p.num_data, rho=1.0)
    assert mismatch(K, p.num_data * p.posterior_cov) < 1e3 * EPS * p.condition
    assert mismatch(dense(Q, p.dim), p.posterior_cov) < 1e3 * EPS * p.condition


@theory_settings
@given(problems())
def test_X2_rho_zero_is_X1(p: Problem) -> None:
    zero = exact(p.hessian, p.batch_noise_cov, p.num_data, rho=0.0)
    assert zero.injected_cov is None
    np.testing.assert_array_equal(
        zero.gain, finite_step_sgd(p.hessian, p.batch_noise_cov, p.num_data).gain
    )


@pytest.mark.parametrize("rho", [1.0, 3.0])
@theory_settings
@given(p=problems(max_log_cond=3.0))
def test_X2_relaxation_per_direction(rho: float, p: Problem) -> None:
    """``((1 + rho) + N c / S) / 2`` steps."""
    K = exact(p.hessian, p.batch_noise_cov, p.num_data, rho).gain
    _, c = joint_diagonalisation(p.hessian, p.noise_cov)
    expected = ((1 + rho) + p.num_data * c / p.batch_size) / 2
    k = modes(K, p.hessian).rates[::-1]
    np.testing.assert_allclose(1 / k, expected, rtol=100 * EPS * p.condition**2)
    # 1 - |1 - k| keeps k to an absolute rounding error.
    assert np.all(np.abs(relaxation_steps(k) * k - 1) <= 4 * EPS / k)


@theory_settings
@given(problems(max_log_cond=3.0), st.floats(-2.0, 2.0))
def test_X2_most_general_family(p: Problem, log_size: float) -> None:
    """Any symmetric K with ``Q = (2 K - K (A + N C_S) K) / N >= 0`` is exact."""
    A, C_S, N = p.hessian, p.batch_noise_cov, p.num_data
    total = A + N * C_S
    K = 2 * inverse(total + 10.0**log_size * N * p.singular_cov + 0.1 * inverse(p.gain))
    Q = (2 * K - K @ total @ K) / N
    sd = np.sqrt(np.diag(Q))
    assert np.linalg.eigvalsh(Q / np.outer(sd, sd))[0] > -1e-9
    cov = finite_step_covariance(K, A, C_S, Q)
    assert mismatch(cov, p.posterior_cov) < 1e-6


@pytest.mark.parametrize("rho", RHOS)
@theory_settings
@given(p=problems())
def test_X2_diagonal_form(rho: float, p: Problem) -> None:
    a, c = np.diag(p.hessian), np.diag(p.batch_noise_cov)
    full = exact(np.diag(a), np.diag(c), p.num_data, rho)
    for args in ((a, c), (np.diag(a), np.diag(c)), (p.hessian, p.batch_noise_cov)):
        K, Q, _ = exact_diagonal(*args, p.num_data, rho)
        assert K.ndim == 1
        assert mismatch(np.diag(K), full.gain) < 100 * EPS
        np.testing.assert_allclose(dense(Q, p.dim), dense(full.injected_cov, p.dim), rtol=100 * EPS)


@pytest.mark.parametrize("replacement", [True, False])
@theory_settings
@given(p=problems())
def test_X3_makes_T2_the_sandwich(replacement: bool, p: Problem) -> None:
    """``A^-1 C A^-1 / N``, with the factor 1/S and with a finite population's."""
    N, S = p.num_data, p.batch_size
    assume(N > S)
    factor = batch_noise_factor(N, S, replacement)
    K, Q, _ = sandwich(p.hessian, factor, N)
    assert Q is None
    cov = finite_step_covariance(K, p.hessian, factor * p.noise_cov)
    expected = inverse(p.hessian) @ p.noise_cov @ inverse(p.hessian) / N
    assert mismatch(cov, expected) < 1e3 * EPS * p.condition**2
    if replacement:
        assert mismatch(K, 2 * S / (N + S) * inverse(p.hessian)) < 1e3 * EPS * p.condition


@theory_settings
@given(problems(), st.floats(0.01, 100))
def test_X3_makes_T2_the_sandwich_of_another_noise(p: Problem, size: float) -> None:
    """Whether it is larger or smaller than the minibatches', in all directions or some."""
    N, A, C_S = p.num_data, p.hessian, p.batch_noise_cov
    for B in (size * p.noise_cov, size * (p.noise_cov + p.factor @ p.factor.T)):
        K, Q, _ = clustered_sandwich(A, C_S, B, N)
        cov = finite_step_covariance(K, A, C_S, Q)
        expected = inverse(A) @ B @ inverse(A) / N
        assert mismatch(cov, expected) < 1e3 * EPS * p.condition**2
        assert is_stable(K, A)
        if Q is not None:
            assert np.linalg.eigvalsh(Q).min() > -1e3 * EPS * np.abs(Q).max()


@theory_settings
@given(problems())
def test_X8_diagonalises_both(p: Problem) -> None:
    for C in (p.noise_cov, p.factor @ p.factor.T):
        V, c = joint_diagonalisation(p.hessian, C)
        largest = max(c[-1], EPS)
        assert np.all(np.diff(c) >= 0)
        assert np.max(np.abs(V.T @ p.hessian @ V - np.eye(p.dim))) < 1e3 * EPS * p.condition
        off = V.T @ C @ V - np.diag(c)
        assert np.max(np.abs(off)) < 1e3 * EPS * p.condition * largest


@theory_settings
@given(problems())
def test_X8_relative_eigenvalues_alone(p: Problem) -> None:
    c = relative_eigenvalues(p.hessian, p.noise_cov)
    np.testing.assert_array_equal(c, joint_diagonalisation(p.hessian, p.noise_cov)[1])
    for saddle in (-np.eye(2), np.array([[1.0, 2.0], [2.0, 1.0]])):
        assert np.isnan(relative_eigenvalues(saddle, np.eye(2))).all()


@pytest.mark.parametrize("rho", RHOS)
@theory_settings
@given(p=problems(max_log_cond=3.0))
def test_X8_every_exact_plan_is_diagonal(rho: float, p: Problem) -> None:
    V, c = joint_diagonalisation(p.hessian, p.noise_cov)
    K, Q, _ = exact(p.hessian, p.batch_noise_cov, p.num_data, rho)
    back = V.T @ p.hessian  # V^-1, since V'AV = I
    gain = 2 / ((1 + rho) + p.num_data * c / p.batch_size)
    injected = rho * gain**2 / p.num_data
    for matrix, diagonal in ((K, gain), (dense(Q, p.dim), injected)):
        gap = np.abs(back @ matrix @ back.T - np.diag(diagonal))
        assert np.max(gap) <= 1e3 * EPS * p.condition**2 * np.max(diagonal)


def test_X6_noise_beyond_an_approximation_to_second_order() -> None:
    """Next to what A has beyond it, with which that noise is aligned."""
    rng, D, N, share, rate = np.random.default_rng(0), 6, 1000, 1 / 50, 0.02
    half, other = rng.normal(size=(2, D, D))
    M = np.eye(D) + 0.1 * (half + half.T)
    known = rng.uniform(50, 100, D)
    off = 40 * (half + half.T) + 20 * (other + other.T)
    K, Q, _ = theory.exact_at_rate(np.ones(D), share * known / N, N, rate)
    assert Q is not None
    C_S = share * (np.diag(known) + off) / N
    cov = theory.finite_step_covariance(np.diag(K), M, C_S, np.diag(Q))
    spectrum = theory.Spectrum(np.linalg.eigvalsh(M), np.full(D, 1 / D))
    square, aligned = (off**2).sum() / D, (off * (M - np.eye(D))).sum() / D
    predicted = theory.structure_kl(spectrum, rate, D) + theory.noise_kl(
        square, aligned, share, rate, D
    )
    found = theory.posterior_kl(cov, M, N)
    np.testing.assert_allclose(predicted, found, rtol=0.1)
    assert found > 3 * theory.structure_kl(spectrum, rate, D)
