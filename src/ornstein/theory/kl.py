"""Distances between Gaussians (T3)."""

import numpy as np

from ornstein._base.types import Vector


def gaussian_kl(cov: Vector, target_precision: Vector, mean_offset: Vector | None = None) -> float:
    """T3: KL(N(m, Sigma) || N(0, P^-1)) in nats, summed over leading batch axes.

    Computed from the eigenvalues of ``L' Sigma L``, ``P = L L'``, so that values near zero keep
    their digits. ``inf`` if Sigma is singular, NaN if Sigma is.

    Examples
    --------
    >>> round(gaussian_kl(2 * np.eye(1), np.eye(1)), 6)
    0.153426
    """
    factor = np.linalg.cholesky(target_precision)
    transposed = np.swapaxes(factor, -1, -2)
    whitened = transposed @ cov @ factor
    if not np.all(np.isfinite(whitened)):
        return float("nan")
    ratios = np.linalg.eigvalsh(0.5 * (whitened + np.swapaxes(whitened, -1, -2)))
    if np.any(ratios <= 0):
        return float("inf")
    divergence = 0.5 * float(np.sum(ratios - 1 - np.log(ratios)))
    if mean_offset is not None:
        divergence += 0.5 * float(np.sum((transposed @ mean_offset[..., None]) ** 2))
    return divergence


def posterior_kl(
    cov: Vector, hessian: Vector, num_data: int, mean_offset: Vector | None = None
) -> float:
    """T3: KL from N(theta* + m, Sigma) to the local posterior N(theta*, (N A)^-1).

    ``1/2 (N Tr(A Sigma) - log|N A| - log|Sigma| - D)`` plus ``N/2 m'Am``.

    Examples
    --------
    >>> posterior_kl(np.eye(2) / 50, np.eye(2), num_data=50)
    0.0
    """
    return gaussian_kl(cov, num_data * np.asarray(hessian, float), mean_offset)
