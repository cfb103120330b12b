"""Columns that are not what they seem: dates and numbers written as text, identifiers."""

import re
from collections.abc import Sequence

import numpy as np

from ornstein._base.checks import names_of, shown
from ornstein._base.errors import InputError
from ornstein.tables import columns
from ornstein.tables.columns import Floats, Labels, option

MAX_LEVELS = 100
"""Levels that a column of labels has at most without being doubted, or looked up."""

_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}([T ].*)?")
_DIGITS_AND_COMMAS = re.compile(r"[+-]?\d[\d.,]*")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?")
_IDENTIFIERS = {"id", "ids", "uuid", "guid", "identifier", "rowid", "rownames", "unnamed"}


def named_identifier(name: str) -> bool:
    """Whether a column has the name of an identifier, such as customer_id."""
    words = set(re.findall("[a-z]+", re.sub("([a-z])([A-Z])", r"\1 \2", name).lower()))
    return bool(words & _IDENTIFIERS) or name.lower() == "index"


def identifies(name: str, values: Floats) -> bool:
    """Whether a column of numbers identifies rows: by its name, and many whole numbers."""
    if not named_identifier(name) or not np.array_equal(values, np.rint(values)):
        return False
    return len(np.unique(values)) > min(MAX_LEVELS, len(values) // 2)


def numbers_the_rows(values: Floats) -> bool:
    """Whether a column counts the rows, one by one, in their order."""
    return len(values) > 2 and bool(np.all(np.diff(values) == 1))


def refuse_disguised(name: str, levels: Sequence[str], what: str = "Column") -> None:
    """Refuse dates, and numbers with commas, that came as text."""
    if all(_DATE.fullmatch(level.strip()) for level in levels):
        raise InputError(
            f"{what} {shown(name)} contains dates, such as {shown(levels[0])}. "
            + (columns.dates_remedy(name) if what == "Column" else "Turn them into numbers.")
        )
    commas = [level for level in levels if "," in level]
    if commas and all(_DIGITS_AND_COMMAS.fullmatch(level.strip()) for level in levels):
        ways = [
            "decimal=',' if the comma is the decimal point",
            "thousands=',' if it separates thousands",
        ]
        if all(_THOUSANDS.fullmatch(level.strip()) for level in commas):
            ways.reverse()
        raise InputError(
            f"{what} {shown(name)} contains numbers with commas, such as {shown(commas[0])}. Read "
            f"the file with {', or with '.join(ways)}."
        )


def refuse_many_levels(name: str, found: Labels) -> None:
    """Refuse more levels than rows can tell apart."""
    count, rows = len(found.levels), int((found.codes >= 0).sum())
    if count <= MAX_LEVELS and count < rows:
        return
    every = "a different one in every row, " if count == rows else ""
    limit = "nothing can be learned"
    if count > MAX_LEVELS:
        limit = f"at most {MAX_LEVELS} are taken of so few rows each"
    hint = f"If it is a name, a code or free text, leave it out: {option('drop', name)}; else group"
    hint += " its rare levels"
    hint += "." if count == rows else f", or take all of them: {option('categorical', name)}."
    if mostly_numbers(found.levels):
        other = not_a_number(found.levels)
        hint = "Most of them are numbers"
        hint += f", but not {shown(other)}; correct such values." if other else " kept as text."
    raise InputError(
        f"Column {shown(name)} has {count:,} levels, {every}such as {names_of(found.levels[:3])}; "
        f"{limit}. {hint}"
    )


def refuse_odd_classes(name: str, levels: Sequence[str], rows: int) -> None:
    """Refuse a target of labels that are no classes: dates, written numbers, one for each row."""
    refuse_disguised(name, levels, "The target")
    if len(levels) > MAX_LEVELS // 2 and mostly_numbers(levels):
        other = not_a_number(levels)
        raise InputError(
            f"The target {shown(name)} has {len(levels):,} distinct values, most of them numbers, "
            f"but not {shown(other)}. Correct such values, or make them empty and choose what to "
            "do with missing values: missing='drop'."
        )
    if 2 * len(levels) > rows:
        raise InputError(
            f"The target {shown(name)} has {len(levels):,} classes in {rows:,} rows, such as "
            f"{names_of(levels[:3])}: too few rows of each to learn from. Group the rare ones, or "
            "choose another target."
        )


def refuse_stray_text(name: str, levels: Sequence[str]) -> None:
    """Refuse a target of numbers but for some text, unless a model of classes is asked for."""
    other = not_a_number(levels)
    if other is not None and mostly_numbers(levels):
        raise InputError(
            f"The target {shown(name)} has {len(levels):,} distinct values, most of them numbers, "
            f"but not {shown(other)}. Correct such values, or make them empty (missing='drop'); "
            "if all are classes, choose model='softmax'."
        )


def mostly_numbers(levels: Sequence[str]) -> bool:
    """Whether more than half of (the first thousand) levels are numbers."""
    some = levels[:1000]
    return 2 * sum(map(columns.is_number, some)) > len(some)


def not_a_number(levels: Sequence[str]) -> str | None:
    """The first level that is not one."""
    return next((level for level in levels if not columns.is_number(level)), None)


def numbers_among(name: str, found: Labels) -> list[str]:
    """A note on labels some of which are numbers."""
    numeric = sum(map(columns.is_number, found.levels))
    if not numeric:
        return []
    other = not_a_number(found.levels)
    but = f", but not {shown(other)}" if other is not None else ""
    return [
        f"{shown(name)} is taken as categorical: {numeric} of its {len(found.levels)} levels are "
        f"numbers{but}."
    ]
