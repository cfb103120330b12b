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
from ornstein.operators import Operator
from ornstein.posterior import Posterior

_PAIRS = 32  # of opposite normals


class Gaussian(NamedTuple):
    """``N(m, L L')``."""

    mean: Vector
    root: Operator


class Elbo:
    """``E_q[log p(data, theta)]`` plus the entropy of q, at the same normals for every q.

    Differences between like q's then have little noise.

    Parameters
    ----------
    post
        The posterior.
    key
        Chooses the normals.
    """

    def __init__(self, post: Posterior, key: Array) -> None:
        self.post = post
        self.normals = opposite_normals(key, post.dim)

    def __call__(self, q: Gaussian) -> float:
        """In nats; not finite where a loss or a scale is not."""
        model, hyper, dim = self.post.model, self.post.hyper, self.post.dim
        points = q.mean + np.asarray(q.root.matvec(self.normals))

        def block(rows: PyTree, weights: Vector) -> Array:
            return _losses(model, points, cast(rows, np.float64), hyper, weights)

        with jax.enable_x64(True):
            losses = sum_over_blocks(self.post.data, block_rows(self.post), block)
            losses = losses + np.asarray(_prior_losses(model, points, hyper))
        entropy = 0.5 * dim * (1 + math.log(2 * math.pi)) + q.root.logdet(dim)
        return float(entropy - losses.mean())


def opposite_normals(key: Array, dim: int) -> Vector:
    """Pairs ``xi, -xi`` whose second moments are the identity, or have its diagonal.

    Up to 32 parameters they are the identity: the ELBO of a quadratic model is then exact.
    """
    with jax.enable_x64(True):
        normals = np.asarray(jax.random.normal(key, (_PAIRS, dim), np.float64))
    if dim <= _PAIRS:
        normals = np.linalg.qr(normals)[0] * math.sqrt(_PAIRS)
    else:
        normals = normals / np.sqrt((normals**2).mean(axis=0))
    return np.concatenate([normals, -normals])


@partial(jax.jit, static_argnums=(0,))
def _losses(model: Model, points: Array, rows: PyTree, hyper: PyTree, weights: Array) -> Array:
    """``-log p(rows | theta)`` at every point."""
    return jax.lax.map(lambda theta: weights @ model.losses(theta, rows, hyper), points)


@partial(jax.jit, static_argnums=(0,))
def _prior_losses(model: Model, points: Array, hyper: PyTree) -> Array:
    return jax.lax.map(lambda theta: model.prior_loss(theta, hyper), points)
