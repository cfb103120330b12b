"""Pictures of a result. Each function returns Matplotlib figures; nothing is shown or saved."""

from ornstein.results.plots._draws import covariance_maps, covariances, intervals, spread, traces
from ornstein.results.plots._ellipses import projected, projection, projections
from ornstein.results.plots._hyper import hyperparameters
from ornstein.results.plots._methods import comparison
from ornstein.results.plots._noise import gradient_noise
from ornstein.results.plots._rows import reliability, residuals
from ornstein.results.plots._style import plain

__all__ = [
    "comparison",
    "covariance_maps",
    "covariances",
    "gradient_noise",
    "hyperparameters",
    "intervals",
    "plain",
    "projected",
    "projection",
    "projections",
    "reliability",
    "residuals",
    "spread",
    "traces",
]
