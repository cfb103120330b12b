"""Bases in which a curvature is nearly diagonal.

Bases are pytrees, and their products accept host and device arrays alike. Of models of several
linear predictors parameters lie as the models have them: coefficients (K, features) first, then
intercepts (K,) where the design has one more column than features.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base.types import Array, Vector
from ornstein.storage.codec import register

AnyArray: TypeAlias = Array | npt.NDArray[np.floating]


def _xp(array: AnyArray) -> Any:
    """NumPy for host arrays, JAX's for device arrays."""
    return np if isinstance(array, np.ndarray) else jnp


class Basis(ABC):
    """``V``: parameters are ``V z``, coordinates z lie along directions of the parameters.

    There may be more coordinates than parameters; then ``V V^-1`` is the identity, ``V^-1 V`` is
    not.
    """

    structure: ClassVar[str]
    """Name of the structure it belongs to."""

    @property
    @abstractmethod
    def dual(self) -> "Basis":
        """``V^-T``, in which ``M^-1`` is diagonal where M is in V."""

    @property
    def kronecker(self) -> "KroneckerBasis | None":
        """Itself where it is a Kronecker product over outputs and columns; else None."""
        return None

    @abstractmethod
    def to_params(self, z: AnyArray) -> AnyArray:
        """``V z`` for every row of coordinates."""

    @abstractmethod
    def adjoint(self, vector: AnyArray) -> AnyArray:
        """``V' v`` for every row of ``vector``."""

    @abstractmethod
    def prior(self, precision: Vector) -> Vector:
        """Diagonal of ``V' diag(precision) V``."""

    @abstractmethod
    def squares(self, values: AnyArray) -> AnyArray:
        """Diagonal of ``V diag(values) V'``."""

    @abstractmethod
    def logdet(self, values: AnyArray) -> float:
        """``log|V diag(values) V'|``."""

    @abstractmethod
    def astype(self, dtype: npt.DTypeLike) -> "Basis":
        """The same basis in another precision."""

    def to_coordinates(self, vector: AnyArray) -> AnyArray:
        """``V^-1 v`` for every row of parameters."""
        return self.dual.adjoint(vector)

    def inside(self, matrix: Vector) -> Vector:
        """``V' M V`` of a matrix over the parameters."""
        return np.asarray(self.adjoint(np.asarray(self.adjoint(matrix)).T))

    def seen(self, z: Vector, units: Vector) -> Vector:
        """The part of coordinates, each in a unit, that moves the parameters: all of it."""
        del units
        return z


class _Laid(Protocol):
    """Outputs, columns of the design, and those before the intercept."""

    @property
    def features(self) -> int: ...

    @property
    def outputs(self) -> int: ...

    @property
    def width(self) -> int: ...


def by_output(laid: _Laid, vector: AnyArray) -> AnyArray:
    """Parameters as (..., K, F)."""
    lead, size = vector.shape[:-1], laid.outputs * laid.features
    coef = vector[..., :size].reshape(*lead, laid.outputs, laid.features)
    if laid.features == laid.width:
        return coef
    last = vector[..., size:].reshape(*lead, laid.outputs, 1)
    return _xp(vector).concatenate([coef, last], axis=-1)


def as_flat(laid: _Laid, matrix: AnyArray) -> AnyArray:
    """Parameters from (..., K, F)."""
    lead = matrix.shape[:-2]
    if laid.features == laid.width:
        return matrix.reshape(*lead, -1)
    coef = matrix[..., : laid.features].reshape(*lead, -1)
    return _xp(matrix).concatenate([coef, matrix[..., laid.features]], axis=-1)


@register
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KroneckerBasis(Basis):
    """``V = V_c (x) diag(scale) V_f`` over outputs and columns of a design, (K, F) of them.

    Coordinates lie output by output.

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

    structure: ClassVar[str] = "kronecker"

    @property
    def shape(self) -> tuple[int, int]:
        """Of coordinates as a matrix: outputs and columns of the design, (K, F)."""
        return self.outputs, self.width

    @property
    def outputs(self) -> int:
        return self.outer.shape[0]

    @property
    def width(self) -> int:
        return self.inner.shape[0]

    @property
    def kronecker(self) -> "KroneckerBasis":
        return self

    @property
    def columns(self) -> Vector:
        """``diag(scale) V_f``."""
        return np.asarray(self.scale)[:, None] * np.asarray(self.inner)

    @property
    def dual(self) -> "KroneckerBasis":
        return replace(self, scale=1 / self.scale)

    def to_params(self, z: AnyArray) -> AnyArray:
        matrix = _by_lines(self.outer @ z.reshape(*z.shape[:-1], *self.shape), self.inner.T)
        return as_flat(self, matrix * _along(self.scale, matrix))

    def adjoint(self, vector: AnyArray) -> AnyArray:
        matrix = by_output(self, vector)
        rotated = _by_lines(self.outer.T @ (matrix * _along(self.scale, matrix)), self.inner)
        return rotated.reshape(*vector.shape[:-1], -1)

    def prior(self, precision: Vector) -> Vector:
        scaled = by_output(self, precision) * np.asarray(self.scale) ** 2
        return np.asarray((self.outer**2).T @ scaled @ self.inner**2).reshape(-1)

    def squares(self, values: AnyArray) -> AnyArray:
        matrix = self.outer**2 @ values.reshape(self.shape) @ (self.inner**2).T
        return as_flat(self, matrix * _along(self.scale, matrix) ** 2)

    def logdet(self, values: AnyArray) -> float:
        return float(np.sum(np.log(values))) + 2 * self.outputs * float(np.log(self.scale).sum())

    def astype(self, dtype: npt.DTypeLike) -> "KroneckerBasis":
        outer, inner, scale = (np.asarray(x, dtype) for x in (self.outer, self.inner, self.scale))
        return KroneckerBasis(outer, inner, scale, self.features)


@register
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ClassBasis(Basis):
    """``V = diag(scale) [P V_k, 1/sqrt(K)]``: columns rotated for every output by itself.

    ``P`` takes from every column its mean over the K outputs, which a softmax does not see.
    Coordinates lie output by output, K F of them; then follow those of what all outputs have in
    common, F. So they are more than the parameters: ``V V^-1`` is the identity, ``V^-1 V`` is not,
    and coordinates of the kernel of ``V`` say nothing.

    Attributes
    ----------
    inner
        Orthogonal ``V_k``, (K, F, F).
    scale
        Unit of every column, (F,).
    features
        Columns before the intercept.
    """

    inner: AnyArray
    scale: AnyArray
    features: int = field(metadata={"static": True})

    structure: ClassVar[str] = "per-class"

    @property
    def shape(self) -> tuple[int, int]:
        """Of coordinates as a matrix, (K + 1, F)."""
        return self.outputs + 1, self.width

    @property
    def outputs(self) -> int:
        return self.inner.shape[0]

    @property
    def width(self) -> int:
        return self.inner.shape[1]

    @property
    def dual(self) -> "ClassBasis":
        """Whose transpose is the ``V^-1`` that :meth:`to_coordinates` takes."""
        return replace(self, scale=1 / self.scale)

    def to_params(self, z: AnyArray) -> AnyArray:
        lead, (K, F) = z.shape[:-1], self.inner.shape[:2]
        rotated = self._turned(z[..., : K * F].reshape(*lead, K, F), self.inner.swapaxes(1, 2))
        common = z[..., K * F :].reshape(*lead, 1, F) / math.sqrt(K)
        matrix = rotated - rotated.mean(axis=-2, keepdims=True) + common
        return as_flat(self, matrix * _along(self.scale, matrix))

    def adjoint(self, vector: AnyArray) -> AnyArray:
        lead, matrix = vector.shape[:-1], by_output(self, vector)
        matrix = matrix * _along(self.scale, matrix)
        mean = matrix.mean(axis=-2, keepdims=True)
        turned = self._turned(matrix - mean, self.inner)
        parts = [turned, mean * math.sqrt(self.outputs)]
        return _xp(vector).concatenate(parts, axis=-2).reshape(*lead, -1)

    def seen(self, z: Vector, units: Vector) -> Vector:
        """The part of coordinates, each in a unit, that is orthogonal to what no parameter sees.

        ``V diag(units) z`` vanishes where ``V_k diag(units_k) z_k`` is the same for all k.
        """
        K, F = self.outputs, self.width
        inner, inverse = np.asarray(self.inner), 1 / np.asarray(units)[: K * F].reshape(K, F)
        gram = np.einsum("kfe,ke->kfe", inner, inverse**2) @ inner.swapaxes(1, 2)
        own = z[..., : K * F].reshape(*z.shape[:-1], K, F)
        shared = self._turned(own * inverse, inner.swapaxes(1, 2)).sum(axis=-2)
        solved = np.linalg.solve(gram.sum(axis=0), shared.reshape(-1, F).T).T
        unseen = self._turned(np.repeat(solved.reshape(*shared.shape[:-1], 1, F), K, -2), inner)
        left = (own - unseen * inverse).reshape(*z.shape[:-1], -1)
        return np.concatenate([left, z[..., K * F :]], axis=-1)

    def prior(self, precision: Vector) -> Vector:
        """The precision of every coordinate, from the mean over outputs of every column's."""
        by_column = by_output(self, precision).mean(axis=0) * np.asarray(self.scale) ** 2
        own = np.einsum("kfe,f->ke", np.asarray(self.inner) ** 2, by_column)
        return np.concatenate([own.reshape(-1), by_column])

    def squares(self, values: AnyArray) -> AnyArray:
        K, (own, common) = self.outputs, self._split(values)
        each = np.einsum("kfe,ke->kf", np.asarray(self.inner) ** 2, own)
        matrix = (1 - 2 / K) * each + each.sum(axis=0) / K**2 + common / K
        return as_flat(self, matrix * np.asarray(self.scale) ** 2)

    def logdet(self, values: AnyArray) -> float:
        """``log|V diag(values) V'|``.

        With ``B_k = V_k diag(1 / values_k) V_k'``, that of ``P diag(B_k^-1) P`` where P sees
        anything is ``log|mean B_k| - sum log|B_k|``.
        """
        own, common = self._split(values)
        inner = np.asarray(self.inner)
        mean = np.mean((inner / own[:, None]) @ inner.swapaxes(1, 2), axis=0)
        units = 2 * self.outputs * float(np.log(self.scale).sum())
        return units + float(np.log(own).sum() + np.log(common).sum() + np.linalg.slogdet(mean)[1])

    def astype(self, dtype: npt.DTypeLike) -> "ClassBasis":
        return ClassBasis(
            np.asarray(self.inner, dtype), np.asarray(self.scale, dtype), self.features
        )

    def _split(self, values: AnyArray) -> tuple[Vector, Vector]:
        matrix = np.asarray(values).reshape(self.shape)
        return matrix[:-1], matrix[-1]

    @staticmethod
    def _turned(matrices: AnyArray, turns: AnyArray) -> AnyArray:
        """``m_k T_k`` for the lines of (..., K, F), one product for each k."""
        lines = matrices.reshape(-1, *matrices.shape[-2:]).swapaxes(0, 1)
        return (lines @ turns).swapaxes(0, 1).reshape(matrices.shape)


def _along(scale: AnyArray, matrix: AnyArray) -> AnyArray:
    return scale.reshape((1,) * (matrix.ndim - 1) + (-1,))


def _by_lines(matrices: AnyArray, columns: AnyArray) -> AnyArray:
    """``M @ columns`` for stacks of matrices, one product for each: many small ones take longer."""
    stacks = matrices.reshape(*matrices.shape[:-3], -1, matrices.shape[-1])
    return (stacks @ columns).reshape(matrices.shape)
