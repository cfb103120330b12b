"""What a table becomes: which model suits its target, which columns serve, as which numbers."""

import hashlib
import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ornstein._base.checks import choice, few, names_of, shown
from ornstein._base.errors import InputError
from ornstein.models.families import FAMILIES, MODELS, TargetColumn, family_name
from ornstein.tables import columns
from ornstein.tables.arrow import arrow_table, require_columns
from ornstein.tables.columns import Floats, Labels, complete_rows, listing, missing_counts
from ornstein.tables.encoding import (
    MISSING,
    CategoricalColumn,
    Column,
    Encoding,
    NumericColumn,
    Target,
)

MAX_LEVELS = 100

_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}([T ].*)?")
_DIGITS_AND_COMMAS = re.compile(r"[+-]?\d[\d.,]*")


class EncodedTable(NamedTuple):
    """A table as numbers: the encoding that made them, and the rows in use, standardised.

    ``notes`` say what was left out, filled in or assumed, a sentence each.
    """

    encoding: Encoding
    X: Floats
    y: npt.NDArray[Any]
    notes: tuple[str, ...]


def learn(
    frame: Any, target: str, model: str | None = None, missing: str = "refuse"
) -> EncodedTable:
    """Learn how the columns of a table become numbers, and encode its rows.

    Numbers are centred and scaled to unit variance, text and categories become indicators of
    every level but the first. Columns that are constant or redundant with an earlier one are left
    out. The target of a linear model is centred and scaled as well;
    :func:`~ornstein.tables.unstandardise` undoes all of it.

    Parameters
    ----------
    frame
        The table: a data frame of pandas, polars, pyarrow or any library that narwhals knows.
    target
        Name of the column to predict; all others are used to predict it.
    model
        Name of the model or family, such as ``linear`` or ``negative_binomial``; guessed from the
        target if not given: see :func:`guess_model`.
    missing
        ``refuse`` missing values, ``drop`` the rows that have any, or ``impute``: the mean in
        columns of numbers, a level of its own elsewhere. Columns without any value are left
        out, and rows without a target dropped, by both.
    """
    guess = []
    if model is None:
        model, why = guess_model(frame, target)
        guess = [f"{why} Fitting a {model} model."]
    model = family_name(model, "model")
    choice("missing", missing, MISSING)
    require_columns(frame, [target])
    table = arrow_table(frame)
    _require_values(table, target)
    table, notes = _resolve_missing(table, target, missing)
    to_predict = _learn_target(model, columns.target_column(target, table[target]))
    used, more = _learn_columns(table.drop_columns([target]))
    encoding = Encoding(model, missing, used, to_predict)
    X, y = encoding.encode(table), encoding.encode_target(table)
    notes += FAMILIES[model].note_on(to_predict.classes or ())
    return EncodedTable(encoding, X, y, (*guess, *notes, *more, *_references(used)))


def guess_model(frame: Any, target: str) -> tuple[str, str]:
    """Guess a model from the target alone, and say why in one sentence.

    Two distinct values, of whatever type, call for ``logistic``. Text, categories and truth
    values with more call for ``softmax``. Whole numbers that begin at 0 and stay below 1000 are
    taken for counts, ``poisson``; they might be class labels, which nothing but their meaning
    can tell. All other numbers call for ``linear``. Missing values are passed over.

    Examples
    --------
    >>> import pandas as pd
    >>> guess_model(pd.DataFrame({"eggs": [0, 3, 2, 4]}), "eggs")[0]
    'poisson'
    """
    table = arrow_table(frame, [target])
    _require_values(table, target)
    column = columns.target_column(target, table[target])
    column.refuse_constant()
    reasons = {name: FAMILIES[name].recognise(column) for name in reversed(MODELS)}
    return next((name, why) for name, why in reasons.items() if why is not None)


def _require_values(table: pa.Table, target: str) -> None:
    """The column to predict must have values."""
    if table[target].null_count == table.num_rows:
        raise InputError(f"The target {shown(target)} has no values.")


def _learn_target(model: str, column: TargetColumn) -> Target:
    """What to remember of the target; refused if it does not suit the model."""
    family = FAMILIES[model]
    family.check_column(column)
    if family.most_classes:
        return Target(column.name, column.levels)
    if family.scaled:
        values = np.asarray(column.values, float)
        return Target(column.name, None, *columns.centre_and_scale(column.name, values))
    return Target(column.name)


def _references(used: tuple[Column, ...]) -> list[str]:
    parts = [
        f"{shown(column.name)} with {shown(column.levels[0])}"
        for column in used
        if isinstance(column, CategoricalColumn)
    ]
    return [f"Levels are compared: those of {few(parts)}."] if parts else []


def _resolve_missing(table: pa.Table, target: str, missing: str) -> tuple[pa.Table, list[str]]:
    """The rows and columns to use, and notes on the others."""
    counts = missing_counts(table)
    if not counts:
        return table, []
    if missing == "refuse":
        raise InputError(
            f"Missing values in {listing(counts)}. Have those rows dropped (missing='drop', on the "
            "command line --missing drop) or their values filled in (missing='impute')."
        )
    rows, lacking = table.num_rows, {target: counts[target]} if target in counts else {}
    table = table.filter(complete_rows(table.select([target])))
    empty = [name for name, count in missing_counts(table).items() if count == table.num_rows]
    table = table.drop_columns(empty)
    if missing == "drop":
        lacking |= missing_counts(table)
        table = table.filter(complete_rows(table))
        if not table.num_rows:
            raise InputError(
                f"Every row has missing values: {listing(lacking)}. Leave out the columns that "
                "lack most, or have values filled in (missing='impute')."
            )
    filled = missing_counts(table)
    means = {k: n for k, n in filled.items() if columns.is_numeric(table[k])}
    levels = {k: n for k, n in filled.items() if k not in means}
    dropped = f"Dropped {rows - table.num_rows:,} of {rows:,} rows for missing values: "
    notes = {
        "Left out, having no values: " + names_of(empty): empty,
        dropped + listing(lacking): lacking,
        "Filled in by the column's mean: " + listing(means): means,
        "Missing values made a level of their own: " + listing(levels): levels,
    }
    return table, [f"{note}." for note, concerned in notes.items() if concerned]


def _learn_columns(table: pa.Table) -> tuple[tuple[Column, ...], list[str]]:
    learned: list[Column] = []
    constant, notes = list[str](), list[str]()
    first_of: dict[bytes, str] = {}
    for name in table.column_names:
        column = table[name]
        content: Floats | Labels
        if columns.is_numeric(column):
            content = columns.numbers(name, column)
            is_constant = np.nanmin(content) == np.nanmax(content)
        else:
            content = columns.labels(name, column)
            is_constant = content.codes.min() == content.codes.max()
        if is_constant:
            constant.append(name)
            continue
        earlier = first_of.setdefault(_digest(content), name)
        if earlier != name:
            notes.append(f"Left out, redundant with {shown(earlier)}: {shown(name)}.")
        elif isinstance(content, Labels):
            learned.append(_learn_labels(name, content))
            if column.type == columns.TEXT:
                notes += _numbers_among(name, content)
        else:
            learned.append(NumericColumn(name, *columns.centre_and_scale(name, content)))
    if constant:
        notes.insert(0, f"Left out, being constant: {names_of(constant)}.")
    if not learned:
        raise InputError(
            "The table has no column to predict from" + (f": {notes[0]}" if notes else ".")
        )
    return tuple(learned), notes


def _digest(content: Floats | Labels) -> bytes:
    """Equal for columns that divide the rows alike (labels) or hold the same numbers."""
    if isinstance(content, Labels):
        _, first, codes = np.unique(content.codes, return_index=True, return_inverse=True)
        by_appearance = np.argsort(np.argsort(first))[codes]
        return b"labels" + hashlib.sha256(by_appearance.tobytes()).digest()
    return b"numbers" + hashlib.sha256((content + 0.0).tobytes()).digest()


def _learn_labels(name: str, found: Labels) -> CategoricalColumn:
    _refuse_disguised(name, found)
    _refuse_many_levels(name, found)
    some_missing = bool((found.codes < 0).any())
    levels = (*found.levels, None) if some_missing else found.levels
    places = np.where(found.codes < 0, len(found.levels), found.codes)
    shares = np.bincount(places)[1:] / len(places)
    return CategoricalColumn(name, levels, tuple(shares.tolist()))


def _refuse_disguised(name: str, found: Labels) -> None:
    """Refuse dates, and numbers with commas, that came as text."""
    if all(_DATE.fullmatch(level.strip()) for level in found.levels):
        raise InputError(
            f"Column {shown(name)} contains dates, such as {shown(found.levels[0])}. Turn them "
            "into numbers, such as days since the first, or leave the column out."
        )
    commas = [level for level in found.levels if "," in level]
    if commas and all(_DIGITS_AND_COMMAS.fullmatch(level.strip()) for level in found.levels):
        raise InputError(
            f"Column {shown(name)} contains numbers with commas, such as {shown(commas[0])}. Write "
            "them with a decimal point and no separator of thousands."
        )


def _refuse_many_levels(name: str, found: Labels) -> None:
    count, rows = len(found.levels), int((found.codes >= 0).sum())
    if count <= MAX_LEVELS and count < rows:
        return
    every = "a different one in every row, " if count == rows else ""
    limit = f"at most {MAX_LEVELS} are taken" if count > MAX_LEVELS else "nothing can be learned"
    hint = "If it is a name or free text, leave it out; else group its rare levels."
    if 2 * sum(map(columns.is_number, found.levels[:1000])) > min(count, 1000):
        other = _no_number(found)
        hint = "Most of them are numbers"
        hint += f", but not {shown(other)}; correct such values." if other else " kept as text."
    raise InputError(
        f"Column {shown(name)} has {count:,} levels, {every}such as {names_of(found.levels[:3])}; "
        f"{limit}. {hint}"
    )


def _no_number(found: Labels) -> str | None:
    """The first level that is not one."""
    return next((level for level in found.levels if not columns.is_number(level)), None)


def _numbers_among(name: str, found: Labels) -> list[str]:
    numeric = sum(map(columns.is_number, found.levels))
    if not numeric:
        return []
    other = _no_number(found)
    but = f", but not {shown(other)}" if other is not None else ""
    return [
        f"{shown(name)} is taken as categorical: {numeric} of its {len(found.levels)} levels are "
        f"numbers{but}."
    ]
