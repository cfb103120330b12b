"""New rows of a mixed model: their columns, and the levels of their groups."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.data import inputs
from ornstein.data.on_disk import RowsOnDisk
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.results.mixed_draws import GroupDraws, GroupOfRows, MixedDraws


def new_rows(
    post: MixedPosterior,
    draws: MixedDraws,
    X: npt.ArrayLike | None,
    groups: Mapping[str, npt.ArrayLike],
) -> tuple[Vector, list[GroupOfRows]]:
    """The table of the fixed coefficients' columns, and every group's levels, checked."""
    table = _table(post, X, groups)
    unknown = set(groups) - {grouping.name for grouping in post.specification.groupings}
    if unknown:
        raise InputError(f"groups has {checks.names_of(sorted(unknown))}, which the model has not.")
    return table, [
        _group(post, number, group, table, groups.get(group.name))
        for number, group in enumerate(draws.groups)
    ]


def _group(
    post: MixedPosterior, number: int, draws: GroupDraws, table: Vector, given: Any
) -> GroupOfRows:
    """New rows' levels and columns; all levels of a random effect are new where none are given."""
    columns = post.slope_columns
    if columns is None:
        raise InputError(
            "this posterior is a formula's, whose terms make the columns of new rows: fit it "
            "by tables.fit_table, whose model predicts."
        )
    fixed = post.specification.groupings[number].fixed
    design = np.ones((len(table), 1)) if fixed else _design(draws, columns[number], table)
    if given is None and fixed:
        raise InputError(f"groups must have {draws.name!r}, whose effects are fixed.")
    if given is None:
        return GroupOfRows(draws, np.full(len(table), -1), np.arange(len(table)), design)
    labels = np.asarray(given)
    if labels.shape != (len(table),):
        raise InputError(
            f"groups[{draws.name!r}] must have one label for each of {len(table)} "
            f"rows, found shape {labels.shape}."
        )
    known, fresh = draws.matched(labels)
    if fixed and (known < 0).any():
        new = [str(label) for label in np.unique(labels[known < 0]).tolist()]
        raise InputError(
            f"groups[{draws.name!r}] has levels that the data have not, and whose fixed effects "
            f"are not known: {checks.names_of(new)}."
        )
    return GroupOfRows(draws, known, fresh, design)


def _table(post: MixedPosterior, X: Any, groups: Mapping[str, Any]) -> Vector:
    columns = len(post.units.scale)
    if X is None:
        if columns:
            raise InputError(f"X must have the model's {columns} columns, found None.")
        if not groups:
            raise InputError("groups must have the levels of the new rows, found none.")
        table = np.zeros((len(np.asarray(next(iter(groups.values())))), 0))
    else:
        found = inputs.table(X)[0]
        if isinstance(found, RowsOnDisk):
            raise InputError(
                "predictions of new rows are made in memory: give some rows of X at a time, such "
                "as rows[:1000], with their groups."
            )
        table = np.asarray(found, float)
    if table.shape[1] != columns:
        raise InputError(f"X must have the model's {columns} columns, found {table.shape[1]}.")
    if not post.intercept:
        return table
    return np.concatenate([table, np.ones((len(table), 1))], axis=1)


def _design(draws: GroupDraws, columns: tuple[int, ...], table: Vector) -> Vector:
    """Columns of the effects, (rows, q)."""
    own = table[:, list(columns)]
    if len(draws.columns) == len(columns):
        return own
    return np.concatenate([np.ones((len(table), 1)), own], axis=1)
