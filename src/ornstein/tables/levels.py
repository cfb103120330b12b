"""Levels of a column of labels: which every row has, and columns that have many.

A column of many levels becomes one column of their numbers, not an indicator of every level: its
coefficients are looked up (:class:`ornstein.models.FixedEffects`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ornstein._base.checks import few, names_of, shown
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.models.random_effects.contrasts import (
    CONTRAST,
    contrasts,
    spreads,
    with_baseline,
)
from ornstein.models.random_effects.covariances import GivenScale
from ornstein.models.random_effects.groupings import Grouping
from ornstein.models.random_effects.posterior import GroupRows
from ornstein.storage import codec
from ornstein.tables import columns
from ornstein.tables.columns import Floats
from ornstein.tables.suspects import MAX_LEVELS

MANY = MAX_LEVELS
"""Levels above which a fixed factor's coefficients are looked up.

A logistic regression by a formula takes 5 s of processor time either way for 40 levels; for 120,
6 s looked up and 29 s one-hot, whose dense matrices are those of all columns.
"""


class Unseen(NamedTuple):
    """Levels of a column that were not learned, and the rows that have them, from 0."""

    column: str
    levels: tuple[str, ...]
    rows: npt.NDArray[np.intp]

    def sentence(self, what: str) -> str:
        """How many rows have which levels, and where."""
        where = few([str(row + 1) for row in self.rows.tolist()])
        rows = "row" if len(self.rows) == 1 else "rows"
        return (
            f"{what} that were not learned in {len(self.rows):,} {rows} ({where}, the first being "
            f"1): {names_of(self.levels)}"
        )

    def refused(self, known: Iterable[str | None]) -> InputError:
        """What to say where they are an error."""
        return InputError(
            f"Column {shown(self.column)} has {self.sentence('levels')}. Known are "
            f"{names_of(level for level in known if level is not None)}. Correct them, or predict "
            "those rows nevertheless: unseen='average' takes the mean of the known levels, "
            "'baseline' the first."
        )


def places_of(
    levels: tuple[str | None, ...], name: str, column: Any
) -> tuple[npt.NDArray[np.intp], Unseen | None]:
    """Which of the levels every row has: that of None, or -1, where its value is missing.

    Also what is not among the levels, if anything.
    """
    found = columns.labels(name, column)
    position = {level: i for i, level in enumerate(levels)}
    absent = position.get(None, -1)
    places = np.array([*(position.get(level, -2) for level in found.levels), absent], np.intp)
    of_rows = places[found.codes]
    rows = np.flatnonzero(of_rows == -2)
    if not rows.size:
        return of_rows, None
    unknown = tuple(level for level in found.levels if level not in position)
    return of_rows, Unseen(name, unknown, rows)


@codec.register
@dataclass(frozen=True)
class ManyLevels:
    """A column of many levels, whose coefficients are differences from the first.

    ``before`` and ``after`` stand around a level's name in its coefficient's, ``shares`` are those
    of the rows. Where indicators are ``scaled``, coefficients have a prior per standard deviation
    of theirs, as other columns of a formula. ``levels`` may hold None: a level for missing values.
    """

    name: str
    before: str
    after: str
    levels: tuple[str | None, ...]
    shares: tuple[float, ...]
    scaled: bool

    def __post_init__(self) -> None:
        """Refuse levels that cannot be compared, and what are no shares of them."""
        if len(set(self.levels)) < len(self.levels) or len(self.shares) != len(self.levels):
            raise InputError(
                f"levels must be distinct texts, one for each of {len(self.shares)} shares; found "
                f"{shown(self.levels)}."
            )
        if not all(0 < share < 1 for share in self.shares):
            raise InputError(f"shares must lie between 0 and 1, found {shown(self.shares)}.")

    features = ()
    centres = ()

    @property
    def group(self) -> str:
        """The name of its effects in the model."""
        return f"fixed({self.name})"

    @property
    def grouping(self) -> Grouping:
        """As the model knows it, whatever its prior."""
        return Grouping(self.group, len(self.levels), (CONTRAST,), (GivenScale(1.0),), self.named)

    @property
    def named(self) -> tuple[str, str]:
        """What stands around a level's name in its coefficient's."""
        return self.before, self.after

    @property
    def words(self) -> npt.NDArray[np.str_]:
        """The levels as they are shown."""
        return np.array(["(missing)" if level is None else level for level in self.levels])

    @property
    def scales(self) -> tuple[float, ...]:
        """None that columns of ``X`` are divided by."""
        return ()

    @property
    def divided_by(self) -> Vector:
        """What indicators are divided by, (levels,): infinity for the first."""
        shares = np.array(self.shares)
        return with_baseline(spreads(shares) if self.scaled else np.ones(len(shares)))

    def encode(self, column: Any, unseen: str = "error") -> Floats:
        """The number of every row's level, (rows, 1).

        A level that was not learned is an ``error``, or counts as the first (``baseline``), or as
        their mean, whose number is that behind the last (``average``).
        """
        place, new = places_of(self.levels, self.name, column)
        if new is not None:
            if unseen == "error":
                raise new.refused(self.levels)
            place[new.rows] = 0 if unseen == "baseline" else len(self.levels)
        place[place < 0] = len(self.levels)
        return place.astype(float)[:, None]

    def rows(self, numbers: Vector, sd: float) -> GroupRows:
        """The levels of rows to fit, those that they have; ``sd`` is their prior's."""
        present, level_of = np.unique(numbers.astype(np.intp), return_inverse=True)
        scales = self.divided_by[present]
        index = level_of.astype(np.int32)
        return contrasts(self.group, self.words[present], index, scales, sd, self.named)


def learn_many(
    name: str, found: columns.Labels, before: str, after: str, scaled: bool
) -> ManyLevels:
    """From the labels of the rows."""
    some_missing = bool((found.codes < 0).any())
    levels = (*found.levels, None) if some_missing else found.levels
    places = np.where(found.codes < 0, len(found.levels), found.codes)
    shares = np.bincount(places, minlength=len(levels)) / len(places)
    return ManyLevels(name, before, after, levels, tuple(shares.tolist()), scaled)
