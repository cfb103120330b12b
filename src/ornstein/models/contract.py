"""The contract between a model and the rest of the house, and the one place that scales.

A model knows one row's loss ``-log p(x_n | theta)`` and the prior's ``-log p(theta)``, both over
flat parameter vectors, and never N or S. Generic models get everything by automatic
differentiation; models with closed forms override what they know better.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base import captured
from ornstein._base.precision import double_precision
from ornstein._base.trees import Layout, cast
from ornstein._base.types import Array, Constrain, LogLikelihood, LogPrior, PyTree, Vector
from ornstein.data.passes import blocks
from ornstein.linalg.operators import Factor

T = TypeVar("T", Array, Vector, float)

_MAPPED = 1024  # vectors that a user's function is mapped over at once


def per_example(row_sum: T, num_rows: int, prior_term: T, num_data: int) -> T:
    """Mean over rows of ``l_n = -log p(x_n | theta) - (1/N) log p(theta)``, or of a derivative.

    The one place where anything is scaled by N or S: ``row_sum`` is a sum over ``num_rows`` rows
    (a minibatch, a subsample, all), ``prior_term`` the same derivative of ``-log p(theta)``.
    """
    return row_sum / num_rows + prior_term / num_data


class Minibatch(NamedTuple):
    """Rows, their weights where they are not drawn alike, how many they are and of how many."""

    rows: PyTree
    weights: Array | None
    size: int
    num_data: int

    def per_example(self, row_sum: Array, prior_term: Array) -> Array:
        """Mean over the batch, scaled by :func:`per_example`."""
        return per_example(row_sum, self.size, prior_term, self.num_data)


class LocalProblem(NamedTuple):
    """A model in the coordinates z of ``theta = center + W z``.

    ``model`` is static, ``hyper`` are host arrays passed to compiled code, and so is what ``fold``
    makes of rows; ``factor`` is the ``W`` in use, which a model may have rotated to suit itself.
    """

    model: "LocalModel"
    fold: Callable[[PyTree], PyTree]
    hyper: PyTree
    factor: Factor


class LocalModel(ABC):
    """What the sampling loop needs: gradients by z. Hashable, as compiled code is keyed on it."""

    rows_last: bool = False
    """Whether batches come feature-major, rows along the last axis."""

    plain_operations: bool = False
    """Whether gradients are products of matrices and vectors and functions of single numbers."""

    @abstractmethod
    def minibatch_gradient(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        """``ghat_S``, the (weighted) mean gradient of ``l_n`` over a minibatch, by z."""

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
        """Whether a row's residuals sum to zero, whatever the predictor is."""

    @property
    def outputs(self) -> int:
        """K."""

    @property
    def width(self) -> int:
        """F."""

    @property
    def features(self) -> int:
        """Columns of the design before the intercept."""

    def design(self, rows: PyTree, dtype: npt.DTypeLike) -> Array:
        """``u`` of every row, (n, F)."""

    def residuals(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        """First derivatives by the predictor, (n, K)."""

    def curvatures(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        """Second derivatives by the predictor, (n, K, K)."""

    def residual_squares(self, anchor: Array, cov: Array, rows: PyTree, hyper: PyTree) -> Array:
        """``E[(r - r*)(r - r*)']`` where predictors are Gaussian with covariances ``cov``."""


class Model(ABC):
    """Losses of rows and prior over flat parameter vectors. Hashable."""

    layout: Layout
    quadratic: bool = False
    """Whether the loss is quadratic, so that the Gaussian at the optimum is the posterior."""

    @property
    def factored(self) -> Factored | None:
        """The model's linear predictors, which give a curvature in factors; or None."""
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

        def product(direction: Array) -> Array:
            def along(t: Array) -> Array:
                return self.gradient_sum(t, rows, hyper, weights)

            return jax.jvp(along, (theta,), (direction,))[1]

        return jax.lax.map(product, jnp.eye(len(theta), dtype=theta.dtype))

    def hessian_diagonal_sum(
        self, theta: Array, rows: PyTree, hyper: PyTree, weights: Array
    ) -> Array:
        """Diagonal of :meth:`hessian_sum`, without holding the matrix."""

        def entry(index: Array) -> Array:
            direction = jnp.zeros_like(theta).at[index].set(1.0)

            def along(t: Array) -> Array:
                return self.gradient_sum(t, rows, hyper, weights)

            return jax.jvp(along, (theta,), (direction,))[1][index]

        return jax.lax.map(entry, jnp.arange(len(theta)))

    def prior_gradient(self, theta: Array, hyper: PyTree) -> Array:
        """Gradient of ``-log p(theta)``."""
        return jax.grad(self.prior_loss)(theta, hyper)

    def prior_hessian(self, theta: Array, hyper: PyTree) -> Array:
        """Hessian of ``-log p(theta)``."""
        return jax.hessian(self.prior_loss)(theta, hyper)

    def prior_hessian_diagonal(self, theta: Array, hyper: PyTree) -> Array:
        """Diagonal of :meth:`prior_hessian`, without holding the matrix."""

        def entry(index: Array) -> Array:
            direction = jnp.zeros_like(theta).at[index].set(1.0)
            return jax.jvp(lambda t: self.prior_gradient(t, hyper), (theta,), (direction,))[1][
                index
            ]

        return jax.lax.map(entry, jnp.arange(len(theta)))

    def deviation_kicks(self, spread: Spread, rows: PyTree, hyper: PyTree) -> Array:
        """How far each row throws a chain off over a Gaussian around an anchor (X9).

        ``E[d_n' cov d_n]`` with ``d_n = grad l_n(theta) - grad l_n(anchor)``.
        """
        at_anchor = self.gradients(spread.anchor, rows, hyper)

        def add(kicks: Array, theta: Array) -> tuple[Array, None]:
            deviation = self.gradients(theta, rows, hyper) - at_anchor
            return kicks + ((deviation @ spread.cov) * deviation).sum(axis=1), None

        kicks, _ = jax.lax.scan(add, jnp.zeros_like(at_anchor[:, 0]), spread.points)
        return kicks / len(spread.points)

    def deviation_sums(self, spread: Spread, rows: PyTree, hyper: PyTree, weights: Array) -> Array:
        """Sums over rows of ``E[d_n d_n']``, one (D, D) for every line of ``weights`` (m, n)."""
        at_anchor = self.gradients(spread.anchor, rows, hyper)

        def add(sums: Array, theta: Array) -> tuple[Array, None]:
            deviation = self.gradients(theta, rows, hyper) - at_anchor
            return sums + jnp.einsum("mn,ni,nj->mij", weights, deviation, deviation), None

        start = jnp.zeros((len(weights), *spread.cov.shape), spread.cov.dtype)
        sums, _ = jax.lax.scan(add, start, spread.points)
        return sums / len(spread.points)

    def localise(
        self,
        center: Vector,
        factor: Factor,
        hyper: PyTree,
        dtype: npt.DTypeLike,
        slope: Vector | None = None,
    ) -> LocalProblem:
        """The model in the coordinates z of ``theta = center + W z`` (X8), rows in ``dtype``.

        With ``slope``, the gradient of ``-log p(theta | data)`` at the centre, minibatch gradients
        are anchored there (X9): ``g(center) + 1/S sum (grad l_n(theta) - grad l_n(center))``.
        """
        local = self.local_numbers(center, factor, hyper, slope)
        return LocalProblem(InBasis(self), lambda rows: cast(rows, dtype), local, factor)

    def local_numbers(
        self, center: Vector, factor: Factor, hyper: PyTree, slope: Vector | None
    ) -> PyTree:
        """What :class:`InBasis` takes as ``hyper``."""
        local = {"center": center, "factor": factor, "model": hyper}
        if slope is not None:
            with double_precision():
                prior = np.asarray(self.prior_gradient(jnp.asarray(center), hyper))
            local["shift"] = slope - prior
        return local


@dataclass(frozen=True)
class InBasis(LocalModel):
    """Any model, its parameters mapped from z at every step."""

    model: Model

    def minibatch_gradient(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        """Chain rule: ``W'`` times the gradient by theta."""
        theta, fixed = hyper["center"] + hyper["factor"].matvec(z), hyper["model"]
        rows, weights = batch.rows, batch.weights
        rows_sum = self.model.gradient_sum(theta, rows, fixed, weights)
        prior = self.model.prior_gradient(theta, fixed)
        if "shift" in hyper:
            rows_sum = rows_sum - self.model.gradient_sum(hyper["center"], rows, fixed, weights)
            prior = prior + hyper["shift"]
        return hyper["factor"].rmatvec(batch.per_example(rows_sum, prior))

    def row_gradients(self, z: Array, batch: Minibatch, hyper: PyTree) -> Array:
        """Chain rule, row by row."""
        theta, fixed = hyper["center"] + hyper["factor"].matvec(z), hyper["model"]
        rows = self.model.gradients(theta, batch.rows, fixed)
        if "shift" in hyper:
            rows = rows - self.model.gradients(hyper["center"], batch.rows, fixed)
        rows = rows if batch.weights is None else rows * batch.weights[:, None]
        return hyper["factor"].rmatvec(rows).T


@dataclass(frozen=True)
class Generic(Model):
    """A user's own per-example log-likelihood and log-prior."""

    log_likelihood: LogLikelihood
    log_prior: LogPrior
    layout: Layout
    with_hyper: bool = False
    """Whether the two take hyperparameters, ``hyper["hyper"]``, as their last argument."""

    def constants(self) -> PyTree:
        """What the two functions capture: their ``hyper``."""
        return {
            "log_likelihood": captured.constants(self.log_likelihood),
            "log_prior": captured.constants(self.log_prior),
        }

    def likelihood(self, hyper: PyTree) -> LogLikelihood:
        """The user's log-likelihood, its constants and hyperparameters given."""
        bound = captured.bind(self.log_likelihood, hyper["log_likelihood"])
        if not self.with_hyper:
            return bound
        return lambda params, row: bound(params, row, hyper["hyper"])

    def prior(self, hyper: PyTree) -> LogPrior:
        """The user's log-prior, its constants and hyperparameters given."""
        bound = captured.bind(self.log_prior, hyper["log_prior"])
        return (lambda params: bound(params, hyper["hyper"])) if self.with_hyper else bound

    def losses(self, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
        """The log-likelihood mapped over rows, negated."""
        mapped = jax.vmap(self.likelihood(hyper), in_axes=(None, 0))
        return -mapped(self.layout.unravel(theta), rows)

    def prior_loss(self, theta: Array, hyper: PyTree) -> Array:
        """The log-prior, negated."""
        return -self.prior(hyper)(self.layout.unravel(theta))


def map_rows(function: Constrain, layout: Layout, flat: Vector) -> PyTree:
    """A user's function of the parameters, over vectors of them (..., D), in float64."""

    @jax.jit
    def some(constants: list[Array], vectors: Array) -> PyTree:
        return jax.vmap(captured.bind(function, constants))(layout.unravel(vectors))

    with double_precision():
        constants = captured.constants(function)
        parts = [
            jax.tree.map(lambda leaf, kept=weights > 0: np.asarray(leaf)[kept], some(constants, v))
            for v, weights in blocks(np.asarray(flat).reshape(-1, layout.dim), _MAPPED)
        ]

    def whole(*leaves: Vector) -> Vector:
        joined = np.concatenate(leaves)
        return joined.reshape(flat.shape[:-1] + joined.shape[1:])

    return jax.tree.map(whole, *parts)
