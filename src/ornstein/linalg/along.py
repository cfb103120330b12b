"""Operators and roots that are diagonal along a basis of ``bases``."""

from dataclasses import dataclass, replace
from typing import Self

import jax
import numpy as np
import numpy.typing as npt

from ornstein._base.types import Vector
from ornstein.linalg.bases import AnyArray, Basis
from ornstein.linalg.operators import Diagonal, Factor, Operator
from ornstein.storage.codec import register

_PROBES = 64  # random signs from which traces of products are estimated


@dataclass(frozen=True)
class _Along(Operator):
    """Numbers along the coordinates of a basis."""

    basis: Basis
    values: AnyArray

    @property
    def array(self) -> AnyArray:
        return self.values

    @property
    def structure(self) -> str:
        return self.basis.structure

    def like(self, array: AnyArray) -> Self:
        return replace(self, values=array)

    def astype(self, dtype: npt.DTypeLike) -> Self:
        return type(self)(self.basis.astype(dtype), np.asarray(self.values, dtype))

    def dense(self, dim: int) -> Vector:
        return np.asarray(self.matvec(np.eye(dim)), float)


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
        return self.basis.to_params(Diagonal(self.values).matvec(self.basis.adjoint(vector)))

    def inverse(self) -> "AlongDual":
        return AlongDual(self.basis, 1 / self.values)

    def sqrt(self) -> "BasisRoot":
        return BasisRoot(self.basis, np.sqrt(self.values))

    def variances(self, dim: int) -> Vector:
        del dim
        return np.asarray(self.basis.squares(self.values), float)

    def logdet(self, dim: int) -> float:
        del dim
        return self.basis.logdet(self.values)

    def product_traces(self, diagonals: Vector) -> Vector:
        """As the mean of ``x' B_j M B_k M x`` over random signs x."""
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_PROBES, diagonals.shape[1]))
        right = np.asarray(self.matvec(signs))
        left = [np.asarray(self.matvec(diagonal * signs)) for diagonal in diagonals]
        found = np.array([[(a * d * right).sum() for d in diagonals] for a in left]) / _PROBES
        return 0.5 * (found + found.T)


@register
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AlongDual(_Along):
    """``V^-T diag(values) V^-1`` with V a basis: a curvature, or the covariance of gradients.

    ``values`` are the diagonal of ``V' M V``, and all that is known of M.
    """

    @property
    def _along_dual(self) -> AlongBasis:
        return AlongBasis(self.basis.dual, self.values)

    def matvec(self, vector: AnyArray) -> AnyArray:
        return self._along_dual.matvec(vector)

    def inverse(self) -> AlongBasis:
        return AlongBasis(self.basis, 1 / self.values)

    def sqrt(self) -> "BasisRoot":
        return self._along_dual.sqrt()

    def variances(self, dim: int) -> Vector:
        return self._along_dual.variances(dim)

    def logdet(self, dim: int) -> float:
        return -self.inverse().logdet(dim)

    def project(self, other: Operator) -> Operator:
        """The diagonal of ``V' M V``; another operator along a basis as it is."""
        if isinstance(other, _Along):
            return other
        return self.like(np.diag(self.basis.inside(np.asarray(other.array))).copy())


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BasisRoot(Factor):
    """``V diag(values)``: maps the coordinates of a basis, each in a unit of its own."""

    basis: Basis
    values: AnyArray

    @property
    def array(self) -> AnyArray:
        return self.values

    def matvec(self, vector: AnyArray) -> AnyArray:
        return self.basis.to_params(Diagonal(self.values).matvec(vector))

    def rmatvec(self, vector: AnyArray) -> AnyArray:
        return Diagonal(self.values).matvec(self.basis.adjoint(vector))

    def solve(self, vector: AnyArray) -> AnyArray:
        return Diagonal(self.values).solve(self.basis.to_coordinates(vector))

    def quotient(self, root: Factor) -> Vector | None:
        if isinstance(root, BasisRoot) and root.basis is self.basis:
            return np.asarray(root.values) / np.asarray(self.values)
        return None

    def dense(self, dim: int) -> Vector:
        del dim
        return np.asarray(self.matvec(np.eye(np.size(self.values))), float).T

    def astype(self, dtype: npt.DTypeLike) -> "BasisRoot":
        return BasisRoot(self.basis.astype(dtype), np.asarray(self.values, dtype))
