"""Linear operators for gains and covariances.

Multiples of the identity, diagonals, matrices, and matrices that are diagonal in a basis of
Kronecker products. They are pytrees, so a compiled function takes one as an argument, and their
products accept host and device arrays alike. Construct one from an array with :func:`as_operator`.
"""

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
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


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KroneckerBasis:
    """``V = V_c (x) diag(scale) V_f`` over outputs and columns of a design, (K, F) of them.

    Coordinates lie output by output. Parameters lie as those of the models do: coefficients (K,
    features) first, then intercepts (K,) where ``features`` is ``F - 1``.

    Attributes
    ----------
    outer, inner
        Orthogonal ``V_c`` (K, K) and ``V_f`` (F, F).
    scale
        Unit of every column, (F,).
    features
        Columns before the intercept.
    """

    outer: AnyArray
    inner: AnyArray
    scale: AnyArray
    features: int = field(metadata={"static": True})

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and columns of the design, (K, F)."""
        return self.outer.shape[0], self.inner.shape[0]

    @property
    def dual(self) -> "KroneckerBasis":
        """``V^-T``, in which ``M^-1`` is diagonal where M is in V."""
        return replace(self, scale=1 / self.scale)

    def to_params(self, z: AnyArray) -> AnyArray:
        """``V z`` for every row of coordinates."""
        matrix = _by_lines(self.outer @ z.reshape(*z.shape[:-1], *self.shape), self.inner.T)
        return self.flat(matrix * self._scale(matrix))

    def adjoint(self, vector: AnyArray) -> AnyArray:
        """``V' v`` for every row of ``vector``."""
        matrix = self.matrix(vector)
        rotated = _by_lines(self.outer.T @ (matrix * self._scale(matrix)), self.inner)
        return rotated.reshape(*vector.shape[:-1], -1)

    def to_coordinates(self, vector: AnyArray) -> AnyArray:
        """``V^-1 v`` for every row of parameters."""
        return self.dual.adjoint(vector)

    def squares(self, values: AnyArray) -> AnyArray:
        """Diagonal of ``V diag(values) V'``, flat."""
        matrix = self.outer**2 @ values.reshape(self.shape) @ (self.inner**2).T
        return self.flat(matrix * self._scale(matrix) ** 2)

    def astype(self, dtype: npt.DTypeLike) -> "KroneckerBasis":
        """The same basis in another precision."""
        outer, inner, scale = (np.asarray(x, dtype) for x in (self.outer, self.inner, self.scale))
        return KroneckerBasis(outer, inner, scale, self.features)

    def _scale(self, matrix: AnyArray) -> AnyArray:
        return self.scale.reshape((1,) * (matrix.ndim - 1) + (-1,))

    def matrix(self, vector: AnyArray) -> AnyArray:
        """Parameters as (..., K, F)."""
        K, F = self.shape
        lead, size = vector.shape[:-1], K * self.features
        coef = vector[..., :size].reshape(*lead, K, self.features)
        if self.features == F:
            return coef
        return _xp(vector).concatenate([coef, vector[..., size:].reshape(*lead, K, 1)], axis=-1)

    def flat(self, matrix: AnyArray) -> AnyArray:
        """Parameters from (..., K, F)."""
        lead, F = matrix.shape[:-2], self.shape[1]
        if self.features == F:
            return matrix.reshape(*lead, -1)
        coef = matrix[..., : self.features].reshape(*lead, -1)
        return _xp(matrix).concatenate([coef, matrix[..., self.features]], axis=-1)


def _by_lines(matrices: AnyArray, columns: AnyArray) -> AnyArray:
    """``M @ columns`` for stacks of matrices, one product for each: many small ones take longer."""
    stacks = matrices.reshape(*matrices.shape[:-3], -1, matrices.shape[-1])
    return (stacks @ columns).reshape(matrices.shape)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Kronecker:
    """``V diag(values) V'`` with V a basis of Kronecker products; ``values`` is flat, (K F,).

    Examples
    --------
    >>> basis = KroneckerBasis(np.eye(2), np.eye(3), np.ones(3), features=3)
    >>> covariance = Kronecker(basis, np.arange(1.0, 7.0))
    >>> covariance.trace(6), covariance.solve(np.ones(6))[:2].tolist()
    (21.0, [1.0, 0.5])
    """

    basis: KroneckerBasis
    values: AnyArray

    def matvec(self, vector: AnyArray) -> AnyArray:
        """``M v`` for every row of ``vector``."""
        return self.basis.to_params(Diagonal(self.values).matvec(self.basis.adjoint(vector)))

    rmatvec = matvec

    def solve(self, vector: AnyArray) -> AnyArray:
        """``M^-1 v`` for every row of ``vector``."""
        dual = self.basis.dual
        return dual.to_params(Diagonal(self.values).solve(dual.adjoint(vector)))

    @property
    def array(self) -> AnyArray:
        """Values along the basis."""
        return self.values

    def variances(self, dim: int) -> Vector:
        """The diagonal, in the order of the parameters."""
        del dim
        return np.asarray(self.basis.squares(self.values), float)

    def sqrt(self) -> "KroneckerRoot":
        """``R`` with ``R R' = M``."""
        return KroneckerRoot(self.basis, np.sqrt(self.values))

    def trace(self, dim: int) -> float:
        """Sum of the diagonal."""
        return float(np.sum(self.variances(dim)))

    def logdet(self, dim: int) -> float:
        """Logarithm of the determinant."""
        del dim
        units = self.basis.shape[0] * float(np.sum(np.log(self.basis.scale)))
        return float(np.sum(np.log(self.values))) + 2 * units

    def dense(self, dim: int) -> Vector:
        """The matrix itself."""
        return np.asarray(self.matvec(np.eye(dim)), float)

    def astype(self, dtype: npt.DTypeLike) -> "Kronecker":
        """The same operator in another precision."""
        return Kronecker(self.basis.astype(dtype), np.asarray(self.values, dtype))

    @property
    def structure(self) -> str:
        """``kronecker``."""
        return "kronecker"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KroneckerRoot:
    """``V diag(values)``: maps the coordinates of a basis, each in a unit of its own."""

    basis: KroneckerBasis
    values: AnyArray

    def matvec(self, vector: AnyArray) -> AnyArray:
        """``R z`` for every row of ``vector``."""
        return self.basis.to_params(Diagonal(self.values).matvec(vector))

    def rmatvec(self, vector: AnyArray) -> AnyArray:
        """``R' v`` for every row of ``vector``."""
        return Diagonal(self.values).matvec(self.basis.adjoint(vector))

    def solve(self, vector: AnyArray) -> AnyArray:
        """``R^-1 v`` for every row of ``vector``."""
        return Diagonal(self.values).solve(self.basis.to_coordinates(vector))

    @property
    def array(self) -> AnyArray:
        """Units along the basis."""
        return self.values

    def dense(self, dim: int) -> Vector:
        """The matrix itself."""
        return np.asarray(self.matvec(np.eye(dim)), float).T

    def astype(self, dtype: npt.DTypeLike) -> "KroneckerRoot":
        """The same operator in another precision."""
        return KroneckerRoot(self.basis.astype(dtype), np.asarray(self.values, dtype))

    @property
    def structure(self) -> str:
        """``kronecker``."""
        return "kronecker"


Operator: TypeAlias = Diagonal | Dense | Kronecker
Factor: TypeAlias = Diagonal | Dense | KroneckerRoot
"""A square root of an operator: its product, transposed product and inverse are cheap too."""


def dim_of(factor: Factor) -> int:
    """Number of parameters; 0 for a multiple of the identity."""
    return int(np.size(factor.array)) if np.ndim(factor.array) == 1 else len(factor.array)


def _xp(array: AnyArray) -> Any:
    """NumPy for host arrays, JAX's for device arrays."""
    return np if isinstance(array, np.ndarray) else jnp


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
