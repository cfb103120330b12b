"""The evidence lower bound of a Gaussian q, from all rows."""

import math
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from ornstein._tree import cast, sum_over_blocks
from ornstein._types import Array, PyTree, Vector
from ornstein.geometry import block_rows
from ornstein.model import Model
from ornstein.operators import Dense, Diagonal, as_operator
from ornstein.posterior import Posterior

_PAIRS = 32  # of opposite normals


class Gaussian(NamedTuple):
    """``N(m, L L')``."""

    mean: Vector
    root: Diagonal | Dense


class Elbo:
    """``E_q[log p(data, theta)]`` plus the entropy of q.

    The expectation of the quadratic part ``-1/2 (theta - m)' P (theta - m)`` is taken in closed
    form, that of the rest at pairs of opposite normals, the same for every q: the ELBO of a
    quadratic model is exact, and differences between like q's have little noise.

    Parameters
    ----------
    post
        The posterior.
    precision
        ``P``: the posterior's at its optimum, or the diagonal of that.
    key
        Chooses the normals.
    """

    def __init__(self, post: Posterior, precision: Vector, key: Array) -> None:
        self.post, self.precision = post, as_operator(precision)
        with jax.enable_x64(True):
            normals = np.asarray(jax.random.normal(key, (_PAIRS, post.dim), np.float64))
        self.normals = np.concatenate([normals, -normals])

    def __call__(self, q: Gaussian) -> float:
        """In nats; not finite where a loss or a scale is not."""
        model, hyper, dim = self.post.model, self.post.hyper, self.post.dim
        offsets = np.asarray(q.root.matvec(self.normals))
        points = q.mean + offsets

        def block(rows: PyTree, weights: Vector) -> Array:
            return _losses(model, points, cast(rows, np.float64), hyper, weights)

        with jax.enable_x64(True):
            losses = sum_over_blocks(self.post.data, block_rows(self.post), block)
            losses = losses + np.asarray(_prior_losses(model, points, hyper))
        rest = losses - 0.5 * (offsets * self.precision.matvec(offsets)).sum(axis=1)
        columns = q.root.dense(dim).T
        quadratic = 0.5 * (columns * self.precision.matvec(columns)).sum()
        entropy = 0.5 * dim * (1 + math.log(2 * math.pi)) + q.root.logdet(dim)
        return float(entropy - quadratic - rest.mean())


@partial(jax.jit, static_argnums=(0,))
def _losses(model: Model, points: Array, rows: PyTree, hyper: PyTree, weights: Array) -> Array:
    """``-log p(rows | theta)`` at every point."""
    return jax.lax.map(lambda theta: weights @ model.losses(theta, rows, hyper), points)


@partial(jax.jit, static_argnums=(0,))
def _prior_losses(model: Model, points: Array, hyper: PyTree) -> Array:
    return jax.lax.map(lambda theta: model.prior_loss(theta, hyper), points)
