"""Linear operators for curvatures, gains and covariances.

Multiples of the identity, diagonals, matrices, and matrices that are diagonal along a basis of
``bases``. They are pytrees, so a compiled function takes one as an argument, and their products
accept host and device arrays alike. Construct one from an array with :func:`as_operator`; an
operator's ``array`` is what it holds, ``like`` the same structure around other numbers.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import jax
import numpy as np
import numpy.typing as npt
import scipy.linalg

from ornstein._base.types import Vector
from ornstein.linalg import eigen
from ornstein.linalg.bases import AnyArray, Basis
from ornstein.storage.codec import register


class Factor(ABC):
    """A square root W: maps coordinates to parameters, and its products and inverse are cheap."""

    @property
    @abstractmethod
    def array(self) -> AnyArray:
        """What it holds."""

    @abstractmethod
    def matvec(self, vector: AnyArray) -> AnyArray:
        """``W z`` for every row of ``vector``."""

    @abstractmethod
    def rmatvec(self, vector: AnyArray) -> AnyArray:
        """``W' v`` for every row of ``vector``."""

    @abstractmethod
    def solve(self, vector: AnyArray) -> AnyArray:
        """Coordinates z with ``W z = v``, for every row of ``vector``."""

    @abstractmethod
    def dense(self, dim: int) -> Vector:
        """The matrix itself, with as many columns as coordinates."""

    @abstractmethod
    def astype(self, dtype: npt.DTypeLike) -> Self:
        """The same in another precision."""

    def coordinates(self, dim: int) -> int:
        """How many coordinates ``dim`` parameters have."""
        return dim if np.ndim(self.array) == 0 else int(np.shape(self.array)[-1])

    def diagonal_of(self, root: "Factor") -> Vector | None:
        """``W^-1 R`` where that is a diagonal; None where it is not known to be."""
        del root
        return None

    def whiten(self, root: "Factor", dim: int) -> "Factor":
        """``W^-1 R``: a root R in the coordinates of W."""
        if self is IDENTITY:
            return root
        diagonal = self.diagonal_of(root)
        if diagonal is not None:
            return Diagonal(diagonal)
        return Dense(np.asarray(self.solve(root.dense(dim).T)).T)


class Operator(ABC):
    """A symmetric matrix, positive where it is a curvature or a covariance."""

    @property
    @abstractmethod
    def array(self) -> AnyArray:
        """What it holds: numbers along its coordinates, or a matrix."""

    @property
    @abstractmethod
    def structure(self) -> str:
        """Name of its structure."""

    @abstractmethod
    def like(self, array: AnyArray) -> Self:
        """The same structure around other numbers."""

    @abstractmethod
    def matvec(self, vector: AnyArray) -> AnyArray:
        """``M v`` for every row of ``vector``."""

    @abstractmethod
    def inverse(self) -> "Operator":
        """``M^-1``."""

    @abstractmethod
    def sqrt(self) -> Factor:
        """``R`` with ``R R' = M``."""

    @abstractmethod
    def variances(self, dim: int) -> Vector:
        """The diagonal, in the order of the parameters."""

    @abstractmethod
    def logdet(self, dim: int) -> float:
        """Logarithm of the determinant."""

    @abstractmethod
    def dense(self, dim: int) -> Vector:
        """The matrix itself."""

    @abstractmethod
    def relative_eigen(self, other: "Operator") -> tuple[Vector, Vector | None]:
        """Eigenvalues of another operator of this structure relative to this one, and directions.

        The directions are columns; None where they are the coordinates themselves.
        """

    @abstractmethod
    def congruent(self, other: "Operator") -> Vector:
        """``M N M`` for another operator N of this structure or its inverse's: the array."""

    @property
    def own(self) -> Vector:
        """Entries along its own coordinates: a matrix's diagonal, else the array."""
        return np.asarray(self.array)

    @property
    def condition(self) -> float:
        """Condition number, each parameter in its own units; 1 unless it is a matrix."""
        return 1.0

    def relative(self, other: "Operator") -> Vector:
        """The eigenvalues alone, ascending; NaN where this operator is not positive definite."""
        try:
            return np.sort(np.atleast_1d(self.relative_eigen(other)[0]))
        except np.linalg.LinAlgError:
            return np.full(len(self.own), np.nan)

    def inverse_root(self) -> Factor:
        """``W`` with ``W W' = M^-1``; raises ``LinAlgError`` where M is not positive definite."""
        if not (np.asarray(self.array) > 0).all():
            raise np.linalg.LinAlgError("not positive definite")
        return self.inverse().sqrt()

    def trace(self, dim: int) -> float:
        """Sum of the diagonal of the ``dim`` x ``dim`` operator."""
        return float(np.sum(self.variances(dim)))

    def rmatvec(self, vector: AnyArray) -> AnyArray:
        """``M' v``: the same, being symmetric."""
        return self.matvec(vector)

    def scaled(self, factor: float) -> Self:
        """A multiple."""
        return self.like(factor * self.array)

    def astype(self, dtype: npt.DTypeLike) -> Self:
        """The same operator in another precision."""
        return self.like(np.asarray(self.array, dtype))

    def semidefinite(self) -> Self:
        """The nearest that is a covariance: rounding below zero cut off, or made symmetric."""
        return self.like(np.maximum(self.array, 0.0))

    def project(self, other: "Operator") -> "Operator":
        """What this structure holds of another operator."""
        return other

    def change(self, other: "Operator") -> float:
        """Largest change of an entry from this covariance to another, relative to variances."""
        return float(np.abs((np.asarray(other.array) - self.array) / self.array).max())

    def aligned(self, other: "Operator", dim: int) -> Vector:
        """Another operator as matrices that go with this one in an equation of matrices.

        One matrix; for diagonals a batch of 1 x 1 matrices, one per parameter.
        """
        return np.broadcast_to(other.array, (dim,))[:, None, None]

    def from_aligned(self, matrices: Vector) -> "Operator":
        """The operator of matrices like those of :meth:`aligned`."""
        return Diagonal(matrices[:, 0, 0])


@register
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Diagonal(Operator, Factor):
    """``diag(values)``; a 0-d ``values`` means that multiple of the identity."""

    values: AnyArray

    @property
    def array(self) -> AnyArray:
        """The diagonal, or the multiple."""
        return self.values

    @property
    def structure(self) -> str:
        """``scalar`` or ``diagonal``."""
        return "scalar" if np.ndim(self.values) == 0 else "diagonal"

    def like(self, array: AnyArray) -> "Diagonal":
        """Another diagonal."""
        return Diagonal(array)

    def matvec(self, vector: AnyArray) -> AnyArray:
        """``M v`` for every row of ``vector``."""
        return vector * self._along(vector)

    def rmatvec(self, vector: AnyArray) -> AnyArray:
        """``M' v``: the same."""
        return self.matvec(vector)

    def solve(self, vector: AnyArray) -> AnyArray:
        """``M^-1 v`` for every row of ``vector``."""
        return vector / self._along(vector)

    def _along(self, vector: AnyArray) -> AnyArray:
        """The values, with as many axes as the vector."""
        if self.values.ndim == 0 or vector.ndim == 1:
            return self.values
        return self.values.reshape((1,) * (vector.ndim - 1) + (-1,))

    def diagonal_of(self, root: Factor) -> Vector | None:
        """A quotient, of another diagonal."""
        if isinstance(root, Diagonal):
            return np.asarray(root.values) / np.asarray(self.values)
        return None

    def inverse(self) -> "Diagonal":
        """Reciprocals."""
        return Diagonal(1 / self.values)

    def sqrt(self) -> "Diagonal":
        """``R`` with ``R R' = M``."""
        return Diagonal(np.sqrt(self.values))

    def astype(self, dtype: npt.DTypeLike) -> "Diagonal":
        """The same in another precision."""
        return Diagonal(np.asarray(self.values, dtype))

    def variances(self, dim: int) -> Vector:
        """The diagonal."""
        return np.broadcast_to(np.asarray(self.values, float), (dim,))

    def logdet(self, dim: int) -> float:
        """Logarithm of the determinant."""
        return float(np.sum(np.log(np.broadcast_to(self.values, (dim,)))))

    def dense(self, dim: int) -> Vector:
        """The matrix itself."""
        return np.diag(self.variances(dim))

    def relative_eigen(self, other: Operator) -> tuple[Vector, None]:
        """Quotients."""
        return np.asarray(other.array / self.values), None

    def inverse_root(self) -> "Diagonal":
        """Reciprocals of the roots."""
        if not (np.asarray(self.values) > 0).all():
            raise np.linalg.LinAlgError("not positive definite")
        return Diagonal(1 / np.sqrt(self.values))

    def congruent(self, other: Operator) -> Vector:
        """Products."""
        return np.asarray(self.values**2 * other.array)


@register
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dense(Operator, Factor):
    """A square matrix: symmetric as an operator, any as a root."""

    matrix: AnyArray

    @property
    def array(self) -> AnyArray:
        """The matrix."""
        return self.matrix

    @property
    def structure(self) -> str:
        """``dense``."""
        return "dense"

    @property
    def own(self) -> Vector:
        """The diagonal."""
        return np.diag(np.asarray(self.matrix))

    @property
    def condition(self) -> float:
        """Condition number, each parameter in its own units."""
        return eigen.scaled_eigh(np.asarray(self.matrix)).condition

    def like(self, array: AnyArray) -> "Dense":
        """Another matrix."""
        return Dense(array)

    def matvec(self, vector: AnyArray) -> AnyArray:
        """``M v`` for every row of ``vector``."""
        return self.matrix @ vector if vector.ndim == 1 else vector @ self.matrix.T

    def rmatvec(self, vector: AnyArray) -> AnyArray:
        """``M' v`` for every row of ``vector``."""
        return vector @ self.matrix

    def solve(self, vector: AnyArray) -> Vector:
        """``M^-1 v`` for every row of ``vector``."""
        return np.asarray(np.linalg.solve(np.asarray(self.matrix), np.asarray(vector).T).T)

    def inverse(self) -> "Dense":
        """By eigenvalues: insensitive to units, finite where singular."""
        return Dense(eigen.inverse(np.asarray(self.matrix)))

    def sqrt(self) -> "Dense":
        """``R`` with ``R R' = M`` by Cholesky, or by eigenvalues where M is singular.

        A continuous function of the matrix and, by Cholesky, indifferent to its units.
        """
        matrix = np.asarray(self.matrix, float)
        try:
            return Dense(np.linalg.cholesky(matrix))
        except np.linalg.LinAlgError:
            return Dense(eigen.semidefinite_root(matrix))

    def astype(self, dtype: npt.DTypeLike) -> "Dense":
        """The same in another precision."""
        return Dense(np.asarray(self.matrix, dtype))

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

    def relative_eigen(self, other: Operator) -> tuple[Vector, Vector]:
        """By the generalised eigenvalue problem."""
        base, matrix = np.asarray(self.matrix), np.asarray(other.array)
        if np.any(np.diag(base) <= 0) or not np.all(np.isfinite(matrix)):
            raise np.linalg.LinAlgError("not positive definite, or not finite")
        found = eigen.relative_eigh(base, matrix)
        return found.values, found.directions

    def inverse_root(self) -> "Dense":
        """By Cholesky, in units in which the diagonal is one."""
        if not (self.own > 0).all():
            raise np.linalg.LinAlgError("not positive definite")
        scale = 1 / np.sqrt(self.own)
        lower = np.linalg.cholesky(np.asarray(self.matrix) * scale[:, None] * scale)
        root = scipy.linalg.solve_triangular(lower, np.diag(scale), lower=True)
        return Dense(np.ascontiguousarray(root.T))

    def congruent(self, other: Operator) -> Vector:
        """A product of matrices."""
        return np.asarray(self.matrix @ other.array @ self.matrix)

    def semidefinite(self) -> "Dense":
        """Made symmetric."""
        return Dense(0.5 * (self.matrix + self.matrix.T))

    def change(self, other: Operator) -> float:
        """Relative to the standard deviations of both parameters."""
        scale = np.sqrt(self.own)
        units = scale[:, None] * scale
        return float(np.abs((np.asarray(other.array) - self.matrix) / units).max())

    def aligned(self, other: Operator, dim: int) -> Vector:
        """The matrix of another operator."""
        return other.dense(dim)

    def from_aligned(self, matrices: Vector) -> "Dense":
        """A matrix."""
        return Dense(matrices)


@dataclass(frozen=True)
class _Along(Operator):
    """Numbers along the coordinates of a basis."""

    basis: Basis
    values: AnyArray

    @property
    def array(self) -> AnyArray:
        """Numbers along the basis."""
        return self.values

    @property
    def structure(self) -> str:
        """That of the basis."""
        return self.basis.structure

    def like(self, array: AnyArray) -> Self:
        """Other numbers along the same basis."""
        return replace(self, values=array)

    def astype(self, dtype: npt.DTypeLike) -> Self:
        """The same operator in another precision."""
        return type(self)(self.basis.astype(dtype), np.asarray(self.values, dtype))

    def dense(self, dim: int) -> Vector:
        """The matrix itself."""
        return np.asarray(self.matvec(np.eye(dim)), float)

    def relative_eigen(self, other: Operator) -> tuple[Vector, None]:
        """Quotients along the basis."""
        return np.asarray(other.array / self.values), None

    def congruent(self, other: Operator) -> Vector:
        """Products along the basis."""
        return np.asarray(self.values**2 * other.array)


@register
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AlongBasis(_Along):
    """``V diag(values) V'`` with V a basis: a gain or a covariance.

    Examples
    --------
    >>> from ornstein.linalg.bases import KroneckerBasis
    >>> basis = KroneckerBasis(np.eye(2), np.eye(3), np.ones(3), features=3)
    >>> covariance = AlongBasis(basis, np.arange(1.0, 7.0))
    >>> covariance.trace(6), covariance.matvec(np.ones(6))[:2].tolist()
    (21.0, [1.0, 2.0])
    """

    def matvec(self, vector: AnyArray) -> AnyArray:
        """``M v`` for every row of ``vector``."""
        return self.basis.to_params(Diagonal(self.values).matvec(self.basis.adjoint(vector)))

    def inverse(self) -> "AlongDual":
        """Reciprocals along the dual basis."""
        return AlongDual(self.basis, 1 / self.values)

    def sqrt(self) -> "BasisRoot":
        """``R`` with ``R R' = M``."""
        return BasisRoot(self.basis, np.sqrt(self.values))

    def variances(self, dim: int) -> Vector:
        """The diagonal, in the order of the parameters."""
        del dim
        return np.asarray(self.basis.squares(self.values), float)

    def logdet(self, dim: int) -> float:
        """Logarithm of the determinant."""
        del dim
        return self.basis.logdet(self.values)


@register
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AlongDual(_Along):
    """``V^-T diag(values) V^-1`` with V a basis: a curvature, or the covariance of gradients.

    ``values`` are the diagonal of ``V' M V``, and all that is known of M.
    """

    def matvec(self, vector: AnyArray) -> AnyArray:
        """``M v`` for every row of ``vector``."""
        return AlongBasis(self.basis.dual, self.values).matvec(vector)

    def inverse(self) -> AlongBasis:
        """Reciprocals along the basis."""
        return AlongBasis(self.basis, 1 / self.values)

    def sqrt(self) -> "BasisRoot":
        """``R`` with ``R R' = M``."""
        return AlongBasis(self.basis.dual, self.values).sqrt()

    def variances(self, dim: int) -> Vector:
        """The diagonal, in the order of the parameters."""
        return AlongBasis(self.basis.dual, self.values).variances(dim)

    def logdet(self, dim: int) -> float:
        """Logarithm of the determinant."""
        return -self.inverse().logdet(dim)

    def project(self, other: Operator) -> Operator:
        """The diagonal of ``V' M V``; another operator along a basis as it is."""
        if isinstance(other, _Along):
            return other
        inside = self.basis.adjoint(np.asarray(self.basis.adjoint(np.asarray(other.array))).T)
        return self.like(np.diag(np.asarray(inside)).copy())


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BasisRoot(Factor):
    """``V diag(values)``: maps the coordinates of a basis, each in a unit of its own."""

    basis: Basis
    values: AnyArray

    @property
    def array(self) -> AnyArray:
        """Units along the basis."""
        return self.values

    @property
    def structure(self) -> str:
        """That of the basis."""
        return self.basis.structure

    def matvec(self, vector: AnyArray) -> AnyArray:
        """``R z`` for every row of ``vector``."""
        return self.basis.to_params(Diagonal(self.values).matvec(vector))

    def rmatvec(self, vector: AnyArray) -> AnyArray:
        """``R' v`` for every row of ``vector``."""
        return Diagonal(self.values).matvec(self.basis.adjoint(vector))

    def solve(self, vector: AnyArray) -> AnyArray:
        """Coordinates z with ``R z = v``, for every row of ``vector``."""
        return Diagonal(self.values).solve(self.basis.to_coordinates(vector))

    def diagonal_of(self, root: Factor) -> Vector | None:
        """A quotient, of another root along the same basis."""
        if isinstance(root, BasisRoot) and root.basis is self.basis:
            return np.asarray(root.values) / np.asarray(self.values)
        return None

    def dense(self, dim: int) -> Vector:
        """The matrix itself, of as many columns as the basis has coordinates."""
        del dim
        return np.asarray(self.matvec(np.eye(np.size(self.values))), float).T

    def astype(self, dtype: npt.DTypeLike) -> "BasisRoot":
        """The same in another precision."""
        return BasisRoot(self.basis.astype(dtype), np.asarray(self.values, dtype))


IDENTITY = Diagonal(np.ones(()))
"""By which coordinates are the parameters themselves."""


def as_operator(array: npt.ArrayLike) -> Diagonal | Dense:
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
