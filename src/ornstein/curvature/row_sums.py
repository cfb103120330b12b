"""Sums over rows of losses, gradients and curvatures, in blocks of bounded memory.

In double precision, whatever the sampling precision, unless said otherwise.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base.checks import random_key
from ornstein._base.precision import double_precision
from ornstein._base.trees import cast, in_double, num_rows
from ornstein._base.types import Array, Key, PyTree, Vector
from ornstein.data.passes import sum_over_blocks
from ornstein.models.contract import Factored, Model
from ornstein.models.local import per_example
from ornstein.models.posterior import Posterior
from ornstein.models.remainders import remainder

_BLOCK_NUMBERS = 2**22  # float64 numbers in a block of row gradients: 32 MiB
DESIGN_NUMBERS = 2**20  # the same of designs of linear predictors: 8 MiB, near a core
_TOGETHER = 16  # parameters whose gradients are taken by one matrix product
_FAST_WIDTH = 64  # columns from which that is faster
_WIDE = 2000  # parameters beyond which rows' gradients are summed, never held


def block_rows(post: Posterior) -> int:
    """Rows of a block whose gradients stay within the memory bound."""
    if post.dim > _WIDE and post.model.factored is not None:  # which make no rows' gradients
        return design_rows(post.model.factored)
    return max(64, _BLOCK_NUMBERS // post.dim)


def design_rows(predictors: Factored, numbers: int = DESIGN_NUMBERS) -> int:
    """Rows of a block whose designs and curvatures stay within the memory bound."""
    return max(64, numbers // (predictors.width + predictors.outputs**2))


def chosen_rows(post: Posterior, rows: int, key: Key) -> npt.NDArray[np.int64]:
    """Numbers of random rows, without repetition, in no order."""
    seed = np.asarray(jax.random.key_data(random_key(key))).tolist()
    return np.random.default_rng(seed).choice(post.num_data, size=rows, replace=False)


def row_losses(post: Posterior, thetas: Vector) -> Vector:
    """``-log p(data | theta)``, summed over all rows, at each of several parameters (T, D)."""

    def block(rows: PyTree, weights: Vector) -> Array:
        here = in_double(rows)
        return _loss_sums(post.model, jnp.asarray(thetas), here, post.hyper, weights)

    with double_precision():
        return np.asarray(sum_over_blocks(post.data, block_rows(post), block))


def joint_losses(post: Posterior, thetas: Vector) -> Vector:
    """``-log p(data, theta)`` at each of several parameters (T, D)."""
    with double_precision():
        prior = np.asarray(_prior_losses(post.model, jnp.asarray(thetas), post.hyper))
    return row_losses(post, thetas) + prior


def loss_and_gradient(
    post: Posterior, theta: Vector, rows: PyTree = None, single: bool = False
) -> tuple[float, Vector]:
    """Of the mean loss of all rows or some; their blocks in ``single`` precision, or in double."""
    N, dtype = post.num_data, np.float32 if single else np.float64
    data = post.data if rows is None else rows
    flat, hyper = jnp.asarray(theta, dtype), cast(post.hyper, dtype) if single else post.hyper

    def block(rows: PyTree, weights: Vector) -> PyTree:
        here = cast(rows, dtype) if single else in_double(rows)
        return _first_order(post.model, flat, here, hyper, jnp.asarray(weights, dtype))

    totals = sum_over_blocks(data, block_rows(post), block)
    prior = [np.asarray(value) for value in _prior(post.model, jnp.asarray(theta), post.hyper)]
    used = num_rows(data)
    loss, gradient = (per_example(t, used, p, N) for t, p in zip(totals, prior, strict=True))
    return float(loss), gradient


def mean_gradient(post: Posterior, theta: Vector) -> Vector:
    """Gradient of the mean loss over all rows."""

    def block(rows: PyTree, weights: Vector) -> Array:
        here = in_double(rows)
        return _gradient_sum(post.model, jnp.asarray(theta), here, post.hyper, weights)

    with double_precision():
        total = sum_over_blocks(post.data, block_rows(post), block)
        prior = np.asarray(post.model.prior_gradient(jnp.asarray(theta), post.hyper))
    return per_example(total, post.num_data, prior, post.num_data)


def gradients_at(post: Posterior, thetas: Vector, data: PyTree) -> Vector:
    """Gradients of ``-log p(data, theta)`` at several parameters, (T, D).

    Over all rows, or over some that stand for all.
    """
    at = jnp.asarray(thetas)

    def block(rows: PyTree, weights: Vector) -> Array:
        return _gradient_sums(post.model, at, in_double(rows), post.hyper, jnp.asarray(weights))

    total = sum_over_blocks(data, block_rows(post), block) * (post.num_data / num_rows(data))
    return total + np.asarray(_prior_slopes(post.model, at, post.hyper))


def remainders_at(post: Posterior, thetas: Vector, data: PyTree, anchor: Vector) -> Vector:
    """What is left of gradients of ``-log p(data, theta)`` beyond first order around an anchor.

    At several parameters, (T, D), over rows that stand for all: ``g(theta) - g(anchor) - H(anchor)
    (theta - anchor)``, the part that second-order control variates (X10) estimate.
    """
    at, here = jnp.asarray(thetas), jnp.asarray(anchor)

    def block(rows: PyTree, weights: Vector) -> Array:
        given = in_double(rows), post.hyper, jnp.asarray(weights)
        return _remainder_sums(post.model, here, at, *given)

    total = sum_over_blocks(data, block_rows(post), block) * (post.num_data / num_rows(data))
    return total + np.asarray(_prior_remainders(post.model, here, at, post.hyper))


def products_are_fast(model: Model) -> bool:
    """Whether gradients at several parameters are products of large matrices."""
    return model.factored is not None and model.factored.width >= _FAST_WIDTH


def mean_hessian(post: Posterior, data: PyTree, theta: Vector) -> Vector:
    """Hessian of the mean loss of some rows, a matrix."""
    flat = jnp.asarray(theta)

    def block(rows: PyTree, weights: Vector) -> Array:
        return _hessian_sum(post.model, flat, in_double(rows), post.hyper, weights)

    total = sum_over_blocks(data, block_rows(post), block)
    prior = np.asarray(_prior_hessian(post.model, flat, post.hyper))
    return per_example(total, num_rows(data), prior, post.num_data)


def second_order(post: Posterior, theta: Vector, data: PyTree, dense: bool) -> PyTree:
    """Sums of gradients, of their outer products and of Hessians; or of squares and diagonals."""

    def block(rows: PyTree, weights: Vector) -> PyTree:
        here = in_double(rows)
        return _second_order(post.model, dense, jnp.asarray(theta), here, post.hyper, weights)

    return sum_over_blocks(data, block_rows(post), block)


def prior_terms(post: Posterior, theta: Vector, dense: bool) -> tuple[Vector, Vector]:
    """Gradient and Hessian of ``-log p(theta)``, or its diagonal."""
    hessian = _prior_hessian if dense else _prior_curvatures
    with double_precision():
        given = post.model, jnp.asarray(theta), post.hyper
        return np.asarray(_prior_slope(*given)), np.asarray(hessian(*given))


def of_predictors(
    post: Posterior,
    data: PyTree,
    function: Callable[..., PyTree],
    *arrays: PyTree,
    single: bool = False,
) -> PyTree:
    """Sum over blocks of what compiled code makes of rows of linear predictors.

    ``function`` takes the arrays, the rows, the model's fixed numbers and the rows' weights; in
    double precision, or in single for products whose rounding no one will see.
    """
    assert post.model.factored is not None
    dtype = np.float32 if single else np.float64
    here = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, dtype)), arrays)
    hyper = cast(post.hyper, dtype)

    def block(rows: PyTree, weights: Vector) -> PyTree:
        there = cast(rows, dtype) if single else in_double(rows)
        return function(*here, there, hyper, jnp.asarray(weights, dtype))

    return sum_over_blocks(data, design_rows(post.model.factored), block)


_compiled = partial(jax.jit, static_argnums=(0,))
_gradient_sum = _compiled(lambda model, *given: model.gradient_sum(*given))
_hessian_sum = _compiled(lambda model, *given: model.hessian_sum(*given))
_prior_hessian = _compiled(lambda model, *given: model.prior_hessian(*given))
_prior_curvatures = _compiled(lambda model, *given: model.prior_hessian_diagonal(*given))
_prior_slope = _compiled(lambda model, *given: model.prior_gradient(*given))


@_compiled
def _loss_sums(model: Model, thetas: Array, rows: PyTree, hyper: PyTree, weights: Array) -> Array:
    return jax.lax.map(lambda theta: weights @ model.losses(theta, rows, hyper), thetas)


@_compiled
def _gradient_sums(
    model: Model, thetas: Array, rows: PyTree, hyper: PyTree, weights: Array
) -> Array:
    together = _TOGETHER if products_are_fast(model) else None
    return jax.lax.map(
        lambda theta: model.gradient_sum(theta, rows, hyper, weights), thetas, batch_size=together
    )


@_compiled
def _remainder_sums(
    model: Model, anchor: Array, thetas: Array, rows: PyTree, hyper: PyTree, weights: Array
) -> Array:
    together = _TOGETHER if products_are_fast(model) else None
    remainder = _remainder(lambda theta: model.gradient_sum(theta, rows, hyper, weights), anchor)
    return jax.lax.map(remainder, thetas, batch_size=together)


@_compiled
def _prior_remainders(model: Model, anchor: Array, thetas: Array, hyper: PyTree) -> Array:
    return jax.lax.map(_remainder(lambda t: model.prior_gradient(t, hyper), anchor), thetas)


def _remainder(gradient: Callable[[Array], Array], anchor: Array) -> Callable[[Array], Array]:
    """A gradient less its first-order expansion around an anchor."""

    def remainder(theta: Array) -> Array:
        there, along = jax.jvp(gradient, (anchor,), (theta - anchor,))
        return gradient(theta) - there - along

    return remainder


@_compiled
def _prior_slopes(model: Model, thetas: Array, hyper: PyTree) -> Array:
    return jax.lax.map(lambda theta: model.prior_gradient(theta, hyper), thetas)


@_compiled
def _prior_losses(model: Model, thetas: Array, hyper: PyTree) -> Array:
    return jax.lax.map(lambda theta: model.prior_loss(theta, hyper), thetas)


@_compiled
def _first_order(
    model: Model, theta: Array, rows: PyTree, hyper: PyTree, weights: Array
) -> tuple[Array, Array]:
    loss = jnp.sum(weights * model.losses(theta, rows, hyper), dtype=jnp.float64)
    return loss, model.gradient_sum(theta, rows, hyper, weights).astype(jnp.float64)


@_compiled
def _prior(model: Model, theta: Array, hyper: PyTree) -> tuple[Array, Array]:
    return model.prior_loss(theta, hyper), model.prior_gradient(theta, hyper)


@partial(jax.jit, static_argnums=(0, 1))
def _second_order(
    model: Model, dense: bool, theta: Array, rows: PyTree, hyper: PyTree, weights: Array
) -> tuple[Array, Array, Array]:
    if dense:
        total = model.gradient_sum(theta, rows, hyper, weights)
        return total, *model.second_sums(theta, rows, hyper, weights)
    gradients = model.gradients(theta, rows, hyper)
    diagonal = model.hessian_diagonal_sum(theta, rows, hyper, weights)
    return weights @ gradients, weights @ gradients**2, diagonal


@partial(jax.jit, static_argnums=(0, 1))
def anchored_gradients(
    model: Model, order: int, theta: Array, anchor: Array, rows: PyTree, hyper: PyTree
) -> Array:
    """The rows' gradients, less those at an anchor (order 1) or their tangents there (order 2)."""
    return remainder(lambda at: model.gradients(at, rows, hyper), anchor, theta, order)
