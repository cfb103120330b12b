"""The paper's recipes without injected noise: constant, full, diagonal and square root (R1-R4)."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.optimize
from hypothesis import assume, given

from ornstein.theory import (
    Recipe,
    constant_sgd,
    diagonal_sgd,
    full_sgd,
    is_stable,
    optimal_batch_size,
    ou_covariance,
    posterior_kl,
    square_root_sgd,
)
from support.strategies import (
    EPS,
    Matrix,
    Problem,
    close,
    dense,
    mismatch,
    problems,
    random_spd,
    theory_settings,
)

scaled_recipes = pytest.mark.parametrize(
    "recipe",
    [pytest.param(constant_sgd, id="R1"), pytest.param(square_root_sgd, id="R4")],
)


def ou_kl(p: Problem, gain: Matrix) -> float:
    """KL to the posterior (T3) of the covariance in the Ornstein-Uhlenbeck limit (T1)."""
    return posterior_kl(ou_covariance(gain, p.hessian, p.batch_noise_cov), p.hessian, p.num_data)


@scaled_recipes
@theory_settings
@given(p=problems(max_log_cond=3.0, max_log_units=1.0))
def test_R1_R4_step_minimises_the_divergence(
    recipe: Callable[[Matrix, int], Recipe], p: Problem
) -> None:
    """The derivative of KL in ``log eps`` is ``(N Tr(A Sigma) - D) / 2``; it must vanish."""
    K = dense(recipe(p.batch_noise_cov, p.num_data).gain, p.dim)
    cov = ou_covariance(K, p.hessian, p.batch_noise_cov)
    slope = p.num_data * np.trace(p.hessian @ cov) - p.dim
    assert abs(slope) < 1e4 * EPS * p.condition
    at_optimum = ou_kl(p, K)
    assert at_optimum < ou_kl(p, 1.01 * K)
    assert at_optimum < ou_kl(p, 0.99 * K)


@scaled_recipes
@theory_settings
@given(p=problems(max_log_cond=1.0, max_log_units=0.0))
def test_R1_R4_step_agrees_with_a_numerical_minimum(
    recipe: Callable[[Matrix, int], Recipe], p: Problem
) -> None:
    K = dense(recipe(p.batch_noise_cov, p.num_data).gain, p.dim)
    found = scipy.optimize.minimize_scalar(
        lambda log_scale: ou_kl(p, np.exp(log_scale) * K), bracket=(-0.5, 0.7), tol=1e-10
    )
    assert abs(found.x) < 1e-5


@theory_settings
@given(problems())
def test_R1_paper_form(p: Problem) -> None:
    """``eps = 2 D S / (N Tr C)``."""
    N, S, D = p.num_data, p.batch_size, p.dim
    gain = constant_sgd(p.noise_cov / S, N).gain
    assert gain.ndim == 0
    assert close(gain, 2 * D * S / (N * np.trace(p.noise_cov)), rtol=20 * EPS)
    assert constant_sgd(np.diag(p.noise_cov) / S, N).gain == gain


@theory_settings
@given(problems())
def test_R1_batch_size_is_the_inverse_relation(p: Problem) -> None:
    """``S = eps N Tr C / (2 D)``: only eps/S is fixed."""
    step = float(constant_sgd(p.batch_noise_cov, p.num_data).gain)
    best = optimal_batch_size(step, p.noise_cov, p.num_data)
    assert close(best, p.batch_size, rtol=20 * EPS)
    twice = optimal_batch_size(2 * step, np.diag(p.noise_cov), p.num_data)
    assert close(twice, 2 * p.batch_size, rtol=20 * EPS)


@theory_settings
@given(problems(max_log_cond=3.0))
def test_R2_makes_T1_the_posterior(p: Problem) -> None:
    K = full_sgd(p.batch_noise_cov, p.num_data).gain
    cov = ou_covariance(K, p.hessian, p.batch_noise_cov)
    assert mismatch(cov, p.posterior_cov) < 100 * EPS * p.condition**2
    assert posterior_kl(cov, p.hessian, p.num_data) < 1e-9


@theory_settings
@given(problems())
def test_R2_gain_inverts_the_noise(p: Problem) -> None:
    """``K C = (2 S / N) I``."""
    K = full_sgd(p.batch_noise_cov, p.num_data).gain
    product = K @ p.noise_cov * p.num_data / (2 * p.batch_size)
    plain = product * p.units[:, None] / p.units
    assert np.max(np.abs(plain - np.eye(p.dim))) < 1e3 * EPS * p.condition


@theory_settings
@given(problems())
def test_R3_formula_and_diagonal_input(p: Problem) -> None:
    """``K_kk = 2 S / (N C_kk)``."""
    gain = diagonal_sgd(p.batch_noise_cov, p.num_data).gain
    expected = 2 * p.batch_size / (p.num_data * np.diag(p.noise_cov))
    np.testing.assert_allclose(gain, expected, rtol=20 * EPS)
    np.testing.assert_array_equal(diagonal_sgd(np.diag(p.batch_noise_cov), p.num_data).gain, gain)


@theory_settings
@given(problems())
def test_R3_minimises_the_paper_objective(p: Problem) -> None:
    """``(N/2) Tr(C_S K) - log|K|`` over diagonal K, along every axis."""
    best = diagonal_sgd(p.batch_noise_cov, p.num_data).gain

    def objective(gain: Matrix) -> float:
        trace = np.trace(p.batch_noise_cov @ np.diag(gain))
        return float(p.num_data / 2 * trace - np.sum(np.log(gain)))

    for axis in range(p.dim):
        for factor in (0.99, 1.01):
            moved = best.copy()
            moved[axis] *= factor
            excess = objective(moved) - objective(best)
            assert close(excess, factor - 1 - np.log(factor), rtol=1e-6)


@theory_settings
@given(problems())
def test_R3_is_R2_for_diagonal_noise(p: Problem) -> None:
    C_S = np.diag(np.diag(p.batch_noise_cov))
    diagonal, full = diagonal_sgd(C_S, p.num_data), full_sgd(C_S, p.num_data)
    assert mismatch(full.gain, np.diag(diagonal.gain)) < 100 * EPS


@theory_settings
@given(problems())
def test_R4_paper_form(p: Problem) -> None:
    """``K = eps G^-1``, ``G = sqrt(diag C)``, ``eps = 2 D S / (N Tr(C G^-1))``."""
    N, S, D = p.num_data, p.batch_size, p.dim
    G = np.sqrt(np.diag(p.noise_cov))
    eps = 2 * D * S / (N * np.trace(p.noise_cov @ np.diag(1 / G)))
    recipe = square_root_sgd(p.batch_noise_cov, N)
    np.testing.assert_allclose(recipe.gain, eps / G, rtol=20 * EPS)
    np.testing.assert_array_equal(square_root_sgd(np.diag(p.batch_noise_cov), N).gain, recipe.gain)


@pytest.mark.parametrize("recipe", [constant_sgd, full_sgd, diagonal_sgd, square_root_sgd])
def test_R1_R2_R3_R4_scale_with_batch_and_data(recipe: Callable[[Matrix, int], Recipe]) -> None:
    """The gain is proportional to S/N; nothing is injected, and there is no momentum."""
    C = random_spd(np.random.default_rng(0), 4, 2.0)
    base, larger = recipe(C, 1000), recipe(C / 5, 3000)
    np.testing.assert_allclose(larger.gain, 5 / 3 * base.gain, rtol=1e-12)
    assert base.injected_cov is None
    assert base.friction == 1


def test_R1_R2_R3_R4_coincide_for_isotropic_noise() -> None:
    C_S = 0.3 * np.eye(3)
    expected = 2 / (50 * 0.3) * np.eye(3)
    for recipe in (constant_sgd, full_sgd, diagonal_sgd, square_root_sgd):
        np.testing.assert_allclose(dense(recipe(C_S, 50).gain, 3), expected, rtol=1e-14)


@theory_settings
@given(problems(min_dim=2, max_log_cond=2.0))
def test_R2_vanishing_noise_is_seen_as_unstable(p: Problem) -> None:
    """In directions without noise the gain is huge but finite, so T2's test can name them."""
    assume(p.factor.size > 0)
    K = full_sgd(p.singular_cov, p.num_data).gain
    assert np.all(np.isfinite(K))
    assert not is_stable(K, p.hessian)


def test_R3_vanishing_noise_is_seen_as_unstable() -> None:
    K = diagonal_sgd(np.diag([1.0, 0.0]), 100).gain
    assert np.all(np.isfinite(K))
    assert not is_stable(np.diag(K), np.eye(2))


@pytest.mark.parametrize("recipe", [constant_sgd, full_sgd, diagonal_sgd, square_root_sgd])
def test_R1_R2_R3_R4_no_noise_at_all_is_seen_as_unstable(
    recipe: Callable[[Matrix, int], Recipe],
) -> None:
    """A full batch drawn without replacement has no gradient noise."""
    K = dense(recipe(np.zeros((2, 2)), 100).gain, 2)
    assert np.all(np.isfinite(K))
    assert not is_stable(K, np.eye(2))


@pytest.mark.parametrize("recipe", [diagonal_sgd, square_root_sgd])
def test_R3_R4_units_far_apart(recipe: Callable[[Matrix, int], Recipe]) -> None:
    """Parameters whose scales differ by 1e9 are each treated in their own units."""
    noise, units = np.array([2.0, 3.0]), np.array([1e-5, 1e4])
    plain, scaled = recipe(noise, 100).gain, recipe(noise * units**2, 100).gain
    power = 2 if recipe is diagonal_sgd else 1
    ratio = scaled / plain * units**power
    assert close(ratio[0], ratio[1], rtol=1e-12)
