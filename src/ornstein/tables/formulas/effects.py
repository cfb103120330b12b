"""Random effects as columns: one indicator a level, times the slope's value."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein.storage import codec
from ornstein.tables import columns
from ornstein.tables.formulas.expressions import Expression, Floats, refuse
from ornstein.tables.formulas.parsing import RandomTerm

MOST_COLUMNS = 1000


@codec.register
@dataclass(frozen=True)
class RandomEffects:
    """A bar's effects, the levels of its groups, and what divides each effect's values.

    A slope's values are divided by their standard deviation, an intercept's by 1.
    """

    term: RandomTerm
    levels: tuple[str, ...]
    scales: tuple[float, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its effects, such as ``1|g``."""
        return tuple(f"{effect}|{self.term.name}" for effect in self.term.effects)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of its columns."""
        return tuple(f"{label}[{level}]" for label in self.labels for level in self.levels)

    def codes(self, table: pa.Table) -> npt.NDArray[np.intp]:
        """Which level every row has; -1 where it was not learned."""
        found = group_labels(self.term, table)
        place = {level: code for code, level in enumerate(self.levels)}
        levels, inverse = np.unique(found, return_inverse=True)
        return np.array([place.get(level, -1) for level in levels.tolist()], np.intp)[inverse]

    def values(self, table: pa.Table, formula: str) -> Floats:
        """Of every effect and row, as they were scaled: (effects, rows)."""
        return effect_values(self.term, table, formula) / np.array(self.scales)[:, None]

    def matrix(self, table: pa.Table, formula: str) -> Floats:
        """Its columns, zero for levels that were not learned."""
        hot = (self.codes(table)[:, None] == np.arange(len(self.levels))).astype(float)
        return np.hstack([hot * value[:, None] for value in self.values(table, formula)])


def learn_effects(term: RandomTerm, table: pa.Table, formula: str) -> RandomEffects:
    """Levels and scales of a bar; refused where it cannot be sampled."""
    if term.correlated:
        slopes = " + ".join(term.effects)
        raise refuse(
            formula,
            term.text,
            f"{shown(term.text)} asks for correlated effects, which cannot be sampled yet. Make "
            f"them independent: ({slopes} || {term.name}).",
        )
    levels = tuple(np.unique(group_labels(term, table)).tolist())
    if len(levels) < 2:
        raise refuse(formula, term.text, f"{shown(term.name)} has one level only.")
    raw = effect_values(term, table, formula)
    spread = [float(np.std(value)) for value in raw]
    for effect, scale in zip(term.effects, spread, strict=True):
        if effect != "1" and not scale > 0:
            raise refuse(formula, term.text, f"the slope {shown(effect)} does not vary.")
    pairs = zip(term.effects, spread, strict=True)
    scales = tuple(1.0 if effect == "1" else scale for effect, scale in pairs)
    return RandomEffects(term, levels, scales)


def group_labels(term: RandomTerm, table: pa.Table) -> npt.NDArray[np.str_]:
    """The level of every row, those of several columns joined by a colon."""
    parts = []
    for name in term.groups:
        found = columns.labels(name, table[name])
        parts.append(np.array(found.levels, dtype=object)[found.codes])
    joined = [":".join(row) for row in zip(*parts, strict=True)]
    return np.array(joined, dtype=np.str_)


def effect_values(term: RandomTerm, table: pa.Table, formula: str) -> Floats:
    """Of every effect and row: 1, or the slope's value."""
    return np.stack(
        [
            np.ones(table.num_rows) if effect == "1" else numeric(effect, table, formula)
            for effect in term.effects
        ]
    )


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


def refuse_many(effects: tuple[RandomEffects, ...]) -> None:
    """Raise if there are more columns than can be sampled by this route."""
    count = sum(len(one.features) for one in effects)
    if count > MOST_COLUMNS:
        names = ", ".join(f"{one.term.name} ({len(one.levels):,})" for one in effects)
        raise InputError(
            f"The random effects have {count:,} coefficients, of levels {names}; at most "
            f"{MOST_COLUMNS:,} can be sampled. Leave out a bar, or group rare levels."
        )
