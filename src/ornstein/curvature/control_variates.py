"""Control variates (X9): gradient noise when gradients are anchored at the optimum.

With ``g(anchor) + 1/S sum (grad l_n(theta) - grad l_n(anchor))`` for the minibatch gradient, the
noise vanishes at the anchor and grows away from it. T2 stays exact with its mean over the
posterior, which is of order D/S where that of plain gradients is N/S: mixing takes a few steps,
however many rows there are.
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
_PUSH = 2.0  # how far the strongest row may move the chain, in its distance from the anchor


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
        over the posterior; the weights w are 1 unless rows are drawn by their leverage.
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


def anchor(
    post: Posterior,
    geometry: Geometry,
    cov: Operator,
    rows: int | None = None,
    key: Key = 0,
    scheme: str = "auto",
    size: int | None = None,
) -> Anchor:
    """The noise of anchored gradients over a Gaussian of covariance ``cov`` around the optimum.

    With ``scheme="auto"`` rows are drawn by their leverage where batches drawn alike would have to
    be far larger, or larger than the ``size`` given; with ``"weighted"`` anyway.
    """
    with double_precision():
        structure = structures.find(geometry.structure)
        deviations = structure.deviations(post, geometry, cov, key)
        leverage, index = deviations.leverages(rows)
        found = _chosen(deviations, leverage, index, scheme, size)
        weights = _weights(found.multiplicity, index)
        beyond, aligned = deviations.beyond(index, weights, found.noise_cov)
    return replace(found, beyond=beyond, aligned=aligned)


def _weights(multiplicity: Order | None, index: Rows) -> Vector:
    return np.ones(len(index)) if multiplicity is None else weights_of(multiplicity)[index]


def _chosen(
    deviations: Deviations, leverage: Vector, index: Rows, scheme: str, size: int | None
) -> Anchor:
    """With rows drawn by their leverage, or all alike."""
    post, geometry = deviations.post, deviations.geometry
    N = post.num_data
    whole = geometry.rows_used == N
    slope = N * (geometry.gradient if whole else mean_gradient(post, geometry.center))
    drawn = partial(_anchor_of, deviations, slope, leverage, index)
    if scheme != "weighted" and (scheme != "auto" or len(index) < N):
        return drawn(None)
    full = np.ones(N)
    full[index] = leverage / max(float(leverage.mean()), np.finfo(float).tiny)
    weighted = drawn(multiplicity_of(full))
    if scheme == "weighted":
        return weighted
    fewer = _WEIGHTED * batch_size(geometry, weighted)[0]

    def better(wanted: int, safe: float) -> bool:
        return fewer < wanted if size is None else safe > size

    least = _least(geometry, float(leverage.max()))
    if better(_rounded(least, N), least):  # whatever else rows drawn alike would want
        return weighted
    alike = drawn(None)
    return weighted if better(*batch_size(geometry, alike)) else alike


def _anchor_of(
    deviations: Deviations, slope: Vector, leverage: Vector, index: Rows, multiplicity: Order | None
) -> Anchor:
    """What is left of the noise where rows are listed so often."""
    post, geometry, cov = deviations.post, deviations.geometry, deviations.cov
    weight = _weights(multiplicity, index)
    second, fourth = deviations.sums(index, np.stack([weight, weight**3 * leverage**2]))
    leverage = weight * leverage
    # The mean over rows of the deviations is the likelihood's share of A, times the distance.
    likelihood = geometry.likelihood
    noise = likelihood.like(second - likelihood.congruent(cov)).semidefinite()
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


def batch_size(geometry: Geometry, anchored: Anchor) -> tuple[int, int]:
    """Rows for the quickest draws, and the fewest that the strongest row leaves safe.

    A row of leverage h moves the chain by about ``N h / S`` of its distance from the anchor; such
    pushes leave an excess kurtosis of at most 3 times their fourth moment, over ``S^3``, in the
    draws. Gains of approximate structures make shorter steps, by their rate; there, batches are so
    large that the noise is a small part of a step's, and what is not known of it costs little.
    """
    frame, N = geometry.frame, geometry.num_data
    least = _least(geometry, anchored.strongest)
    safe = max(least, (3 * anchored.fourth / _KURTOSIS) ** (1 / 3) * frame.rate)
    if not frame.approximate:
        quick = _quickest(geometry, anchored.noise_cov, _STEP_ROWS)
    else:
        held = frame.hessian.project(anchored.noise_cov).scaled(N)
        noise = _largest_relative(frame.hessian, held)
        correlated = math.sqrt(anchored.beyond) / (2 * _NOISE_ERROR)
        quick = frame.rate * max(noise / _NOISE_SHARE, correlated)
    return _rounded(max(quick, safe), N), math.ceil(safe)


def _least(geometry: Geometry, strongest: float) -> float:
    """The fewest rows of which the strongest one moves the chain no further than it may."""
    return strongest / _PUSH * geometry.frame.rate


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
