"""Linear operators for curvatures, gains and covariances, and their square roots.

Multiples of the identity, diagonals and matrices are here, matrices that are diagonal along a basis
in ``along``. They are pytrees, so a compiled function takes one as an argument, and their products
accept host and device arrays alike. Construct one from an array with :func:`as_operator`; an
operator's ``array`` is what it holds, ``like`` the same structure around other numbers.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import jax
import numpy as np
import numpy.typing as npt
import scipy.linalg

from ornstein._base.types import Vector
from ornstein.linalg import eigen
from ornstein.linalg.bases import AnyArray
from ornstein.storage.codec import register


class Linear(ABC):
    """What operators and their roots have in common."""

    @property
    @abstractmethod
    def array(self) -> AnyArray:
        """What it holds: numbers along its coordinates, or a matrix."""

    @abstractmethod
    def matvec(self, vector: AnyArray) -> AnyArray:
        """``M v`` for every row of ``vector``."""

    @abstractmethod
    def dense(self, dim: int) -> Vector:
        """The matrix itself, over ``dim`` parameters, with as many columns as coordinates."""

    @abstractmethod
    def astype(self, dtype: npt.DTypeLike) -> Self:
        """The same in another precision."""


class Factor(Linear):
    """A square root W: maps coordinates to parameters, and its products and inverse are cheap."""

    @abstractmethod
    def rmatvec(self, vector: AnyArray) -> AnyArray:
        """``W' v`` for every row of ``vector``."""

    @abstractmethod
    def solve(self, vector: AnyArray) -> AnyArray:
        """Coordinates z with ``W z = v``, for every row of ``vector``."""

    def coordinates(self, dim: int) -> int:
        """How many coordinates ``dim`` parameters have."""
        return dim if np.ndim(self.array) == 0 else int(np.shape(self.array)[-1])

    def quotient(self, root: "Factor") -> Vector | None:
        """The diagonal of ``W^-1 R``; None where that is not known to be diagonal."""
        del root
        return None

    def whiten(self, root: "Factor", dim: int) -> "Factor":
        """``W^-1 R``: a root R in the coordinates of W."""
        if self is IDENTITY:
            return root
        diagonal = self.quotient(root)
        if diagonal is not None:
            return Diagonal(diagonal)
        return Dense(np.asarray(self.solve(root.dense(dim).T)).T)


class Operator(Linear):
    """A symmetric matrix, positive where it is a curvature or a covariance.

    What is written here once for all serves operators that hold numbers along coordinates; a
    matrix does it in its own way.
    """

    @property
    @abstractmethod
    def structure(self) -> str:
        """Name of its structure."""

    @abstractmethod
    def like(self, array: AnyArray) -> Self:
        """The same structure around other numbers."""

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

    @property
    def own(self) -> Vector:
        """Entries along its own coordinates: a matrix's diagonal, else the array."""
        return np.asarray(self.array)

    @property
    def condition(self) -> float:
        """Condition number, each parameter in its own units; 1 unless it is a matrix."""
        return 1.0

    def relative_eigen(self, other: "Operator") -> tuple[Vector, Vector | None]:
        """Eigenvalues of another operator of this structure relative to this one, and directions.

        The directions are columns; None where they are the coordinates themselves.
        """
        return np.asarray(other.array / self.array), None

    def relative(self, other: "Operator") -> Vector:
        """The eigenvalues alone, ascending; NaN where this operator is not positive definite."""
        try:
            return np.sort(np.atleast_1d(self.relative_eigen(other)[0]))
        except np.linalg.LinAlgError:
            return np.full(len(self.own), np.nan)

    def congruent(self, other: "Operator") -> Vector:
        """The array of ``M N M``, for another operator N of this structure or its inverse's."""
        return np.asarray(self.array**2 * other.array)

    def product_traces(self, diagonals: Vector) -> Vector:
        """``tr(B_j M B_k M)`` for every two diagonal matrices B, one a line, (J, J)."""
        return np.asarray((diagonals * self.variances(diagonals.shape[1]) ** 2) @ diagonals.T)

    def inverse_root(self) -> Factor:
        """``W`` with ``W W' = M^-1``; raises ``LinAlgError`` where M is not positive definite."""
        if not (self.own > 0).all():
            raise np.linalg.LinAlgError("not positive definite")
        return self.inverse().sqrt()

    def trace(self, dim: int) -> float:
        """Sum of the diagonal of the ``dim`` x ``dim`` operator."""
        return float(np.sum(self.variances(dim)))

    def scaled(self, factor: float) -> Self:
        """A multiple."""
        return self.like(factor * self.array)

    def astype(self, dtype: npt.DTypeLike) -> Self:
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
        return self.values

    @property
    def structure(self) -> str:
        return "scalar" if np.ndim(self.values) == 0 else "diagonal"

    def like(self, array: AnyArray) -> "Diagonal":
        return Diagonal(array)

    def matvec(self, vector: AnyArray) -> AnyArray:
        return vector * self._along(vector)

    def rmatvec(self, vector: AnyArray) -> AnyArray:
        return self.matvec(vector)

    def solve(self, vector: AnyArray) -> AnyArray:
        return vector / self._along(vector)

    def _along(self, vector: AnyArray) -> AnyArray:
        """The values, with as many axes as the vector."""
        if self.values.ndim == 0 or vector.ndim == 1:
            return self.values
        return self.values.reshape((1,) * (vector.ndim - 1) + (-1,))

    def quotient(self, root: Factor) -> Vector | None:
        if isinstance(root, Diagonal):
            return np.asarray(root.values) / np.asarray(self.values)
        return None

    def inverse(self) -> "Diagonal":
        return Diagonal(1 / self.values)

    def inverse_root(self) -> "Diagonal":
        if not (self.own > 0).all():
            raise np.linalg.LinAlgError("not positive definite")
        return Diagonal(1 / np.sqrt(self.values))

    def sqrt(self) -> "Diagonal":
        return Diagonal(np.sqrt(self.values))

    def astype(self, dtype: npt.DTypeLike) -> "Diagonal":
        return Diagonal(np.asarray(self.values, dtype))

    def variances(self, dim: int) -> Vector:
        return np.broadcast_to(np.asarray(self.values, float), (dim,))

    def logdet(self, dim: int) -> float:
        return float(np.sum(np.log(self.variances(dim))))

    def dense(self, dim: int) -> Vector:
        return np.diag(self.variances(dim))


@register
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dense(Operator, Factor):
    """A square matrix: symmetric as an operator, any as a root."""

    matrix: AnyArray

    @property
    def array(self) -> AnyArray:
        return self.matrix

    @property
    def structure(self) -> str:
        return "dense"

    @property
    def own(self) -> Vector:
        return np.diag(np.asarray(self.matrix))

    @property
    def condition(self) -> float:
        return eigen.scaled_eigh(np.asarray(self.matrix)).condition

    def like(self, array: AnyArray) -> "Dense":
        return Dense(array)

    def matvec(self, vector: AnyArray) -> AnyArray:
        return self.matrix @ vector if vector.ndim == 1 else vector @ self.matrix.T

    def rmatvec(self, vector: AnyArray) -> AnyArray:
        return vector @ self.matrix

    def solve(self, vector: AnyArray) -> Vector:
        return np.asarray(np.linalg.solve(np.asarray(self.matrix), np.asarray(vector).T).T)

    def inverse(self) -> "Dense":
        """By eigenvalues: insensitive to units, finite where singular."""
        return Dense(eigen.inverse(np.asarray(self.matrix)))

    def inverse_root(self) -> "Dense":
        """By Cholesky, in units in which the diagonal is one."""
        if not (self.own > 0).all():
            raise np.linalg.LinAlgError("not positive definite")
        scale = 1 / np.sqrt(self.own)
        lower = np.linalg.cholesky(np.asarray(self.matrix) * scale[:, None] * scale)
        root = scipy.linalg.solve_triangular(lower, np.diag(scale), lower=True)
        return Dense(np.ascontiguousarray(root.T))

    def sqrt(self) -> "Dense":
        """By Cholesky, or by eigenvalues where the matrix is singular.

        A continuous function of the matrix and, by Cholesky, indifferent to its units.
        """
        matrix = np.asarray(self.matrix, float)
        try:
            return Dense(np.linalg.cholesky(matrix))
        except np.linalg.LinAlgError:
            return Dense(eigen.semidefinite_root(matrix))

    def astype(self, dtype: npt.DTypeLike) -> "Dense":
        return Dense(np.asarray(self.matrix, dtype))

    def variances(self, dim: int) -> Vector:
        return np.diag(self.dense(dim))

    def logdet(self, dim: int) -> float:
        """``-inf`` where singular."""
        return float(np.linalg.slogdet(self.dense(dim))[1])

    def dense(self, dim: int) -> Vector:
        del dim
        return np.asarray(self.matrix, float)

    def relative_eigen(self, other: Operator) -> tuple[Vector, Vector]:
        base, matrix = np.asarray(self.matrix), np.asarray(other.array)
        if np.any(np.diag(base) <= 0) or not np.all(np.isfinite(matrix)):
            raise np.linalg.LinAlgError("not positive definite, or not finite")
        found = eigen.relative_eigh(base, matrix)
        return found.values, found.directions

    def congruent(self, other: Operator) -> Vector:
        return np.asarray(self.matrix @ other.array @ self.matrix)

    def product_traces(self, diagonals: Vector) -> Vector:
        return np.asarray(diagonals @ self.matrix**2 @ diagonals.T)

    def semidefinite(self) -> "Dense":
        return Dense(0.5 * (self.matrix + self.matrix.T))

    def change(self, other: Operator) -> float:
        """Relative to the standard deviations of both parameters."""
        scale = np.sqrt(self.own)
        units = scale[:, None] * scale
        return float(np.abs((np.asarray(other.array) - self.matrix) / units).max())

    def aligned(self, other: Operator, dim: int) -> Vector:
        return other.dense(dim)

    def from_aligned(self, matrices: Vector) -> "Dense":
        return Dense(matrices)


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
