"""What draws show: their divergence from a Gaussian, and how much of it is Monte-Carlo error."""

from typing import NamedTuple

import numpy as np

from ornstein._base.types import Vector
from ornstein.results.arviz import ess
from ornstein.theory import gaussian_kl

_BATCHES = 20  # batches a chain is cut into for Monte-Carlo errors
_MOST_BATCHES = 200  # batches in all


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
    whitened = _whitened(draws, center, target_cov)
    if whitened is None:
        return MeasuredKL(float("inf"), float("nan"))
    flat = whitened.reshape(-1, whitened.shape[-1])
    cov = np.atleast_2d(np.cov(flat, rowvar=False))
    value = gaussian_kl(cov, np.eye(len(cov)), flat.mean(axis=0))
    return MeasuredKL(value, monte_carlo_floor(whitened))


def _whitened(draws: Vector, center: Vector, target_cov: Vector) -> Vector | None:
    """Draws in coordinates in which the target is standard normal; None if it is singular."""
    try:
        return (draws - center) @ np.linalg.cholesky(np.linalg.inv(target_cov))
    except np.linalg.LinAlgError:
        return None


def monte_carlo_floor(whitened: Vector) -> float:
    """Expected T3 divergence from Monte-Carlo error alone, by batch means.

    To second order ``1/4 sum_ij Var(cov_ij) + 1/2 sum_i Var(mean_i)`` in coordinates in which the
    target is standard normal.
    """
    cut = _batches(whitened)
    total, length, _ = cut.shape
    if total < 2 or length < 1:
        return float("nan")
    means, seconds = _moments(cut - cut.mean(axis=(0, 1)))
    variance_of_cov = seconds.var(axis=0, ddof=1).sum() / total
    variance_of_mean = means.var(axis=0, ddof=1).sum() / total
    return float(variance_of_cov / 4 + variance_of_mean / 2)


def _moments(cut: Vector) -> tuple[Vector, Vector]:
    """Every batch's mean, and its matrix of second moments."""
    return cut.mean(axis=1), cut.transpose(0, 2, 1) @ cut / cut.shape[1]


def kl_error(draws: Vector, center: Vector, target_cov: Vector) -> float:
    """Monte-Carlo error of :func:`measured_kl`: its floor and its standard error, squares added.

    The standard error is a jackknife over batches of the chains.
    """
    whitened = _whitened(draws, center, target_cov)
    if whitened is None:
        return float("nan")
    cut = _batches(whitened)
    total, length, dim = cut.shape
    if total < 3 or (total - 1) * length <= dim:
        return float("nan")
    # Moments of all batches but one, for every one left out.
    means, seconds = ((part.sum(axis=0) - part) / (total - 1) for part in _moments(cut))
    values = [
        gaussian_kl(second - np.outer(mean, mean), np.eye(dim), mean)
        for mean, second in zip(means, seconds, strict=True)
    ]
    variance = (total - 1) ** 2 / total * float(np.var(values, ddof=1))
    return float(np.hypot(monte_carlo_floor(whitened), np.sqrt(variance)))


def _batches(whitened: Vector) -> Vector:
    """Chains cut into batches, (batches, length, D); many short chains are joined."""
    chains, draws, dim = whitened.shape
    if chains > _MOST_BATCHES:
        length = chains // _MOST_BATCHES
        joined = whitened[: length * _MOST_BATCHES]
        return joined.reshape(_MOST_BATCHES, length * draws, dim)
    count = max(1, min(_BATCHES, draws // 2))
    length = draws // count
    return whitened[:, : count * length].reshape(chains * count, length, dim)


def min_ess(draws: Vector) -> float:
    """Bulk effective sample size of the worst parameter, for draws (chains, draws, D)."""
    return float(np.min(ess(draws)))
