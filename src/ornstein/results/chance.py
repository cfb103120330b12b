"""Statistics beyond chance: an observed set against simulated ones, many entries at a time."""

import numpy as np
import numpy.typing as npt

from ornstein._base.types import Vector


def exceeds(seen: Vector, chance: Vector, level: float) -> npt.NDArray[np.bool_]:
    """Which entries of ``seen`` (entries,) chance does not explain, at one level for all of them.

    ``chance`` (simulations, entries) has the same statistics of simulated data. The largest excess
    of a simulation has a Gumbel distribution nearly, whose far quantile follows more steadily from
    mean and spread than from an extreme; both must be exceeded.
    """
    if not seen.size:
        return np.zeros(0, bool)
    own, usual = _excesses(seen, chance)
    worst = usual.max(axis=1)
    standard = -np.log(-np.log1p(-level)) - np.euler_gamma
    quantile = worst.mean() + worst.std() * np.sqrt(6) / np.pi * standard
    return np.asarray(own > max(quantile, worst.max()))


def _excesses(seen: Vector, chance: Vector) -> tuple[Vector, Vector]:
    """Distances from the median in root mean squares of the others' on the same side.

    Sides differ where levels of few rows make a statistic skewed. A simulation that counted towards
    its own scale would seem less extreme than new data do.
    """
    centre = np.median(chance, axis=0)
    new, away = seen - centre, chance - centre
    above, below = (np.sum(np.maximum(side, 0.0) ** 2, axis=0) for side in (away, -away))
    half = len(chance) / 2

    def excess(difference: Vector, others: Vector, count: float) -> Vector:
        return np.asarray(np.abs(difference) / np.sqrt(np.maximum(others / count, 1e-18)))

    return (
        excess(new, np.where(new > 0, above, below), half),
        excess(away, np.where(away > 0, above, below) - away**2, half - 1),
    )
