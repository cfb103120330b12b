"""Linear operators for gains and covariances.

Multiples of the identity, diagonals, matrices, and matrices that are diagonal in a basis of
``bases``. They are pytrees, so a compiled function takes one as an argument, and their products
accept host and device arrays alike. Construct one from an array with :func:`as_operator`.
"""

from dataclasses import dataclass
from typing import TypeAlias

import jax
import numpy as np
import numpy.typing as npt
import scipy.linalg

from ornstein._base.types import Vector
from ornstein.linalg.bases import AnyArray, Basis
from ornstein.storage.codec import register


@register
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

    def variances(self, dim: int) -> Vector:
        """The diagonal."""
        return np.broadcast_to(np.asarray(self.values, float), (dim,))

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


@register
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

    def variances(self, dim: int) -> Vector:
        """The diagonal."""
        return np.diag(self.dense(dim))

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


@register
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AlongBasis:
    """``V diag(values) V'`` with V a basis; ``values`` are as many as its coordinates.

    Examples
    --------
    >>> from ornstein.linalg.bases import KroneckerBasis
    >>> basis = KroneckerBasis(np.eye(2), np.eye(3), np.ones(3), features=3)
    >>> covariance = AlongBasis(basis, np.arange(1.0, 7.0))
    >>> covariance.trace(6), covariance.matvec(np.ones(6))[:2].tolist()
    (21.0, [1.0, 2.0])
    """

    basis: Basis
    values: AnyArray

    def matvec(self, vector: AnyArray) -> AnyArray:
        """``M v`` for every row of ``vector``."""
        return self.basis.to_params(Diagonal(self.values).matvec(self.basis.adjoint(vector)))

    rmatvec = matvec

    @property
    def array(self) -> AnyArray:
        """Values along the basis."""
        return self.values

    def variances(self, dim: int) -> Vector:
        """The diagonal, in the order of the parameters."""
        del dim
        return np.asarray(self.basis.squares(self.values), float)

    def sqrt(self) -> "BasisRoot":
        """``R`` with ``R R' = M``."""
        return BasisRoot(self.basis, np.sqrt(self.values))

    def trace(self, dim: int) -> float:
        """Sum of the diagonal."""
        return float(np.sum(self.variances(dim)))

    def logdet(self, dim: int) -> float:
        """Logarithm of the determinant."""
        del dim
        return self.basis.logdet(self.values)

    def dense(self, dim: int) -> Vector:
        """The matrix itself."""
        return np.asarray(self.matvec(np.eye(dim)), float)

    def astype(self, dtype: npt.DTypeLike) -> "AlongBasis":
        """The same operator in another precision."""
        return AlongBasis(self.basis.astype(dtype), np.asarray(self.values, dtype))

    @property
    def structure(self) -> str:
        """That of the basis: ``kronecker`` or ``classes``."""
        return self.basis.structure


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BasisRoot:
    """``V diag(values)``: maps the coordinates of a basis, each in a unit of its own."""

    basis: Basis
    values: AnyArray

    def matvec(self, vector: AnyArray) -> AnyArray:
        """``R z`` for every row of ``vector``."""
        return self.basis.to_params(Diagonal(self.values).matvec(vector))

    def rmatvec(self, vector: AnyArray) -> AnyArray:
        """``R' v`` for every row of ``vector``."""
        return Diagonal(self.values).matvec(self.basis.adjoint(vector))

    def solve(self, vector: AnyArray) -> AnyArray:
        """Coordinates z with ``R z = v``, for every row of ``vector``."""
        return Diagonal(self.values).solve(self.basis.to_coordinates(vector))

    @property
    def array(self) -> AnyArray:
        """Units along the basis."""
        return self.values

    def dense(self, dim: int) -> Vector:
        """The matrix itself, of as many columns as the basis has coordinates."""
        del dim
        return np.asarray(self.matvec(np.eye(np.size(self.values))), float).T

    def astype(self, dtype: npt.DTypeLike) -> "BasisRoot":
        """The same operator in another precision."""
        return BasisRoot(self.basis.astype(dtype), np.asarray(self.values, dtype))

    @property
    def structure(self) -> str:
        """That of the basis: ``kronecker`` or ``classes``."""
        return self.basis.structure


Operator: TypeAlias = Diagonal | Dense | AlongBasis
Factor: TypeAlias = Diagonal | Dense | BasisRoot
"""A square root of an operator: its product, transposed product and inverse are cheap too."""


def dim_of(factor: Operator | Factor) -> int:
    """Number of coordinates; 0 for a multiple of the identity."""
    return 0 if np.ndim(factor.array) == 0 else int(np.shape(factor.array)[0])


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
