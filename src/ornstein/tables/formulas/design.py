"""Columns of fixed effects, made by formulaic; what it learned is kept as plain numbers.

Knots, means and polynomials' coefficients are its transforms' state, levels those of the table's
columns. Both are kept as JSON. From them the columns of later tables are made in one way, whether
the formula was learned just now or loaded from a folder.
"""

import ast
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ornstein._base.checks import few, names_of, shown
from ornstein._base.errors import InputError
from ornstein._base.problems import Problems
from ornstein.storage import codec
from ornstein.tables import columns, suspects
from ornstein.tables.formulas.expressions import ARITHMETIC, Expression, Floats, refuse

MOST_LEVELS = 1000
"""Of a column that becomes indicators."""

_FORMATTING = re.compile(r"\x1b\[[\d;]*m|[⧛⧚]")  # in formulaic's messages


@codec.register
@dataclass(frozen=True)
class RawColumn:
    """A column of the table that fixed effects use: its levels, or an example of its numbers.

    ``values`` are all its numbers where these are taken for levels, as in ``C(year)``.
    """

    name: str
    levels: tuple[str, ...] | None
    whole: bool = False
    example: float = 0.0
    values: tuple[float, ...] = ()

    def prepared(self, column: Any) -> Any:
        """The column as formulaic takes it; unknown levels are refused."""
        if self.levels is None:
            numbers = columns.numbers(self.name, column)
            if self.values:
                self._refuse_unknown({v for v in numbers.tolist() if v not in self.values})
            whole = self.whole and np.array_equal(numbers, np.rint(numbers))
            return numbers.astype(np.int64) if whole else numbers
        found = columns.labels(self.name, column)
        self._refuse_unknown([level for level in found.levels if level not in self.levels])
        places = np.array([*(self.levels.index(level) for level in found.levels), -1], np.intp)
        return _categories(places[found.codes], self.levels)

    def example_rows(self, count: int) -> Any:
        """So many rows that have all levels."""
        if self.levels is not None:
            return _categories(np.arange(count) % len(self.levels), self.levels)
        numbers = np.resize(self.values or (self.example,), count).astype(float)
        return numbers.astype(np.int64) if self.whole else numbers

    def _refuse_unknown(self, unknown: Iterable[Any]) -> None:
        texts = [columns.text_of(value) for value in unknown]
        if texts:
            known = self.levels or tuple(columns.text_of(value) for value in self.values)
            raise InputError(
                f"Column {shown(self.name)} has levels that were not learned: {names_of(texts)}. "
                f"Known are {names_of(known)}."
            )


@codec.register
@dataclass(frozen=True)
class Design:
    """How fixed effects become columns: formulaic's formula, the table's columns, and the state."""

    fixed: str
    formula: str
    columns: tuple[RawColumn, ...]
    state: str = "{}"

    def matrix(self, table: pa.Table) -> tuple[Floats, tuple[str, ...]]:
        """Of every row, the columns and their names; an intercept is one of them."""
        count = max([1, *(len(c.levels or c.values or (0,)) for c in self.columns)])
        prototype = _frame({c.name: c.example_rows(count) for c in self.columns}, count)
        spec = self._evaluated(prototype, self._spec()).model_spec
        made = {c.name: c.prepared(table[c.name]) for c in self.columns}
        return self._numbers(self._evaluated(_frame(made, table.num_rows), spec))

    def learned(self, table: pa.Table) -> "Design":
        """The same with the state of its transforms, from the rows to fit."""
        made = {c.name: c.prepared(table[c.name]) for c in self.columns}
        found = self._evaluated(_frame(made, table.num_rows), self._spec())
        self._numbers(found)
        return Design(
            self.fixed,
            self.formula,
            self.columns,
            json.dumps(_plain(found.model_spec.transform_state)),
        )

    @property
    def interactions(self) -> tuple[tuple[str, str], ...]:
        """Pairs of columns that a term multiplies, in the order of the formula."""
        import formulaic

        names, found = [column.name for column in self.columns], list[tuple[str, str]]()
        for term in formulaic.Formula(self.fixed):
            used = list(dict.fromkeys(n for f in term.factors for n in self._used(f, names)))
            if len(used) == 2:
                found.append((used[0], used[1]))
        return tuple(dict.fromkeys(found))

    def _used(self, factor: Any, names: list[str]) -> list[str]:
        return expression_of(factor, self.formula, names).used

    def _spec(self) -> Any:
        import formulaic

        return formulaic.ModelSpec(
            formula=formulaic.Formula(self.fixed),
            output="numpy",
            na_action="raise",
            transform_state=_restored(json.loads(self.state)),
        )

    def _evaluated(self, frame: pd.DataFrame, spec: Any) -> Any:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return spec.get_model_matrix(frame, context=dict(ARITHMETIC))
        except Exception as error:
            self._refuse_undefined(frame)
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise refuse(
                self.formula, self.fixed, f"its terms cannot be evaluated: {reason}"
            ) from error

    def _refuse_undefined(self, frame: pd.DataFrame) -> None:
        """Raise for a function of numbers that has no value in some rows, such as log(-1)."""
        names = list(map(str, frame.columns))
        for term in read_terms(self.fixed, self.formula):
            for factor in term.factors:
                if factor.eval_method.value != "python":
                    continue
                expression = expression_of(factor, self.formula, names)
                if expression.is_arithmetic:
                    expression.value({name: frame[name].to_numpy() for name in expression.used})

    def _numbers(self, found: Any) -> tuple[Floats, tuple[str, ...]]:
        names = tuple(map(str, found.model_spec.column_names))
        values = np.asarray(found, float)
        bad = ~np.isfinite(values)
        if bad.any():
            wrong = [names[j] for j in np.flatnonzero(bad.any(axis=0))]
            row = int(np.argmax(bad.any(axis=1)))
            raise InputError(
                f"formula: {few([shown(name) for name in wrong])} is not a finite number in "
                f"{int(bad.any(axis=1).sum()):,} rows, the first being row {row}."
            )
        return values, names


def plan_design(fixed: str, formula: str, table: pa.Table) -> Design:
    """Check the terms of fixed effects against a table, and list the columns they use."""
    terms, coded, used = _checked_terms(fixed, formula, table.column_names)
    raw = [_raw_column(name, table[name], name in coded) for name in used]
    return Design(terms, formula, tuple(raw))


def check_columns(
    fixed: str, formula: str, names: list[str], table: pa.Table, problems: Problems
) -> None:
    """Note what is wrong with the columns of fixed effects, of those that the table has."""
    _, coded, used = _checked_terms(fixed, formula, names)
    for name in used:
        if name in table.column_names:
            with problems.noted():
                raw = _raw_column(name, table[name], name in coded)
                if raw.levels is not None and name not in coded:
                    suspects.refuse_disguised(name, raw.levels, "The column")
                    refuse_names(name, raw.levels, table.num_rows)


def read_terms(fixed: str, formula: str) -> list[Any]:
    """Formulaic's terms of fixed effects."""
    import formulaic

    try:
        return list(formulaic.Formula(fixed))
    except Exception as error:
        reason = _FORMATTING.sub("", " ".join(str(error).split()))[:300]
        raise refuse(formula, fixed, f"its terms cannot be read: {reason}") from error


def _checked_terms(fixed: str, formula: str, names: list[str]) -> tuple[str, set[str], list[str]]:
    """Formulaic's formula, columns whose numbers are levels, and all columns in use."""
    factors = [factor for term in read_terms(fixed, formula) for factor in term.factors]
    coded, used = set[str](), list[str]()
    for factor in factors:
        if factor.eval_method.value == "literal":
            continue
        expression = expression_of(factor, formula, names)
        used += [name for name in expression.used if name not in used]
        for node in ast.walk(expression.tree):
            match node:
                case ast.Call(func=ast.Name(id="C"), args=[ast.Name(id=name), *_]):
                    coded.add(expression.quoted.get(name, name))
    return fixed, coded, used


def expression_of(factor: Any, formula: str, names: list[str]) -> Expression:
    """What a factor of formulaic's is, checked."""
    plain = factor.eval_method.value == "lookup"
    return Expression(f"`{factor.expr}`" if plain else factor.expr, formula, names)


def _raw_column(name: str, column: Any, coded: bool) -> RawColumn:
    if not columns.is_numeric(column):
        levels = columns.labels(name, column).levels
        if len(levels) < 2:
            raise InputError(
                f"Column {shown(name)} has one level only, {names_of(levels)}, which says nothing: "
                "leave it out of the formula."
            )
        _refuse_many(name, len(levels))
        return RawColumn(name, levels)
    numbers = columns.numbers(name, column)
    whole = bool(np.array_equal(numbers, np.rint(numbers)) and np.abs(numbers).max() < 2**53)
    values = tuple(np.unique(numbers).tolist()) if coded else ()
    _refuse_many(name, len(values))
    return RawColumn(name, None, whole, float(numbers[0]), values)


def refuse_names(name: str, levels: tuple[str, ...], rows: int) -> None:
    """Raise for a column that names every row."""
    if len(levels) == rows:
        raise InputError(
            f"Column {shown(name)} has a different level in every row, such as "
            f"{names_of(levels[:3])}: nothing can be learned. Leave it out of the formula."
        )


def _refuse_many(name: str, count: int) -> None:
    if count > MOST_LEVELS:
        raise InputError(
            f"Column {shown(name)} has {count:,} levels. As a term of its own, in a formula with "
            "an intercept and for a target of one predictor, it may; in interactions, other "
            f"codings and elsewhere fixed effects take at most {MOST_LEVELS:,}. Make it a random "
            f"effect, (1|{name}), or group its rare levels."
        )


def _categories(codes: Any, levels: tuple[str, ...]) -> Any:
    return pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(list(levels)))


def _frame(parts: Mapping[str, Any], rows: int) -> pd.DataFrame:
    return pd.DataFrame(dict(parts), index=range(rows))


def _plain(state: Any) -> Any:
    """A state as JSON has it; mappings as pairs, since their keys may be numbers."""
    if isinstance(state, Mapping):
        return {"pairs": [[_plain(key), _plain(value)] for key, value in state.items()]}
    if isinstance(state, np.ndarray | list | tuple | pd.Series):
        return [_plain(value) for value in state]
    if isinstance(state, np.generic):
        return state.item()
    if state is None or isinstance(state, bool | int | float | str):
        return state
    raise InputError(f"formula: a transform of type {type(state).__name__} cannot be saved.")


def _restored(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _restored(value) for key, value in state.get("pairs", [])}
    return [_restored(value) for value in state] if isinstance(state, list) else state
