"""What draws of a posterior satisfy, whatever its shape, and what follows where they do not."""

from typing import NamedTuple

import numpy as np

from ornstein._base.types import Vector

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
    fitted, *_ = np.linalg.lstsq(design, gradients, rcond=None)
    slope, curvature = fitted[0], fitted[1:]
    unit = root / np.linalg.norm(root, axis=1, keepdims=True)
    t, along = whitened @ unit.T, gradients @ unit.T
    bend = ((t**2 - 1) * along - 2 * t).mean(axis=0)
    return SteinMoments(slope, curvature, bend)


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
    if np.linalg.eigvalsh(precision)[0] <= _LEAST_CURVATURE:
        unknown = np.full(len(root), np.nan)
        return ImpliedErrors(unknown, unknown, moments.bend)
    sd = np.sqrt(np.diagonal(root @ np.linalg.solve(precision, root.T)))
    mean = root @ np.linalg.solve(precision, moments.slope) / sd
    drawn = np.sqrt(np.sum(root**2, axis=1))
    return ImpliedErrors(mean, drawn / sd - 1, moments.bend)
