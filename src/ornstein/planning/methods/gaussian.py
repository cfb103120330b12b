"""Methods that are not chains of SGD: Gaussian fits, and the reference sampler.

Their recipes give Newton's gain and, as injected covariance, the covariance that their draws are
expected to have.
"""

from functools import partial
from types import MappingProxyType

import numpy as np

from ornstein._base import checks
from ornstein.linalg.operators import as_operator
from ornstein.planning.methods.contract import Method, Setting, Tune, Tuned
from ornstein.theory import Recipe
from ornstein.theory.recipes import diagonal


def _full(setting: Setting) -> Recipe:
    gain = np.asarray(as_operator(setting.hessian).inverse().array)
    return Recipe(gain, gain / setting.num_data)


def _mean_field(setting: Setting) -> Recipe:
    """The best product of Gaussians has the posterior's conditional variances (T3)."""
    gain = 1 / diagonal(setting.hessian)
    return Recipe(gain, gain / setting.num_data)


def _bbvi(recipe: Tune, setting: Setting, tolerance: float, max_steps: int) -> Recipe | Tuned:
    checks.positive("tolerance", tolerance)
    checks.whole("max_steps", max_steps)
    return recipe(setting)


def _nuts(setting: Setting, tune: int) -> Recipe:
    checks.whole("tune", tune)
    return _full(setting)


METHODS = (
    Method(
        "laplace",
        "independent draws of the Gaussian at the optimum",
        {"dense": ("T3", _full), "diagonal": ("T3 on diagonals", _mean_field)},
        ("T3", _full),
        control_variates=None,
        engine="laplace",
    ),
    Method(
        "bbvi",
        "black-box variational inference: the best Gaussian by stochastic gradients",
        {
            "diagonal": ("mean field", partial(_bbvi, _mean_field)),
            "dense": ("full rank", partial(_bbvi, _full)),
        },
        options=MappingProxyType({"tolerance": 0.01, "max_steps": 2_000_000}),
        control_variates=True,
        engine="bbvi",
    ),
    Method(
        "nuts",
        "the reference, for posteriors that are not Gaussian: no-U-turn sampling on all rows",
        {"dense": ("NUTS", _nuts)},
        options=MappingProxyType({"tune": 500}),
        control_variates=None,
        engine="nuts",
    ),
)
