"""The posterior of a formula's rows: its default priors, and the coefficients in own units."""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from ornstein._base.types import PyTree
from ornstein.data.on_disk import AnyRows
from ornstein.models.families import Family
from ornstein.models.posterior import Posterior
from ornstein.models.priors import Priors
from ornstein.tables.encoding import Units
from ornstein.tables.fitting import FitOptions, Unknown, build_posterior, or_unknown
from ornstein.tables.formulas.encoding import FormulaEncoding
from ornstein.tables.formulas.learning import FormulaTable, learn_formula

PRECISION = 0.16
"""Default prior precision of a standardised coefficient: a standard deviation of 2.5."""


def from_formula(
    formula: str,
    frame: Any,
    family: str | None = None,
    missing: str = "refuse",
    prior_precision: float | None = None,
    priors: Priors = None,
) -> Posterior:
    """The posterior of a formula and a table.

    Columns are standardised for sampling; draws and summaries are in the table's own units. Random
    effects, ``(1|g)``, share a precision by effect: sample with ``hyper="draw"``.

    Parameters
    ----------
    formula
        R's and lme4's notation, such as ``y ~ x + bs(age, df=5) + (1|school) + offset(log(n))``:
        see the guide on formulas.
    frame
        A data frame of pandas, polars, pyarrow or any library that narwhals knows.
    family
        Name of the family; guessed from the target if not given.
    missing
        ``refuse`` missing values, or ``drop`` the rows that have any in the columns in use.
    prior_precision
        Of standardised coefficients of fixed effects, 0.16 by default: a standard deviation of
        2.5 per standard deviation of the column (of the target's, if that has a unit).
    priors
        Normal priors of single standardised coefficients and of auxiliary parameters, by name.

    Examples
    --------
    >>> import ornstein as orn
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"y": [1, 0, 3, 2, 7, 9], "x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]})
    >>> orn.from_formula("y ~ x", frame, family="negative_binomial")
    Posterior(rows=6, parameters=3: coef[x], intercept, log_shape)
    """
    table = learn_formula(frame, formula, family, missing)
    encoding = table.encoding
    options = formula_options(encoding, prior_precision, None, "auto", priors)
    rows, units = formula_rows(table), encoding.units
    post = build_posterior(encoding.family, rows, encoding.features, units, options)
    post.constrain = partial(_own_units, _Hidden(units), encoding.family)
    return post


def formula_options(
    encoding: FormulaEncoding,
    precision: float | None,
    noise_scale: float | None,
    hyper: Unknown,
    priors: Priors,
) -> FitOptions:
    """Fixed priors of fixed effects unless drawn; precisions of random effects are drawn."""
    fixed = PRECISION if precision is None else precision
    drawn = hyper == "draw"
    options = FitOptions(
        "draw" if drawn else fixed,
        or_unknown(noise_scale, hyper),
        fit_intercept=encoding.intercept,
        priors=priors,
    )
    if not encoding.random:
        return options
    groups = encoding.groups
    if drawn:
        groups = ["fixed effects" if group is None else group for group in groups]
    start = [fixed if group is None else 1.0 for group in encoding.groups]
    return options._replace(prior_precision="draw", groups=groups, start=start)


def formula_rows(table: FormulaTable) -> dict[str, AnyRows]:
    """Rows as the model takes them."""
    classes = table.encoding.target.classes
    kind = type(table.encoding.family)
    _, y = kind.of_target(np.asarray(table.y), len(classes) if classes else None)
    rows: dict[str, AnyRows] = {"x": table.X, "y": y}
    if table.offset is not None:
        scale = table.encoding.target.scale
        rows["offset"] = table.offset / scale
    if table.weights is not None:
        rows["w"] = table.weights
    return rows


class _Hidden:
    """Units, hidden from the search for captured arrays."""

    def __init__(self, units: Units) -> None:
        self.units = units


def _own_units(hidden: _Hidden, family: Family, params: PyTree, hyper: PyTree = None) -> PyTree:
    """Coefficients in the units of the table, and auxiliary parameters in their range."""
    del hyper  # which is given where there are unknown ones
    units = hidden.units
    coef = params["coef"]
    dtype = coef.dtype
    per_unit = coef / jnp.asarray(units.scale, dtype).reshape(*[1] * (coef.ndim - 1), -1)
    moved = per_unit @ jnp.asarray(units.centre, dtype)
    found = {"coef": units.target_scale * per_unit}
    if "intercept" in params:
        found["intercept"] = units.target_centre + units.target_scale * (
            params["intercept"] - moved
        )
    for one in family.auxiliary:
        value = one.range.compiled(params[one.name])
        if one.reported == "cutpoints":
            value = value + moved
        if one.reported == "noise_scale":
            value = value * units.target_scale
        found[one.reported] = value
    return found
