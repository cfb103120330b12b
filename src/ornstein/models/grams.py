"""Sums of ``M_n (x) u_n u_n'`` over rows, and forms ``u_n' M u_n``, of linear predictors."""

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array

_AT_ONCE = 256  # rows whose products of columns are held
_FEW_AT_ONCE = 128  # the same, where they are read once only
_WIDEST = 128  # columns of which they are
_WORTH = 4  # times as many columns as weights of a row, at most


def weighted_grams(design: Array, matrices: Array, balanced: bool = False) -> Array:
    """``sum_n M_ln (x) u_n u_n'`` for every line of matrices: (L, K F, K F).

    Of designs (n, F) and symmetric matrices (L, n, K, K); if ``balanced`` the lines of each sum to
    zero, and its diagonal need not be looked at. Where rows have many weights, as one product of
    these with the products of every two columns; else as one product for each weight.

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

    As one product with the products of every two columns where there are many matrices.

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
    """Lines in parts of a length, the last one filled up with zeros."""
    parts = -(-len(lines) // length)
    filled = jnp.pad(lines, ((0, parts * length - len(lines)), (0, 0)))
    return filled.reshape(parts, length, lines.shape[1])


def _products(design: Array) -> Array:
    """Of every two columns, (F (F + 1) / 2, n)."""
    i, j = np.triu_indices(design.shape[1])
    columns = design.T
    return columns[i] * columns[j]


def symmetric_places(size: int, above: int = 0) -> "np.ndarray[tuple[int, int], np.dtype[np.intp]]":
    """Where entries of a symmetric matrix stand in the list of those on and above its diagonal.

    Of those ``above=1`` it only, the diagonal has the place behind them.
    """
    i, j = np.triu_indices(size, above)
    places = np.full((size, size), len(i), np.intp)
    places[i, j] = places[j, i] = np.arange(len(i))
    return places
