"""What a model is, and ready-made generalised linear models with closed forms.

Read ``contract`` first, then ``glm`` (a model with closed forms) or ``custom`` (a user's own
functions). ``softplus`` and ``log_sum_exp`` are for custom models: stable, and faster to
differentiate than JAX's.
"""

from ornstein.models.families import log_sum_exp, softplus
from ornstein.models.ready_made import linear, logistic, poisson, softmax

__all__ = ["linear", "log_sum_exp", "logistic", "poisson", "softmax", "softplus"]
