"""What draws of a posterior satisfy, whatever its shape, and what follows where they do not."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ornstein._base.types import Vector

_WELL_CONDITIONED = 3  # draws for each number that is fitted
_LEAST_CURVATURE = 1e-10  # of draws of unit covariance: 1 is right


class SteinMoments(NamedTuple):
    """Means over draws z of mean zero and unit covariance, and gradients g of -log p there.

    Under the posterior ``slope`` is 0, ``curvature`` the identity and ``bend`` 0.
    """

    slope: Vector
    curvature: Vector
    bend: Vector


def stein_moments(whitened: Vector, gradients: Vector, root: Vector) -> SteinMoments:
    """X12: ``E[g]``, ``E[z g']`` and ``E[(t^2 - 1) u'g - 2 t]``, from some of the draws.

    The last is for every parameter, ``t = u'z`` being the parameter in its standard deviations.

    The gradients are regressed on z, so that what is linear in them counts with the mean and the
    covariance of all draws, 0 and 1, and not with those of the few they were taken at: for a
    Gaussian posterior nothing depends on which.

    Parameters
    ----------
    whitened
        Draws, (T, D), in coordinates in which all draws have mean zero and unit covariance.
    gradients
        Of ``-log p(z)`` at these, (T, D).
    root
        ``W`` of ``theta = mean + W z``, (D, D).

    Examples
    --------
    >>> z = np.array([[-1.0], [0.0], [2.0]])
    >>> stein_moments(z, 0.5 * z + 0.1, np.eye(1)).slope.round(6).tolist()
    [0.1]
    """
    design = np.column_stack([np.ones(len(whitened)), whitened])
    if len(design) < _WELL_CONDITIONED * design.shape[1]:
        fitted = np.linalg.lstsq(design, gradients, rcond=None)[0]
    else:  # near the identity times T, as the draws are white
        fitted = np.linalg.solve(design.T @ design, design.T @ gradients)
    slope, curvature = fitted[0], fitted[1:]
    unit = root / np.linalg.norm(root, axis=1, keepdims=True)
    t, along = whitened @ unit.T, gradients @ unit.T
    return SteinMoments(slope, curvature, _bend(t, along))


class ImpliedErrors(NamedTuple):
    """Of every parameter, draws against posterior.

    ``mean`` is the mean's error in posterior standard deviations, ``sd`` the standard deviation's
    relative error, ``skewness`` the draws' less the posterior's (to first order).
    """

    mean: Vector
    sd: Vector
    skewness: Vector


def implied_errors(moments: SteinMoments, root: Vector) -> ImpliedErrors:
    """X12: how far the draws are from the posterior, exactly so where it is Gaussian.

    With draws of unit covariance, ``E[z g']^-1`` is the posterior's covariance and ``E[z g']^-1
    E[g]`` the distance of the means. NaN where the curvature is not positive in every direction.

    Parameters
    ----------
    moments
        Of :func:`stein_moments`.
    root
        ``W`` of ``theta = mean + W z``, (D, D).

    Examples
    --------
    >>> one = np.eye(1)
    >>> moments = SteinMoments(np.array([0.4]), 4 * one, np.array([0.0]))
    >>> [part.tolist() for part in implied_errors(moments, one)[:2]]  # draws twice too wide
    [[0.2], [1.0]]
    """
    precision = 0.5 * (moments.curvature + moments.curvature.T)
    try:
        np.linalg.cholesky(precision - _LEAST_CURVATURE * np.eye(len(root)))
    except np.linalg.LinAlgError:
        unknown = np.full(len(root), np.nan)
        return ImpliedErrors(unknown, unknown, moments.bend)
    sd = np.sqrt(np.diagonal(root @ np.linalg.solve(precision, root.T)))
    mean = root @ np.linalg.solve(precision, moments.slope) / sd
    drawn = np.sqrt(np.sum(root**2, axis=1))
    return ImpliedErrors(mean, drawn / sd - 1, moments.bend)


class MarginalMoments(NamedTuple):
    """Stein's identities along every parameter's own direction, (..., D).

    With ``t`` a parameter in the draws' standard deviations and ``h`` the slope of -log p along the
    direction in which the draws move with it: ``slope`` is ``E[h]``, ``curvature`` ``E[t h]``,
    ``spread`` how much h depends on anything but t, and ``bend`` ``E[(t^2 - 1) h - 2 t]``. Under
    the posterior they are 0, 1, 0 and 0. ``offset``, of all parameters together, is ``E[g]' C E[g]
    / D``: the square of the mean's error, averaged over all directions.
    """

    slope: Vector
    curvature: Vector
    spread: Vector
    bend: Vector
    offset: Vector


def marginal_moments(
    draws: Sequence[Vector], taken: Sequence[npt.NDArray[Any]], gradients: Sequence[Vector]
) -> MarginalMoments:
    """X12 without a matrix of all parameters: ``h = g' C e_j``, C the draws' covariance.

    As ``(C e_j)_j = 1``, h is an unbiased slope of the parameter's marginal density, whatever C is;
    with the covariance of a Gaussian posterior it is a function of t alone. C is a sum over draws,
    so h is one over products of a gradient with a draw. If both were of one block, their common
    chance error would count D / T too much: every moment is a mean over pairs or triples of
    different blocks. h is regressed on t, so that it hardly matters at which draws gradients were
    taken.

    Parameters
    ----------
    draws
        Four or more blocks of draws, each (T_b, D); over all of them parameters have mean zero and
        unit variance.
    taken
        The draws of each block that have gradients: their numbers in it, two or more.
    gradients
        Of -log p at these, by the parameters in the same units, each (n_b, D).

    Returns
    -------
    MarginalMoments
        Of all blocks, then without the first block, without the second and so on: (1 + blocks, D).

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(8, 500, 1))
    >>> z = (z - z.mean()) / z.std()
    >>> found = marginal_moments(z, [np.arange(500)] * 8, 4 * z)  # twice too wide
    >>> found.curvature[0].round(1).tolist()
    [4.0]
    """
    blocks, dim = len(draws), draws[0].shape[1]
    at = [part[which] for part, which in zip(draws, taken, strict=True)]
    mean = np.stack([t.mean(axis=0) for t in at])
    variance = np.stack([t.var(axis=0, ddof=1) for t in at])
    steepest = np.stack([part.mean(axis=0) for part in gradients])
    unit, power = variance.mean(axis=0), np.stack([(part**2).mean(axis=0) for part in draws])
    pairs = np.zeros((3, blocks, blocks, dim))  # of slope, curvature, bend: by gradients, by C
    triples = np.zeros((2, blocks + 1, blocks, dim))  # of spread: by the block left out, by C
    kept = ~np.eye(blocks + 1, blocks, -1, dtype=bool)
    for b, others in enumerate(draws):
        seen = np.zeros((blocks, *others.shape))
        for a in set(range(blocks)) - {b}:
            products, t = gradients[a] @ others.T, at[a]
            h, centred = products @ others / len(others), (t - mean[a]) / (len(t) - 1)
            seen[a] = products.T @ centred / unit
            pairs[:, a, b] = h.mean(axis=0), (h * centred).sum(axis=0), _bend(t, h)
        once, twice = seen.sum(axis=0), (seen**2).sum(axis=0)
        for left in set(range(blocks + 1)) - {b + 1}:
            out, count = seen[left - 1] if left else 0.0, kept[left].sum() - 1
            triples[0, left, b] = ((once - out) * others).mean(axis=0) / count
            ordered = (once - out) ** 2 - (twice - out**2)
            triples[1, left, b] = ordered.mean(axis=0) / (count * (count - 1))
    found = []
    for left, some in enumerate(kept):
        count, own = some.sum(), power[some].mean(axis=0)  # the entry C_jj of the blocks kept
        each, others = pairs[:, some][:, :, some], steepest[some]
        slope, curvature, bend = each.sum(axis=(1, 2)) / (count * (count - 1))
        third = others.sum(axis=0) - others[:, None] - others[None]  # means of blocks in no pair
        offset = (third * each[0]).sum() / (count * (count - 1) * (count - 2) * dim)
        first, second = triples[:, left, some].mean(axis=1) / own
        curvature = curvature / variance[some].mean(axis=0) / own
        slope = slope / own - curvature * mean[some].mean(axis=0)
        found.append((slope, curvature, second - first**2, bend, offset))
    return MarginalMoments(*(np.stack(part) for part in zip(*found, strict=True)))


def _bend(t: Vector, h: Vector) -> Vector:
    return np.asarray(((t**2 - 1) * h - 2 * t).mean(axis=0))


def marginal_errors(moments: MarginalMoments) -> ImpliedErrors:
    """X12: how far the draws are from the posterior, one parameter at a time.

    Exact to first order in the errors, and to any order where the draws' covariance is a multiple
    of a Gaussian posterior's. The posterior's variance, in the draws', is ``E[1 / x]`` for an x of
    mean ``curvature`` and variance ``spread``, taken as log-normal: it is what makes draws that
    miss correlations too narrow. NaN where the curvature is not positive.

    Examples
    --------
    >>> moments = MarginalMoments(*(np.array([x]) for x in (0.4, 4.0, 0.0, 0.0, 0.16)))
    >>> [part.tolist() for part in marginal_errors(moments)[:2]]  # draws twice too wide
    [[0.2], [1.0]]
    """
    known = np.where(moments.curvature > _LEAST_CURVATURE, moments.curvature, np.nan)
    excess = np.maximum(moments.spread / known**2, -0.5)  # below zero by chance alone
    sd = np.sqrt((1 + excess) / known)
    return ImpliedErrors(moments.slope / known / sd, 1 / sd - 1, moments.bend)
