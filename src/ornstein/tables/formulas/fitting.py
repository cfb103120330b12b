"""The posterior of a formula's rows: its default priors, and the coefficients in own units."""

from functools import partial

import jax.numpy as jnp
import numpy as np

from ornstein._base.types import PyTree
from ornstein.data.on_disk import AnyRows
from ornstein.models.families import Family
from ornstein.models.posterior import Posterior
from ornstein.models.priors import Priors
from ornstein.tables.encoding import Units
from ornstein.tables.fitting import FitOptions, Unknown, or_unknown
from ornstein.tables.formulas.encoding import FormulaEncoding
from ornstein.tables.formulas.learning import FormulaTable
from ornstein.tables.learning import EncodedTable

PRECISION = 0.16
"""Default prior precision of a standardised coefficient: a standard deviation of 2.5."""


def own_units(post: Posterior, encoding: FormulaEncoding) -> Posterior:
    """The posterior with draws in the table's units."""
    post.constrain = partial(_own_units, _Hidden(encoding.units), encoding.family)
    return post


def formula_options(
    encoding: FormulaEncoding,
    precision: float | None,
    noise_scale: float | None,
    hyper: Unknown,
    priors: Priors,
) -> FitOptions:
    """Fixed priors unless they are drawn."""
    fixed = PRECISION if precision is None else precision
    return FitOptions(
        "draw" if hyper == "draw" else fixed,
        or_unknown(noise_scale, hyper),
        fit_intercept=encoding.intercept,
        priors=priors,
    )


def formula_rows(table: FormulaTable | EncodedTable) -> dict[str, AnyRows]:
    """Rows as the model takes them."""
    classes = table.encoding.target.classes
    kind = type(table.encoding.family)
    _, y = kind.of_target(np.asarray(table.y), len(classes) if classes else None)
    rows: dict[str, AnyRows] = {"x": table.X, "y": y}
    if isinstance(table, EncodedTable):
        return rows
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
