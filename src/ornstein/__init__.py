"""Constant-rate SGD as a posterior sampler that predicts its own error.

>>> import numpy as np
>>> import ornstein as orn
>>> X = np.random.default_rng(0).normal(size=(500, 2))
>>> post = orn.models.logistic(X, X[:, 0] > 0)
>>> result = orn.sample(post, batch_size=50, draws=200)
>>> result
Result(chains=4, draws=200, parameters=2)
"""

from typing import TYPE_CHECKING, Any

from ornstein import datasets, distributed, models, theory
from ornstein._check import (
    CheckpointError,
    CheckpointWarning,
    DivergenceWarning,
    InputError,
    InterruptWarning,
    OptimumError,
    OrnsteinError,
    TargetWarning,
    UnstablePlanError,
)
from ornstein.adapters import from_numpyro
from ornstein.anchor import Anchor
from ornstein.api import sample
from ornstein.compare import VARIANTS, Comparison, Entry, compare
from ornstein.diagnosis import Check, Diagnosis
from ornstein.geometry import Geometry, geometry
from ornstein.hyper import CrossValidation, Evidence, Learning, cross_validate, evidence
from ornstein.learned import Learned, learn
from ornstein.measure import MeasuredKL
from ornstein.methods import METHODS, Method
from ornstein.plan import Plan
from ornstein.planning import plan
from ornstein.posterior import Posterior
from ornstein.result import Result
from ornstein.sources import open_rows
from ornstein.stepping import PlanKernel, Rows, kernel
from ornstein.stored import Stored

if TYPE_CHECKING:
    from ornstein import estimators

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "VARIANTS",
    "Anchor",
    "Check",
    "CheckpointError",
    "CheckpointWarning",
    "Comparison",
    "CrossValidation",
    "Diagnosis",
    "DivergenceWarning",
    "Entry",
    "Evidence",
    "Geometry",
    "InputError",
    "InterruptWarning",
    "Learned",
    "Learning",
    "MeasuredKL",
    "Method",
    "OptimumError",
    "OrnsteinError",
    "Plan",
    "PlanKernel",
    "Posterior",
    "Result",
    "Rows",
    "Stored",
    "TargetWarning",
    "UnstablePlanError",
    "compare",
    "cross_validate",
    "datasets",
    "distributed",
    "estimators",
    "evidence",
    "from_numpyro",
    "geometry",
    "kernel",
    "learn",
    "models",
    "open_rows",
    "plan",
    "sample",
    "theory",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The estimators are imported when they are asked for: scikit-learn takes a while."""
        if name == "estimators":
            from importlib import import_module

            return import_module("ornstein.estimators")
        raise AttributeError(f"module 'ornstein' has no attribute {name!r}")
