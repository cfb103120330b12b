"""X12 along directions: what draws that did not choose them say."""

import numpy as np
import pytest
from scipy.linalg import eigvalsh

from ornstein._base.types import Vector
from ornstein.theory import held_out_curvature

BLOCKS = 8


def white(draws: Vector, gradients: Vector) -> tuple[Vector, Vector]:
    """In coordinates of the draws' mean and covariance."""
    flat = draws.reshape(-1, draws.shape[-1])
    root = np.linalg.cholesky(np.cov(flat, rowvar=False, ddof=0))
    return np.linalg.solve(root, (draws - flat.mean(axis=0)).swapaxes(-1, -2)).swapaxes(
        -1, -2
    ), gradients @ root


@pytest.mark.parametrize("shape", [3.0, np.inf])
def test_X12_held_out_curvature_is_unbiased_for_draws_of_the_posterior(shape: float) -> None:
    """Skewed or Gaussian, though extremes over all directions are far from 1 by chance."""
    rng = np.random.default_rng(0)
    dim, count, runs = 10, 30, 300
    mixing = np.tril(rng.normal(size=(dim, dim))) + 2 * np.eye(dim)
    found, extremes = [], []
    for _ in range(runs):
        if np.isinf(shape):
            u = rng.normal(size=(BLOCKS, count, dim))
            slope = u
        else:
            u = np.log(rng.gamma(shape, size=(BLOCKS, count, dim)))
            slope = np.exp(u) - shape
        z, g = white(u @ mixing.T, slope @ np.linalg.inv(mixing))
        found.append(
            held_out_curvature(list(z), [np.arange(0, count, 2)] * BLOCKS, list(g[:, ::2]))
        )
        flat, along = z.reshape(-1, dim), g.reshape(-1, dim)
        extremes.append(np.linalg.eigvalsh(flat.T @ along + along.T @ flat)[[0, -1]])
    means = np.mean(found, axis=1)
    error = means.std(axis=0, ddof=1) / np.sqrt(runs)
    chance = 2 / (BLOCKS * count / 2)  # of the mean that draws are centred by
    assert (np.abs(means.mean(axis=0) - 1) < 4 * error + chance).all()
    own = np.mean([np.std(one, axis=0, ddof=1) for one in found], axis=0) / np.sqrt(BLOCKS)
    np.testing.assert_allclose(own, means.std(axis=0, ddof=1), rtol=0.35)
    naive = np.array(extremes) / (2 * BLOCKS * count)
    assert naive[:, 0].mean() < 0.8


def test_X12_held_out_curvature_is_the_ratio_of_variances() -> None:
    """Of Gaussians, in the directions in which the ratio is least and greatest."""
    rng = np.random.default_rng(1)
    dim, count = 6, 1000
    drawn, posterior = (root @ root.T + np.eye(dim) for root in rng.normal(size=(2, dim, dim)))
    draws = rng.normal(size=(BLOCKS, count, dim)) @ np.linalg.cholesky(drawn).T + 3.0
    z, g = white(draws, (draws - 2.0) @ np.linalg.inv(posterior))
    found = held_out_curvature(list(z), [np.arange(0, count, 4)] * BLOCKS, list(g[:, ::4]))
    true = eigvalsh(drawn, posterior)[[0, -1]]
    np.testing.assert_allclose(found.mean(axis=0), true, rtol=5 * np.sqrt(2 / (BLOCKS * count)))
