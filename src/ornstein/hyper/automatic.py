"""Scores of hyperparameters by automatic differentiation, for any model."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from ornstein._base.precision import double_precision
from ornstein._base.trees import in_double
from ornstein._base.types import Array, PyTree, Vector
from ornstein.curvature.row_sums import block_rows
from ornstein.data.passes import sum_over_blocks
from ornstein.models.contract import Model
from ornstein.models.hyperparameters import Learnable
from ornstein.models.posterior import Posterior

_WORK = 2e8  # multiplications to spend on the likelihood of draws over all rows
_AT_ONCE = 32  # draws whose likelihood is computed together


class _Side(NamedTuple):
    """A weighted block of rows; the prior if there are none."""

    rows: PyTree = None
    weights: Any = None

    def loss(self, model: Model, theta: Array, hyper: PyTree) -> Array:
        if self.rows is None:
            return model.prior_loss(theta, hyper)
        return self.weights @ model.losses(theta, self.rows, hyper)

    def gradient(self, model: Model, theta: Array, hyper: PyTree) -> Array:
        if self.rows is None:
            return model.prior_gradient(theta, hyper)
        return model.gradient_sum(theta, self.rows, hyper, self.weights)

    def hessian(self, model: Model, theta: Array, hyper: PyTree) -> Array:
        if self.rows is None:
            return model.prior_hessian(theta, hyper)
        return model.hessian_sum(theta, self.rows, hyper, self.weights)

    def hessian_diagonal(self, model: Model, theta: Array, hyper: PyTree) -> Array:
        if self.rows is None:
            return model.prior_hessian_diagonal(theta, hyper)
        return model.hessian_diagonal_sum(theta, self.rows, hyper, self.weights)


def expected_slope(post: Posterior, center: Vector, cov: Vector) -> tuple[Vector, Vector]:
    """Mean score over ``N(center, cov)`` to second order, and the complete information."""
    score, information = _totals(post, partial(_expected, post.model), center, cov)
    return score, information


def derivatives(post: Posterior, theta: Vector) -> tuple[Vector, Vector, Vector]:
    """The score at a point (J,), its gradient by theta and the diagonal of its Hessian (J, D)."""
    value, slope, diagonal = _totals(post, partial(_derivatives, post.model), theta)
    return value, slope.T, diagonal.T


def scores(post: Posterior, flat: Vector) -> Vector:
    """The score of every draw (chains, draws, J); of a subset where it needs all rows."""
    if post.learnable.in_likelihood:
        affordable = max(64, int(_WORK / (post.num_data * post.dim)))
        flat = flat[:, :: -(-flat.shape[0] * flat.shape[1] // affordable)]
    points = flat.reshape(-1, flat.shape[-1])
    (found,) = _totals(post, partial(_scores, post.model), points)
    return found.reshape(*flat.shape[:2], -1)


def _totals(post: Posterior, term: Callable[..., PyTree], *arrays: Vector) -> tuple[Vector, ...]:
    """The prior's term, plus the rows' where they depend on the hyperparameters."""
    learnable = post.learnable
    eta = learnable.to_real(post.hyperparameters)

    def of(side: _Side) -> PyTree:
        return term(learnable, eta, side, post.hyper, *arrays)

    with double_precision():
        total = jax.tree.map(np.asarray, of(_Side()))
        if learnable.in_likelihood:
            rows = sum_over_blocks(
                post.data,
                block_rows(post),
                lambda rows, weights: of(_Side(in_double(rows), weights)),
            )
            total = jax.tree.map(np.add, total, rows)
    return tuple(total)


@partial(jax.jit, static_argnums=(0, 1))
def _expected(
    model: Model,
    learnable: Learnable,
    eta: Array,
    side: _Side,
    hyper: PyTree,
    c: Array,
    cov: Array,
) -> tuple[Array, Array]:
    def total(eta: Array) -> Array:
        here = learnable.assign(learnable.from_real(eta), hyper)
        if cov.ndim == 1:
            spread = cov @ side.hessian_diagonal(model, c, here)
        else:
            spread = (cov * side.hessian(model, c, here)).sum()
        return -side.loss(model, c, here) - 0.5 * spread

    def slope(eta: Array) -> tuple[Array, Array]:
        score = jax.grad(total)(eta)
        return score, score

    curvature, score = jax.jacfwd(slope, has_aux=True)(eta)
    return score, -curvature


@partial(jax.jit, static_argnums=(0, 1))
def _derivatives(
    model: Model, learnable: Learnable, eta: Array, side: _Side, hyper: PyTree, theta: Array
) -> tuple[Array, Array, Array]:
    def terms(eta: Array) -> tuple[Array, Array, Array]:
        here = learnable.assign(learnable.from_real(eta), hyper)
        gradient = side.gradient(model, theta, here)
        diagonal = side.hessian_diagonal(model, theta, here)
        return -side.loss(model, theta, here), -gradient, -diagonal

    return jax.jacfwd(terms)(eta)


@partial(jax.jit, static_argnums=(0, 1))
def _scores(
    model: Model, learnable: Learnable, eta: Array, side: _Side, hyper: PyTree, points: Array
) -> tuple[Array]:
    def one(theta: Array) -> Array:
        def total(eta: Array) -> Array:
            return -side.loss(model, theta, learnable.assign(learnable.from_real(eta), hyper))

        return jax.grad(total)(eta)

    return (jax.lax.map(one, points, batch_size=_AT_ONCE),)
