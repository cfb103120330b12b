"""The evidence lower bound of a Gaussian q, from all rows."""

import math
from typing import NamedTuple

import jax
import numpy as np

from ornstein._base.precision import double_precision
from ornstein._base.types import Array, Vector
from ornstein.curvature.row_sums import joint_losses
from ornstein.linalg.operators import Dense, Diagonal, Operator
from ornstein.models.posterior import Posterior

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

    def __init__(self, post: Posterior, precision: Operator, key: Array) -> None:
        self.post, self.precision = post, precision
        with double_precision():
            normals = np.asarray(jax.random.normal(key, (_PAIRS, post.dim), np.float64))
        self.normals = np.concatenate([normals, -normals])

    def __call__(self, q: Gaussian) -> float:
        """In nats; not finite where a loss or a scale is not."""
        dim = self.post.dim
        offsets = np.asarray(q.root.matvec(self.normals))
        losses = joint_losses(self.post, q.mean + offsets)
        rest = losses - 0.5 * (offsets * self.precision.matvec(offsets)).sum(axis=1)
        columns = q.root.dense(dim).T
        quadratic = 0.5 * (columns * self.precision.matvec(columns)).sum()
        entropy = 0.5 * dim * (1 + math.log(2 * math.pi)) + q.root.logdet(dim)
        return float(entropy - quadratic - rest.mean())
