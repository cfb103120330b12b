"""Importance weights smoothed by a Pareto distribution, for many rows at once.

Vehtari, Simpson, Gelman, Yao, Gabry (2024), "Pareto smoothed importance sampling". ArviZ has the
same one row at a time; here rows are an axis, so that a table's worth of them takes seconds.
"""

import math

import numpy as np
import scipy.special

from ornstein._base.types import Vector

_PRIOR_SIZE, _PRIOR_SHAPE = 10, 0.5  # observations that a prior stands for, and their shape
_CONSTANT = 1e-12  # range of log ratios: weights that are equal
_GRID = 30  # points, and the root of the tail's length more


def smoothed_weights(log_ratios: Vector) -> tuple[Vector, Vector]:
    """Logarithms of normalised weights, (draws, rows), and the Pareto shape k of every row.

    The largest ratios of a row are replaced by the quantiles of a generalised Pareto distribution
    that is fitted to them. Weights that do not vary have the shape -inf.

    Examples
    --------
    >>> weights, k = smoothed_weights(np.random.default_rng(0).normal(size=(1000, 3)))
    >>> np.exp(weights).sum(axis=0).round(6).tolist(), bool((k < 0.7).all())
    ([1.0, 1.0, 1.0], True)
    """
    draws, rows = log_ratios.shape
    ratios = log_ratios - log_ratios.max(axis=0)
    tail = math.floor(min(0.2 * draws, 3 * math.sqrt(draws)))
    k = np.full(rows, np.inf)
    if tail > 4:
        largest = np.argpartition(ratios, draws - tail - 1, axis=0)[draws - tail - 1 :]
        order = np.argsort(np.take_along_axis(ratios, largest, axis=0), axis=0, kind="stable")
        places = np.take_along_axis(largest, order, axis=0)
        values = np.take_along_axis(ratios, places, axis=0)
        least = np.maximum(values[0], math.log(np.finfo(float).tiny))
        cutoff = np.exp(least)
        above = cutoff * np.expm1(values[1:] - least)
        k, scale = _fitted_pareto(above.T)
        chances = (np.arange(tail) + 0.5)[:, None] / tail
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            quantiles = _pareto_quantiles(chances, k, scale)
            smooth = np.minimum(np.log(quantiles + cutoff), 0.0)
        fits = np.isfinite(k) & np.isfinite(smooth).all(axis=0)
        np.put_along_axis(ratios, places[1:], np.where(fits, smooth, values[1:]), axis=0)
        k = np.where(np.ptp(values, axis=0) < _CONSTANT, -np.inf, np.where(fits, k, np.inf))
    return ratios - scipy.special.logsumexp(ratios, axis=0), k


def _fitted_pareto(sorted_tails: Vector) -> tuple[Vector, Vector]:
    """Shape and scale for every line of sorted exceedances (Zhang and Stephens 2009).

    Shapes are drawn towards one half as by ten observations.
    """
    size = sorted_tails.shape[1]
    points = _GRID + int(math.sqrt(size))
    with np.errstate(all="ignore"):
        quartile = sorted_tails[:, int(size / 4 + 0.5) - 1]
        grid = 1 - np.sqrt(points / (np.arange(points) + 0.5))
        b = grid / (3 * quartile[:, None]) + 1 / sorted_tails[:, -1:]
        k = np.log1p(-b[:, :, None] * sorted_tails[:, None, :]).mean(axis=2)
        profile = size * (np.log(-b / k) - k - 1)
        weights = scipy.special.softmax(profile, axis=1)
        weights = np.where(weights < 10 * np.finfo(float).eps, 0.0, weights)
        mean = (b * weights).sum(axis=1) / weights.sum(axis=1)
        shape = np.log1p(-mean[:, None] * sorted_tails).mean(axis=1)
        scale = -shape / mean
    return (size * shape + _PRIOR_SIZE * _PRIOR_SHAPE) / (size + _PRIOR_SIZE), scale


def _pareto_quantiles(chances: Vector, k: Vector, scale: Vector) -> Vector:
    small = np.abs(k) < np.finfo(float).eps
    shape = np.where(small, 1.0, k)
    curved = scale * np.expm1(-shape * np.log1p(-chances)) / shape
    return np.asarray(np.where(small, -scale * np.log1p(-chances), curved))
