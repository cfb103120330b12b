"""Fixed effects of columns of many levels: taken out of a formula's terms, to be looked up."""

import ast
from typing import Any

import pyarrow as pa

from ornstein.tables import columns, suspects
from ornstein.tables.formulas.design import expression_of, read_terms, refuse_names
from ornstein.tables.formulas.expressions import Expression
from ornstein.tables.levels import MANY, ManyLevels, learn_many


def without_many(
    fixed: str, formula: str, names: list[str], table: pa.Table
) -> tuple[str, tuple[ManyLevels, ...]]:
    """The fixed terms but for columns of many levels, and these.

    Such a column is a term of its own, beside an intercept, and part of no other term; the rest
    becomes columns of numbers.
    """
    terms = read_terms(fixed, formula)
    if not any(str(term) == "1" for term in terms):
        return fixed, ()
    read = [[expression_of(f, formula, names) for f in _factors(term)] for term in terms]
    uses = [{name for one in factors for name in one.used} for factors in read]
    found = []
    for factors in read:
        name = _levels_alone(factors, table)
        if name is None or sum(name in used for used in uses) > 1:
            continue
        labels = columns.labels(name, table[name])
        if len(labels.levels) <= MANY:
            continue
        if not columns.is_numeric(table[name]):
            suspects.refuse_disguised(name, labels.levels, "The column")
        refuse_names(name, labels.levels, table.num_rows)
        text = factors[0].text
        found.append(learn_many(name, labels, f"{text.strip('`')}[T.", "]", scaled=True))
        fixed += f" - {text}"
    return fixed, tuple(found)


def _factors(term: Any) -> list[Any]:
    return [factor for factor in term.factors if factor.eval_method.value != "literal"]


def _levels_alone(factors: list[Expression], table: pa.Table) -> str | None:
    """The column of a term that is nothing but its levels."""
    if len(factors) != 1 or len(factors[0].used) != 1:
        return None
    (factor,) = factors
    (name,) = factor.used
    if name not in table.column_names:
        return None
    match factor.tree:
        case ast.Name() | ast.Expression(body=ast.Name()):
            return None if columns.is_numeric(table[name]) else name
        case (
            ast.Call(func=ast.Name(id="C"), args=[ast.Name()], keywords=[])
            | ast.Expression(body=ast.Call(func=ast.Name(id="C"), args=[ast.Name()], keywords=[]))
        ):
            return name
    return None
