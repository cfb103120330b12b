"""What is left of gradients and losses beyond their expansion at an anchor (X9, X10)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array, Vector
from ornstein.linalg.operators import Dense, Diagonal, Factor

_ROUNDING = 1e-9  # relative to the largest entry


def remainder(slope: Callable[[Array], Array], anchor: Array, theta: Array, order: int) -> Array:
    """A gradient, less its expansion at an anchor: of no terms, of one (X9) or of two (X10)."""
    if order == 0:
        return slope(theta)
    if order == 1:
        return slope(theta) - slope(anchor)
    there, along = jax.jvp(slope, (anchor,), (theta - anchor,))
    return slope(theta) - there - along


def remaining_loss(loss: Callable[[Array], Array], like: Array, order: int) -> Array:
    """The same for a loss along a line, from the anchor at 0 to 1."""
    zero, one = jnp.zeros((), like.dtype), jnp.ones((), like.dtype)
    if order == 0:
        return loss(one) - loss(zero)

    def tangent(t: Array) -> tuple[Array, Array]:
        return jax.jvp(loss, (t,), (one,))

    if order == 1:
        there, slope = tangent(zero)
        return loss(one) - there - slope
    (there, slope), (_, bend) = jax.jvp(tangent, (zero,), (one,))
    return loss(one) - there - slope - 0.5 * bend


def diagonalised(factor: Factor, precision: Vector) -> tuple[Factor, Vector]:
    """``W`` rotated so that ``W' P W`` is diagonal, and that diagonal; P is (D,) or (D, D)."""
    dim = len(precision)
    if isinstance(factor, Diagonal) and precision.ndim == 1:
        return factor, np.broadcast_to(factor.array, (dim,)) ** 2 * precision
    matrix = np.asarray(factor.dense(dim))
    bent = matrix.T @ (precision @ matrix if precision.ndim == 2 else precision[:, None] * matrix)
    if is_diagonal(bent):  # a rotation of equal entries would be any, decided by rounding
        return factor, np.diagonal(bent).copy()
    own, rotation = np.linalg.eigh(bent)
    return Dense(matrix @ rotation), own


def is_diagonal(matrix: Vector) -> bool:
    """Whether a matrix is diagonal but for rounding."""
    own = np.abs(np.diagonal(matrix))
    return bool(np.abs(matrix - np.diag(np.diagonal(matrix))).max() <= _ROUNDING * own.max())
