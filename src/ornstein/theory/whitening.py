"""Coordinates in which every exact plan is diagonal (X8)."""

import numpy as np
import scipy.linalg

from ornstein._base.types import Vector


def joint_diagonalisation(hessian: Vector, noise_cov: Vector) -> tuple[Vector, Vector]:
    """X8: ``(V, c)`` with ``V' A V = I`` and ``V' C V = diag(c)``, c ascending.

    Examples
    --------
    >>> V, c = joint_diagonalisation(np.diag([1.0, 4.0]), np.diag([3.0, 4.0]))
    >>> c.tolist()
    [1.0, 3.0]
    """
    scale = 1 / np.sqrt(np.diag(hessian))
    outer = scale[:, None] * scale
    relative, vectors = scipy.linalg.eigh(noise_cov * outer, hessian * outer)
    return scale[:, None] * vectors, relative


def relative_eigenvalues(hessian: Vector, noise_cov: Vector) -> Vector:
    """X8's c alone: eigenvalues of C relative to A; NaN where A is not positive definite.

    Examples
    --------
    >>> relative_eigenvalues(np.diag([1.0, 4.0]), np.diag([3.0, 4.0])).tolist()
    [1.0, 3.0]
    """
    if np.any(np.diag(hessian) <= 0) or not np.all(np.isfinite(noise_cov)):
        return np.full(len(hessian), np.nan)
    try:
        return joint_diagonalisation(hessian, noise_cov)[1]
    except np.linalg.LinAlgError:
        return np.full(len(hessian), np.nan)
