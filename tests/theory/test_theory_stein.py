"""X12: what Stein's identities say of draws, where the posterior is known."""

import numpy as np
import pytest
from hypothesis import given
from scipy.special import digamma, polygamma

from ornstein._base.types import Vector
from ornstein.theory import (
    MarginalMoments,
    implied_errors,
    marginal_errors,
    marginal_moments,
    stein_moments,
)
from support.strategies import Problem, problems, theory_settings


@theory_settings
@given(p=problems(max_log_cond=3.0))
def test_X12_errors_of_gaussian_draws_are_exact(p: Problem) -> None:
    """Draws of any other Gaussian, whichever of them the gradient was taken at."""
    rng = np.random.default_rng(0)
    posterior = p.posterior_cov
    sd = np.sqrt(np.diagonal(posterior))
    offset = 0.3 * sd * rng.normal(size=p.dim)
    other = np.diag(1 + rng.random(p.dim))
    root = np.linalg.cholesky(posterior) @ other
    z = rng.normal(size=(4 * p.dim + 10, p.dim))
    gradients = (offset + z @ root.T) @ np.linalg.inv(posterior) @ root
    found = implied_errors(stein_moments(z, gradients, root), root)
    drawn = np.sqrt(np.diagonal(root @ root.T))
    np.testing.assert_allclose(found.mean, offset / sd, atol=1e-7)
    np.testing.assert_allclose(found.sd, drawn / sd - 1, atol=1e-7)


@pytest.mark.parametrize("shape", [3.0, 20.0])
def test_X12_moments_vanish_for_draws_of_a_skewed_posterior(shape: float) -> None:
    """The logarithm of a Gamma variable: -log p = exp(u) - shape u, up to a constant."""
    rng = np.random.default_rng(1)
    u = np.log(rng.gamma(shape, size=(20, 20_000)))
    centre, scale = digamma(shape), np.sqrt(polygamma(1, shape))
    z = (u - centre) / scale
    gradient = scale * (np.exp(u) - shape)
    one = np.ones((1, 1))
    parts = zip(z, gradient, strict=True)
    cut = [stein_moments(a[:, None], b[:, None], one) for a, b in parts]
    for part, expected in zip(zip(*cut, strict=True), (0.0, 1.0, 0.0), strict=True):
        values = np.ravel(part)
        error = values.std(ddof=1) / np.sqrt(len(values))
        assert abs(values.mean() - expected) < 4 * error + 1e-12


@pytest.mark.parametrize("mixing", [np.eye(1), np.array([[1.0, 0.0], [1.0, -1.0]])])
def test_X12_laplace_is_seen_to_miss_mean_and_skewness(mixing: Vector) -> None:
    """Draws of the Gaussian at the mode, log(shape), of variance 1 / shape; then sums of such."""
    shape, dim = 20.0, len(mixing)
    rng = np.random.default_rng(2)
    z = rng.normal(size=(200_000, dim))
    u = np.log(shape) + z / np.sqrt(shape)
    root = mixing / np.sqrt(shape)
    moments = stein_moments(z, (np.exp(u) - shape) / np.sqrt(shape), root)
    found = implied_errors(moments, root)
    exact = np.log(rng.gamma(shape, size=(1_000_000, dim))) @ mixing.T
    centred = (exact - exact.mean(axis=0)) / exact.std(axis=0)
    mode = np.log(shape) * mixing.sum(axis=1)
    truth = (mode - exact.mean(axis=0)) / exact.std(axis=0)
    np.testing.assert_allclose(found.mean, truth, atol=0.01)
    np.testing.assert_allclose(found.skewness, -np.mean(centred**3, axis=0), atol=0.03)


def test_X12_bend_of_a_normal_posterior_is_the_third_hermite_polynomial() -> None:
    """Of few draws, whose mean is not zero: what is linear in them does not count."""
    z = np.array([[-1.0], [0.5], [2.0]])
    found = stein_moments(z, z, 3 * np.eye(1)).bend
    np.testing.assert_allclose(found, np.mean(z**3 - 3 * z), rtol=1e-12)


BLOCKS = 8


def test_X12_marginal_moments_are_unbiased() -> None:
    """Of no more draws than parameters, too: with C of the same draws, curvature would be 2."""
    rng = np.random.default_rng(3)
    dim, draws = 40, 5
    root = np.tril(rng.normal(size=(dim, dim))) + 6 * np.eye(dim)
    root = root / np.linalg.norm(root, axis=1, keepdims=True)
    precision = np.linalg.inv(root @ root.T)
    found, offsets = [], []
    for _ in range(200):
        z = rng.normal(size=(BLOCKS, draws, dim)) @ root.T
        moments = marginal_moments(z, [np.arange(draws)] * BLOCKS, z @ precision)
        found.append([part[0] for part in moments[:4]])
        offsets.append(moments.offset[0])
    mean = np.mean(found, axis=(0, 2))  # over parameters, too
    error = np.std(np.mean(found, axis=2), axis=0, ddof=1) / np.sqrt(200)
    ratios = 4 / (BLOCKS * draws)  # bias of ratios of sums over T draws, of order 1 / T
    assert (np.abs(mean - [0.0, 1.0, 0.0, 0.0]) < 4 * error + ratios).all()
    assert abs(np.mean(offsets)) < 4 * np.std(offsets, ddof=1) / np.sqrt(200)


def test_X12_marginal_errors_are_exact_for_draws_of_another_scale() -> None:
    """Where C is a multiple of a Gaussian posterior's, but for chance in C."""
    rng = np.random.default_rng(4)
    dim, draws = 4, 250
    root = np.tril(rng.normal(size=(dim, dim))) + 2 * np.eye(dim)
    z = rng.normal(size=(BLOCKS, draws, dim)) @ root.T
    z = z - z.mean(axis=(0, 1))
    scale = z.std(axis=(0, 1))
    precision = 1.44 * np.linalg.inv(root @ root.T)  # draws 1.2 times too wide
    sd = np.sqrt(np.diagonal(np.linalg.inv(precision)))
    offset = np.array([0.3, 0.0, 0.0, 0.0]) * sd
    gradients = (z + offset) @ precision * scale
    moments = marginal_moments(z / scale, [np.arange(draws)] * BLOCKS, gradients)
    found = marginal_errors(moments)
    total = BLOCKS * draws
    chance = 4 * 1.2 * np.sqrt(dim) / total
    through = 4 * 1.2 * np.sqrt(offset @ precision @ offset / total)  # C's error along the offset
    np.testing.assert_allclose(found.mean[0], offset / sd, atol=chance + through)
    np.testing.assert_allclose(found.sd[0], scale / sd - 1, atol=chance)
    distance = 1.44 * offset @ precision @ offset / dim
    assert moments.offset[0] == pytest.approx(distance, rel=4 * np.sqrt(2 / total) + 0.02)


def test_X12_draws_that_miss_correlations_are_too_narrow() -> None:
    """Draws with the deviations of each parameter given the others, to second order."""
    correlation = 0.2 * np.ones((3, 3)) + 0.8 * np.eye(3)
    spread = np.sum(correlation**2, axis=1) - 1
    zero, one = np.zeros(3), np.ones(3)
    found = marginal_errors(MarginalMoments(zero, one, spread, zero, zero)).sd
    true = 1 / np.sqrt(np.diagonal(np.linalg.inv(correlation))) - 1
    np.testing.assert_allclose(found, true, atol=0.2**3)


def test_X12_no_marginal_errors_where_the_curvature_is_not_positive() -> None:
    wrong = np.array([-0.1, 1.0])
    zero = np.zeros(2)
    found = marginal_errors(MarginalMoments(zero, wrong, zero, zero, zero))
    assert np.isnan(found.sd).tolist() == [True, False]
