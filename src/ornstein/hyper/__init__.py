"""Hyperparameters learned by variational EM, with the sampler's stationary distribution as q."""

from ornstein.hyper.ascent import ascend
from ornstein.hyper.comparators import CrossValidation, Evidence, cross_validate, evidence
from ornstein.hyper.options import Options
from ornstein.hyper.record import Learning

__all__ = [
    "CrossValidation",
    "Evidence",
    "Learning",
    "Options",
    "ascend",
    "cross_validate",
    "evidence",
]
