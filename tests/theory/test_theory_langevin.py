"""Langevin and Hamiltonian dynamics: steps, noise, and steps that decrease (R8, X4)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ornstein.theory import (
    Decay,
    decreasing_covariance,
    finite_step_covariance,
    momentum_covariance,
    posterior_kl,
    sghmc,
    sghmc_step_limit,
    sgld,
    sgld_step_size,
)
from ornstein.theory.langevin import between, largest_rate
from support.strategies import Problem, dense, inverse, mismatch, problems, theory_settings

gentle = problems(max_log_cond=2.0, max_log_units=0.0)
frictions = st.floats(0.05, 1.0)


def shapes(p: Problem) -> list[np.ndarray]:
    """A gain of every structure."""
    return [np.asarray(0.3), 1 / np.diag(p.hessian), inverse(p.hessian)]


@theory_settings
@given(gentle, st.floats(0.001, 1.0))
def test_R8_the_step_chosen_costs_what_was_allowed(p: Problem, kl: float) -> None:
    A, C_S, N = p.hessian, p.batch_noise_cov, p.num_data
    M = inverse(N * A)
    step = sgld_step_size(A, C_S, N, M, kl)
    K, Q, _ = sgld(N, step, M)
    assert posterior_kl(finite_step_covariance(K, A, C_S, Q), A, N) == pytest.approx(kl, rel=1e-6)
    K, Q, _ = sgld(N, 1.1 * step, M)
    cov = finite_step_covariance(K, A, C_S, Q)
    assert np.isnan(cov).any() or posterior_kl(cov, A, N) > kl


@theory_settings
@given(gentle, frictions, st.floats(0.01, 0.99))
def test_X4_sghmc_is_exact_for_every_structure(p: Problem, mu: float, share: float) -> None:
    A, C_S, N = p.hessian, p.batch_noise_cov, p.num_data
    for unit in shapes(p):
        step = share * sghmc_step_limit(A, C_S, N, unit, mu)
        K, Q, friction = sghmc(A, C_S, N, step * unit, mu)
        assert friction == mu
        assert np.linalg.eigvalsh(dense(Q, p.dim)).min() > 0
        cov = momentum_covariance(dense(K, p.dim), A, C_S, mu, dense(Q, p.dim))
        assert mismatch(cov, p.posterior_cov) < 1e-6


@theory_settings
@given(gentle, frictions)
def test_X4_beyond_the_limit_the_noise_is_no_covariance(p: Problem, mu: float) -> None:
    A, C_S, N = p.hessian, p.batch_noise_cov, p.num_data
    for unit in shapes(p):
        limit = sghmc_step_limit(A, C_S, N, unit, mu)
        Q = sghmc(A, C_S, N, 1.01 * limit * unit, mu).injected_cov
        assert np.linalg.eigvalsh(dense(Q, p.dim)).min() < 0


@theory_settings
@given(gentle)
def test_X4_uncorrected_noise_is_right_as_steps_vanish(p: Problem) -> None:
    A, C_S, N = p.hessian, p.batch_noise_cov, p.num_data
    unit = inverse(A)

    def off(step: float) -> float:
        K, Q, mu = sghmc(A, C_S, N, step * unit, 0.3, corrected=False)
        return mismatch(momentum_covariance(K, A, C_S, mu, Q), p.posterior_cov)

    limit = sghmc_step_limit(A, C_S, N, unit, 0.3)
    assert off(1e-4 * limit) < 1e-3
    assert off(0.5 * limit) > 0.05


@theory_settings
@given(gentle)
def test_helpers_agree_with_matrices(p: Problem) -> None:
    for unit in shapes(p):
        K = dense(unit, p.dim)
        np.testing.assert_allclose(between(unit, p.hessian), K @ p.hessian @ K, rtol=1e-10)
        expected = np.linalg.eigvals(K @ p.hessian).real.max()
        assert largest_rate(unit, p.hessian) == pytest.approx(expected, rel=1e-8)
    a, k = np.diag(p.hessian), 1 / np.diag(p.noise_cov)
    np.testing.assert_allclose(between(k, a), k * a * k)
    assert largest_rate(k, a) == pytest.approx((k * a).max())


def test_R8_decreasing_steps_follow_the_recursion() -> None:
    """Against T2's recursion, step by step."""
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(3, 3))
    A, C_S = mix @ mix.T + np.eye(3), 0.02 * np.diag([1.0, 2.0, 0.5])
    K, Q, _ = sgld(100, 0.002, np.eye(3))
    assert Q is not None
    decay, first, last = Decay(0.55, 200.0), 300, 4000
    cov, total = finite_step_covariance(K, A, C_S, Q), np.zeros((3, 3))
    for step in range(last):
        scale = (1 + step / decay.steps) ** -decay.power
        shrink = np.eye(3) - scale * K @ A
        cov = shrink @ cov @ shrink.T + scale**2 * K @ C_S @ K + scale * Q
        total += cov if step >= first else 0.0
    found = decreasing_covariance(K, A, C_S, Q, decay, first, last)
    assert mismatch(found, total / (last - first)) < 1e-3
    constant = decreasing_covariance(K, A, C_S, Q, Decay(1e-12, 1.0), first, last)
    assert mismatch(constant, finite_step_covariance(K, A, C_S, Q)) < 1e-9


def test_R8_decreasing_steps_are_nan_where_unstable() -> None:
    one = np.eye(1)
    assert np.isnan(decreasing_covariance(3 * one, one, one, one, Decay(0.5, 10.0), 0, 10)).all()
