"""What a formula's model keeps of its table, with the interface of ``tables.Encoding``."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ornstein._base import checks
from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.models.families import FAMILIES, Family
from ornstein.models.regressions import successes, waiting
from ornstein.results.predictive import NewRows
from ornstein.storage import codec
from ornstein.tables.arrow import arrow_table
from ornstein.tables.columns import Floats, complete_rows, is_numeric
from ornstein.tables.encoding import Target, Units, new_levels, refuse_missing
from ornstein.tables.formulas.design import Design
from ornstein.tables.formulas.effects import GroupEffects, numeric
from ornstein.tables.formulas.expressions import Expression, refuse
from ornstein.tables.formulas.parsing import ParsedFormula
from ornstein.tables.levels import ManyLevels, Unseen

_VERSION = 1  # of an encoding as JSON


@codec.register
@dataclass(frozen=True)
class FormulaEncoding:
    """How a table becomes rows of numbers by a formula.

    ``centre`` and ``scale`` standardise the columns of fixed effects; without an intercept they are
    scaled only. Fixed effects of columns of ``many`` levels are looked up.
    """

    formula: ParsedFormula
    model: str
    missing: str
    design: Design
    random: tuple[GroupEffects, ...]
    target: Target
    intercept: bool
    fixed_features: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    many: tuple[ManyLevels, ...] = ()

    @property
    def family(self) -> Family:
        """What the target is like."""
        return FAMILIES[self.model].of(len(self.target.classes or ()))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns of ``X`` but for level numbers, printable and no two alike."""
        return checks.column_names(list(self.fixed_features), len(self.fixed_features)) or ()

    @property
    def units(self) -> Units:
        """How the columns of ``X`` and the target are standardised."""
        centre, scale = np.array(self.centre, float), np.array(self.scale, float)
        return Units(centre, scale, self.target.centre, self.target.scale)

    @property
    def interactions(self) -> tuple[tuple[str, str], ...]:
        """Pairs of columns that fixed effects multiply."""
        return self.design.interactions

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns with labels, to be read as text."""
        names = [one.name for one in self.design.columns if one.levels is not None]
        names += [one.name for one in self.many]
        names += [name for one in self.random for name in one.text_columns]
        return tuple(dict.fromkeys(names))

    @property
    def column_names(self) -> tuple[str, ...]:
        """The table's columns that predictions need."""
        names = [one.name for one in self.design.columns]
        names += [one.name for one in self.many]
        names += [name for one in self.random for name in one.column_names]
        for text in self.formula.offsets:
            names += Expression(text, self.formula.text, _Anything()).used
        return tuple(dict.fromkeys(names))

    @property
    def target_names(self) -> tuple[str, ...]:
        """The table's columns of the target."""
        used = [
            name
            for text in self.formula.response
            for name in Expression(text, self.formula.text, _Anything()).used
        ]
        return tuple(dict.fromkeys(used))

    def rows(self, frame: Any, unseen: str = "error") -> NewRows:
        """Rows as predictions take them: columns, offsets and trials."""
        return self.rows_of_one_trial(frame, unseen)._replace(trials=self._trials(frame))

    def rows_of_one_trial(self, frame: Any, unseen: str = "error") -> NewRows:
        """The same without the trials of a binomial target, whose columns are then not needed."""
        table = arrow_table(frame, self.column_names)
        refuse_missing(table)
        offset, X = self.offset(table), self.matrix(table, unseen)
        return NewRows(X, None if offset is None else offset / self.target.scale)

    def encode(self, frame: Any, unseen: str = "error") -> Vector:
        """Columns of ``X``, one row for every row of a table of any library.

        ``unseen`` is what to do with new levels of columns of many: see :class:`ManyLevels`.
        """
        return self.rows(frame, unseen).x

    def new_levels(self, frame: Any) -> list[Unseen]:
        """Columns of many levels that have new ones in a table, and the rows."""
        return new_levels(self.many, frame) if self.many else []

    def encode_target(self, frame: Any) -> npt.NDArray[Any]:
        """The target of every row: as its family takes it; counts of successes for binomial."""
        table = arrow_table(frame, self.target_names)
        refuse_missing(table)
        return target_values(self.formula, table, self.target)[0]

    def complete(self, frame: Any) -> npt.NDArray[np.bool_]:
        """Which rows of a table can be encoded."""
        return complete_rows(arrow_table(frame, self.column_names))

    def to_json(self) -> str:
        """As JSON, in ASCII."""
        return codec.to_json(self, _VERSION)

    def offset(self, table: pa.Table) -> Floats | None:
        """What is added to every row's predictor; None if nothing is."""
        texts = self.formula.offsets
        if not texts:
            return None
        return np.sum([numeric(text, table, self.formula.text) for text in texts], axis=0)

    def matrix(self, table: pa.Table, unseen: str = "error") -> Floats:
        """Columns of ``X`` of an Arrow table without missing values."""
        values, names = self.design.matrix(table)
        kept = [place for place, name in enumerate(names) if name != "Intercept"]
        fixed = (values[:, kept] - np.array(self.centre)) / np.array(self.scale)
        return np.hstack([fixed, *(one.encode(table[one.name], unseen) for one in self.many)])

    def _trials(self, frame: Any) -> Floats | None:
        if self.model != "binomial":
            return None
        table = arrow_table(frame, self.target_names)
        return target_values(self.formula, table, self.target)[1]


class _Anything(list[str]):
    """Names of columns that were checked when the formula was learned."""

    def __contains__(self, name: object) -> bool:
        return True


def target_values(
    formula: ParsedFormula, table: pa.Table, target: Target
) -> tuple[npt.NDArray[Any], Floats | None]:
    """The target as a family takes it, and the trials of a binomial one, which is in counts."""
    if formula.kind in ("cbind", "p"):
        first, second = (numeric(text, table, formula.text) for text in formula.response)
        trials = first + second if formula.kind == "cbind" else second
        with _about_target(formula):
            successes(first, trials)
        return first, trials
    if formula.kind == "Surv":
        time, event = (_event(text, table, formula) for text in formula.response)
        with _about_target(formula):
            return waiting(time, event), None
    if target.classes is not None:
        return target.encode(table[target.name]), None
    values = numeric(formula.response[0], table, formula.text)
    return (values - target.centre) / target.scale, None


@contextmanager
def _about_target(formula: ParsedFormula) -> Iterator[None]:
    """Name and mark the target's columns in what is said of ``y``, trials and events."""
    try:
        yield
    except InputError as error:
        what = f"{formula.kind}({', '.join(formula.response)})"
        start = formula.text.partition("~")[0].strip()
        raise refuse(formula.text, start, f"in {what}, {error}") from error


def _event(text: str, table: pa.Table, formula: ParsedFormula) -> Floats:
    """Numbers; of a column of truth values, 1 and 0."""
    name = text.strip("`")
    if name in table.column_names:
        column = table[name]
        words = set(column.unique().to_pylist())
        if words and words <= {"True", "False"}:
            return np.array([value == "True" for value in column.to_pylist()], float)
        if not is_numeric(column):
            raise refuse(
                formula.text,
                text,
                f"{shown(name)} has labels; Surv needs a time above 0, and an event that is 1 "
                "where the wait ended and 0 where it is censored.",
            )
    return numeric(text, table, formula.text)
