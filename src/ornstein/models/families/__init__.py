"""Families: what a target is like given its linear predictor, one object each.

Models, predictions and tables ask the family and know nothing of any one of them. Read ``family``
first. A new family is a file here, a row of :data:`FAMILIES`, and its public builder in
``ornstein.models.ready_made``.
"""

from ornstein.models.families.classes import Bernoulli, Categorical, log_sum_exp, softplus
from ornstein.models.families.family import Family, TargetColumn
from ornstein.models.families.numeric import Gaussian, Poisson

__all__ = ["FAMILIES", "MODELS", "Bernoulli", "Categorical", "Family", "Gaussian", "Poisson"]
__all__ += ["TargetColumn", "log_sum_exp", "softplus"]

FAMILIES: dict[str, type[Family]] = {
    family.name: family for family in (Gaussian, Bernoulli, Categorical, Poisson)
}
"""By the name of the model. A table's target is shown to the last one first: see ``recognise``."""

MODELS = FAMILIES.keys()
"""The models' names, those of families registered later included."""
