"""Control variates (X9): gradient noise when gradients are anchored at the optimum.

With ``g(anchor) + 1/S sum (grad l_n(theta) - grad l_n(anchor))`` for the minibatch gradient, the
noise vanishes at the anchor and grows away from it. T2 stays exact with its mean over the
posterior, which is of order D/S where that of plain gradients is N/S: mixing takes a few steps,
however many rows there are.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein import factored, processes, theory
from ornstein._check import random_key
from ornstein._tree import blocks, fingerprint, in_double
from ornstein._types import Array, Key, PyTree, Vector
from ornstein.data import Order, multiplicity_of, weights_of
from ornstein.geometry import Factors, Geometry, block_rows, chosen_rows, mean_gradient
from ornstein.model import Model, Spread
from ornstein.operators import KroneckerBasis, as_operator
from ornstein.posterior import Posterior

Rows: TypeAlias = npt.NDArray[np.int64]
"""Numbers of rows."""

_DIRECTIONS = 32  # of points around the anchor, for models without closed forms
_WORK = 2e10  # multiplications spent on looking at the rows; beyond, they are sampled
_STORED_LOOKS = 2**17  # rows looked up on disk one by one
_STEP_ROWS = 200  # rows that take as long as a step's fixed cost, on a processor
_PLAIN_STEP_ROWS = 8  # the same, where reading orders must be redrawn oftener for larger batches
_KURTOSIS = 0.3  # what the rows' leverages may leave in the draws
_WEIGHTED = 1.5  # how much smaller a batch must be to be worth drawing by leverage
_NOISE_SHARE = 0.5  # of a step's noise that minibatches may make where A is known in factors
_KICK = 2.0  # how far the strongest row may throw the chain, in its distance from the anchor


@dataclass(frozen=True)
class Anchor:
    """What anchored gradients leave of the noise.

    Attributes
    ----------
    slope
        Gradient of ``-log p(theta | data)`` at the anchor.
    noise_cov
        Covariance of ``w_n (grad l_n(theta) - grad l_n(anchor))`` over draws of rows, averaged
        over the posterior; the weights w are 1 unless rows are drawn by their leverage. Its
        diagonal along the basis where A is known in Kronecker factors.
    strongest, row
        ``N`` times the (weighted) leverage of the strongest row, and which it is.
    fourth
        Bound on the fourth moment of a row's kick along any direction, in posterior units.
    seen
        Fingerprint of the rows and fixed numbers of the posterior.
    multiplicity
        How often each row is listed for drawing; None where all are drawn alike.
    """

    slope: Vector
    noise_cov: Vector
    strongest: float
    row: int
    fourth: float
    seen: str
    multiplicity: Order | None = None


class _View:
    """Rows seen from an anchor, over a Gaussian of covariance ``cov``."""

    def __init__(self, post: Posterior, known: Geometry, cov: Vector, key: Key) -> None:
        self.post, self.known, self.cov, self.key = post, known, cov, key
        points = _points(known.center, cov, key)
        closed_form = type(post.model).deviation_sums is not Model.deviation_sums
        work = post.dim**2 * (1 if closed_form else len(points))
        self.affordable = max(1000, int(_WORK / work))
        self.arrays = known.center, cov, points

    def leverages(self, rows: int | None) -> tuple[Vector, Rows]:
        """``N`` times the leverage of some rows, and their numbers."""
        N = self.post.num_data
        most = _STORED_LOOKS if self.post.stored else 5 * self.affordable
        count = min(N if rows is None else rows, most)
        index = np.arange(N) if count == N else np.sort(chosen_rows(self.post, count, self.key))
        kicks = [
            np.asarray(self.kicks(*block))[weights > 0]
            for block, weights in self._blocks(_own(index))
        ]
        seen = np.concatenate([np.empty(0), *kicks]).tobytes()
        all_kicks = np.frombuffer(b"".join(processes.gathered(seen)))
        return N * np.sqrt(np.maximum(all_kicks, 0.0)), index

    def sums(self, index: Rows, weights: Vector) -> Vector:
        """Means over rows of ``weights_n E[d_n d_n']``, one for every line of ``weights``."""
        if len(index) > self.affordable:
            kept = np.linspace(0, len(index) - 1, self.affordable).astype(int)
            index, weights = index[kept], weights[:, kept]
        count, index = len(index), _own(index)
        weights = _own(weights.T).T
        total, start = np.zeros((len(weights), *self.cov.shape)), 0
        for block, present in self._blocks(index):
            size = int(present.sum())
            lines = np.zeros((len(weights), len(present)))
            lines[:, :size] = weights[:, start : start + size]
            total += np.asarray(self.block_sums(jnp.asarray(lines), *block))
            start += size
        return np.asarray(processes.total(total)) / count

    def kicks(self, *block: Any) -> Array:
        """Squared leverages of a block's rows."""
        return _kicks(self.post.model, *block)

    def block_sums(self, lines: Array, *block: Any) -> Array:
        """Sums over a block's rows for every line of weights."""
        return _sums(self.post.model, *block, lines)

    def _blocks(self, index: Rows) -> Iterator[tuple[tuple[Any, ...], Vector]]:
        """Blocks of rows in double precision, with all that compiled code needs."""
        data = self.post.data
        if len(index) < self.post.num_data:
            data = jax.tree.map(lambda leaf: leaf[index], data)
        spread = Spread(*(jnp.asarray(array) for array in self.arrays))
        for block, weights in blocks(data, block_rows(self.post)):
            yield (spread, in_double(block), self.post.hyper), weights


class _FactoredView(_View):
    """The same along a Kronecker basis, where ``cov`` holds variances."""

    def __init__(self, post: Posterior, known: Geometry, cov: Vector, key: Key) -> None:
        self.post, self.known, self.cov, self.key = post, known, cov, key
        self.basis = _factors(known).basis
        self.affordable = max(1000, int(_WORK / self.basis.shape[1] ** 2))

    def _blocks(self, index: Rows) -> Iterator[tuple[tuple[Any, ...], Vector]]:
        data = self.post.data
        if len(index) < self.post.num_data:
            data = jax.tree.map(lambda leaf: leaf[index], data)
        arrays = jax.tree.map(jnp.asarray, (self.basis, self.cov, self.known.center))
        size = factored.block_rows(factored.predictors(self.post))
        for block, weights in blocks(data, size):
            yield (*arrays, in_double(block), self.post.hyper), weights

    def kicks(self, *block: Any) -> Array:
        return _factored_kicks(self.post.model, *block)

    def block_sums(self, lines: Array, *block: Any) -> Array:
        return _factored_sums(self.post.model, *block, lines)


def _own(pieces: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Those that this process of a run looks at."""
    mine = processes.share(len(pieces))
    return pieces[mine.start : mine.stop]


def _factors(known: Geometry) -> Factors:
    assert known.factors is not None
    return known.factors


def anchor(
    post: Posterior,
    known: Geometry,
    cov: Vector,
    rows: int | None = None,
    key: Key = 0,
    scheme: str = "auto",
    size: int | None = None,
) -> Anchor:
    """Look at anchored gradients over a Gaussian of covariance ``cov`` around the optimum.

    With ``scheme="auto"`` rows are drawn by their leverage where batches drawn alike would have to
    be far larger, or larger than the ``size`` given; with ``"weighted"`` anyway.
    """
    with jax.enable_x64(True):
        view = _FactoredView if known.structure == "kronecker" else _View
        return _look(view(post, known, cov, key), rows, scheme, size)


def _look(view: _View, rows: int | None, scheme: str, size: int | None) -> Anchor:
    post, known, N = view.post, view.known, view.post.num_data
    slope = N * (known.gradient if known.rows_used == N else mean_gradient(post, known.center))
    leverage, index = view.leverages(rows)
    seen = partial(_anchor_of, view, slope, leverage, index)
    if scheme != "weighted" and (scheme != "auto" or len(index) < N):
        return seen(None)
    full = np.ones(N)
    full[index] = leverage / max(float(leverage.mean()), np.finfo(float).tiny)
    weighted = seen(multiplicity_of(full))
    if scheme == "weighted":
        return weighted
    fewer = _WEIGHTED * batch_size(known, weighted)[0]

    def better(wanted: int, safe: float) -> bool:
        return fewer < wanted if size is None else safe > size

    least = _least(known, float(leverage.max()))
    if better(_rounded(least, N), least):  # whatever else rows drawn alike would want
        return weighted
    alike = seen(None)
    return weighted if better(*batch_size(known, alike)) else alike


def _anchor_of(
    view: _View, slope: Vector, leverage: Vector, index: Rows, multiplicity: Order | None
) -> Anchor:
    """What is left of the noise where rows are listed so often."""
    weight = np.ones(len(index)) if multiplicity is None else weights_of(multiplicity)[index]
    second, fourth = view.sums(index, np.stack([weight, weight**3 * leverage**2]))
    seen = fingerprint((view.post.data, view.post.hyper))
    return _anchor(view, slope, weight * leverage, index, second, fourth, seen, multiplicity)


def _anchor(
    view: _View,
    slope: Vector,
    leverage: Vector,
    index: Rows,
    second: Vector,
    fourth: Vector,
    seen: str,
    multiplicity: Order | None,
) -> Anchor:
    known, cov = view.known, view.cov
    # The mean over rows of the deviations is the likelihood's share of A, times the distance.
    likelihood = known.hessian - known.prior_hessian
    if cov.ndim == 1:
        noise = np.maximum(second - likelihood**2 * cov, 0.0)
    else:
        noise = second - likelihood @ cov @ likelihood
        noise = 0.5 * (noise + noise.T)
    # E (v e)^4 <= E |v|^2 (v e)^2 for a kick v along e.
    along = _largest_relative(known.hessian, known.num_data * fourth)
    strongest = int(np.argmax(leverage))
    return Anchor(
        slope=slope,
        noise_cov=noise,
        strongest=float(leverage[strongest]),
        row=int(index[strongest]),
        fourth=along,
        seen=seen,
        multiplicity=multiplicity,
    )


def batch_size(known: Geometry, anchored: Anchor) -> tuple[int, int]:
    """Rows for the quickest draws, and the fewest that the strongest row leaves safe.

    A row of leverage h moves the chain by about ``N h / S`` of its distance from the anchor; such
    kicks leave an excess kurtosis of at most 3 times their fourth moment, over ``S^3``, in the
    draws. Gains in Kronecker factors make shorter steps, by their rate; there, batches are so
    large that the noise, too, is a small part of a step's.
    """
    rate = _rate(known)
    least = _least(known, anchored.strongest)
    safe = max(least, (3 * anchored.fourth / _KURTOSIS) ** (1 / 3) * rate)
    if known.factors is None:
        quick = _quickest(known, anchored.noise_cov, _STEP_ROWS)
    else:
        along = known.factors.diagonal(anchored.noise_cov)
        noise = _largest_relative(known.factors.hessian, known.num_data * along)
        quick = rate * noise / _NOISE_SHARE
    return _rounded(max(quick, safe), known.num_data), math.ceil(safe)


def _least(known: Geometry, strongest: float) -> float:
    """The fewest rows of which the strongest one throws the chain no further than it may."""
    return strongest / _KICK * _rate(known)


def _rate(known: Geometry) -> float:
    return 1.0 if known.factors is None else known.factors.rate


def plain_batch_size(known: Geometry) -> int:
    """Rows for the quickest draws of plain gradients."""
    return _rounded(_quickest(known, known.noise_cov, _PLAIN_STEP_ROWS), known.num_data)


def _quickest(known: Geometry, noise_cov: Vector, step_rows: float) -> float:
    """The batch that makes ``(S + step_rows) (1 + n / 2S)`` least.

    A step costs so many rows besides its own and mixes in ``1 + n / 2S`` steps, n the largest
    eigenvalue of ``N C`` relative to A.
    """
    largest = _largest_relative(known.hessian, known.num_data * noise_cov)
    return math.sqrt(step_rows * largest / 2)


def _largest_relative(hessian: Vector, cov: Vector) -> float:
    """Largest eigenvalue of a covariance relative to A, both matrices or diagonals."""
    if hessian.ndim == 1:
        return max(0.0, float(np.nan_to_num(np.max(cov / hessian))))
    return max(0.0, float(np.nan_to_num(theory.relative_eigenvalues(hessian, cov)[-1])))


def _rounded(rows: float, num_data: int) -> int:
    """A multiple of 16, at most a quarter of the rows."""
    return min(16 * math.ceil(max(rows, 1) / 16), max(1, num_data // 4))


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
