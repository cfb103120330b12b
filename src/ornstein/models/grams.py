"""Sums of ``M_n (x) u_n u_n'`` over rows, and forms ``u_n' M u_n``, of linear predictors."""

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array

_AT_ONCE = 256  # rows whose products of column pairs are in memory together
_FEW_AT_ONCE = 128  # the same, where each product is used only once
_WIDEST = 128  # columns up to which these products are formed at all
_WORTH = 4  # and up to this many columns per weight of a row


def weighted_grams(design: Array, matrices: Array, balanced: bool = False) -> Array:
    """``sum_n M_ln (x) u_n u_n'`` for every line of matrices: (L, K F, K F).

    Takes designs (n, F) and symmetric matrices (L, n, K, K). If ``balanced``, the lines of each
    matrix sum to zero, and its diagonal is not read. Where rows have many weights, these are
    multiplied with the products of all pairs of columns; else there is one product per weight.

    Examples
    --------
    >>> weighted_grams(jnp.array([[1.0], [2.0]]), jnp.ones((1, 2, 1, 1)))[0].tolist()
    [[5.0]]
    """
    count, rows, outputs, _ = matrices.shape
    columns = design.shape[1]
    i, j = np.triu_indices(outputs, 1 if balanced else 0)
    weights = matrices.transpose(0, 2, 3, 1)[:, i, j].reshape(-1, rows)
    if outputs > 1 and columns <= min(_WIDEST, _WORTH * len(weights)):
        sums = _by_products(design, weights)
    else:
        sums = jnp.stack([(design * w[:, None]).T @ design for w in weights])
    sums = sums.reshape(count, -1, columns, columns)
    places = symmetric_places(outputs, 1 if balanced else 0)
    if balanced:
        member = (np.arange(outputs)[:, None] == i) | (np.arange(outputs)[:, None] == j)
        own = -jnp.einsum("kp,lpab->lkab", member.astype(sums.dtype), sums)
        sums, places = jnp.concatenate([sums, own], axis=1), places + np.diag(np.arange(outputs))
    whole = sums[:, places].transpose(0, 1, 3, 2, 4)
    return whole.reshape(count, outputs * columns, outputs * columns)


def quadratic_forms(design: Array, matrices: Array) -> Array:
    """``u_n' M_p u_n`` of designs (n, F) and matrices (P, F, F): (P, n).

    Where there are many matrices, these are multiplied with the products of all column pairs.

    Examples
    --------
    >>> quadratic_forms(jnp.array([[1.0], [2.0]]), jnp.ones((1, 1, 1))).tolist()
    [[1.0, 4.0]]
    """
    rows, columns = design.shape
    if columns > min(_WIDEST, _WORTH * len(matrices)):
        return jax.lax.map(lambda matrix: ((design @ matrix) * design).sum(axis=1), matrices)
    i, j = np.triu_indices(columns)
    twice = (matrices + matrices.transpose(0, 2, 1))[:, i, j]
    both = jnp.where((i == j)[None], 0.5 * twice, twice)
    forms = jax.lax.map(lambda some: both @ _products(some), _cut(design, _FEW_AT_ONCE))
    return forms.transpose(1, 0, 2).reshape(len(matrices), -1)[:, :rows]


def _by_products(design: Array, weights: Array) -> Array:
    """``sum_n w_n u_n u_n'`` for every line of weights (P, n)."""
    columns = design.shape[1]

    def add(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
        return total + _products(part[0]) @ part[1], None

    pairs = columns * (columns + 1) // 2
    start = jnp.zeros((pairs, len(weights)), jnp.result_type(design, weights))
    parts = _cut(design, _AT_ONCE), _cut(weights.T, _AT_ONCE)
    total, _ = jax.lax.scan(add, start, parts)
    return total.T[:, symmetric_places(columns)]


def _cut(lines: Array, length: int) -> Array:
    """Lines in parts of one length, the last one padded with zeros."""
    parts = -(-len(lines) // length)
    filled = jnp.pad(lines, ((0, parts * length - len(lines)), (0, 0)))
    return filled.reshape(parts, length, lines.shape[1])


def _products(design: Array) -> Array:
    """Products of all pairs of columns, (F (F + 1) / 2, n)."""
    i, j = np.triu_indices(design.shape[1])
    columns = design.T
    return columns[i] * columns[j]


def symmetric_places(size: int, above: int = 0) -> "np.ndarray[tuple[int, int], np.dtype[np.intp]]":
    """For each entry of a symmetric matrix, its index among those on and above the diagonal.

    With ``above=1``, those above it are listed, and the diagonal has the index after the last.
    """
    i, j = np.triu_indices(size, above)
    places = np.full((size, size), len(i), np.intp)
    places[i, j] = places[j, i] = np.arange(len(i))
    return places
