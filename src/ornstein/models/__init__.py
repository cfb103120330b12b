"""The zoo: generalised linear models with closed-form gradients, Hessians and noise."""

from ornstein.models.zoo import linear, logistic, poisson, softmax

__all__ = ["linear", "logistic", "poisson", "softmax"]
