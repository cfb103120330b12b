"""The mixed model of a table: a formula with bars, or columns of many levels."""

import numpy as np

from ornstein._base import checks
from ornstein.models.hyper_priors import HalfStudentT
from ornstein.models.priors import Priors
from ornstein.models.random_effects.auxiliary import auxiliary_priors
from ornstein.models.random_effects.builder import WIDE, with_ones
from ornstein.models.random_effects.contrasts import around_baseline
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
from ornstein.tables.learning import EncodedTable


def mixed_posterior(
    table: FormulaTable | EncodedTable, prior_precision: float | None = None, priors: Priors = None
) -> MixedPosterior:
    """The posterior of such a table; draws are in its own units."""
    encoding, rows = table.encoding, formula_rows(table)
    family, names, units = encoding.family, encoding.features, encoding.units
    y = as_target(family, rows["y"])
    cutpoints = not family.intercept
    intercept = encoding.intercept or cutpoints
    labels = (*names, "intercept") if intercept else names
    reported = [*(labels if not cutpoints else names), *(a.reported for a in family.auxiliary)]
    noisy = family.scaled and not family.auxiliary
    given = PRECISION if prior_precision is None else prior_precision
    sd = checks.positive("prior_precision", given) ** -0.5
    x, codes = np.split(np.asarray(rows["x"], float), [len(names)], axis=1)
    many = [one.rows(code, sd) for one, code in zip(encoding.many, codes.T, strict=True)]
    bars = table.groups if isinstance(table, FormulaTable) else ()
    chosen = named_priors(reported, [*bars, *many], noisy, priors)
    own = chosen.normal
    auxiliary, first = auxiliary_priors(family, y, own)
    precision, mean = np.full(len(labels), sd**-2.0), np.zeros(len(labels))
    if intercept:
        wide = INTERCEPT_PRECISION**-0.5 if first is None else first.sd
        around = [around_baseline(np.array(o.shares), o.divided_by, sd) for o in encoding.many]
        precision[-1] = 1 / (wide**2 + sum(around))
        mean[-1] = 0.0 if first is None else first.mean
    for name in set(own) & set(labels):
        mean[labels.index(name)] = own[name].mean
        precision[labels.index(name)] = own[name].sd ** -2.0
    weight, offset = rows.get("w"), rows.get("offset")
    target = Target(
        family,
        y,
        None if weight is None else np.asarray(weight, float),
        None if offset is None else np.asarray(offset, float),
    )
    groups = by_size([chosen.of_group(group) for group in [*bars, *many]])
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
            tuple(group.divided_by for group in groups),
            units.target_centre,
            units.target_scale,
        ),
    )
