"""Where the variance of predictors comes from: groups, and the noise of single rows."""

import math
from typing import TYPE_CHECKING

import numpy as np

from ornstein._base.types import Vector
from ornstein.results.arviz import interval_ends, mass
from ornstein.results.mixed import MixedResult

if TYPE_CHECKING:
    import pandas as pd

LOGISTIC = math.pi**2 / 3
"""The variance of the logistic distribution, behind classes."""


def variance_components(result: MixedResult, interval: float = 0.9) -> "pd.DataFrame":
    """See :meth:`ornstein.MixedResult.variance_components`."""
    import pandas as pd

    post, draws = result.posterior, result.own
    parts: dict[str, Vector] = {}
    for number, group in enumerate(draws.groups):
        if post.specification.groupings[number].fixed:
            continue
        scale = post.units.effects[number]
        squares = post.rows.design_products(number)
        if not post.specification.groupings[number].plain:
            squares = scale[:, None] * squares * scale
        cov = group.factor @ np.swapaxes(group.factor, 1, 2)
        parts[group.name] = np.einsum("dij,ij->d", cov, squares)
    noise = _noise(result)
    if noise is not None:
        parts["noise of a row"] = noise
    total = np.sum(list(parts.values()), axis=0)
    tail, (low, high) = (1 - mass(interval)) / 2, interval_ends(interval)

    def described(values: Vector, what: str) -> dict[str, float]:
        ends = np.quantile(values, [tail, 1 - tail])
        named = {what: values.mean(), f"{what} {low}": ends[0], f"{what} {high}": ends[1]}
        return {name: float(value) for name, value in named.items()}

    lines = [
        {**described(part, "variance"), **described(part / total, "share")}
        for part in parts.values()
    ]
    return pd.DataFrame(lines, index=list(parts))


def _noise(result: MixedResult) -> Vector | None:
    """The variance of a row's own noise on the predictors' scale; None where none adds to it."""
    draws, family = result.own, result.posterior.specification.family
    count = len(draws.fixed)
    if family.scaled:
        numbers = {"noise_scale": np.reshape(draws.noise_scale, (-1, 1))}
        numbers |= {name: leaf[:, None] for name, leaf in draws.auxiliary.items()}
        found = np.asarray(family.variance(np.zeros((count, 1)), numbers))[:, 0]
        return found if np.isfinite(found).all() else None
    return np.full(count, LOGISTIC) if family.latent == "logistic" else None
