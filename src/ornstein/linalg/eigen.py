"""Eigenvalues of symmetric matrices whose parameters have units of their own.

Every matrix is first scaled to a unit diagonal, so that results do not depend on the units. Of
matrices that are known by their products only, spectra are found by Lanczos' method.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg

from ornstein._base.types import Vector
from ornstein.storage.codec import register

_TINY = 1e-150  # stands for zero, so that inverses stay finite
_SHARE = 1e-14  # of a start, below which an eigenvalue is rounding's
_ENDED = 3e-6  # of a product, what single precision leaves of it where there is no new direction


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

    Raises
    ------
    numpy.linalg.LinAlgError
        If it is not positive definite, or an entry is not finite.
    """
    diagonal = np.diag(base)
    if not (np.isfinite(base).all() and np.isfinite(other).all() and (diagonal > 0).all()):
        raise np.linalg.LinAlgError("a matrix is not positive definite, or not finite")
    scale = 1 / np.sqrt(diagonal)
    outer = scale[:, None] * scale
    values, vectors = scipy.linalg.eigh(other * outer, base * outer)
    return Eigen(values, vectors, scale)


@register
class Spectrum(NamedTuple):
    """Eigenvalues of A relative to an approximation, and the share of all that each stands for."""

    nodes: Vector
    shares: Vector

    @classmethod
    def joined(cls, parts: "Sequence[Spectrum]") -> "Spectrum":
        """The mean of several estimates."""
        nodes = np.concatenate([part.nodes for part in parts])
        return cls(nodes, np.concatenate([part.shares for part in parts]) / len(parts))

    def mean(self, function: Callable[[Vector], Vector]) -> float:
        """Mean of a function of the eigenvalues."""
        return float(self.shares @ function(self.nodes))


def lanczos(product: Callable[[Vector], Vector], starts: Vector, steps: int) -> list[Spectrum]:
    """Quadrature of ``v' f(M) v / v'v`` for every start v, from products with a symmetric M.

    Examples
    --------
    >>> nodes, shares = lanczos(lambda v: v * np.array([1.0, 3.0]), np.ones((1, 2)), 2)[0]
    >>> nodes.round(9).tolist(), shares.round(9).tolist()
    ([1.0, 3.0], [0.5, 0.5])
    """
    here = starts / np.linalg.norm(starts, axis=1, keepdims=True)
    basis, diagonal, beside = [here], [], []
    for _ in range(steps):
        moved = product(basis[-1])
        diagonal.append((moved * basis[-1]).sum(axis=1))
        for _ in range(2):  # once more for rounding
            for past in basis:
                moved = moved - (moved * past).sum(axis=1, keepdims=True) * past
        length = np.linalg.norm(moved, axis=1)
        beside.append(np.where(length > _ENDED * np.abs(diagonal[-1]), length, 0.0))
        basis.append(moved / np.maximum(length, np.finfo(float).tiny)[:, None])
    return [
        _quadrature(np.array(diagonal)[:, i], np.array(beside)[:-1, i]) for i in range(len(starts))
    ]


def _quadrature(diagonal: Vector, beside: Vector) -> Spectrum:
    ended = np.flatnonzero(beside == 0)
    if len(ended):  # an invariant subspace: its quadrature is exact
        diagonal, beside = diagonal[: ended[0] + 1], beside[: ended[0]]
    matrix = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    nodes, vectors = np.linalg.eigh(matrix)
    shares = vectors[0] ** 2
    kept = shares > _SHARE
    return Spectrum(nodes[kept], shares[kept])
