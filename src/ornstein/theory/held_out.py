"""How far draws are too narrow or too wide in any direction, not only along parameters."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ornstein._base.types import Vector

_LEAST_VARIANCE = 1e-9  # of half the draws, where all have unit variance


def held_out_curvature(
    draws: Sequence[Vector], taken: Sequence[npt.NDArray[Any]], gradients: Sequence[Vector]
) -> Vector:
    """X12: ``E[l'z g'm]`` along the directions in which draws are narrowest and widest.

    It is the draws' variance over the posterior's: 1 for draws of the posterior, whatever its
    shape, for any ``l`` and ``m`` with ``l'm = 1``. The two directions are the extreme ones of the
    draws' covariance S against the posterior's, which the regression B of gradients on draws is the
    inverse of. The extremes of a matrix of chance errors are far from 1; so every second block of
    draws chooses directions, in which the others are measured, and the other way round.

    Parameters
    ----------
    draws
        An even number of blocks of draws, each (T_b, D), in coordinates in which all draws have
        mean zero and unit covariance.
    taken
        The draws of each block that have gradients: their numbers in it, one or more.
    gradients
        Of ``-log p`` at these, each (n_b, D).

    Returns
    -------
    Vector
        By block, (blocks, 2): along the narrowest direction and the widest.

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(8, 500, 2))
    >>> found = held_out_curvature(z, [np.arange(500)] * 8, z * [1.0, 4.0])
    >>> found.mean(axis=0).round(0).tolist()  # along the second, draws are twice too wide
    [1.0, 4.0]
    """
    at = [part[which] for part, which in zip(draws, taken, strict=True)]
    moments = np.stack([_design(part).T @ _design(part) for part in draws])
    grams = np.stack([_design(part).T @ _design(part) for part in at])
    products = np.stack([_design(part).T @ g for part, g in zip(at, gradients, strict=True)])
    found = np.empty((len(draws), 2))
    for half in (0, 1):
        chosen, measured = slice(1 - half, None, 2), range(half, len(draws), 2)
        fitted = np.linalg.solve(grams[chosen].sum(axis=0), products[chosen].sum(axis=0))
        offset, slopes = fitted[0], fitted[1:]
        total = moments[chosen].sum(axis=0)
        mean = total[0, 1:] / total[0, 0]
        cov = total[1:, 1:] / total[0, 0] - np.outer(mean, mean)
        left, right = _extremes(cov, 0.5 * (slopes + slopes.T))
        for b in measured:
            # What is linear in the draws counts with all of them, not with those that have
            # gradients alone.
            z, some = draws[b] - mean, at[b] - mean
            linear = ((z @ left) * (z @ (slopes @ right))).mean(axis=0)
            rest = (gradients[b] - offset - at[b] @ slopes) @ right
            found[b] = linear + ((some @ left) * rest).mean(axis=0)
    return found


def _extremes(cov: Vector, precision: Vector) -> tuple[Vector, Vector]:
    """Left and right eigenvectors of ``cov precision``, each (D, 2): least and greatest."""
    root = np.linalg.cholesky(cov + _LEAST_VARIANCE * np.eye(len(cov)))
    vectors = np.linalg.eigh(root.T @ precision @ root)[1][:, [0, -1]]
    return np.linalg.solve(root.T, vectors), root @ vectors


def _design(z: Vector) -> Vector:
    return np.column_stack([np.ones(len(z)), z])
