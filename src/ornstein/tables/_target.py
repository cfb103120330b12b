"""The column to predict: which model suits it, and whether it suits the model."""

from typing import Any

import numpy as np
import pandas as pd

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein.tables import _columns
from ornstein.tables._columns import Floats, Labels, names_of
from ornstein.tables._encoding import Target, require_columns

MAX_CLASSES = 100
MAX_COUNT = 1000
"""Whole numbers from 0 up to this one are taken for counts."""


def guess_model(frame: pd.DataFrame, target: str) -> tuple[str, str]:
    """Guess a model from the target alone, and say why in one sentence.

    Two distinct values, of whatever type, call for ``logistic``. Text, categories and truth
    values with more call for ``softmax``. Whole numbers that begin at 0 and stay below 1000 are
    taken for counts, ``poisson``; they might be class labels, which nothing but their meaning
    can tell. All other numbers call for ``linear``.

    Parameters
    ----------
    frame
        The table; missing values of the target are passed over.
    target
        Name of the column to predict.

    Returns
    -------
    tuple of str
        The model's name and the reason.

    Examples
    --------
    >>> guess_model(pd.DataFrame({"eggs": [0, 3, 2, 4]}), "eggs")[0]
    'poisson'
    """
    series = target_column(frame, target).dropna()
    found = _columns.labels(target, series)
    _refuse_one_class(target, found)
    name = shown(target)
    if len(found.levels) == 2:
        return "logistic", f"{name} has two distinct values: {names_of(found.levels)}."
    if _columns.kind(target, series) == "labels":
        _refuse_many_classes(target, found)
        return "softmax", f"{name} has {len(found.levels)} classes: {names_of(found.levels)}."
    values = _columns.numbers(target, series)
    low, high = values.min(), values.max()
    span = f"{low:g} to {high:g}"
    if not np.array_equal(values, np.rint(values)):
        return "linear", f"{name} holds numbers from {span}."
    if low == 0 and high <= MAX_COUNT:
        return "poisson", (
            f"{name} holds whole numbers from {span}, taken for counts; if they are class labels "
            "choose softmax, if they are measurements linear."
        )
    return "linear", (
        f"{name} holds whole numbers from {span}, taken for measurements; if they are class labels "
        "choose softmax, if they are counts poisson."
    )


def target_column(frame: pd.DataFrame, target: str) -> "pd.Series[Any]":
    """The column to predict, which must exist and hold something."""
    frame = _columns.named(frame)
    require_columns(frame, [target])
    column: pd.Series[Any] = frame[target]
    if column.isna().all():
        raise InputError(f"The target {shown(target)} has no values.")
    return column


def learn_target(model: str, series: "pd.Series[Any]") -> Target:
    """What to remember of a target without missing values; refused if it does not suit."""
    name = str(series.name)
    if model in ("logistic", "softmax"):
        return Target(name, _learn_classes(model, name, _columns.labels(name, series)))
    if _columns.kind(name, series) == "labels":
        raise InputError(
            f"The target {shown(name)} holds labels, such as {shown(series.iloc[0])}, and a "
            f"{model} model needs numbers. Choose logistic for two classes, softmax for more."
        )
    values = _columns.numbers(name, series)
    if values.min() == values.max():
        raise InputError(
            f"The target {shown(name)} is {values[0]:g} in every row: there is nothing to explain."
        )
    if model == "linear":
        return Target(name, None, *_columns.centre_and_scale(name, values))
    _refuse_non_counts(name, values)
    return Target(name)


def _learn_classes(model: str, name: str, found: Labels) -> tuple[str, ...]:
    _refuse_one_class(name, found)
    _refuse_many_classes(name, found)
    if model == "logistic" and len(found.levels) > 2:
        raise InputError(
            f"The target {shown(name)} has {len(found.levels)} classes, {names_of(found.levels)}, "
            "and logistic takes two. Choose softmax."
        )
    return found.levels


def _refuse_one_class(name: str, found: Labels) -> None:
    if len(found.levels) < 2:
        raise InputError(
            f"The target {shown(name)} has one value only, {names_of(found.levels)}: there is "
            "nothing to explain."
        )


def _refuse_many_classes(name: str, found: Labels) -> None:
    if len(found.levels) > MAX_CLASSES:
        raise InputError(
            f"The target {shown(name)} has {len(found.levels):,} classes, such as "
            f"{names_of(found.levels[:3])}; at most {MAX_CLASSES} are taken. Group the "
            "rare ones, or, if it is a quantity, make it numbers throughout and choose linear."
        )


def _refuse_non_counts(name: str, values: Floats) -> None:
    wrong = (values < 0) | (values != np.rint(values))
    if wrong.any():
        raise InputError(
            f"The target {shown(name)} must hold counts (whole numbers from 0) for a poisson "
            f"model: {int(wrong.sum()):,} values are not, the first being {values[wrong][0]:g}. "
            "Choose linear."
        )
