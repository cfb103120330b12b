"""Generalised linear models, with gradients, Hessians and noise in closed form.

Where they are fitted in parts, a Gaussian summary stands in for the rows seen earlier.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base.trees import Layout
from ornstein._base.types import Array, PyTree, Vector
from ornstein.linalg.operators import Factor
from ornstein.models.contract import Model, Spread
from ornstein.models.families import Family
from ornstein.models.grams import quadratic_forms, symmetric_places, weighted_grams
from ornstein.models.local import Anchored, LocalProblem
from ornstein.models.local_glm import GlmAt
from ornstein.storage.codec import register

_LOG_TWO_PI = math.log(2 * math.pi)
_NODES = 7  # of the Gauss-Hermite rule over one predictor


@dataclass(frozen=True)
class Glm(Model):
    """``eta = coef x + intercept`` into a family's loss, with independent normal priors.

    Rows are ``{"x": (n, F), "y": (n,)}``, with ``"w": (n,)`` where they have weights, which
    multiply losses, residuals and curvatures, and ``"offset": (n,)`` where something known is added
    to ``eta``; ``hyper["prior_precision"]`` has one entry a parameter, and so has
    ``hyper["prior_mean"]`` where it is not 0. With design ``u = (x, 1)`` (or ``x``) the gradient of
    a row is ``residual (x) u`` and its Hessian ``curvature (x) u u'``.
    """

    family: Family
    layout: Layout
    features: int
    intercept: bool

    @property
    def gaussian_prior(self) -> bool:
        return True

    @property
    def quadratic(self) -> bool:
        return self.family.quadratic

    @property
    def factored(self) -> "Glm | None":
        return self

    @property
    def balanced(self) -> bool:
        return self.family.balanced

    @property
    def outputs(self) -> int:
        return self.family.outputs

    @property
    def width(self) -> int:
        return self.features + self.intercept

    def losses(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        losses = self.family.loss(self._predictor(theta, rows), rows["y"], hyper)
        return losses * _weights(rows, losses) if "w" in rows else losses

    def prior_loss(self, theta: Array, hyper: PyTree) -> Array:
        precision = hyper["prior_precision"]
        squares = (theta - prior_mean(hyper)) ** 2
        return 0.5 * jnp.sum(precision * squares - jnp.log(precision) + _LOG_TWO_PI)

    def gradients(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        residual = self.residuals(theta, rows, hyper)
        outer = residual[:, :, None] * self.design(rows, theta.dtype)[:, None, :]
        return outer.reshape(len(residual), -1)[:, self.order]

    def gradient_sum(
        self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array | None = None
    ) -> Array:
        residual = self.residuals(theta, rows, hyper)
        if weights is not None:
            residual = residual * weights[:, None]
        return (residual.T @ self.design(rows, theta.dtype)).reshape(-1)[self.order]

    def second_sums(
        self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array
    ) -> tuple[Array, Array]:
        """``sum_n residual residual' (x) u u'`` and ``sum_n curvature (x) u u'``, together."""
        residual = self.residuals(theta, rows, hyper)
        squares = residual[:, :, None] * residual[:, None, :] * weights[:, None, None]
        curvature = self._curvature(theta, rows, hyper, weights)
        outer, hessian = self._sums(rows, jnp.stack([squares, curvature]))
        return outer, hessian

    def hessian_sum(self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array) -> Array:
        return self._sums(rows, self._curvature(theta, rows, hyper, weights)[None])[0]

    def hessian_diagonal_sum(
        self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array
    ) -> Array:
        curvature = self._curvature(theta, rows, hyper, weights)
        diagonal = jnp.diagonal(curvature, axis1=1, axis2=2)
        return (diagonal.T @ self.design(rows, theta.dtype) ** 2).reshape(-1)[self.order]

    def prior_gradient(self, theta: Array, hyper: PyTree) -> Array:
        return hyper["prior_precision"] * (theta - prior_mean(hyper))

    def prior_hessian(self, theta: Array, hyper: PyTree) -> Array:
        return jnp.diag(self.prior_hessian_diagonal(theta, hyper))

    def prior_hessian_diagonal(self, theta: Array, hyper: PyTree) -> Array:
        return hyper["prior_precision"] * jnp.ones_like(theta)

    def deviation_lengths(
        self, spread: Spread, rows: PyTree, hyper: PyTree, order: int = 1
    ) -> Array:
        """``sum_ab V_ab (u' cov_ab u)`` of every row."""
        predictor, squares = self._deviations(spread, rows, hyper, order)
        return (squares * predictor).sum(axis=(1, 2))

    def deviation_sums(
        self, spread: Spread, rows: PyTree, hyper: PyTree, weights: Array, order: int = 1
    ) -> Array:
        """``E[d d'] = V (x) u u'``."""
        _, squares = self._deviations(spread, rows, hyper, order)
        return self._sums(rows, weights[:, :, None, None] * squares[None])

    def localise(
        self,
        center: Vector,
        factor: Factor,
        hyper: PyTree,
        dtype: npt.DTypeLike,
        anchored: Anchored | None = None,
    ) -> LocalProblem:
        """In one of the forms of :mod:`~ornstein.models.local_glm`."""
        precision, slope = self.local_prior(center, hyper)
        order = 0
        if anchored is not None:
            order, slope = 1, anchored.slope
            if anchored.hessian is not None:
                order, precision = 2, anchored.hessian
        return GlmAt(self, center, factor, precision, slope, order, hyper, dtype).localise()

    def local_prior(self, center: Vector, hyper: PyTree) -> tuple[Vector, Vector]:
        """Precision of the prior, (D,) or (D, D), and its slope at a point."""
        precision = np.asarray(hyper["prior_precision"], float)
        return precision, precision * (center - prior_mean(hyper))

    @property
    def order(self) -> Vector:
        """Where the entries of the flat vector stand in the (outputs, design) matrix."""
        return flat_order(self.outputs, self.features, self.intercept)

    def design(self, rows: PyTree, dtype: npt.DTypeLike) -> Array:
        x = rows["x"].astype(dtype)
        if not self.intercept:
            return x
        return jnp.concatenate([x, jnp.ones((len(x), 1), x.dtype)], axis=1)

    def _predictor(self, theta: Array, rows: PyTree) -> Array:
        params = self.layout.unravel(theta)
        eta = rows["x"].astype(theta.dtype) @ params["coef"].T
        if "offset" in rows:
            eta = eta + rows["offset"].astype(theta.dtype)
        if not self.intercept:
            return eta
        return eta + jnp.broadcast_to(params["intercept"], eta.shape)

    def residuals(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        eta = self._predictor(theta, rows)
        residual = self.family.residual(eta, rows["y"], hyper).reshape(len(eta), -1)
        return residual * _weights(rows, residual) if "w" in rows else residual

    def curvatures(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        eta = self._predictor(theta, rows)
        curvature = self.family.curvature(eta, rows["y"], hyper)
        curvature = curvature.reshape(-1, self.outputs, self.outputs)
        return curvature * _weights(rows, curvature) if "w" in rows else curvature

    def _curvature(self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array) -> Array:
        return self.curvatures(theta, rows, hyper) * weights[:, None, None]

    def _deviations(
        self, spread: Spread, rows: PyTree, hyper: PyTree, order: int
    ) -> tuple[Array, Array]:
        """For every row, the covariances (K, K) of its predictor, and of its residual about r*."""
        design = self.design(rows, spread.cov.dtype)
        outputs, width = self.outputs, design.shape[1]
        back = np.argsort(self.order)
        cov = spread.cov[back][:, back].reshape(outputs, width, outputs, width)
        above = np.triu_indices(outputs)
        parts = cov.transpose(0, 2, 1, 3)[above]
        predictor = quadratic_forms(design, parts)[symmetric_places(outputs)].transpose(2, 0, 1)
        return predictor, self.residual_squares(spread.anchor, predictor, rows, hyper, order)

    def _sums(self, rows: PyTree, matrices: Array) -> Array:
        """``sum_n M_ln (x) u_n u_n'`` for every line of matrices, in the order of parameters."""
        design = self.design(rows, matrices.dtype)
        return weighted_grams(design, matrices, self.balanced)[:, self.order][:, :, self.order]

    def residual_squares(
        self, anchor: Array, cov: Array, rows: PyTree, hyper: PyTree, order: int = 1
    ) -> Array:
        """``E[(r - r*)(r - r*)']`` of every row, its predictor Gaussian with covariance (K, K).

        Of order 2, the residual's linear part is taken off too (X10).
        With Gauss-Hermite nodes for one output; for several with the points ``+-sqrt(K)`` along
        the columns of a root, exact to third order.
        """
        outputs = self.outputs
        eta = self._predictor(anchor, rows)
        here = self.family.residual(eta, rows["y"], hyper)
        bend = self.family.curvature(eta, rows["y"], hyper).reshape(-1, outputs, outputs)
        nodes, mass = np.polynomial.hermite_e.hermegauss(_NODES if outputs == 1 else 2)
        if outputs == 1:
            root = jnp.sqrt(cov[:, 0])
        else:
            slack = 1e-12 * jnp.trace(cov, axis1=1, axis2=2) + np.finfo(float).tiny ** 0.5
            lifted = cov + slack[:, None, None] * jnp.eye(outputs, dtype=cov.dtype)[None]
            root = jnp.linalg.cholesky(lifted) * math.sqrt(outputs)
        columns = root[:, 0][None] if outputs == 1 else root.transpose(2, 0, 1)

        def add(total: Array, step: Array) -> tuple[Array, None]:
            for node, weight in zip(nodes, mass / mass.sum() / outputs, strict=True):
                there = self.family.residual(eta + float(node) * step, rows["y"], hyper)
                change = (there - here).reshape(len(cov), outputs)
                if order == 2:
                    linear = float(node) * step.reshape(len(cov), outputs)
                    change = change - jnp.einsum("nij,nj->ni", bend, linear)
                total = total + float(weight) * change[:, :, None] * change[:, None, :]
            return total, None

        total, _ = jax.lax.scan(add, jnp.zeros_like(cov), columns)
        return total * _weights(rows, total) ** 2 if "w" in rows else total


@register
class Past(NamedTuple):
    """The earlier rows' ``-log p(y | theta)``, to second order.

    ``1/2 theta' hessian theta - slope' theta + squares / 2``, divided by the noise variance for a
    Gaussian family, whose normalising constant also counts the ``weight`` of the rows.
    """

    hessian: Vector
    slope: Vector
    squares: Vector
    weight: Vector

    @classmethod
    def none(cls, dim: int) -> "Past":
        """No rows."""
        return cls(np.zeros((dim, dim)), np.zeros(dim), np.zeros(()), np.zeros(()))

    def squared_residuals(self, theta: Vector) -> float:
        """The earlier rows' sum of squared residuals, for a Gaussian family."""
        return float(theta @ self.hessian @ theta - 2 * self.slope @ theta + self.squares)


@dataclass(frozen=True)
class ContinuedGlm(Glm):
    """A GLM whose normal prior is multiplied by ``hyper["past"]``, a :class:`Past` as a dict.

    Exact for a Gaussian family; for others as accurate as the summary of the earlier rows.
    """

    def prior_loss(self, theta: Array, hyper: PyTree) -> Array:
        past, variance = hyper["past"], self._variance(hyper)
        bent = 0.5 * theta @ past["hessian"] @ theta - past["slope"] @ theta
        earlier = (bent + 0.5 * past["squares"]) / variance
        counted = past["weight"] * (0.5 * jnp.log(variance) + 0.5 * _LOG_TWO_PI)
        return super().prior_loss(theta, hyper) + earlier + counted

    def prior_gradient(self, theta: Array, hyper: PyTree) -> Array:
        past = hyper["past"]
        earlier = (past["hessian"] @ theta - past["slope"]) / self._variance(hyper)
        return super().prior_gradient(theta, hyper) + earlier

    def prior_hessian(self, theta: Array, hyper: PyTree) -> Array:
        earlier = hyper["past"]["hessian"] / self._variance(hyper)
        return jnp.diag(super().prior_hessian_diagonal(theta, hyper)) + earlier

    def prior_hessian_diagonal(self, theta: Array, hyper: PyTree) -> Array:
        earlier = jnp.diagonal(hyper["past"]["hessian"]) / self._variance(hyper)
        return super().prior_hessian_diagonal(theta, hyper) + earlier

    def local_prior(self, center: Vector, hyper: PyTree) -> tuple[Vector, Vector]:
        precision, slope = super().local_prior(center, hyper)
        past = Past(**{name: np.asarray(part, float) for name, part in hyper["past"].items()})
        variance = float(np.asarray(hyper["noise_scale"])) ** 2 if "noise_scale" in hyper else 1.0
        matrix = np.diag(precision) + past.hessian / variance
        return matrix, slope + (past.hessian @ center - past.slope) / variance

    def _variance(self, hyper: PyTree) -> Array:
        """The noise variance; 1 for families without one."""
        if "noise_scale" not in hyper:
            return jnp.ones((), hyper["past"]["slope"].dtype)
        return jnp.asarray(hyper["noise_scale"]) ** 2


def prior_mean(hyper: PyTree) -> Any:
    """Of every parameter; 0 where nothing else is said."""
    return hyper.get("prior_mean", 0.0)


def _weights(rows: PyTree, like: Array) -> Array:
    """The rows' weights, with as many axes as an array whose first axis is the rows."""
    return rows["w"].astype(like.dtype).reshape(-1, *[1] * (like.ndim - 1))


def flat_order(outputs: int, features: int, intercept: bool) -> Vector:
    """Where coefficients, then intercepts, stand in a matrix of (outputs, design)."""
    index = np.arange(outputs * (features + intercept)).reshape(outputs, -1)
    return np.concatenate([index[:, :features].ravel(), index[:, features:].ravel()])
