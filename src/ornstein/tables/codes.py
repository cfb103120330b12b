"""Columns of numbers that are codes of groups, such as broods, taken for quantities."""

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ornstein._base.checks import names_of, shown
from ornstein.tables import columns
from ornstein.tables.columns import Floats, option
from ornstein.tables.suspects import MAX_LEVELS

_FEWEST_CODES = 20
_LOOKED_AT = 300  # codes
_FEWEST_ALIKE = 2  # columns that a code decides


def notes_on_codes(table: pa.Table, quantities: Collection[str]) -> list[str]:
    """A note on every column of whole numbers that decides other columns as only a code would.

    All rows of one number then have the same height, town and the like, which neither rise nor fall
    with the number. Quantities that others are made of, such as an age with its group, are none:
    these rise with it, or tell all its values apart.
    """
    notes = []
    for name in quantities:
        values = columns.numbers(name, table[name])
        distinct, codes = np.unique(values, return_inverse=True)
        if not _may_be_codes(values, distinct):
            continue
        some = codes % max(1, -(-len(distinct) // _LOOKED_AT)) == 0
        part, own = table.filter(pa.array(some)), values[some]
        others = [other for other in table.column_names if other != name]
        alike = [other for other in others if _decides(own, _content(part[other]))]
        if len(alike) >= _FEWEST_ALIKE:
            few = len(distinct) <= MAX_LEVELS
            ways = option("categorical", name) if few else f"a formula with (1|{name})"
            notes.append(
                f"{shown(name)} is taken as a quantity, and may be a code of groups, whose rows "
                f"all have the same {names_of(alike)}. If it is one, use {ways}, or leave it out: "
                f"{option('drop', name)}."
            )
    return notes


def _may_be_codes(values: Floats, distinct: Floats) -> bool:
    return (
        len(distinct) >= _FEWEST_CODES
        and 2 * len(distinct) <= len(values)
        and bool(np.array_equal(distinct, np.rint(distinct)))
    )


def _content(column: Any) -> Floats:
    """A column's values as numbers: those of labels are in the order of the alphabet."""
    if columns.is_numeric(column):
        return np.asarray(column.to_numpy(), np.float64)
    texts = np.array(["" if value is None else str(value) for value in column.to_pylist()])
    return np.unique(texts, return_inverse=True)[1].astype(float)


def _decides(codes: Floats, other: Floats) -> bool:
    """Whether a column is the same in all rows of a code, and no function of it that rises."""
    order = np.argsort(codes, kind="stable")
    codes, other = codes[order], other[order]
    starts: npt.NDArray[np.intp] = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
    first = other[starts]
    if not np.array_equal(np.maximum.reduceat(other, starts), np.minimum.reduceat(other, starts)):
        return False
    distinct, turns = len(np.unique(first)), np.diff(first)
    rises = min((turns > 0).sum(), (turns < 0).sum()) <= 0.1 * (turns != 0).sum()
    return 3 <= distinct < len(first) and not rises
