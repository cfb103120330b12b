"""From a formula and a table to an encoding and rows."""

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ornstein._base.checks import a_or_an, choice, few, names_of, shown
from ornstein._base.errors import InputError
from ornstein._base.problems import Problems
from ornstein.models.families import FAMILIES, TargetColumn, family_name
from ornstein.models.hyper_priors import HalfStudentT
from ornstein.models.random_effects.builder import WIDE
from ornstein.models.random_effects.posterior import GroupRows
from ornstein.models.random_effects.targets import refuse_several
from ornstein.tables import columns
from ornstein.tables.arrow import arrow_table, column_names
from ornstein.tables.columns import Floats, complete_rows, listing, missing_counts
from ornstein.tables.encoding import Target
from ornstein.tables.formulas.design import check_columns, plan_design
from ornstein.tables.formulas.effects import GroupEffects, learn_effects, plan_bar, row_levels
from ornstein.tables.formulas.encoding import FormulaEncoding, target_values
from ornstein.tables.formulas.expressions import Expression, refuse
from ornstein.tables.formulas.many import without_many
from ornstein.tables.formulas.parsing import ParsedFormula, parse_formula
from ornstein.tables.learning import guess_family
from ornstein.tables.levels import ManyLevels

_DOT = re.compile(r"(?<![\w.`])\.(?![\w.`])")
_TWO_COLUMNS = {"cbind": "binomial", "p": "binomial", "Surv": "weibull"}
_WAITING = ("exponential", "weibull")
_RANK_ROWS = 2000


class FormulaTable(NamedTuple):
    """A table by a formula: its encoding, and the rows in use.

    ``y`` is the target as the model's rows take it; binomial rows have weights, their trials.
    ``groups`` are those of random effects.
    """

    encoding: FormulaEncoding
    X: Floats
    y: npt.NDArray[Any]
    notes: tuple[str, ...]
    offset: Floats | None
    weights: Floats | None
    groups: tuple[GroupRows, ...] = ()


def group_rows(effects: GroupEffects, table: pa.Table) -> GroupRows:
    """Levels and standardised columns of the rows in use."""
    grouping, usual = effects.grouping, HalfStudentT(3.0, WIDE)
    return GroupRows(
        effects.name,
        np.array(effects.levels),
        row_levels(effects.groups, table).codes.astype(np.int32),
        effects.columns,
        None if grouping.plain else effects.design(table) / effects.scales,
        tuple(cov.size for cov in grouping.covariances),
        (usual,) * grouping.width,
        scales=effects.scales,
    )


def learn_formula(
    frame: Any, formula: str, family: str | None = None, missing: str = "refuse"
) -> FormulaTable:
    """Learn how a formula makes rows of a table, and make them.

    Parameters
    ----------
    frame
        The table: a data frame of pandas, polars, pyarrow or any library that narwhals knows.
    formula
        Such as ``y ~ x + bs(age, df=5) + C(year) + (1|school) + offset(log(n))``. Targets of two
        columns are ``cbind(successes, failures)``, ``p(successes, trials)`` and
        ``Surv(time, event)``.
    family
        Name of the family; guessed from the target if not given.
    missing
        ``refuse`` missing values, or ``drop`` the rows that have any in the columns in use.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"y": [0.0, 2.0, 1.0, 5.0], "x": [1.0, 2.0, 3.0, 4.0]})
    >>> learn_formula(frame, "y ~ x + I(x**2)").encoding.features
    ('x', 'I(x ** 2)')
    """
    choice("missing", missing, ("refuse", "drop"))
    names, problems = column_names(frame), Problems()
    parsed = parse_formula(_without_dot(formula, names))
    table = arrow_table(frame, _used(parsed, names), problems=problems)
    table, notes = _complete(table, missing, problems)
    response = [Expression(text, parsed.text, names).used for text in parsed.response]
    known = None
    if {name for some in response for name in some} <= set(table.column_names):
        with problems.noted():
            known = _target(parsed, family, table)
    fixed, many = parsed.fixed, tuple[ManyLevels, ...]()
    if known is None or FAMILIES[known[0]]().outputs == 1:
        with problems.noted():
            fixed, many = without_many(parsed.fixed, parsed.text, names, table)
    check_columns(fixed, parsed.text, names, table, problems)
    problems.raise_all("The table")
    assert known is not None
    model, target, guess = known
    design = plan_design(fixed, parsed.text, table).learned(table)
    values, found = design.matrix(table)
    intercept, kept = "Intercept" in found, [n for n in found if n != "Intercept"]
    if not FAMILIES[model].intercept:
        if not intercept:
            raise refuse(
                parsed.text,
                parsed.fixed,
                f"{a_or_an(model)} model has cutpoints; leave out 0 or -1.",
            )
        intercept, centred = False, True
    else:
        centred = intercept
    if not centred:
        target = replace(target, centre=0.0)
    X = values[:, [found.index(name) for name in kept]]
    centre = X.mean(axis=0) if centred else np.zeros(X.shape[1])
    spread = X.std(axis=0)
    flat = ~(spread > 1e-12 * np.abs(X).max(axis=0, initial=0.0))
    if centred and flat.any():
        constant = [name for name, is_flat in zip(kept, flat, strict=True) if is_flat]
        raise InputError(
            f"formula: {names_of(constant)} has one value throughout, as the intercept has; leave "
            "it out."
        )
    random = learn_effects(parsed.random, table, parsed.text)
    if random:
        refuse_several(FAMILIES[model](), model)
    if not (kept or random or many):
        raise refuse(parsed.text, parsed.fixed, "there is nothing to predict from.")
    encoding = FormulaEncoding(
        *(parsed, model, missing, design, random, target, intercept, tuple(kept)),
        tuple(centre.tolist()),
        tuple(np.where(flat, 1.0, spread).tolist()),
        many,
    )
    y, trials = target_values(parsed, table, target)
    if trials is not None:
        y = y / trials
    rows = encoding.matrix(table)
    notes = [*guess, *notes, *FAMILIES[model].note_on(target.classes or ())]
    notes += _dependent(rows[:, : len(kept)], kept)
    groups = tuple(group_rows(one, table) for one in random)
    return FormulaTable(encoding, rows, y, tuple(notes), encoding.offset(table), trials, groups)


def _without_dot(formula: str, names: list[str]) -> str:
    """A dot on the right stands for all other columns."""
    if str(formula).count("~") != 1:
        return formula
    left, right = formula.split("~")
    if not _DOT.search(right):
        return formula
    others = [name for name in names if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", left)]
    odd = [name for name in others if "`" in name]
    if odd or not others:
        raise InputError(f"formula: the dot cannot stand for the columns {names_of(odd or names)}.")
    joined = " + ".join(n if n.isidentifier() else f"`{n}`" for n in others)
    return f"{left}~{_DOT.sub(lambda _: joined, right)}"


def _used(parsed: ParsedFormula, names: list[str]) -> list[str]:
    """All columns that a formula names; raises for others, and for what is not allowed in it."""
    found: list[str] = []
    for text in (*parsed.response, *parsed.offsets):
        found += Expression(text, parsed.text, names).used
    for term in parsed.random:
        for group in term.groups:
            found += Expression(f"`{group}`", parsed.text, names).used
    probe = pa.table({name: pa.array([0.0, 1.0]) for name in names})
    designs = [plan_design(parsed.fixed, parsed.text, probe)]
    designs += [plan_bar(term, probe, parsed.text) for term in parsed.random]
    terms = [one.name for design in designs for one in design.columns]
    target = parsed.response[0].strip().strip("`")
    if target in terms:
        right = parsed.text.partition("~")[2].strip()
        why = f"the target {shown(target)} is among the terms that are to explain it."
        raise refuse(parsed.text, right, why)
    found += terms
    return list(dict.fromkeys(found))


def _complete(table: pa.Table, missing: str, problems: Problems) -> tuple[pa.Table, list[str]]:
    """The rows without missing values, with which the rest is looked at if they are refused."""
    counts = missing_counts(table)
    if not counts:
        return table, []
    with problems.noted():
        if missing == "refuse":
            raise InputError(
                f"Missing values in {listing(counts)}. Have those rows dropped with missing='drop'."
            )
    kept = table.filter(complete_rows(table))
    if not kept.num_rows:
        problems.raise_all("The table")
        raise InputError(f"Every row has missing values: {listing(counts)}.")
    gone = table.num_rows - kept.num_rows
    return kept, [
        f"Dropped {gone:,} of {table.num_rows:,} rows for missing values: {listing(counts)}."
    ]


def _target(
    parsed: ParsedFormula, family: str | None, table: pa.Table
) -> tuple[str, Target, list[str]]:
    """The model's name, what to remember of the target, and a note where it was guessed."""
    text = f"{parsed.kind}({', '.join(parsed.response)})" if parsed.kind else parsed.response[0]
    name = None if family is None else family_name(family)
    if parsed.kind:
        expected = _WAITING if parsed.kind == "Surv" else ("binomial",)
        if name is not None and name not in expected:
            raise refuse(
                parsed.text, text, f"{parsed.kind}(...) is a target of {' or '.join(expected)}."
            )
        guess = [] if name else [f"Fitting {a_or_an(_TWO_COLUMNS[parsed.kind])} model."]
        return name or _TWO_COLUMNS[parsed.kind], Target(text), guess
    if name == "binomial":
        raise refuse(
            parsed.text, text, "binomial needs p(successes, trials) or cbind(successes, failures)."
        )
    column = _target_column(parsed, table)
    notes = []
    if name is None:
        name, why = guess_family(column, table.num_rows)
        notes = [f"{why} Fitting {a_or_an(name)} model."]
    kind = FAMILIES[name]
    kind.check_column(column)
    if kind.most_classes:
        if column.name not in table.column_names:
            raise refuse(parsed.text, text, f"the classes of {a_or_an(name)} model are a column.")
        return name, Target(column.name, tuple(column.levels)), notes
    if kind.scaled:
        values = np.asarray(column.values, float)
        return name, Target(column.name, None, *columns.centre_and_scale(text, values)), notes
    return name, Target(column.name), notes


def _target_column(parsed: ParsedFormula, table: pa.Table) -> TargetColumn:
    text = parsed.response[0].strip()
    name = text.strip("`")
    if name in table.column_names:
        return columns.target_column(name, table[name])
    values = target_values(parsed, table, Target(text))[0]
    return columns.target_column(text, pa.chunked_array([pa.array(values)]))


def _dependent(X: Floats, names: list[str]) -> list[str]:
    """A note if the columns of fixed effects are linearly dependent."""
    some = X[:: max(1, len(X) // _RANK_ROWS)]
    if not len(names) or len(some) < len(names) or np.linalg.matrix_rank(some) == len(names):
        return []
    _, triangle = np.linalg.qr(some)
    own = np.abs(np.diag(triangle))
    odd = [name for name, size in zip(names, own, strict=True) if size < 1e-8 * own.max()]
    what = few([shown(name) for name in odd]) or "some columns"
    return [
        f"The columns are linearly dependent ({what} follows from the others): the prior alone "
        "divides their effects."
    ]
