"""Fitting an encoded table: what ``ornstein fit`` and the estimator of a formula do."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ornstein._base.checks import choice, names_of, shown
from ornstein._base.errors import InputError
from ornstein._base.progress import phase
from ornstein._base.types import Key
from ornstein.models.priors import Priors
from ornstein.planning.methods import AUTO
from ornstein.results.predictive import Coefficients
from ornstein.tables import collinear, fitting
from ornstein.tables.fitting import UNKNOWN, FitOptions, Unknown, or_unknown
from ornstein.tables.formulas.fitting import formula_options, formula_rows
from ornstein.tables.formulas.learning import FormulaTable
from ornstein.tables.held_out import held_out
from ornstein.tables.learning import EncodedTable
from ornstein.tables.mixed import fit_mixed
from ornstein.tables.model import TableModel, number_text
from ornstein.tables.text_files import USUAL, NumberMarks

_DRAWS_OF_A_PART = 125  # of each chain


def fit_table(
    table: EncodedTable | FormulaTable,
    prior_precision: float | None = None,
    noise_scale: float | None = None,
    key: Key = 0,
    draws: int | None = None,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    hyper: Unknown = "auto",
    priors: Priors = None,
    marks: NumberMarks = USUAL,
    holdout: float = 0.0,
    folds: int = 0,
    clusters: npt.ArrayLike | None = None,
    **plan_options: Any,
) -> TableModel:
    """Fit an encoded table, and measure how good the model is by rows that are kept aside.

    Parameters
    ----------
    table
        What :func:`ornstein.tables.learn` or :func:`ornstein.tables.learn_formula` made of it.
    prior_precision, noise_scale
        Of standardised coefficients, and in the target's unit; drawn or learned if not given.
        By a formula the precision is 0.16 if not given, a standard deviation of 2.5.
    key, draws, progress, checkpoint
        As for :func:`ornstein.sample`.
    hyper
        ``draw`` what is not given with the coefficients, so that intervals include its
        uncertainty; ``learn`` one value of it; by default draw where that is possible (up to 2,000
        coefficients, with the default method), else learn.
    priors
        Of single standardised coefficients and of auxiliary parameters, by name.
    marks
        How numbers are written in the file that the table is from, for later ones.
    holdout
        Share of the rows to keep aside, 0.2 on the command line and none here: a quick fit (by
        Laplace's approximation, where that is possible) to the others predicts them, and
        ``model.scores`` says how well. The model itself is fitted to all rows.
    folds
        Keep every row aside once, in so many parts, instead of one share of them.
    clusters
        A label for every row of the fit, whose rows depend on one another within clusters: see
        :func:`ornstein.plan`, and :func:`ornstein.tables.row_clusters` for those in a column.
    **plan_options
        Passed to :func:`ornstein.plan`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from ornstein import tables
    >>> frame = pd.DataFrame({"dose": np.arange(50.0), "effect": np.arange(50) % 7.0})
    >>> model = fit_table(tables.learn(frame, "effect", "linear"), draws=50)
    >>> model.predict(pd.DataFrame({"dose": [3.0]})).columns.tolist()
    ['mean', 'low 90%', 'high 90%', 'sd']
    """
    quick: dict[str, Any] = {"prior_precision": prior_precision, "noise_scale": noise_scale}
    quick |= {"key": key, "priors": priors, "progress": False, **_quickly(table)}
    with phase("scoring rows that are kept aside", progress):
        scores, unscored = held_out(
            table, holdout, folds, key, lambda part: fit_table(part, **quick)
        )
    run: dict[str, Any] = {
        "key": key,
        "draws": draws,
        "progress": progress,
        "checkpoint": checkpoint,
    }
    run |= plan_options
    if clusters is not None:
        method = run.get("method", AUTO)
        run |= {"method": "sandwich" if method == AUTO else method, "clusters": clusters}
    if choice("hyper", hyper, UNKNOWN) == "draw" and prior_precision is not None:
        raise InputError(
            "hyper='draw' draws the prior precision, and prior_precision gives it; leave one out."
        )
    if table.encoding.random or table.encoding.many:
        mixed = fit_mixed(table, prior_precision, noise_scale, hyper, priors, run)
        return replace(mixed, marks=marks, scores=scores, unscored=unscored)
    if isinstance(table, FormulaTable):
        made = _fit_formula(table, prior_precision, noise_scale, hyper, priors, run)
        return replace(made, marks=marks, scores=scores, unscored=unscored)
    encoding = table.encoding
    unknown = or_unknown(prior_precision, hyper), or_unknown(noise_scale, hyper)
    options = FitOptions(*unknown, run=run, priors=priors)
    rows = fitting.encoded_rows(table.X, table.y, encoding)
    result = fitting.fit_rows(encoding.family, rows, encoding.features, encoding.units, options)
    draws_of = Coefficients.of_result(result)
    model = TableModel(encoding, draws_of, result, marks=marks, scores=scores, unscored=unscored)
    named = [encoding.features[i] for i in collinear.nearly_collinear(table.X)]
    said = [*_learning_remarks(model), *_collinear_remarks(model, named)]
    return replace(model, remarks=(*table.notes, *said))


def _collinear_remarks(model: TableModel, named: list[str]) -> list[str]:
    """Which columns others nearly determine, and what prior they have, in a sentence."""
    if not named:
        return []
    precisions = model.hyperparameters()["prior_precision"]["value"]
    own = "."
    if isinstance(precisions, list):
        each = dict(zip(model.encoding.features, precisions, strict=True))
        own = f", and have a prior precision of their own, {each[named[0]]:.2g}."
    return [f"Nearly collinear, so that their coefficients are uncertain: {names_of(named)}{own}"]


def _quickly(table: EncodedTable | FormulaTable) -> dict[str, Any]:
    """How to fit a part that is only to be scored: by Laplace, unless effects are looked up."""
    if table.encoding.random or table.encoding.many:
        return {"draws": _DRAWS_OF_A_PART, "hyper": "auto"}
    return {"draws": _DRAWS_OF_A_PART, "method": "laplace", "hyper": "learn"}


def _fit_formula(
    table: FormulaTable,
    precision: float | None,
    noise_scale: float | None,
    hyper: Unknown,
    priors: Priors,
    run: dict[str, Any],
) -> TableModel:
    encoding = table.encoding
    options = formula_options(encoding, precision, noise_scale, hyper, priors)._replace(run=run)
    names, units = encoding.features, encoding.units
    result = fitting.fit_rows(encoding.family, formula_rows(table), names, units, options)
    model = TableModel(encoding, Coefficients.of_result(result), result)
    return replace(model, remarks=(*table.notes, *_learning_remarks(model)))


def _learning_remarks(model: TableModel) -> list[str]:
    """What was learned, a sentence each."""
    learning = model.result.learning
    if learning is None:
        return []
    drawn = model.result.hyper is not None
    meanings = {
        "prior_precision": "how strongly standardised coefficients are pulled towards 0",
        "noise_scale": f"how far {shown(model.encoding.target.name)} scatters, in its unit",
    }
    learned = [
        f"{name.replace('_', ' ')} {number_text(**entry)} ({meanings[name]})"
        for name, entry in model.hyperparameters().items()
        if entry["learned"] and not isinstance(entry["value"], list)
    ]
    how = "Drawn with the coefficients (median, 90% interval)" if drawn else "Learned"
    remarks = [f"{how}: {', '.join(learned)}."] if learned else []
    if fitting.is_determined(model.result):
        remarks.append(
            "The columns determine the target exactly: the noise scale is the least that is "
            "learned. If that is a surprise, leave out the column that gives the target away, or "
            "give noise_scale."
        )
    if drawn:
        return remarks
    if not learning.converged:
        remarks.append(f"Learning has {learning.message}.")
    return remarks + [f"While learning, {note}." for note in learning.notes]
