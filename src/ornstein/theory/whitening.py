"""Coordinates in which every exact plan is diagonal (X8)."""

from ornstein._base.types import Vector
from ornstein.linalg.eigen import relative_eigh
from ornstein.linalg.operators import Dense


def joint_diagonalisation(hessian: Vector, noise_cov: Vector) -> tuple[Vector, Vector]:
    """X8: ``(V, c)`` with ``V' A V = I`` and ``V' C V = diag(c)``, c ascending.

    Examples
    --------
    >>> import numpy as np
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
    >>> import numpy as np
    >>> relative_eigenvalues(np.diag([1.0, 4.0]), np.diag([3.0, 4.0])).tolist()
    [1.0, 3.0]
    """
    return Dense(hessian).relative(Dense(noise_cov))
