"""Sections of a report about a model of a table: effects, simulated targets, scores of rows."""

import numpy as np
import pandas as pd

from ornstein._base.errors import InputError
from ornstein.results import loo, plots
from ornstein.results.answers import FIT
from ornstein.results.report.pictures import COEFFICIENTS, Section
from ornstein.tables.toolbox import Toolbox

_MOST_COLUMNS = 20  # whose average effects are shown
_MOST_LINES = 40
_MOST_NAMED = 10  # influential rows
_AVERAGED = 500  # rows


def regression_sections(model: Toolbox, rows: pd.DataFrame) -> list[Section]:
    """What a regression's report shows, at a cost that depends on neither rows nor draws.

    ``rows`` are some of the table's: see :func:`ornstein.tables.toolbox.sample_rows`. What a
    target does not have is left out.
    """
    return [*_effects(model, rows), *_simulated(model), *_scores(model)]


def _effects(model: Toolbox, rows: pd.DataFrame) -> list[Section]:
    target = model.encoding.target.name
    curves = model.conditional_effects(rows)
    terms = plots.steepest_terms(curves)
    drawn = plots.conditional_effects(curves[curves["term"].isin(terms)], target)
    largest = plots.steepest_terms(curves, _MOST_COLUMNS)
    columns = [name for name in largest if ":" not in name or name in rows.columns]
    return [
        Section(
            "Effects",
            f"What to expect of {target} as one column changes, with 90% intervals; the others are "
            "held at their mean, or at their first level. "
            + _which(terms, curves["term"].nunique(), "terms"),
            drawn,
            under=COEFFICIENTS,
        ),
        *_average_effects(model, rows, columns),
    ]


def _average_effects(model: Toolbox, rows: pd.DataFrame, columns: list[str]) -> list[Section]:
    try:
        some = rows.iloc[:: -(-len(rows) // _AVERAGED)]
        found = model.marginal_effects(some, columns).reset_index()
    except InputError:  # dates alone
        return []
    names = [name for name in ("term", "contrast", "outcome") if name in found]
    labels = [", ".join(map(str, line)) for line in found[names].itertuples(index=False, name=None)]
    table = found.drop(columns=names).set_index(pd.Index(labels))
    text = (
        "By how much the expected target changes: per unit of a column of numbers, or between a "
        "level and the first one; averaged over rows, which keep their other columns. In the "
        "target's own unit, or in probabilities. " + _which(labels[:_MOST_LINES], len(labels))
    )
    return [Section("Average effects", text, table=table[:_MOST_LINES], under=COEFFICIENTS)]


def _which(shown_ones: list[str], count: int, what: str = "lines") -> str:
    return (
        "" if len(shown_ones) == count else f"Of {count:,} {what}, {len(shown_ones):,} are shown."
    )


def _simulated(model: Toolbox) -> list[Section]:
    try:
        found = model.replications()
    except InputError:  # censored waits
        return []
    text = (
        "Targets that the draws simulate for the rows of the fit should look like those that were "
        "observed. Above is the share of simulations in which a statistic is above the observed "
        "one: near 0 or 1, the model does not make such data."
    )
    return [
        Section(
            "Observed and simulated targets",
            text,
            plots.predictive_checks(found),
            found.table()[:_MOST_LINES],
            under=FIT,
        )
    ]


def _scores(model: Toolbox) -> list[Section]:
    if not model.of_posterior or model.num_draws < loo.FEWEST_DRAWS:
        return []
    found = model.kept_loo
    lines = {
        "expected log predictive density (elpd)": [found.elpd, found.se],
        "effective parameters (p_loo)": [found.p_loo, np.nan],
    }
    try:
        r2 = model.r2()
        lines["Bayesian R-squared"] = [r2["mean"], r2["sd"]]
    except InputError:  # several classes
        pass
    order = np.argsort(-found.pareto_k, kind="stable")[: min(_MOST_NAMED, len(found.influential))]
    for place in order.tolist():
        lines[f"Pareto k of row {found.rows[place]}"] = [found.pareto_k[place], np.nan]
    table = pd.DataFrame.from_dict(lines, orient="index", columns=["value", "standard error"])
    text = (
        "How well each row is predicted by the others (PSIS-LOO); compare models of the same rows "
        "with ornstein compare-models. " + " ".join(found.sentences()[1:])
    )
    return [Section("Leave-one-out scores", text, table=table, under=FIT)]
