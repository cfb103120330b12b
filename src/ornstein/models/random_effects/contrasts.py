"""Fixed factors of many levels: a coefficient for every level but one, without one-hot columns.

The coefficients are effects of a grouping whose standard deviation is given, not drawn. The column
of a level that one-hot coding would make is a single number by level here: what the indicator is
divided by, and infinity for the baseline, whose coefficient is 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ornstein._base.types import Vector
from ornstein.data.on_disk import AnyRows, RowsOnDisk, ahead
from ornstein.models.random_effects.posterior import GroupRows

CONTRAST = "contrast"
_ROWS = 2**20  # whose levels are counted at once, where they are on disk


@dataclass(frozen=True, eq=False)
class FixedEffects:
    """Fixed effects of a factor's levels, for ``ornstein.models.mixed``: any number of them.

    Coefficients are differences from the first level, as of one-hot columns, with the prior that
    such columns have; without an intercept the first of such factors has one for every level.

    Attributes
    ----------
    labels
        The level of every row: numbers or text, or numbers on disk.

    Examples
    --------
    >>> import ornstein as orn
    >>> carrier = FixedEffects(["a", "b", "c", "a", "b", "c"])
    >>> post = orn.models.mixed(None, [1.0, 2, 4, 5, 1, 3], {"carrier": carrier})
    >>> orn.sample(post, draws=50).summary().index.tolist()
    ['intercept', 'sigma', 'carrier[T.b]', 'carrier[T.c]']
    """

    labels: Any


def contrasts(
    name: str,
    levels: npt.NDArray[Any],
    level_of: AnyRows,
    scales: Vector,
    sd: float,
    named: tuple[str, str],
) -> GroupRows:
    """A fixed factor of rows; ``sd`` is that of its coefficients' prior in units of ``scales``."""
    design = None
    if not isinstance(level_of, RowsOnDisk):
        design = (1 / scales)[level_of][:, None]
    return GroupRows(
        name,
        levels,
        level_of,
        (CONTRAST,),
        design,
        (1,),
        (),
        scales=scales[None],
        given=sd,
        named=named,
    )


def spreads(shares: Vector) -> Vector:
    """Standard deviations of the indicators of levels that so large a share of the rows has."""
    return np.asarray(np.sqrt(shares * (1 - shares)))


def with_baseline(scales: Vector) -> Vector:
    """The same with the first level held at 0."""
    return np.concatenate([[np.inf], scales[1:]])


def shares_of(level_of: AnyRows, levels: int) -> Vector:
    """Of the rows, by level; one pass where they are on disk."""
    rows = len(level_of)
    starts = range(0, rows, _ROWS if isinstance(level_of, RowsOnDisk) else max(rows, 1))
    counts = np.zeros(levels)
    step = starts.step
    for block in ahead(level_of[start : start + step] for start in starts):
        counts += np.bincount(block, minlength=levels)
    return counts / rows


def around_baseline(shares: Vector, scales: Vector, sd: float) -> float:
    """Of a prior's variance of the mean over rows of the coefficients."""
    return float(((shares * sd / scales) ** 2).sum())
