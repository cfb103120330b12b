"""Sums of ``M_n (x) u_n u_n'`` over rows: curvatures and noise of linear predictors."""

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._types import Array

_AT_ONCE = 512  # rows whose products of columns are held
_WIDEST = 128  # columns of which they are
_WORTH = 4  # times as many columns as weights of a row, at most


def weighted_grams(design: Array, matrices: Array) -> Array:
    """``sum_n M_ln (x) u_n u_n'`` for every line of matrices: (L, K F, K F).

    Of designs (n, F) and symmetric matrices (L, n, K, K). Where rows have many weights, as one
    product of these with the products of every two columns; else as one product for each weight.

    Examples
    --------
    >>> weighted_grams(jnp.array([[1.0], [2.0]]), jnp.ones((1, 2, 1, 1)))[0].tolist()
    [[5.0]]
    """
    count, rows, outputs, _ = matrices.shape
    columns = design.shape[1]
    i, j = np.triu_indices(outputs)
    weights = matrices.transpose(0, 2, 3, 1)[:, i, j].reshape(-1, rows)
    if outputs > 1 and columns <= min(_WIDEST, _WORTH * len(weights)):
        sums = _by_products(design, weights)
    else:
        sums = jnp.stack([(design * w[:, None]).T @ design for w in weights])
    sums = sums.reshape(count, -1, columns, columns)
    whole = sums[:, symmetric_places(outputs)].transpose(0, 1, 3, 2, 4)
    return whole.reshape(count, outputs * columns, outputs * columns)


def _by_products(design: Array, weights: Array) -> Array:
    """``sum_n w_n u_n u_n'`` for every line of weights (P, n)."""
    rows, columns = design.shape
    parts = -(-rows // _AT_ONCE)
    spare = parts * _AT_ONCE - rows
    some_rows = jnp.pad(design, ((0, spare), (0, 0))).reshape(parts, _AT_ONCE, columns)
    some_weights = jnp.pad(weights, ((0, 0), (0, spare))).reshape(len(weights), parts, _AT_ONCE)
    i, j = np.triu_indices(columns)

    def add(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
        u, w = part[0].T, part[1]
        return total + (u[i] * u[j]) @ w.T, None

    start = jnp.zeros((len(i), len(weights)), jnp.result_type(design, weights))
    total, _ = jax.lax.scan(add, start, (some_rows, some_weights.transpose(1, 0, 2)))
    return total.T[:, symmetric_places(columns)]


def symmetric_places(size: int) -> "np.ndarray[tuple[int, int], np.dtype[np.intp]]":
    """Where entries of a symmetric matrix stand in the list of those on and above its diagonal."""
    places = np.zeros((size, size), np.intp)
    i, j = np.triu_indices(size)
    places[i, j] = places[j, i] = np.arange(len(i))
    return places
