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

from ornstein import theory
from ornstein._base.precision import double_precision
from ornstein._base.types import Key, Vector
from ornstein.curvature.estimation import Geometry, mean_gradient
from ornstein.curvature.views import Rows, View, view_of
from ornstein.data.batches import Order, multiplicity_of, weights_of
from ornstein.data.passes import fingerprint
from ornstein.models.posterior import Posterior
from ornstein.storage.codec import register

_STEP_ROWS = 200  # rows that take as long as a step's fixed cost, on a processor
_PLAIN_STEP_ROWS = 8  # the same, where reading orders must be redrawn oftener for larger batches
_KURTOSIS = 0.3  # what the rows' leverages may leave in the draws
_WEIGHTED = 1.5  # how much smaller a batch must be to be worth drawing by leverage
_NOISE_SHARE = 0.5  # of a step's noise that minibatches may make where A is known in factors,
_NOISE_ERROR = 0.04  # and what its correlations there may cost a variance
_KICK = 2.0  # how far the strongest row may throw the chain, in its distance from the anchor


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
        over the posterior; the weights w are 1 unless rows are drawn by their leverage. Its
        diagonal along the basis where A is known in factors.
    strongest, row
        ``N`` times the (weighted) leverage of the strongest row, and which it is.
    fourth
        Bound on the fourth moment of a row's kick along any direction, in posterior units.
    seen
        Fingerprint of the rows and fixed numbers of the posterior.
    multiplicity
        How often each row is listed for drawing; None where all are drawn alike.
    beyond, aligned
        Of noise that is not in its diagonal along a basis, in units of the approximate posterior
        and as means over directions: its square, and its product with ``A - 1``.
    """

    slope: Vector
    noise_cov: Vector
    strongest: float
    row: int
    fourth: float
    seen: str
    multiplicity: Order | None = None
    beyond: float = 0.0
    aligned: float = 0.0


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
    with double_precision():
        return _look(view_of(post, known, cov, key), rows, scheme, size)


def _look(view: View, rows: int | None, scheme: str, size: int | None) -> Anchor:
    leverage, index = view.leverages(rows)
    found = _chosen(view, leverage, index, scheme, size)
    beyond, aligned = view.beyond(index, _weights(found.multiplicity, index), found.noise_cov)
    return replace(found, beyond=beyond, aligned=aligned)


def _weights(multiplicity: Order | None, index: Rows) -> Vector:
    return np.ones(len(index)) if multiplicity is None else weights_of(multiplicity)[index]


def _chosen(view: View, leverage: Vector, index: Rows, scheme: str, size: int | None) -> Anchor:
    """By leverage or alike."""
    post, known, N = view.post, view.known, view.post.num_data
    slope = N * (known.gradient if known.rows_used == N else mean_gradient(post, known.center))
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
    view: View, slope: Vector, leverage: Vector, index: Rows, multiplicity: Order | None
) -> Anchor:
    """What is left of the noise where rows are listed so often."""
    weight = _weights(multiplicity, index)
    second, fourth = view.sums(index, np.stack([weight, weight**3 * leverage**2]))
    seen = fingerprint((view.post.data, view.post.hyper))
    known, cov, leverage = view.known, view.cov, weight * leverage
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
    draws. Gains in factors make shorter steps, by their rate; there, batches are so large that the
    noise is a small part of a step's, and what is not known of it costs little.
    """
    rate = _rate(known)
    least = _least(known, anchored.strongest)
    safe = max(least, (3 * anchored.fourth / _KURTOSIS) ** (1 / 3) * rate)
    if known.factors is None:
        quick = _quickest(known, anchored.noise_cov, _STEP_ROWS)
    else:
        along = known.factors.diagonal(anchored.noise_cov)
        noise = _largest_relative(known.factors.hessian, known.num_data * along)
        quick = rate * max(noise / _NOISE_SHARE, math.sqrt(anchored.beyond) / (2 * _NOISE_ERROR))
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
