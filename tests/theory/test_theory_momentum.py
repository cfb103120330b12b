"""Momentum (X4)."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from ornstein.theory import (
    finite_step_covariance,
    finite_step_sgd,
    is_stable,
    momentum_covariance,
    momentum_sgd,
    ou_covariance,
    phase_space_covariance,
    relaxation_steps,
    stability_limit,
    within_limits,
)
from support.strategies import EPS, Matrix, Problem, close, mismatch, problems, theory_settings

MOMENTA = (1.0, 0.5, 0.1)


def joint_covariance(p: Problem, gain: Matrix, mu: float) -> Matrix:
    """Stationary covariance of (position, velocity), by scipy."""
    one, drift = np.eye(p.dim), gain @ p.hessian
    step = np.block([[one - drift, (1 - mu) * one], [-drift, (1 - mu) * one]])
    noise = gain @ p.batch_noise_cov @ gain + p.injected_cov
    return np.asarray(
        scipy.linalg.solve_discrete_lyapunov(step, np.tile(noise, (2, 2)), method="direct")
    )


@pytest.mark.parametrize("mu", MOMENTA)
@theory_settings
@given(p=problems(max_log_cond=3.0))
def test_X4_makes_the_position_the_posterior(mu: float, p: Problem) -> None:
    K, Q, friction = momentum_sgd(p.hessian, p.batch_noise_cov, p.num_data, mu)
    assert (Q, friction) == (None, mu)
    assert is_stable(K, p.hessian, mu)
    cov = momentum_covariance(K, p.hessian, p.batch_noise_cov, mu)
    slowest = p.num_data * p.condition**2 / p.batch_size
    assert mismatch(cov, p.posterior_cov) < 100 * EPS * slowest


@pytest.mark.parametrize("mu", MOMENTA)
@theory_settings
@given(p=problems(max_log_cond=2.0, max_log_units=0.0))
def test_X4_agrees_with_the_joint_system(mu: float, p: Problem) -> None:
    cov = momentum_covariance(p.gain, p.hessian, p.batch_noise_cov, mu, p.injected_cov)
    expected = joint_covariance(p, p.gain, mu)[: p.dim, : p.dim]
    assert mismatch(cov, expected) < 1e4 * EPS * p.spread / p.fastest


@theory_settings
@given(problems(max_log_cond=3.0))
def test_X4_without_momentum_is_T2_and_X1(p: Problem) -> None:
    args = (p.gain, p.hessian, p.batch_noise_cov)
    plain = finite_step_covariance(*args, p.injected_cov)
    slowest = p.spread / p.fastest
    assert mismatch(momentum_covariance(*args, 1.0, p.injected_cov), plain) < 100 * EPS * slowest
    K = momentum_sgd(p.hessian, p.batch_noise_cov, p.num_data, 1.0).gain
    expected = finite_step_sgd(p.hessian, p.batch_noise_cov, p.num_data).gain
    assert mismatch(K, expected) < 100 * EPS


@theory_settings
@given(
    mu=st.floats(0.01, 1.9),
    share=st.floats(1e-6, 0.999),
    a=st.floats(1e-3, 1e3),
    c=st.floats(1e-3, 1e3),
)
def test_X4_number(mu: float, share: float, a: float, c: float) -> None:
    """``k c (2-mu) / (a mu (2 (2-mu) - k a))``, k the gain."""
    k = share * 2 * (2 - mu) / a
    expected = k * c * (2 - mu) / (a * mu * (2 * (2 - mu) - k * a))
    K, A, C_S = (np.array([[x]]) for x in (k, a, c))
    cov = momentum_covariance(K, A, C_S, mu)
    assert close(cov.item(), expected, rtol=1e-8)


@pytest.mark.parametrize("mu", [1.0, 0.5, 0.1, 1.5])
@theory_settings
@given(p=problems(max_log_cond=2.0))
def test_X4_limit_of_stability(mu: float, p: Problem) -> None:
    """Stable where every eigenvalue of KA is below ``2 (2 - mu)``, NaN elsewhere."""
    at_limit = p.gain * 2 * (2 - mu) / p.fastest
    for factor, stable in ((1 - 1e-6, True), (1 + 1e-6, False), (3.0, False)):
        K = factor * at_limit
        cov = momentum_covariance(K, p.hessian, p.batch_noise_cov, mu)
        assert is_stable(K, p.hessian, mu) is stable
        assert np.all(np.isfinite(cov)) if stable else np.all(np.isnan(cov))


@pytest.mark.parametrize("mu", [1.0, 0.4, 1.5])
def test_X4_limits_of_rates(mu: float) -> None:
    limit = 2 * (2 - mu)
    assert stability_limit(mu) == limit
    assert within_limits(np.array([1e-9, 0.999 * limit]), limit)
    for rate in (0.0, -0.1, limit, np.nan):
        assert not within_limits(np.array([0.1, rate]), limit)


@pytest.mark.parametrize("mu", [0.0, -0.1, 2.0])
def test_X4_friction_outside_its_range_is_unstable(mu: float) -> None:
    K, A = 0.01 * np.eye(2), np.eye(2)
    assert not is_stable(K, A, mu)
    assert np.all(np.isnan(momentum_covariance(K, A, A, mu)))


@pytest.mark.parametrize("mu", [0.5, 0.1])
@theory_settings
@given(p=problems(max_log_cond=2.0))
def test_X4_small_gain_is_a_gain_larger_by_one_over_mu(mu: float, p: Problem) -> None:
    """The journal version's rule: T1 with ``K / mu``, approached at first order."""
    gaps = []
    for halvings in (10, 11, 12):
        K = 0.5**halvings * p.gain
        cov = momentum_covariance(K, p.hessian, p.batch_noise_cov, mu)
        gaps.append(mismatch(cov, ou_covariance(K / mu, p.hessian, p.batch_noise_cov)))
    assert gaps[-1] < 0.02
    assert np.max(np.abs(-np.diff(np.log2(gaps)) - 1)) < 0.1


@pytest.mark.parametrize("mu", MOMENTA)
@theory_settings
@given(shares=st.lists(st.floats(1e-3, 0.999), min_size=1, max_size=6))
def test_X4_batch_of_numbers_is_a_diagonal_problem(mu: float, shares: list[float]) -> None:
    k = 2 * (2 - mu) * np.array(shares)
    a, c, q = 1 + k, 5 - k, k**2
    K, A, C_S, Q = (np.asarray(x)[:, None, None] for x in (k / a, a, c, q))
    batch = momentum_covariance(K, A, C_S, mu, Q)
    K, A, C_S, Q = (np.diag(x) for x in (k / a, a, c, q))
    whole = momentum_covariance(K, A, C_S, mu, Q)
    assert mismatch(np.diag(batch[:, 0, 0]), whole) < 1e-10


@pytest.mark.parametrize("mu", [1.0, 0.7, 0.2, 0.01])
@pytest.mark.parametrize("rate", [1e-4, 0.1, 0.9, 1.9, 3.5, 5.0])
def test_X4_relaxation_steps(mu: float, rate: float) -> None:
    step = np.array([[1 - rate, 1 - mu], [-rate, 1 - mu]])
    radius = np.max(np.abs(np.linalg.eigvals(step)))
    expected = 1 / (1 - radius) if radius < 1 else np.inf
    assert close(relaxation_steps(np.array(rate), mu), expected, rtol=1e-6)
    assert (radius < 1) == is_stable(np.array([[rate]]), np.eye(1), mu)


@theory_settings
@given(problems(max_log_cond=2.0, max_log_units=0.0), st.floats(0.05, 1.0))
def test_X4_position_and_velocity_together_are_stationary(p: Problem, mu: float) -> None:
    """One more step leaves the joint covariance as it is."""
    K, A, C_S, Q, D = p.gain, p.hessian, p.batch_noise_cov, p.injected_cov, p.dim
    joint = phase_space_covariance(K, A, C_S, mu, Q)
    push, keep = K @ A, (1 - mu) * np.eye(D)
    step = np.block([[np.eye(D) - push, keep], [-push, keep]])
    noise = np.tile(K @ C_S @ K + Q, (2, 2))
    assert mismatch(step @ joint @ step.T + noise, joint) < 1e-7
    assert np.array_equal(joint[:D, :D], momentum_covariance(K, A, C_S, mu, Q))
    unstable = phase_space_covariance(K * (4.1 / p.fastest), A, C_S, mu, Q)
    assert unstable.shape == (2 * D, 2 * D)
    assert np.isnan(unstable).all()
