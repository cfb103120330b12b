"""Families: what a target is like given its linear predictor, one object each.

Models, predictions and tables ask the family and know nothing of any one of them. Read ``family``
first. A new family is a file here, a row of :data:`FAMILIES`, and its public builder in
``ornstein.models.ready_made``.
"""

from ornstein._base.checks import choice
from ornstein.models.families.auxiliary import Auxiliary
from ornstein.models.families.classes import (
    Bernoulli,
    Binomial,
    Categorical,
    log_sum_exp,
    softplus,
)
from ornstein.models.families.counts import HurdlePoisson, NegativeBinomial, ZeroInflatedPoisson
from ornstein.models.families.durations import Exponential, Gamma, Weibull
from ornstein.models.families.family import Family, TargetColumn
from ornstein.models.families.measurements import Beta, StudentT
from ornstein.models.families.numeric import Gaussian, Poisson
from ornstein.models.families.ordinal import Ordinal

__all__ = ["ALIASES", "FAMILIES", "MODELS", "Auxiliary", "Family", "TargetColumn", "family_name"]
__all__ += ["Bernoulli", "Beta", "Binomial", "Categorical", "Exponential", "Gamma", "Gaussian"]
__all__ += ["HurdlePoisson", "NegativeBinomial", "Ordinal", "Poisson", "StudentT", "Weibull"]
__all__ += ["ZeroInflatedPoisson", "log_sum_exp", "softplus"]

FAMILIES: dict[str, type[Family]] = {
    family.name: family
    for family in (
        *(Gaussian, Bernoulli, Categorical, Poisson, Binomial, NegativeBinomial),
        *(ZeroInflatedPoisson, HurdlePoisson, Gamma, Exponential, Weibull, StudentT, Beta, Ordinal),
    )
}
"""By the name of the model. A table's target is shown to the last one first: see ``recognise``."""

MODELS = FAMILIES.keys()
"""The models' names, those of families registered later included."""

ALIASES = {"gaussian": "linear", "bernoulli": "logistic", "categorical": "softmax"}
"""The distributions' own names."""


def family_name(given: str, argument: str = "family") -> str:
    """The model's name of a family, which may be given by an alias."""
    return choice(argument, ALIASES.get(given, given), MODELS)
