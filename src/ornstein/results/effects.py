"""What a model expects of the target as one column changes: effects on the target's own scale.

Conditional effects hold the other columns at a reference. Marginal effects leave them as they are
in rows of a table, and average over these. Both need a model only as a :data:`Response`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from ornstein._base.checks import names_of, nearest, shown
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.results.arviz import interval_ends, mass

Response: TypeAlias = Callable[[pd.DataFrame], Vector]
"""From rows of a table to the target's expectation by every draw: (draws, rows).

For classes their probabilities, (draws, outcomes, rows)."""

Term: TypeAlias = tuple[str, ...]
"""One column, or two that interact."""

MOST_ROWS = 5_000
"""Rows over which marginal effects are averaged."""

_POINTS, _LEAST_POINTS = 50, 12  # of a curve
_GRID_ROWS = 20_000  # of all curves
_EVALUATIONS = 200_000  # rows of all marginal effects
_AT_ONCE = 10_000  # rows
_STEP = 1e-3  # of a slope, relative to the column's range
_MOST_BESIDE = 5  # levels of the second column of an interaction


@dataclass(frozen=True)
class Variable:
    """A column of a table as effects vary it.

    ``levels`` are its labels, or None of numbers and dates, which go from ``low`` to ``high``.
    ``reference`` is where it is held while others vary; the first level for labels, the mean for
    numbers.
    """

    name: str
    levels: tuple[Any, ...] | None
    reference: Any
    low: Any = None
    high: Any = None
    sd: float = 0.0

    @property
    def is_number(self) -> bool:
        """Whether it has slopes."""
        return self.levels is None and isinstance(self.reference, float)

    def values(self, points: int) -> list[Any]:
        """Along a curve: its levels, or evenly spaced."""
        if self.levels is not None:
            return list(self.levels)
        if self.is_number:
            return np.linspace(self.low, self.high, points).tolist()
        return list(pd.date_range(self.low, self.high, periods=points))

    def few_values(self) -> list[Any]:
        """Beside another column's curve: some levels, or the mean and one sd to each side."""
        if self.levels is not None:
            return list(self.levels[:_MOST_BESIDE])
        if self.is_number:
            ends = (self.reference - self.sd, self.reference, self.reference + self.sd)
            return np.clip(ends, self.low, self.high).tolist()
        return [self.low, self.reference, self.high]


def variable(name: str, column: "pd.Series[Any]", levels: Sequence[Any] | None = None) -> Variable:
    """Of a column of a table, whose labels are these if it has any."""
    if levels is not None:
        return Variable(name, tuple(levels), levels[0])
    present = column.dropna()
    if present.empty:
        raise InputError(f"Column {shown(name)} has no values here, so no effect can be computed.")
    if pd.api.types.is_numeric_dtype(present):
        ends = float(present.min()), float(present.max())
        return Variable(name, None, float(present.mean()), *ends, float(present.std(ddof=0)))
    return Variable(name, None, present.mean(), present.min(), present.max())


def chosen_terms(terms: Sequence[Term], names: Sequence[str] | None) -> list[Term]:
    """Those of these names, such as ``x`` or ``x:z``; all if none are given."""
    known = {":".join(term): term for term in terms}
    if names is None:
        return list(terms)
    wrong = [name for name in names if name not in known]
    if wrong:
        raise InputError(
            f"the model has no term {names_of(wrong)}; its terms are {names_of(known)}."
            + nearest(wrong[0], known)
        )
    return [known[name] for name in names]


def conditional_effects(
    response: Response,
    rows: pd.DataFrame,
    variables: Sequence[Variable],
    terms: Sequence[Term],
    outcomes: Sequence[str] = ("",),
    interval: float = 0.9,
) -> pd.DataFrame:
    """The expected target along every term, other columns at their reference.

    A line per point: ``term``, the ``value`` of its first column and, of an interaction, that of
    its second, ``beside``; ``outcome``, where a target has several classes; ``mean``, ``sd`` and
    the central interval.

    Parameters
    ----------
    response
        The model.
    rows
        Some row of the table, for columns that are no variables.
    variables
        The columns.
    terms
        Columns, or pairs of columns.
    outcomes
        What the response has along its second axis.
    interval
        Mass of the intervals.
    """
    by_name = {one.name: one for one in variables}
    points = int(np.clip(_GRID_ROWS // max(1, len(terms)), _LEAST_POINTS, _POINTS))
    lines: list[tuple[str, Any, Any, dict[str, Any]]] = []
    for term in terms:
        first, *second = (by_name[name] for name in term)
        beside = second[0].few_values() if second else [None]
        for other in beside:
            for value in first.values(points):
                own = {first.name: value} | ({second[0].name: other} if second else {})
                lines.append((":".join(term), value, other, own))
    grid = _held(rows, variables, len(lines))
    for name in by_name:
        grid[name] = [own.get(name, by_name[name].reference) for *_, own in lines]
    found = np.concatenate(
        [_outcomes(response(part)) for part in _parts(grid)], axis=2
    )  # (draws, outcomes, points)
    tables = [
        pd.DataFrame(
            {
                "term": [term for term, *_ in lines],
                "value": pd.Series([value for _, value, *_ in lines], dtype=object),
                "beside": pd.Series([other for *_, other, _ in lines], dtype=object),
                "outcome": outcome,
                **_summary(found[:, number], interval),
            }
        )
        for number, outcome in enumerate(outcomes)
    ]
    whole = pd.concat(tables, ignore_index=True)
    return whole if len(outcomes) > 1 else whole.drop(columns="outcome")


def marginal_effects(
    response: Response,
    rows: pd.DataFrame,
    variables: Sequence[Variable],
    outcomes: Sequence[str] = ("",),
    interval: float = 0.9,
) -> pd.DataFrame:
    """Average slopes of numbers and average contrasts of levels, over rows of a table.

    Of every draw the effect is averaged over the rows; a line has the mean of these averages, their
    sd and a central interval. Slopes are per unit of the column, contrasts are differences from the
    first level, both in the target's own unit (probabilities for classes).

    Parameters
    ----------
    response
        The model.
    rows
        Rows to average over, at most 5,000, fewer where there are many columns.
    variables
        Columns whose effects are asked for; dates have none.
    outcomes
        What the response has along its second axis.
    interval
        Mass of the intervals.
    """
    effective = [one for one in variables if one.levels is not None or one.is_number]
    evaluations = sum(2 if one.levels is None else len(one.levels) for one in effective)
    most = int(np.clip(_EVALUATIONS // max(1, evaluations), 50, MOST_ROWS))
    some = rows.iloc[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int)]
    tables = []
    for one in effective:
        for contrast, effect in _effects(response, some, one):
            found = {"term": one.name, "contrast": contrast, "outcome": list(outcomes)}
            tables.append(pd.DataFrame({**found, **_summary(effect, interval)}))
    if not tables:
        raise InputError("the model has no columns of numbers or labels, whose effects these are.")
    whole = pd.concat(tables, ignore_index=True).set_index(["term", "contrast"])
    return whole if len(outcomes) > 1 else whole.drop(columns="outcome")


def _effects(response: Response, rows: pd.DataFrame, one: Variable) -> Iterator[tuple[str, Vector]]:
    """Contrasts and their averages over the rows, (draws, outcomes)."""
    ones = np.ones(len(rows))
    if one.levels is not None:
        levels = [np.full(len(rows), level) for level in one.levels]
        first, *others = _averages(response, rows, one.name, levels, ones)
        for level, found in zip(one.levels[1:], others, strict=True):
            yield f"{level} - {one.levels[0]}", found - first
        return
    at = rows[one.name].fillna(one.reference).to_numpy(float)
    step = _STEP * (one.high - one.low)
    # Splines have no values beyond the range of the column.
    up, down = np.minimum(at + step, one.high), np.maximum(at - step, one.low)
    above, below = _averages(response, rows, one.name, [up, down], 1 / (up - down))
    yield "slope", above - below


def _averages(
    response: Response,
    rows: pd.DataFrame,
    name: str,
    values: Sequence[npt.NDArray[Any]],
    weights: Vector,
) -> list[Vector]:
    """Weighted averages over the rows, (draws, outcomes), for each of several of a column's values.

    All are evaluated together: a call takes long, however few rows it is given.
    """
    whole = pd.concat([rows.assign(**{name: value}) for value in values], ignore_index=True)
    of_value = np.repeat(np.arange(len(values)), len(rows))
    share = np.tile(weights / len(rows), len(values))
    totals: list[Any] = [0.0] * len(values)
    for start in range(0, len(whole), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        found = _outcomes(response(whole.iloc[part])) * share[part]
        for number in np.unique(of_value[part]).tolist():
            totals[number] = totals[number] + found[..., of_value[part] == number].sum(axis=2)
    return [np.asarray(total) for total in totals]


def _held(rows: pd.DataFrame, variables: Sequence[Variable], count: int) -> pd.DataFrame:
    """So many rows like the first one; numbers that are no variables at their mean."""
    known, like = {one.name for one in variables}, rows.iloc[:1]
    held = {
        name: like[name].iloc[0]
        if name in known or not pd.api.types.is_numeric_dtype(rows[name])
        else rows[name].mean()
        for name in rows.columns
    }
    return pd.DataFrame({name: [value] * count for name, value in held.items()})


def _parts(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    for start in range(0, len(frame), _AT_ONCE):
        yield frame.iloc[start : start + _AT_ONCE]


def _outcomes(found: Vector) -> Vector:
    """With an axis of outcomes: (draws, outcomes, rows)."""
    return found if found.ndim == 3 else found[:, None]


def _summary(draws: Vector, interval: float) -> dict[str, Vector]:
    """Mean, sd and central interval along the first axis."""
    tail, (low, high) = (1 - mass(interval)) / 2, interval_ends(interval)
    ends = np.quantile(draws, [tail, 1 - tail], axis=0)
    return {"mean": draws.mean(axis=0), "sd": draws.std(axis=0), low: ends[0], high: ends[1]}
