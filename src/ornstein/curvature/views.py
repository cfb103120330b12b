"""Rows seen from an anchor (X9): how far each can throw a chain, and the noise all leave."""

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
from ornstein.curvature import by_class, factored
from ornstein.curvature.estimation import Factors, Geometry, block_rows, chosen_rows
from ornstein.data.passes import blocks
from ornstein.linalg.bases import ClassBasis, KroneckerBasis
from ornstein.linalg.operators import BasisRoot, as_operator
from ornstein.models.contract import Model, Spread
from ornstein.models.posterior import Posterior

Rows: TypeAlias = npt.NDArray[np.int64]
"""Numbers of rows."""

_DIRECTIONS = 32  # of points around the anchor, for models without closed forms
_WORK = 2e10  # multiplications spent on looking at the rows; beyond, they are sampled
_STORED_LOOKS = 2**17  # rows looked up on disk one by one
_PROBES = 4  # random directions along which the noise beyond a basis is looked at,
_PROBED = 2**12  # and rows in each of two halves


class View:
    """Over a Gaussian of covariance ``cov``."""

    def __init__(self, post: Posterior, known: Geometry, cov: Vector, key: Key) -> None:
        self.post, self.known, self.cov, self.key = post, known, cov, key
        points = _points(known.center, cov, key)
        closed_form = type(post.model).deviation_sums is not Model.deviation_sums
        work = post.dim**2 * (1 if closed_form else len(points))
        self.affordable = self.summed = max(1000, int(_WORK / work))
        self.arrays = known.center, cov, points

    def leverages(self, rows: int | None) -> tuple[Vector, Rows]:
        """``N`` times the leverage of some rows, and their numbers."""
        N = self.post.num_data
        most = _STORED_LOOKS if self.post.on_disk else 5 * self.affordable
        count = min(N if rows is None else rows, most)
        index = np.arange(N) if count == N else np.sort(chosen_rows(self.post, count, self.key))
        kicks = [
            np.asarray(self.kicks(*block))[weights > 0]
            for block, weights in self._blocks(_own(index))
        ]
        seen = np.concatenate([np.empty(0), *kicks]).tobytes()
        all_kicks = np.frombuffer(b"".join(multihost.gathered(seen)))
        return N * np.sqrt(np.maximum(all_kicks, 0.0)), index

    def sums(self, index: Rows, weights: Vector) -> Vector:
        """Means over rows of ``weights_n E[d_n d_n']``, one for every line of ``weights``."""
        return self._mean(self.block_sums, *self._some(index, weights), self.cov.shape)

    def beyond(self, index: Rows, weights: Vector, noise_cov: Vector) -> tuple[float, float]:
        """How much noise is not in ``noise_cov``: none, where that is a matrix."""
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

    def kicks(self, *block: Any) -> Array:
        """Squared leverages of a block's rows."""
        return _kicks(self.post.model, *block)

    def block_sums(self, lines: Array, *block: Any) -> Array:
        """Sums over a block's rows for every line of weights."""
        return _sums(self.post.model, *block, lines)

    def _blocks(self, index: Rows) -> Iterator[tuple[tuple[Any, ...], Vector]]:
        """Blocks of rows in double precision, with all that compiled code needs."""
        spread = Spread(*(jnp.asarray(array) for array in self.arrays))
        return self._some_blocks(index, block_rows(self.post), (spread,))

    def _some_blocks(
        self, index: Rows, size: int, arrays: tuple[Any, ...]
    ) -> Iterator[tuple[tuple[Any, ...], Vector]]:
        data = self.post.data
        if len(index) < self.post.num_data:
            data = jax.tree.map(lambda leaf: leaf[index], data)
        for block, weights in blocks(data, size):
            yield (*arrays, in_double(block), self.post.hyper), weights


class FactoredView(View, ABC):
    """The same along a basis, where ``cov`` holds variances."""

    def __init__(self, post: Posterior, known: Geometry, cov: Vector, key: Key) -> None:
        self.post, self.known, self.cov, self.key = post, known, cov, key
        self.basis = _factors(known).basis
        self.affordable = self.summed = max(1000, int(_WORK / self.basis.width**2))

    def beyond(self, index: Rows, weights: Vector, noise_cov: Vector) -> tuple[float, float]:
        """How much noise is not in its diagonal along the basis, means over directions.

        With ``n`` that of ``N C`` in units of the approximate posterior, and M the true A in them:
        ``|n - diag|^2 / D``, from products by two halves of some rows, so that these rows' own
        scatter does not count; and ``(M - 1) . (n - diag) / D``.
        """
        known, N, D = self.known, self.post.num_data, self.post.dim
        root = _factors(known).operator(1 / known.hessian).sqrt()
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_PROBES, len(known.hessian)))
        seen = root.basis.seen(signs, np.asarray(root.values))
        diagonal = root.basis.seen(N * noise_cov / known.hessian * seen, np.asarray(root.values))
        moved = np.asarray(root.matvec(seen))
        step = max(1, -(-len(index) // (2 * _PROBED)))
        halves = [
            self._noise(index[half :: 2 * step], weights[half :: 2 * step], root, moved) - diagonal
            for half in (0, step)
        ]
        bent = factored.hessian_products(self.post, known.center, moved, self.post.data)
        misfit = np.asarray(root.rmatvec(bent)) - seen
        square = float((halves[0] * halves[1]).sum()) / (_PROBES * D)
        return max(0.0, square), float((misfit * sum(halves)).sum()) / (2 * _PROBES * D)

    def _noise(self, index: Rows, weights: Vector, root: BasisRoot, moved: Vector) -> Vector:
        """``n`` times coordinates, of some rows."""
        products = partial(self.block_products, jnp.asarray(moved))
        total = self._mean(products, index, weights[None], moved.shape)[0]
        return self.post.num_data * np.asarray(root.rmatvec(total))

    def block_products(self, moved: Array, lines: Array, *block: Any) -> Array:
        """Sums of ``w_n E[d_n d_n'] v`` over a block's rows, for every v."""
        residual = self.residual_squares(*block)
        return _noise_products(self.post.model, residual, block[-2], lines[0], moved)

    @abstractmethod
    def block_sums(self, lines: Array, *block: Any) -> Array:
        """Sums over a block's rows for every line of weights."""

    @abstractmethod
    def residual_squares(self, *block: Any) -> Array:
        """Covariances (n, K, K) of the rows' residuals about those at the anchor."""


class KroneckerView(FactoredView):
    """Along Kronecker factors."""

    def _blocks(self, index: Rows) -> Iterator[tuple[tuple[Any, ...], Vector]]:
        arrays = jax.tree.map(jnp.asarray, (self.basis, self.cov, self.known.center))
        size = factored.block_rows(factored.predictors(self.post))
        return self._some_blocks(index, size, arrays)

    def kicks(self, *block: Any) -> Array:
        """Squared leverages of a block's rows."""
        return _factored_kicks(self.post.model, *block)

    def block_sums(self, lines: Array, *block: Any) -> Array:
        """Diagonals of sums over a block's rows for every line of weights."""
        return _factored_sums(self.post.model, *block, lines)

    def residual_squares(self, *block: Any) -> Array:
        """Covariances (n, K, K) of the rows' residuals about those at the anchor."""
        return _deviation_terms(self.post.model, *block)[2]


class ClassView(FactoredView):
    """Along a rotation of the columns for every class."""

    def __init__(self, post: Posterior, known: Geometry, cov: Vector, key: Key) -> None:
        super().__init__(post, known, cov, key)
        assert isinstance(self.basis, ClassBasis)
        self.summed = max(1000, self.affordable // 4)
        relative = (known.hessian / known.prior_hessian).reshape(self.basis.shape)
        dtype = by_class.precision(float(relative.sum(axis=1).max()))
        floor = by_class.floors(post, known.center, post.data)[1]
        self.spreads = by_class.spreads(self.basis, cov, floor, dtype)

    def _blocks(self, index: Rows) -> Iterator[tuple[tuple[Any, ...], Vector]]:
        size = factored.block_rows(factored.predictors(self.post), by_class.BLOCK_NUMBERS)
        return self._some_blocks(index, size, (jnp.asarray(self.known.center),))

    def kicks(self, *block: Any) -> Array:
        """Squared leverages of a block's rows."""
        predictor, residual = self._terms(*block)
        return (predictor * residual).sum(axis=(1, 2))

    def sums(self, index: Rows, weights: Vector) -> Vector:
        """Diagonals of means over rows, for every line of weights."""
        assert isinstance(self.basis, ClassBasis)
        shape = self.basis.inner.shape
        grams = self._mean(self.block_sums, *self._some(index, weights), shape)
        return np.stack([by_class.along(self.basis, gram) for gram in grams])

    def block_sums(self, lines: Array, *block: Any) -> Array:
        """Those of every class, (L, K, F, F)."""
        own = np.einsum("nkk->nk", np.asarray(self.residual_squares(*block)))
        own = own * by_class.knows(self.post.model, self.spreads, *block)
        design = by_class.design(self.post.model, block[1], self.spreads.mean.dtype)
        nothing = np.zeros(own.shape[1])
        weights = [np.asarray(line)[:, None] * own for line in lines]
        return np.stack([by_class.grams(design, each, nothing) for each in weights])  # type: ignore[return-value]

    def residual_squares(self, *block: Any) -> Array:
        """Covariances (n, K, K) of the rows' residuals about those at the anchor."""
        return self._terms(*block)[1]

    def _terms(self, center: Array, rows: PyTree, hyper: PyTree) -> tuple[Array, Array]:
        predictor = jnp.asarray(
            by_class.predictor_cov(self.post.model, self.spreads, center, rows, hyper)
        )
        return predictor, _residual_squares(self.post.model, center, predictor, rows, hyper)


def view_of(post: Posterior, known: Geometry, cov: Vector, key: Key) -> View:
    """Through what is known of A."""
    kinds = {"kronecker": KroneckerView, "classes": ClassView}
    return kinds.get(known.structure, View)(post, known, cov, key)


def _own(pieces: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Those that this process of a run looks at."""
    mine = multihost.share(len(pieces))
    return pieces[mine.start : mine.stop]


def _factors(known: Geometry) -> Factors:
    assert known.factors is not None
    return known.factors


def _points(center: Vector, cov: Vector, key: Key) -> Vector:
    """Pairs of opposite points around the centre with the covariance's second moments."""
    dim = len(center)
    seed = np.asarray(jax.random.key_data(random_key(key))).tolist()
    normal = np.random.default_rng(seed).normal(size=(dim, min(dim, _DIRECTIONS)))
    directions = np.linalg.qr(normal)[0] * math.sqrt(dim)
    offsets = np.asarray(as_operator(cov).sqrt().matvec(directions.T))
    return np.concatenate([center + offsets, center - offsets])


@partial(jax.jit, static_argnums=(0,))
def _kicks(model: Model, spread: Spread, rows: PyTree, hyper: PyTree) -> Array:
    return model.deviation_kicks(spread, rows, hyper)


@partial(jax.jit, static_argnums=(0,))
def _sums(model: Model, spread: Spread, rows: PyTree, hyper: PyTree, weights: Array) -> Array:
    return model.deviation_sums(spread, rows, hyper, weights)


_deviation_terms = jax.jit(factored.deviation_terms, static_argnums=(0,))


@partial(jax.jit, static_argnums=(0,))
def _factored_kicks(
    model: Model,
    basis: KroneckerBasis,
    variances: Array,
    center: Array,
    rows: PyTree,
    hyper: PyTree,
) -> Array:
    """``sum_ab V_ab (u' cov_ab u)`` of every row."""
    terms = factored.deviation_terms(model, basis, variances, center, rows, hyper)
    return (terms[1] * terms[2]).sum(axis=(1, 2))


@partial(jax.jit, static_argnums=(0,))
def _factored_sums(
    model: Model,
    basis: KroneckerBasis,
    variances: Array,
    center: Array,
    rows: PyTree,
    hyper: PyTree,
    lines: Array,
) -> Array:
    """Diagonals of ``V' E[d d'] V`` for every line of weights."""
    squares, _, residual = factored.deviation_terms(model, basis, variances, center, rows, hyper)
    along = factored.in_outputs(basis, residual)
    sums = [((along * line[:, None]).T @ squares).reshape(-1) for line in lines]
    return jnp.stack(sums)


@partial(jax.jit, static_argnums=(0,))
def _residual_squares(
    model: Model, center: Array, predictor: Array, rows: PyTree, hyper: PyTree
) -> Array:
    assert model.factored is not None
    return model.factored.residual_squares(center, predictor, rows, hyper)


@partial(jax.jit, static_argnums=(0,))
def _noise_products(
    model: Model, residual: Array, rows: PyTree, weights: Array, vectors: Array
) -> Array:
    return factored.products(model, residual * weights[:, None, None], rows, vectors)
