"""Scores of hyperparameters by automatic differentiation, for any model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

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


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("hyper", "rows", "weights"),
    meta_fields=("model", "learnable"),
)
@dataclass(frozen=True)
class _Side:
    """A weighted block of rows, or the prior if there are none, by theta and ``eta``."""

    model: Model
    learnable: Learnable
    hyper: PyTree
    rows: PyTree = None
    weights: Any = None

    def loss(self, theta: Array, eta: Array) -> Array:
        if self.rows is None:
            return self.model.prior_loss(theta, self._at(eta))
        return self.weights @ self.model.losses(theta, self.rows, self._at(eta))

    def gradient(self, theta: Array, eta: Array) -> Array:
        if self.rows is None:
            return self.model.prior_gradient(theta, self._at(eta))
        return self.model.gradient_sum(theta, self.rows, self._at(eta), self.weights)

    def hessian(self, theta: Array, eta: Array) -> Array:
        if self.rows is None:
            return self.model.prior_hessian(theta, self._at(eta))
        return self.model.hessian_sum(theta, self.rows, self._at(eta), self.weights)

    def hessian_diagonal(self, theta: Array, eta: Array) -> Array:
        if self.rows is None:
            return self.model.prior_hessian_diagonal(theta, self._at(eta))
        return self.model.hessian_diagonal_sum(theta, self.rows, self._at(eta), self.weights)

    def _at(self, eta: Array) -> PyTree:
        return self.learnable.assign(self.learnable.from_real(eta), self.hyper)


def expected_slope(post: Posterior, center: Vector, cov: Vector) -> tuple[Vector, Vector]:
    """Mean score over ``N(center, cov)`` to second order, and the complete information."""
    score, information = _totals(post, _expected, center, cov)
    return score, information


def derivatives(post: Posterior, theta: Vector) -> tuple[Vector, Vector, Vector]:
    """The score at a point (J,), its gradient by theta and the diagonal of its Hessian (J, D)."""
    value, slope, diagonal = _totals(post, _derivatives, theta)
    return value, slope.T, diagonal.T


def scores(post: Posterior, flat: Vector) -> Vector:
    """The score of every draw (chains, draws, J); of a subset where it needs all rows."""
    if post.learnable.in_likelihood:
        affordable = max(64, int(_WORK / (post.num_data * post.dim)))
        flat = flat[:, :: -(-flat.shape[0] * flat.shape[1] // affordable)]
    points = flat.reshape(-1, flat.shape[-1])
    (found,) = _totals(post, _scores, points)
    return found.reshape(*flat.shape[:2], -1)


def _totals(post: Posterior, term: Callable[..., PyTree], *arrays: Vector) -> tuple[Vector, ...]:
    """The prior's term, plus the rows' where they depend on the hyperparameters."""
    learnable = post.learnable
    eta = learnable.to_real(post.hyperparameters)
    prior = _Side(post.model, learnable, post.hyper)

    def of_rows(rows: PyTree, weights: Vector) -> PyTree:
        return term(replace(prior, rows=in_double(rows), weights=weights), eta, *arrays)

    with double_precision():
        total = jax.tree.map(np.asarray, term(prior, eta, *arrays))
        if learnable.in_likelihood:
            rows = sum_over_blocks(post.data, block_rows(post), of_rows)
            total = jax.tree.map(np.add, total, rows)
    return tuple(total)


@jax.jit
def _expected(side: _Side, eta: Array, c: Array, cov: Array) -> tuple[Array, Array]:
    def total(eta: Array) -> Array:
        if cov.ndim == 1:
            spread = cov @ side.hessian_diagonal(c, eta)
        else:
            spread = (cov * side.hessian(c, eta)).sum()
        return -side.loss(c, eta) - 0.5 * spread

    def slope(eta: Array) -> tuple[Array, Array]:
        score = jax.grad(total)(eta)
        return score, score

    curvature, score = jax.jacfwd(slope, has_aux=True)(eta)
    return score, -curvature


@jax.jit
def _derivatives(side: _Side, eta: Array, theta: Array) -> tuple[Array, Array, Array]:
    def terms(eta: Array) -> tuple[Array, Array, Array]:
        gradient, diagonal = side.gradient(theta, eta), side.hessian_diagonal(theta, eta)
        return -side.loss(theta, eta), -gradient, -diagonal

    return jax.jacfwd(terms)(eta)


@jax.jit
def _scores(side: _Side, eta: Array, points: Array) -> tuple[Array]:
    def one(theta: Array) -> Array:
        return jax.grad(lambda eta: -side.loss(theta, eta))(eta)

    return (jax.lax.map(one, points, batch_size=_AT_ONCE),)
