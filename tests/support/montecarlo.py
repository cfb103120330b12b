"""Covariances of chains against predictions, judged by their own Monte-Carlo error."""

import numpy as np
import numpy.typing as npt
import scipy.stats

Floats = npt.NDArray[np.floating]

BATCHES = 16  # batches a chain is cut into; each must be far longer than the relaxation time


def deviations(draws: Floats, center: Floats, predicted: Floats) -> tuple[Floats, int]:
    """t-scores of every mean and covariance entry, in coordinates where the prediction is I.

    ``draws`` is (chains, draws, D). Standard errors come from batch means over all chains. Returns
    the scores and their degrees of freedom.
    """
    observed = moments(draws, center, predicted)
    dim = draws.shape[2]
    expected = np.concatenate([np.zeros(dim), np.eye(dim)[np.triu_indices(dim)]])
    return (observed.mean(axis=0) - expected) / _error(observed), len(observed) - 1


def moments(draws: Floats, center: Floats, cov: Floats) -> Floats:
    """Means and second moments of every batch, in coordinates where a covariance is I."""
    whitened = (draws - center) @ np.linalg.cholesky(np.linalg.inv(cov))
    chains, count, dim = whitened.shape
    length = count // BATCHES
    parts = whitened[:, : BATCHES * length].reshape(chains * BATCHES, length, dim)
    second = parts.transpose(0, 2, 1) @ parts / length
    upper = np.triu_indices(dim)
    return np.concatenate([parts.mean(axis=1), second[:, upper[0], upper[1]]], axis=1)


def _error(observed: Floats) -> Floats:
    """Standard errors of the batches' means."""
    error: Floats = observed.std(axis=0, ddof=1) / np.sqrt(len(observed))
    return error


def agree(draws: Floats, other: Floats, bias: float, level: float = 1e-3) -> None:
    """Two samplers' means and covariances differ by Monte-Carlo error, and at most a known bias.

    The bias is that of the first, in standard deviations of the second's draws.
    """
    dim = other.shape[2]
    center = other.reshape(-1, dim).mean(axis=0)
    cov = np.cov(other.reshape(-1, dim), rowvar=False).reshape(dim, dim)
    pair = [moments(np.asarray(each, float), center, cov) for each in (draws, other)]
    first, second = (each.mean(axis=0) for each in pair)
    error = np.sqrt(sum(_error(each) ** 2 for each in pair))
    freedom = min(map(len, pair)) - 1
    bound = scipy.stats.t.isf(level / 2 / len(first), freedom) * error + bias
    excess = np.abs(first - second) / bound
    assert excess.max() < 1, f"entry {int(excess.argmax())} is {excess.max():.2f} of its bound"
    assert error.max() < 0.2, "too few draws to say anything"


def assert_covariance(
    draws: Floats, center: Floats, predicted: Floats, level: float = 1e-3
) -> None:
    """No entry off by more than Monte-Carlo error allows, Bonferroni-corrected."""
    scores, freedom = deviations(draws, center, predicted)
    bound = scipy.stats.t.isf(level / 2 / len(scores), freedom)
    worst = float(np.max(np.abs(scores)))
    assert worst < bound, f"an entry is {worst:.1f} standard errors off (bound {bound:.1f})"


def rejects_covariance(draws: Floats, center: Floats, predicted: Floats) -> bool:
    """Whether the same comparison would find a wrong prediction out."""
    scores, freedom = deviations(draws, center, predicted)
    return bool(np.max(np.abs(scores)) > scipy.stats.t.isf(1e-6, freedom))
