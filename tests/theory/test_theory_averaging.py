"""Averages of successive iterates (X5)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ornstein.theory import averaged_covariance, averaged_covariance_limit, finite_step_covariance
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


def double_sum(p: Problem, window: int) -> Matrix:
    """``1/T^2`` times the sum of ``Cov(theta_s, theta_t)`` over all s and t."""
    cov = finite_step_covariance(p.gain, p.hessian, p.batch_noise_cov, p.injected_cov)
    step = np.eye(p.dim) - p.gain @ p.hessian
    powers = [np.linalg.matrix_power(step, lag) for lag in range(window)]
    total = np.zeros_like(cov)
    for s in range(window):
        for t in range(window):
            total += powers[s - t] @ cov if s >= t else cov @ powers[t - s].T
    return total / window**2


@theory_settings
@given(problems(max_log_cond=2.0), st.integers(1, 25))
def test_X5_double_sum(p: Problem, window: int) -> None:
    cov = averaged_covariance(p.gain, p.hessian, p.batch_noise_cov, window, p.injected_cov)
    single = finite_step_covariance(p.gain, p.hessian, p.batch_noise_cov, p.injected_cov)
    sd = np.sqrt(np.diag(single))
    gap = np.abs(cov - double_sum(p, window)) / np.outer(sd, sd)
    assert np.max(gap) < 1e3 * EPS * p.condition


@theory_settings
@given(problems())
def test_X5_window_of_one_is_T2(p: Problem) -> None:
    args = (p.gain, p.hessian, p.batch_noise_cov)
    plain = finite_step_covariance(*args, p.injected_cov)
    assert mismatch(averaged_covariance(*args, 1, p.injected_cov), plain) < 1e3 * EPS * p.condition
    without = finite_step_covariance(*args)
    assert mismatch(averaged_covariance(*args, 1), without) < 1e3 * EPS * p.condition


@theory_settings
@given(problems(max_log_cond=1.0))
def test_X5_long_windows_reach_the_limit_at_first_order(p: Problem) -> None:
    gaps = []
    for doublings in (18, 19, 20):
        window = 2**doublings
        cov = averaged_covariance(p.gain, p.hessian, p.batch_noise_cov, window)
        limit = averaged_covariance_limit(p.hessian, p.noise_cov, p.batch_size, window)
        gaps.append(mismatch(cov, limit))
    assert gaps[-1] < 0.01
    assert np.max(np.abs(-np.diff(np.log2(gaps)) - 1)) < 0.02


@theory_settings
@given(problems())
def test_X5_limit_formula(p: Problem) -> None:
    """``A^-1 C A^-1 / (T S)``."""
    limit = averaged_covariance_limit(p.hessian, p.noise_cov, p.batch_size, window=40)
    expected = inverse(p.hessian) @ p.noise_cov @ inverse(p.hessian) / (40 * p.batch_size)
    assert mismatch(limit, expected) < 1e3 * EPS * p.condition**2


@theory_settings
@given(problems(max_log_cond=4.0))
def test_X5_well_specified_window_N_over_S_gives_the_posterior(p: Problem) -> None:
    window = p.num_data // p.batch_size
    limit = averaged_covariance_limit(p.hessian, p.hessian, p.batch_size, window)
    expected = p.posterior_cov * p.num_data / (window * p.batch_size)
    assert mismatch(limit, expected) < 1e3 * EPS * p.condition


@pytest.mark.parametrize("window", [1, 2, 3, 10, 1000, 100_000])
@pytest.mark.parametrize("reach", [1e-12, 1e-6, 1e-3, 0.1, 0.499, 0.501, 1.0, 10.0])
def test_X5_slow_rates_keep_their_digits(window: int, reach: float) -> None:
    """Against the plain sum, from ``T k`` far below 1 to far above."""
    k = min(reach / window, 0.9)
    one = np.eye(1)
    lags = math.fsum((window - t) * math.exp(t * math.log1p(-k)) for t in range(1, window))
    expected = (window + 2 * lags) / window**2 / (k * (2 - k)) * k**2
    # The T-th power of 1 - k carries T rounding errors.
    rounding = (1e3 + window) * EPS
    cov = averaged_covariance(k * one, one, one, window)
    assert close(cov, expected, rtol=10 * rounding)


@pytest.mark.parametrize("k", [1.0, 1.5, 1.99])
def test_X5_fast_rates(k: float) -> None:
    """Where successive iterates alternate, averages shrink faster than 1/T."""
    one, T = np.eye(1), 9
    single = k / (2 - k)
    lags = sum((T - t) * (1 - k) ** t for t in range(1, T))
    expected = single * (T + 2 * lags) / T**2
    assert close(averaged_covariance(k * one, one, one, T).item(), expected, rtol=1e-12)
    assert expected <= single / T * (1 + EPS)


@pytest.mark.parametrize("k", [2.0, 2.5, -0.5])
@pytest.mark.parametrize("window", [1, 10])
def test_X5_unstable_gives_nan(k: float, window: int) -> None:
    one = np.eye(1)
    assert np.isnan(averaged_covariance(one, k * one, one, window))


@pytest.mark.parametrize(("k", "a"), [(2.5, 1.0), (1.0, 0.0)], ids=["diverges", "flat"])
def test_X5_unstable_gives_nan_for_long_windows_and_flat_losses(k: float, a: float) -> None:
    one = np.eye(1)
    assert np.isnan(averaged_covariance(k * one, a * one, one, 10_000))


@theory_settings
@given(rates=st.lists(st.floats(1e-6, 1.99), min_size=1, max_size=6), window=st.integers(1, 1000))
def test_X5_batch_of_numbers_is_a_diagonal_problem(rates: list[float], window: int) -> None:
    k = np.array(rates)
    a, c = 1 + k, 3 - k
    K, A, C_S = (np.asarray(x)[:, None, None] for x in (k / a, a, c))
    batch = averaged_covariance(K, A, C_S, window)
    K, A, C_S = (np.diag(x) for x in (k / a, a, c))
    whole = averaged_covariance(K, A, C_S, window)
    np.testing.assert_allclose(np.diag(batch[:, 0, 0]), whole, rtol=1e-11, atol=0)
    limits = averaged_covariance_limit(a[:, None, None], c[:, None, None], 4, window)
    whole = averaged_covariance_limit(np.diag(a), np.diag(c), 4, window)
    np.testing.assert_allclose(np.diag(limits[:, 0, 0]), whole, rtol=1e-12, atol=0)
