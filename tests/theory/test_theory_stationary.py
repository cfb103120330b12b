"""Stationary covariances: the Ornstein-Uhlenbeck limit (T1) and the finite step (T2)."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from ornstein.theory import (
    finite_step_covariance,
    is_stable,
    modes,
    noise_shares,
    ou_covariance,
    relaxation_steps,
)
from support.strategies import (
    EPS,
    Matrix,
    Problem,
    close,
    inverse,
    mismatch,
    problems,
    theory_settings,
)

Solver = Callable[[Matrix, Matrix, Matrix, Matrix], Matrix]
both = pytest.mark.parametrize(
    "solver",
    [
        pytest.param(ou_covariance, id="T1"),
        pytest.param(finite_step_covariance, id="T2"),
    ],
)


def rounding_scale(p: Problem, cov: Matrix) -> Matrix:
    """What each entry of a residual is small against: the sizes of the terms in it."""
    sd, gain, injected = (np.sqrt(np.diag(M)) for M in (cov, p.gain, p.injected_cov))
    noise = gain @ np.abs(p.batch_noise_cov) @ gain
    return np.asarray(
        p.fastest * np.outer(sd, sd) + noise * np.outer(gain, gain) + np.outer(injected, injected)
    )


@theory_settings
@given(problems())
def test_T1_residual(p: Problem) -> None:
    K, A, C_S, Q = p.gain, p.hessian, p.batch_noise_cov, p.injected_cov
    cov = ou_covariance(K, A, C_S, Q)
    residual = K @ A @ cov + cov @ A @ K - K @ C_S @ K - Q
    assert np.max(np.abs(residual) / rounding_scale(p, cov)) < 2e4 * EPS


@theory_settings
@given(problems())
def test_T2_residual(p: Problem) -> None:
    K, A, C_S, Q = p.gain, p.hessian, p.batch_noise_cov, p.injected_cov
    cov = finite_step_covariance(K, A, C_S, Q)
    step = np.eye(p.dim) - K @ A
    residual = step @ cov @ step.T + K @ C_S @ K + Q - cov
    sd = np.sqrt(np.diag(cov))
    assert np.max(np.abs(residual) / (rounding_scale(p, cov) + np.outer(sd, sd))) < 2e4 * EPS


@theory_settings
@given(problems())
def test_T2_modes_diagonalise_the_drift(p: Problem) -> None:
    rates, B = modes(p.gain, p.hessian)
    assert np.all(np.diff(rates) >= 0)
    assert mismatch(B @ B.T, p.gain) < 100 * EPS
    assert np.max(np.abs(B.T @ p.hessian @ B - np.diag(rates))) < 1e3 * EPS * rates[-1]


@theory_settings
@given(problems(max_log_cond=3.0))
def test_T2_noise_shares_are_the_parts_of_a_steps_noise(p: Problem) -> None:
    drift = modes(p.gain, p.hessian)
    shares = noise_shares(drift, p.batch_noise_cov, p.injected_cov)
    back = np.linalg.inv(drift.basis)
    own, added = (
        np.diag(back @ cov @ back.T)
        for cov in (p.gain @ p.batch_noise_cov @ p.gain, p.injected_cov)
    )
    np.testing.assert_allclose(shares, own / (own + added), rtol=1e-6, atol=1e-9)
    assert np.all(noise_shares(drift, p.batch_noise_cov) == 1)


@theory_settings
@given(problems(max_log_cond=3.0, max_log_units=0.0))
def test_T1_agrees_with_scipy(p: Problem) -> None:
    K, C_S, Q = p.gain, p.batch_noise_cov, p.injected_cov
    drift = K @ p.hessian
    expected = scipy.linalg.solve_continuous_lyapunov(drift, K @ C_S @ K + Q)
    cov = ou_covariance(K, p.hessian, C_S, Q)
    assert mismatch(cov, expected) < 1e3 * EPS * p.spread * p.condition


@theory_settings
@given(problems(max_log_cond=3.0, max_log_units=0.0))
def test_T2_agrees_with_scipy(p: Problem) -> None:
    K, C_S, Q = p.gain, p.batch_noise_cov, p.injected_cov
    step = np.eye(p.dim) - K @ p.hessian
    expected = scipy.linalg.solve_discrete_lyapunov(step, K @ C_S @ K + Q, method="direct")
    cov = finite_step_covariance(K, p.hessian, C_S, Q)
    assert mismatch(cov, expected) < 1e3 * EPS * p.spread * p.condition


@theory_settings
@given(problems())
def test_T1_trace_depends_on_gain_and_noise_alone(p: Problem) -> None:
    """``2 Tr(A Sigma) = Tr(C_S K) + Tr(Q K^-1)``, on which Theorems 1 to 3 rest."""
    cov = ou_covariance(p.gain, p.hessian, p.batch_noise_cov, p.injected_cov)
    noise = np.trace(p.batch_noise_cov @ p.gain + inverse(p.gain) @ p.injected_cov)
    assert close(2 * np.trace(p.hessian @ cov), noise, rtol=1e3 * EPS * p.condition)


@both
@theory_settings
@given(p=problems(max_log_cond=3.0))
def test_T1_T2_do_not_depend_on_units(solver: Solver, p: Problem) -> None:
    outer = np.outer(p.units, p.units)
    scaled = solver(p.gain, p.hessian, p.batch_noise_cov, p.injected_cov)
    plain = solver(
        p.gain * outer, p.hessian / outer, p.batch_noise_cov / outer, p.injected_cov * outer
    )
    assert mismatch(scaled * outer, plain) < 1e3 * EPS * p.spread


@both
@theory_settings
@given(p=problems())
def test_T1_T2_are_symmetric_and_positive(solver: Solver, p: Problem) -> None:
    cov = solver(p.gain, p.hessian, p.batch_noise_cov, p.injected_cov)
    assert mismatch(cov, cov.T) < 100 * EPS
    sd = np.sqrt(np.diag(cov))
    assert np.linalg.eigvalsh(cov / np.outer(sd, sd))[0] > -1e3 * EPS


@both
def test_T1_T2_no_injected_noise_is_zero_noise(solver: Callable[..., Matrix]) -> None:
    K, A, C_S = 0.3 * np.eye(2), np.array([[2.0, 1.0], [1.0, 3.0]]), np.diag([1.0, 5.0])
    np.testing.assert_array_equal(solver(K, A, C_S), solver(K, A, C_S, np.zeros((2, 2))))


@pytest.mark.parametrize("k", [1e-3, 0.5, 1.0, 1.9])
def test_T1_T2_scalar(k: float) -> None:
    a, c, q = 4.0, 3.0, 0.7
    gain, hessian, noise, injected = (np.array([[x]]) for x in (k / a, a, c, q))
    total = (k / a) ** 2 * c + q
    assert close(ou_covariance(gain, hessian, noise, injected), total / (2 * k), rtol=1e-14)
    finite = finite_step_covariance(gain, hessian, noise, injected)
    assert close(finite, total / (k * (2 - k)), rtol=1e-14)


@theory_settings
@given(problems(max_log_cond=2.0))
def test_T2_tends_to_T1_at_first_order(p: Problem) -> None:
    gaps = []
    for halvings in range(8, 12):
        s = 0.5**halvings
        args = (s * p.gain, p.hessian, p.batch_noise_cov, s * p.injected_cov)
        gaps.append(mismatch(finite_step_covariance(*args), ou_covariance(*args)))
    orders = -np.diff(np.log2(gaps))
    assert np.max(np.abs(orders - 1)) < 0.05


@pytest.mark.parametrize("excess", [1e-6, 0.1, 10.0])
@theory_settings
@given(p=problems(max_log_cond=3.0))
def test_T2_unstable_gives_nan(excess: float, p: Problem) -> None:
    K = p.gain * (2 + excess) / p.fastest
    assert not is_stable(K, p.hessian)
    assert np.all(np.isnan(finite_step_covariance(K, p.hessian, p.batch_noise_cov)))
    below = p.gain * (2 - min(excess, 1.0)) / p.fastest
    assert is_stable(below, p.hessian)
    assert np.all(np.isfinite(finite_step_covariance(below, p.hessian, p.batch_noise_cov)))


@pytest.mark.parametrize("k", [2.0, 2.5, 0.0, -0.5])
def test_T2_boundary_of_stability_is_outside(k: float) -> None:
    gain, hessian = np.eye(2), np.diag([0.5, k])  # no rounding: KA's eigenvalue is k itself
    assert not is_stable(gain, hessian)
    assert np.all(np.isnan(finite_step_covariance(gain, hessian, np.eye(2))))


@both
@theory_settings
@given(p=problems(min_dim=2, max_log_cond=3.0))
def test_T1_T2_indefinite_gain_gives_nan(solver: Solver, p: Problem) -> None:
    sd = np.sqrt(np.diag(p.gain))
    K = p.gain.copy()
    K[0, 1] = K[1, 0] = 1.5 * sd[0] * sd[1]
    assert not is_stable(K, p.hessian)
    assert np.all(np.isnan(modes(K, p.hessian).rates))
    assert np.all(np.isnan(solver(K, p.hessian, p.batch_noise_cov, p.injected_cov)))


@both
@theory_settings
@given(p=problems(min_dim=2, max_log_cond=3.0))
def test_T1_T2_saddle_gives_nan(solver: Solver, p: Problem) -> None:
    sd = np.sqrt(np.diag(p.hessian))
    A = p.hessian.copy()
    A[0, 1] = A[1, 0] = 1.5 * sd[0] * sd[1]
    assert not is_stable(p.gain, A)
    assert np.all(np.isnan(solver(p.gain, A, p.batch_noise_cov, p.injected_cov)))


@both
@theory_settings
@given(rates=st.lists(st.floats(1e-6, 1.99), min_size=1, max_size=6))
def test_T1_T2_batch_of_numbers_is_a_diagonal_problem(solver: Solver, rates: list[float]) -> None:
    k = np.array(rates)
    a, c, q = 1 + k, 2 - k, 3 * k**2
    batch = solver(*(x[:, None, None] for x in (k / a, a, c, q)))
    whole = solver(*(np.diag(x) for x in (k / a, a, c, q)))
    np.testing.assert_allclose(np.diag(batch[:, 0, 0]), whole, rtol=20 * EPS, atol=0)


@both
@theory_settings
@given(p=problems(max_log_cond=2.0))
def test_T1_T2_batch_of_blocks_is_a_block_diagonal_problem(solver: Solver, p: Problem) -> None:
    pairs = (
        (p.gain, p.gain / 3),
        (p.hessian, 2 * p.hessian),
        (p.batch_noise_cov, 2 * p.batch_noise_cov),
        (p.injected_cov, p.injected_cov / 5),
    )
    batch = solver(*(np.stack(pair) for pair in pairs))
    whole = solver(*(scipy.linalg.block_diag(*pair) for pair in pairs))
    assert mismatch(scipy.linalg.block_diag(*batch), whole) < 1e3 * EPS * p.spread


@pytest.mark.parametrize(
    ("rate", "steps"),
    [(1e-3, 1e3), (0.25, 4.0), (1.0, 1.0), (1.75, 4.0), (2.0, np.inf), (2.5, np.inf), (0, np.inf)],
)
def test_T2_relaxation_steps(rate: float, steps: float) -> None:
    assert close(relaxation_steps(np.array(rate)), steps, rtol=1e-12)
