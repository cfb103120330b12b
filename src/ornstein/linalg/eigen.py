"""Eigenvalues of symmetric matrices whose parameters have units of their own.

Every matrix is first scaled to a unit diagonal, so that results do not depend on the units.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg

from ornstein._base.types import Vector

_TINY = 1e-150  # stands for zero, so that inverses stay finite


class Eigen(NamedTuple):
    """``M = diag(1 / scale) U diag(values) U' diag(1 / scale)``, values ascending."""

    values: Vector
    vectors: Vector
    scale: Vector

    @property
    def directions(self) -> Vector:
        """``diag(scale) U``: columns w with ``w' M w = values``, in the parameters' own units."""
        return self.scale[:, None] * self.vectors

    @property
    def condition(self) -> float:
        """Largest over smallest eigenvalue; enormous where the matrix is singular."""
        return float(self.values[-1] / max(float(self.values[0]), np.finfo(float).tiny))


def scaled_eigh(matrix: Vector, scale: Vector | None = None) -> Eigen:
    """Eigenvalues and vectors of a matrix scaled to a unit diagonal, or by ``scale``.

    Examples
    --------
    >>> scaled_eigh(np.diag([1e-6, 4e6])).values.tolist()
    [1.0, 1.0]
    """
    if scale is None:
        size = np.abs(np.diag(matrix))
        scale = 1 / np.sqrt(np.where(size > 0, size, 1.0))
    values, vectors = np.linalg.eigh(matrix * scale[:, None] * scale)
    return Eigen(values, vectors, scale)


def inverse(matrix: Vector) -> Vector:
    """Inverse of a symmetric positive semi-definite matrix, insensitive to its units.

    Null directions get a huge but finite inverse, so that the stability test can see and name
    them.
    """
    found = scaled_eigh(matrix)
    floor = len(found.values) * np.finfo(float).eps * max(float(found.values.max()), _TINY)
    directions = found.directions
    return (directions / np.maximum(found.values, floor)) @ directions.T


def semidefinite_root(matrix: Vector) -> Vector:
    """``R`` with ``R R' = M`` of a semi-definite matrix; rounding below zero is cut off."""
    values, vectors, scale = scaled_eigh(matrix)
    root: Vector = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root / scale[:, None]


def relative_eigh(base: Vector, other: Vector) -> Eigen:
    """Eigenvalues of a matrix relative to a positive definite one.

    ``directions`` W has ``W' base W = I`` and ``W' other W = diag(values)``.
    """
    scale = 1 / np.sqrt(np.diag(base))
    outer = scale[:, None] * scale
    values, vectors = scipy.linalg.eigh(other * outer, base * outer)
    return Eigen(values, vectors, scale)
