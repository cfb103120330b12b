"""How the columns of a table become the columns of ``X``, learned once and applied again.

Numeric columns are centred and divided by their standard deviation. A categorical column of L
levels becomes L - 1 columns that say whether a row has that level rather than the first, the
reference (the model has an intercept); they are centred and keep their unit, so that the prior on
an effect does not depend on how rare its level is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ornstein._base import checks
from ornstein._base.checks import a_or_an, names_of, shown
from ornstein._base.errors import InputError
from ornstein._base.problems import Problems
from ornstein._base.types import Vector
from ornstein.models.families import FAMILIES, MODELS, Family
from ornstein.results.predictive import NewRows
from ornstein.storage import codec
from ornstein.tables import columns
from ornstein.tables.arrow import arrow_table
from ornstein.tables.columns import Floats, complete_rows, listing, missing_counts
from ornstein.tables.dates import DateColumn
from ornstein.tables.levels import ManyLevels, Unseen, places_of

MISSING = ("refuse", "drop", "impute")
UNSEEN = ("error", "baseline", "average")
_VERSION = 2  # of an encoding as JSON


@codec.register
class Units(NamedTuple):
    """What is subtracted from and divides the columns and the target."""

    centre: Vector
    scale: Vector
    target_centre: float = 0.0
    target_scale: float = 1.0

    def encode(self, table: Vector) -> Vector:
        """The columns, standardised."""
        return np.asarray((table - self.centre) / self.scale)

    def encode_target(self, target: Vector) -> Vector:
        """The target, standardised."""
        return (target - self.target_centre) / self.target_scale

    def own(self, params: Mapping[str, Vector]) -> tuple[Vector, Vector]:
        """Coefficients and intercepts in the units of the columns and of the target.

        ``params`` has ``coef``, (..., columns), and if the model has one the ``intercept``.
        """
        coef = params["coef"]
        intercept = params.get("intercept", np.zeros(coef.shape[:-1]))
        per_unit: Vector = np.asarray(coef / self.scale, np.float64)
        shift = self.target_scale * (intercept - per_unit @ self.centre)
        return self.target_scale * per_unit, self.target_centre + shift


@codec.register
@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers: ``(value - centre) / scale``."""

    name: str
    centre: float
    scale: float

    def __post_init__(self) -> None:
        """Refuse what standardises nothing."""
        _check_units(self.centre, self.scale)

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

    def encode(self, column: Any, unseen: str = "error") -> Floats:
        """Columns of ``X``; a missing value is replaced by the mean."""
        del unseen
        values = columns.numbers(self.name, column)
        with np.errstate(over="ignore"):
            encoded = (np.where(np.isnan(values), self.centre, values) - self.centre) / self.scale
        if not np.isfinite(encoded).all():
            worst = values[~np.isfinite(encoded)][0]
            raise InputError(
                f"Column {shown(self.name)} has the value {worst:g}, too far from the "
                f"{self.centre:g} +/- {self.scale:g} that was learned."
            )
        return encoded[:, None]


@codec.register
@dataclass(frozen=True)
class CategoricalColumn:
    """A column of labels, compared with the first of its levels.

    ``levels`` may hold None: a level of its own for missing values. ``centres`` are the shares
    of the rows that have each level but the first.
    """

    name: str
    levels: tuple[str | None, ...]
    centres: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse levels that cannot be compared, and what are no shares of them."""
        others = len(self.levels) - 1
        if len(set(self.levels)) <= others or others < 1 or self.levels[0] is None:
            raise _wrong("levels", "two or more distinct texts", self.levels)
        if len(self.centres) != others:
            raise _wrong("centres", f"{others} numbers", self.centres)
        if not all(0 <= share <= 1 for share in self.centres):
            raise _wrong("centres", "numbers between 0 and 1", self.centres)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns of ``X`` this one becomes."""
        words = ("(missing)" if level is None else level for level in self.levels[1:])
        return tuple(f"{self.name}={word}" for word in words)

    @property
    def scales(self) -> tuple[float, ...]:
        """What each of them is divided by: nothing."""
        return (1.0,) * len(self.centres)

    def encode(self, column: Any, unseen: str = "error") -> Floats:
        """Columns of ``X``; a missing value is its own level if it was learned, else the mean.

        A level that was not learned is an ``error``, or counts as the first (``baseline``), or as
        the mean of those in the table that was learned (``average``).
        """
        place, new = places_of(self.levels, self.name, column)
        if new is not None:
            if unseen == "error":
                raise new.refused(self.levels)
            place[new.rows] = 0 if unseen == "baseline" else -1
        indicator = (place[:, None] == np.arange(1, len(self.levels))).astype(np.float64)
        return np.where(place[:, None] < 0, 0.0, indicator - np.array(self.centres))


Column: TypeAlias = NumericColumn | CategoricalColumn | DateColumn | ManyLevels


@codec.register
@dataclass(frozen=True)
class Target:
    """The column to predict: classes by number, or ``(value - centre) / scale``.

    Only a target that has a unit, that of a linear model, is centred and scaled.
    """

    name: str
    classes: tuple[str, ...] | None = None
    centre: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what standardises nothing."""
        _check_units(self.centre, self.scale)

    def encode(self, column: Any) -> npt.NDArray[Any]:
        """The target as ``y``: class numbers (int64) or numbers (float64)."""
        if self.classes is None:
            return (columns.numbers(self.name, column) - self.centre) / self.scale
        places, new = places_of(self.classes, self.name, column)
        if new is not None:
            raise InputError(
                f"The target {shown(self.name)} has {new.sentence('classes')}. Known are "
                f"{names_of(self.classes)}."
            )
        return places.astype(np.int64)


def _check_units(centre: float, scale: float) -> None:
    if not abs(centre) <= 1e308:
        raise _wrong("centre", "a finite number", centre)
    checks.positive("scale", scale)


def _wrong(name: str, expected: str, found: Any) -> InputError:
    return InputError(f"{name} must be {expected}, found {shown(found)}.")


@codec.register
@dataclass(frozen=True)
class Encoding:
    """How a table becomes rows of numbers: the columns in use, in its order, and the target.

    ``model`` is the name of the model they are for, such as ``linear``, which has an intercept;
    ``missing`` is what is done with missing values: ``refuse``, ``drop`` or ``impute``.
    """

    model: str
    missing: str
    columns: tuple[Column, ...]
    target: Target

    def __post_init__(self) -> None:
        """Refuse columns and targets that do not suit the model, or one another."""
        model, target = self.model, self.target
        kind = FAMILIES[checks.choice("model", model, MODELS)]
        most = kind.most_classes
        checks.choice("missing", self.missing, MISSING)
        names = [*(column.name for column in self.columns), target.name]
        if len(set(names)) < len(names) or not self.columns:
            raise _wrong("columns", "one column or more, of distinct names", names)
        units, classes = (target.centre, target.scale), target.classes or ()
        if not kind.scaled and units != (0.0, 1.0):
            raise _wrong("target's centre and scale", f"0 and 1 for {a_or_an(model)} model", units)
        if not most and target.classes is not None:
            raise _wrong("target's classes", f"None for {a_or_an(model)} model", classes)
        if most and (not 2 <= len(classes) <= most or len(set(classes)) < len(classes)):
            many = "two" if most == 2 else f"2 to {most}"
            raise _wrong("target's classes", f"{many} distinct texts", target.classes)

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
        """Names of the columns of ``X`` but for level numbers, printable and no two alike."""
        names = [feature for column in self.columns for feature in column.features]
        return checks.column_names(names, len(names)) or ()

    @property
    def many(self) -> tuple[ManyLevels, ...]:
        """Columns of many levels: the last columns of ``X`` are their levels' numbers."""
        return tuple(one for one in self.columns if isinstance(one, ManyLevels))

    @property
    def random(self) -> tuple[()]:
        """Groups that have random effects: none."""
        return ()

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns with labels or dates, to be read as text."""
        return tuple(one.name for one in self.columns if not isinstance(one, NumericColumn))

    @property
    def column_names(self) -> tuple[str, ...]:
        """The table's columns that predictions need."""
        return tuple(column.name for column in self.columns)

    @property
    def target_names(self) -> tuple[str, ...]:
        """The table's columns of the target."""
        return (self.target.name,)

    @property
    def intercept(self) -> bool:
        """Whether the model has one."""
        return self.family.intercept

    def rows(self, frame: Any, unseen: str = "error") -> NewRows:
        """Rows as predictions take them."""
        return NewRows(self.encode(frame, unseen))

    def encode(self, frame: Any, unseen: str = "error") -> Floats:
        """Columns of ``X``, float64, one row for every row of a table of any library.

        Columns that were not learned are ignored. Missing values are refused, unless the
        encoding was learned with ``missing="impute"``.

        Parameters
        ----------
        frame
            The table.
        unseen
            What to do with levels of labels that were not learned: ``error``, or predict such rows
            as those of the first level (``baseline``), or as the mean of the levels in the table
            that was learned (``average``). :meth:`new_levels` says which rows have them.
        """
        checks.choice("unseen", unseen, UNSEEN)
        problems = Problems()
        table = self._chosen(frame, problems)
        with problems.noted():
            if self.missing != "impute":
                refuse_missing(table)
        own = [one for one in self.columns if not isinstance(one, ManyLevels)]
        ordered = [*own, *self.many]
        widths = [len(column.features) or 1 for column in ordered]
        ends = np.cumsum(widths)
        X = np.empty((table.num_rows, int(ends[-1])))
        for column, width, end in zip(ordered, widths, ends.tolist(), strict=True):
            with problems.noted():
                if column.name in table.column_names:
                    X[:, end - width : end] = column.encode(table[column.name], unseen)
        problems.raise_all("The table")
        return X

    def new_levels(self, frame: Any) -> list[Unseen]:
        """Columns of a table that have levels which were not learned, and the rows."""
        labelled = [one for one in self.columns if isinstance(one, CategoricalColumn | ManyLevels)]
        return new_levels(labelled, frame)

    def encode_target(self, frame: Any) -> npt.NDArray[Any]:
        """The target ``y`` of every row of a table, in the units the model works in."""
        table = arrow_table(frame, [self.target.name])
        refuse_missing(table)
        return self.target.encode(table[self.target.name])

    def complete(self, frame: Any) -> npt.NDArray[np.bool_]:
        """Which rows of a table can be encoded: all, or those without missing values."""
        table = self._chosen(frame)
        if self.missing == "impute":
            return np.ones(table.num_rows, np.bool_)
        return complete_rows(table)

    def to_json(self) -> str:
        """The encoding as JSON, in ASCII, for :meth:`from_json`."""
        return codec.to_json(self, _VERSION)

    @classmethod
    def from_json(cls, text: str) -> "Encoding":
        """Read what :meth:`to_json` wrote; anything else is an `InputError`."""
        return codec.from_json(text, cls, _VERSION, "The encoding")

    def _chosen(self, frame: Any, problems: Problems | None = None) -> pa.Table:
        return arrow_table(frame, self.column_names, problems=problems)


def new_levels(labelled: Sequence[CategoricalColumn | ManyLevels], frame: Any) -> list[Unseen]:
    """Those of some columns."""
    table = arrow_table(frame, [column.name for column in labelled])
    found = [places_of(one.levels, one.name, table[one.name])[1] for one in labelled]
    return [new for new in found if new is not None]


def refuse_missing(table: pa.Table) -> None:
    """Raise if values are missing."""
    counts = missing_counts(table)
    if counts:
        raise InputError(
            f"Missing values in {listing(counts)}. Leave those rows out, or fill them in."
        )
