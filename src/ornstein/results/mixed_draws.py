"""Draws of a mixed model in the user's units: what predictions need, and what a folder keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ornstein._base.types import Vector
from ornstein.models.random_effects.groupings import Grouping

AnyArray = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class GroupDraws:
    """A group's effects, (draws, q, levels), and factors of their covariance, (draws, q, q).

    Of a fixed factor, whose new levels are not drawn, the factors are 0.
    """

    name: str
    levels: AnyArray
    columns: tuple[str, ...]
    effects: Vector
    factor: Vector

    def at(self, numbers: npt.NDArray[np.intp]) -> "GroupDraws":
        """The draws of these numbers."""
        own = self.effects[numbers], self.factor[numbers]
        return GroupDraws(self.name, self.levels, self.columns, *own)

    def matched(self, labels: AnyArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Known levels' numbers, and numbers of new ones; -1 for the other kind."""
        levels = self.levels
        if levels.dtype.kind in "US" and labels.dtype.kind not in "US":
            labels = labels.astype(str)
        distinct, inverse = np.unique(labels, return_inverse=True)
        place = {level: number for number, level in enumerate(levels.tolist())}
        known = np.array([place.get(level, -1) for level in distinct.tolist()], np.int64)
        fresh = np.where(known < 0, np.cumsum(known < 0) - 1, -1)
        return known[inverse], fresh[inverse]


class GroupOfRows(NamedTuple):
    """Rows to predict: which level each has, or which new one, and the columns (rows, q)."""

    draws: GroupDraws
    known: npt.NDArray[np.int64]
    fresh: npt.NDArray[np.int64]
    design: Vector


class RowEffects:
    """What effects add to rows' predictors, (draws, rows), computed for the rows asked for.

    Effects of new levels are drawn from their distribution; rows of one new level share them.
    """

    def __init__(
        self, groups: Sequence[GroupOfRows], offset: Vector | None = None, seed: int = 0
    ) -> None:
        self.groups, self.offset, self.seed = groups, offset, seed

    def __getitem__(self, place: tuple[Any, slice]) -> Vector:
        rows = place[-1]
        total: Any = 0.0 if self.offset is None else self.offset[rows][None]
        for number, group in enumerate(self.groups):
            total = total + self._added(number, group, rows)
        return np.asarray(total)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Vector:
        del copy
        return self[..., slice(None)].astype(dtype or float)

    def _added(self, number: int, group: GroupOfRows, rows: slice) -> Vector:
        draws, known, fresh = group.draws, group.known[rows], group.fresh[rows]
        design, is_new = group.design[rows], fresh >= 0
        count, width = draws.factor.shape[:2]
        found = np.zeros((count, len(known)))
        for i in range(width):
            found[:, ~is_new] += draws.effects[:, i][:, known[~is_new]] * design[~is_new, i]
        if is_new.any():
            levels, place = np.unique(fresh[is_new], return_inverse=True)
            normal = [self._normal(number, int(level), (count, width)) for level in levels]
            drawn = np.einsum("dij,gdj->dig", draws.factor, np.stack(normal))
            for i in range(width):
                found[:, is_new] += drawn[:, i][:, place] * design[is_new, i]
        return found

    def _normal(self, number: int, level: int, shape: tuple[int, int]) -> Vector:
        return np.random.default_rng([self.seed, number, level]).standard_normal(shape)


class MixedDraws(NamedTuple):
    """All that was drawn, one draw after another.

    ``fixed`` (draws, p) has the intercept last where there is one; ``auxiliary`` are a family's own
    parameters on the real line; ``noise_scale`` is (draws,), or 0.
    """

    fixed: Vector
    groups: tuple[GroupDraws, ...]
    auxiliary: Mapping[str, Vector]
    noise_scale: Vector | float


def factors_of(grouping: Grouping, hyper: Vector) -> Vector:
    """A grouping's factors by draws of its standard deviations, then correlations."""
    if grouping.fixed:
        return np.zeros((len(hyper), 1, 1))
    blocks = [cov.size for cov in grouping.covariances]
    return factors(hyper[:, : grouping.width], hyper[:, grouping.width :], blocks)


def factors(sds: Vector, cors: Vector, blocks: Sequence[int]) -> Vector:
    """Lower factors (draws, q, q) of covariances by standard deviations and correlations.

    ``blocks`` are the numbers of effects that share a covariance, in turn.
    """
    draws, width = sds.shape
    matrix = np.broadcast_to(np.eye(width), (draws, width, width)).copy()
    at = start = 0
    for size in blocks:
        for i in range(size):
            for j in range(i):
                matrix[:, start + i, start + j] = matrix[:, start + j, start + i] = cors[:, at]
                at += 1
        start += size
    # A correlation of nearly one may be so in single precision.
    rounded = matrix + 1e-7 * np.eye(width)
    return sds[:, :, None] * np.linalg.cholesky(rounded)
