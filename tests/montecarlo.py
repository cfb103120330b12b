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
    root = np.linalg.cholesky(np.linalg.inv(predicted))
    whitened = (draws - center) @ root
    chains, count, dim = whitened.shape
    length = count // BATCHES
    parts = whitened[:, : BATCHES * length].reshape(chains * BATCHES, length, dim)
    means = parts.mean(axis=1)
    second = parts.transpose(0, 2, 1) @ parts / length
    upper = np.triu_indices(dim)
    observed = np.concatenate([means, second[:, upper[0], upper[1]]], axis=1)
    expected = np.concatenate([np.zeros(dim), np.eye(dim)[upper]])
    error = observed.std(axis=0, ddof=1) / np.sqrt(len(observed))
    return (observed.mean(axis=0) - expected) / error, len(observed) - 1


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
