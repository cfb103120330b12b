"""What draws show: their divergence from a Gaussian, and how much of it is Monte-Carlo error."""

from typing import NamedTuple

import numpy as np

from ornstein._types import Vector
from ornstein.theory import gaussian_kl

_BATCHES = 20  # batches a chain is cut into for Monte-Carlo errors


class MeasuredKL(NamedTuple):
    """A measured divergence in nats, and what as many exact draws would show (the floor)."""

    value: float
    floor: float


def measured_kl(draws: Vector, center: Vector, target_cov: Vector) -> MeasuredKL:
    """Divergence (T3) of the draws' mean and covariance from ``N(center, target_cov)``.

    ``draws`` has the shape (chains, draws, D). A target without full rank gives infinity.
    """
    if draws.shape[0] * draws.shape[1] < 2:
        return MeasuredKL(float("nan"), float("nan"))
    try:
        root = np.linalg.cholesky(np.linalg.inv(target_cov))
    except np.linalg.LinAlgError:
        return MeasuredKL(float("inf"), float("nan"))
    whitened = (draws - center) @ root
    flat = whitened.reshape(-1, whitened.shape[-1])
    cov = np.atleast_2d(np.cov(flat, rowvar=False))
    value = gaussian_kl(cov, np.eye(len(cov)), flat.mean(axis=0))
    return MeasuredKL(value, monte_carlo_floor(whitened))


def monte_carlo_floor(whitened: Vector) -> float:
    """Expected T3 divergence from Monte-Carlo error alone, by batch means.

    To second order ``1/4 sum_ij Var(cov_ij) + 1/2 sum_i Var(mean_i)`` in coordinates in which the
    target is standard normal.
    """
    chains, draws, dim = whitened.shape
    count = max(1, min(_BATCHES, draws // 2))
    length = draws // count
    total = chains * count
    if total < 2 or length < 1:
        return float("nan")
    cut = whitened[:, : count * length].reshape(total, length, dim)
    centred = cut - cut.mean(axis=(0, 1))
    means = centred.mean(axis=1)
    seconds = centred.transpose(0, 2, 1) @ centred / length
    variance_of_cov = seconds.var(axis=0, ddof=1).sum() / total
    variance_of_mean = means.var(axis=0, ddof=1).sum() / total
    return float(variance_of_cov / 4 + variance_of_mean / 2)


def min_ess(draws: Vector) -> float:
    """Bulk effective sample size of the worst parameter, for draws (chains, draws, D)."""
    import arviz

    with np.errstate(invalid="ignore", divide="ignore"):  # draws that never move
        return float(min(arviz.ess(draws[..., i], method="bulk") for i in range(draws.shape[-1])))


def as_matrix(diagonal_or_matrix: Vector) -> Vector:
    """A vector of variances as a matrix; a matrix as it is."""
    return np.diag(diagonal_or_matrix) if diagonal_or_matrix.ndim == 1 else diagonal_or_matrix
