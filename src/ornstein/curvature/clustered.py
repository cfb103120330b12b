"""The noise of gradients where rows of a cluster depend on one another."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein._base.precision import double_precision
from ornstein._base.trees import in_double
from ornstein._base.types import Array, PyTree, Vector
from ornstein.curvature.geometry import Clustered
from ornstein.curvature.row_sums import block_rows
from ornstein.data.passes import blocks
from ornstein.linalg.operators import Dense
from ornstein.models.contract import Model
from ornstein.models.posterior import Posterior


def cluster_codes(clusters: npt.ArrayLike, num_data: int) -> npt.NDArray[np.intp]:
    """Every row's cluster as a number from 0; any labels will do, one for each row."""
    given: npt.NDArray[Any] = np.asarray(clusters)
    if given.shape != (num_data,):
        raise InputError(
            f"clusters must have one label for each of the {num_data:,} rows, found shape "
            f"{given.shape}."
        )
    missing = np.array([value is None or value != value for value in given.tolist()])
    if missing.any():
        raise InputError(
            f"clusters lack {int(missing.sum()):,} labels, the first that of row "
            f"{int(np.argmax(missing))}. Give those rows a cluster of their own, or leave them out."
        )
    try:
        return np.asarray(np.unique(given, return_inverse=True)[1].reshape(-1), np.intp)
    except TypeError:
        raise InputError(
            f"clusters must be numbers throughout or texts throughout, found {shown(given[:3])}."
        ) from None


def clustered(post: Posterior, theta: Vector, codes: npt.NDArray[np.intp]) -> Clustered:
    """``1/N`` times the sum over clusters of outer products of their summed gradients.

    Sums are counted from their mean. With G clusters, N rows and D parameters it is multiplied by
    ``G / (G - 1) * (N - 1) / (N - D)``, the usual factor for few clusters.
    """
    N, D, count = post.num_data, post.dim, int(codes.max()) + 1
    if count < D + 2:
        raise InputError(
            f"clusters: {count:,} clusters are too few for {D:,} parameters, as their sums do not "
            f"span a covariance; {D + 2:,} are the least. Use finer clusters or fewer columns."
        )
    sums, start, size = np.zeros((count, D)), 0, block_rows(post)
    with double_precision():
        for rows, weights in blocks(post.data, size):
            found = np.asarray(
                _gradients(post.model, jnp.asarray(theta), in_double(rows), post.hyper)
            )
            used = int(weights.sum())
            np.add.at(sums, codes[start : start + used], found[:used])
            start += used
    centred = sums - sums.mean(axis=0)
    factor = count / (count - 1) * (N - 1) / max(1, N - D)
    return Clustered(Dense(factor / N * centred.T @ centred), count)


@partial(jax.jit, static_argnums=(0,))
def _gradients(model: Model, theta: Array, rows: PyTree, hyper: PyTree) -> Array:
    return model.gradients(theta, rows, hyper)
