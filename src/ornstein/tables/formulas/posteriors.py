"""The posterior of a formula and a table, with random effects or without."""

from typing import Any

from ornstein.models.posterior import Posterior
from ornstein.models.priors import Priors
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.tables.fitting import build_posterior
from ornstein.tables.formulas.fitting import formula_options, formula_rows, own_units
from ornstein.tables.formulas.learning import learn_formula
from ornstein.tables.formulas.mixing import mixed_posterior


def from_formula(
    formula: str,
    frame: Any,
    family: str | None = None,
    missing: str = "refuse",
    prior_precision: float | None = None,
    priors: Priors = None,
) -> Posterior | MixedPosterior:
    """The posterior of a formula and a table.

    Columns are standardised for sampling; draws and summaries are in the table's own units. With
    random effects, ``(1|g)``, it is a :class:`~ornstein.MixedPosterior`, as
    :func:`ornstein.models.mixed` makes it.

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
        Of single standardised coefficients and of the family's own parameters (``orn.Normal``), by
        name; with random effects also of standard deviations (``sd(g)``, ``sigma``) and
        correlations (``cor(g)``): see :func:`ornstein.models.mixed`.

    Examples
    --------
    >>> import ornstein as orn
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"y": [1, 0, 3, 2, 7, 9], "x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]})
    >>> orn.from_formula("y ~ x", frame, family="negative_binomial")
    Posterior(rows=6, parameters=3: coef[x], intercept, log_shape)
    >>> orn.from_formula("y ~ x + (1|g)", frame.assign(g=list("aabbcc")), family="poisson")
    MixedPosterior(poisson, rows=6, fixed=2, g (3 levels: 1))
    """
    table = learn_formula(frame, formula, family, missing)
    encoding = table.encoding
    if encoding.random or encoding.many:
        return mixed_posterior(table, prior_precision, priors)
    options = formula_options(encoding, prior_precision, None, "auto", priors)
    rows, units = formula_rows(table), encoding.units
    post = build_posterior(encoding.family, rows, encoding.features, units, options)
    return own_units(post, encoding)
