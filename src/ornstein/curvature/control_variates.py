"""Control variates: gradient noise when gradients are anchored at the optimum.

Of first order (X9), with ``g(anchor) + 1/S sum (grad l_n(theta) - grad l_n(anchor))`` for the
minibatch gradient, the noise vanishes at the anchor and grows away from it. T2 stays exact with its
mean over the posterior, which is of order D/S where that of plain gradients is N/S: mixing takes a
few steps, however many rows there are.

Of second order (X10), ``hess l_n(anchor) (theta - anchor)`` is taken off every row too and its sum
over all rows, ``N A (theta - anchor)``, added: the batch estimates only how far the loss is from
quadratic. That noise is of order D^2 / (N S) and vanishes as rows are added.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ornstein._base.precision import double_precision
from ornstein._base.types import Key, Vector
from ornstein.curvature import structures
from ornstein.curvature.deviations import Deviations, Rows
from ornstein.curvature.geometry import Geometry
from ornstein.curvature.row_sums import mean_gradient
from ornstein.data.batches import Order, multiplicity_of, weights_of
from ornstein.data.passes import fingerprint
from ornstein.linalg.operators import Operator
from ornstein.models.posterior import Posterior
from ornstein.storage.codec import register

_STEP_ROWS = 200  # rows that take as long as a step's fixed cost, on a processor
_PLAIN_STEP_ROWS = 8  # the same, where permutations must be redrawn more often for larger batches
_KURTOSIS = 0.3  # what the rows' leverages may leave in the draws
_WEIGHTED = 1.5  # how much smaller a batch must be to be worth drawing by leverage
_NOISE_SHARE = 0.5  # of a step's noise that minibatches may make where A is held approximately,
_NOISE_ERROR = 0.04  # and what its correlations there may cost a variance
_PUSH = {1: 2.0, 2: 0.5}  # how far the strongest row may move the chain, by order: in its distance
# from the anchor, and in standard deviations
_KICKED = 0.1  # of a velocity's variance that a kick's noise may make
_LITTLE = 50  # noise of a row relative to the posterior, above which the first order is tried too


@register
@dataclass(frozen=True)
class Anchor:
    """What anchored gradients leave of the noise.

    Attributes
    ----------
    slope
        Gradient of ``-log p(theta | data)`` at the anchor.
    noise_cov
        Covariance of ``w_n (grad l_n(theta) - grad l_n(anchor))`` over draws of rows, averaged
        over the posterior, or of what the second order leaves of it; the weights w are 1 unless
        rows are drawn by their leverage.
    strongest, row
        ``N`` times the (weighted) leverage of the strongest row, and which it is.
    fourth
        Bound on the fourth moment of a row's push along any direction, in posterior units.
    seen
        Fingerprint of the rows and fixed numbers of the posterior.
    multiplicity
        How often each row is listed for drawing; None where all are drawn alike.
    beyond, aligned
        Of noise that an approximate structure does not hold, in units of the approximate
        posterior and as means over directions: its square, and its product with ``A - 1``.
    """

    slope: Vector
    noise_cov: Operator
    strongest: float
    row: int
    fourth: float
    seen: str
    multiplicity: Order | None = None
    beyond: float = 0.0
    aligned: float = 0.0
    order: int = 1
    why: str = ""
    """Why the order is the first where the second is on offer otherwise."""


def anchor(
    post: Posterior,
    geometry: Geometry,
    cov: Operator,
    rows: int | None = None,
    key: Key = 0,
    scheme: str = "auto",
    size: int | None = None,
    order: int | None = None,
) -> Anchor:
    """The noise of anchored gradients over a Gaussian of covariance ``cov`` around the optimum.

    With ``scheme="auto"`` rows are drawn by their leverage where batches drawn alike would have to
    be far larger, or larger than the ``size`` given; with ``"weighted"`` anyway. The order is the
    second unless it is given, A is not known for it, or the first leaves less noise.
    """
    why = lacking(geometry)
    made = partial(_of_order, post, geometry, cov, rows, key, scheme, size)
    if order is not None:
        return made(order)
    if why:
        return replace(made(1), why=why)
    second = made(2)
    left = _noise(geometry, second)
    first = made(1) if left > _LITTLE else second
    if _noise(geometry, first) < left:
        return replace(first, why="the second leaves more noise")
    return second


def _noise(geometry: Geometry, anchored: Anchor) -> float:
    """The largest eigenvalue of ``N C`` relative to A."""
    return _largest_relative(geometry.hessian, anchored.noise_cov.scaled(geometry.num_data))


def lacking(geometry: Geometry) -> str:
    """What control variates of second order lack here; empty where nothing (X10)."""
    if geometry.frame.approximate or not structures.find(geometry.structure).second_order:
        return f"A is held as {geometry.frame.structure}"
    return "" if geometry.rows_used == geometry.num_data else "A comes from some rows only"


def _of_order(
    post: Posterior,
    geometry: Geometry,
    cov: Operator,
    rows: int | None,
    key: Key,
    scheme: str,
    size: int | None,
    order: int,
) -> Anchor:
    with double_precision():
        structure = structures.find(geometry.structure)
        deviations = structure.deviations(post, geometry, cov, key, order)
        leverage, index = deviations.leverages(rows)
        found = replace(_chosen(deviations, leverage, index, scheme, size, order), order=order)
        weights = _weights(found.multiplicity, index)
        beyond, aligned = deviations.beyond(index, weights, found.noise_cov)
    return replace(found, beyond=beyond, aligned=aligned)


def _weights(multiplicity: Order | None, index: Rows) -> Vector:
    return np.ones(len(index)) if multiplicity is None else weights_of(multiplicity)[index]


def _chosen(
    deviations: Deviations,
    leverage: Vector,
    index: Rows,
    scheme: str,
    size: int | None,
    order: int,
) -> Anchor:
    """With rows drawn by their leverage, or all alike."""
    post, geometry = deviations.post, deviations.geometry
    N = post.num_data
    whole = geometry.rows_used == N
    slope = N * (geometry.gradient if whole else mean_gradient(post, geometry.center))
    drawn = partial(_anchor_of, deviations, slope, leverage, index, order)
    if scheme != "weighted" and (scheme != "auto" or len(index) < N):
        return drawn(None)
    full = np.ones(N)
    full[index] = leverage / max(float(leverage.mean()), np.finfo(float).tiny)
    weighted = drawn(multiplicity_of(full))
    if scheme == "weighted":
        return weighted
    fewer = _WEIGHTED * batch_size(geometry, replace(weighted, order=order))[0]

    def better(wanted: int, safe: float) -> bool:
        return fewer < wanted if size is None else safe > size

    least = _least(geometry, float(leverage.max()), order)
    if better(_rounded(least, N), least):  # whatever else rows drawn alike would want
        return weighted
    alike = drawn(None)
    return weighted if better(*batch_size(geometry, replace(alike, order=order))) else alike


def _anchor_of(
    deviations: Deviations,
    slope: Vector,
    leverage: Vector,
    index: Rows,
    order: int,
    multiplicity: Order | None,
) -> Anchor:
    """What is left of the noise where rows are listed so often."""
    post, geometry, cov = deviations.post, deviations.geometry, deviations.cov
    weight = _weights(multiplicity, index)
    second, fourth = deviations.sums(index, np.stack([weight, weight**3 * leverage**2]))
    leverage = weight * leverage
    # The mean over rows of the deviations is the likelihood's share of A, times the distance; of
    # second order it is small beside the rows' own.
    likelihood = geometry.likelihood
    mean = likelihood.congruent(cov) if order == 1 else 0.0
    noise = likelihood.like(second - mean).semidefinite()
    # E (v e)^4 <= E |v|^2 (v e)^2 for a push v along e.
    along = _largest_relative(geometry.hessian, likelihood.like(geometry.num_data * fourth))
    strongest = int(np.argmax(leverage))
    return Anchor(
        slope=slope,
        noise_cov=noise,
        strongest=float(leverage[strongest]),
        row=int(index[strongest]),
        fourth=along,
        seen=fingerprint((post.data, post.hyper)),
        multiplicity=multiplicity,
    )


def batch_size(geometry: Geometry, anchored: Anchor, kick: float | None = None) -> tuple[int, int]:
    """Rows for the quickest draws, and the fewest that the strongest row leaves safe.

    With a ``kick``, by which a step multiplies gradients, rows that leave little noise of it; all
    where a quarter would not do.

    A row of leverage h moves the chain by about ``N h / S`` of its distance from the anchor; such
    pushes leave an excess kurtosis of at most 3 times their fourth moment, over ``S^3``, in the
    draws. Gains of approximate structures make shorter steps, by their rate; there, batches are so
    large that the noise is a small part of a step's, and what is not known of it costs little.
    """
    frame, N = geometry.frame, geometry.num_data
    least = _least(geometry, anchored.strongest, anchored.order)
    safe = max(least, (3 * anchored.fourth / _KURTOSIS) ** (1 / 3) * frame.rate)
    if kick is None and anchored.order == 2:
        kick = 1.0  # the remainder grows with the square of the distance: its tails are heavy
    if kick is not None:
        safe *= kick
        wanted = _rounded(max(_noise(geometry, anchored) * kick**2 / _KICKED, safe), 4 * N)
        # Beyond a quarter of the rows, all of them leave no noise: wider angles make up for it.
        return (N if 4 * wanted > N else wanted), math.ceil(min(safe, N))
    if not frame.approximate:
        quick = _quickest(geometry, anchored.noise_cov, _STEP_ROWS)
    else:
        held = frame.hessian.project(anchored.noise_cov).scaled(N)
        noise = _largest_relative(frame.hessian, held)
        correlated = math.sqrt(anchored.beyond) / (2 * _NOISE_ERROR)
        quick = frame.rate * max(noise / _NOISE_SHARE, correlated)
    return _rounded(max(quick, safe), N), math.ceil(safe)


def _least(geometry: Geometry, strongest: float, order: int) -> float:
    """The fewest rows of which the strongest one moves the chain no further than it may."""
    return strongest / _PUSH[order] * geometry.frame.rate


def plain_batch_size(geometry: Geometry) -> int:
    """Rows for the quickest draws of plain gradients."""
    return _rounded(_quickest(geometry, geometry.noise_cov, _PLAIN_STEP_ROWS), geometry.num_data)


def _quickest(geometry: Geometry, noise_cov: Operator, step_rows: float) -> float:
    """The batch that makes ``(S + step_rows) (1 + n / 2S)`` least.

    A step costs so many rows besides its own and mixes in ``1 + n / 2S`` steps, n the largest
    eigenvalue of ``N C`` relative to A.
    """
    largest = _largest_relative(geometry.hessian, noise_cov.scaled(geometry.num_data))
    return math.sqrt(step_rows * largest / 2)


def _largest_relative(hessian: Operator, cov: Operator) -> float:
    """Largest eigenvalue of a covariance relative to A."""
    return max(0.0, float(np.nan_to_num(hessian.relative(cov)[-1])))


def _rounded(rows: float, num_data: int) -> int:
    """A multiple of 16, at most a quarter of the rows."""
    return min(16 * math.ceil(max(rows, 1) / 16), max(1, num_data // 4))
