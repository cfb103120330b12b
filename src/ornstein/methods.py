"""The registry: every method is a recipe for (gain, injected noise) and one row here.

To add one, write its equation as a function of :mod:`ornstein.theory.recipes` and register it
below; plan, runner, command line and the contract test find it by itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ornstein import _check, theory
from ornstein._check import InputError
from ornstein._types import Vector
from ornstein.theory import Recipe
from ornstein.theory.recipes import diagonal


@dataclass(frozen=True)
class Setting:
    """What a recipe may use: A and ``C_S`` (matrices, or vectors for diagonals), ``C_S/C``, N.

    ``anchored`` gradients (X9) have no noise at the optimum: some must be injected.
    """

    hessian: Vector
    batch_noise_cov: Vector
    noise_factor: float
    num_data: int
    anchored: bool = False


@dataclass(frozen=True)
class Method:
    """One way to choose gain and noise.

    Attributes
    ----------
    variants
        Equation and recipe per structure of the gain; the first is the default.
    options
        The method's own options with their defaults.
    target
        What the stationary covariance aims at: ``posterior`` or ``sandwich``.
    control_variates
        Whether gradients are anchored at the optimum (X9) unless asked otherwise; None where the
        method injects no noise and lives on that of plain gradients.
    any_step
        Whether large batches, which make large steps, cost no accuracy.
    """

    name: str
    summary: str
    variants: Mapping[str, tuple[str, Callable[..., Recipe]]]
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    target: str = "posterior"
    control_variates: bool | None = False
    any_step: bool = False

    @property
    def structures(self) -> tuple[str, ...]:
        """Structures of the gain on offer."""
        return tuple(self.variants)

    def recipe(
        self,
        structure: str,
        setting: Setting,
        options: Mapping[str, Any],
        known_elsewhere: tuple[str, ...] = (),
    ) -> Recipe:
        """Gain and injected noise for a setting; suggestions may come from other known words."""
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            known = ", ".join(self.options) or "none"
            raise InputError(
                f"method {self.name!r} has no option {unknown[0]!r}; its options: {known}."
                f"{_check.nearest(unknown[0], (*self.options, *known_elsewhere))}"
            )
        _, function = self.variants[structure]
        return function(setting, **{**self.options, **options})


def _exact(setting: Setting, rho: float | None) -> Recipe:
    A, C_S, N = setting.hessian, setting.batch_noise_cov, setting.num_data
    if rho is None:
        rho = _least_rho(setting, theory.relative_eigenvalues(A, N * C_S))
    return theory.exact(A, C_S, N, _check.non_negative("rho", rho))


def _exact_diagonal(setting: Setting, rho: float | None) -> Recipe:
    A, C_S, N = setting.hessian, setting.batch_noise_cov, setting.num_data
    if rho is None:
        a, c = (diagonal(matrix) for matrix in (A, C_S))
        rho = _least_rho(setting, N * c / a)
    return theory.exact_diagonal(A, C_S, N, _check.non_negative("rho", rho))


def _least_rho(setting: Setting, relative_noise: Vector) -> float:
    """No injected noise where the minibatches' own keeps ``K A`` at or below 1, else X2's 1."""
    return 0.0 if relative_noise.min() >= 1 and not setting.anchored else 1.0


def _momentum(setting: Setting, momentum: float) -> Recipe:
    mu = _check.positive("momentum", momentum)
    if mu > 1:
        raise InputError(
            f"momentum is the friction mu in (0, 1] (1 means none; 0.1 keeps 90 % of the "
            f"velocity), found {momentum!r}."
        )
    return theory.momentum_sgd(setting.hessian, setting.batch_noise_cov, setting.num_data, mu)


def _sandwich(setting: Setting) -> Recipe:
    return theory.sandwich(setting.hessian, setting.noise_factor, setting.num_data)


def _from_noise(recipe: Callable[[Vector, int], Recipe]) -> Callable[[Setting], Recipe]:
    """A recipe that looks at the noise only, as the paper's do."""
    return lambda setting: recipe(setting.batch_noise_cov, setting.num_data)


_ALL = (
    Method(
        "exact",
        "finite-step exact gain, with injected noise where the minibatches make too little",
        {"dense": ("X2", _exact), "diagonal": ("X2 on diagonals", _exact_diagonal)},
        MappingProxyType({"rho": None}),
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
        MappingProxyType({"momentum": 0.5}),
        control_variates=None,
        any_step=True,
    ),
    Method(
        "sandwich",
        "the covariance that stays honest when the model is misspecified",
        {"dense": ("X3", _sandwich)},
        target="sandwich",
        control_variates=None,
        any_step=True,
    ),
)

METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _ALL})
"""Every method by name."""


def find(name: str) -> Method:
    """The method of that name, or an error that lists them."""
    return METHODS[_check.choice("method", name, tuple(METHODS))]
