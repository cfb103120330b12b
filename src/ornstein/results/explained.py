"""The share of a target's variance that a model explains."""

import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.models.families import Family
from ornstein.models.families.family import Numbers
from ornstein.results.predictive import AnyNewRows, Coefficients, blocks


def bayesian_r2(draws: Coefficients, X: AnyNewRows) -> Vector:
    """R-squared of every draw (Gelman, Goodrich, Gabry, Vehtari 2019).

    The variance of the rows' expected targets, divided by the sum of that and of the mean variance
    that the model itself gives a target: of a linear model its noise, of a logistic one
    ``p (1 - p)``. It lies between 0 and 1 and needs no targets.

    Examples
    --------
    >>> draws = Coefficients.gather("linear", np.ones((10, 1)), noise_scale=1.0)
    >>> bayesian_r2(draws, np.array([[-1.0], [1.0]])).round(3)[:2].tolist()
    [0.5, 0.5]
    """
    family, rows = draws.family, 0
    total, squares, noise = (np.zeros(len(draws.coef)) for _ in range(3))
    for _, eta, numbers in blocks(draws, X):
        mean, variance = _moments(family, eta, numbers)
        rows += mean.shape[1]
        total += mean.sum(axis=1)
        squares += (mean**2).sum(axis=1)
        noise += variance.sum(axis=1)
    if rows < 2:
        raise InputError(f"R-squared needs two rows or more, found {rows}.")
    explained = np.maximum(squares / rows - (total / rows) ** 2, 0.0)
    return np.asarray(explained / (explained + noise / rows))


def _moments(family: Family, eta: Vector, numbers: Numbers) -> tuple[Vector, Vector]:
    """Mean and variance of every row's target, by draw."""
    if not family.most_classes:
        return family.expectation(eta, numbers), family.variance(eta, numbers)
    chances = family.probabilities(eta, numbers)
    if chances.shape[1] != 2:
        raise InputError(
            f"R-squared is for numbers and for two classes; this {family.name} model has "
            f"{chances.shape[1]}. Compare models by their leave-one-out scores instead."
        )
    one = chances[:, 1]
    return one, one * (1 - one)
