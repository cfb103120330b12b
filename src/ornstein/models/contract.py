"""What a model offers to the other rooms.

A model gives one row's loss ``-log p(x_n | theta)`` and the prior's ``-log p(theta)``, both over
flat parameter vectors, and never sees N or S. Derivatives come from automatic differentiation
unless a model overrides them with closed forms.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy.typing as npt

from ornstein._base.trees import Layout, cast
from ornstein._base.types import Array, PyTree, Vector
from ornstein.linalg.operators import Factor
from ornstein.models.chain_rule import ChainRule
from ornstein.models.local import Anchored, LocalProblem
from ornstein.models.remainders import diagonalised, remainder


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


def _jacobian_diagonal(function: Callable[[Array], Array], theta: Array) -> Array:
    """One Jacobian-vector product per entry."""

    def entry(index: Array) -> Array:
        direction = jnp.zeros_like(theta).at[index].set(1.0)
        return jax.jvp(function, (theta,), (direction,))[1][index]

    return jax.lax.map(entry, jnp.arange(len(theta)))
