from . import estimators, models, tables, theory
from ._base.compilation import cache_compiled_code
from ._base.errors import (
    AmbiguousTargetError,
    CheckpointError,
    CheckpointWarning,
    DivergenceWarning,
    InaccuratePlanError,
    InputError,
    InterruptWarning,
    MissingExtraError,
    OptimumError,
    OrnsteinError,
    TargetWarning,
    UnstablePlanError,
)
from ._base.version import __version__
from .api.calibration import calibrate
from .api.comparison import compare
from .api.learning import Learned, learn
from .api.planning import plan
from .api.sampling import sample
from .curvature.control_variates import Anchor
from .curvature.estimation import geometry
from .curvature.geometry import Geometry
from .data import datasets
from .data.on_disk import RowsOnDisk, open_rows
from .hyper import CrossValidation, Evidence, Learning, cross_validate, evidence
from .models.adapters import from_numpyro
from .models.hyper_priors import Exponential, HalfNormal, HalfStudentT, LogUniform
from .models.posterior import Posterior
from .models.priors import Normal
from .models.random_effects.named_priors import LKJ
from .models.random_effects.posterior import MixedPosterior
from .planning.methods import METHODS, VARIANTS, Method
from .planning.mixed import MixedPlan
from .planning.plans import Plan, PredictedError
from .planning.tuning import tune
from .results import plots, predictive, report
from .results.accuracy import Accuracy, check
from .results.calibration import Calibration
from .results.comparison import Comparison, Entry
from .results.diagnosis import Check, Diagnosis
from .results.loo import Loo
from .results.measure import MeasuredKL
from .results.mixed import MixedResult
from .results.model_comparison import compare_models
from .results.result import Result
from .results.scores import Scores, score
from .sampling import distributed
from .sampling.custom_loops import PlanKernel, Rows, as_optax, kernel
from .tables.formulas.posteriors import from_formula

# What to do, in the order of a run.
__all__ = ["from_formula", "from_numpyro", "geometry", "open_rows", "plan", "tune"]
__all__ += ["as_optax", "compare", "cross_validate", "evidence", "kernel", "learn", "sample"]
__all__ += ["cache_compiled_code", "calibrate", "check", "compare_models", "score"]
# Rooms of their own.
__all__ += ["datasets", "distributed", "estimators", "models", "plots", "predictive", "report"]
__all__ += ["tables", "theory"]
# What these take and give.
__all__ += ["METHODS", "VARIANTS", "Anchor", "Geometry", "Method", "Plan", "PlanKernel"]
__all__ += ["LKJ", "Exponential", "HalfNormal", "HalfStudentT", "LogUniform", "Normal"]
__all__ += ["PredictedError"]
__all__ += ["Accuracy", "Calibration", "Check", "Comparison", "CrossValidation", "Diagnosis"]
__all__ += ["Entry", "Evidence", "Learned", "Learning", "MeasuredKL", "Posterior", "Result", "Rows"]
__all__ += ["Loo", "Scores"]
__all__ += ["MixedPlan", "MixedPosterior", "MixedResult", "RowsOnDisk", "__version__"]
# What they raise and warn of.
__all__ += ["AmbiguousTargetError", "CheckpointError", "InaccuratePlanError", "InputError"]
__all__ += ["MissingExtraError"]
__all__ += ["OptimumError", "OrnsteinError", "UnstablePlanError"]
__all__ += ["CheckpointWarning", "DivergenceWarning", "InterruptWarning", "TargetWarning"]
