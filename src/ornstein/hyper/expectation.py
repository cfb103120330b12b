"""The E-step: the mean score of the hyperparameters, over a Gaussian q or over draws.

With ``eta`` the hyperparameters on the unconstrained scale, the *score* of a parameter vector is
``s(theta) = d/d eta log p(y, theta | eta)``. Its mean over q is the slope that variational EM
ascends. Around a centre c it is taken to second order (exactly, for the ready-made models)::

    s_j(c + d) = value_j + slope_j' d + 1/2 d' B_j d

so that under a Gaussian of covariance ``Sigma`` around c its mean is
``value_j + 1/2 tr(B_j Sigma)`` and its covariance ``slope_j' Sigma slope_k + 1/2 tr(B_j Sigma B_k
Sigma)``: the information about ``eta`` that is lost because ``theta`` is unknown.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.precision import double_precision
from ornstein._base.types import PyTree, Vector
from ornstein.curvature.estimation import geometry, quick_geometry, under_prior
from ornstein.curvature.geometry import Geometry
from ornstein.curvature.optimum import find_optimum
from ornstein.curvature.row_sums import row_losses
from ornstein.curvature.structures import STRUCTURES
from ornstein.hyper import automatic
from ornstein.linalg.operators import Operator
from ornstein.models.glm import Past, prior_mean
from ornstein.models.hyperparameters import Ties
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan

_LONG = 2e9  # multiplications above which a curvature is estimated from a subset of rows
_SOME_ROWS = 20_000  # in that subset
_SHORTEST = 1e-6  # lower bound of lambda E|theta_g|^2 / D_g and E RSS / N, if draws suggest less


class Score(NamedTuple):
    """The score around a centre, to second order.

    ``value`` (J,) and ``slope`` by theta (J, D) are those at the centre, ``diagonal`` (J, D) those
    of ``B_j``. ``first`` is ``B_0`` itself where more than its diagonal is computed.
    """

    value: Vector
    slope: Vector
    diagonal: Vector
    first: Vector | None = None

    def at(self, offsets: Vector) -> Vector:
        """At ``c + d`` for vectors d along the last axis, (..., J)."""
        linear = self.value + offsets @ self.slope.T
        found: Vector = linear + 0.5 * offsets**2 @ self.diagonal.T
        if self.first is not None:
            rest = self.first - np.diag(np.diag(self.first))
            found[..., 0] += 0.5 * ((offsets @ rest) * offsets).sum(axis=-1)
        return found

    def mean(self, cov: Operator) -> Vector:
        """Over ``N(c, Sigma)``."""
        variances = cov.variances(self.slope.shape[1])
        found: Vector = self.value + 0.5 * self.diagonal @ variances
        if self.first is not None:
            dense = cov.dense(len(variances))
            found[0] += 0.5 * ((self.first * dense).sum() - self.diagonal[0] @ variances)
        return found

    def covariance(self, cov: Operator) -> Vector:
        """Over ``N(c, Sigma)``, (J, J)."""
        linear = self.slope @ np.asarray(cov.matvec(self.slope)).T
        if self.first is None or cov.structure != "dense":
            return linear + 0.5 * cov.product_traces(self.diagonal)
        return linear + 0.5 * self._products(self.first, cov.dense(self.slope.shape[1]))

    def _products(self, first: Vector, cov: Vector) -> Vector:
        """``tr(B_j Sigma B_k Sigma)``, ``B_0`` whole."""
        plain, product = self.diagonal.copy(), first @ cov
        plain[0] = 0.0
        found: Vector = plain @ cov**2 @ plain.T
        cross = plain @ np.diag(cov @ product)
        found[0] += cross
        found[:, 0] += cross
        found[0, 0] += (product * product.T).sum()
        return found


class Expectation(NamedTuple):
    """Over q: the score's mean (J,), and the information about ``eta`` in the evidence (J, J).

    ``information`` is Louis's: ``complete``, that of rows and parameters together, minus what is
    lost because the parameters are unknown.
    """

    score: Vector
    information: Vector
    complete: Vector

    @property
    def scale(self) -> Vector:
        """Diagonal of the complete information."""
        return np.diag(self.complete)


def expect(post: Posterior, geometry: Geometry, cov: Operator) -> tuple[Expectation, Score]:
    """The E-step for ``N(center, cov)``, in closed form where there is one."""
    ties = post.learnable.ties
    if ties is None:
        if geometry.approximate:
            raise InputError(
                "hyperparameters of a custom model cannot be learned with "
                f"structure={geometry.structure!r}; use 'dense' or 'diagonal'."
            )
        score = Score(*automatic.derivatives(post, geometry.center))
        array = np.asarray(cov.array)
        mean, complete = automatic.expected_slope(post, geometry.center, array)
    else:
        score = closed_score(post, ties, geometry)
        mean = score.mean(cov)
        complete = np.diag(closed_information(post, ties, mean))
    return Expectation(mean, complete - score.covariance(cov), complete), score


def geometry_at_optimum(
    post: Posterior, few_rows: bool = False, slack: float = 1.0, near: Geometry | None = None
) -> tuple[Posterior, Geometry]:
    """The loss around the optimum, and the posterior, its next search to start there.

    With ``few_rows``, where the curvature of all rows takes long, that of some, as was seen
    ``near``. ``slack`` is that of :func:`~ornstein.curvature.optimum.find_optimum`.
    """
    post = at_optimum(post, slack)
    structure = next(s for s in STRUCTURES.values() if s.fits(post)).name
    rows = max(_SOME_ROWS, 50 * post.dim) if structure == "dense" else _SOME_ROWS
    if few_rows and post.num_data * post.dim**2 > _LONG and rows < post.num_data:
        return post, quick_geometry(post, post.init, structure, rows, near)
    return post, geometry(post, post.init, structure)


def at_optimum(post: Posterior, slack: float = 1.0) -> Posterior:
    """The posterior, started at its optimum."""
    theta = post.layout.unravel(find_optimum(post, slack))
    return post.with_hyper(post.hyperparameters, theta)


def foreseen(post: Posterior, values: PyTree, seen: Geometry) -> Posterior:
    """The posterior at other values, its search for the optimum begun where that is expected.

    By Newton's step from ``post``, which is at its own optimum, and in the units that the curvature
    ``seen`` there has under the other prior. As it is where not only the prior depends on values,
    or no more than a diagonal was seen.
    """
    there = post.with_hyper(values)
    if post.learnable.in_likelihood or post.quadratic or seen.structure == "diagonal":
        return there
    with double_precision():
        theta = jnp.asarray(post.start)
        slopes = [np.asarray(p.model.prior_gradient(theta, p.hyper)) for p in (post, there)]
    convex = post.learnable.ties is not None
    cov = (under_prior(seen, there) if convex else seen).calibrated_covariance
    moved = post.layout.unravel(post.start - np.asarray(cov.matvec(slopes[1] - slopes[0])))
    return there.with_hyper(values, moved, cov.sqrt() if convex else None)


def drawn_cov(plan: Plan) -> Operator:
    """The draws' covariance by T2, scaled to the predicted trace."""
    cov = plan.predicted
    if not plan.geometry.approximate:
        return cov
    return cov.scaled(plan.predicted_trace / cov.trace(plan.dim))


def closed_score(post: Posterior, ties: Ties, geometry: Geometry) -> Score:
    """Of the ready-made models.

    For a group g of precision ``lambda``, ``s = 1/2 (D_g - lambda |theta_g|^2)``; for the noise
    scale ``sigma``, ``s = RSS / sigma^2 - N``, where weighted and earlier rows count as such.
    """
    theta, N = geometry.center, geometry.num_data
    precision = np.asarray(post.hyper["prior_precision"], float)
    diagonal = -(ties.members * precision)
    value = 0.5 * (ties.sizes + diagonal @ theta**2)
    slope, first = diagonal * theta, None
    if ties.noise:  # its place is the first
        if geometry.approximate:
            raise InputError(
                f"noise_scale cannot be learned with structure={geometry.structure!r}; fix it with "
                "learn='prior_precision', or use structure='dense' or 'diagonal'."
            )
        curvature = 2 * N * geometry.likelihood.dense(geometry.dim) + _past_curvature(post)
        residual = 2 * (N * geometry.gradient - precision * (theta - prior_mean(post.hyper)))
        value = np.concatenate([[_squares(post, theta) - counted_rows(post)], value])
        slope = np.concatenate([residual[None], slope])
        diagonal = np.concatenate([np.diag(curvature)[None], diagonal])
        first = curvature if geometry.structure == "dense" else None
    return Score(value, slope, diagonal, first)


def closed_lengths(ties: Ties, score: Vector) -> Vector:
    """``lambda E|theta_g|^2`` of every group, from the mean score."""
    return ties.sizes - 2 * score[len(score) - ties.precisions :]


def closed_information(post: Posterior, ties: Ties, score: Vector) -> Vector:
    """``-E[d^2 log p(y, theta) / d eta^2]``: ``lambda E|theta_g|^2 / 2``, ``2 E RSS / sigma^2``."""
    noise = [2 * (score[0] + counted_rows(post))] if ties.noise else []
    return np.concatenate([noise, 0.5 * closed_lengths(ties, score)])


def closed_step(post: Posterior, ties: Ties, score: Vector) -> Vector:
    """The M-step in closed form, as a change of ``eta``.

    ``lambda = D_g / E|theta_g|^2`` and ``sigma^2 = E RSS / N``, from the mean score.
    """
    squares = max(score[0] / counted_rows(post), _SHORTEST - 1) if ties.noise else 0.0
    noise = [0.5 * np.log1p(squares)] if ties.noise else []
    lengths = np.maximum(closed_lengths(ties, score), _SHORTEST * ties.sizes)
    return np.concatenate([noise, np.log(ties.sizes / lengths)])


def counted_rows(post: Posterior) -> float:
    """The total weight of a ready-made model's rows, the earlier ones included."""
    earlier = float(post.hyper["past"]["weight"]) if "past" in post.hyper else 0.0
    return earlier + _weight(post)


def _past_curvature(post: Posterior) -> Vector | float:
    """Curvature of the earlier rows' squared residuals, over the noise variance."""
    if "past" not in post.hyper:
        return 0.0
    return 2 * post.hyper["past"]["hessian"] / float(post.hyper["noise_scale"]) ** 2


def _weight(post: Posterior) -> float:
    return float(post.data["w"].sum()) if "w" in post.data else float(post.num_data)


def _squares(post: Posterior, theta: Vector) -> float:
    """``RSS / sigma^2``, from the rows' losses."""
    scale = float(post.hyper["noise_scale"])
    losses = float(row_losses(post, theta[None])[0])
    squares = 2 * losses - _weight(post) * float(np.log(2 * np.pi * scale**2))
    past = post.hyper.get("past")
    return squares if past is None else squares + Past(**past).squared_residuals(theta) / scale**2


def measured_scores(post: Posterior, score: Score, center: Vector, flat: Vector) -> Vector:
    """The score of every draw (chains, draws, J); of a subset where it needs all rows."""
    if post.learnable.ties is not None:
        return score.at(flat - center)
    return automatic.scores(post, flat)
