"""Coordinates in which every exact plan is diagonal (X8)."""

import numpy as np
import scipy.linalg

from ornstein._types import Vector


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
