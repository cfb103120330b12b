"""Linear operators for gains and covariances: multiples of the identity, diagonals, matrices.

They are pytrees, so a compiled function takes one as an argument, and their products accept host
and device arrays alike. Construct one from an array with :func:`as_operator`.
"""

from dataclasses import dataclass
from typing import TypeAlias

import jax
import numpy as np
import numpy.typing as npt
import scipy.linalg

from ornstein._types import Array, Vector

AnyArray: TypeAlias = Array | npt.NDArray[np.floating]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Diagonal:
    """``diag(values)``; a 0-d ``values`` means that multiple of the identity."""

    values: AnyArray

    def matvec(self, vector: AnyArray) -> AnyArray:
        """``M v`` for every row of ``vector``."""
        return vector * self._along(vector)

    rmatvec = matvec

    def solve(self, vector: AnyArray) -> AnyArray:
        """``M^-1 v`` for every row of ``vector``."""
        return vector / self._along(vector)

    def _along(self, vector: AnyArray) -> AnyArray:
        """The values, with as many axes as the vector."""
        if self.values.ndim == 0 or vector.ndim == 1:
            return self.values
        return self.values.reshape((1,) * (vector.ndim - 1) + (-1,))

    @property
    def array(self) -> AnyArray:
        """What :func:`as_operator` makes it from."""
        return self.values

    def sqrt(self) -> "Diagonal":
        """``R`` with ``R R' = M``."""
        return Diagonal(np.sqrt(self.values))

    def trace(self, dim: int) -> float:
        """Sum of the diagonal of the ``dim`` x ``dim`` operator."""
        return float(np.sum(np.broadcast_to(self.values, (dim,))))

    def logdet(self, dim: int) -> float:
        """Logarithm of the determinant."""
        return float(np.sum(np.log(np.broadcast_to(self.values, (dim,)))))

    def dense(self, dim: int) -> Vector:
        """The matrix itself."""
        return np.diag(np.broadcast_to(np.asarray(self.values, float), (dim,)))

    def astype(self, dtype: npt.DTypeLike) -> "Diagonal":
        """The same operator in another precision."""
        return Diagonal(np.asarray(self.values, dtype))

    @property
    def structure(self) -> str:
        """``scalar`` or ``diagonal``."""
        return "scalar" if np.ndim(self.values) == 0 else "diagonal"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dense:
    """A square matrix."""

    matrix: AnyArray

    def matvec(self, vector: AnyArray) -> AnyArray:
        """``M v`` for every row of ``vector``."""
        return self.matrix @ vector if vector.ndim == 1 else vector @ self.matrix.T

    def rmatvec(self, vector: AnyArray) -> AnyArray:
        """``M' v`` for every row of ``vector``."""
        return vector @ self.matrix

    def solve(self, vector: AnyArray) -> Vector:
        """``M^-1 v`` for every row of ``vector``."""
        return np.asarray(np.linalg.solve(np.asarray(self.matrix), np.asarray(vector).T).T)

    @property
    def array(self) -> AnyArray:
        """What :func:`as_operator` makes it from."""
        return self.matrix

    def sqrt(self) -> "Dense":
        """``R`` with ``R R' = M`` by Cholesky, or by eigenvalues where M is singular.

        A continuous function of the matrix and, by Cholesky, indifferent to its units.
        """
        matrix = np.asarray(self.matrix, float)
        try:
            return Dense(np.linalg.cholesky(matrix))
        except np.linalg.LinAlgError:
            return Dense(_semidefinite_root(matrix))

    def trace(self, dim: int) -> float:
        """Sum of the diagonal."""
        return float(np.trace(self.dense(dim)))

    def logdet(self, dim: int) -> float:
        """Logarithm of the determinant; ``-inf`` where singular."""
        return float(np.linalg.slogdet(self.dense(dim))[1])

    def dense(self, dim: int) -> Vector:
        """The matrix itself."""
        del dim
        return np.asarray(self.matrix, float)

    def astype(self, dtype: npt.DTypeLike) -> "Dense":
        """The same operator in another precision."""
        return Dense(np.asarray(self.matrix, dtype))

    @property
    def structure(self) -> str:
        """``dense``."""
        return "dense"


Operator: TypeAlias = Diagonal | Dense


def as_operator(array: npt.ArrayLike) -> Operator:
    """Wrap a number, a vector or a square matrix.

    Examples
    --------
    >>> as_operator(0.5).dense(2).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    values = np.asarray(array, float)
    return Dense(values) if values.ndim == 2 else Diagonal(values)


def as_matrix(diagonal_or_matrix: Vector) -> Vector:
    """A vector of variances as a matrix; a matrix as it is."""
    return np.diag(diagonal_or_matrix) if diagonal_or_matrix.ndim == 1 else diagonal_or_matrix


def _semidefinite_root(matrix: Vector) -> Vector:
    """Symmetric square root of a semi-definite matrix, rounding below zero cut off."""
    diagonal = np.diag(matrix)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = scipy.linalg.eigh(matrix / scale[:, None] / scale)
    root: Vector = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return scale[:, None] * root
