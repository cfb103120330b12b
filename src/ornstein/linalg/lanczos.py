"""Spectra of matrices that are known by their products only (Lanczos' method)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ornstein._base.types import Vector
from ornstein.storage.codec import register

_SHARE = 1e-14  # of a start, below which an eigenvalue is rounding's
_ENDED = 3e-6  # of a product, what single precision leaves of it where there is no new direction


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
