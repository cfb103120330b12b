"""How good a model of a table is: rows are kept aside, predicted by a fit to the others, scored."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ornstein._base.errors import InputError, OrnsteinError
from ornstein._base.types import Key, Vector
from ornstein.models.families import FAMILIES
from ornstein.results.scores import Scores, score
from ornstein.tables.formulas.learning import FormulaTable
from ornstein.tables.learning import EncodedTable
from ornstein.tables.model import TableModel

AnyTable: TypeAlias = EncodedTable | FormulaTable
Rows: TypeAlias = npt.NDArray[np.intp]

LEAST = 50
"""Rows below which none are kept aside unless folds are asked for."""

_DRAWS = 500  # that predict

MOST_FITTED, MOST_SCORED = 100_000, 20_000
"""Rows of larger tables that a score is learned from, and scored."""


def held_out(
    table: AnyTable,
    share: float,
    folds: int,
    key: Key,
    fit: Callable[[AnyTable], TableModel],
) -> tuple[Scores | None, str]:
    """Scores of rows that were kept aside, and why there are none.

    Parameters
    ----------
    table
        All rows.
    share
        Of the rows to keep aside, drawn by the seed ``key``; of every class alike.
    folds
        Parts of which each is kept aside once, instead of the one share.
    key
        The seed.
    fit
        Fits some of the rows.
    """
    refuse_shares(share, folds)
    rows = len(table.X)
    if not share and not folds:
        return None, "No rows were held out."
    if folds > rows // 2:
        raise InputError(f"folds={folds} is too many for {rows:,} rows; use at most {rows // 2}.")
    if not folds and rows < LEAST:
        return None, (
            f"Not measured: {rows:,} rows are too few to keep some aside. Five fits tell "
            "(folds=5, --folds 5)."
        )
    rng = np.random.default_rng(key if isinstance(key, int) else 0)
    parts = list(_parts(table, share, folds, rng))
    try:
        found = [_predicted(table, train, test, fit) for train, test in parts]
    except OrnsteinError as error:
        return None, f"Not measured: a fit to a part of the rows failed ({error})"
    scores = _pooled(found)
    fitted = len(parts[0][0])
    how = (
        f"each in one of {folds} parts that was kept aside once"
        if folds
        else f"kept aside; learned from {fitted:,} others, then from all"
    )
    return Scores(scores.values, scores.baseline, scores.rows, how), ""


def refuse_shares(share: float, folds: int) -> None:
    """Raise if it is not plain what to keep aside."""
    if not 0 <= share <= 0.9:
        raise InputError(
            f"holdout must be a share of the rows from 0 to 0.9, found {share:g}; 0.2 is usual."
        )
    if folds < 0 or folds == 1:
        raise InputError(f"folds must be 2 or more, or 0 for none; found {folds}.")


def _pooled(found: list[Scores]) -> Scores:
    """Means over folds, by their rows."""
    rows = np.array([one.rows for one in found], float)

    def mean(parts: list[dict[str, float]]) -> dict[str, float]:
        return {
            name: _mean(name, np.array([part[name] for part in parts]), rows) for name in parts[0]
        }

    values, baseline = mean([one.values for one in found]), mean([one.baseline for one in found])
    return Scores(values, baseline, int(rows.sum()))


def _mean(name: str, values: Vector, rows: Vector) -> float:
    known = np.isfinite(values)
    if not known.any():
        return float("nan")
    power = 2 if name == "RMSE" else 1
    return float(np.average(values[known] ** power, weights=rows[known]) ** (1 / power))


def _parts(
    table: AnyTable, share: float, folds: int, rng: np.random.Generator
) -> Iterator[tuple[Rows, Rows]]:
    """Rows to learn from and rows to score, each sorted."""
    y = np.asarray(table.y)
    fold = _folds(y, folds or 1 / share, rng, bool(FAMILIES[table.encoding.model].most_classes))
    for number in range(folds or 1):
        kept, rest = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        yield _some(rest, MOST_FITTED, rng), _some(kept, MOST_SCORED, rng)


def _folds(y: Vector, parts: float, rng: np.random.Generator, stratified: bool) -> Rows:
    """Of every row the number of its part: a share ``1 / parts`` of the rows each, of every class.

    Rows of a class are dealt one after the other, from a chance place for the first.
    """
    fold = np.empty(len(y), np.intp)
    for one in np.unique(y) if stratified else (None,):
        own = rng.permutation(np.flatnonzero(y == one) if stratified else len(y))
        fold[own] = ((np.arange(len(own)) + rng.uniform()) % parts).astype(np.intp)
    return fold


def _some(rows: Rows, most: int, rng: np.random.Generator) -> Rows:
    return rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))


def _predicted(
    table: AnyTable, train: Rows, test: Rows, fit: Callable[[AnyTable], TableModel]
) -> Scores:
    part, kept = taken(table, train), taken(table, test)
    model, y = fit(part).thinned(_DRAWS), np.asarray(kept.y)
    if isinstance(kept, FormulaTable) and kept.weights is not None:
        y = np.rint(y * kept.weights)
    rows = model.encoded_rows(kept)
    return score(model.draws, rows, y, part.y, table.encoding.target.scale)


def taken(table: AnyTable, rows: Rows) -> AnyTable:
    """Some rows of an encoded table."""
    if isinstance(table, FormulaTable):
        beside: dict[str, Any] = {
            name: None if part is None else part[rows]
            for name, part in (("offset", table.offset), ("weights", table.weights))
        }
        groups = tuple(one.taken(rows) for one in table.groups)
        return table._replace(X=table.X[rows], y=table.y[rows], groups=groups, **beside)
    return table._replace(X=table.X[rows], y=table.y[rows])
