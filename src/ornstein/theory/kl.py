"""Distances between Gaussians, and coordinates in which exact plans are diagonal (T3, X8)."""

import numpy as np

from ornstein._base.types import Vector
from ornstein.linalg.eigen import relative_eigh
from ornstein.linalg.operators import Dense


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


def joint_diagonalisation(hessian: Vector, noise_cov: Vector) -> tuple[Vector, Vector]:
    """X8: ``(V, c)`` with ``V' A V = I`` and ``V' C V = diag(c)``, c ascending.

    Examples
    --------
    >>> V, c = joint_diagonalisation(np.diag([1.0, 4.0]), np.diag([3.0, 4.0]))
    >>> c.tolist()
    [1.0, 3.0]
    """
    found = relative_eigh(hessian, noise_cov)
    return found.directions, found.values


def relative_eigenvalues(hessian: Vector, noise_cov: Vector) -> Vector:
    """X8's c alone: eigenvalues of C relative to A; NaN where A is not positive definite.

    Examples
    --------
    >>> relative_eigenvalues(np.diag([1.0, 4.0]), np.diag([3.0, 4.0])).tolist()
    [1.0, 3.0]
    """
    return Dense(hessian).relative(Dense(noise_cov))
