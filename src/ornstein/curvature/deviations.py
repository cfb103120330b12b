"""Rows seen from an anchor (X9): how far each can move a chain, and the noise all leave.

With ``d_n = grad l_n(theta) - grad l_n(anchor)`` and theta from a Gaussian around the anchor, all
that anchored gradients leave of the noise follows from the ``E[d_n d_n']`` of the rows.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base import multihost
from ornstein._base.checks import random_key
from ornstein._base.trees import in_double
from ornstein._base.types import Array, Key, PyTree, Vector
from ornstein.curvature.geometry import Geometry
from ornstein.curvature.products import hessian_products, row_products
from ornstein.curvature.row_sums import block_rows, chosen_rows
from ornstein.data.passes import blocks
from ornstein.linalg.along import BasisRoot
from ornstein.linalg.operators import Factor, Operator
from ornstein.models.contract import Model
from ornstein.models.posterior import Posterior

Rows: TypeAlias = npt.NDArray[np.int64]
"""Numbers of rows."""

_DIRECTIONS = 32  # of points around the anchor, for models without closed forms
WORK = 2e10  # multiplications spent on the rows; beyond, they are sampled
_FEWEST = 1000  # rows sampled, at least
_ON_DISK = 2**17  # rows looked up on disk one by one, at most
_PROBES = 4  # random directions along which the noise beyond a basis is measured,
_PROBED = 2**12  # and rows in each of two halves


class Deviations(ABC):
    """Those over a Gaussian of covariance ``cov``."""

    def __init__(
        self, post: Posterior, geometry: Geometry, cov: Operator, key: Key, work: float
    ) -> None:
        self.post, self.geometry, self.cov, self.key = post, geometry, cov, key
        self.affordable = self.summed = max(_FEWEST, int(WORK / work))

    @abstractmethod
    def leverages_of(self, *block: Any) -> Array:
        """Squared leverages of a block's rows: ``E[d_n' cov d_n]``."""

    @abstractmethod
    def block_sums(self, lines: Array, *block: Any) -> Array | Vector:
        """Sums of ``E[d_n d_n']`` over a block's rows, one for every line of weights."""

    @abstractmethod
    def _arrays(self) -> tuple[tuple[Any, ...], int]:
        """What compiled code needs beside the rows, and how many rows a block has."""

    def leverages(self, rows: int | None) -> tuple[Vector, Rows]:
        """``N`` times the leverage of some rows, and their numbers."""
        N = self.post.num_data
        most = _ON_DISK if self.post.on_disk else 5 * self.affordable
        count = min(N if rows is None else rows, most)
        index = np.arange(N) if count == N else np.sort(chosen_rows(self.post, count, self.key))
        squares = [
            np.asarray(self.leverages_of(*block))[weights > 0]
            for block, weights in self._blocks(_own(index))
        ]
        found = np.concatenate([np.empty(0), *squares]).tobytes()
        all_squares = np.frombuffer(b"".join(multihost.gathered(found)))
        return N * np.sqrt(np.maximum(all_squares, 0.0)), index

    def sums(self, index: Rows, weights: Vector) -> Vector:
        """Means over rows of ``weights_n E[d_n d_n']``, one for every line of ``weights``."""
        shape = np.shape(self.cov.array)
        return self._mean(self.block_sums, *self._some(index, weights), shape)

    def beyond(self, index: Rows, weights: Vector, noise_cov: Operator) -> tuple[float, float]:
        """How much noise ``noise_cov`` does not hold: none, where it is a matrix."""
        del index, weights, noise_cov
        return 0.0, 0.0

    def _some(self, index: Rows, weights: Vector) -> tuple[Rows, Vector]:
        """As many rows as may be summed over, with their lines of weights."""
        if len(index) <= self.summed:
            return index, weights
        kept = np.linspace(0, len(index) - 1, self.summed).astype(int)
        return index[kept], weights[:, kept]

    def _mean(self, function: Any, index: Rows, weights: Vector, shape: tuple[int, ...]) -> Vector:
        """Means over rows of what blocks of them add up to, one for every line of weights."""
        count, index = len(index), _own(index)
        weights = _own(weights.T).T
        total, start = np.zeros((len(weights), *shape)), 0
        for block, present in self._blocks(index):
            size = int(present.sum())
            lines = np.zeros((len(weights), len(present)))
            lines[:, :size] = weights[:, start : start + size]
            total += np.asarray(function(jnp.asarray(lines), *block))
            start += size
        return np.asarray(multihost.total(total)) / count

    def _blocks(self, index: Rows) -> Iterator[tuple[tuple[Any, ...], Vector]]:
        """Blocks of rows in double precision, with all that compiled code needs."""
        arrays, size = self._arrays()
        data = self.post.data
        if len(index) < self.post.num_data:
            data = jax.tree.map(lambda leaf: leaf[index], data)
        for block, weights in blocks(data, size):
            yield (*arrays, in_double(block), self.post.hyper), weights


class AlongDeviations(Deviations):
    """The same where A and C are held along a basis only."""

    @property
    def root(self) -> BasisRoot:
        root = self.geometry.hessian.inverse().sqrt()
        assert isinstance(root, BasisRoot)
        return root

    @abstractmethod
    def block_products(self, moved: Array, lines: Array, *block: Any) -> Array:
        """Sums of ``w_n E[d_n d_n'] v`` over a block's rows, for every v."""

    def beyond(self, index: Rows, weights: Vector, noise_cov: Operator) -> tuple[float, float]:
        """How much noise is not in its diagonal along the basis, means over directions.

        With ``n`` that of ``N C`` in units of the approximate posterior, and M the true A in them:
        ``|n - diag|^2 / D``, from products by two halves of some rows, so that these rows' own
        scatter does not count; and ``(M - 1) . (n - diag) / D``.
        """
        geometry, N, D, root = self.geometry, self.post.num_data, self.post.dim, self.root
        hessian, units = np.asarray(geometry.hessian.array), np.asarray(root.values)
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_PROBES, len(hessian)))
        seen = root.basis.seen(signs, units)
        held = N * np.asarray(noise_cov.array) / hessian * seen
        diagonal = root.basis.seen(held, units)
        moved = np.asarray(root.matvec(seen))
        step = max(1, -(-len(index) // (2 * _PROBED)))
        halves = [
            self._noise(index[half :: 2 * step], weights[half :: 2 * step], root, moved) - diagonal
            for half in (0, step)
        ]
        bent = hessian_products(self.post, geometry.center, moved, self.post.data)
        misfit = np.asarray(root.rmatvec(bent)) - seen
        square = float((halves[0] * halves[1]).sum()) / (_PROBES * D)
        return max(0.0, square), float((misfit * sum(halves)).sum()) / (2 * _PROBES * D)

    def _noise(self, index: Rows, weights: Vector, root: BasisRoot, moved: Vector) -> Vector:
        """``n`` times coordinates, of some rows."""
        products = partial(self.block_products, jnp.asarray(moved))
        total = self._mean(products, index, weights[None], moved.shape)[0]
        return self.post.num_data * np.asarray(root.rmatvec(total))


class PredictorDeviations(AlongDeviations):
    """Of models of linear predictors, whose deviations are ``residual (x) u``."""

    @abstractmethod
    def residual_squares(self, *block: Any) -> Array:
        """Covariances (n, K, K) of the rows' residuals about those at the anchor."""

    def block_products(self, moved: Array, lines: Array, *block: Any) -> Array:
        residual = self.residual_squares(*block)
        return _noise_products(self.post.model, residual, block[-2], lines[0], moved)


class PointDeviations(AlongDeviations):
    """Of any model, by points around the anchor that have the covariance's second moments."""

    def __init__(self, post: Posterior, geometry: Geometry, cov: Operator, key: Key) -> None:
        root = cov.sqrt()
        self.points = points_around(geometry.center, root, root.coordinates(post.dim), key)
        super().__init__(post, geometry, cov, key, len(self.points) * post.dim)
        self.cov_root = root

    def _arrays(self) -> tuple[tuple[Any, ...], int]:
        arrays = self.cov_root, self.geometry.center, self.points
        return tuple(jax.tree.map(jnp.asarray, arrays)), block_rows(self.post)

    def leverages_of(self, *block: Any) -> Array:
        return _point_leverages(self.post.model, *block)

    def block_sums(self, lines: Array, *block: Any) -> Array:
        return _point_sums(self.post.model, lines, *block)

    def block_products(self, moved: Array, lines: Array, *block: Any) -> Array:
        return _point_products(self.post.model, moved, lines[0], *block)


def points_around(center: Vector, root: Factor, size: int, key: Key) -> Vector:
    """Pairs of opposite points around the centre with the covariance's second moments."""
    seed = np.asarray(jax.random.key_data(random_key(key))).tolist()
    normal = np.random.default_rng(seed).normal(size=(size, min(size, _DIRECTIONS)))
    directions = np.linalg.qr(normal)[0] * math.sqrt(size)
    offsets = np.asarray(root.matvec(directions.T))
    return np.concatenate([center + offsets, center - offsets])


def _own(pieces: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Those that this process of a run has."""
    mine = multihost.share(len(pieces))
    return pieces[mine.start : mine.stop]


@partial(jax.jit, static_argnums=(0,))
def _noise_products(
    model: Model, residual: Array, rows: PyTree, weights: Array, vectors: Array
) -> Array:
    return row_products(model, residual * weights[:, None, None], rows, vectors)


def _over_points(
    model: Model, function: Any, center: Array, points: Array, rows: PyTree, hyper: PyTree
) -> Array:
    """Mean over points of what a function makes of the rows' deviations (n, D)."""
    here = model.gradients(center, rows, hyper)
    found = jax.lax.map(lambda theta: function(model.gradients(theta, rows, hyper) - here), points)
    return found.mean(axis=0)


@partial(jax.jit, static_argnums=(0,))
def _point_leverages(model: Model, root: Factor, *block: Any) -> Array:
    return _over_points(model, lambda d: (root.rmatvec(d) ** 2).sum(axis=1), *block)


@partial(jax.jit, static_argnums=(0,))
def _point_sums(model: Model, lines: Array, root: BasisRoot, *block: Any) -> Array:
    return _over_points(model, lambda d: lines @ root.basis.adjoint(d) ** 2, *block)


@partial(jax.jit, static_argnums=(0,))
def _point_products(
    model: Model, vectors: Array, weights: Array, root: Factor, *block: Any
) -> Array:
    del root
    return _over_points(model, lambda d: (vectors @ d.T * weights[None]) @ d, *block)
