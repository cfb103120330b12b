"""The parameters' posterior given hyperparameters, nearly: a Gaussian whose shape follows them.

With other hyperparameters than the anchor's, parameters lie elsewhere and are wider or narrower
spread: in a funnel by orders of magnitude. In the axes along which prior and rows are both
independent, their precisions and means are known for any hyperparameters (X13). Coordinates in
units of these are close to standard normal variables whatever the hyperparameters are: steps of one
length suit them all, and a hyperparameter may move while they stay.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.precision import double_precision
from ornstein._base.types import Array, PyTree
from ornstein.linalg.operators import Factor
from ornstein.models.hyper_targets import HyperTarget, as_arrays, has_diagonal_prior

_LARGEST = 2000  # parameters for which the axes are found
_LEAST = 1e-10  # precision in units of the anchor's


class Conditional(NamedTuple):
    """Coordinates w of ``z = axes (mean + scale w)``."""

    axes: Array
    mean: Array
    scale: Array

    def position(self, w: Array) -> Array:
        """Where w is in the coordinates z."""
        return self.axes @ (self.mean + self.scale * w)

    def coordinates(self, z: Array) -> Array:
        """What z is in these coordinates."""
        return (z @ self.axes - self.mean) / self.scale

    def slope(self, slope: Array) -> Array:
        """A gradient by z as one by w."""
        return self.scale * (slope @ self.axes)

    @property
    def log_volume(self) -> Array:
        """Of z by w."""
        return jnp.log(self.scale).sum()


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Shape:
    """What gives the Gaussian for any hyperparameters, in the anchor's coordinates z."""

    axes: Any
    squares: Any  # of the factor along the axes, by parameter and axis; of a row
    prior: Any  # share of the anchor's precision along every axis that is the prior's

    @classmethod
    def of(cls, target: HyperTarget, known: PyTree, factor: Factor, rows: float) -> "Shape | None":
        """In coordinates of ``theta = center + factor z``; None if it cannot be known."""
        dim = len(np.asarray(known["fixed" if "fixed" in known else "center"]))
        if (
            dim > _LARGEST
            or factor.coordinates(dim) != dim
            or not has_diagonal_prior(target, known)
        ):
            return None
        with double_precision():
            _, diagonal = target.curvature(jnp.asarray(known["eta"]), as_arrays(known))
        root = np.asarray(factor.dense(dim), float) / np.sqrt(rows)
        _, axes = np.linalg.eigh(root.T @ (np.asarray(diagonal)[:, None] * root))
        squares = (root @ axes) ** 2
        return cls(axes, squares, np.asarray(diagonal) @ squares)

    def given(self, power: Array, diagonal: Array, slope: Array) -> Conditional:
        """Where the rows' Hessian is multiplied, the prior has that diagonal, and the sum a slope.

        The slope is that at the anchor's parameters, of a row and by z.
        """
        precision = power * (1 - self.prior) + diagonal @ self.squares
        precision = jnp.maximum(precision, _LEAST)
        return Conditional(self.axes, -(slope @ self.axes) / precision, precision**-0.5)


def _arrays(known: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, float), known)
