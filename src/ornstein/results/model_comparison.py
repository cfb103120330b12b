"""Models of the same rows beside one another: leave-one-out scores, differences, weights."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ornstein._base.checks import names_of, shown
from ornstein._base.errors import InputError
from ornstein.results.loo import FILE, Loo, standard_error

if TYPE_CHECKING:
    import pandas as pd

_CLOSE = 1e-5  # relative to a target: it was standardised and back in single models


def compare_models(models: Mapping[str, Any]) -> "pd.DataFrame":
    """Compare models of the same target and rows by leave-one-out scores (PSIS-LOO).

    A line per model, the best first: ``elpd``, the expected log predictive density of new rows,
    with its standard error ``se``; ``elpd_diff``, how far it is below the best, with the standard
    error of the difference over the same rows; ``p_loo``, the effective number of parameters;
    ``weight``, what stacking of predictions gives the model; ``influential``, how many rows are
    too influential to be scored reliably. A difference within a few of its standard errors, or of
    less than 4, says little.

    Parameters
    ----------
    models
        By name: models of tables, what their :meth:`loo <ornstein.tables.TableModel.loo>` found, or
        run folders. Of the same rows in the same order, else an `InputError` says what differs.

    Examples
    --------
    >>> import ornstein as orn
    >>> import pandas as pd
    >>> from ornstein import tables
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": x[:, 0] + 0.5 * x[:, 1] ** 3})
    >>> formulas = {"one": "y ~ a", "both": "y ~ a + b"}
    >>> found = orn.compare_models(
    ...     {
    ...         k: tables.fit_table(tables.learn_formula(frame, f), draws=50)
    ...         for k, f in formulas.items()
    ...     }
    ... )
    >>> found.index.tolist(), bool(found["elpd_diff"].iloc[1] < -10)
    (['both', 'one'], True)
    """
    import pandas as pd

    if len(models) < 2:
        raise InputError(
            "compare_models compares two models or more: give a mapping of names to models."
        )
    found = {str(name): _loo(str(name), given) for name, given in models.items()}
    _refuse_different(found)
    names = sorted(found, key=lambda name: -found[name].elpd)
    best = found[names[0]]
    weights = _stacking(found)
    lines = []
    for name in names:
        loo = found[name]
        below = loo.score - best.score
        lines.append(
            {
                "elpd": loo.elpd,
                "se": loo.se,
                "elpd_diff": float(loo.num_rows * below.mean()),
                "se_diff": standard_error(below, loo.num_rows),
                "p_loo": loo.p_loo,
                "weight": weights[name],
                "influential": len(loo.influential),
            }
        )
    return pd.DataFrame(lines, index=pd.Index(names, name="model"))


def _loo(name: str, given: Any) -> Loo:
    if isinstance(given, Loo):
        return given
    if isinstance(given, str | Path):
        return Loo.load(Path(given) / FILE)
    if callable(getattr(given, "loo", None)):
        found = given.loo()
        assert isinstance(found, Loo)
        return found
    raise InputError(
        f"{name!r} must be a model of a table, what its loo() found, or a run folder; found "
        f"{type(given).__name__}."
    )


def _refuse_different(found: Mapping[str, Loo]) -> None:
    """Raise unless all are about the same rows of the same target."""
    (first, one), *others = found.items()
    for name, loo in others:
        why = _difference(one, loo)
        if why:
            raise InputError(
                f"{first!r} and {name!r} cannot be compared: {why}. Fit both to the same rows of "
                "the same target, with the rows that lack values dropped alike."
            )


def _difference(one: Loo, other: Loo) -> str:
    if one.num_rows != other.num_rows:
        return f"the first has {one.num_rows:,} rows, the second {other.num_rows:,}"
    if one.discrete != other.discrete:
        return "one has probabilities of counts or classes, the other densities of measurements"
    if one.classes != other.classes:
        return f"their targets have the classes {_said(one.classes)} and {_said(other.classes)}"
    if not np.array_equal(one.rows, other.rows):
        return "they were scored on other rows"
    scale = _CLOSE * max(1e-300, float(np.abs(one.observed).max(initial=0.0)))
    differ = np.flatnonzero(~(np.abs(one.observed - other.observed) <= scale))
    if differ.size:
        row, at = int(one.rows[differ[0]]), int(differ[0])
        return (
            f"their targets, {shown(one.target)} and {shown(other.target)}, differ in "
            f"{len(differ):,} of {len(one.rows):,} rows, the first being row {row}, "
            f"{one.observed[at]:g} and {other.observed[at]:g}"
        )
    return ""


def _said(classes: tuple[str, ...]) -> str:
    return names_of(classes) if classes else "none"


def _stacking(found: Mapping[str, Loo]) -> dict[str, float]:
    """Weights of the mixture of the models' predictions that scores best, by ArviZ."""
    compare: Any = import_module("arviz_stats").compare  # which has no types

    # Weights do not depend on a row's own constant, without which densities could underflow.
    top = np.max([loo.score for loo in found.values()], axis=0)
    apart = {
        name: replace(loo, score=loo.score - top, num_rows=len(top)).to_arviz()
        for name, loo in found.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about k, which the table reports
        table = compare(apart)
    return {name: float(table["weight"][name]) for name in found}
