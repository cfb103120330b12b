"""Divergence from the posterior (T3)."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from ornstein.theory import gaussian_kl, ou_covariance, posterior_kl
from support.strategies import EPS, Problem, close, problems, theory_settings


@theory_settings
@given(problems(max_log_cond=4.0))
def test_T3_direct_formula(p: Problem) -> None:
    A, N = p.hessian, p.num_data
    cov = ou_covariance(p.gain, A, p.batch_noise_cov, p.injected_cov)
    trace = N * np.trace(A @ cov)
    logdets = np.linalg.slogdet(N * A)[1] + np.linalg.slogdet(cov)[1]
    expected = 0.5 * (trace - logdets - p.dim)
    size = trace + abs(logdets) + p.spread * p.condition
    assert abs(posterior_kl(cov, A, N) - expected) < 1e3 * EPS * size


@theory_settings
@given(
    variance=st.floats(1e-6, 1e6),
    target=st.floats(1e-6, 1e6),
    offset=st.floats(-1e3, 1e3),
)
def test_T3_numbers(variance: float, target: float, offset: float) -> None:
    """``log(s_p / s_q) + (s_q^2 + m^2) / (2 s_p^2) - 1/2``."""
    expected = 0.5 * np.log(target / variance) + (variance + offset**2) / (2 * target) - 0.5
    measured = gaussian_kl(np.array([[variance]]), np.array([[1 / target]]), np.array([offset]))
    assert close(measured, expected, rtol=1e-12, atol=1e-14)


@theory_settings
@given(problems())
def test_T3_zero_at_equality_and_positive_elsewhere(p: Problem) -> None:
    at_target = posterior_kl(p.posterior_cov, p.hessian, p.num_data)
    assert 0 <= at_target < 1e3 * EPS * p.condition
    for factor in (0.5, 2.0):
        off = posterior_kl(factor * p.posterior_cov, p.hessian, p.num_data)
        assert close(off, 0.5 * p.dim * (factor - 1 - np.log(factor)), rtol=1e-6)


@pytest.mark.parametrize("excess", [1e-2, -1e-2, 1e-5, -1e-5])
def test_T3_small_values_keep_their_digits(excess: float) -> None:
    """``KL = x^2/4 - x^3/6 + ...`` for a variance off by a fraction x."""
    x = excess
    expected = x**2 / 4 - x**3 / 6 + x**4 / 8 - x**5 / 10
    measured = gaussian_kl(np.array([[1 + x]]), np.eye(1))
    assert abs(measured - expected) < EPS + x**6


@theory_settings
@given(problems(), st.integers(0, 2**32 - 1))
def test_T3_mean_offset(p: Problem, seed: int) -> None:
    """An offset m adds ``N/2 m'Am`` and nothing else."""
    m = np.random.default_rng(seed).normal(size=p.dim) / p.units / np.sqrt(p.num_data)
    cov = 1.5 * p.posterior_cov
    centred = posterior_kl(cov, p.hessian, p.num_data)
    shifted = posterior_kl(cov, p.hessian, p.num_data, m)
    size = p.num_data * np.abs(m) @ np.abs(p.hessian) @ np.abs(m)
    expected = p.num_data / 2 * m @ p.hessian @ m
    assert abs(shifted - centred - expected) < 100 * EPS * (centred + size)


@theory_settings
@given(problems(max_log_cond=3.0))
def test_T3_does_not_depend_on_units(p: Problem) -> None:
    outer = np.outer(p.units, p.units)
    cov = p.gain / p.num_data
    scaled = posterior_kl(cov, p.hessian, p.num_data)
    plain = posterior_kl(cov * outer, p.hessian / outer, p.num_data)
    assert close(scaled, plain, rtol=0, atol=1e3 * EPS * p.spread)


@theory_settings
@given(problems(min_dim=2))
def test_T3_posterior_is_gaussian_with_precision_N_A(p: Problem) -> None:
    cov, m = p.gain, 1 / p.units
    assert posterior_kl(cov, p.hessian, p.num_data, m) == gaussian_kl(
        cov, p.num_data * p.hessian, m
    )


@pytest.mark.parametrize("cov", [np.diag([1.0, 0.0]), np.zeros((2, 2)), np.diag([1.0, -1.0])])
def test_T3_degenerate_covariance_is_infinitely_far(cov: np.ndarray) -> None:
    assert posterior_kl(cov, np.eye(2), 10) == np.inf


def test_T3_nan_in_nan_out() -> None:
    one = np.eye(2)
    assert np.isnan(gaussian_kl(np.array([[1.0, 0.0], [0.0, np.nan]]), one))
    assert np.isnan(gaussian_kl(np.full((2, 2), np.nan), one))
    assert np.isnan(gaussian_kl(one, one, np.array([0.0, np.nan])))
    batch = np.stack([one, np.nan * one])
    assert np.isnan(gaussian_kl(batch, np.stack([one, one])))


@theory_settings
@given(problems(max_log_cond=2.0))
def test_T3_batch_adds_up(p: Problem) -> None:
    covs = np.stack([p.posterior_cov * 2, p.gain / p.num_data])
    offsets = np.stack([0.1 / p.units, 0.2 / p.units])
    precisions = np.stack([p.num_data * p.hessian] * 2)
    together = gaussian_kl(covs, precisions, offsets)
    apart = sum(gaussian_kl(*one) for one in zip(covs, precisions, offsets, strict=True))
    whole = gaussian_kl(
        scipy.linalg.block_diag(*covs),
        scipy.linalg.block_diag(*precisions),
        offsets.reshape(-1),
    )
    assert close(together, apart, rtol=1e-12)
    assert close(together, whole, rtol=1e-9)
