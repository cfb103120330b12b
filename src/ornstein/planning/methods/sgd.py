"""Methods that rely on the minibatches' own noise, and the exact one (R1-R4, X1-X5)."""

from collections.abc import Callable
from functools import partial
from types import MappingProxyType

import numpy as np

from ornstein import theory
from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.planning.methods.contract import UNITS, Method, Setting, Tuned
from ornstein.planning.rules import Averaged, FirstOrder, Momentum
from ornstein.theory import Recipe
from ornstein.theory.langevin import largest_rate
from ornstein.theory.recipes import diagonal


def _exact(setting: Setting, rho: float | None) -> Recipe:
    A, C_S, N = setting.hessian, setting.batch_noise_cov, setting.num_data
    if rho is None:
        rho = _least_rho(setting, theory.relative_eigenvalues(A, N * C_S))
    return theory.exact(A, C_S, N, checks.non_negative("rho", rho))


def _exact_diagonal(setting: Setting, rho: float | None) -> Recipe:
    A, C_S, N = setting.hessian, setting.batch_noise_cov, setting.num_data
    if rho is None:
        a, c = (diagonal(matrix) for matrix in (A, C_S))
        rho = _least_rho(setting, N * c / a)
    return theory.exact_diagonal(A, C_S, N, checks.non_negative("rho", rho))


def _exact_along(setting: Setting, rho: float | None) -> Recipe:
    """X2 along a basis, at one rate, as fast as the structure's error allows.

    Slower along directions in which the minibatches make more noise than that rate bears.
    """
    a, c_S, N = setting.hessian, setting.batch_noise_cov, setting.num_data
    noise = N * c_S / a
    if rho is None:
        rate = np.minimum(setting.rate, 1 / (1 + noise))
    else:
        rate = 2 / (1 + checks.non_negative("rho", rho) + noise)
    return theory.exact_at_rate(a, c_S, N, rate)


def _least_rho(setting: Setting, relative_noise: Vector) -> float:
    """No injected noise where the minibatches' own keeps ``K A`` at or below 1, else X2's 1."""
    return 0.0 if relative_noise.min() >= 1 and not setting.anchored else 1.0


def _momentum(setting: Setting, momentum: float) -> Tuned:
    rule = Momentum.checked(momentum)
    A, C_S, N = setting.hessian, setting.batch_noise_cov, setting.num_data
    return Tuned(theory.momentum_sgd(A, C_S, N, rule.friction).gain, rule=rule)


def _sandwich(setting: Setting) -> Recipe:
    A, N, B = setting.hessian, setting.num_data, setting.cluster_noise_cov
    if B is not None:
        return theory.clustered_sandwich(A, setting.batch_noise_cov, B, N)
    return theory.sandwich(setting.hessian, setting.noise_factor, setting.num_data)


def _averaged(
    units: Callable[[Vector], Vector], setting: Setting, window: int | None, step_size: float | None
) -> Tuned:
    """Means of iterates of SGD whose gain is ``step_size`` of the fastest direction's Newton step.

    By default that direction forgets ten times in a window: longer steps would lead the iterates
    further from the optimum for no gain.
    """
    if window is None:
        window = max(1, round(setting.num_data / setting.batch_size))
    window = checks.whole("window", window, high=2**30)
    step = checks.positive("step_size", min(0.5, 10 / window) if step_size is None else step_size)
    if step >= 2:
        raise InputError(f"step_size must be below 2, where SGD diverges, found {step_size!r}.")
    unit = units(setting.hessian)
    gain = step / largest_rate(unit, setting.hessian) * unit
    return Tuned(gain, rule=Averaged(window) if window > 1 else FirstOrder())


def _from_noise(recipe: Callable[[Vector, int], Recipe]) -> Callable[[Setting], Recipe]:
    """A recipe that depends on the noise only, as the paper's do."""
    return lambda setting: recipe(setting.batch_noise_cov, setting.num_data)


METHODS = (
    Method(
        "exact",
        "finite-step exact gain, with injected noise where the minibatches make too little",
        {"dense": ("X2", _exact), "diagonal": ("X2 on diagonals", _exact_diagonal)},
        ("X2", _exact_along),
        options=MappingProxyType({"rho": None}),
        control_variates=True,
        any_step=True,
    ),
    Method(
        "sgd",
        "the paper's constant-rate SGD, its gain tuned to the gradient noise",
        {
            "dense": ("R2", _from_noise(theory.full_sgd)),
            "diagonal": ("R3", _from_noise(theory.diagonal_sgd)),
            "scalar": ("R1", _from_noise(theory.constant_sgd)),
            "sqrt": ("R4", _from_noise(theory.square_root_sgd)),
        },
        control_variates=None,
    ),
    Method(
        "momentum",
        "SGD with momentum, exact at a finite step",
        {"dense": ("X4", _momentum)},
        options=MappingProxyType({"momentum": 0.5}),
        control_variates=None,
        any_step=True,
    ),
    Method(
        "averaged",
        "means of successive iterates of SGD, by default over as many as one pass makes",
        {structure: ("X5", partial(_averaged, units)) for structure, units in UNITS.items()},
        options=MappingProxyType({"window": None, "step_size": None}),
        target="sandwich",
        control_variates=None,
    ),
    Method(
        "sandwich",
        "the covariance that stays honest when the model is misspecified",
        {"dense": ("X3", _sandwich)},
        target="sandwich",
        clusters=True,
        control_variates=None,
        any_step=True,
    ),
)
