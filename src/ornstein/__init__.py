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

from ornstein import models, theory
from ornstein._base.errors import (
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
from ornstein._base.version import __version__
from ornstein.api.comparison import compare
from ornstein.api.learning import Learned, learn
from ornstein.api.sampling import sample
from ornstein.curvature.control_variates import Anchor
from ornstein.curvature.estimation import geometry
from ornstein.curvature.geometry import Geometry
from ornstein.data import datasets
from ornstein.data.on_disk import RowsOnDisk, open_rows
from ornstein.hyper import CrossValidation, Evidence, Learning, cross_validate, evidence
from ornstein.models.adapters import from_numpyro
from ornstein.models.posterior import Posterior
from ornstein.planning.methods import METHODS, VARIANTS, Method
from ornstein.planning.planner import plan
from ornstein.planning.plans import Plan
from ornstein.planning.tuning import tune
from ornstein.results.comparison import Comparison, Entry
from ornstein.results.diagnosis import Check, Diagnosis
from ornstein.results.measure import MeasuredKL
from ornstein.results.result import Result
from ornstein.sampling import distributed
from ornstein.sampling.custom_loops import PlanKernel, Rows, as_optax, kernel

if TYPE_CHECKING:
    from ornstein import estimators, tables
    from ornstein.results import plots, predictive, report

# What to do, in the order of a run.
__all__ = ["from_numpyro", "geometry", "open_rows", "plan", "tune"]
__all__ += ["as_optax", "compare", "cross_validate", "evidence", "kernel", "learn", "sample"]
# Rooms of their own.
__all__ += ["datasets", "distributed", "estimators", "models", "plots", "predictive", "report"]
__all__ += ["tables", "theory"]
# What these take and give.
__all__ += ["METHODS", "VARIANTS", "Anchor", "Geometry", "Method", "Plan", "PlanKernel"]
__all__ += ["Check", "Comparison", "CrossValidation", "Diagnosis", "Entry", "Evidence", "Learned"]
__all__ += ["Learning", "MeasuredKL", "Posterior", "Result", "Rows", "RowsOnDisk", "__version__"]
# What they raise and warn of.
__all__ += ["CheckpointError", "InputError", "OptimumError", "OrnsteinError", "UnstablePlanError"]
__all__ += ["CheckpointWarning", "DivergenceWarning", "InterruptWarning", "TargetWarning"]

_WHEN_ASKED_FOR = {
    "estimators": "ornstein.estimators",
    "plots": "ornstein.results.plots",
    "predictive": "ornstein.results.predictive",
    "report": "ornstein.results.report",
    "tables": "ornstein.tables",
}
"""What takes long to import (scikit-learn, pandas, Matplotlib), by the name it has here."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Rooms that are imported when they are asked for."""
        if name in _WHEN_ASKED_FOR:
            from importlib import import_module

            return import_module(_WHEN_ASKED_FOR[name])
        raise AttributeError(f"module 'ornstein' has no attribute {name!r}")
