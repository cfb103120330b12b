"""Sums over the rows of a mixed model: loss, gradient, and the Hessian as an arrow (X14).

In double precision, block by block: rows in memory are one block, sorted by the leaves' group, so
that sums over a group's rows are sums over a segment. A Gaussian family's losses are those of unit
noise, which its hyperparameter multiplies.
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
from ornstein.models.random_effects.rows import MixedRows
from ornstein.models.random_effects.specification import Specification

UNIT = {"noise_scale": np.ones(())}
"""What a Gaussian family takes for its losses to be those of unit noise."""


class RowSums(NamedTuple):
    """The rows' losses at some parameters, and their derivatives by head, leaves and both.

    The Hessian is None where it was not asked for.
    """

    loss: float
    slope_phi: Vector
    slope_b: Vector
    data: Arrow | None


def sums(post: MixedPosterior, phi: Vector, b: Vector, lam: Vector, second: bool = True) -> RowSums:
    """At a head (m,) and leaves (q, G), in one pass; of hyperparameters the family's own matter.

    The curvature of losses that are not convex, as Student's t has, is 0 at least.
    """
    spec = post.specification
    m, q, G = spec.head, spec.leaf.width, spec.leaf.levels
    loss, slope_phi, slope_b = 0.0, np.zeros(m), np.zeros((q, G))
    data = Arrow(np.zeros((m, m)), np.zeros((m, q, G)), np.zeros((q, q, G))) if second else None
    for rows in post.rows.blocks():
        at = rows_at(spec, rows, phi, b, lam)
        loss += float(at.loss.sum())
        add_gradient(spec, rows, at.residual, slope_phi, slope_b)
        if data is not None:
            _add_hessian(spec, rows, at.curvature, data)
    return RowSums(loss, slope_phi, slope_b, data)


class RowsAt(NamedTuple):
    """Rows at some parameters: predictors, losses and their derivatives by these, weighted."""

    predictor: Vector
    loss: Vector
    residual: Vector
    curvature: Vector


def rows_at(spec: Specification, rows: MixedRows, phi: Vector, b: Vector, lam: Vector) -> RowsAt:
    """Of a block, for :func:`sums`."""
    eta = predictor(spec, rows, phi, b)
    with double_precision():
        parts = _derivatives(spec, eta, rows.y, jnp.asarray(lam))
        loss, residual, curvature = (np.asarray(part) for part in parts)
    if rows.weight is not None:
        loss, residual, curvature = (
            rows.weight * loss,
            rows.weight * residual,
            rows.weight * curvature,
        )
    return RowsAt(eta, loss, residual, curvature)


def slopes(post: MixedPosterior, phis: Vector, bs: Vector, lams: Vector) -> tuple[Vector, Vector]:
    """Gradients of the rows' losses at several parameters, (T, m) and (T, q, G), in one pass."""
    spec = post.specification
    by_phi, by_b = np.zeros(phis.shape), np.zeros(bs.shape)
    for rows in post.rows.blocks():
        for number, (phi, b, lam) in enumerate(zip(phis, bs, lams, strict=True)):
            eta = predictor(spec, rows, phi, b)
            with double_precision():
                residual = np.asarray(_residual(spec, eta, rows.y, jnp.asarray(lam)))
            if rows.weight is not None:
                residual = rows.weight * residual
            add_gradient(spec, rows, residual, by_phi[number], by_b[number])
    return by_phi, by_b


def predictor(spec: Specification, rows: MixedRows, phi: Vector, b: Vector) -> Vector:
    """Of every row of a block."""
    found = change(spec, rows, phi, b)
    if rows.offset is not None:
        found += rows.offset
    return found


def change(spec: Specification, rows: MixedRows, phi: Vector, b: Vector) -> Vector:
    """By how much predictors differ from the offset."""
    found: Vector = rows.x @ phi[: spec.fixed]
    effects = [b, *(phi[place].reshape(g.width, -1) for g, place in _others(spec))]
    for own, index, design in zip(effects, rows.index, rows.design, strict=True):
        if design is None:
            found += own[0][index]
        else:
            for column, values in zip(design.T, own, strict=True):
                found += column * values[index]
    return found


@partial(jax.jit, static_argnums=(0,))
def _derivatives(
    spec: Specification, eta: Array, y: Array, lam: Array
) -> tuple[Array, Array, Array]:
    family, numbers = spec.family, spec.numbers(lam)
    curvature = jnp.maximum(family.curvature(eta, y, numbers), 0.0)
    return family.loss(eta, y, numbers), family.residual(eta, y, numbers), curvature


@partial(jax.jit, static_argnums=(0,))
def _residual(spec: Specification, eta: Array, y: Array, lam: Array) -> Array:
    return spec.family.residual(eta, y, spec.numbers(lam))


def add_gradient(
    spec: Specification, rows: MixedRows, residual: Vector, slope_phi: Vector, slope_b: Vector
) -> None:
    """Add a block's residuals against the columns of head and leaves."""
    pieces: list[Any] = [rows.x.T @ residual]
    for number, (grouping, _) in enumerate(_others(spec), start=1):
        for column in _columns(rows, number):
            values = residual * column if column is not None else residual
            pieces.append(np.bincount(rows.index[number], values, grouping.levels))
    slope_phi += np.concatenate(pieces)
    for i, column in enumerate(_columns(rows, 0)):
        slope_b[i] += rows.by_leaf(_times(residual, column), spec.leaf.levels)


def _add_hessian(spec: Specification, rows: MixedRows, curvature: Vector, data: Arrow) -> None:
    p, G = spec.fixed, spec.leaf.levels
    head, cross, blocks = data.head, data.cross, data.blocks
    leaf = _columns(rows, 0)
    for k in range(p):
        weighted = curvature * rows.x[:, k]
        head[k, :p] += weighted @ rows.x
        for i, column in enumerate(leaf):
            cross[k, i] += rows.by_leaf(_times(weighted, column), G)
    for i, column in enumerate(leaf):
        for j in range(i + 1):
            blocks[i, j] += rows.by_leaf(_times(_times(curvature, leaf[j]), column), G)
        blocks[:i, i] = blocks[i, :i]
    for number, (grouping, place) in enumerate(_others(spec), start=1):
        for a, column in enumerate(_columns(rows, number)):
            at = slice(place.start + a * grouping.levels, place.start + (a + 1) * grouping.levels)
            own = _times(curvature, column)
            for k in range(p):
                head[k, at] += np.bincount(rows.index[number], own * rows.x[:, k], grouping.levels)
                head[at, k] = head[k, at]
            for i, other in enumerate(leaf):
                cross[at, i] += _table(
                    _times(own, other), rows.index[number], rows.index[0], grouping.levels, G
                )
            for second, (against, there) in enumerate(_others(spec), start=1):
                for c, other in enumerate(_columns(rows, second)):
                    start = there.start + c * against.levels
                    head[at, start : start + against.levels] += _table(
                        _times(own, other),
                        rows.index[number],
                        rows.index[second],
                        grouping.levels,
                        against.levels,
                    )


def _others(spec: Specification) -> list[tuple[Grouping, slice]]:
    return list(zip(spec.others, spec.places(), strict=True))


def _columns(rows: MixedRows, number: int) -> list[Vector | None]:
    design = rows.design[number]
    return [None] if design is None else list(design.T)


def _times(values: Vector, column: Vector | None) -> Vector:
    return values if column is None else values * column


def _table(values: Vector, first: Any, second: Any, rows: int, columns: int) -> Vector:
    """Sums by two indices."""
    found = scipy.sparse.coo_matrix((values, (first, second)), shape=(rows, columns))
    return np.asarray(found.toarray())
