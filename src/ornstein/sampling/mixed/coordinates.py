"""Coordinates that follow the hyperparameters: the Gaussian at the anchor under any others.

The rows' losses are known to second order around the anchor, and the blocks of the arrow are small:
mean and root of the Gaussian posterior under other hyperparameters take one factorisation, time of
order G. In units of it effects are nearly standard normal whatever their standard deviation, so
that steps of one length suit them all, and hyperparameters may move while these units stay (X13).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array, PyTree
from ornstein.curvature.arrow_anchor import MixedAnchor, prior_of
from ornstein.linalg.arrow import Arrow, ArrowRoot
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.specification import Specification


class Around(NamedTuple):
    """An anchor for compiled code: parameters, the rows' slope and Hessian there, the prior."""

    phi: Any
    b: Any
    lam: Any
    slope_phi: Any
    slope_b: Any
    data: Arrow
    prior: PyTree
    squares: Any  # of a Gaussian family's residuals at the anchor; 0 for others
    rows: Any  # N, or the sum of the weights

    @classmethod
    def of(cls, post: MixedPosterior, anchor: MixedAnchor, dtype: str) -> "Around":
        """In a precision."""
        weight = post.rows.total_weight
        squares = 0.0
        if post.specification.noise_prior is not None:
            squares = 2 * anchor.loss - weight * np.log(2 * np.pi)
        made = cls(
            anchor.phi,
            anchor.b,
            anchor.lam,
            anchor.slope_phi,
            anchor.slope_b,
            anchor.data,
            prior_of(post),
            np.asarray(squares),
            np.asarray(weight),
        )
        return jax.tree.map(lambda leaf: np.asarray(leaf, dtype), made)


class Coordinates(NamedTuple):
    """``theta = mean + L z`` under some hyperparameters."""

    phi: Array
    b: Array
    root: ArrowRoot
    lam: Array

    @classmethod
    def given(cls, spec: Specification, around: Around, lam: Array) -> "Coordinates":
        """The Gaussian under hyperparameters."""
        white_phi, white_b, root = whitened_slope(spec, around, lam)
        step_phi, step_b = root.apply(white_phi, white_b)
        return cls(around.phi - step_phi, around.b - step_b, root, lam)

    def position(self, z_phi: Array, z_b: Array) -> tuple[Array, Array]:
        """Parameters at coordinates."""
        phi, b = self.root.apply(z_phi, z_b)
        return self.phi + phi, self.b + b

    def coordinates(self, phi: Array, b: Array) -> tuple[Array, Array]:
        """Coordinates of parameters."""
        z_phi, z_b = self.root.solved(phi - self.phi, b - self.b)
        return z_phi, z_b

    def leaf_mean(self, phi: Array) -> Array:
        """Of the leaves given a head, (q, G)."""
        return self.b - jnp.einsum("img,m->ig", self.root.follow, phi - self.phi)

    def log_volume_change(self, other: "Coordinates") -> Array:
        """Of parameters by coordinates, from these to others; entries are compared one by one."""
        here, there = self.root.log_volumes, other.root.log_volumes
        return (there[0] - here[0]).sum() + (there[1] - here[1]).sum()


def whitened_slope(
    spec: Specification, around: Around, lam: Array
) -> tuple[Array, Array, ArrowRoot]:
    """``L' g`` of the whole loss's slope at the anchor, by head and leaves, and L."""
    power = spec.power(lam)
    leaf = spec.leaf_precision(lam)
    head = spec.head_precision(lam, around.prior["precision"])
    root = around.data.scaled(power).plus(head, leaf).root()
    g_phi = power * around.slope_phi + spec.head_prior_gradient(lam, around.phi, around.prior)
    g_b = power * around.slope_b + leaf @ around.b
    white_phi, white_b = root.transposed(g_phi, g_b)
    return white_phi, white_b, root
