"""Pictures of a result. Each function returns Matplotlib figures; nothing is shown or saved."""

from ornstein.plots._draws import covariance_maps, covariances, intervals, spread, traces
from ornstein.plots._ellipses import projected, projection, projections
from ornstein.plots._hyper import hyperparameters
from ornstein.plots._methods import comparison
from ornstein.plots._noise import gradient_noise
from ornstein.plots._rows import reliability, residuals
from ornstein.plots._style import plain

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
