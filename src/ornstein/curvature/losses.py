"""Losses of all rows at several parameters, in double precision and bounded memory."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.precision import double_precision
from ornstein._base.trees import in_double
from ornstein._base.types import Array, PyTree, Vector
from ornstein.curvature.estimation import block_rows
from ornstein.data.passes import sum_over_blocks
from ornstein.models.contract import Model
from ornstein.models.posterior import Posterior


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


@partial(jax.jit, static_argnums=(0,))
def _loss_sums(model: Model, thetas: Array, rows: PyTree, hyper: PyTree, weights: Array) -> Array:
    return jax.lax.map(lambda theta: weights @ model.losses(theta, rows, hyper), thetas)


@partial(jax.jit, static_argnums=(0,))
def _prior_losses(model: Model, thetas: Array, hyper: PyTree) -> Array:
    return jax.lax.map(lambda theta: model.prior_loss(theta, hyper), thetas)
