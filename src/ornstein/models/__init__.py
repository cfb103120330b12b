"""What a model is, and ready-made generalised linear models with closed forms.

Read ``contract`` first, then ``glm`` (a model with closed forms) or ``custom`` (a user's own
functions). ``softplus`` and ``log_sum_exp`` are for custom models: stable, and faster to
differentiate than JAX's.
"""

from ornstein.models.families import log_sum_exp, softplus
from ornstein.models.random_effects.builder import mixed
from ornstein.models.random_effects.contrasts import FixedEffects
from ornstein.models.random_effects.groupings import Effects
from ornstein.models.ready_made import linear, logistic, poisson, softmax
from ornstein.models.regressions import (
    beta,
    binomial,
    exponential,
    gamma,
    hurdle_poisson,
    negative_binomial,
    ordinal,
    student_t,
    weibull,
    zero_inflated_poisson,
)

__all__ = ["beta", "binomial", "exponential", "gamma", "hurdle_poisson", "linear", "logistic"]
__all__ += ["negative_binomial", "ordinal", "poisson", "softmax", "student_t", "weibull"]
__all__ += ["log_sum_exp", "softplus", "zero_inflated_poisson"]
__all__ += ["Effects", "FixedEffects", "mixed"]
