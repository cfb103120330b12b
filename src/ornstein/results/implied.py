"""Errors of draws by Stein's identities (X12), and their Monte-Carlo errors."""

from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ornstein import theory
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.results.spread import (
    BATCHES,
    Correlation,
    Spread,
    average_spread,
    correlation,
    directions,
    held_out,
    held_out_spreads,
)
from ornstein.theory import ImpliedErrors

Indices: TypeAlias = list[npt.NDArray[np.intp]]


class Figures(NamedTuple):
    """Errors of parameters in some coordinates, their averages, and Monte-Carlo errors."""

    errors: ImpliedErrors
    mc: ImpliedErrors
    average: Vector
    average_mc: Vector
    lowest: tuple[float, float]
    spreads: tuple[Spread, ...]
    correlation: Correlation | None

    def noise(self) -> float:
        """The largest Monte-Carlo error; infinite where errors are not known."""
        parts = (self.errors.mean, self.errors.sd, self.mc.mean, self.mc.sd)
        if not all(np.isfinite(part).all() for part in parts):
            return np.inf
        return float(max(self.mc.mean.max(), self.mc.sd.max()))


class _Estimates(NamedTuple):
    """By all blocks of draws, then without each of them: (1 + blocks, ...)."""

    errors: ImpliedErrors
    offset: Vector
    """The square of the mean's error over all directions."""
    lowest: tuple[float, float]
    """The least curvature, and its Monte-Carlo error."""
    spreads: tuple[Spread, ...]
    correlation: Correlation | None


def figures(
    flat: Vector,
    gradients: list[Vector],
    labels: tuple[str, ...],
    blocks: Indices,
    taken: Indices,
    wide: bool,
) -> Figures:
    """Errors of all draws, and their Monte-Carlo errors by leaving out one block after another."""
    estimate = _one_by_one if wide else partial(_together, labels=labels)
    found = estimate(flat, scale(flat, labels), blocks, taken, gradients)
    mean, sd, skewness = found.errors
    average = np.column_stack([np.sqrt(np.maximum(found.offset, 0.0)), sd.mean(axis=1)])
    mean_mc, sd_mc, skewness_mc, average_mc = (
        np.std(part[1:], axis=0) * np.sqrt(BATCHES - 1) for part in (mean, sd, skewness, average)
    )
    if wide:  # among many errors by few batches, the smallest are so by chance
        mean_mc, sd_mc, skewness_mc = (
            np.sqrt((mc**2 + np.mean(mc**2)) / 2) for mc in (mean_mc, sd_mc, skewness_mc)
        )
    return Figures(
        ImpliedErrors(mean[0], sd[0], skewness[0]),
        ImpliedErrors(mean_mc, sd_mc, skewness_mc),
        average[0],
        average_mc,
        found.lowest,
        found.spreads,
        found.correlation,
    )


def _together(
    flat: Vector,
    sd: Vector,
    blocks: Indices,
    taken: Indices,
    gradients: list[Vector],
    labels: tuple[str, ...],
) -> _Estimates:
    """Errors by the inverse of the draws' covariance."""
    root = _root(flat, sd)
    z = np.linalg.solve(root, (flat - flat.mean(axis=0)).T).T
    whitened, along = [z[part] for part in taken], [part @ root for part in gradients]
    errors, precisions = [], []
    for left in range(-1, len(blocks)):
        some, slopes = (
            np.concatenate([part for i, part in enumerate(parts) if i != left])
            for parts in (whitened, along)
        )
        moments = theory.stein_moments(some, slopes, root)
        errors.append(theory.implied_errors(moments, root))
        precisions.append(0.5 * (moments.curvature + moments.curvature.T))
    spreads: tuple[Spread, ...] = ()
    pair = None
    curvatures = held_out(z, blocks, taken, along)
    if len(labels) > 1 and np.isfinite(errors[0].sd).all():
        spreads = held_out_spreads(curvatures, directions(precisions[0], root, labels))
        pair = correlation(precisions, root, labels)
    return _Estimates(
        ImpliedErrors(*(np.stack(part) for part in zip(*errors, strict=True))),
        np.zeros(len(errors)),  # every parameter's own error is known well enough
        (0.0, np.inf) if curvatures is None else (float(curvatures[0][0]), float(curvatures[1][0])),
        spreads,
        pair,
    )


def _one_by_one(
    flat: Vector,
    sd: Vector,
    blocks: Indices,
    taken: Indices,
    gradients: list[Vector],
) -> _Estimates:
    """The same of one parameter at a time, without a matrix of all."""
    z = (flat - flat.mean(axis=0)) / sd
    numbers = [part - block[0] for part, block in zip(taken, blocks, strict=True)]
    moments = theory.marginal_moments(
        [z[block] for block in blocks], numbers, [part * sd for part in gradients]
    )
    curvature = moments.curvature.min(axis=1)
    lowest = float(curvature[0]), float(np.std(curvature[1:]) * np.sqrt(BATCHES - 1))
    spread = average_spread(moments.spread.mean(axis=1))
    return _Estimates(theory.marginal_errors(moments), moments.offset, lowest, (spread,), None)


def scale(flat: Vector, labels: tuple[str, ...]) -> Vector:
    """The draws' standard deviations."""
    sd = flat.std(axis=0)
    if not sd.all():
        raise InputError(f"draws of {labels[int(np.argmin(sd))]} never move: all are the same.")
    return np.asarray(sd)


def _root(flat: Vector, sd: Vector) -> Vector:
    """The symmetric root of the draws' covariance, in their standard deviations: ``W W' = cov``."""
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(flat / sd, rowvar=False)))
    if values[0] <= 1e-12 * values[-1]:
        raise InputError(
            "draws lie in fewer dimensions than they have parameters: their covariance is singular."
        )
    return np.asarray(sd[:, None] * ((vectors * np.sqrt(values)) @ vectors.T))
