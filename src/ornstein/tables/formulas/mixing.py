"""The mixed model of a formula with bars, in standardised units."""

import numpy as np

from ornstein._base import checks
from ornstein.models.hyper_priors import HalfStudentT
from ornstein.models.priors import Priors
from ornstein.models.random_effects.auxiliary import auxiliary_priors
from ornstein.models.random_effects.builder import WIDE, with_ones
from ornstein.models.random_effects.named_priors import SIGMA, named_priors
from ornstein.models.random_effects.posterior import (
    FixedPart,
    MixedPosterior,
    Target,
    assemble,
    by_size,
)
from ornstein.models.random_effects.targets import as_target
from ornstein.models.random_effects.units import MixedUnits
from ornstein.tables.fitting import INTERCEPT_PRECISION
from ornstein.tables.formulas.fitting import PRECISION, formula_rows
from ornstein.tables.formulas.learning import FormulaTable


def mixed_posterior(
    table: FormulaTable, prior_precision: float | None = None, priors: Priors = None
) -> MixedPosterior:
    """The posterior of a table whose formula has bars; draws are in the table's own units."""
    encoding, rows = table.encoding, formula_rows(table)
    family, names, units = encoding.family, encoding.features, encoding.units
    y = as_target(family, rows["y"])
    cutpoints = not family.intercept
    intercept = encoding.intercept or cutpoints
    labels = (*names, "intercept") if intercept else names
    reported = [*(labels if not cutpoints else names), *(a.reported for a in family.auxiliary)]
    noisy = family.scaled and not family.auxiliary
    chosen = named_priors(reported, table.groups, noisy, priors)
    own = chosen.normal
    auxiliary, first = auxiliary_priors(family, y, own)
    given = PRECISION if prior_precision is None else prior_precision
    precision = np.full(len(labels), checks.positive("prior_precision", given))
    mean = np.zeros(len(labels))
    if intercept:
        precision[-1] = INTERCEPT_PRECISION
    if first is not None:
        mean[-1], precision[-1] = first.mean, first.sd**-2.0
    for name in set(own) & set(labels):
        mean[labels.index(name)] = own[name].mean
        precision[labels.index(name)] = own[name].sd ** -2.0
    x = np.asarray(rows["x"], float)
    weight, offset = rows.get("w"), rows.get("offset")
    target = Target(
        family,
        y,
        None if weight is None else np.asarray(weight, float),
        None if offset is None else np.asarray(offset, float),
    )
    groups = by_size([chosen.of_group(group) for group in table.groups])
    effects = {one.name: one.scales for one in encoding.random}
    return assemble(
        target,
        FixedPart(with_ones(x) if intercept else x, labels, mean, precision),
        groups,
        chosen.scales.get(SIGMA, HalfStudentT(3.0, WIDE)) if noisy else None,
        auxiliary,
        encoding.intercept and not cutpoints,
        MixedUnits(
            units.centre,
            units.scale,
            tuple(effects[group.name] for group in groups),
            units.target_centre,
            units.target_scale,
        ),
    )
