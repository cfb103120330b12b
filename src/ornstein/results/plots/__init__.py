"""Pictures of a result. Each function returns Matplotlib figures; nothing is shown or saved."""

from ornstein._base import extras

extras.require("report", "ornstein.plots")

from ornstein.results.plots.agreement import comparison, gradient_noise, reliability, residuals
from ornstein.results.plots.draws import (
    caterpillar,
    covariance_maps,
    covariances,
    intervals,
    spread,
    traces,
    traces_of,
)
from ornstein.results.plots.effects import conditional_effects, steepest_terms
from ornstein.results.plots.ellipses import projected, projection, projections
from ornstein.results.plots.hyper import hyperparameters
from ornstein.results.plots.predictive_checks import predictive_checks
from ornstein.results.plots.ranks import calibration
from ornstein.results.plots.style import MOST_PARAMETERS, plain

__all__ = [
    "MOST_PARAMETERS",
    "calibration",
    "caterpillar",
    "comparison",
    "covariance_maps",
    "covariances",
    "traces_of",
]
__all__ += [
    "gradient_noise",
    "hyperparameters",
    "intervals",
    "plain",
    "projected",
    "projection",
    "projections",
]
__all__ += ["conditional_effects", "predictive_checks", "reliability", "residuals", "spread"]
__all__ += ["steepest_terms", "traces"]
