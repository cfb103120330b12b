"""Sums over the rows of a mixed model: loss, gradient, and the Hessian as an arrow (X14).

In double precision. Rows are sorted by the leaves' group, so that sums over a group's rows are sums
over a segment. A Gaussian family's losses are those of unit noise, which its hyperparameter
multiplies.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from ornstein._base.precision import double_precision
from ornstein._base.types import Array, Vector
from ornstein.linalg.arrow import Arrow
from ornstein.models.random_effects.groupings import Grouping
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.specification import Specification

UNIT = {"noise_scale": np.ones(())}
"""What a Gaussian family takes for its losses to be those of unit noise."""


class RowsAt(NamedTuple):
    """Rows at some parameters: predictors, and derivatives of the losses by them, weighted."""

    predictor: Vector
    loss: float
    residual: Vector
    curvature: Vector


def predictor(post: MixedPosterior, phi: Vector, b: Vector) -> Vector:
    """Of every row."""
    spec, rows = post.specification, post.rows
    found = rows.x @ phi[: spec.fixed]
    found += 0.0 if rows.offset is None else rows.offset
    effects = [b, *(phi[place].reshape(g.width, -1) for g, place in _others(post))]
    for own, index, design in zip(effects, rows.index, rows.design, strict=True):
        if design is None:
            found += own[0][index]
        else:
            for column, values in zip(design.T, own, strict=True):
                found += column * values[index]
    return found


def rows_at(post: MixedPosterior, phi: Vector, b: Vector, lam: Vector) -> RowsAt:
    """At a head (m,) and leaves (q, G); of hyperparameters the family's own matter.

    The curvature of losses that are not convex, as Student's t has, is 0 at least.
    """
    eta = predictor(post, phi, b)
    with double_precision():
        parts = _derivatives(post.specification, eta, post.rows.y, jnp.asarray(lam))
        loss, residual, curvature = (np.asarray(part) for part in parts)
    weight = post.rows.weight
    if weight is not None:
        loss, residual, curvature = weight * loss, weight * residual, weight * curvature
    return RowsAt(eta, float(loss.sum()), residual, curvature)


@partial(jax.jit, static_argnums=(0,))
def _derivatives(
    spec: Specification, eta: Array, y: Array, lam: Array
) -> tuple[Array, Array, Array]:
    family, numbers = spec.family, spec.numbers(lam)
    curvature = jnp.maximum(family.curvature(eta, y, numbers), 0.0)
    return family.loss(eta, y, numbers), family.residual(eta, y, numbers), curvature


def gradient(post: MixedPosterior, residual: Vector) -> tuple[Vector, Vector]:
    """Sum of the rows' gradients by head and leaves."""
    rows = post.rows
    pieces: list[Any] = [rows.x.T @ residual]
    for number, (grouping, _) in enumerate(_others(post), start=1):
        for column in _columns(post, number):
            values = residual * column if column is not None else residual
            pieces.append(np.bincount(rows.index[number], values, grouping.levels))
    leaves = [_by_leaf(post, residual, column) for column in _columns(post, 0)]
    return np.concatenate(pieces), np.stack(leaves)


def hessian(post: MixedPosterior, curvature: Vector) -> Arrow:
    """Sum of the rows' Hessians."""
    spec, rows = post.specification, post.rows
    m, p, q, G = spec.head, spec.fixed, spec.leaf.width, spec.leaf.levels
    head, cross, blocks = np.zeros((m, m)), np.zeros((m, q, G)), np.zeros((q, q, G))
    leaf = _columns(post, 0)
    for k in range(p):
        weighted = curvature * rows.x[:, k]
        head[k, :p] = weighted @ rows.x
        for i, column in enumerate(leaf):
            cross[k, i] = _by_leaf(post, weighted, column)
    for i, column in enumerate(leaf):
        for j in range(i + 1):
            blocks[i, j] = blocks[j, i] = _by_leaf(post, _times(curvature, leaf[j]), column)
    for number, (grouping, place) in enumerate(_others(post), start=1):
        for a, column in enumerate(_columns(post, number)):
            at = slice(place.start + a * grouping.levels, place.start + (a + 1) * grouping.levels)
            own = _times(curvature, column)
            for k in range(p):
                line = np.bincount(rows.index[number], own * rows.x[:, k], grouping.levels)
                head[k, at] = head[at, k] = line
            for i, other in enumerate(leaf):
                cross[at, i] = _table(
                    _times(own, other), rows.index[number], rows.index[0], grouping.levels, G
                )
            for second, (against, there) in enumerate(_others(post), start=1):
                for c, other in enumerate(_columns(post, second)):
                    start = there.start + c * against.levels
                    head[at, start : start + against.levels] = _table(
                        _times(own, other),
                        rows.index[number],
                        rows.index[second],
                        grouping.levels,
                        against.levels,
                    )
    return Arrow(head, cross, blocks)


def _others(post: MixedPosterior) -> list[tuple[Grouping, slice]]:
    spec = post.specification
    return list(zip(spec.others, spec.places(), strict=True))


def _columns(post: MixedPosterior, number: int) -> list[Vector | None]:
    design = post.rows.design[number]
    return [None] if design is None else list(design.T)


def _times(values: Vector, column: Vector | None) -> Vector:
    return values if column is None else values * column


def _by_leaf(post: MixedPosterior, values: Vector, column: Vector | None) -> Vector:
    return np.add.reduceat(_times(values, column), post.rows.starts)


def _table(values: Vector, first: Any, second: Any, rows: int, columns: int) -> Vector:
    """Sums by two indices."""
    found = scipy.sparse.coo_matrix((values, (first, second)), shape=(rows, columns))
    return np.asarray(found.toarray())
