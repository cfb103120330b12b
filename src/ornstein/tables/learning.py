"""What a table becomes: which model suits its target, which columns serve, as which numbers."""

import hashlib
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ornstein._base.checks import a_or_an, choice, few, names_of, shown
from ornstein._base.errors import AmbiguousTargetError, InputError
from ornstein._base.problems import Problems
from ornstein.models.families import FAMILIES, MODELS, TargetColumn, family_name
from ornstein.tables import columns, suspects
from ornstein.tables.arrow import arrow_table, require_columns
from ornstein.tables.codes import notes_on_codes
from ornstein.tables.columns import Floats, Labels, complete_rows, listing, missing_counts, option
from ornstein.tables.dates import DateFormats, formats_of, learn_dates
from ornstein.tables.encoding import (
    MISSING,
    CategoricalColumn,
    Column,
    Encoding,
    NumericColumn,
    Target,
)
from ornstein.tables.levels import MANY, ManyLevels, learn_many

LEAST_ROWS = 5
"""Rows below which nothing is fitted."""

_ROWS_OF_A_LEVEL = 5  # on average, from which a column of many levels is not taken for names


class EncodedTable(NamedTuple):
    """A table as numbers: the encoding that made them, and the rows in use, standardised.

    ``notes`` say what was left out, filled in or assumed, a sentence each.
    """

    encoding: Encoding
    X: Floats
    y: npt.NDArray[Any]
    notes: tuple[str, ...]


def learn(
    frame: Any,
    target: str,
    model: str | None = None,
    missing: str = "refuse",
    *,
    drop: Collection[str] = (),
    keep: Collection[str] = (),
    categorical: Collection[str] = (),
    parse_dates: DateFormats = (),
) -> EncodedTable:
    """Learn how the columns of a table become numbers, and encode its rows.

    Numbers are centred and scaled to unit variance, text and categories become indicators of
    every level but the first. Columns that are constant, redundant with an earlier one or identify
    rows (``customer_id``) are left out. The target of a linear model is centred and scaled as well;
    :func:`~ornstein.tables.unstandardise` undoes all of it. All that is wrong with a table is
    raised at once, each with the option that mends it.

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
    drop
        Columns to leave out.
    keep
        Columns to use even if they look like identifiers.
    categorical
        Columns of numbers that are codes: each of them becomes a level.
    parse_dates
        Columns of dates, which become days since the first, weekday, season and time of day; a
        mapping gives formats such as ``{"day": "%d/%m/%Y"}`` (also written ``"day=%d/%m/%Y"``),
        which are found if not given.

    Raises
    ------
    AmbiguousTargetError
        If no model is given and the target's whole numbers may be classes as well as quantities.
    """
    if model is not None:
        model = family_name(model, "model")
    choice("missing", missing, MISSING)
    formats, problems = formats_of(parse_dates), Problems()
    require_columns(frame, [target, *drop, *keep, *categorical, *formats])
    if target in drop:
        raise InputError(f"The target {shown(target)} cannot be left out (drop).")
    table = arrow_table(frame, but=drop, problems=problems)
    if target not in table.column_names:
        problems.raise_all("The table")
    _require_values(table, target)
    table, notes = _resolve_missing(table, target, missing, problems)
    guess = list[str]()
    to_predict: Target | None = None
    with problems.noted():
        column = columns.target_column(target, table[target])
        if model is None:
            model, why = guess_family(column, table.num_rows)
            guess = [f"{why} Fitting {a_or_an(model)} model."]
        to_predict = _learn_target(model, column, table.num_rows)
    with problems.noted():
        _refuse_few_rows(table.num_rows)
    single = bool(model) and FAMILIES[model]().outputs == 1
    wishes = _Wishes(frozenset(keep), frozenset(categorical), formats, single)
    used, more = _learn_columns(table.drop_columns([target]), wishes, problems)
    problems.raise_all("The table")
    assert model is not None
    assert to_predict is not None
    encoding = Encoding(model, missing, used, to_predict)
    X, y = encoding.encode(table), encoding.encode_target(table)
    notes += FAMILIES[model].note_on(to_predict.classes or ())
    return EncodedTable(encoding, X, y, (*guess, *notes, *more, *_references(used)))


def guess_model(frame: Any, target: str) -> tuple[str, str]:
    """Guess a model from the target alone, and say why in one sentence.

    Two distinct values, of whatever type, call for ``logistic``. Text, categories and truth
    values with more call for ``softmax``. Whole numbers that begin at 0 and stay below 1000 are
    taken for counts, ``poisson``. All other numbers call for ``linear``. Missing values are passed
    over.

    Whole numbers that repeat may be labels of classes, which nothing but their meaning can tell:
    up to thirty distinct ones, or any under a name such as class, label or species, are an
    :class:`~ornstein.AmbiguousTargetError`.

    Examples
    --------
    >>> import pandas as pd
    >>> guess_model(pd.DataFrame({"eggs": [0, 3, 2, 4]}), "eggs")[0]
    'poisson'
    >>> guess_model(pd.DataFrame({"digit": [0, 3, 2, 2, 3, 0]}), "digit")
    Traceback (most recent call last):
        ...
    ornstein._base.errors.AmbiguousTargetError: 'digit' has 3 distinct whole numbers, 0 to 3, and \
a name that classes have. They may be measurements (model='linear'), classes (model='softmax'), \
counts (model='poisson') or ratings (model='ordinal'): choose one.
    """
    table = arrow_table(frame, [target])
    _require_values(table, target)
    column = columns.target_column(target, table[target])
    return guess_family(column, table.num_rows - table[target].null_count)


def guess_family(column: TargetColumn, rows: int) -> tuple[str, str]:
    """The model of a target and why, in one sentence; raises where that is not plain."""
    column.refuse_constant()
    if column.doubt is not None:
        raise _ambiguous(column, column.doubt)
    if column.values is not None and suspects.identifies(column.name, np.asarray(column.values)):
        raise InputError(
            f"The target {shown(column.name)} looks like an identifier of rows. If it is a "
            "quantity, choose a model: model='linear'."
        )
    _refuse_odd_classes(column, rows)
    if column.values is None and len(column.levels) > 2:
        suspects.refuse_stray_text(column.name, column.levels)
    reasons = {name: FAMILIES[name].recognise(column) for name in reversed(MODELS)}
    return next((name, why) for name, why in reasons.items() if why is not None)


def _ambiguous(column: TargetColumn, doubt: str) -> AmbiguousTargetError:
    """The models that suit a column of whole numbers, and how to choose one of them."""
    choices = {}
    for name, family in FAMILIES.items():
        suits = Problems()
        with suits.noted():
            family.check_column(column)
        if family.meaning and not suits.errors:
            choices[name] = family.meaning
    *first, last = (f"{what} (model='{one}')" for one, what in choices.items())
    return AmbiguousTargetError(
        f"{doubt} They may be {', '.join(first)} or {last}: choose one.", choices
    )


def _require_values(table: pa.Table, target: str) -> None:
    """The column to predict must have values."""
    if table[target].null_count == table.num_rows:
        raise InputError(f"The target {shown(target)} has no values.")


def _refuse_few_rows(rows: int) -> None:
    if rows < LEAST_ROWS:
        raise InputError(
            f"The table has {rows} rows to learn from: too few to say anything. It needs "
            f"{LEAST_ROWS} or more, and better several for each column."
        )


def _refuse_odd_classes(column: TargetColumn, rows: int) -> None:
    if column.values is None and len(column.levels) > 2:
        suspects.refuse_odd_classes(column.name, column.levels, rows)


def _learn_target(model: str, column: TargetColumn, rows: int) -> Target:
    """What to remember of the target; refused if it does not suit the model."""
    family = FAMILIES[model]
    family.check_column(column)
    _refuse_odd_classes(column, rows)
    if family.most_classes:
        return Target(column.name, tuple(column.levels))
    if family.scaled:
        values = np.asarray(column.values, float)
        return Target(column.name, None, *columns.centre_and_scale(column.name, values))
    return Target(column.name)


def _references(used: tuple[Column, ...]) -> list[str]:
    parts = [
        f"{shown(column.name)} with {shown(column.levels[0])}"
        for column in used
        if isinstance(column, CategoricalColumn | ManyLevels)
    ]
    return [f"Levels are compared: those of {few(parts)}."] if parts else []


def _resolve_missing(
    table: pa.Table, target: str, missing: str, problems: Problems
) -> tuple[pa.Table, list[str]]:
    """The rows and columns to use, and notes on the others.

    Where missing values are refused, the rest is looked at as if they were filled in.
    """
    counts = missing_counts(table)
    if not counts:
        return table, []
    with problems.noted():
        if missing == "refuse":
            raise InputError(
                f"Missing values in {listing(counts)}. Have those rows dropped with "
                "missing='drop', their values filled in with missing='impute', or leave out a "
                "column with drop=['column']."
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
                "lack most with drop=['column'], or have values filled in with missing='impute'."
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


class _Wishes(NamedTuple):
    """What a user said about columns."""

    keep: frozenset[str]
    categorical: frozenset[str]
    dates: dict[str, str | None]
    many: bool = False  # whether columns may have many levels


def _learn_columns(
    table: pa.Table, wishes: _Wishes, problems: Problems
) -> tuple[tuple[Column, ...], list[str]]:
    learned: list[Column] = []
    constant, notes = list[str](), list[str]()
    first_of: dict[bytes, str] = {}
    for name in table.column_names:
        with problems.noted():
            column = table[name]
            if name in wishes.dates:
                dates = learn_dates(name, column, wishes.dates[name])
                learned.append(dates)
                notes.append(dates.sentence())
                continue
            content: Floats | Labels
            if columns.is_numeric(column) and name not in wishes.categorical:
                content = columns.numbers(name, column)
                is_constant = np.nanmin(content) == np.nanmax(content)
            else:
                content = columns.labels(name, column)
                suspects.refuse_disguised(name, content.levels)
                is_constant = content.codes.min() == content.codes.max()
            if is_constant:
                constant.append(name)
                continue
            earlier = first_of.setdefault(_digest(content), name)
            if earlier != name:
                notes.append(f"Left out, redundant with {shown(earlier)}: {shown(name)}.")
            elif isinstance(content, Labels):
                learned.append(_learn_labels(name, content, wishes))
                if column.type == columns.TEXT and name not in wishes.categorical:
                    notes += suspects.numbers_among(name, content)
            else:
                left_out, said = _look_at_numbers(name, content, name in wishes.keep)
                notes += said
                if not left_out:
                    learned.append(NumericColumn(name, *columns.centre_and_scale(name, content)))
    quantities = [column.name for column in learned if isinstance(column, NumericColumn)]
    notes += notes_on_codes(table, [name for name in quantities if name not in wishes.keep])
    if constant:
        notes.insert(0, f"Left out, being constant: {names_of(constant)}.")
    with problems.noted():
        if not learned and not problems.errors:
            why = f": {' '.join(notes)}" if notes else "."
            raise InputError(f"The table has no column to predict from{why}")
    return tuple(learned), notes


def _look_at_numbers(name: str, values: Floats, keep: bool) -> tuple[bool, list[str]]:
    """Whether to leave out a column of numbers that identifies rows, and what to say."""
    if keep:
        return False, []
    if suspects.identifies(name, values):
        return True, [
            f"Left out, looking like an identifier of rows: {shown(name)}. To use it nevertheless: "
            f"{option('keep', name)}."
        ]
    if suspects.named_identifier(name):
        return False, [
            f"{shown(name)} is taken as a quantity; if its numbers are codes, use "
            f"{option('categorical', name)} or {option('drop', name)}."
        ]
    if suspects.numbers_the_rows(values):
        return False, [
            f"{shown(name)} counts the rows one by one; if it is their number and no quantity, "
            f"leave it out: {option('drop', name)}."
        ]
    return False, []


def _digest(content: Floats | Labels) -> bytes:
    """Equal for columns that divide the rows alike (labels) or hold the same numbers."""
    if isinstance(content, Labels):
        _, first, codes = np.unique(content.codes, return_index=True, return_inverse=True)
        by_appearance = np.argsort(np.argsort(first))[codes]
        return b"labels" + hashlib.sha256(by_appearance.tobytes()).digest()
    return b"numbers" + hashlib.sha256((content + 0.0).tobytes()).digest()


def _learn_labels(name: str, found: Labels, wishes: _Wishes) -> CategoricalColumn | ManyLevels:
    count, rows = len(found.levels), int((found.codes >= 0).sum())
    if wishes.many and MANY < count < rows:
        told_apart = rows >= _ROWS_OF_A_LEVEL * count and not suspects.mostly_numbers(found.levels)
        if name in wishes.categorical or told_apart:
            return learn_many(name, found, f"{name}=", "", scaled=False)
    suspects.refuse_many_levels(name, found)
    some_missing = bool((found.codes < 0).any())
    levels = (*found.levels, None) if some_missing else found.levels
    places = np.where(found.codes < 0, len(found.levels), found.codes)
    shares = np.bincount(places)[1:] / len(places)
    return CategoricalColumn(name, levels, tuple(shares.tolist()))
