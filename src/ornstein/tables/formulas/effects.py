"""Random effects of a table: every row's level, and the columns whose coefficients vary."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ornstein._base.checks import shown
from ornstein.models.hyper_priors import HalfStudentT
from ornstein.models.random_effects.builder import WIDE
from ornstein.models.random_effects.covariances import Covariance
from ornstein.models.random_effects.groupings import INTERCEPT, Grouping
from ornstein.storage import codec
from ornstein.tables import columns
from ornstein.tables.formulas.design import Design, plan_design
from ornstein.tables.formulas.expressions import Expression, Floats, refuse
from ornstein.tables.formulas.parsing import RandomTerm

Codes = npt.NDArray[np.int64]


@codec.register
@dataclass(frozen=True)
class Bar:
    """What stands before a bar, as columns, and what each of these is divided by.

    An intercept, named ``1``, is divided by 1; other columns by their standard deviation.
    """

    design: Design
    columns: tuple[str, ...]
    scales: tuple[float, ...]
    correlated: bool

    def values(self, table: pa.Table) -> Floats:
        """The columns of every row, (rows, q)."""
        return self.design.matrix(table)[0]

    @property
    def blocks(self) -> tuple[int, ...]:
        """How many effects share a covariance, in turn."""
        count = len(self.columns)
        return (count,) if self.correlated else (1,) * count


@codec.register
@dataclass(frozen=True)
class GroupEffects:
    """All bars of a group, and its levels."""

    groups: tuple[str, ...]
    levels: tuple[str, ...]
    bars: tuple[Bar, ...]

    @property
    def name(self) -> str:
        """Such as ``g``, or ``g:h`` where levels are combinations."""
        return ":".join(self.groups)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the effects of a level."""
        return tuple(name for bar in self.bars for name in bar.columns)

    @property
    def scales(self) -> Floats:
        """What every column is divided by."""
        return np.array([scale for bar in self.bars for scale in bar.scales])

    @property
    def grouping(self) -> Grouping:
        """As the model knows it, in standardised units."""
        blocks = [size for bar in self.bars for size in bar.blocks]
        prior = HalfStudentT(3.0, WIDE)
        covariances = tuple(Covariance((prior,) * size) for size in blocks)
        return Grouping(self.name, len(self.levels), self.columns, covariances)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The table's columns that they need."""
        own = [one.name for bar in self.bars for one in bar.design.columns]
        return (*self.groups, *own)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns with labels, to be read as text."""
        own = [one for bar in self.bars for one in bar.design.columns]
        return tuple(one.name for one in own if one.levels is not None)

    def design(self, table: pa.Table) -> Floats:
        """The effects' columns of every row, (rows, q), in the table's units."""
        return np.hstack([bar.values(table) for bar in self.bars])

    def labels(self, table: pa.Table) -> npt.NDArray[Any]:
        """The level of every row, learned or not."""
        found, codes = row_levels(self.groups, table)
        return np.array(found, dtype=np.str_)[codes]


class Levels(NamedTuple):
    """Distinct levels, and the number of every row's."""

    names: tuple[str, ...]
    codes: Codes


def row_levels(groups: tuple[str, ...], table: pa.Table) -> Levels:
    """Levels of the rows of a table; those of several columns are joined by a colon."""
    names: tuple[str, ...] = ("",)
    codes: Codes = np.zeros(table.num_rows, np.int64)
    for number, group in enumerate(groups):
        found = columns.labels(group, table[group])
        both = codes * len(found.levels) + np.asarray(found.codes, np.int64)
        distinct, codes = np.unique(both, return_inverse=True)
        pairs = (divmod(int(one), len(found.levels)) for one in distinct)
        joined = ":" if number else ""
        names = tuple(f"{names[a]}{joined}{found.levels[b]}" for a, b in pairs)
    return Levels(names, codes)


def learn_effects(
    terms: Iterable[RandomTerm], table: pa.Table, formula: str
) -> tuple[GroupEffects, ...]:
    """Groups, their levels and columns; bars of one group are joined."""
    found: dict[tuple[str, ...], GroupEffects] = {}
    for term in terms:
        bar = _learn_bar(term, table, formula)
        before = found.get(term.groups)
        if before is None:
            levels = row_levels(term.groups, table).names
            if len(levels) < 2:
                raise refuse(
                    formula,
                    term.text,
                    f"{shown(term.name)} has one level only, {shown(levels[0])}: its effect cannot "
                    "be told from the intercept. Leave this bar out.",
                )
            found[term.groups] = GroupEffects(term.groups, levels, (bar,))
        else:
            found[term.groups] = GroupEffects(term.groups, before.levels, (*before.bars, bar))
    return tuple(found.values())


def plan_bar(term: RandomTerm, table: pa.Table, formula: str) -> Design:
    """What stands before a bar, checked against a table."""
    return plan_design(" + ".join(["1" if term.intercept else "0", *term.slopes]), formula, table)


def _learn_bar(term: RandomTerm, table: pa.Table, formula: str) -> Bar:
    design = plan_bar(term, table, formula).learned(table)
    values, names = design.matrix(table)
    own = tuple(INTERCEPT if name == "Intercept" else name for name in names)
    spread = values.std(axis=0)
    for name, scale in zip(own, spread.tolist(), strict=True):
        if name != INTERCEPT and not scale > 0:
            raise refuse(formula, term.text, f"the slope {shown(name)} does not vary.")
    pairs = zip(own, spread.tolist(), strict=True)
    scales = tuple(1.0 if name == INTERCEPT else scale for name, scale in pairs)
    return Bar(design, own, scales, term.correlated and len(own) > 1)


def numeric(text: str, table: pa.Table, formula: str) -> Floats:
    """An expression's number in every row."""
    expression = Expression(text, formula, table.column_names)
    numbers = {}
    for name in expression.used:
        if not columns.is_numeric(table[name]):
            raise refuse(formula, text, f"{shown(name)} has labels, and a number is needed here.")
        numbers[name] = columns.numbers(name, table[name])
    if not numbers:
        return np.full(table.num_rows, expression.value({})[0])
    return expression.value(numbers)
