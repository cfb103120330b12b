"""The zoo: generalised linear models with closed-form gradients, Hessians and noise.

``softplus`` and ``log_sum_exp`` are for models of your own: stable, and faster to differentiate
than JAX's.
"""

from ornstein.models.families import log_sum_exp, softplus
from ornstein.models.ready_made import linear, logistic, poisson, softmax

__all__ = ["linear", "log_sum_exp", "logistic", "poisson", "softmax", "softplus"]
