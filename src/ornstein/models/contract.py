"""The contract between a model and the other rooms, and the one place that scales by N and S.

A model gives one row's loss ``-log p(x_n | theta)`` and the prior's ``-log p(theta)``, both over
flat parameter vectors, and never sees N or S. Derivatives come from automatic differentiation
unless a model overrides them with closed forms.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base.trees import Layout, cast
from ornstein._base.types import Array, PyTree, Vector
from ornstein.linalg.operators import Dense, Diagonal, Factor

T = TypeVar("T", Array, Vector, float)

_ROUNDING = 1e-9  # relative to the largest entry


def per_example(row_sum: T, num_rows: int, prior_term: T, num_data: int) -> T:
    """Mean over rows of ``l_n = -log p(x_n | theta) - (1/N) log p(theta)``, or of a derivative.

    The one place where anything is scaled by N or S: ``row_sum`` is a sum over ``num_rows`` rows
    (a minibatch, a subsample, all), ``prior_term`` the same derivative of ``-log p(theta)``.
    """
    return row_sum / num_rows + prior_term / num_data


class Minibatch(NamedTuple):
    """Rows, their weights unless drawn with equal probability, and the sizes of batch and data."""

    rows: PyTree
    weights: Array | None
    size: int
    num_data: int

    def per_example(self, row_sum: Array, prior_term: Array) -> Array:
        """Mean over the batch, scaled by :func:`per_example`."""
        return per_example(row_sum, self.size, prior_term, self.num_data)


class LocalProblem(NamedTuple):
    """A model in the coordinates z of ``theta = center + W z``.

    ``model`` gives the gradients by z and is static in compiled code; it takes the rows that
    ``fold`` makes of the data, and the constants ``hyper``, host arrays passed as arguments.
    ``factor`` is the ``W`` in use: a model may replace the one asked for by ``W Q``, Q orthogonal.
    """

    model: "LocalModel"
    fold: Callable[[PyTree], PyTree]
    hyper: PyTree
    factor: Factor


class Anchored(NamedTuple):
    """Gradients counted from those at an anchor, the centre: only what is left is estimated.

    ``slope`` is the gradient of ``-log p(theta | data)`` there. With its ``hessian`` (D, D), the
    batch estimates no more than the remainder of second order (X10); without, that of first (X9).
    """

    slope: Vector
    hessian: Vector | None = None


class LocalModel(ABC):
    """What the sampling loop needs: gradients by z. Hashable, as compiled code is keyed on it."""

    rows_last: bool = False
    """Whether batches are feature-major: rows along the last axis."""

    plain_operations: bool = False
    """Whether gradients consist of matrix-vector products and elementwise functions only."""

    @abstractmethod
    def minibatch_gradient(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        """``ghat_S``, the (weighted) mean gradient of ``l_n`` over a minibatch, by z."""

    @abstractmethod
    def minibatch_loss(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        """The (weighted) mean of ``l_n`` whose gradient that is, less its value at the centre."""

    @abstractmethod
    def row_gradients(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        """The (weighted) gradient of every row's ``-log p(x_n | theta)`` by z, (D, S)."""

    def gradient_moments(self, z: Array, batch: Minibatch, hyper: PyTree) -> tuple[Array, Array]:
        """``ghat_S``, and the unbiased covariance of the rows' gradients, (D, D)."""
        rows = self.row_gradients(z, batch, hyper)
        centred = rows - rows.mean(axis=1, keepdims=True)
        return self.minibatch_gradient(z, batch, hyper), centred @ centred.T / (batch.size - 1)


class Spread(NamedTuple):
    """A Gaussian around an anchor: its covariance, and points of the same second moments."""

    anchor: Array
    cov: Array
    points: Array


class Factored(Protocol):
    """A model of linear predictors: gradients ``residual (x) u``, Hessians ``curvature (x) u u'``.

    ``u`` is a row of the design, F wide; residuals have K entries, curvatures (K, K). Parameters
    lie as :mod:`ornstein.linalg.bases` says.
    """

    @property
    def balanced(self) -> bool:
        """Whether a row's residuals sum to zero for every value of the predictor."""

    @property
    def outputs(self) -> int:
        """K."""

    @property
    def width(self) -> int:
        """F."""

    @property
    def features(self) -> int:
        """Number of design columns before the intercept."""

    def design(self, rows: PyTree, dtype: npt.DTypeLike) -> Array:
        """``u`` of every row, (n, F)."""

    def residuals(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        """First derivatives by the predictor, (n, K)."""

    def curvatures(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        """Second derivatives by the predictor, (n, K, K)."""

    def residual_squares(self, anchor: Array, cov: Array, rows: PyTree, hyper: PyTree) -> Array:
        """``E[(r - r*)(r - r*)']`` over Gaussian predictors of covariances ``cov``."""


class Model(ABC):
    """Losses of rows and prior over flat parameter vectors. Hashable."""

    layout: Layout

    @property
    def quadratic(self) -> bool:
        """Whether the loss is quadratic, so that the Gaussian at the optimum is the posterior."""
        return False

    @property
    def gaussian_prior(self) -> bool:
        """Whether the prior is known to be Gaussian."""
        return self.quadratic

    @property
    def factored(self) -> Factored | None:
        """The model's linear predictors, from which Kronecker factors are built; or None."""
        return None

    @abstractmethod
    def losses(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        """``-log p(x_n | theta)`` of every row."""

    @abstractmethod
    def prior_loss(self, theta: Array, hyper: PyTree) -> Array:
        """``-log p(theta)``."""

    def gradients(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        """Gradient of every row's loss, shape (rows, D)."""

        def one(row: PyTree) -> Array:
            single = jax.tree.map(lambda leaf: leaf[None], row)
            return jax.grad(lambda t: self.losses(t, single, hyper)[0])(theta)

        return jax.vmap(one)(rows)

    def gradient_sum(
        self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array | None = None
    ) -> Array:
        """Weighted sum of the rows' gradients."""

        def total(t: Array) -> Array:
            losses = self.losses(t, rows, hyper)
            return losses.sum() if weights is None else (weights * losses).sum()

        return jax.grad(total)(theta)

    def second_sums(
        self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array
    ) -> tuple[Array, Array]:
        """Weighted sums of the outer products of the rows' gradients, and of their Hessians."""
        gradients = self.gradients(theta, rows, hyper)
        outer = (gradients * weights[:, None]).T @ gradients
        return outer, self.hessian_sum(theta, rows, hyper, weights)

    def hessian_sum(self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array) -> Array:
        """Weighted sum of the rows' Hessians, by one Hessian-vector product per column."""

        def along(t: Array) -> Array:
            return self.gradient_sum(t, rows, hyper, weights)

        def product(direction: Array) -> Array:
            return jax.jvp(along, (theta,), (direction,))[1]

        return jax.lax.map(product, jnp.eye(len(theta), dtype=theta.dtype))

    def hessian_diagonal_sum(
        self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array
    ) -> Array:
        """Diagonal of :meth:`hessian_sum`, without holding the matrix."""
        return _jacobian_diagonal(lambda t: self.gradient_sum(t, rows, hyper, weights), theta)

    def prior_gradient(self, theta: Array, hyper: PyTree) -> Array:
        """Gradient of ``-log p(theta)``."""
        return jax.grad(self.prior_loss)(theta, hyper)

    def prior_hessian(self, theta: Array, hyper: PyTree) -> Array:
        """Hessian of ``-log p(theta)``."""
        return jax.hessian(self.prior_loss)(theta, hyper)

    def prior_hessian_diagonal(self, theta: Array, hyper: PyTree) -> Array:
        """Diagonal of :meth:`prior_hessian`, without holding the matrix."""
        return _jacobian_diagonal(lambda t: self.prior_gradient(t, hyper), theta)

    def deviation_lengths(
        self, spread: Spread, rows: PyTree, hyper: PyTree, order: int = 1
    ) -> Array:
        """How far each row's anchored gradient moves a chain, over a Gaussian at the anchor.

        ``E[d_n' cov d_n]`` with ``d_n = grad l_n(theta) - grad l_n(anchor)`` (X9); of order 2, less
        ``hess l_n(anchor) (theta - anchor)`` (X10).
        """

        def lengths(deviation: Array) -> Array:
            return ((deviation @ spread.cov) * deviation).sum(axis=1)

        return self._mean_over_points(lengths, spread, rows, hyper, order)

    def deviation_sums(
        self, spread: Spread, rows: PyTree, hyper: PyTree, weights: Array, order: int = 1
    ) -> Array:
        """Weighted sums over rows of ``E[d_n d_n']``: one (D, D) per line of ``weights`` (m, n)."""

        def sums(deviation: Array) -> Array:
            return jnp.einsum("mn,ni,nj->mij", weights, deviation, deviation)

        return self._mean_over_points(sums, spread, rows, hyper, order)

    def _mean_over_points(
        self,
        function: Callable[[Array], Array],
        spread: Spread,
        rows: PyTree,
        hyper: PyTree,
        order: int,
    ) -> Array:
        """Mean of a function of the rows' gradients, counted from those at the anchor."""

        def gradients(theta: Array) -> Array:
            return self.gradients(theta, rows, hyper)

        def add(total: Array, theta: Array) -> tuple[Array, None]:
            return total + function(remainder(gradients, spread.anchor, theta, order)), None

        shape = jax.eval_shape(lambda theta: function(gradients(theta)), spread.anchor)
        start = jnp.zeros_like(shape)
        total, _ = jax.lax.scan(add, start, spread.points)
        return total / len(spread.points)

    def localise(
        self,
        center: Vector,
        factor: Factor,
        hyper: PyTree,
        dtype: npt.DTypeLike,
        anchored: Anchored | None = None,
    ) -> LocalProblem:
        """The model in the coordinates z of ``theta = center + W z`` (X8), rows in ``dtype``.

        By the chain rule, unless a model has a cheaper way.
        """
        local = ChainRule(self)
        if anchored is not None and anchored.hessian is not None:
            factor, _ = diagonalised(factor, anchored.hessian)
        constants = local.constants(center, factor, hyper, anchored)
        return LocalProblem(local, lambda rows: cast(rows, dtype), constants, factor)


@dataclass(frozen=True)
class ChainRule(LocalModel):
    """Maps z to ``theta = center + W z`` at every step, and gradients back by ``W'``."""

    model: Model

    def constants(
        self, center: Vector, factor: Factor, hyper: PyTree, anchored: Anchored | None
    ) -> PyTree:
        """What the gradients take as ``hyper``."""
        local = {"center": center, "factor": factor, "model": hyper}
        if anchored is None:
            return local
        local["slope"] = np.asarray(factor.rmatvec(anchored.slope))
        if anchored.hessian is not None:
            W = np.asarray(factor.dense(len(center)))
            bent = W.T @ anchored.hessian @ W
            local["hessian"] = np.diagonal(bent).copy() if is_diagonal(bent) else bent
        return local

    def minibatch_gradient(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        fixed, rows, weights = hyper["model"], batch.rows, batch.weights

        def rows_slope(theta: Array) -> Array:
            return self.model.gradient_sum(theta, rows, fixed, weights)

        def prior_slope(theta: Array) -> Array:
            return self.model.prior_gradient(theta, fixed)

        rows_sum, prior = (self._counted(f, z, hyper) for f in (rows_slope, prior_slope))
        whole = hyper["factor"].rmatvec(prior) + hyper.get("slope", 0)
        if "hessian" in hyper:
            linear = hyper["hessian"]
            whole = whole + (linear @ z if linear.ndim == 2 else linear * z)
        return batch.per_example(hyper["factor"].rmatvec(rows_sum), whole)

    def minibatch_loss(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        fixed, order = hyper["model"], _order(hyper)
        step = hyper["factor"].matvec(z)

        def losses(t: Array) -> Array:
            return self.model.losses(hyper["center"] + t * step, batch.rows, fixed)

        def prior_loss(t: Array) -> Array:
            return self.model.prior_loss(hyper["center"] + t * step, fixed)

        rows, prior = (remaining_loss(f, z, order) for f in (losses, prior_loss))
        rows = rows if batch.weights is None else rows * batch.weights
        whole = prior + z @ hyper["slope"] if order else prior
        if order == 2:
            linear = hyper["hessian"]
            whole = whole + 0.5 * z @ (linear @ z if linear.ndim == 2 else linear * z)
        return batch.per_example(rows.sum(), whole)

    def row_gradients(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        def gradients(theta: Array) -> Array:
            return self.model.gradients(theta, batch.rows, hyper["model"])

        rows = self._counted(gradients, z, hyper)
        rows = rows if batch.weights is None else rows * batch.weights[:, None]
        return hyper["factor"].rmatvec(rows).T

    def _counted(self, slope: Callable[[Array], Array], z: Array, hyper: PyTree) -> Array:
        """A gradient, counted from the anchor's if there is one."""
        theta = hyper["center"] + hyper["factor"].matvec(z)
        return remainder(slope, hyper["center"], theta, _order(hyper))


def _order(hyper: PyTree) -> int:
    """Of the anchor, by what :meth:`ChainRule.constants` holds of it."""
    return 2 if "hessian" in hyper else 1 if "slope" in hyper else 0


def remainder(slope: Callable[[Array], Array], anchor: Array, theta: Array, order: int) -> Array:
    """A gradient, less its expansion at an anchor: of no terms, of one (X9) or of two (X10)."""
    if order == 0:
        return slope(theta)
    if order == 1:
        return slope(theta) - slope(anchor)
    there, along = jax.jvp(slope, (anchor,), (theta - anchor,))
    return slope(theta) - there - along


def remaining_loss(loss: Callable[[Array], Array], like: Array, order: int) -> Array:
    """The same for a loss along a line, from the anchor at 0 to 1."""
    zero, one = jnp.zeros((), like.dtype), jnp.ones((), like.dtype)
    if order == 0:
        return loss(one) - loss(zero)

    def tangent(t: Array) -> tuple[Array, Array]:
        return jax.jvp(loss, (t,), (one,))

    if order == 1:
        there, slope = tangent(zero)
        return loss(one) - there - slope
    (there, slope), (_, bend) = jax.jvp(tangent, (zero,), (one,))
    return loss(one) - there - slope - 0.5 * bend


def diagonalised(factor: Factor, precision: Vector) -> tuple[Factor, Vector]:
    """``W`` rotated so that ``W' P W`` is diagonal, and that diagonal; P is (D,) or (D, D)."""
    dim = len(precision)
    if isinstance(factor, Diagonal) and precision.ndim == 1:
        return factor, np.broadcast_to(factor.array, (dim,)) ** 2 * precision
    matrix = np.asarray(factor.dense(dim))
    bent = matrix.T @ (precision @ matrix if precision.ndim == 2 else precision[:, None] * matrix)
    if is_diagonal(bent):  # a rotation of equal entries would be any, decided by rounding
        return factor, np.diagonal(bent).copy()
    own, rotation = np.linalg.eigh(bent)
    return Dense(matrix @ rotation), own


def is_diagonal(matrix: Vector) -> bool:
    """Whether a matrix is diagonal but for rounding."""
    own = np.abs(np.diagonal(matrix))
    return bool(np.abs(matrix - np.diag(np.diagonal(matrix))).max() <= _ROUNDING * own.max())


def _jacobian_diagonal(function: Callable[[Array], Array], theta: Array) -> Array:
    """One Jacobian-vector product per entry."""

    def entry(index: Array) -> Array:
        direction = jnp.zeros_like(theta).at[index].set(1.0)
        return jax.jvp(function, (theta,), (direction,))[1][index]

    return jax.lax.map(entry, jnp.arange(len(theta)))
