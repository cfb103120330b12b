"""How the columns of a table become the columns of ``X``, learned once and applied again.

Numeric columns are centred and divided by their standard deviation. A categorical column of L
levels becomes L - 1 columns that say whether a row has that level rather than the first, the
reference (the model has an intercept); they are centred and keep their unit, so that the prior on
an effect does not depend on how rare its level is.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ornstein._base.checks import column_names, names_of, nearest, shown
from ornstein._base.errors import InputError
from ornstein.models.families import FAMILIES, Family
from ornstein.tables import columns
from ornstein.tables.columns import Floats, Labels, listing
from ornstein.tables.units import Units

MISSING = ("refuse", "drop", "impute")


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers: ``(value - centre) / scale``."""

    name: str
    centre: float
    scale: float

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns of ``X`` this one becomes."""
        return (self.name,)

    @property
    def centres(self) -> tuple[float, ...]:
        """What is subtracted from each of them."""
        return (self.centre,)

    @property
    def scales(self) -> tuple[float, ...]:
        """What each of them is divided by."""
        return (self.scale,)

    def encode(self, series: "pd.Series[Any]") -> Floats:
        """Columns of ``X``; a missing value is replaced by the mean."""
        values = columns.numbers(self.name, series)
        with np.errstate(over="ignore"):
            encoded = (np.where(np.isnan(values), self.centre, values) - self.centre) / self.scale
        if not np.isfinite(encoded).all():
            worst = values[~np.isfinite(encoded)][0]
            raise InputError(
                f"Column {shown(self.name)} has the value {worst:g}, too far from the "
                f"{self.centre:g} +/- {self.scale:g} that was learned."
            )
        return encoded[:, None]


@dataclass(frozen=True)
class CategoricalColumn:
    """A column of labels, compared with the first of its levels.

    ``levels`` may hold None: a level of its own for missing values. ``centres`` are the shares
    of the rows that have each level but the first.
    """

    name: str
    levels: tuple[str | None, ...]
    centres: tuple[float, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns of ``X`` this one becomes."""
        words = ("(missing)" if level is None else level for level in self.levels[1:])
        return tuple(f"{self.name}={word}" for word in words)

    @property
    def scales(self) -> tuple[float, ...]:
        """What each of them is divided by: nothing."""
        return (1.0,) * len(self.centres)

    def encode(self, series: "pd.Series[Any]") -> Floats:
        """Columns of ``X``; a missing value is its own level if it was learned, else the mean."""
        found = columns.labels(self.name, series)
        unknown = [level for level in found.levels if level not in self.levels]
        if unknown:
            raise InputError(
                f"Column {shown(self.name)} has {found.count(unknown):,} rows with levels that "
                f"were not learned: {names_of(unknown)}. Known are {names_of(self._known())}."
            )
        absent = self.levels.index(None) if None in self.levels else -1
        places = np.append([self.levels.index(level) for level in found.levels], absent)
        place = places.astype(np.intp)[found.codes]
        indicator = (place[:, None] == np.arange(1, len(self.levels))).astype(np.float64)
        return np.where(place[:, None] < 0, 0.0, indicator - np.array(self.centres))

    def _known(self) -> list[str]:
        return [level for level in self.levels if level is not None]


@dataclass(frozen=True)
class Target:
    """The column to predict: classes by number, or ``(value - centre) / scale``.

    Only a target that has a unit, that of a linear model, is centred and scaled.
    """

    name: str
    classes: tuple[str, ...] | None = None
    centre: float = 0.0
    scale: float = 1.0

    def encode(self, series: "pd.Series[Any]") -> npt.NDArray[Any]:
        """The target as ``y``: class numbers (int64) or numbers (float64)."""
        if self.classes is None:
            return (columns.numbers(self.name, series) - self.centre) / self.scale
        return self.class_numbers(columns.labels(self.name, series))

    def class_numbers(self, found: Labels) -> npt.NDArray[np.int64]:
        """Which class every row has."""
        classes = self.classes or ()
        unknown = [level for level in found.levels if level not in classes]
        if unknown:
            raise InputError(
                f"The target {shown(self.name)} has {found.count(unknown):,} rows of classes that "
                f"were not learned: {names_of(unknown)}. Known are {names_of(classes)}."
            )
        places = np.array([classes.index(level) for level in found.levels], np.int64)
        return places[found.codes]


@dataclass(frozen=True)
class Encoding:
    """How a table becomes rows of numbers: its columns, its target and the model they are for.

    Attributes
    ----------
    model
        Its name, such as ``linear``; it always has an intercept.
    missing
        What is done with missing values: ``refuse``, ``drop`` or ``impute``.
    columns
        The columns in use, in the table's order.
    target
        The column to predict.
    """

    model: str
    missing: str
    columns: tuple[NumericColumn | CategoricalColumn, ...]
    target: Target

    @property
    def family(self) -> Family:
        """What the target is like."""
        return FAMILIES[self.model].of(len(self.target.classes or ()))

    @property
    def units(self) -> Units:
        """How the columns of ``X`` and the target are standardised."""
        centres = [centre for column in self.columns for centre in column.centres]
        scales = [scale for column in self.columns for scale in column.scales]
        return Units(np.array(centres), np.array(scales), self.target.centre, self.target.scale)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns of ``X``, printable and no two alike."""
        names = [feature for column in self.columns for feature in column.features]
        return column_names(None, len(names), names) or ()

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns with labels, to be read as text."""
        return tuple(
            column.name for column in self.columns if isinstance(column, CategoricalColumn)
        )

    def encode(self, frame: pd.DataFrame) -> Floats:
        """Columns of ``X``, float64, one row for every row of a table.

        Columns that were not learned are ignored. Missing values are refused, unless the
        encoding was learned with ``missing="impute"``.
        """
        frame = self._chosen(frame)
        if self.missing != "impute":
            _refuse_missing(frame)
        return np.hstack([column.encode(frame[column.name]) for column in self.columns])

    def encode_target(self, frame: pd.DataFrame) -> npt.NDArray[Any]:
        """The target ``y`` of every row of a table, in the units the model works in."""
        frame = columns.named(frame)
        require_columns(frame, [self.target.name])
        _refuse_missing(frame[[self.target.name]])
        return self.target.encode(frame[self.target.name])

    def complete(self, frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
        """Which rows of a table can be encoded: all, or those without missing values."""
        frame = self._chosen(frame)
        if self.missing == "impute":
            return np.ones(len(frame), np.bool_)
        return np.asarray(frame.notna().to_numpy().all(axis=1))

    def to_json(self) -> str:
        """The encoding as JSON, for :meth:`from_json`."""
        from ornstein.tables.record import dump

        return dump(self)

    @classmethod
    def from_json(cls, text: str) -> "Encoding":
        """Read what :meth:`to_json` wrote; anything else is an `InputError`."""
        from ornstein.tables.record import load

        return load(text)

    def _chosen(self, frame: pd.DataFrame) -> pd.DataFrame:
        frame = columns.named(frame)
        names = [column.name for column in self.columns]
        require_columns(frame, names)
        return frame[names]


def require_columns(frame: pd.DataFrame, names: list[str]) -> None:
    """Refuse a table that lacks columns."""
    absent = [name for name in names if name not in frame.columns]
    if absent:
        raise InputError(
            f"The table has no column {names_of(absent)}. It has {names_of(frame.columns)}."
            + nearest(absent[0], frame.columns)
        )


def _refuse_missing(frame: pd.DataFrame) -> None:
    counts = missing_counts(frame)
    if counts:
        raise InputError(
            f"Missing values in {listing(counts)}. Leave those rows out, or fill them in."
        )


def missing_counts(frame: pd.DataFrame) -> dict[str, int]:
    """How many values are missing in each column that lacks some."""
    counts = frame.isna().sum()
    return {str(name): int(count) for name, count in counts.items() if count}
